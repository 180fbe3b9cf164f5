package script

import (
	"flag"
	"strings"
	"testing"
)

var maxStates = flag.Int("states", 8000, "states for each exploration of camera")

// TestExploreFinds: the two counterexamples to Ricart-Agrawala of ALGORITHMS 1,
// found without being told.
func TestExploreFinds(t *testing.T) {
	for name, cfg := range map[string]ExploreConfig{
		"one missing entry":   {Algorithm: "ra", Lists: [][]int{{1, 2}, {2}, {0, 1}}, Entries: []int{1, 1, 0}},
		"two missing entries": {Algorithm: "ra", Lists: [][]int{{2}, {2}, {0, 1}}, Entries: []int{1, 1, 0}},
		"clock 0":             {Algorithm: "ra", Lists: [][]int{{1, 2}, {0, 2}, {0, 1}}, Entries: []int{2, 1, 0}, Crashes: []int{0, 1, 0}},
		"friend restarts":     {Algorithm: "camera-paper", Lists: [][]int{{2}, {2}, {0, 1}}, Entries: []int{1, 1, 0}, Crashes: []int{0, 0, 1}},
		"snapshot":            {Algorithm: "camera-paper+snapshot", Lists: [][]int{{2}, {2}, {0, 1}}, Entries: []int{1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cfg.Crashes == nil {
				cfg.Crashes = make([]int, len(cfg.Lists))
			}
			cfg.MaxStates = 100000
			if r := Explore(cfg); r.Violation == "" {
				t.Errorf("no violation in %d states (complete %v)", r.States, r.Complete)
			} else {
				t.Logf("%d states: %s", r.States, r.Violation)
			}
		})
	}
}

func TestExploreCamera(t *testing.T) {
	for name, cfg := range map[string]ExploreConfig{
		"ra holds with full lists": {Algorithm: "ra", Lists: [][]int{{1, 2}, {0, 2}, {0, 1}}, Entries: []int{1, 1, 0}},
		"unknown to each other":    {Algorithm: "camera", Lists: [][]int{{2}, {2}, {0, 1}}, Entries: []int{1, 1, 0}},
		"three requesters":         {Algorithm: "camera", Lists: [][]int{{2}, {2}, {0, 1}}, Entries: []int{1, 1, 1}},
		"friend restarts":          {Algorithm: "camera", Lists: [][]int{{2}, {2}, {0, 1}}, Entries: []int{1, 1, 0}, Crashes: []int{0, 0, 1}},
		"requester restarts":       {Algorithm: "camera", Lists: [][]int{{1, 2}, {2}, {0, 1}}, Entries: []int{1, 2, 0}, Crashes: []int{0, 1, 0}},
		"two restarts":             {Algorithm: "camera", Lists: [][]int{{1, 2}, {0, 2}, {0, 1}}, Entries: []int{1, 1, 0}, Crashes: []int{1, 0, 1}},
		"four nodes":               {Algorithm: "camera", Lists: [][]int{{2, 3}, {2, 3}, {0, 1, 3}, {0, 1, 2}}, Entries: []int{1, 1, 0, 0}, Crashes: []int{0, 0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cfg.Crashes == nil {
				cfg.Crashes = make([]int, len(cfg.Lists))
			}
			cfg.MaxStates = *maxStates
			r := Explore(cfg)
			if r.Violation != "" {
				t.Errorf("%s\n%s", r.Violation, strings.Join(r.Schedule, "\n"))
			}
			t.Logf("%d states, complete %v", r.States, r.Complete)
		})
	}
}
