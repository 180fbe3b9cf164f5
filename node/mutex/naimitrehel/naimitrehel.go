// Package naimitrehel is the mutual exclusion of Naimi, Trehel and Arnold, "A
// log(N) distributed mutual exclusion algorithm based on path reversal", JPDC
// 34(1), 1996 (ALGORITHMS 5): one token; a request travels along "father"
// pointers to the last node that asked, and turns them all towards itself.
//
// The published text takes a network that loses and repeats nothing. Here all
// messages name the request they are about, and so are handled once however
// often they come: TOKEN is taken only by the very request that waits for it,
// and a forwarded request counts its hops. They may overtake each other.
// They travel as core.Ordered, since a newer message does not make an older
// one superfluous.
//
// The set of nodes is fixed. It does not survive crashes: what a dead node
// held or had to pass on is lost, and those behind it wait for ever. Nobody
// is let in wrongly then, since a restarted node makes no token. Package fairk
// has fault tolerance.
//
// The owner serialises all calls.
package naimitrehel

import (
	"encoding/binary"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// Config tunes the machine.
type Config struct {
	Root core.NodeID // has the token at the beginning
	// NoIDs takes every message for a new one, as the published text does: it
	// shows what the names of requests in them are for.
	NoIDs bool
}

// Machine is the algorithm at one node.
type Machine struct {
	cfg  Config
	self core.Peer
	st   mutex.State
	clk  uint64
	cur  core.RequestID // while waiting or holding
	tree Tree
}

var _ mutex.Custodian = (*Machine)(nil)

// New returns the machine of the node self.
func New(self core.Peer, cfg Config) *Machine { return &Machine{cfg: cfg, self: self} }

// Step implements mutex.Machine.
func (m *Machine) Step(_ core.Instant, in mutex.Input, out *mutex.Effects) {
	m.tree.Bind(
		func(to core.NodeID, msg core.Message) { out.Send(to, msg, core.Ordered) },
		func(f mutex.Fact) { out.Facts = append(out.Facts, f) }, nil, nil)
	switch in := in.(type) {
	case mutex.Start:
		m.tree = NewTree(m.self.ID, m.cfg.Root, 0, m.cfg.NoIDs, in.Restarted)
		if m.tree.Token() {
			out.Facts = append(out.Facts, mutex.Fact{What: mutex.TokenHeld})
		}
	case mutex.Enter:
		m.st = mutex.Wait
		m.clk++
		m.cur = core.RequestID{Node: m.self.ID, Inc: m.self.Inc, TS: m.clk}
		// A request that was given up stays queued, and its turn serves the
		// next one.
		if m.tree.Wants().IsZero() || m.tree.Token() {
			m.grant(m.tree.Enter(m.cur), out)
		}
	case mutex.Exit:
		m.leave()
	case mutex.Receive:
		m.receive(in.Msg, out)
	case mutex.Fence:
		m.self.Inc = in.Inc
		if m.st == mutex.None {
			return
		}
		out.Given = m.cur
		if m.st == mutex.Held {
			m.leave()
		}
		m.st, m.cur = mutex.None, core.RequestID{}
	case mutex.MemberUp, mutex.MemberDown, mutex.MemberSuspected, mutex.Tick:
	}
}

func (m *Machine) receive(msg core.Message, out *mutex.Effects) {
	switch msg := msg.(type) {
	case *wire.TokenRequest:
		m.tree.OnRequest(msg.For, msg.Hop)
	case *wire.Token:
		if m.tree.OnToken(msg.For) {
			if m.st == mutex.None { // it was given up
				m.tree.Exit()
				return
			}
			m.grant(true, out)
		}
	}
}

func (m *Machine) grant(granted bool, out *mutex.Effects) {
	if granted {
		m.st, out.Granted = mutex.Held, true
	}
}

func (m *Machine) leave() {
	m.st, m.cur = mutex.None, core.RequestID{}
	m.tree.Exit()
}

// Deadline implements mutex.Machine: the algorithm has no timeout.
func (m *Machine) Deadline() core.Instant { return core.Never }

// State implements mutex.Machine.
func (m *Machine) State() mutex.State { return m.st }

// Request implements mutex.Machine.
func (m *Machine) Request() core.RequestID { return m.cur }

// Custody implements mutex.Custodian.
func (m *Machine) Custody() (c mutex.Custody) {
	m.tree.AddCustody(&c)
	return c
}

// AppendState implements mutex.Machine.
func (m *Machine) AppendState(b []byte) []byte {
	b = append(b, byte(m.st))
	b = binary.AppendUvarint(b, uint64(m.self.Inc))
	b = binary.AppendUvarint(b, m.clk)
	b = requests.AppendRequest(b, m.cur)
	return m.tree.AppendState(b)
}

// Invariant returns what is wrong with the state, or nothing.
func (m *Machine) Invariant() string {
	if m.st == mutex.Held && !m.tree.Token() {
		return "in the section without the token"
	}
	return m.tree.Invariant()
}
