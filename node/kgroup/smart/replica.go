package smart

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/kgroup"
	"churnbed/node/wire"
)

// stage is what a replica does.
type stage uint8

const (
	following  stage = iota
	asking           // Bully: better members were asked whether they live
	preparing        // gathers promises
	reading          // reads the members' entries
	fetching         // reads the previous group's frozen state
	installing       // writes it to a quorum of its own
	recording        // waits for the previous group's record
	activating       // writes that the group serves
	leading
	migrating // leads a group that stopped serving
)

// replica is a group of an epoch at one of its members.
type replica struct {
	group   kgroup.Group
	epoch   uint64
	members []core.Peer // by rank
	me      int         // its index among them
	// The group before, empty for the first one, and who leads or led that.
	prev       []core.Peer
	prevLeader core.Peer
	prevEpoch  uint64

	promised uint64    // highest term promised
	leader   core.Peer // to whom
	heard    core.Instant
	electAt  core.Instant
	entries  []wire.Item // by key

	stage stage
	lead  *lead // of the term that this node coordinates
}

// form makes the replica of a group of which the node is a member.
func (m *Machine) form(g kgroup.Group, epoch uint64, members, prev []core.Peer, prevLeader core.Peer) *replica {
	if r := m.replica(g, epoch); r != nil {
		if prevLeader.Inc != 0 {
			r.prevLeader = prevLeader
		}
		return r
	}
	r := &replica{
		group: g, epoch: epoch, members: members, me: indexOf(members, m.self), prev: prev, prevLeader: prevLeader,
		heard: -1,
	}
	r.electAt = m.now.Add(m.periods(rankWait * float64(r.me)))
	at, _ := slices.BinarySearchFunc(m.replicas, r, func(a, b *replica) int {
		if a.group != b.group {
			return int(a.group - b.group)
		}
		return int(int64(a.epoch) - int64(b.epoch))
	})
	m.replicas = slices.Insert(m.replicas, at, r)
	m.log(eventlog.KGroup, "forming", r.line())
	return r
}

func (r *replica) line() eventlog.Group {
	return eventlog.Group{Group: r.group, Epoch: r.epoch, Term: r.promised, Members: idText(r.members)}
}

func idText(members []core.Peer) string {
	var b strings.Builder
	for i, p := range members {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(int(p.ID)))
	}
	return b.String()
}

// others calls do for every member but the node itself.
func (r *replica) others(do func(i int, p core.Peer)) {
	for i, p := range r.members {
		if i != r.me {
			do(i, p)
		}
	}
}

func (r *replica) message(kind byte, term uint64) *wire.Group {
	return &wire.Group{Type: kind, Group: r.group, Epoch: r.epoch, Term: term, Device: core.None}
}

// entry finds an entry by key.
func (r *replica) entry(key uint32) (int, bool) {
	return slices.BinarySearchFunc(r.entries, key, func(e wire.Item, key uint32) int { return int(int64(e.Key) - int64(key)) })
}

// store keeps an entry unless it has a newer version.
func (r *replica) store(e wire.Item) {
	at, found := r.entry(e.Key)
	switch {
	case !found:
		r.entries = slices.Insert(r.entries, at, e)
	case r.entries[at].Version < e.Version:
		r.entries[at] = e
	}
}

// Entries of a group's state.
const (
	metaKey    uint32 = 0
	deviceBase uint32 = 1
	routBase   uint32 = 1 << 20
)

func deviceKey(id core.NodeID) uint32 { return deviceBase + uint32(id) }
func routineKey(id int) uint32        { return routBase + uint32(id) }

// digest is of the state without versions and without what belongs to the
// epoch: it is the same before and after a migration.
func (r *replica) digest() string {
	h := sha256.New()
	var b []byte
	for i := range r.entries {
		e := &r.entries[i]
		if e.Key == metaKey {
			continue
		}
		b = binary.AppendUvarint(b[:0], uint64(e.Key))
		b = binary.AppendUvarint(b, uint64(len(e.Data)))
		h.Write(append(b, e.Data...))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// page appends entries from key on to a message, as many as fit, and sets
// Seq to the key after them plus one, 0 at the end.
func (r *replica) page(from uint32, msg *wire.Group) {
	size := 120
	at, _ := r.entry(from)
	for ; at < len(r.entries); at++ {
		e := &r.entries[at]
		if size += e.Size(); size > wire.MaxPayload && len(msg.Items) > 0 {
			msg.Seq = uint64(e.Key) + 1
			return
		}
		msg.Items = append(msg.Items, *e)
	}
	msg.Seq = 0
}

// internal handles the messages of the groups' own protocols.
func (m *Machine) internal(from core.Peer, msg *wire.Group) {
	r := m.replica(msg.Group, msg.Epoch)
	switch msg.Type {
	case wire.KindGroupInvite:
		m.invited(from, msg)
		return
	case wire.KindGroupRetire:
		m.retire(from, msg)
		return
	case wire.KindGroupPrepare, wire.KindGroupBeat:
		if r == nil {
			// The invitation was lost, or the first groups form.
			if m.routes[msg.Group].epoch > msg.Epoch || len(msg.Members) == 0 || indexOf(msg.Members, m.self) < 0 {
				m.redirect(from, msg.Group)
				return
			}
			r = m.form(msg.Group, msg.Epoch, msg.Members, msg.Prev, msg.Leader)
			r.prevEpoch = msg.Ticket
		}
	case wire.KindGroupDecommission, wire.KindGroupFetch:
		if r == nil {
			m.staleAnswer(from, msg)
			return
		}
	}
	if r == nil {
		if msg.Type == wire.KindGroupElection {
			m.redirect(from, msg.Group)
		}
		return
	}
	switch msg.Type {
	case wire.KindGroupElection:
		r.election(m, from)
	case wire.KindGroupAlive:
		if r.stage == asking {
			r.stage, r.electAt = following, m.now.Add(m.periods(electBeats))
		}
	case wire.KindGroupPrepare:
		r.prepare(m, from, msg)
	case wire.KindGroupPromise:
		r.promise(m, from, msg)
	case wire.KindGroupBeat:
		r.beat(m, from, msg)
	case wire.KindGroupBeatAck:
		r.beatAck(m, from, msg)
	case wire.KindGroupFetch:
		r.fetch(m, from, msg)
	case wire.KindGroupItems:
		r.items(m, from, msg)
	case wire.KindGroupAppend:
		r.append(m, from, msg)
	case wire.KindGroupAppended:
		r.appended(m, from, msg)
	case wire.KindGroupDecommission:
		r.decommission(m, from, msg)
	case wire.KindGroupDecommissioned:
		r.decommissioned(m, msg)
	case wire.KindGroupRetired:
		if r.lead != nil {
			r.lead.retired(r, from)
		}
	}
}

// election answers a worse member's question whether the node lives.
func (r *replica) election(m *Machine, from core.Peer) {
	i := indexOf(r.members, from)
	if i < 0 || i < r.me {
		return
	}
	m.send(from.ID, r.message(wire.KindGroupAlive, r.promised))
	if r.stage == following && m.now.Sub(r.heard) > m.periods(leaseBeats) {
		r.bully(m)
	}
}

// bully asks the better members whether they live, and leads where none can.
func (r *replica) bully(m *Machine) {
	asked := false
	for _, p := range r.members[:r.me] {
		if m.alive(p) && (r.leader.Inc == 0 || !sameLife(p, r.leader)) {
			m.send(p.ID, r.message(wire.KindGroupElection, r.promised))
			asked = true
		}
	}
	if !asked {
		r.coordinate(m)
		return
	}
	r.stage, r.electAt = asking, m.now.Add(m.periods(answerWait))
}

// coordinate asks all members to promise a new term.
func (r *replica) coordinate(m *Machine) {
	term := r.promised + 1
	r.stage = preparing
	r.lead = newLead(m, r, term)
	r.prepare(m, m.self, &wire.Group{Term: term})
	r.lead.promises(m, r)
}

// lives reports whether a member must stand by its leader.
func (r *replica) lives(m *Machine) bool {
	return r.leader.Inc != 0 && r.heard >= 0 && m.now.Sub(r.heard) < m.periods(leaseBeats)
}

// prepare handles a coordinator's wish to lead a term.
func (r *replica) prepare(m *Machine, from core.Peer, msg *wire.Group) {
	if indexOf(r.members, from) < 0 {
		return
	}
	if msg.Leader.Inc != 0 && len(r.prev) > 0 {
		r.prevLeader = msg.Leader
	}
	answer := r.message(wire.KindGroupPromise, msg.Term)
	answer.Op = msg.Op
	known := msg.Term == r.promised && sameLife(from, r.leader)
	switch {
	case known:
	case msg.Term <= r.promised:
		answer.Code, answer.Seq = codeRefused, r.promised
	case from != m.self && (r.lives(m) && !sameLife(from, r.leader) || r.lead != nil && r.stage > preparing && r.leased(m)):
		answer.Code, answer.Seq = codeLives, r.promised
	default:
		if r.lead != nil && msg.Term > r.lead.term {
			r.depose(m)
		}
		r.promised, r.leader = msg.Term, from
		known = true
	}
	if known {
		answer.Code = codeOK
		answer.Seq = uint64(len(r.entries))
		if from != m.self {
			r.heard = m.now
			r.electAt = m.now.Add(m.periods(electBeats + rankWait*float64(r.me)))
		}
	}
	if from != m.self {
		m.send(from.ID, answer)
		return
	}
	r.promise(m, from, answer)
}

// depose ends what the node did as coordinator.
func (r *replica) depose(m *Machine) {
	if r.stage == leading || r.stage == migrating {
		m.log(eventlog.KGroup, "deposed", r.line())
	}
	r.stage, r.lead = following, nil
	r.electAt = m.now.Add(m.periods(electBeats + rankWait*float64(r.me)))
}

// defies reports whether a member refuses who claims to lead a term. A term
// that it learned of without having promised it to anybody is its leader's.
func (r *replica) defies(from core.Peer, term uint64) bool {
	return term < r.promised || term == r.promised && r.leader.Inc != 0 && !sameLife(from, r.leader)
}

func (r *replica) beat(m *Machine, from core.Peer, msg *wire.Group) {
	if r.defies(from, msg.Term) {
		answer := r.message(wire.KindGroupBeatAck, r.promised)
		answer.Code = codeRefused
		m.send(from.ID, answer)
		return
	}
	r.adopt(m, from, msg.Term)
	if msg.Code == codeActive {
		m.learn(r.group, r.epoch, msg.Term, from.ID, r.members)
	}
	answer := r.message(wire.KindGroupBeatAck, msg.Term)
	answer.Code, answer.Op = codeOK, msg.Op
	m.send(from.ID, answer)
}

// served reports whether the group of a replica ever served, as far as the
// replica knows.
func (r *replica) served() bool {
	at, found := r.entry(metaKey)
	return found && decodeMeta(r.entries[at].Data).active
}

// adopt follows the leader of a term.
func (r *replica) adopt(m *Machine, from core.Peer, term uint64) {
	if r.lead != nil && !sameLife(from, m.self) {
		r.depose(m)
	}
	r.promised, r.leader, r.heard = term, from, m.now
	if r.lead == nil {
		r.stage = following
	}
	r.electAt = m.now.Add(m.periods(electBeats + rankWait*float64(r.me)))
}

func (r *replica) append(m *Machine, from core.Peer, msg *wire.Group) {
	answer := r.message(wire.KindGroupAppended, msg.Term)
	answer.Op = msg.Op
	if r.defies(from, msg.Term) {
		answer.Code, answer.Seq = codeRefused, r.promised
		m.send(from.ID, answer)
		return
	}
	r.adopt(m, from, msg.Term)
	for _, e := range msg.Items {
		r.store(e)
	}
	answer.Code = codeOK
	m.send(from.ID, answer)
}

// fetch hands out a page: to the leader of the term, or to the leader of the
// group that is to follow.
func (r *replica) fetch(m *Machine, from core.Peer, msg *wire.Group) {
	answer := r.message(wire.KindGroupItems, msg.Term)
	answer.Op = msg.Op
	switch {
	case msg.Seq == 0: // within the group
		if msg.Term != r.promised || !sameLife(from, r.leader) {
			return
		}
	case m.cfg.Paper:
		if r.stage == leading {
			r.freeze(m, msg.Seq)
		}
	default:
		if r.lead == nil || r.stage != migrating || r.lead.next.epoch != msg.Seq {
			if r.stage == leading || r.stage == migrating {
				m.staleAnswer(from, msg)
			}
			return
		}
	}
	r.page(uint32(msg.Value), answer)
	answer.Epoch, answer.Value = r.epoch, msg.Value
	answer.Ticket = msg.Seq // whom it is for
	if msg.Seq != 0 {
		answer.Epoch = msg.Seq
		answer.Code = codeOK
	}
	m.send(from.ID, answer)
}

// line is a log line about a device or a routine.
func (l *lead) line(r *replica, device core.NodeID, routine int, ticket uint64, ns time.Duration) eventlog.Group {
	return eventlog.Group{
		Group: r.group, Epoch: r.epoch, Term: l.term, Device: int32(device), Routine: int32(routine), Ticket: ticket, NS: int64(ns),
	}
}

func (r *replica) tick(m *Machine) {
	switch {
	case r.stage == following && r.electAt <= m.now:
		r.bully(m)
	case r.stage == asking && r.electAt <= m.now:
		r.coordinate(m)
	}
	if r.lead != nil {
		r.lead.tick(m, r)
	}
}

func (r *replica) deadline(m *Machine) core.Instant {
	if r.lead != nil {
		return r.lead.deadline(m, r)
	}
	return r.electAt
}
