package topologies

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"churnbed/node/core"
)

// mesh is a small random graph, not necessarily connected, with nodes that may
// coincide (links of length 0) and delays that repeat (many equal paths).
func mesh(rng *rand.Rand, n int) *Topology {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{X: float64(rng.IntN(5)), Y: float64(rng.IntN(5))}
	}
	var links []Link
	for a := range n {
		for b := a + 1; b < n; b++ {
			if rng.Float64() < 3/float64(n) {
				ab, ba := time.Duration(rng.IntN(3))*time.Millisecond, time.Duration(rng.IntN(3))*time.Millisecond
				l := Link{A: core.NodeID(a), B: core.NodeID(b)}
				l.AB.Delay, l.BA.Delay = &ab, &ba
				links = append(links, l)
			}
		}
	}
	t, err := New("mesh", nodes, links)
	if err != nil {
		panic(err)
	}
	return t
}

// reference computes all pairs by Floyd and Warshall on (primary, secondary).
func reference(t *Topology, m Metric, alive []bool, up []bool) [][][2]int64 {
	n := len(t.Nodes)
	const inf = math.MaxInt64 / 4
	d := make([][][2]int64, n)
	for i := range d {
		d[i] = make([][2]int64, n)
		for j := range d[i] {
			d[i][j] = [2]int64{inf, inf}
		}
		if alive[i] {
			d[i][i] = [2]int64{}
		}
	}
	less := func(a, b [2]int64) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }
	for i, l := range t.Links {
		if !up[i] || !alive[l.A] || !alive[l.B] {
			continue
		}
		length := int64(math.Round(t.Length(i) * 1e6))
		ab, ba := [2]int64{length, 1}, [2]int64{length, 1}
		switch m {
		case Hops:
			ab, ba = [2]int64{1, length}, [2]int64{1, length}
		case Delay:
			ab, ba = [2]int64{int64(*l.AB.Delay), 1}, [2]int64{int64(*l.BA.Delay), 1}
		case Euclid:
		}
		d[l.A][l.B], d[l.B][l.A] = ab, ba
	}
	for k := range n {
		for i := range n {
			for j := range n {
				if d[i][k][0] == inf || d[k][j][0] == inf {
					continue
				}
				if c := [2]int64{d[i][k][0] + d[k][j][0], d[i][k][1] + d[k][j][1]}; less(c, d[i][j]) {
					d[i][j] = c
				}
			}
		}
	}
	return d
}

func TestRoutesAreShortestAndConsistent(t *testing.T) {
	for seed := range uint64(60) {
		rng := core.Stream(seed, "test")
		top := mesh(rng, 2+rng.IntN(25))
		n := len(top.Nodes)
		alive, up := make([]bool, n), make([]bool, len(top.Links))
		for i := range alive {
			alive[i] = rng.Float64() < 0.9
		}
		for i := range up {
			up[i] = rng.Float64() < 0.9
		}
		for _, m := range Metrics() {
			r := ComputeRoutes(top, m, func(n core.NodeID) bool { return alive[n] }, func(i int) bool { return up[i] }, nil)
			want := reference(top, m, alive, up)
			for s := range n {
				for d := range n {
					checkRoute(t, fmt.Sprintf("seed %d, %s, %d to %d", seed, m, s, d), top, r, core.NodeID(s), core.NodeID(d), want[s][d])
				}
			}
		}
	}
}

func checkRoute(t *testing.T, at string, top *Topology, r *Routes, src, dst core.NodeID, want [2]int64) {
	t.Helper()
	path := r.Path(src, dst)
	if want[0] == math.MaxInt64/4 {
		if path != nil || r.Next(src, dst) != core.None || r.Hops(src, dst) != -1 || !math.IsInf(r.Length(src, dst), 1) {
			t.Fatalf("%s: path %v where there is none", at, path)
		}
		return
	}
	hops, length := want[1], float64(want[0])/1e6
	switch r.Metric() {
	case Hops:
		hops, length = want[0], float64(want[1])/1e6
	case Delay:
		length = float64(want[0]) / 1e9
	case Euclid:
	}
	if int64(r.Hops(src, dst)) != hops || math.Abs(r.Length(src, dst)-length) > 1e-12*length {
		t.Fatalf("%s: %d hops, %v; want %d, %v", at, r.Hops(src, dst), r.Length(src, dst), hops, length)
	}
	if len(path) != int(hops)+1 || path[0] != src || path[len(path)-1] != dst {
		t.Fatalf("%s: path %v of %d hops", at, path, hops)
	}
	for i := 1; i < len(path); i++ {
		if top.LinkIndex(path[i-1], path[i]) < 0 {
			t.Fatalf("%s: path %v has no link %d", at, path, i)
		}
		if rest := r.Path(path[i], dst); !slices.Equal(rest, path[i:]) {
			t.Fatalf("%s: path %v goes on as %v from %d", at, path, rest, path[i])
		}
	}
}

func TestRoutesTakeTheLowerOfEqualNextHops(t *testing.T) {
	square, err := Generate(GenerateParams{Kind: Ring, Nodes: 4}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Metrics() {
		r := ComputeRoutes(square, m, nil, nil, nil)
		if got := r.Next(0, 2); got != 1 {
			t.Errorf("%s: 0 goes to 2 by %d, want 1", m, got)
		}
		if got := r.Next(1, 3); got != 0 {
			t.Errorf("%s: 1 goes to 3 by %d, want 0", m, got)
		}
	}
}

func TestRoutesByDelayAreDirected(t *testing.T) {
	ring, err := Generate(GenerateParams{Kind: Ring, Nodes: 3}, 1)
	if err != nil {
		t.Fatal(err)
	}
	slow := func(i int, ab bool) time.Duration {
		if l := ring.Links[i]; l.A == 0 && l.B == 2 && ab {
			return time.Second
		}
		return time.Millisecond
	}
	r := ComputeRoutes(ring, Delay, nil, nil, slow)
	if got := r.Path(0, 2); !slices.Equal(got, []core.NodeID{0, 1, 2}) {
		t.Errorf("0 to 2 by %v, want round the slow direction", got)
	}
	if got := r.Path(2, 0); !slices.Equal(got, []core.NodeID{2, 0}) {
		t.Errorf("2 to 0 by %v, want the direct link", got)
	}
}

// TestUpdateEqualsCompute drives one Routes through random states and compares
// every one with routes computed from nothing.
func TestUpdateEqualsCompute(t *testing.T) {
	for seed := range uint64(150) {
		rng := core.Stream(seed, "test")
		top := mesh(rng, 1+rng.IntN(22))
		metric := Metrics()[rng.IntN(3)]
		alive, up := make([]bool, len(top.Nodes)), make([]bool, len(top.Links))
		delay := make([]time.Duration, 2*len(top.Links))
		for i := range alive {
			alive[i] = rng.IntN(5) > 0
		}
		for i := range up {
			up[i] = rng.IntN(5) > 0
		}
		isAlive := func(n core.NodeID) bool { return alive[n] }
		isUp := func(i int) bool { return up[i] }
		delayOf := func(i int, ab bool) time.Duration {
			if ab {
				return delay[2*i]
			}
			return delay[2*i+1]
		}
		r := ComputeRoutes(top, metric, isAlive, isUp, delayOf)
		for step := range 25 {
			before := slices.Clone(r.next)
			for range 1 + rng.IntN(4) {
				switch k := rng.IntN(3); {
				case k == 0:
					i := rng.IntN(len(alive))
					alive[i] = !alive[i]
				case len(up) == 0:
				case k == 1:
					i := rng.IntN(len(up))
					up[i] = !up[i]
				default:
					delay[rng.IntN(len(delay))] = time.Duration(rng.IntN(4))
				}
			}
			changes := r.Update(isAlive, isUp, delayOf)
			want := ComputeRoutes(top, metric, isAlive, isUp, delayOf)
			at := fmt.Sprintf("seed %d, step %d, %s", seed, step, metric)
			if diff := cmp.Diff(want.next, r.next); diff != "" {
				t.Fatalf("%s: next hops differ from those computed anew (-want +got):\n%s", at, diff)
			}
			if diff := cmp.Diff(want.cost, r.cost); diff != "" {
				t.Fatalf("%s: costs differ from those computed anew (-want +got):\n%s", at, diff)
			}
			var told []Change
			n := len(top.Nodes)
			for i := range before {
				if before[i] != r.next[i] && i/n != i%n {
					told = append(told, Change{Src: core.NodeID(i % n), Dst: core.NodeID(i / n), Next: r.next[i]})
				}
			}
			if diff := cmp.Diff(told, changes); diff != "" {
				t.Fatalf("%s: changes (-want +got):\n%s", at, diff)
			}
		}
	}
}

func benchMesh(b *testing.B, n int, side, radius float64) *Topology {
	b.Helper()
	t, err := Generate(GenerateParams{Kind: Random, Nodes: n, Width: side, Height: side, Radius: radius}, 1)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func BenchmarkComputeRoutes(b *testing.B) {
	for _, c := range []struct {
		nodes int
		side  float64
	}{{256, 15}, {256, 34}, {1024, 68}} {
		t := benchMesh(b, c.nodes, c.side, 4)
		b.Run(fmt.Sprintf("nodes=%d/links=%d", c.nodes, len(t.Links)), func(b *testing.B) {
			for b.Loop() {
				ComputeRoutes(t, Euclid, nil, nil, nil)
			}
		})
	}
}

func BenchmarkUpdateRoutesNode(b *testing.B) {
	t := benchMesh(b, 256, 15, 4)
	r := ComputeRoutes(t, Euclid, nil, nil, nil)
	down := core.NodeID(0)
	alive := true
	for b.Loop() {
		if alive {
			down = (down + 1) % core.NodeID(len(t.Nodes))
		}
		alive = !alive
		r.Update(func(n core.NodeID) bool { return alive || n != down }, nil, nil)
	}
}

func BenchmarkUpdateRoutesLink(b *testing.B) {
	t := benchMesh(b, 256, 15, 4)
	r := ComputeRoutes(t, Euclid, nil, nil, nil)
	down, up := 0, true
	for b.Loop() {
		if up {
			down = (down + 37) % len(t.Links)
		}
		up = !up
		r.Update(nil, func(i int) bool { return up || i != down }, nil)
	}
}
