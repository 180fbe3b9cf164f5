package fairk

import (
	"encoding/binary"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// append appends a canonical encoding, which readMember reads.
func (m *member) append(b []byte) []byte {
	flags := byte(m.st)
	if m.token {
		flags |= 4
	}
	if m.lead {
		flags |= 8
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, m.clk)
	b = binary.AppendVarint(b, int64(m.parent))
	for _, r := range []core.RequestID{m.cur, m.next, m.anchor, m.child, m.ledFor} {
		b = requests.AppendRequest(b, r)
	}
	b = binary.AppendUvarint(b, uint64(m.slot))
	b = binary.AppendUvarint(b, m.order)
	b = requests.ByNode(m.slots).AppendState(b)
	return m.seen.AppendState(b)
}

// readMember reads what append wrote, of the id.
func readMember(id core.NodeID, r *wire.Reader) (m member) {
	m.id = id
	flags := r.Byte()
	m.st, m.token, m.lead = mutex.State(flags&3), flags&4 != 0, flags&8 != 0
	if m.st > mutex.Held || flags > 15 {
		r.Fail("member state")
		m.st = mutex.None
	}
	m.clk = r.Uvarint()
	m.parent = core.NodeID(r.Varint())
	for _, at := range []*core.RequestID{&m.cur, &m.next, &m.anchor, &m.child, &m.ledFor} {
		*at = readRequest(r)
	}
	m.slot = int(r.Max(wire.MaxTokens-1, "token"))
	m.order = r.Uvarint()
	m.slots = readRequests(r)
	m.seen = readWalks(r)
	if m.parent < core.None || m.parent >= core.MaxNodes || m.lead && len(m.slots) == 0 {
		r.Fail("member")
	}
	return m
}

func readRequest(r *wire.Reader) core.RequestID {
	q := core.RequestID{Node: core.NodeID(r.Varint()), Inc: r.Inc(), TS: r.Uvarint()}
	if q.Node < 0 || q.Node >= core.MaxNodes {
		r.Fail("node id")
	}
	return q
}

func readRequests(r *wire.Reader) []core.RequestID {
	var list []core.RequestID
	for range r.Count(3) {
		list = append(list, readRequest(r))
	}
	return list
}

func readWalks(r *wire.Reader) []requests.Walk {
	var list []requests.Walk
	for range r.Count(4) {
		list = append(list, requests.Walk{Request: readRequest(r), Hop: r.Uvarint()})
	}
	return list
}
