package wire

import (
	"encoding/binary"

	"churnbed/node/core"
)

// Flooded messages: kind 120.
//
//	FLOOD      uvarint sequence (not 0), via node, byte kind, the message
//
// The frame's sender is the node that began the flood, and so is its
// destination: a frame to its own sender is for everyone. Only messages of
// mutual exclusion travel so, hence the class at its fixed place is theirs.
const KindFlood byte = 120

var floodKinds = []kind{
	{KindFlood, "FLOOD", ClassMutex, func(r *Reader) core.Message { return readFlood(r) }},
}

// Flood carries a message to every node of the mesh, hop by hop: each node
// that sees it first sends it on to its other neighbours (simplified multicast
// forwarding, RFC 6621, with sequence-based duplicate detection).
type Flood struct {
	Seq uint64      // counts the floods of the process that began it, from 1
	Via core.NodeID // whose transmission this is
	Msg core.Message
}

// Kind implements core.Message.
func (*Flood) Kind() byte { return KindFlood }

// AppendPayload implements core.Message.
func (m *Flood) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(b, m.Seq)
	b = binary.AppendUvarint(b, uint64(m.Via))
	return m.Msg.AppendPayload(append(b, m.Msg.Kind()))
}

func readFlood(r *Reader) *Flood {
	m := &Flood{Seq: r.Uvarint(), Via: r.Node()}
	if r.err == nil && m.Seq == 0 {
		r.fail("flood 0")
	}
	k := r.Byte()
	for i := range mutexKinds {
		if d := &mutexKinds[i]; d.id == k && r.err == nil {
			m.Msg = d.decode(r)
		}
	}
	if r.err == nil && m.Msg == nil {
		r.fail("flooded kind")
	}
	return m
}
