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
