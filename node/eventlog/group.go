package eventlog

import (
	"strconv"
	"strings"
)

// Kinds of lines of k-groups, devices and routines (node/kgroup/smart); each
// has a Group with the details. In all of them Group.NS is how long the quorum
// took to hold what the line tells, where it had to.
const (
	// KGroup tells of a group of an epoch. State: "forming" (invited;
	// Members), "elected" (this node leads Term; NS: the election), "active"
	// (it serves; Digest and Locks are the state it begins with, Since when
	// its predecessor in the group stopped), "frozen" (it stopped serving for a
	// migration to Epoch+1; Digest), "deposed", "retired", and the six steps
	// of a migration: "select", "elect", "transfer", "replicate",
	// "decommission", "retire".
	KGroup Kind = "group"
	// Lock tells of a device's lock. State: request, grant, release.
	Lock Kind = "lock"
	// Routine tells a routine's new state: TRIGGERED, ACQUIRING_LOCKS,
	// EXECUTING, RELEASING_LOCKS, NOT_TRIGGERED, and "skipped" where its
	// trigger fired while it ran. "EXECUTING" is written before the first
	// command is sent, "RELEASING_LOCKS" before the first lock is freed.
	Routine Kind = "routine"
	// Command tells, at the device, of a command: start, done.
	Command Kind = "command"
	// Monitor tells what a leader found about a device: failed, recovered.
	Monitor Kind = "monitor"
)

// Group is what a line of a k-group tells.
type Group struct {
	Group   int32  `json:"group"`
	Epoch   uint64 `json:"epoch,omitempty"`
	Term    uint64 `json:"term,omitempty"`
	Device  int32  `json:"device"`  // lock, command, monitor
	Routine int32  `json:"routine"` // routine, lock, command
	Ticket  uint64 `json:"ticket,omitempty"`
	// Members of the group as ids in the order of their rank: "7 3 12".
	Members string `json:"members,omitempty"`
	Digest  string `json:"digest,omitempty"` // of the state
	Locks   string `json:"locks,omitempty"`  // held: "device:routine.ticket ..."
	NS      int64  `json:"ns,omitempty"`
	Since   int64  `json:"since,omitempty"` // an instant
}

// Claim is a run of a routine as locks name it.
type Claim struct {
	Routine int32
	Ticket  uint64
}

// AttemptBits are the lower bits of a ticket: they count the attempts of one
// run of a routine, the upper ones the runs.
const AttemptBits = 16

// SplitTicket returns the number of a ticket's run and of its attempt, which
// begins at 0.
func SplitTicket(ticket uint64) (run, attempt uint64) {
	return ticket >> AttemptBits, ticket & (1<<AttemptBits - 1)
}

// Held returns who holds which device by Locks; what does not parse is left
// out.
func (g *Group) Held() map[int32]Claim {
	has := map[int32]Claim{}
	for _, f := range strings.Fields(g.Locks) {
		device, rest, _ := strings.Cut(f, ":")
		routine, ticket, _ := strings.Cut(rest, ".")
		d, err1 := strconv.ParseInt(device, 10, 32)
		r, err2 := strconv.ParseInt(routine, 10, 32)
		t, err3 := strconv.ParseUint(ticket, 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			has[int32(d)] = Claim{int32(r), t}
		}
	}
	return has
}
