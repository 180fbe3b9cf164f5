package trigger

import (
	"errors"
	"slices"
	"testing"

	"churnbed/node/core"
)

func TestHolds(t *testing.T) {
	states := map[core.NodeID]int64{1: 20, 2: 1, 3: -5}
	state := func(id core.NodeID) (int64, bool) { v, ok := states[id]; return v, ok }
	for text, want := range map[string]bool{
		"d1 > 19": true, "d1 >= 21": false, "d2 == 1": true, "d2 != 1": false, "d3 < -4": true, "d3 <= -6": false,
		"d1 > 19 and d2 == 0":              false,
		"d1 > 30 or d2 == 1 and d3 == -5":  true,
		"(d1 > 30 or d2 == 1) and d3 == 0": false,
		"not d2 == 1":                      false,
		"not (d1 < 0 or d1 > 99)":          true,
		"d9 == 0":                          false, // unknown
		"d9 != 0":                          false,
		"not d9 == 0 and not(d1<20)":       true,
	} {
		e, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := e.Holds(state); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
}

func TestDevices(t *testing.T) {
	e, err := Parse("d7 > 1 and (not d2 == 3 or d7 < 9)")
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Devices(); !slices.Equal(got, []core.NodeID{2, 7}) {
		t.Errorf("devices %v, want 2 and 7", got)
	}
}

func TestSyntax(t *testing.T) {
	for _, text := range []string{"", "d1", "d1 >", "d1 > x", "1 > d1", "d1 > 2 and", "(d1 > 2", "d1 > 2)", "d70000 > 1", "d1 => 2", "not", "d1 > 1 d2 > 1"} {
		if _, err := Parse(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: error %v, want a syntax error", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"d1 > 2", "not (d1 == 3 or d2<=-1) and d4!=0", "((((", "not not d0 < 0", "d1 >2or d3 < 4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		if len(e.String()) > MaxLength {
			return // parentheses were added
		}
		again, err := Parse(e.String())
		if err != nil {
			// Written with all its parentheses a flat chain nests.
			return
		}
		if again.String() != e.String() {
			t.Errorf("%q reads as %q, then as %q", text, e, again)
		}
	})
}
