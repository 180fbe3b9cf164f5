package sim_test

import (
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/stack"
	"churnbed/workloads"
)

// When all nodes are killed at once nobody remembers, and nobody is ever let
// in again, unless they kept what others rely on.
func TestMassKill(t *testing.T) {
	for _, c := range []struct {
		name, service string
		durable       bool
		estimate      string
		kill          time.Duration
		served        bool
	}{
		{"oracle, forgetful", "oracle", false, "", 20 * time.Second, false},
		{"oracle, durable", "oracle", true, "", 20 * time.Second, true},
		{"medley, forgetful", "medley", false, "", 20 * time.Second, false},
		{"medley, durable", "medley", true, "", 20 * time.Second, true},
		{"oracle, durable, estimated", "oracle", true, stack.Gossip, 20 * time.Second, true},
		{"medley, durable, estimated", "medley", true, stack.Gossip, 20 * time.Second, true},
		// Nobody has a bound yet, and all are later lives from then on.
		{"oracle, durable, estimated, at once", "oracle", true, stack.Gossip, 2 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const nodes = 9
			s := &scene{nodes: nodes, area: 7, loss: 0.05, seed: 5, algorithm: "camera", membership: c.service}
			s.tune = func(cfg *stack.Config) { cfg.Algorithm.Durable, cfg.Algorithm.Estimate = c.durable, c.estimate }
			all := make([]core.NodeID, nodes)
			for i := range all {
				all[i] = core.NodeID(i)
			}
			s.faults = []workloads.Fault{
				{At: c.kill, Verb: workloads.Crash, Nodes: all},
				{At: c.kill + 5*time.Second, Verb: workloads.Restart, Nodes: all},
				{At: 60 * time.Second, Verb: workloads.Crash, Nodes: all[:6]},
				{At: 70 * time.Second, Verb: workloads.Restart, Nodes: all[:6]},
			}
			for i := range 40 {
				s.arrivals = append(s.arrivals, workloads.Arrival{
					No: i + 1, At: time.Duration(i) * 2500 * time.Millisecond, Node: all[(i*5)%nodes], CS: 700 * time.Millisecond,
				})
			}
			j := newJudge(nodes)
			s.log = j.line
			w := s.world(t)
			if err := w.Run(nil); err != nil {
				t.Fatal(err)
			}
			for _, v := range j.violations {
				t.Error(v)
			}
			if served := len(j.wants) == 0; served != c.served {
				t.Errorf("%d requests were not served, %d were, %d of %d nodes amnesiac", len(j.wants), j.served, len(j.amnesiac), nodes)
			}
			t.Logf("%d served, %d not", j.served, len(j.wants))
		})
	}
}
