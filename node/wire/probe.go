package wire

import (
	"encoding/binary"

	"churnbed/node/core"
)

// Kinds of the testbed's own messages: 96 to 111.
const KindProbe byte = 96

// Probe is a one-hop datagram by which the run measures its own links: the
// receiver compares the instant of sending with its own clock, which is the
// same clock.
type Probe struct {
	N    uint64       // counts the probes of this sender to this neighbour, from 1
	Sent core.Instant // taken just before the datagram is handed to the kernel
}

// Kind implements core.Message.
func (*Probe) Kind() byte { return KindProbe }

// AppendPayload implements core.Message.
func (p *Probe) AppendPayload(b []byte) []byte {
	return binary.AppendVarint(binary.AppendUvarint(b, p.N), int64(p.Sent))
}

var probeKinds = []kind{
	{KindProbe, "PROBE", ClassProbe, func(r *Reader) core.Message {
		return &Probe{N: r.Uvarint(), Sent: core.Instant(r.Varint())}
	}},
}
