package kernel

import (
	"encoding/binary"
	"math"
	"sync"
	"time"

	"churnbed/emulator/link"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of sch_netem (linux/pkt_sched.h) that the library does not name.
const (
	tcaNetemLatency64 = 10
	tcaNetemJitter64  = 11
	tcaNetemPrngSeed  = 14 // Linux 6.6

	netemLossGE    = 2    // NETEM_LOSS_GE
	netemDistScale = 8192 // a table entry of this is one unit of jitter
	netemDistSize  = 4096
	netemQoptSize  = 24 // struct tc_netem_qopt

	netemHandle = 0x00010000 // "1:"
	handleRoot  = 0xffffffff // TC_H_ROOT
)

// Netem installs sch_netem as the root discipline of an interface, or changes
// the one that is there (queued frames and statistics stay). seed seeds its
// generator where the kernel can (6.6); older kernels ignore it.
//
// Attach it while the interface is down: on one that is up the kernel waits
// for a grace period.
func (b *Batch) Netem(index int32, p link.Params, seed uint64, change bool) {
	d := desc{op: "add netem", index: index}
	flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_EXCL)
	if change {
		d.op, flags = "change netem", 0
	}
	b.begin(unix.RTM_NEWQDISC, flags, d)
	b.tcmsg(index, netemHandle)
	b.attrString(nl.TCA_KIND, "netem")
	at := b.nest(nl.TCA_OPTIONS)
	// struct tc_netem_qopt; latency and jitter in ticks of 64 ns are
	// overridden by the exact attributes below.
	b.u32(ticks(p.Delay))
	b.u32(link.QueueLimit)
	b.u32(probability(p.Loss))
	b.u32(0) // gap
	b.u32(0) // duplicate
	b.u32(ticks(p.Jitter))
	b.attrU64(tcaNetemLatency64, uint64(p.Delay))
	b.attrU64(tcaNetemJitter64, uint64(p.Jitter))
	b.attrU64(tcaNetemPrngSeed, seed)

	// A change without a rate or a table would keep the old one: say both.
	bytes := uint64(p.Rate / 8)
	if p.Rate > 0 && bytes == 0 {
		bytes = 1
	}
	if bytes > math.MaxUint32 {
		b.attrU64(nl.TCA_NETEM_RATE64, bytes)
	}
	b.attrHead(nl.TCA_NETEM_RATE, 16)
	b.u32(uint32(min(bytes, math.MaxUint32)))
	b.i32(0)
	b.u32(0)
	b.i32(0)
	if p.Jitter > 0 && (change || p.Dist == link.Normal) {
		normal, uniform := netemTables()
		table := uniform
		if p.Dist == link.Normal {
			table = normal
		}
		b.attr(nl.TCA_NETEM_DELAY_DIST, table)
	}
	if g := p.Burst; g != nil {
		loss := b.nest(nl.TCA_NETEM_LOSS | unix.NLA_F_NESTED)
		// struct tc_netem_gemodel: p, r, h = what passes in the bad state, k1.
		b.attrHead(netemLossGE, 16)
		b.u32(probability(g.P))
		b.u32(probability(g.R))
		b.u32(probability(1 - g.Bad))
		b.u32(probability(g.Good))
		b.unnest(loss)
	}
	b.unnest(at)
	b.end()
}

// tcmsg appends a struct tcmsg for the root of an interface.
func (b *Batch) tcmsg(index int32, handle uint32) {
	b.raw(unix.AF_UNSPEC, 0, 0, 0)
	b.i32(index)
	b.u32(handle)
	b.u32(handleRoot)
	b.u32(0)
}

func ticks(d time.Duration) uint32 { return uint32(min(int64(d)>>6, math.MaxUint32)) }

func probability(p float64) uint32 { return uint32(math.Round(p * math.MaxUint32)) }

// netemTables returns the inverse cumulative distributions by which netem
// turns a uniform number into jitter, as it wants them: 16-bit integers,
// netemDistScale = 1. The normal one ends at 3.67 standard deviations; the
// uniform one spans -1..1 and stands for netem's own default, which cannot be
// asked for once a table was set.
var netemTables = sync.OnceValues(func() (normal, uniform []byte) {
	for i := range netemDistSize {
		p := (float64(i) + 0.5) / netemDistSize
		z := math.Sqrt2 * math.Erfinv(2*p-1)
		normal = binary.NativeEndian.AppendUint16(normal, uint16(int16(math.Round(z*netemDistScale))))
		uniform = binary.NativeEndian.AppendUint16(uniform, uint16(int16(math.Round((2*p-1)*netemDistScale))))
	}
	return normal, uniform
})

// QdiscStats are the counters of the root discipline of one interface.
type QdiscStats struct {
	Index   int32
	Kind    string
	Bytes   uint64 // sent on
	Packets uint64
	Queued  uint32 // frames waiting
	Drops   uint32 // dropped by loss or a full queue; wraps
}

// Qdiscs reads the root disciplines of all interfaces of the namespace.
func (c *Conn) Qdiscs() ([]QdiscStats, error) {
	var out []QdiscStats
	body := make([]byte, nl.SizeofTcMsg)
	err := c.dump("read queueing disciplines", unix.RTM_GETQDISC, body, func() { out = out[:0] }, func(m []byte) {
		if len(m) < nl.SizeofTcMsg || binary.NativeEndian.Uint32(m[12:]) != handleRoot {
			return
		}
		s := QdiscStats{Index: int32(binary.NativeEndian.Uint32(m[4:]))}
		for a := range attributes(m, nl.SizeofTcMsg) {
			switch a.kind {
			case nl.TCA_KIND:
				s.Kind = unix.ByteSliceToString(a.data)
			case nl.TCA_STATS2:
				s.stats2(a.data)
			}
		}
		out = append(out, s)
	})
	return out, err
}

// stats2 reads TCA_STATS2 (linux/gen_stats.h).
func (s *QdiscStats) stats2(b []byte) {
	pkt64 := false
	for a := range attributes(b, 0) {
		switch a.kind {
		case nl.TCA_STATS_BASIC: // struct gnet_stats_basic
			if len(a.data) >= 12 {
				s.Bytes = binary.NativeEndian.Uint64(a.data)
				if !pkt64 {
					s.Packets = uint64(binary.NativeEndian.Uint32(a.data[8:]))
				}
			}
		case 8: // TCA_STATS_PKT64: only where 32 bits do not suffice
			if len(a.data) >= 8 {
				s.Packets, pkt64 = binary.NativeEndian.Uint64(a.data), true
			}
		case nl.TCA_STATS_QUEUE: // struct gnet_stats_queue
			if len(a.data) >= 12 {
				s.Queued = binary.NativeEndian.Uint32(a.data)
				s.Drops = binary.NativeEndian.Uint32(a.data[8:])
			}
		}
	}
}
