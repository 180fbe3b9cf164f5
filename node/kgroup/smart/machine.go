// Package smart is CoMesh at one node (ALGORITHMS 7): a device that answers
// pings and executes commands and, at a smart node, a member of the k-groups
// that manage devices and routines. It is a pure machine; node/stack owns it
// and serialises all calls.
//
// # Groups
//
// A group of an epoch is a replica at each of its k = 2f+1 members. A leader
// of a term is found with Bully (Garcia-Molina 1982) and confirmed by the
// promises of f+1 members, who promise a term to one leader only and accept
// nothing of a lower one: so there is one leader a (group, epoch, term), and
// a deposed leader finds no quorum. State is a set of entries; an entry of a
// higher version replaces an older one, and a change counts when f+1 members
// hold it. A new leader reads the entries of f+1 members, takes the newest of
// each and writes them again under its term before it serves.
//
// While its leader's beats come a member promises nothing to others. So a
// leader that has the beats of f+1 members acknowledged is the only one for
// leaseBeats periods, and may answer from what it has; a leader that was
// stopped finds its lease over when it wakes.
//
// # Migration
//
// The leader of the present epoch (1) stops serving, chooses the next members
// and has its quorum hold the attempt, then invites them; they (2) elect; the
// new leader (3) fetches the frozen state and (4) has a quorum of its own
// hold it. It (5) decommissions the old leader, whose quorum records who
// follows: from there on the old group can choose nobody else. Only then does
// the new leader serve; it tells the old one, who (6) retires its members. An
// attempt that takes too long before the record is given up for another with
// a higher epoch. If an old leader dies, the old group elects another one,
// which goes on where the record, if there is one, says. With Config.Paper
// every node forms groups by its own list and clock, and step 5 records
// nothing (see the trap in ALGORITHMS 7).
//
// # Transport
//
// Everything is a datagram that its sender repeats until it is answered, and
// all receivers are idempotent: what newer messages supersede differs from
// what a transport that knows only kinds would take it to be.
package smart

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/kgroup"
	"churnbed/node/wire"
)

// Input is one of the input types below.
type Input interface{ input() }

type (
	// Start begins the life of the machine; it is its first input. Members is
	// the membership list without the node itself. First is true where this
	// is a node that was there when the run began: it takes part in the first
	// groups.
	Start struct {
		Members []core.Peer
		First   bool
	}
	// Begin tells the epoch of the run, from which groups and routines count.
	Begin struct{ Epoch core.Instant }
	// Receive is a message of another node's machine.
	Receive struct {
		From core.Peer
		Msg  *wire.Group
	}
	// MemberUp tells that the membership list gained a peer.
	MemberUp struct{ Peer core.Peer }
	// MemberDown tells that the list lost a peer.
	MemberDown struct{ Peer core.Peer }
	// Renamed tells that the process goes on under a higher incarnation.
	Renamed struct{ Self core.Peer }
	// Trigger fires a routine by hand, at any smart node.
	Trigger struct{ Routine int }
	// Tick tells that Deadline was reached.
	Tick struct{}
)

func (Start) input()      {}
func (Begin) input()      {}
func (Receive) input()    {}
func (MemberUp) input()   {}
func (MemberDown) input() {}
func (Renamed) input()    {}
func (Trigger) input()    {}
func (Tick) input()       {}

// Effects collects what one Step asks of the owner: log the lines, then send
// the messages, in order.
type Effects struct {
	Lines []eventlog.Event // T, Node and Inc are the owner's
	Sends []core.Send
}

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	clear(e.Sends)
	clear(e.Lines)
	e.Sends, e.Lines = e.Sends[:0], e.Lines[:0]
}

// Config is what one node's machine is told.
type Config struct {
	*kgroup.Config
	Self core.Peer
	Seed uint64 // of the run
}

// Machine is CoMesh at one node.
type Machine struct {
	cfg   Config
	sel   *kgroup.Selector
	self  core.Peer
	smart bool
	rng   *rand.Rand
	now   core.Instant
	out   *Effects
	local []*wire.Group // to itself, of this step
	next  core.Instant  // cached deadline

	began bool
	first bool
	epoch core.Instant // of the run

	list     []core.NodeID      // smart nodes by the membership service, itself included, ascending
	lives    []core.Incarnation // newest life heard of, by node
	failed   []core.Incarnation // life that a leader reported as failed, by node
	replicas []*replica         // by group, then epoch
	routes   []route            // by group
	watched  [][]int            // by device: the routines whose conditions name it
	clock    uint64             // the epoch of groups formed by the clock (Paper)
	ops      uint64             // calls made
	dev      device
	hand     []manual
	executed int // routines seen through
}

// route is what is known of who leads a group.
type route struct {
	epoch, term uint64
	leader      core.NodeID // core.None: unknown
	members     []core.Peer
}

// Intervals. Pings and beats come every Config.Ping.
const (
	// leaseBeats is how many periods after a beat was sent its
	// acknowledgement counts, electBeats after how many periods without a
	// beat a member looks for another leader. The difference is what message
	// delays may take of a lease.
	leaseBeats = 2.0
	electBeats = 2.5
	// rankWait staggers the members' elections, in periods.
	rankWait = 0.2
	// answerWait is how long a Bully election waits for better members.
	answerWait = 0.3
	// repeat is the pace of repetitions within the protocols of a group.
	repeat = 0.25
	// giveUp is how long a migration may take before its record.
	giveUp = 8.0
	// repeatMost bounds the backing off of requests between groups, in
	// doublings.
	repeatMost = 3
)

// New returns the machine of one life of a node.
func New(cfg Config) *Machine {
	m := &Machine{
		cfg: cfg, sel: kgroup.NewSelector(cfg.Config, cfg.Seed), self: cfg.Self, smart: cfg.IsSmart(cfg.Self.ID), next: core.Never,
		rng:    core.Stream(cfg.Seed, "kgroup/"+cfg.Self.String()),
		lives:  make([]core.Incarnation, len(cfg.Places)),
		failed: make([]core.Incarnation, len(cfg.Places)),
		routes: make([]route, cfg.Groups()),
	}
	for g := range m.routes {
		m.routes[g].leader = core.None
	}
	m.watched = watched(cfg.Config)
	m.dev.init(m)
	return m
}

// periods is a multiple of the monitoring period.
func (m *Machine) periods(x float64) time.Duration { return time.Duration(x * float64(m.cfg.Ping)) }

// Deadline is the instant at which the machine wants a Tick, or core.Never.
func (m *Machine) Deadline() core.Instant { return m.next }

// Step handles one input at instant now and appends its effects to out.
func (m *Machine) Step(now core.Instant, in Input, out *Effects) {
	m.now, m.out = now, out
	switch in := in.(type) {
	case Start:
		m.start(in)
	case Begin:
		m.begin(in.Epoch)
	case Receive:
		m.receive(in.From, in.Msg)
	case MemberUp:
		m.memberUp(in.Peer)
	case MemberDown:
		m.memberDown(in.Peer)
	case Renamed:
		m.self = in.Self
		m.lives[m.self.ID] = m.self.Inc
	case Trigger:
		m.byHand(in.Routine)
	case Tick:
		m.tick()
	}
	for len(m.local) > 0 {
		msg := m.local[0]
		m.local = m.local[1:]
		m.receive(m.self, msg)
	}
	m.next = m.deadline()
	m.out = nil
}

func (m *Machine) start(in Start) {
	m.first = in.First
	m.lives[m.self.ID] = m.self.Inc
	if m.smart {
		m.list = append(m.list, m.self.ID)
	}
	for _, p := range in.Members {
		m.memberUp(p)
	}
	m.dev.start(m)
}

func (m *Machine) memberUp(p core.Peer) {
	if int(p.ID) >= len(m.lives) {
		return
	}
	m.heard(p)
	if at, found := slices.BinarySearch(m.list, p.ID); !found && m.cfg.IsSmart(p.ID) {
		m.list = slices.Insert(m.list, at, p.ID)
	}
}

func (m *Machine) memberDown(p core.Peer) {
	if at, found := slices.BinarySearch(m.list, p.ID); found && p.ID != m.self.ID && m.lives[p.ID] <= p.Inc {
		m.list = slices.Delete(m.list, at, at+1)
	}
}

// heard notes a life of a peer.
func (m *Machine) heard(p core.Peer) {
	m.lives[p.ID] = max(m.lives[p.ID], p.Inc)
}

// alive reports whether a member of a group may still answer: it was not
// reported failed and has not been started again since, without its memory.
func (m *Machine) alive(p core.Peer) bool {
	return m.lives[p.ID].Start() <= p.Inc.Start() && m.failed[p.ID] < p.Inc
}

// candidates is the membership list less what leaders reported as failed.
func (m *Machine) candidates() []core.NodeID {
	list := make([]core.NodeID, 0, len(m.list))
	for _, id := range m.list {
		if id == m.self.ID || m.failed[id] == 0 || m.failed[id] < m.lives[id] {
			list = append(list, id)
		}
	}
	return list
}

// choose computes the members of a group by the node's own list.
func (m *Machine) choose(g kgroup.Group, epoch uint64) []core.Peer {
	ids := m.sel.Members(g, epoch, m.candidates(), nil)
	peers := make([]core.Peer, len(ids))
	for i, id := range ids {
		peers[i] = core.Peer{ID: id, Inc: max(m.lives[id], core.FirstIncarnation)}
	}
	return peers
}

// sameLife reports whether two incarnations are of one process.
func sameLife(a, b core.Peer) bool { return a.ID == b.ID && a.Inc.Start() == b.Inc.Start() }

func indexOf(members []core.Peer, p core.Peer) int {
	return slices.IndexFunc(members, func(o core.Peer) bool { return sameLife(o, p) })
}

func (m *Machine) begin(epoch core.Instant) {
	if m.began {
		return
	}
	m.began, m.epoch = true, epoch
	if !m.smart {
		return
	}
	m.clock = m.clockEpoch()
	if !m.first {
		return
	}
	for g := range m.routes {
		members := m.choose(kgroup.Group(g), 1)
		m.routes[g] = route{epoch: 1, leader: core.None, members: members}
		if indexOf(members, m.self) >= 0 {
			m.form(kgroup.Group(g), 1, members, nil, core.Peer{})
		}
	}
}

func (m *Machine) send(to core.NodeID, msg *wire.Group) {
	if to == m.self.ID {
		m.local = append(m.local, msg)
		return
	}
	m.out.Sends = append(m.out.Sends, core.Send{To: to, Msg: msg, Mode: core.Datagram})
}

func (m *Machine) log(kind eventlog.Kind, state string, g eventlog.Group) {
	m.out.Lines = append(m.out.Lines, eventlog.Event{Kind: kind, State: state, KG: &g})
}

func (m *Machine) note(text string) {
	m.out.Lines = append(m.out.Lines, eventlog.Event{Kind: eventlog.Note, Text: text})
}

// replica returns the node's replica of a group in an epoch, nil: none.
func (m *Machine) replica(g kgroup.Group, epoch uint64) *replica {
	at, found := slices.BinarySearchFunc(m.replicas, [2]uint64{uint64(g), epoch}, func(r *replica, key [2]uint64) int {
		return cmp.Or(cmp.Compare(uint64(r.group), key[0]), cmp.Compare(r.epoch, key[1]))
	})
	if !found {
		return nil
	}
	return m.replicas[at]
}

// leading returns the node's replica that serves a group, nil: none.
func (m *Machine) leading(g kgroup.Group) *replica {
	for _, r := range m.replicas {
		if r.group == g && r.stage == leading {
			return r
		}
	}
	return nil
}

func (m *Machine) drop(r *replica) {
	m.replicas = slices.DeleteFunc(m.replicas, func(o *replica) bool { return o == r })
}

// receive handles one message. Messages to a group whose leader the node is
// not are answered with what it knows of that leader.
func (m *Machine) receive(from core.Peer, msg *wire.Group) {
	if int(from.ID) >= len(m.lives) || msg.Group < 0 || int(msg.Group) >= len(m.routes) || int(msg.Device) >= len(m.lives) ||
		int(msg.Routine) > len(m.cfg.Routines) {
		return
	}
	m.heard(from)
	if m.failed[from.ID] <= from.Inc {
		m.failed[from.ID] = 0 // it speaks
	}
	switch msg.Type {
	case wire.KindGroupDevicePing, wire.KindGroupExecute:
		m.dev.receive(m, from, msg)
		return
	}
	if !m.smart {
		return
	}
	switch msg.Type {
	case wire.KindGroupDevicePong, wire.KindGroupExecuted, wire.KindGroupLock, wire.KindGroupUnlock, wire.KindGroupCommand,
		wire.KindGroupLockAnswer, wire.KindGroupUnlocked, wire.KindGroupDone, wire.KindGroupDeviceState, wire.KindGroupTrigger:
		m.serve(from, msg)
	case wire.KindGroupRedirect:
		m.redirected(msg)
	case wire.KindGroupTriggered:
		m.triggered(msg)
	case wire.KindGroupDeviceFailed:
		switch id := msg.Device; {
		case id == core.None || id == m.self.ID:
		case msg.Code == codeFailed:
			m.failed[id] = max(m.failed[id], msg.Leader.Inc)
		case m.failed[id] <= msg.Leader.Inc:
			m.failed[id] = 0
		}
	default:
		m.internal(from, msg)
	}
}

// serve hands a request of another group to the leader.
func (m *Machine) serve(from core.Peer, msg *wire.Group) {
	r := m.leading(msg.Group)
	if r == nil {
		if msg.Type != wire.KindGroupDevicePong && msg.Type != wire.KindGroupExecuted {
			m.redirect(from, msg.Group)
		}
		return
	}
	l := r.lead
	if msg.Type != wire.KindGroupDevicePong && !r.leased(m) {
		return // its sender repeats it
	}
	switch msg.Type {
	case wire.KindGroupDevicePong:
		l.pong(m, r, from, msg)
	case wire.KindGroupExecuted:
		l.executed(m, msg)
	case wire.KindGroupLock:
		l.lock(m, r, from, msg)
	case wire.KindGroupUnlock:
		l.unlock(m, r, from, msg)
	case wire.KindGroupCommand:
		l.command(m, r, from, msg)
	case wire.KindGroupLockAnswer:
		l.lockAnswer(m, r, msg)
	case wire.KindGroupUnlocked:
		l.unlocked(m, r, msg)
	case wire.KindGroupDone:
		l.done(m, r, msg)
	case wire.KindGroupDeviceState:
		l.deviceState(m, r, msg)
	case wire.KindGroupTrigger:
		l.triggerByHand(m, r, from, msg)
	}
}

// redirect tells a peer who leads a group, where that is known.
func (m *Machine) redirect(to core.Peer, g kgroup.Group) {
	rt := &m.routes[g]
	if rt.epoch == 0 || to.ID == m.self.ID || rt.leader == core.None && len(rt.members) == 0 {
		return
	}
	msg := &wire.Group{Type: wire.KindGroupRedirect, Group: g, Epoch: rt.epoch, Term: rt.term, Device: rt.leader, Members: rt.members}
	m.send(to.ID, msg)
}

func (m *Machine) redirected(msg *wire.Group) {
	m.learn(msg.Group, msg.Epoch, msg.Term, msg.Device, msg.Members)
}

// learn takes in who leads a group, where that is news. Requests that wait
// for the group are repeated at once.
func (m *Machine) learn(g kgroup.Group, epoch, term uint64, leader core.NodeID, members []core.Peer) {
	rt := &m.routes[g]
	if epoch < rt.epoch || epoch == rt.epoch && term < rt.term || epoch == rt.epoch && term == rt.term && rt.leader != core.None {
		return
	}
	if len(members) == 0 && epoch == rt.epoch {
		members = rt.members
	}
	*rt = route{epoch, term, leader, members}
	if leader == core.None {
		return
	}
	for _, r := range slices.Clone(m.replicas) {
		switch {
		case r.group == g && r.epoch < epoch:
			m.supersede(r, epoch, term, leader, members)
		case r.group == g && r.epoch == epoch:
		case r.prevLeader.ID != leader && r.group == g && r.prevEpoch == epoch && (r.stage == fetching || r.stage == recording):
			r.follow(m, leader)
		case r.stage == leading:
			r.lead.hurry(m, g)
		}
	}
}

// target is whom to ask for the leader of a group at the n-th try: who led
// last, then its members, then the members that the node computes for this
// and the next epochs, then anybody.
func (m *Machine) target(g kgroup.Group, try int) core.NodeID {
	if m.leading(g) != nil {
		return m.self.ID
	}
	rt := &m.routes[g]
	if m.cfg.Paper && rt.epoch < m.clockEpoch() {
		members := m.choose(g, m.clockEpoch())
		if len(members) > 0 {
			return members[try%len(members)].ID
		}
	}
	if rt.leader != core.None && try%3 == 0 {
		return rt.leader
	}
	var ids []core.NodeID
	for _, p := range rt.members {
		if m.alive(p) {
			ids = append(ids, p.ID)
		}
	}
	epoch := max(rt.epoch, 1)
	if try > len(ids) {
		for _, p := range m.choose(g, epoch) {
			ids = append(ids, p.ID)
		}
		for _, p := range m.choose(g, epoch+1) {
			ids = append(ids, p.ID)
		}
		if list := m.candidates(); try > 3*m.cfg.K() && len(list) > 0 {
			ids = append(ids[:0], list[m.rng.IntN(len(list))])
		}
	}
	if len(ids) == 0 {
		if ids = m.candidates(); len(ids) == 0 {
			return m.self.ID
		}
	}
	return ids[try%len(ids)]
}

// clockEpoch is the epoch by the clock (Paper).
func (m *Machine) clockEpoch() uint64 {
	if m.cfg.Epoch == 0 || m.now < m.epoch {
		return 1
	}
	return 1 + uint64(m.now.Sub(m.epoch)/m.cfg.Epoch)
}

func (m *Machine) tick() {
	m.dev.tick(m)
	if !m.smart || !m.began {
		return
	}
	if m.cfg.Paper {
		m.byClock()
	}
	for _, r := range slices.Clone(m.replicas) {
		r.tick(m)
	}
	m.repeatByHand()
}

// byClock forms the groups of a new epoch by the node's own list.
func (m *Machine) byClock() {
	e := m.clockEpoch()
	if e <= m.clock {
		return
	}
	m.clock = e
	for g := range m.routes {
		members := m.choose(kgroup.Group(g), e)
		if indexOf(members, m.self) < 0 {
			continue
		}
		prev := m.routes[g].members
		leader := core.Peer{}
		if rt := &m.routes[g]; rt.epoch != e-1 || len(prev) == 0 {
			prev = m.choose(kgroup.Group(g), e-1)
		} else if i := slices.IndexFunc(prev, func(p core.Peer) bool { return p.ID == rt.leader }); i >= 0 {
			leader = prev[i]
		}
		if leader.Inc == 0 && len(prev) > 0 {
			leader = prev[0]
		}
		r := m.form(kgroup.Group(g), e, members, prev, leader)
		r.prevEpoch = e - 1
	}
}

func (m *Machine) deadline() core.Instant {
	d := m.dev.deadline()
	if !m.smart || !m.began {
		return d
	}
	if m.cfg.Paper && m.cfg.Epoch > 0 {
		d = min(d, m.epoch.Add(time.Duration(m.clock)*m.cfg.Epoch))
	}
	for _, r := range m.replicas {
		d = min(d, r.deadline(m))
	}
	for i := range m.hand {
		d = min(d, m.hand[i].at)
	}
	return d
}
