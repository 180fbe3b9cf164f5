package results

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/wire"
)

// Number is a figure that may be unknown: NaN is null in JSON.
type Number float64

// Unknown is the Number that was not measured.
func Unknown() Number { return Number(math.NaN()) }

// Known reports whether the figure was measured.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return appendFloat(nil, float64(n)), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Unknown()
		return nil
	}
	v, err := parseFloat(b)
	*n = Number(v)
	return err
}

// Ratio returns a/b, unknown where b is 0.
func ratio(a, b float64) Number {
	if b == 0 {
		return Unknown()
	}
	return Number(a / b)
}

// Dist describes a sample in milliseconds of scenario time. Percentiles are
// exact: the smallest value that at least that share of the sample does not
// exceed. Figures of an empty sample are unknown.
type Dist struct {
	N    int    `json:"n"`
	Mean Number `json:"mean"`
	P50  Number `json:"p50"`
	P90  Number `json:"p90"`
	P99  Number `json:"p99"`
	Max  Number `json:"max"`
	// Unfit: the host did not keep up, these times are no result.
	Unfit bool `json:"unfit,omitempty"`
}

// distribution sorts ms.
func distribution(ms []float64) Dist {
	u := Unknown()
	if len(ms) == 0 {
		return Dist{Mean: u, P50: u, P90: u, P99: u, Max: u}
	}
	slices.Sort(ms)
	q := func(p float64) Number { return Number(stat.Quantile(p, stat.Empirical, ms, nil)) }
	return Dist{
		N: len(ms), Mean: Number(stat.Mean(ms, nil)), P50: q(.5), P90: q(.9), P99: q(.99), Max: Number(ms[len(ms)-1]),
	}
}

// sums are the figures that add up while the logs are read.
type sums struct {
	numbers map[int]struct{} // workload numbers asked
	dropNos map[int]struct{} // workload numbers given up
	dropped int

	slowPath int // entries by way of it

	kills, restarts, pauses, leaves, joins int
	liveActions                            int // done by hand while it ran
	killedLives                            int // since the epoch
	hit                                    map[string]int

	falsePositives map[core.Peer]struct{}
	falseEvents    int
	detections     []float64 // ms

	sizeArea, sizeTime float64
	sizeMin            int64

	sent         map[string]eventlog.Count
	partialLives int // whose last counters were lost with them

	frames, dropsPlanned, dropsUnplanned int64
	expectDrops                          float64
	classFrames                          [3]int64 // mutex, membership, other
}

func newSums() sums {
	return sums{
		numbers: make(map[int]struct{}), dropNos: make(map[int]struct{}),
		hit:            map[string]int{"NONE": 0, "WAIT": 0, "HELD": 0},
		falsePositives: make(map[core.Peer]struct{}), sent: make(map[string]eventlog.Count),
	}
}

func (m *sums) asked(no int) {
	if no > 0 {
		m.numbers[no] = struct{}{}
	}
}

func (m *sums) drop(no int) {
	m.dropped++
	m.dropNos[no] = struct{}{}
}

// skipped counts arrivals that never became a request: their node was down,
// or ended while they were queued. arrivals is 0 where the workload has no
// fixed number of them.
func (m *sums) skipped(arrivals int) int {
	if arrivals > 0 {
		return max(0, arrivals-len(m.numbers))
	}
	n := 0
	for no := range m.dropNos {
		if _, asked := m.numbers[no]; !asked {
			n++
		}
	}
	return n
}

func (m *sums) falsePositive(p core.Peer) {
	m.falseEvents++
	m.falsePositives[p] = struct{}{}
}

func (m *sums) smallest(size int64) {
	if m.sizeMin == 0 || size < m.sizeMin {
		m.sizeMin = size
	}
}

// counters adds the last counters of one life; final tells that they were
// written at its end.
func (m *sums) counters(sent map[string]eventlog.Count, final bool) {
	if !final {
		m.partialLives++
	}
	for k, c := range sent {
		s := m.sent[k]
		s.N += c.N
		s.Bytes += c.Bytes
		s.Retrans += c.Retrans
		s.Hops += c.Hops
		m.sent[k] = s
	}
}

func (m *sums) host(h *eventlog.Host) {
	m.frames += h.Frames
	m.dropsPlanned += h.Dropped
	m.dropsUnplanned += h.Unplanned
	m.expectDrops += h.ExpectDrops
	m.classFrames[0] += h.Mutex
	m.classFrames[1] += h.Membership
	m.classFrames[2] += h.Other
}

// kindClasses maps the names of message kinds in logs to their class.
var kindClasses = func() map[string]wire.Class {
	m := map[string]wire.Class{wire.AckName: wire.ClassAck}
	for k := 1; k < 256; k++ {
		name := wire.KindName(byte(k))
		if strings.HasPrefix(name, "kind(") {
			continue // not in use
		}
		m[name] = wire.KindClass(byte(k))
	}
	return m
}()

// Messages counts datagrams. End-to-end (E2E) is one datagram handed to the
// network by its originator, retransmissions included; hop-to-hop (H2H) one
// hop of it (ALGORITHMS 8). Acknowledgements that travel alone are counted
// apart; per_cs means for each served request.
type Messages struct {
	E2EPerCS        Number          `json:"e2e_per_cs"`
	H2HPerCS        Number          `json:"h2h_per_cs"`
	E2EMutex        int64           `json:"e2e_mutex"`
	H2HTotal        int64           `json:"h2h_total"` // frames on links, of every class
	H2HMutex        Number          `json:"h2h_mutex"`
	E2EMembership   int64           `json:"e2e_membership"`
	BytesMutex      int64           `json:"bytes_mutex"` // UDP payload, end to end
	BytesMembership int64           `json:"bytes_membership"`
	Acks            int64           `json:"acks"`
	Retransmissions int64           `json:"retransmissions"`
	ByKind          map[string]Kind `json:"by_kind"`
	// H2HSource is "counted" where the link layer told the class of every
	// frame, "apportioned" where the frames less the probes (one hop each)
	// were divided as the end-to-end datagrams are: too few for the
	// algorithm where membership pings near nodes only. Floods are added by
	// what the nodes sent on. "none" without
	// frame counts.
	H2HSource string `json:"h2h_source"`
	// PartialLives is the number of processes that were killed: what they sent
	// after their last counters line is not counted.
	PartialLives int `json:"partial_lives"`
}

// Kind counts the datagrams of one message kind.
type Kind struct {
	N               int64  `json:"n"`
	Bytes           int64  `json:"bytes"`
	Retransmissions int64  `json:"retransmissions"`
	Class           string `json:"class"`
}

func (m *sums) messages(served int) Messages {
	out := Messages{ByKind: make(map[string]Kind, len(m.sent)), H2HMutex: Unknown(), H2HSource: "none", PartialLives: m.partialLives}
	var other, probes, floods, flooded int64
	for name, c := range m.sent {
		class, known := kindClasses[name]
		k := Kind{c.N, c.Bytes, c.Retrans, class.String()}
		switch {
		case !known:
			k.Class = "unknown"
			other += c.N
		case class == wire.ClassAck:
			out.Acks += c.N
		case class == wire.ClassMutex:
			out.E2EMutex += c.N
			out.BytesMutex += c.Bytes
		case class == wire.ClassMembership:
			out.E2EMembership += c.N
			out.BytesMembership += c.Bytes
		case class == wire.ClassProbe:
			probes += c.N
		default:
			other += c.N
		}
		if c.Hops > 0 { // the nodes know their hops
			floods, flooded = floods+c.N, flooded+c.Hops
		}
		out.Retransmissions += c.Retrans
		out.ByKind[name] = k
	}
	out.H2HTotal = m.frames
	all := out.E2EMutex - floods + out.E2EMembership + out.Acks + other
	switch {
	case m.frames > 0 && m.classFrames != [3]int64{}:
		out.H2HSource = "counted"
		out.H2HMutex = Number(m.classFrames[0])
	case m.frames > 0 && all > 0:
		out.H2HSource = "apportioned"
		share := float64(out.E2EMutex-floods) / float64(all)
		out.H2HMutex = Number(float64(flooded) + math.Round(share*float64(max(0, m.frames-probes-flooded))))
	}
	out.E2EPerCS = ratio(float64(out.E2EMutex), float64(served))
	out.H2HPerCS = ratio(float64(out.H2HMutex), float64(served))
	return out
}
