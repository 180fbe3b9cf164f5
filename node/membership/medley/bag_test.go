package medley

import (
	"math"
	"testing"

	"churnbed/node/core"
)

func everyone(core.NodeID) bool { return true }

// TestBagDrawsEveryCopyOnce draws a whole bag: each member comes as often as
// it has copies, ceil(p(j)/p_min), and then the bag is empty.
func TestBagDrawsEveryCopyOnce(t *testing.T) {
	dist := []float32{1, 2, 4, 0, 3} // 0: the farthest, 4
	want := []int{64, 8, 1, 1, 3}
	b := newBag(5, dist, 3)
	b.fill(everyone)
	rng := core.Stream(1, "bag")
	for round := range 20 {
		got := make([]int, 5)
		n := 0
		for ; b.total > 0; n++ {
			id := b.pick(rng)
			b.take(id)
			got[id]++
		}
		for id := range want {
			if got[id] != want[id] {
				t.Fatalf("round %d: member %d drawn %d times, want %d", round, id, got[id], want[id])
			}
		}
		if b.pick(rng) != core.None {
			t.Fatal("an empty bag gives a member")
		}
		b.fill(everyone)
	}
}

// TestBagPrefixSums compares picks with the shares of the copies, while
// members come and go at random.
func TestBagPrefixSums(t *testing.T) {
	const nodes = 37
	rng := core.Stream(2, "bag")
	dist := make([]float32, nodes)
	for i := range dist {
		dist[i] = 1 + 9*rng.Float32()
	}
	listed := make([]bool, nodes)
	in := func(id core.NodeID) bool { return listed[id] }
	for i := range listed {
		listed[i] = i%3 > 0
	}
	b := newBag(nodes, dist, 3)
	b.fill(in)
	for step := range 5000 {
		id := core.NodeID(rng.IntN(nodes))
		switch rng.IntN(4) {
		case 0:
			if listed[id] = !listed[id]; listed[id] {
				b.list(id, true)
			} else {
				b.unlist(id)
			}
		case 1:
			if listed[id] {
				before := b.weight[id]
				b.lift(id, in)
				if b.weight[id] < before {
					t.Fatalf("lift lowers the weight of %d", id)
				}
			}
		default:
			if id := b.pick(rng); id != core.None {
				if !listed[id] || b.left[id] == 0 {
					t.Fatalf("step %d: picked %d, listed %t, %d copies", step, id, listed[id], b.left[id])
				}
				b.take(id)
			} else {
				b.fill(in)
			}
		}
		var sum int64
		for id := range nodes {
			if listed[id] {
				sum += b.left[id]
			}
		}
		if sum != b.total {
			t.Fatalf("step %d: total %d, copies of the listed %d", step, b.total, sum)
		}
	}
	b.fill(in)
	got := make([]float64, nodes)
	const draws = 200000
	for range draws {
		got[b.pick(rng)]++
	}
	for id := range got {
		p := 0.0
		if listed[id] {
			p = float64(b.left[id]) / float64(b.total)
		}
		if sd := math.Sqrt(p * (1 - p) * draws); math.Abs(got[id]-p*draws) > 5*sd {
			t.Errorf("member %d picked %v times, want %.0f +- %.0f", id, got[id], p*draws, sd)
		}
	}
}

// TestBagLateMember enters at once with its share of what is left, or, as
// published, at the refill.
func TestBagLateMember(t *testing.T) {
	for _, enter := range []bool{true, false} {
		b := newBag(4, []float32{1, 1, 2, 1}, 3)
		listed := []bool{true, true, true, false}
		b.fill(func(id core.NodeID) bool { return listed[id] }) // 8 + 8 + 1
		rng := core.Stream(3, "bag")
		for b.total > 9 {
			b.take(b.pick(rng))
		}
		listed[3] = true
		b.list(3, enter)
		want := int64(0)
		if enter {
			want = 5 // 8 copies x 9/17, rounded up
		}
		if b.left[3] != want {
			t.Errorf("enter %t: %d copies, want %d", enter, b.left[3], want)
		}
		b.fill(func(id core.NodeID) bool { return listed[id] })
		if b.left[3] != 8 {
			t.Errorf("enter %t: %d copies after the refill, want 8", enter, b.left[3])
		}
	}
}

// TestBagLift is active feedback: the mean of those above.
func TestBagLift(t *testing.T) {
	b := newBag(4, []float32{1, 2, 4, 4}, 1) // weights 1, 1/2, 1/4, 1/4
	b.fill(everyone)
	b.lift(2, everyone)
	if b.weight[2] != 0.75 || b.left[2] != 3 || b.total != 4+2+3+1 {
		t.Errorf("weight %v, %d copies, total %d; want 0.75, 3, 10", b.weight[2], b.left[2], b.total)
	}
	b.lift(0, everyone) // nobody above
	if b.weight[0] != 1 || b.total != 10 {
		t.Errorf("lifting the nearest: weight %v, total %d", b.weight[0], b.total)
	}
}
