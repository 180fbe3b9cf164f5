package fairk

import (
	"fmt"
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// change is the work of the node that brings about a view.
type change struct {
	ballot   uint64
	began    core.Instant
	quorum   core.Instant // since when enough have promised; Never: not yet
	answers  []*wire.Promise
	lives    []uint64 // of who answered
	proposal *wire.View
	proposed core.Instant
	votes    []bool
	decided  bool
	told     bool // that something is lost
}

// beginChange asks everyone for a promise.
func (t *Tolerant) beginChange() {
	n := uint64(t.cfg.Nodes)
	c := &change{
		ballot: (max(t.promised, t.ballots)/n+1)*n + uint64(t.self.ID), began: t.now, quorum: core.Never,
		answers: make([]*wire.Promise, n), lives: make([]uint64, n), votes: make([]bool, n),
	}
	t.promise(c.ballot)
	t.change = c
	c.answers[t.self.ID], c.lives[t.self.ID] = t.answer(c.ballot), t.lives[t.self.ID]
	t.askPromises()
	t.propose()
}

// promise takes no part any more in views before the ballot.
func (t *Tolerant) promise(ballot uint64) {
	t.promised, t.change, t.frozenAt = ballot, nil, t.now
}

// askPromises asks those that have not answered. Where they must wait, it asks
// the others again as well, lest they lose patience.
func (t *Tolerant) askPromises() {
	for i, a := range t.change.answers {
		if core.NodeID(i) != t.self.ID && (a == nil || t.change.told) {
			t.send(core.NodeID(i), &wire.Claim{Ballot: t.change.ballot, View: t.known.Num})
		}
	}
}

func (t *Tolerant) onClaim(from core.NodeID, m *wire.Claim) {
	t.ballots = max(t.ballots, m.Ballot)
	if m.Ballot < t.promised {
		t.send(from, &wire.Refuse{Ballot: m.Ballot, Promised: t.promised, Lives: t.lives})
		return
	}
	if t.view != nil && m.Ballot == t.view.Num {
		return // late
	}
	if m.Ballot > t.promised {
		t.promise(m.Ballot)
	}
	t.frozenAt = t.now
	if t.view != nil && t.view.Num > m.View {
		t.send(from, t.view)
	}
	t.send(from, t.answer(m.Ballot))
}

// answer is what this node promises and has.
func (t *Tolerant) answer(ballot uint64) *wire.Promise {
	p := &wire.Promise{Ballot: ballot, Amnesiac: t.amnesiac, Lives: slices.Clone(t.lives)}
	if t.view != nil {
		p.Knows, p.View = true, t.view.Num
	}
	if t.st == mutex.Held {
		p.Holds = t.cur
	}
	for i := range t.cfg.Nodes {
		if h := t.hosted[i]; h != nil {
			p.Have = append(p.Have, wire.Held{ID: core.NodeID(i), Stamp: h.stamp})
		} else if c := t.copies[i]; c != nil {
			p.Have = append(p.Have, wire.Held{ID: core.NodeID(i), Stamp: c.stamp})
		}
	}
	return p
}

func (t *Tolerant) onPromise(from core.NodeID, life uint64, m *wire.Promise) {
	c := t.change
	if c == nil || m.Ballot != c.ballot || c.proposal != nil || len(m.Lives) != t.cfg.Nodes {
		return
	}
	t.learn(m.Lives)
	c.answers[from], c.lives[from] = m, life
	t.propose()
}

// learn takes in which process starts of nodes are known elsewhere.
func (t *Tolerant) learn(lives []uint64) {
	for i, l := range lives {
		t.lives[i] = max(t.lives[i], l)
	}
}

// propose proposes a view once enough have promised and the rest is silent.
func (t *Tolerant) propose() {
	c := t.change
	if c == nil || c.proposal != nil {
		return
	}
	voters, missing, newest := 0, false, uint64(0)
	for i := range c.answers {
		a := c.answers[i]
		if a != nil && c.lives[i] < t.lives[i] {
			// It has forgotten its promise: its newer life must give it.
			c.answers[i], a = nil, nil
		}
		switch {
		case a == nil:
			missing = missing || !t.suspected[i]
		case !a.Amnesiac:
			voters++
			newest = max(newest, a.View)
		}
	}
	if voters < t.cfg.Quorum {
		c.quorum = core.Never
		return
	}
	if c.quorum == core.Never {
		c.quorum = t.now
	}
	if missing && t.now.Sub(c.began) < answerPeriods*t.cfg.Period || t.known.Num < newest {
		return
	}
	v, lost := t.plan(c)
	if lost != core.None {
		if !c.told {
			c.told = true
			t.fx.Notes = append(t.fx.Notes, fmt.Sprintf("all copies of the state of node %d are lost", lost))
		}
		// Who has not promised may act on them yet; it stops when it finds
		// itself cut off.
		if t.now.Sub(c.quorum) < leasePeriods*t.cfg.Period {
			return
		}
		t.renew(c, v)
	}
	c.proposal, c.proposed = v, t.now
	t.vote(v)
	c.votes[t.self.ID] = true
	t.tellView()
	t.decide()
}

// plan is the view that follows from the answers, and an id of which nobody
// has the state.
func (t *Tolerant) plan(c *change) (v *wire.View, lost core.NodeID) {
	base, lost := t.known, core.None
	v = &wire.View{Num: c.ballot, Nodes: make([]wire.ViewNode, t.cfg.Nodes)}
	for i := range v.Nodes {
		id := core.NodeID(i)
		n := &v.Nodes[i]
		n.Life, n.Member, n.Floor, n.Source = t.lives[i], c.answers[i] != nil, base.Nodes[i].Floor, core.None
		// What took effect in the base, all of its heirs have.
		heard, all, low := false, true, wire.Stamp{}
		for _, r := range t.ring.heirs(base, id, t.cfg.Copies+1) {
			if a := c.answers[r]; a != nil && !a.Amnesiac && c.lives[r] == base.Nodes[r].Life {
				s, has := stampOf(a, id)
				switch {
				case !has || s.View != base.Num:
					all = false
				case !heard || s.Before(low):
					low = s
				}
				heard = true
			}
		}
		if heard && all {
			n.Floor = low
		}
		var best wire.Stamp
		for k, a := range c.answers {
			if a == nil {
				continue
			}
			if s, has := stampOf(a, id); has && !s.Before(n.Floor) && (n.Source == core.None || best.Before(s)) {
				best, n.Source = s, core.NodeID(k)
			}
		}
		if first := n.Floor == (wire.Stamp{}); !heard || n.Source == core.None && !first {
			lost = id
		}
	}
	return v, lost
}

func stampOf(p *wire.Promise, id core.NodeID) (wire.Stamp, bool) {
	for _, h := range p.Have {
		if h.ID == id {
			return h.Stamp, true
		}
	}
	return wire.Stamp{}, false
}

// renew makes v one in which all tokens are dealt out anew. Who is in the
// critical section has a token; others get one each until there are k.
func (t *Tolerant) renew(c *change, v *wire.View) {
	v.Fresh = true
	for _, a := range c.answers {
		if a != nil && !a.Holds.IsZero() {
			v.Slots = append(v.Slots, a.Holds)
		}
	}
	for i, a := range c.answers {
		if a != nil && a.Holds.IsZero() && len(v.Slots) < len(t.cfg.Placement) {
			v.Slots = append(v.Slots, firstRequest(core.NodeID(i)))
		}
	}
	for i := range v.Nodes {
		v.Nodes[i].Floor, v.Nodes[i].Source = wire.Stamp{View: v.Num}, core.None
	}
}

// tellView sends the proposal to those that have not voted.
func (t *Tolerant) tellView() {
	c := t.change
	for i := range c.votes {
		if c.proposal.Nodes[i].Member && !c.votes[i] {
			t.send(core.NodeID(i), c.proposal)
		}
	}
}

func (t *Tolerant) onView(m *wire.View) {
	if len(m.Nodes) != t.cfg.Nodes || m.Num < uint64(t.cfg.Nodes) {
		return
	}
	t.ballots = max(t.ballots, m.Num)
	if t.known == nil || m.Num > t.known.Num {
		t.known = m
	}
	leader := core.NodeID(m.Num % uint64(t.cfg.Nodes))
	behind := false // the leader has not heard of a process
	for i := range m.Nodes {
		behind = behind || m.Nodes[i].Life < t.lives[i]
	}
	switch {
	case !m.Nodes[t.self.ID].Member:
		// Leaders tell members only, so it comes from who is past it.
		if t.view != nil && m.Num > t.view.Num {
			t.leftOut()
		}
	case leader == t.self.ID:
	case t.view != nil && m.Num == t.view.Num:
		t.send(leader, &wire.Vote{View: m.Num, Amnesiac: t.amnesiac})
	case m.Num < t.promised || behind:
		t.send(leader, &wire.Refuse{Ballot: m.Num, Promised: t.promised, Lives: t.lives})
	default:
		t.vote(m)
		t.send(leader, &wire.Vote{View: m.Num, Amnesiac: t.amnesiac})
	}
	if t.change != nil {
		t.propose() // it may have waited for what is known now
	}
}

// vote accepts a view, which is in effect once a quorum has.
func (t *Tolerant) vote(v *wire.View) {
	if v.Num > t.promised {
		t.promise(v.Num)
	}
	for i := range v.Nodes {
		now, before := &v.Nodes[i], t.view != nil && t.view.Nodes[i].Member
		life := core.Incarnation(now.Life) * core.IncarnationStep
		if t.view != nil {
			was := core.Peer{ID: core.NodeID(i), Inc: core.Incarnation(t.view.Nodes[i].Life) * core.IncarnationStep}
			if before && (!now.Member || was.Inc != life) {
				t.fx.Failed = append(t.fx.Failed, was)
			}
			if now.Member && (!before || was.Inc != life) {
				t.fx.Returned = append(t.fx.Returned, core.Peer{ID: core.NodeID(i), Inc: life})
			}
		}
	}
	t.view, t.known, t.started, t.frozenAt = v, v, false, t.now
	for i := range v.Nodes {
		t.lives[i] = max(t.lives[i], v.Nodes[i].Life)
	}
}

func (t *Tolerant) onVote(from core.NodeID, life uint64, m *wire.Vote) {
	c := t.change
	if c == nil || c.proposal == nil || m.View != c.ballot || life != c.proposal.Nodes[from].Life {
		return
	}
	if m.Amnesiac {
		// It counts for nothing, but need not be told again before the others.
		if c.decided {
			t.send(from, t.beat())
		}
		return
	}
	c.votes[from] = true
	if c.decided {
		t.send(from, t.beat())
	}
	t.decide()
}

// decide puts the view into effect once a quorum has accepted it.
func (t *Tolerant) decide() {
	c := t.change
	n := 0
	for _, v := range c.votes {
		if v {
			n++
		}
	}
	if c.decided || n < t.cfg.Quorum {
		return
	}
	c.decided = true
	t.begin()
	for i := range c.votes {
		if k := core.NodeID(i); c.proposal.Nodes[i].Member && k != t.self.ID {
			t.send(k, t.beat())
		}
	}
}

func (t *Tolerant) onRefuse(m *wire.Refuse) {
	c := t.change
	t.ballots = max(t.ballots, m.Promised)
	if len(m.Lives) == t.cfg.Nodes {
		t.learn(m.Lives)
	}
	if c == nil || m.Ballot != c.ballot || c.decided {
		return
	}
	t.change, t.frozenAt = nil, t.now
	if m.Promised <= m.Ballot { // it knows of a newer process
		t.beginChange()
	}
}
