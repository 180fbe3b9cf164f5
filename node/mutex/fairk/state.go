package fairk

import (
	"encoding/binary"

	"churnbed/node/core"
	"churnbed/node/mutex/requests"
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
