// Package oracle is the membership service that knows everything: the list a
// node starts with is true, and the outside (the controller, the simulator, a
// replayed trace) tells every change (membership.Told). It sends nothing and
// detects nothing.
//
// A life that was told failed or left does not come back; only a newer one
// does. A newer life of a listed peer counts as told when any of its frames
// arrives first. A peer that the algorithm met itself (Learned) is not taken
// into the list: it is about to be told up, or it was dead before this life
// began, and of that nobody would tell.
// What is told about the node itself is ignored: an oracle that tells the
// truth never tells a live node that it failed.
//
// The owner serialises all calls.
package oracle

import (
	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/membership/internal/roster"
)

// Machine is an oracle's view at one node.
type Machine struct {
	self      core.Peer
	list      roster.List
	suspected map[core.NodeID]core.Incarnation
}

var _ membership.Machine = (*Machine)(nil)

// New returns a machine that waits for its Start.
func New() *Machine { return &Machine{suspected: map[core.NodeID]core.Incarnation{}} }

// Step implements membership.Machine.
func (m *Machine) Step(_ core.Instant, in membership.Input, out *membership.Effects) {
	switch in := in.(type) {
	case membership.Start:
		m.self = in.Self
		m.list.Set(in.Peers, in.Self.ID)
		clear(m.suspected)
		out.Joined = true
	case membership.Receive:
		m.renew(in.From, out)
	case membership.Heard:
		m.renew(in.Peer, out)
	case membership.Learned:
		m.renew(in.Peer, out)
	case membership.Told:
		m.told(in.Change, out)
	case membership.Leave, membership.Tick: // the outside tells the others
	}
}

func (m *Machine) renew(p core.Peer, out *membership.Effects) {
	if m.list.Has(p.ID) {
		m.told(membership.Change{Peer: p, Kind: membership.Up}, out)
	}
}

// told takes over a change unless it is old news.
func (m *Machine) told(c membership.Change, out *membership.Effects) {
	id := c.Peer.ID
	if id == m.self.ID {
		return
	}
	news := false
	switch c.Kind {
	case membership.Up:
		if news = m.list.Add(c.Peer); news {
			delete(m.suspected, id)
		}
	case membership.Suspected:
		if news = m.list.Has(id) && m.suspected[id] < c.Peer.Inc; news {
			m.suspected[id] = c.Peer.Inc
		}
	case membership.Cleared:
		inc, was := m.suspected[id]
		if news = was && inc <= c.Peer.Inc; news {
			delete(m.suspected, id)
		}
	case membership.Failed, membership.Left:
		if news = m.list.Remove(c.Peer); news {
			delete(m.suspected, id)
		}
	}
	if news {
		out.Changes = append(out.Changes, c)
	}
}

// Deadline implements membership.Machine; an oracle waits for nothing.
func (m *Machine) Deadline() core.Instant { return core.Never }

// Self implements membership.Machine.
func (m *Machine) Self() core.Peer { return m.self }

// Members implements membership.Machine.
func (m *Machine) Members(list []core.Peer) []core.Peer { return m.list.Append(list) }

// Size implements membership.Machine.
func (m *Machine) Size() int { return m.list.Len() + 1 }
