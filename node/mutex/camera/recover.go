package camera

import (
	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// amnesia is the recovery of a process whose node had an earlier one (H4a);
// the package comment says why it is safe.
type amnesia struct {
	amnesiac   bool
	nonce      core.Incarnation // names this recovery
	answered   requests.Peers   // who has answered, and in which life
	retryAt    core.Instant
	incomplete []answerInParts // by peer

	// waiting asked this node to RECOVER while it could not answer, owed got
	// an amnesiac OK.
	waiting requests.Peers
	owed    requests.IDs
}

// forgetful reports whether what this node grants counts for nothing: it may
// have granted what it has forgotten, or it may be more than the bounds of
// others count.
func (m *Machine) forgetful() bool { return m.amnesiac || m.upper == 0 && m.has(Settled) }

// quorum is how many others must answer: together with any majority of grants
// that counts this node, less itself, they exceed the NUpper-1 others.
func (m *Machine) quorum() int {
	switch m.upper {
	case 0:
		return core.MaxNodes
	case 1:
		return 0 // no others
	}
	return m.upper - m.upper/2
}

func (m *Machine) beginRecovery(now core.Instant, out *mutex.Effects) {
	if m.quorum() == 0 {
		return
	}
	m.amnesiac, m.unsaved = true, true
	m.nonce = m.self.Inc
	m.retryAt = now.Add(m.cfg.Reask)
	out.Notes = append(out.Notes, "amnesiac")
	m.askRecover(out)
}

// askRecover asks every member that has not answered.
func (m *Machine) askRecover(out *mutex.Effects) {
	for k := range m.peers {
		if m.peers[k].listed {
			m.sendRecover(core.NodeID(k), out)
		}
	}
}

func (m *Machine) sendRecover(k core.NodeID, out *mutex.Effects) {
	if m.amnesiac && !m.answered.Has(k) {
		out.Send(k, &wire.Recover{Nonce: m.nonce}, core.Reliable)
	}
}

func (m *Machine) retryRecovery(now core.Instant, out *mutex.Effects) {
	if m.amnesiac && m.retryAt <= now {
		m.retryAt = now.Add(m.cfg.Reask)
		m.askRecover(out)
	}
}

// dropAnswer takes back an answer of k's older life and asks the newer one.
func (m *Machine) dropAnswer(k core.NodeID, out *mutex.Effects) {
	m.forgetAnswer(k)
	if m.answered.Has(k) {
		m.answered.Delete(k)
		m.sendRecover(k, out)
	}
}

func (m *Machine) onRecover(now core.Instant, q core.Peer, msg *wire.Recover, out *mutex.Effects) {
	m.learnLife(now, core.Peer{ID: q.ID, Inc: msg.Nonce}, out)
	if !m.at(q.ID).listed {
		out.Learned = append(out.Learned, q)
	}
	if m.amnesiac {
		m.waiting.Put(core.Peer{ID: q.ID, Inc: msg.Nonce})
		return
	}
	a := m.tellRecovered(msg.Nonce, 0, 0)
	if msg.Inc > 0 && msg.Inc.Start() == m.self.Inc.Start() {
		a = m.tellRecovered(msg.Nonce, msg.Start, msg.LivesStart)
	}
	out.Send(q.ID, a, core.Reply)
}

func (m *Machine) onRecovered(now core.Instant, q core.Peer, current bool, msg *wire.Recovered, out *mutex.Effects) {
	for _, p := range msg.Lives { // may take back answers, this one included
		m.learnLife(now, p, out)
	}
	current = current && q.Inc.Start() == m.at(q.ID).life.Start()
	if !m.amnesiac || msg.Nonce != m.nonce || !current {
		return
	}
	for _, r := range msg.Requests {
		m.takeOver(now, r, out)
	}
	if !m.recovering(q, msg, out) {
		return
	}
	m.answered.Put(q)
	m.tryRecovery(out)
}

// tryRecovery ends the recovery where enough have answered.
func (m *Machine) tryRecovery(out *mutex.Effects) {
	if len(m.answered) >= m.quorum() {
		m.endRecovery(out)
	}
}

func (m *Machine) endRecovery(out *mutex.Effects) {
	m.amnesiac, m.unsaved = false, true
	m.nonce, m.answered, m.retryAt, m.incomplete = 0, nil, core.Never, nil
	out.Notes = append(out.Notes, "recovered")
	for _, q := range m.waiting {
		out.Send(q.ID, m.tellRecovered(q.Inc, 0, 0), core.Reliable)
	}
	m.waiting = nil
	m.remember(out)
}

// remember makes this node's grants count, from now on and those that it owes.
func (m *Machine) remember(out *mutex.Effects) {
	for k := range m.peers {
		m.peers[k].telling = stay{}
	}
	if m.st == mutex.Wait {
		m.nGrants++
	}
	owed := m.owed
	m.owed = nil
	for _, k := range owed {
		// The amnesiac OK was none towards a majority; this one is.
		if r := m.rec.Get(k); !r.IsZero() && !m.def.Get(k).NewerThan(r) {
			m.answer(r, core.Reliable, out)
		}
	}
}
