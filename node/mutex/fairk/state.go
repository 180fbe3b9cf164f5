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

// readRequest reads a request or none.
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

// append appends the state of the id as copies carry it.
func (h *hosted) append(b []byte) []byte {
	b = h.m.append(b)
	b = binary.AppendUvarint(b, h.out)
	b = binary.AppendUvarint(b, uint64(len(h.parcels)))
	for _, p := range h.parcels {
		b = binary.AppendUvarint(binary.AppendUvarint(b, p.n), uint64(p.to))
		b = binary.AppendUvarint(b, uint64(len(wire.AppendTokenMessage(nil, p.msg))))
		b = wire.AppendTokenMessage(b, p.msg)
	}
	n := 0
	for _, w := range h.waiting {
		n += len(w.facts)
	}
	b = binary.AppendUvarint(b, uint64(n))
	for _, w := range h.waiting {
		for _, f := range w.facts {
			b = binary.AppendUvarint(append(b, byte(f.What)), uint64(f.Slot))
			b = requests.AppendRequest(binary.AppendUvarint(b, f.Order), f.For)
		}
	}
	return b
}

// readHosted reads what append wrote. The facts that its host may not have
// told of wait.
func readHosted(id core.NodeID, state []byte) (*hosted, error) {
	r := wire.NewReader(state)
	h := &hosted{m: readMember(id, r)}
	h.out = r.Uvarint()
	for range r.Count(4) {
		p := parcel{n: r.Uvarint(), to: r.Node()}
		inner := wire.NewReader(r.Bytes(r.Count(1)))
		p.msg = wire.ReadTokenMessage(inner)
		switch {
		case inner.Err() != nil:
			return nil, inner.Err()
		case inner.Len() > 0:
			r.Fail("parcel")
		}
		if r.Err() != nil {
			break
		}
		h.parcels = append(h.parcels, p)
	}
	var w waiting
	for range r.Count(6) {
		f := mutex.Fact{What: mutex.FactKind(r.Byte()), Slot: int(r.Max(wire.MaxTokens-1, "token")), Order: r.Uvarint(), For: readRequest(r), Again: true}
		if f.What > mutex.Promised {
			r.Fail("fact")
		}
		w.facts = append(w.facts, f)
	}
	if len(w.facts) > 0 {
		h.waiting = append(h.waiting, w)
	}
	if r.Err() == nil && r.Len() > 0 {
		r.Fail("trailing bytes")
	}
	return h, r.Err()
}
