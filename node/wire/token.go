package wire

import (
	"encoding/binary"

	"churnbed/node/core"
)

// Messages of the token algorithms (node/mutex/naimitrehel, bv95 and fairk):
// kinds 112 to 115. Each names the request it is about, so that a repeated
// message is known for one.
//
//	TOKEN            request slot loads
//	TOKEN_REQUEST    request hop slot loads
//	CHILD            request (after) request order
//	TOKEN_LOCATIONS  request order count requests
//
// loads is a count and as many pairs of integers: queue length, version.
const (
	KindToken          byte = 112
	KindTokenRequest   byte = 113
	KindChild          byte = 114
	KindTokenLocations byte = 115
)

// MaxTokens bounds the number of tokens of a mesh, so that TOKEN_LOCATIONS
// fits a frame.
const MaxTokens = 64

var tokenKinds = []kind{
	{KindToken, "TOKEN", ClassMutex, func(r *Reader) core.Message {
		return &Token{For: r.Request(), Slot: readSlot(r), Loads: readLoads(r)}
	}},
	{KindTokenRequest, "TOKEN_REQUEST", ClassMutex, func(r *Reader) core.Message {
		return &TokenRequest{For: r.Request(), Hop: r.Uvarint(), Slot: readSlot(r), Loads: readLoads(r)}
	}},
	{KindChild, "CHILD", ClassMutex, func(r *Reader) core.Message {
		return &Child{After: r.Request(), For: r.Request(), Order: r.Uvarint()}
	}},
	{KindTokenLocations, "TOKEN_LOCATIONS", ClassMutex, func(r *Reader) core.Message { return readTokenLocations(r) }},
}

// Load is what is known of the queue of one token: its length, and how often
// that changed.
type Load struct {
	Length  int64 // may be a wrong guess, hence negative
	Version uint64
}

// Token lets the request For enter.
type Token struct {
	For   core.RequestID
	Slot  int    // which of the k tokens it is
	Loads []Load // bv95: by token
}

// Kind implements core.Message.
func (*Token) Kind() byte { return KindToken }

// AppendPayload implements core.Message.
func (m *Token) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(AppendRequest(b, m.For), uint64(m.Slot))
	return appendLoads(b, m.Loads)
}

// TokenRequest asks for a token on behalf of For, which need not be the
// sender's: it is the REQUEST of the publications, forwarded along a tree.
type TokenRequest struct {
	For   core.RequestID
	Hop   uint64 // how often it was forwarded: with For, the name of the message
	Slot  int    // bv95: of which token the tree is
	Loads []Load // bv95: by token
}

// Kind implements core.Message.
func (*TokenRequest) Kind() byte { return KindTokenRequest }

// AppendPayload implements core.Message.
func (m *TokenRequest) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(AppendRequest(b, m.For), m.Hop)
	b = binary.AppendUvarint(b, uint64(m.Slot))
	return appendLoads(b, m.Loads)
}

// Child tells the node of the request After that For gets its token next.
type Child struct {
	After, For core.RequestID
	Order      uint64 // of For among all requests that a coordinator served, from 0
}

// Kind implements core.Message.
func (*Child) Kind() byte { return KindChild }

// AppendPayload implements core.Message.
func (m *Child) AppendPayload(b []byte) []byte {
	return binary.AppendUvarint(AppendRequest(AppendRequest(b, m.After), m.For), m.Order)
}

// TokenLocations makes the node of the request For coordinator.
type TokenLocations struct {
	For   core.RequestID
	Order uint64           // requests served so far; the next goes to Slots[Order mod k]
	Slots []core.RequestID // last in the queue of each token
}

// Kind implements core.Message.
func (*TokenLocations) Kind() byte { return KindTokenLocations }

// AppendPayload implements core.Message.
func (m *TokenLocations) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(AppendRequest(b, m.For), m.Order)
	b = binary.AppendUvarint(b, uint64(len(m.Slots)))
	for _, r := range m.Slots {
		b = AppendRequest(b, r)
	}
	return b
}

func readTokenLocations(r *Reader) *TokenLocations {
	m := &TokenLocations{For: r.Request(), Order: r.Uvarint()}
	n := r.Count(3)
	if n > MaxTokens || n == 0 {
		r.fail("tokens")
		return m
	}
	for range n {
		m.Slots = append(m.Slots, r.Request())
	}
	return m
}

func readSlot(r *Reader) int { return int(r.Max(MaxTokens-1, "token")) }

func appendLoads(b []byte, loads []Load) []byte {
	b = binary.AppendUvarint(b, uint64(len(loads)))
	for _, l := range loads {
		b = binary.AppendUvarint(binary.AppendVarint(b, l.Length), l.Version)
	}
	return b
}

func readLoads(r *Reader) []Load {
	n := r.Count(2)
	if n > MaxTokens {
		r.fail("tokens")
	}
	var loads []Load
	for range n {
		if r.err != nil {
			return nil
		}
		loads = append(loads, Load{Length: r.Varint(), Version: r.Uvarint()})
	}
	return loads
}
