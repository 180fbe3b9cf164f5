package script

import (
	"slices"
	"strings"
	"testing"
)

// slowSpaces are spaces in which lists are at most half of NUpper, so that
// requests take the slow path, and stay so: who waits must be served by it.
var slowSpaces = map[string]ExploreConfig{
	"a ring":              {Lists: [][]int{{1}, {2}, {3}, {0}}, Entries: []int{2, 0, 0, 0}},
	"two through one":     {Lists: [][]int{{2}, {2}, {3}, {2}}, Entries: []int{1, 1, 0, 0}},
	"three of three":      {NUpper: 4, Lists: [][]int{{2}, {2}, {0, 1}}, Entries: []int{1, 1, 0}},
	"root and inner":      {Lists: [][]int{{1}, {2}, {3}, {1}}, Entries: []int{1, 1, 0, 0}},
	"slow and fast":       {Lists: [][]int{{1}, {2, 3}, {1, 3}, {1, 2}}, Entries: []int{1, 1, 0, 0}},
	"inner node restarts": {Lists: [][]int{{1}, {2}, {3}, {0}}, Entries: []int{1, 0, 0, 0}, Crashes: []int{0, 1, 0, 0}, MaxCrashes: 1, MaxRestarts: 1},
	"root restarts":       {Lists: [][]int{{1}, {2}, {3}, {0}}, Entries: []int{2, 0, 0, 0}, Crashes: []int{1, 0, 0, 0}, MaxCrashes: 1, MaxRestarts: 1},
	"slow, fast, restart": {Lists: [][]int{{2}, {0, 2}, {0, 1}}, NUpper: 4, Entries: []int{1, 1, 0}, Crashes: []int{0, 0, 1}, MaxCrashes: 1, MaxRestarts: 1},
	"inner node fails":    {Lists: [][]int{{1}, {2}, {3}, {0}}, Entries: []int{1, 0, 0, 0}, Crashes: []int{0, 1, 0, 0}, MaxCrashes: 1, SilentOKs: 1},
}

// slowLarge are those of millions of states: -states.
var slowLarge = map[string]bool{"root and inner": true, "slow and fast": true, "slow, fast, restart": true}

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

// TestWalkSlow: random schedules of more nodes with lists of a quarter.
func TestWalkSlow(t *testing.T) {
	for name, cfg := range map[string]WalkConfig{
		"short lists":        {Nodes: 6, Steps: 500, Listed: 0.25, Duplicates: true},
		"lists change":       {Nodes: 5, Steps: 500, Listed: 0.25, Duplicates: true, Lists: true, Fences: true},
		"crashes 5":          {Nodes: 5, Steps: 700, Listed: 0.3, Crashes: 8, Duplicates: true},
		"crashes 7":          {Nodes: 7, Steps: 900, Listed: 0.25, Crashes: 10, Lists: true, Fences: true, Duplicates: true},
		"crashes 9":          {Nodes: 9, Steps: 1200, Listed: 0.2, Crashes: 8, Lists: true, Duplicates: true},
		"room to spare":      {Nodes: 6, NUpper: 8, Steps: 700, Listed: 0.4, Crashes: 4, Lists: true},
		"patient, crashes 5": {Algorithm: "camera", Nodes: 5, Steps: 700, Listed: 0.3, Crashes: 8, Duplicates: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cfg.Algorithm == "" {
				cfg.Algorithm = "camera+impatient"
			}
			entries, slow, adopted := 0, 0, 0
			for seed := range uint64(*walks / 3) {
				r := Walk(seed, cfg)
				if r.Violation != "" || r.Waiting > 0 {
					t.Fatalf("seed %d: %s, %d left waiting\n%s", seed, r.Violation, r.Waiting, strings.Join(r.Trace, "\n"))
				}
				entries += r.Entries
				for _, line := range r.Trace {
					if strings.HasSuffix(line, "is on the slow path") {
						slow++
					}
					if strings.HasSuffix(line, "adopts") && strings.HasPrefix(line, "  ") {
						adopted++
					}
				}
			}
			t.Logf("%d entries, %d requests on the slow path, %d adoptions", entries, slow, adopted)
			if entries < *walks/9 || slow < *walks/3 || cfg.Crashes > 5 && adopted == 0 {
				t.Error("the walks are too poor to tell")
			}
		})
	}
}

// TestWanderSlow: longer random schedules of a ring and of wider lists, where
// whoever waits is served once the trouble ends.
func TestWanderSlow(t *testing.T) {
	for name, c := range map[string]struct {
		lists [][]int
		walks int
	}{
		"ring of 5":  {[][]int{{1}, {2}, {3}, {4}, {0}}, 150},
		"two each":   {[][]int{{1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 0}, {0, 1}}, 50},
		"unlisted 0": {[][]int{{1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 1}, {1, 2}}, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := len(c.lists)
			cfg := ExploreConfig{
				Algorithm: "camera+impatient", Lists: c.lists, Entries: slices.Repeat([]int{3}, n), Crashes: slices.Repeat([]int{2}, n),
				MaxCrashes: 2, MaxRestarts: -1, Losses: 4, Duplicates: 3, Changes: 2, SilentOKs: 2, Stuck: true,
			}
			r := Wander(cfg, 9, c.walks, 500)
			if r.Found != nil {
				t.Errorf("%s\n%s", r.Found.Numbered(), r.Found.Chart())
			}
			if r.Entries < c.walks {
				t.Errorf("%d entries in %d walks: they are too poor to tell", r.Entries, c.walks)
			}
			t.Logf("%d entries, %d steps", r.Entries, r.Transitions)
		})
	}
}
