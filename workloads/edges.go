package workloads

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"churnbed/node/core"
)

// EdgeSource is the Source of the faults that edge churn and mobility make.
const EdgeSource = "edges"

// Bounds of what a graph's changes expand to, so that a mistyped rate, speed or
// duration ends in an error and not in an exhausted host.
const (
	maxEdgeChanges = 1_000_000
	maxEdgeTries   = 5 * maxEdgeChanges // changes, and attempts of a link to come back
	maxLooks       = 1_000_000_000      // pairs of nodes times the instants at which they are looked at
	maxWaypoints   = 10_000_000
)

// Edges is a graph that changes: pairs that may be linked, those of them
// (indices) that are not at first, and what happens then.
type Edges struct {
	Links  [][2]core.NodeID // a < b, ascending
	Down   []int
	Faults []Fault // LinkDown and LinkUp of one link each, ascending
}

// EdgeChurn says how links go and come at random, each independently.
type EdgeChurn struct {
	Links   [][2]core.NodeID // a < b, ascending: those that there may be
	Nodes   int
	Rate    float64       // departures a second of a link that is up, > 0
	Down    time.Duration // mean time until a link that is down tries to come back, > 0
	Bound   int           // most links of a node at a time; a link that finds no place tries again later. 0: none
	Horizon time.Duration // nothing happens after it
}

// Expand draws what happens.
func (c EdgeChurn) Expand(seed uint64) (Edges, error) {
	if !(c.Rate > 0) || c.Down <= 0 || c.Bound < 0 {
		return Edges{}, fmt.Errorf("expand edge churn: rate %v, mean time down %v, bound %d: want all above 0, or bound 0", c.Rate, c.Down, c.Bound)
	}
	if cycle := 1e9/c.Rate + float64(c.Down); c.Bound == 0 && 2*float64(len(c.Links))*float64(c.Horizon)/cycle > maxEdgeChanges {
		return Edges{}, c.tooMany() // without the work of finding out
	}
	rng := core.Stream(seed, "edges/churn")
	g := newGraph(c.Links, c.Nodes, c.Bound)
	for _, i := range rng.Perm(len(c.Links)) {
		g.join(i)
	}
	e := Edges{Links: c.Links, Down: g.down()}
	type change struct {
		at   time.Duration
		link int
	}
	next := core.Heap[change]{Less: func(a, b *change) bool { return a.at < b.at || a.at == b.at && a.link < b.link }}
	plan := func(i int, from time.Duration) {
		mean := float64(c.Down)
		if g.up[i] {
			mean = 1e9 / c.Rate
		}
		if d := rng.ExpFloat64() * mean; d < float64(c.Horizon-from) {
			next.Push(change{from + 1 + time.Duration(d), i})
		}
	}
	for i := range c.Links {
		plan(i, 0)
	}
	for tries := 1; next.Len() > 0; tries++ {
		n := next.Pop()
		switch {
		case len(e.Faults) == maxEdgeChanges:
			return Edges{}, c.tooMany()
		case tries > maxEdgeTries:
			return Edges{}, fmt.Errorf("%d links would try to come back more than %d times in %v, most of them in vain by degree-bound %d: want an edge-down-mean of %v or more, or fewer links, or a shorter duration (churn-until)",
				len(c.Links), maxEdgeTries, c.Horizon, c.Bound, slowest(float64(len(c.Links))*float64(c.Horizon)/maxEdgeTries))
		}
		switch {
		case g.up[n.link]:
			g.cut(n.link)
			e.add(n.at, LinkDown, n.link)
		case g.join(n.link):
			e.add(n.at, LinkUp, n.link)
		}
		plan(n.link, n.at)
	}
	return e, nil
}

// tooMany says that links change too often, and how slow would do.
func (c EdgeChurn) tooMany() error {
	return fmt.Errorf("%d links would go and come more than %d times in %v: want 1/edge-churn and edge-down-mean to come to %v or more together, or fewer links, or a shorter duration (churn-until)",
		len(c.Links), maxEdgeChanges, c.Horizon, slowest(2*float64(len(c.Links))*float64(c.Horizon)/maxEdgeChanges))
}

// slowest rounds nanoseconds up to two digits, for people.
func slowest(ns float64) time.Duration {
	unit := math.Pow(10, math.Floor(math.Log10(max(ns, 10)))-1)
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return clampDuration(math.Ceil(ns/unit) * unit)
}

// Mobility is the random waypoint model (Johnson and Maltz, "Dynamic source routing in ad hoc
// wireless networks", 1996): every node goes straight to a place drawn uniformly from the
// area, rests there, and goes on. Two nodes are linked while they are within
// the radius, seen every Step.
type Mobility struct {
	At            [][2]float64 // where the nodes are at first, metres
	Width, Height float64
	Radius        float64
	Speed         float64 // metres a second, > 0
	Pause, Step   time.Duration
	Bound         int // most links of a node at a time, 0: none
	Horizon       time.Duration
}

// walker is a node on its way.
type walker struct {
	rng   *rand.Rand
	x, y  float64
	goal  [2]float64
	rests float64 // seconds left
}

func (w *walker) move(m *Mobility, seconds float64) {
	for seconds > 0 {
		if w.rests > 0 {
			rest := min(w.rests, seconds)
			w.rests -= rest
			seconds -= rest
			continue
		}
		dx, dy := w.goal[0]-w.x, w.goal[1]-w.y
		far := math.Hypot(dx, dy)
		if far <= m.Speed*seconds {
			w.x, w.y = w.goal[0], w.goal[1]
			seconds -= far / m.Speed
			w.rests = m.Pause.Seconds()
			w.goal = [2]float64{w.rng.Float64() * m.Width, w.rng.Float64() * m.Height}
			if far == 0 && w.rests == 0 {
				continue // it was there; the next goal is elsewhere
			}
			continue
		}
		w.x += dx / far * m.Speed * seconds
		w.y += dy / far * m.Speed * seconds
		return
	}
}

// bounded reports values that would take for ever to compute with.
func (m Mobility) bounded() error {
	n := float64(len(m.At))
	pairs := n * (n - 1) / 2
	if pairs*float64(m.Horizon/m.Step) > maxLooks {
		return fmt.Errorf("%d nodes looked at every %v for %v are more than %d looks at a pair: want a mobility-step of %v or more, or fewer nodes, or a shorter duration",
			len(m.At), m.Step, m.Horizon, maxLooks, slowest(pairs*float64(m.Horizon)/maxLooks))
	}
	// The mean way in a rectangle is a third of its longer side or more.
	leg := max(m.Width, m.Height)/3/m.Speed + m.Pause.Seconds()
	if n*m.Horizon.Seconds()/leg > maxWaypoints {
		return fmt.Errorf("%d nodes at %v m/s in %v x %v m would come to more than %d waypoints in %v: want a lower mobility-speed, a larger area, or a longer mobility-pause",
			len(m.At), m.Speed, m.Width, m.Height, maxWaypoints, m.Horizon)
	}
	return nil
}

// Expand computes the ways of all nodes. Links are the pairs that are linked at
// any time.
func (m Mobility) Expand(seed uint64) (Edges, error) {
	if !(m.Speed > 0) || !(m.Radius > 0) || !(m.Width > 0) || !(m.Height > 0) || m.Step <= 0 || m.Pause < 0 {
		return Edges{}, errors.New("expand mobility: want speed, radius, area and step above 0")
	}
	n := len(m.At)
	if err := m.bounded(); err != nil {
		return Edges{}, err
	}
	nodes := make([]walker, n)
	for i := range nodes {
		rng := core.Stream(seed, fmt.Sprintf("edges/walker/%d", i))
		nodes[i] = walker{rng: rng, x: m.At[i][0], y: m.At[i][1], goal: [2]float64{rng.Float64() * m.Width, rng.Float64() * m.Height}}
	}
	type event struct {
		at   time.Duration
		pair [2]core.NodeID
		up   bool
	}
	linked := make([]bool, n*n)
	degree := make([]int, n)
	var events []event
	seen := map[[2]core.NodeID]bool{} // asked and filled only; its order does not matter
	look := func(at time.Duration) {
		for pass := range 2 { // what goes makes room for what comes
			for a := range n {
				for b := a + 1; b < n; b++ {
					dx, dy := nodes[a].x-nodes[b].x, nodes[a].y-nodes[b].y
					near := dx*dx+dy*dy <= m.Radius*m.Radius
					l := &linked[a*n+b]
					switch {
					case pass == 0 && *l && !near:
						degree[a]--
						degree[b]--
					case pass == 1 && !*l && near && (m.Bound == 0 || degree[a] < m.Bound && degree[b] < m.Bound):
						degree[a]++
						degree[b]++
					default:
						continue
					}
					*l = near
					p := [2]core.NodeID{core.NodeID(a), core.NodeID(b)}
					seen[p] = true
					events = append(events, event{at, p, near})
				}
			}
		}
	}
	look(0)
	first := len(events)
	for at := m.Step; at <= m.Horizon; at += m.Step {
		for i := range nodes {
			nodes[i].move(&m, m.Step.Seconds())
		}
		if look(at); len(events)-first > maxEdgeChanges {
			return Edges{}, fmt.Errorf("the links of %d nodes would go and come more than %d times in %v (by %v): want a lower mobility-speed, a longer mobility-pause, fewer nodes, or a shorter duration",
				n, maxEdgeChanges, m.Horizon, at)
		}
	}
	var e Edges
	for a := range n {
		for b := a + 1; b < n; b++ {
			if p := [2]core.NodeID{core.NodeID(a), core.NodeID(b)}; seen[p] {
				e.Links = append(e.Links, p)
			}
		}
	}
	at := func(p [2]core.NodeID) int {
		i, _ := slices.BinarySearchFunc(e.Links, p, func(a, b [2]core.NodeID) int { return slices.Compare(a[:], b[:]) })
		return i
	}
	up := make([]bool, len(e.Links))
	for _, ev := range events[:first] {
		up[at(ev.pair)] = true
	}
	for i := range up {
		if !up[i] {
			e.Down = append(e.Down, i)
		}
	}
	for _, ev := range events[first:] {
		verb := LinkDown
		if ev.up {
			verb = LinkUp
		}
		e.add(ev.at, verb, at(ev.pair))
	}
	return e, nil
}

func (e *Edges) add(at time.Duration, verb Verb, link int) {
	e.Faults = append(e.Faults, Fault{At: at, Verb: verb, Links: [][2]core.NodeID{e.Links[link]}, Source: EdgeSource})
}

// graph keeps the degrees of nodes within a bound.
type graph struct {
	links  [][2]core.NodeID
	up     []bool
	degree []int
	bound  int
}

func newGraph(links [][2]core.NodeID, nodes, bound int) *graph {
	return &graph{links: links, up: make([]bool, len(links)), degree: make([]int, nodes), bound: bound}
}

func (g *graph) join(i int) bool {
	a, b := g.links[i][0], g.links[i][1]
	if g.bound > 0 && max(g.degree[a], g.degree[b]) >= g.bound {
		return false
	}
	g.degree[a]++
	g.degree[b]++
	g.up[i] = true
	return true
}

func (g *graph) cut(i int) {
	g.degree[g.links[i][0]]--
	g.degree[g.links[i][1]]--
	g.up[i] = false
}

func (g *graph) down() (list []int) {
	for i, up := range g.up {
		if !up {
			list = append(list, i)
		}
	}
	return list
}
