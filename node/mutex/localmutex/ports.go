package localmutex

import (
	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

func (m *Machine) portOf(peer core.NodeID) int {
	for p := 1; p < len(m.ports); p++ {
		if x := &m.ports[p]; x.used && x.peer == peer {
			return p
		}
	}
	return self
}

// linkUp gives the link a free port.
func (m *Machine) linkUp(peer core.NodeID, out *mutex.Effects) {
	if p := m.portOf(peer); p != self {
		m.linkDown(peer, out) // its end was not told
	}
	if !m.cfg.Paper {
		m.settle(out) // frees the port
	}
	used := 0
	free := self
	for p := len(m.ports) - 1; p > 0; p-- {
		if m.ports[p].used {
			used++
		} else if !m.gone.has(p) {
			free = p
		}
	}
	if used >= m.cfg.Delta || free == self {
		out.Notes = append(out.Notes, "no port for one more link")
		return
	}
	m.epoch++
	m.ports[free] = port{peer: peer, used: true, mine: m.epoch}
	m.send(free, wire.KindLink, 0, 0, out)
}

func (m *Machine) linkDown(peer core.NodeID, out *mutex.Effects) {
	p := m.portOf(peer)
	if p == self {
		return
	}
	out.Forget = append(out.Forget, peer)
	m.ports[p].used, m.ports[p].open = false, false
	m.gone.add(p)
}

// renew begins the port anew, since the neighbour did.
func (m *Machine) renew(p int, theirs uint64, out *mutex.Effects) (fresh int) {
	old := m.ports[p]
	if old.theirs == 0 {
		m.ports[p].theirs = theirs
		return p
	}
	m.linkDown(old.peer, out)
	if !m.cfg.Paper {
		m.settle(out)
	}
	for fresh = 1; fresh < len(m.ports); fresh++ {
		if !m.ports[fresh].used && !m.gone.has(fresh) {
			m.ports[fresh] = port{peer: old.peer, used: true, mine: old.mine, theirs: theirs}
			return fresh
		}
	}
	out.Notes = append(out.Notes, "no port for one more link")
	return self
}

// fromNetwork checks the epochs of a message and hands it on.
func (m *Machine) fromNetwork(from core.Peer, msg *wire.Local, out *mutex.Effects) {
	p := m.portOf(from.ID)
	if p == self || msg.Mine < m.ports[p].theirs {
		return // no link as far as is known here, or of one that is gone
	}
	if msg.What != wire.KindLink {
		x := &m.ports[p]
		if msg.Mine == x.theirs && msg.Theirs == x.mine {
			x.open = true
			m.receive(p, msg, out)
		}
		return
	}
	if msg.Mine > m.ports[p].theirs {
		if p = m.renew(p, msg.Mine, out); p == self {
			return
		}
	}
	x := &m.ports[p]
	if x.told != x.theirs {
		m.send(p, wire.KindLink, 0, 0, out)
	}
	if msg.Theirs == x.mine {
		x.open = true
	}
}

// fence gives up what the node wants or holds. To its neighbours it looks as
// if all its links had been cut and were there again.
func (m *Machine) fence(inc core.Incarnation, out *mutex.Effects) {
	m.self.Inc = inc
	out.Given = m.cur
	ports := m.ports
	m.ports = make([]port, len(ports))
	m.ports[self] = port{peer: m.self.ID, used: true, open: true}
	m.gone, m.local = 0, m.local[:0]
	m.st, m.state, m.wanted, m.cur, m.retryAt = mutex.None, idle, false, core.RequestID{}, core.Never
	m.L, m.R, m.W, m.won = 0, 0, 0, 0
	m.lock, m.phase, m.A, m.H, m.C, m.P = nobody, open, 0, 0, 0, 0
	clear(m.prio)
	m.act.waiting, m.act.partner = false, self
	for p := 1; p < len(ports); p++ {
		if !ports[p].used {
			continue
		}
		out.Forget = append(out.Forget, ports[p].peer)
		m.epoch++
		m.ports[p] = port{peer: ports[p].peer, used: true, mine: m.epoch}
		m.send(p, wire.KindLink, 0, 0, out)
	}
}
