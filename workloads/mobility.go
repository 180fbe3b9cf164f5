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

// Bounds of what the ways of nodes expand to.
const (
	maxLooks     = 1_000_000_000 // pairs of nodes times the instants at which they are looked at
	maxWaypoints = 10_000_000
)

// Mobility is the random waypoint model (Johnson and Maltz, "Dynamic source routing in ad hoc
// wireless networks", 1996): every node goes straight to a place drawn uniformly from the
// area, rests there, and goes on. Two nodes are linked while they are within
// the radius, seen every Step, and their link is not gone by churn, which comes
// on top: a link that is up goes with Rate, and stays away for Down in the mean,
// whether they part meanwhile or not.
type Mobility struct {
	At            [][2]float64 // where the nodes are at first, metres
	Width, Height float64
	Radius        float64
	Speed         float64 // metres a second, > 0
	Pause, Step   time.Duration
	Bound         int // most links of a node at a time, 0: none
	Horizon       time.Duration
	Rate          float64       // departures a second of a link that is up, 0: links go when nodes part
	Down          time.Duration // mean time that a departed link is away, > 0 with Rate
	Until         time.Duration // churn ends by then: what is away stays so. 0: Horizon
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
	switch {
	case !(m.Speed > 0) || !(m.Radius > 0) || !(m.Width > 0) || !(m.Height > 0) || m.Step <= 0 || m.Pause < 0:
		return Edges{}, errors.New("expand mobility: want speed, radius, area and step above 0")
	case m.Rate < 0 || m.Rate > 0 && m.Down <= 0:
		return Edges{}, fmt.Errorf("expand mobility: edge churn of rate %v, mean time down %v: want both above 0, or rate 0", m.Rate, m.Down)
	}
	if m.Until == 0 {
		m.Until = m.Horizon
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
	c := contacts{
		m: &m, nodes: nodes, degree: make([]int, n), linked: make([]bool, n*n),
		away: map[int]bool{}, due: map[int]time.Duration{}, rng: core.Stream(seed, "edges/churn"),
	}
	c.next.Less = func(a, b *departure) bool { return a.at < b.at || a.at == b.at && a.pair < b.pair }
	c.look(0)
	c.first = len(c.changes)
	for at := m.Step; at <= m.Horizon; at += m.Step {
		c.churn(at) // who is within reach is what was seen last
		for i := range nodes {
			nodes[i].move(&m, m.Step.Seconds())
		}
		if c.look(at); c.tooMany() {
			break
		}
	}
	if c.churn(m.Horizon); c.tooMany() {
		return Edges{}, fmt.Errorf("the links of %d nodes would go and come more than %d times in %v (by %v): want a lower mobility-speed or edge-churn, a longer mobility-pause, fewer nodes, or a shorter duration",
			n, maxEdgeChanges, m.Horizon, c.changes[len(c.changes)-1].at)
	}
	return c.edges(), nil
}

// contacts is who is linked with whom while nodes walk. A pair a < b is the
// number a*len(nodes)+b.
type contacts struct {
	m       *Mobility
	nodes   []walker
	degree  []int
	linked  []bool
	away    map[int]bool          // gone by churn, and not back
	due     map[int]time.Duration // when churn takes a pair's link, or gives it back
	next    core.Heap[departure]  // those that are not due by the map any more are void
	rng     *rand.Rand            // of churn
	changes []change
	first   int // of those after the start
}

// departure is when churn has something to do with a pair.
type departure struct {
	at   time.Duration
	pair int
}

// change is a link that comes or goes.
type change struct {
	at   time.Duration
	pair int
	up   bool
}

func (c *contacts) near(a, b int) bool {
	dx, dy := c.nodes[a].x-c.nodes[b].x, c.nodes[a].y-c.nodes[b].y
	return dx*dx+dy*dy <= c.m.Radius*c.m.Radius
}

// look sees who came within reach and who went out of it.
func (c *contacts) look(at time.Duration) {
	n := len(c.nodes)
	for pass := range 2 { // what goes makes room for what comes
		for a := range n {
			for b := a + 1; b < n; b++ {
				p := a*n + b
				switch {
				case pass == 0 && c.linked[p] && !c.near(a, b):
					c.cut(at, p)
				case pass == 1 && !c.linked[p] && c.near(a, b):
					c.join(at, p)
				}
			}
		}
	}
}

// churn lets links go and come until an instant.
func (c *contacts) churn(until time.Duration) {
	n := len(c.nodes)
	for c.next.Len() > 0 && c.next.Min().at <= until && !c.tooMany() {
		d := c.next.Pop()
		switch {
		case c.due[d.pair] != d.at: // they parted since
		case c.linked[d.pair]:
			c.cut(d.at, d.pair)
			c.away[d.pair] = true
			c.plan(d.at, d.pair, float64(c.m.Down))
		default:
			delete(c.away, d.pair)
			delete(c.due, d.pair)
			if c.near(d.pair/n, d.pair%n) {
				c.join(d.at, d.pair) // or, without room, at the next look
			}
		}
	}
}

// join links a pair unless churn has taken its link or a node has no room.
func (c *contacts) join(at time.Duration, p int) {
	a, b := p/len(c.nodes), p%len(c.nodes)
	if c.away[p] || c.m.Bound > 0 && max(c.degree[a], c.degree[b]) >= c.m.Bound {
		return
	}
	c.set(at, p, true, 1)
	if c.m.Rate > 0 {
		c.plan(at, p, 1e9/c.m.Rate)
	}
}

func (c *contacts) cut(at time.Duration, p int) {
	c.set(at, p, false, -1)
	delete(c.due, p)
}

func (c *contacts) set(at time.Duration, p int, up bool, more int) {
	c.linked[p] = up
	c.degree[p/len(c.nodes)] += more
	c.degree[p%len(c.nodes)] += more
	c.changes = append(c.changes, change{at, p, up})
}

// plan draws when churn has to do with a pair next.
func (c *contacts) plan(from time.Duration, p int, mean float64) {
	if d := c.rng.ExpFloat64() * mean; d < float64(min(c.m.Until, c.m.Horizon)-from) {
		c.due[p] = from + 1 + time.Duration(d)
		c.next.Push(departure{c.due[p], p})
	}
}

func (c *contacts) tooMany() bool { return len(c.changes)-c.first > maxEdgeChanges }

// edges are the pairs that were ever linked, and what happened.
func (c *contacts) edges() Edges {
	n := len(c.nodes)
	var pairs []int
	for _, ch := range c.changes {
		if ch.up {
			pairs = append(pairs, ch.pair)
		}
	}
	slices.Sort(pairs)
	pairs = slices.Compact(pairs)
	at := func(pair int) int {
		i, _ := slices.BinarySearch(pairs, pair)
		return i
	}
	var e Edges
	up := make([]bool, len(pairs))
	for _, p := range pairs {
		e.Links = append(e.Links, [2]core.NodeID{core.NodeID(p / n), core.NodeID(p % n)})
	}
	for _, ch := range c.changes[:c.first] {
		up[at(ch.pair)] = true
	}
	for i := range up {
		if !up[i] {
			e.Down = append(e.Down, i)
		}
	}
	for _, ch := range c.changes[c.first:] {
		verb := LinkDown
		if ch.up {
			verb = LinkUp
		}
		e.add(ch.at, verb, at(ch.pair))
	}
	return e
}
