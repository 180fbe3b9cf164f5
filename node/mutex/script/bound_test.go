package script

import (
	"slices"
	"strings"
	"testing"
)

// estimates are spaces in which the nodes are told the bound while they run.
var estimates = map[string]struct {
	space   ExploreConfig
	without string // the safeguard without which it goes wrong; "" where that is no matter
	wrong   bool   // the bound is
	large   bool   // millions of states: complete with -states 2000000
}{
	"told in time and late": {space: ExploreConfig{Lists: [][]int{{1, 2}, {2}, {0, 1}}, Entries: []int{1, 1, 0}, Bounds: [][]int{{3}, {3}, {3}}}},
	"rising":                {space: ExploreConfig{Lists: everyone(3), Entries: []int{1, 1, 0}, Bounds: [][]int{{3, 4}, {3, 5}, {3}}}},
	"restart": {large: true, space: ExploreConfig{
		Lists: friends(), Entries: []int{1, 1, 0}, Crashes: []int{0, 0, 1}, MaxCrashes: 1, MaxRestarts: 1, Bounds: [][]int{{3}, {3}, {3}},
	}},
	// An estimator that says less later: the nodes go by what it said first.
	"falling": {without: "ratchet", space: ExploreConfig{
		Lists: [][]int{{2}, {3}, {0, 1}, {0, 1}}, Entries: []int{1, 1, 0, 0}, Bounds: [][]int{{4, 2}, {4, 2}, {4}, {4}},
	}},
	// p2 and p3 come while the others count two: they have no say until they
	// are counted, by bounds that the others are told by then.
	"newcomer": {without: "settled", space: ExploreConfig{
		Lists: [][]int{{2}, {3}, {}, {}}, Entries: []int{1, 1, 0, 0}, Bounds: [][]int{{2}, {2}, {}, {}},
	}},
	// A bound below the number of nodes: nothing is left but friends in common.
	"too low": {wrong: true, space: ExploreConfig{
		Lists: [][]int{{2}, {3}, {0, 1}, {0, 1}}, Entries: []int{1, 1, 0, 0}, Bounds: [][]int{{2}, {2}, {2}, {2}},
	}},
}

// TestExploreEstimates: a bound that is told while requests are under way,
// rises, or is lost with a process, lets no two in; one below the number of
// nodes does.
func TestExploreEstimates(t *testing.T) {
	for name, c := range estimates {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := c.space
			cfg.MaxStates = *maxStates
			if c.without != "" {
				cfg.Algorithm = "camera+estimated+fast-only+without-" + c.without
				r := Explore(cfg)
				if r.Found == nil || !strings.Contains(r.Violation, "VIOLATION") {
					t.Errorf("%s: %q in %d states (complete %v)", cfg.Algorithm, r.Violation, r.States, r.Complete)
				} else {
					t.Logf("without %s: %d steps, %d states", c.without, len(r.Found.Steps), r.States)
				}
			}
			cfg.Algorithm = "camera+estimated+fast-only"
			// Of the newcomer nobody is ever told a bound that counts it.
			cfg.Stuck = !slices.ContainsFunc(cfg.Bounds, func(b []int) bool { return len(b) == 0 })
			r := Explore(cfg)
			switch {
			case c.wrong != strings.Contains(r.Violation, "VIOLATION"):
				t.Errorf("%q, complete %v\n%s", r.Violation, r.Complete, strings.Join(r.Schedule, "\n"))
			case !c.wrong && (r.Found != nil || !r.Complete && !c.large):
				t.Errorf("%q, complete %v\n%s", r.Violation, r.Complete, strings.Join(r.Schedule, "\n"))
			}
			t.Logf("%d states, %d transitions, %d deep", r.States, r.Transitions, r.Depth)
		})
	}
}
