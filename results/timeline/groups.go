package timeline

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Groups is what k-groups, devices and routines did (ALGORITHMS 7). Instants
// that the logs do not tell are -1.
type Groups struct {
	Terms      []Term      // in the order in which they began
	Migrations []Migration // in the order in which serving stopped
	Locks      []Lock      // in the order in which they were asked for
	Runs       []RoutineRun
	Commands   []Command
	Failures   []DeviceFailure
}

// Term is the leadership of one node over a group in an epoch.
type Term struct {
	Group       int32
	Epoch, Term uint64
	Leader      core.NodeID
	Members     []core.NodeID // by rank
	Elected     int64
	Election    int64 // how long it took, ns
	Active      int64 // it serves from here on
	End         int64 // until here; -1 where it never served
	How         TermEnd
}

// TermEnd says how a term ended.
type TermEnd string

// Endings of terms.
const (
	TermMigrated TermEnd = "migrated" // it stopped to hand over to the next epoch
	TermDeposed  TermEnd = "deposed"
	TermReplaced TermEnd = "replaced" // another leader serves, before this one knew
	TermDied     TermEnd = "died"
	TermServing  TermEnd = "serving" // at the end of the run
	TermUnserved TermEnd = "never served"
)

// Migration is the time in which a group did not serve, from a leader's
// freezing to the next service, with the six steps as far as they were
// reached. To is From where a new leader of the old members served next, 0
// where nobody did.
type Migration struct {
	Group                                int32
	From, To                             uint64 // epochs
	OldLeader, NewLeader                 core.NodeID
	Frozen, Selected, Elected            int64
	Transferred, Replicated              int64
	Decommissioned, Active               int64
	Retiring, Retired                    int64
	Election, Transfer, Replication, Ack int64 // how long steps 2 to 5 took, ns
	Attempts                             int
	Unchanged                            bool // the state that was frozen is the one that serves
}

// Lock is one hold of a device's lock, or the wish for one.
type Lock struct {
	Device, Group, Routine int32
	Ticket                 uint64
	Asked, Granted, Freed  LockStep
	// Inherited: no leader logged the grant; the next one began with it.
	Inherited bool
}

// LockStep is where and when a lock was asked for, granted or freed: the node
// that led the device's group, its epoch and term.
type LockStep struct {
	T           int64
	Leader      core.NodeID
	Epoch, Term uint64
	Quorum      int64 // how long a quorum took to hold it, ns
}

// RoutineRun is one firing of a routine.
type RoutineRun struct {
	Routine   int32
	Number    uint64 // of the routine's firings, from 1
	Attempts  int    // to get all locks
	Group     int32  // that manages the routine
	Leader    core.NodeID
	Epoch     uint64
	Term      uint64
	Triggered int64
	Acquiring int64
	Executing int64
	Releasing int64
	Done      int64
	BackedOff int64 // the last time
}

// Command is a command at its device.
type Command struct {
	Device, Routine int32
	Ticket          uint64
	From, To        int64 // To is -1 where the device was killed, or the run ended
}

// DeviceFailure is a device that its leader took to have failed.
type DeviceFailure struct {
	Device, Group int32
	Leader        core.NodeID
	Epoch, Term   uint64
	Killed        int64 // -1: it was not
	Failed        int64
	Recovered     int64
}

type lockKey struct {
	device int32
	claim  eventlog.Claim
}

type termKey struct {
	group       int32
	epoch, term uint64
	leader      core.NodeID
}

type runKey struct {
	routine int32
	number  uint64
}

// groupCollector takes in the lines of k-groups.
type groupCollector struct {
	g        Groups
	terms    map[termKey]int
	open     map[int32][]int // by group: terms that did not end
	moving   map[int32]int   // by group: its last migration
	digest   map[int32]string
	closed   map[int32]bool // nothing is frozen
	locks    map[lockKey]int
	runs     map[runKey]int
	commands map[core.NodeID][]int // under way, by device
	failures map[int32]int         // by device: the last one
	killed   map[core.NodeID]int64
}

func newGroupCollector() *groupCollector {
	return &groupCollector{
		terms: map[termKey]int{}, open: map[int32][]int{}, moving: map[int32]int{}, digest: map[int32]string{}, closed: map[int32]bool{},
		locks: map[lockKey]int{}, runs: map[runKey]int{}, commands: map[core.NodeID][]int{}, failures: map[int32]int{},
		killed: map[core.NodeID]int64{},
	}
}

func (c *groupCollector) line(id core.NodeID, e *eventlog.Event) {
	if e.KG == nil {
		return
	}
	switch e.Kind {
	case eventlog.KGroup:
		c.group(id, e)
	case eventlog.Lock:
		c.lock(id, e)
	case eventlog.Routine:
		c.routine(id, e)
	case eventlog.Command:
		c.command(id, e)
	case eventlog.Monitor:
		c.monitor(id, e)
	default:
	}
}

// down ends what a node did when its process ends.
func (c *groupCollector) down(id core.NodeID, t int64) {
	for _, open := range c.open {
		for _, i := range slices.Clone(open) {
			if c.g.Terms[i].Leader == id {
				c.endTerm(i, t, TermDied)
			}
		}
	}
	delete(c.commands, id)
	c.killed[id] = t
}

func (c *groupCollector) endTerm(i int, t int64, how TermEnd) {
	m := &c.g.Terms[i]
	if m.Active >= 0 {
		m.End = t
	}
	m.How = how
	c.open[m.Group] = slices.DeleteFunc(c.open[m.Group], func(o int) bool { return o == i })
}

func (c *groupCollector) term(id core.NodeID, e *eventlog.Event) *Term {
	k := e.KG
	key := termKey{k.Group, k.Epoch, k.Term, id}
	i, known := c.terms[key]
	if !known {
		i = len(c.g.Terms)
		c.terms[key] = i
		c.g.Terms = append(c.g.Terms, Term{
			Group: k.Group, Epoch: k.Epoch, Term: k.Term, Leader: id, Members: membersOf(k.Members), Elected: -1, Active: -1, End: -1,
		})
		c.open[k.Group] = append(c.open[k.Group], i)
	}
	return &c.g.Terms[i]
}

func (c *groupCollector) group(id core.NodeID, e *eventlog.Event) {
	k := e.KG
	var moving *Migration
	if i, known := c.moving[k.Group]; known {
		moving = &c.g.Migrations[i]
	}
	frozen := moving != nil && !c.closed[k.Group]
	switch e.State {
	case "elected":
		m := c.term(id, e)
		m.Elected, m.Election = e.T, k.NS
		if frozen && moving.From < k.Epoch {
			moving.Election = k.NS
		}
	case "active":
		c.active(id, e)
	case "frozen":
		if i, known := c.terms[termKey{k.Group, k.Epoch, k.Term, id}]; known && c.g.Terms[i].How == "" {
			c.endTerm(i, e.T, TermMigrated)
		}
		c.moving[k.Group], c.closed[k.Group], c.digest[k.Group] = len(c.g.Migrations), false, k.Digest
		c.g.Migrations = append(c.g.Migrations, Migration{
			Group: k.Group, From: k.Epoch, OldLeader: id, NewLeader: core.None, Frozen: e.T,
			Selected: -1, Elected: -1, Transferred: -1, Replicated: -1, Decommissioned: -1, Active: -1, Retiring: -1, Retired: -1,
		})
	case "deposed": // its line has the term that deposed it
		for _, i := range slices.Clone(c.open[k.Group]) {
			if m := &c.g.Terms[i]; m.Leader == id && m.Epoch == k.Epoch {
				c.endTerm(i, e.T, TermDeposed)
			}
		}
	case "select":
		if frozen {
			moving.Selected = e.T
			moving.Attempts++
		}
	case "elect":
		if frozen {
			moving.Elected = e.T
		}
	case "transfer":
		if frozen {
			moving.Transferred, moving.Transfer = e.T, k.NS
		}
	case "replicate":
		if frozen {
			moving.Replicated, moving.Replication = e.T, k.NS
		}
	case "decommission":
		if frozen {
			moving.Decommissioned, moving.Ack = e.T, k.NS
		}
	case "retire":
		if moving != nil && moving.To == k.Epoch {
			moving.Retiring = e.T
		}
	case "retired":
		if moving != nil && moving.From == k.Epoch && moving.OldLeader == id {
			moving.Retired = e.T
		}
	}
}

func (c *groupCollector) active(id core.NodeID, e *eventlog.Event) {
	k := e.KG
	if m := c.term(id, e); m.How == "" {
		m.Active = e.T
	}
	for _, i := range slices.Clone(c.open[k.Group]) {
		if m := &c.g.Terms[i]; m.Epoch < k.Epoch || m.Epoch == k.Epoch && m.Term < k.Term {
			c.endTerm(i, e.T, TermReplaced)
		}
	}
	if i, known := c.moving[k.Group]; known && !c.closed[k.Group] && k.Epoch >= c.g.Migrations[i].From {
		m := &c.g.Migrations[i]
		m.To, m.NewLeader, m.Active, m.Unchanged = k.Epoch, id, e.T, c.digest[k.Group] == k.Digest
		c.closed[k.Group] = true
	}
	for device, claim := range k.Held() {
		i, known := c.locks[lockKey{device, claim}]
		if known && c.g.Locks[i].Granted.T < 0 {
			c.g.Locks[i].Inherited = true
			c.g.Locks[i].Granted = LockStep{T: e.T, Leader: id, Epoch: k.Epoch, Term: k.Term}
		}
	}
}

func (c *groupCollector) lock(id core.NodeID, e *eventlog.Event) {
	k := e.KG
	key := lockKey{k.Device, eventlog.Claim{Routine: k.Routine, Ticket: k.Ticket}}
	i, known := c.locks[key]
	if !known {
		none := LockStep{T: -1, Leader: core.None}
		i = len(c.g.Locks)
		c.locks[key] = i
		c.g.Locks = append(c.g.Locks, Lock{Device: k.Device, Group: k.Group, Routine: k.Routine, Ticket: k.Ticket, Asked: none, Granted: none, Freed: none})
	}
	l, step := &c.g.Locks[i], LockStep{e.T, id, k.Epoch, k.Term, k.NS}
	// A leader that follows may tell again what another one told.
	first := func(s *LockStep) {
		if s.T < 0 {
			*s = step
		}
	}
	switch e.State {
	case "request":
		first(&l.Asked)
	case "grant":
		first(&l.Granted)
	case "release":
		first(&l.Freed)
	}
}

func (c *groupCollector) routine(id core.NodeID, e *eventlog.Event) {
	k := e.KG
	if e.State == "skipped" {
		return
	}
	run, attempt := eventlog.SplitTicket(k.Ticket)
	key := runKey{k.Routine, run}
	i, known := c.runs[key]
	if !known {
		i = len(c.g.Runs)
		c.runs[key] = i
		c.g.Runs = append(c.g.Runs, RoutineRun{
			Routine: k.Routine, Number: key.number, Triggered: -1, Acquiring: -1, Executing: -1, Releasing: -1, Done: -1, BackedOff: -1,
		})
	}
	r := &c.g.Runs[i]
	if e.State == "TRIGGERED" && r.Acquiring >= 0 {
		return // by a leader that was deposed
	}
	r.Attempts = max(r.Attempts, 1+int(attempt))
	r.Group, r.Leader, r.Epoch, r.Term = k.Group, id, k.Epoch, k.Term
	first := func(t *int64) {
		if *t < 0 {
			*t = e.T
		}
	}
	switch e.State {
	case "TRIGGERED":
		r.Triggered = k.Since
	case "ACQUIRING_LOCKS":
		first(&r.Acquiring)
	case "EXECUTING":
		first(&r.Executing)
	case "RELEASING_LOCKS":
		first(&r.Releasing)
	case "NOT_TRIGGERED":
		first(&r.Done)
	case "BACKING_OFF":
		r.BackedOff = e.T
	}
	if r.Triggered < 0 && k.Since > 0 {
		r.Triggered = k.Since // the leader that fired it died before it told
	}
}

func (c *groupCollector) command(id core.NodeID, e *eventlog.Event) {
	k := e.KG
	switch e.State {
	case "start":
		c.commands[id] = append(c.commands[id], len(c.g.Commands))
		c.g.Commands = append(c.g.Commands, Command{Device: k.Device, Routine: k.Routine, Ticket: k.Ticket, From: e.T, To: -1})
	case "done":
		c.commands[id] = slices.DeleteFunc(c.commands[id], func(i int) bool {
			o := &c.g.Commands[i]
			if o.Routine != k.Routine || o.Ticket != k.Ticket {
				return false
			}
			o.To = e.T
			return true
		})
	}
}

func (c *groupCollector) monitor(id core.NodeID, e *eventlog.Event) {
	k := e.KG
	switch e.State {
	case "failed":
		killed := int64(-1)
		if at, dead := c.killed[core.NodeID(k.Device)]; dead && at <= e.T {
			killed = at
		}
		c.failures[k.Device] = len(c.g.Failures)
		c.g.Failures = append(c.g.Failures, DeviceFailure{
			Device: k.Device, Group: k.Group, Leader: id, Epoch: k.Epoch, Term: k.Term, Killed: killed, Failed: e.T, Recovered: -1,
		})
	case "recovered":
		if i, known := c.failures[k.Device]; known && c.g.Failures[i].Recovered < 0 {
			c.g.Failures[i].Recovered = e.T
		}
	}
}

// born notes that a device runs again.
func (c *groupCollector) born(id core.NodeID) { delete(c.killed, id) }

// finish ends what is open; nil where the run has no k-groups.
func (c *groupCollector) finish(end int64) *Groups {
	g := &c.g
	if len(g.Terms)+len(g.Locks)+len(g.Runs)+len(g.Commands)+len(g.Failures) == 0 {
		return nil
	}
	for i := range g.Terms {
		if m := &g.Terms[i]; m.How == "" {
			how := TermServing
			if m.Active < 0 {
				how = TermUnserved
			}
			c.endTerm(i, max(end, m.Active), how)
		}
	}
	slices.SortStableFunc(g.Runs, func(a, b RoutineRun) int { return cmp.Compare(a.Triggered, b.Triggered) })
	return g
}

// membersOf reads ids as in "7 3 12"; what is none is left out.
func membersOf(text string) []core.NodeID {
	var ids []core.NodeID
	for _, f := range strings.Fields(text) {
		if id, err := strconv.ParseUint(f, 10, 16); err == nil {
			ids = append(ids, core.NodeID(id))
		}
	}
	return ids
}
