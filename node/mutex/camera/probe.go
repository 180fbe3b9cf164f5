package camera

import (
	"fmt"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// DefaultProbeTimeout is a sensible Probe.Timeout: the time after which Medley
// declares a suspect failed.
const DefaultProbeTimeout = 16 * time.Second

// Probe tunes the probing of peers that the machine met through OKs and trees
// and that the membership service does not list (trap H8): directly, and
// through helpers while no answer comes. The zero value probes nobody.
type Probe struct {
	// Timeout is the silence that counts as a detected failure. 0 = no probes.
	Timeout time.Duration
	// Every is the pace of the probes of one peer. 0 = a quarter of Timeout.
	Every time.Duration
	// Helpers is how many others are asked to probe a peer that did not answer.
	// 0 = 3.
	Helpers int
	// NoDetector tells that the membership service lists whomever it is told
	// of and detects nothing (static): what the machine has met stays its own
	// to probe.
	NoDetector bool
}

// complete returns p with what was left out.
func (p Probe) complete() Probe {
	if p.Every <= 0 {
		p.Every = max(1, p.Timeout/4)
	}
	if p.Helpers <= 0 {
		p.Helpers = 3
	}
	return p
}

// watch is the probing of one peer.
type watch struct {
	on    bool
	alive core.Instant // it ran then, or the watch began
	sent  core.Instant // the last probe
	// missed counts probes in a row without an answer. A node that stood still
	// itself finds a long silence, but has asked once only.
	missed uint8
}

// need begins to probe node k, unless the membership service watches it.
func (m *Machine) need(k core.NodeID) {
	if m.cfg.Probe.Timeout <= 0 || !m.has(Probing) || k == m.self.ID {
		return
	}
	p := m.at(k)
	switch {
	case p.watch.on:
		return
	case !p.listed:
		p.met = true
	case !p.met || !m.cfg.Probe.NoDetector:
		return
	}
	p.watch = watch{on: true, alive: m.now}
	m.probeAt = min(m.probeAt, m.now.Add(m.cfg.Probe.Every))
}

// Suspects appends the peers whose failure was detected and is not confirmed
// yet: who of them lives must leave before the node gives it up (ALGORITHMS
// 2.4), which tests see to.
func (m *Machine) Suspects(list []core.Peer) []core.Peer {
	for _, f := range m.down {
		list = append(list, f.peer)
	}
	return list
}

// needed reports whether it still matters if node k runs.
func (m *Machine) needed(k core.NodeID) bool {
	p := m.at(k)
	if p.listed && !(p.met && m.cfg.Probe.NoDetector) {
		return false
	}
	if m.st == mutex.Wait && p.asked || !m.rec.Get(k).IsZero() {
		return true
	}
	below := false
	m.eachTree(func(t *tree) {
		c := t.contact(k)
		below = below || c != nil && c.below() && !c.ok && !t.told
	})
	return below
}

// tickProbes probes everyone who matters, and takes a long silence for a
// failure.
func (m *Machine) tickProbes(now core.Instant, out *mutex.Effects) {
	if now < m.probeAt {
		return
	}
	m.probeAt = core.Never
	for i := range m.peers {
		k, p := core.NodeID(i), &m.peers[i]
		if !p.watch.on {
			continue
		}
		if !m.needed(k) {
			p.watch = watch{}
			continue
		}
		m.probeAt = now.Add(m.cfg.Probe.Every)
		if w := &p.watch; w.sent > w.alive {
			w.missed = min(w.missed, 254) + 1
		} else {
			w.missed = 0
		}
		p.watch.sent = now
		silence, missed := now.Sub(p.watch.alive), time.Duration(p.watch.missed)
		alive := &wire.Alive{Target: k, Origin: m.self.ID, Sent: now}
		out.Send(k, alive, core.Datagram)
		if missed > 0 {
			for _, h := range m.helpers(k) {
				out.Send(h, alive, core.Datagram)
			}
		}
		if _, suspected := m.findDown(k); silence >= m.cfg.Probe.Timeout && missed >= min(m.cfg.Probe.Timeout/m.cfg.Probe.Every, 200) && !p.gone && !suspected {
			m.silent(now, k, out)
		}
	}
}

// helpers chooses others who may reach node k, in turn.
func (m *Machine) helpers(k core.NodeID) []core.NodeID {
	var ids []core.NodeID
	for range m.peers {
		m.turn = (m.turn + 1) % len(m.peers)
		id := core.NodeID(m.turn)
		if p := &m.peers[m.turn]; id != k && id != m.self.ID && !p.gone && (p.listed || p.asked) {
			if ids = append(ids, id); len(ids) == m.cfg.Probe.Helpers {
				break
			}
		}
	}
	return ids
}

// silent is the detected failure of a peer that answers no probes.
func (m *Machine) silent(now core.Instant, k core.NodeID, out *mutex.Effects) {
	p := m.at(k)
	out.Notes = append(out.Notes, fmt.Sprintf("missing node %d, which answers no probes", k))
	if p.granted {
		p.granted = false
		m.nGrants--
	}
	p.listed = false
	q := core.Peer{ID: k, Inc: p.life}
	m.suspect(now, q)
	m.loseEverywhere(now, q, false, out)
}

// heard takes note that a message of q arrived. It proves less than an
// AliveAck: it may have been under way for long.
func (m *Machine) heard(now core.Instant, k core.NodeID) {
	if p := m.at(k); p.watch.on {
		p.watch.alive = now
	}
}

func (m *Machine) onAlive(q core.Peer, msg *wire.Alive, out *mutex.Effects) {
	if msg.Target == m.self.ID {
		out.Send(q.ID, &wire.AliveAck{Peer: m.self, Origin: msg.Origin, Sent: msg.Sent}, core.Datagram)
	} else if q.ID == msg.Origin {
		out.Send(msg.Target, msg, core.Datagram)
	}
}

func (m *Machine) onAliveAck(now core.Instant, msg *wire.AliveAck, out *mutex.Effects) {
	q := msg.Peer
	switch {
	case msg.Origin != m.self.ID:
		out.Send(msg.Origin, msg, core.Datagram)
		return
	case q.ID == m.self.ID || msg.Sent > now:
		return
	}
	m.learnLife(now, q, out)
	p := m.at(q.ID)
	if q.Inc.Start() < p.life.Start() || !p.watch.on {
		return
	}
	p.watch.alive = max(p.watch.alive, msg.Sent)
	i, suspected := m.findDown(q.ID)
	if suspected && msg.Sent <= m.down[i].since {
		return // from before
	}
	if suspected || p.gone {
		m.unsuspect(q.ID)
		p.gone = false
		if m.st == mutex.Wait && p.asked && !p.pending && !p.granted {
			m.sendRequest(q.ID, nil, out) // its grant was dropped; it repeats the OK
		}
	}
}
