package localmutex

import (
	"encoding/binary"
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// Deadline implements mutex.Machine.
func (m *Machine) Deadline() core.Instant { return m.retryAt }

// State implements mutex.Machine. A node that releases its locks is in None.
func (m *Machine) State() mutex.State { return m.st }

// Request implements mutex.Machine.
func (m *Machine) Request() core.RequestID { return m.cur }

// Asked implements mutex.Asker and mutex.Local.
func (m *Machine) Asked(ids []core.NodeID) []core.NodeID {
	if m.wanted {
		return ids
	}
	from := len(ids)
	for s := m.L.without(m.gone | one(self)); s != 0; s &= s - 1 {
		ids = append(ids, m.ports[s.next()].peer)
	}
	slices.Sort(ids[from:])
	return ids
}

// Grants implements mutex.Asker: the size of the lock set.
func (m *Machine) Grants() int { return m.L.without(m.gone).count() }

// Began implements mutex.Local.
func (m *Machine) Began() (core.Instant, []core.NodeID) { return m.began, m.first }

// Tries implements mutex.Local.
func (m *Machine) Tries() int { return m.tries }

// MostInFlight implements mutex.Local.
func (m *Machine) MostInFlight() int { return m.most }

// Links appends the neighbours whose ports are open, ascending.
func (m *Machine) Links(ids []core.NodeID) []core.NodeID {
	from := len(ids)
	for p := 1; p < len(m.ports); p++ {
		if m.ports[p].open {
			ids = append(ids, m.ports[p].peer)
		}
	}
	slices.Sort(ids[from:])
	return ids
}

// AppendState implements mutex.Machine. What is counted for logs only is left
// out.
func (m *Machine) AppendState(b []byte) []byte {
	b = append(b, byte(m.st), byte(m.state), byte(m.phase), byte(m.lock+1), wire.Flags(m.wanted, m.retryAt != core.Never))
	b = binary.AppendUvarint(b, uint64(m.self.Inc))
	b = binary.AppendUvarint(b, m.epoch-uint64(m.self.Inc)<<32)
	for _, s := range [...]set{m.gone, m.L, m.R, m.W, m.won, m.A, m.H, m.C, m.P} {
		b = binary.AppendUvarint(b, uint64(s))
	}
	for p := range m.ports {
		x := &m.ports[p]
		b = append(b, wire.Flags(x.used, x.open), x.await)
		b = binary.AppendUvarint(b, uint64(x.peer))
		b = binary.AppendUvarint(b, x.mine)
		b = binary.AppendUvarint(b, x.theirs)
		b = binary.AppendUvarint(b, x.told)
		b = binary.AppendUvarint(b, uint64(x.out))
		b = binary.AppendUvarint(b, uint64(x.in))
		b = binary.AppendUvarint(b, uint64(m.prio[p]))
	}
	return m.act.appendState(b)
}

// Clone returns a machine in the same state that draws from r. The
// application, if any, is shared.
func (m *Machine) Clone(r Source) *Machine {
	c := *m
	c.cfg.Rand = r
	c.ports, c.prio = slices.Clone(m.ports), slices.Clone(m.prio)
	c.local, c.first = nil, slices.Clone(m.first)
	c.act = m.act.clone()
	return &c
}
