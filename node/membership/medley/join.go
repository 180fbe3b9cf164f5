package medley

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/wire"
)

// join is the state of a node that asks for the list. The list comes in parts,
// each a range of ids; parts of several contacts add up.
type join struct {
	contacts []core.Peer
	next     int          // contact asked now
	begun    core.Instant // of the join
	at       core.Instant // when to ask again; Never when not joining
	parts    []span       // covered, ascending, disjoint
	heard    bool         // a part came since the last JOIN
	answered bool         // a part ever came
}

// span is the ids lo..hi-1.
type span struct{ lo, hi core.NodeID }

// gap returns the first id that no part covers.
func (j *join) gap() core.NodeID {
	if len(j.parts) == 0 || j.parts[0].lo > 0 {
		return 0
	}
	return j.parts[0].hi
}

// cover adds a part.
func (j *join) cover(s span) {
	at, _ := slices.BinarySearchFunc(j.parts, s, func(a, b span) int { return int(a.lo - b.lo) })
	j.parts = slices.Insert(j.parts, at, s)
	merged := j.parts[:1]
	for _, s := range j.parts[1:] {
		if last := &merged[len(merged)-1]; s.lo <= last.hi {
			last.hi = max(last.hi, s.hi)
		} else {
			merged = append(merged, s)
		}
	}
	j.parts = merged
}

// startJoin asks for the list: first through first, if any, then through the
// contacts, one-hop neighbours before the others, then through neighbours that
// are not among them.
func (m *Machine) startJoin(now core.Instant, first core.NodeID, contacts []core.Peer, out *membership.Effects) {
	var near, far []core.Peer
	has := make([]bool, len(m.peers))
	if first != core.None {
		near, has[first] = append(near, core.Peer{ID: first, Inc: m.peers[first].inc}), true
	}
	for _, p := range contacts {
		switch {
		case !m.valid(p.ID) || has[p.ID]:
			continue
		case slices.Contains(m.neighbours, p.ID):
			near = append(near, p)
		default:
			far = append(far, p)
		}
		has[p.ID] = true
	}
	for _, id := range m.neighbours {
		if m.valid(id) && !has[id] {
			far, has[id] = append(far, core.Peer{ID: id}), true
		}
	}
	m.join = join{contacts: append(near, far...), begun: now, at: core.Never}
	if len(m.join.contacts) == 0 { // nobody to ask: a mesh of one
		if !m.joined {
			m.enterRounds(now, out)
		}
		return
	}
	m.sendJoin(now, out)
}

func (m *Machine) sendJoin(now core.Instant, out *membership.Effects) {
	j := &m.join
	m.seq++
	j.heard, j.at = false, now.Add(m.cfg.JoinTimeout)
	out.Send(j.contacts[j.next].ID, &wire.Join{Seq: m.seq, Count: m.count, From: j.gap()}, core.Datagram)
}

// joinTimeout asks again: the same contact while its parts come in, else the
// next one. A node that nobody answered for as long as a suspicion lasts goes
// on with its contacts for a list, as at a first start: if all of them are
// down, or in the same position, somebody has to be first.
func (m *Machine) joinTimeout(now core.Instant, out *membership.Effects) {
	j := &m.join
	if !j.answered && now.Sub(j.begun) >= m.cfg.Suspicion {
		if !m.joined {
			for _, p := range j.contacts {
				if p.Inc != 0 && m.knows(p) && m.peers[p.ID].state == unknown {
					m.apply(now, wire.Entry{ID: p.ID, Inc: p.Inc}, false, out)
				}
			}
		}
		m.endJoin(now, out)
		return
	}
	if !j.heard {
		j.next = (j.next + 1) % len(j.contacts)
	}
	m.sendJoin(now, out)
}

// endJoin makes the node a member; its neighbours, who find out first when it
// fails, hear of it at once.
func (m *Machine) endJoin(now core.Instant, out *membership.Effects) {
	m.join = join{at: core.Never}
	if !m.joined {
		m.enterRounds(now, out)
		m.reportAlive(now, core.None, out)
	}
}

// sendList answers a JOIN with the members from msg.From on, the asking node
// left out, itself included, in as many parts as it takes.
func (m *Machine) sendList(to core.NodeID, msg *wire.Join, out *membership.Effects) {
	part := &wire.JoinAck{Seq: msg.Seq, Count: m.count, First: msg.From}
	room := wire.MaxPayload - wire.JoinAckHead
	for i := int(msg.From); i < len(m.peers); i++ {
		id := core.NodeID(i)
		e, ok := m.entry(id)
		if !ok || id == to {
			continue
		}
		if n := e.Len(); n > room {
			part.Next = id
			out.Send(to, part, core.Datagram)
			part = &wire.JoinAck{Seq: msg.Seq, Count: m.count, First: id}
			room = wire.MaxPayload - wire.JoinAckHead
		}
		part.List = append(part.List, e)
		room -= e.Len()
	}
	part.Next = core.MaxNodes
	out.Send(to, part, core.Datagram)
}

// entry returns what a list tells of a member.
func (m *Machine) entry(id core.NodeID) (wire.Entry, bool) {
	if id == m.self.ID {
		return wire.Entry{ID: id, Inc: m.self.Inc, Count: m.count}, true
	}
	p := &m.peers[id]
	e := wire.Entry{ID: id, Inc: p.inc, Count: p.count}
	if p.state == suspected {
		e.State = wire.MemberSuspected
	}
	return e, p.listed()
}

func (m *Machine) gotList(now core.Instant, from core.NodeID, msg *wire.JoinAck, out *membership.Effects) {
	if m.join.at == core.Never {
		return
	}
	m.merge(now, from, msg.List, false, out)
	j := &m.join
	if j.at == core.Never { // what it said of this node ended this join
		return
	}
	j.cover(span{msg.First, msg.Next})
	j.heard, j.answered = true, true
	j.at = now.Add(m.cfg.JoinTimeout)
	if j.gap() >= core.MaxNodes {
		m.endJoin(now, out)
	}
}
