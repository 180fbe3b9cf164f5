package stack_test

import (
	"fmt"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/stack"
	"churnbed/node/wire"
)

func config() stack.Config {
	return stack.Config{
		Self: core.Peer{ID: 0, Inc: core.FirstIncarnation}, Nodes: 3,
		Members:    []core.Peer{{ID: 1, Inc: core.FirstIncarnation}, {ID: 2, Inc: core.FirstIncarnation}},
		Neighbours: []core.NodeID{1, 2}, LinkDelay: []int64{5e6, 7e6},
		Algorithm:  stack.Algorithm{Name: "camera"},
		Membership: stack.Membership{Service: "static"},
	}
}

func TestValidate(t *testing.T) {
	if _, err := stack.New(config()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*stack.Config){
		"algorithm":  func(c *stack.Config) { c.Algorithm.Name = "dijkstra" },
		"service":    func(c *stack.Config) { c.Membership.Service = "" },
		"no nodes":   func(c *stack.Config) { c.Nodes = 0 },
		"many nodes": func(c *stack.Config) { c.Nodes = core.MaxNodes + 1 },
		"self":       func(c *stack.Config) { c.Self.ID = 3 },
		"own member": func(c *stack.Config) { c.Members[0].ID = 0 },
		"member":     func(c *stack.Config) { c.Members[0].ID = -1 },
		"neighbour":  func(c *stack.Config) { c.Neighbours[1] = 3 },
	} {
		c := config()
		spoil(&c)
		if n, err := stack.New(c); err == nil {
			t.Errorf("%s: accepted as %v", name, n)
		}
	}
}

// run lets a node alone for a while and returns its lines and frames.
func run(t *testing.T, n *stack.Node, from, to core.Instant) (lines []*eventlog.Event, frames []wire.Frame) {
	t.Helper()
	for now := max(n.Deadline(), from); now <= to; now = max(n.Deadline(), now) {
		for _, e := range n.Step(now, stack.Tick{}, nil) {
			switch e.Op {
			case stack.Log:
				lines = append(lines, e.Event)
			case stack.Send:
				frames = append(frames, e.Frame)
			case stack.State, stack.Joined, stack.Idle, stack.End:
			}
		}
	}
	return lines, frames
}

// Probes take turns over the neighbours at their pace, spread over the
// interval by node; one that comes late does not make others hurry.
func TestProbes(t *testing.T) {
	for id, first := range map[core.NodeID]core.Instant{0: 1e9, 2: 1e9 + 666666666} {
		c := config()
		c.ProbeEvery, c.Self.ID = time.Second, id
		c.Members[1].ID = 1
		n, err := stack.New(c)
		if err != nil {
			t.Fatal(err)
		}
		n.Step(0, stack.Boot{}, nil)
		if d := n.Deadline(); d != first {
			t.Errorf("node %d probes first at %v, want %v", id, d, first)
		}
		_, frames := run(t, n, 0, first+4e9)
		var to []core.NodeID
		for _, f := range frames {
			if p := f.Msg.(*wire.Probe); p.N != uint64(len(to)/2+1) {
				t.Errorf("probe %d has number %d", len(to), p.N)
			}
			to = append(to, f.To)
		}
		if fmt.Sprint(to) != "[1 2 1 2 1]" {
			t.Errorf("probes went to %v", to)
		}
		_, frames = run(t, n, 100e9, 100e9)
		if len(frames) != 1 || n.Deadline() != 101e9 {
			t.Errorf("%d probes after a pause, the next at %v", len(frames), n.Deadline())
		}
	}
}

// Received probes are measured against the configured delay, which Relink
// changes; gaps in their numbers are losses.
func TestProbeFigures(t *testing.T) {
	c := config()
	c.CountersEvery = time.Minute
	n, err := stack.New(c)
	if err != nil {
		t.Fatal(err)
	}
	n.Step(0, stack.Boot{}, nil)
	probe := func(now core.Instant, from core.NodeID, no uint64, sent core.Instant) {
		f := wire.Frame{From: core.Peer{ID: from, Inc: core.FirstIncarnation}, Msg: &wire.Probe{N: no, Sent: sent}}
		n.Arrive(now, &f, 30, nil)
	}
	probe(1e9, 1, 1, 1e9-5e6)     // in time
	probe(2e9, 1, 4, 2e9-5e6-1e6) // two lost, 1 ms late
	n.Step(2e9, stack.Relink{Delay: []int64{6e6, 7e6}}, nil)
	probe(3e9, 1, 5, 3e9-6e6) // in time
	lines, _ := run(t, n, 0, 60e9)
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	if c := lines[0].Recv["PROBE"]; c.N != 3 || c.Bytes != 90 {
		t.Errorf("received %+v", lines[0].Recv)
	}
	p := lines[1].Probe
	if p == nil || p.Received != 3 || p.Lost != 2 || p.MaxErr != 1e6 || p.SumErr != 1e6 || p.DelayErr[0] != 2 {
		t.Errorf("probe line %+v", p)
	}
	if lines, _ := run(t, n, 61e9, 120e9); len(lines) != 1 {
		t.Errorf("%d lines after a minute without probes, want the counters only", len(lines))
	}
}

// Frames that cannot be of this mesh are dropped before they touch anything.
func TestStrangers(t *testing.T) {
	n, err := stack.New(config())
	if err != nil {
		t.Fatal(err)
	}
	n.Step(0, stack.Boot{}, nil)
	for _, id := range []core.NodeID{0, 3, core.MaxNodes - 1} {
		f := wire.Frame{
			From: core.Peer{ID: id, Inc: core.FirstIncarnation}, Reliable: true, Seq: 1,
			Msg: &wire.Request{ID: core.RequestID{Node: id, Inc: core.FirstIncarnation, TS: 9}},
		}
		if out := n.Arrive(1, &f, 20, nil); len(out) > 0 {
			t.Errorf("a frame of node %d was answered: %+v", id, out)
		}
	}
}

// Nothing that anybody may send makes a node panic or answer without end.
func FuzzArrive(f *testing.F) {
	for _, m := range []core.Message{
		&wire.Request{ID: core.RequestID{Node: 1, Inc: 1024, TS: 3}}, &wire.OK{ID: core.RequestID{Inc: 1024, TS: 1}, Set: []core.Peer{{ID: 2, Inc: 1024}}},
		&wire.Release{ID: core.RequestID{Node: 1, Inc: 1024, TS: 3}}, &wire.Recover{Nonce: 2048}, &wire.Recovered{Nonce: 1024},
		&wire.ReportAlive{Table: []wire.Entry{{Inc: 1024, State: wire.MemberFailed}}}, &wire.Leave{}, &wire.Probe{N: 1},
	} {
		frame := wire.Frame{From: core.Peer{ID: 1, Inc: 1024}, Reliable: true, Seq: 1, HasAck: true, AckInc: 1024, AckSeq: 1, Msg: m}
		f.Add(frame.Append(nil), true)
		f.Add(frame.Append(nil), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, medley bool) {
		frame, err := wire.Parse(b)
		if err != nil {
			return
		}
		c := config()
		c.Restarted = len(b)%2 == 0
		if medley {
			c.Membership.Service = "medley"
		}
		n, err := stack.New(c)
		if err != nil {
			t.Fatal(err)
		}
		n.Step(0, stack.Boot{}, nil)
		n.Step(1, stack.Begin{Epoch: 1}, nil)
		n.Step(2, stack.Enter{No: 1, CS: 1}, nil)
		for now := core.Instant(3); now < 6; now++ {
			if out := n.Arrive(now, &frame, len(b), nil); len(out) > 200 {
				t.Errorf("%d effects of one frame", len(out))
			}
		}
		if d := n.Deadline(); d < 6 {
			n.Step(6, stack.Tick{}, nil)
		}
	})
}

func BenchmarkArrive(b *testing.B) {
	n, err := stack.New(config())
	if err != nil {
		b.Fatal(err)
	}
	n.Step(0, stack.Boot{}, nil)
	frame := wire.Frame{From: core.Peer{ID: 1, Inc: 1024}, Reliable: true}
	var out []stack.Effect
	var now core.Instant
	msg := &wire.Request{ID: core.RequestID{Node: 1, Inc: 1024}}
	frame.Msg = msg
	b.ReportAllocs()
	for b.Loop() {
		now++
		frame.Seq++
		msg.ID.TS++
		out = n.Arrive(now, &frame, 20, out[:0])
	}
	if len(out) != 1 {
		b.Fatalf("%d effects", len(out))
	}
}
