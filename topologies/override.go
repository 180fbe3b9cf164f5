package topologies

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"churnbed/emulator/link"
)

func isZero(o link.Override) bool { return o == link.Override{} }

// parseDelay reads "5ms", "1.5s", ...; a bare number is milliseconds.
func parseDelay(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	d, err := time.ParseDuration(s)
	if v, numErr := strconv.ParseFloat(s, 64); numErr == nil {
		d, err = millis(v)
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s: want a duration of 0 or more, as 5ms", quote(s))
	}
	return d, nil
}

// millis converts milliseconds, at most a day.
func millis(ms float64) (time.Duration, error) {
	if !(ms >= 0 && ms <= 86_400_000) {
		return 0, fmt.Errorf("%v ms: want 0..86400000", ms)
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond))), nil
}

// parseLoss reads 0..1 or a percentage.
func parseLoss(s string) (float64, error) {
	s = strings.TrimSpace(s)
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !probability(v) {
		return 0, fmt.Errorf("%s: want 0..1 or a percentage, as 0.05 or 5%%", quote(s))
	}
	return v, nil
}

var rateUnits = []struct {
	suffix string
	bits   float64
}{
	{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1},
}

// parseRate reads bits a second, with tc's units: 10mbit, 250kbit, 1000000.
func parseRate(s string) (int64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	unit := 1.0
	for _, u := range rateUnits {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			text, unit = strings.TrimSpace(number), u.bits
			break
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err == nil {
		v = math.Round(v * unit)
	}
	if err != nil || !(v >= 0 && v <= 1e15) {
		return 0, fmt.Errorf("%s: want bits a second, as 10mbit, 250kbit or 1000000", quote(s))
	}
	return int64(v), nil
}

func formatRate(r int64) string {
	for _, u := range rateUnits {
		if r >= int64(u.bits) && r%int64(u.bits) == 0 {
			return strconv.FormatInt(r/int64(u.bits), 10) + u.suffix
		}
	}
	return strconv.FormatInt(r, 10) + "bit"
}

func parseDist(s string) (link.Distribution, error) {
	d := link.Distribution(strings.TrimSpace(s))
	if d != link.Uniform && d != link.Normal {
		return "", fmt.Errorf("%s: want %s or %s", quote(s), link.Uniform, link.Normal)
	}
	return d, nil
}

// overrideText is an Override in the texts of files; nil is not given. Burst
// loss has its own form in each format.
type overrideText struct {
	delay, jitter, dist, loss, rate *string
}

func parseOverride(t overrideText) (link.Override, error) {
	var o link.Override
	var errs [5]error
	o.Delay, errs[0] = parseField("delay", t.delay, parseDelay)
	o.Jitter, errs[1] = parseField("jitter", t.jitter, parseDelay)
	o.Dist, errs[2] = parseField("distribution", t.dist, parseDist)
	o.Loss, errs[3] = parseField("loss", t.loss, parseLoss)
	o.Rate, errs[4] = parseField("rate", t.rate, parseRate)
	return o, cmpErr(errs[:]...)
}

func parseField[T any](name string, text *string, parse func(string) (T, error)) (*T, error) {
	if text == nil {
		return nil, nil
	}
	v, err := parse(*text)
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	return &v, nil
}

func formatOverride(o link.Override) overrideText {
	return overrideText{
		formatField(o.Delay, time.Duration.String),
		formatField(o.Jitter, time.Duration.String),
		formatField(o.Dist, func(d link.Distribution) string { return string(d) }),
		formatField(o.Loss, func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }),
		formatField(o.Rate, formatRate),
	}
}

func formatField[T any](v *T, format func(T) string) *string {
	if v == nil {
		return nil
	}
	s := format(*v)
	return &s
}
