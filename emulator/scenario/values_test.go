package scenario

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1bit": 1, "1500kbit": 1_500_000, "1.5mbit": 1_500_000, "1gbit": 1e9} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("parseRate(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "10", "-1bit", "0.1bit", "1e30gbit", "nanbit", "10 mbit", "10Mbit"} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("parseRate(%q) = %d, want an error", text, got)
		}
	}
}

func TestParseLossModel(t *testing.T) {
	got, err := parseLossModel("gilbert-elliott:0.01/0.3/0/0.9")
	if err != nil {
		t.Fatal(err)
	}
	if want := (&link.GilbertElliott{P: 0.01, R: 0.3, Bad: 0.9}); *got != *want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, text := range []string{"", "ge", "gilbert-elliott", "gilbert-elliott:", "gilbert-elliott:1/1/1", "gilbert-elliott:1/1/1/1/1", "gilbert-elliott:1/1/1/x"} {
		if _, err := parseLossModel(text); err == nil {
			t.Errorf("parseLossModel(%q): want an error", text)
		}
	}
}

func TestParseTag(t *testing.T) {
	name, ids, err := parseTag("edge=3,8-10,1")
	if err != nil || name != "edge" {
		t.Fatalf("%q, %v", name, err)
	}
	if diff := cmp.Diff([]core.NodeID{3, 8, 9, 10, 1}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "edge", "=1", "edge=", "edge=1-", "edge=3-1", "edge=-1", "edge=70000", "a b=1", "edge=0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,0-65535,1"} {
		if _, _, err := parseTag(text); err == nil {
			t.Errorf("parseTag(%q): want an error", text)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[dur]string{0: "0s", 5e6: "5ms", 60e9: "1m", 3600e9: "1h", 90e9: "1m30s", 1200e9: "20m", 3660e9: "1h1m", 3601e9: "1h0m1s", 36000e9: "10h"} {
		if got := formatDuration(d); got != want {
			t.Errorf("formatDuration(%d) = %q, want %q", d, got, want)
		}
	}
}

func FuzzValues(f *testing.F) {
	for _, s := range []string{"15x15", "10mbit", "bernoulli", "gilbert-elliott:0.1/0.2/0/1", "static:a", "list:1,2-5", "edge=1", "zipf", "0", "1e3x1e-3", "5ms"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := ParseArea(text); err == nil {
			if b, err := ParseArea(a.String()); err != nil || a != b {
				t.Errorf("area %q reads back as %v, %v", text, b, err)
			}
		}
		if a, err := parseRate(text); err == nil {
			if b, err := parseRate(formatRate(a)); err != nil || a != b {
				t.Errorf("rate %q reads back as %v, %v", text, b, err)
			}
		}
		if ge, err := parseLossModel(text); err == nil && ge != nil {
			for _, p := range []float64{ge.P, ge.R, ge.Good, ge.Bad} {
				if !(p >= 0 && p <= 1) {
					t.Errorf("loss model %q has probability %v", text, p)
				}
			}
		}
		if service, _, err := ParseMembership(text); err == nil && service == "" {
			t.Errorf("membership %q has no service", text)
		}
		if _, ids, err := parseRequesters(text); err == nil {
			checkIDs(t, text, ids)
		}
		if name, ids, err := parseTag(text); err == nil {
			if name == "" || len(ids) == 0 {
				t.Errorf("tag %q is empty", text)
			}
			checkIDs(t, text, ids)
		}
		// Every key either takes the text and writes it back alike, or
		// leaves the specification alone.
		for i := range keys {
			k := &keys[i]
			if k.list {
				continue
			}
			a, b := Default(), Default()
			if err := k.set(&a, text); err != nil {
				if diff := cmp.Diff(Default(), a); diff != "" {
					t.Errorf("rejected value %q of %s changed the spec: %s", text, k.Name, diff)
				}
				continue
			}
			if err := k.set(&b, k.format(&a)); err != nil || !cmp.Equal(a, b) {
				t.Errorf("%s: %q reads back as %q: %v", k.Name, text, k.format(&b), err)
			}
		}
	})
}

func checkIDs(t *testing.T, text string, ids []core.NodeID) {
	t.Helper()
	for _, id := range ids {
		if id < 0 || id >= core.MaxNodes {
			t.Errorf("%q has node %d", text, id)
		}
	}
}
