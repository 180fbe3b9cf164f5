package camera

import (
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// DefaultReask is how long a request without a majority waits before it asks
// again.
const DefaultReask = 5 * time.Second

// remind is how long an unanswered peer is left alone, in multiples of Reask.
// The transport has delivered the REQUEST, and a peer that restarts is asked
// anew when its life becomes known: this is the last resort (H4e), kept slow
// so that a long queue costs no messages.
const remind = 12

// Config tunes the machine.
type Config struct {
	// NUpper bounds from above the number of nodes that take part; at least 1.
	// A request needs grants of more than NUpper/2 nodes.
	NUpper int
	// Estimated: the bound is told by mutex.Bound, and NUpper is the least that
	// it may be. Before the first, nobody enters and no grant counts.
	Estimated bool
	// SuspicionWait is the further wait between a detected failure and the
	// silent OK (ALGORITHMS 2.4).
	SuspicionWait time.Duration
	// Reask is the interval after which a request that lacks grants asks those
	// whose OK did not count again, and a recovery those who have not
	// answered; unanswered peers are reminded twelve times as slowly. 0 =
	// DefaultReask.
	Reask time.Duration
	// Durable: what others rely on is kept over a crash, by Effects.Persist and
	// Start.Kept, and a life that finds it is not amnesiac.
	Durable bool
	// MaxMessage is how many bytes of a frame a message may take; what does not
	// fit is told in parts. 0 = wire.MaxPayload.
	MaxMessage int
	Slow       Slow  // the slow path (ALGORITHMS 2.5)
	Probe      Probe // of peers that the membership service does not list (H8)
	// Without takes safeguards away. It is for the tests of the explorer,
	// which must find what each of them prevents, and is never set in a node.
	Without Safeguard
}

// Machine is the algorithm at one node. The names are those of ALGORITHMS 2.3.
type Machine struct {
	cfg  Config
	self core.Peer

	st  mutex.State
	clk uint64
	cur core.RequestID

	peers    []peer          // by id
	rec      requests.ByNode // granted and not seen to end
	def      requests.ByNode // newest deferred request of each node
	nPending int
	nGrants  int // peers with granted set, and the node itself where it counts

	down    []failure // detected, not yet confirmed; ascending by id
	reaskAt core.Instant

	upper int // the bound N_upper, 0: not known yet; it never falls
	kept  int // the bound that an earlier life kept, 0: none

	unsaved bool // others may rely on more than was kept

	news  uint64 // counts the restarts this life has heard of
	stays uint64 // counts the grants of this life that were told in parts

	amnesia
	slow

	now     core.Instant // of the present step
	probeAt core.Instant
	turn    int // whose turn it is to help with probes
}

// peer is what the node knows of another.
type peer struct {
	listed  bool // in Memlist
	asked   bool // for cur, and not given up since
	pending bool // its OK is awaited; implies asked
	granted bool // its OK for cur counts; implies asked
	old     bool // it granted before a failure was detected
	gone    bool // its failure was confirmed, and no MemberUp or newer life since
	met     bool // through an OK or a tree, while it was not listed
	watch   watch
	life    core.Incarnation
	// newsAt is the value of Machine.news when the restart that life belongs
	// to became known, 0 in a first start; told how far the peer has heard
	// this node's news; heard how far this node has heard the peer's, in the
	// peer's life heardInc.
	newsAt   uint64
	told     uint64
	heard    uint64
	heardInc core.Incarnation
	done     core.RequestID // newest request known to be over
	telling  stay           // of its request in rec
	hearing  part           // of the OK for cur
}

// failure is a detected failure that is confirmed at the instant at.
type failure struct {
	peer  core.Peer
	since core.Instant
	at    core.Instant
}

var _ mutex.Asker = (*Machine)(nil)

// New returns the machine of the node self. It panics if cfg.NUpper is below 1.
func New(self core.Peer, cfg Config) *Machine {
	if cfg.NUpper < 1 {
		panic("camera: NUpper is below 1")
	}
	if cfg.Reask <= 0 {
		cfg.Reask = DefaultReask
	}
	if cfg.MaxMessage <= 0 {
		cfg.MaxMessage = wire.MaxPayload
	}
	cfg.Slow, cfg.Probe = cfg.Slow.complete(), cfg.Probe.complete()
	m := &Machine{cfg: cfg, self: self, reaskAt: core.Never, probeAt: core.Never}
	if !cfg.Estimated {
		m.upper = cfg.NUpper
	}
	m.retryAt, m.startAt = core.Never, core.Never
	return m
}

// Step implements mutex.Machine.
func (m *Machine) Step(now core.Instant, in mutex.Input, out *mutex.Effects) {
	m.now = now
	if !m.has(PersistFirst) {
		m.persist(out) // what the step before has told already
	}
	switch in := in.(type) {
	case mutex.Start:
		m.start(now, in, out)
	case mutex.Enter:
		m.enter(now, out)
	case mutex.Exit:
		m.exit(out)
	case mutex.Receive:
		m.receive(now, in, out)
	case mutex.MemberUp:
		m.memberUp(now, in.Peer, out)
	case mutex.MemberDown:
		m.memberDown(now, in, out)
	case mutex.Fence:
		m.fence(in.Inc, out)
	case mutex.Bound:
		m.bound(in.Nodes, out)
	case mutex.Tick:
		m.tick(now, out)
	case mutex.MemberSuspected:
	}
	// H10: to decide and to enter is one step, whatever the input was.
	m.tryEnter(now, out)
	if _, starts := in.(mutex.Start); starts || len(out.Sends) > 0 && m.has(PersistFirst) {
		m.persist(out)
	}
}

func (m *Machine) start(now core.Instant, in mutex.Start, out *mutex.Effects) {
	for _, p := range in.Members {
		if p.ID == m.self.ID {
			continue
		}
		m.at(p.ID).listed = true
		m.learnLife(now, p, out)
	}
	m.unsaved = true // also where it is nothing: who finds no file knows nothing
	if in.Restarted && !m.restore(now, in.Kept, out) && m.has(Amnesia) {
		m.beginRecovery(now, out)
	}
}

func (m *Machine) enter(now core.Instant, out *mutex.Effects) {
	m.st = mutex.Wait
	m.clk++
	m.cur = core.RequestID{Node: m.self.ID, Inc: m.self.Inc, TS: m.clk}
	if !m.forgetful() {
		m.nGrants = 1
	}
	m.reaskAt = now.Add(remind * m.cfg.Reask)
	plain := &wire.Request{ID: m.cur}
	if m.cfg.Slow.On && m.small() {
		m.beginSlow(now, out)
	} else {
		for k := range m.peers {
			if m.peers[k].listed {
				m.askWith(now, core.NodeID(k), plain, out)
			}
		}
	}
	if m.has(OwnRecords) {
		for _, r := range m.rec { // H9
			m.askWith(now, r.Node, plain, out)
		}
	}
}

// ask makes the current request wait for a genuine OK of p.ID from the life of
// p or a later one (H1: what decides is who was asked for this request, not
// who is listed).
func (m *Machine) ask(now core.Instant, p core.Peer, out *mutex.Effects) {
	if p.ID == m.self.ID {
		return
	}
	m.learnLife(now, p, out)
	if q := m.at(p.ID); !q.asked && !q.listed {
		out.Learned = append(out.Learned, core.Peer{ID: p.ID, Inc: q.life})
	}
	m.need(p.ID)
	m.askWith(now, p.ID, nil, out)
}

func (m *Machine) askWith(now core.Instant, k core.NodeID, plain *wire.Request, out *mutex.Effects) {
	p := m.at(k)
	if p.asked {
		return
	}
	p.asked, p.pending, p.hearing = true, true, part{}
	m.nPending++
	m.need(k)
	if p.gone {
		m.suspect(now, core.Peer{ID: k, Inc: p.life})
	}
	m.sendRequest(k, plain, out)
}

func (m *Machine) sendRequest(k core.NodeID, plain *wire.Request, out *mutex.Effects) {
	p := m.at(k)
	switch {
	case p.heard > 0 && p.heardInc.Start() == p.life.Start():
		plain = &wire.Request{ID: m.cur, News: p.heard, NewsInc: p.heardInc}
	case plain == nil:
		plain = &wire.Request{ID: m.cur}
	}
	out.Send(k, plain, core.Reliable)
}

func (m *Machine) receive(now core.Instant, in mutex.Receive, out *mutex.Effects) {
	q := in.From
	if q.ID == m.self.ID {
		return
	}
	m.learnLife(now, q, out)
	current := q.Inc.Start() == m.at(q.ID).life.Start() || !m.has(Incarnations)
	if current {
		m.postpone(now, q.ID)
		m.heard(now, q.ID)
	}
	switch msg := in.Msg.(type) {
	case *wire.Request:
		if current {
			m.onRequest(now, q, msg, out)
		}
	case *wire.OK:
		m.onOK(now, q, current, msg, out)
	case *wire.Release:
		m.onRelease(msg.ID, out)
	case *wire.Alive:
		m.onAlive(q, msg, out)
	case *wire.AliveAck:
		m.onAliveAck(now, msg, out)
	case *wire.Recover:
		if current {
			m.onRecover(now, q, msg, out)
		}
	case *wire.Recovered:
		m.onRecovered(now, q, current, msg, out)
	default:
		if current {
			m.receiveTree(now, q, msg, out)
		}
	}
}

func (m *Machine) onRequest(now core.Instant, q core.Peer, msg *wire.Request, out *mutex.Effects) {
	r, p := msg.ID, m.at(q.ID)
	m.clk = max(m.clk, r.TS) // H4b: above anything heard
	if msg.NewsInc.Start() == m.self.Inc.Start() {
		p.told = max(p.told, min(msg.News, m.news))
	}
	if r.Node != q.ID || !r.NewerThan(p.done) || r.Inc.Start() < p.life.Start() ||
		m.def.Get(q.ID).NewerThan(r) || m.rec.Get(q.ID).NewerThan(r) {
		return
	}
	if m.st == mutex.Wait {
		m.ask(now, q, out)
	} else if !p.listed {
		out.Learned = append(out.Learned, q)
	}
	if t := m.treeOf(r); t != nil {
		t.direct = true
	}
	if m.goesOn(msg) {
		out.Send(q.ID, m.tellOK(r, msg.Grant, msg.Start), core.Reply)
		return
	}
	m.answer(r, core.Reply, out)
}

// answer defers r or grants it. ALGORITHMS 2.3 repeats the OK of a granted r
// even while the node waits with a smaller request; after an amnesia r may be
// in rec although this life granted nothing, so here the common rule decides.
// Within one life it comes to the same: who granted r asks later than r.
func (m *Machine) answer(r core.RequestID, mode core.Mode, out *mutex.Effects) {
	if m.defers(r) {
		return
	}
	m.def.Delete(r.Node)
	m.sendOK(r, mode, out)
	m.passTree(r, out)
}

// sendOK grants r: the set is what was granted before (H2: a deferred node
// answered earlier in the same loop included), then r joins it.
func (m *Machine) sendOK(r core.RequestID, mode core.Mode, out *mutex.Effects) {
	number := uint64(0)
	if t := m.at(r.Node).telling; t.of == r && m.rec.Get(r.Node) == r { // asked for once more
		number = t.number
	}
	out.Send(r.Node, m.tellOK(r, number, 0), mode)
	m.record(r)
	m.need(r.Node)
	if m.forgetful() {
		m.owed.Add(r.Node)
	}
}

func (m *Machine) onOK(now core.Instant, q core.Peer, current bool, msg *wire.OK, out *mutex.Effects) {
	for _, p := range msg.Lives { // facts, whichever request they came with
		m.learnLife(now, p, out)
	}
	p := m.at(q.ID)
	if msg.News > 0 && current {
		p.heard, p.heardInc = max(p.heard, msg.News), max(p.heardInc, q.Inc)
	}
	if m.st != mutex.Wait || msg.ID != m.cur && m.has(OKIDs) { // H3b/c
		return
	}
	for _, j := range msg.Set {
		m.ask(now, j, out)
	}
	if p = m.at(q.ID); m.own != nil && current && !p.asked && !p.gone {
		p.asked = true // it heard of the request through the tree
		m.met(q, out)
	}
	if !current || !p.asked {
		return // an older life's (H4a), or given up meanwhile
	}
	if p.granted || !m.gather(q, msg, out) {
		return
	}
	p = m.at(q.ID)
	if p.pending {
		p.pending = false
		m.nPending--
	}
	if !msg.Amnesiac && !p.granted {
		p.granted, p.old = true, false
		m.nGrants++
	}
}

// short reports whether the answers awaited cannot make a majority.
func (m *Machine) short() bool { return !m.majority(m.nGrants + m.nPending) }

// majority reports whether so many nodes are more than half of all.
func (m *Machine) majority(n int) bool { return m.upper > 0 && 2*n > m.upper }

// bound takes in what the estimator says. What a request has gathered is
// judged by the bound of the instant at which it enters.
func (m *Machine) bound(nodes int, out *mutex.Effects) {
	before := m.forgetful()
	if nodes = max(nodes, m.cfg.NUpper, m.kept); nodes > m.upper || !m.has(Ratchet) {
		m.upper, m.unsaved = nodes, true
	}
	switch {
	case m.amnesiac:
		m.tryRecovery(out)
	case before && !m.forgetful():
		m.remember(out)
	}
}

func (m *Machine) tryEnter(now core.Instant, out *mutex.Effects) {
	if m.st != mutex.Wait {
		return
	}
	if m.short() { // ask whoever has appeared
		for k := range m.peers {
			if m.peers[k].listed && !m.inTree(core.NodeID(k)) {
				m.askWith(now, core.NodeID(k), nil, out)
			}
		}
	}
	m.considerSlow(now, out)
	if m.nPending == 0 && (m.own == nil || m.own.told) && (m.majority(m.nGrants) || !m.has(Majority)) {
		m.st = mutex.Held
		m.reaskAt = core.Never
		out.Granted = true
		return
	}
	if m.nPending == 0 { // grants are missing
		m.reaskAt = min(m.reaskAt, now.Add(m.cfg.Reask))
	}
}

func (m *Machine) exit(out *mutex.Effects) {
	release := &wire.Release{ID: m.cur}
	m.endSlow(release, out)
	for k := range m.peers {
		if p := &m.peers[k]; p.listed || p.asked {
			out.Send(core.NodeID(k), release, core.Datagram)
			p.asked, p.pending, p.granted = false, false, false
		}
	}
	m.st, m.cur = mutex.None, core.RequestID{}
	m.nPending, m.nGrants, m.reaskAt = 0, 0, core.Never
	for len(m.def) > 0 { // H2: one after the other, each sees the former
		r := m.def[0]
		m.def.Delete(r.Node)
		if t := m.treeOf(r); t == nil || t.direct || t.granted {
			m.sendOK(r, core.Reliable, out)
		}
		m.passTree(r, out)
	}
}

// onRelease forgets the request that is over and the older ones of its node
// (H3a: matched by request id, with the newest finished one as a tombstone).
func (m *Machine) onRelease(r core.RequestID, out *mutex.Effects) {
	if r.Node == m.self.ID {
		return
	}
	if p := m.at(r.Node); r.NewerThan(p.done) {
		p.done = r
	}
	m.rec.DeleteUpTo(r)
	m.def.DeleteUpTo(r)
	if m.rec.Get(r.Node).IsZero() {
		m.at(r.Node).telling = stay{}
	}
	m.endTree(r, out)
}

// fence gives up the request in progress; the deferred are answered, since the
// critical section is aborted. What was granted stays known, so the node is
// not amnesiac.
func (m *Machine) fence(inc core.Incarnation, out *mutex.Effects) {
	m.self.Inc = max(m.self.Inc, inc)
	if m.st != mutex.None {
		out.Given = m.cur
		m.exit(out)
	}
}

func (m *Machine) tick(now core.Instant, out *mutex.Effects) {
	for i := 0; i < len(m.down); {
		if f := m.down[i]; f.at <= now {
			awaited := m.st == mutex.Wait && m.at(f.peer.ID).pending
			m.confirm(f.peer, out)
			if awaited && m.has(Renewal) {
				m.renew(out)
			}
		} else {
			i++
		}
	}
	m.retryRecovery(now, out)
	m.tickSlow(now, out)
	m.tickProbes(now, out)
	if m.st != mutex.Wait || now < m.reaskAt {
		return
	}
	waiting := m.nPending > 0
	for k := range m.peers {
		// H4e: whoever deferred may have forgotten. With nobody pending the
		// request lacks grants: ask those whose OK was amnesiac.
		if p := &m.peers[k]; p.pending || !waiting && p.asked && !p.granted {
			m.sendRequest(core.NodeID(k), nil, out)
		}
	}
	pace := m.cfg.Reask
	if waiting {
		pace *= remind
	}
	m.reaskAt = now.Add(pace)
}

// Deadline implements mutex.Machine.
func (m *Machine) Deadline() core.Instant {
	t := min(m.slowDeadline(), m.probeAt)
	if m.st == mutex.Wait {
		t = min(t, m.reaskAt)
	}
	if m.amnesiac {
		t = min(t, m.retryAt)
	}
	for _, f := range m.down {
		t = min(t, f.at)
	}
	return t
}

// State implements mutex.Machine.
func (m *Machine) State() mutex.State { return m.st }

// Request implements mutex.Machine.
func (m *Machine) Request() core.RequestID { return m.cur }

// Asked implements mutex.Asker.
func (m *Machine) Asked(ids []core.NodeID) []core.NodeID {
	for k := range m.peers {
		if m.peers[k].asked {
			ids = append(ids, core.NodeID(k))
		}
	}
	return ids
}

// Grants implements mutex.Asker.
func (m *Machine) Grants() int { return m.nGrants }
