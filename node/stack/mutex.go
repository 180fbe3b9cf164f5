package stack

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/membership"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// stepMutex steps the algorithm and carries out what it asks.
func (n *Node) stepMutex(now core.Instant, in mutex.Input) { n.stepMutexThen(now, in, nil) }

// stepMutexThen calls then (which logs) between the step and its effects.
func (n *Node) stepMutexThen(now core.Instant, in mutex.Input, then func()) {
	fx := &n.mfx
	fx.Reset()
	n.mutex.Step(now, in, fx)
	if fx.Persist != nil {
		*n.out = append(*n.out, Effect{Op: Persist, Data: fx.Persist})
	}
	if then != nil {
		then()
	}
	for _, p := range fx.Failed {
		n.logPeer(now, p, membership.Failed)
	}
	for _, p := range fx.Returned {
		n.logPeer(now, p, membership.Up)
	}
	for i := range fx.Facts {
		n.logFact(now, &fx.Facts[i])
	}
	for _, s := range fx.Notes {
		n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Note, Text: s})
	}
	if n.local != nil {
		for _, id := range fx.Forget {
			n.logPort(now, id, "down")
		}
	}
	if !fx.Given.IsZero() {
		n.given(now, fx.Given)
	}
	if fx.Granted {
		n.granted(now)
	}
	for _, id := range fx.Forget {
		n.endpoint.Forget(id)
	}
	released := false
	for _, s := range fx.Sends {
		if n.local != nil {
			n.bounds.sent(s.Msg)
		}
		if n.cfg.Algorithm.Release == Multicast && s.Mode == core.Datagram && s.Msg.Kind() == wire.KindRelease {
			if !released { // one flood, however many are addressed
				n.beginFlood(s.Msg)
				released = true
			}
			continue
		}
		if n.cfg.Transport.Mode == SourceFixed {
			s.Mode = core.Datagram
		}
		n.transmit(n.endpoint.Send(now, s, n.frames[:0]))
	}
	// Membership may step the algorithm again, which reuses fx.
	if len(fx.Learned) > 0 {
		for _, p := range slices.Clone(fx.Learned) {
			n.stepMembership(now, membership.Learned{Peer: p})
		}
	}
}

// logPeer logs what the algorithm itself found out about a peer.
func (n *Node) logPeer(now core.Instant, p core.Peer, what membership.ChangeKind) {
	id := int32(p.ID)
	n.log(&eventlog.Event{
		T: int64(now), Kind: eventlog.Member, Peer: &id, PeerInc: uint32(p.Inc), Change: what.String(), Size: n.membership.Size(),
	})
}

func (n *Node) logFact(now core.Instant, f *mutex.Fact) {
	e := &eventlog.Event{T: int64(now), Kind: eventlog.Token, Change: f.What.String(), Slot: f.Slot, Order: f.Order}
	if !f.For.IsZero() {
		e.Req = f.For.String()
	}
	if f.Again {
		e.Text = eventlog.Again
	}
	if f.What == mutex.TakenOver || f.What == mutex.GaveBack {
		peer := int32(f.Peer)
		e.Peer = &peer
	}
	n.log(e)
}

func (n *Node) granted(now core.Instant) {
	n.exitAt = now.Add(n.current.cs)
	e := &eventlog.Event{T: int64(now), Kind: eventlog.Enter, Req: n.mutex.Request().String(), No: n.current.no, Grants: 1}
	if m, ok := n.mutex.(mutex.Asker); ok {
		n.ids = m.Asked(n.ids[:0])
		e.Asked, e.Grants = eventlog.FormatRanges(n.ids), m.Grants()
	}
	if m, ok := n.mutex.(interface{ Slow() bool }); ok && m.Slow() {
		e.Text = eventlog.SlowPath
	}
	n.lockSet(e)
	n.log(e)
}

// given records that a request was given up. A node that was in the critical
// section does not try again: its section was cut short. One that waited asks
// anew under its new incarnation, unless it leaves.
func (n *Node) given(now core.Instant, r core.RequestID) {
	held := n.exitAt != core.Never
	n.exitAt = core.Never
	e := &eventlog.Event{T: int64(now), Kind: eventlog.Fenced, Req: r.String(), No: n.current.no, State: mutex.Wait.String()}
	if held {
		e.State = mutex.Held.String()
	}
	n.log(e)
	switch {
	case held:
		if n.cfg.Closed != nil {
			n.thinkAgain(now)
		}
	case n.leaving != core.Never:
		n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Dropped, No: n.current.no})
	default:
		n.queue = append([]request{n.current}, n.queue...)
	}
	n.current = request{}
}
