// Package size bounds the number of nodes of the mesh from above, as Camera
// needs it (ALGORITHMS 2.5). A bound is Configured, or estimated while the
// mesh runs: Gossip. A pure machine; the owner serialises Step. It is no
// membership service: it knows how many there are, not who.
//
// # Gossip
//
// Each node draws Minima exponential variates of mean 1, by its id, so that
// its later lives draw the same. The minima over all nodes are spread by
// gossip, which merges them without loss or double counting whatever is lost,
// repeated or overtaken (extrema propagation: Baquero, Almeida, Menezes and
// Jesus, IEEE Trans. Parallel and Distributed Systems 23(4), 2012). The minimum
// over N nodes has the rate N, so the sum S of the minima times N is
// Gamma(Minima) distributed and
//
//	N <= Quantile / S
//
// but with probability Risk: the bound, about 1.29 N with a standard deviation
// of 4.4 % of it. Risk is taken once in a mesh, not with each request: all nodes
// come to the same minima.
//
// What may make it too low beyond that, and what is done about it:
//   - The minima have not come from everywhere. No bound is told before: a node
//     of the first hour waits until Quiet rounds with answers told it nothing
//     new; one that comes later, or again, until it has heard of a settled one.
//     A node that kept its bound over a crash settles either way, with that
//     bound as a floor: when all were killed at once, nobody else is settled.
//     A mesh that is in parts from its very beginning and for longer than that
//     gets a bound for each part. No way is known to tell such parts from
//     meshes of their own, unless lists reach across: each node counts who was
//     ever listed, and the largest such count is a floor of the bound.
//   - Nodes come. Theirs are new minima, which spread like the first; a node
//     has no say (package camera, Config.Estimated) before it is settled, by
//     which time others know of it. The margin above N covers who comes
//     during one request.
//   - Nodes go. The bound counts them still: it never falls within a life, and
//     what others say of it lasts beyond that.
package size

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"churnbed/node/core"
	"churnbed/node/wire"
)

// Constants of Gossip.
const (
	// Minima is how many are drawn; the relative standard deviation of the
	// bound is 1/sqrt(Minima).
	Minima = 512
	// Risk is the probability that the bound is below the number of nodes
	// whose minima it is made of.
	Risk = 1e-9
	// Quantile is what a Gamma(Minima) variate exceeds with probability Risk.
	Quantile = 659.7
	// Margin is what the bound is on average, in multiples of the number of
	// nodes: Quantile over the mean of 1/S.
	Margin = Quantile / (Minima - 1)
	// Round is the pace while there is news, Slow afterwards.
	Round = 500 * time.Millisecond
	Slow  = 10 * time.Second
	// Quiet is how many rounds with answers and without news settle a node.
	Quiet = 8
)

// Input is one of the input types below.
type Input interface{ input() }

type (
	// Start begins the life of the machine; it is its first input. Members are
	// listed, Neighbours one hop away. Later tells that others were there
	// before. Kept is the bound that an earlier life of the node had, or the
	// least that it may be, where that life kept it over a crash; else 0.
	Start struct {
		Members    []core.Peer
		Neighbours []core.NodeID
		Later      bool
		Kept       int
	}
	// Listed tells of one more member. Who leaves stays counted.
	Listed struct{ Node core.NodeID }
	// Receive is a message of another node.
	Receive struct {
		From core.NodeID
		Msg  *wire.Size
	}
	// Tick tells that Deadline was reached.
	Tick struct{}
)

func (Start) input()   {}
func (Listed) input()  {}
func (Receive) input() {}
func (Tick) input()    {}

// Estimator bounds the number of nodes.
type Estimator interface {
	// Step handles one input at instant now and appends what is to be sent.
	Step(now core.Instant, in Input, out []core.Send) []core.Send
	// Deadline is the instant at which it wants a Tick, or core.Never.
	Deadline() core.Instant
	// Upper is the bound, 0 before there is one. It never falls.
	Upper() int
}

// Configured is a bound that somebody knows.
type Configured int

// Step implements Estimator.
func (Configured) Step(_ core.Instant, _ Input, out []core.Send) []core.Send { return out }

// Deadline implements Estimator.
func (Configured) Deadline() core.Instant { return core.Never }

// Upper implements Estimator.
func (c Configured) Upper() int { return int(c) }

// Gossip estimates the bound.
type Gossip struct {
	self core.NodeID
	rng  *rand.Rand

	minima  []uint16
	targets []core.NodeID // whom to tell, ascending
	ever    map[core.NodeID]bool
	floor   int // of the bound: by the own lists, by what others say, and from the start

	later   bool // a settled one settles it
	alone   bool // quiet settles it
	settled bool
	quiet   int  // rounds without news
	heard   bool // anything, since the last round
	upper   int
	stale   bool // the bound: something has changed
	next    core.Instant
}

// NewGossip returns the estimator of the node self in a run of that seed. The
// bound is never below floor.
func NewGossip(self core.Peer, seed uint64, floor int) *Gossip {
	g := &Gossip{
		self: self.ID, rng: core.Stream(seed, "size/turn/"+self.String()), floor: max(1, floor),
		minima: make([]uint16, Minima), ever: map[core.NodeID]bool{self.ID: true},
		stale: true, next: core.Never,
	}
	draws := core.Stream(seed, "size/"+strconv.Itoa(int(self.ID)))
	for i := range g.minima {
		g.minima[i] = code(draws.ExpFloat64())
	}
	return g
}

// A code is a minimum in steps of 2^(-1/codeSteps), from 2^codeTop down, and
// never more than it: that would make the bound smaller.
const (
	codeSteps = 2048
	codeTop   = 5
)

func code(x float64) uint16 {
	c := math.Ceil((codeTop - math.Log2(x)) * codeSteps)
	return uint16(min(max(c, 0), math.MaxUint16)) // -log2(0) is +Inf
}

func value(c uint16) float64 {
	if c == math.MaxUint16 {
		return 0 // or less than the code can say
	}
	return math.Exp2(codeTop - float64(c)/codeSteps)
}

// Deadline implements Estimator.
func (g *Gossip) Deadline() core.Instant { return g.next }

// Upper implements Estimator.
func (g *Gossip) Upper() int { return g.upper }

// Step implements Estimator.
func (g *Gossip) Step(now core.Instant, in Input, out []core.Send) []core.Send {
	switch in := in.(type) {
	case Start:
		g.later, g.alone = in.Later, !in.Later || in.Kept > 0
		g.floor = max(g.floor, in.Kept)
		for _, p := range in.Members {
			g.list(p.ID)
		}
		for _, n := range in.Neighbours {
			g.target(n)
		}
		// Spread over the round by a draw, or all would tell each other at once.
		g.next = now.Add(time.Duration(g.rng.Int64N(int64(Round))))
	case Listed:
		if g.list(in.Node) {
			g.wake(now)
		}
	case Receive:
		out = g.receive(now, in, out)
	case Tick:
		out = g.tick(now, out)
	}
	g.raise()
	return out
}

func (g *Gossip) list(n core.NodeID) (news bool) {
	if g.ever[n] {
		return false
	}
	g.ever[n] = true
	g.target(n)
	news = len(g.ever) > g.floor
	g.floor = max(g.floor, len(g.ever))
	return news
}

func (g *Gossip) target(n core.NodeID) {
	if i, found := slices.BinarySearch(g.targets, n); !found && n != g.self {
		g.targets = slices.Insert(g.targets, i, n)
	}
}

// wake ends the slow pace, since there is news.
func (g *Gossip) wake(now core.Instant) {
	g.quiet, g.stale = 0, true
	g.next = min(g.next, now.Add(Round))
}

func (g *Gossip) receive(now core.Instant, in Receive, out []core.Send) []core.Send {
	m := in.Msg
	if len(m.Minima) != len(g.minima) {
		return out // of another version: it cannot be merged
	}
	news, more := m.Floor > g.floor, g.floor > m.Floor
	g.floor = max(g.floor, m.Floor)
	for i, c := range m.Minima {
		news, more = news || c > g.minima[i], more || c < g.minima[i]
		g.minima[i] = max(g.minima[i], c)
	}
	g.heard = true
	if news {
		g.wake(now)
	}
	g.settled = g.settled || g.later && m.Settled
	if m.Answer || more {
		out = g.tell(in.From, false, out)
	}
	return out
}

func (g *Gossip) tick(now core.Instant, out []core.Send) []core.Send {
	if now < g.next {
		return out
	}
	if g.heard {
		g.quiet++
	}
	g.heard = false
	g.settled = g.settled || g.alone && g.quiet >= Quiet
	busy := !g.settled || g.quiet < Quiet
	g.next = now.Add(Slow)
	if busy {
		g.next = now.Add(Round)
	}
	if len(g.targets) == 0 {
		return out
	}
	return g.tell(g.targets[g.rng.IntN(len(g.targets))], busy, out)
}

func (g *Gossip) tell(to core.NodeID, answer bool, out []core.Send) []core.Send {
	m := &wire.Size{Settled: g.settled, Answer: answer, Floor: g.floor, Minima: slices.Clone(g.minima)}
	return append(out, core.Send{To: to, Msg: m, Mode: core.Datagram})
}

// raise brings the bound to what is known.
func (g *Gossip) raise() {
	if !g.settled || !g.stale {
		return
	}
	g.stale = false
	sum := 0.0
	for _, c := range g.minima {
		sum += value(c)
	}
	g.upper = max(g.upper, g.floor, int(min(Quantile/sum, core.MaxNodes)))
}
