package camera

import (
	"encoding/binary"

	"churnbed/node/mutex/requests"
)

// AppendState implements mutex.Machine.
func (m *Machine) AppendState(b []byte) []byte {
	b = append(b, byte(m.st))
	b = binary.AppendUvarint(b, uint64(m.self.Inc))
	b = binary.AppendUvarint(b, m.clk)
	b = requests.AppendRequest(b, m.cur)
	for k := range m.peers {
		p := &m.peers[k]
		if *p == (peer{}) {
			continue // the same as no entry
		}
		b = binary.AppendUvarint(b, uint64(k)+1)
		var flags byte
		for i, f := range [...]bool{p.listed, p.asked, p.pending, p.granted, p.gone} {
			if f {
				flags |= 1 << i
			}
		}
		b = append(b, flags)
		b = binary.AppendUvarint(b, uint64(p.life))
		b = binary.AppendUvarint(b, p.newsAt)
		b = binary.AppendUvarint(b, p.told)
		b = binary.AppendUvarint(b, p.heard)
		b = binary.AppendUvarint(b, uint64(p.heardInc))
		b = requests.AppendRequest(b, p.done)
	}
	b = append(b, 0)
	b = m.rec.AppendState(b)
	b = m.def.AppendState(b)
	b = binary.AppendUvarint(b, uint64(m.nGrants))
	b = binary.AppendUvarint(b, uint64(len(m.down)))
	for _, f := range m.down {
		b = binary.AppendVarint(b, int64(f.peer.ID))
		b = binary.AppendUvarint(b, uint64(f.peer.Inc))
		b = binary.AppendVarint(b, int64(f.at))
	}
	b = binary.AppendVarint(b, int64(m.reaskAt))
	b = binary.AppendUvarint(b, m.news)
	if m.amnesiac {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(m.nonce))
	b = m.answered.AppendState(b)
	b = binary.AppendVarint(b, int64(m.retryAt))
	b = m.waiting.AppendState(b)
	return m.owed.AppendState(b)
}
