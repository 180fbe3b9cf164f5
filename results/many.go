package results

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/stat"

	"churnbed/node/core"
)

// sectionsByEntry are the critical sections in the order of their beginning.
func sectionsByEntry(requests []*Request) []*Request {
	sections := make([]*Request, 0, len(requests))
	for _, q := range requests {
		if q.Entered && q.End > q.Enter {
			sections = append(sections, q)
		}
	}
	slices.SortStableFunc(sections, func(a, b *Request) int { return cmp.Compare(a.Enter, b.Enter) })
	return sections
}

// safetyOfMany is safety where several may hold at once.
func (v *Verdict) safetyOfMany(requests []*Request) {
	var open []*Request
	var violation, zombie union
	for _, q := range sectionsByEntry(requests) {
		open = slices.DeleteFunc(open, func(o *Request) bool { return o.End <= q.Enter })
		// Others by when they leave, last first.
		others := slices.Clone(open)
		slices.SortStableFunc(others, func(a, b *Request) int { return cmp.Compare(b.End, a.End) })
		var live []*Request
		for _, o := range others {
			if !o.declaredFailed(max(q.Enter, o.Enter+1)) {
				live = append(live, o)
			}
		}
		qZombie := q.declaredFailed(q.Enter + 1)
		if !qZombie {
			v.MaxConcurrent = max(v.MaxConcurrent, len(live)+1)
		}
		open = append(open, q)
		if len(others) < v.Holders {
			continue
		}
		pair := Overlap{Second: q, From: q.Enter}
		if pair.Zombie = qZombie || len(live) < v.Holders; pair.Zombie {
			pair.First, pair.Others = others[v.Holders-1], others[:v.Holders-1:v.Holders-1]
			pair.To = min(q.End, pair.First.End)
			v.ZombieCount++
			zombie.add(pair.From, pair.To)
			if len(v.Zombies) < maxListed {
				v.Zombies = append(v.Zombies, pair)
			}
			continue
		}
		pair.First, pair.Others = live[v.Holders-1], live[:v.Holders-1:v.Holders-1]
		pair.To = min(q.End, pair.First.End)
		v.ViolationCount++
		violation.add(pair.From, pair.To)
		if len(v.Violations) < maxListed {
			v.Violations = append(v.Violations, pair)
		}
	}
	v.ViolationTime, v.ZombieTime = violation.total, zombie.total
}

// Fairness says how evenly waits are spread over nodes. Waits are those of
// requests that entered, scenario milliseconds: mttt (mean time to token) of
// Reddy, Mittal and Gupta (ALGORITHMS 8).
type Fairness struct {
	K      int    `json:"k"`       // nodes that may be in the critical section at once
	MTTTMS Number `json:"mttt_ms"` // mean over all entries
	MaxMS  Number `json:"max_ms"`
	// Spread of a node is its longest wait less its mean wait: the largest,
	// mean and smallest over the nodes that entered.
	SpreadMaxMS  Number `json:"spread_max_ms"`
	SpreadMeanMS Number `json:"spread_mean_ms"`
	SpreadMinMS  Number `json:"spread_min_ms"`
	// Jain is the index of Jain, Chiu and Hawe 1984 over the entries of the
	// nodes that asked: 1 where all have as many, 1/n where one has all.
	Jain  Number `json:"jain"`
	Nodes int    `json:"nodes"` // that entered
	Unfit bool   `json:"unfit,omitempty"`
}

// fairness computes Fairness of the requests that were asked at from or later.
func fairness(requests []*Request, k int, from int64) Fairness {
	u := Unknown()
	f := Fairness{K: k, MTTTMS: u, MaxMS: u, SpreadMaxMS: u, SpreadMeanMS: u, SpreadMinMS: u, Jain: u}
	nodes := waitsByNode(requests, from)
	total, longest, sum, squares := 0.0, 0.0, 0.0, 0.0
	var spreads []float64
	for _, n := range nodes {
		entries := float64(n.Entries)
		sum += entries
		squares += entries * entries
		if n.Entries == 0 {
			continue
		}
		total += entries * n.MeanMS
		longest = max(longest, n.MaxMS)
		spreads = append(spreads, n.MaxMS-n.MeanMS)
	}
	f.Nodes = len(spreads)
	if len(spreads) == 0 {
		return f
	}
	f.MTTTMS, f.MaxMS = Number(total/sum), Number(longest)
	f.SpreadMinMS, f.SpreadMaxMS = Number(slices.Min(spreads)), Number(slices.Max(spreads))
	f.SpreadMeanMS = Number(stat.Mean(spreads, nil))
	f.Jain = Number(sum * sum / (float64(len(nodes)) * squares))
	return f
}

// NodeWaits are the waits of the requests of one node that entered, ms; mean
// and longest are 0 where none did.
type NodeWaits struct {
	Node          core.NodeID
	Entries       int
	MeanMS, MaxMS float64
}

// waitsByNode gives the nodes that asked at from or later, ascending.
func waitsByNode(requests []*Request, from int64) []NodeWaits {
	var nodes []NodeWaits
	for _, q := range requests {
		if q.Asked < from {
			continue
		}
		i, ok := slices.BinarySearchFunc(nodes, q.Node, func(n NodeWaits, id core.NodeID) int { return cmp.Compare(n.Node, id) })
		if !ok {
			nodes = slices.Insert(nodes, i, NodeWaits{Node: q.Node})
		}
		if n := &nodes[i]; q.Entered {
			w := float64(q.Enter-q.Asked) / 1e6
			n.Entries++
			n.MeanMS += (w - n.MeanMS) / float64(n.Entries)
			n.MaxMS = max(n.MaxMS, w)
		}
	}
	return nodes
}
