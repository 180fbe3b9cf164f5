package topologies

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"churnbed/node/core"
)

// Metric is what a shortest path minimises.
type Metric string

const (
	Euclid Metric = "euclid" // least total length, as the reference simulators
	Hops   Metric = "hops"   // fewest links, ties by length
	Delay  Metric = "delay"  // least total configured delay
)

// Metrics lists the metrics.
func Metrics() []Metric { return []Metric{Euclid, Hops, Delay} }

// ParseMetric returns the metric of that name.
func ParseMetric(s string) (Metric, error) {
	for _, m := range Metrics() {
		if s == string(m) {
			return m, nil
		}
	}
	return "", fmt.Errorf("metric %q: want %s, %s or %s", s, Euclid, Hops, Delay)
}

// unreachable is the cost of a node that has no path.
const unreachable = math.MaxUint64

// Routes holds the shortest paths between all pairs of nodes as one tree per
// destination: the next hop of a path has the rest of it as its own path, so
// forwarding by per-node tables never loops. Among equal paths the one with
// fewer links wins (for Hops the shorter one), then the lower next hop. Costs
// are whole micrometres or nanoseconds, so sums do not depend on their order
// and the result is a function of the graph alone.
//
// It takes 12 bytes a pair. Reading may go on from several goroutines; Update
// needs the value for itself.
type Routes struct {
	t      *Topology
	metric Metric
	n      int

	// hopBits is the width of a hop count; a cost is the primary sum above
	// the secondary one: (length or delay, hops), or (hops, length) for Hops.
	hopBits uint

	// in[start[v]:start[v+1]] are the directed edges u -> v into v.
	start []int
	in    []edge
	alive []bool
	cost  []uint64      // [dst*n+src]
	next  []core.NodeID // [dst*n+src]
	heap  costHeap
}

// edge is the direction u -> v of a link, kept at v.
type edge struct {
	u    core.NodeID
	link int32
	ab   bool
	cost uint64 // unreachable while the link or one of its ends is down
}

// ComputeRoutes computes the shortest paths between all pairs that are alive
// over the links that are up. Nil functions mean: every node is alive, every
// link is up, the delay of link i in direction a->b (ab) or b->a is what the
// topology itself says, 0 where it says nothing. delay matters to the metric
// Delay only. A link longer than 2^(63 - 2 log2 nodes) (micrometres or
// nanoseconds; 8,800 km or 2.4 h at 1,024 nodes) counts as that long.
func ComputeRoutes(t *Topology, m Metric, alive func(node core.NodeID) bool, linkUp func(i int) bool, delay func(i int, ab bool) time.Duration) *Routes {
	n := len(t.Nodes)
	r := &Routes{
		t: t, metric: m, n: n,
		hopBits: uint(bits.Len(uint(n - 1))),
		start:   make([]int, n+1),
		in:      make([]edge, 0, 2*len(t.Links)),
		alive:   make([]bool, n),
		cost:    make([]uint64, n*n),
		next:    make([]core.NodeID, n*n),
	}
	adj := t.Adjacency()
	for v := range n {
		for _, nb := range adj.Of(core.NodeID(v)) {
			r.in = append(r.in, edge{u: nb.Node, link: int32(nb.Link), ab: t.Links[nb.Link].A == nb.Node})
		}
		r.start[v+1] = len(r.in)
	}
	r.setAlive(alive)
	for v := range n {
		for i := r.start[v]; i < r.start[v+1]; i++ {
			r.in[i].cost = r.edgeCost(core.NodeID(v), r.in[i], linkUp, delay)
		}
	}
	for dst := range n {
		cost, next := r.row(core.NodeID(dst))
		for i := range cost {
			cost[i], next[i] = unreachable, core.None
		}
		if r.alive[dst] {
			cost[dst], next[dst] = 0, core.NodeID(dst)
			r.heap.push(0, core.NodeID(dst))
			r.settle(cost, next)
		}
	}
	return r
}

func (r *Routes) setAlive(alive func(core.NodeID) bool) {
	for i := range r.alive {
		r.alive[i] = alive == nil || alive(core.NodeID(i))
	}
}

// row returns costs and next hops of all sources to dst.
func (r *Routes) row(dst core.NodeID) ([]uint64, []core.NodeID) {
	lo, hi := int(dst)*r.n, (int(dst)+1)*r.n
	return r.cost[lo:hi:hi], r.next[lo:hi:hi]
}

// edgeCost returns what the edge e into v adds to a path. It is never 0, as it
// holds one hop.
func (r *Routes) edgeCost(v core.NodeID, e edge, linkUp func(int) bool, delay func(int, bool) time.Duration) uint64 {
	if !r.alive[v] || !r.alive[e.u] || linkUp != nil && !linkUp(int(e.link)) {
		return unreachable
	}
	var sum uint64 // micrometres or nanoseconds
	if r.metric == Delay {
		sum = uint64(max(0, r.delayOf(e, delay)))
	} else {
		sum = uint64(math.Round(r.t.Length(int(e.link)) * 1e6))
	}
	sumBits := 63 - r.hopBits
	sum = min(sum, 1<<(sumBits-r.hopBits)-1) // n of them still fit
	if r.metric == Hops {
		return 1<<sumBits | sum
	}
	return sum<<r.hopBits | 1
}

func (r *Routes) delayOf(e edge, delay func(int, bool) time.Duration) time.Duration {
	if delay != nil {
		return delay(int(e.link), e.ab)
	}
	l := r.t.Links[e.link]
	own := l.BA.Delay
	if e.ab {
		own = l.AB.Delay
	}
	if own == nil {
		return 0
	}
	return *own
}

// settle runs Dijkstra's algorithm from the nodes on the heap towards the
// sources. Every edge costs at least one hop, so all tight next hops of a node
// are settled before the node is, and the lowest of them wins whatever the
// order.
func (r *Routes) settle(cost []uint64, next []core.NodeID) {
	for len(r.heap) > 0 {
		top := r.heap.pop()
		v := top.node
		if top.cost != cost[v] {
			continue // a better path to v was found since
		}
		for _, e := range r.in[r.start[v]:r.start[v+1]] {
			if e.cost == unreachable {
				continue
			}
			c := top.cost + e.cost
			if old := cost[e.u]; c < old {
				cost[e.u], next[e.u] = c, v
				r.heap.push(c, e.u)
			} else if c == old && v < next[e.u] {
				next[e.u] = v
			}
		}
	}
}

// Next returns the neighbour that src sends to for dst, src itself where the
// two are the same, core.None where dst cannot be reached.
func (r *Routes) Next(src, dst core.NodeID) core.NodeID {
	return r.next[int(dst)*r.n+int(src)]
}

// Hops returns the number of links from src to dst, -1 where there is no path.
func (r *Routes) Hops(src, dst core.NodeID) int {
	c := r.cost[int(dst)*r.n+int(src)]
	switch {
	case c == unreachable:
		return -1
	case r.metric == Hops:
		return int(c >> (63 - r.hopBits))
	default:
		return int(c & (1<<r.hopBits - 1))
	}
}

// Length returns what the path from src to dst sums up: metres, or seconds for
// the metric Delay; +Inf where there is no path.
func (r *Routes) Length(src, dst core.NodeID) float64 {
	c := r.cost[int(dst)*r.n+int(src)]
	switch {
	case c == unreachable:
		return math.Inf(1)
	case r.metric == Hops:
		return float64(c&(1<<(63-r.hopBits)-1)) / 1e6
	case r.metric == Delay:
		return float64(c>>r.hopBits) / 1e9
	default:
		return float64(c>>r.hopBits) / 1e6
	}
}

// Path returns the nodes from src to dst, both included, nil where there is no
// path.
func (r *Routes) Path(src, dst core.NodeID) []core.NodeID {
	hops := r.Hops(src, dst)
	if hops < 0 {
		return nil
	}
	path := make([]core.NodeID, 0, hops+1)
	for at := src; ; at = r.Next(at, dst) {
		path = append(path, at)
		if at == dst {
			return path
		}
	}
}

// Metric returns what the paths minimise.
func (r *Routes) Metric() Metric { return r.metric }

// costHeap is a binary heap of (cost, node); container/heap's interface calls
// would take half of the time.
type costHeap []costItem

type costItem struct {
	cost uint64
	node core.NodeID
}

func (h *costHeap) push(cost uint64, node core.NodeID) {
	*h = append(*h, costItem{})
	s := *h
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if s[up].cost <= cost {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = costItem{cost, node}
}

func (h *costHeap) pop() costItem {
	s := *h
	top := s[0]
	last := s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if down+1 < len(s) && s[down+1].cost < s[down].cost {
			down++
		}
		if last.cost <= s[down].cost {
			break
		}
		s[i] = s[down]
		i = down
	}
	s[i] = last
	return top
}
