package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"churnbed/node/eventlog"
	"churnbed/results"
)

// All real nodes are killed at once, twice. With durable state they go on where
// they were; without it nobody could enter again.
func TestDurableAfterMassKill(t *testing.T) {
	needRuns(t)
	t.Parallel()
	const nodes = 6
	dir := filepath.Join(t.TempDir(), "run")
	o := churnbed(t, quick(dir, "--topology", "grid", "--nodes", fmt.Sprint(nodes), "--membership", "oracle",
		"--requests", "30", "--mean", "100ms", "--cs", "30ms",
		"--fault", "at 700ms crash nodes 0-5 restart after 200ms", "--fault", "at 2s crash nodes 0-5 restart after 200ms", "--durable")...)
	o.want(t, 0)
	s := summary(t, dir)
	if s.Safety.Violations != 0 || s.Verdict != results.VerdictOK || s.Churn.Kills != 2*nodes {
		t.Errorf("summary %+v", s)
	}
	served := 0
	for k := range nodes {
		if _, err := os.Stat(filepath.Join(dir, "nodes", fmt.Sprintf("%d.state", k))); err != nil {
			t.Error(err)
		}
		for _, e := range nodeEvents(t, dir, k) {
			switch {
			case e.Kind == eventlog.Note && e.Text == "amnesiac":
				t.Errorf("node %d has forgotten something in life %d", k, e.Inc)
			case e.Kind == eventlog.Enter && e.Inc >= 3<<10:
				served++
			}
		}
	}
	if served == 0 {
		t.Error("nobody entered after the second time")
	}
}
