package stack

import (
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/kgroup/smart"
	"churnbed/node/membership"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// Input is one of the input types below.
type Input interface{ input() }

type (
	// Boot starts the node; it is the first input. Kept is what the last Persist
	// of its earlier lives kept, nil: nothing.
	Boot struct {
		PID  int
		Kept []byte
	}
	// Arrived is a frame from the network, Size its encoded length in bytes.
	Arrived struct {
		Frame wire.Frame
		Size  int
	}
	// Begin tells the epoch: local arrivals are counted from there.
	Begin struct{ Epoch core.Instant }
	// Enter is one more local request, now.
	Enter struct {
		No int
		CS time.Duration
	}
	// Told is news from an oracle.
	Told struct{ Change membership.Change }
	// Relink tells new configured delays of the incoming links, in the order
	// of Config.Neighbours.
	Relink struct{ Delay []int64 }
	// Leave asks for a graceful leave.
	Leave struct{}
	// Depart ends the membership service alone, with the list as it is: the
	// others come to think that the node is gone. Only the simulator asks for
	// it, where another simulator is imitated.
	Depart struct{}
	// Stop ends the run: what is still wanted is given up, logs are closed.
	Stop struct{}
	// Tick tells that Deadline was reached. Lost is how many datagrams the
	// kernel threw away on a full receive buffer since the last Tick.
	Tick struct{ Lost int64 }
	// Resend tells, with SourceFixed, that a message was lost on its way and
	// is due again.
	Resend struct {
		To  core.NodeID
		Msg core.Message
	}
)

func (Boot) input()    {}
func (Arrived) input() {}
func (Begin) input()   {}
func (Enter) input()   {}
func (Told) input()    {}
func (Relink) input()  {}
func (Leave) input()   {}
func (Depart) input()  {}
func (Stop) input()    {}
func (Tick) input()    {}
func (Resend) input()  {}

// Op says what an Effect is.
type Op uint8

const (
	Send     Op = iota // hand Frame to the network, for To
	Flood              // hand Frame to every one-hop neighbour but To (None: to all)
	Persist            // keep Data over a crash, in place of what was kept before
	Log                // append Event to the log
	State              // the requester's state is now State, request No
	Joined             // the node is a member
	Standing           // what the node is to k-groups is now Standing
	Idle               // all local arrivals are served or given up
	End                // the node is done; nothing follows
)

// Effect is one thing that Step asks of the owner. Effects are carried out in
// order: a log line stands before the messages that follow from it.
type Effect struct {
	Op    Op
	To    core.NodeID
	Frame wire.Frame
	Size  int // of the encoded frame, bytes
	Event *eventlog.Event
	Data  []byte // never changed
	State mutex.State
	No    int
	// Standing is never changed.
	Standing *smart.Standing
	// OneHop: the frame is to go over the link to its destination only.
	OneHop bool
}
