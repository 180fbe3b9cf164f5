package maekawa

import (
	"encoding/binary"
	"fmt"

	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// AppendState implements mutex.Machine.
func (m *Machine) AppendState(b []byte) []byte {
	b = append(b, byte(m.st))
	b = binary.AppendUvarint(b, uint64(m.self.Inc))
	b = binary.AppendUvarint(b, m.clk)
	b = requests.AppendRequest(b, m.cur)
	b = requests.AppendRequest(b, m.last)
	b = m.memlist.AppendState(b)
	b = m.asked.AppendState(b)
	b = m.owed.AppendState(b)
	if m.st != mutex.None {
		b = binary.AppendUvarint(b, uint64(len(m.voters)))
		for _, v := range m.voters {
			b = binary.AppendVarint(b, int64(v.id))
			b = binary.AppendUvarint(b, uint64(v.inc))
			b = append(b, byte(v.word), wire.Flags(v.inquired, v.down))
			b = binary.AppendUvarint(b, v.round)
		}
	}
	b = m.locked.append(b)
	b = append(b, wire.Flags(m.inquired))
	b = binary.AppendUvarint(b, uint64(len(m.queue)))
	for _, c := range m.queue {
		b = c.append(b)
	}
	b = m.over.AppendState(b)
	return m.gone.AppendState(b)
}

// Invariant returns what is wrong with the state, or nothing.
func (m *Machine) Invariant() string {
	switch first := m.first(); {
	case len(m.local) > 0:
		return "messages to the node itself are left"
	case m.locked.req.IsZero() && first >= 0:
		return fmt.Sprintf("%v waits for a vote that nobody has", m.queue[first].req)
	case m.locked.req.IsZero() && m.inquired:
		return "INQUIRE is out for nobody"
	case m.gone.Has(m.locked.req.Node) && !m.locked.req.IsZero():
		return fmt.Sprintf("%v of a failed node has the vote", m.locked.req)
	case m.gone.Has(m.self.ID):
		return "the node holds itself for failed"
	}
	if (m.st == mutex.None) != m.cur.IsZero() || m.st == mutex.None && len(m.voters) > 0 {
		return "state, request and voters disagree"
	}
	seen := requests.IDs{}
	for _, c := range append([]claim{m.locked}, m.queue...) {
		if c.req.IsZero() {
			continue
		}
		if !seen.Add(c.req.Node) {
			return fmt.Sprintf("two claims of node %d", c.req.Node)
		}
		if !c.req.NewerThan(m.over.Get(c.req.Node)) {
			return fmt.Sprintf("%v is over and has a claim", c.req)
		}
	}
	for _, v := range m.voters {
		if m.st == mutex.Held && v.word != voted && !v.down && m.has(Hold) {
			return fmt.Sprintf("in the section without the vote of node %d", v.id)
		}
	}
	return ""
}

func (c claim) append(b []byte) []byte {
	b = requests.AppendRequest(b, c.req)
	b = binary.AppendUvarint(b, c.round)
	return append(b, wire.Flags(c.told))
}
