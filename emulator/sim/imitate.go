package sim

import (
	"churnbed/node/core"
	"churnbed/node/stack"
	"churnbed/node/wire"
)

// send hands a frame of node id to the network.
func (w *World) send(id core.NodeID, f *wire.Frame, size int) {
	kind := byte(0)
	if f.Msg != nil {
		kind = f.Msg.Kind()
	}
	at := w.now
	if w.local != nil && (kind == wire.KindRequest || kind == wire.KindRelease) {
		w.Stats.Hops[wire.ClassMutex]++
		w.Stats.HopBytes += int64(size)
		t, dropped := w.local[id].Send(at, size)
		if dropped {
			w.lost(f, at)
			return
		}
		at = t
	}
	if at > w.now && w.hopwise {
		e := w.events.add(at)
		e.kind, e.node, e.size, e.frame = hop, id, size, *f
		return
	}
	w.forward(id, f, size, at)
}

// lost notes the loss of a frame at an instant, not before now. With
// stack.SourceFixed its source, if it is still in the same life, sends the
// message again.
func (w *World) lost(f *wire.Frame, at core.Instant) {
	if w.cfg.Imitate.Resend == 0 || f.Msg == nil || wire.KindClass(f.Msg.Kind()) != wire.ClassMutex {
		return
	}
	again, from := stack.Resend{To: f.To, Msg: f.Msg}, f.From
	w.after(at.Add(w.cfg.Imitate.Resend), func() {
		if w.nodes[from.ID].inc == from.Inc {
			w.command(from.ID, again)
		}
	})
}

// okSetter is an algorithm that can tell the set of an OK.
type okSetter interface {
	OKSet(to core.NodeID) []core.Peer
}

// refresh replaces the set of an OK by what its sender would tell now. A
// sender that is gone told what it told.
func (w *World) refresh(f *wire.Frame) {
	ok, isOK := f.Msg.(*wire.OK)
	if !isOK {
		return
	}
	from := &w.nodes[f.From.ID]
	if !from.alive || from.inc != f.From.Inc {
		return
	}
	if m, can := from.machine.Mutex().(okSetter); can {
		live := *ok
		live.Set = m.OKSet(f.To)
		f.Msg = &live
	}
}
