// Package mesh is the state of a mesh under faults, the same for the emulator
// and the simulator: which links are up, with which parameters, and the
// routes over them. It is pure; the owner serialises all calls and carries
// the changes to a fabric or to simulated links.
package mesh

import (
	"fmt"
	"slices"
	"time"

	"churnbed/emulator/link"
	"churnbed/node/core"
	"churnbed/topologies"
	"churnbed/workloads"
)

// State is the present state of the links and routes. A link is up unless
// something keeps it down: a fault on it, a partition, or a powered-off end.
type State struct {
	Links []Link

	topology *topologies.Topology
	routes   *topologies.Routes
	off      []bool // by node: powered off
	of       [][]int
}

// Link is a link of the mesh, A < B, with its present parameters in scenario
// time.
type Link struct {
	A, B        core.NodeID
	AB, BA      link.Params
	Up          bool // as of the last Flip
	down        bool // by a fault on the link
	partitioned bool // by a partition since the last heal
}

// Name is "a-b".
func (l *Link) Name() string { return fmt.Sprintf("%d-%d", l.A, l.B) }

// Describe formats the present parameters for logs.
func (l *Link) Describe() string {
	one := func(p link.Params) string {
		s := fmt.Sprintf("delay %v jitter %v loss %g rate %d", p.Delay, p.Jitter, p.Loss, p.Rate)
		if p.Burst != nil {
			s += fmt.Sprintf(" burst %+v", *p.Burst)
		}
		return s
	}
	if ab, ba := one(l.AB), one(l.BA); ab != ba {
		return "ab: " + ab + "; ba: " + ba
	}
	return one(l.AB)
}

// New returns the state in which every link is up with the parameters that
// params gives, and computes its routes.
func New(t *topologies.Topology, params func(i int) (ab, ba link.Params), metric topologies.Metric) *State {
	s := &State{
		Links: make([]Link, len(t.Links)), topology: t, off: make([]bool, len(t.Nodes)), of: make([][]int, len(t.Nodes)),
	}
	for i, l := range t.Links {
		s.Links[i] = Link{A: l.A, B: l.B, Up: true}
		s.Links[i].AB, s.Links[i].BA = params(i)
		s.of[l.A] = append(s.of[l.A], i)
		s.of[l.B] = append(s.of[l.B], i)
	}
	s.routes = topologies.ComputeRoutes(t, metric, nil, nil, s.Delay)
	return s
}

// Routes are the present routes; Reroute changes them.
func (s *State) Routes() *topologies.Routes { return s.routes }

// Delay is the present one-way delay of link i from A to B (ab) or back.
func (s *State) Delay(i int, ab bool) time.Duration {
	if ab {
		return s.Links[i].AB.Delay
	}
	return s.Links[i].BA.Delay
}

// CutFirst takes down links (indices) before any fault: Flip finds them.
func (s *State) CutFirst(links []int) {
	for _, i := range links {
		s.Links[i].down = true
	}
}

// Apply takes in a fault that concerns links and returns the links whose
// parameters changed. Links that must go up or down are found by Flip.
func (s *State) Apply(f *workloads.Fault) (changed []int) {
	switch f.Verb {
	case workloads.LinkDown, workloads.LinkUp:
		for _, i := range s.named(f) {
			s.Links[i].down = f.Verb == workloads.LinkDown
		}
	case workloads.Partition:
		s.partition(f.Groups)
	case workloads.Heal:
		for i := range s.Links {
			s.Links[i].partitioned = false
		}
	case workloads.Set:
		return s.set(f)
	case workloads.Crash, workloads.Poweroff, workloads.Pause, workloads.Resume, workloads.Restart, workloads.Join, workloads.Leave, workloads.Trigger:
	}
	return changed
}

// set changes parameters, of one direction where the fault says so.
func (s *State) set(f *workloads.Fault) (changed []int) {
	if !f.OneWay {
		changed = s.named(f)
		for _, i := range changed {
			l := &s.Links[i]
			l.AB, l.BA = f.Set.Apply(l.AB), f.Set.Apply(l.BA)
		}
		return changed
	}
	for _, p := range f.Links {
		i := s.topology.LinkIndex(min(p[0], p[1]), max(p[0], p[1]))
		if i < 0 {
			continue
		}
		way := &s.Links[i].AB
		if p[0] > p[1] {
			way = &s.Links[i].BA
		}
		*way = f.Set.Apply(*way)
		changed = append(changed, i)
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

// SetOff powers a node's radio off or on.
func (s *State) SetOff(n core.NodeID, off bool) { s.off[n] = off }

// Off reports whether a node's radio is off.
func (s *State) Off(n core.NodeID) bool { return s.off[n] }

// Flip brings Up of every link to what it must be and returns the links that
// changed.
func (s *State) Flip() (flipped []int) {
	for i := range s.Links {
		l := &s.Links[i]
		if up := !l.down && !l.partitioned && !s.off[l.A] && !s.off[l.B]; up != l.Up {
			l.Up = up
			flipped = append(flipped, i)
		}
	}
	return flipped
}

// Reroute recomputes the routes for the present links and returns what
// changed.
func (s *State) Reroute() []topologies.Change {
	return s.routes.Update(
		func(n core.NodeID) bool { return !s.off[n] },
		func(i int) bool { return s.Links[i].Up },
		s.Delay)
}

// Incoming lists the present delays (ns) towards n, in the order of
// topologies.Topology.Neighbours.
func (s *State) Incoming(n core.NodeID) []int64 {
	neighbours := s.topology.Neighbours(n)
	list := make([]int64, len(neighbours))
	for k, nb := range neighbours {
		i := s.topology.LinkIndex(min(n, nb), max(n, nb))
		list[k] = int64(s.Delay(i, nb < n))
	}
	return list
}

// named returns the links that a fault is about: those it lists, those of its
// nodes, or all.
func (s *State) named(f *workloads.Fault) []int {
	var list []int
	switch {
	case len(f.Links) > 0:
		for _, p := range f.Links {
			if i := s.topology.LinkIndex(p[0], p[1]); i >= 0 {
				list = append(list, i)
			}
		}
	case len(f.Nodes) > 0:
		for _, n := range f.Nodes {
			list = append(list, s.of[n]...)
		}
	default:
		for i := range s.Links {
			list = append(list, i)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// partition cuts the links between different groups, in addition to what
// earlier partitions cut; nodes that no group names form one more.
func (s *State) partition(groups [][]core.NodeID) {
	group := make([]int, len(s.off))
	for g, members := range groups {
		for _, n := range members {
			group[n] = g + 1
		}
	}
	for i := range s.Links {
		l := &s.Links[i]
		l.partitioned = l.partitioned || group[l.A] != group[l.B]
	}
}
