// Package reliable is the transport of a node: acknowledgement,
// retransmission with an adaptive timeout, and at-most-once delivery over a
// network that loses, repeats and reorders datagrams. It is pure; node/stack
// owns it and serialises all calls.
//
// A reliable message is repeated until it is acknowledged, its peer is
// forgotten, or a newer reliable message of the same kind to the same peer
// supersedes it. A message that is answered in the very step that handles it
// needs no acknowledgement of its own: the reply carries it, is kept, and is
// repeated when the message is (the at-most-once calls of Birrell and Nelson,
// "Implementing remote procedure calls", 1984). So an undisturbed
// request and its answer cost two datagrams.
//
// The timeout follows RFC 6298 (smoothed round-trip time plus four times its
// variation, Karn's rule, doubling), a peer at a time, with bounds of the
// scenario's choice; mode "fixed" repeats at a constant pace, as the
// reference simulators do.
package reliable

import (
	"time"

	"churnbed/node/core"
	"churnbed/node/wire"
)

// Config tunes the timeouts; see Defaults.
type Config struct {
	Fixed bool          // constant pace RTO instead of adaptive
	RTO   time.Duration // before the first measurement, and the pace of Fixed
	Min   time.Duration // bounds of the adaptive timeout
	Max   time.Duration
}

// Defaults fills zero fields: RTO 300 ms, Min 40 ms, Max 4 s.
func (c Config) Defaults() Config {
	if c.RTO == 0 {
		c.RTO = 300 * time.Millisecond
	}
	if c.Min == 0 {
		c.Min = 40 * time.Millisecond
	}
	if c.Max == 0 {
		c.Max = 4 * time.Second
	}
	return c
}

// Out is a frame to be handed to the network.
type Out struct {
	To      core.NodeID
	Frame   wire.Frame
	Retrans bool // it repeats an earlier frame
}

// keptReplies is how many replies are kept a peer. A reply is of use until
// the peer asks anew, and it has one request of a kind under way.
const keptReplies = 4

// Endpoint is the transport of one node.
type Endpoint struct {
	self  core.Peer
	cfg   Config
	peers map[core.NodeID]*peer
	due   core.Heap[timer]

	// The reliable message being handled, between Receive and Finish.
	current    core.NodeID
	currentSeq uint64
	answered   bool
}

type peer struct {
	inc  core.Incarnation // newest life heard of
	next uint64           // last sequence number used
	out  []outstanding    // few: one a kind

	srtt, rttvar time.Duration // srtt 0: not measured yet

	high    uint64 // highest sequence number received of this life
	window  uint64 // bit i: high-i was received
	replies [keptReplies]reply
	nextRep int
}

type outstanding struct {
	seq   uint64
	msg   core.Message
	first core.Instant
	rto   time.Duration
	tries int
}

type reply struct {
	seq uint64
	msg core.Message
}

type timer struct {
	at   core.Instant
	peer core.NodeID
	seq  uint64
}

// New returns the endpoint of self.
func New(self core.Peer, cfg Config) *Endpoint {
	return &Endpoint{
		self: self, cfg: cfg.Defaults(), peers: make(map[core.NodeID]*peer), current: core.None,
		due: core.Heap[timer]{Less: func(a, b *timer) bool {
			if a.at != b.at {
				return a.at < b.at
			}
			if a.peer != b.peer {
				return a.peer < b.peer
			}
			return a.seq < b.seq
		}},
	}
}

// SetSelf changes the node's own incarnation (a forced leave).
func (e *Endpoint) SetSelf(p core.Peer) { e.self = p }

func (e *Endpoint) peer(id core.NodeID) *peer {
	p := e.peers[id]
	if p == nil {
		p = &peer{}
		e.peers[id] = p
	}
	return p
}

// Receive takes in a frame and reports whether its message is to be handled:
// false for pure acknowledgements, repetitions, frames of a former life of
// the sender, and replies to what is no longer asked. After the step that
// handles it, or at once where it is not to be handled, the caller calls
// Finish.
func (e *Endpoint) Receive(now core.Instant, f *wire.Frame) bool {
	p := e.peer(f.From.ID)
	switch {
	case f.From.Inc < p.inc:
		return false
	case f.From.Inc > p.inc:
		p.inc, p.high, p.window = f.From.Inc, 0, 0
		p.replies = [keptReplies]reply{}
	}
	acked := false
	if f.HasAck && f.AckInc == e.self.Inc {
		acked = e.acknowledge(now, p, f.AckSeq)
	}
	if f.Msg == nil || f.Reply && !acked {
		return false
	}
	if !f.Reliable {
		return true
	}
	e.current, e.currentSeq, e.answered = f.From.ID, f.Seq, false
	return p.fresh(f.Seq)
}

// fresh records a sequence number and reports whether it is a new one.
// Numbers older than the window count as repetitions.
func (p *peer) fresh(seq uint64) bool {
	switch {
	case seq > p.high:
		if d := seq - p.high; d < 64 {
			p.window = p.window<<d | 1
		} else {
			p.window = 1
		}
		p.high = seq
		return true
	case p.high-seq >= 64:
		return false
	case p.window&(1<<(p.high-seq)) != 0:
		return false
	}
	p.window |= 1 << (p.high - seq)
	return true
}

func (e *Endpoint) acknowledge(now core.Instant, p *peer, seq uint64) bool {
	for i := range p.out {
		if p.out[i].seq != seq {
			continue
		}
		if p.out[i].tries == 1 {
			p.measure(now.Sub(p.out[i].first))
		}
		p.out = append(p.out[:i], p.out[i+1:]...)
		return true
	}
	return false
}

// measure is RFC 6298, section 2.
func (p *peer) measure(r time.Duration) {
	if r <= 0 {
		r = 1
	}
	if p.srtt == 0 {
		p.srtt, p.rttvar = r, r/2
		return
	}
	p.rttvar = (3*p.rttvar + (p.srtt - r).Abs()) / 4
	p.srtt = (7*p.srtt + r) / 8
}

func (e *Endpoint) timeout(p *peer) time.Duration {
	if e.cfg.Fixed || p.srtt == 0 {
		return e.cfg.RTO
	}
	return min(max(p.srtt+4*p.rttvar, e.cfg.Min), e.cfg.Max)
}

// Send appends to out what sending s takes now.
func (e *Endpoint) Send(now core.Instant, s core.Send, out []Out) []Out {
	f := wire.Frame{From: e.self, To: s.To, Msg: s.Msg}
	p := e.peer(s.To)
	mode := s.Mode
	if mode == core.Reply && (e.current != s.To || e.answered) {
		mode = core.Reliable
	}
	switch mode {
	case core.Datagram:
	case core.Reply:
		e.answered = true
		f.Reply, f.HasAck, f.AckInc, f.AckSeq = true, true, p.inc, e.currentSeq
		p.replies[p.nextRep] = reply{e.currentSeq, s.Msg}
		p.nextRep = (p.nextRep + 1) % keptReplies
	case core.Reliable:
		p.next++
		f.Reliable, f.Seq = true, p.next
		for i := range p.out {
			if p.out[i].msg.Kind() == s.Msg.Kind() {
				p.out = append(p.out[:i], p.out[i+1:]...)
				break
			}
		}
		o := outstanding{seq: p.next, msg: s.Msg, first: now, rto: e.timeout(p), tries: 1}
		p.out = append(p.out, o)
		e.due.Push(timer{now.Add(o.rto), s.To, o.seq})
		if e.current == s.To && !e.answered {
			e.answered = true
			f.HasAck, f.AckInc, f.AckSeq = true, p.inc, e.currentSeq
		}
	}
	return append(out, Out{To: s.To, Frame: f})
}

// Finish ends the handling of the frame given to Receive: a reliable message
// that was not answered is acknowledged; a repeated one gets its kept reply.
func (e *Endpoint) Finish(out []Out) []Out {
	if e.current == core.None {
		return out
	}
	to, seq, answered := e.current, e.currentSeq, e.answered
	e.current = core.None
	if answered {
		return out
	}
	p := e.peers[to]
	f := wire.Frame{From: e.self, To: to, HasAck: true, AckInc: p.inc, AckSeq: seq}
	for i := range p.replies {
		if p.replies[i].msg != nil && p.replies[i].seq == seq {
			f.Reply, f.Msg = true, p.replies[i].msg
			return append(out, Out{To: to, Frame: f, Retrans: true})
		}
	}
	return append(out, Out{To: to, Frame: f})
}

// Tick repeats what is due.
func (e *Endpoint) Tick(now core.Instant, out []Out) []Out {
	for e.due.Len() > 0 && e.due.Min().at <= now {
		t := e.due.Pop()
		p := e.peers[t.peer]
		o := p.find(t.seq)
		if o == nil {
			continue
		}
		o.tries++
		if !e.cfg.Fixed {
			o.rto = min(2*o.rto, e.cfg.Max)
		}
		e.due.Push(timer{now.Add(o.rto), t.peer, t.seq})
		out = append(out, Out{To: t.peer, Retrans: true, Frame: wire.Frame{
			From: e.self, To: t.peer, Msg: o.msg, Reliable: true, Seq: o.seq,
		}})
	}
	return out
}

func (p *peer) find(seq uint64) *outstanding {
	for i := range p.out {
		if p.out[i].seq == seq {
			return &p.out[i]
		}
	}
	return nil
}

// Deadline is when Tick has something to repeat, or core.Never.
func (e *Endpoint) Deadline() core.Instant {
	for e.due.Len() > 0 {
		t := e.due.Min()
		if e.peers[t.peer].find(t.seq) != nil {
			return t.at
		}
		e.due.Pop()
	}
	return core.Never
}

// Forget drops all that is still to be delivered to a peer.
func (e *Endpoint) Forget(id core.NodeID) {
	if p := e.peers[id]; p != nil {
		p.out = nil
	}
}

// Pending returns how many reliable messages are not acknowledged yet.
func (e *Endpoint) Pending() int {
	n := 0
	for _, p := range e.peers {
		n += len(p.out)
	}
	return n
}
