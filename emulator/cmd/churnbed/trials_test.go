package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"churnbed/emulator/scenario"
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

// A trial can be run again from its directory or by its seed, into a directory
// of the user's choice; what would change it is refused.
func TestSimReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	digest := func(dir string) string {
		t.Helper()
		r, err := results.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return r.Manifest.LogDigest
	}
	mesh := []string{"--nodes", "7", "--requests", "3", "--link-loss", "0.1", "--seed", "20", "--quiet"}
	sim := func(more ...string) outcome { return churnbed(t, slices.Concat([]string{"sim"}, mesh, more)...) }
	sim("--trials", "3", "--out", in("set")).want(t, 0)
	first := in("set/trials/21")
	churnbed(t, "sim", "--replay", first, "--out", in("again"), "--quiet").want(t, 0)
	sim("--trials", "3", "--replay", "21", "--out", in("seed")).want(t, 0)
	for _, name := range []string{"again", "seed"} {
		if d := digest(in(name)); d == "" || d != digest(first) {
			t.Errorf("%s: digest %q, was %q", name, d, digest(first))
		}
	}
	churnbed(t, "sim", "--replay", first, "--nodes", "8").want(t, exitUsage)
	churnbed(t, "sim", "other.yaml", "--replay", first).want(t, exitUsage)
}

// The command that a run names next can be pasted, whatever its directory is
// called.
func TestNextIsQuoted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's here")
	o := churnbed(t, "sim", "--nodes", "3", "--topology", "full", "--requests", "2", "--out", dir)
	o.want(t, 0)
	if !strings.Contains(o.stdout, `it'\''s here'`) {
		t.Error(o)
	}
}

// Of commands that are given no --out and start at once each takes a name; a
// name that the user chose is not replaced by another.
func TestNewRun(t *testing.T) {
	for _, c := range []struct {
		out   string
		tries int
	}{{"", 3}, {"mine", 1}} {
		tries := 0
		run, err := newRun(&scenario.Scenario{Name: "n", Out: c.out}, func(string) (*results.Run, error) {
			if tries++; tries < 3 {
				return nil, fmt.Errorf("create run directory: %w", fs.ErrExist)
			}
			return &results.Run{}, nil
		})
		if tries != c.tries || (run == nil) != (c.out != "") || (err != nil) != (c.out != "") {
			t.Errorf("--out %q: %d tries, %v", c.out, tries, err)
		}
	}
}

func TestCustomary(t *testing.T) {
	for words, want := range map[string]string{
		"churnbed":                          "churnbed",
		"churnbed help":                     "churnbed --help",
		"churnbed help topo show":           "churnbed topo show --help",
		"churnbed --version":                "churnbed version",
		"churnbed -v --json":                "churnbed version --json",
		"churnbed exec 3 -- help --version": "churnbed exec 3 -- help --version",
	} {
		if got := strings.Join(customary(strings.Fields(words)), " "); got != want {
			t.Errorf("%s: got %s, want %s", words, got, want)
		}
	}
}
