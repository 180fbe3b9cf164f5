package camera

import (
	"encoding/binary"

	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
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
		b = append(b, wire.Flags(p.listed, p.asked, p.pending, p.granted, p.gone, p.met, p.watch.on, p.old && p.granted))
		b = binary.AppendUvarint(b, uint64(p.life))
		b = binary.AppendUvarint(b, p.newsAt)
		b = binary.AppendUvarint(b, p.told)
		b = binary.AppendUvarint(b, p.heard)
		b = binary.AppendUvarint(b, uint64(p.heardInc))
		b = binary.AppendVarint(b, int64(p.watch.alive))
		b = append(binary.AppendVarint(b, int64(p.watch.sent)), p.watch.missed)
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
		b = binary.AppendVarint(b, int64(f.since))
		b = binary.AppendVarint(b, int64(f.at))
	}
	b = binary.AppendVarint(b, int64(m.reaskAt))
	b = binary.AppendUvarint(b, uint64(m.upper))
	b = binary.AppendUvarint(b, uint64(m.kept))
	b = append(b, wire.Flags(m.cfg.Durable && m.unsaved))
	b = binary.AppendUvarint(b, m.news)
	b = append(b, wire.Flags(m.amnesiac))
	b = binary.AppendUvarint(b, uint64(m.nonce))
	b = m.answered.AppendState(b)
	b = binary.AppendVarint(b, int64(m.retryAt))
	b = m.waiting.AppendState(b)
	b = m.owed.AppendState(b)
	b = binary.AppendVarint(b, int64(m.probeAt))
	b = binary.AppendUvarint(b, uint64(m.turn))
	b = m.slow.appendState(b)
	return m.appendParts(b)
}

func (s *slow) appendState(b []byte) []byte {
	b = binary.AppendVarint(b, int64(s.startAt))
	b = binary.AppendVarint(b, int64(s.wait))
	b = binary.AppendUvarint(b, s.stamp)
	b = binary.AppendUvarint(b, uint64(len(s.trees)))
	for _, t := range s.trees {
		b = t.appendState(b)
	}
	if s.own == nil {
		b = append(b, 0)
	} else {
		b = s.own.appendState(append(b, 1))
	}
	b = binary.AppendUvarint(b, uint64(len(s.partial)))
	for i := range s.partial {
		p := &s.partial[i]
		b = binary.AppendUvarint(binary.AppendVarint(b, int64(p.from.ID)), uint64(p.from.Inc))
		b = binary.AppendUvarint(requests.AppendRequest(append(b, p.kind), p.tree.ID), p.tree.Round)
		b = binary.AppendUvarint(binary.AppendUvarint(b, p.stamp), uint64(p.next))
		b = appendShape(p.ok.appendState(b), p.shape)
	}
	return b
}

func (t *tree) appendState(b []byte) []byte {
	b = binary.AppendUvarint(requests.AppendRequest(b, t.ID), t.Round)
	b = binary.AppendVarint(b, int64(t.parent))
	for _, n := range [...]int64{int64(t.depth), int64(t.target), int64(t.echoed), int64(t.at), int64(t.pace), int64(t.expire), int64(t.okStamp), int64(t.echoStamp)} {
		b = binary.AppendVarint(b, n)
	}
	b = append(b, wire.Flags(t.joined, t.direct, t.granted, t.told))
	b = appendShape(t.ok.appendState(b), t.shape)
	b = binary.AppendUvarint(b, uint64(len(t.contacts)))
	for i := range t.contacts {
		c := &t.contacts[i]
		b = binary.AppendUvarint(binary.AppendVarint(b, int64(c.peer.ID)), uint64(c.peer.Inc))
		b = append(b, byte(c.state), wire.Flags(c.adopted, c.full, c.ok))
		b = binary.AppendVarint(binary.AppendVarint(b, int64(c.started)), int64(c.echoed))
		b = appendShape(b, c.shape)
	}
	return b
}

func (g *granted) appendState(b []byte) []byte {
	for _, set := range g.sets() {
		b = set.AppendState(b)
	}
	return b
}

func appendShape(b []byte, shape []wire.Branch) []byte {
	b = binary.AppendUvarint(b, uint64(len(shape)))
	for _, s := range shape {
		b = binary.AppendUvarint(binary.AppendVarint(b, int64(s.Peer.ID)), uint64(s.Peer.Inc))
		b = append(b, byte(s.Depth))
	}
	return b
}
