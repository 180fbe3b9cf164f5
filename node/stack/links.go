package stack

import (
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/mutex"
	"churnbed/node/mutex/localmutex"
	"churnbed/node/wire"
)

type (
	// LinkUp tells that the node has a link to a neighbour. Only nodes that
	// want it (Node.Links) are told, at their start of those that they have.
	LinkUp struct{ Peer core.NodeID }
	// LinkDown tells that the link is gone.
	LinkDown struct{ Peer core.NodeID }
)

func (LinkUp) input()   {}
func (LinkDown) input() {}

// Local tunes localmutex and localmutex-paper. Zero values are the defaults of
// the package.
type Local struct {
	Priorities int           `json:"priorities,omitempty"` // K
	Delta      int           `json:"delta,omitempty"`
	Backoff    time.Duration `json:"backoff,omitempty"`
	BackoffMax time.Duration `json:"backoff_max,omitempty"`
	// App names what nodes do under their locks, "" = nothing; see LocalApps.
	App string `json:"app,omitempty"`
}

// LinkLocal reports whether the named algorithm speaks with neighbours only.
func LinkLocal(algorithm string) bool {
	return algorithm == "localmutex" || algorithm == "localmutex-paper"
}

// LocalApps are the applications that Local.App names.
func LocalApps() []string { return []string{"election", "majority", "amoebot"} }

func newLocal(c *Config, paper bool) mutex.Machine {
	t := c.Algorithm.Local
	if t == nil {
		t = &Local{}
	}
	return localmutex.New(c.Self, localmutex.Config{
		Paper: paper, Priorities: t.Priorities, Delta: t.Delta, Backoff: t.Backoff, BackoffMax: t.BackoffMax,
		SelfPace: localmutex.DefaultSelfPace, Rand: core.Stream(c.Seed, "local/"+c.Self.String()),
		App: localmutex.AppNamed(t.App, int(c.Self.ID)),
	})
}

// Links reports whether the node wants LinkUp and LinkDown, and sends its
// frames over links only (Effect.OneHop).
func (n *Node) Links() bool { return n.local != nil }

// link takes in news of a link.
func (n *Node) link(now core.Instant, peer core.NodeID, up bool) {
	if n.local == nil {
		return
	}
	n.probes.link(peer, up)
	if up {
		n.logPort(now, peer, "up")
		n.stepMutex(now, mutex.LinkUp{Peer: peer})
	} else {
		n.stepMutex(now, mutex.LinkDown{Peer: peer})
	}
}

// logPort records that the node's port to a neighbour opened or closed. It
// closes also where only the neighbour has seen the link go.
func (n *Node) logPort(now core.Instant, peer core.NodeID, change string) {
	id := int32(peer)
	n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Port, Peer: &id, Change: change})
}

// oneHop reports whether a frame goes over the link to its destination and
// never over others.
func (n *Node) oneHop(f *wire.Frame) bool {
	return n.local != nil && f.Class() != wire.ClassMembership
}

// bounds are what the algorithm promises to keep small: the lengths of its
// messages and of its state, in bytes.
type bounds struct {
	least, most, state int
	scratch            []byte
}

func (b *bounds) sent(m core.Message) {
	b.scratch = m.AppendPayload(b.scratch[:0])
	size := len(b.scratch)
	if b.most == 0 || size < b.least {
		b.least = size
	}
	b.most = max(b.most, size)
}

// lockSet adds to an "enter" line what only neighbourhood locks have.
func (n *Node) lockSet(e *eventlog.Event) {
	if n.local == nil {
		return
	}
	b := &n.bounds
	b.scratch = n.local.AppendState(b.scratch[:0])
	b.state = max(b.state, len(b.scratch))
	began, first := n.local.Began()
	e.Hood = &eventlog.Hood{
		Began: int64(began), First: eventlog.FormatRanges(first), Tries: n.local.Tries(),
		InFlight: n.local.MostInFlight(), Least: b.least, Most: b.most, State: b.state,
	}
}

// link notes that probes to a neighbour are of no use while its link is down.
func (p *prober) link(peer core.NodeID, up bool) {
	if p.down == nil {
		p.down = make(map[core.NodeID]bool)
		for _, nb := range p.neighbours {
			p.down[nb] = true
		}
	}
	p.down[peer] = !up
	delete(p.seen, peer) // what was lost with the link is no loss on it
}

// skip moves the turn to the next neighbour whose link is up, and reports
// whether there is none.
func (p *prober) skip() bool {
	if p.down == nil {
		return false
	}
	i := slices.IndexFunc(p.neighbours[p.turn:], func(nb core.NodeID) bool { return !p.down[nb] })
	if i >= 0 {
		p.turn += i
		return false
	}
	p.turn = slices.IndexFunc(p.neighbours, func(nb core.NodeID) bool { return !p.down[nb] })
	if p.turn < 0 {
		p.turn = 0
		return true
	}
	return false
}
