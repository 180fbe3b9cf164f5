package localmutex

import (
	"math/bits"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// MaxDelta bounds Config.Delta, so that a set of ports is one word.
const MaxDelta = 31

// Defaults of Config.
const (
	DefaultPriorities = 16
	DefaultDelta      = 8
	DefaultSelfPace   = time.Millisecond
)

// Source draws priorities and back-off; a *rand.Rand is one.
type Source interface {
	IntN(n int) int
	Int64N(n int64) int64
}

// Config tunes the machine.
type Config struct {
	// Paper is the published algorithm, with its traps L1 and L2.
	Paper bool
	// Priorities is K: they are drawn from 0..K-1. 0 = DefaultPriorities.
	Priorities int
	// Delta is the largest number of links at a time, 1..MaxDelta; further
	// ones are not used. 0 = DefaultDelta.
	Delta int
	// Backoff is the mean wait before the second try, doubled for each further one up
	// to BackoffMax; the wait is uniform between 0 and twice that. 0: losers
	// compete again at once, as published.
	Backoff, BackoffMax time.Duration
	// SelfPace is the wait between tries of a node that competes for itself
	// only.
	SelfPace time.Duration
	// Numbers is the modulus of request numbers, 0 = 65536. Small ones are for
	// explorers, whose network repeats nothing.
	Numbers int
	// Rand is the source of priorities and waits.
	Rand Source
	// App acts under the lock; nil: nothing does.
	App *App
}

func (c Config) complete() Config {
	if c.Priorities == 0 {
		c.Priorities = DefaultPriorities
	}
	if c.Delta == 0 {
		c.Delta = DefaultDelta
	}
	if c.Numbers == 0 {
		c.Numbers = 1 << 16
	}
	if c.BackoffMax < c.Backoff {
		c.BackoffMax = c.Backoff
	}
	return c
}

// set is a set of ports.
type set uint64

const self = 0 // port of the node itself

func one(p int) set             { return 1 << p }
func (s set) has(p int) bool    { return s&one(p) != 0 }
func (s *set) add(p int)        { *s |= one(p) }
func (s *set) remove(p int)     { *s &^= one(p) }
func (s set) count() int        { return bits.OnesCount64(uint64(s)) }
func (s set) next() (p int)     { return bits.TrailingZeros64(uint64(s)) }
func (s set) without(o set) set { return s &^ o }

// state of the initiator.
type state uint8

const (
	idle state = iota // none, in the paper
	prepare
	compete
	win
	locked
	unlock
)

// phase of the participant.
type phase uint8

const (
	open      phase = iota // none, in the paper
	applying               // prepare
	competing              // compete
)

// nobody is the value of lock of a node that is not locked.
const nobody = -1

// Machine is the algorithm at one node. Variables are named as in the paper.
type Machine struct {
	cfg   Config
	self  core.Peer
	now   core.Instant
	epoch uint64 // last one given to a port
	ports []port // [self] is the node itself
	gone  set    // disconnected and not cleaned up yet

	// Initiator.
	st      mutex.State
	state   state
	wanted  bool // Enter came while the last lock was being released
	cur     core.RequestID
	last    uint64       // timestamp of the newest request
	retryAt core.Instant // when a loser competes again
	L       set          // lock set
	R       set          // ready, or acknowledged
	W       set          // told WIN, whether true or false
	won     set          // of W: true
	tries   int
	most    int
	began   core.Instant  // of the current lock
	first   []core.NodeID // lock set at that time, without the node itself

	// Participant.
	lock  int // port that holds the node's lock, or nobody
	phase phase
	A     set      // applicants
	H     set      // on hold
	C     set      // candidates
	P     set      // candidates whose priority has not been answered
	prio  []uint32 // by port, where P

	act action

	local []wire.Local // to the node itself; empty between steps
}

// port is one link of the node.
type port struct {
	peer   core.NodeID // address only: the algorithm knows ports
	used   bool        // the link is there
	open   bool        // both ends know both epochs
	mine   uint64
	theirs uint64 // 0 = not known
	told   uint64 // epoch of the neighbour that it was last told to be known
	out    uint16 // number of the last request
	await  byte   // kind of the answer that is due, 0 = none
	in     uint16 // number of the last request of the neighbour
}

var _ mutex.Local = (*Machine)(nil)

// New returns the machine of the node self.
func New(self core.Peer, cfg Config) *Machine {
	cfg = cfg.complete()
	size := cfg.Delta + 1
	if cfg.Paper {
		size += cfg.Delta // what CleanUp has not freed yet
	}
	m := &Machine{
		cfg: cfg, self: self, epoch: uint64(self.Inc) << 32, ports: make([]port, size), prio: make([]uint32, size),
		lock: nobody, retryAt: core.Never,
	}
	m.ports[0] = port{peer: self.ID, used: true, open: true}
	m.act.init(&cfg, size)
	return m
}

// Step implements mutex.Machine.
func (m *Machine) Step(now core.Instant, in mutex.Input, out *mutex.Effects) {
	m.now = now
	switch in := in.(type) {
	case mutex.Start:
		m.act.announce(out)
	case mutex.Enter:
		m.st = mutex.Wait
		m.last++
		m.cur = core.RequestID{Node: m.self.ID, Inc: m.self.Inc, TS: m.last}
		m.tries = 0
		if m.wanted = m.state != idle; !m.wanted {
			m.initLock(out)
		}
	case mutex.Exit:
		m.releaseLock(out)
	case mutex.Receive:
		if msg, ok := in.Msg.(*wire.Local); ok {
			m.fromNetwork(in.From, msg, out)
		}
	case mutex.LinkUp:
		m.linkUp(in.Peer, out)
	case mutex.LinkDown:
		m.linkDown(in.Peer, out)
	case mutex.Fence:
		m.fence(in.Inc, out)
	case mutex.Tick:
		if m.retryAt <= now {
			m.retryAt = core.Never
			m.requestLock(out)
		}
	case mutex.MemberUp, mutex.MemberDown, mutex.MemberSuspected:
	}
	m.settle(out)
}

// settle carries out the actions that are enabled, until none is.
func (m *Machine) settle(out *mutex.Effects) {
	for {
		switch {
		case len(m.local) > 0:
			msg := m.local[0]
			m.local = m.local[:copy(m.local, m.local[1:])]
			m.receive(self, &msg, out)
		case m.gone != 0 && m.mayCleanUp():
			m.cleanUp(out)
		case m.state == prepare && m.R == m.L:
			m.requestLock(out) // CheckStart
		case m.phase == competing && m.P != 0 && m.P == m.C:
			m.checkPriorities(out)
		case m.state == compete && m.W == m.L && m.retryAt == core.Never:
			m.checkWin(out)
		case m.state == win && m.R == m.L:
			m.state, m.st = locked, mutex.Held
			out.Granted = true
			m.act.decide(m)
		case m.state == unlock && m.R == m.L:
			m.unlocked(out)
		default:
			return
		}
	}
}

// send sends a message of the link at port p; what goes to the node itself
// waits for settle.
func (m *Machine) send(p int, kind byte, number uint16, value uint32, out *mutex.Effects) {
	x := &m.ports[p]
	msg := wire.Local{What: kind, Mine: x.mine, Theirs: x.theirs, Number: number, Value: value}
	if p == self {
		m.local = append(m.local, msg)
		return
	}
	x.told = x.theirs
	out.Send(x.peer, &msg, core.Reliable)
}

// answerOf is the kind that answers a request.
func answerOf(kind byte) byte { return kind + 1 }

// request sends a request of the initiator and waits for its answer.
func (m *Machine) request(p int, kind byte, value uint32, out *mutex.Effects) {
	x := &m.ports[p]
	x.out = m.after(x.out)
	if p != self {
		m.most = max(m.most, 1)
		if x.await != 0 {
			m.most = 2 // it must not be
		}
	}
	x.await = answerOf(kind)
	m.send(p, kind, x.out, value, out)
}

func (m *Machine) requestAll(to set, kind byte, value uint32, out *mutex.Effects) {
	for s := to.without(m.gone); s != 0; s &= s - 1 {
		m.request(s.next(), kind, value, out)
	}
}

// after is the number of the request that follows number n.
func (m *Machine) after(n uint16) uint16 { return uint16((int(n) + 1) % m.cfg.Numbers) }

// answer answers the request of the neighbour at port p.
func (m *Machine) answer(p int, kind byte, value uint32, out *mutex.Effects) {
	if m.gone.has(p) {
		return
	}
	m.send(p, kind, m.ports[p].in, value, out)
}

// receive handles a message of an open port.
func (m *Machine) receive(p int, msg *wire.Local, out *mutex.Effects) {
	x := &m.ports[p]
	switch msg.What {
	case wire.KindReady, wire.KindWin, wire.KindAckLock, wire.KindAckUnlock:
		if x.await != msg.What || x.out != msg.Number {
			return
		}
		x.await = 0
	default:
		if msg.Number != m.after(x.in) {
			return // a repetition
		}
		x.in = msg.Number
	}
	switch msg.What {
	case wire.KindPrepare:
		m.onPrepare(p, out)
	case wire.KindReady:
		m.R.add(p)
	case wire.KindRequestLock:
		m.onRequestLock(p, msg.Value, out)
	case wire.KindWin:
		m.W.add(p)
		if msg.Value != 0 {
			m.won.add(p)
		}
	case wire.KindSetLock:
		m.onSetLock(p, out)
	case wire.KindAckLock:
		m.R.add(p)
		m.act.heard(p, msg.Value)
	case wire.KindReleaseLock:
		m.onReleaseLock(p, msg.Value, out)
	case wire.KindAckUnlock:
		m.R.add(p)
		if m.act.waiting && p == m.act.partner {
			m.act.set(m.act.mine, out)
			m.releaseRest(out)
		}
	}
}

// Initiator.

func (m *Machine) initLock(out *mutex.Effects) {
	m.state, m.R = prepare, 0
	m.L = one(self)
	for p := 1; p < len(m.ports); p++ {
		if m.ports[p].open {
			m.L.add(p)
		}
	}
	m.began, m.first = m.now, m.Asked(m.first[:0])
	m.requestAll(m.L, wire.KindPrepare, 0, out)
}

func (m *Machine) requestLock(out *mutex.Effects) {
	m.state, m.R, m.W, m.won = compete, 0, 0, 0
	m.tries++
	m.requestAll(m.L, wire.KindRequestLock, uint32(m.cfg.Rand.IntN(m.cfg.Priorities)), out)
}

func (m *Machine) checkWin(out *mutex.Effects) {
	if m.won == m.L {
		m.state, m.R, m.W, m.won = win, 0, 0, 0
		m.requestAll(m.L, wire.KindSetLock, 0, out)
		return
	}
	switch {
	case m.cfg.Backoff > 0:
		mean := min(m.cfg.Backoff<<min(m.tries-1, 20), m.cfg.BackoffMax)
		m.retryAt = m.now.Add(time.Duration(m.cfg.Rand.Int64N(2*int64(mean) + 1)))
	case m.L == one(self):
		m.retryAt = m.now.Add(m.cfg.SelfPace)
	default:
		m.requestLock(out)
	}
}

func (m *Machine) releaseLock(out *mutex.Effects) {
	m.st, m.state, m.R, m.cur = mutex.None, unlock, 0, core.RequestID{}
	if p := m.act.partner; p != self && m.L.without(m.gone).has(p) {
		m.act.waiting = true
		m.request(p, wire.KindReleaseLock, m.act.theirs, out)
		return
	}
	m.requestAll(m.L, wire.KindReleaseLock, 0, out)
}

// releaseRest follows when the partner of the application has acknowledged, or
// is gone.
func (m *Machine) releaseRest(out *mutex.Effects) {
	m.act.waiting, m.act.partner = false, self
	m.requestAll(m.L.without(m.R), wire.KindReleaseLock, 0, out)
}

func (m *Machine) unlocked(out *mutex.Effects) {
	m.state, m.L, m.R, m.W, m.won = idle, 0, 0, 0, 0
	if m.wanted {
		m.wanted = false
		m.initLock(out)
	}
}

// Participant.

func (m *Machine) onPrepare(p int, out *mutex.Effects) {
	if m.phase == competing {
		m.H.add(p)
		return
	}
	m.phase = applying
	m.A.add(p)
	m.answer(p, wire.KindReady, 0, out)
}

func (m *Machine) onRequestLock(p int, priority uint32, out *mutex.Effects) {
	if m.A.has(p) {
		m.A.remove(p)
		pending := m.P != m.C // a candidate was answered and has not asked again
		m.phase = competing
		m.C.add(p)
		if pending && !m.cfg.Paper {
			m.answer(p, wire.KindWin, 0, out) // remedy of L1
			return
		}
	}
	if m.C.has(p) {
		m.P.add(p)
		m.prio[p] = priority
	}
}

func (m *Machine) checkPriorities(out *mutex.Effects) {
	winner, highest := nobody, -1
	for s := m.P; s != 0; s &= s - 1 {
		p := s.next()
		switch v := int(m.prio[p]); {
		case v > highest:
			winner, highest = p, v
		case v == highest:
			winner = nobody // not unique
		}
	}
	if m.lock != nobody {
		winner = nobody
	}
	asked := m.P
	m.P = 0
	for s := asked; s != 0; s &= s - 1 {
		p := s.next()
		m.prio[p] = 0
		if p == winner {
			m.answer(p, wire.KindWin, 1, out)
		} else {
			m.answer(p, wire.KindWin, 0, out)
		}
	}
}

func (m *Machine) onSetLock(p int, out *mutex.Effects) {
	m.lock = p
	m.C.remove(p)
	m.answer(p, wire.KindAckLock, m.act.value, out)
	m.checkCandidates(out)
}

func (m *Machine) onReleaseLock(p int, value uint32, out *mutex.Effects) {
	if m.lock == p {
		m.lock = nobody
		m.act.written(value, out)
	}
	m.answer(p, wire.KindAckUnlock, 0, out)
}

// checkCandidates opens the competition again where no candidate is left.
func (m *Machine) checkCandidates(out *mutex.Effects) {
	if m.phase != competing || m.C != 0 {
		return
	}
	held := m.H
	m.A, m.H = m.A|held, 0
	m.phase = applying
	if m.A == 0 {
		m.phase = open
	}
	for s := held; s != 0; s &= s - 1 {
		m.answer(s.next(), wire.KindReady, 0, out)
	}
}

// mayCleanUp is the guard of CleanUp, and trap L2.
func (m *Machine) mayCleanUp() bool { return !m.cfg.Paper || m.phase != open || m.state == unlock }

// cleanUp drops disconnected ports from everything.
func (m *Machine) cleanUp(out *mutex.Effects) {
	g := m.gone
	for s := g; s != 0; s &= s - 1 {
		p := s.next()
		m.prio[p] = 0
		m.ports[p] = port{}
		if m.lock == p {
			m.lock = nobody
		}
	}
	m.gone = 0
	for _, v := range []*set{&m.L, &m.R, &m.W, &m.won, &m.A, &m.H, &m.C, &m.P} {
		*v = v.without(g)
	}
	if m.phase == applying && m.A == 0 {
		m.phase = open
	}
	m.checkCandidates(out)
	if m.act.waiting && g.has(m.act.partner) {
		m.releaseRest(out)
	}
}
