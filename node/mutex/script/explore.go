package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/node/mutex"
)

// ExploreConfig bounds an exploration: what may happen, and how often.
// Messages may take any time and overtake each other; those of dead processes
// stay deliverable. The retransmission of a reliable message is covered by
// its staying in flight.
type ExploreConfig struct {
	Algorithm string
	NUpper    int     // 0 = the number of nodes
	Lists     [][]int // whom each node lists at every start
	Entries   []int   // how often each node may ask for the critical section
	Crashes   []int   // how often each node may crash; nil = never
	// Bounds is what the size estimator of each node says, one after the other,
	// in each of its lives; nil: the bound is NUpper (camera+estimated).
	Bounds [][]int

	// Totals over all nodes; a negative one is no bound.
	MaxCrashes, MaxRestarts int
	Losses                  int // of datagrams, and of what a dead process sent
	Duplicates              int
	Changes                 int  // a list gains a node that is up, or loses one (a detected failure, perhaps false)
	GainsOnly               bool // of the changes
	// SilentOKs: a node's wait for a peer that its detector calls failed ends.
	// A live peer that waits or holds leaves first, as ALGORITHMS 2.4 demands,
	// unless NoFence.
	SilentOKs int
	NoFence   bool
	// Sides tells a partition that may begin at any time, by the side of each
	// node: from then on nothing is delivered to the other side. Stopped nodes
	// stand still from then on, so they cannot leave when they are given up.
	// Neither ends within the exploration. nil: there is none.
	Sides   []int
	Stopped []int

	Holders int // how many may hold at once; 0 = 1
	// Stuck also looks for requests that are never served: where nothing is in
	// flight and somebody waits, the trouble ends, and who waits must be
	// served. Withheld: lists do not gain everyone then. StayDead: who is down
	// stays down, and only those who list it hear that it failed; otherwise
	// every process is started again.
	Stuck    bool
	Withheld bool
	StayDead bool

	// After are commands of a script, without its first line, that come before
	// the exploration, outside its bounds: it begins where they lead.
	After []string

	MaxDepth  int // steps; 0 = no bound
	MaxStates int // 0 = no bound
	// Progress, if any, is told now and then how far Explore is: states seen,
	// those of them whose successors are still to be visited, and steps. Where
	// it returns false, that is a bound.
	Progress func(states, frontier, depth int) bool
}

// Interrupted is the Bound of an exploration that Progress ended.
const Interrupted = "interrupted"

// progressEvery is how many transitions lie between two calls of Progress.
const progressEvery = 256

func (c *ExploreConfig) nUpper() int {
	if c.NUpper > 0 {
		return c.NUpper
	}
	return len(c.Lists)
}

// budget counts what may happen; a byte of it goes into the state.
func (c *ExploreConfig) budget() budget {
	bound := func(n int) int {
		if n < 0 || n > 255 {
			return 255
		}
		return n
	}
	return budget{bound(c.MaxCrashes), bound(c.MaxRestarts), bound(c.Losses), bound(c.Duplicates), bound(c.Changes), bound(c.SilentOKs)}
}

// Check reports what Explore and Wander would refuse.
func (c *ExploreConfig) Check() error {
	if _, err := Algorithm(c.Algorithm, max(1, c.nUpper())); err != nil {
		return err
	}
	full, err := c.complete()
	if err != nil {
		return err
	}
	_, err = full.model()
	return err
}

// complete returns c with what was left out.
func (c ExploreConfig) complete() (ExploreConfig, error) {
	n := len(c.Lists)
	if c.Crashes == nil {
		c.Crashes = make([]int, n)
	}
	if n == 0 || len(c.Entries) != n || len(c.Crashes) != n {
		return c, fmt.Errorf("explore: %d lists, %d bounds of entries and %d of crashes: want one for each node", n, len(c.Entries), len(c.Crashes))
	}
	if c.Bounds != nil && (len(c.Bounds) != n || !strings.Contains(c.Algorithm+"+", "+estimated+")) {
		return c, fmt.Errorf("explore: bounds of %d nodes for %s: want those of each node, of camera+estimated", len(c.Bounds), c.Algorithm)
	}
	for k := range n {
		if c.Entries[k] < 0 || c.Entries[k] > 255 || c.Crashes[k] < 0 || c.Crashes[k] > 255 {
			return c, fmt.Errorf("explore: bounds of node %d: want 0 to 255", k)
		}
		for _, j := range c.Lists[k] {
			if j < 0 || j >= n {
				return c, fmt.Errorf("explore: node %d lists node %d: want 0 to %d", k, j, n-1)
			}
		}
	}
	if c.Sides != nil && len(c.Sides) != n || c.Sides == nil && c.Stopped != nil {
		return c, fmt.Errorf("explore: sides of %d nodes: want the side of each of %d, or no partition", len(c.Sides), n)
	}
	for _, k := range c.Stopped {
		if k < 0 || k >= n {
			return c, fmt.Errorf("explore: node %d stands still: want 0 to %d", k, n-1)
		}
	}
	k, err := permits(c.Algorithm)
	if err != nil {
		return c, err
	}
	switch {
	case k == 1 && c.Holders > 1:
		c.Algorithm += "+k" + strconv.Itoa(c.Holders)
		if _, err := permits(c.Algorithm); err != nil {
			return c, err
		}
	case c.Holders == 0:
		c.Holders = k
	}
	if c.Holders > n {
		return c, fmt.Errorf("explore: %d holders of %d nodes", c.Holders, n)
	}
	if c.SilentOKs != 0 || c.Changes != 0 {
		// Time stands still, so the wait before a silent OK must not be one.
		if !strings.Contains(c.Algorithm+"+", "+no-wait+") {
			c.Algorithm += "+no-wait"
		}
	}
	return c, nil
}

// ExploreResult is what an exploration came to.
type ExploreResult struct {
	States      int // visited, all different
	Transitions int
	Depth       int // steps to the farthest state
	LocalStates int // of single nodes: how often a machine was really stepped into a new state
	// Complete tells that no reachable state was left out; Bound names what
	// ended the exploration otherwise: "states", "depth", "walks", Interrupted,
	// or "" where a violation did.
	Complete bool
	Bound    string
	Entries  int    // random walks only: critical sections entered
	Found    *Found // nil where nothing is wrong
	// Violation and Schedule are those of Found, line by line.
	Violation string
	Schedule  []string
}

// verb is one kind of step.
type verb uint8

const (
	deliver verb = iota
	enter
	exit
	tick
	restart
	crash
	silent
	up
	down
	drop
	dup
	bound
	cut   // the partition begins
	fence // only as part of others
)

var verbNames = [...]string{"deliver", "enter", "exit", "tick", "restart", "crash", "silent", "up", "down", "drop", "dup", "bound", "cut", "fence"}

// choice is one step: message a, or node a and perhaps its peer b.
type choice struct {
	verb verb
	b    uint8
	a    uint32
}

// choices appends all that may happen in s, always in the same order.
func (m *model) choices(s *state, c []choice) []choice {
	last := uint32(0)
	for i, f := range s.flight {
		if i > 0 && f == last {
			continue
		}
		last = f
		e := &m.letters[f]
		if m.reaches(s, e) {
			c = append(c, choice{verb: deliver, a: f})
		}
		if s.left.losses > 0 {
			sender := m.at(s, int(e.From.ID))
			if e.Mode == core.Datagram || !sender.up || sender.peer.Inc.Start() != e.From.Inc.Start() {
				c = append(c, choice{verb: drop, a: f})
			}
		}
		if s.left.duplicates > 0 {
			c = append(c, choice{verb: dup, a: f})
		}
	}
	for k := range m.n {
		if !m.stopped(s, k) {
			c = m.nodeChoices(s, k, c)
		}
	}
	if m.cfg.Sides != nil && !s.cut {
		c = append(c, choice{verb: cut})
	}
	return c
}

// reaches reports whether a message can be delivered now.
func (m *model) reaches(s *state, e *letter) bool {
	to := int(e.To)
	return m.at(s, to).up && !m.stopped(s, to) && (!s.cut || m.cfg.Sides[e.From.ID] == m.cfg.Sides[to])
}

func (m *model) stopped(s *state, k int) bool { return s.cut && slices.Contains(m.cfg.Stopped, k) }

func (m *model) nodeChoices(s *state, k int, c []choice) []choice {
	x, a := m.at(s, k), uint32(k)
	if !x.up {
		if s.left.restarts > 0 {
			c = append(c, choice{verb: restart, a: a})
		}
		return c
	}
	if m.cfg.Bounds != nil && int(s.told[k]) < len(m.cfg.Bounds[k]) {
		c = append(c, choice{bound, s.told[k], a})
	}
	switch {
	case x.st == mutex.None && s.entries[k] > 0:
		c = append(c, choice{verb: enter, a: a})
	case x.st == mutex.Held:
		c = append(c, choice{verb: exit, a: a})
	}
	failed := false
	for q := range m.n {
		l := s.lists[k*m.n+q]
		failed = failed || l&1 != 0
		y := m.at(s, q)
		if q == k {
			continue
		}
		if l != 0 && l&1 == 0 && s.left.silent > 0 {
			c = append(c, choice{silent, uint8(q), a})
		}
		if s.left.changes > 0 {
			if y.up && l != 2*uint32(y.peer.Inc) {
				c = append(c, choice{up, uint8(q), a})
			}
			if l != 0 && l&1 == 0 && !m.cfg.GainsOnly {
				c = append(c, choice{down, uint8(q), a})
			}
		}
	}
	if x.due && (!failed || s.left.silent > 0) {
		c = append(c, choice{verb: tick, a: a})
	}
	if s.crashes[k] > 0 && s.left.crashes > 0 {
		c = append(c, choice{verb: crash, a: a})
	}
	return c
}

// do takes a step.
func (m *model) do(s *state, c choice) {
	k := int(c.a)
	switch c.verb {
	case deliver:
		e := &m.letters[c.a]
		m.take(s, c.a)
		m.step(s, int(e.To), deliver, c.a, 0, mutex.Receive{From: e.From, Msg: e.Msg})
	case drop:
		s.left.losses--
		m.take(s, c.a)
	case dup:
		s.left.duplicates--
		i, _ := slices.BinarySearch(s.flight, c.a)
		s.flight = slices.Insert(s.flight, i, c.a)
	case bound:
		s.told = slices.Clone(s.told)
		s.told[k]++
		n := m.cfg.Bounds[k][c.b]
		m.step(s, k, bound, uint32(n), 0, mutex.Bound{Nodes: n})
	case enter:
		s.entries = slices.Clone(s.entries)
		s.entries[k]--
		m.step(s, k, enter, 0, 0, mutex.Enter{})
	case exit:
		m.step(s, k, exit, 0, 0, mutex.Exit{})
	case crash:
		s.crashes, s.lists = slices.Clone(s.crashes), slices.Clone(s.lists)
		s.crashes[k]--
		s.left.crashes--
		s.locals[k] = m.dead(m.at(s, k).peer, m.at(s, k).kept)
		clear(s.lists[k*m.n : (k+1)*m.n])
		s.told = slices.Clone(s.told)
		s.told[k] = 0
	case restart:
		s.left.restarts--
		m.start(s, k)
	case up:
		s.left.changes--
		q := m.at(s, int(c.b)).peer
		s.list(k, int(c.b), 2*uint32(q.Inc))
		m.step(s, k, up, uint32(q.ID), uint32(q.Inc), mutex.MemberUp{Peer: q})
	case down:
		s.left.changes--
		m.memberDown(s, k, int(c.b))
	case silent:
		s.left.silent--
		m.memberDown(s, k, int(c.b))
		m.tick(s, k)
	case tick:
		if slices.ContainsFunc(s.lists[k*m.n:(k+1)*m.n], func(l uint32) bool { return l&1 != 0 }) {
			s.left.silent--
		}
		m.tick(s, k)
	case cut:
		s.cut = true
	case fence:
	}
}

func (m *model) memberDown(s *state, k, j int) {
	q := m.at(s, j).peer
	s.list(k, j, 2*uint32(q.Inc)+1)
	m.step(s, k, down, uint32(q.ID), uint32(q.Inc), mutex.MemberDown{Peer: q})
}

// tick gives node k its Tick; whom it may give up then has left before.
func (m *model) tick(s *state, k int) {
	for _, j := range m.fenced(s, k) {
		p := m.at(s, j).peer
		m.step(s, j, fence, uint32(p.Inc), 0, mutex.Fence{Inc: p.Inc + 1})
	}
	if m.at(s, k).due {
		m.step(s, k, tick, 0, 0, mutex.Tick{})
	}
}

// fenced are the live nodes that must leave before node k gives them up.
func (m *model) fenced(s *state, k int) []int {
	var f []int
	for j := range m.n {
		y := m.at(s, j)
		l := s.lists[k*m.n+j]
		if !m.cfg.NoFence && l&1 != 0 && y.up && !m.stopped(s, j) && y.st != mutex.None && core.Incarnation(l/2).Start() == y.peer.Inc.Start() {
			f = append(f, j)
		}
	}
	return f
}

// Explore visits the reachable states breadth first, every interleaving of
// what may happen, until one is wrong: then no shorter schedule leads to a
// wrong one. Of each visited state it keeps a digest of 16 bytes and how it
// was reached; the same configuration gives the same result. It panics where
// Check reports an error.
func Explore(cfg ExploreConfig) ExploreResult {
	m := newModel(cfg)
	first := m.initial()
	x := &explorer{m: m, seen: map[[16]byte]struct{}{m.digest(first): {}}, links: []link{{}}}
	res := ExploreResult{Complete: true}
	level := []*state{first}
	at := 0 // number of the first state of the level
	found := -1
	if m.wrong(first) { // where After led to
		found = 0
	}
	for len(level) > 0 && found < 0 && res.Bound == "" {
		if cfg.MaxDepth > 0 && res.Depth >= cfg.MaxDepth {
			res.Bound = "depth"
			break
		}
		var next []*state
		next, found, res.Bound = x.expand(level, at, res.Depth)
		at += len(level)
		level = next
		if len(next) > 0 {
			res.Depth++
		}
	}
	res.States, res.Transitions, res.LocalStates = len(x.links), x.transitions, len(m.locals)
	res.Complete = found < 0 && res.Bound == ""
	if found >= 0 {
		m.report(&res, x.path(found))
	}
	return res
}

// report puts what a schedule leads to into res.
func (m *model) report(res *ExploreResult, path []choice) {
	f, err := m.found(path)
	if err != nil {
		panic(err) // a machine is no function of its inputs, or its AppendState leaves something out
	}
	res.Found, res.Violation = f, f.Violation
	res.Schedule = strings.Split(strings.TrimSpace(f.Numbered()), "\n")
}

// link tells how a state was reached first.
type link struct {
	parent uint32
	choice choice
}

type explorer struct {
	m           *model
	seen        map[[16]byte]struct{}
	links       []link
	transitions int
	choices     []choice
}

// expand visits the successors of a level. It returns the next level, and the
// number of a wrong state or -1, and the bound that was reached.
func (x *explorer) expand(level []*state, at, depth int) (next []*state, found int, bound string) {
	m := x.m
	for i, s := range level {
		level[i] = nil
		x.choices = m.choices(s, x.choices[:0])
		for _, c := range x.choices {
			t := s.clone()
			m.do(t, c)
			x.transitions++
			if m.cfg.Progress != nil && x.transitions%progressEvery == 0 && !m.cfg.Progress(len(x.links), len(level)-i+len(next), depth) {
				return next, -1, Interrupted
			}
			d := m.digest(t)
			if _, old := x.seen[d]; old {
				continue
			}
			x.seen[d] = struct{}{}
			x.links = append(x.links, link{uint32(at + i), c})
			if m.wrong(t) {
				return next, len(x.links) - 1, ""
			}
			next = append(next, t)
			if m.cfg.MaxStates > 0 && len(x.links) >= m.cfg.MaxStates {
				return next, -1, "states"
			}
		}
	}
	return next, -1, ""
}

func (x *explorer) path(at int) []choice {
	var p []choice
	for ; at > 0; at = int(x.links[at].parent) {
		p = append(p, x.links[at].choice)
	}
	slices.Reverse(p)
	return p
}

// wrong reports whether an invariant does not hold in s.
func (m *model) wrong(s *state) bool {
	if m.violation(s) != "" {
		return true
	}
	return m.cfg.Stuck && m.quiet(s) && len(m.stuck(s)) > 0
}
