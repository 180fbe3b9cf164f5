package camera

import (
	"encoding/binary"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// durableVersion begins what a node keeps over a crash:
//
//	byte version, byte flags (bit 0 amnesiac), uvarint clock, uvarint bound,
//	uvarint count and peers: the restarts it knows of,
//	uvarint count and requests: rec
//
// That is all that others rely on (package comment, "Durable state"). What it
// deferred is asked again when its restart becomes known; its own request died
// with the process, which its incarnation tells.
const durableVersion = 1

// promises is the state to keep.
func (m *Machine) promises() []byte {
	b := []byte{durableVersion, 0}
	if m.amnesiac {
		b[1] = 1
	}
	b = binary.AppendUvarint(b, m.clk)
	b = binary.AppendUvarint(b, uint64(max(m.upper, m.kept, m.cfg.NUpper)))
	lives := m.livesSince(0)
	b = binary.AppendUvarint(b, uint64(len(lives)))
	for _, p := range lives {
		b = wire.AppendPeer(b, p)
	}
	b = binary.AppendUvarint(b, uint64(len(m.rec)))
	for _, r := range m.rec {
		b = wire.AppendRequest(b, r)
	}
	return b
}

// kept is what an earlier life kept.
type kept struct {
	amnesiac bool
	clk      uint64
	upper    int
	lives    []core.Peer
	rec      requests.ByNode
}

// readKept reads what promises wrote, and reports whether it is whole.
func readKept(b []byte) (kept, bool) {
	r := wire.NewReader(b)
	version, flags := r.Byte(), r.Byte()
	k := kept{amnesiac: flags == 1, clk: r.Uvarint(), upper: int(r.Max(core.MaxNodes, "bound"))}
	for range r.Count(2) {
		k.lives = append(k.lives, r.Peer())
	}
	for range r.Count(3) {
		k.rec.Put(r.Request())
	}
	return k, r.Err() == nil && r.Len() == 0 && version == durableVersion && flags <= 1
}

// record puts a request into rec.
func (m *Machine) record(r core.RequestID) {
	if r.NewerThan(m.rec.Get(r.Node)) {
		m.rec.Put(r)
		m.unsaved = true
	}
}

// persist asks the owner to keep the promises before anything of this step
// leaves the node.
func (m *Machine) persist(out *mutex.Effects) {
	if m.cfg.Durable && m.unsaved {
		out.Persist, m.unsaved = m.promises(), false
	}
}

// restore takes over what an earlier life of this node kept, and reports
// whether that life forgot nothing.
func (m *Machine) restore(now core.Instant, b []byte, out *mutex.Effects) (whole bool) {
	if !m.cfg.Durable {
		return false
	}
	k, ok := readKept(b)
	if !ok {
		out.Notes = append(out.Notes, "without the state of its earlier life")
		return false
	}
	m.clk = max(m.clk, k.clk)
	m.kept = k.upper
	if !m.cfg.Estimated {
		m.upper = max(m.upper, k.upper)
	} // else others may have come meanwhile: the estimator must say first
	for _, p := range k.lives {
		m.learnLife(now, p, out)
	}
	for _, r := range k.rec {
		m.takeOver(now, r, out)
	}
	return !k.amnesiac
}

// KeptBound is the bound that an earlier life of the node kept, 0 where there
// is none.
func (m *Machine) KeptBound() int { return m.kept }

// takeOver puts a request that an earlier life granted into rec.
func (m *Machine) takeOver(now core.Instant, r core.RequestID, out *mutex.Effects) {
	if r.Node == m.self.ID {
		return
	}
	j := core.Peer{ID: r.Node, Inc: r.Inc}
	m.clk = max(m.clk, r.TS)
	m.learnLife(now, j, out)
	p := m.at(j.ID)
	if r.Inc.Start() < p.life.Start() || !r.NewerThan(p.done) {
		return // over
	}
	m.record(r)
	m.need(j.ID)
	switch {
	case m.st == mutex.Wait && m.has(OwnRecords): // H9
		m.ask(now, j, out)
	case !m.at(j.ID).listed:
		// Its owner may be dead and gone from the list that this life was
		// given: the membership service must find out, or the request is
		// named for ever.
		out.Learned = append(out.Learned, j)
	}
}
