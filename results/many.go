package results

import (
	"cmp"
	"math"
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
			pair.First = others[v.Holders-1]
			pair.To = min(q.End, pair.First.End)
			v.ZombieCount++
			zombie.add(pair.From, pair.To)
			if len(v.Zombies) < maxListed {
				v.Zombies = append(v.Zombies, pair)
			}
			continue
		}
		pair.First = live[v.Holders-1]
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
	waits := map[core.NodeID][]float64{}
	entries := map[core.NodeID]float64{}
	var all []float64
	for _, q := range requests {
		if q.Asked < from {
			continue
		}
		if _, asked := entries[q.Node]; !asked {
			entries[q.Node] = 0
		}
		if !q.Entered {
			continue
		}
		w := float64(q.Enter-q.Asked) / 1e6
		waits[q.Node] = append(waits[q.Node], w)
		all = append(all, w)
		entries[q.Node]++
	}
	u := Unknown()
	f := Fairness{K: k, MTTTMS: u, MaxMS: u, SpreadMaxMS: u, SpreadMeanMS: u, SpreadMinMS: u, Jain: u, Nodes: len(waits)}
	if len(all) == 0 {
		return f
	}
	f.MTTTMS, f.MaxMS = Number(stat.Mean(all, nil)), Number(slices.Max(all))
	var spreads []float64
	for _, w := range waits {
		spreads = append(spreads, slices.Max(w)-stat.Mean(w, nil))
	}
	slices.Sort(spreads) // the sum must not depend on the order of a map
	f.SpreadMinMS, f.SpreadMaxMS = Number(spreads[0]), Number(spreads[len(spreads)-1])
	f.SpreadMeanMS = Number(stat.Mean(spreads, nil))
	sum, squares := 0.0, 0.0
	for _, n := range entries {
		sum += n
		squares += n * n
	}
	if squares > 0 && !math.IsInf(squares, 0) {
		f.Jain = Number(sum * sum / (float64(len(entries)) * squares))
	}
	return f
}
