package stack

import (
	"math/rand/v2"
	"testing"

	"churnbed/node/core"
)

// Against a model that remembers every number: a flood is fresh once, and what
// lies 64 and less below the newest is never taken for a duplicate.
func TestFloodWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var f floods
		type key struct{ start, seq uint64 }
		seen := map[key]bool{}
		start, high := uint64(1), uint64(0)
		for range 400 {
			switch rng.IntN(40) {
			case 0:
				start++
				f.fresh(core.Peer{ID: 5, Inc: core.Incarnation(start) * core.IncarnationStep}, 1)
				seen[key{start, 1}], high = true, 1
			case 1:
				high += rng.Uint64N(200)
			}
			old := uint64(0)
			if rng.IntN(10) == 0 && start > 1 {
				old = 1 // a process that is gone
			}
			seq := 1 + rng.Uint64N(high+3)
			inc := core.Incarnation(start-old)*core.IncarnationStep + core.Incarnation(rng.IntN(3))
			got := f.fresh(core.Peer{ID: 5, Inc: inc}, seq)
			k := key{start, seq}
			switch {
			case old > 0:
				if got {
					t.Fatalf("a flood of the process before %d is fresh", start)
				}
				continue
			case got && seen[k]:
				t.Fatalf("flood %d of process %d is fresh twice", seq, start)
			case !got && !seen[k] && seq+windowSize >= high:
				t.Fatalf("flood %d of process %d is taken for a duplicate, the newest is %d", seq, start, high)
			}
			seen[k] = true
			if got {
				high = max(high, seq)
			}
		}
	}
}
