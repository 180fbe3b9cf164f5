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
// Since a newer message of a kind takes the place of the older one, a peer has
// at most one of each kind under way, and the receiver needs to remember only
// the highest number of each kind: what is not above it is a repetition or
// superseded. So messages of one kind are also handled in the order in which
// they were sent, and no window bounds how late a repetition may come.
// What must not be superseded (core.Ordered) waits at its sender until the
// message of its kind before it is acknowledged, so the same holds for it.
// Numbers belong to a process, not to an incarnation: a node that raises its
// incarnation (a forced leave) goes on with them.
//
// The timeout follows RFC 6298 (smoothed round-trip time plus four times its
// variation, doubling), a peer at a time, with bounds of the scenario's choice,
// and with differences, since a radio loses frames without being congested.
// Doubling stops at four times the first timeout: a request waits for the
// slowest of hundreds of answers, hence for the one peer that was unlucky four
// times in a row. Acknowledgements say whether they answer a repetition (as
// the Eifel algorithm of RFC 3522 wants to know), so that repeated messages
// are measured too, where Karn's rule would leave a far peer unmeasured for
// long and its timeout at the doubled one. A path not measured yet is taken to
// be like the others. Mode "fixed" repeats at a constant pace, as the reference
// simulators do.
package reliable

import (
	"bytes"
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/wire"
)

// Config tunes the timeouts; see Defaults.
type Config struct {
	Fixed bool          // constant pace RTO instead of adaptive
	RTO   time.Duration // before the first measurement, and the pace of Fixed
	// Min is the least margin of the adaptive timeout above the smoothed
	// round-trip time. RFC 6298 has the clock's granularity there; on a path
	// of constant delay, where the variation goes to nothing, that would
	// repeat whatever the peer answers a moment late.
	Min time.Duration
	Max time.Duration // upper bound of the adaptive timeout
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

// Endpoint is the transport of one node.
type Endpoint struct {
	self    core.Peer
	cfg     Config
	peers   []*peer // by id; nil: never dealt with
	due     core.Heap[timer]
	pending int      // outstanding messages of all peers
	paths   estimate // over all peers, for one whose own path is not measured

	// The reliable message being handled, between Receive and Finish.
	current      core.NodeID
	currentKind  byte
	currentSeq   uint64
	currentAgain bool
	fresh        bool // it is being handled, not a repetition
	answered     bool

	// The peer of which a kind was acknowledged since the last Finish, and when.
	freed   core.NodeID
	freedAt core.Instant
}

type peer struct {
	id   core.NodeID
	inc  core.Incarnation // newest heard of
	next uint64           // last sequence number used
	out  []outstanding    // few: one a kind
	wait []core.Message   // Ordered ones, behind those of their kind in out
	in   []received       // few: one a kind; of the peer's present process

	path estimate
}

// estimate is the round-trip time as RFC 6298, section 2, smooths it; the zero
// value has not been measured.
type estimate struct {
	srtt, rttvar time.Duration
}

// A radio loses frames without being congested, so the doubling of the timeout
// is bounded: at maxBackoff times what it began with.
const maxBackoff = 4

type outstanding struct {
	seq   uint64
	msg   core.Message
	first core.Instant // when it was sent
	last  core.Instant // and when it was repeated last
	rto   time.Duration
	most  time.Duration // what doubling leads to
	tries int
}

// received is the newest message of one kind from a peer.
type received struct {
	kind  byte
	seq   uint64
	reply core.Message // what answered it; nil: acknowledged only
}

type timer struct {
	at   core.Instant
	peer core.NodeID
	seq  uint64
}

// New returns the endpoint of self.
func New(self core.Peer, cfg Config) *Endpoint {
	return &Endpoint{
		self: self, cfg: cfg.Defaults(), current: core.None, freed: core.None,
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

// SetSelf changes the node's own incarnation (a forced leave). Messages under
// way are repeated under the new one.
func (e *Endpoint) SetSelf(p core.Peer) { e.self = p }

func (e *Endpoint) peer(id core.NodeID) *peer {
	if n := int(id) + 1 - len(e.peers); n > 0 {
		e.peers = append(e.peers, make([]*peer, n)...)
	}
	p := e.peers[id]
	if p == nil {
		p = &peer{id: id}
		e.peers[id] = p
	}
	return p
}

// Former reports whether p is a life that its node has left behind: frames of
// it are late.
func (e *Endpoint) Former(p core.Peer) bool {
	return int(p.ID) < len(e.peers) && e.peers[p.ID] != nil && p.Inc < e.peers[p.ID].inc
}

// Receive takes in a frame and reports whether its message is to be handled:
// false for pure acknowledgements, repetitions, frames of a former life of
// the sender, and replies to what is no longer asked. After the step that
// handles it, or at once where it is not to be handled, the caller calls
// Finish.
func (e *Endpoint) Receive(now core.Instant, f *wire.Frame) bool {
	if e.Former(f.From) {
		return false
	}
	p := e.peer(f.From.ID)
	if f.From.Inc.Start() > p.inc.Start() {
		p.in = p.in[:0]
	}
	p.inc = f.From.Inc
	acked := false
	if f.HasAck && f.AckInc.Start() == e.self.Inc.Start() {
		acked = e.acknowledge(now, p, f.AckSeq, f.Again)
	}
	if f.Msg == nil || f.Reply && !acked {
		return false
	}
	if !f.Reliable {
		return true
	}
	e.current, e.currentKind, e.currentSeq, e.answered = f.From.ID, f.Msg.Kind(), f.Seq, false
	e.currentAgain = f.Again && !f.HasAck
	e.fresh = p.accept(e.currentKind, f.Seq)
	return e.fresh
}

// accept records a sequence number of a kind and reports whether it is a new
// one.
func (p *peer) accept(kind byte, seq uint64) bool {
	r := p.received(kind)
	if r == nil {
		p.in = append(p.in, received{kind: kind, seq: seq})
		return true
	}
	if seq <= r.seq {
		return false
	}
	r.seq, r.reply = seq, nil
	return true
}

func (p *peer) received(kind byte) *received {
	for i := range p.in {
		if p.in[i].kind == kind {
			return &p.in[i]
		}
	}
	return nil
}

// acknowledge measures the path where it is clear which try the peer has
// received: the first, or the only repetition.
func (e *Endpoint) acknowledge(now core.Instant, p *peer, seq uint64, again bool) bool {
	for i := range p.out {
		o := &p.out[i]
		if o.seq != seq {
			continue
		}
		sent := o.first
		if again {
			sent = o.last
		}
		if !again || o.tries == 2 {
			rtt := min(now.Sub(sent), e.cfg.Max)
			p.path.measure(rtt)
			e.paths.measure(rtt)
		}
		if len(p.wait) > 0 {
			e.freed, e.freedAt = p.id, now
		}
		p.remove(i)
		e.pending--
		return true
	}
	return false
}

func (p *peer) remove(i int) {
	last := len(p.out) - 1
	copy(p.out[i:], p.out[i+1:])
	p.out[last] = outstanding{}
	p.out = p.out[:last]
}

func (m *estimate) measure(r time.Duration) {
	if r <= 0 {
		r = 1
	}
	if m.srtt == 0 {
		m.srtt, m.rttvar = r, r/2
		return
	}
	m.rttvar = (3*m.rttvar + (m.srtt - r).Abs()) / 4
	m.srtt = (7*m.srtt + r) / 8
}

// timeout returns what a message to p begins with, and what doubling leads to.
func (e *Endpoint) timeout(p *peer) (first, most time.Duration) {
	if e.cfg.Fixed {
		return e.cfg.RTO, e.cfg.RTO
	}
	path := p.path
	if path.srtt == 0 {
		path = e.paths
	}
	first = e.cfg.RTO
	if path.srtt > 0 {
		first = path.srtt + max(4*path.rttvar, e.cfg.Min)
	}
	first = min(first, e.cfg.Max)
	return first, min(maxBackoff*first, e.cfg.Max)
}

// Send appends to out what sending s takes now.
func (e *Endpoint) Send(now core.Instant, s core.Send, out []Out) []Out {
	f := wire.Frame{From: e.self, To: s.To, Msg: s.Msg}
	p := e.peer(s.To)
	// The answer to a repetition is Finish's: it must not be crowded out.
	answers := e.current == s.To && e.fresh && !e.answered
	ordered := s.Mode == core.Ordered || s.Mode == core.OrderedReply
	replies := answers && (s.Mode == core.Reply || s.Mode == core.OrderedReply)
	switch {
	case s.Mode == core.Datagram:
	case replies:
		e.answered = true
		f.Reply, f.HasAck, f.AckInc, f.AckSeq, f.Again = true, true, p.inc, e.currentSeq, e.currentAgain
		p.received(e.currentKind).reply = s.Msg
	default:
		i := p.underWay(s.Msg.Kind())
		if ordered && (i >= 0 || slices.ContainsFunc(p.wait, func(m core.Message) bool { return m.Kind() == s.Msg.Kind() })) {
			if !slices.ContainsFunc(p.wait, func(m core.Message) bool { return equal(m, s.Msg) }) {
				p.wait = append(p.wait, s.Msg)
				e.pending++
			}
			return out
		}
		if i >= 0 {
			p.remove(i)
			e.pending--
		}
		p.next++
		f.Reliable, f.Seq = true, p.next
		o := outstanding{seq: p.next, msg: s.Msg, first: now, tries: 1}
		o.rto, o.most = e.timeout(p)
		p.out = append(p.out, o)
		e.pending++
		e.due.Push(timer{now.Add(o.rto), s.To, o.seq})
		if answers {
			e.answered = true
			f.HasAck, f.AckInc, f.AckSeq, f.Again = true, p.inc, e.currentSeq, e.currentAgain
		}
	}
	return append(out, Out{To: s.To, Frame: f})
}

// equal reports whether two messages are the same to whoever receives them.
func equal(a, b core.Message) bool {
	return a.Kind() == b.Kind() && bytes.Equal(a.AppendPayload(nil), b.AppendPayload(nil))
}

// underWay returns where in out the message of a kind is, or -1.
func (p *peer) underWay(kind byte) int {
	return slices.IndexFunc(p.out, func(o outstanding) bool { return o.msg.Kind() == kind })
}

// Finish ends the handling of the frame given to Receive: a reliable message
// that was not answered is acknowledged; a repeated one gets its kept reply.
// What waited for what the frame acknowledged is sent.
func (e *Endpoint) Finish(out []Out) []Out {
	out = e.finish(out)
	if e.freed == core.None {
		return out
	}
	p := e.peers[e.freed]
	e.freed = core.None
	wait := p.wait
	p.wait = nil
	for _, msg := range wait {
		e.pending--
		out = e.Send(e.freedAt, core.Send{To: p.id, Msg: msg, Mode: core.Ordered}, out)
	}
	return out
}

func (e *Endpoint) finish(out []Out) []Out {
	if e.current == core.None {
		return out
	}
	to := e.current
	e.current = core.None
	if e.answered {
		return out
	}
	p := e.peers[to]
	f := wire.Frame{From: e.self, To: to, HasAck: true, AckInc: p.inc, AckSeq: e.currentSeq, Again: e.currentAgain}
	if r := p.received(e.currentKind); r.seq == e.currentSeq && r.reply != nil {
		f.Reply, f.Msg = true, r.reply
		return append(out, Out{To: to, Frame: f, Retrans: true})
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
		o.last = now
		o.rto = min(2*o.rto, o.most)
		e.due.Push(timer{now.Add(o.rto), t.peer, t.seq})
		out = append(out, Out{To: t.peer, Retrans: true, Frame: wire.Frame{
			From: e.self, To: t.peer, Msg: o.msg, Reliable: true, Seq: o.seq, Again: true,
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

// Forget drops all that is still to be delivered to a peer, and the answers
// that were kept for it: whoever forgets a peer may stand by none of them, so
// what they answered is handled anew if it is repeated.
func (e *Endpoint) Forget(id core.NodeID) {
	if int(id) >= len(e.peers) {
		return
	}
	if p := e.peers[id]; p != nil {
		e.pending -= len(p.out) + len(p.wait)
		p.out, p.wait = nil, nil
		for i := range p.in {
			if r := &p.in[i]; r.reply != nil {
				r.seq, r.reply = r.seq-1, nil
			}
		}
	}
}

// Pending returns how many reliable messages are not acknowledged yet.
func (e *Endpoint) Pending() int { return e.pending }
