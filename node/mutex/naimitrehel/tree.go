package naimitrehel

import (
	"encoding/binary"
	"fmt"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// Tree is one node's part of the tree and the queue of one token. It serves
// one request of its node at a time.
type Tree struct {
	Slot int // which token

	self   core.NodeID
	noIDs  bool
	father core.NodeID
	token  bool
	want   core.RequestID // asked for, or entered with; zero: none
	next   core.RequestID // gets the token from here
	seen   requests.Walks
	sends  func(core.NodeID, core.Message)
	facts  func(mutex.Fact)
	loads  func() []wire.Load // what rides on messages; may give nil
	passes func()             // told that the token leaves
}

// NewTree returns the part of node self of the tree whose root is root at the
// beginning. A restarted node has no token whatever root says.
func NewTree(self, root core.NodeID, slot int, noIDs, restarted bool) Tree {
	t := Tree{Slot: slot, self: self, noIDs: noIDs, father: root}
	if self == root {
		t.father, t.token = core.None, !restarted
	}
	return t
}

// Bind tells a tree where its messages and facts go for one step. loads gives
// what rides on messages, passes is told that the token leaves; both may be nil.
func (t *Tree) Bind(sends func(core.NodeID, core.Message), facts func(mutex.Fact), loads func() []wire.Load, passes func()) {
	t.sends, t.facts, t.loads, t.passes = sends, facts, loads, passes
}

// Token reports whether the token is here, Wants whether a request of the node
// is queued or entered.
func (t *Tree) Token() bool { return t.token }

// Wants returns the request of the node, zero where there is none.
func (t *Tree) Wants() core.RequestID { return t.want }

// Root reports whether the node is a root: it has the token or will get it.
func (t *Tree) Root() bool { return t.father == core.None }

// Enter asks for the token with r and reports whether it is here.
func (t *Tree) Enter(r core.RequestID) (granted bool) {
	t.want = r
	if t.token {
		return true
	}
	if t.father != core.None {
		t.sends(t.father, &wire.TokenRequest{For: r, Slot: t.Slot, Loads: t.ride()})
		t.father = core.None
	}
	return false
}

// Exit ends the request of the node.
func (t *Tree) Exit() {
	t.want = core.RequestID{}
	if !t.next.IsZero() && t.token {
		t.pass(t.next)
		t.next = core.RequestID{}
	}
}

// OnRequest handles TOKEN_REQUEST.
func (t *Tree) OnRequest(r core.RequestID, hop uint64) {
	if !t.noIDs && !t.seen.Pass(r, hop) {
		return
	}
	switch {
	case t.father != core.None:
		t.sends(t.father, &wire.TokenRequest{For: r, Hop: hop + 1, Slot: t.Slot, Loads: t.ride()})
	case t.want.IsZero() && t.token:
		t.pass(r)
	default:
		t.next = r
	}
	t.father = r.Node
}

// OnToken handles TOKEN and reports whether it lets the request of the node
// enter.
func (t *Tree) OnToken(r core.RequestID) (granted bool) {
	if !t.noIDs && (r != t.want || t.token) {
		return false // repeated, or for a former life
	}
	t.token = true
	t.facts(mutex.Fact{What: mutex.TokenHeld, Slot: t.Slot, For: r})
	return !t.want.IsZero()
}

func (t *Tree) pass(r core.RequestID) {
	t.token = false
	if t.passes != nil {
		t.passes()
	}
	t.facts(mutex.Fact{What: mutex.TokenSent, Slot: t.Slot, For: r})
	t.sends(r.Node, &wire.Token{For: r, Slot: t.Slot, Loads: t.ride()})
}

func (t *Tree) ride() []wire.Load {
	if t.loads == nil {
		return nil
	}
	return t.loads()
}

// AddCustody adds what the tree has and waits for.
func (t *Tree) AddCustody(c *mutex.Custody) {
	if t.token {
		c.Tokens++
	} else if !t.want.IsZero() {
		c.Awaited = append(c.Awaited, t.want)
	}
	c.Parents = append(c.Parents, t.father)
}

// AppendState appends a canonical encoding.
func (t *Tree) AppendState(b []byte) []byte {
	b = binary.AppendVarint(b, int64(t.father))
	b = append(b, wire.Flags(t.token))
	b = requests.AppendRequest(b, t.want)
	b = requests.AppendRequest(b, t.next)
	return t.seen.AppendState(b)
}

// Invariant returns what is wrong with the state, or nothing.
func (t *Tree) Invariant() string {
	switch {
	case t.father == core.None && !t.token && t.want.IsZero():
		return fmt.Sprintf("root of token %d without it", t.Slot)
	case t.father == t.self:
		return "its own father"
	case !t.next.IsZero() && t.token && t.want.IsZero():
		return fmt.Sprintf("idle token %d, and %v waits for it", t.Slot, t.next)
	}
	return ""
}
