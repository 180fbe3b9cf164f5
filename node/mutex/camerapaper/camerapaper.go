// Package camerapaper is the fast path of the Camera algorithm as published
// (ALGORITHMS 2.1), taken literally: the baseline on which the violations of
// ALGORITHMS 2.2 are shown. Package camera is the one to use.
//
// How the text is read, where it leaves a choice:
//   - An OK counts whenever its sender is pending, whatever request it was
//     meant for (H3b/c). The wire carries the request id; it is not looked at.
//   - "Unknown" means "not in Memlist at this moment" (H1).
//   - A node has no incarnations: a restarted one begins with an empty
//     recentlyOKed and clock 0 (H4a, H4b), and a deferred set lost in a crash
//     is asked for again only if the peer shows up in a newer life while its
//     OK is pending (H4e), which the transport of the paper takes care of.
//   - enter() asks Memlist only, not recentlyOKed (H9).
//   - A listed peer whose failure is detected gives a silent OK after
//     SuspicionWait, unless it is listed again by then (H5a).
//   - Nodes named in an OK are added and asked only while waiting. The set is
//     read before the OK itself is counted.
//   - RELEASE removes the request with its id, and the exit loop inserts each
//     deferred request before the next OK is sent. Config has the other readings
//     (H3a, H2).
//   - To find pending empty and to enter are one step, except with
//     Config.WakeLater (H10).
//
// The owner serialises all calls.
package camerapaper

import (
	"encoding/binary"
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// Config tunes the machine and names other readings of the text.
type Config struct {
	// SuspicionWait is the wait between a detected failure and the silent OK.
	SuspicionWait time.Duration
	// Snapshot takes the set once, before the exit loop (H2).
	Snapshot bool
	// ReleaseByID lets a RELEASE remove every request of its node (H3a).
	ReleaseByID bool
	// WakeLater enters at the Tick that follows the moment at which pending
	// became empty, without looking again (H10).
	WakeLater bool
	// KeepDeferred never clears the list of deferred requests, as the
	// authors' simulator: every exit answers each of them once more, and such
	// an OK counts for whatever its receiver waits for then. Two nodes can
	// hold at once by it.
	KeepDeferred bool
}

// Machine is the algorithm at one node.
type Machine struct {
	cfg  Config
	self core.Peer

	memlist      requests.Peers
	st           mutex.State
	clk          uint64
	cur          core.RequestID
	asked        requests.IDs
	pending      requests.IDs
	recentlyOKed []core.RequestID // ascending by node, then age
	deferred     requests.ByNode
	grants       int
	down         []failure // ascending by id
	woken        bool
}

type failure struct {
	id core.NodeID
	at core.Instant
}

var _ mutex.Asker = (*Machine)(nil)

// New returns the machine of the node self.
func New(self core.Peer, cfg Config) *Machine { return &Machine{cfg: cfg, self: self} }

// Step implements mutex.Machine.
func (m *Machine) Step(now core.Instant, in mutex.Input, out *mutex.Effects) {
	switch in := in.(type) {
	case mutex.Start:
		for _, p := range in.Members {
			m.memlist.Put(p)
		}
	case mutex.Enter:
		m.enter(out)
	case mutex.Exit:
		m.exit(out)
	case mutex.Receive:
		switch msg := in.Msg.(type) {
		case *wire.Request:
			m.onRequest(in.From, msg.ID, out)
		case *wire.OK:
			m.onOK(in.From, msg, out)
		case *wire.Release:
			m.onRelease(msg.ID)
		}
	case mutex.MemberUp:
		m.memberUp(in.Peer, out)
	case mutex.MemberDown:
		m.memlist.Delete(in.Peer.ID)
		if in.Left {
			m.silentOK(in.Peer.ID, out)
		} else if i, found := m.findDown(in.Peer.ID); !found {
			m.down = slices.Insert(m.down, i, failure{in.Peer.ID, now.Add(m.cfg.SuspicionWait)})
		}
	case mutex.Fence:
		m.self.Inc = in.Inc
		if m.st != mutex.None {
			out.Given = m.cur
			m.exit(out)
		}
	case mutex.Tick:
		m.tick(now, out)
	case mutex.MemberSuspected:
	}
}

func (m *Machine) enter(out *mutex.Effects) {
	m.st = mutex.Wait
	m.clk++
	m.cur = core.RequestID{Node: m.self.ID, Inc: m.self.Inc, TS: m.clk}
	m.asked, m.pending, m.grants = m.asked[:0], m.pending[:0], 1
	request := &wire.Request{ID: m.cur}
	for _, p := range m.memlist {
		m.asked = append(m.asked, p.ID)
		m.pending = append(m.pending, p.ID)
		out.Send(p.ID, request, core.Reliable)
	}
	m.wake(out)
}

// meet adds an unknown node to Memlist and, while waiting, asks it.
func (m *Machine) meet(q core.Peer, out *mutex.Effects) {
	if q.ID == m.self.ID || m.memlist.Has(q.ID) {
		return
	}
	m.memlist.Put(q)
	out.Learned = append(out.Learned, q)
	if m.st == mutex.Wait {
		m.asked.Add(q.ID)
		m.pending.Add(q.ID)
		out.Send(q.ID, &wire.Request{ID: m.cur}, core.Reliable)
	}
}

func (m *Machine) onRequest(q core.Peer, r core.RequestID, out *mutex.Effects) {
	m.clk = max(m.clk, r.TS)
	m.meet(q, out)
	if m.st == mutex.Held || m.st == mutex.Wait && m.cur.Before(r) {
		if m.cfg.KeepDeferred {
			m.deferred = append(m.deferred, r) // a list: who was deferred twice is answered twice
		} else {
			m.deferred.Put(r)
		}
		return
	}
	m.sendOK(r, m.okSet(), core.Reply, out)
}

// okSet is the set of nodes in recentlyOKed.
func (m *Machine) okSet() []core.Peer {
	var set requests.Peers
	for _, r := range m.recentlyOKed {
		set.Put(core.Peer{ID: r.Node, Inc: r.Inc})
	}
	return set
}

// OKSet is the set that an OK to node k would carry now.
func (m *Machine) OKSet(k core.NodeID) []core.Peer {
	set := requests.Peers(m.okSet())
	set.Delete(k)
	return set
}

func (m *Machine) sendOK(r core.RequestID, set requests.Peers, mode core.Mode, out *mutex.Effects) {
	set = slices.Clone(set)
	set.Delete(r.Node)
	out.Send(r.Node, &wire.OK{ID: r, Set: set}, mode)
	i, found := slices.BinarySearchFunc(m.recentlyOKed, r, func(a, b core.RequestID) int {
		switch {
		case a == b:
			return 0
		case a.Node < b.Node || a.Node == b.Node && b.NewerThan(a):
			return -1
		}
		return 1
	})
	if !found {
		m.recentlyOKed = slices.Insert(m.recentlyOKed, i, r)
	}
}

func (m *Machine) onOK(q core.Peer, ok *wire.OK, out *mutex.Effects) {
	if m.st != mutex.Wait {
		return
	}
	for _, j := range ok.Set {
		m.meet(j, out)
	}
	if m.pending.Delete(q.ID) {
		m.grants++
		m.wake(out)
	}
}

// wake enters once nobody is pending.
func (m *Machine) wake(out *mutex.Effects) {
	if m.st != mutex.Wait || len(m.pending) > 0 {
		return
	}
	if m.cfg.WakeLater {
		m.woken = true
		return
	}
	m.st = mutex.Held
	out.Granted = true
}

func (m *Machine) exit(out *mutex.Effects) {
	release := &wire.Release{ID: m.cur}
	for _, p := range m.memlist {
		out.Send(p.ID, release, core.Datagram)
	}
	m.st, m.cur, m.woken = mutex.None, core.RequestID{}, false
	m.pending = m.pending[:0]
	set := m.okSet()
	for _, r := range m.deferred {
		if !m.cfg.Snapshot {
			set = m.okSet()
		}
		m.sendOK(r, set, core.Reliable, out)
	}
	if !m.cfg.KeepDeferred {
		m.deferred = m.deferred[:0]
	}
}

func (m *Machine) onRelease(r core.RequestID) {
	m.recentlyOKed = slices.DeleteFunc(m.recentlyOKed, func(o core.RequestID) bool {
		return o == r || m.cfg.ReleaseByID && o.Node == r.Node
	})
}

func (m *Machine) memberUp(p core.Peer, out *mutex.Effects) {
	newer := p.Inc > m.memlist.Get(p.ID)
	m.memlist.Put(p)
	if i, found := m.findDown(p.ID); found {
		m.down = slices.Delete(m.down, i, i+1)
	}
	if newer && m.st == mutex.Wait && m.pending.Has(p.ID) {
		out.Send(p.ID, &wire.Request{ID: m.cur}, core.Reliable)
	}
}

func (m *Machine) silentOK(k core.NodeID, out *mutex.Effects) {
	out.Forget = append(out.Forget, k)
	if m.pending.Delete(k) {
		m.wake(out)
	}
}

func (m *Machine) tick(now core.Instant, out *mutex.Effects) {
	if m.woken {
		m.woken = false
		m.st = mutex.Held
		out.Granted = true
	}
	for len(m.down) > 0 {
		i := slices.IndexFunc(m.down, func(f failure) bool { return f.at <= now })
		if i < 0 {
			break
		}
		k := m.down[i].id
		m.down = slices.Delete(m.down, i, i+1)
		m.silentOK(k, out)
	}
}

func (m *Machine) findDown(k core.NodeID) (int, bool) {
	return slices.BinarySearchFunc(m.down, k, func(f failure, k core.NodeID) int { return int(f.id - k) })
}

// Deadline implements mutex.Machine.
func (m *Machine) Deadline() core.Instant {
	if m.woken {
		return 0
	}
	t := core.Never
	for _, f := range m.down {
		t = min(t, f.at)
	}
	return t
}

// State implements mutex.Machine.
func (m *Machine) State() mutex.State { return m.st }

// Request implements mutex.Machine.
func (m *Machine) Request() core.RequestID { return m.cur }

// Asked implements mutex.Asker.
func (m *Machine) Asked(ids []core.NodeID) []core.NodeID {
	if m.st == mutex.None {
		return ids
	}
	return append(ids, m.asked...)
}

// Grants implements mutex.Asker.
func (m *Machine) Grants() int {
	if m.st == mutex.None {
		return 0
	}
	return m.grants
}

// AppendState implements mutex.Machine.
func (m *Machine) AppendState(b []byte) []byte {
	b = append(b, byte(m.st))
	b = binary.AppendUvarint(b, uint64(m.self.Inc))
	b = binary.AppendUvarint(b, m.clk)
	b = requests.AppendRequest(b, m.cur)
	b = m.memlist.AppendState(b)
	b = binary.AppendUvarint(b, uint64(len(m.recentlyOKed)))
	for _, r := range m.recentlyOKed {
		b = requests.AppendRequest(b, r)
	}
	b = m.deferred.AppendState(b)
	b = binary.AppendUvarint(b, uint64(len(m.down)))
	for _, f := range m.down {
		b = binary.AppendVarint(b, int64(f.id))
		b = binary.AppendVarint(b, int64(f.at))
	}
	b = append(b, wire.Flags(m.woken))
	if m.st != mutex.None {
		b = m.asked.AppendState(b)
		b = m.pending.AppendState(b)
		b = binary.AppendUvarint(b, uint64(m.grants))
	}
	return b
}
