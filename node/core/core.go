// Package core holds the vocabulary that every pure machine of a node shares:
// identities, instants, outgoing messages and seeded random streams.
//
// It is not a protocol and does no I/O: no goroutine, lock, clock, socket,
// file or global lives here or in any package that is pure (see
// ARCHITECTURE.md). Whoever owns a machine (node/host for a real node,
// emulator/sim for a simulated one) serialises the calls to it.
package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// NodeID names a mesh node for the whole run, 0..MaxNodes-1. It does not
// change when the node restarts; see Incarnation.
type NodeID int32

// None is the absent node.
const None NodeID = -1

// MaxNodes bounds NodeID: ids below it have an address in the mesh prefix.
const MaxNodes = 1 << 16

// Incarnation counts the lives of a node. The first process start has
// FirstIncarnation; every restart raises it by IncarnationStep, every forced
// leave (ALGORITHMS 2.4) by one, so that a process may leave and rejoin
// without asking anybody.
type Incarnation uint32

// FirstIncarnation is the incarnation of the first process start of a node,
// IncarnationStep the gap between two process starts.
const (
	FirstIncarnation Incarnation = IncarnationStep
	IncarnationStep  Incarnation = 1 << 10
)

// Start returns which process start (1, 2, ...) an incarnation belongs to.
func (i Incarnation) Start() int { return int(i / IncarnationStep) }

// Restarted is the incarnation of the next process start.
func (i Incarnation) Restarted() Incarnation { return Incarnation(i.Start()+1) * IncarnationStep }

// Peer is a node in one of its lives.
type Peer struct {
	ID  NodeID      `json:"id"`
	Inc Incarnation `json:"inc"`
}

func (p Peer) String() string { return fmt.Sprintf("%d.%d", p.ID, p.Inc) }

// Instant is a point of scenario time in nanoseconds since the run's zero,
// which lies before the first node starts. The workload begins at the epoch,
// an instant that is known once everyone has joined. In an emulated run it is
// CLOCK_MONOTONIC less the zero, divided by the time scale, so instants of
// different processes compare exactly.
type Instant int64

// Never is the deadline of a machine that waits for input only.
const Never Instant = math.MaxInt64

// Add returns t+d; Never stays Never.
func (t Instant) Add(d time.Duration) Instant {
	if t == Never {
		return Never
	}
	return t + Instant(d)
}

// Sub returns t-u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Seconds returns the instant in seconds.
func (t Instant) Seconds() float64 { return float64(t) / 1e9 }

func (t Instant) String() string {
	if t == Never {
		return "never"
	}
	return time.Duration(t).String()
}

// RequestID names one request of one life of a node (ALGORITHMS, common
// rules). TS is the Lamport timestamp taken at enter(); it is never 0 in a
// request that was made, so the zero RequestID means "none".
type RequestID struct {
	Node NodeID
	Inc  Incarnation
	TS   uint64
}

// IsZero reports whether r names no request.
func (r RequestID) IsZero() bool { return r.TS == 0 }

// Before is the priority between nodes: the smaller (timestamp, id) enters
// first (Lamport 1978; Ricart and Agrawala 1981).
func (r RequestID) Before(o RequestID) bool {
	if r.TS != o.TS {
		return r.TS < o.TS
	}
	return r.Node < o.Node
}

// NewerThan orders requests of one node: the larger (incarnation, timestamp)
// is the newer. The zero RequestID is older than any other.
func (r RequestID) NewerThan(o RequestID) bool {
	if r.Inc != o.Inc {
		return r.Inc > o.Inc
	}
	return r.TS > o.TS
}

// String formats r as "node.inc.ts", the form used in event logs.
func (r RequestID) String() string {
	b := make([]byte, 0, 24)
	b = strconv.AppendInt(b, int64(r.Node), 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, uint64(r.Inc), 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, r.TS, 10)
	return string(b)
}

// ParseRequestID reads the form that RequestID.String writes, and no other:
// ids below MaxNodes, no signs, spaces or leading zeros.
func ParseRequestID(s string) (RequestID, error) {
	node, rest, _ := strings.Cut(s, ".")
	inc, ts, _ := strings.Cut(rest, ".")
	var r RequestID
	for _, field := range []struct {
		text  string
		limit uint64
		set   func(v uint64)
	}{
		{node, MaxNodes - 1, func(v uint64) { r.Node = NodeID(v) }},
		{inc, math.MaxUint32, func(v uint64) { r.Inc = Incarnation(v) }},
		{ts, math.MaxUint64, func(v uint64) { r.TS = v }},
	} {
		v, err := strconv.ParseUint(field.text, 10, 64)
		if err != nil {
			return RequestID{}, fmt.Errorf("parse request id %q: want node.incarnation.timestamp: %w", s, err)
		}
		if v > field.limit || len(field.text) > 1 && field.text[0] == '0' {
			return RequestID{}, fmt.Errorf("parse request id %q: %s: want a number up to %d", s, field.text, field.limit)
		}
		field.set(v)
	}
	return r, nil
}

// Message is anything that travels between nodes; node/wire implements all of
// them. Machines treat a received message as read-only: in the simulator the
// sender's value itself is delivered.
type Message interface {
	// Kind is the one-byte message kind of node/wire.
	Kind() byte
	// AppendPayload appends the encoded message, without kind and frame.
	AppendPayload(b []byte) []byte
}

// Mode says what the transport owes a message.
type Mode uint8

const (
	// Datagram is sent once; loss is harmless.
	Datagram Mode = iota
	// Reliable is retransmitted until the peer acknowledges it, the peer is
	// forgotten (Forget), or a newer reliable message of the same kind to the
	// same peer supersedes it. It is delivered at most once per life of the receiver.
	Reliable
	// Reply answers the reliable message that is being handled in this very
	// step. It carries that message's acknowledgement and is not
	// acknowledged itself: a repeated request makes the transport repeat it
	// (at-most-once RPC, Birrell and Nelson 1984). Where no reliable message
	// of the destination is being handled, it is sent as Reliable.
	Reply
	// Ordered is Reliable, but supersedes nothing: it waits until what was sent
	// before it of its kind to the same peer is acknowledged. For messages
	// that are each needed, such as a token. A kind is sent either so or as
	// Reliable. What is equal to one that still waits is not sent again.
	Ordered
	// OrderedReply is Reply where it answers what is being handled, else
	// Ordered.
	OrderedReply
)

// Send is one message that a machine wants sent.
type Send struct {
	To   NodeID
	Msg  Message
	Mode Mode
}
