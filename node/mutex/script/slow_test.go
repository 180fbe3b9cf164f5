package script

import (
	"strings"
	"testing"
)

// slowSpaces are spaces in which lists are at most half of NUpper, so that
// requests take the slow path, and stay so: who waits must be served by it.
var slowSpaces = map[string]ExploreConfig{
	"a ring":           {Lists: [][]int{{1}, {2}, {3}, {0}}, Entries: []int{2, 0, 0, 0}},
	"two through one":  {Lists: [][]int{{2}, {2}, {3}, {2}}, Entries: []int{1, 1, 0, 0}},
	"three of three":   {NUpper: 4, Lists: [][]int{{2}, {2}, {0, 1}}, Entries: []int{1, 1, 0}},
	"root and inner":   {Lists: [][]int{{1}, {2}, {3}, {1}}, Entries: []int{1, 1, 0, 0}},
	"slow and fast":    {Lists: [][]int{{1}, {2, 3}, {1, 3}, {1, 2}}, Entries: []int{1, 1, 0, 0}},
	"inner node fails": {Lists: [][]int{{1}, {2}, {3}, {0}}, Entries: []int{1, 0, 0, 0}, Crashes: []int{0, 1, 0, 0}, MaxCrashes: 1, SilentOKs: 1},
}

// slowLarge are those of millions of states: -states.
var slowLarge = map[string]bool{"root and inner": true, "slow and fast": true}

// TestExploreSlow: the slow path keeps two out and serves everybody, in all
// schedules.
func TestExploreSlow(t *testing.T) {
	for name, cfg := range slowSpaces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Algorithm, cfg.Stuck, cfg.MaxStates = "camera+impatient", true, *maxStates
			cfg.Withheld = cfg.MaxCrashes == 0
			r := Explore(cfg)
			if r.Found != nil || !r.Complete && !slowLarge[name] {
				t.Errorf("complete %v\n%s", r.Complete, strings.Join(r.Schedule, "\n"))
			}
			t.Logf("%d states, %d transitions, %d deep", r.States, r.Transitions, r.Depth)
		})
	}
}

// TestExploreSlowMutants: without one of the safeguards of the slow path two
// are let in.
func TestExploreSlowMutants(t *testing.T) {
	for _, name := range []string{"tree-rec", "tree-sets"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := slowSpaces["two through one"]
			cfg.Algorithm, cfg.MaxStates = "camera+impatient+without-"+name, *maxStates
			r := Explore(cfg)
			if r.Found == nil || !strings.Contains(r.Violation, "VIOLATION") {
				t.Errorf("%q in %d states (complete %v)", r.Violation, r.States, r.Complete)
				return
			}
			t.Logf("%d steps, %d states", len(r.Found.Steps), r.States)
		})
	}
}
