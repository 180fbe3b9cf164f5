package scenario

import (
	"cmp"
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex/catalog"
	"churnbed/node/wire"
)

// tokenAlgorithms keep tokens where the scenario says; their set of nodes is
// fixed.
var tokenAlgorithms = []string{"naimi-trehel", "fairk", "bv95"}

// fixedMembership makes static the membership of an algorithm whose set of
// nodes is fixed, unless one is given.
func (r *resolver) fixedMembership() {
	entry, _ := catalog.Find(r.spec.Algorithm)
	if (entry.Fixed || slices.Contains(tokenAlgorithms, r.spec.Algorithm)) && !r.origin.has("membership") {
		r.spec.Membership = "static"
	}
}

// tokens checks the keys of token algorithms and places the tokens.
func (r *resolver) tokens() {
	s := &r.spec
	r.ring()
	if !slices.Contains(tokenAlgorithms, s.Algorithm) {
		if s.K > 1 {
			r.bad("k", "%d: algorithm %s lets in one at a time", s.K, s.Algorithm)
		}
		if s.TokenPlacement != placementFirst {
			r.bad("token-placement", "%q: algorithm %s has no tokens to place", s.TokenPlacement, s.Algorithm)
		}
		return
	}
	if s.Algorithm == "naimi-trehel" && s.K > 1 {
		r.bad("k", "%d: naimi-trehel has one token", s.K)
		return
	}
	if s.K > len(r.top.Nodes) {
		r.bad("k", "%d: more tokens than the %d nodes", s.K, len(r.top.Nodes))
		return
	}
	var at []core.NodeID
	if s.TokenPlacement == placementFirst {
		for i := range s.K {
			at = append(at, core.NodeID(i))
		}
	} else {
		at, _ = parseIDs(s.TokenPlacement) // checked when it was set
	}
	if len(at) != s.K {
		r.bad("token-placement", "%q: %d nodes: want %d, as k says", s.TokenPlacement, len(at), s.K)
		return
	}
	for i, id := range at {
		if int(id) >= len(r.top.Nodes) {
			r.bad("token-placement", "%q: node %d: want 0 to %d", s.TokenPlacement, id, len(r.top.Nodes)-1)
			return
		}
		if slices.Contains(at[:i], id) {
			r.bad("token-placement", "%q: node %d has two tokens: want each node once", s.TokenPlacement, id)
			return
		}
	}
	r.algorithm.Placement, r.algorithm.TreeChoice = at, s.TreeChoice
}

// ring checks the keys of fault tolerance.
func (r *resolver) ring() {
	s := &r.spec
	if s.Replicas == 0 {
		if s.RingQuorum > 0 {
			r.bad("ring-quorum", "%d: want replicas with it: nobody else agrees on anything", s.RingQuorum)
		}
		return
	}
	n := len(r.top.Nodes)
	switch {
	case s.Algorithm != "fairk":
		r.bad("replicas", "%d: algorithm %s keeps none; it is fairk that does", s.Replicas, s.Algorithm)
	case s.Replicas >= n:
		r.bad("replicas", "%d: want fewer than the %d nodes", s.Replicas, n)
	case n > wire.MaxRing:
		r.bad("replicas", "%d nodes: the state of a node fits a frame for up to %d", n, wire.MaxRing)
	case s.RingQuorum > n:
		r.bad("ring-quorum", "%d: there are %d nodes", s.RingQuorum, n)
	case s.Membership != "static":
		r.bad("replicas", "membership %s: want static; the ring finds failures itself", s.Membership)
	case s.DownAtStart != "none":
		r.bad("replicas", "down-at-start %s: want none; all nodes must run from the start", s.DownAtStart)
	}
	if quorum := cmp.Or(s.RingQuorum, n/2+1); quorum == n {
		r.warn("all %d nodes must agree on who takes part (ring-quorum): no failure is survived", n)
	}
	r.algorithm.Replicas, r.algorithm.RingPeriod, r.algorithm.RingQuorum = s.Replicas, s.RingPeriod, s.RingQuorum
}
