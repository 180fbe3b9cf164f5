package wire

import (
	"encoding/binary"

	"churnbed/node/core"
)

// Messages of fault-tolerant fairk between the nodes of its ring (ALGORITHMS
// 5): kinds 116 to 119 and 121 to 127. A view is one agreed state of the ring,
// known by its number; id is that of a node whose state is meant, whoever acts
// for it; a stamp is a view and a version.
//
//	BEAT       view flags stamp count ids
//	CLAIM      view view
//	PROMISE    view view+1 flags count lives count (id stamp), with flag 2: request
//	VIEW       view flags count requests count (2*life+member stamp source+1)
//	VOTE       view flags
//	REFUSE     view view count lives
//	COPY       view id stamp count bytes
//	COPIED     view id version
//	DELIVER    view from to number message
//	TAKEN      view from number
//
// message is a kind and a payload, to the end. The first six are background:
// they keep the list of who takes part, and are of the class of membership.
const (
	KindBeat    byte = 116
	KindClaim   byte = 117
	KindPromise byte = 118
	KindView    byte = 119
	KindVote    byte = 121
	KindRefuse  byte = 122
	KindCopy    byte = 123
	KindCopied  byte = 124
	KindDeliver byte = 125
	KindTaken   byte = 126
)

// MaxRing bounds the nodes of a ring, so that VIEW, and the state of a node
// (COPY), fit a frame.
const MaxRing = 128

var ringKinds = []kind{
	{KindBeat, "BEAT", ClassMembership, func(r *Reader) core.Message {
		m := &Beat{View: r.Uvarint()}
		f := r.flags(1<<6 - 1)
		m.Ask, m.Answer, m.Started, m.Frozen, m.Join, m.Leaves = f&1 != 0, f&2 != 0, f&4 != 0, f&8 != 0, f&16 != 0, f&32 != 0
		m.Stamp = r.Uvarint()
		for range r.Count(1) {
			m.Down = append(m.Down, r.Node())
		}
		return m
	}},
	{KindClaim, "CLAIM", ClassMembership, func(r *Reader) core.Message { return &Claim{Ballot: r.Uvarint(), View: r.Uvarint()} }},
	{KindPromise, "PROMISE", ClassMembership, readPromise},
	{KindView, "VIEW", ClassMembership, readView},
	{KindVote, "VOTE", ClassMembership, func(r *Reader) core.Message {
		return &Vote{View: r.Uvarint(), Amnesiac: r.Bool()}
	}},
	{KindRefuse, "REFUSE", ClassMembership, func(r *Reader) core.Message {
		return &Refuse{Ballot: r.Uvarint(), Promised: r.Uvarint(), Lives: r.numbers()}
	}},
	{KindCopy, "COPY", ClassMutex, func(r *Reader) core.Message {
		return &Copy{View: r.Uvarint(), ID: r.Node(), Stamp: r.stamp(), State: r.Bytes(r.Count(1))}
	}},
	{KindCopied, "COPIED", ClassMutex, func(r *Reader) core.Message {
		return &Copied{View: r.Uvarint(), ID: r.Node(), Version: r.Uvarint()}
	}},
	{KindTaken, "TAKEN", ClassMutex, func(r *Reader) core.Message {
		return &Taken{View: r.Uvarint(), From: r.Node(), N: r.Uvarint()}
	}},
}

// deliverKind is apart, since its message is of any token kind.
var deliverKind = []kind{{KindDeliver, "DELIVER", ClassMutex, func(r *Reader) core.Message {
	return &Deliver{View: r.Uvarint(), From: r.Node(), To: r.Node(), N: r.Uvarint(), Msg: ReadTokenMessage(r)}
}}}

// IsRing reports whether k is one of the messages above, which are the
// algorithm's, whatever their class.
func IsRing(k byte) bool { return k >= KindBeat && k <= KindTaken && k != KindFlood }

type (
	// Beat shows that its sender runs.
	Beat struct {
		View    uint64 // newest that the sender accepted
		Ask     bool   // wants an answer, with the same Stamp
		Answer  bool
		Started bool // the view is in effect at the sender
		Frozen  bool // the sender promised a later view
		Join    bool // the sender has no part in what goes on and wants one
		Leaves  bool // the sender is about to end
		Stamp   uint64
		Down    []core.NodeID // whom the sender takes for failed
	}
	// Claim asks for a promise to take no part in views before Ballot.
	Claim struct {
		Ballot uint64
		View   uint64 // newest that the sender knows
	}
	// Promise answers Claim.
	Promise struct {
		Ballot   uint64
		Knows    bool // View is one that the sender accepted
		View     uint64
		Amnesiac bool     // the sender has forgotten what it promised before
		Lives    []uint64 // newest process start of each node
		Have     []Held
		Holds    core.RequestID // the sender is in the critical section with it; zero: is not
	}
	// Held is one id whose state a node has.
	Held struct {
		ID    core.NodeID
		Stamp Stamp
	}
	// Stamp orders the states of one id.
	Stamp struct{ View, Version uint64 }
	// View is the ring from Num on.
	View struct {
		Num   uint64
		Fresh bool             // what was before is lost; everything begins anew
		Slots []core.RequestID // of Fresh: who has each token
		Nodes []ViewNode       // by id
	}
	// ViewNode is one node of a View.
	ViewNode struct {
		Life   uint64 // newest process start
		Member bool
		Floor  Stamp       // of its state; older ones may lack what took effect
		Source core.NodeID // who has a state; None: it is as at the beginning
	}
	// Vote accepts a View.
	Vote struct {
		View     uint64
		Amnesiac bool // as in Promise
	}
	// Refuse answers Claim or View.
	Refuse struct {
		Ballot   uint64
		Promised uint64
		Lives    []uint64
	}
	// Copy is the state of ID, to be kept.
	Copy struct {
		View  uint64
		ID    core.NodeID
		Stamp Stamp
		State []byte
	}
	// Copied acknowledges Copy.
	Copied struct {
		View    uint64
		ID      core.NodeID
		Version uint64
	}
	// Deliver carries message N of the id From to the id To.
	Deliver struct {
		View     uint64
		From, To core.NodeID
		N        uint64
		Msg      core.Message
	}
	// Taken tells that message N of the id From took effect for good.
	Taken struct {
		View uint64
		From core.NodeID
		N    uint64
	}
)

// Before orders stamps.
func (s Stamp) Before(o Stamp) bool {
	if s.View != o.View {
		return s.View < o.View
	}
	return s.Version < o.Version
}

// Kind implements core.Message.
func (*Beat) Kind() byte { return KindBeat }

// Kind implements core.Message.
func (*Claim) Kind() byte { return KindClaim }

// Kind implements core.Message.
func (*Promise) Kind() byte { return KindPromise }

// Kind implements core.Message.
func (*View) Kind() byte { return KindView }

// Kind implements core.Message.
func (*Vote) Kind() byte { return KindVote }

// Kind implements core.Message.
func (*Refuse) Kind() byte { return KindRefuse }

// Kind implements core.Message.
func (*Copy) Kind() byte { return KindCopy }

// Kind implements core.Message.
func (*Copied) Kind() byte { return KindCopied }

// Kind implements core.Message.
func (*Deliver) Kind() byte { return KindDeliver }

// Kind implements core.Message.
func (*Taken) Kind() byte { return KindTaken }

// AppendPayload implements core.Message.
func (m *Beat) AppendPayload(b []byte) []byte {
	b = append(appendAll(b, m.View), Flags(m.Ask, m.Answer, m.Started, m.Frozen, m.Join, m.Leaves))
	b = appendAll(b, m.Stamp, uint64(len(m.Down)))
	for _, n := range m.Down {
		b = appendAll(b, uint64(n))
	}
	return b
}

// AppendPayload implements core.Message.
func (m *Claim) AppendPayload(b []byte) []byte { return appendAll(b, m.Ballot, m.View) }

// AppendPayload implements core.Message.
func (m *Promise) AppendPayload(b []byte) []byte {
	view := uint64(0)
	if m.Knows {
		view = m.View + 1
	}
	b = append(appendAll(b, m.Ballot, view), Flags(m.Amnesiac, !m.Holds.IsZero()))
	b = appendNumbers(b, m.Lives)
	b = appendAll(b, uint64(len(m.Have)))
	for _, h := range m.Have {
		b = appendAll(b, uint64(h.ID), h.Stamp.View, h.Stamp.Version)
	}
	if !m.Holds.IsZero() {
		b = AppendRequest(b, m.Holds)
	}
	return b
}

func readPromise(r *Reader) core.Message {
	m := &Promise{Ballot: r.Uvarint()}
	if v := r.Uvarint(); v > 0 {
		m.Knows, m.View = true, v-1
	}
	f := r.flags(3)
	m.Amnesiac, m.Lives = f&1 != 0, r.numbers()
	for range r.Count(3) {
		m.Have = append(m.Have, Held{ID: r.Node(), Stamp: r.stamp()})
	}
	if f&2 != 0 {
		m.Holds = r.Request()
	}
	return m
}

// AppendPayload implements core.Message.
func (m *View) AppendPayload(b []byte) []byte {
	b = append(appendAll(b, m.Num), Flags(m.Fresh))
	b = appendAll(b, uint64(len(m.Slots)))
	for _, r := range m.Slots {
		b = AppendRequest(b, r)
	}
	b = appendAll(b, uint64(len(m.Nodes)))
	for _, n := range m.Nodes {
		life := 2 * n.Life
		if n.Member {
			life++
		}
		b = appendAll(b, life, n.Floor.View, n.Floor.Version, uint64(n.Source+1))
	}
	return b
}

func readView(r *Reader) core.Message {
	m := &View{Num: r.Uvarint(), Fresh: r.Bool()}
	for range r.Count(3) {
		m.Slots = append(m.Slots, r.Request())
	}
	n := r.Count(4)
	if n > MaxRing || len(m.Slots) > MaxTokens || m.Fresh != (len(m.Slots) > 0) {
		r.fail("view")
		return m
	}
	for range n {
		life := r.Uvarint()
		m.Nodes = append(m.Nodes, ViewNode{
			Life: life / 2, Member: life&1 != 0, Floor: r.stamp(), Source: core.NodeID(r.Max(uint64(n), "source")) - 1,
		})
	}
	return m
}

// AppendPayload implements core.Message.
func (m *Vote) AppendPayload(b []byte) []byte {
	return append(appendAll(b, m.View), Flags(m.Amnesiac))
}

// AppendPayload implements core.Message.
func (m *Refuse) AppendPayload(b []byte) []byte {
	return appendNumbers(appendAll(b, m.Ballot, m.Promised), m.Lives)
}

// AppendPayload implements core.Message.
func (m *Copy) AppendPayload(b []byte) []byte {
	b = appendAll(b, m.View, uint64(m.ID), m.Stamp.View, m.Stamp.Version, uint64(len(m.State)))
	return append(b, m.State...)
}

// AppendPayload implements core.Message.
func (m *Copied) AppendPayload(b []byte) []byte {
	return appendAll(b, m.View, uint64(m.ID), m.Version)
}

// AppendPayload implements core.Message.
func (m *Deliver) AppendPayload(b []byte) []byte {
	return AppendTokenMessage(appendAll(b, m.View, uint64(m.From), uint64(m.To), m.N), m.Msg)
}

// AppendPayload implements core.Message.
func (m *Taken) AppendPayload(b []byte) []byte { return appendAll(b, m.View, uint64(m.From), m.N) }

// AppendTokenMessage appends what ReadTokenMessage reads.
func AppendTokenMessage(b []byte, m core.Message) []byte {
	return m.AppendPayload(append(b, m.Kind()))
}

// ReadTokenMessage reads a message of the token algorithms with its kind.
func ReadTokenMessage(r *Reader) core.Message {
	k := r.Byte()
	for i := range tokenKinds {
		if tokenKinds[i].id == k && r.err == nil {
			return tokenKinds[i].decode(r)
		}
	}
	r.fail("token message kind")
	return nil
}

func (r *Reader) stamp() Stamp { return Stamp{View: r.Uvarint(), Version: r.Uvarint()} }

func (r *Reader) numbers() []uint64 {
	n := r.Count(1)
	if n > MaxRing {
		r.fail("numbers")
		return nil
	}
	var list []uint64
	for range n {
		list = append(list, r.Uvarint())
	}
	return list
}

func appendAll(b []byte, v ...uint64) []byte {
	for _, x := range v {
		b = binary.AppendUvarint(b, x)
	}
	return b
}

func appendNumbers(b []byte, list []uint64) []byte {
	return appendAll(binary.AppendUvarint(b, uint64(len(list))), list...)
}
