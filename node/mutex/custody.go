package mutex

import "churnbed/node/core"

// Custody is what a machine of a token algorithm has and waits for. Explorers
// count tokens and coordinators over all machines and the messages between
// them by it.
type Custody struct {
	Tokens int // in the machine's keeping
	// Awaited are the requests whose TOKEN the machine would take.
	Awaited []core.RequestID
	// Coordinator: of fairk. LedFor is the newest own request with which the
	// machine became coordinator; it would become so again with a newer one.
	Coordinator bool
	LedFor      core.RequestID
	// Parents are the next nodes on the way to the root, one for each tree;
	// core.None at a root.
	Parents []core.NodeID
}

// Custodian is a Machine that keeps tokens. Machines of k tokens let k nodes
// in at a time.
type Custodian interface {
	Machine
	Custody() Custody
}

// Fact is one event in the life of a token, for the event log. A log of all of
// them shows whether tokens were made or lost, and in which order they were
// promised.
type Fact struct {
	What  FactKind
	Slot  int            // which token
	Order uint64         // of a promise: by the coordinators' count; of Rebuilt: which view, the same at all nodes
	For   core.RequestID // the request that the token serves, or the coordinator follows
	Peer  core.NodeID    // of a taken-over id
	// Again: told by who acts for a failed node, which may have told it before.
	Again bool
}

// FactKind says what happened.
type FactKind uint8

// What may happen.
const (
	TokenHeld FactKind = iota // the token is here
	TokenSent                 // it was sent on, for For
	Leads                     // coordinator now; Order requests were served before
	Promised                  // coordinator no more; For is number Order
	TakenOver                 // acts for Peer now, which was declared failed
	GaveBack                  // Peer acts for itself again
	Rebuilt                   // all state of an id was lost; tokens are dealt out anew
)

var factNames = [...]string{"held", "sent", "leads", "promised", "taken over", "gave back", "rebuilt"}

func (k FactKind) String() string { return factNames[k] }

// Ring is what a machine that acts for other nodes' ids keeps (fault-tolerant
// fairk). Explorers follow tokens by the newest state of each id.
type Ring struct {
	View     uint64
	InEffect bool // as far as the machine knows
	Estates  []Estate
}

// Estate is the state of one id at one machine.
type Estate struct {
	ID            core.NodeID
	View, Version uint64 // of two states of an id the one with the larger pair goes on
	Custody       Custody
	Held          core.RequestID // in the critical section with it; zero: is not
	Sent          []core.Message // not known to have been taken, with
	To            []core.NodeID  // their ids
	Wrong         string         // an invariant that does not hold
}

// Ringed is a Machine with a Ring.
type Ringed interface {
	Machine
	Ring() Ring
}
