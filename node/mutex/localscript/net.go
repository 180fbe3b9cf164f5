// Package localscript drives machines of node/mutex/localmutex through explicit
// schedules on a graph that changes: every message is delivered by command,
// links are cut and joined, and each end notices it when it is told to. After
// each step it looks for lock sets that intersect, for a lock that lacks a
// neighbour that stayed, and for more than two messages under way on a link.
// Run replays scripts (node/mutex/localmutex/testdata), Explore tries all
// schedules of a few nodes, Walk draws fair ones at random.
//
// It is a test support package: a network without a transport, as
// node/mutex/script is for the algorithms that use routes. Messages take any
// time and overtake each other. One goroutine owns a net.
package localscript

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/localmutex"
	"churnbed/node/wire"
)

// Config says what a net is and what may happen on it.
type Config struct {
	Algorithm string   // localmutex or localmutex-paper
	Nodes     int      // 1..8
	Links     [][2]int // pairs that may be linked; nil: all
	Down      int      // so many of the last of Links are down at first
	// Fresh: the ends of links that are up have not told each other their
	// epochs yet.
	Fresh      bool
	Priorities int   // K, 0 = 2
	Entries    []int // how often each node may lock; a single number is for each
	// Totals over all links.
	Cuts, Joins int
	// Late: what is in flight on a link that is cut arrives once it is joined;
	// otherwise it is lost.
	Late       bool
	Duplicates int // messages twice in flight

	MaxStates int // 0 = no bound
	MaxDepth  int
	// Progress, if any, is told now and then how far Explore is: states seen,
	// those of them whose successors are still to be visited, and steps. Where
	// it returns false, that is a bound.
	Progress func(states, frontier, depth int) bool
}

// Check reports what a net would refuse.
func (c *Config) Check() error {
	_, err := c.complete()
	return err
}

func (c Config) complete() (Config, error) {
	if c.Algorithm != "localmutex" && c.Algorithm != "localmutex-paper" {
		return c, fmt.Errorf("algorithm %q: want localmutex or localmutex-paper", c.Algorithm)
	}
	if c.Nodes < 1 || c.Nodes > 8 {
		return c, fmt.Errorf("%d nodes: want 1 to 8", c.Nodes)
	}
	if c.Links == nil {
		for a := range c.Nodes {
			for b := a + 1; b < c.Nodes; b++ {
				c.Links = append(c.Links, [2]int{a, b})
			}
		}
	}
	for _, l := range c.Links {
		if l[0] < 0 || l[0] >= l[1] || l[1] >= c.Nodes {
			return c, fmt.Errorf("link %d-%d: want two nodes below %d, the smaller first", l[0], l[1], c.Nodes)
		}
	}
	if c.Down < 0 || c.Down > len(c.Links) {
		return c, fmt.Errorf("%d links down: there are %d", c.Down, len(c.Links))
	}
	if len(c.Entries) == 1 {
		c.Entries = slices.Repeat(c.Entries, c.Nodes)
	}
	if len(c.Entries) != c.Nodes {
		return c, fmt.Errorf("%d bounds of entries: want one for each of %d nodes", len(c.Entries), c.Nodes)
	}
	c.Priorities = cmp.Or(c.Priorities, 2)
	if c.Priorities < 1 || c.Priorities > 16 || c.Cuts < 0 || c.Joins < 0 || c.Duplicates < 0 {
		return c, fmt.Errorf("priorities %d, cuts %d, joins %d, duplicates %d: want 1 to 16, the others not negative", c.Priorities, c.Cuts, c.Joins, c.Duplicates)
	}
	return c, nil
}

// draw is the source of the machines: the value is part of the schedule.
type draw struct {
	value int
	used  bool
}

func (d *draw) IntN(int) int {
	d.used = true
	return d.value
}

func (*draw) Int64N(int64) int64 { return 0 } // no back-off

// numbers is the modulus of request numbers: a network that repeats nothing
// needs none.
func (c *Config) numbers() int {
	if c.Duplicates > 0 {
		return 8
	}
	return 1
}

// site is one node: its machine, which is never changed in place, and that
// machine's encoding.
type site struct {
	machine *localmutex.Machine
	code    string
	claim   uint8 // neighbours in the lock set, as bits, as long as their links stay
	since   uint8 // neighbours to be locked, of those linked all the time since
}

type link struct {
	a, b int
	up   bool
	told [2]bool // what each end was told last
	news [2]int  // how many changes it has not noticed yet
}

type envelope struct {
	from, to int
	msg      *wire.Local
}

func (e envelope) compare(o envelope) int {
	return cmp.Or(cmp.Compare(e.from, o.from), cmp.Compare(e.to, o.to), cmp.Compare(e.msg.What, o.msg.What),
		cmp.Compare(e.msg.Number, o.msg.Number), cmp.Compare(e.msg.Value, o.msg.Value),
		cmp.Compare(e.msg.Mine, o.msg.Mine), cmp.Compare(e.msg.Theirs, o.msg.Theirs))
}

func (e envelope) String() string {
	s := fmt.Sprintf("p%d->p%d %s", e.from, e.to, wire.KindName(e.msg.What))
	switch e.msg.What {
	case wire.KindRequestLock:
		s += fmt.Sprintf(" %d", e.msg.Value)
	case wire.KindWin:
		s += fmt.Sprintf(" %v", e.msg.Value != 0)
	case wire.KindLink:
		s += fmt.Sprintf(" epoch=%d", uint32(e.msg.Mine))
	}
	return s
}

// net is a state of the whole graph.
type net struct {
	cfg     *Config
	sites   []site
	links   []link
	flight  []envelope // ascending
	entries []int
	cuts, joins,
	dups int
	broken string // what is wrong
	trace  func(string)
}

func newNet(cfg *Config) *net {
	n := &net{
		cfg: cfg, sites: make([]site, cfg.Nodes), entries: slices.Clone(cfg.Entries), cuts: cfg.Cuts, joins: cfg.Joins, dups: cfg.Duplicates,
	}
	for k := range n.sites {
		n.sites[k].machine = localmutex.New(core.Peer{ID: core.NodeID(k), Inc: core.FirstIncarnation}, localmutex.Config{
			Paper: cfg.Algorithm == "localmutex-paper", Priorities: cfg.Priorities, Delta: max(1, cfg.Nodes-1), Numbers: cfg.numbers(),
		})
	}
	for i, l := range cfg.Links {
		up := i < len(cfg.Links)-cfg.Down
		n.links = append(n.links, link{a: l[0], b: l[1], up: up, told: [2]bool{up, up}})
	}
	for k := range n.sites {
		n.step(k, mutex.Start{}, &draw{})
	}
	for _, l := range n.links {
		if l.up {
			n.step(l.a, mutex.LinkUp{Peer: core.NodeID(l.b)}, &draw{})
			n.step(l.b, mutex.LinkUp{Peer: core.NodeID(l.a)}, &draw{})
		}
	}
	for !cfg.Fresh && len(n.flight) > 0 {
		n.deliver(0, &draw{})
	}
	return n
}

func (n *net) clone() *net {
	c := *n
	c.sites, c.links, c.flight, c.entries = slices.Clone(n.sites), slices.Clone(n.links), slices.Clone(n.flight), slices.Clone(n.entries)
	return &c
}

func (n *net) tell(format string, args ...any) {
	if n.trace != nil {
		n.trace(fmt.Sprintf(format, args...))
	}
}

func (n *net) link(a, b int) *link {
	if a > b {
		a, b = b, a
	}
	for i := range n.links {
		if l := &n.links[i]; l.a == a && l.b == b {
			return l
		}
	}
	return nil
}

// steady are those of the given neighbours of node k whose link is up and
// whose ends have noticed all there is.
func (n *net) steady(k int, ids []core.NodeID) (bitset uint8) {
	for _, q := range ids {
		l := n.link(k, int(q))
		end := 0
		if l.b == k {
			end = 1
		}
		if l.up && l.news[end] == 0 {
			bitset |= 1 << q
		}
	}
	return bitset
}

// step gives node k an input.
func (n *net) step(k int, in mutex.Input, d localmutex.Source) {
	x := &n.sites[k]
	before := x.machine.State()
	asked := len(x.machine.Asked(nil))
	m := x.machine.Clone(d)
	var out mutex.Effects
	m.Step(0, in, &out)
	x.machine, x.code = m, string(m.AppendState(nil))
	after := m.State()
	lockSet := m.Asked(nil)
	if asked == 0 && len(lockSet) > 0 {
		x.since = n.steady(k, lockSet)
	}
	if after != before {
		n.tell("p%d %v -> %v", k, before, after)
	}
	switch {
	case out.Granted:
		x.claim = n.steady(k, lockSet)
		if missing := x.since &^ x.claim; missing != 0 {
			n.broken = fmt.Sprintf("VIOLATION: p%d locked without %s, linked all the time", k, names(missing))
		}
	case after != mutex.Held:
		x.claim = 0
		if len(lockSet) == 0 {
			x.since = 0
		}
	}
	for _, s := range out.Sends {
		e := envelope{k, int(s.To), s.Msg.(*wire.Local)}
		n.tell("%v", e)
		// What an end sends before it has noticed that the link went is lost
		// in any case: its epoch is over when it may arrive.
		if n.cfg.Late || n.reachable(e.to, e.from) {
			i, _ := slices.BinarySearchFunc(n.flight, e, envelope.compare)
			n.flight = slices.Insert(n.flight, i, e)
		}
	}
	if n.broken == "" {
		n.broken = n.judge()
	}
}

// names lists the nodes of a bit set.
func names(s uint8) string {
	var list []string
	for ; s != 0; s &= s - 1 {
		list = append(list, fmt.Sprintf("p%d", bits.TrailingZeros8(s)))
	}
	return strings.Join(list, ",")
}

// judge says what is wrong now.
func (n *net) judge() string {
	for a := range n.sites {
		if n.sites[a].machine.State() != mutex.Held {
			continue
		}
		for b := a + 1; b < len(n.sites); b++ {
			if n.sites[b].machine.State() != mutex.Held {
				continue
			}
			if both := (n.sites[a].claim | 1<<a) & (n.sites[b].claim | 1<<b); both != 0 {
				return fmt.Sprintf("VIOLATION: lock sets of p%d and p%d share %s", a, b, names(both))
			}
		}
	}
	if n.cfg.Late || n.cfg.Duplicates > 0 {
		return ""
	}
	for i := range n.links {
		l := &n.links[i]
		if under := n.count(l); under > 2 {
			return fmt.Sprintf("VIOLATION: %d messages under way between p%d and p%d", under, l.a, l.b)
		}
	}
	return ""
}

// count is the number of messages of locks under way on a link.
func (n *net) count(l *link) int {
	c := 0
	for _, e := range n.flight {
		if (e.from == l.a && e.to == l.b || e.from == l.b && e.to == l.a) && e.msg.What != wire.KindLink {
			c++
		}
	}
	return c
}

// reachable reports whether messages reach the end of a link: it is up, and
// the end has noticed that it went before, since link news come before what
// arrives after them.
func (n *net) reachable(from, to int) bool {
	l := n.link(from, to)
	end := 0
	if l.b == to {
		end = 1
	}
	return l.up && (l.news[end] == 0 || l.news[end] == 1 && !l.told[end])
}

func (n *net) deliver(i int, d localmutex.Source) {
	e := n.flight[i]
	n.flight = slices.Delete(n.flight, i, i+1)
	n.step(e.to, mutex.Receive{From: core.Peer{ID: core.NodeID(e.from), Inc: core.FirstIncarnation}, Msg: e.msg}, d)
}

// flip cuts or joins a link, which its ends have not noticed yet.
func (n *net) flip(l *link) {
	l.up = !l.up
	l.news[0]++
	l.news[1]++
	if l.up {
		return
	}
	for _, p := range [2][2]int{{l.a, l.b}, {l.b, l.a}} {
		n.sites[p[0]].claim &^= 1 << p[1]
		n.sites[p[0]].since &^= 1 << p[1]
	}
	if !n.cfg.Late {
		n.flight = slices.DeleteFunc(n.flight, func(e envelope) bool {
			return e.from == l.a && e.to == l.b || e.from == l.b && e.to == l.a
		})
	}
}

// notice tells an end of a link the next change.
func (n *net) notice(l *link, end int, d localmutex.Source) {
	k, q := l.a, l.b
	if end == 1 {
		k, q = q, k
	}
	l.news[end]--
	l.told[end] = !l.told[end]
	if l.told[end] {
		n.step(k, mutex.LinkUp{Peer: core.NodeID(q)}, d)
	} else {
		n.step(k, mutex.LinkDown{Peer: core.NodeID(q)}, d)
	}
}

// waiting are the nodes that wait.
func (n *net) waiting() (s uint8) {
	for k := range n.sites {
		if n.sites[k].machine.State() == mutex.Wait {
			s |= 1 << k
		}
	}
	return s
}

// encode appends what makes the state.
func (n *net) encode(b []byte) []byte {
	for k := range n.sites {
		x := &n.sites[k]
		b = binary.AppendUvarint(b, uint64(len(x.code)))
		b = append(b, x.code...)
		b = append(b, x.claim, x.since, byte(n.entries[k]))
	}
	for i := range n.links {
		l := &n.links[i]
		b = append(b, wire.Flags(l.up, l.told[0], l.told[1]), byte(l.news[0]), byte(l.news[1]))
	}
	b = append(b, byte(n.cuts), byte(n.joins), byte(n.dups))
	for _, e := range n.flight {
		b = append(b, byte(e.from), byte(e.to), e.msg.What)
		b = e.msg.AppendPayload(b)
	}
	return b
}
