// Package wire turns messages between nodes into bytes and back. Every parser
// is bounds-checked, rejects trailing bytes and never panics; none keeps a
// reference to its input.
//
// A frame is the payload of one UDP datagram:
//
//	byte 0      version (Version)
//	byte 1      bits 0-2 class, bit 3 reliable, bit 4 reply, bit 5 has ack,
//	            bit 6 has message, bit 7 again
//	uvarint     sender id
//	uvarint     sender incarnation
//	uvarint     destination id
//	uvarint     sequence number           (reliable)
//	uvarint     acknowledged incarnation  (has ack): the life of the
//	uvarint     acknowledged sequence      destination that sent it
//	byte        message kind              (has message)
//	...         message payload, to the end of the datagram
//
// Bit 7 says that the frame acknowledges a repetition or, without an
// acknowledgement, that it is one: a repetition never carries one.
//
// The class stands at a fixed place so that a link layer can count hops by
// class without parsing (see emulator/fabric). Integers are unsigned LEB128
// as in encoding/binary, in their shortest form.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"churnbed/node/core"
)

// Version is the first byte of every frame.
const Version = 1

// Port is the UDP port of every node on its mesh address.
const Port = 7077

// MaxFrame bounds a frame so that it fits an Ethernet frame of 1500 bytes
// without fragmentation (RFC 894 less IPv4 and UDP headers, some to spare).
const MaxFrame = 1400

// MaxPayload is what a message may take of a frame.
const MaxPayload = MaxFrame - 40

// Class says what a frame is for; counters are kept by class.
type Class uint8

const (
	ClassAck        Class = iota // transport acknowledgement alone
	ClassMembership              // background: membership service
	ClassMutex                   // foreground: mutual exclusion
	ClassProbe                   // fidelity probes of the testbed itself
	ClassGroup                   // k-groups, devices, routines
	NumClasses      = 5
)

var classNames = [NumClasses]string{"ack", "membership", "mutex", "probe", "group"}

func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

const (
	flagReliable = 1 << 3
	flagReply    = 1 << 4
	flagAck      = 1 << 5
	flagMessage  = 1 << 6
	flagAgain    = 1 << 7
	classMask    = 7
)

// ErrMalformed is wrapped by every parse error.
var ErrMalformed = errors.New("malformed frame")

// kind describes one message kind.
type kind struct {
	id     byte
	name   string
	class  Class
	decode func(*Reader) core.Message
}

var kinds = func() (t [256]*kind) {
	for _, set := range [][]kind{
		membershipKinds, sizeKinds, mutexKinds, treeKinds, tokenKinds, ringKinds, deliverKind, floodKinds, probeKinds, localKinds, groupKinds,
	} {
		for _, k := range set {
			if t[k.id] != nil {
				panic(fmt.Sprintf("wire: kind %d is defined twice", k.id))
			}
			t[k.id] = &k
		}
	}
	return t
}()

// AckName is how logs call a frame that carries an acknowledgement only.
const AckName = "transport-ack"

// FrameName returns the name of a message kind as logs show it, AckName for
// kind 0 (a frame without a message).
func FrameName(k byte) string {
	if k == 0 {
		return AckName
	}
	return KindName(k)
}

// KindName returns the name of a message kind as logs show it.
func KindName(k byte) string {
	if d := kinds[k]; d != nil {
		return d.name
	}
	return fmt.Sprintf("kind(%d)", k)
}

// KindClass returns the class of a message kind.
func KindClass(k byte) Class {
	if d := kinds[k]; d != nil {
		return d.class
	}
	return ClassAck
}

// Frame is one datagram. Msg is nil in a pure acknowledgement.
type Frame struct {
	From     core.Peer
	To       core.NodeID
	Reliable bool
	Reply    bool   // answers AckSeq; always HasAck
	Seq      uint64 // where Reliable
	HasAck   bool
	AckInc   core.Incarnation
	AckSeq   uint64
	Again    bool // HasAck: for a repetition; else Reliable: is a repetition
	Msg      core.Message
}

// Class returns the class of the frame.
func (f *Frame) Class() Class {
	if f.Msg == nil {
		return ClassAck
	}
	return KindClass(f.Msg.Kind())
}

// Append appends the encoded frame.
func (f *Frame) Append(b []byte) []byte {
	flags := byte(f.Class())
	if f.Reliable {
		flags |= flagReliable
	}
	if f.Reply {
		flags |= flagReply
	}
	if f.HasAck {
		flags |= flagAck
	}
	if f.Msg != nil {
		flags |= flagMessage
	}
	if f.Again {
		flags |= flagAgain
	}
	b = append(b, Version, flags)
	b = binary.AppendUvarint(b, uint64(f.From.ID))
	b = binary.AppendUvarint(b, uint64(f.From.Inc))
	b = binary.AppendUvarint(b, uint64(f.To))
	if f.Reliable {
		b = binary.AppendUvarint(b, f.Seq)
	}
	if f.HasAck {
		b = binary.AppendUvarint(b, uint64(f.AckInc))
		b = binary.AppendUvarint(b, f.AckSeq)
	}
	if f.Msg != nil {
		b = append(b, f.Msg.Kind())
		b = f.Msg.AppendPayload(b)
	}
	return b
}

// Parse reads one frame. The frame does not refer to b afterwards.
func Parse(b []byte) (Frame, error) {
	r := Reader{b: b}
	var f Frame
	if v := r.Byte(); r.err == nil && v != Version {
		return Frame{}, fmt.Errorf("%w: version %d, want %d", ErrMalformed, v, Version)
	}
	flags := r.Byte()
	f.From = r.Peer()
	f.To = r.Node()
	f.Reliable, f.Reply, f.HasAck = flags&flagReliable != 0, flags&flagReply != 0, flags&flagAck != 0
	f.Again = flags&flagAgain != 0
	if f.Again && !f.Reliable && !f.HasAck || f.Reply && (f.Reliable || !f.HasAck) {
		r.fail("flags")
	}
	if f.Reliable {
		f.Seq = r.Uvarint()
	}
	if f.HasAck {
		f.AckInc = r.Inc()
		f.AckSeq = r.Uvarint()
	}
	if flags&flagMessage != 0 {
		k := r.Byte()
		d := kinds[k]
		if r.err == nil && d == nil {
			r.fail("message kind")
		}
		if r.err == nil {
			f.Msg = d.decode(&r)
		}
	}
	if r.err == nil && r.off != len(b) {
		r.fail("trailing bytes")
	}
	if r.err == nil && byte(f.Class()) != flags&classMask {
		r.fail("class")
	}
	if r.err != nil {
		return Frame{}, r.err
	}
	return f, nil
}

// Reader reads the fields of a message. The first error sticks; after it
// every read returns zero.
type Reader struct {
	b   []byte
	off int
	err error
}

// NewReader reads from b.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Len returns how many bytes are left, 0 after an error.
func (r *Reader) Len() int {
	if r.err != nil {
		return 0
	}
	return len(r.b) - r.off
}

func (r *Reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s at byte %d of %d", ErrMalformed, what, r.off, len(r.b))
	}
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if r.err != nil {
		return 0
	}
	if r.off >= len(r.b) {
		r.fail("short")
		return 0
	}
	r.off++
	return r.b[r.off-1]
}

// Bool reads one byte that must be 0 or 1.
func (r *Reader) Bool() bool {
	v := r.Byte()
	if v > 1 {
		r.fail("boolean")
	}
	return v == 1
}

// Flags puts up to eight booleans into a byte, the first into its lowest bit.
func Flags(on ...bool) byte {
	var f byte
	for i, o := range on {
		if o {
			f |= 1 << i
		}
	}
	return f
}

// flags reads what Flags made, at most limit.
func (r *Reader) flags(limit byte) byte {
	f := r.Byte()
	if f > limit {
		r.fail("flags")
	}
	return f
}

// Uvarint reads an unsigned LEB128 integer in its shortest form.
func (r *Reader) Uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b[r.off:])
	if n <= 0 || n > 1 && r.b[r.off+n-1] == 0 {
		r.fail("integer")
		return 0
	}
	r.off += n
	return v
}

// Max reads an integer no larger than limit.
func (r *Reader) Max(limit uint64, what string) uint64 {
	v := r.Uvarint()
	if v > limit {
		r.fail(what)
		return 0
	}
	return v
}

// Count reads the length of a list whose items take at least itemBytes each,
// so that a short datagram cannot ask for a large allocation.
func (r *Reader) Count(itemBytes int) int {
	v := r.Uvarint()
	if r.err == nil && v > uint64(len(r.b)-r.off)/uint64(itemBytes) {
		r.fail("count")
		return 0
	}
	return int(v)
}

// Node reads a node id.
func (r *Reader) Node() core.NodeID { return core.NodeID(r.Max(core.MaxNodes-1, "node id")) }

// Inc reads an incarnation.
func (r *Reader) Inc() core.Incarnation { return core.Incarnation(r.Max(1<<32-1, "incarnation")) }

// Peer reads a node id and an incarnation.
func (r *Reader) Peer() core.Peer { return core.Peer{ID: r.Node(), Inc: r.Inc()} }

// Request reads a request id: node, incarnation, timestamp (not 0).
func (r *Reader) Request() core.RequestID {
	q := core.RequestID{Node: r.Node(), Inc: r.Inc(), TS: r.Uvarint()}
	if r.err == nil && q.TS == 0 {
		r.fail("timestamp 0")
	}
	if r.err != nil {
		return core.RequestID{}
	}
	return q
}

// AppendPeer appends what Reader.Peer reads.
func AppendPeer(b []byte, p core.Peer) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.ID)), uint64(p.Inc))
}

// AppendRequest appends what Reader.Request reads.
func AppendRequest(b []byte, q core.RequestID) []byte {
	return binary.AppendUvarint(AppendPeer(b, core.Peer{ID: q.Node, Inc: q.Inc}), q.TS)
}

// Varint reads a zig-zag LEB128 integer.
func (r *Reader) Varint() int64 {
	u := r.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Fail makes the reader fail for a reason of the caller's.
func (r *Reader) Fail(what string) { r.fail(what) }
