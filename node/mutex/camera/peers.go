package camera

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
)

// at returns the entry of node k.
func (m *Machine) at(k core.NodeID) *peer {
	if n := int(k) + 1 - len(m.peers); n > 0 {
		m.peers = append(m.peers, make([]peer, n)...)
	}
	return &m.peers[k]
}

// learnLife takes note that q.ID has reached the incarnation q.Inc, from
// whatever source. A newer process start ends the requests of the older ones
// (their process is dead), and takes back what those answered: the grant of
// the current request (H4a) and the answer to RECOVER.
func (m *Machine) learnLife(now core.Instant, q core.Peer, out *mutex.Effects) {
	if q.ID == m.self.ID {
		return
	}
	p := m.at(q.ID)
	if q.Inc <= p.life {
		return
	}
	newer := q.Inc.Start() > p.life.Start()
	p.life = q.Inc
	if !newer || !m.has(Incarnations) {
		return
	}
	if q.Inc.Start() > core.FirstIncarnation.Start() {
		m.news++
		p.newsAt, m.unsaved = m.news, true
	}
	p.told, p.heard, p.heardInc, p.gone = 0, 0, 0, false
	p.telling, p.hearing = stay{}, part{}
	if m.rec.Get(q.ID).Inc.Start() < q.Inc.Start() {
		m.rec.Delete(q.ID)
		m.owed.Delete(q.ID)
	}
	if m.def.Get(q.ID).Inc.Start() < q.Inc.Start() {
		m.def.Delete(q.ID)
	}
	m.unsuspect(q.ID)
	if i, ok := m.findTree(q.ID); ok && m.trees[i].ID.Inc.Start() < q.Inc.Start() {
		m.forgetTree(q.ID)
	}
	m.heard(now, q.ID)
	m.loseEverywhere(now, q, true, out)
	m.dropAnswer(q.ID, out)
	p = m.at(q.ID) // adoption may have met nodes, which moves the entries
	if m.st != mutex.Wait || !p.asked {
		return
	}
	if p.granted {
		p.granted = false
		m.nGrants--
	}
	if !p.pending {
		p.pending = true
		m.nPending++
	}
	m.sendRequest(q.ID, nil, out)
	m.reaskAt = min(m.reaskAt, now.Add(m.cfg.Reask))
}

// livesSince lists the restarted nodes whose restart became known after the
// news number n, ascending.
func (m *Machine) livesSince(n uint64) []core.Peer {
	var lives []core.Peer
	for k := range m.peers {
		if p := &m.peers[k]; p.newsAt > n {
			lives = append(lives, core.Peer{ID: core.NodeID(k), Inc: p.life})
		}
	}
	return lives
}

func (m *Machine) memberUp(now core.Instant, q core.Peer, out *mutex.Effects) {
	if q.ID == m.self.ID {
		return
	}
	m.learnLife(now, q, out)
	p := m.at(q.ID)
	known := p.listed
	p.listed = true
	if !m.cfg.Probe.NoDetector {
		p.watch = watch{} // the service has taken over
	}
	if q.Inc.Start() == p.life.Start() {
		p.gone = false
		m.unsuspect(q.ID)
		if m.st == mutex.Wait && p.asked && !p.pending && !p.granted {
			m.sendRequest(q.ID, nil, out) // its grant was dropped; it repeats the OK
		}
	}
	if !known {
		m.sendRecover(q.ID, out)
	}
}

func (m *Machine) memberDown(now core.Instant, in mutex.MemberDown, out *mutex.Effects) {
	q := in.Peer
	if q.ID == m.self.ID {
		return
	}
	m.learnLife(now, q, out)
	p := m.at(q.ID)
	p.listed = false
	if p.granted && q.Inc.Start() >= p.life.Start() {
		// A request that waits on the small side of a partition must not enter
		// on grants of the large side, which has given it up meanwhile. The
		// peer stays asked: it is told of the RELEASE, and if it comes back it
		// is asked again.
		p.granted = false
		m.nGrants--
	}
	if q.Inc.Start() >= p.life.Start() {
		m.loseEverywhere(now, q, false, out)
		p = m.at(q.ID)
	}
	switch {
	case q.Inc.Start() < p.life.Start():
		// An older life failed: what it answered was taken back already.
	case in.Left:
		m.confirm(q, out)
	default:
		m.suspect(now, q)
	}
}

// suspect begins the wait of ALGORITHMS 2.4, unless it runs already.
func (m *Machine) suspect(now core.Instant, q core.Peer) {
	i, found := m.findDown(q.ID)
	if p := m.at(q.ID); !found && !p.gone {
		for k := range m.peers {
			m.peers[k].old = m.peers[k].granted
		}
	}
	if !found {
		m.down = slices.Insert(m.down, i, failure{peer: q, since: now, at: now.Add(m.cfg.SuspicionWait)})
	}
}

// postpone begins the wait anew, if it runs: the peer was just heard. It does
// not end it, for the message may have been under way since before the peer
// failed.
func (m *Machine) postpone(now core.Instant, k core.NodeID) {
	if i, found := m.findDown(k); found {
		m.down[i].at = now.Add(m.cfg.SuspicionWait)
	}
}

func (m *Machine) unsuspect(k core.NodeID) {
	if i, found := m.findDown(k); found {
		m.down = slices.Delete(m.down, i, i+1)
	}
}

func (m *Machine) findDown(k core.NodeID) (int, bool) {
	return slices.BinarySearchFunc(m.down, k, func(f failure, k core.NodeID) int { return int(f.peer.ID - k) })
}

// renew asks everyone again whose grant is older than a detected failure. Who
// waits on the small side of a partition for a holder there that stands still
// has the grants of the large side from before; that side is still out of
// reach when the holder's failure is confirmed, but may not have been found
// failed yet.
func (m *Machine) renew(out *mutex.Effects) {
	for k := range m.peers {
		if p := &m.peers[k]; p.old && p.granted {
			p.granted, p.pending = false, true
			m.nGrants--
			m.nPending++
			m.sendRequest(core.NodeID(k), nil, out)
		}
	}
}

// confirm takes the failure of q as a fact: a silent OK, never a grant, and
// the peer is un-asked, so that later evidence asks it again (H5b/c).
func (m *Machine) confirm(q core.Peer, out *mutex.Effects) {
	m.unsuspect(q.ID)
	p := m.at(q.ID)
	p.gone, p.telling = true, stay{}
	if p.pending {
		p.pending, p.asked = false, !m.has(UnAsk)
		m.nPending--
	}
	m.rec.Delete(q.ID)
	m.def.Delete(q.ID)
	m.owed.Delete(q.ID)
	m.waiting.Delete(q.ID)
	m.forgetTree(q.ID)
	out.Forget = append(out.Forget, q.ID)
}
