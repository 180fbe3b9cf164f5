package script

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var maxStates = flag.Int("states", 150000, "states for each exploration")

// full lists of n nodes, and the lists of two that know only a third.
func everyone(n int) [][]int {
	lists := make([][]int, n)
	for k := range lists {
		for j := range n {
			lists[k] = append(lists[k], j)
		}
	}
	return lists
}

// small reports whether somebody's list cannot make a majority.
func small(lists [][]int) bool {
	for k, list := range lists {
		n := 1
		for _, j := range list {
			if j != k {
				n++
			}
		}
		if 2*n <= len(lists) {
			return true
		}
	}
	return false
}

func friends() [][]int { return [][]int{{2}, {2}, {0, 1}} }

// trap is a trap of ALGORITHMS 1 and 2.2 as a space to explore.
type trap struct {
	file      string // of node/mutex/testdata, which states the steps
	algorithm string // that falls into it
	published int    // steps that ALGORITHMS states, 0 = none
	space     ExploreConfig
}

var traps = []trap{
	{"ra-one-missing", "ra", 0, ExploreConfig{Lists: [][]int{{1, 2}, {2}, {0, 1}}, Entries: []int{1, 1, 0}}},
	{"ra-two-missing", "ra", 0, ExploreConfig{Lists: friends(), Entries: []int{1, 1, 0}}},
	{"ra-duplicate-ok", "ra+ignore-ids", 16, ExploreConfig{Lists: everyone(2), Entries: []int{2, 1}, Duplicates: 1}},
	{"ra-clock-0", "ra", 8, ExploreConfig{Lists: everyone(2), Entries: []int{1, 1}, Crashes: []int{1, 0}, MaxCrashes: 1, MaxRestarts: 1}},
	{"h1", "camera-paper", 7, ExploreConfig{Lists: friends(), Entries: []int{1, 1, 0}, Changes: 1, GainsOnly: true}},
	{"h1b", "camera-paper", 5, ExploreConfig{Lists: [][]int{{2}, {2}, {}, {}}, Entries: []int{1, 1, 0, 0}, Changes: 2}},
	{"h1c", "camera-paper", 7, ExploreConfig{Lists: [][]int{{2}, {2, 3}, {0, 1}, {1}}, Entries: []int{1, 1, 0, 0}, Crashes: []int{0, 0, 1, 0}, MaxCrashes: 1, SilentOKs: 1}},
	{"h2", "camera-paper+snapshot", 12, ExploreConfig{Lists: friends(), Entries: []int{1, 1, 1}}},
	{"h3a", "camera-paper+release-by-id", 11, ExploreConfig{Lists: friends(), Entries: []int{2, 1, 0}}},
	{"h3b", "camera-paper", 11, ExploreConfig{Lists: everyone(2), Entries: []int{2, 1}, Duplicates: 1}},
	{"h3c", "camera-paper", 16, ExploreConfig{Lists: friends(), Entries: []int{2, 1, 0}, Duplicates: 1}},
	{"h4a", "camera-paper", 8, ExploreConfig{Lists: friends(), Entries: []int{1, 1, 0}, Crashes: []int{0, 0, 1}, MaxCrashes: 1, MaxRestarts: 1}},
	{"h4b", "camera-paper+release-by-id", 12, ExploreConfig{Lists: friends(), Entries: []int{2, 1, 0}, Crashes: []int{1, 0, 0}, MaxCrashes: 1, MaxRestarts: 1}},
	{"h4e", "camera-paper", 0, ExploreConfig{Lists: everyone(2), Entries: []int{1, 1}, Crashes: []int{0, 1}, MaxCrashes: 1, MaxRestarts: 1, Stuck: true, Withheld: true}},
	{"h5a", "camera-paper", 5, ExploreConfig{Lists: everyone(2), Entries: []int{1, 1}, SilentOKs: 1, NoFence: true}},
	{"h5b", "camera-paper", 9, ExploreConfig{Lists: [][]int{{2}, {0, 2}, {0, 1}}, Entries: []int{1, 1, 0}, SilentOKs: 1, Changes: 1, GainsOnly: true}},
	{"h8", "camera-paper", 0, ExploreConfig{Lists: friends(), Entries: []int{1, 1, 0}, Crashes: []int{0, 1, 0}, MaxCrashes: 1, Stuck: true, StayDead: true}},
	{"h9", "camera-paper", 6, ExploreConfig{Lists: everyone(2), Entries: []int{1, 1}, Changes: 1}},
	{"h10", "camera-paper+wake-later", 6, ExploreConfig{Lists: [][]int{{1}, {}}, Entries: []int{1, 1}}},
}

// stated finds the steps in the comment of a script.
var stated = regexp.MustCompile(`(?m)^# Shortest by exploration: (\d+) steps`)

// TestExploreTraps: of each trap, exploration finds a violation in no more
// steps than ALGORITHMS states, and in as many as the script states; camera
// survives all of the same space.
func TestExploreTraps(t *testing.T) {
	for _, trap := range traps {
		t.Run(trap.file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "testdata", trap.file+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			want := -1
			if m := stated.FindSubmatch(text); m != nil {
				want, _ = strconv.Atoi(string(m[1]))
			}
			cfg := trap.space
			cfg.Algorithm, cfg.MaxStates = trap.algorithm, *maxStates
			r := Explore(cfg)
			if r.Found == nil {
				t.Fatalf("%s: nothing found in %d states (complete %v)", cfg.Algorithm, r.States, r.Complete)
			}
			if n := len(r.Found.Steps); n != want || trap.published > 0 && n > trap.published {
				t.Errorf("%s: %d steps, the script says %d, ALGORITHMS %d\n%s", cfg.Algorithm, n, want, trap.published, r.Found.Numbered())
			}
			script, err := r.Found.Script("as found")
			if err != nil || !strings.Contains(script, "VIOLATION") && !strings.Contains(script, "STUCK") {
				t.Errorf("the script does not show it: %v\n%s", err, script)
			}

			cfg = trap.space
			cfg.Algorithm, cfg.MaxStates, cfg.Stuck, cfg.NoFence = "camera", *maxStates, true, false
			if small(cfg.Lists) { // TestExploreSlow has the slow path
				cfg.Algorithm = "camera+fast-only"
			}
			h := Explore(cfg)
			if h.Found != nil || !h.Complete {
				t.Errorf("camera: complete %v (%s)\n%s", h.Complete, h.Bound, strings.Join(h.Schedule, "\n"))
			}
			t.Logf("%s: %d steps, %d states; camera: %d states, %d transitions, %d deep", r.Violation, len(r.Found.Steps), r.States, h.States, h.Transitions, h.Depth)
		})
	}
}

// mutants are spaces in which camera is wrong as soon as it lacks one
// safeguard.
var mutants = map[string]ExploreConfig{
	"ok-id":    {Lists: everyone(2), Entries: []int{2, 1}, Duplicates: 1},
	"majority": {Lists: [][]int{{2}, {3}, {0, 1}, {0, 1}}, Entries: []int{1, 1, 0, 0}},
	// p2 forgets p0, whose other grant p3 gives after it told p2 what it knew.
	"incarnation": {
		Lists: [][]int{{2, 3}, {2, 4}, {1, 3, 4}, {}, {}}, Entries: []int{1, 1, 0, 0, 0},
		Crashes: []int{0, 0, 1, 0, 0}, MaxCrashes: 1, MaxRestarts: 1,
	},
	"amnesia": {Lists: friends(), Entries: []int{1, 1, 0}, Crashes: []int{0, 0, 1}, MaxCrashes: 1, MaxRestarts: 1},
	"own-rec": {Lists: [][]int{{2}, {0}, {0, 1}}, Entries: []int{1, 1, 0}},
	// p1 dies with p0's request on the way to it, whom only an OK told of it.
	"probing": {Lists: friends(), Entries: []int{1, 1, 0}, Crashes: []int{0, 1, 0}, MaxCrashes: 1, Stuck: true, StayDead: true},
	"un-ask":  {Lists: [][]int{{2}, {0, 2}, {0, 1}}, Entries: []int{1, 1, 0}, SilentOKs: 1},
}

// TestExploreMutants: without any one of its safeguards camera lets two in, or
// one wait for ever; with all of them nobody, in all of the same space.
func TestExploreMutants(t *testing.T) {
	for name, cfg := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hardened := "camera"
			if small(cfg.Lists) { // there the slow path makes up for it
				hardened += "+fast-only"
			}
			cfg.Algorithm, cfg.MaxStates = hardened+"+without-"+name, *maxStates
			r := Explore(cfg)
			want := "VIOLATION"
			if cfg.Stuck {
				want = "STUCK"
			}
			if r.Found == nil || !strings.Contains(r.Violation, want) {
				t.Errorf("%s: %q in %d states (complete %v)", cfg.Algorithm, r.Violation, r.States, r.Complete)
			} else {
				t.Logf("%d steps, %d states", len(r.Found.Steps), r.States)
			}
			cfg.Algorithm, cfg.Stuck = hardened, true
			h := Explore(cfg)
			if h.Found != nil || !h.Complete && name != "incarnation" { // that one is large
				t.Errorf("camera: complete %v\n%s", h.Complete, strings.Join(h.Schedule, "\n"))
			}
			t.Logf("camera: %d states, %d transitions, %d deep", h.States, h.Transitions, h.Depth)
		})
	}
}

// TestExploreRenewal: a partition may begin at any time, and p1 stands still
// from then on, so that it cannot leave where p0 gives it up. With grants of the
// other side from before the cut p0 would enter beside it (BUGS 35).
func TestExploreRenewal(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   ExploreConfig
		large bool // complete with -states 600000
	}{
		"two and one": {ExploreConfig{Lists: everyone(3), Entries: []int{1, 1, 0}, Sides: []int{0, 0, 1}, SilentOKs: 1}, false},
		"two and two": {ExploreConfig{Lists: [][]int{{1, 2, 3}, {2, 3}, {}, {}}, Entries: []int{1, 1, 0, 0}, Sides: []int{0, 0, 1, 1}, SilentOKs: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := c.cfg
			cfg.Algorithm, cfg.Stopped, cfg.MaxStates = "camera+fast-only+without-renewal", []int{1}, *maxStates
			r := Explore(cfg)
			if !strings.Contains(r.Violation, "VIOLATION") {
				t.Fatalf("%s: %q in %d states (complete %v)", cfg.Algorithm, r.Violation, r.States, r.Complete)
			}
			t.Logf("without renewal: %d steps, %d states", len(r.Found.Steps), r.States)
			if text, err := r.Found.Script("as found"); err != nil || !strings.Contains(text, "VIOLATION") {
				t.Errorf("the schedule does not show it: %v\n%s", err, text)
			}
			cfg.Algorithm = "camera+fast-only"
			h := Explore(cfg)
			if h.Found != nil || !h.Complete && !c.large {
				t.Errorf("camera: complete %v\n%s", h.Complete, strings.Join(h.Schedule, "\n"))
			}
			t.Logf("camera: %d states, %d transitions, %d deep, complete %v", h.States, h.Transitions, h.Depth, h.Complete)
		})
	}
}

// TestExploreCamera explores spaces that no trap names.
func TestExploreCamera(t *testing.T) {
	for name, cfg := range map[string]ExploreConfig{
		"ra holds with full lists": {Algorithm: "ra", Lists: everyone(3), Entries: []int{1, 1, 1}},
		"three requesters":         {Algorithm: "camera", Lists: friends(), Entries: []int{1, 1, 1}, Losses: 2, Duplicates: 1},
		"requester restarts":       {Algorithm: "camera", Lists: [][]int{{1, 2}, {2}, {0, 1}}, Entries: []int{1, 2, 0}, Crashes: []int{0, 1, 0}, MaxCrashes: 1, MaxRestarts: 1},
		"two restarts":             {Algorithm: "camera", Lists: everyone(3), Entries: []int{1, 1, 0}, Crashes: []int{1, 0, 1}, MaxCrashes: 2, MaxRestarts: 2},
		"four nodes":               {Algorithm: "camera", Lists: [][]int{{2, 3}, {2, 3}, {0, 1, 3}, {0, 1, 2}}, Entries: []int{1, 1, 0, 0}, Crashes: []int{0, 0, 1, 0}, MaxCrashes: 1, MaxRestarts: 1},
		"sets in parts":            {Algorithm: "camera+in-parts", Lists: [][]int{{3}, {3}, {3}, {0, 1, 2}}, Entries: []int{1, 1, 1, 0}},
		"false positives":          {Algorithm: "camera", Lists: everyone(3), Entries: []int{1, 1, 0}, SilentOKs: 2, Changes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Stuck, cfg.MaxStates = true, *maxStates/3
			r := Explore(cfg)
			if r.Found != nil {
				t.Errorf("%s\n%s", r.Found.Numbered(), r.Found.Chart())
			}
			t.Logf("%d states, %d transitions, %d deep, complete %v", r.States, r.Transitions, r.Depth, r.Complete)
		})
	}
}

// TestExploreRepeats: the same bounds give the same figures and schedule.
func TestExploreRepeats(t *testing.T) {
	cfg := traps[len(traps)-3].space
	cfg.Algorithm = "camera-paper"
	a, b := Explore(cfg), Explore(cfg)
	if a.States != b.States || a.Transitions != b.Transitions || strings.Join(a.Schedule, "\n") != strings.Join(b.Schedule, "\n") {
		t.Errorf("%d and %d states\n%s\n%s", a.States, b.States, strings.Join(a.Schedule, "\n"), strings.Join(b.Schedule, "\n"))
	}
}

// TestExploreBounds: a bound is reported, and an early end is no completeness.
func TestExploreBounds(t *testing.T) {
	cfg := ExploreConfig{Algorithm: "camera", Lists: everyone(3), Entries: []int{1, 1, 1}, Stuck: true}
	for _, c := range []struct {
		bound         string
		states, depth int
	}{{"states", 100, 0}, {"depth", 0, 5}, {"", 0, 0}} {
		cfg.MaxStates, cfg.MaxDepth = c.states, c.depth
		if r := Explore(cfg); r.Bound != c.bound || r.Complete != (c.bound == "") || c.depth > 0 && r.Depth != c.depth {
			t.Errorf("bounds %d states, %d steps: ended by %q, complete %v, %d deep", c.states, c.depth, r.Bound, r.Complete, r.Depth)
		}
	}
	for _, bad := range []ExploreConfig{
		{Algorithm: "none", Lists: everyone(2), Entries: []int{1, 1}},
		{Algorithm: "ra", Lists: everyone(2), Entries: []int{1}},
		{Algorithm: "ra", Lists: [][]int{{2}, {}}, Entries: []int{1, 1}},
		{Algorithm: "ra", Lists: everyone(2), Entries: []int{1, 256}},
		{Algorithm: "camera+without-sense", Lists: everyone(2), Entries: []int{1, 1}},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// TestWander: random walks find what exploration finds, shorten it, and leave
// camera alone.
func TestWander(t *testing.T) {
	space := func(algorithm string) ExploreConfig {
		return ExploreConfig{
			Algorithm: algorithm, Lists: [][]int{{2, 3, 4, 5}, {2, 3, 4, 5}, everyone(6)[2], everyone(6)[3], everyone(6)[4], everyone(6)[5]},
			Entries: []int{4, 4, 2, 2, 2, 2}, Crashes: []int{1, 1, 2, 2, 1, 1}, MaxCrashes: 2, MaxRestarts: -1,
			Losses: 4, Duplicates: 3, Changes: 3, SilentOKs: 2, Stuck: true,
		}
	}
	r := Wander(space("camera-paper"), 1, 3000, 300)
	if r.Found == nil {
		t.Fatalf("nothing found in %d steps", r.Transitions)
	}
	if n := len(r.Found.Steps); n >= r.Depth {
		t.Errorf("%d steps, none was left out", n)
	}
	t.Logf("%d steps\n%s", len(r.Found.Steps), r.Found.Chart())
	r = Wander(space("camera"), 1, 150, 400)
	if r.Found != nil {
		t.Errorf("%s\n%s", r.Found.Numbered(), r.Found.Chart())
	}
	if r.Entries < 150 {
		t.Errorf("%d entries in 150 walks: they are too poor to tell", r.Entries)
	}
	t.Logf("%d entries, %d steps", r.Entries, r.Transitions)
}

// An exploration tells how far it is, and ends where it is told to.
func TestExploreProgress(t *testing.T) {
	calls, last := 0, 0
	cfg := ExploreConfig{Algorithm: "fairk+k2", Lists: everyone(3), Entries: []int{2, 2, 2}}
	whole := Explore(cfg)
	cfg.Progress = func(states, frontier, depth int) bool {
		if states < last || frontier < 1 || frontier > states || depth > whole.Depth {
			t.Errorf("%d states after %d, %d to go on from, depth %d", states, last, frontier, depth)
		}
		calls, last = calls+1, states
		return true
	}
	if r := Explore(cfg); !r.Complete || r.States != whole.States || calls != whole.Transitions/progressEvery {
		t.Errorf("%d states, complete %v, told %d times", r.States, r.Complete, calls)
	}
	cfg.Progress = func(states, _, _ int) bool { return states < 1000 }
	if r := Explore(cfg); r.Complete || r.Bound != Interrupted || r.States < 1000 || r.States > 1000+progressEvery {
		t.Errorf("%d states, complete %v, bound %q", r.States, r.Complete, r.Bound)
	}
}
