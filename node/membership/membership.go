// Package membership states what a membership service is to the node that
// runs it: a pure machine that keeps a list of peers. The services live in
// the packages below it. The owner serialises all calls.
package membership

import "churnbed/node/core"

// Input is one of the input types below.
type Input interface{ input() }

type (
	// Start begins the life of the machine; it is its first input. Peers is
	// the initial list without the node itself: complete where Join is false
	// (the run's first start); contacts to ask, preferred first, where Join
	// is true (a restart, or a node that comes later).
	Start struct {
		Self  core.Peer
		Peers []core.Peer
		Join  bool
	}
	// Receive is a message of another node's machine.
	Receive struct {
		From core.Peer
		Msg  core.Message
	}
	// Heard tells that any frame of a peer arrived, whatever it carried.
	Heard struct{ Peer core.Peer }
	// Learned tells of a peer that another layer met and the list may lack.
	Learned struct{ Peer core.Peer }
	// Told is an outside instruction (an oracle, or a replayed trace).
	Told struct{ Change Change }
	// Leave asks for a graceful leave; the owner stops the node afterwards.
	Leave struct{}
	// Tick tells that Deadline was reached.
	Tick struct{}
)

func (Start) input()   {}
func (Receive) input() {}
func (Heard) input()   {}
func (Learned) input() {}
func (Told) input()    {}
func (Leave) input()   {}
func (Tick) input()    {}

// ChangeKind says what happened to a list entry.
type ChangeKind uint8

const (
	Up        ChangeKind = iota // added, or seen in a newer life
	Suspected                   // still listed
	Cleared                     // a suspicion was cleared
	Failed                      // removed: detected failure
	Left                        // removed: graceful leave
)

var changeNames = [...]string{"up", "suspected", "cleared", "failed", "left"}

func (k ChangeKind) String() string { return changeNames[k] }

// Change is one change of the local list.
type Change struct {
	Peer core.Peer
	Kind ChangeKind
}

// Effects collects what one Step asks of the owner, in order.
type Effects struct {
	Sends   []core.Send
	Changes []Change
	// Joined is set once, when the node is a member (at once where nothing
	// has to be joined).
	Joined bool
	// Fenced is set when the node learned that it was itself declared failed
	// and went on as Self(), a higher incarnation.
	Fenced bool
}

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	clear(e.Sends)
	e.Sends, e.Changes, e.Joined, e.Fenced = e.Sends[:0], e.Changes[:0], false, false
}

// Send appends a message.
func (e *Effects) Send(to core.NodeID, m core.Message, mode core.Mode) {
	e.Sends = append(e.Sends, core.Send{To: to, Msg: m, Mode: mode})
}

// Machine is a membership service at one node.
type Machine interface {
	// Step handles one input at instant now and appends its effects to out.
	Step(now core.Instant, in Input, out *Effects)
	// Deadline is the instant at which the machine wants a Tick, or
	// core.Never.
	Deadline() core.Instant
	// Self is the node in its present life.
	Self() core.Peer
	// Members appends the list, ascending by id, the node itself left out.
	Members(list []core.Peer) []core.Peer
	// Size is the length of the list plus one for the node itself.
	Size() int
}
