package fairk

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// hosted is an id that this node acts for.
type hosted struct {
	m        member
	stamp    wire.Stamp
	replicas []replica

	out     uint64   // number of the last message of the id
	parcels []parcel // not known to have taken effect
	waiting []waiting
}

// replica is a node that keeps copies for this one.
type replica struct {
	node    core.NodeID
	version uint64       // acknowledged
	sent    core.Instant // of the last copy
}

// parcel is a message of an id to another. It is part of the id's state: who
// takes over sends it again.
type parcel struct {
	n       uint64
	to      core.NodeID
	msg     core.Message
	version uint64       // may leave once all replicas have this
	sent    core.Instant // last, if ever
	was     bool
}

// waiting is what may happen once all replicas have a version.
type waiting struct {
	version uint64
	facts   []mutex.Fact
	granted core.RequestID // zero: nothing is
	accept  []acceptance
}

// acceptance is owed to the node that delivered a message.
type acceptance struct {
	node core.NodeID
	from core.NodeID // id
	n    uint64
}

// copied is the state of an id that another node acts for.
type copied struct {
	stamp wire.Stamp
	state []byte
}

// active reports whether this node acts for the id of h in the view.
func (t *Tolerant) active(h *hosted) bool {
	return h != nil && t.live() && h.stamp.View == t.view.Num
}

// activate begins to act for an id in the view, from the state in h: all
// replicas are to have it under a stamp of the view before anything happens.
func (t *Tolerant) activate(h *hosted) {
	id := h.m.id
	took := t.hosted[id] == nil && id != t.self.ID
	t.hosted[id], t.copies[id] = h, nil
	h.stamp = wire.Stamp{View: t.view.Num, Version: h.stamp.Version + 1}
	h.replicas = h.replicas[:0]
	for _, n := range t.ring.heirs(t.view, id, t.cfg.Copies+1)[1:] {
		h.replicas = append(h.replicas, replica{node: n})
	}
	for i := range h.parcels {
		h.parcels[i].was = false
	}
	if took {
		t.fx.Facts = append(t.fx.Facts, mutex.Fact{What: mutex.TakenOver, Peer: id})
	}
	if id == t.self.ID {
		t.reconcile(h)
	} else if h.m.st != mutex.None {
		t.step(h, nil, h.m.giveUp) // its requester is gone
	}
	t.replicate(h, false)
	t.commit(h)
	early := t.early
	t.early = nil
	for _, d := range early {
		t.onDeliver(d.from, d.msg)
	}
}

// step lets the algorithm at the id do something. What follows from it waits
// until all replicas have the new state.
func (t *Tolerant) step(h *hosted, accept []acceptance, do func(*output)) {
	var o output
	before := h.m.append(nil)
	do(&o)
	if len(o.sends) == 0 && len(o.facts) == 0 && !o.granted && string(before) == string(h.m.append(nil)) {
		if len(accept) > 0 { // a repetition; what it repeats may not be safe yet
			h.waiting = append(h.waiting, waiting{version: h.stamp.Version, accept: accept})
			t.commit(h)
		}
		return
	}
	h.stamp.Version++
	for _, s := range o.sends {
		h.out++
		h.parcels = append(h.parcels, parcel{n: h.out, to: s.to, msg: s.msg, version: h.stamp.Version})
	}
	w := waiting{version: h.stamp.Version, facts: o.facts, accept: accept}
	if o.granted {
		w.granted = h.m.cur
	}
	h.waiting = append(h.waiting, w)
	t.replicate(h, false)
	t.commit(h)
}

// replicate sends the present state to the replicas that lack it; again: also
// to those that were sent it a period ago.
func (t *Tolerant) replicate(h *hosted, again bool) {
	var state []byte
	for i := range h.replicas {
		r := &h.replicas[i]
		if r.version >= h.stamp.Version || again && t.now.Sub(r.sent) < t.cfg.Period {
			continue
		}
		if state == nil {
			state = h.append(nil)
		}
		r.sent = t.now
		t.send(r.node, &wire.Copy{View: t.view.Num, ID: h.m.id, Stamp: h.stamp, State: state})
	}
}

// commit carries out what waited for what all replicas have by now.
func (t *Tolerant) commit(h *hosted) {
	if !t.active(h) || !t.leased() {
		return
	}
	v := h.stamp.Version
	for _, r := range h.replicas {
		v = min(v, r.version)
	}
	for len(h.waiting) > 0 && h.waiting[0].version <= v {
		w := h.waiting[0]
		h.waiting = slices.Delete(h.waiting, 0, 1)
		t.fx.Facts = append(t.fx.Facts, w.facts...)
		if !w.granted.IsZero() && h.m.id == t.self.ID && t.st == mutex.Wait && t.cur == w.granted {
			t.st, t.fx.Granted = mutex.Held, true
		}
		for _, a := range w.accept {
			t.sendOrHandle(a.node, &wire.Taken{View: t.view.Num, From: a.from, N: a.n})
		}
	}
	for i := range h.parcels {
		p := &h.parcels[i]
		if p.version > v || p.was && t.now.Sub(p.sent) < t.cfg.Period {
			continue
		}
		p.was, p.sent = true, t.now
		t.sendOrHandle(t.ring.host(t.view, p.to), &wire.Deliver{View: t.view.Num, From: h.m.id, To: p.to, N: p.n, Msg: p.msg})
	}
}

// delivered is a message that came before its id was active here.
type delivered struct {
	from core.NodeID
	msg  *wire.Deliver
}

func (t *Tolerant) onDeliver(from core.NodeID, m *wire.Deliver) {
	if !t.inView(m.View) || t.ring.host(t.view, m.To) != t.self.ID {
		return
	}
	h := t.hosted[m.To]
	if !t.active(h) {
		t.early = append(t.early, delivered{from, m})
		return
	}
	t.step(h, []acceptance{{from, m.From, m.N}}, func(o *output) { h.m.receive(m.Msg, o) })
}

func (t *Tolerant) onTaken(m *wire.Taken) {
	h := t.hosted[m.From]
	if !t.inView(m.View) || !t.active(h) {
		return // who acts for the id now sends again, and is told itself
	}
	// Copies may still have it: whoever takes over sends it once more.
	h.parcels = slices.DeleteFunc(h.parcels, func(p parcel) bool { return p.n == m.N })
}

// onCopy keeps a copy, or begins to act from it.
func (t *Tolerant) onCopy(from core.NodeID, m *wire.Copy) {
	if !t.inView(m.View) {
		return
	}
	h := t.hosted[m.ID]
	switch {
	case t.ring.host(t.view, m.ID) == t.self.ID:
		if t.active(h) {
			break // it was handed over before
		}
		if m.Stamp.Before(t.view.Nodes[m.ID].Floor) {
			return
		}
		h, err := readHosted(m.ID, m.State)
		if err != nil {
			t.fx.Notes = append(t.fx.Notes, "state of an id: "+err.Error())
			return
		}
		h.stamp = m.Stamp
		t.activate(h)
	case m.Stamp.View != m.View:
		return
	default:
		if c := t.copies[m.ID]; c == nil || c.stamp.Before(m.Stamp) {
			t.copies[m.ID] = &copied{stamp: m.Stamp, state: m.State}
		}
	}
	t.send(from, &wire.Copied{View: m.View, ID: m.ID, Version: m.Stamp.Version})
}

func (t *Tolerant) onCopied(from core.NodeID, m *wire.Copied) {
	if !t.inView(m.View) {
		return
	}
	if h := t.hosted[m.ID]; t.active(h) {
		for i := range h.replicas {
			if r := &h.replicas[i]; r.node == from && m.Version > r.version {
				r.version = m.Version
				t.commit(h)
			}
		}
		return
	}
	if from == t.ring.host(t.view, m.ID) {
		t.handed[m.ID] = t.view.Num
	}
}

// handOver sends the states that this node is to give to who acts for them
// now, until they have them.
func (t *Tolerant) handOver() {
	for i := range t.view.Nodes {
		id := core.NodeID(i)
		host := t.ring.host(t.view, id)
		c := t.copies[id]
		if t.view.Nodes[id].Source != t.self.ID || host == t.self.ID || c == nil || t.handed[id] == t.view.Num {
			continue
		}
		if c.stamp.View == t.view.Num {
			continue // it has come back, as a copy
		}
		t.send(host, &wire.Copy{View: t.view.Num, ID: id, Stamp: c.stamp, State: c.state})
	}
}

// begin begins to act for the ids that fall to this node in the view.
func (t *Tolerant) begin() {
	v := t.view
	if t.amnesiac {
		t.fx.Notes = append(t.fx.Notes, "recovered")
	}
	t.started, t.amnesiac, t.behind, t.early = true, false, false, nil
	for i, n := range v.Nodes {
		if n.Member && t.joins[i] <= n.Life {
			t.joins[i] = 0
		}
	}
	if v.Fresh {
		t.fx.Facts = append(t.fx.Facts, mutex.Fact{What: mutex.Rebuilt, Order: v.Num})
		t.asked = false
	}
	// What is not this node's any more becomes a copy first; then it acts.
	var mine []*hosted
	for i := range v.Nodes {
		id := core.NodeID(i)
		old := func(s wire.Stamp) bool { return v.Fresh || s.Before(v.Nodes[id].Floor) }
		host := t.ring.host(v, id) == t.self.ID
		h := t.hosted[id]
		if h != nil && (!host || old(h.stamp)) {
			t.copies[id] = &copied{stamp: h.stamp, state: h.append(nil)}
			t.hosted[id] = nil
			if id != t.self.ID {
				t.fx.Facts = append(t.fx.Facts, mutex.Fact{What: mutex.GaveBack, Peer: id})
			}
			h = nil
		}
		c := t.copies[id]
		if c != nil && old(c.stamp) {
			t.copies[id], c = nil, nil
		}
		switch {
		case !host:
		case h != nil:
			mine = append(mine, h)
		case c != nil:
			x, err := readHosted(id, c.state)
			if err != nil {
				t.fx.Notes = append(t.fx.Notes, "state of an id: "+err.Error())
				continue
			}
			x.stamp = c.stamp
			mine = append(mine, x)
		case v.Nodes[id].Source == core.None:
			mine = append(mine, t.first(id))
		}
	}
	for _, h := range mine {
		t.activate(h)
	}
	t.handOver()
	if !t.leased() {
		t.askAll()
	}
}

// first is the state of an id before anything happened to it in the view.
func (t *Tolerant) first(id core.NodeID) *hosted {
	v := t.view
	if !v.Fresh {
		var o output
		h := &hosted{m: newMember(id, t.cfg.Placement, false, false, &o)}
		t.fx.Facts = append(t.fx.Facts, o.facts...)
		return h
	}
	x := member{id: id, clk: 1, parent: v.Slots[0].Node}
	if x.parent == id {
		x.parent, x.lead, x.slots, x.ledFor = core.None, true, slices.Clone(v.Slots), v.Slots[0]
		t.fx.Facts = append(t.fx.Facts, mutex.Fact{What: mutex.Leads, For: x.ledFor})
	}
	for i, r := range v.Slots {
		if r.Node == id {
			x.token, x.slot, x.anchor = true, i, r
			t.fx.Facts = append(t.fx.Facts, mutex.Fact{What: mutex.TokenHeld, Slot: i, For: r})
			if id == t.self.ID && t.st == mutex.Held && t.cur == r {
				x.st, x.cur = mutex.Held, r
			}
		}
	}
	return &hosted{m: x}
}
