package script

import (
	"fmt"

	"churnbed/node/core"
	"churnbed/node/mutex"
)

// ringed is a node of a ring that is up.
type ringed struct {
	node    int
	ring    mutex.Ring
	holding core.RequestID // zero: is not in the critical section
}

// checkRing follows tokens through the newest states of all ids, those that go
// on: there must be k, and one coordinator, at ids and in their messages. A
// node in the critical section counts only where the newest state of its id
// has it there; others have gone on without it. It says nothing while a view
// is about to be in effect, and of states that are lost.
func checkRing(nodes []ringed, n, k int) string {
	newest := uint64(0)
	for _, x := range nodes {
		newest = max(newest, x.ring.View)
	}
	effect := false
	states := make([]*mutex.Estate, n)
	for i := range nodes {
		x := &nodes[i]
		effect = effect || x.ring.View == newest && x.ring.InEffect
		for j := range x.ring.Estates {
			e := &x.ring.Estates[j]
			if e.Wrong != "" {
				return fmt.Sprintf("BROKEN: p%d has a state of p%d: %s", x.node, e.ID, e.Wrong)
			}
			if s := states[e.ID]; s == nil || s.View < e.View || s.View == e.View && s.Version < e.Version {
				states[e.ID] = e
			}
		}
	}
	if !effect {
		return ""
	}
	custody := make([]mutex.Custody, n)
	var flight []Envelope
	for id, e := range states {
		if e == nil {
			return ""
		}
		custody[id] = e.Custody
		for i, msg := range e.Sent {
			flight = append(flight, Envelope{From: core.Peer{ID: core.NodeID(id)}, To: e.To[i], Msg: msg})
		}
	}
	var held []int
	for _, x := range nodes {
		if !x.holding.IsZero() && states[x.node].Held == x.holding {
			held = append(held, x.node)
		}
	}
	if len(held) > k {
		return fmt.Sprintf("VIOLATION: %d HELD:%s", len(held), nodeNames(held))
	}
	if len(flight) == 0 {
		// Parents lead to a root only once all that was sent was taken, which
		// states do not tell: a beginning has none under way, too.
		flight = append(flight, Envelope{})
	}
	return checkCustody(custody, flight, k)
}

// ringViolation checks the nodes of a ring, and reports whether there is one.
func (n *Net) ringViolation() (string, bool) {
	var nodes []ringed
	for i, x := range n.Nodes {
		if x.Machine == nil {
			continue
		}
		m, ok := x.Machine.(mutex.Ringed)
		if !ok {
			return "", false
		}
		if x.Up {
			r := ringed{node: i, ring: m.Ring()}
			if m.State() == mutex.Held {
				r.holding = m.Request()
			}
			nodes = append(nodes, r)
		}
	}
	return checkRing(nodes, len(n.Nodes), max(1, n.Permits)), len(nodes) > 0
}

func (m *model) ringViolation(s *state) string {
	var nodes []ringed
	for k := range m.n {
		if l := m.at(s, k); l.up && l.ring != nil {
			nodes = append(nodes, ringed{k, *l.ring, l.holding})
		}
	}
	return checkRing(nodes, m.n, max(1, m.cfg.Holders))
}
