package workloads

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Whatever a rule expands to can be written as rules of one fault each, and
// these expand to the same faults.
func TestFaultsAsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule, err := ParseFault(drawRule(t))
		if err != nil {
			t.Skip(err)
		}
		target := ringTarget(8)
		faults, err := rule.Expand(target, rapid.Uint64().Draw(t, "seed"), 1)
		if err != nil {
			t.Skip(err)
		}
		for _, f := range faults {
			written := f.Rule().String()
			again, err := ParseFault(written)
			if err != nil {
				t.Fatalf("%q of %q: %v", written, rule, err)
			}
			got, err := again.Expand(target, 0, 1)
			if err != nil {
				t.Fatalf("%q of %q: %v", written, rule, err)
			}
			if diff := cmp.Diff([]Fault{f}, got); diff != "" {
				t.Fatalf("%q of %q (-want +got):\n%s", written, rule, diff)
			}
			size, parts := len(f.Nodes)+len(f.Links), f.Split()
			for _, p := range parts {
				if len(parts) > 1 && len(p.Nodes)+len(p.Links) != 1 || p.At != f.At || p.Verb != f.Verb {
					t.Fatalf("%q is split into %q", f.Rule(), p.Rule())
				}
			}
			if len(parts) > 1 && len(parts) != size {
				t.Fatalf("%q is split into %d of %d", f.Rule(), len(parts), size)
			}
		}
	})
}

func TestParseArrival(t *testing.T) {
	for _, c := range []struct {
		text string
		want Arrival
	}{
		{"at 1s node 3 for 200ms", Arrival{At: time.Second, Node: 3, CS: 200 * time.Millisecond}},
		{" at 1m1.5s  node 0 ", Arrival{At: 61500 * time.Millisecond, CS: 7}},
		{"at 0s node 65535 for 0s", Arrival{Node: 65535}},
	} {
		got, err := ParseArrival(c.text, 7)
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v, want %+v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{
		"", "at", "at 1s node", "1s node 3", "at 1s crash 3", "at 1 node 3", "at -1s node 3", "at 1s node -3", "at 1s node 65536",
		"at 1s node 3 for", "at 1s node 3 for x", "at 1s node 3 cs 1s", "at 1s node 3 for 1s more",
	} {
		if a, err := ParseArrival(text, 0); err == nil {
			t.Errorf("%q is taken for %v", text, a)
		}
	}
}

func FuzzParseArrival(f *testing.F) {
	f.Add("at 1s node 3 for 200ms")
	f.Add("at 1h node 0")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseArrival(text, time.Millisecond)
		if err != nil {
			return
		}
		if again, err := ParseArrival(a.String(), 0); err != nil || again != a {
			t.Errorf("%q: %v reads back as %v, %v", text, a, again, err)
		}
	})
}

func TestExplicit(t *testing.T) {
	list, err := Explicit([]Arrival{{At: 3, Node: 1}, {At: 1, Node: 2}, {At: 3, Node: 0}}, 3)
	want := []Arrival{{No: 1, At: 1, Node: 2}, {No: 2, At: 3, Node: 1}, {No: 3, At: 3, Node: 0}}
	if diff := cmp.Diff(want, list); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := Explicit([]Arrival{{Node: 3}}, 3); err == nil {
		t.Error("node 3 of 3 is taken")
	}
}
