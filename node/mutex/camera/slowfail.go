package camera

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// eachTree calls f for this node's part in every tree. Trees that f forgets
// are not spared.
func (m *Machine) eachTree(f func(*tree)) {
	if m.own != nil {
		f(m.own)
	}
	for _, t := range slices.Clone(m.trees) {
		f(t)
	}
}

// loseEverywhere takes in that q, or that life of it, is no part of any tree
// any more: its children are adopted. Whoever is only asked to join is asked
// again in its next life.
func (m *Machine) loseEverywhere(now core.Instant, q core.Peer, restarted bool, out *mutex.Effects) {
	m.eachTree(func(t *tree) {
		c := t.contact(q.ID)
		switch {
		case c == nil || !c.below():
			return
		case c.state == joining && restarted:
			m.sendJoin(t, q.ID, out)
			return
		case c.state == child && restarted && c.peer.Inc.Start() >= q.Inc.Start():
			return
		}
		m.loseContact(now, t, q.ID, out)
		m.advance(now, t, out)
	})
}

// loseContact takes in that node k is no child any more. Where its TREE-OK has
// come, nothing more is wanted of it; otherwise this node, its nearest live
// ancestor, adopts its children, as far as it has heard of them.
func (m *Machine) loseContact(now core.Instant, t *tree, k core.NodeID, out *mutex.Effects) {
	c := t.contact(k)
	if c.ok {
		return
	}
	shape := c.shape
	c.state, c.shape = lost, nil
	if !t.told {
		m.adopt(now, t, shape, out)
	}
}

// adopt takes the place of the parent of the topmost nodes of shape, and of
// those that have failed too the place of theirs.
func (m *Machine) adopt(now core.Instant, t *tree, shape []wire.Branch, out *mutex.Effects) {
	for len(shape) > 0 {
		q, end := shape[0].Peer, 1
		for end < len(shape) && shape[end].Depth > shape[0].Depth {
			end++
		}
		below := shape[1:end]
		shape = shape[end:]
		if q.ID == m.self.ID || q.ID == t.ID.Node || q.ID == t.parent {
			continue
		}
		m.learnLife(now, q, out)
		p, c := m.at(q.ID), t.add(q.ID)
		switch {
		case c.state == child:
		case p.gone || p.life.Start() > q.Inc.Start() || c.state == lost:
			c.state = lost
			m.adopt(now, t, below, out)
		default:
			*c = contact{peer: q, state: child, adopted: true, echoed: -1, shape: raised(below)}
			m.need(q.ID)
			m.sendStart(t, c, out)
		}
	}
}

// raised is a shape as seen from the node above its topmost ones.
func raised(shape []wire.Branch) []wire.Branch {
	if len(shape) == 0 {
		return nil
	}
	up := shape[0].Depth - 1
	shape = slices.Clone(shape)
	for i := range shape {
		shape[i].Depth = max(1, shape[i].Depth-up)
	}
	return shape
}

// tickSlow reminds those whose answers are missing, more slowly every time:
// the transport repeats what was lost, but a newer message of the same kind,
// for another tree, may have taken its place. What nobody has asked for in a
// long time is forgotten.
func (m *Machine) tickSlow(now core.Instant, out *mutex.Effects) {
	m.eachTree(func(t *tree) {
		if t.at > now {
			return
		}
		for i := range t.contacts {
			switch c := &t.contacts[i]; {
			case c.state == joining:
				m.sendJoin(t, c.peer.ID, out)
			case c.state == child && !c.ok:
				m.sendStart(t, c, out)
			}
		}
		t.pace = min(2*t.pace, remind*m.cfg.Reask)
		t.at = now.Add(t.pace)
	})
	for i := 0; i < len(m.trees); {
		if t := m.trees[i]; t.expire <= now {
			m.dropTree(t.ID)
		} else {
			i++
		}
	}
}

// slowDeadline is when tickSlow or considerSlow has something to do.
func (m *Machine) slowDeadline() core.Instant {
	at := core.Never
	if m.st == mutex.Wait {
		at = m.startAt
	}
	m.eachTree(func(t *tree) {
		if t != m.own || m.st == mutex.Wait {
			at = min(at, t.at, t.expire)
		}
	})
	return at
}

// endTree forgets another's tree, whose request is over. A node that had not
// granted yet is not known to the root: its children hear of the end here.
func (m *Machine) endTree(r core.RequestID, out *mutex.Effects) {
	t := m.dropTree(r)
	if t == nil || t.told {
		return
	}
	for i := range t.contacts {
		if c := &t.contacts[i]; c.below() {
			out.Send(c.peer.ID, &wire.Release{ID: r}, core.Reliable)
		}
	}
}
