package camera

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// onTree returns a machine of node 0 that waits on the slow path, with the
// child 1 in its tree.
func onTree(nUpper int) *Machine {
	m := New(core.Peer{ID: 0, Inc: first}, Config{
		NUpper: nUpper, SuspicionWait: 10 * time.Second, Reask: time.Second, Slow: Slow{On: true}, Probe: Probe{Timeout: 8 * time.Second},
	})
	m.Step(0, mutex.Start{Members: peers(1)}, &mutex.Effects{})
	step(m, 0, mutex.Enter{})
	step(m, 0, receive(1, first, &wire.TreeAck{Tree: m.own.Tree, Answer: wire.TreeChild}))
	return m
}

// TestTreeGrants: grants of a tree count once, in the life that gave them, for
// the request that they name, and whoever they name is asked.
func TestTreeGrants(t *testing.T) {
	m := onTree(6)
	tree := m.own.Tree
	told := func(ok wire.TreeOK) mutex.Effects { return step(m, 0, receive(1, first, &ok)) }

	wrong := tree
	wrong.ID.TS++
	told(wire.TreeOK{Tree: wrong, Grants: peers(1, 2, 3)})
	if m.Grants() != 1 || m.own.told {
		t.Fatalf("%d grants of another request's tree", m.Grants())
	}
	m.learnLife(0, core.Peer{ID: 3, Inc: 2 * core.IncarnationStep}, &mutex.Effects{})
	told(wire.TreeOK{Tree: tree, Grants: peers(1, 2, 3), Amnesiac: peers(4)})
	told(wire.TreeOK{Tree: tree, Grants: peers(1, 2, 3), Amnesiac: peers(4)})
	if m.Grants() != 3 {
		t.Fatalf("%d grants, want the node's own, p1's and p2's: p3 is in a newer life, p4 amnesiac", m.Grants())
	}
	// What a life of p2 has heard of p1's restart takes p1's grant back before
	// its own counts (H4a).
	told(wire.TreeOK{Tree: tree, Grants: peers(5), Lives: []core.Peer{{ID: 1, Inc: 2 * core.IncarnationStep}}})
	if m.Grants() != 3 || !m.at(1).pending {
		t.Fatalf("%d grants, p1 pending %v", m.Grants(), m.at(1).pending)
	}
	out := step(m, 0, receive(2, first, &wire.TreeOK{Tree: tree, Grants: peers(4), Recent: peers(7)}))
	if m.Grants() != 4 || !slices.Contains(to(out, wire.KindRequest), 7) || m.State() != mutex.Wait {
		t.Fatalf("%d grants, %v, asked %v", m.Grants(), m.State(), to(out, wire.KindRequest))
	}
}

// TestGivenUpGrantsNothing: who is given up meanwhile grants nothing by a late
// TREE-OK.
func TestGivenUpGrantsNothing(t *testing.T) {
	m := onTree(6)
	m.learnLife(0, core.Peer{ID: 2, Inc: first}, &mutex.Effects{})
	m.confirm(core.Peer{ID: 2, Inc: first}, &mutex.Effects{})
	step(m, 0, receive(1, first, &wire.TreeOK{Tree: m.own.Tree, Grants: peers(1, 2)}))
	if m.Grants() != 2 {
		t.Errorf("%d grants, want the node's own and p1's", m.Grants())
	}
}

// carry delivers everything between the machines until nothing is under way.
func carry(t *testing.T, nodes []*Machine, out mutex.Effects, from core.NodeID) {
	t.Helper()
	type letter struct {
		from core.NodeID
		send core.Send
	}
	var flight []letter
	add := func(from core.NodeID, out *mutex.Effects) {
		for _, s := range out.Sends {
			if n := len(s.Msg.AppendPayload(nil)); n > wire.MaxPayload {
				t.Fatalf("%s of %d bytes", wire.KindName(s.Msg.Kind()), n)
			}
			flight = append(flight, letter{from, s})
		}
	}
	add(from, &out)
	for len(flight) > 0 {
		l := flight[0]
		flight = flight[1:]
		out := step(nodes[l.send.To], 0, receive(l.from, first, l.send.Msg))
		add(l.send.To, &out)
	}
}

// TestLongMessages: a tree of so many nodes that neither its shape nor its
// grants fit into a frame; all of them count.
func TestLongMessages(t *testing.T) {
	const n, apart = 2000, 30
	nodes := make([]*Machine, n*apart)
	var everyone []core.Peer
	for i := range n {
		everyone = append(everyone, core.Peer{ID: core.NodeID(i * apart), Inc: first})
	}
	for i, p := range everyone {
		m := New(p, Config{NUpper: 2*n - 1, Slow: Slow{On: true}})
		start := mutex.Start{}
		switch i {
		case 0:
			start.Members = everyone[1:2]
		case 1:
			start.Members = everyone[2:]
		}
		m.Step(0, start, &mutex.Effects{})
		nodes[p.ID] = m
	}
	carry(t, nodes, step(nodes[0], 0, mutex.Enter{}), 0)
	if m := nodes[0]; m.State() != mutex.Held || m.Grants() != n {
		t.Errorf("%v with %d grants of %d", m.State(), m.Grants(), n)
	}
	if m := nodes[0]; len(m.partial)+len(nodes[apart].partial) > 0 {
		t.Error("pieces are left")
	}
	if c := nodes[0].own.contact(apart); len(c.shape) != n-2 {
		t.Errorf("a shape of %d nodes, want %d", len(c.shape), n-2)
	}
}

// TestSilence: a peer that nobody watches is probed, also through helpers, and
// fails by silence alone; one probe unanswered after the node stood still is
// no silence, and an answer from before proves nothing.
func TestSilence(t *testing.T) {
	start := func() *Machine {
		m := New(core.Peer{ID: 0, Inc: first}, Config{
			NUpper: 5, SuspicionWait: 10 * time.Second, Probe: Probe{Timeout: 8 * time.Second},
		})
		m.Step(0, mutex.Start{Members: peers(1, 2, 3)}, &mutex.Effects{})
		step(m, 0, mutex.Enter{})
		step(m, 0, receive(1, first, &wire.OK{ID: m.Request(), Set: peers(4)}))
		step(m, 0, receive(2, first, &wire.OK{ID: m.Request()}))
		step(m, 0, receive(3, first, &wire.OK{ID: m.Request()}))
		return m
	}
	second := func(n int) core.Instant { return core.Instant(n) * core.Instant(time.Second) }
	m := start()
	if out := step(m, second(60), mutex.Tick{}); len(m.down) > 0 || !slices.Equal(to(out, wire.KindAlive), []core.NodeID{4}) {
		t.Errorf("stood still: %v down, asked %v", m.down, to(out, wire.KindAlive))
	}
	m = start()
	var asked []core.NodeID
	for s := 2; s <= 8; s += 2 {
		out := step(m, second(s), mutex.Tick{})
		asked = append(asked, to(out, wire.KindAlive)...)
	}
	if fmt.Sprint(asked) != "[4 4 1 2 3 4 1 2 3 4 1 2 3]" {
		t.Errorf("probed %v", asked)
	}
	step(m, second(10), mutex.Tick{})
	if len(m.down) != 1 || m.State() != mutex.Wait {
		t.Fatalf("%v down, %v", m.down, m.State())
	}
	old := *m
	old.down = slices.Clone(m.down)
	old.peers = slices.Clone(m.peers)
	step(&old, second(11), receive(1, first, &wire.AliveAck{Peer: peers(4)[0], Origin: 0, Sent: second(2)}))
	if len(old.down) != 1 {
		t.Error("an answer from before ended the suspicion")
	}
	step(&old, second(12), receive(1, first, &wire.AliveAck{Peer: peers(4)[0], Origin: 0, Sent: second(11)}))
	if len(old.down) != 0 {
		t.Error("an answer did not end the suspicion")
	}
	step(m, m.down[0].at, mutex.Tick{})
	for _, k := range []core.NodeID{1, 2, 3} { // grants that are newer than the failure
		step(m, second(30), receive(k, first, &wire.OK{ID: m.Request()}))
	}
	if m.State() != mutex.Held || m.Grants() != 4 {
		t.Errorf("%v with %d grants", m.State(), m.Grants())
	}
}

// TestAliveRelays: a helper sends probes and answers on, and no farther.
func TestAliveRelays(t *testing.T) {
	m := started(5, 1, 2)
	probe := &wire.Alive{Target: 2, Origin: 1, Sent: 7}
	if out := step(m, 0, receive(1, first, probe)); !slices.Equal(to(out, wire.KindAlive), []core.NodeID{2}) {
		t.Errorf("sent on to %v", to(out, wire.KindAlive))
	}
	if out := step(m, 0, receive(3, first, probe)); len(out.Sends) > 0 {
		t.Errorf("sent on once more: %v", out.Sends)
	}
	ack := &wire.AliveAck{Peer: peers(2)[0], Origin: 1, Sent: 7}
	if out := step(m, 0, receive(2, first, ack)); !slices.Equal(to(out, wire.KindAliveAck), []core.NodeID{1}) {
		t.Errorf("answer sent on to %v", to(out, wire.KindAliveAck))
	}
	probe = &wire.Alive{Target: 0, Origin: 1, Sent: 7}
	if out := step(m, 0, receive(2, first, probe)); !slices.Equal(to(out, wire.KindAliveAck), []core.NodeID{2}) {
		t.Errorf("answered to %v", to(out, wire.KindAliveAck))
	}
}
