package sim_test

import (
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/workloads"
)

// A node that restarts between the detection of a dead requester and its
// confirmation takes over the dead one's request, while the list it is given
// no longer names it. It must find out nevertheless: a later request may not
// wait for the dead (BUGS 4).
func TestRecoveredGhost(t *testing.T) {
	const dead, restarted, later = 5, 7, 3
	s := &scene{nodes: 12, area: 7, seed: 4, algorithm: "camera", membership: "medley"}
	s.arrivals = []workloads.Arrival{
		{No: 1, At: 500 * time.Millisecond, Node: 1, CS: 5 * time.Second},
		{No: 2, At: time.Second, Node: dead, CS: time.Second},
		{No: 3, At: 120 * time.Second, Node: later, CS: time.Second},
	}
	s.faults = []workloads.Fault{
		{At: 2 * time.Second, Verb: workloads.Crash, Nodes: []core.NodeID{dead}},
		{At: 20 * time.Second, Verb: workloads.Crash, Nodes: []core.NodeID{restarted}},
		{At: 29 * time.Second, Verb: workloads.Restart, Nodes: []core.NodeID{restarted}},
	}
	var asked, entered int64
	s.log = func(id core.NodeID, e *eventlog.Event) {
		switch {
		case e.No == 3 && e.Kind == eventlog.Request:
			asked = e.T
		case e.No == 3 && e.Kind == eventlog.Enter:
			entered = e.T
		}
	}
	if err := s.world(t).Run(nil); err != nil {
		t.Fatal(err)
	}
	if entered == 0 {
		t.Fatal("the later request was never served")
	}
	if wait := time.Duration(entered - asked); wait > time.Second {
		t.Errorf("the later request waited %v: somebody still names the dead node", wait)
	}
}

// With an oracle a restarted node learns by its recovery of the request of a
// node that died before, of which nobody tells it any more. It finds out
// itself and is served, also where it asks that node for having its request on
// record only (BUGS 32, 33).
func TestRecoveredGhostOfTheOracle(t *testing.T) {
	const dead, restarted = 5, 7
	s := &scene{nodes: 12, area: 7, seed: 4, algorithm: "camera", membership: "oracle"}
	s.arrivals = []workloads.Arrival{
		{No: 1, At: 500 * time.Millisecond, Node: 1, CS: 5 * time.Second},
		{No: 2, At: time.Second, Node: dead, CS: time.Second},
		{No: 3, At: 10 * time.Second, Node: restarted, CS: time.Second},
		{No: 4, At: 11 * time.Second, Node: 3, CS: time.Second},
	}
	s.faults = []workloads.Fault{
		{At: 1900 * time.Millisecond, Verb: workloads.Crash, Nodes: []core.NodeID{restarted}},
		{At: 2 * time.Second, Verb: workloads.Crash, Nodes: []core.NodeID{dead}},
		{At: 2100 * time.Millisecond, Verb: workloads.Restart, Nodes: []core.NodeID{restarted}},
	}
	entered := map[int]int64{}
	s.log = func(_ core.NodeID, e *eventlog.Event) {
		if e.Kind == eventlog.Enter {
			entered[e.No] = e.T
		}
	}
	if err := s.world(t).Run(nil); err != nil {
		t.Fatal(err)
	}
	if entered[3] == 0 || entered[4] == 0 {
		t.Errorf("entered at %v: a request waits for the dead node", entered)
	}
}

// A run lasts until the last fault of a rule; churn goes on behind the
// workload and does not hold it (BUGS 26).
func TestLastsUntilTheLastFault(t *testing.T) {
	s := &scene{nodes: 6, area: 5, seed: 1, algorithm: "camera", membership: "static"}
	s.arrivals = []workloads.Arrival{{No: 1, At: time.Second, Node: 2, CS: time.Second}}
	s.faults = []workloads.Fault{
		{At: 20 * time.Second, Verb: workloads.Pause, Nodes: []core.NodeID{4}, Source: "faults:1"},
		{At: 21 * time.Second, Verb: workloads.Resume, Nodes: []core.NodeID{4}, Source: "faults:1"},
		{At: 90 * time.Second, Verb: workloads.Crash, Nodes: []core.NodeID{5}, Source: workloads.ChurnSource},
	}
	w := s.world(t)
	if err := w.Run(nil); err != nil {
		t.Fatal(err)
	}
	if w.Stats.Pauses != 1 || w.Stats.Kills != 0 {
		t.Errorf("%d pauses, %d kills; want the rule's pause and none of the churn", w.Stats.Pauses, w.Stats.Kills)
	}
}
