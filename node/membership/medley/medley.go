// Package medley is Medley (Yang, Zhu, Gupta and others, TNSM 2022): a
// membership service for wireless meshes in the manner of SWIM (Das, Gupta,
// Motivala 2002) whose pings prefer near members, p(j) proportional to
// 1/d(i,j)^3, so that most traffic crosses few hops.
//
// It is a pure machine; the owner serialises all calls.
//
// # A round
//
// Once a Period a node draws a member from its time-bounded bag (bag.go) and
// pings it. Without an ACK after PingTimeout three helpers are asked by
// IND_PING; with nothing by the end of the round the member is SUSPECTED, and
// FAILED, off the list, when the suspicion is Suspicion old. News travels in
// the change table (table.go) that rides on every message but PING.
//
// What the publication calls an incarnation is the pair (core.Incarnation,
// refutation counter), see wire.Entry. A node that reads that it is suspected
// raises its counter and sends REPORT_ALIVE to its one-hop neighbours; one
// that reads that it was declared failed, whatever the counter, goes on as a
// higher core.Incarnation (Effects.Fenced), reports itself alive and joins
// again, since the list it has may be as old as its absence.
//
// # Where it differs from the authors' simulator, and why
//
//   - The first round is jittered uniformly over a period; theirs start all at
//     once, which real nodes do not.
//   - Restarted nodes join again; in theirs they never came back.
//   - A sender that is not listed, and not known to be over in that life, is
//     taken onto the list: it is alive by evidence. Theirs ignores it, so a
//     node whose JOIN news died out was never found again.
//   - Anything heard of the target in person during the round spares it the
//     suspicion, not the ACK alone.
//   - A member heard in person while it is suspected, or after it was declared
//     failed, is told so by REPORT_ALIVE (at most once a PingTimeout), so that
//     it refutes, or fences itself, at once and not by chance.
//   - A suspect is pinged twice more before it is declared failed, three and
//     one PingTimeout ahead. News travels with the ACKs a node receives only, so
//     now and then the refutation is late; a FAILED costs more than a ping.
//   - Now and then (ReconnectProb) a failed peer is pinged: two halves of a
//     healed partition list nobody of the other and would never meet.
//   - "The first member not heard of" (passive feedback) is the one not heard
//     of for longest; the first by id would leave most members out.
//   - The helpers of an indirect ping are drawn from the bag and stay in it:
//     a helper is not checked itself.
//   - A machine that was stopped itself (no step for a Period beyond its
//     deadline) suspects nobody for that round and gives running suspicions
//     the time back: the silence was its own.
//   - Failed and left lives are remembered for good, so that stale news never
//     brings them back. That is one small record an id, bounded by the
//     topology, and safer than any time limit.
package medley

import (
	"math/rand/v2"
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/wire"
)

type status uint8

const (
	unknown status = iota
	active
	suspected
	failed // a tombstone: this life is over
	left   // a tombstone
)

// peer is what a node knows of another one.
type peer struct {
	inc   core.Incarnation // newest life known
	count uint32
	state status
	heard core.Instant // last heard in person
	since core.Instant // suspected since
	told  core.Instant // last told of its suspicion or failure; 0 = never
}

func (p *peer) listed() bool { return p.state == active || p.state == suspected }

// compare orders (incarnation, counter) of e against p's.
func (p *peer) compare(e wire.Entry) int {
	switch {
	case p.state == unknown || e.Inc > p.inc || e.Inc == p.inc && e.Count > p.count:
		return 1
	case e.Inc == p.inc && e.Count == p.count:
		return 0
	default:
		return -1
	}
}

// ping is the one ping of the running round.
type ping struct {
	seq      uint64
	target   core.NodeID
	inc      core.Incarnation // of the target when pinged
	count    uint32
	sent     core.Instant
	answered bool
	indirect core.Instant // when to ask the helpers; Never when done
}

// relay is a ping on another node's behalf.
type relay struct {
	seq       uint64
	target    core.NodeID
	origin    core.NodeID
	originSeq uint64
	until     core.Instant
}

type suspicion struct {
	id core.NodeID
	at core.Instant
}

// lastWords is how often a suspect is pinged before it is declared failed.
const lastWords = 2

// Machine is Medley at one node.
type Machine struct {
	cfg        Config
	rng        *rand.Rand
	neighbours []core.NodeID

	self    core.Peer
	count   uint32 // own refutation counter
	joined  bool
	leaving bool

	peers    []peer // by id
	size     int    // listed peers
	fallen   int    // failed peers
	bag      bag
	table    table
	suspects []suspicion // oldest first; those refuted meanwhile included
	// warned counts, for each k, how many suspicions from the oldest on have
	// had their k-th last word.
	warned [lastWords]int

	seq    uint64 // of own pings and joins
	round  core.Instant
	ping   ping
	relays []relay
	join   join

	lastPing    core.Instant // received
	meanGap     time.Duration
	lastUnlucky core.Instant
}

var _ membership.Machine = (*Machine)(nil)

// New returns a machine for a topology of so many nodes. Neighbours are the
// one-hop neighbours. Distance gives the distance to every node by id in any
// unit; what is 0 or absent counts as the farthest. Zero fields of cfg mean
// the published values.
func New(cfg Config, nodes int, neighbours []core.NodeID, distance []float32, rng *rand.Rand) *Machine {
	cfg = cfg.withDefaults()
	m := &Machine{
		cfg:        cfg,
		rng:        rng,
		neighbours: slices.Clone(neighbours),
		peers:      make([]peer, nodes),
		bag:        newBag(nodes, distance, cfg.Exponent),
		table:      table{max: cfg.TableMax, keep: cfg.TableKeep},
		round:      core.Never,
	}
	m.ping.indirect, m.ping.answered, m.join.at = core.Never, true, core.Never
	return m
}

// Self implements membership.Machine.
func (m *Machine) Self() core.Peer { return m.self }

// Size implements membership.Machine.
func (m *Machine) Size() int { return m.size + 1 }

// Members implements membership.Machine.
func (m *Machine) Members(list []core.Peer) []core.Peer {
	for id := range m.peers {
		if p := &m.peers[id]; p.listed() {
			list = append(list, core.Peer{ID: core.NodeID(id), Inc: p.inc})
		}
	}
	return list
}

// Deadline implements membership.Machine.
func (m *Machine) Deadline() core.Instant {
	d := min(m.round, m.ping.indirect, m.join.at)
	if len(m.suspects) > 0 {
		d = min(d, m.suspects[0].at.Add(m.cfg.Suspicion))
	}
	if !m.cfg.NoLastWord {
		for k, n := range m.warned {
			if n < len(m.suspects) {
				d = min(d, m.suspects[n].at.Add(m.lastWord(k)))
			}
		}
	}
	return d
}

// Step implements membership.Machine.
func (m *Machine) Step(now core.Instant, in membership.Input, out *membership.Effects) {
	if d := m.Deadline(); d != core.Never && now.Sub(d) > m.cfg.Period {
		m.woke(now, now.Sub(d))
	}
	switch in := in.(type) {
	case membership.Start:
		m.start(now, in, out)
	case membership.Receive:
		if m.knows(in.From) && !m.leaving {
			m.receive(now, in.From, in.Msg, out)
		}
	case membership.Heard:
		if m.knows(in.Peer) && !m.leaving {
			// The frame says nothing of the counter, so the least is assumed.
			m.evidence(now, in.Peer, 0, wire.MemberActive, out)
		}
	case membership.Learned:
		if m.knows(in.Peer) && !m.leaving {
			m.learned(now, in.Peer, out)
		}
	case membership.Leave:
		m.leave(now, out)
	case membership.Tick:
		m.tick(now, out)
	case membership.Told: // Medley finds out by itself
	}
}

// learned takes in a peer that another layer knows by hearsay. One that is not
// on the list is listed as suspected: it refutes that, or is found dead within
// the suspicion time (trap H8 of ALGORITHMS 2.2). What is known of one that
// has failed or left is told again, since that layer does not know it.
func (m *Machine) learned(now core.Instant, q core.Peer, out *membership.Effects) {
	p := &m.peers[q.ID]
	switch {
	case p.listed():
	case p.state == failed || p.state == left:
		kind := membership.Failed
		if p.state == left {
			kind = membership.Left
		}
		out.Changes = append(out.Changes, membership.Change{Peer: core.Peer{ID: q.ID, Inc: p.inc}, Kind: kind})
	default:
		m.apply(now, wire.Entry{ID: q.ID, Inc: q.Inc}, true, out)
		m.apply(now, wire.Entry{ID: q.ID, Inc: q.Inc, State: wire.MemberSuspected}, true, out)
	}
}

// knows reports whether p is another node of the topology, in a life that is
// not older than known.
func (m *Machine) knows(p core.Peer) bool {
	return m.valid(p.ID) && p.Inc >= m.peers[p.ID].inc
}

func (m *Machine) valid(id core.NodeID) bool {
	return id >= 0 && int(id) < len(m.peers) && id != m.self.ID
}

func (m *Machine) isListed(id core.NodeID) bool { return m.peers[id].listed() }

func (m *Machine) start(now core.Instant, in membership.Start, out *membership.Effects) {
	m.self = in.Self
	m.meanGap, m.lastPing = m.cfg.Period, now
	if in.Join {
		m.startJoin(now, core.None, in.Peers, out)
		return
	}
	m.takeList(now, in.Peers)
	m.enterRounds(now, out)
}

// takeList lists peers without news of it.
func (m *Machine) takeList(now core.Instant, peers []core.Peer) {
	for _, p := range peers {
		if m.knows(p) && m.peers[p.ID].state == unknown {
			m.list(now, p.ID, p.Inc, 0)
		}
	}
}

// enterRounds makes the node a member; its rounds start within a period.
func (m *Machine) enterRounds(now core.Instant, out *membership.Effects) {
	m.joined, out.Joined = true, true
	m.lastPing = now
	m.round = now.Add(time.Duration(m.rng.Int64N(int64(m.cfg.Period))))
}

// woke makes up for a time in which the machine itself stood still.
func (m *Machine) woke(now core.Instant, lost time.Duration) {
	m.ping.answered, m.ping.indirect = true, core.Never
	for i := range m.suspects {
		s := &m.suspects[i]
		p := &m.peers[s.id]
		if p.state == suspected && p.since == s.at {
			p.since = s.at.Add(lost)
		}
		s.at = s.at.Add(lost)
	}
	m.lastPing = now
}

func (m *Machine) tick(now core.Instant, out *membership.Effects) {
	if m.leaving {
		return
	}
	m.lastPings(now, out)
	for len(m.suspects) > 0 && m.suspects[0].at.Add(m.cfg.Suspicion) <= now {
		s := m.suspects[0]
		m.suspects = slices.Delete(m.suspects, 0, 1)
		for k := range m.warned {
			m.warned[k] = max(0, m.warned[k]-1)
		}
		if p := &m.peers[s.id]; p.state == suspected && p.since == s.at {
			m.apply(now, wire.Entry{ID: s.id, Inc: p.inc, Count: p.count, State: wire.MemberFailed}, true, out)
		}
	}
	if m.ping.indirect <= now {
		m.askHelpers(now, out)
	}
	if m.round <= now {
		m.nextRound(now, out)
	}
	if m.join.at <= now {
		m.joinTimeout(now, out)
	}
}

// lastWord is the age of a suspicion at which the suspect gets its k-th last
// ping: an odd number of ping timeouts before the end, which is not the
// instant of a round.
func (m *Machine) lastWord(k int) time.Duration {
	return max(0, m.cfg.Suspicion-time.Duration(2*(lastWords-k)-1)*m.cfg.PingTimeout)
}

// lastPings pings the suspects that are about to be declared failed.
func (m *Machine) lastPings(now core.Instant, out *membership.Effects) {
	if m.cfg.NoLastWord {
		return
	}
	for k := range m.warned {
		for n := &m.warned[k]; *n < len(m.suspects) && m.suspects[*n].at.Add(m.lastWord(k)) <= now; *n++ {
			s := m.suspects[*n]
			if p := &m.peers[s.id]; p.state == suspected && p.since == s.at {
				m.seq++
				out.Send(s.id, &wire.Ping{Seq: m.seq, Count: m.count}, core.Datagram)
			}
		}
	}
}

func (m *Machine) nextRound(now core.Instant, out *membership.Effects) {
	if g := &m.ping; !g.answered && m.peers[g.target].heard <= g.sent {
		m.apply(now, wire.Entry{ID: g.target, Inc: g.inc, Count: g.count, State: wire.MemberSuspected}, true, out)
	}
	m.ping.answered, m.ping.indirect = true, core.Never
	m.relays = slices.DeleteFunc(m.relays, func(r relay) bool { return r.until < now })

	if id := m.target(now); id != core.None {
		m.seq++
		p := &m.peers[id]
		m.ping = ping{seq: m.seq, target: id, inc: p.inc, count: p.count, sent: now, indirect: now.Add(m.cfg.PingTimeout)}
		out.Send(id, &wire.Ping{Seq: m.seq, Count: m.count}, core.Datagram)
	}
	m.reconnect(out)
	m.feedback(now, out)
	m.round = m.round.Add(m.cfg.Period)
	if m.round <= now {
		m.round = now.Add(m.cfg.Period)
	}
}

// target chooses the member to ping in this round.
func (m *Machine) target(now core.Instant) core.NodeID {
	if m.size == 0 {
		return core.None
	}
	if m.rng.Float64() < m.cfg.PassiveProb {
		longest, best := m.cfg.PassiveAge, core.None
		for id := range m.peers {
			if p := &m.peers[id]; p.listed() && now.Sub(p.heard) > longest {
				longest, best = now.Sub(p.heard), core.NodeID(id)
			}
		}
		if best != core.None {
			return best
		}
	}
	id := m.bag.pick(m.rng)
	if id == core.None {
		m.bag.fill(m.isListed)
		id = m.bag.pick(m.rng)
	}
	m.bag.take(id)
	return id
}

// reconnect now and then pings a peer that was declared failed.
func (m *Machine) reconnect(out *membership.Effects) {
	if m.fallen == 0 || m.rng.Float64() >= m.cfg.ReconnectProb {
		return
	}
	n := m.rng.IntN(m.fallen)
	for id := range m.peers {
		if m.peers[id].state != failed {
			continue
		}
		if n == 0 {
			m.seq++
			out.Send(core.NodeID(id), &wire.Ping{Seq: m.seq, Count: m.count}, core.Datagram)
			return
		}
		n--
	}
}

// feedback is active feedback: a node pinged too rarely tells its neighbours.
// The running gap counts once it is longer than the mean.
func (m *Machine) feedback(now core.Instant, out *membership.Effects) {
	gap := m.meanGap
	if open := now.Sub(m.lastPing); open > gap {
		gap += time.Duration(m.cfg.ActiveWeight * float64(open-gap))
	}
	if gap <= m.cfg.ActiveGap || m.lastUnlucky != 0 && now.Sub(m.lastUnlucky) < m.cfg.ActiveGap {
		return
	}
	m.lastUnlucky = now
	msg := &wire.Unlucky{Count: m.count}
	for _, id := range m.neighbours {
		out.Send(id, msg, core.Datagram)
	}
}

func (m *Machine) askHelpers(now core.Instant, out *membership.Effects) {
	g := &m.ping
	g.indirect = core.Never
	if g.answered {
		return
	}
	msg := &wire.IndPing{Seq: g.seq, Count: m.count, Target: g.target, Table: m.table.entries(now)}
	for _, id := range m.helpers(g.target) {
		out.Send(id, msg, core.Datagram)
	}
}

// helpers draws distinct members other than the target; where the bag is too
// low for that, from the list.
func (m *Machine) helpers(target core.NodeID) []core.NodeID {
	aside := []core.NodeID{target}
	if m.isListed(target) {
		m.bag.unlist(target)
	}
	for len(aside) <= m.cfg.Indirect {
		id := m.bag.pick(m.rng)
		if id == core.None {
			break
		}
		m.bag.unlist(id)
		aside = append(aside, id)
	}
	for _, id := range aside {
		if m.isListed(id) {
			m.bag.add(id, m.bag.left[id])
		}
	}
	if len(aside) <= m.cfg.Indirect && m.size >= len(aside) {
		first := m.rng.IntN(len(m.peers))
		for i := range m.peers {
			id := core.NodeID((first + i) % len(m.peers))
			if len(aside) <= m.cfg.Indirect && m.isListed(id) && !slices.Contains(aside, id) {
				aside = append(aside, id)
			}
		}
	}
	return aside[1:]
}

// reportAlive tells the one-hop neighbours, and whoever brought the news,
// which life and counter this node is in.
func (m *Machine) reportAlive(now core.Instant, also core.NodeID, out *membership.Effects) {
	msg := &wire.ReportAlive{Count: m.count, Table: m.table.entries(now)}
	for _, id := range m.neighbours {
		out.Send(id, msg, core.Datagram)
	}
	if also != core.None && !slices.Contains(m.neighbours, also) {
		out.Send(also, msg, core.Datagram)
	}
}

// leave tells the neighbours and a few members, who pass it on.
func (m *Machine) leave(now core.Instant, out *membership.Effects) {
	if m.leaving {
		return
	}
	m.leaving = true
	to := slices.Clone(m.neighbours)
	if m.size > 0 {
		for _, id := range m.helpers(m.self.ID) {
			if !slices.Contains(to, id) {
				to = append(to, id)
			}
		}
	}
	msg := &wire.Leave{}
	for _, id := range to {
		out.Send(id, msg, core.Reliable)
	}
	m.round, m.ping.indirect, m.join.at = core.Never, core.Never, core.Never
	m.suspects, m.warned = nil, [lastWords]int{}
	m.table.drop(now)
}
