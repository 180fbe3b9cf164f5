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
	w.mesh.CutFirst(w.cfg.Down)
	w.applyLinks(nil, string(workloads.LinkDown))
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

// arriveOver delivers a frame, unless the link has gone meanwhile. What the end
// has not been told yet of the link it is told before, as real nodes are.
func (w *World) arriveOver(from core.NodeID, f *wire.Frame, size int) {
	k, ok := w.linkBetween(from, f.To)
	if !ok || !w.mesh.Links[k/2].Up {
		return
	}
	w.tellNews(linkEnd{int(k / 2), f.To}, core.Never)
	w.deliver(f.To, f, size)
}

// linkEnd is a node at an end of a link (index).
type linkEnd struct {
	link int
	node core.NodeID
}

// linkNews is what an end will be told at an instant, if it lives on.
type linkNews struct {
	at  core.Instant
	inc core.Incarnation
	in  stack.Input
}

// tellNews tells an end what is due until an instant.
func (w *World) tellNews(end linkEnd, until core.Instant) {
	for {
		list := w.news[end]
		if len(list) == 0 || list[0].at > until {
			return
		}
		w.news[end] = list[1:]
		if n := &w.nodes[end.node]; n.alive && n.inc == list[0].inc {
			w.command(end.node, list[0].in)
		}
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
		at, news := w.now.Add(w.cfg.Detection), linkEnd{i, id}
		w.news[news] = append(w.news[news], linkNews{at, w.nodes[id].inc, in})
		w.after(at, func() { w.tellNews(news, at) })
	}
}
