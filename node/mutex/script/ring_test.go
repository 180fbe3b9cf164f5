package script

import (
	"flag"
	"testing"
)

var long = flag.Bool("long", false, "explore the large spaces, too")

// TestExploreRingCompletely visits all of the spaces of fault-tolerant fairk that
// are small enough. Whoever is down in the end comes back, and who waits must
// be served.
func TestExploreRingCompletely(t *testing.T) {
	for _, c := range []struct {
		name, algorithm string
		entries         []int
		cfg             ExploreConfig
		long            bool
	}{
		{name: "a request", algorithm: "fairk+p1", entries: []int{0, 1, 0}},
		{name: "of two nodes", algorithm: "fairk+p1", entries: []int{0, 1}},
		{name: "2 tokens, repeated", algorithm: "fairk+k2+p1", entries: []int{1, 1, 0}, cfg: ExploreConfig{Duplicates: 1}},
		{name: "2 tokens, 4 nodes", algorithm: "fairk+k2+p1", entries: []int{1, 1, 0, 0}},
		{name: "the holder killed", algorithm: "fairk+p1", entries: []int{0, 1, 0}, cfg: ExploreConfig{Crashes: []int{1, 0, 0}, MaxCrashes: 1}},
		{name: "a request, repeated", algorithm: "fairk+p1", entries: []int{0, 1, 0}, cfg: ExploreConfig{Duplicates: 1}, long: true},
		{name: "taken for failed", algorithm: "fairk+p1", entries: []int{0, 0, 0}, cfg: ExploreConfig{Changes: 1}, long: true},
		{name: "a request, 2 copies", algorithm: "fairk+p2", entries: []int{0, 1, 0}, long: true},
		{name: "2 tokens, 2 copies", algorithm: "fairk+k2+p2", entries: []int{1, 1, 0}, long: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long && !*long {
				t.Skip("a large space: -long")
			}
			t.Parallel()
			cfg := c.cfg
			cfg.Algorithm, cfg.Lists, cfg.Entries, cfg.Stuck = c.algorithm, everyone(len(c.entries)), c.entries, true
			r := Explore(cfg)
			if r.Found != nil {
				t.Fatalf("%s\n%s", r.Found.Numbered(), r.Found.Chart())
			}
			if !r.Complete {
				t.Errorf("not complete: %s", r.Bound)
			}
			t.Logf("%d states, %d transitions, %d deep", r.States, r.Transitions, r.Depth)
		})
	}
}

// TestExploreRing visits a part of the space of fault-tolerant fairk: processes
// die and come back, live ones are taken for failed and go on, late messages
// come twice. No token, and no coordinator, is ever there twice or lost.
func TestExploreRing(t *testing.T) {
	for _, c := range []struct {
		name, algorithm string
		entries         []int
		cfg             ExploreConfig
	}{
		{"no fault", "fairk+p1", []int{1, 1, 0}, ExploreConfig{}},
		{"taken for failed", "fairk+p1", []int{0, 1, 0}, ExploreConfig{Changes: 2}},
		{"killed", "fairk+p1", []int{1, 1, 0}, ExploreConfig{Changes: 1, Crashes: []int{1, 0, 0}, MaxCrashes: 1}},
		{"repeated", "fairk+p2", []int{0, 1, 1}, ExploreConfig{Changes: 1, Duplicates: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := c.cfg
			cfg.Algorithm, cfg.Lists, cfg.Entries, cfg.MaxStates = c.algorithm, everyone(3), c.entries, 40_000
			r := Explore(cfg)
			if r.Found != nil {
				t.Fatalf("%s\n%s", r.Found.Numbered(), r.Found.Chart())
			}
			t.Logf("%d states, complete %v (%s), %d deep", r.States, r.Complete, r.Bound, r.Depth)
		})
	}
}

// TestWalkRing: random schedules with kills, restarts, false failures, losses
// and repetitions of messages; afterwards everybody is served.
func TestWalkRing(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		nodes     int
	}{{"fairk+p1", 3}, {"fairk+p2", 5}, {"fairk+k2+p2", 5}} {
		t.Run(c.algorithm, func(t *testing.T) {
			t.Parallel()
			entries, served := 0, 0
			for seed := range uint64(60) {
				r := Walk(seed, WalkConfig{Algorithm: c.algorithm, Nodes: c.nodes, Steps: 600, Listed: 1, Crashes: 2, Duplicates: true, Lists: true, Fences: true})
				if r.Violation != "" || r.Waiting > 0 {
					for _, l := range r.Trace[max(0, len(r.Trace)-60):] {
						t.Log(l)
					}
					t.Fatalf("seed %d: %q, %d wait", seed, r.Violation, r.Waiting)
				}
				entries += r.Entries
				served++
			}
			if entries == 0 {
				t.Errorf("nobody entered in %d walks", served)
			}
			t.Logf("%d walks, %d entries", served, entries)
		})
	}
}

// TestWalkRingWithoutFence: where a node acts in a view after it promised a
// later one, a token comes to be there twice.
func TestWalkRingWithoutFence(t *testing.T) {
	for seed := uint64(180); seed < 190; seed++ {
		r := Walk(seed, WalkConfig{Algorithm: "fairk+p1+without-fence", Nodes: 3, Steps: 600, Listed: 1, Crashes: 2, Duplicates: true, Lists: true, Fences: true})
		if r.Violation != "" {
			t.Logf("seed %d: %s", seed, r.Violation)
			return
		}
	}
	t.Error("nothing found")
}
