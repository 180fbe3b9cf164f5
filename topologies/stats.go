package topologies

import (
	"math"
	"slices"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// Stats describe a topology.
type Stats struct {
	Name   string  `json:"name,omitempty"`
	Nodes  int     `json:"nodes"`
	Links  int     `json:"links"`
	Radius float64 `json:"radius_m,omitempty"`

	DegreeMin  int     `json:"degree_min"`
	DegreeMean float64 `json:"degree_mean"`
	DegreeMax  int     `json:"degree_max"`

	Connected    bool `json:"connected"`
	Components   int  `json:"components"`
	Largest      int  `json:"largest_component"` // nodes
	Survivable   bool `json:"survivable"`        // connected, and still so without any one node
	Articulation int  `json:"articulation_points"`

	// The fewest-hop paths between all pairs that have one.
	HopDiameter int     `json:"hop_diameter"`
	MeanHops    float64 `json:"mean_hops"`

	// The paths under the routing metric between all pairs that have one.
	Metric     Metric  `json:"metric"`
	RouteHops  float64 `json:"route_mean_hops"`
	RouteMax   int     `json:"route_max_hops"`
	RouteLen   float64 `json:"route_mean_length"` // metres; seconds for delay
	LinkLenMin float64 `json:"link_length_min_m"`
	LinkLen    float64 `json:"link_length_mean_m"`
	LinkLenMax float64 `json:"link_length_max_m"`

	// Directions of links that bring their own value, and its mean.
	OwnDelay     int     `json:"directions_with_delay"`
	OwnDelayMean float64 `json:"delay_mean_ms,omitempty"`
	OwnLoss      int     `json:"directions_with_loss"`
	OwnLossMean  float64 `json:"loss_mean,omitempty"`
}

// Measure computes the statistics of t with routes under m.
func Measure(t *Topology, m Metric) Stats {
	s := Stats{Name: t.Name, Nodes: len(t.Nodes), Links: len(t.Links), Radius: t.Radius, Metric: m}
	adj := t.Adjacency()
	s.DegreeMin = math.MaxInt
	for i := range t.Nodes {
		d := adj.Degree(core.NodeID(i))
		s.DegreeMin, s.DegreeMax = min(s.DegreeMin, d), max(s.DegreeMax, d)
	}
	if len(t.Nodes) == 0 {
		s.DegreeMin = 0
		return s
	}
	s.DegreeMean = 2 * float64(len(t.Links)) / float64(len(t.Nodes))

	components := t.Components()
	s.Components, s.Largest = len(components), len(components[0])
	s.Connected = s.Components == 1
	s.Articulation = len(t.ArticulationPoints())
	s.Survivable = s.Connected && s.Articulation == 0

	s.HopDiameter, s.MeanHops = hopDistances(adj, len(t.Nodes))
	s.measureRoutes(t, m)
	s.measureLinks(t)
	return s
}

func (s *Stats) measureRoutes(t *Topology, m Metric) {
	r := ComputeRoutes(t, m, nil, nil, nil)
	pairs, hops, length := 0, 0, 0.0
	for d := range t.Nodes {
		for src := range t.Nodes {
			h := r.Hops(core.NodeID(src), core.NodeID(d))
			if h < 1 {
				continue
			}
			pairs++
			hops += h
			length += r.Length(core.NodeID(src), core.NodeID(d))
			s.RouteMax = max(s.RouteMax, h)
		}
	}
	if pairs > 0 {
		s.RouteHops, s.RouteLen = float64(hops)/float64(pairs), length/float64(pairs)
	}
}

func (s *Stats) measureLinks(t *Topology) {
	for i, l := range t.Links {
		length := t.Length(i)
		s.LinkLen += length
		s.LinkLenMax = max(s.LinkLenMax, length)
		if i == 0 || length < s.LinkLenMin {
			s.LinkLenMin = length
		}
		for _, o := range [...]link.Override{l.AB, l.BA} {
			if o.Delay != nil {
				s.OwnDelay++
				s.OwnDelayMean += o.Delay.Seconds() * 1e3
			}
			if o.Loss != nil {
				s.OwnLoss++
				s.OwnLossMean += *o.Loss
			}
		}
	}
	s.LinkLen /= max(1, float64(len(t.Links)))
	s.OwnDelayMean /= max(1, float64(s.OwnDelay))
	s.OwnLossMean /= max(1, float64(s.OwnLoss))
}

// hopDistances returns the largest and the mean fewest-hop distance of all
// pairs that have a path.
func hopDistances(adj *Adjacency, n int) (diameter int, mean float64) {
	dist := make([]int32, n)
	queue := make([]core.NodeID, 0, n)
	var sum, pairs int64
	for src := range n {
		for i := range dist {
			dist[i] = -1
		}
		dist[src] = 0
		queue = append(queue[:0], core.NodeID(src))
		for i := 0; i < len(queue); i++ {
			at := queue[i]
			sum += int64(dist[at])
			for _, nb := range adj.Of(at) {
				if dist[nb.Node] < 0 {
					dist[nb.Node] = dist[at] + 1
					queue = append(queue, nb.Node)
				}
			}
		}
		pairs += int64(len(queue) - 1)
		diameter = max(diameter, int(dist[queue[len(queue)-1]]))
	}
	if pairs == 0 {
		return 0, 0
	}
	return diameter, float64(sum) / float64(pairs)
}

// Components returns the connected parts of t, the largest first (of equal
// ones that with the lowest id), each by ascending id.
func (t *Topology) Components() [][]core.NodeID {
	adj := t.Adjacency()
	seen := make([]bool, len(t.Nodes))
	var parts [][]core.NodeID
	for i := range t.Nodes {
		if seen[i] {
			continue
		}
		seen[i] = true
		part := []core.NodeID{core.NodeID(i)}
		for j := 0; j < len(part); j++ {
			for _, nb := range adj.Of(part[j]) {
				if !seen[nb.Node] {
					seen[nb.Node] = true
					part = append(part, nb.Node)
				}
			}
		}
		slices.Sort(part)
		parts = append(parts, part)
	}
	slices.SortStableFunc(parts, func(x, y []core.NodeID) int { return len(y) - len(x) })
	return parts
}

// Connected reports whether every node reaches every other.
func (t *Topology) Connected() bool { return len(t.Components()) <= 1 }

// Biconnected reports whether t is connected and stays so without any one node.
func (t *Topology) Biconnected() bool {
	return t.Connected() && len(t.ArticulationPoints()) == 0
}

// ArticulationPoints returns, by ascending id, the nodes without which their
// component falls apart (Hopcroft and Tarjan, "Algorithm 447", CACM 16, 1973;
// without recursion, as lines are deep).
func (t *Topology) ArticulationPoints() []core.NodeID {
	adj := t.Adjacency()
	n := len(t.Nodes)
	order := make([]int, n) // 1, 2, ... by first visit
	low := make([]int, n)
	tried := make([]int, n) // neighbours looked at so far
	parent := make([]core.NodeID, n)
	cut := make([]bool, n)
	visited := 0
	var stack []core.NodeID
	visit := func(v, from core.NodeID) {
		visited++
		order[v], low[v], parent[v] = visited, visited, from
		stack = append(stack, v)
	}
	for root := range n {
		if order[root] != 0 {
			continue
		}
		children := 0
		visit(core.NodeID(root), core.None)
		for len(stack) > 0 {
			v := stack[len(stack)-1]
			if of := adj.Of(v); tried[v] < len(of) {
				u := of[tried[v]].Node
				tried[v]++
				switch {
				case order[u] == 0:
					visit(u, v)
				case u != parent[v]:
					low[v] = min(low[v], order[u])
				}
				continue
			}
			stack = stack[:len(stack)-1]
			p := parent[v]
			if p == core.None {
				continue
			}
			low[p] = min(low[p], low[v])
			if int(p) == root {
				children++
			} else if low[v] >= order[p] {
				cut[p] = true
			}
		}
		cut[root] = children > 1
	}
	var points []core.NodeID
	for i, c := range cut {
		if c {
			points = append(points, core.NodeID(i))
		}
	}
	return points
}

// Subset returns the topology of the nodes in keep and the links between them;
// nodes are numbered anew in the order of keep.
func (t *Topology) Subset(keep []core.NodeID) *Topology {
	index := make([]core.NodeID, len(t.Nodes))
	for i := range index {
		index[i] = core.None
	}
	s := &Topology{Name: t.Name, Radius: t.Radius}
	for _, n := range keep {
		index[n] = core.NodeID(len(s.Nodes))
		s.Nodes = append(s.Nodes, t.Nodes[n])
	}
	for _, l := range t.Links {
		a, b := index[l.A], index[l.B]
		switch {
		case a == core.None || b == core.None:
		case a < b:
			s.Links = append(s.Links, Link{A: a, B: b, AB: l.AB, BA: l.BA})
		default:
			s.Links = append(s.Links, Link{A: b, B: a, AB: l.BA, BA: l.AB})
		}
	}
	slices.SortFunc(s.Links, compareLinks)
	return s
}

// LargestComponent returns the largest connected part of t, t itself where it
// is connected.
func (t *Topology) LargestComponent() *Topology {
	parts := t.Components()
	if len(parts) <= 1 {
		return t
	}
	return t.Subset(parts[0])
}
