// Package tokenring is the mutual exclusion of Martin, "Distributed Mutual
// Exclusion on a Ring of Processes", Science of Computer Programming 5, 1985:
// one token on a ring. Requests travel one way round until they reach the
// token, and draw it back the other way; each node on its way enters first if
// it wants to. An entry costs at most 2(N-1) messages and nobody is overtaken
// more than once by each other node.
//
// It is the worked example of docs/WRITING-AN-ALGORITHM.md. The ring is that
// of the ids; node 0 has the token at the beginning. Every node asks its
// successor once at a time, and the question has a name: messages may be lost
// and repeated. The set of nodes is fixed, and a crash may take the token with
// it: those who wait then wait for ever, but nobody enters wrongly.
//
// The owner serialises all calls.
package tokenring

import (
	"encoding/binary"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// Machine is the algorithm at one node.
type Machine struct {
	self  core.Peer
	succ  core.NodeID // the next on the ring
	st    mutex.State
	clk   uint64
	cur   core.RequestID // of this node, while it waits or holds
	token bool
	asked core.RequestID // what the successor was asked and owes, or zero
	owed  core.RequestID // what the predecessor asked and is owed, or zero
	seen  core.RequestID // the newest that the predecessor asked
}

var _ mutex.Custodian = (*Machine)(nil)

// New returns the machine of the node self.
func New(self core.Peer) *Machine { return &Machine{self: self, succ: core.None} }

// Step implements mutex.Machine.
func (m *Machine) Step(_ core.Instant, in mutex.Input, out *mutex.Effects) {
	switch in := in.(type) {
	case mutex.Start:
		for _, p := range in.Members {
			if m.succ == core.None || m.steps(p.ID) < m.steps(m.succ) {
				m.succ = p.ID
			}
		}
		if m.self.ID == 0 && !in.Restarted {
			m.take(core.RequestID{}, out)
		}
	case mutex.Enter:
		m.st, m.cur = mutex.Wait, m.name()
		m.act(out)
	case mutex.Exit:
		m.st, m.cur = mutex.None, core.RequestID{}
		m.act(out)
	case mutex.Receive:
		m.receive(in.Msg, out)
		m.act(out)
	case mutex.Fence:
		m.self.Inc = in.Inc
		out.Given = m.cur
		m.st, m.cur = mutex.None, core.RequestID{}
		m.act(out)
	case mutex.MemberUp, mutex.MemberDown, mutex.MemberSuspected, mutex.LinkUp, mutex.LinkDown, mutex.Tick:
	}
}

// steps is how far along the ring of all ids a node is.
func (m *Machine) steps(to core.NodeID) int {
	return (int(to-m.self.ID) + core.MaxNodes) % core.MaxNodes
}

func (m *Machine) receive(msg core.Message, out *mutex.Effects) {
	switch msg := msg.(type) {
	case *wire.TokenRequest:
		if msg.For.NewerThan(m.seen) { // else repeated
			m.seen, m.owed = msg.For, msg.For
		}
	case *wire.Token:
		if msg.For == m.asked && !m.asked.IsZero() { // else repeated
			m.take(msg.For, out)
		}
	}
}

func (m *Machine) take(r core.RequestID, out *mutex.Effects) {
	m.token, m.asked = true, core.RequestID{}
	out.Facts = append(out.Facts, mutex.Fact{What: mutex.TokenHeld, For: r})
}

// act does what the state asks for: enter, pass the token on, or ask for it.
func (m *Machine) act(out *mutex.Effects) {
	if m.token && m.st == mutex.Wait {
		m.st, out.Granted = mutex.Held, true
	}
	if m.token && m.st == mutex.None && !m.owed.IsZero() {
		out.Facts = append(out.Facts, mutex.Fact{What: mutex.TokenSent, For: m.owed})
		out.Send(m.owed.Node, &wire.Token{For: m.owed}, core.Ordered)
		m.token, m.owed = false, core.RequestID{}
	}
	wanted := m.st == mutex.Wait || !m.owed.IsZero()
	if wanted && !m.token && m.asked.IsZero() && m.succ != core.None {
		m.asked = m.name()
		out.Send(m.succ, &wire.TokenRequest{For: m.asked}, core.Ordered)
	}
}

// name returns a name that this node has not used before.
func (m *Machine) name() core.RequestID {
	m.clk++
	return core.RequestID{Node: m.self.ID, Inc: m.self.Inc, TS: m.clk}
}

// Deadline implements mutex.Machine: the algorithm has no timeout.
func (m *Machine) Deadline() core.Instant { return core.Never }

// State implements mutex.Machine.
func (m *Machine) State() mutex.State { return m.st }

// Request implements mutex.Machine.
func (m *Machine) Request() core.RequestID { return m.cur }

// Custody implements mutex.Custodian.
func (m *Machine) Custody() (c mutex.Custody) {
	if m.token {
		c.Tokens = 1
	} else if !m.asked.IsZero() {
		c.Awaited = append(c.Awaited, m.asked)
	}
	return c
}

// AppendState implements mutex.Machine.
func (m *Machine) AppendState(b []byte) []byte {
	b = append(b, byte(m.st))
	if m.token {
		b = append(b, 't')
	}
	b = binary.AppendUvarint(b, uint64(m.self.Inc))
	b = binary.AppendUvarint(b, m.clk)
	for _, r := range [...]core.RequestID{m.cur, m.asked, m.owed, m.seen} {
		b = requests.AppendRequest(b, r)
	}
	return b
}
