package maekawa

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// ballot is the voter's half of the machine.
type ballot struct {
	locked   claim // whom the vote is given to; zero: nobody
	inquired bool  // INQUIRE is out for locked
	// queue is in the order of requests, with Config.Basic of arrival. Claims
	// of nodes in gone are parked: passed over until the node is listed.
	queue []claim
	over  requests.ByNode // newest request of each node that is over
	gone  requests.Peers  // lives declared failed
}

// claim is a request that wants or has the vote.
type claim struct {
	req   core.RequestID
	round uint64
	told  bool // that it FAILED, in this round; queued claims only
}

func (m *Machine) onRequest(q core.Peer, r core.RequestID, out *mutex.Effects) {
	m.clk = max(m.clk, r.TS)
	if r.Node != q.ID || r.IsZero() || !r.NewerThan(m.over.Get(q.ID)) {
		return // late
	}
	if m.locked.req == r {
		m.tell(m.locked, out)
		return
	}
	if i := m.queued(q.ID); i >= 0 && m.queue[i].req == r {
		if m.queue[i].told {
			m.tellFailed(&m.queue[i], out)
		}
		return
	}
	// A node has one request at a time: its earlier ones are over.
	for _, c := range append([]claim{m.locked}, m.queue...) {
		if c.req.Node == q.ID && c.req.NewerThan(r) {
			return
		}
	}
	m.strike(core.RequestID{Node: r.Node, Inc: r.Inc, TS: r.TS - 1}, out)
	m.admit(claim{req: r}, out)
}

// queued is the index of the claim of node k, -1 for none.
func (m *Machine) queued(k core.NodeID) int {
	return slices.IndexFunc(m.queue, func(c claim) bool { return c.req.Node == k })
}

// tell gives the vote, or repeats that it was given.
func (m *Machine) tell(c claim, out *mutex.Effects) {
	m.send(c.req.Node, &wire.OK{ID: c.req, Round: c.round}, core.Reply, out)
	if m.inquired {
		m.send(c.req.Node, &wire.Inquire{ID: c.req, Round: c.round}, core.Reliable, out)
	}
}

func (m *Machine) tellFailed(c *claim, out *mutex.Effects) {
	c.told = true
	m.send(c.req.Node, &wire.Failed{ID: c.req, Round: c.round}, core.Reply, out)
}

// first is the index of the first claim of the queue that is not parked, -1
// for none.
func (m *Machine) first() int {
	return slices.IndexFunc(m.queue, func(c claim) bool { return !m.gone.Has(c.req.Node) })
}

// admit handles a claim that is new, or back.
func (m *Machine) admit(c claim, out *mutex.Effects) {
	parked := m.gone.Has(c.req.Node)
	if m.locked.req.IsZero() && !parked {
		m.lock(c, out)
		return
	}
	first := m.first()
	if m.cfg.Basic || parked {
		m.insert(c)
		return
	}
	if m.locked.req.Before(c.req) || first >= 0 && m.queue[first].req.Before(c.req) {
		if m.has(Failed) {
			m.tellFailed(&c, out)
		}
		m.insert(c)
		return
	}
	if first >= 0 && !m.queue[first].told && m.has(Displaced) {
		m.tellFailed(&m.queue[first], out)
	}
	m.insert(c)
	if !m.inquired && m.has(Inquiry) {
		m.inquired = true
		m.send(m.locked.req.Node, &wire.Inquire{ID: m.locked.req, Round: m.locked.round}, core.Reliable, out)
	}
}

func (m *Machine) insert(c claim) {
	i := len(m.queue)
	if !m.cfg.Basic {
		if j := slices.IndexFunc(m.queue, func(o claim) bool { return c.req.Before(o.req) }); j >= 0 {
			i = j
		}
	}
	m.queue = slices.Insert(m.queue, i, c)
}

func (m *Machine) lock(c claim, out *mutex.Effects) {
	c.told = false
	m.locked, m.inquired = c, false
	m.tell(c, out)
}

// unlock passes the vote on.
func (m *Machine) unlock(out *mutex.Effects) {
	m.locked, m.inquired = claim{}, false
	if i := m.first(); i >= 0 {
		c := m.queue[i]
		m.queue = slices.Delete(m.queue, i, i+1)
		m.lock(c, out)
	}
}

func (m *Machine) onRelinquish(r core.RequestID, round uint64, out *mutex.Effects) {
	if m.locked.req != r || m.locked.round != round {
		return
	}
	m.insert(claim{req: r, round: round + 1, told: true})
	m.unlock(out)
}

func (m *Machine) onRelease(q core.Peer, r core.RequestID, out *mutex.Effects) {
	if r.Node == q.ID {
		m.strike(r, out)
	}
}

// strike ends the requests of node r.Node up to r.
func (m *Machine) strike(r core.RequestID, out *mutex.Effects) {
	m.over.Raise(r)
	ends := func(c claim) bool { return c.req.Node == r.Node && !c.req.NewerThan(r) }
	m.queue = slices.DeleteFunc(m.queue, ends)
	if !m.locked.req.IsZero() && ends(m.locked) {
		m.unlock(out)
	}
}

// disown takes the vote from a node declared failed. One that left has no
// request; of one that failed the claim is parked, in a new round, since the
// vote may have been counted.
func (m *Machine) disown(p core.Peer, left bool, out *mutex.Effects) {
	m.gone.Put(core.Peer{ID: p.ID, Inc: max(p.Inc, m.gone.Get(p.ID))})
	if left {
		m.queue = slices.DeleteFunc(m.queue, func(c claim) bool { return c.req.Node == p.ID })
	}
	if m.locked.req.IsZero() || m.locked.req.Node != p.ID {
		return
	}
	if !left {
		m.insert(claim{req: m.locked.req, round: m.locked.round + 1})
	}
	m.unlock(out)
}

// readmit ends the requests of former lives of p, and takes back what is
// parked of this one.
func (m *Machine) readmit(p core.Peer, out *mutex.Effects) {
	m.strike(core.RequestID{Node: p.ID, Inc: p.Inc}, out)
	if p.Inc < m.gone.Get(p.ID) || !m.gone.Has(p.ID) {
		return
	}
	m.gone.Delete(p.ID)
	if i := m.queued(p.ID); i >= 0 {
		c := m.queue[i]
		c.told = false
		m.queue = slices.Delete(m.queue, i, i+1)
		m.admit(c, out)
	}
}
