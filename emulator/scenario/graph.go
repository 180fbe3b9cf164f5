package scenario

import (
	"cmp"
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex/localmutex"
	"churnbed/node/stack"
	"churnbed/topologies"
	"churnbed/workloads"
)

// The values of the key mobility.
const (
	mobilityNone     = "none"
	mobilityWaypoint = "waypoint"
)

// LinkLocal reports whether nodes speak with their neighbours only, so that
// routes do not matter.
func (s *Scenario) LinkLocal() bool { return stack.LinkLocal(s.Algorithm.Name) }

// mobile puts the pairs that come within reach of each other in place of the
// links of the mesh, with edge churn among them.
func (r *resolver) mobile(t *topologies.Topology) *topologies.Topology {
	s := &r.spec
	if s.Mobility == mobilityNone {
		return t
	}
	if s.Duration <= 0 {
		r.bad("mobility", "%q: want a duration, so that it is known how long nodes move", s.Mobility)
		return nil
	}
	m := workloads.Mobility{
		Width: s.Area.Width, Height: s.Area.Height, Radius: cmp.Or(s.Radius, t.Radius, topologies.DefaultRadius),
		Speed: s.MobilitySpeed, Pause: s.MobilityPause, Step: s.MobilityStep, Bound: s.DegreeBound, Horizon: s.Duration,
		Rate: s.EdgeChurn, Down: s.EdgeDownMean, Until: s.ChurnUntil,
	}
	for _, n := range t.Nodes {
		m.At = append(m.At, [2]float64{n.X, n.Y})
	}
	e, err := m.Expand(s.Seed)
	if err != nil {
		r.bad("mobility", "%v", err)
		return nil
	}
	r.edges = e
	moved := *t
	moved.Links = nil
	for _, l := range e.Links {
		moved.Links = append(moved.Links, topologies.Link{A: l[0], B: l[1]})
	}
	return &moved
}

// graph draws the edge churn of nodes that stay, and checks what local mutual exclusion needs of the
// graph.
func (r *resolver) graph() {
	s := &r.spec
	if s.EdgeChurn > 0 && s.Mobility == mobilityNone {
		c := workloads.EdgeChurn{Nodes: len(r.top.Nodes), Rate: s.EdgeChurn, Down: s.EdgeDownMean, Bound: s.DegreeBound, Horizon: r.churnHorizon()}
		for _, l := range r.top.Links {
			c.Links = append(c.Links, [2]core.NodeID{l.A, l.B})
		}
		var err error
		if r.edges, err = c.Expand(s.Seed); err != nil {
			r.bad("edge-churn", "%v", err)
			return
		}
	}
	r.schedule = workloads.Merge(r.schedule, r.edges.Faults)
	local := stack.LinkLocal(s.Algorithm)
	if !local {
		if s.LocalApp != "none" {
			r.bad("local-app", "%q: localmutex has applications, but algorithm is %s", s.LocalApp, s.Algorithm)
		}
		return
	}
	if r.membership.Service != "static" {
		// Nobody acts on it, but who is declared failed gives up its locks.
		r.bad("membership", "%s: want static: neighbours of %s are known by their links", s.Membership, s.Algorithm)
	}
	degree := s.DegreeBound
	if degree == 0 || r.edges.Links == nil {
		at := make([]int, len(r.top.Nodes))
		for _, l := range r.top.Links {
			at[l.A]++
			at[l.B]++
		}
		degree = slices.Max(at)
	}
	if s.LocalDelta == 0 {
		s.LocalDelta = max(1, degree)
	}
	if s.LocalDelta > localmutex.MaxDelta {
		r.bad("local-delta", "%d: want at most %d: a node has up to %d links; degree-bound with edge-churn or mobility keeps it lower", s.LocalDelta, localmutex.MaxDelta, degree)
	}
	if s.LocalDelta < degree {
		r.warn("local-delta %d is below the %d links that a node may have: it locks %[1]d of its neighbours at most", s.LocalDelta, degree)
	}
	app := s.LocalApp
	if app == "none" {
		app = ""
	}
	r.algorithm.Local = &stack.Local{
		Priorities: s.LocalPriorities, Delta: s.LocalDelta, Backoff: s.LocalBackoff, BackoffMax: s.LocalBackoffMax, App: app,
	}
}
