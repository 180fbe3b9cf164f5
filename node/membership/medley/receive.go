package medley

import (
	"math"
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/wire"
)

func (m *Machine) receive(now core.Instant, from core.Peer, msg core.Message, out *membership.Effects) {
	switch msg := msg.(type) {
	case *wire.Ping:
		m.evidence(now, from, msg.Count, wire.MemberActive, out)
		gap := now.Sub(m.lastPing)
		m.meanGap += time.Duration(m.cfg.ActiveWeight * float64(gap-m.meanGap))
		m.lastPing = now
		out.Send(from.ID, &wire.Ack{Seq: msg.Seq, Count: m.count, Table: m.table.entries(now)}, core.Datagram)
	case *wire.Ack:
		m.evidence(now, from, msg.Count, wire.MemberActive, out)
		m.merge(now, from.ID, msg.Table, true, out)
		m.acked(now, from, msg, out)
	case *wire.IndPing:
		m.evidence(now, from, msg.Count, wire.MemberActive, out)
		m.merge(now, from.ID, msg.Table, true, out)
		m.pingFor(now, from.ID, msg, out)
	case *wire.IndPingAck:
		m.evidence(now, from, msg.Count, wire.MemberActive, out)
		m.merge(now, from.ID, msg.Table, true, out)
		if e := msg.Alive; m.valid(e.ID) && e.State == wire.MemberActive {
			m.apply(now, e, true, out)
			if !m.ping.answered && msg.Seq == m.ping.seq && e.ID == m.ping.target {
				m.ping.answered, m.ping.indirect = true, core.Never
			}
		}
	case *wire.ReportAlive:
		m.evidence(now, from, msg.Count, wire.MemberActive, out)
		m.merge(now, from.ID, msg.Table, true, out)
	case *wire.Join:
		m.evidence(now, from, msg.Count, wire.MemberJoin, out)
		if m.joined && m.isListed(from.ID) {
			m.sendList(from.ID, msg, out)
		}
	case *wire.JoinAck:
		m.evidence(now, from, msg.Count, wire.MemberActive, out)
		m.gotList(now, from.ID, msg, out)
	case *wire.Unlucky:
		m.evidence(now, from, msg.Count, wire.MemberActive, out)
		if m.isListed(from.ID) {
			m.bag.lift(from.ID, m.isListed)
		}
	case *wire.Leave:
		m.apply(now, wire.Entry{ID: from.ID, Inc: from.Inc, State: wire.MemberLeft}, true, out)
	}
}

// acked ends the round's wait, or answers the node this one pinged for.
func (m *Machine) acked(now core.Instant, from core.Peer, msg *wire.Ack, out *membership.Effects) {
	if g := &m.ping; msg.Seq == g.seq && from.ID == g.target {
		g.answered, g.indirect = true, core.Never
		return
	}
	i := slices.IndexFunc(m.relays, func(r relay) bool { return r.seq == msg.Seq && r.target == from.ID })
	if i < 0 {
		return
	}
	r := m.relays[i]
	m.relays = slices.Delete(m.relays, i, i+1)
	out.Send(r.origin, &wire.IndPingAck{
		Seq:   r.originSeq,
		Count: m.count,
		Alive: wire.Entry{ID: from.ID, Inc: from.Inc, Count: msg.Count},
		Table: m.table.entries(now),
	}, core.Datagram)
}

// pingFor pings a target on behalf of origin.
func (m *Machine) pingFor(now core.Instant, origin core.NodeID, msg *wire.IndPing, out *membership.Effects) {
	if !m.valid(msg.Target) || msg.Target == origin {
		return
	}
	m.seq++
	m.relays = append(m.relays, relay{
		seq: m.seq, target: msg.Target, origin: origin, originSeq: msg.Seq, until: now.Add(m.cfg.Period),
	})
	out.Send(msg.Target, &wire.Ping{Seq: m.seq, Count: m.count}, core.Datagram)
}

// evidence takes note that a peer was heard in person. The caller has seen to
// it that the life is not an older one.
func (m *Machine) evidence(now core.Instant, from core.Peer, count uint32, as wire.MemberState, out *membership.Effects) {
	m.apply(now, wire.Entry{ID: from.ID, Inc: from.Inc, Count: count, State: as}, true, out)
	p := &m.peers[from.ID]
	p.heard = now
	if p.state != suspected && p.state != failed || p.told != 0 && now.Sub(p.told) < m.cfg.PingTimeout {
		return
	}
	// Tell it: it is alive and does not know.
	p.told = now
	e := wire.Entry{ID: from.ID, Inc: p.inc, Count: p.count, State: wire.MemberSuspected}
	if p.state == failed {
		e.State = wire.MemberFailed
	}
	list := []wire.Entry{e}
	room := tableBytes - e.Len()
	for _, t := range m.table.entries(now) {
		if t.ID == e.ID {
			continue
		}
		if room -= t.Len(); room < 0 {
			break
		}
		list = append(list, t)
	}
	out.Send(from.ID, &wire.ReportAlive{Count: m.count, Table: list}, core.Datagram)
}

// merge takes over news of another node. With gossip what is new is passed on.
func (m *Machine) merge(now core.Instant, from core.NodeID, list []wire.Entry, gossip bool, out *membership.Effects) {
	for _, e := range list {
		switch {
		case e.ID == m.self.ID:
			m.aboutSelf(now, from, e, out)
		case m.valid(e.ID):
			m.apply(now, e, gossip, out)
		}
	}
}

// aboutSelf handles what others say of this node.
func (m *Machine) aboutSelf(now core.Instant, from core.NodeID, e wire.Entry, out *membership.Effects) {
	switch {
	case e.Inc < m.self.Inc || e.Inc == math.MaxUint32: // an older life; or nothing to rise to
	case e.Inc > m.self.Inc, e.State == wire.MemberFailed, e.State == wire.MemberLeft:
		m.fence(now, from, e.Inc+1, out)
	case e.State == wire.MemberSuspected && e.Count >= m.count:
		if e.Count == math.MaxUint32 {
			m.fence(now, from, e.Inc+1, out)
			return
		}
		m.count = e.Count + 1
		m.reportAlive(now, from, out)
	}
}

// fence leaves the present life, which others declared over, for a higher
// incarnation, and joins again through the node that said so.
func (m *Machine) fence(now core.Instant, teller core.NodeID, inc core.Incarnation, out *membership.Effects) {
	m.self.Inc, m.count = inc, 0
	out.Fenced = true
	m.reportAlive(now, teller, out)
	m.startJoin(now, teller, m.Members(m.join.contacts), out)
}

// apply takes over one piece of news about another node: ACTIVE of a higher
// (incarnation, counter) clears a suspicion and brings a failed peer back,
// SUSPECTED needs at least the ACTIVE one, FAILED and LEFT remove at no less.
func (m *Machine) apply(now core.Instant, e wire.Entry, gossip bool, out *membership.Effects) {
	p := &m.peers[e.ID]
	order := p.compare(e)
	change := func(k membership.ChangeKind) {
		out.Changes = append(out.Changes, membership.Change{Peer: e.Peer(), Kind: k})
		if gossip {
			m.table.write(now, e)
		}
	}
	switch e.State {
	case wire.MemberActive, wire.MemberJoin:
		switch {
		case order <= 0, p.state == left && e.Inc == p.inc:
		case !p.listed():
			m.list(now, e.ID, e.Inc, e.Count)
			change(membership.Up)
		default:
			newer, was := e.Inc > p.inc, p.state
			p.inc, p.count, p.state = e.Inc, e.Count, active
			switch {
			case newer:
				p.heard = now
				change(membership.Up)
			case was == suspected:
				change(membership.Cleared)
			case gossip: // a counter alone changes no list, but old suspicions die by it
				m.table.write(now, e)
			}
		}
	case wire.MemberSuspected:
		if p.state == unknown && !gossip { // part of a list, not news
			m.list(now, e.ID, e.Inc, e.Count)
			change(membership.Up)
			order = 0
		}
		switch {
		case !p.listed() || order < 0 || p.state == suspected && order == 0:
		default:
			if e.Inc > p.inc {
				out.Changes = append(out.Changes, membership.Change{Peer: e.Peer(), Kind: membership.Up})
			}
			p.inc, p.count, p.state, p.since = e.Inc, e.Count, suspected, now
			m.suspects = append(m.suspects, suspicion{e.ID, now})
			change(membership.Suspected)
		}
	case wire.MemberFailed:
		switch {
		case p.listed() && order >= 0:
			m.unlist(e, failed)
			change(membership.Failed)
		case !p.listed() && order > 0:
			m.tombstone(e, failed)
		}
	case wire.MemberLeft:
		switch {
		case p.listed() && e.Inc >= p.inc:
			m.unlist(e, left)
			change(membership.Left)
		case !p.listed() && (p.state == unknown || e.Inc >= p.inc):
			m.tombstone(e, left)
		}
	}
}

// list puts a peer on the list.
func (m *Machine) list(now core.Instant, id core.NodeID, inc core.Incarnation, count uint32) {
	p := &m.peers[id]
	if p.state == failed {
		m.fallen--
	}
	*p = peer{inc: inc, count: count, state: active, heard: now}
	m.size++
	m.bag.list(id, !m.cfg.EnterAtRefill)
}

// unlist takes a peer off the list.
func (m *Machine) unlist(e wire.Entry, as status) {
	m.size--
	m.bag.unlist(e.ID)
	m.tombstone(e, as)
}

// tombstone remembers that a life is over.
func (m *Machine) tombstone(e wire.Entry, as status) {
	p := &m.peers[e.ID]
	if p.state == failed {
		m.fallen--
	}
	p.inc, p.count, p.state, p.told = e.Inc, e.Count, as, 0
	if as == failed {
		m.fallen++
	}
}
