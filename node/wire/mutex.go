package wire

import (
	"encoding/binary"
	"slices"

	"churnbed/node/core"
)

// Mutual-exclusion messages: kinds 32 to 63.
//
//	REQUEST    request [incarnation uvarint]   the pair only where News > 0
//	OK         request flags [uvarint] set [set] [round uvarint]
//	           flags: bit 0 amnesiac, bit 1 has News and Lives, bit 2 has Round
//	RELEASE    request
//	RECOVER    incarnation (nonce)
//	RECOVERED  incarnation (nonce) set timestamps set
//	INQUIRE, RELINQUISH, FAILED
//	           request [round uvarint]             the round only where > 0
//
// A request is node, incarnation, timestamp. A set of (id, incarnation) pairs
// is
//
//	uvarint  number of members; nothing follows where it is 0
//	uvarint  number T of distinct incarnations
//	T times  uvarint: the lowest incarnation, then the steps upwards
//	members  uvarint step*T + index: step is the id less the previous id less
//	         1 (the first: the id itself), index points into the table above
//
// so that a member costs one byte as long as step*T stays below 128. The
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
	{KindRecover, "RECOVER", ClassMutex, func(r *Reader) core.Message { return &Recover{Nonce: r.Inc()} }},
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
}

// Kind implements core.Message.
func (*Request) Kind() byte { return KindRequest }

// AppendPayload implements core.Message.
func (m *Request) AppendPayload(b []byte) []byte {
	b = AppendRequest(b, m.ID)
	if m.News > 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(m.NewsInc)), m.News)
	}
	return b
}

func readRequest(r *Reader) *Request {
	m := &Request{ID: r.Request()}
	if r.Len() > 0 {
		m.NewsInc, m.News = r.Inc(), r.Uvarint()
		if r.err == nil && m.News == 0 {
			r.fail("news 0")
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
}

// Kind implements core.Message.
func (*OK) Kind() byte { return KindOK }

// AppendPayload implements core.Message.
func (m *OK) AppendPayload(b []byte) []byte {
	b = AppendRequest(b, m.ID)
	var flags byte
	if m.Amnesiac {
		flags |= 1
	}
	if m.News > 0 {
		flags |= 2
	}
	if m.Round > 0 {
		flags |= 4
	}
	b = append(b, flags)
	if m.News > 0 {
		b = binary.AppendUvarint(b, m.News)
	}
	b = appendPeerSet(b, m.Set)
	if m.News > 0 {
		b = appendPeerSet(b, m.Lives)
	}
	return appendRound(b, m.Round)
}

func readOK(r *Reader) *OK {
	m := &OK{ID: r.Request()}
	flags := r.Byte()
	if flags > 7 {
		r.fail("flags")
	}
	m.Amnesiac = flags&1 != 0
	if flags&2 != 0 {
		if m.News = r.Uvarint(); r.err == nil && m.News == 0 {
			r.fail("news 0")
		}
	}
	m.Set = readPeerSet(r)
	if flags&2 != 0 {
		m.Lives = readPeerSet(r)
	}
	if flags&4 != 0 {
		if m.Round = r.Uvarint(); r.err == nil && m.Round == 0 {
			r.fail("round 0")
		}
	}
	return m
}

// Release tells that the request ID is over.
type Release struct{ ID core.RequestID }

// Kind implements core.Message.
func (*Release) Kind() byte { return KindRelease }

// AppendPayload implements core.Message.
func (m *Release) AppendPayload(b []byte) []byte { return AppendRequest(b, m.ID) }

// Recover asks what the receiver knows of requests granted by an earlier life
// of the sender (node/mutex/camera).
type Recover struct{ Nonce core.Incarnation }

// Kind implements core.Message.
func (*Recover) Kind() byte { return KindRecover }

// AppendPayload implements core.Message.
func (m *Recover) AppendPayload(b []byte) []byte {
	return binary.AppendUvarint(b, uint64(m.Nonce))
}

// Recovered answers Recover.
type Recovered struct {
	Nonce core.Incarnation
	// Requests are those that the sender granted and has not seen end, and
	// its own, ascending by node, one a node.
	Requests []core.RequestID
	// Lives are the restarted nodes the sender knows, ascending by id.
	Lives []core.Peer
}

// Kind implements core.Message.
func (*Recovered) Kind() byte { return KindRecovered }

// AppendPayload implements core.Message.
func (m *Recovered) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(m.Nonce))
	set := make([]core.Peer, len(m.Requests))
	for i, q := range m.Requests {
		set[i] = core.Peer{ID: q.Node, Inc: q.Inc}
	}
	b = appendPeerSet(b, set)
	var last uint64
	for _, q := range m.Requests {
		b = binary.AppendVarint(b, int64(q.TS-last))
		last = q.TS
	}
	return appendPeerSet(b, m.Lives)
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

// appendPeerSet appends a set that ascends by id, at most one peer an id.
func appendPeerSet(b []byte, set []core.Peer) []byte {
	b = binary.AppendUvarint(b, uint64(len(set)))
	if len(set) == 0 {
		return b
	}
	var room [8]core.Incarnation
	table := room[:0]
	for _, p := range set {
		if i, found := slices.BinarySearch(table, p.Inc); !found {
			table = slices.Insert(table, i, p.Inc)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(table)))
	var low core.Incarnation
	for _, inc := range table {
		b = binary.AppendUvarint(b, uint64(inc-low))
		low = inc
	}
	next := core.NodeID(0)
	for _, p := range set {
		i, _ := slices.BinarySearch(table, p.Inc)
		b = binary.AppendUvarint(b, uint64(p.ID-next)*uint64(len(table))+uint64(i))
		next = p.ID + 1
	}
	return b
}

func readPeerSet(r *Reader) []core.Peer {
	n := r.Count(1)
	if n == 0 || r.err != nil {
		return nil
	}
	t := r.Count(1)
	if r.err == nil && (t == 0 || t > n) {
		r.fail("number of incarnations")
	}
	if r.err != nil {
		return nil
	}
	table := make([]core.Incarnation, t)
	used := make([]bool, t)
	var low uint64
	for i := range table {
		step := r.Max(1<<32-1, "incarnation")
		if low += step; r.err == nil && (low > 1<<32-1 || i > 0 && step == 0) {
			r.fail("incarnation table")
		}
		table[i] = core.Incarnation(low)
	}
	set := make([]core.Peer, 0, n)
	next := uint64(0)
	for range n {
		v := r.Max(core.MaxNodes*uint64(t), "set member")
		id := next + v/uint64(t)
		if r.err == nil && id >= core.MaxNodes {
			r.fail("node id")
		}
		if r.err != nil {
			return nil
		}
		used[v%uint64(t)] = true
		set = append(set, core.Peer{ID: core.NodeID(id), Inc: table[v%uint64(t)]})
		next = id + 1
	}
	if slices.Contains(used, false) {
		r.fail("unused incarnation")
		return nil
	}
	return set
}
