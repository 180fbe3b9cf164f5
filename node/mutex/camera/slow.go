package camera

import (
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// Defaults of Slow.
const (
	DefaultPatience = time.Second
	DefaultFailures = 2
)

// MaxFailures bounds Slow.Failures.
const MaxFailures = wire.MaxShapeDepth - 1

// Slow tunes the slow path (ALGORITHMS 2.5). The zero value is off: a request
// without a majority then waits until enough peers have appeared.
type Slow struct {
	On bool
	// Patience is how long a request whose answers have all arrived waits for
	// the grants that it lacks before it takes the slow path; a request whose
	// list is too short from the start takes it at once. 0 = DefaultPatience,
	// negative = none.
	Patience time.Duration
	// Failures is f, how many nodes of a tree may fail one above the other
	// while it is in use: an echo carries f+1 levels. 0 = DefaultFailures, at
	// most MaxFailures.
	Failures int
}

// complete returns s with what was left out.
func (s Slow) complete() Slow {
	switch {
	case s.Patience == 0:
		s.Patience = DefaultPatience
	case s.Patience < 0:
		s.Patience = 0
	}
	if s.Failures <= 0 {
		s.Failures = DefaultFailures
	}
	s.Failures = min(s.Failures, MaxFailures)
	return s
}

// slow is what a node keeps for the slow path.
type slow struct {
	own     *tree   // of the current request; nil: it is on the fast path
	trees   []*tree // of others' requests, one a requester, ascending by it
	partial []partial
	// startAt is when the current request grows a tree, or the next one.
	startAt core.Instant
	wait    time.Duration // between the last tree and the next
	stamp   uint64        // last one given to a message of several pieces
}

// Slow reports whether the current request has taken the slow path.
func (m *Machine) Slow() bool { return m.own != nil }

// small reports whether the list cannot make a majority whatever it answers.
func (m *Machine) small() bool {
	n := 1
	for k := range m.peers {
		if m.peers[k].listed {
			n++
		}
	}
	return !m.majority(n)
}

// beginSlow grows a tree for the current request.
func (m *Machine) beginSlow(now core.Instant, out *mutex.Effects) {
	t := &tree{Tree: wire.Tree{ID: m.cur, Round: 1}, parent: core.None, echoed: -1, at: core.Never, expire: core.Never, pace: m.cfg.Reask}
	if m.own == nil {
		out.Notes = append(out.Notes, "on the slow path")
		m.wait = m.cfg.Reask
	} else {
		t.Round = m.own.Round + 1
	}
	m.own, m.startAt = t, core.Never
	m.advance(now, t, out)
}

// considerSlow begins a tree for a request that lacks grants: at once where
// the list is too short, after Patience where all answers have come; and the
// next one where a whole tree has not granted enough.
func (m *Machine) considerSlow(now core.Instant, out *mutex.Effects) {
	lacks := m.nPending == 0 && !m.majority(m.nGrants)
	switch {
	case !m.cfg.Slow.On:
		return
	case m.own == nil && m.short() && m.small():
		m.beginSlow(now, out)
		return
	case !lacks || m.own != nil && !m.own.told:
		m.startAt = core.Never
		return
	case m.startAt == core.Never && m.own == nil:
		m.startAt = now.Add(m.cfg.Slow.Patience)
	case m.startAt == core.Never:
		m.startAt = now.Add(m.wait)
		m.wait = min(2*m.wait, remind*m.cfg.Reask)
	}
	if m.startAt <= now {
		m.beginSlow(now, out)
	}
}

// endSlow forgets the tree of the request that is over. Its nodes hear of it
// by RELEASE; those that have not granted yet are known to their parents only.
func (m *Machine) endSlow(release *wire.Release, out *mutex.Effects) {
	if m.own != nil {
		for i := range m.own.contacts {
			c := &m.own.contacts[i]
			if p := m.at(c.peer.ID); c.below() && !p.listed && !p.asked {
				out.Send(c.peer.ID, release, core.Reliable) // not by the flood that all others hear
			}
		}
	}
	m.own, m.startAt = nil, core.Never
}

// grantInTree lets the request of t pass at this node. It is the OK of
// sendOK, with the same bookkeeping, but for the way that it takes.
func (m *Machine) grantInTree(t *tree) {
	if t.granted {
		return
	}
	t.granted = true
	if m.forgetful() {
		t.ok.amnesiac.Put(m.self)
		m.owed.Add(t.ID.Node)
	} else {
		t.ok.grants.Put(m.self)
	}
	for _, r := range m.rec {
		if r.Node != t.ID.Node {
			raise(&t.ok.recent, core.Peer{ID: r.Node, Inc: r.Inc})
		}
	}
	for _, p := range m.livesSince(0) {
		raise(&t.ok.lives, p)
	}
	if m.has(TreeRecords) {
		m.record(t.ID)
	}
	m.need(t.ID.Node)
}

// collect counts what a subtree has granted to the current request. What was
// said in other rounds of the same request, or twice, is as good: a grant
// lasts until the request is over or the life that gave it ends.
func (m *Machine) collect(now core.Instant, g *granted, out *mutex.Effects) {
	for _, set := range [...]requests.Peers{g.lives, g.recent, g.grants, g.amnesiac} {
		for _, p := range set {
			m.learnLife(now, p, out)
		}
	}
	for i, set := range [...]requests.Peers{g.grants, g.amnesiac} {
		for _, q := range set {
			m.count(q, i == 0, out)
		}
	}
	if !m.has(TreeSets) {
		return
	}
	for _, j := range g.recent {
		m.ask(now, j, out)
	}
}

// count takes an OK for the current request that q sent through a tree.
func (m *Machine) count(q core.Peer, genuine bool, out *mutex.Effects) {
	p := m.at(q.ID)
	if q.ID == m.self.ID || p.gone || q.Inc.Start() < p.life.Start() && m.has(TreeLives) {
		return // given up meanwhile, or an older life's (H4a)
	}
	if !p.asked {
		p.asked = true
		m.met(q, out)
	}
	if p.pending {
		p.pending = false
		m.nPending--
	}
	if genuine && !p.granted {
		p.granted, p.old = true, false
		m.nGrants++
	}
}

// met takes in a peer that a tree has found: the membership service is to
// watch it, or, where it detects nothing, the node itself, and then the list
// stays as it was.
func (m *Machine) met(q core.Peer, out *mutex.Effects) {
	p := m.at(q.ID)
	if !p.listed && !m.cfg.Probe.NoDetector {
		out.Learned = append(out.Learned, core.Peer{ID: q.ID, Inc: p.life})
	}
	m.need(q.ID)
}

// partial is a message of which only the first pieces have come.
type partial struct {
	from  core.Peer
	kind  byte
	tree  wire.Tree
	stamp uint64
	next  int
	ok    granted
	shape []wire.Branch
}

// maxPartial bounds how many are kept; the oldest goes. Whoever sent it is
// reminded and begins anew.
const maxPartial = 64

// assemble takes a piece of a message that is not whole and returns what came
// before it: the caller adds the piece. The last piece ends it. Otherwise the
// next one is asked for.
func (m *Machine) assemble(from core.Peer, kind byte, t wire.Tree, piece wire.Piece, out *mutex.Effects) (x *partial, last bool) {
	for i := range m.partial {
		if p := &m.partial[i]; p.from.ID == from.ID && p.kind == kind && p.tree == t {
			x = p
			break
		}
	}
	if piece.Number == 0 {
		if x == nil {
			if len(m.partial) == maxPartial {
				m.partial = m.partial[:copy(m.partial, m.partial[1:])]
			}
			m.partial = append(m.partial, partial{})
			x = &m.partial[len(m.partial)-1]
		}
		*x = partial{from: from, kind: kind, tree: t, stamp: piece.Stamp}
	}
	if x == nil || x.from.Inc.Start() != from.Inc.Start() || x.stamp != piece.Stamp || x.next != piece.Number {
		return nil, false
	}
	x.next++
	if x.next < piece.Of {
		out.Send(from.ID, &wire.TreeMore{Tree: t, Of: kind, Stamp: piece.Stamp, Number: x.next}, core.OrderedReply)
		return x, false
	}
	return x, true
}

// assembled drops a message that is whole now, and with finished requests
// what is left of theirs.
func (m *Machine) assembled(over func(*partial) bool) {
	kept := m.partial[:0]
	for i := range m.partial {
		if !over(&m.partial[i]) {
			kept = append(kept, m.partial[i])
		}
	}
	clear(m.partial[len(kept):])
	m.partial = kept
}

// granted is what a subtree has said to a request: the sets of wire.TreeOK.
type granted struct {
	grants, amnesiac, recent, lives requests.Peers
}

func (g *granted) sets() [4]*requests.Peers {
	return [4]*requests.Peers{&g.grants, &g.amnesiac, &g.recent, &g.lives}
}

// merge adds o and reports whether that told anything new.
func (g *granted) merge(o *granted) bool {
	news := false
	from := o.sets()
	for i, set := range g.sets() {
		for _, p := range *from[i] {
			news = raise(set, p) || news
		}
	}
	return news
}

// raise adds p unless its node is there in the same or a newer life.
func raise(set *requests.Peers, p core.Peer) bool {
	if set.Has(p.ID) && set.Get(p.ID) >= p.Inc {
		return false
	}
	set.Put(p)
	return true
}

// message makes a message of its own, since g goes on changing.
func (g *granted) message(t wire.Tree) *wire.TreeOK {
	return &wire.TreeOK{
		Tree: t, Grants: slices.Clone(g.grants), Amnesiac: slices.Clone(g.amnesiac), Recent: slices.Clone(g.recent), Lives: slices.Clone(g.lives),
	}
}

// pieces cuts what does not fit into one frame.
func (g *granted) pieces(t wire.Tree) []granted {
	most := 0
	for _, set := range g.sets() {
		most = max(most, len(*set))
	}
	if most < 2 || len(g.message(t).AppendPayload(nil))+pieceBytes <= wire.MaxPayload {
		return []granted{*g}
	}
	var a, b granted
	as, bs := a.sets(), b.sets()
	for i, set := range g.sets() {
		half := len(*set) / 2
		*as[i], *bs[i] = (*set)[:half:half], (*set)[half:]
	}
	return append(a.pieces(t), b.pieces(t)...)
}

// pieceBytes is what the numbering of a piece takes at most.
const pieceBytes = 16

// inTree reports whether node k hears of the current request through the tree.
func (m *Machine) inTree(k core.NodeID) bool {
	if m.own == nil {
		return false
	}
	c := m.own.contact(k)
	return c != nil && c.below()
}

// passTree lets r pass in its tree, if it came by one and now may.
func (m *Machine) passTree(r core.RequestID, out *mutex.Effects) {
	if t := m.treeOf(r); t != nil {
		m.grantInTree(t)
		m.advance(m.now, t, out)
	}
}

func (m *Machine) receiveTree(now core.Instant, q core.Peer, msg core.Message, out *mutex.Effects) {
	switch msg := msg.(type) {
	case *wire.TreeJoin:
		m.onJoin(now, q, msg, out)
	case *wire.TreeAck:
		m.onTreeAck(now, q, msg, out)
	case *wire.TreeStart:
		m.onStart(now, q, msg, out)
	case *wire.TreeEcho:
		m.onEcho(now, q, msg, out)
	case *wire.TreeOK:
		m.onTreeOK(now, q, msg, out)
	case *wire.TreeMore:
		m.onMore(msg, out)
	}
}
