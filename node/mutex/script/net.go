// Package script drives several mutual-exclusion machines through explicit
// schedules: every message is delivered, dropped or duplicated by command,
// nodes crash, restart, and gain or lose list entries by command, and after
// each step the harness looks for two nodes in the critical section. Scripts
// (node/mutex/testdata) replay the traps of ALGORITHMS 2.2; Walk draws
// schedules at random; Explore tries all of them up to a depth.
//
// It is a test support package: a network without a transport. A message stays
// in flight until a command takes it, which covers any loss that a transport
// repairs, and any delay and reordering. A message is delivered to whichever
// life of its destination is up. Machines are called from one goroutine.
package script

import (
	"fmt"
	"slices"
	"strings"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// Make makes the machine of a node.
type Make func(self core.Peer) mutex.Machine

// Envelope is a message in flight.
type Envelope struct {
	From core.Peer
	To   core.NodeID
	Msg  core.Message
	Mode core.Mode
}

// String shows the route and the message.
func (e Envelope) String() string {
	return fmt.Sprintf("p%d->p%d %s", e.From.ID, e.To, describe(e.Msg))
}

// Node is one node of the net.
type Node struct {
	Machine  mutex.Machine // of the last life, if the node is down
	Peer     core.Peer
	Up       bool
	Amnesiac bool // by the machine's notes
	Entries  int
	Kept     []byte // over its lives
}

// Net is a set of nodes and the messages between them.
type Net struct {
	Now   core.Instant
	Nodes []Node
	// Permits is how many may hold at once; 0 = 1.
	Permits int
	Flight  []Envelope
	// Trace, if set, is told every send, state change and note.
	Trace func(string)

	mk Make
}

// NewNet returns n nodes, all down.
func NewNet(n int, mk Make) *Net {
	net := &Net{mk: mk, Nodes: make([]Node, n)}
	for i := range net.Nodes {
		net.Nodes[i].Peer = core.Peer{ID: core.NodeID(i)}
	}
	return net
}

func (n *Net) tell(format string, args ...any) {
	if n.Trace != nil {
		n.Trace(fmt.Sprintf(format, args...))
	}
}

// Start starts node k, which must be down, in its next process life, with the
// given members in their present lives.
func (n *Net) Start(k int, members []int) {
	var list []core.Peer
	for _, j := range members {
		if j != k {
			p := n.Nodes[j].Peer
			p.Inc = max(p.Inc, core.FirstIncarnation)
			list = append(list, p)
		}
	}
	n.StartWith(k, list)
}

// StartWith is Start with members in any of their lives, as an outdated list
// has them.
func (n *Net) StartWith(k int, list []core.Peer) {
	x := &n.Nodes[k]
	x.Peer.Inc = core.Incarnation(x.Peer.Inc.Start()+1) * core.IncarnationStep
	x.Machine, x.Up, x.Amnesiac = n.mk(x.Peer), true, false
	n.Step(k, mutex.Start{Members: list, Restarted: x.Peer.Inc > core.FirstIncarnation, Kept: x.Kept})
}

// Crash ends the life of node k. What it sent stays in flight.
func (n *Net) Crash(k int) { n.Nodes[k].Up = false }

// Fence makes node k go on in its next incarnation.
func (n *Net) Fence(k int) {
	n.Nodes[k].Peer.Inc++
	n.Step(k, mutex.Fence{Inc: n.Nodes[k].Peer.Inc})
}

// Step gives node k an input.
func (n *Net) Step(k int, in mutex.Input) {
	x := &n.Nodes[k]
	before := x.Machine.State()
	var out mutex.Effects
	x.Machine.Step(n.Now, in, &out)
	if out.Persist != nil {
		x.Kept = out.Persist
	}
	for _, note := range out.Notes {
		x.Amnesiac = note == "amnesiac" || x.Amnesiac && note != "recovered"
		n.tell("p%d is %s", k, note)
	}
	if !out.Given.IsZero() {
		n.tell("p%d gives up %v", k, out.Given)
	}
	if after := x.Machine.State(); after != before {
		n.tell("p%d %v -> %v", k, before, after)
		if after == mutex.Held {
			x.Entries++
		}
	}
	for _, p := range out.Learned {
		n.tell("p%d learns of p%d", k, p.ID)
	}
	for _, s := range out.Sends {
		e := Envelope{From: x.Peer, To: s.To, Msg: s.Msg, Mode: s.Mode}
		n.Flight = append(n.Flight, e)
		n.tell("%v", e)
	}
}

// Take removes message i from flight.
func (n *Net) Take(i int) Envelope {
	e := n.Flight[i]
	n.Flight = slices.Delete(n.Flight, i, i+1)
	return e
}

// Deliver gives message i to its destination, which must be up.
func (n *Net) Deliver(i int) {
	e := n.Take(i)
	n.Step(int(e.To), mutex.Receive{From: e.From, Msg: e.Msg})
}

// Tick gives node k its Tick.
func (n *Net) Tick(k int) { n.Step(k, mutex.Tick{}) }

// Holders are the nodes that are up and in the critical section.
func (n *Net) Holders() []int {
	var h []int
	for i, x := range n.Nodes {
		if x.Up && x.Machine.State() == mutex.Held {
			h = append(h, i)
		}
	}
	return h
}

// Violation describes more holders than may be, or is empty.
func (n *Net) Violation() string {
	if v, ok := n.ringViolation(); ok {
		return v
	}
	h := n.Holders()
	if len(h) <= max(1, n.Permits) {
		return n.custodyViolation()
	}
	if n.Permits > 1 {
		return fmt.Sprintf("VIOLATION: %d HELD:%s", len(h), nodeNames(h))
	}
	return fmt.Sprintf("VIOLATION: two HELD: p%d %v, p%d %v", h[0], n.Nodes[h[0]].Machine.Request(), h[1], n.Nodes[h[1]].Machine.Request())
}

// NextDeadline is the earliest deadline of a node that is up, and the node.
func (n *Net) NextDeadline() (core.Instant, int) {
	t, k := core.Never, -1
	for i, x := range n.Nodes {
		if x.Up {
			if d := x.Machine.Deadline(); d < t {
				t, k = d, i
			}
		}
	}
	return t, k
}

// Finish delivers everything, lets holders exit and time pass, until nobody
// waits or nothing more happens within the given number of ticks. It reports
// who still waits; it stops at a violation.
func (n *Net) Finish(ticks int) (waiting []int) {
	for n.Violation() == "" {
		switch i := slices.IndexFunc(n.Flight, func(e Envelope) bool { return n.Nodes[e.To].Up }); {
		case i >= 0:
			n.Deliver(i)
			continue
		case len(n.Holders()) > 0:
			n.Step(n.Holders()[0], mutex.Exit{})
			continue
		}
		waiting = waiting[:0]
		for i, x := range n.Nodes {
			if x.Up && x.Machine.State() == mutex.Wait {
				waiting = append(waiting, i)
			}
		}
		t, k := n.NextDeadline()
		if len(waiting) == 0 || t == core.Never || ticks == 0 {
			return waiting
		}
		ticks--
		n.Now = max(n.Now, t)
		n.Tick(k)
	}
	return nil
}

// describe shows a message as scripts do.
func describe(m core.Message) string {
	var b strings.Builder
	b.WriteString(wire.KindName(m.Kind()))
	switch m := m.(type) {
	case *wire.Request:
		fmt.Fprintf(&b, " %v", m.ID)
	case *wire.OK:
		fmt.Fprintf(&b, " %v", m.ID)
		if m.Amnesiac {
			b.WriteString(" amnesiac")
		}
		describePeers(&b, " recent", m.Set)
		describePeers(&b, " restarted", m.Lives)
		describeRound(&b, m.Round)
	case *wire.Release:
		fmt.Fprintf(&b, " %v", m.ID)
	case *wire.Inquire:
		fmt.Fprintf(&b, " %v", m.ID)
		describeRound(&b, m.Round)
	case *wire.Relinquish:
		fmt.Fprintf(&b, " %v", m.ID)
		describeRound(&b, m.Round)
	case *wire.Failed:
		fmt.Fprintf(&b, " %v", m.ID)
		describeRound(&b, m.Round)
	case *wire.TreeJoin:
		fmt.Fprintf(&b, " %v/%d depth=%d", m.ID, m.Round, m.Depth)
	case *wire.TreeAck:
		fmt.Fprintf(&b, " %v/%d %s", m.ID, m.Round, [...]string{"elsewhere", "child", "unknown"}[m.Answer])
	case *wire.TreeStart:
		fmt.Fprintf(&b, " %v/%d level=%d", m.ID, m.Round, m.Level)
		if m.Adopt {
			b.WriteString(" adopts")
		}
	case *wire.TreeEcho:
		fmt.Fprintf(&b, " %v/%d level=%d", m.ID, m.Round, m.Level)
		if m.More {
			b.WriteString(" more")
		}
		for i, s := range m.Shape {
			b.WriteString(map[bool]string{true: " shape=", false: " "}[i == 0])
			fmt.Fprintf(&b, "%s:p%d", strings.Repeat(".", s.Depth-1), s.Peer.ID)
		}
	case *wire.TreeOK:
		fmt.Fprintf(&b, " %v/%d", m.ID, m.Round)
		describePeers(&b, " granted", m.Grants)
		describePeers(&b, " amnesiac", m.Amnesiac)
		describePeers(&b, " recent", m.Recent)
		describePeers(&b, " restarted", m.Lives)
	case *wire.Alive:
		fmt.Fprintf(&b, " p%d for p%d", m.Target, m.Origin)
	case *wire.AliveAck:
		fmt.Fprintf(&b, " p%d for p%d", m.Peer.ID, m.Origin)
	case *wire.Token:
		fmt.Fprintf(&b, " for %v", m.For)
	case *wire.TokenRequest:
		fmt.Fprintf(&b, " of %v hop=%d", m.For, m.Hop)
	case *wire.Child:
		fmt.Fprintf(&b, " %v after %v", m.For, m.After)
	case *wire.TokenLocations:
		fmt.Fprintf(&b, " for %v order=%d", m.For, m.Order)
	case *wire.Claim:
		fmt.Fprintf(&b, " %d", m.Ballot)
	case *wire.Promise:
		fmt.Fprintf(&b, " %d view=%d", m.Ballot, m.View)
	case *wire.View:
		fmt.Fprintf(&b, " %d", m.Num)
	case *wire.Vote:
		fmt.Fprintf(&b, " %d", m.View)
	case *wire.Beat:
		fmt.Fprintf(&b, " view=%d", m.View)
	case *wire.Copy:
		fmt.Fprintf(&b, " of p%d %d.%d view=%d", m.ID, m.Stamp.View, m.Stamp.Version, m.View)
	case *wire.Copied:
		fmt.Fprintf(&b, " of p%d %d view=%d", m.ID, m.Version, m.View)
	case *wire.Deliver:
		fmt.Fprintf(&b, " p%d to p%d view=%d: %s", m.From, m.To, m.View, describe(m.Msg))
	case *wire.Taken:
		fmt.Fprintf(&b, " %d of p%d view=%d", m.N, m.From, m.View)
	case *wire.Recovered:
		for _, r := range m.Requests {
			fmt.Fprintf(&b, " %v", r)
		}
		describePeers(&b, " restarted", m.Lives)
	}
	return b.String()
}

func describeRound(b *strings.Builder, round uint64) {
	if round > 0 {
		fmt.Fprintf(b, " round=%d", round)
	}
}

func describePeers(b *strings.Builder, name string, set []core.Peer) {
	if len(set) == 0 {
		return
	}
	sep := name + "={"
	for _, p := range set {
		fmt.Fprintf(b, "%sp%d", sep, p.ID)
		sep = ","
	}
	b.WriteString("}")
}
