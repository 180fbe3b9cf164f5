package workloads

import (
	"fmt"
	"math"
	"time"

	"churnbed/node/core"
)

// EdgeSource is the Source of the faults that edge churn and mobility make.
const EdgeSource = "edges"

// Bounds of what a graph's changes expand to, so that a mistyped rate, speed or
// duration ends in an error and not in an exhausted host.
const (
	maxEdgeChanges = 1_000_000
	maxEdgeTries   = 5 * maxEdgeChanges // changes, and attempts of a link to come back
)

// Edges is a graph that changes: pairs that may be linked, those of them
// (indices) that are not at first, and what happens then.
type Edges struct {
	Links  [][2]core.NodeID // a < b, ascending
	Down   []int
	Faults []Fault // LinkDown and LinkUp of one link each, ascending
}

// EdgeChurn says how links go and come at random, each independently.
type EdgeChurn struct {
	Links   [][2]core.NodeID // a < b, ascending: those that there may be
	Nodes   int
	Rate    float64       // departures a second of a link that is up, > 0
	Down    time.Duration // mean time until a link that is down tries to come back, > 0
	Bound   int           // most links of a node at a time; a link that finds no place tries again later. 0: none
	Horizon time.Duration // nothing happens after it
}

// Expand draws what happens.
func (c EdgeChurn) Expand(seed uint64) (Edges, error) {
	if !(c.Rate > 0) || c.Down <= 0 || c.Bound < 0 {
		return Edges{}, fmt.Errorf("expand edge churn: rate %v, mean time down %v, bound %d: want all above 0, or bound 0", c.Rate, c.Down, c.Bound)
	}
	if cycle := 1e9/c.Rate + float64(c.Down); c.Bound == 0 && 2*float64(len(c.Links))*float64(c.Horizon)/cycle > maxEdgeChanges {
		return Edges{}, c.tooMany() // without the work of finding out
	}
	rng := core.Stream(seed, "edges/churn")
	g := newGraph(c.Links, c.Nodes, c.Bound)
	for _, i := range rng.Perm(len(c.Links)) {
		g.join(i)
	}
	e := Edges{Links: c.Links, Down: g.down()}
	type change struct {
		at   time.Duration
		link int
	}
	next := core.Heap[change]{Less: func(a, b *change) bool { return a.at < b.at || a.at == b.at && a.link < b.link }}
	plan := func(i int, from time.Duration) {
		mean := float64(c.Down)
		if g.up[i] {
			mean = 1e9 / c.Rate
		}
		if d := rng.ExpFloat64() * mean; d < float64(c.Horizon-from) {
			next.Push(change{from + 1 + time.Duration(d), i})
		}
	}
	for i := range c.Links {
		plan(i, 0)
	}
	for tries := 1; next.Len() > 0; tries++ {
		n := next.Pop()
		switch {
		case len(e.Faults) == maxEdgeChanges:
			return Edges{}, c.tooMany()
		case tries > maxEdgeTries:
			return Edges{}, fmt.Errorf("%d links would try to come back more than %d times in %v, most of them in vain by degree-bound %d: want an edge-down-mean of %v or more, or fewer links, or a shorter duration (churn-until)",
				len(c.Links), maxEdgeTries, c.Horizon, c.Bound, slowest(float64(len(c.Links))*float64(c.Horizon)/maxEdgeTries))
		}
		switch {
		case g.up[n.link]:
			g.cut(n.link)
			e.add(n.at, LinkDown, n.link)
		case g.join(n.link):
			e.add(n.at, LinkUp, n.link)
		}
		plan(n.link, n.at)
	}
	return e, nil
}

// tooMany says that links change too often, and how slow would do.
func (c EdgeChurn) tooMany() error {
	return fmt.Errorf("%d links would go and come more than %d times in %v: want 1/edge-churn and edge-down-mean to come to %v or more together, or fewer links, or a shorter duration (churn-until)",
		len(c.Links), maxEdgeChanges, c.Horizon, slowest(2*float64(len(c.Links))*float64(c.Horizon)/maxEdgeChanges))
}

// slowest rounds nanoseconds up to two digits, for people.
func slowest(ns float64) time.Duration {
	unit := math.Pow(10, math.Floor(math.Log10(max(ns, 10)))-1)
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return clampDuration(math.Ceil(ns/unit) * unit)
}

func (e *Edges) add(at time.Duration, verb Verb, link int) {
	e.Faults = append(e.Faults, Fault{At: at, Verb: verb, Links: [][2]core.NodeID{e.Links[link]}, Source: EdgeSource})
}

// graph keeps the degrees of nodes within a bound.
type graph struct {
	links  [][2]core.NodeID
	up     []bool
	degree []int
	bound  int
}

func newGraph(links [][2]core.NodeID, nodes, bound int) *graph {
	return &graph{links: links, up: make([]bool, len(links)), degree: make([]int, nodes), bound: bound}
}

func (g *graph) join(i int) bool {
	a, b := g.links[i][0], g.links[i][1]
	if g.bound > 0 && max(g.degree[a], g.degree[b]) >= g.bound {
		return false
	}
	g.degree[a]++
	g.degree[b]++
	g.up[i] = true
	return true
}

func (g *graph) cut(i int) {
	g.degree[g.links[i][0]]--
	g.degree[g.links[i][1]]--
	g.up[i] = false
}

func (g *graph) down() (list []int) {
	for i, up := range g.up {
		if !up {
			list = append(list, i)
		}
	}
	return list
}
