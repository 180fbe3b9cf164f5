package localmutex

import (
	"testing"

	"churnbed/node/core"
)

// Interactions along the edges of a ring, one after the other: what an
// application promises under locks.
func interact(t *testing.T, name string, n, steps int, check func(values []uint32)) []uint32 {
	t.Helper()
	rng := core.Stream(5, "test/"+name)
	values := make([]uint32, n)
	apps := make([]*App, n)
	for k := range n {
		if apps[k] = AppNamed(name, k); apps[k] == nil {
			t.Fatalf("no application %q", name)
		}
		values[k] = apps[k].Initial
	}
	for range steps {
		k := rng.IntN(n)
		around := [2]int{(k + n - 1) % n, (k + 1) % n}
		i, mine, theirs := apps[k].Act(values[k], []uint32{values[around[0]], values[around[1]]}, rng)
		if i < 0 {
			continue
		}
		values[k], values[around[i]] = mine, theirs
		check(values)
	}
	return values
}

func count(values []uint32, v uint32) (n int) {
	for _, x := range values {
		if x == v {
			n++
		}
	}
	return n
}

func TestElection(t *testing.T) {
	before := 12
	end := interact(t, ElectionApp, 12, 20_000, func(values []uint32) {
		leaders := count(values, 1)
		if leaders == 0 || leaders > before {
			t.Fatalf("%d leaders after %d", leaders, before)
		}
		before = leaders
	})
	if leaders := count(end, 1); leaders != 1 {
		t.Errorf("%d leaders are left", leaders)
	}
}

func TestMajority(t *testing.T) {
	// The difference of the strong votes stays.
	diff := func(values []uint32) int { return count(values, StrongA) - count(values, StrongB) }
	end := interact(t, MajorityApp, 15, 50_000, func(values []uint32) {
		if d := diff(values); d != 3 {
			t.Fatalf("difference %d, was 3: %v", d, values)
		}
	})
	if count(end, StrongA)+count(end, WeakA) != 15 {
		t.Errorf("votes %v, want all for A", end)
	}
}

func TestAmoebot(t *testing.T) {
	moved := 0
	end := interact(t, AmoebotApp, 12, 5_000, func(values []uint32) {
		moved++
		for p := uint32(1); p <= 12; p++ {
			if n, want := count(values, p), 0; n > 1 || (p-1)%3 == 0 && n != want+1 {
				t.Fatalf("particle %d is in %d places: %v", p, n, values)
			}
		}
	})
	if moved == 0 || count(end, 0) != 8 {
		t.Errorf("%d moves, %v", moved, end)
	}
	if AppNamed("none", 1) != nil {
		t.Error("an application without a name")
	}
}
