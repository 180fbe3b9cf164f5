package stack

import (
	"sort"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/reliable"
	"churnbed/node/wire"
)

// traffic counts the datagrams of this life of the node by message kind.
type traffic struct {
	in, out [256]eventlog.Count // index 0: pure acknowledgements
	scratch []byte
	every   time.Duration
	next    core.Instant
}

func (t *traffic) start(now core.Instant) {
	if t.every > 0 {
		t.next = now.Add(t.every)
	}
}

func frameKind(f *wire.Frame) byte {
	if f.Msg == nil {
		return 0
	}
	if m, ok := f.Msg.(*wire.Flood); ok {
		return m.Msg.Kind()
	}
	return f.Msg.Kind()
}

// size is the length of an encoded frame in bytes.
func (t *traffic) size(f *wire.Frame) int {
	t.scratch = f.Append(t.scratch[:0])
	return len(t.scratch)
}

// sent counts a frame and returns its size in bytes.
func (t *traffic) sent(o *reliable.Out) int {
	size := t.size(&o.Frame)
	c := &t.out[frameKind(&o.Frame)]
	c.N++
	c.Bytes += int64(size)
	if o.Retrans {
		c.Retrans++
	}
	return size
}

func (t *traffic) received(f *wire.Frame, size int) {
	c := &t.in[frameKind(f)]
	c.N++
	c.Bytes += int64(size)
}

// table returns the counters that are not zero by name.
func (t *traffic) table(counts *[256]eventlog.Count) map[string]eventlog.Count {
	m := make(map[string]eventlog.Count)
	for k := range counts {
		if counts[k].N > 0 || counts[k].Hops > 0 {
			m[wire.FrameName(byte(k))] = counts[k]
		}
	}
	return m
}

// prober measures the incoming links of the node and the lateness of its own
// timers, for the fidelity verdict.
type prober struct {
	every      time.Duration
	next       core.Instant
	neighbours []core.NodeID
	delay      map[core.NodeID]time.Duration
	turn       int
	sent       []uint64 // by neighbour
	seen       map[core.NodeID]uint64
	probe_     eventlog.Probe
	lost       int64
	any        bool
	down       map[core.NodeID]bool // neighbours without a link; nil: all have one
}

func (p *prober) init(cfg *Config) {
	p.every, p.next, p.neighbours = cfg.ProbeEvery, core.Never, cfg.Neighbours
	p.sent = make([]uint64, len(p.neighbours))
	p.seen = make(map[core.NodeID]uint64, len(p.neighbours))
	p.delay = make(map[core.NodeID]time.Duration, len(p.neighbours))
	p.relink(cfg.LinkDelay)
	p.reset()
}

func (p *prober) relink(delay []int64) {
	for i, d := range delay {
		if i < len(p.neighbours) {
			p.delay[p.neighbours[i]] = time.Duration(d)
		}
	}
}

func (p *prober) reset() {
	p.probe_ = eventlog.Probe{
		DelayErr: make([]int64, len(eventlog.Bounds)+1),
		TimerLag: make([]int64, len(eventlog.Bounds)+1),
	}
	p.lost, p.any = 0, false
}

// start spreads the first probes of the nodes over the interval by their ids,
// without a draw, so that the mesh is not probed all at once.
func (p *prober) start(now core.Instant, id, nodes int) {
	if p.every > 0 && len(p.neighbours) > 0 {
		p.next = now.Add(p.every + p.every*time.Duration(id)/time.Duration(nodes))
	}
}

func (p *prober) probe(now core.Instant) (core.NodeID, *wire.Probe) {
	none := p.skip()
	i := p.turn
	p.turn = (p.turn + 1) % len(p.neighbours)
	p.next = p.next.Add(p.every)
	if p.next <= now { // a pause or an overload: no burst to catch up
		p.next = now.Add(p.every)
	}
	if none {
		return core.None, nil
	}
	p.sent[i]++
	p.probe_.Sent++
	p.any = true
	return p.neighbours[i], &wire.Probe{N: p.sent[i], Sent: now}
}

func (p *prober) received(now core.Instant, from core.NodeID, m *wire.Probe) {
	delay, ok := p.delay[from]
	if !ok {
		return
	}
	err := int64(now.Sub(m.Sent) - delay)
	p.probe_.Received++
	if last := p.seen[from]; m.N > last+1 && last > 0 {
		p.probe_.Lost += int64(m.N - last - 1)
	}
	p.seen[from] = m.N
	p.probe_.DelayErr[bucket(err)]++
	p.probe_.MaxErr = max(p.probe_.MaxErr, err)
	p.probe_.SumErr += float64(err)
	p.any = true
}

func (p *prober) timer(lag time.Duration) { p.probe_.TimerLag[bucket(int64(lag))]++ }

func bucket(ns int64) int {
	return sort.Search(len(eventlog.Bounds), func(i int) bool { return ns <= eventlog.Bounds[i] })
}

// take returns what was seen since the last call, nil where nothing was.
func (p *prober) take() *eventlog.Probe {
	if !p.any && p.lost == 0 {
		return nil
	}
	t := p.probe_
	t.RcvbufErrors = p.lost
	p.reset()
	return &t
}
