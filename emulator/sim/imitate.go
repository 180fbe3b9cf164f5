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
	switch {
	case w.cfg.Imitate.Multicast && kind == wire.KindRelease:
		w.multicast(id, f, size, at)
	case at > w.now && w.hopwise:
		e := w.events.add(at)
		e.kind, e.node, e.size, e.frame = hop, id, size, *f
	default:
		w.forward(id, f, size, at)
	}
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

// flood remembers which links the RELEASEs of one step have passed.
type flood struct {
	seen map[int32]passage
	any  bool
}

type passage struct {
	at      core.Instant
	dropped bool
}

// begin starts the next step.
func (fl *flood) begin() {
	if fl.any {
		clear(fl.seen)
		fl.any = false
	}
}

// multicast sends one RELEASE of a step along the tree of the routes. Links
// that a RELEASE of the same step has passed carry nothing more. The whole
// way is computed at once: links that change while a RELEASE is under way do
// not matter to it.
func (w *World) multicast(from core.NodeID, f *wire.Frame, size int, at core.Instant) {
	fl := &w.flood
	if fl.seen == nil {
		fl.seen = map[int32]passage{}
	}
	fl.any = true
	routes := w.mesh.Routes()
	for cur := from; cur != f.To; {
		next := routes.Next(cur, f.To)
		if next == core.None {
			return
		}
		k := w.linkOf[int(cur)*len(w.nodes)+int(next)]
		p, passed := fl.seen[k]
		if !passed {
			if !w.mesh.Links[k/2].Up {
				return
			}
			s := &w.Stats.Links[k]
			s.Frames++
			s.Bytes += int64(size)
			w.Stats.Hops[wire.ClassMutex]++
			w.Stats.HopBytes += int64(size)
			p.at, p.dropped = w.chans[k].Send(at, size)
			if p.dropped {
				s.Dropped++
				w.Stats.Dropped++
			}
			fl.seen[k] = p
		}
		if p.dropped {
			return
		}
		cur, at = next, p.at
	}
	e := w.events.add(at)
	e.kind, e.node, e.size, e.frame = deliver, f.To, size, *f
}
