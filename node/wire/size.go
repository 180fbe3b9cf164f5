package wire

import (
	"encoding/binary"

	"churnbed/node/core"
)

// Estimates of the number of nodes: kinds 24 to 31.
//
//	SIZE       flags, uvarint floor, uvarint count, count x uint16
//
// Bit 0 of the flags says that the sender's bound is settled, bit 1 that it
// wants the receiver's in return.
const KindSize byte = 24

// MaxMinima bounds Size.Minima so that a frame holds them.
const MaxMinima = 640

var sizeKinds = []kind{
	{KindSize, "SIZE", ClassMembership, func(r *Reader) core.Message { return readSize(r) }},
}

// Size is what a node knows about the number of nodes: package size.
type Size struct {
	Settled bool
	Answer  bool
	Floor   int      // distinct nodes that somebody has listed
	Minima  []uint16 // codes of the minima; the larger code is the smaller minimum
}

// Kind implements core.Message.
func (*Size) Kind() byte { return KindSize }

// AppendPayload implements core.Message.
func (m *Size) AppendPayload(b []byte) []byte {
	b = binary.AppendUvarint(append(b, Flags(m.Settled, m.Answer)), uint64(m.Floor))
	b = binary.AppendUvarint(b, uint64(len(m.Minima)))
	for _, c := range m.Minima {
		b = binary.BigEndian.AppendUint16(b, c)
	}
	return b
}

func readSize(r *Reader) *Size {
	flags := r.flags(3)
	m := &Size{Settled: flags&1 != 0, Answer: flags&2 != 0, Floor: int(r.Max(core.MaxNodes, "number of nodes"))}
	n := r.Count(2)
	if n > MaxMinima {
		r.fail("number of minima")
	}
	if r.err != nil {
		return m
	}
	m.Minima = make([]uint16, n)
	for i := range m.Minima {
		m.Minima[i] = uint16(r.Byte())<<8 | uint16(r.Byte())
	}
	return m
}
