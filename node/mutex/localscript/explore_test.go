package localscript

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

var long = flag.Bool("long", false, "explore the spaces that take minutes, too")

// TestScripts replays node/mutex/localmutex/testdata. Run with -rewrite to record.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "../localmutex/testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, a := range d.CmdArgs {
				s, err := Run(a.Key, d.Input)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				if a.Key == "localmutex" && (strings.Contains(s, "VIOLATION") || strings.Contains(s, "STUCK")) {
					t.Errorf("%s: localmutex goes wrong", d.Pos)
				}
				fmt.Fprintf(&out, "== %s\n%s", a.Key, s)
			}
			return out.String()
		})
	})
}

// The published text deadlocks (L1), and waits for ever for who is gone (L2).
func TestThePublishedTextGetsStuck(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   Config
		steps int
	}{
		"L1":          {Config{Nodes: 2, Entries: []int{1}}, 7},
		"L1 triangle": {Config{Nodes: 3, Entries: []int{1, 1, 0}}, 11},
		"L2":          {Config{Nodes: 2, Entries: []int{1, 0}, Cuts: 1}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Algorithm = "localmutex-paper"
			r := Explore(c.cfg)
			if !strings.HasPrefix(r.Violation, "STUCK") {
				t.Fatalf("found %q in %d states, want a request that is never served", r.Violation, r.States)
			}
			if r.Depth != c.steps {
				t.Errorf("shortest schedule has %d steps, want %d:\n%s", r.Depth, c.steps, strings.Join(r.Schedule, "\n"))
			}
			out, err := Run("localmutex-paper", strings.Join(r.Schedule, "\n"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, "STUCK") {
				t.Errorf("the schedule replayed does not get stuck:\n%s", out)
			}
		})
	}
}

func TestNothingGoesWrongInCompleteSpaces(t *testing.T) {
	path := [][2]int{{0, 1}, {1, 2}}
	for _, c := range []struct {
		name string
		cfg  Config
		long bool
	}{
		{name: "two", cfg: Config{Nodes: 2, Entries: []int{2}}},
		{name: "two, three priorities", cfg: Config{Nodes: 2, Entries: []int{2}, Priorities: 3}},
		{name: "two, cut and joined twice", cfg: Config{Nodes: 2, Entries: []int{2}, Cuts: 2, Joins: 2}},
		{name: "two, before they know each other", cfg: Config{Nodes: 2, Entries: []int{2}, Cuts: 1, Joins: 1, Fresh: true}},
		{name: "two, late messages", cfg: Config{Nodes: 2, Entries: []int{1}, Cuts: 1, Joins: 1, Late: true}},
		{name: "path", cfg: Config{Nodes: 3, Links: path, Entries: []int{1}}},
		{name: "triangle of two initiators", cfg: Config{Nodes: 3, Entries: []int{1, 1, 0}}},
		{name: "two, late messages, cut and joined twice", cfg: Config{Nodes: 2, Entries: []int{1}, Cuts: 2, Joins: 2, Late: true}, long: true},
		{name: "triangle of two initiators, cut and joined", cfg: Config{Nodes: 3, Entries: []int{1, 1, 0}, Cuts: 1, Joins: 1}, long: true},
		{name: "triangle", cfg: Config{Nodes: 3, Entries: []int{1}}, long: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long && !*long {
				t.Skip("takes minutes: -long")
			}
			c.cfg.Algorithm = "localmutex"
			r := Explore(c.cfg)
			if r.Violation != "" {
				t.Fatalf("%s\n%s", r.Violation, strings.Join(r.Schedule, "\n"))
			}
			if !r.Complete {
				t.Fatalf("not complete: %s", r.Bound)
			}
			t.Logf("%d states, %d transitions, up to %d steps", r.States, r.Transitions, r.Depth)
		})
	}
}

// Lockout freedom: with fair random steps, everybody gets the lock.
func TestFairWalks(t *testing.T) {
	walks := 60
	if *long {
		walks = 2000
	}
	for nodes := 2; nodes <= 5; nodes++ {
		for _, faults := range []Config{{}, {Cuts: 6, Joins: 6}, {Cuts: 6, Joins: 6, Late: true, Fresh: true}, {Cuts: 3, Joins: 3, Duplicates: 10}} {
			cfg := faults
			cfg.Algorithm, cfg.Nodes, cfg.Entries, cfg.Priorities = "localmutex", nodes, []int{3}, 16
			entries, longest := 0, 0
			for seed := range uint64(walks) {
				r := Walk(cfg, seed, 100_000)
				if r.Violation != "" || r.Waiting > 0 || r.Entries != 3*nodes {
					t.Fatalf("%d nodes, %+v, seed %d: %+v", nodes, cfg, seed, r)
				}
				entries += r.Entries
				longest = max(longest, r.Longest)
			}
			t.Logf("%d nodes, cuts %d: %d entries, longest wait %d steps", nodes, cfg.Cuts, entries, longest)
		}
	}
}

// So do not with the published text.
func TestWalksOfThePublishedText(t *testing.T) {
	for nodes := 2; nodes <= 3; nodes++ {
		stuck := 0
		for seed := range uint64(300) {
			r := Walk(Config{Algorithm: "localmutex-paper", Nodes: nodes, Entries: []int{1}, Priorities: 16}, seed, 5000)
			if r.Violation != "" {
				t.Fatalf("seed %d: %s", seed, r.Violation)
			}
			if r.Waiting > 0 {
				stuck++
			}
		}
		if stuck == 0 {
			t.Errorf("%d nodes: no walk of 300 gets stuck", nodes)
		}
		t.Logf("%d nodes: %d of 300 walks get stuck", nodes, stuck)
	}
}

// An exploration tells how far it is, and ends where it is told to.
func TestExploreProgress(t *testing.T) {
	last := 0
	cfg := Config{Algorithm: "localmutex", Nodes: 2, Entries: []int{2}, Cuts: 1, Joins: 1}
	cfg.Progress = func(states, frontier, _ int) bool {
		if states < last || frontier < 1 || frontier > states {
			t.Errorf("%d states after %d, %d to go on from", states, last, frontier)
		}
		last = states
		return true
	}
	whole := Explore(cfg)
	if !whole.Complete || last < whole.States/2 {
		t.Errorf("%d states, complete %v, told of %d", whole.States, whole.Complete, last)
	}
	cfg.Progress = func(states, _, _ int) bool { return states < last/2 }
	if r := Explore(cfg); r.Complete || r.Bound != Interrupted || r.States < last/2 || r.States >= last {
		t.Errorf("%d of %d states, complete %v, bound %q", r.States, last, r.Complete, r.Bound)
	}
}
