package smart

import (
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/wire"
)

// next is the migration that a leader drives.
type next struct {
	state   handing
	epoch   uint64
	members []core.Peer
	began   core.Instant
	leader  core.NodeID
	term    uint64
	acked   []bool
	tries   int
	writing bool // the record is under way
}

type handing uint8

const (
	draining handing = iota // changes are still on their way to a quorum
	trying                  // the attempt is being written
	inviting
	retiring
)

// due reports whether the group is to migrate: its epoch is over, or f of its
// members are gone.
func (l *lead) due(m *Machine, r *replica) bool {
	if m.cfg.Paper || len(m.candidates()) < m.cfg.K() {
		// Without enough members for a group the old one goes on.
		return false
	}
	if m.cfg.Epoch > 0 && m.now >= l.meta.since.Add(m.cfg.Epoch) {
		return true
	}
	return m.cfg.F > 0 && l.lost(m, r) >= m.cfg.F
}

// freeze stops serving, until another group does.
func (l *lead) freeze(m *Machine, r *replica) {
	l.enter(m, r, migrating)
	l.next = next{state: draining, began: m.now, leader: core.None}
	l.watchAt = core.Never
	l.migrateTick(m, r)
}

// freeze of a paper's old leader happens when its state is fetched.
func (r *replica) freeze(m *Machine, epoch uint64) {
	l := r.lead
	l.enter(m, r, migrating)
	l.watchAt = core.Never
	l.next = next{state: inviting, epoch: epoch, began: m.now, leader: core.None}
	g := r.line()
	g.Digest = r.digest()
	m.log(eventlog.KGroup, "frozen", g)
}

func (l *lead) migrateTick(m *Machine, r *replica) {
	n := &l.next
	switch {
	case n.state == draining && len(l.ops) == 0:
		g := r.line()
		g.Digest, g.Locks = r.digest(), l.locksText()
		m.log(eventlog.KGroup, "frozen", g)
		if l.meta.epoch != 0 {
			n.epoch, n.members, n.state = l.meta.epoch, l.meta.members, inviting
			l.invite(m, r)
			return
		}
		l.try(m, r)
	case n.state == draining:
		l.resendAt = core.Never // the changes wake it
	case n.state == inviting && !m.cfg.Paper && l.meta.epoch == 0 && !n.writing && m.now.Sub(n.began) > m.periods(giveUp):
		l.try(m, r)
	}
}

// try chooses the next members (step 1); a quorum holds the attempt before
// anybody hears of it, so that no two attempts share an epoch.
func (l *lead) try(m *Machine, r *replica) {
	n := &l.next
	l.meta.tried = max(l.meta.tried, r.epoch) + 1
	n.epoch, n.state, n.began = l.meta.tried, trying, m.now
	n.members = m.choose(r.group, n.epoch)
	l.write(m, r, metaKey, l.meta.encode(), func(time.Duration) {
		n.state = inviting
		m.log(eventlog.KGroup, "select", eventlog.Group{Group: r.group, Epoch: n.epoch, Term: l.term, Members: idText(n.members)})
		l.invite(m, r)
	})
}

func (l *lead) invite(m *Machine, r *replica) {
	n := &l.next
	l.resendAt = m.now.Add(m.periods(repeat))
	invite := func(to core.NodeID) {
		m.send(to, &wire.Group{
			Type: wire.KindGroupInvite, Group: r.group, Epoch: n.epoch, Term: l.term, Ticket: r.epoch, Device: core.None,
			Members: n.members, Prev: r.members, Leader: m.self,
		})
	}
	for _, p := range n.members {
		invite(p.ID)
	}
	if n.tries++; n.tries > 4*m.cfg.K() && len(m.list) > 0 {
		// Those who follow may be long replaced: somebody knows by whom.
		invite(m.list[m.rng.IntN(len(m.list))])
	}
}

// invited makes the node a member of the next group, unless that has served
// already.
func (m *Machine) invited(from core.Peer, msg *wire.Group) {
	r := m.replica(msg.Group, msg.Epoch)
	if r == nil {
		if m.routes[msg.Group].epoch >= msg.Epoch || indexOf(msg.Members, m.self) < 0 {
			if m.routes[msg.Group].epoch >= msg.Epoch {
				m.redirect(from, msg.Group)
			}
			return
		}
		r = m.form(msg.Group, msg.Epoch, msg.Members, msg.Prev, msg.Leader)
		r.prevEpoch = msg.Ticket
		// An attempt that was given up for this one will never serve.
		for _, o := range m.replicas {
			if o.group == r.group && o.epoch < r.epoch && o.prevEpoch == r.prevEpoch && !o.served() {
				m.drop(o)
				break
			}
		}
		return
	}
	if r.prevLeader != msg.Leader {
		r.prevLeader = msg.Leader
		if r.stage == fetching && r.lead != nil {
			r.lead.sources = []source{{peer: msg.Leader}}
		}
	}
	if rt := &m.routes[msg.Group]; rt.epoch >= msg.Epoch && rt.leader != core.None {
		if r.stage == leading {
			r.lead.tellOld(m, r, codeActive, from.ID)
			return
		}
		m.redirect(from, msg.Group)
	}
}

// follow takes another member of the previous group for its leader.
func (r *replica) follow(m *Machine, leader core.NodeID) {
	for _, p := range r.prev {
		if p.ID != leader {
			continue
		}
		r.prevLeader = p
		if r.stage == fetching && r.lead != nil {
			r.lead.sources = []source{{peer: p}}
			r.lead.read(m, r)
		}
	}
}

// resume repeats what the present stage waits for.
func (l *lead) resume(m *Machine, r *replica) {
	l.resendAt = m.now.Add(m.periods(repeat))
	switch r.stage {
	case recording:
		l.tellOld(m, r, codeRecord, r.prevLeader.ID)
		if m.now.Sub(l.began) > m.periods(giveUp) {
			l.tellOld(m, r, codeRecord, m.list[m.rng.IntN(len(m.list))])
		}
	case leading:
		if l.told || l.tells > 8*m.cfg.K() {
			l.resendAt = core.Never
			return
		}
		l.tells++
		l.tellOld(m, r, codeActive, r.prevLeader.ID)
	case migrating:
		switch l.next.state {
		case inviting:
			if m.cfg.Paper {
				l.resendAt = core.Never
				return
			}
			l.invite(m, r)
		case retiring:
			l.retireMembers(m, r)
		case draining, trying:
		}
	default:
		l.resendAt = core.Never
	}
}

// tellOld is step 5, first half: the new leader tells the old one.
func (l *lead) tellOld(m *Machine, r *replica, code byte, to core.NodeID) {
	m.send(to, &wire.Group{
		Type: wire.KindGroupDecommission, Group: r.group, Epoch: r.prevEpoch, Seq: r.epoch, Term: l.term, Code: code, Device: core.None,
		Members: r.members,
	})
}

// decommission is step 5 at the old leader: its quorum records who follows,
// and thereby refuses everybody else.
func (r *replica) decommission(m *Machine, from core.Peer, msg *wire.Group) {
	answer := func(code byte) {
		m.send(from.ID, &wire.Group{
			Type: wire.KindGroupDecommissioned, Group: r.group, Epoch: msg.Seq, Seq: r.epoch, Term: msg.Term, Code: code, Device: core.None,
		})
	}
	l := r.lead
	if msg.Code == codeActive {
		answer(codeActive)
		m.learn(r.group, msg.Seq, msg.Term, from.ID, msg.Members)
		return
	}
	if l == nil || r.stage != migrating {
		switch {
		case l != nil && r.stage == leading:
			answer(codeStale)
		case r.leader.Inc != 0:
			m.send(from.ID, &wire.Group{
				Type: wire.KindGroupRedirect, Group: r.group, Epoch: r.epoch, Term: r.promised, Device: r.leader.ID, Members: r.members,
			})
		}
		return
	}
	n := &l.next
	switch {
	case l.meta.epoch == msg.Seq && !n.writing:
		answer(codeRecorded)
	case n.writing || n.state != inviting && n.state != retiring:
	case n.epoch != msg.Seq || l.meta.epoch != 0:
		answer(codeStale)
	default:
		n.writing = true
		l.meta.epoch, l.meta.term, l.meta.members = msg.Seq, msg.Term, msg.Members
		l.write(m, r, metaKey, l.meta.encode(), func(took time.Duration) {
			n.writing = false
			m.log(eventlog.KGroup, "decommission", eventlog.Group{
				Group: r.group, Epoch: msg.Seq, Term: msg.Term, Members: idText(msg.Members), NS: int64(took),
			})
			answer(codeRecorded)
		})
	}
}

// staleAnswer tells the leader of a new group that its attempt is none: the
// old group goes on, or another one follows it.
func (m *Machine) staleAnswer(from core.Peer, msg *wire.Group) {
	if msg.Type == wire.KindGroupDecommission && msg.Code == codeActive {
		m.learn(msg.Group, msg.Seq, msg.Term, from.ID, msg.Members)
		m.send(from.ID, &wire.Group{
			Type: wire.KindGroupDecommissioned, Group: msg.Group, Epoch: msg.Seq, Seq: msg.Epoch, Term: msg.Term, Code: codeActive, Device: core.None,
		})
		return
	}
	if r := m.replica(msg.Group, msg.Epoch); r != nil && r.lead != nil && msg.Seq != 0 && msg.Seq < max(r.lead.meta.tried, 1) {
		m.send(from.ID, &wire.Group{
			Type: wire.KindGroupDecommissioned, Group: msg.Group, Epoch: msg.Seq, Seq: msg.Epoch, Term: msg.Term, Code: codeStale, Device: core.None,
		})
		return
	}
	m.redirect(from, msg.Group)
}

func (r *replica) decommissioned(m *Machine, msg *wire.Group) {
	l := r.lead
	if l == nil || msg.Term != l.term {
		return
	}
	switch {
	case msg.Code == codeRecorded && r.stage == recording:
		l.activate(m, r)
	case msg.Code == codeActive && r.stage == leading:
		l.told = true
	case msg.Code == codeStale && r.stage < activating:
		m.drop(r)
	}
}

// supersede ends what this node did in older epochs of a group that is led
// by others now.
func (m *Machine) supersede(r *replica, epoch, term uint64, leader core.NodeID, members []core.Peer) {
	l := r.lead
	switch {
	case l != nil && r.stage == migrating:
		if l.next.state != retiring {
			l.next = next{
				state: retiring, epoch: epoch, term: term, leader: leader, members: members, began: m.now,
				acked: make([]bool, len(r.members)),
			}
			m.log(eventlog.KGroup, "retire", eventlog.Group{Group: r.group, Epoch: epoch, Term: term, Members: idText(members)})
			l.retireMembers(m, r)
		}
	case l != nil && r.stage == leading:
		r.depose(m)
		m.drop(r)
	default:
		m.drop(r)
	}
}

// retireMembers is step 6: the old leader tells its members.
func (l *lead) retireMembers(m *Machine, r *replica) {
	n := &l.next
	n.tries++
	l.resendAt = m.now.Add(m.periods(repeat))
	waiting := false
	r.others(func(i int, p core.Peer) {
		if n.acked[i] || !m.alive(p) {
			return
		}
		waiting = true
		m.send(p.ID, &wire.Group{
			Type: wire.KindGroupRetire, Group: r.group, Epoch: r.epoch, Seq: n.epoch, Term: n.term, Device: n.leader, Members: n.members,
		})
	})
	if !waiting || n.tries > 4*m.cfg.K() {
		m.log(eventlog.KGroup, "retired", r.line())
		r.lead = nil
		m.drop(r)
	}
}

func (l *lead) retired(r *replica, from core.Peer) {
	if i := indexOf(r.members, from); i >= 0 && r.stage == migrating && l.next.state == retiring {
		l.next.acked[i] = true
	}
}

// retire is step 6 at a member.
func (m *Machine) retire(from core.Peer, msg *wire.Group) {
	if r := m.replica(msg.Group, msg.Epoch); r != nil && r.stage != leading && r.stage != migrating {
		m.log(eventlog.KGroup, "retired", r.line())
		m.drop(r)
	}
	m.learn(msg.Group, msg.Seq, msg.Term, msg.Device, msg.Members)
	m.send(from.ID, &wire.Group{Type: wire.KindGroupRetired, Group: msg.Group, Epoch: msg.Epoch, Device: core.None})
}
