package scenario

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// ParseArea reads "WIDTHxHEIGHT" in metres, both above 0.
func ParseArea(v string) (Area, error) {
	w, h, ok := strings.Cut(v, "x")
	if !ok {
		return Area{}, fmt.Errorf("parse area %q: want WIDTHxHEIGHT", v)
	}
	width, errW := parseFloat(w)
	height, errH := parseFloat(h)
	if err := errors.Join(errW, errH); err != nil {
		return Area{}, fmt.Errorf("parse area %q: %w", v, err)
	}
	if width <= 0 || height <= 0 || width > 1e6 || height > 1e6 {
		return Area{}, fmt.Errorf("parse area %q: want sides above 0 and at most 1e6 metres", v)
	}
	return Area{width, height}, nil
}

// rateUnits are those of tc(8), decimal; the largest first.
var rateUnits = []struct {
	suffix string
	factor float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// maxRate is 1 Tbit/s.
const maxRate = 1e12

// parseRate reads a rate in bits a second, as tc(8) writes it ("10mbit");
// "0" is unlimited.
func parseRate(v string) (int64, error) {
	if v == "0" {
		return 0, nil
	}
	for _, u := range rateUnits {
		n, ok := strings.CutSuffix(v, u.suffix)
		if !ok {
			continue
		}
		f, err := parseFloat(n)
		if err != nil {
			return 0, fmt.Errorf("parse rate %q: %w", v, err)
		}
		bits := math.Round(f * u.factor)
		if bits < 1 || bits > maxRate {
			return 0, fmt.Errorf("parse rate %q: want 1bit to 1000gbit", v)
		}
		return int64(bits), nil
	}
	return 0, fmt.Errorf("parse rate %q: no unit bit, kbit, mbit or gbit", v)
}

// formatRate writes what parseRate reads.
func formatRate(bits int64) string {
	if bits == 0 {
		return "0"
	}
	for _, u := range rateUnits {
		if f := int64(u.factor); bits%f == 0 {
			return strconv.FormatInt(bits/f, 10) + u.suffix
		}
	}
	return strconv.FormatInt(bits, 10) + "bit"
}

const wantLossModel = "bernoulli or gilbert-elliott:P/R/GOOD/BAD with four probabilities from 0 to 1"

// parseLossModel reads "bernoulli" (nil) or "gilbert-elliott:P/R/GOOD/BAD":
// the probabilities a frame of good -> bad, bad -> good, and of loss in
// either state.
func parseLossModel(v string) (*link.GilbertElliott, error) {
	if v == "bernoulli" {
		return nil, nil
	}
	rest, ok := strings.CutPrefix(v, "gilbert-elliott:")
	if !ok {
		return nil, errors.New("unknown model")
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 4 {
		return nil, fmt.Errorf("%d probabilities in place of 4", len(parts))
	}
	var p [4]float64
	for i, part := range parts {
		f, err := parseFloat(part)
		if err != nil || f < 0 || f > 1 {
			return nil, fmt.Errorf("%q is not a probability", part)
		}
		p[i] = f
	}
	return &link.GilbertElliott{P: p[0], R: p[1], Good: p[2], Bad: p[3]}, nil
}

func checkLossModel(v string) (string, error) {
	_, err := parseLossModel(v)
	return wantLossModel, err
}

// ParseMembership splits a membership value into the service and, for
// "static:FILE", the file.
func ParseMembership(v string) (service, file string, err error) {
	if f, ok := strings.CutPrefix(v, "static:"); ok {
		if f == "" {
			return "", "", errors.New("no file name")
		}
		return "static", f, nil
	}
	services := []string{"medley", "static", "oracle"}
	for _, s := range services {
		if v == s {
			return s, "", nil
		}
	}
	return "", "", fmt.Errorf("unknown service%s", didYouMean(v, services))
}

func checkMembership(v string) (string, error) {
	_, _, err := ParseMembership(v)
	return "medley, static, static:FILE or oracle", err
}

// parseRequesters splits a requesters value into its kind and, for
// "list:3,5,7", the node ids in order.
func parseRequesters(v string) (kind string, ids []core.NodeID, err error) {
	rest, ok := strings.CutPrefix(v, "list:")
	if !ok {
		if v == "uniform" || v == "zipf" {
			return v, nil, nil
		}
		return "", nil, fmt.Errorf("unknown choice%s", didYouMean(v, []string{"uniform", "zipf"}))
	}
	ids, err = parseIDs(rest)
	return "list", ids, err
}

// maxIDs bounds what a list of ids expands to; ids may repeat.
const maxIDs = 1 << 20

// parseIDs reads "3,5,8-11" in order.
func parseIDs(v string) ([]core.NodeID, error) {
	var ids []core.NodeID
	for _, part := range strings.Split(v, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 31)
		b, errB := strconv.ParseUint(last, 10, 31)
		if errA != nil || errB != nil || a > b || b >= core.MaxNodes {
			return nil, fmt.Errorf("%q is not a node id or a range of ids", part)
		}
		if len(ids)+int(b-a)+1 > maxIDs {
			return nil, fmt.Errorf("more than %d ids", maxIDs)
		}
		for i := a; i <= b; i++ {
			ids = append(ids, core.NodeID(i))
		}
	}
	return ids, nil
}

func checkRequesters(v string) (string, error) {
	_, _, err := parseRequesters(v)
	return "uniform, zipf or list:ID,ID,...", err
}

// arrivalsList is the value of arrivals that takes the list of arrival.
const arrivalsList = "list"

// checkDownAtStart checks "none" or a list of ids.
func checkDownAtStart(v string) (string, error) {
	const want = "none, or ids such as 3,8-11"
	if v == "none" {
		return want, nil
	}
	_, err := parseIDs(v)
	return want, err
}

// placementFirst is the token-placement of the ids 0 to k-1.
const placementFirst = "first"

// checkPlacement checks "first" or a list of ids.
func checkPlacement(v string) (string, error) {
	const want = "first, or ids such as 3,8-9"
	if v == placementFirst {
		return want, nil
	}
	_, err := parseIDs(v)
	return want, err
}

// churnGenerators are the values of churn that are not a file.
var churnGenerators = []string{"none", "overnet", "exponential"}

func checkChurn(v string) (string, error) {
	const want = "none, overnet, exponential or a trace file (with a dot or slash in its name)"
	for _, g := range churnGenerators {
		if v == g {
			return want, nil
		}
	}
	// A bare word is a mistyped generator rather than a file.
	if !strings.ContainsAny(v, "./") {
		return want, fmt.Errorf("unknown generator%s", didYouMean(v, churnGenerators))
	}
	return want, nil
}

func checkName(v string) (string, error) {
	const want = "1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first"
	if v == "" || len(v) > 64 {
		return want, errors.New("wrong length")
	}
	for i, r := range v {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case i > 0 && (r == '.' || r == '-' || r == '_'):
		default:
			return want, fmt.Errorf("%q is not allowed there", r)
		}
	}
	return want, nil
}

// parseTag reads "name=ids".
func parseTag(v string) (name string, ids []core.NodeID, err error) {
	name, rest, ok := strings.Cut(v, "=")
	if !ok {
		return "", nil, errors.New("want NAME=IDS, such as edge=0,3,8-11")
	}
	if _, err := checkName(name); err != nil {
		return "", nil, fmt.Errorf("tag name %q: %w", name, err)
	}
	ids, err = parseIDs(rest)
	return name, ids, err
}

// anchorPath makes the file named in value v of key k relative to dir.
func anchorPath(k *Key, v, dir string) string {
	join := func(p string) string {
		if filepath.IsAbs(p) || dir == "" {
			return p
		}
		return filepath.Join(dir, p)
	}
	switch {
	case k.Name == "membership":
		if f, ok := strings.CutPrefix(v, "static:"); ok && f != "" {
			return "static:" + join(f)
		}
	case k.anchor && v != "" && (k.isPath(v) || k.Name == "out"):
		return join(v)
	}
	return v
}

// traceFormats are the values of trace-format; auto tells by the file's name.
var traceFormats = []string{"auto", "columns", "avt"}
