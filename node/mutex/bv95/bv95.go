// Package bv95 reconstructs the k-mutual exclusion of Bulgannawar and Vaidya,
// "A distributed k-mutual exclusion algorithm", ICDCS 1995, whose text was not
// available (ALGORITHMS 5): it is what the papers that compare with it say of
// it, and everything it gives is to be called "BV95-style".
//
// There are k tokens, each with a tree and a queue as in package naimitrehel.
// A requester that has an idle token enters. Else it picks one tree and queues
// there for good, which is where the unfairness comes from: it does not go over
// to a queue that turns out shorter. How it picks is a strategy:
//
//	random  any tree
//	last    that of the token it had last, at first that of its id mod k
//	load    the least known load: a vector of (queue length, version) rides on
//	        requests and tokens, newer versions replace older ones; a requester
//	        adds one to its tree, who passes a token on takes one from it
//
// As naimitrehel it tolerates loss, duplication and reordering, and no crash.
// The owner serialises all calls.
package bv95

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/naimitrehel"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// Choice is how a requester picks a tree.
type Choice string

// The strategies.
const (
	Load   Choice = "load"
	Random Choice = "random"
	Last   Choice = "last"
)

// Choices lists the strategies, the main one first.
func Choices() []Choice { return []Choice{Load, Random, Last} }

// Config tunes the machine.
type Config struct {
	Roots  []core.NodeID // who has each token at the beginning; their number is k
	Choice Choice        // "": Load
	Rand   *rand.Rand    // for Random, and ties of Load; nil: the first of all that are as good
	NoIDs  bool          // as naimitrehel.Config
}

// Machine is the algorithm at one node.
type Machine struct {
	cfg   Config
	self  core.Peer
	st    mutex.State
	clk   uint64
	cur   core.RequestID
	at    int // the tree of the request, or of the last one
	trees []naimitrehel.Tree
	loads []wire.Load
}

var _ mutex.Custodian = (*Machine)(nil)

// New returns the machine of the node self.
func New(self core.Peer, cfg Config) *Machine { return &Machine{cfg: cfg, self: self} }

// Step implements mutex.Machine.
func (m *Machine) Step(_ core.Instant, in mutex.Input, out *mutex.Effects) {
	for i := range m.trees {
		m.trees[i].Bind(
			func(to core.NodeID, msg core.Message) { out.Send(to, msg, core.Ordered) },
			func(f mutex.Fact) { out.Facts = append(out.Facts, f) },
			m.ride, func() { m.count(i, -1) })
	}
	switch in := in.(type) {
	case mutex.Start:
		m.start(in.Restarted, out)
	case mutex.Enter:
		m.enter(out)
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

func (m *Machine) start(restarted bool, out *mutex.Effects) {
	m.at = int(m.self.ID) % len(m.cfg.Roots)
	m.loads = make([]wire.Load, len(m.cfg.Roots))
	for i, root := range m.cfg.Roots {
		m.trees = append(m.trees, naimitrehel.NewTree(m.self.ID, root, i, m.cfg.NoIDs, restarted))
		if m.trees[i].Token() {
			out.Facts = append(out.Facts, mutex.Fact{What: mutex.TokenHeld, Slot: i})
		}
	}
}

func (m *Machine) enter(out *mutex.Effects) {
	m.st = mutex.Wait
	m.clk++
	m.cur = core.RequestID{Node: m.self.ID, Inc: m.self.Inc, TS: m.clk}
	// A request that was given up stays queued, and its turn serves this one.
	for i := range m.trees {
		if !m.trees[i].Wants().IsZero() {
			m.at = i
			return
		}
	}
	if i := slices.IndexFunc(m.trees, func(t naimitrehel.Tree) bool { return t.Token() }); i >= 0 {
		m.at = i
	} else {
		m.at = m.pick()
	}
	m.count(m.at, 1)
	if m.trees[m.at].Enter(m.cur) {
		m.st, out.Granted = mutex.Held, true
	}
}

// pick chooses a tree.
func (m *Machine) pick() int {
	var best []int
	switch m.cfg.Choice {
	case Last:
		return m.at
	case Random:
		for i := range m.trees {
			best = append(best, i)
		}
	default:
		for i, l := range m.loads {
			if len(best) > 0 && l.Length < m.loads[best[0]].Length {
				best = best[:0]
			}
			if len(best) == 0 || l.Length == m.loads[best[0]].Length {
				best = append(best, i)
			}
		}
	}
	if m.cfg.Rand == nil {
		return best[0]
	}
	return best[m.cfg.Rand.IntN(len(best))]
}

// count notes that one more or less is queued for a token.
func (m *Machine) count(i int, by int64) {
	if m.cfg.Choice == Load || m.cfg.Choice == "" {
		m.loads[i].Length += by
		m.loads[i].Version++
	}
}

// ride is what rides on a message.
func (m *Machine) ride() []wire.Load {
	if m.cfg.Choice == Load || m.cfg.Choice == "" {
		return slices.Clone(m.loads)
	}
	return nil
}

func (m *Machine) merge(loads []wire.Load) {
	if len(loads) != len(m.loads) {
		return
	}
	for i, l := range loads {
		if l.Version > m.loads[i].Version {
			m.loads[i] = l
		}
	}
}

func (m *Machine) receive(msg core.Message, out *mutex.Effects) {
	switch msg := msg.(type) {
	case *wire.TokenRequest:
		if msg.Slot < len(m.trees) {
			m.merge(msg.Loads)
			m.trees[msg.Slot].OnRequest(msg.For, msg.Hop)
		}
	case *wire.Token:
		if msg.Slot >= len(m.trees) {
			return
		}
		m.merge(msg.Loads)
		if !m.trees[msg.Slot].OnToken(msg.For) {
			return
		}
		if m.st == mutex.None { // it was given up
			m.trees[msg.Slot].Exit()
			return
		}
		m.st, out.Granted = mutex.Held, true
	}
}

func (m *Machine) leave() {
	m.st, m.cur = mutex.None, core.RequestID{}
	m.trees[m.at].Exit()
}

// Deadline implements mutex.Machine: the algorithm has no timeout.
func (m *Machine) Deadline() core.Instant { return core.Never }

// State implements mutex.Machine.
func (m *Machine) State() mutex.State { return m.st }

// Request implements mutex.Machine.
func (m *Machine) Request() core.RequestID { return m.cur }

// Custody implements mutex.Custodian.
func (m *Machine) Custody() (c mutex.Custody) {
	for i := range m.trees {
		m.trees[i].AddCustody(&c)
	}
	return c
}

// AppendState implements mutex.Machine.
func (m *Machine) AppendState(b []byte) []byte {
	b = append(b, byte(m.st))
	b = binary.AppendUvarint(b, uint64(m.self.Inc))
	b = binary.AppendUvarint(b, m.clk)
	b = requests.AppendRequest(b, m.cur)
	b = binary.AppendUvarint(b, uint64(m.at))
	for i := range m.trees {
		b = m.trees[i].AppendState(b)
	}
	for _, l := range m.loads {
		b = binary.AppendUvarint(binary.AppendVarint(b, l.Length), l.Version)
	}
	return b
}

// Invariant returns what is wrong with the state, or nothing.
func (m *Machine) Invariant() string {
	wants := 0
	for i := range m.trees {
		if why := m.trees[i].Invariant(); why != "" {
			return why
		}
		if !m.trees[i].Wants().IsZero() {
			wants++
		}
	}
	switch {
	case wants > 1:
		return fmt.Sprintf("queued in %d trees", wants)
	case m.st == mutex.Held && !m.trees[m.at].Token():
		return "in the section without the token"
	}
	return ""
}
