// Package fairk is the fair k-mutual exclusion of Reddy, Mittal and Gupta
// (ALGORITHMS 5): k tokens, each with a queue. One node, the coordinator,
// knows the last in each queue and appends to them in turn, so that all queues
// advance alike; whoever was appended is the next coordinator. Requests
// find it along "parent" pointers, which they turn towards their own node.
//
// The published text takes a network that loses and repeats nothing. Here all
// messages name the requests they are about, and so are handled once however
// often they come:
//
//   - REQUEST(r) counts its hops, and each node remembers the newest request
//     of every node and its newest hop. (It may come by a node twice, when that
//     node asked in between and so is a root on its way again.)
//   - CHILD names the request behind which r is appended, which has one
//     successor; TOKEN is taken only by the request that was promised one.
//     An idle token serves its node again without a message: the node
//     stays known by the request that brought the token ("anchor").
//   - TOKEN_LOCATIONS makes coordinator once a request.
//
// Messages of all kinds may overtake each other. They travel as core.Ordered,
// since a newer one does not make an older one superfluous.
//
// The set of nodes is fixed. Without fault tolerance (Machine) a dead node's
// tokens are lost, and those behind it wait for ever; nobody is let in wrongly.
//
// # Fault tolerance
//
// Tolerant keeps the state of each id at p+1 nodes: on a circle of hashed ids
// (Chord, SIGCOMM 2001) the first node at or after the id that takes part acts
// for it, the p next ones have copies. A step takes effect (its messages leave,
// its request enters) only when all copies have it. Messages that an id sent
// are part of its state until they took effect, so who takes over sends them
// again; names of requests make that harmless.
//
// Who takes part is a view: a number (the epoch that fences), the members with
// their process starts, and for each id which state is the last. Views follow
// each other by agreement of a quorum (Paxos with the view's number as ballot):
// CLAIM asks for the promise to take no part in older views, and what states
// there are; VIEW is in effect once a quorum has accepted it. A node that
// promised takes part in nothing, so
//
//   - what took effect before is known to every copy keeper that promised: the
//     new view goes on from the newest state among the promises. One of them
//     having promised also keeps whoever acted for the id from doing more, be
//     it dead, slow, stopped or cut off: no token is there twice, with no
//     assumption about time;
//   - a view of which a quorum knows nothing never was in effect.
//
// A restarted process has forgotten its promises. It promises nothing that
// counts until a view that has it as a member is in effect; promises and votes
// of a process start are void for whoever knows of a later one, and views that
// do not know of it are refused.
//
// Where none of an id's p+1 nodes promises, its state is lost, or is
// with nodes that are cut off. Those stop by themselves: a node acts only while
// a quorum has answered within the last 30 periods as one in the same view.
// After so long a view follows in which all begins anew: who is in the critical
// section has a token, the others are dealt out. Only this rests on time, on
// clocks of about the same pace; instants are not compared between nodes.
//
// Nodes find failures themselves: they ask their successors every period, and
// everyone once in ten. Silence for six periods is a suspicion. The first
// node that is not suspected begins a new view; several may, the ballots
// decide.
//
// The owner serialises all calls.
package fairk

import (
	"encoding/binary"

	"churnbed/node/core"
	"churnbed/node/mutex"
)

// Config tunes the machine.
type Config struct {
	// Placement is who has each token at the beginning, each node at most one;
	// their number is k. The first is root and coordinator.
	Placement []core.NodeID
	// NoIDs takes every message for a new one, as the published text does: it
	// shows what the names of requests in them are for.
	NoIDs bool
}

// Machine is the algorithm at one node, without fault tolerance.
type Machine struct {
	cfg  Config
	self core.Peer
	m    member
}

var _ mutex.Custodian = (*Machine)(nil)

// New returns the machine of the node self.
func New(self core.Peer, cfg Config) *Machine { return &Machine{cfg: cfg, self: self} }

// Step implements mutex.Machine.
func (x *Machine) Step(_ core.Instant, in mutex.Input, out *mutex.Effects) {
	var o output
	switch in := in.(type) {
	case mutex.Start:
		x.m = newMember(x.self.ID, x.cfg.Placement, x.cfg.NoIDs, in.Restarted, &o)
	case mutex.Enter:
		x.m.enter(x.self.Inc, &o)
	case mutex.Exit:
		x.m.exit(&o)
	case mutex.Receive:
		x.m.receive(in.Msg, &o)
	case mutex.Fence:
		x.self.Inc = in.Inc
		if x.m.st != mutex.None {
			out.Given = x.m.cur
			x.m.giveUp(&o)
		}
	case mutex.MemberUp, mutex.MemberDown, mutex.MemberSuspected, mutex.LinkUp, mutex.LinkDown, mutex.Leave, mutex.Tick:
	}
	for _, s := range o.sends {
		out.Send(s.to, s.msg, core.Ordered)
	}
	out.Facts = append(out.Facts, o.facts...)
	out.Granted = out.Granted || o.granted
}

// Deadline implements mutex.Machine: the algorithm has no timeout.
func (x *Machine) Deadline() core.Instant { return core.Never }

// State implements mutex.Machine.
func (x *Machine) State() mutex.State { return x.m.st }

// Request implements mutex.Machine.
func (x *Machine) Request() core.RequestID { return x.m.cur }

// Custody implements mutex.Custodian.
func (x *Machine) Custody() mutex.Custody { return x.m.custody() }

// AppendState implements mutex.Machine.
func (x *Machine) AppendState(b []byte) []byte {
	return x.m.append(binary.AppendUvarint(b, uint64(x.self.Inc)))
}

// Invariant returns what is wrong with the state, or nothing.
func (x *Machine) Invariant() string { return x.m.invariant() }
