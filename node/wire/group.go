package wire

import (
	"encoding/binary"
	"time"

	"churnbed/node/core"
)

// Messages of k-groups, devices and routines: kinds 128 to 159, one layout.
//
//	uvarint  which of the fields below follow, a bit each, the first one bit 0
//	         group uvarint, epoch, term, op, code byte, device+1 uvarint,
//	         routine uvarint, ticket, value zig-zag, seq, duration uvarint ns,
//	         leader peer, members (count, peers), prev (count, peers),
//	         items (count, items)
//
// A field that is zero or empty is left out. An item is key, version, length
// and as many bytes.
const (
	KindGroupDevicePing     byte = 128 // leader to device
	KindGroupDevicePong     byte = 129
	KindGroupBeat           byte = 130 // leader to member
	KindGroupBeatAck        byte = 131
	KindGroupElection       byte = 132 // Bully
	KindGroupAlive          byte = 133
	KindGroupPrepare        byte = 134 // coordinator of a term
	KindGroupPromise        byte = 135
	KindGroupFetch          byte = 136 // state, a page at a time
	KindGroupItems          byte = 137
	KindGroupAppend         byte = 138 // replication
	KindGroupAppended       byte = 139
	KindGroupInvite         byte = 140 // migration
	KindGroupDecommission   byte = 141
	KindGroupDecommissioned byte = 142
	KindGroupRetire         byte = 143
	KindGroupRetired        byte = 144
	KindGroupRedirect       byte = 145 // who leads a group
	KindGroupDeviceFailed   byte = 146
	KindGroupLock           byte = 147 // routine's leader to device's leader
	KindGroupLockAnswer     byte = 148
	KindGroupUnlock         byte = 149
	KindGroupUnlocked       byte = 150
	KindGroupCommand        byte = 151
	KindGroupDone           byte = 152
	KindGroupExecute        byte = 153 // device's leader to device
	KindGroupExecuted       byte = 154
	KindGroupDeviceState    byte = 155 // device's leader to routine's leader
	KindGroupTrigger        byte = 156 // by hand
	KindGroupTriggered      byte = 157
)

var groupNames = [...]string{
	"GROUP-DEVICE-PING", "GROUP-DEVICE-PONG", "GROUP-BEAT", "GROUP-BEAT-ACK", "GROUP-ELECTION", "GROUP-ALIVE", "GROUP-PREPARE", "GROUP-PROMISE", "GROUP-FETCH", "GROUP-ITEMS",
	"GROUP-APPEND", "GROUP-APPENDED", "GROUP-INVITE", "GROUP-DECOMMISSION", "GROUP-DECOMMISSIONED", "GROUP-RETIRE", "GROUP-RETIRED", "GROUP-REDIRECT", "GROUP-DEVICE-FAILED",
	"GROUP-LOCK", "GROUP-LOCK-ANSWER", "GROUP-UNLOCK", "GROUP-UNLOCKED", "GROUP-COMMAND", "GROUP-DONE", "GROUP-EXECUTE", "GROUP-EXECUTED", "GROUP-DEVICE-STATE", "GROUP-TRIGGER", "GROUP-TRIGGERED",
}

var groupKinds = func() []kind {
	set := make([]kind, len(groupNames))
	for i, name := range groupNames {
		id := KindGroupDevicePing + byte(i)
		set[i] = kind{id, name, ClassGroup, func(r *Reader) core.Message { return readGroup(r, id) }}
	}
	return set
}()

// Group is every message of k-groups; node/kgroup/smart says which kind uses
// which fields.
type Group struct {
	Type    byte // its kind
	Group   int32
	Epoch   uint64
	Term    uint64
	Op      uint64
	Code    byte
	Device  core.NodeID // core.None: no device
	Routine int32
	Ticket  uint64
	Value   int64
	Seq     uint64
	Takes   time.Duration
	Leader  core.Peer // zero incarnation: none
	Members []core.Peer
	Prev    []core.Peer
	Items   []Item
}

// Item is one replicated entry of a group's state.
type Item struct {
	Key     uint32
	Version uint64
	Data    []byte
}

// Size is what the item takes of a message, at most.
func (i *Item) Size() int { return 5 + 10 + 5 + len(i.Data) }

// Kind implements core.Message.
func (m *Group) Kind() byte { return m.Type }

// AppendPayload implements core.Message.
func (m *Group) AppendPayload(b []byte) []byte {
	var mask uint64
	for i, present := range [...]bool{
		m.Group != 0, m.Epoch != 0, m.Term != 0, m.Op != 0, m.Code != 0, m.Device != core.None, m.Routine != 0, m.Ticket != 0,
		m.Value != 0, m.Seq != 0, m.Takes != 0, m.Leader.Inc != 0, len(m.Members) > 0, len(m.Prev) > 0, len(m.Items) > 0,
	} {
		if present {
			mask |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, mask)
	for i, v := range [...]uint64{uint64(m.Group), m.Epoch, m.Term, m.Op} {
		if mask&(1<<i) != 0 {
			b = binary.AppendUvarint(b, v)
		}
	}
	if m.Code != 0 {
		b = append(b, m.Code)
	}
	if m.Device != core.None {
		b = binary.AppendUvarint(b, uint64(m.Device)+1)
	}
	if m.Routine != 0 {
		b = binary.AppendUvarint(b, uint64(m.Routine))
	}
	if m.Ticket != 0 {
		b = binary.AppendUvarint(b, m.Ticket)
	}
	if m.Value != 0 {
		b = binary.AppendVarint(b, m.Value)
	}
	if m.Seq != 0 {
		b = binary.AppendUvarint(b, m.Seq)
	}
	if m.Takes != 0 {
		b = binary.AppendUvarint(b, uint64(m.Takes))
	}
	if m.Leader.Inc != 0 {
		b = AppendPeer(b, m.Leader)
	}
	b = appendPeers(b, m.Members)
	b = appendPeers(b, m.Prev)
	if len(m.Items) > 0 {
		b = binary.AppendUvarint(b, uint64(len(m.Items)))
		for i := range m.Items {
			it := &m.Items[i]
			b = binary.AppendUvarint(b, uint64(it.Key))
			b = binary.AppendUvarint(b, it.Version)
			b = binary.AppendUvarint(b, uint64(len(it.Data)))
			b = append(b, it.Data...)
		}
	}
	return b
}

func appendPeers(b []byte, peers []core.Peer) []byte {
	if len(peers) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(peers)))
	for _, p := range peers {
		b = AppendPeer(b, p)
	}
	return b
}

const groupFields = 15

// readGroup reads a group message; a field that is said to follow must not be
// zero, so that every message has one form.
func readGroup(r *Reader, id byte) *Group {
	m := &Group{Type: id, Device: core.None}
	mask := r.Max(1<<groupFields-1, "fields")
	has := func(i int) bool { return mask&(1<<i) != 0 }
	number := func(i int, limit uint64) uint64 {
		if !has(i) {
			return 0
		}
		v := r.Max(limit, "field")
		if r.err == nil && v == 0 {
			r.fail("field 0")
		}
		return v
	}
	const any64 = 1<<64 - 1
	m.Group = int32(number(0, 1<<31-1))
	m.Epoch, m.Term, m.Op = number(1, any64), number(2, any64), number(3, any64)
	if has(4) {
		if m.Code = r.Byte(); r.err == nil && m.Code == 0 {
			r.fail("code 0")
		}
	}
	if has(5) {
		m.Device = core.NodeID(number(5, core.MaxNodes)) - 1
	}
	m.Routine = int32(number(6, 1<<31-1))
	m.Ticket = number(7, any64)
	if has(8) {
		if m.Value = r.Varint(); r.err == nil && m.Value == 0 {
			r.fail("value 0")
		}
	}
	m.Seq = number(9, any64)
	m.Takes = time.Duration(number(10, 1<<63-1))
	if has(11) {
		if m.Leader = r.Peer(); r.err == nil && m.Leader.Inc == 0 {
			r.fail("incarnation 0")
		}
	}
	m.Members, m.Prev = readPeers(r, has(12)), readPeers(r, has(13))
	if has(14) {
		n := r.Count(3)
		if r.err == nil && n == 0 {
			r.fail("no items")
		}
		for range n {
			it := Item{Key: uint32(r.Max(1<<32-1, "key")), Version: r.Uvarint()}
			it.Data = r.Bytes(r.Count(1))
			if r.err != nil {
				break
			}
			m.Items = append(m.Items, it)
		}
	}
	return m
}

func readPeers(r *Reader, present bool) []core.Peer {
	if !present {
		return nil
	}
	n := r.Count(2)
	if r.err == nil && n == 0 {
		r.fail("no peers")
	}
	peers := make([]core.Peer, 0, n)
	for range n {
		peers = append(peers, r.Peer())
	}
	return peers
}

// Bytes reads n bytes, which it copies.
func (r *Reader) Bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.b)-r.off {
		r.fail("short")
		return nil
	}
	r.off += n
	return append([]byte(nil), r.b[r.off-n:r.off]...)
}
