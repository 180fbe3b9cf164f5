package scenario

import (
	"fmt"

	"churnbed/node/core"
	"churnbed/node/stack"
)

// Contacts that a joining node is given: at most maxContacts, of which at
// most nearContacts are one-hop neighbours, so that a node whose whole
// neighbourhood is down still finds somebody.
const (
	maxContacts  = 16
	nearContacts = 12
)

// NodeConfig returns what node n is told in its life inc. The first life of a
// node that runs from the start begins with its membership list; every later
// life, and a node that comes later, joins: through up to 16 contacts,
// one-hop neighbours first, in an order drawn from the seed, the node and the
// life. Static and oracle membership do not join by asking: there Members is
// the initial list, and with an oracle the caller replaces it by who is there.
//
// It may be called from several goroutines. The slices Distance and Arrivals
// are shared and must not be changed.
func (s *Scenario) NodeConfig(n core.NodeID, inc core.Incarnation) stack.Config {
	restarted := inc.Start() > 1
	c := stack.Config{
		Self: core.Peer{ID: n, Inc: inc}, Seed: s.Seed, Nodes: len(s.Topology.Nodes), Restarted: restarted,
		Join:      restarted || !s.Up[n],
		Algorithm: s.Algorithm, Membership: s.Membership, Transport: s.Transport,
		Arrivals: s.perNode[n], Closed: s.Closed,
		ProbeEvery: s.ProbeEvery, CountersEvery: s.CountersEvery, Group: s.Group,
	}
	for _, nb := range s.neighbours.Of(n) {
		c.Neighbours = append(c.Neighbours, nb.Node)
		ab, ba := s.LinkParams(nb.Link)
		if s.Topology.Links[nb.Link].A != n {
			ab = ba
		}
		c.LinkDelay = append(c.LinkDelay, int64(ab.Delay))
	}
	if s.Group != nil && !s.Group.IsSmart(n) {
		// A simple device is no member of anything: leaders find it.
		c.Membership.Service, c.Join = "static", false
		return c
	}
	if all := s.distance(); all != nil {
		c.Distance = all[n]
	}
	members := s.Lists[n]
	if c.Join && s.Membership.Service == "medley" {
		members = s.contacts(n, inc, c.Neighbours)
	}
	c.Members = make([]core.Peer, 0, len(members))
	for _, id := range members {
		if s.takesPart(id) {
			c.Members = append(c.Members, core.Peer{ID: id, Inc: core.FirstIncarnation})
		}
	}
	return c
}

// takesPart reports whether a node is a member of the membership service:
// with k-groups the smart ones are.
func (s *Scenario) takesPart(n core.NodeID) bool { return s.Group == nil || s.Group.IsSmart(n) }

// contacts draws whom a joining node asks.
func (s *Scenario) contacts(n core.NodeID, inc core.Incarnation, neighbours []core.NodeID) []core.NodeID {
	rng := core.Stream(s.Seed, fmt.Sprintf("contacts/%d.%d", n, inc))
	taken := map[core.NodeID]bool{n: true}
	var out []core.NodeID
	for _, i := range rng.Perm(len(neighbours)) {
		if len(out) == nearContacts {
			break
		}
		if !s.takesPart(neighbours[i]) {
			continue
		}
		out = append(out, neighbours[i])
		taken[neighbours[i]] = true
	}
	for _, i := range rng.Perm(len(s.Topology.Nodes)) {
		if len(out) == maxContacts {
			break
		}
		if id := core.NodeID(i); !taken[id] && s.takesPart(id) {
			out = append(out, id)
			taken[id] = true
		}
	}
	return out
}
