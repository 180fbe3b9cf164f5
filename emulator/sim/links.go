package sim

import (
	"churnbed/node/core"
	"churnbed/node/stack"
	"churnbed/node/wire"
	"churnbed/workloads"
)

// cutFirst takes down the links that are down at first, before any node runs.
func (w *World) cutFirst() {
	if len(w.cfg.Down) == 0 {
		return
	}
	f := workloads.Fault{Verb: workloads.LinkDown}
	for _, i := range w.cfg.Down {
		l := &w.mesh.Links[i]
		f.Links = append(f.Links, [2]core.NodeID{l.A, l.B})
	}
	w.applyLinks(w.mesh.Apply(&f), string(f.Verb))
}

// linkBetween is the direction of the link from one node to another in chans.
func (w *World) linkBetween(from, to core.NodeID) (k int32, ok bool) {
	k = w.linkOf[int(from)*len(w.nodes)+int(to)]
	l := &w.mesh.Links[k/2]
	return k, l.A == from && l.B == to || l.A == to && l.B == from
}

// sendOver sends a frame over the link to its destination, if that is up.
func (w *World) sendOver(from core.NodeID, f *wire.Frame, size int) {
	k, ok := w.linkBetween(from, f.To)
	if !ok || !w.mesh.Links[k/2].Up {
		return
	}
	s := &w.Stats.Links[k]
	s.Frames++
	s.Bytes += int64(size)
	w.Stats.Hops[f.Class()]++
	w.Stats.HopBytes += int64(size)
	at, dropped := w.chans[k].Send(w.now, size)
	if dropped {
		s.Dropped++
		w.Stats.Dropped++
		return
	}
	e := w.events.add(at)
	e.kind, e.node, e.size, e.frame = overLink, from, size, *f
}

// arriveOver delivers a frame, unless the link has gone meanwhile.
func (w *World) arriveOver(from core.NodeID, f *wire.Frame, size int) {
	if k, ok := w.linkBetween(from, f.To); ok && w.mesh.Links[k/2].Up {
		w.deliver(f.To, f, size)
	}
}

// tellLinks tells a node that has just started of the links that it has.
func (w *World) tellLinks(id core.NodeID) {
	if n := &w.nodes[id]; !n.alive || !n.machine.Links() {
		return
	}
	for i := range w.mesh.Links {
		l := &w.mesh.Links[i]
		if l.Up && (l.A == id || l.B == id) {
			w.command(id, stack.LinkUp{Peer: l.A + l.B - id})
		}
	}
}

// detect tells the ends of link i that it went or came. A node that started
// meanwhile knows.
func (w *World) detect(i int) {
	l := &w.mesh.Links[i]
	up := l.Up
	for _, end := range [2][2]core.NodeID{{l.A, l.B}, {l.B, l.A}} {
		id, peer := end[0], end[1]
		if n := &w.nodes[id]; !n.alive || !n.machine.Links() {
			continue
		}
		var in stack.Input = stack.LinkDown{Peer: peer}
		if up {
			in = stack.LinkUp{Peer: peer}
		}
		if w.cfg.Detection == 0 {
			w.command(id, in)
			continue
		}
		inc := w.nodes[id].inc
		w.after(w.now.Add(w.cfg.Detection), func() {
			if w.nodes[id].inc == inc {
				w.command(id, in)
			}
		})
	}
}
