package wire

import (
	"encoding/binary"

	"churnbed/node/core"
)

// Mutual-exclusion messages: kinds 32 to 63.
//
//	REQUEST    request [incarnation uvarint [uvarint node]]
//	           the first pair only where News or Grant > 0, the second only
//	           where Grant > 0
//	OK         request [flags [uvarint] [set] [set] [round uvarint] [part]]
//	           flags (none where all are 0): bit 0 amnesiac, bit 1 has News and
//	           Lives, bit 2 has Round, bit 3 has a Set, bit 4 is a part:
//	           uvarint Grant, uvarint Start, uvarint Next+1 (0: the last part)
//	RELEASE    request
//	RECOVER    incarnation (nonce) [incarnation node node]
//	RECOVERED  incarnation (nonce) set timestamps set [4 uvarint]
//	           the last where it is a part: Start, Next+1, LivesStart,
//	           LivesNext+1
//	INQUIRE, RELINQUISH, FAILED
//	           request [round uvarint]             the round only where > 0
//
// A request is node, incarnation, timestamp; a set is coded as set.go says. The
// timestamps of RECOVERED follow the members of its first set, each as the
// signed difference to the one before.
const (
	KindRequest    byte = 32
	KindOK         byte = 33
	KindRelease    byte = 34
	KindRecover    byte = 35
	KindRecovered  byte = 36
	KindInquire    byte = 37
	KindRelinquish byte = 38
	KindFailed     byte = 39
)

var mutexKinds = []kind{
	{KindRequest, "REQUEST", ClassMutex, func(r *Reader) core.Message { return readRequest(r) }},
	{KindOK, "OK", ClassMutex, func(r *Reader) core.Message { return readOK(r) }},
	{KindRelease, "RELEASE", ClassMutex, func(r *Reader) core.Message { return &Release{ID: r.Request()} }},
	{KindRecover, "RECOVER", ClassMutex, func(r *Reader) core.Message { return readRecover(r) }},
	{KindRecovered, "RECOVERED", ClassMutex, func(r *Reader) core.Message { return readRecovered(r) }},
	{KindInquire, "INQUIRE", ClassMutex, func(r *Reader) core.Message { return &Inquire{ID: r.Request(), Round: readRound(r)} }},
	{KindRelinquish, "RELINQUISH", ClassMutex, func(r *Reader) core.Message { return &Relinquish{ID: r.Request(), Round: readRound(r)} }},
	{KindFailed, "FAILED", ClassMutex, func(r *Reader) core.Message { return &Failed{ID: r.Request(), Round: readRound(r)} }},
}

// Request asks for the critical section (Ricart and Agrawala 1981).
type Request struct {
	ID core.RequestID
	// News tells the receiver how much of its news of restarts the requester
	// has heard: OK.News of the last OK it got from the receiver's life
	// NewsInc. Zero where it has heard none, and always in ra and
	// camera-paper.
	News    uint64
	NewsInc core.Incarnation
	// Grant, where > 0, asks for the next part of the OK that the receiver's
	// life NewsInc sent under that number: from id Start on.
	Grant uint64
	Start core.NodeID
}

// Kind implements core.Message.
func (*Request) Kind() byte { return KindRequest }

// AppendPayload implements core.Message.
func (m *Request) AppendPayload(b []byte) []byte {
	b = AppendRequest(b, m.ID)
	if m.News > 0 || m.Grant > 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(m.NewsInc)), m.News)
	}
	if m.Grant > 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, m.Grant), uint64(m.Start))
	}
	return b
}

func readRequest(r *Reader) *Request {
	m := &Request{ID: r.Request()}
	if r.Len() > 0 {
		m.NewsInc, m.News = r.Inc(), r.Uvarint()
		if r.err == nil && m.News == 0 && r.Len() == 0 {
			r.fail("news 0")
		}
	}
	if r.Len() > 0 {
		m.Grant, m.Start = r.Uvarint(), r.Node()
		if r.err == nil && m.Grant == 0 {
			r.fail("grant 0")
		}
	}
	return m
}

// OK grants the request ID.
type OK struct {
	ID core.RequestID
	// Amnesiac: the sender's life may have forgotten whom an earlier life
	// granted, so the OK is no grant towards a majority (trap H4a).
	Amnesiac bool
	// Set names the requesters that the sender granted and has not seen end,
	// the receiver left out, ascending by id.
	Set []core.Peer
	// Lives is news of restarted nodes up to the sender's news number News,
	// ascending by id.
	News  uint64
	Lives []core.Peer
	// Round counts how often the request gave this vote back before
	// (node/mutex/maekawa).
	Round uint64
	// Grant, where > 0, numbers a grant of the sender's life whose Set and
	// Lives do not fit in one message: this part has the members of the Set
	// from id Start up to Next, exclusive, and all from Start on where Next is
	// core.None. It grants nothing before all parts are there.
	Grant       uint64
	Start, Next core.NodeID
}

// Kind implements core.Message.
func (*OK) Kind() byte { return KindOK }

// AppendPayload implements core.Message.
func (m *OK) AppendPayload(b []byte) []byte {
	b = AppendRequest(b, m.ID)
	flags := Flags(m.Amnesiac, m.News > 0, m.Round > 0, len(m.Set) > 0, m.Grant > 0)
	if flags == 0 {
		return b
	}
	b = append(b, flags)
	if m.News > 0 {
		b = binary.AppendUvarint(b, m.News)
	}
	if len(m.Set) > 0 {
		b = appendPeerSet(b, m.Set)
	}
	if m.News > 0 {
		b = appendPeerSet(b, m.Lives)
	}
	b = appendRound(b, m.Round)
	if m.Grant > 0 {
		b = binary.AppendUvarint(b, m.Grant)
		b = binary.AppendUvarint(b, uint64(m.Start))
		b = binary.AppendUvarint(b, uint64(m.Next+1))
	}
	return b
}

func readOK(r *Reader) *OK {
	m := &OK{ID: r.Request()}
	if r.Len() == 0 {
		return m
	}
	flags := r.Byte()
	if r.err == nil && (flags == 0 || flags > 31) {
		r.fail("flags")
	}
	m.Amnesiac = flags&1 != 0
	if flags&2 != 0 {
		if m.News = r.Uvarint(); r.err == nil && m.News == 0 {
			r.fail("news 0")
		}
	}
	if flags&8 != 0 {
		if m.Set = readPeerSet(r); r.err == nil && len(m.Set) == 0 {
			r.fail("empty set")
		}
	}
	if flags&2 != 0 {
		m.Lives = readPeerSet(r)
	}
	if flags&4 != 0 {
		if m.Round = r.Uvarint(); r.err == nil && m.Round == 0 {
			r.fail("round 0")
		}
	}
	if flags&16 != 0 {
		m.Grant, m.Start, m.Next = r.Uvarint(), r.Node(), r.nodeOrNone()
		if r.err == nil && m.Grant == 0 {
			r.fail("grant 0")
		}
	}
	return m
}

// nodeOrNone reads what is written as the id plus 1.
func (r *Reader) nodeOrNone() core.NodeID { return core.NodeID(r.Max(core.MaxNodes, "node id")) - 1 }

// Release tells that the request ID is over.
type Release struct{ ID core.RequestID }

// Kind implements core.Message.
func (*Release) Kind() byte { return KindRelease }

// AppendPayload implements core.Message.
func (m *Release) AppendPayload(b []byte) []byte { return AppendRequest(b, m.ID) }

// Recover asks what the receiver knows of requests granted by an earlier life
// of the sender (node/mutex/camera).
type Recover struct {
	Nonce core.Incarnation
	// Inc, where > 0, is the life of the receiver whose answer is to go on:
	// with the requests of ids from Start and the lives of ids from LivesStart.
	Inc               core.Incarnation
	Start, LivesStart core.NodeID
}

// Kind implements core.Message.
func (*Recover) Kind() byte { return KindRecover }

// AppendPayload implements core.Message.
func (m *Recover) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(m.Nonce))
	if m.Inc > 0 {
		b = binary.AppendUvarint(b, uint64(m.Inc))
		b = binary.AppendUvarint(b, uint64(m.Start))
		b = binary.AppendUvarint(b, uint64(m.LivesStart))
	}
	return b
}

func readRecover(r *Reader) *Recover {
	m := &Recover{Nonce: r.Inc()}
	if r.Len() > 0 {
		m.Inc, m.Start, m.LivesStart = r.Inc(), r.Node(), r.Node()
		if r.err == nil && m.Inc == 0 {
			r.fail("incarnation 0")
		}
	}
	return m
}

// Recovered answers Recover.
type Recovered struct {
	Nonce core.Incarnation
	// Requests are those that the sender granted and has not seen end, and
	// its own, ascending by node, one a node.
	Requests []core.RequestID
	// Lives are the restarted nodes the sender knows, ascending by id.
	Lives []core.Peer
	// Part: not everything fits in one message. The Requests are those of ids
	// from Start up to Next, exclusive, or all from Start on where Next is
	// core.None; likewise the Lives.
	Part                  bool
	Start, Next           core.NodeID
	LivesStart, LivesNext core.NodeID
}

// Kind implements core.Message.
func (*Recovered) Kind() byte { return KindRecovered }

// AppendPayload implements core.Message.
func (m *Recovered) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(m.Nonce))
	b = appendRequests(b, m.Requests)
	b = appendPeerSet(b, m.Lives)
	if m.Part {
		for _, v := range [...]core.NodeID{m.Start, m.Next + 1, m.LivesStart, m.LivesNext + 1} {
			b = binary.AppendUvarint(b, uint64(v))
		}
	}
	return b
}

func appendRequests(b []byte, list []core.RequestID) []byte {
	set := make([]core.Peer, len(list))
	for i, q := range list {
		set[i] = core.Peer{ID: q.Node, Inc: q.Inc}
	}
	b = appendPeerSet(b, set)
	var last uint64
	for _, q := range list {
		b = binary.AppendVarint(b, int64(q.TS-last))
		last = q.TS
	}
	return b
}

// FitRequests returns how many of the first requests fit in so many bytes of a
// RECOVERED together.
func FitRequests(list []core.RequestID, room int) int {
	if len(appendRequests(nil, list)) <= room {
		return len(list)
	}
	low, high := 0, len(list)
	for high-low > 1 {
		if mid := (low + high) / 2; len(appendRequests(nil, list[:mid])) <= room {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

func readRecovered(r *Reader) *Recovered {
	m := &Recovered{Nonce: r.Inc()}
	set := readPeerSet(r)
	if len(set) > 0 {
		m.Requests = make([]core.RequestID, len(set))
	}
	var ts uint64
	for i, p := range set {
		ts += uint64(r.Varint())
		if r.err == nil && ts == 0 {
			r.fail("timestamp 0")
		}
		if r.err != nil {
			return &Recovered{}
		}
		m.Requests[i] = core.RequestID{Node: p.ID, Inc: p.Inc, TS: ts}
	}
	m.Lives = readPeerSet(r)
	if r.Len() > 0 {
		m.Part, m.Start, m.Next = true, r.Node(), r.nodeOrNone()
		m.LivesStart, m.LivesNext = r.Node(), r.nodeOrNone()
	}
	return m
}

// Inquire asks whether the request ID, which has the sender's vote of that
// round, can give it back (Maekawa 1985).
type Inquire struct {
	ID    core.RequestID
	Round uint64
}

// Kind implements core.Message.
func (*Inquire) Kind() byte { return KindInquire }

// AppendPayload implements core.Message.
func (m *Inquire) AppendPayload(b []byte) []byte { return appendRound(AppendRequest(b, m.ID), m.Round) }

// Relinquish gives the receiver's vote of that round back.
type Relinquish struct {
	ID    core.RequestID
	Round uint64
}

// Kind implements core.Message.
func (*Relinquish) Kind() byte { return KindRelinquish }

// AppendPayload implements core.Message.
func (m *Relinquish) AppendPayload(b []byte) []byte {
	return appendRound(AppendRequest(b, m.ID), m.Round)
}

// Failed tells that the request ID waits behind others for the sender's vote.
type Failed struct {
	ID    core.RequestID
	Round uint64
}

// Kind implements core.Message.
func (*Failed) Kind() byte { return KindFailed }

// AppendPayload implements core.Message.
func (m *Failed) AppendPayload(b []byte) []byte { return appendRound(AppendRequest(b, m.ID), m.Round) }

// appendRound appends a round at the end of a message, unless it is 0.
func appendRound(b []byte, round uint64) []byte {
	if round == 0 {
		return b
	}
	return binary.AppendUvarint(b, round)
}

func readRound(r *Reader) uint64 {
	if r.Len() == 0 {
		return 0
	}
	round := r.Uvarint()
	if r.err == nil && round == 0 {
		r.fail("round 0")
	}
	return round
}
