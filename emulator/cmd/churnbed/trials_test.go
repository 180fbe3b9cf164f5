package main

import (
	"path/filepath"
	"slices"
	"testing"

	"churnbed/results"
)

// Trials of real runs lie in one directory a seed; an existing one is refused.
func TestRunTrials(t *testing.T) {
	needRuns(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "set")
	churnbed(t, append(quick(dir, "--requests", "2"), "--trials", "2", "--quiet")...).want(t, 0)
	set, err := results.ReadSummaries(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(set.Seeds, []uint64{5, 6}) {
		t.Fatalf("seeds %v, want 5 and 6", set.Seeds)
	}
	for i, s := range set.Runs {
		if s.Seed != set.Seeds[i] || s.Engine != results.Emulated || s.Requests.Served != 2 {
			t.Errorf("%s run of seed %d served %d", s.Engine, s.Seed, s.Requests.Served)
		}
	}
	churnbed(t, append(quick(dir), "--trials", "2", "--quiet")...).want(t, 2)
}
