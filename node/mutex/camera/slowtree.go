package camera

import (
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// forget is after how long a tree of which nothing more is heard is dropped,
// in multiples of Config.Reask. Whoever waits for this node reminds it sooner.
const forget = 3 * remind

// tree is this node's part in the spanning tree of a request.
type tree struct {
	wire.Tree
	parent core.NodeID // None at the root
	depth  int         // its own
	target int         // level to which the subtree is to grow; -1: none yet
	echoed int         // level last told to the parent; -1: none
	joined bool        // the own members were asked to join

	direct  bool // the request came by itself as well: so does its OK
	granted bool // by this node
	ok      granted
	told    bool // TREE-OK was sent to the parent; the root: the tree is whole and has granted

	contacts []contact // ascending by id
	shape    []wire.Branch
	// Stamps of the last TREE-OK and TREE-ECHO, where they take several pieces.
	okStamp, echoStamp uint64

	at     core.Instant // when those who have not answered are reminded
	pace   time.Duration
	expire core.Instant
}

type contactState uint8

const (
	other   contactState = iota // in the tree, but not below this node
	joining                     // asked to join
	child
	lost // failed, or left the tree
)

// contact is another node of the tree that this one knows.
type contact struct {
	peer    core.Peer // of a child: in the life that joined
	state   contactState
	adopted bool
	started int  // level it was last told to grow to
	echoed  int  // level it has grown to; -1: none
	full    bool // its subtree has nobody to add
	ok      bool // its TREE-OK has come
	shape   []wire.Branch
}

// below reports whether the contact may have the tree from this node.
func (c *contact) below() bool { return c.state == joining || c.state == child }

func (t *tree) find(k core.NodeID) (int, bool) {
	return slices.BinarySearchFunc(t.contacts, k, func(c contact, k core.NodeID) int { return int(c.peer.ID - k) })
}

// contact returns the contact of node k, or nil.
func (t *tree) contact(k core.NodeID) *contact {
	if i, ok := t.find(k); ok {
		return &t.contacts[i]
	}
	return nil
}

// add returns the contact of node k, a new one where there is none.
func (t *tree) add(k core.NodeID) *contact {
	i, ok := t.find(k)
	if !ok {
		t.contacts = slices.Insert(t.contacts, i, contact{peer: core.Peer{ID: k}, started: -1, echoed: -1})
	}
	return &t.contacts[i]
}

func (m *Machine) findTree(k core.NodeID) (int, bool) {
	return slices.BinarySearchFunc(m.trees, k, func(t *tree, k core.NodeID) int { return int(t.ID.Node - k) })
}

// treeOf returns this node's part in the tree of the request r of another
// node, nil where it has none.
func (m *Machine) treeOf(r core.RequestID) *tree {
	if i, ok := m.findTree(r.Node); ok && m.trees[i].ID == r {
		return m.trees[i]
	}
	return nil
}

// part returns this node's part in exactly that tree, its own included.
func (m *Machine) part(w wire.Tree) *tree {
	t := m.own
	if w.ID.Node != m.self.ID {
		t = m.treeOf(w.ID)
	}
	if t == nil || t.Tree != w {
		return nil
	}
	return t
}

// dropTree forgets the tree of node k's request up to r.
func (m *Machine) dropTree(r core.RequestID) *tree {
	i, ok := m.findTree(r.Node)
	if !ok || m.trees[i].ID.NewerThan(r) {
		return nil
	}
	t := m.trees[i]
	m.trees = slices.Delete(m.trees, i, i+1)
	m.assembled(func(p *partial) bool { return p.tree.ID == t.ID })
	return t
}

// forgetTree forgets the tree of node k's request, whichever it is.
func (m *Machine) forgetTree(k core.NodeID) {
	if i, ok := m.findTree(k); ok {
		m.dropTree(m.trees[i].ID)
	}
}

// onJoin is the REQUEST of msg.ID by way of the tree.
func (m *Machine) onJoin(now core.Instant, from core.Peer, msg *wire.TreeJoin, out *mutex.Effects) {
	r := msg.ID
	say := func(a wire.TreeAnswer) {
		out.Send(from.ID, &wire.TreeAck{Tree: msg.Tree, Answer: a}, core.OrderedReply)
	}
	if r.Node == m.self.ID {
		say(wire.TreeElsewhere)
		return
	}
	m.clk = max(m.clk, r.TS)
	q := core.Peer{ID: r.Node, Inc: r.Inc}
	m.learnLife(now, q, out)
	p := m.at(q.ID)
	if !r.NewerThan(p.done) || r.Inc.Start() < p.life.Start() || m.def.Get(q.ID).NewerThan(r) || m.rec.Get(q.ID).NewerThan(r) {
		say(wire.TreeUnknown)
		return
	}
	if t := m.treeOf(r); t != nil && t.Round >= msg.Round {
		c := t.add(from.ID)
		switch {
		case t.Round > msg.Round:
			say(wire.TreeUnknown)
		case t.parent == from.ID:
			t.expire = now.Add(forget * m.cfg.Reask)
			say(wire.TreeChild)
		case c.state == joining: // each asked the other
			c.state = other
			say(wire.TreeElsewhere)
			m.advance(now, t, out)
		default:
			say(wire.TreeElsewhere)
		}
		return
	}
	m.forgetTree(r.Node)
	t := &tree{Tree: msg.Tree, parent: from.ID, depth: msg.Depth, target: -1, echoed: -1, at: core.Never, pace: m.cfg.Reask}
	t.expire = now.Add(forget * m.cfg.Reask)
	t.add(from.ID)
	t.add(r.Node)
	i, _ := m.findTree(r.Node)
	m.trees = slices.Insert(m.trees, i, t)
	say(wire.TreeChild)
	if m.st == mutex.Wait {
		m.ask(now, q, out)
	} else {
		m.met(q, out)
	}
	if !m.defers(r) {
		m.def.Delete(r.Node)
		m.grantInTree(t)
	}
}

// defers reports whether r has to wait for this node's own request, and notes
// it then.
func (m *Machine) defers(r core.RequestID) bool {
	if m.st == mutex.Held || m.st == mutex.Wait && m.cur.Before(r) {
		m.def.Put(r)
		return true
	}
	return false
}

// onStart lets the subtree grow, and reminds it.
func (m *Machine) onStart(now core.Instant, from core.Peer, msg *wire.TreeStart, out *mutex.Effects) {
	t := m.part(msg.Tree)
	switch {
	case t == nil || t == m.own:
		out.Send(from.ID, &wire.TreeAck{Tree: msg.Tree, Answer: wire.TreeUnknown}, core.OrderedReply)
		return
	case from.ID == t.parent:
	case msg.Adopt && msg.Depth < t.depth: // so parents are always nearer to the root
		t.parent = from.ID
		t.add(from.ID).state = other
		t.echoed = -1
	default:
		out.Send(from.ID, &wire.TreeAck{Tree: msg.Tree, Answer: wire.TreeElsewhere}, core.OrderedReply)
		return
	}
	t.expire = now.Add(forget * m.cfg.Reask)
	again, told := msg.Level <= t.echoed, t.told
	t.target = max(t.target, msg.Level)
	m.advance(now, t, out)
	if again {
		m.sendEcho(t, 0, out)
	}
	if told {
		m.sendTreeOK(t, 0, out)
	}
}

func (m *Machine) onTreeAck(now core.Instant, from core.Peer, msg *wire.TreeAck, out *mutex.Effects) {
	t := m.part(msg.Tree)
	if t == nil {
		return
	}
	c := t.contact(from.ID)
	if c == nil {
		return
	}
	switch {
	case c.state == joining && msg.Answer == wire.TreeChild:
		c.state, c.peer = child, from
		m.need(from.ID)
	case c.state == joining:
		c.state = other
	case c.state == child && msg.Answer == wire.TreeUnknown: // it has forgotten
		m.loseContact(now, t, from.ID, out)
	case c.state == child && msg.Answer == wire.TreeElsewhere: // it was adopted
		c.state = other
	}
	m.advance(now, t, out)
}

func (m *Machine) onEcho(now core.Instant, from core.Peer, msg *wire.TreeEcho, out *mutex.Effects) {
	t := m.part(msg.Tree)
	if t == nil {
		return
	}
	c := t.contact(from.ID)
	if c == nil || c.state != child && c.state != lost {
		return
	}
	shape := msg.Shape
	if msg.Piece.Of > 0 {
		x, last := m.assemble(from, msg.Kind(), msg.Tree, msg.Piece, out)
		if x == nil {
			return
		}
		if x.shape = append(x.shape, shape...); !last {
			return
		}
		shape = x.shape
		m.assembled(func(p *partial) bool { return p == x })
	}
	c.state, c.peer = child, from // a lost one was not dead
	if msg.Level >= c.echoed {
		c.echoed, c.full, c.shape = msg.Level, !msg.More, shape
	}
	m.advance(now, t, out)
}

func (m *Machine) onTreeOK(now core.Instant, from core.Peer, msg *wire.TreeOK, out *mutex.Effects) {
	g := granted{msg.Grants, msg.Amnesiac, msg.Recent, msg.Lives}
	if msg.Piece.Of > 0 {
		x, last := m.assemble(from, msg.Kind(), msg.Tree, msg.Piece, out)
		if x == nil {
			return
		}
		if x.ok.merge(&g); !last {
			return
		}
		g = x.ok
		m.assembled(func(p *partial) bool { return p == x })
	}
	t := m.part(msg.Tree)
	if msg.ID == m.cur && m.st == mutex.Wait {
		m.collect(now, &g, out)
	} else if t != nil && t != m.own && t.ok.merge(&g) && t.told {
		// Late, from one that was taken for lost: what was told is told anew.
		t.okStamp = 0
		m.sendTreeOK(t, 0, out)
	}
	if t == nil {
		return
	}
	if c := t.contact(from.ID); c != nil && c.state != other {
		c.state, c.peer, c.ok, c.full = child, from, true, true
	}
	m.advance(now, t, out)
}

// onMore sends the next piece of a long message.
func (m *Machine) onMore(msg *wire.TreeMore, out *mutex.Effects) {
	t := m.part(msg.Tree)
	switch {
	case t == nil || t.parent == core.None || msg.Stamp == 0:
	case msg.Of == wire.KindTreeOK && msg.Stamp == t.okStamp:
		m.sendTreeOK(t, msg.Number, out)
	case msg.Of == wire.KindTreeEcho && msg.Stamp == t.echoStamp:
		m.sendEcho(t, msg.Number, out)
	}
}

// advance does what the tree is ready for: asks members to join, starts the
// next level below, tells the parent.
func (m *Machine) advance(now core.Instant, t *tree, out *mutex.Effects) {
	if t == m.own && m.st != mutex.Wait {
		return
	}
	for m.grow(t, out) {
		if t.parent != core.None {
			break
		}
		if t.whole() {
			break
		}
		t.target++ // the root: a level is done
	}
	if t.whole() && (t == m.own || t.granted) && !t.told && !slices.ContainsFunc(t.contacts, func(c contact) bool { return c.state == child && !c.ok }) {
		t.told = true
		if t != m.own {
			m.sendTreeOK(t, 0, out)
		}
	}
	waits := slices.ContainsFunc(t.contacts, func(c contact) bool { return c.state == joining || c.state == child && !c.ok })
	switch {
	case !waits || t.told:
		t.at = core.Never
	case t.at == core.Never:
		t.at = now.Add(t.pace)
	}
}

// whole reports whether the subtree has nobody to add.
func (t *tree) whole() bool {
	return t.joined && !slices.ContainsFunc(t.contacts, func(c contact) bool { return c.state == joining || c.state == child && !c.full })
}

// grow brings the subtree to its target level, as far as it can now, and
// reports whether it is there; the parent is told.
func (m *Machine) grow(t *tree, out *mutex.Effects) bool {
	if t.target >= t.depth && !t.joined {
		t.joined = true
		for k := range m.peers {
			id := core.NodeID(k)
			if !m.peers[k].listed || t.contact(id) != nil {
				continue
			}
			t.add(id).state = joining
			m.sendJoin(t, id, out)
		}
	}
	if slices.ContainsFunc(t.contacts, func(c contact) bool { return c.state == joining }) {
		return false
	}
	there := true
	for i := range t.contacts {
		c := &t.contacts[i]
		if c.state != child || c.full || t.target <= t.depth || c.echoed >= t.target {
			continue
		}
		there = false
		if c.started < t.target {
			m.sendStart(t, c, out)
		}
	}
	if there && t.parent != core.None && t.echoed < t.target {
		t.echoed, t.echoStamp = t.target, 0
		t.shape = t.describe(m.cfg.Slow.Failures + 1)
		m.sendEcho(t, 0, out)
	}
	return there
}

// describe is the shape of the subtree, so many levels of it.
func (t *tree) describe(levels int) []wire.Branch {
	var shape []wire.Branch
	for i := range t.contacts {
		c := &t.contacts[i]
		if c.state != child {
			continue
		}
		shape = append(shape, wire.Branch{Peer: c.peer, Depth: 1})
		for _, b := range c.shape {
			if b.Depth < levels {
				shape = append(shape, wire.Branch{Peer: b.Peer, Depth: b.Depth + 1})
			}
		}
	}
	return shape
}

func (m *Machine) sendJoin(t *tree, k core.NodeID, out *mutex.Effects) {
	out.Send(k, &wire.TreeJoin{Tree: t.Tree, Depth: t.depth + 1}, core.Ordered)
}

func (m *Machine) sendStart(t *tree, c *contact, out *mutex.Effects) {
	c.started = max(t.target, 0)
	out.Send(c.peer.ID, &wire.TreeStart{Tree: t.Tree, Level: c.started, Depth: t.depth, Adopt: c.adopted}, core.Ordered)
}

// sendEcho tells the parent how far the subtree has grown.
func (m *Machine) sendEcho(t *tree, number int, out *mutex.Effects) {
	echo := &wire.TreeEcho{Tree: t.Tree, Level: t.echoed, More: !t.joined || !t.whole(), Shape: t.shape}
	if room := wire.MaxPayload - pieceBytes; len(echo.AppendPayload(nil)) > room {
		per := max(1, len(t.shape)*room/(len(echo.AppendPayload(nil))+room))
		of := (len(t.shape) + per - 1) / per
		if t.echoStamp == 0 {
			m.stamp++
			t.echoStamp = m.stamp
		}
		if number >= of {
			return
		}
		echo.Piece = wire.Piece{Of: of, Number: number, Stamp: t.echoStamp}
		echo.Shape = t.shape[number*per : min((number+1)*per, len(t.shape))]
	}
	out.Send(t.parent, echo, core.OrderedReply)
}

// sendTreeOK tells the parent what the subtree has granted.
func (m *Machine) sendTreeOK(t *tree, number int, out *mutex.Effects) {
	pieces := t.ok.pieces(t.Tree)
	if number >= len(pieces) {
		return
	}
	ok := pieces[number].message(t.Tree)
	if len(pieces) > 1 {
		if t.okStamp == 0 {
			m.stamp++
			t.okStamp = m.stamp
		}
		ok.Piece = wire.Piece{Of: len(pieces), Number: number, Stamp: t.okStamp}
	}
	out.Send(t.parent, ok, core.Ordered)
}
