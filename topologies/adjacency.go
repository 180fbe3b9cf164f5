package topologies

import (
	"slices"
	"sort"

	"churnbed/node/core"
)

// Neighbour is one end of a link seen from the other.
type Neighbour struct {
	Node core.NodeID
	Link int // index into Topology.Links
}

// Adjacency lists the neighbours of every node. It is read-only.
type Adjacency struct {
	start []int
	list  []Neighbour
}

// Adjacency returns the neighbour lists of t, in O(nodes + links).
func (t *Topology) Adjacency() *Adjacency {
	a := &Adjacency{
		start: make([]int, len(t.Nodes)+1),
		list:  make([]Neighbour, 2*len(t.Links)),
	}
	for _, l := range t.Links {
		a.start[l.A+1]++
		a.start[l.B+1]++
	}
	for i := range t.Nodes {
		a.start[i+1] += a.start[i]
	}
	fill := slices.Clone(a.start)
	for i, l := range t.Links {
		a.list[fill[l.A]] = Neighbour{l.B, i}
		fill[l.A]++
		a.list[fill[l.B]] = Neighbour{l.A, i}
		fill[l.B]++
	}
	for i := range t.Nodes {
		of := a.Of(core.NodeID(i))
		slices.SortFunc(of, func(x, y Neighbour) int { return int(x.Node) - int(y.Node) })
	}
	return a
}

// Of returns the neighbours of n by ascending id.
func (a *Adjacency) Of(n core.NodeID) []Neighbour { return a.list[a.start[n]:a.start[n+1]] }

// Degree returns the number of neighbours of n.
func (a *Adjacency) Degree(n core.NodeID) int { return a.start[n+1] - a.start[n] }

// Neighbours returns the neighbours of n by ascending id, in O(links); for
// many nodes take Adjacency.
func (t *Topology) Neighbours(n core.NodeID) []core.NodeID {
	var of []core.NodeID
	for _, l := range t.Links {
		if l.A == n {
			of = append(of, l.B)
		} else if l.B == n {
			of = append(of, l.A)
		}
	}
	slices.Sort(of)
	return of
}

// LinkIndex returns the index of the link between a and b, in either order,
// or -1 where there is none.
func (t *Topology) LinkIndex(a, b core.NodeID) int {
	if a > b {
		a, b = b, a
	}
	want := Link{A: a, B: b}
	i := sort.Search(len(t.Links), func(i int) bool { return compareLinks(t.Links[i], want) >= 0 })
	if i < len(t.Links) && compareLinks(t.Links[i], want) == 0 {
		return i
	}
	return -1
}
