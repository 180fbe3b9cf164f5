package topologies

import (
	"slices"
	"time"

	"churnbed/node/core"
)

// Change is a pair whose next hop is another than before; Next is core.None
// where Dst can no longer be reached from Src.
type Change struct {
	Src, Dst, Next core.NodeID
}

// edgeChange is an edge u -> v whose cost rose or fell.
type edgeChange struct {
	u, v core.NodeID
	cost uint64
}

// Update brings the routes to a new state of nodes, links and delays (given as
// to ComputeRoutes) and returns the pairs whose next hop changed, by (Dst,
// Src); the pair of a node with itself, which is no route, is left out. The
// result equals that of ComputeRoutes. Only the part of each
// destination's tree that hangs on a worsened edge, or that an improved edge
// shortens, is computed again (batch form of Ramalingam and Reps, "An
// incremental algorithm for a generalization of the shortest-path problem",
// J. Algorithms 21, 1996).
func (r *Routes) Update(alive func(node core.NodeID) bool, linkUp func(i int) bool, delay func(i int, ab bool) time.Duration) []Change {
	wasAlive := slices.Clone(r.alive)
	r.setAlive(alive)
	var worse, better []edgeChange
	for v := range r.n {
		for i := r.start[v]; i < r.start[v+1]; i++ {
			e := &r.in[i]
			c := r.edgeCost(core.NodeID(v), *e, linkUp, delay)
			switch {
			case c > e.cost:
				worse = append(worse, edgeChange{e.u, core.NodeID(v), c})
			case c < e.cost:
				better = append(better, edgeChange{e.u, core.NodeID(v), c})
			}
			e.cost = c
		}
	}
	var changes []Change
	old := make([]core.NodeID, r.n)
	lost := make([]lostMark, r.n)
	for d := range r.n {
		dst := core.NodeID(d)
		cost, next := r.row(dst)
		copy(old, next)
		touched := false
		switch {
		case r.alive[d] && !wasAlive[d]:
			cost[d], next[d] = 0, dst
			r.heap.push(0, dst)
			touched = true
		case !r.alive[d] && wasAlive[d]:
			for i := range cost {
				cost[i], next[i] = unreachable, core.None
			}
			touched = true
		case r.alive[d]:
			touched = r.detach(cost, next, worse, lost)
			touched = r.improve(cost, next, better) || touched
		}
		if !touched {
			continue
		}
		r.settle(cost, next)
		for s, was := range old {
			if next[s] != was && s != d {
				changes = append(changes, Change{Src: core.NodeID(s), Dst: dst, Next: next[s]})
			}
		}
	}
	return changes
}

// lostMark says whether a node's path to the destination uses a worsened edge.
type lostMark uint8

const (
	unknown lostMark = iota
	kept
	lost
)

// detach removes from a tree every node whose path uses a worsened edge and
// puts it on the heap with its best edge into what is left. It reports whether
// there was any.
func (r *Routes) detach(cost []uint64, next []core.NodeID, worse []edgeChange, mark []lostMark) bool {
	found := false
	for _, w := range worse {
		if next[w.u] == w.v {
			found = true
			break
		}
	}
	if !found {
		return false
	}
	clear(mark)
	for _, w := range worse {
		if next[w.u] == w.v {
			mark[w.u] = lost
		}
	}
	for s := range next {
		at := core.NodeID(s)
		for mark[at] == unknown && next[at] != core.None && next[at] != at {
			at = next[at]
		}
		m := mark[at]
		if m == unknown {
			m = kept // the destination, or a node that had no path
		}
		for at = core.NodeID(s); mark[at] == unknown; at = next[at] {
			mark[at] = m
			if next[at] == core.None || next[at] == at {
				break
			}
		}
	}
	for s, m := range mark {
		if m == lost {
			cost[s], next[s] = unreachable, core.None
		}
	}
	// Edges are kept at their heads, so the seeds are found from the kept
	// nodes' side: links have both directions, hence u's neighbours are the
	// tails of the edges into u.
	for s, m := range mark {
		if m != lost || !r.alive[s] {
			continue
		}
		for _, e := range r.in[r.start[s]:r.start[s+1]] {
			v := e.u
			if mark[v] == lost || cost[v] == unreachable {
				continue
			}
			out := r.in[r.edgeIndex(core.NodeID(s), v)].cost
			if out == unreachable {
				continue
			}
			if c := cost[v] + out; c < cost[s] || c == cost[s] && v < next[s] {
				cost[s], next[s] = c, v
			}
		}
		if cost[s] != unreachable {
			r.heap.push(cost[s], core.NodeID(s))
		}
	}
	return true
}

// edgeIndex returns the index of the edge u -> v, which must exist.
func (r *Routes) edgeIndex(u, v core.NodeID) int {
	lo, hi := r.start[v], r.start[v+1]
	for lo < hi {
		mid := (lo + hi) / 2
		if r.in[mid].u < u {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// improve puts on the heap every node that an improved edge serves better, and
// reports whether there was any.
func (r *Routes) improve(cost []uint64, next []core.NodeID, better []edgeChange) bool {
	found := false
	for _, b := range better {
		if cost[b.v] == unreachable {
			continue // settle comes to it where v is reached again
		}
		c := cost[b.v] + b.cost
		switch {
		case c < cost[b.u]:
			cost[b.u], next[b.u] = c, b.v
			r.heap.push(c, b.u)
			found = true
		case c == cost[b.u] && b.v < next[b.u]:
			next[b.u] = b.v
			found = true
		}
	}
	return found
}
