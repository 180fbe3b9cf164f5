package scenario

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

type dur = time.Duration

// Key describes one scenario key, which is also a flag.
type Key struct {
	Name        string
	Group       Group
	Type        string   // text, integer, number, duration, choice, boolean, area, rate, path, list
	Default     string   // as text; "" for none
	Unit        string   // of a bare number, "" where the text has it
	Allowed     []string // of a choice
	Want        string   // what a value must be, for errors and documentation
	Placeholder string   // in help
	Help        string
	// Derived: the default stands for a value that Resolve computes.
	Derived bool

	list   bool
	tags   bool
	isPath func(string) bool // whether the value names an input file
	anchor bool              // whether it names a file at all (input or output)
	set    func(*Spec, string) error
	format func(*Spec) string
	items  func(*Spec) *[]string // of a list
	schema map[string]any
	yaml   string // tag of the scalar
}

// List reports whether the key takes several values.
func (k *Key) List() bool { return k.list }

// Boolean reports whether the key's flag may stand without a value.
func (k *Key) Boolean() bool { return k.Type == "boolean" }

// Format returns the value of the key in s as text; a list is joined by ", ".
func (k *Key) Format(s *Spec) string {
	if k.list {
		return strings.Join(*k.items(s), ", ")
	}
	return k.format(s)
}

func keyByName(name string) *Key {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}

func keyNames() []string {
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = keys[i].Name
	}
	return names
}

func (k Key) derived() Key { k.Derived = true; return k }
func (k Key) asTags() Key {
	k.tags = true
	k.schema = map[string]any{"anyOf": []any{
		map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
		map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []any{"string", "integer"}}},
	}}
	return k
}

// orNumber tells editors that a text may be a bare number, which YAML reads as
// one: a single node, 3, of a list such as 3,8-11.
func (k Key) orNumber() Key {
	k.schema = map[string]any{"type": []string{"string", "integer"}, "minLength": 1, "minimum": 0}
	return k
}

// noInput marks a path that is written, not read.
func (k Key) noInput() Key { k.isPath = func(string) bool { return false }; return k }

// asPathExcept makes every value but words a path.
func (k Key) asPathExcept(words ...string) Key {
	k.anchor = true
	k.isPath = func(v string) bool {
		for _, w := range words {
			if v == w {
				return false
			}
		}
		return true
	}
	return k
}

// wrong says that text is not what key k wants.
func (k *Key) wrong(text string, why error) error {
	if why != nil {
		return fmt.Errorf("%s: %q: %w; want %s", k.Name, text, why, k.Want)
	}
	return fmt.Errorf("%s: %q: want %s", k.Name, text, k.Want)
}

func text(name string, g Group, at func(*Spec) *string, def string, check func(string) (want string, err error), placeholder, help string) Key {
	want, _ := check(def)
	k := Key{
		Name: name, Group: g, Type: "text", Default: def, Want: want, Placeholder: placeholder, Help: help, yaml: "!!str",
		schema: map[string]any{"type": "string", "minLength": 1},
	}
	k.format = func(s *Spec) string { return *at(s) }
	k.set = func(s *Spec, v string) error {
		if _, err := check(v); err != nil {
			return k.wrong(v, err)
		}
		*at(s) = v
		return nil
	}
	return k
}

func path(name string, g Group, at func(*Spec) *string, help string) Key {
	k := Key{
		Name: name, Group: g, Type: "path", Want: "a path", Placeholder: "PATH", Help: help, yaml: "!!str", anchor: true,
		isPath: func(v string) bool { return v != "" },
		schema: map[string]any{"type": "string"},
	}
	k.format = func(s *Spec) string { return *at(s) }
	k.set = func(s *Spec, v string) error {
		if strings.ContainsRune(v, 0) {
			return k.wrong(v, nil)
		}
		*at(s) = v
		return nil
	}
	return k
}

func choice(name string, g Group, at func(*Spec) *string, def string, allowed []string, help string) Key {
	k := Key{
		Name: name, Group: g, Type: "choice", Default: def, Allowed: allowed, Want: orList(allowed), Placeholder: strings.Join(allowed, "|"),
		Help: help, yaml: "!!str", schema: map[string]any{"enum": anySlice(allowed)},
	}
	k.format = func(s *Spec) string { return *at(s) }
	k.set = func(s *Spec, v string) error {
		for _, a := range allowed {
			if v == a {
				*at(s) = v
				return nil
			}
		}
		return fmt.Errorf("%s: %q: want %s%s", name, v, k.Want, didYouMean(v, allowed))
	}
	return k
}

func seed(name string, g Group, at func(*Spec) *uint64, def, help string) Key {
	k := Key{
		Name: name, Group: g, Type: "integer", Default: def, Want: "a whole number from 0 to 18446744073709551615", Placeholder: "N", Help: help, yaml: "!!int",
		schema: map[string]any{"type": "integer", "minimum": 0},
	}
	k.format = func(s *Spec) string { return strconv.FormatUint(*at(s), 10) }
	k.set = func(s *Spec, v string) error {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return k.wrong(v, nil)
		}
		*at(s) = n
		return nil
	}
	return k
}

func integer(name string, g Group, at func(*Spec) *int, def string, lo, hi int, help string) Key {
	k := Key{
		Name: name, Group: g, Type: "integer", Default: def, Want: fmt.Sprintf("a whole number from %d to %d", lo, hi), Placeholder: "N", Help: help, yaml: "!!int",
		schema: map[string]any{"type": "integer", "minimum": lo, "maximum": hi},
	}
	k.format = func(s *Spec) string { return strconv.Itoa(*at(s)) }
	k.set = func(s *Spec, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < lo || n > hi {
			return k.wrong(v, nil)
		}
		*at(s) = n
		return nil
	}
	return k
}

func number(name string, g Group, at func(*Spec) *float64, def string, lo, hi float64, unit, help string) Key {
	want := fmt.Sprintf("a number from %s to %s", formatFloat(lo), formatFloat(hi))
	if unit == "m" {
		want += " (metres)"
	}
	k := Key{
		Name: name, Group: g, Type: "number", Default: def, Unit: unit, Want: want, Placeholder: "X", Help: help, yaml: "!!float",
		schema: map[string]any{"type": "number", "minimum": lo, "maximum": hi},
	}
	k.format = func(s *Spec) string { return formatFloat(*at(s)) }
	k.set = func(s *Spec, v string) error {
		f, err := parseFloat(v)
		if err != nil || f < lo || f > hi {
			return k.wrong(v, nil)
		}
		*at(s) = f
		return nil
	}
	return k
}

// maxDuration keeps sums of a few durations far from overflow.
const maxDuration = 10 * 365 * 24 * time.Hour

func duration(name string, g Group, at func(*Spec) *dur, def string, lo dur, help string) Key {
	want := "a duration such as 500ms, 2s or 20m, 0s or more"
	switch {
	case lo == 1:
		want = "a duration such as 500ms, 2s or 20m, above 0s"
	case lo > 1:
		want = "a duration such as 500ms, 2s or 20m, " + formatDuration(lo) + " or more"
	}
	k := Key{
		Name: name, Group: g, Type: "duration", Default: def, Want: want, Placeholder: "DURATION", Help: help, yaml: "!!str",
		schema: map[string]any{"anyOf": []any{
			map[string]any{"type": "string", "pattern": `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$`},
			map[string]any{"const": 0},
		}},
	}
	k.format = func(s *Spec) string { return formatDuration(*at(s)) }
	k.set = func(s *Spec, v string) error {
		d, err := time.ParseDuration(v)
		switch {
		case err != nil && isNumber(v):
			return k.wrong(v, errors.New("no unit"))
		case err != nil || d < lo || d > maxDuration:
			return k.wrong(v, nil)
		}
		*at(s) = d
		return nil
	}
	return k
}

func boolean(name string, g Group, at func(*Spec) *bool, help string) Key {
	k := Key{
		Name: name, Group: g, Type: "boolean", Default: "false", Want: "true or false", Help: help, yaml: "!!bool",
		schema: map[string]any{"type": "boolean"},
	}
	k.format = func(s *Spec) string { return strconv.FormatBool(*at(s)) }
	k.set = func(s *Spec, v string) error {
		if v != "true" && v != "false" {
			return k.wrong(v, nil)
		}
		*at(s) = v == "true"
		return nil
	}
	return k
}

func area(name string, g Group, at func(*Spec) *Area, def, help string) Key {
	k := Key{
		Name: name, Group: g, Type: "area", Default: def, Unit: "m", Want: "WIDTHxHEIGHT in metres, such as 15x15", Placeholder: "WxH", Help: help, yaml: "!!str",
		schema: map[string]any{"type": "string", "pattern": `^[0-9.eE+]+x[0-9.eE+]+$`},
	}
	k.format = func(s *Spec) string { return at(s).String() }
	k.set = func(s *Spec, v string) error {
		a, err := ParseArea(v)
		if err != nil {
			return k.wrong(v, nil)
		}
		*at(s) = a
		return nil
	}
	return k
}

func rate(name string, g Group, at func(*Spec) *int64, def, help string) Key {
	k := Key{
		Name: name, Group: g, Type: "rate", Default: def, Want: "a rate such as 800bit, 250kbit, 10mbit or 1gbit, or 0", Placeholder: "RATE", Help: help, yaml: "!!str",
		schema: map[string]any{"anyOf": []any{
			map[string]any{"type": "string", "pattern": `^(0|[0-9.]+(bit|kbit|mbit|gbit))$`},
			map[string]any{"const": 0},
		}},
	}
	k.format = func(s *Spec) string { return formatRate(*at(s)) }
	k.set = func(s *Spec, v string) error {
		r, err := parseRate(v)
		if err != nil {
			return k.wrong(v, nil)
		}
		*at(s) = r
		return nil
	}
	return k
}

func list(name string, g Group, at func(*Spec) *[]string, placeholder, help string) Key {
	k := Key{
		Name: name, Group: g, Type: "list", Want: "a list of texts", Placeholder: placeholder, Help: help, list: true, items: at,
		schema: map[string]any{"type": "array", "items": map[string]any{"type": "string", "minLength": 1}},
	}
	k.set = func(s *Spec, v string) error {
		if strings.TrimSpace(v) == "" {
			return k.wrong(v, errors.New("empty"))
		}
		*at(s) = append(*at(s), v)
		return nil
	}
	return k
}

// names turns a list of named strings into plain ones.
func names[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

func anySlice(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

func isNumber(v string) bool { _, err := parseFloat(v); return err == nil }

// parseFloat reads a finite decimal number.
func parseFloat(v string) (float64, error) {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(f) || math.IsInf(f, 0) || strings.ContainsAny(v, "xX_pP") {
		return 0, fmt.Errorf("parse %q: want a decimal number", v)
	}
	return f, nil
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// formatDuration writes d so that time.ParseDuration reads it, without the
// zero minutes and seconds that Duration.String leaves ("20m", not "20m0s").
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
