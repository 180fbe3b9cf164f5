package script

import (
	"strings"
	"testing"
)

// durableSpaces are spaces with restarts of nodes that keep their state.
var durableSpaces = map[string]ExploreConfig{
	"the friend":    {Lists: friends(), Entries: []int{1, 1, 0}, Crashes: []int{0, 0, 1}, MaxCrashes: 1, MaxRestarts: 1},
	"twice":         {Lists: friends(), Entries: []int{1, 1, 0}, Crashes: []int{0, 0, 2}, MaxCrashes: 2, MaxRestarts: 2},
	"a requester":   {Lists: [][]int{{1, 2}, {2}, {0, 1}}, Entries: []int{1, 2, 0}, Crashes: []int{0, 1, 0}, MaxCrashes: 1, MaxRestarts: 1},
	"everybody":     {Lists: [][]int{{2}, {2}, {0, 1}}, Entries: []int{1, 1, 0}, Crashes: []int{1, 1, 1}, MaxCrashes: 3, MaxRestarts: 3},
	"the slow path": {Lists: [][]int{{1}, {2}, {3}, {0}}, Entries: []int{1, 0, 0, 0}, Crashes: []int{0, 1, 0, 0}, MaxCrashes: 1, MaxRestarts: 1},
	"slow and fast": {Lists: [][]int{{2}, {2}, {3}, {2}}, Entries: []int{1, 1, 0, 0}, Crashes: []int{0, 0, 1, 0}, MaxCrashes: 1, MaxRestarts: 1},
}

// durableLarge are those of millions of states: -states.
var durableLarge = map[string]bool{"slow and fast": true}

// TestExploreDurable: nodes that keep what others rely on let no two in, and
// serve everybody after any restarts.
func TestExploreDurable(t *testing.T) {
	for name, cfg := range durableSpaces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Algorithm, cfg.Stuck, cfg.MaxStates = "camera+impatient+durable", true, *maxStates
			r := Explore(cfg)
			if r.Found != nil || !r.Complete && !durableLarge[name] {
				t.Errorf("complete %v\n%s\n%s", r.Complete, r.Violation, strings.Join(r.Schedule, "\n"))
			}
			t.Logf("%d states, %d transitions, %d deep, complete %v", r.States, r.Transitions, r.Depth, r.Complete)
		})
	}
}

// TestExplorePersistLate: nodes that keep what they have told only in their
// next step let two in.
func TestExplorePersistLate(t *testing.T) {
	for _, name := range []string{"the friend", "twice"} {
		cfg := durableSpaces[name]
		cfg.Algorithm, cfg.MaxStates = "camera+impatient+durable+without-persist", *maxStates
		r := Explore(cfg)
		if !strings.Contains(r.Violation, "VIOLATION") {
			t.Errorf("%s: %q in %d states (complete %v)", name, r.Violation, r.States, r.Complete)
		} else {
			t.Logf("%s: %d steps, %d states", name, len(r.Found.Steps), r.States)
		}
	}
}
