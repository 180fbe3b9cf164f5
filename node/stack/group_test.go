package stack

import (
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/kgroup"
	"churnbed/node/wire"
)

// TestGroup runs one smart node that manages itself: the stack hands inputs,
// time and messages to the k-groups, and their lines and frames out.
func TestGroup(t *testing.T) {
	cfg := Config{
		Self: core.Peer{ID: 0, Inc: core.FirstIncarnation}, Nodes: 2,
		Algorithm: Algorithm{Name: Hub}, Membership: Membership{Service: "static"},
		Group: &kgroup.Config{
			Policy: kgroup.Hash, Locks: kgroup.SLA, Ping: time.Second, Tries: 3, Smart: []core.NodeID{0},
			Places: []kgroup.Place{{}, {1}}, Of: []kgroup.Group{0, 0}, Centres: []kgroup.Place{{0.5}},
			Routines: []kgroup.Routine{{Commands: []kgroup.Command{{Device: 0, Takes: time.Second}}}},
		},
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var now core.Instant
	out := n.Step(now, Boot{}, nil)
	out = n.Step(now, Begin{Epoch: now}, out)
	out = n.Step(now, Trigger{Routine: 0}, out)
	for range 200 {
		if now = n.Deadline(); now > core.Instant(5*time.Second) {
			break
		}
		out = n.Step(now, Tick{}, out)
	}
	pinged, done := false, false
	for _, e := range out {
		if e.Op == Send && e.To == 1 && e.Frame.Class() == wire.ClassGroup {
			pinged = true
		}
		if e.Op == Log && e.Event.Kind == eventlog.Routine && e.Event.State == "RELEASING_LOCKS" {
			done = e.Event.KG != nil && e.Event.T >= int64(time.Second)
		}
	}
	if !pinged || !done {
		t.Errorf("device pinged: %v, routine done: %v", pinged, done)
	}
	cfg.Group = nil
	if _, err := New(cfg); err == nil {
		t.Error("hub without a group: no error")
	}
}
