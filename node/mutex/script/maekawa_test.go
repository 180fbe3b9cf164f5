package script

import (
	"strings"
	"testing"
)

// full are the lists of n nodes that all know each other.
func full(n int) [][]int {
	lists := make([][]int, n)
	for i := range lists {
		for j := range n {
			lists[i] = append(lists[i], j)
		}
	}
	return lists
}

// maekawaSpaces have equal lists and no restarts; all but the last are
// explored to their ends.
var maekawaSpaces = map[string]ExploreConfig{
	"two of two":     {Lists: full(2), Entries: []int{2, 2}, Duplicates: 1},
	"three of three": {Lists: full(3), Entries: []int{1, 1, 1}, Duplicates: 1},
	"two of four":    {Lists: full(4), Entries: []int{1, 0, 0, 2}},
	"three of four":  {Lists: full(4), Entries: []int{1, 1, 0, 1}},
	"three of five":  {Lists: full(5), Entries: []int{1, 0, 1, 0, 1}},
	"four of four":   {Lists: full(4), Entries: []int{1, 1, 1, 1}},
}

func exploreMaekawa(algorithm string, cfg ExploreConfig, most int) ExploreResult {
	cfg.Algorithm, cfg.Stuck, cfg.MaxStates = algorithm, true, most
	return Explore(cfg)
}

// TestExploreMaekawa: nobody enters while another is in the section, and
// nobody is stuck, where maekawa-basic is.
func TestExploreMaekawa(t *testing.T) {
	for name, cfg := range maekawaSpaces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := exploreMaekawa("maekawa", cfg, 150000)
			if r.Violation != "" || !r.Complete && name != "four of four" {
				t.Errorf("%s, complete %v\n%s", r.Violation, r.Complete, strings.Join(r.Schedule, "\n"))
			}
			basic := exploreMaekawa("maekawa-basic", cfg, 100000)
			if !strings.HasPrefix(basic.Violation, "STUCK") {
				t.Errorf("maekawa-basic: %q after %d states (complete %v), want STUCK", basic.Violation, basic.States, basic.Complete)
			}
			t.Logf("%d states, complete %v; maekawa-basic stuck after %d", r.States, r.Complete, basic.States)
		})
	}
}

// maekawaWalks change no membership; in "fenced" waiting and holding nodes
// are told to give up.
var maekawaWalks = map[string]WalkConfig{
	"2 nodes": {Nodes: 2, Steps: 300, Listed: 1, Duplicates: true},
	"4 nodes": {Nodes: 4, Steps: 500, Listed: 1, Duplicates: true},
	"5 nodes": {Nodes: 5, Steps: 500, Listed: 1},
	"7 nodes": {Nodes: 7, Steps: 800, Listed: 1, Duplicates: true},
	"9 nodes": {Nodes: 9, Steps: 1200, Listed: 1, Duplicates: true},
	"fenced":  {Nodes: 6, Steps: 700, Listed: 1, Fences: true},
}

func TestWalkMaekawa(t *testing.T) {
	for name, cfg := range maekawaWalks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Algorithm = "maekawa"
			entries := 0
			for seed := range uint64(*walks) {
				r := Walk(seed, cfg)
				if r.Violation != "" || r.Waiting != 0 {
					t.Fatalf("seed %d: %s, %d left waiting\n%s", seed, r.Violation, r.Waiting, strings.Join(r.Trace, "\n"))
				}
				entries += r.Entries
			}
			t.Logf("%d entries", entries)
			if entries < 3**walks {
				t.Errorf("%d walks made %d entries: too few to tell", *walks, entries)
			}
		})
	}
}

// TestMaekawaSafeguards: without any one of its safeguards maekawa violates or
// gets stuck, so exploration and walks would tell if one did not work.
func TestMaekawaSafeguards(t *testing.T) {
	for reading, want := range map[string]string{
		"without-displaced": "STUCK", "without-failed": "STUCK", "without-inquiry": "STUCK", "without-early": "STUCK",
		"without-rounds": "VIOLATION", "without-hold": "VIOLATION",
	} {
		t.Run(reading, func(t *testing.T) {
			t.Parallel()
			algorithm := "maekawa+" + reading
			found := ""
			for _, name := range []string{"two of two", "three of three", "three of four", "four of four"} {
				if r := exploreMaekawa(algorithm, maekawaSpaces[name], 100000); strings.Contains(r.Violation, want) {
					found = "exploration"
					t.Logf("%d states, %d lines: %s: %s", r.States, len(r.Schedule), name, r.Violation)
					break
				}
			}
			for seed := range uint64(3000) {
				cfg := maekawaWalks["9 nodes"]
				cfg.Algorithm = algorithm
				r := Walk(seed, cfg)
				if want == "STUCK" && r.Waiting > 0 || want == "VIOLATION" && r.Violation != "" {
					found += " walk"
					t.Logf("walk %d", seed)
					break
				}
			}
			if found == "" {
				t.Errorf("neither exploration nor walks found a %s", want)
			}
		})
	}
}

// TestWalkMaekawaChurn: where lists differ or nodes fail, two enter at once,
// which is how ALGORITHMS 3 has it; but nobody waits for ever once the
// trouble is over.
func TestWalkMaekawaChurn(t *testing.T) {
	for name, cfg := range configs("maekawa") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			violations := 0
			for seed := range uint64(*walks) {
				r := Walk(seed, cfg)
				if r.Waiting > 0 {
					t.Fatalf("seed %d: %d left waiting\n%s", seed, r.Waiting, strings.Join(r.Trace, "\n"))
				}
				if r.Violation != "" {
					violations++
				}
			}
			if violations == 0 {
				t.Errorf("no violation in %d walks", *walks)
			}
			t.Logf("%d of %d walks violate", violations, *walks)
		})
	}
}
