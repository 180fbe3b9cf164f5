package fairk

import (
	"fmt"
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// member is the algorithm at one id, a function of what it was given: who acts
// for the id calls it, and carries out what it asks in out.
type member struct {
	id    core.NodeID
	noIDs bool

	st  mutex.State
	clk uint64
	cur core.RequestID // of st

	parent core.NodeID    // core.None: root
	next   core.RequestID // came to a root that is to become coordinator

	token bool
	slot  int // of token
	// anchor is the request that was promised a token and has not passed it on,
	// whether or not it is over: CHILD and TOKEN find the id by it.
	anchor core.RequestID
	child  core.RequestID // gets the token after anchor

	lead   bool // coordinator
	slots  []core.RequestID
	order  uint64
	ledFor core.RequestID // newest own request with which the id became coordinator
	seen   requests.Walks
}

// output is what a member asks for, in order.
type output struct {
	sends   []addressed
	facts   []mutex.Fact
	granted bool
}

// addressed is a message to an id.
type addressed struct {
	to  core.NodeID
	msg core.Message
}

func (o *output) send(to core.NodeID, msg core.Message) {
	o.sends = append(o.sends, addressed{to, msg})
}

// firstRequest stands for the entry that brought a token to where it is at the
// beginning.
func firstRequest(id core.NodeID) core.RequestID {
	return core.RequestID{Node: id, Inc: core.FirstIncarnation, TS: 1}
}

// newMember returns the state of an id before anything happened. A restarted
// node without fault tolerance has forgotten what it had, and makes no token.
func newMember(id core.NodeID, placement []core.NodeID, noIDs, restarted bool, out *output) member {
	m := member{id: id, noIDs: noIDs, clk: 1, parent: placement[0]}
	if id == placement[0] {
		m.parent = core.None
	}
	if restarted {
		return m
	}
	if i := slices.Index(placement, id); i >= 0 {
		m.token, m.slot, m.anchor = true, i, firstRequest(id)
		out.facts = append(out.facts, mutex.Fact{What: mutex.TokenHeld, Slot: i, For: m.anchor})
	}
	if id == placement[0] {
		m.lead, m.ledFor = true, m.anchor
		for _, p := range placement {
			m.slots = append(m.slots, firstRequest(p))
		}
		out.facts = append(out.facts, mutex.Fact{What: mutex.Leads, For: m.anchor})
	}
	return m
}

// enter asks for the critical section on behalf of the life inc of the node.
func (m *member) enter(inc core.Incarnation, out *output) {
	m.clk++
	m.enterAs(core.RequestID{Node: m.id, Inc: inc, TS: m.clk}, out)
}

// enterAs is enter with the request r, newer than all before.
func (m *member) enterAs(r core.RequestID, out *output) {
	m.st, m.cur = mutex.Wait, r
	switch {
	case m.token:
		// An idle token serves without a message. The id stays the tail of
		// its queue, so anchor remains what others know it by.
		m.st, out.granted = mutex.Held, true
	case !m.anchor.IsZero():
		// A request that was given up: its turn serves this one.
	default:
		m.ask(out)
	}
}

// ask sends the request towards the root and becomes one.
func (m *member) ask(out *output) {
	m.anchor = m.cur
	if m.parent != core.None {
		out.send(m.parent, &wire.TokenRequest{For: m.cur})
		m.parent = core.None
	}
}

// exit leaves the critical section.
func (m *member) exit(out *output) {
	m.st, m.cur = mutex.None, core.RequestID{}
	m.handOn(out)
}

// giveUp ends the request of the node, in whatever state it is. A promise of a
// token stays, and the token passes through.
func (m *member) giveUp(out *output) {
	m.st, m.cur = mutex.None, core.RequestID{}
	m.handOn(out)
}

// handOn passes the token to who waits for it.
func (m *member) handOn(out *output) {
	if !m.token || m.st == mutex.Held || m.child.IsZero() {
		return
	}
	r := m.child
	m.token, m.anchor, m.child = false, core.RequestID{}, core.RequestID{}
	out.facts = append(out.facts, mutex.Fact{What: mutex.TokenSent, Slot: m.slot, For: r})
	out.send(r.Node, &wire.Token{For: r, Slot: m.slot})
}

// receive handles a message to the id.
func (m *member) receive(msg core.Message, out *output) {
	switch msg := msg.(type) {
	case *wire.TokenRequest:
		m.onRequest(msg.For, msg.Hop, out)
	case *wire.Child:
		m.onChild(msg.After, msg.For, out)
	case *wire.Token:
		m.onToken(msg.For, msg.Slot, out)
	case *wire.TokenLocations:
		m.onLocations(msg, out)
	}
}

// onRequest is REQUEST(r).
func (m *member) onRequest(r core.RequestID, hop uint64, out *output) {
	if !m.noIDs && !m.seen.Pass(r, hop) {
		return
	}
	switch {
	case m.parent != core.None:
		out.send(m.parent, &wire.TokenRequest{For: r, Hop: hop + 1})
	case m.lead:
		m.serve(r, out)
	default:
		m.next = r
	}
	m.parent = r.Node
}

// serve promises r the token after the last one in the queue whose turn it is,
// and makes its node coordinator.
func (m *member) serve(r core.RequestID, out *output) {
	i := m.order % uint64(len(m.slots))
	after := m.slots[i]
	m.slots[i] = r
	out.facts = append(out.facts, mutex.Fact{What: mutex.Promised, Slot: int(i), Order: m.order, For: r})
	child := &wire.Child{After: after, For: r, Order: m.order}
	out.send(r.Node, &wire.TokenLocations{For: r, Order: m.order + 1, Slots: m.slots})
	m.lead, m.slots, m.order = false, nil, 0
	if after.Node == m.id {
		m.onChild(child.After, child.For, out)
		return
	}
	out.send(after.Node, child)
}

// onChild is CHILD(r) for the request after.
func (m *member) onChild(after, r core.RequestID, out *output) {
	if !m.noIDs && (after != m.anchor || !m.child.IsZero()) {
		return // repeated: what after had is passed on, or will be
	}
	m.child = r
	m.parent = r.Node
	m.handOnIdle(out)
}

func (m *member) handOnIdle(out *output) {
	if m.st == mutex.None {
		m.handOn(out)
	}
}

// onToken is TOKEN for the request r.
func (m *member) onToken(r core.RequestID, slot int, out *output) {
	if !m.noIDs && (r != m.anchor || m.token) {
		return // repeated, or for a former life
	}
	m.token, m.slot = true, slot
	out.facts = append(out.facts, mutex.Fact{What: mutex.TokenHeld, Slot: slot, For: r})
	if m.st == mutex.Wait {
		m.st, out.granted = mutex.Held, true
		return
	}
	m.handOn(out)
}

// onLocations is TOKEN_LOCATIONS.
func (m *member) onLocations(msg *wire.TokenLocations, out *output) {
	if !m.noIDs && (msg.For.Node != m.id || !msg.For.NewerThan(m.ledFor)) {
		return
	}
	m.lead, m.order, m.ledFor = true, msg.Order, msg.For
	m.slots = slices.Clone(msg.Slots)
	out.facts = append(out.facts, mutex.Fact{What: mutex.Leads, Order: m.order, For: msg.For})
	if r := m.next; !r.IsZero() {
		m.next = core.RequestID{}
		m.serve(r, out)
	}
}

// custody is that of the id.
func (m *member) custody() mutex.Custody {
	c := mutex.Custody{Coordinator: m.lead, LedFor: m.ledFor, Parents: []core.NodeID{m.parent}}
	if m.token {
		c.Tokens = 1
	} else if !m.anchor.IsZero() {
		c.Awaited = []core.RequestID{m.anchor}
	}
	return c
}

// invariant returns what is wrong with the state, or nothing.
func (m *member) invariant() string {
	switch {
	case m.st == mutex.Held && !m.token:
		return "in the section without a token"
	case m.st == mutex.Wait && m.token:
		return "waits with a token"
	case m.token && m.anchor.IsZero():
		return "a token that no queue ends at"
	case m.token && m.st == mutex.None && !m.child.IsZero():
		return fmt.Sprintf("idle token, and %v waits for it", m.child)
	case m.lead && m.parent != core.None:
		return "coordinator, but no root"
	case m.lead && !m.next.IsZero():
		return fmt.Sprintf("coordinator, and %v waits to be served", m.next)
	case m.parent == m.id:
		return "its own parent"
	}
	return ""
}
