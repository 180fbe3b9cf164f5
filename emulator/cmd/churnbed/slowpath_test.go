package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"churnbed/results"
)

// Every node lists two of nine, so nobody's list makes a majority: camera
// serves all through its slow path, simulated and on real processes, and
// serves nobody without it.
func TestSlowPath(t *testing.T) {
	needRuns(t)
	const nodes = 9
	var lists strings.Builder
	for k := range nodes {
		fmt.Fprintf(&lists, "%d: %d %d\n", k, (k+1)%nodes, (k+2)%nodes)
	}
	file := filepath.Join(t.TempDir(), "lists")
	if err := os.WriteFile(file, []byte(lists.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	alone := []string{
		"--membership", "static:" + file, "--algorithm", "camera", "--topology", "grid", "--rows", "3", "--cols", "3",
		"--arrivals", "burst", "--cs", "20ms", "--quiet", "--requesters",
	}
	args := append(slices.Clone(alone), "list:0,1,2,3,4,5,6,7,8")
	alone = append(alone, "list:0")
	for _, verb := range []string{"sim", "run"} {
		dir := filepath.Join(t.TempDir(), "run")
		o := churnbed(t, append([]string{verb, "--out", dir}, args...)...)
		o.want(t, 0)
		s := summary(t, dir)
		if s.Safety.Violations != 0 || s.Safety.MaxConcurrent != 1 || s.Requests.Served != nodes || s.Requests.SlowPath != nodes || s.Verdict != results.VerdictOK {
			t.Errorf("%s: %+v %+v", verb, s.Safety, s.Requests)
		}
		if want := "slow path           9 of 9 entries"; !strings.Contains(o.stdout, want) {
			t.Errorf("%s: no line %q in %v", verb, want, o)
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	// One alone: of nine that ask at once, each learns of the others.
	churnbed(t, append([]string{"sim", "--out", dir, "--slow-path", "off", "--drain", "1m"}, alone...)...).want(t, 1)
	if s := summary(t, dir); s.Requests.Served != 0 || s.Requests.SlowPath != 0 {
		t.Errorf("off: %+v", s.Requests)
	}
}

// Under static membership nobody but camera itself finds out that a node which
// a request met is dead (trap H8): it does, the published algorithm waits.
func TestDeadAcquaintance(t *testing.T) {
	needRuns(t)
	file := filepath.Join(t.TempDir(), "lists")
	if err := os.WriteFile(file, []byte("0: 2\n1: 2\n2: 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--membership", "static:" + file, "--topology", "grid", "--rows", "1", "--cols", "3", "--probe-timeout", "2s",
		"--arrivals", "constant", "--mean", "1s", "--requesters", "list:1,0", "--requests", "2", "--cs", "900ms",
		"--fault", "at 1.5s crash node 1", "--drain", "20s", "--quiet",
	}
	for _, c := range []struct {
		verb, algorithm string
		served          int
	}{{"sim", "camera-paper", 0}, {"sim", "camera", 1}, {"run", "camera", 1}} {
		dir := filepath.Join(t.TempDir(), "run")
		o := churnbed(t, append([]string{c.verb, "--out", dir, "--algorithm", c.algorithm}, args...)...)
		s := summary(t, dir)
		if s.Churn.Kills != 1 || s.Requests.Served != c.served || s.Safety.Violations != 0 {
			t.Errorf("%s %s: %+v %+v\n%v", c.verb, c.algorithm, s.Requests, s.Churn, o)
		}
	}
}
