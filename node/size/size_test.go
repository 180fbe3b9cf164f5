package size

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"churnbed/node/core"
	"churnbed/node/wire"
)

// TestQuantile: the constants are those of the Gamma distribution.
func TestQuantile(t *testing.T) {
	g := distuv.Gamma{Alpha: Minima, Beta: 1}
	if r := g.Survival(Quantile); r > Risk || r < Risk/2 {
		t.Errorf("a Gamma(%d) variate exceeds %v with probability %g, want %g at most, and not much less", Minima, Quantile, r, Risk)
	}
}

func TestCode(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		x := rng.ExpFloat64() / math.Exp(rng.Float64()*12)
		if v := value(code(x)); v > x || v < x*0.999 && x > 1e-7 {
			t.Fatalf("%g is told as %g", x, v)
		}
	}
	for x, want := range map[float64]uint16{0: math.MaxUint16, 1e-300: math.MaxUint16, 64: 0, 32: 0, 1: 5 * codeSteps} {
		if c := code(x); c != want {
			t.Errorf("%g has code %d, want %d", x, c, want)
		}
	}
}

// mesh is some nodes whose messages take a while, or get lost.
type mesh struct {
	t     *testing.T
	now   core.Instant
	nodes []*Gossip
	up    []bool
	mail  []letter
	loss  float64
	rng   *rand.Rand
	cut   func(a, b core.NodeID) bool
}

type letter struct {
	at       core.Instant
	from, to core.NodeID
	msg      *wire.Size
}

func newMesh(t *testing.T, n int, seed uint64, lists func(k int) []core.Peer) *mesh {
	m := &mesh{t: t, rng: core.Stream(seed, "mesh"), nodes: make([]*Gossip, n), up: make([]bool, n)}
	for k := range n {
		m.start(k, core.FirstIncarnation, seed, lists(k))
	}
	return m
}

func (m *mesh) start(k int, inc core.Incarnation, seed uint64, list []core.Peer) {
	m.nodes[k] = NewGossip(core.Peer{ID: core.NodeID(k), Inc: inc}, seed, 1)
	m.up[k] = true
	m.step(k, Start{Members: list, Later: inc > core.FirstIncarnation})
}

func (m *mesh) step(k int, in Input) {
	before := m.nodes[k].Upper()
	for _, s := range m.nodes[k].Step(m.now, in, nil) {
		if m.rng.Float64() >= m.loss && (m.cut == nil || !m.cut(core.NodeID(k), s.To)) {
			m.mail = append(m.mail, letter{m.now.Add(20 * time.Millisecond), core.NodeID(k), s.To, s.Msg.(*wire.Size)})
		}
	}
	if after := m.nodes[k].Upper(); after < before {
		m.t.Errorf("node %d: the bound falls from %d to %d", k, before, after)
	}
}

func (m *mesh) run(d time.Duration) {
	for end := m.now.Add(d); m.now < end; m.now = m.now.Add(10 * time.Millisecond) {
		mail := m.mail
		m.mail = nil
		for _, l := range mail {
			switch {
			case l.at > m.now:
				m.mail = append(m.mail, l)
			case m.up[l.to]:
				m.step(int(l.to), Receive{From: l.from, Msg: l.msg})
			}
		}
		for k, g := range m.nodes {
			if m.up[k] && g.Deadline() <= m.now {
				m.step(k, Tick{})
			}
		}
	}
}

// near lists the next nodes of a ring.
func near(n, few int) func(k int) []core.Peer {
	return func(k int) (list []core.Peer) {
		for i := range few {
			list = append(list, core.Peer{ID: core.NodeID((k + i + 1) % n), Inc: core.FirstIncarnation})
		}
		return list
	}
}

// TestBound: every node comes to the same bound, which is above the number of
// nodes and not far above it, also where lists are short and messages are lost.
func TestBound(t *testing.T) {
	for _, c := range []struct {
		n, listed int
		loss      float64
	}{{2, 1, 0}, {5, 1, 0.2}, {32, 3, 0}, {64, 3, 0.3}, {128, 8, 0.1}} {
		t.Run(fmt.Sprint(c.n), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3) {
				m := newMesh(t, c.n, seed, near(c.n, c.listed))
				m.loss = c.loss
				m.run(time.Minute)
				for k, g := range m.nodes {
					if u := g.Upper(); u < c.n || float64(u) > 1.5*float64(c.n) || u != m.nodes[0].Upper() {
						t.Errorf("seed %d: node %d: at most %d nodes, the first says %d", seed, k, u, m.nodes[0].Upper())
					}
				}
			}
		})
	}
}

// TestLaterLives: a node that comes back draws what it drew before, so restarts
// make nobody more; one that comes later has no bound of its own making, and
// others hear of it.
func TestLaterLives(t *testing.T) {
	const n = 12
	m := newMesh(t, n, 4, near(n, 3))
	m.up[n-1] = false // comes later
	m.run(30 * time.Second)
	before := m.nodes[0].Upper()
	for k := range n - 1 {
		m.up[k] = false
		m.run(2 * time.Second)
		m.start(k, core.FirstIncarnation+core.IncarnationStep, 4, near(n, 3)(k))
		if m.nodes[k].Upper() != 0 {
			t.Errorf("node %d knows a bound as it starts", k)
		}
		m.run(20 * time.Second)
	}
	for k := range n - 1 {
		if u := m.nodes[k].Upper(); u != before {
			t.Errorf("node %d: %d after restarts, before them %d", k, u, before)
		}
	}
	m.cut = func(a, b core.NodeID) bool { return a == n-1 || b == n-1 }
	m.start(n-1, core.FirstIncarnation+core.IncarnationStep, 4, near(n, 3)(n-1))
	m.run(time.Minute)
	if u := m.nodes[n-1].Upper(); u != 0 {
		t.Errorf("a late node that hears of nobody says %d", u)
	}
	m.cut = nil
	m.run(time.Minute)
	for k, g := range m.nodes {
		if u := g.Upper(); u < n || u != m.nodes[0].Upper() {
			t.Errorf("node %d: %d when all %d have come", k, u, n)
		}
	}
}

// TestNoBoundAlone: a node that nobody answers never settles, nor does a part
// of a mesh go below what its lists name.
func TestNoBoundAlone(t *testing.T) {
	m := newMesh(t, 6, 1, near(6, 3))
	m.cut = func(a, b core.NodeID) bool { return a == 0 || b == 0 || a < 3 != (b < 3) }
	m.run(2 * time.Minute)
	if u := m.nodes[0].Upper(); u != 0 {
		t.Errorf("alone: %d", u)
	}
	if u := m.nodes[1].Upper(); u < 4 { // node 1 lists 2, 3 and 4
		t.Errorf("in a part: %d", u)
	}
}

// TestQuietIsCheap: settled nodes say little.
func TestQuietIsCheap(t *testing.T) {
	m := newMesh(t, 8, 1, near(8, 7))
	m.run(time.Minute)
	sent := 0
	for end := m.now.Add(time.Minute); m.now < end; {
		m.run(10 * time.Millisecond)
		for _, l := range m.mail {
			if l.at == m.now.Add(10*time.Millisecond) {
				sent++
			}
		}
	}
	if want := 8 * 6; sent > want+8 {
		t.Errorf("%d messages of 8 settled nodes in a minute, want %d", sent, want)
	}
}

func TestConfigured(t *testing.T) {
	c := Configured(7)
	if out := c.Step(0, Tick{}, nil); out != nil || c.Upper() != 7 || c.Deadline() != core.Never {
		t.Errorf("%v, %d, %v", out, c.Upper(), c.Deadline())
	}
}
