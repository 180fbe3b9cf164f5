package roster

import (
	"math/rand/v2"
	"testing"

	"churnbed/node/core"

	"github.com/google/go-cmp/cmp"
)

// TestAgainstMap compares random operations with a map that states the rules
// plainly.
func TestAgainstMap(t *testing.T) {
	type life struct {
		inc    core.Incarnation
		listed bool
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var l List
	model := map[core.NodeID]life{}
	for range 20000 {
		p := core.Peer{ID: core.NodeID(rng.IntN(12)), Inc: core.Incarnation(rng.IntN(200))}
		m, known := model[p.ID]
		switch rng.IntN(3) {
		case 0:
			want := !known || p.Inc > m.inc
			if want {
				model[p.ID] = life{p.Inc, true}
			}
			if got := l.Add(p); got != want {
				t.Fatalf("Add(%v) = %t with %+v known", p, got, m)
			}
		case 1:
			want := m.listed && p.Inc > m.inc
			if want {
				model[p.ID] = life{p.Inc, true}
			}
			if got := l.Renew(p); got != want {
				t.Fatalf("Renew(%v) = %t with %+v known", p, got, m)
			}
		case 2:
			want := m.listed && p.Inc >= m.inc
			if !known || p.Inc >= m.inc {
				model[p.ID] = life{p.Inc, false}
			}
			if got := l.Remove(p); got != want {
				t.Fatalf("Remove(%v) = %t with %+v known", p, got, m)
			}
		}
		var want []core.Peer
		for id := range core.NodeID(12) {
			if m := model[id]; m.listed {
				want = append(want, core.Peer{ID: id, Inc: m.inc})
			}
		}
		if d := cmp.Diff(want, l.Append(nil)); d != "" || l.Len() != len(want) {
			t.Fatalf("list (-want +got), length %d:\n%s", l.Len(), d)
		}
		if rng.IntN(500) == 0 {
			clear(model)
			l.Set([]core.Peer{{ID: 5, Inc: 1}, {ID: 2, Inc: 3}, {ID: 5, Inc: 2}, {ID: 9, Inc: 9}}, 9)
			model[5], model[2] = life{2, true}, life{3, true}
		}
	}
}
