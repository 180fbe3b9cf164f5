package camera

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

const first = core.FirstIncarnation

func peers(ids ...core.NodeID) []core.Peer {
	var list []core.Peer
	for _, k := range ids {
		list = append(list, core.Peer{ID: k, Inc: first})
	}
	return list
}

// started returns a machine of node 0 in a first life.
func started(nUpper int, members ...core.NodeID) *Machine {
	m := New(core.Peer{ID: 0, Inc: first}, Config{NUpper: nUpper, SuspicionWait: 10 * time.Second, Reask: time.Second})
	m.Step(0, mutex.Start{Members: peers(members...)}, &mutex.Effects{})
	return m
}

func step(m *Machine, now core.Instant, in mutex.Input) mutex.Effects {
	var out mutex.Effects
	m.Step(now, in, &out)
	return out
}

func receive(from core.NodeID, inc core.Incarnation, msg core.Message) mutex.Receive {
	return mutex.Receive{From: core.Peer{ID: from, Inc: inc}, Msg: msg}
}

func to(out mutex.Effects, kind byte) []core.NodeID {
	var ids []core.NodeID
	for _, s := range out.Sends {
		if s.Msg.Kind() == kind {
			ids = append(ids, s.To)
		}
	}
	return ids
}

func TestUncontended(t *testing.T) {
	m := started(5, 1, 2, 3, 4)
	out := step(m, 0, mutex.Enter{})
	if got := to(out, wire.KindRequest); !slices.Equal(got, []core.NodeID{1, 2, 3, 4}) {
		t.Fatalf("asked %v", got)
	}
	for k := core.NodeID(1); k <= 4; k++ {
		if m.State() != mutex.Wait {
			t.Fatalf("%v before node %d answered", m.State(), k)
		}
		out = step(m, 0, receive(k, first, &wire.OK{ID: m.Request()}))
	}
	if !out.Granted || m.State() != mutex.Held || m.Grants() != 5 || m.Deadline() != core.Never {
		t.Fatalf("granted %v, %v, %d grants, deadline %v", out.Granted, m.State(), m.Grants(), m.Deadline())
	}
	out = step(m, 0, mutex.Exit{})
	if got := to(out, wire.KindRelease); len(got) != 4 || m.State() != mutex.None || len(m.Asked(nil)) != 0 {
		t.Fatalf("released to %v, %v, asked %v", got, m.State(), m.Asked(nil))
	}
}

// TestNoMajorityWaits: a list of at most NUpper/2 nodes does not do, until
// peers appear.
func TestNoMajorityWaits(t *testing.T) {
	m := started(4, 1)
	step(m, 0, mutex.Enter{})
	step(m, 0, receive(1, first, &wire.OK{ID: m.Request()}))
	if m.State() != mutex.Wait || m.Grants() != 2 {
		t.Fatalf("%v with %d of 4", m.State(), m.Grants())
	}
	out := step(m, 0, mutex.MemberUp{Peer: core.Peer{ID: 2, Inc: first}})
	if got := to(out, wire.KindRequest); !slices.Equal(got, []core.NodeID{2}) {
		t.Fatalf("asked %v", got)
	}
	if out = step(m, 0, receive(2, first, &wire.OK{ID: m.Request()})); !out.Granted {
		t.Fatal("not granted by 3 of 4")
	}
}

// TestSilentOK: a detected failure counts after the wait, a message of the peer
// begins the wait anew, and a graceful leave counts at once; none is a grant.
func TestSilentOK(t *testing.T) {
	m := started(3, 1, 2)
	step(m, 0, mutex.Enter{})
	step(m, 0, receive(2, first, &wire.OK{ID: m.Request()}))
	step(m, 0, mutex.MemberDown{Peer: core.Peer{ID: 1, Inc: first}})
	late := core.Instant(4 * time.Second)
	step(m, late, receive(1, first, &wire.Release{ID: core.RequestID{Node: 1, Inc: first, TS: 1}}))
	step(m, core.Instant(10*time.Second), mutex.Tick{})
	if m.State() != mutex.Wait {
		t.Fatal("the wait did not begin anew")
	}
	out := step(m, late.Add(10*time.Second), mutex.Tick{})
	if out.Granted || !slices.Contains(to(out, wire.KindRequest), 2) || !slices.Equal(out.Forget, []core.NodeID{1}) {
		t.Fatalf("granted %v on a grant from before the failure; asked %v again, forget %v", out.Granted, to(out, wire.KindRequest), out.Forget)
	}
	out = step(m, late.Add(10*time.Second), receive(2, first, &wire.OK{ID: m.Request()}))
	if !out.Granted || m.Grants() != 2 {
		t.Fatalf("granted %v, %d grants", out.Granted, m.Grants())
	}
	step(m, late, mutex.Exit{})
	m = started(3, 1, 2)
	step(m, 0, mutex.Enter{})
	step(m, 0, receive(2, first, &wire.OK{ID: m.Request()}))
	if out = step(m, 0, mutex.MemberDown{Peer: core.Peer{ID: 1, Inc: first}, Left: true}); !out.Granted {
		t.Fatal("a graceful leave is waited for")
	}
}

// TestFence: the request is given up, the deferred are answered, the next
// request is of the higher incarnation, and the node remembers.
func TestFence(t *testing.T) {
	m := started(3, 1, 2)
	step(m, 0, mutex.Enter{})
	old := m.Request()
	for k := core.NodeID(1); k <= 2; k++ {
		step(m, 0, receive(k, first, &wire.OK{ID: old}))
	}
	r := core.RequestID{Node: 1, Inc: first, TS: 5}
	step(m, 0, receive(1, first, &wire.Request{ID: r}))
	out := step(m, 0, mutex.Fence{Inc: first + 1})
	if out.Given != old || m.State() != mutex.None || !slices.Equal(to(out, wire.KindOK), []core.NodeID{1}) {
		t.Fatalf("gave up %v, %v, OK to %v", out.Given, m.State(), to(out, wire.KindOK))
	}
	if ok := out.Sends[len(out.Sends)-1].Msg.(*wire.OK); ok.Amnesiac {
		t.Error("a fenced node says it is amnesiac")
	}
	out = step(m, 0, mutex.Enter{})
	if m.Request().Inc != first+1 || !slices.Contains(to(out, wire.KindRequest), 1) {
		t.Errorf("next request %v to %v", m.Request(), to(out, wire.KindRequest))
	}
}

// TestNewsIsToldOnce: a restart that the requester is known to have heard of
// from this node is left out of the next OK.
func TestNewsIsToldOnce(t *testing.T) {
	m := started(3, 1, 2)
	step(m, 0, mutex.MemberUp{Peer: core.Peer{ID: 2, Inc: 2 * first}})
	ask := func(ts, news uint64) *wire.OK {
		out := step(m, 0, receive(1, first, &wire.Request{ID: core.RequestID{Node: 1, Inc: first, TS: ts}, News: news, NewsInc: first}))
		return out.Sends[0].Msg.(*wire.OK)
	}
	for ts := uint64(1); ts < 3; ts++ { // told again until it is heard
		if ok := ask(ts, 0); ok.News != 1 || !slices.Equal(ok.Lives, []core.Peer{{ID: 2, Inc: 2 * first}}) {
			t.Fatalf("first: %+v", ok)
		}
	}
	if ok := ask(3, 1); ok.News != 0 || ok.Lives != nil {
		t.Fatalf("heard: %+v", ok)
	}
	step(m, 0, mutex.MemberUp{Peer: core.Peer{ID: 1, Inc: 2 * first}}) // forgot what it heard
	out := step(m, 0, receive(1, 2*first, &wire.Request{ID: core.RequestID{Node: 1, Inc: 2 * first, TS: 1}}))
	if ok := out.Sends[0].Msg.(*wire.OK); ok.News != 2 || len(ok.Lives) != 2 {
		t.Fatalf("after its restart: %+v", ok)
	}
}

// TestAppendStateIsCanonical: the order of independent inputs does not show.
func TestAppendStateIsCanonical(t *testing.T) {
	a, b := started(9, 1, 2), started(9, 2, 1)
	for _, k := range []core.NodeID{5, 6, 7} {
		step(a, 0, receive(k, first, &wire.Request{ID: core.RequestID{Node: k, Inc: first, TS: 4}}))
	}
	for _, k := range []core.NodeID{7, 5, 6} {
		step(b, 0, receive(k, first, &wire.Request{ID: core.RequestID{Node: k, Inc: first, TS: 4}}))
	}
	if !bytes.Equal(a.AppendState(nil), b.AppendState(nil)) {
		t.Error("equal states encode differently")
	}
	step(b, 0, mutex.Enter{})
	if bytes.Equal(a.AppendState(nil), b.AppendState(nil)) {
		t.Error("different states encode alike")
	}
}

// BenchmarkRequest is one uncontended request at one of 1000 nodes.
func BenchmarkRequest(b *testing.B) {
	const n = 1000
	var ids []core.NodeID
	for k := core.NodeID(1); k < n; k++ {
		ids = append(ids, k)
	}
	m := started(n, ids...)
	var out mutex.Effects
	for b.Loop() {
		out.Reset()
		m.Step(0, mutex.Enter{}, &out)
		for k := core.NodeID(1); k < n; k++ {
			m.Step(0, receive(k, first, &wire.OK{ID: m.Request()}), &out)
		}
		if m.State() != mutex.Held {
			b.Fatal("not granted")
		}
		m.Step(0, mutex.Exit{}, &out)
	}
}

// A node that a recovery told of, and that no membership service lists, is
// probed when it is asked for being on record only: it may have died before
// this life began (BUGS 33).
func TestRecoveredOwnerIsProbed(t *testing.T) {
	const again = 2 * core.IncarnationStep
	m := New(core.Peer{ID: 0, Inc: again}, Config{NUpper: 3, SuspicionWait: time.Second, Probe: Probe{Timeout: 8 * time.Second}})
	step(m, 0, mutex.Start{Members: peers(1, 2), Restarted: true})
	for _, k := range []core.NodeID{1, 2} {
		r := &wire.Recovered{Nonce: again, Requests: []core.RequestID{{Node: 5, Inc: first, TS: 1}}}
		step(m, 0, receive(k, first, r))
	}
	step(m, 0, mutex.Enter{})
	for _, k := range []core.NodeID{1, 2} {
		step(m, 0, receive(k, first, &wire.OK{ID: m.cur}))
	}
	if m.State() != mutex.Wait || !m.at(5).pending {
		t.Fatalf("state %v: node 5 is not asked", m.State())
	}
	for m.State() == mutex.Wait {
		now := m.Deadline()
		if now > core.Instant(30*time.Second) {
			t.Fatal("nobody probes node 5: the request waits for ever")
		}
		for _, k := range to(step(m, now, mutex.Tick{}), wire.KindRequest) {
			step(m, now, receive(k, first, &wire.OK{ID: m.cur}))
		}
	}
}

// A holder stands still on the small side of a partition, and a waiter there
// has grants of the large side from before it: it must not enter before nodes
// that it can reach make a majority again (BUGS 35).
func TestOldGrantsDoNotOutvoteAHolder(t *testing.T) {
	for _, without := range []Safeguard{0, Renewal} {
		m := New(core.Peer{ID: 0, Inc: first}, Config{NUpper: 5, SuspicionWait: time.Second, Reask: time.Hour, Without: without})
		step(m, 0, mutex.Start{Members: peers(1, 2, 3, 4)})
		step(m, 0, mutex.Enter{})
		for k := core.NodeID(2); k <= 4; k++ { // 1 holds
			step(m, 0, receive(k, first, &wire.OK{ID: m.cur, Set: peers(1)}))
		}
		step(m, 1, mutex.MemberDown{Peer: peers(1)[0]}) // nobody has missed 3 and 4 yet
		out := step(m, m.down[0].at, mutex.Tick{})
		if out.Granted != (without == Renewal) {
			t.Fatalf("granted %v without %d", out.Granted, without)
		}
		if without == Renewal {
			continue
		}
		late := core.Instant(2 * time.Second)
		step(m, late, receive(2, first, &wire.OK{ID: m.cur})) // its side
		if m.State() != mutex.Wait {
			t.Fatal("entered on the word of two of five")
		}
		step(m, late, receive(3, first, &wire.OK{ID: m.cur})) // healed
		if out := step(m, late, receive(4, first, &wire.OK{ID: m.cur})); !out.Granted {
			t.Error("not granted by everyone that is left")
		}
	}
}
