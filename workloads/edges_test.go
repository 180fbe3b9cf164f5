package workloads

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"churnbed/node/core"
)

// complete lists all pairs of n nodes.
func complete(n int) (links [][2]core.NodeID) {
	for a := range n {
		for b := a + 1; b < n; b++ {
			links = append(links, [2]core.NodeID{core.NodeID(a), core.NodeID(b)})
		}
	}
	return links
}

// follow plays what happens and checks that links go only while they are up,
// come only while they are down, that no node has more than bound, and that
// instants ascend within the horizon. It returns the changes and the mean
// number of links over time.
func follow(t *testing.T, e Edges, nodes, bound int, horizon time.Duration) (changes int, mean float64) {
	t.Helper()
	up := map[[2]core.NodeID]bool{}
	degree := make([]int, nodes)
	n := 0
	for i, l := range e.Links {
		if !slices.Contains(e.Down, i) {
			up[l] = true
			degree[l[0]]++
			degree[l[1]]++
			n++
		}
	}
	last := time.Duration(0)
	for _, f := range e.Faults {
		if f.At < last || f.At > horizon || f.Source != EdgeSource || len(f.Links) != 1 {
			t.Fatalf("%+v after %v", f, last)
		}
		mean += float64(n) * float64(f.At-last) / float64(horizon)
		last = f.At
		l, d := f.Links[0], 1
		if f.Verb == LinkDown {
			d = -1
		}
		if up[l] == (f.Verb == LinkUp) {
			t.Fatalf("%v of %v, which is so already", f.Verb, l)
		}
		up[l] = !up[l]
		n += d
		degree[l[0]] += d
		degree[l[1]] += d
		if bound > 0 && slices.Max(degree) > bound {
			t.Fatalf("degree %d at %v, bound %d", slices.Max(degree), f.At, bound)
		}
	}
	mean += float64(n) * float64(horizon-last) / float64(horizon)
	return len(e.Faults), mean
}

// Links of rate r and mean time down d are up 1/(1+r*d) of the time.
func TestEdgeChurnKeepsItsRate(t *testing.T) {
	c := EdgeChurn{Links: complete(20), Nodes: 20, Rate: .5, Down: 2 * time.Second, Horizon: 1000 * time.Second}
	e, err := c.Expand(3)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Down) != 0 {
		t.Errorf("%d links are down at first, without a bound", len(e.Down))
	}
	changes, mean := follow(t, e, 20, 0, c.Horizon)
	if mean < 90 || mean > 100 {
		t.Errorf("%.1f of 190 links are up in the mean, want about 95", mean)
	}
	if changes < 90_000 || changes > 100_000 {
		t.Errorf("%d changes, want about 95000", changes)
	}
}

func TestEdgeChurnKeepsTheBound(t *testing.T) {
	c := EdgeChurn{Links: complete(20), Nodes: 20, Rate: 1, Down: 100 * time.Millisecond, Bound: 4, Horizon: 50 * time.Second}
	e, err := c.Expand(1)
	if err != nil {
		t.Fatal(err)
	}
	if changes, mean := follow(t, e, 20, 4, c.Horizon); changes < 500 || mean < 25 || mean > 40 {
		t.Errorf("%d changes, %.1f links up in the mean", changes, mean)
	}
	again, _ := c.Expand(1)
	other, _ := c.Expand(2)
	same := func(a, b Edges) bool {
		return slices.Equal(a.Down, b.Down) && slices.EqualFunc(a.Faults, b.Faults, func(x, y Fault) bool { return x.At == y.At && x.Links[0] == y.Links[0] })
	}
	if !same(e, again) || same(e, other) {
		t.Error("the seed must decide")
	}
	for _, bad := range []EdgeChurn{{Rate: 0, Down: 1}, {Rate: 1}, {Rate: 1, Down: 1, Bound: -1}} {
		if _, err := bad.Expand(1); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// One number too large must not take all memory, nor for ever.
func TestEdgesRefuseTheEndless(t *testing.T) {
	for _, tc := range []struct {
		c    EdgeChurn
		want string
	}{
		{EdgeChurn{Rate: 1e6, Down: 1, Horizon: time.Second}, "want 1/edge-churn and edge-down-mean to come to 56µs or more together"},
		{EdgeChurn{Rate: 1e6, Down: 1000, Bound: 6, Horizon: time.Second}, "want 1/edge-churn and edge-down-mean to come to 56µs or more together"},
		{EdgeChurn{Rate: 1, Down: time.Second, Horizon: 1 << 60}, "want 1/edge-churn and edge-down-mean to come to "},
		{EdgeChurn{Rate: 1e-6, Down: 1, Bound: 1, Horizon: time.Second}, "in vain by degree-bound 1: want an edge-down-mean of 5.6µs or more"},
	} {
		tc.c.Links, tc.c.Nodes = complete(8), 8
		if _, err := tc.c.Expand(1); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v a second, down %v, bound %d: error %v, want %s", tc.c.Rate, tc.c.Down, tc.c.Bound, err, tc.want)
		}
	}
	at := [][2]float64{{1, 1}, {2, 2}, {3, 3}, {4, 4}}
	for _, m := range []Mobility{
		{Width: 9, Height: 9, Radius: 3, Speed: 1, Step: 1, Horizon: time.Second},
		{Width: 9, Height: 9, Radius: 3, Speed: 1e9, Step: time.Second, Horizon: 100 * time.Second},
		{Width: 5e-324, Height: 5e-324, Radius: 3, Speed: 1, Step: time.Second, Horizon: time.Minute},
	} {
		m.At = at
		if _, err := m.Expand(1); err == nil || !strings.Contains(err.Error(), ": want a ") {
			t.Errorf("%v m/s every %v: error %v", m.Speed, m.Step, err)
		}
	}
}

func TestSlowest(t *testing.T) {
	for _, tc := range []struct {
		ns   float64
		want time.Duration
	}{{0, 0}, {12.1, 13}, {1e6, 1e6}, {1.21e9, 1300 * time.Millisecond}, {math.Inf(1), math.MaxInt64}} {
		if got := slowest(tc.ns); got != tc.want {
			t.Errorf("%v ns: %v, want %v", tc.ns, got, tc.want)
		}
	}
}

// Nodes that walk are linked exactly while they are within reach; here the
// test walks along.
func TestMobility(t *testing.T) {
	m := Mobility{
		Width: 10, Height: 10, Radius: 3, Speed: 2, Pause: time.Second, Step: 100 * time.Millisecond, Horizon: 60 * time.Second,
		At: [][2]float64{{1, 1}, {2, 2}, {9, 9}, {5, 5}, {5, 6}, {1, 9}},
	}
	e, err := m.Expand(7)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range e.Links {
		at := func(n core.NodeID) [2]float64 { return m.At[n] }
		dx, dy := at(l[0])[0]-at(l[1])[0], at(l[0])[1]-at(l[1])[1]
		if down := slices.Contains(e.Down, i); down == (dx*dx+dy*dy <= 9) {
			t.Errorf("link %v is down at first: %v", l, down)
		}
	}
	if changes, _ := follow(t, e, len(m.At), 0, m.Horizon); changes < 20 {
		t.Errorf("%d changes in a minute", changes)
	}
	m.Bound = 2
	if e, err = m.Expand(7); err != nil {
		t.Fatal(err)
	}
	follow(t, e, len(m.At), 2, m.Horizon)
	if _, err := (Mobility{}).Expand(1); err == nil {
		t.Error("no error without an area")
	}
}

// With churn on top a link is up if its nodes are within reach and it is not
// gone. The ways are those without churn, so these tell who is within reach.
func TestMobilityWithEdgeChurn(t *testing.T) {
	m := Mobility{Width: 10, Height: 10, Radius: 5, Speed: 1, Pause: time.Second, Step: 100 * time.Millisecond, Horizon: 200 * time.Second}
	for i := range 10 {
		m.At = append(m.At, [2]float64{float64(i), float64(i)})
	}
	plain, err := m.Expand(5)
	if err != nil {
		t.Fatal(err)
	}
	m.Rate, m.Down = 1, 500*time.Millisecond
	e, err := m.Expand(5)
	if err != nil {
		t.Fatal(err)
	}
	meet, reach := follow(t, plain, len(m.At), 0, m.Horizon)
	changes, up := follow(t, e, len(m.At), 0, m.Horizon)
	if share := up / reach; changes < 5*meet || share < .62 || share > .75 {
		t.Errorf("%d changes, %d without churn; links are up for %.2f of the time within reach, want about 1/(1+1*0.5)", changes, meet, share)
	}
	near := map[[2]core.NodeID]bool{}
	start := func(e Edges, set map[[2]core.NodeID]bool) {
		for i, l := range e.Links {
			set[l] = !slices.Contains(e.Down, i)
		}
	}
	start(plain, near)
	linked := map[[2]core.NodeID]bool{}
	start(e, linked)
	between := 0
	for _, f := range Merge(plain.Faults, e.Faults) { // at the same instant reach first
		l := f.Links[0]
		if len(plain.Faults) > 0 && f.At == plain.Faults[0].At && l == plain.Faults[0].Links[0] && near[l] == (f.Verb == LinkDown) {
			plain.Faults = plain.Faults[1:]
			near[l] = f.Verb == LinkUp
			continue
		}
		linked[l] = f.Verb == LinkUp
		if linked[l] && !near[l] {
			t.Fatalf("%v comes at %v out of reach", l, f.At)
		}
		if f.At%m.Step != 0 {
			between++
		}
	}
	for l, up := range linked {
		if up && !near[l] {
			t.Errorf("%v is up in the end, out of reach", l)
		}
	}
	if between < changes/2 {
		t.Errorf("%d of %d changes between two looks", between, changes)
	}
	m.Bound, m.Until = 2, 100*time.Second
	if e, err = m.Expand(5); err != nil {
		t.Fatal(err)
	}
	follow(t, e, len(m.At), 2, m.Horizon)
	for _, f := range e.Faults {
		if f.At > m.Until && f.At%m.Step != 0 {
			t.Errorf("churn at %v, after its end", f.At)
		}
	}
	if _, err := (Mobility{Width: 1, Height: 1, Radius: 1, Speed: 1, Step: 1, Rate: 1}).Expand(1); err == nil {
		t.Error("no error without a time down")
	}
}

// A walker comes to its goal, rests, and never leaves the area.
func TestWalker(t *testing.T) {
	m := &Mobility{Width: 10, Height: 5, Speed: 1, Pause: time.Second}
	w := walker{rng: core.Stream(1, "test"), x: 0, y: 0, goal: [2]float64{3, 4}}
	w.move(m, 5)
	if w.x != 3 || w.y != 4 || w.rests != 1 {
		t.Fatalf("after 5 s at %v, %v, rests %v", w.x, w.y, w.rests)
	}
	if w.move(m, .5); w.x != 3 || w.rests != .5 {
		t.Fatalf("it moves while it rests: %v", w.x)
	}
	for range 10_000 {
		w.move(m, .1)
		if w.x < 0 || w.x > 10 || w.y < 0 || w.y > 5 {
			t.Fatalf("at %v, %v", w.x, w.y)
		}
	}
}
