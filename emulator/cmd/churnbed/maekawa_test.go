package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"churnbed/results"
)

// Nodes 0 and 10 have disjoint voting sets: both variants of Maekawa let both
// in, simulated and on real processes.
func TestMaekawaDisjointVotingSets(t *testing.T) {
	needRuns(t)
	file, err := filepath.Abs("../../../workloads/scenarios/maekawa11.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ verb, algorithm string }{{"sim", "maekawa"}, {"sim", "maekawa-basic"}, {"run", "maekawa"}} {
		for try := 1; ; try++ {
			dir := filepath.Join(t.TempDir(), "run")
			o := churnbed(t, c.verb, file, "--algorithm", c.algorithm, "--requests", "6", "--out", dir, "--seed", fmt.Sprint(try), "--quiet")
			if o.code == 0 && c.verb == "run" && try < 5 {
				continue // a loaded host may start the two far apart
			}
			o.want(t, 1)
			if s := summary(t, dir); s.Safety.Violations == 0 || s.Safety.MaxConcurrent != 2 || s.Verdict != results.VerdictViolation || s.Requests.Served != 6 {
				t.Errorf("%s %s: %+v %+v", c.verb, c.algorithm, s.Safety, s.Requests)
			}
			break
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	churnbed(t, "sim", file, "--algorithm", "camera", "--requests", "6", "--out", dir, "--quiet").want(t, 0)
}
