package medley

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"churnbed/node/core"
)

// bag is Medley's time-bounded bag: ceil(p(j)/p_min) copies of each member j,
// drawn without replacement, refilled when empty, which bounds the time until
// every member was pinged. It is a multiset by counts with their prefix sums
// in a Fenwick tree (1994), since the copies themselves are many: p falls
// with the cube of the distance, so that a member at a hundredth of the
// largest distance has a million.
//
// For the same reason the bag of a dense mesh of some hundred nodes lasts for
// days, and "members learned meanwhile enter at the refill" would leave whoever
// came late without pings for the whole run. So here they enter at once, with
// as many copies as would be left of theirs had they been there at the fill:
// the bound holds as before. Config.EnterAtRefill restores the published rule.
//
// Copies of a member off the list are put aside and come back with it.
type bag struct {
	weight []float64 // by id: p(j), not normalised; raised by UNLUCKY
	left   []int64   // by id: copies not yet drawn, also of the unlisted
	filled []bool    // by id: had copies at the last fill or since
	tree   []int64   // Fenwick tree over left of the listed
	total  int64     // of tree
	full   int64     // copies put in since the last fill, taken or not
	wmin   float64   // p_min at the last fill
}

// maxCopies bounds the copies of one member.
const maxCopies = 1 << 20

func newBag(nodes int, distance []float32, exponent float64) bag {
	b := bag{
		weight: make([]float64, nodes),
		left:   make([]int64, nodes),
		filled: make([]bool, nodes),
		tree:   make([]int64, nodes+1),
	}
	far, near := 0.0, math.Inf(1)
	for _, d := range distance {
		if d := float64(d); d > 0 && !math.IsInf(d, 1) {
			far, near = max(far, d), min(near, d)
		}
	}
	if far == 0 {
		far, near = 1, 1
	}
	for id := range b.weight {
		d := far
		if id < len(distance) {
			if v := float64(distance[id]); v > 0 && v < far {
				d = v
			}
		}
		b.weight[id] = math.Pow(near/d, exponent)
	}
	return b
}

func (b *bag) copies(id core.NodeID) int64 {
	return int64(min(maxCopies, math.Ceil(b.weight[id]/b.wmin*(1-1e-9))))
}

// add changes the prefix sums.
func (b *bag) add(id core.NodeID, n int64) {
	b.total += n
	for i := int(id) + 1; i < len(b.tree); i += i & -i {
		b.tree[i] += n
	}
}

// fill puts all copies of the listed members in.
func (b *bag) fill(listed func(core.NodeID) bool) {
	b.wmin = math.Inf(1)
	for id := range b.weight {
		if listed(core.NodeID(id)) {
			b.wmin = min(b.wmin, b.weight[id])
		}
	}
	clear(b.tree)
	b.total, b.full = 0, 0
	for id := range b.weight {
		id := core.NodeID(id)
		b.left[id], b.filled[id] = 0, listed(id)
		if b.filled[id] {
			b.left[id] = b.copies(id)
			b.full += b.left[id]
			b.tree[id+1] = b.left[id]
		}
	}
	b.total = b.full
	for i := 1; i < len(b.tree); i++ {
		if j := i + i&-i; j < len(b.tree) {
			b.tree[j] += b.tree[i]
		}
	}
}

// list puts the copies of a member that comes onto the list in; enter says
// whether one that was not there at the fill enters now.
func (b *bag) list(id core.NodeID, enter bool) {
	if !b.filled[id] && enter && b.full > 0 {
		n := b.copies(id)
		left := int64(math.Ceil(float64(n) * float64(b.total) / float64(b.full)))
		b.filled[id], b.left[id] = true, min(n, max(1, left))
		b.full += n
	}
	b.add(id, b.left[id])
}

// unlist puts the copies of a member that goes off the list aside.
func (b *bag) unlist(id core.NodeID) { b.add(id, -b.left[id]) }

// pick returns a listed member with the probability of its share of the
// copies that are left, None where there are none.
func (b *bag) pick(rng *rand.Rand) core.NodeID {
	if b.total <= 0 {
		return core.None
	}
	r := rng.Int64N(b.total)
	i := 0
	for step := 1 << (bits.Len(uint(len(b.tree)-1)) - 1); step > 0; step >>= 1 {
		if j := i + step; j < len(b.tree) && b.tree[j] <= r {
			i, r = j, r-b.tree[j]
		}
	}
	return core.NodeID(i)
}

// take takes one copy out.
func (b *bag) take(id core.NodeID) {
	if b.left[id] > 0 {
		b.left[id]--
		b.add(id, -1)
	}
}

// lift raises the weight of a listed member to the mean of those above it and
// adds the copies it gains to the running bag (active feedback).
func (b *bag) lift(id core.NodeID, listed func(core.NodeID) bool) {
	sum, n := 0.0, 0
	for j, w := range b.weight {
		if w > b.weight[id] && listed(core.NodeID(j)) {
			sum, n = sum+w, n+1
		}
	}
	if n == 0 {
		return
	}
	if b.full == 0 {
		b.weight[id] = sum / float64(n)
		return
	}
	before := b.copies(id)
	b.weight[id] = sum / float64(n)
	gain := b.copies(id) - before
	b.filled[id] = true
	b.left[id] += gain
	b.full += gain
	b.add(id, gain)
}
