package fairk

import (
	"encoding/binary"
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// TolerantConfig tunes a fault-tolerant machine.
type TolerantConfig struct {
	Config
	Nodes  int // ids are 0..Nodes-1
	Copies int // p: how many other nodes have each state, at least 1
	// Quorum is how many nodes must agree on who takes part; 0: a majority of
	// Nodes. With fewer, two parts of a divided mesh may both go on.
	Quorum int
	// Period is between two looks at everything: who is silent, what is not
	// answered. Nodes that are silent for 6 periods are taken for failed.
	Period time.Duration
	// NoFence lets a node that promised to take part in no older view act in it
	// all the same: it shows what the promise is for.
	NoFence bool
}

// Tolerant is the algorithm at one node, with fault tolerance.
type Tolerant struct {
	cfg  TolerantConfig
	self core.Peer
	ring circle

	st    mutex.State // of the requester here
	clk   uint64
	cur   core.RequestID
	asked bool // the algorithm at the node's id has had cur

	promised uint64     // ballot; the node takes no part in views before it
	ballots  uint64     // highest heard of
	view     *wire.View // newest accepted; nil: none since the node has started
	known    *wire.View // newest heard of
	started  bool       // view is in effect
	amnesiac bool       // has forgotten an earlier life
	behind   bool       // the others have gone on
	frozenAt core.Instant
	change   *change

	hosted []*hosted // by id, as the next two
	copies []*copied
	handed []uint64 // in which view its state was handed over
	early  []delivered

	lives     []uint64 // by node, as the next: newest process start
	joins     []uint64 // which process start asked to take part
	suspected []bool
	since     []core.Instant // since when a question is unanswered; Never: none is
	heard     []core.Instant
	contact   []core.Instant // when the last question was asked that it answered as one in the same view

	last core.Instant // of the last step
	tick core.Instant // the next look at everything
	turn int

	// of one step
	now   core.Instant
	fx    *mutex.Effects
	local []core.Message // to this node itself
}

var _ mutex.Machine = (*Tolerant)(nil)

// NewTolerant returns the machine of the node self.
func NewTolerant(self core.Peer, cfg TolerantConfig) *Tolerant {
	n := cfg.Nodes
	if cfg.Quorum == 0 {
		cfg.Quorum = n/2 + 1
	}
	t := &Tolerant{
		cfg: cfg, self: self, ring: newCircle(n), tick: core.Never,
		hosted: make([]*hosted, n), copies: make([]*copied, n), handed: make([]uint64, n),
		lives: make([]uint64, n), joins: make([]uint64, n), suspected: make([]bool, n),
		since: make([]core.Instant, n), heard: make([]core.Instant, n), contact: make([]core.Instant, n),
	}
	for i := range n {
		t.lives[i], t.since[i] = 1, core.Never
	}
	return t
}

// Step implements mutex.Machine.
func (t *Tolerant) Step(now core.Instant, in mutex.Input, out *mutex.Effects) {
	t.now, t.fx = now, out
	if now.Sub(t.last) > 2*t.cfg.Period {
		// Answers may be among what is to be read yet.
		for i := range t.since {
			t.since[i] = core.Never
		}
	}
	t.last = now
	switch in := in.(type) {
	case mutex.Start:
		t.start(in.Restarted)
	case mutex.Enter:
		t.clk++
		t.st, t.cur, t.asked = mutex.Wait, core.RequestID{Node: t.self.ID, Inc: t.self.Inc, TS: t.clk}, false
		if h := t.hosted[t.self.ID]; t.active(h) {
			t.reconcile(h)
		}
	case mutex.Exit:
		t.st, t.cur = mutex.None, core.RequestID{}
		if h := t.hosted[t.self.ID]; t.active(h) {
			t.reconcile(h)
		}
	case mutex.Receive:
		t.receive(in.From, in.Msg)
	case mutex.Fence:
		t.self.Inc = in.Inc
		if t.st != mutex.None {
			t.giveUp()
			if h := t.hosted[t.self.ID]; t.active(h) {
				t.reconcile(h)
			}
		}
	case mutex.MemberDown:
		if n := in.Peer.ID; t.other(n) && uint64(in.Peer.Inc.Start()) >= t.lives[n] {
			t.suspect(n)
		}
	case mutex.MemberUp:
		if n := in.Peer.ID; t.other(n) {
			t.greet(in.Peer)
		}
	case mutex.Leave:
		b := t.beat()
		b.Leaves = true
		for i := range t.cfg.Nodes {
			if k := core.NodeID(i); k != t.self.ID {
				t.send(k, b)
			}
		}
		t.behind = true
	case mutex.Tick, mutex.MemberSuspected, mutex.LinkUp, mutex.LinkDown:
	}
	t.drain()
	if now >= t.tick {
		t.tick = now.Add(t.cfg.Period)
		t.look()
		t.drain()
	}
	t.consider()
	t.drain()
	t.fx = nil
}

// drain handles what this node sent to itself.
func (t *Tolerant) drain() {
	for len(t.local) > 0 {
		msg := t.local[0]
		t.local = slices.Delete(t.local, 0, 1)
		t.handle(t.self, msg)
	}
}

func (t *Tolerant) start(restarted bool) {
	t.clk = 1
	// Looks are spread over the period by id, without a draw.
	t.tick = t.now.Add(t.cfg.Period + t.cfg.Period*time.Duration(t.self.ID)/time.Duration(t.cfg.Nodes))
	t.lives[t.self.ID] = uint64(t.self.Inc.Start())
	for i := range t.cfg.Nodes {
		t.heard[i], t.contact[i] = t.now, t.now
	}
	if restarted {
		t.amnesiac = true
		t.fx.Notes = append(t.fx.Notes, "amnesiac")
		for i := range t.contact {
			t.contact[i] = t.now.Add(-2 * leasePeriods * t.cfg.Period)
		}
		t.askAll()
		return
	}
	v := &wire.View{Nodes: make([]wire.ViewNode, t.cfg.Nodes)}
	for i := range v.Nodes {
		v.Nodes[i] = wire.ViewNode{Life: 1, Member: true, Source: core.None}
	}
	t.view, t.known = v, v
	t.begin()
}

// live reports whether this node acts in its view.
func (t *Tolerant) live() bool {
	return t.view != nil && t.started && (t.promised <= t.view.Num || t.cfg.NoFence)
}

// inView reports whether this node takes part in view num, which is in effect,
// since its receiver heard from somebody who acts in it.
func (t *Tolerant) inView(num uint64) bool {
	if t.view == nil || t.view.Num != num || t.promised > num && !t.cfg.NoFence {
		return false
	}
	if !t.started {
		t.begin()
	}
	return true
}

// giveUp gives up the request of this node.
func (t *Tolerant) giveUp() {
	if t.fx.Granted {
		t.fx.Granted = false // in this very step, so it was never let in
	}
	t.fx.Given = t.cur
	t.st, t.cur = mutex.None, core.RequestID{}
}

// reconcile makes the requester here and the state of its id agree. The state
// has been elsewhere, or the requester has gone on.
func (t *Tolerant) reconcile(h *hosted) {
	if h.m.st != mutex.None && h.m.cur != t.cur {
		t.step(h, nil, h.m.giveUp)
	}
	switch {
	case t.st == mutex.None:
	case h.m.cur == t.cur:
		lost := !slices.ContainsFunc(h.waiting, func(w waiting) bool { return w.granted == t.cur })
		if t.st == mutex.Wait && h.m.st == mutex.Held && lost {
			h.waiting = append(h.waiting, waiting{version: h.stamp.Version, granted: t.cur})
		}
	case t.asked || t.st == mutex.Held:
		t.giveUp() // others gave it up
	default:
		t.asked = true
		t.step(h, nil, func(o *output) { h.m.enterAs(t.cur, o) })
	}
}

func (t *Tolerant) other(n core.NodeID) bool {
	return n >= 0 && int(n) < t.cfg.Nodes && n != t.self.ID
}

func (t *Tolerant) send(to core.NodeID, m core.Message) { t.fx.Send(to, m, core.Datagram) }

func (t *Tolerant) sendOrHandle(to core.NodeID, m core.Message) {
	if to == t.self.ID {
		t.local = append(t.local, m)
		return
	}
	t.send(to, m)
}

// greet notes that a life of a node was heard of, and reports whether it is
// the newest one.
func (t *Tolerant) greet(p core.Peer) bool {
	n, life := p.ID, uint64(p.Inc.Start())
	if life < t.lives[n] {
		return false
	}
	t.lives[n] = life
	t.suspected[n], t.since[n], t.heard[n] = false, core.Never, t.now
	return true
}

func (t *Tolerant) receive(from core.Peer, msg core.Message) {
	if t.other(from.ID) && t.greet(from) {
		t.handle(from, msg)
	}
}

func (t *Tolerant) handle(from core.Peer, msg core.Message) {
	n, life := from.ID, uint64(from.Inc.Start())
	known := func(id core.NodeID) bool { return id >= 0 && int(id) < t.cfg.Nodes }
	switch m := msg.(type) {
	case *wire.Beat:
		t.onBeat(from, m)
	case *wire.Claim:
		t.onClaim(n, m)
	case *wire.Promise:
		t.onPromise(n, life, m)
	case *wire.View:
		t.onView(m)
	case *wire.Vote:
		t.onVote(n, life, m)
	case *wire.Refuse:
		t.onRefuse(m)
	case *wire.Copy:
		if known(m.ID) {
			t.onCopy(n, m)
		}
	case *wire.Copied:
		if known(m.ID) {
			t.onCopied(n, m)
		}
	case *wire.Deliver:
		if known(m.From) && known(m.To) {
			t.onDeliver(n, m)
		}
	case *wire.Taken:
		if known(m.From) {
			t.onTaken(m)
		}
	}
}

// Deadline implements mutex.Machine.
func (t *Tolerant) Deadline() core.Instant { return t.tick }

// State implements mutex.Machine.
func (t *Tolerant) State() mutex.State { return t.st }

// Request implements mutex.Machine.
func (t *Tolerant) Request() core.RequestID { return t.cur }

// AppendState implements mutex.Machine. Instants are left out but for whether
// they are past: explorations let time stand still.
func (t *Tolerant) AppendState(b []byte) []byte {
	flag := func(on ...bool) {
		for _, o := range on {
			b = append(b, wire.Flags(o))
		}
	}
	number := func(v ...uint64) {
		for _, x := range v {
			b = binary.AppendUvarint(b, x)
		}
	}
	view := func(v *wire.View) {
		flag(v != nil)
		if v != nil {
			b = v.AppendPayload(b)
		}
	}
	b = append(b, byte(t.st))
	b = requests.AppendRequest(b, t.cur)
	number(uint64(t.self.Inc), t.clk, t.promised, t.ballots)
	flag(t.asked, t.started, t.amnesiac, t.behind)
	view(t.view)
	view(t.known)
	flag(t.suspected...)
	number(t.lives...)
	number(t.joins...)
	number(t.handed...)
	flag(t.change != nil)
	if c := t.change; c != nil {
		number(c.ballot)
		for i, a := range c.answers {
			flag(a != nil)
			if a != nil {
				b = a.AppendPayload(b)
				number(c.lives[i])
			}
		}
		view(c.proposal)
		flag(c.votes...)
		flag(c.decided, c.quorum == core.Never)
	}
	for i := range t.hosted {
		h, c := t.hosted[i], t.copies[i]
		flag(h != nil, c != nil)
		if h != nil {
			number(h.stamp.View, h.stamp.Version)
			b = h.append(b)
			for _, p := range h.parcels {
				number(p.version)
				flag(p.was)
			}
			for _, r := range h.replicas {
				number(uint64(r.node), r.version)
			}
			for _, w := range h.waiting {
				number(w.version, uint64(len(w.accept)))
				b = requests.AppendRequest(b, w.granted)
				for _, a := range w.accept {
					number(uint64(a.node), uint64(a.from), a.n)
				}
				for _, f := range w.facts {
					number(uint64(f.What), uint64(f.Slot), f.Order)
				}
			}
		}
		if c != nil {
			number(c.stamp.View, c.stamp.Version)
			b = append(b, c.state...)
		}
	}
	for _, e := range t.early {
		number(uint64(e.from))
		b = e.msg.AppendPayload(b)
	}
	return b
}
