package camera

import (
	"slices"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// crowd returns a machine, node 0, that has granted a request of every id of
// 2..n+1 and knows that many of them have restarted, and who they are.
func crowd(t *testing.T, n int) (*Machine, []core.Peer) {
	t.Helper()
	m := New(core.Peer{ID: 0, Inc: first}, Config{NUpper: 2 * n, SuspicionWait: 10 * time.Second})
	m.Step(0, mutex.Start{}, &mutex.Effects{})
	var list []core.Peer
	for i := range n {
		p := core.Peer{ID: core.NodeID(2 + i), Inc: core.Incarnation(1+i*i%23)*core.IncarnationStep + core.Incarnation(i%5)}
		r := core.RequestID{Node: p.ID, Inc: p.Inc, TS: uint64(1 + i*7919%n*1000)}
		out := step(m, 0, mutex.Receive{From: p, Msg: &wire.Request{ID: r}})
		if got := to(out, wire.KindOK); !slices.Equal(got, []core.NodeID{p.ID}) {
			t.Fatalf("OKs to %v, want %v", got, p.ID)
		}
		list = append(list, p)
	}
	return m, list
}

// frame checks that a message fits in a frame and returns what is read of it.
func frame(t *testing.T, s core.Send) core.Message {
	t.Helper()
	f := wire.Frame{From: core.Peer{ID: core.MaxNodes - 2, Inc: 1<<32 - 1}, To: s.To, Reliable: true, Seq: 1 << 40, HasAck: true, AckInc: 1<<32 - 1, AckSeq: 1 << 40, Msg: s.Msg}
	b := f.Append(nil)
	if len(b) > wire.MaxFrame {
		t.Fatalf("a %s of %d bytes, frames have at most %d", wire.KindName(s.Msg.Kind()), len(b), wire.MaxFrame)
	}
	g, err := wire.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return g.Msg
}

// A set that does not fit in a frame arrives whole, in parts, and grants
// nothing before its last part, also where each part comes twice.
func TestOKInParts(t *testing.T) {
	m, list := crowd(t, 2000)
	p := New(core.Peer{ID: 1, Inc: first}, Config{NUpper: 4000})
	p.Step(0, mutex.Start{Members: peers(0)}, &mutex.Effects{})
	under := step(p, 0, mutex.Enter{}).Sends
	parts := 0
	for len(under) > 0 {
		s := under[0]
		under = under[1:]
		if s.To > 1 {
			continue // to whom it learned of
		}
		for again := range 2 {
			if s.To == 0 {
				out := step(m, 0, mutex.Receive{From: p.self, Msg: frame(t, s)})
				if len(out.Sends) != 1 {
					t.Fatalf("%d messages answer a REQUEST", len(out.Sends))
				}
				if again == 0 {
					under = append(under, out.Sends...)
				}
				continue
			}
			msg := frame(t, s).(*wire.OK)
			out := step(p, 0, mutex.Receive{From: m.self, Msg: msg})
			last := msg.Next == core.None
			if again == 0 {
				parts++
				under = append(under, out.Sends...)
			}
			if p.at(0).granted != last {
				t.Fatalf("granted is %v, last part %v", p.at(0).granted, last)
			}
			if last && len(under) == 0 {
				break
			}
		}
	}
	if parts < 2 || !p.at(0).granted {
		t.Fatalf("%d parts, granted %v", parts, p.at(0).granted)
	}
	for _, q := range list {
		if e := p.at(q.ID); !e.pending || e.life.Start() < q.Inc.Start() {
			t.Fatalf("node %v, which was granted before, is not waited for: %+v", q, e)
		}
	}
}

// Once a request has left rec, the parts of its grant are void: what was
// granted meanwhile is named by the new grant only.
func TestPartsOfAnotherGrant(t *testing.T) {
	m, _ := crowd(t, 2000)
	r := core.RequestID{Node: 1, Inc: first, TS: 5}
	one := step(m, 0, receive(1, first, &wire.Request{ID: r})).Sends[0].Msg.(*wire.OK)
	if one.Grant == 0 || one.Next == core.None {
		t.Fatalf("the set fits: %+v", one)
	}
	next := &wire.Request{ID: r, NewsInc: first, Grant: one.Grant, Start: one.Next}
	next.News = one.News
	if two := step(m, 0, receive(1, first, next)).Sends[0].Msg.(*wire.OK); two.Grant != one.Grant || two.Start != one.Next {
		t.Errorf("the next part is %d from %d on, want %d from %d", two.Grant, two.Start, one.Grant, one.Next)
	}
	step(m, 0, mutex.MemberDown{Peer: core.Peer{ID: 1, Inc: first}, Left: true})
	if anew := step(m, 0, receive(1, first, next)).Sends[0].Msg.(*wire.OK); anew.Grant == one.Grant || anew.Start != 0 {
		t.Errorf("a void grant goes on: %d from %d", anew.Grant, anew.Start)
	}
}

// The answer to RECOVER arrives whole as well, and counts when it is.
func TestRecoveredInParts(t *testing.T) {
	m, list := crowd(t, 2000)
	const again = 2 * core.IncarnationStep
	p := New(core.Peer{ID: 1, Inc: again}, Config{NUpper: 2})
	out := step(p, 0, mutex.Start{Members: peers(0), Restarted: true})
	parts := 0
	for p.amnesiac {
		i := slices.IndexFunc(out.Sends, func(s core.Send) bool { return s.To == 0 })
		if i < 0 {
			t.Fatal("nothing is asked of node 0 any more")
		}
		answer := step(m, 0, mutex.Receive{From: p.self, Msg: frame(t, out.Sends[i])}).Sends
		parts++
		out = step(p, 0, mutex.Receive{From: m.self, Msg: frame(t, answer[0])})
	}
	if parts < 2 {
		t.Fatalf("%d parts", parts)
	}
	for _, q := range list {
		if r := p.rec.Get(q.ID); r != m.rec.Get(q.ID) {
			t.Fatalf("node %d: recovered %v, want %v", q.ID, r, m.rec.Get(q.ID))
		}
		if q.Inc.Start() > 1 && p.at(q.ID).life.Start() != q.Inc.Start() {
			t.Fatalf("node %d: knows life %v, want %v", q.ID, p.at(q.ID).life, q.Inc)
		}
	}
}

// A grant whose first parts left during an amnesia is void once the recovery
// has told of requests that they lack.
func TestPartsAcrossRecovery(t *testing.T) {
	const again = 2 * core.IncarnationStep
	// One member a message: what the amnesiac node 9 grants to 1 names 5.
	m := New(core.Peer{ID: 9, Inc: again}, Config{NUpper: 3, MaxMessage: 1})
	step(m, 0, mutex.Start{Members: peers(0, 3), Restarted: true})
	step(m, 0, receive(6, first, &wire.Request{ID: core.RequestID{Node: 6, Inc: first, TS: 1}}))
	step(m, 0, receive(7, first, &wire.Request{ID: core.RequestID{Node: 7, Inc: first, TS: 1}}))
	r := core.RequestID{Node: 1, Inc: first, TS: 9}
	var one *wire.OK
	next := &wire.Request{ID: r}
	for { // past the news, to the first part with members
		one = step(m, 0, receive(1, first, next)).Sends[0].Msg.(*wire.OK)
		if len(one.Set) > 0 {
			break
		}
		next = &wire.Request{ID: r, NewsInc: again, Grant: one.Grant, Start: one.Next, News: one.News}
	}
	if !one.Amnesiac || one.Next != 7 {
		t.Fatalf("the first part is %+v, want an amnesiac one up to 7", one)
	}
	old := core.RequestID{Node: 2, Inc: first, TS: 1} // granted by the earlier life
	for _, k := range []core.NodeID{0, 3} {
		step(m, 0, receive(k, first, &wire.Recovered{Nonce: again, Requests: []core.RequestID{old}}))
	}
	if m.amnesiac || m.rec.Get(2) != old {
		t.Fatalf("amnesiac %v, recovered %v", m.amnesiac, m.rec.Get(2))
	}
	next = &wire.Request{ID: r, NewsInc: again, Grant: one.Grant, Start: one.Next, News: one.News}
	two := step(m, 0, receive(1, first, next)).Sends[0].Msg.(*wire.OK)
	if two.Grant == one.Grant || two.Start != 0 {
		t.Errorf("the amnesiac grant goes on: %+v", two)
	}
}
