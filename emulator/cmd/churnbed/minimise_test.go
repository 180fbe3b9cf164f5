package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"churnbed/emulator/minimise"
	"churnbed/results"
)

// violating are flags of a run in which nodes 0 and 1, which do not know each
// other, are let in at once, among much that does not matter.
func violating(t *testing.T) []string {
	t.Helper()
	lists := filepath.Join(t.TempDir(), "apart.lists")
	if err := os.WriteFile(lists, []byte("0: !1\n1: !0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{
		"--topology", "full", "--nodes", "5", "--algorithm", "ra", "--membership", "static:" + lists, "--link-delay", "2ms", "--link-loss", "0.01",
		"--arrival", "at 100ms node 3 for 10ms", "--arrival", "at 500ms node 0 for 2500ms", "--arrival", "at 4s node 2 for 10ms",
		"--arrival", "at 1500ms node 1 for 100ms", "--arrival", "at 4.1s node 4 for 10ms",
		"--fault", "at 100ms set all delay 3ms for 1s", "--fault", "at 300ms pause node 2 for 100ms", "--fault", "at 200ms link 3-4 down for 300ms",
		"--warmup", "200ms", "--drain", "10s", "--quiet",
	}
}

func TestMinimiseSimulated(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	flags := violating(t)
	churnbed(t, append([]string{"sim", "--out", dir}, flags...)...).want(t, 1)

	o := churnbed(t, "minimise", dir, "--json")
	o.want(t, 0)
	var r minimiseReport
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		t.Fatal(err)
	}
	want := []string{"at 500ms node 0 for 2.5s", "at 1.5s node 1 for 100ms"}
	if !slices.Equal(r.Items, want) || !r.Minimal || r.Property != minimise.Safety || r.Engine != results.Simulated || r.Before.Faults != 6 || r.Before.Requests != 5 {
		t.Errorf("%+v", r)
	}
	file := filepath.Join(t.TempDir(), "min.yaml")
	o = churnbed(t, "minimise", "--max-runs", "2", dir, "--out", file)
	o.want(t, 0)
	if !strings.Contains(o.stderr, "more might be left out: the bound of runs is reached") || !strings.Contains(o.stdout, file) {
		t.Errorf("%v", o)
	}
	o = churnbed(t, "sim", file, "--out", filepath.Join(t.TempDir(), "again"), "--quiet")
	o.want(t, 1)

	// Usage.
	churnbed(t, "minimise").want(t, 2)
	churnbed(t, "minimise", dir, "--property", "speed").want(t, 2)
	churnbed(t, "minimise", dir, "--engine", "both").want(t, 2)
	churnbed(t, "minimise", dir, "--repeat", "0").want(t, 2)
	churnbed(t, "minimise", dir, "--out", "/nowhere/x.yaml").want(t, 2)
	churnbed(t, "minimise", dir, "--property", "liveness").want(t, 1) // everyone is served

	// A run that fails nothing.
	camera := slices.Clone(flags)
	camera[slices.Index(camera, "ra")] = "camera"
	good := filepath.Join(t.TempDir(), "good")
	churnbed(t, append([]string{"sim", "--out", good}, camera...)...).want(t, 0)
	churnbed(t, "minimise", good).want(t, 2)
}

// A real run: first in the simulator, then on real processes.
func TestMinimiseRealProcesses(t *testing.T) {
	needRuns(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	churnbed(t, append([]string{"run", "--out", dir}, violating(t)...)...).want(t, 1)
	file := filepath.Join(t.TempDir(), "min.yaml")
	o := churnbed(t, "minimise", dir, "--out", file, "--repeat", "1")
	o.want(t, 0)
	if !strings.Contains(o.stderr, "now on real processes") || !strings.Contains(o.stdout, "safety fails with 0 of 6 faults and 2 of 5 requests (emulated") {
		t.Errorf("%v", o)
	}
	churnbed(t, "run", file, "--out", filepath.Join(t.TempDir(), "again"), "--quiet").want(t, 1)
}

// An interrupt writes the smallest schedule so far.
func TestMinimiseInterrupted(t *testing.T) {
	needRuns(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	churnbed(t, append([]string{"sim", "--out", dir}, violating(t)...)...).want(t, 1)
	file := filepath.Join(t.TempDir(), "min.yaml")
	s := begin(t, program(t, "churnbed"), nil, "minimise", dir, "--engine", "run", "--out", file)
	if !s.await("emulated, run 1:") {
		t.Fatal("no progress")
	}
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	s.end().want(t, 4)
	churnbed(t, "sim", file, "--out", filepath.Join(t.TempDir(), "again"), "--quiet").want(t, 1)
}
