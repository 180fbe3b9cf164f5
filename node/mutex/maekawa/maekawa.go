package maekawa

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// Config tunes the machine. The zero value is maekawa.
type Config struct {
	// Basic is maekawa-basic: votes in order of arrival, never taken back.
	Basic bool
	// Without switches safeguards off, to show what each is for.
	Without Safeguard
}

// Safeguard is a set of the measures below.
type Safeguard uint8

const (
	// Displaced tells FAILED to the first in the queue when another is put
	// before it: the correction of Sanders 1987.
	Displaced Safeguard = 1 << iota
	// Failed tells FAILED to those who join the queue behind others.
	Failed
	// Inquiry asks a vote back for a request that precedes the locked one.
	Inquiry
	// Early keeps an INQUIRE that came before its OK.
	Early
	// Rounds tells a late OK from the vote that followed it.
	Rounds
	// Hold ignores INQUIRE in the critical section.
	Hold
)

// Machine is the algorithm at one node: a requester and a voter.
type Machine struct {
	cfg  Config
	self core.Peer

	memlist requests.Peers
	st      mutex.State
	clk     uint64
	cur     core.RequestID
	last    core.RequestID // newest request of this node that is over
	voters  []voter        // of cur, ascending by id, the node itself included
	asked   requests.IDs   // ever, by this life
	owed    requests.IDs   // asked and declared failed: they may lack a RELEASE

	ballot

	local []core.Message // to the node itself; empty between steps
}

// voter is what a request knows of one member of its voting set.
type voter struct {
	id    core.NodeID
	inc   core.Incarnation // as listed when it was asked, or newer
	word  word
	round uint64 // of the vote that is awaited or held
	// inquired: the vote of this round is wanted back.
	inquired bool
	down     bool // declared failed; not waited for
}

// word is the last that a voter said to a request.
type word uint8

const (
	silent word = iota
	failed      // FAILED, or the vote was relinquished
	voted       // OK
)

var _ mutex.Asker = (*Machine)(nil)

// New returns the machine of the node self.
func New(self core.Peer, cfg Config) *Machine { return &Machine{cfg: cfg, self: self} }

func (m *Machine) has(s Safeguard) bool { return m.cfg.Without&s == 0 }

// Step implements mutex.Machine.
func (m *Machine) Step(_ core.Instant, in mutex.Input, out *mutex.Effects) {
	switch in := in.(type) {
	case mutex.Start:
		for _, p := range in.Members {
			m.memlist.Put(p)
		}
	case mutex.Enter:
		m.enter(out)
	case mutex.Exit:
		m.exit(out)
	case mutex.Receive:
		// A process that the list knows to be gone is not heard any more.
		if in.From.Inc.Start() >= m.memlist.Get(in.From.ID).Start() {
			m.receive(in.From, in.Msg, out)
		}
	case mutex.MemberUp:
		m.memberUp(in.Peer, out)
	case mutex.MemberDown:
		m.memberDown(in.Peer, in.Left, out)
	case mutex.Fence:
		m.self.Inc = in.Inc
		if m.st != mutex.None {
			out.Given = m.cur
			m.exit(out)
		}
	case mutex.MemberSuspected, mutex.Tick:
	}
	for len(m.local) > 0 {
		msg := m.local[0]
		m.local = slices.Delete(m.local, 0, 1)
		m.receive(m.self, msg, out)
	}
}

func (m *Machine) receive(q core.Peer, msg core.Message, out *mutex.Effects) {
	switch msg := msg.(type) {
	case *wire.Request:
		m.onRequest(q, msg.ID, out)
	case *wire.Release:
		m.onRelease(q, msg.ID, out)
	case *wire.Relinquish:
		m.onRelinquish(msg.ID, msg.Round, out)
	case *wire.OK:
		m.onOK(q, msg.ID, msg.Round, out)
	case *wire.Failed:
		m.onFailed(q, msg.ID, msg.Round, out)
	case *wire.Inquire:
		m.onInquire(q, msg.ID, msg.Round, out)
	}
}

// send is Effects.Send, but the node's own voter is part of the machine.
func (m *Machine) send(to core.NodeID, msg core.Message, mode core.Mode, out *mutex.Effects) {
	if to == m.self.ID {
		m.local = append(m.local, msg)
		return
	}
	out.Send(to, msg, mode)
}

func (m *Machine) enter(out *mutex.Effects) {
	m.st = mutex.Wait
	m.clk++
	m.cur = core.RequestID{Node: m.self.ID, Inc: m.self.Inc, TS: m.clk}
	m.voters = m.voters[:0]
	for _, k := range VotingSet(nil, m.self.ID, m.memlist) {
		inc := m.self.Inc
		if k != m.self.ID {
			inc = m.memlist.Get(k)
		}
		m.voters = append(m.voters, voter{id: k, inc: inc})
		m.asked.Add(k)
		m.ask(k, out)
	}
}

func (m *Machine) ask(k core.NodeID, out *mutex.Effects) {
	m.send(k, &wire.Request{ID: m.cur}, core.Reliable, out)
}

func (m *Machine) voter(k core.NodeID) *voter {
	i, found := slices.BinarySearchFunc(m.voters, k, func(v voter, k core.NodeID) int { return int(v.id - k) })
	if !found {
		return nil
	}
	return &m.voters[i]
}

// said returns the voter q if what it says of a vote for r matters now: the
// node waits with r, and the vote of that round is not given back.
func (m *Machine) said(q core.Peer, r core.RequestID, round uint64, out *mutex.Effects) *voter {
	if r.Inc < m.self.Inc {
		m.disclaim(q, r, out) // of a former life, which may have sent no RELEASE
	}
	v := m.voter(q.ID)
	if r != m.cur || m.st == mutex.None || v == nil || q.Inc.Start() < v.inc.Start() {
		return nil
	}
	if m.st == mutex.Held && m.has(Hold) {
		return nil
	}
	if q.Inc.Start() > v.inc.Start() {
		m.forgot(v, q.Inc, out)
	}
	switch {
	case round < v.round && m.has(Rounds):
		return nil
	case round > v.round:
		// The voter took its vote back when it declared this node failed.
		v.word, v.round, v.inquired = silent, round, false
	}
	return v
}

// disclaim answers a voter that takes a request for current that is over. In the
// transport its RELEASE may take the place of another, so it names the newest.
func (m *Machine) disclaim(q core.Peer, r core.RequestID, out *mutex.Effects) {
	if r.Node != m.self.ID || r == m.cur {
		return
	}
	if m.last.NewerThan(r) {
		r = m.last
	}
	m.send(q.ID, &wire.Release{ID: r}, core.Reply, out)
}

// forgot begins anew with a voter that is in a newer process life.
func (m *Machine) forgot(v *voter, inc core.Incarnation, out *mutex.Effects) {
	lost := v.word != silent
	v.inc, v.word, v.round, v.inquired = inc, silent, 0, false
	if lost {
		m.ask(v.id, out)
	}
}

func (m *Machine) onOK(q core.Peer, r core.RequestID, round uint64, out *mutex.Effects) {
	if r != m.cur && r.Inc == m.self.Inc {
		m.disclaim(q, r, out) // a voter that restarted got a repeated REQUEST
		return
	}
	v := m.said(q, r, round, out)
	if v == nil {
		return
	}
	v.word = voted
	m.tryEnter(out)
	m.yield(out)
}

func (m *Machine) onFailed(q core.Peer, r core.RequestID, round uint64, out *mutex.Effects) {
	v := m.said(q, r, round, out)
	if v == nil || v.word == voted {
		return // the OK that followed came first
	}
	v.word = failed
	m.yield(out)
}

func (m *Machine) onInquire(q core.Peer, r core.RequestID, round uint64, out *mutex.Effects) {
	v := m.said(q, r, round, out)
	if v == nil || v.word != voted && !m.has(Early) {
		return
	}
	v.inquired = true
	m.yield(out)
}

// yield gives back the votes that are wanted back, if the request knows that
// it cannot get all votes now.
func (m *Machine) yield(out *mutex.Effects) {
	if m.st != mutex.Wait && m.has(Hold) {
		return
	}
	fails := func(v voter) bool { return v.word == failed && !v.down }
	hopeless := slices.ContainsFunc(m.voters, fails) || m.st == mutex.Held
	for i := range m.voters {
		v := &m.voters[i]
		if !v.inquired || v.word != voted || !hopeless && !v.down {
			continue
		}
		m.send(v.id, &wire.Relinquish{ID: m.cur, Round: v.round}, core.Reply, out)
		v.word, v.inquired = failed, false
		v.round++
	}
}

func (m *Machine) tryEnter(out *mutex.Effects) {
	waits := func(v voter) bool { return v.word != voted && !v.down }
	if m.st != mutex.Wait || slices.ContainsFunc(m.voters, waits) {
		return
	}
	m.st = mutex.Held
	out.Granted = true
}

func (m *Machine) exit(out *mutex.Effects) {
	m.last = m.cur
	m.st, m.cur = mutex.None, core.RequestID{}
	release := &wire.Release{ID: m.last}
	for _, v := range m.voters {
		if !v.down {
			m.send(v.id, release, core.Reliable, out)
		}
	}
	m.voters = m.voters[:0]
}

func (m *Machine) memberDown(p core.Peer, left bool, out *mutex.Effects) {
	m.memlist.Delete(p.ID)
	out.Forget = append(out.Forget, p.ID)
	if m.asked.Has(p.ID) {
		m.owed.Add(p.ID)
	}
	m.disown(p, left, out)
	if v := m.voter(p.ID); v != nil && m.st != mutex.None {
		v.down = true
		m.tryEnter(out)
		m.yield(out)
	}
}

func (m *Machine) memberUp(p core.Peer, out *mutex.Effects) {
	if p.ID == m.self.ID || p.Inc < m.memlist.Get(p.ID) {
		return // old news
	}
	m.memlist.Put(p)
	owed := m.owed.Delete(p.ID)
	m.readmit(p, out)
	v := m.voter(p.ID)
	if v == nil || m.st == mutex.None {
		if owed && !m.last.IsZero() {
			m.send(p.ID, &wire.Release{ID: m.last}, core.Reliable, out)
		}
		return
	}
	back := v.down
	v.down = false
	switch {
	case m.st != mutex.Wait:
	case p.Inc.Start() > v.inc.Start():
		v.word = failed // so that it is asked in any case
		m.forgot(v, p.Inc, out)
	case back && v.word != voted:
		m.ask(v.id, out)
	}
}

// Deadline implements mutex.Machine: the algorithm has no timeout.
func (m *Machine) Deadline() core.Instant { return core.Never }

// State implements mutex.Machine.
func (m *Machine) State() mutex.State { return m.st }

// Request implements mutex.Machine.
func (m *Machine) Request() core.RequestID { return m.cur }

// Asked implements mutex.Asker.
func (m *Machine) Asked(ids []core.NodeID) []core.NodeID {
	for _, v := range m.voters {
		if v.id != m.self.ID {
			ids = append(ids, v.id)
		}
	}
	return ids
}

// Grants implements mutex.Asker: the votes, its own included.
func (m *Machine) Grants() int {
	n := 0
	for _, v := range m.voters {
		if v.word == voted {
			n++
		}
	}
	return n
}
