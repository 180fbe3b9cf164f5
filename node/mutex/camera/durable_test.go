package camera

import (
	"bytes"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// durable returns a started machine of node 0 among four.
func durable(restarted bool, kept []byte) (*Machine, *mutex.Effects) {
	self := core.Peer{ID: 0, Inc: core.FirstIncarnation}
	if restarted {
		self.Inc += core.IncarnationStep
	}
	m := New(self, Config{NUpper: 4, SuspicionWait: time.Second, Durable: true})
	var out mutex.Effects
	var members []core.Peer
	for k := core.NodeID(1); k < 4; k++ {
		members = append(members, core.Peer{ID: k, Inc: core.FirstIncarnation})
	}
	m.Step(0, mutex.Start{Members: members, Restarted: restarted, Kept: kept}, &out)
	return m, &out
}

// TestDurable: what a life has promised is kept with the step that promises it,
// and the next one knows it and is not amnesiac.
func TestDurable(t *testing.T) {
	m, out := durable(false, nil)
	if out.Persist == nil {
		t.Fatal("a first life keeps nothing: one that finds no file could not tell")
	}
	r := core.RequestID{Node: 2, Inc: core.FirstIncarnation, TS: 41}
	out.Reset()
	m.Step(0, mutex.Receive{From: core.Peer{ID: 2, Inc: r.Inc}, Msg: &wire.Request{ID: r}}, out)
	if len(out.Sends) != 1 || out.Persist == nil {
		t.Fatalf("%d messages, keeps %x", len(out.Sends), out.Persist)
	}
	kept := out.Persist
	out.Reset()
	m.Step(0, mutex.Receive{From: core.Peer{ID: 2, Inc: r.Inc}, Msg: &wire.Request{ID: r}}, out)
	if len(out.Sends) != 1 || out.Persist != nil {
		t.Errorf("the same once more: %d messages, keeps %x", len(out.Sends), out.Persist)
	}

	m, out = durable(true, kept)
	if m.amnesiac || m.rec.Get(2) != r || m.clk < 41 || out.Persist == nil {
		t.Errorf("amnesiac %v, granted %v, clock %d, keeps %x", m.amnesiac, m.rec, m.clk, out.Persist)
	}
	out.Reset()
	s := core.RequestID{Node: 3, Inc: core.FirstIncarnation, TS: 50}
	m.Step(0, mutex.Receive{From: core.Peer{ID: 3, Inc: s.Inc}, Msg: &wire.Request{ID: s}}, out)
	if ok, is := out.Sends[0].Msg.(*wire.OK); !is || ok.Amnesiac || len(ok.Set) != 1 || ok.Set[0].ID != 2 {
		t.Errorf("the OK to node 3 is %+v", out.Sends[0].Msg)
	}
}

// TestNothingKept: without a whole file the life is amnesiac; so is one whose
// predecessor was.
func TestNothingKept(t *testing.T) {
	m, out := durable(true, nil)
	if !m.amnesiac {
		t.Error("no file: not amnesiac")
	}
	if m, _ := durable(true, out.Persist); !m.amnesiac {
		t.Error("the life before had not recovered: not amnesiac")
	}
	_, first := durable(false, nil)
	for n := range first.Persist {
		if m, _ := durable(true, first.Persist[:n]); !m.amnesiac {
			t.Errorf("a file cut to %d bytes: not amnesiac", n)
		}
	}
}

// TestKeptBoundIsOld: the bound that an earlier life kept may be below the
// number of nodes by now: it is the least of what the estimator says, and
// before that the life has no say.
func TestKeptBoundIsOld(t *testing.T) {
	cfg := Config{NUpper: 1, Estimated: true, Durable: true}
	m := New(core.Peer{ID: 0, Inc: first}, cfg)
	step(m, 0, mutex.Start{Members: peers(1)})
	kept := step(m, 0, mutex.Bound{Nodes: 2}).Persist
	if kept == nil {
		kept = m.promises()
	}
	for life := core.Incarnation(2); life < 4; life++ { // the third has what the second was told of the first
		m = New(core.Peer{ID: 0, Inc: life * core.IncarnationStep}, cfg)
		kept = step(m, 0, mutex.Start{Members: peers(1), Restarted: true, Kept: kept}).Persist
	}
	out := step(m, 0, receive(2, first, &wire.Request{ID: core.RequestID{Node: 2, Inc: first, TS: 1}}))
	if ok, is := out.Sends[0].Msg.(*wire.OK); m.amnesiac || !is || !ok.Amnesiac {
		t.Fatalf("amnesiac %v, answers %+v", m.amnesiac, out.Sends[0].Msg)
	}
	step(m, 0, mutex.Enter{})
	for _, k := range []core.NodeID{1, 2} {
		step(m, 0, receive(k, first, &wire.OK{ID: m.cur}))
	}
	if m.State() != mutex.Wait {
		t.Fatal("entered by a bound of long ago")
	}
	if step(m, 0, mutex.Bound{Nodes: 1}); m.upper != 2 || m.State() != mutex.Held {
		t.Errorf("bound %d, %v", m.upper, m.State())
	}
}

func FuzzKept(f *testing.F) {
	m, _ := durable(false, nil)
	m.clk, m.upper = 300, 77
	m.rec.Put(core.RequestID{Node: 9, Inc: 2048, TS: 12})
	f.Add(m.promises())
	f.Add([]byte{durableVersion, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, ok := readKept(b)
		if !ok {
			return
		}
		n := New(core.Peer{ID: 1, Inc: 4096}, Config{NUpper: 4, Durable: true})
		var out mutex.Effects
		n.Step(0, mutex.Start{Restarted: true, Kept: bytes.Clone(b)}, &out)
		if len(n.rec) > len(k.rec) || n.clk < k.clk || n.Invariant() != "" {
			t.Errorf("%+v was taken in as %v, clock %d: %s", k, n.rec, n.clk, n.Invariant())
		}
	})
}
