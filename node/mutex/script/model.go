package script

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// model runs the machines for an exploration. Machines cannot be copied, but
// they are functions of what they were given: so each state of one node (a
// local) is made once, is known by its canonical encoding, and is made again
// where needed from its first history. A state of the whole net is then a
// short list of numbers, and a step that was taken before costs a look-up.
// Time stands still, at 0.
type model struct {
	cfg ExploreConfig
	mk  Make
	n   int

	locals  []local
	byState map[string]uint32
	letters []letter
	byText  map[string]uint32
	steps   map[stepKey]stepped
	scratch []byte
	flight  []Envelope // for custodyViolation
	tokens  bool       // it is a token algorithm
	ringed  bool       // it keeps copies on a ring

	after   []choice // what leads to planted
	planted *state   // where the exploration begins
}

// local is one node in one state.
type local struct {
	parent uint32 // its own number in a first state
	in     mutex.Input
	peer   core.Peer
	up     bool
	st     mutex.State
	due    bool // wants a Tick now
	// amnesiac as Node.Amnesiac
	amnesiac bool
	broken   string        // an invariant of its own
	kept     []byte        // over its lives
	custody  mutex.Custody // of a token algorithm
	ring     *mutex.Ring   // of a ring's machine
	holding  core.RequestID
	machine  mutex.Machine // nil once it has gone on
}

// letter is a message that may be in flight.
type letter struct {
	Envelope
	text string
}

type stepKey struct {
	local uint32
	verb  verb
	a, b  uint32
}

type stepped struct {
	next  uint32
	sends []uint32
}

// newModel panics where Check reports an error.
func newModel(cfg ExploreConfig) *model {
	cfg, err := cfg.complete()
	if err != nil {
		panic(err)
	}
	m, err := cfg.model()
	if err != nil {
		panic(err)
	}
	return m
}

// model makes the model of a complete configuration.
func (c ExploreConfig) model() (*model, error) {
	mk, err := Algorithm(c.Algorithm, c.nUpper())
	if err != nil {
		return nil, err
	}
	sample := mk(core.Peer{})
	_, tokens := sample.(mutex.Custodian)
	_, ring := sample.(mutex.Ringed)
	m := &model{
		cfg: c, mk: mk, n: len(c.Lists), tokens: tokens, ringed: ring,
		byState: map[string]uint32{}, byText: map[string]uint32{}, steps: map[stepKey]stepped{},
	}
	if err := m.plant(); err != nil {
		return nil, err
	}
	return m, nil
}

// state is a state of the whole net with what is left of the bounds.
type state struct {
	locals  []uint32
	flight  []uint32 // ascending
	entries []int    // left to each node
	crashes []int
	left    budget
	// lists[p*n+q] is what p's membership service told of q: 0 nothing, else
	// twice the incarnation, and one more where it called that life failed.
	lists []uint32
	// told is how many of its bounds each node has been told in this life.
	told []uint8
	cut  bool // the partition has begun
}

// budget is how often something may still happen in the whole net.
type budget struct{ crashes, restarts, losses, duplicates, changes, silent int }

// clone returns a copy. What seldom changes is shared: whoever writes to
// entries, crashes or lists makes them anew.
func (s *state) clone() *state {
	c := *s
	both := make([]uint32, len(s.locals)+len(s.flight), len(s.locals)+len(s.flight)+4)
	n := copy(both, s.locals)
	copy(both[n:], s.flight)
	c.locals, c.flight = both[:n:n], both[n:]
	return &c
}

// list sets what node k's membership service told of node j.
func (s *state) list(k, j int, told uint32) {
	s.lists = slices.Clone(s.lists)
	s.lists[k*len(s.locals)+j] = told
}

// digest is the same for equal states of one model, and for no others as far
// as 128 bits of SHA-256 go.
func (m *model) digest(s *state) [16]byte {
	b := m.scratch[:0]
	for _, l := range s.locals {
		b = binary.LittleEndian.AppendUint32(b, l)
	}
	for k := range s.entries {
		b = append(b, byte(s.entries[k]), byte(s.crashes[k]))
	}
	l := s.left
	b = append(b, byte(l.crashes), byte(l.restarts), byte(l.losses), byte(l.duplicates), byte(l.changes), byte(l.silent))
	b = append(b, s.told...)
	b = append(b, wire.Flags(s.cut))
	for _, x := range s.lists {
		b = binary.AppendUvarint(b, uint64(x))
	}
	for _, f := range s.flight {
		b = binary.LittleEndian.AppendUint32(b, f)
	}
	m.scratch = b
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}

// initial is the state in which the exploration begins.
func (m *model) initial() *state { return m.planted.clone() }

// root is the state in which every node has just started.
func (m *model) root() *state {
	s := &state{
		locals: make([]uint32, m.n), entries: slices.Clone(m.cfg.Entries), crashes: slices.Clone(m.cfg.Crashes),
		left: m.cfg.budget(), lists: make([]uint32, m.n*m.n), told: make([]uint8, m.n),
	}
	for k := range m.n {
		s.locals[k] = m.dead(core.Peer{ID: core.NodeID(k)}, nil)
	}
	for k := range m.n {
		m.start(s, k)
	}
	return s
}

// dead is the local of a node that is down after the life of p.
func (m *model) dead(p core.Peer, kept []byte) uint32 {
	b := append(m.scratch[:0], 'd')
	b = binary.AppendVarint(b, int64(p.ID))
	b = binary.AppendUvarint(b, uint64(p.Inc))
	b = append(b, kept...)
	m.scratch = b
	return m.intern(b, func(n uint32) local { return local{parent: n, peer: p, kept: kept} })
}

func (m *model) intern(b []byte, mk func(n uint32) local) uint32 {
	if n, ok := m.byState[string(b)]; ok {
		return n
	}
	n := uint32(len(m.locals))
	m.byState[string(b)] = n
	m.locals = append(m.locals, mk(n))
	return n
}

// start is Net.Start.
func (m *model) start(s *state, k int) {
	p, kept := m.at(s, k).peer, m.at(s, k).kept
	p.Inc = core.Incarnation(p.Inc.Start()+1) * core.IncarnationStep
	in := mutex.Start{Restarted: p.Inc > core.FirstIncarnation, Kept: kept}
	s.lists = slices.Clone(s.lists)
	clear(s.lists[k*m.n : (k+1)*m.n])
	for _, j := range m.cfg.Lists[k] {
		if j == k {
			continue
		}
		q := m.locals[s.locals[j]].peer
		q.Inc = max(q.Inc, core.FirstIncarnation)
		in.Members = append(in.Members, q)
		s.lists[k*m.n+j] = 2 * uint32(q.Inc)
	}
	root := local{peer: p, up: true, in: in, kept: kept}
	var out mutex.Effects
	root.machine = m.mk(p)
	root.machine.Step(0, in, &out)
	m.settleLocal(&root, &out)
	done := m.finish(root, &out, true, 0)
	m.apply(s, k, done)
}

// settleLocal reads the facts that the exploration needs off the machine.
func (m *model) settleLocal(l *local, out *mutex.Effects) {
	if out.Persist != nil {
		l.kept = out.Persist
	}
	l.st, l.due = l.machine.State(), l.machine.Deadline() <= 0
	for _, note := range out.Notes {
		l.amnesiac = note == "amnesiac" || l.amnesiac && note != "recovered"
	}
	if c, ok := l.machine.(mutex.Custodian); ok {
		l.custody = c.Custody()
	}
	if c, ok := l.machine.(mutex.Ringed); ok {
		r := c.Ring()
		l.ring, l.holding = &r, core.RequestID{}
		if l.st == mutex.Held {
			l.holding = c.Request()
		}
	}
	if c, ok := l.machine.(interface{ Invariant() string }); ok {
		l.broken = c.Invariant()
	}
}

// finish gives the local its number and the messages theirs.
func (m *model) finish(l local, out *mutex.Effects, root bool, parent uint32) stepped {
	b := append(m.scratch[:0], 'u')
	b = binary.AppendVarint(b, int64(l.peer.ID))
	b = binary.AppendUvarint(b, uint64(l.peer.Inc))
	b = append(b, wire.Flags(l.amnesiac))
	b = binary.AppendUvarint(b, uint64(len(l.kept)))
	b = append(b, l.kept...)
	b = l.machine.AppendState(b)
	m.scratch = b
	done := stepped{next: m.intern(b, func(n uint32) local {
		l.parent = parent
		if root {
			l.parent = n
		}
		return l
	})}
	for _, send := range out.Sends {
		done.sends = append(done.sends, m.letter(Envelope{From: l.peer, To: send.To, Msg: send.Msg, Mode: send.Mode}))
	}
	return done
}

func (m *model) letter(e Envelope) uint32 {
	b := appendEnvelope(m.scratch[:0], e)
	m.scratch = b
	if n, ok := m.byText[string(b)]; ok {
		return n
	}
	n := uint32(len(m.letters))
	m.letters = append(m.letters, letter{e, string(b)})
	m.byText[string(b)] = n
	return n
}

// machineOf makes the machine of a local again. The caller may step it.
func (m *model) machineOf(n uint32) mutex.Machine {
	if x := m.locals[n].machine; x != nil {
		m.locals[n].machine = nil
		return x
	}
	var history []uint32
	for {
		history = append(history, n)
		if m.locals[n].parent == n {
			break
		}
		n = m.locals[n].parent
	}
	x := m.mk(m.locals[n].peer)
	var out mutex.Effects
	for _, k := range slices.Backward(history) {
		out.Reset()
		x.Step(0, m.locals[k].in, &out)
	}
	return x
}

// step gives node k an input, which the key must name.
func (m *model) step(s *state, k int, v verb, a, b uint32, in mutex.Input) {
	key := stepKey{s.locals[k], v, a, b}
	done, ok := m.steps[key]
	if !ok {
		from := key.local
		next := m.locals[from]
		next.machine = m.machineOf(from)
		next.in = in
		if f, fenced := in.(mutex.Fence); fenced {
			next.peer.Inc = f.Inc
		}
		var out mutex.Effects
		next.machine.Step(0, in, &out)
		m.settleLocal(&next, &out)
		done = m.finish(next, &out, false, from)
		m.steps[key] = done
	}
	m.apply(s, k, done)
}

func (m *model) apply(s *state, k int, done stepped) {
	s.locals[k] = done.next
	for _, f := range done.sends {
		i, _ := slices.BinarySearch(s.flight, f)
		s.flight = slices.Insert(s.flight, i, f)
	}
}

func (m *model) take(s *state, f uint32) {
	i, _ := slices.BinarySearch(s.flight, f)
	s.flight = slices.Delete(s.flight, i, i+1)
}

func (m *model) at(s *state, k int) *local { return &m.locals[s.locals[k]] }

// violation says what is wrong in s, or nothing.
func (m *model) violation(s *state) string {
	if m.ringed {
		return m.ringViolation(s)
	}
	var held []int
	for k := range m.n {
		l := m.at(s, k)
		if !l.up {
			continue
		}
		if l.broken != "" {
			return fmt.Sprintf("BROKEN: p%d: %s", k, l.broken)
		}
		if l.st == mutex.Held {
			held = append(held, k)
		}
	}
	if len(held) <= max(1, m.cfg.Holders) {
		return m.custodyViolation(s)
	}
	return fmt.Sprintf("VIOLATION: %d HELD:%s", len(held), nodeNames(held))
}

// net makes a net in state s.
func (m *model) net(s *state) *Net {
	net := NewNet(m.n, m.mk)
	net.Permits = m.cfg.Holders
	for k := range net.Nodes {
		n := s.locals[k]
		l := m.locals[n]
		net.Nodes[k] = Node{Peer: l.peer, Up: l.up, Amnesiac: l.amnesiac, Kept: l.kept}
		if l.up {
			net.Nodes[k].Machine = m.machineOf(n)
		}
	}
	for _, f := range s.flight {
		net.Flight = append(net.Flight, m.letters[f].Envelope)
	}
	return net
}

// quiet reports whether somebody waits and nothing but new requests, faults
// or the passing of time can change that.
func (m *model) quiet(s *state) bool {
	waiting := false
	for k := range m.n {
		l := m.at(s, k)
		if l.up && l.st == mutex.Held {
			return false
		}
		waiting = waiting || l.up && l.st == mutex.Wait
	}
	return waiting && !slices.ContainsFunc(s.flight, func(f uint32) bool { return m.reaches(s, &m.letters[f]) })
}

// finishTicks is how many Ticks a quiet net gets to serve who waits.
const finishTicks = 200

// stuck reports who is never served from s, although the trouble ends.
// Where too few nodes are left that remember what they granted, waiting is
// what they must do. Two holders do not count here, since lists changed beyond
// the bounds.
func (m *model) stuck(s *state) (waiting []int) {
	net := m.net(s)
	remember := 0
	for _, x := range net.Nodes {
		if x.Up && !x.Amnesiac {
			remember++
		}
	}
	if n := m.cfg.nUpper(); remember < n-n/2 {
		return nil
	}
	r := runner{net: net, lists: m.cfg.Lists}
	for _, c := range m.ending(s) {
		if err := r.command(strings.Fields(c)); err != nil {
			panic(err) // ending names what can be done
		}
	}
	return net.Finish(finishTicks)
}

// ending are the commands that end all trouble in s: every process is started
// again, or, with StayDead, those who list it hear that it failed; and, unless
// Withheld, every list gains everyone who is up. What is in flight is delivered
// afterwards, and time passes.
func (m *model) ending(s *state) (commands []string) {
	down := make([]bool, m.n)
	for k := range m.n {
		switch {
		case m.at(s, k).up:
		case m.cfg.StayDead:
			down[k] = true
		default:
			commands = append(commands, "restart "+nodeName(k))
		}
	}
	for k, bounds := range m.cfg.Bounds {
		for _, n := range bounds {
			if !down[k] {
				commands = append(commands, fmt.Sprintf("bound %s %d", nodeName(k), n))
			}
		}
	}
	for k := range m.n {
		for j := range m.n {
			l := s.lists[k*m.n+j]
			switch {
			case j == k || down[k]:
			case down[j]:
				if l != 0 && l&1 == 0 {
					commands = append(commands, "down "+nodeName(k)+" "+nodeName(j))
				}
			case !m.cfg.Withheld:
				commands = append(commands, "up "+nodeName(k)+" "+nodeName(j))
			}
		}
	}
	return commands
}

func appendEnvelope(b []byte, e Envelope) []byte {
	b = append(b, e.Msg.Kind())
	b = append(b, wire.Flags(e.Mode == core.Datagram))
	b = binary.AppendUvarint(b, uint64(e.From.ID))
	b = binary.AppendUvarint(b, uint64(e.From.Inc))
	b = binary.AppendUvarint(b, uint64(e.To))
	p := e.Msg.AppendPayload(nil)
	b = binary.AppendUvarint(b, uint64(len(p)))
	return append(b, p...)
}
