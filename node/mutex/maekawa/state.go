package maekawa

import (
	"encoding/binary"

	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
)

// AppendState implements mutex.Machine.
func (m *Machine) AppendState(b []byte) []byte {
	b = append(b, byte(m.st))
	b = binary.AppendUvarint(b, uint64(m.self.Inc))
	b = binary.AppendUvarint(b, m.clk)
	b = requests.AppendRequest(b, m.cur)
	b = requests.AppendRequest(b, m.last)
	b = m.memlist.AppendState(b)
	b = m.owed.AppendState(b)
	if m.st != mutex.None {
		b = binary.AppendUvarint(b, uint64(len(m.voters)))
		for _, v := range m.voters {
			b = binary.AppendVarint(b, int64(v.id))
			b = binary.AppendUvarint(b, uint64(v.inc))
			b = append(b, byte(v.word), flags(v.inquired, v.down))
			b = binary.AppendUvarint(b, v.round)
		}
	}
	b = m.locked.append(b)
	b = append(b, flags(m.inquired))
	b = binary.AppendUvarint(b, uint64(len(m.queue)))
	for _, c := range m.queue {
		b = c.append(b)
	}
	b = m.over.AppendState(b)
	return m.gone.AppendState(b)
}

func (c claim) append(b []byte) []byte {
	b = requests.AppendRequest(b, c.req)
	b = binary.AppendUvarint(b, c.round)
	return append(b, flags(c.told))
}

func flags(bits ...bool) byte {
	var f byte
	for i, on := range bits {
		if on {
			f |= 1 << i
		}
	}
	return f
}
