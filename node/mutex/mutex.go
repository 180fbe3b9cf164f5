// Package mutex states what a mutual-exclusion algorithm is to the node that
// runs it: a pure machine. The algorithms live in the packages below it.
//
// A machine never reads a clock, never blocks and never keeps a goroutine.
// The owner serialises Step and calls it for every input and when Deadline is
// reached. Requests of one node are serialised by the owner: Enter is given
// only in state None, Exit only in state Held.
package mutex

import "churnbed/node/core"

// State is the requester's state of Ricart and Agrawala 1981.
type State uint8

const (
	None State = iota // no request of its own
	Wait              // asked, not yet granted
	Held              // in the critical section
)

var stateNames = [...]string{"NONE", "WAIT", "HELD"}

func (s State) String() string { return stateNames[s] }

// Input is one of the input types below.
type Input interface{ input() }

type (
	// Start begins the life of the machine; it is its first input. Members is
	// the membership list at that moment, without the node itself. Restarted
	// is true when an earlier life of the node may have answered requests; Kept
	// is then what it asked last to be kept (Effects.Persist), nil: nothing.
	Start struct {
		Members   []core.Peer
		Restarted bool
		Kept      []byte
	}
	// Enter asks for the critical section (state None only).
	Enter struct{}
	// Exit leaves the critical section (state Held only).
	Exit struct{}
	// Receive is a message of another node's machine.
	Receive struct {
		From core.Peer
		Msg  core.Message
	}
	// MemberUp tells that the membership list gained a peer, or that a listed
	// peer was seen in a newer life.
	MemberUp struct{ Peer core.Peer }
	// MemberSuspected tells that a listed peer is suspected; it stays listed.
	MemberSuspected struct{ Peer core.Peer }
	// MemberDown tells that the membership list lost a peer. Left is true for
	// a graceful leave, false for a detected failure.
	MemberDown struct {
		Peer core.Peer
		Left bool
	}
	// Fence tells that this node was itself declared failed and must leave
	// (ALGORITHMS 2.4): a request in progress or held is given up, and the
	// node goes on under the higher incarnation.
	Fence struct{ Inc core.Incarnation }
	// Bound tells that at most so many nodes take part, itself included: what a
	// size estimator says. Algorithms that need no bound ignore it.
	Bound struct{ Nodes int }
	// LinkUp tells that the node has a link to a neighbour now, LinkDown that
	// the link is gone. Algorithms that ask others over routes ignore both. A
	// node is told before it is given a message that came over the link later.
	LinkUp struct{ Peer core.NodeID }
	// LinkDown is the end of what LinkUp began.
	LinkDown struct{ Peer core.NodeID }
	// Leave tells that the node is about to end and will not ask again (state
	// None only).
	Leave struct{}
	// Tick tells that Deadline was reached.
	Tick struct{}
)

func (Start) input()           {}
func (Enter) input()           {}
func (Exit) input()            {}
func (Receive) input()         {}
func (MemberUp) input()        {}
func (MemberSuspected) input() {}
func (MemberDown) input()      {}
func (Fence) input()           {}
func (Bound) input()           {}
func (LinkUp) input()          {}
func (LinkDown) input()        {}
func (Leave) input()           {}
func (Tick) input()            {}

// Effects collects what one Step asks of the owner, in order. The owner logs
// Granted before it sends what follows, and calls Reset between steps.
type Effects struct {
	Sends []core.Send
	// Persist, if not nil, replaces what the node keeps over a crash, before
	// anything else of this step is carried out. The machine never changes it.
	Persist []byte
	// Granted is set when this step moved the machine to Held.
	Granted bool
	// Given is the request that this step gave up (after Fence), if any.
	Given core.RequestID
	// Learned lists peers met through the algorithm that the membership list
	// lacks; the membership service takes them into its list.
	Learned []core.Peer
	// Forget lists peers to whom nothing more is to be retransmitted.
	Forget []core.NodeID
	// Failed and Returned list peers that the algorithm itself went on without,
	// or takes part again with: for the event log.
	Failed, Returned []core.Peer
	// Facts are events in the lives of tokens, for the event log.
	Facts []Fact
	// Notes are free-form facts for the event log ("amnesiac", "recovered").
	Notes []string
}

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	clear(e.Sends)
	e.Sends, e.Granted, e.Given = e.Sends[:0], false, core.RequestID{}
	e.Failed, e.Returned, e.Persist = e.Failed[:0], e.Returned[:0], nil
	e.Learned, e.Forget, e.Facts, e.Notes = e.Learned[:0], e.Forget[:0], e.Facts[:0], e.Notes[:0]
}

// Send appends a message.
func (e *Effects) Send(to core.NodeID, m core.Message, mode core.Mode) {
	e.Sends = append(e.Sends, core.Send{To: to, Msg: m, Mode: mode})
}

// Machine is a mutual-exclusion algorithm at one node.
type Machine interface {
	// Step handles one input at instant now and appends its effects to out.
	Step(now core.Instant, in Input, out *Effects)
	// Deadline is the instant at which the machine wants a Tick, or
	// core.Never.
	Deadline() core.Instant
	// State is the requester's state.
	State() State
	// Request is the node's current request, zero in state None.
	Request() core.RequestID
	// AppendState appends a canonical encoding of the whole state, the same
	// for equal states, for explorers and tests.
	AppendState(b []byte) []byte
}

// Asker is an algorithm that asks others by name. With any other a node is
// logged as having asked nobody and entered on one grant, the token.
type Asker interface {
	Machine
	// Asked appends the ids asked for the current request, ascending, the
	// node itself left out; Grants counts genuine answers, itself included.
	Asked(ids []core.NodeID) []core.NodeID
	Grants() int
}

// Local is an algorithm that speaks with its neighbours only, each over the
// link to it, and needs LinkUp and LinkDown. Here Asked are the neighbours
// that a request is to lock together with the node itself; at Granted, and
// while Held, they are the lock set.
type Local interface {
	Asker
	// Began is when the current request began to lock, and the neighbours that
	// it was to lock then, ascending; the slice is the machine's.
	Began() (core.Instant, []core.NodeID)
	// Tries counts the competitions of the current request, the last included.
	Tries() int
	// MostInFlight is the largest number of this node's requests under way at
	// a time on one link. A neighbour's and the answers to them come on top.
	MostInFlight() int
}
