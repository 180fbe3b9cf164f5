// Package ra is the mutual exclusion of Ricart and Agrawala, "An Optimal
// Algorithm for Mutual Exclusion in Computer Networks", CACM 24(1), 1981, the
// baseline of ALGORITHMS section 1: 2(N-1) messages an entry.
//
// Kept from the common rules: an OK names the request it answers, a request
// carries its node's incarnation, and the deferred set is cleared at exit.
// The membership list stands in for the fixed set of nodes; a node that the
// list loses is no longer waited for.
//
// It is not safe where lists are incomplete or wrong, where a failure is
// detected falsely, or where a node restarts and forgets its clock: showing
// that is its purpose. The owner serialises all calls.
package ra

import (
	"encoding/binary"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// Config tunes the machine. The zero value is the algorithm as described.
type Config struct {
	// IgnoreIDs counts any OK of a pending peer, whatever request it names:
	// the published text on a network that duplicates (trap H3b/c).
	IgnoreIDs bool
}

// Machine is the algorithm at one node.
type Machine struct {
	cfg  Config
	self core.Peer

	memlist requests.Peers
	st      mutex.State
	clk     uint64
	cur     core.RequestID
	asked   requests.IDs
	pending requests.IDs
	def     requests.ByNode // newest deferred request of each node
	grants  int
}

var _ mutex.Asker = (*Machine)(nil)

// New returns the machine of the node self.
func New(self core.Peer, cfg Config) *Machine { return &Machine{cfg: cfg, self: self} }

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
		switch msg := in.Msg.(type) {
		case *wire.Request:
			m.onRequest(in.From, msg.ID, out)
		case *wire.OK:
			m.onOK(in.From, msg.ID, out)
		}
	case mutex.MemberUp:
		m.memberUp(in.Peer, out)
	case mutex.MemberDown:
		m.memlist.Delete(in.Peer.ID)
		out.Forget = append(out.Forget, in.Peer.ID)
		if in.Left {
			m.def.Delete(in.Peer.ID)
		}
		m.pending.Delete(in.Peer.ID)
		m.tryEnter(out)
	case mutex.Fence:
		m.fence(in.Inc, out)
	case mutex.MemberSuspected, mutex.Tick:
	}
}

func (m *Machine) enter(out *mutex.Effects) {
	m.st = mutex.Wait
	m.clk++
	m.cur = core.RequestID{Node: m.self.ID, Inc: m.self.Inc, TS: m.clk}
	m.asked, m.pending, m.grants = m.asked[:0], m.pending[:0], 1
	request := &wire.Request{ID: m.cur}
	for _, p := range m.memlist {
		m.asked = append(m.asked, p.ID)
		m.pending = append(m.pending, p.ID)
		out.Send(p.ID, request, core.Reliable)
	}
	m.tryEnter(out)
}

func (m *Machine) onRequest(q core.Peer, r core.RequestID, out *mutex.Effects) {
	m.clk = max(m.clk, r.TS)
	if m.def.Get(q.ID).NewerThan(r) {
		return // late
	}
	if m.st == mutex.Held || m.st == mutex.Wait && m.cur.Before(r) {
		m.def.Put(r)
		return
	}
	m.def.Delete(q.ID)
	out.Send(q.ID, &wire.OK{ID: r}, core.Reply)
}

func (m *Machine) onOK(q core.Peer, r core.RequestID, out *mutex.Effects) {
	if m.st != mutex.Wait || r != m.cur && !m.cfg.IgnoreIDs || !m.pending.Delete(q.ID) {
		return
	}
	m.grants++
	m.tryEnter(out)
}

func (m *Machine) tryEnter(out *mutex.Effects) {
	if m.st == mutex.Wait && len(m.pending) == 0 {
		m.st = mutex.Held
		out.Granted = true
	}
}

func (m *Machine) exit(out *mutex.Effects) {
	m.st, m.cur = mutex.None, core.RequestID{}
	m.answerDeferred(out)
}

func (m *Machine) answerDeferred(out *mutex.Effects) {
	for _, r := range m.def {
		out.Send(r.Node, &wire.OK{ID: r}, core.Reliable)
	}
	m.def = m.def[:0]
}

// memberUp takes a peer into the list. A pending peer that is in a newer life
// forgot the request and is asked again (trap H4e); a peer that appears while
// the node waits is not asked.
func (m *Machine) memberUp(p core.Peer, out *mutex.Effects) {
	newer := p.Inc > m.memlist.Get(p.ID)
	m.memlist.Put(p)
	if newer && m.st == mutex.Wait && m.pending.Has(p.ID) {
		out.Send(p.ID, &wire.Request{ID: m.cur}, core.Reliable)
	}
}

// fence gives up a request in progress and goes on in a higher incarnation.
func (m *Machine) fence(inc core.Incarnation, out *mutex.Effects) {
	m.self.Inc = inc
	if m.st == mutex.None {
		return
	}
	out.Given = m.cur
	m.pending = m.pending[:0]
	m.exit(out)
}

// Deadline implements mutex.Machine: the algorithm has no timeout.
func (m *Machine) Deadline() core.Instant { return core.Never }

// State implements mutex.Machine.
func (m *Machine) State() mutex.State { return m.st }

// Request implements mutex.Machine.
func (m *Machine) Request() core.RequestID { return m.cur }

// Asked implements mutex.Asker.
func (m *Machine) Asked(ids []core.NodeID) []core.NodeID {
	if m.st == mutex.None {
		return ids
	}
	return append(ids, m.asked...)
}

// Grants implements mutex.Asker.
func (m *Machine) Grants() int {
	if m.st == mutex.None {
		return 0
	}
	return m.grants
}

// AppendState implements mutex.Machine.
func (m *Machine) AppendState(b []byte) []byte {
	b = append(b, byte(m.st))
	b = binary.AppendUvarint(b, uint64(m.self.Inc))
	b = binary.AppendUvarint(b, m.clk)
	b = requests.AppendRequest(b, m.cur)
	b = m.memlist.AppendState(b)
	b = m.def.AppendState(b)
	if m.st != mutex.None {
		b = m.asked.AppendState(b)
		b = m.pending.AppendState(b)
		b = binary.AppendUvarint(b, uint64(m.grants))
	}
	return b
}
