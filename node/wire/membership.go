package wire

import (
	"encoding/binary"
	"fmt"

	"churnbed/node/core"
)

// Membership messages: kinds 1 to 31. PING to LEAVE are Medley's
// (node/membership/medley), HELLO is the static list's.
const (
	KindPing        byte = 1
	KindAck         byte = 2
	KindIndPing     byte = 3
	KindIndPingAck  byte = 4
	KindReportAlive byte = 5
	KindJoin        byte = 6
	KindJoinAck     byte = 7
	KindUnlucky     byte = 8
	KindLeave       byte = 9
	KindHello       byte = 10
)

// MemberState is the state of a peer as an Entry tells it.
type MemberState uint8

const (
	MemberActive    MemberState = iota
	MemberSuspected             // may be dead; still listed
	MemberFailed                // declared dead: off the list
	MemberJoin                  // active, and new in this life
	MemberLeft                  // gone by its own will: off the list
	numMemberStates = 5
)

var memberStateNames = [numMemberStates]string{"ACTIVE", "SUSPECTED", "FAILED", "JOIN", "LEFT"}

func (s MemberState) String() string {
	if int(s) < len(memberStateNames) {
		return memberStateNames[s]
	}
	return fmt.Sprintf("STATE(%d)", uint8(s))
}

// Entry is one line of a membership table.
//
// What the publication calls a node's incarnation is the pair (Inc, Count),
// compared lexicographically. Inc changes only when a process restarts or a
// node declared failed comes back; Count, the refutation counter, is raised
// by a node that refutes a mere suspicion and starts at 0 in every life. The
// two are apart because the mutual-exclusion layer drops what an older
// incarnation granted: a refutation loses no state and must not look like a
// restart.
//
//	uvarint  id
//	uvarint  incarnation
//	uvarint  count << 3 | state
//
// State is one of the five above; EntryMax bounds the encoded length.
type Entry struct {
	ID    core.NodeID
	Inc   core.Incarnation
	Count uint32
	State MemberState
}

// EntryMax is the longest encoding of an Entry in bytes: 3 for an id below
// core.MaxNodes, 5 for an incarnation, 5 for a 35-bit integer.
const EntryMax = 13

// Peer returns the node and life that e is about.
func (e Entry) Peer() core.Peer { return core.Peer{ID: e.ID, Inc: e.Inc} }

func (e Entry) String() string {
	return fmt.Sprintf("%d.%d+%d:%s", e.ID, e.Inc, e.Count, e.State)
}

// Append appends the encoded entry.
func (e Entry) Append(b []byte) []byte {
	return binary.AppendUvarint(AppendPeer(b, e.Peer()), uint64(e.Count)<<3|uint64(e.State))
}

// Len returns the length of the encoded entry in bytes.
func (e Entry) Len() int {
	return uvarintLen(uint64(e.ID)) + uvarintLen(uint64(e.Inc)) + uvarintLen(uint64(e.Count)<<3|uint64(e.State))
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

func (r *Reader) count32() uint32 { return uint32(r.Max(1<<32-1, "refutation counter")) }

func (r *Reader) entry() Entry {
	e := Entry{ID: r.Node(), Inc: r.Inc()}
	v := r.Max(1<<35-1, "refutation counter")
	if v&7 >= numMemberStates {
		r.fail("member state")
	}
	e.Count, e.State = uint32(v>>3), MemberState(v&7)
	return e
}

func appendEntries(b []byte, list []Entry) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, e := range list {
		b = e.Append(b)
	}
	return b
}

func (r *Reader) entries() []Entry {
	n := r.Count(3)
	if n == 0 {
		return nil
	}
	list := make([]Entry, n)
	for i := range list {
		list[i] = r.entry()
	}
	return list
}

// Ping asks a member for a sign of life. Count, here and below, is the
// sender's own refutation counter, so that every message is first-hand
// evidence of (incarnation, counter).
//
//	uvarint  number of the ping, counted by the sender
//	uvarint  count
type Ping struct {
	Seq   uint64
	Count uint32
}

// Ack answers a Ping with the whole change table of the sender.
//
//	uvarint  number of the ping
//	uvarint  count
//	entries  change table, newest first: uvarint length, then each Entry
type Ack struct {
	Seq   uint64
	Count uint32
	Table []Entry
}

// IndPing asks a helper to ping Target on the sender's behalf.
//
//	uvarint  number of the ping that was not answered
//	uvarint  count
//	uvarint  target id
//	entries  change table
type IndPing struct {
	Seq    uint64
	Count  uint32
	Target core.NodeID
	Table  []Entry
}

// IndPingAck tells that the helper heard Target answer. Alive names the life
// and the counter of the target as the helper heard them.
//
//	uvarint  number of the ping that was not answered
//	uvarint  count
//	entry    the target, ACTIVE
//	entries  change table of the helper
type IndPingAck struct {
	Seq   uint64
	Count uint32
	Alive Entry
	Table []Entry
}

// ReportAlive tells at once that the sender lives in this incarnation and
// counter; it also carries the news that somebody is suspected or declared
// failed to that very node.
//
//	uvarint  count
//	entries  change table
type ReportAlive struct {
	Count uint32
	Table []Entry
}

// Join asks a member for its list, from id From on, and announces the sender.
// A lost part is asked for again by its first id.
//
//	uvarint  number of the join request, counted by the sender
//	uvarint  count
//	uvarint  first id wanted
type Join struct {
	Seq   uint64
	Count uint32
	From  core.NodeID
}

// JoinAck is one part of a member list: all members with ids First..Next-1.
// Parts are ranges of ids, so that each stands for itself whatever happens to
// the list between two of them. A Next of core.MaxNodes marks the last part.
//
//	uvarint  number of the join request
//	uvarint  count
//	uvarint  first id covered
//	uvarint  ids covered: next - first, at least 1
//	entries  the members in that range, ascending
type JoinAck struct {
	Seq         uint64
	Count       uint32
	First, Next core.NodeID
	List        []Entry
}

// JoinAckHead is the longest encoding of a JoinAck without its entries, the
// length of the list included, in bytes: 10 + 5 + 3 + 3 + 3.
const JoinAckHead = 24

// Unlucky tells the one-hop neighbours that the sender is pinged too rarely.
//
//	uvarint  count
type Unlucky struct{ Count uint32 }

// Leave tells that the sender leaves for good in this life. It is empty.
type Leave struct{}

// Hello announces the sender's new incarnation to a member of a static list.
// It is empty: the frame's head says it all.
type Hello struct{}

// Kind implements core.Message.
func (*Ping) Kind() byte { return KindPing }

// Kind implements core.Message.
func (*Ack) Kind() byte { return KindAck }

// Kind implements core.Message.
func (*IndPing) Kind() byte { return KindIndPing }

// Kind implements core.Message.
func (*IndPingAck) Kind() byte { return KindIndPingAck }

// Kind implements core.Message.
func (*ReportAlive) Kind() byte { return KindReportAlive }

// Kind implements core.Message.
func (*Join) Kind() byte { return KindJoin }

// Kind implements core.Message.
func (*JoinAck) Kind() byte { return KindJoinAck }

// Kind implements core.Message.
func (*Unlucky) Kind() byte { return KindUnlucky }

// Kind implements core.Message.
func (*Leave) Kind() byte { return KindLeave }

// Kind implements core.Message.
func (*Hello) Kind() byte { return KindHello }

// AppendPayload implements core.Message.
func (m *Ping) AppendPayload(b []byte) []byte { return appendHead(b, m.Seq, m.Count) }

// AppendPayload implements core.Message.
func (m *Ack) AppendPayload(b []byte) []byte {
	return appendEntries(appendHead(b, m.Seq, m.Count), m.Table)
}

// AppendPayload implements core.Message.
func (m *IndPing) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(appendHead(b, m.Seq, m.Count), uint64(m.Target))
	return appendEntries(b, m.Table)
}

// AppendPayload implements core.Message.
func (m *IndPingAck) AppendPayload(b []byte) []byte {
	return appendEntries(m.Alive.Append(appendHead(b, m.Seq, m.Count)), m.Table)
}

// AppendPayload implements core.Message.
func (m *ReportAlive) AppendPayload(b []byte) []byte {
	return appendEntries(binary.AppendUvarint(b, uint64(m.Count)), m.Table)
}

// AppendPayload implements core.Message.
func (m *Join) AppendPayload(b []byte) []byte {
	return binary.AppendUvarint(appendHead(b, m.Seq, m.Count), uint64(m.From))
}

// AppendPayload implements core.Message.
func (m *JoinAck) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(appendHead(b, m.Seq, m.Count), uint64(m.First))
	b = binary.AppendUvarint(b, uint64(m.Next-m.First))
	return appendEntries(b, m.List)
}

// AppendPayload implements core.Message.
func (m *Unlucky) AppendPayload(b []byte) []byte {
	return binary.AppendUvarint(b, uint64(m.Count))
}

// AppendPayload implements core.Message.
func (*Leave) AppendPayload(b []byte) []byte { return b }

// AppendPayload implements core.Message.
func (*Hello) AppendPayload(b []byte) []byte { return b }

func appendHead(b []byte, seq uint64, count uint32) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, seq), uint64(count))
}

func decodeJoinAck(r *Reader) core.Message {
	m := &JoinAck{Seq: r.Uvarint(), Count: r.count32(), First: r.Node()}
	n := r.Max(uint64(core.MaxNodes-m.First), "id range")
	if r.err == nil && n == 0 {
		r.fail("empty id range")
	}
	m.Next = m.First + core.NodeID(n)
	m.List = r.entries()
	for _, e := range m.List {
		if e.ID < m.First || e.ID >= m.Next {
			r.fail("member outside its id range")
		}
	}
	return m
}

var membershipKinds = []kind{
	{KindPing, "PING", ClassMembership, func(r *Reader) core.Message {
		return &Ping{Seq: r.Uvarint(), Count: r.count32()}
	}},
	{KindAck, "ACK", ClassMembership, func(r *Reader) core.Message {
		return &Ack{Seq: r.Uvarint(), Count: r.count32(), Table: r.entries()}
	}},
	{KindIndPing, "IND_PING", ClassMembership, func(r *Reader) core.Message {
		return &IndPing{Seq: r.Uvarint(), Count: r.count32(), Target: r.Node(), Table: r.entries()}
	}},
	{KindIndPingAck, "IND_PING_ACK", ClassMembership, func(r *Reader) core.Message {
		return &IndPingAck{Seq: r.Uvarint(), Count: r.count32(), Alive: r.entry(), Table: r.entries()}
	}},
	{KindReportAlive, "REPORT_ALIVE", ClassMembership, func(r *Reader) core.Message {
		return &ReportAlive{Count: r.count32(), Table: r.entries()}
	}},
	{KindJoin, "JOIN", ClassMembership, func(r *Reader) core.Message {
		return &Join{Seq: r.Uvarint(), Count: r.count32(), From: r.Node()}
	}},
	{KindJoinAck, "JOIN_ACK", ClassMembership, decodeJoinAck},
	{KindUnlucky, "UNLUCKY", ClassMembership, func(r *Reader) core.Message {
		return &Unlucky{Count: r.count32()}
	}},
	{KindLeave, "LEAVE", ClassMembership, func(*Reader) core.Message { return &Leave{} }},
	{KindHello, "HELLO", ClassMembership, func(*Reader) core.Message { return &Hello{} }},
}
