package reliable_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"churnbed/node/core"
	"churnbed/node/reliable"
	"churnbed/node/wire"
)

const ms = core.Instant(time.Millisecond)

func life(id core.NodeID, start int) core.Peer {
	return core.Peer{ID: id, Inc: core.Incarnation(start) * core.IncarnationStep}
}

func request(ts uint64) *wire.Request { return &wire.Request{ID: core.RequestID{Node: 1, TS: ts}} }
func okTo(ts uint64) *wire.OK         { return &wire.OK{ID: core.RequestID{Node: 1, TS: ts}} }

// pair is two endpoints, 0 and 1, whose frames the test moves by hand.
type pair struct {
	*testing.T
	now core.Instant
	end [2]*reliable.Endpoint
}

func newPair(t *testing.T, cfg reliable.Config) *pair {
	return &pair{T: t, end: [2]*reliable.Endpoint{reliable.New(life(0, 1), cfg), reliable.New(life(1, 1), cfg)}}
}

func (p *pair) send(from core.NodeID, m core.Message, mode core.Mode) wire.Frame {
	p.Helper()
	return p.one(p.end[from].Send(p.now, core.Send{To: 1 - from, Msg: m, Mode: mode}, nil))
}

func (p *pair) one(out []reliable.Out) wire.Frame {
	p.Helper()
	if len(out) != 1 {
		p.Fatalf("%d frames, want 1: %+v", len(out), out)
	}
	return out[0].Frame
}

// get gives a frame to its destination, which answers with reply where it is
// not nil and the message is to be handled.
func (p *pair) get(f wire.Frame, reply core.Message) (handled bool, out []reliable.Out) {
	e := p.end[f.To]
	handled = e.Receive(p.now, &f)
	if handled && reply != nil {
		out = e.Send(p.now, core.Send{To: f.From.ID, Msg: reply, Mode: core.Reply}, out)
	}
	return handled, e.Finish(out)
}

func (p *pair) handled(f wire.Frame, want bool) []reliable.Out {
	p.Helper()
	got, out := p.get(f, nil)
	if got != want {
		p.Fatalf("%+v: handled is %v", f, got)
	}
	return out
}

func (p *pair) deadline(e core.NodeID, want core.Instant) {
	p.Helper()
	if d := p.end[e].Deadline(); d != want {
		p.Fatalf("deadline of %d is %v, want %v", e, d, want)
	}
}

// repeat waits for the next repetition.
func (p *pair) repeat(e core.NodeID) wire.Frame {
	p.Helper()
	p.now = p.end[e].Deadline()
	return p.one(p.end[e].Tick(p.now, nil))
}

func TestRequestAndReplyCostTwoDatagrams(t *testing.T) {
	p := newPair(t, reliable.Config{})
	f := p.send(0, request(1), core.Reliable)
	p.now += 10 * ms
	handled, out := p.get(f, okTo(1))
	if !handled {
		t.Fatal("request was not handled")
	}
	reply := p.one(out)
	if !reply.Reply || reply.Reliable || reply.Msg == nil {
		t.Fatalf("reply is %+v", reply)
	}
	if out := p.handled(reply, true); len(out) > 0 {
		t.Fatalf("the reply was answered by %+v", out)
	}
	for e := range core.NodeID(2) {
		p.deadline(e, core.Never)
		if n := p.end[e].Pending(); n != 0 {
			t.Errorf("%d messages under way from %d", n, e)
		}
	}
	if p.handled(reply, false) != nil { // a copy
		t.Error("a copy of the reply was answered")
	}
}

// A lost reply is repeated whenever the request is, whatever came between.
func TestLostReplyIsRepeated(t *testing.T) {
	p := newPair(t, reliable.Config{})
	recoverFrame := p.send(0, &wire.Recover{Nonce: 1}, core.Reliable)
	p.get(recoverFrame, &wire.Recovered{Nonce: 1}) // lost
	for ts := range uint64(200) {
		f := p.send(0, request(ts+1), core.Reliable)
		_, out := p.get(f, okTo(ts+1))
		p.handled(p.one(out), true)
	}
	f := p.repeat(0)
	if _, ok := f.Msg.(*wire.Recover); !ok {
		t.Fatalf("repeated %T", f.Msg)
	}
	out := p.handled(f, false)
	if r := p.one(out); !r.Reply || r.Msg.Kind() != wire.KindRecovered || !out[0].Retrans {
		t.Fatalf("answer to the repetition: %+v", r)
	}
	p.handled(out[0].Frame, true)
	p.deadline(0, core.Never)
}

// A message is delivered however many others pass it while it is lost.
func TestLateRepetitionIsDelivered(t *testing.T) {
	p := newPair(t, reliable.Config{})
	p.send(0, &wire.Recover{Nonce: 7}, core.Reliable) // lost
	for ts := range uint64(200) {
		p.handled(p.one(p.handled(p.send(0, request(ts+1), core.Reliable), true)), false)
	}
	p.handled(p.repeat(0), true)
}

// While a repetition is received, another message to the same peer must not
// take the place of the kept reply.
func TestRepetitionIsAnsweredByItsReply(t *testing.T) {
	p := newPair(t, reliable.Config{})
	p.get(p.send(0, request(1), core.Reliable), okTo(1)) // the reply is lost
	f := p.repeat(0)
	if p.end[1].Receive(p.now, &f) {
		t.Fatal("a repetition was handled")
	}
	between := p.send(1, &wire.Recover{Nonce: 1}, core.Reliable)
	if between.HasAck {
		t.Error("another message carries the acknowledgement")
	}
	if r := p.one(p.end[1].Finish(nil)); !r.Reply || r.Msg == nil {
		t.Errorf("answer is %+v", r)
	}
}

func TestSupersession(t *testing.T) {
	p := newPair(t, reliable.Config{})
	first := p.send(0, request(1), core.Reliable)
	second := p.send(0, request(2), core.Reliable)
	other := p.send(0, &wire.Recover{Nonce: 1}, core.Reliable)
	if n := p.end[0].Pending(); n != 2 {
		t.Errorf("%d messages under way, want 2", n)
	}
	p.handled(second, true)
	p.handled(first, false) // overtaken
	p.handled(other, true)
	_, out := p.get(first, nil)
	p.handled(p.one(out), false)
	if n := p.end[0].Pending(); n != 2 {
		t.Errorf("%d messages under way after the acknowledgement of an old one, want 2", n)
	}
	// Nor does the reply to the old request count.
	q := newPair(t, reliable.Config{})
	old := q.send(0, request(1), core.Reliable)
	_, out = q.get(old, okTo(1))
	q.send(0, request(2), core.Reliable)
	q.handled(q.one(out), false)
}

func TestForget(t *testing.T) {
	p := newPair(t, reliable.Config{})
	p.end[0].Forget(1) // never heard of
	p.send(0, request(1), core.Reliable)
	p.send(0, &wire.Recover{Nonce: 1}, core.Reliable)
	p.end[0].Forget(1)
	p.deadline(0, core.Never)
	if n := p.end[0].Pending(); n != 0 {
		t.Errorf("%d messages under way", n)
	}
	if out := p.end[0].Tick(p.now+core.Instant(time.Hour), nil); len(out) > 0 {
		t.Errorf("sent %+v", out)
	}
	p.handled(p.send(0, request(2), core.Reliable), true)
}

// What a forgotten peer was answered does not hold any more: its repetition is
// handled anew, and not answered by a grant that nobody remembers.
func TestForgetAnswers(t *testing.T) {
	p := newPair(t, reliable.Config{})
	p.handled(p.send(0, request(1), core.Reliable), true)
	p.get(p.send(0, request(2), core.Reliable), okTo(2)) // lost
	p.end[1].Forget(0)
	f := p.repeat(0)
	handled, out := p.get(f, okTo(3))
	if !handled {
		t.Fatalf("answered out of what was forgotten: %+v", out)
	}
	reply := p.one(out)
	if r := p.one(p.handled(f, false)); !r.Reply || r.Msg != reply.Msg {
		t.Errorf("the next repetition is answered by %+v", r)
	}
	p.handled(reply, true)
	p.deadline(0, core.Never)
}

func TestDatagram(t *testing.T) {
	p := newPair(t, reliable.Config{})
	f := p.send(0, &wire.Release{ID: core.RequestID{TS: 1}}, core.Datagram)
	for range 2 { // no copies are told apart
		if out := p.handled(f, true); len(out) > 0 {
			t.Fatalf("a datagram was answered by %+v", out)
		}
	}
	p.deadline(0, core.Never)
}

// A forced leave raises the incarnation of a process that goes on: its
// numbers go on as well, and what is under way is neither lost nor handled
// twice.
func TestForcedLeave(t *testing.T) {
	p := newPair(t, reliable.Config{})
	asked := p.send(0, request(1), core.Reliable)
	p.handled(asked, true) // the acknowledgement is lost
	greeted := p.send(0, &wire.Hello{}, core.Reliable)
	_, out := p.get(greeted, nil)
	self := life(0, 1)
	self.Inc++
	p.end[0].SetSelf(self)
	p.handled(p.one(out), false) // names the incarnation that is left, and counts
	if n := p.end[0].Pending(); n != 1 {
		t.Fatalf("%d messages under way, want 1", n)
	}
	again := p.repeat(0)
	if again.From != self {
		t.Errorf("repeated as %v", again.From)
	}
	p.handled(p.one(p.handled(again, false)), false)
	p.deadline(0, core.Never)
	p.handled(asked, false) // a frame of the life that is left
	if !p.end[1].Former(life(0, 1)) || p.end[1].Former(self) {
		t.Error("former life is not known")
	}
}

// A new process of the peer begins its numbers anew; what its predecessor
// sent, or what answers the predecessor, does not count.
func TestRestart(t *testing.T) {
	p := newPair(t, reliable.Config{})
	old := p.send(0, request(1), core.Reliable)
	_, oldOut := p.get(old, okTo(1))
	p.end[0] = reliable.New(life(0, 2), reliable.Config{})
	f := p.send(0, request(1), core.Reliable) // the same number
	p.handled(p.one(oldOut), false)
	if n := p.end[0].Pending(); n != 1 {
		t.Fatal("a reply to the former life was taken")
	}
	handled, out := p.get(f, okTo(2))
	if !handled {
		t.Fatal("the first message of a new life was taken for a repetition")
	}
	p.handled(old, false)
	r := p.one(out)
	if ok := r.Msg.(*wire.OK); ok.ID.TS != 2 {
		t.Errorf("answered by %+v", ok)
	}
	p.handled(r, true)
	// The receiver's restart: the message is delivered to the new life too.
	f = p.send(0, request(2), core.Reliable)
	p.handled(f, true)
	p.end[1] = reliable.New(life(1, 2), reliable.Config{})
	p.handled(p.repeat(0), true)
}

func TestAdaptiveTimeout(t *testing.T) {
	p := newPair(t, reliable.Config{RTO: 300 * time.Millisecond, Min: 40 * time.Millisecond, Max: time.Second})
	exchange := func(rtt core.Instant) {
		t.Helper()
		f := p.send(0, request(uint64(p.now)+1), core.Reliable)
		p.now += rtt
		p.handled(p.one(p.handled(f, true)), false)
	}
	timeout := func() core.Instant {
		t.Helper()
		p.send(0, &wire.Hello{}, core.Reliable)
		d := p.end[0].Deadline() - p.now
		p.end[0].Forget(1)
		return d
	}
	if d := timeout(); d != 300*ms {
		t.Fatalf("first timeout %v", d)
	}
	exchange(100 * ms) // srtt 100, rttvar 50
	if d := timeout(); d != 300*ms {
		t.Errorf("timeout %v after the first measurement, want 300ms", d)
	}
	exchange(100 * ms) // rttvar 37.5
	if d := timeout(); d != 250*ms {
		t.Errorf("timeout %v after the second, want 250ms", d)
	}
	for range 30 {
		exchange(100 * ms)
	}
	if d := timeout(); d != 140*ms {
		t.Errorf("timeout %v on a constant path, want its 100ms and Min", d)
	}

	// Doubling up to four times the first timeout.
	p.send(0, request(1), core.Reliable)
	last := p.now
	for _, want := range []core.Instant{140 * ms, 280 * ms, 560 * ms, 560 * ms, 560 * ms} {
		p.repeat(0)
		if p.now-last != want {
			t.Errorf("repeated after %v, want %v", p.now-last, want)
		}
		last = p.now
	}
	// Which of several repetitions was answered is not known.
	f := p.repeat(0)
	p.handled(p.one(p.handled(f, true)), false)
	if d := timeout(); d != 140*ms {
		t.Errorf("timeout %v after a message repeated often, want 140ms", d)
	}
	// The only one is measured from when it was sent.
	p.send(0, request(uint64(p.now)+1), core.Reliable)
	f = p.repeat(0)
	p.now += 100 * ms
	p.handled(p.one(p.handled(f, true)), false)
	if d := timeout(); d != 140*ms {
		t.Errorf("timeout %v after a message repeated once, want 140ms", d)
	}
}

// A path that was not measured yet is taken to be like the others.
func TestTimeoutOfAnotherPath(t *testing.T) {
	p := newPair(t, reliable.Config{RTO: 300 * time.Millisecond, Min: 40 * time.Millisecond, Max: time.Second})
	for range 30 {
		f := p.send(0, request(uint64(p.now)+1), core.Reliable)
		p.now += 100 * ms
		p.handled(p.one(p.handled(f, true)), false)
	}
	p.end[0].Send(p.now, core.Send{To: 7, Msg: &wire.Hello{}, Mode: core.Reliable}, nil)
	if d := p.end[0].Deadline() - p.now; d != 140*ms {
		t.Errorf("first timeout of another path %v, want 140ms", d)
	}
}

// A path slower than the first timeout is measured in the end.
func TestSlowPathIsMeasured(t *testing.T) {
	p := newPair(t, reliable.Config{RTO: 300 * time.Millisecond})
	repeated := 0
	for range 6 {
		f := p.send(0, request(uint64(p.now)+1), core.Reliable)
		arrive := p.now + 500*ms
		for p.end[0].Deadline() <= arrive {
			p.repeat(0)
			repeated++
		}
		p.now = arrive
		p.handled(p.one(p.handled(f, true)), false)
	}
	if repeated != 1 {
		t.Errorf("%d repetitions of six messages on a path of 500ms, want one of the first only", repeated)
	}
}

func TestFixedTimeout(t *testing.T) {
	p := newPair(t, reliable.Config{Fixed: true, RTO: 500 * time.Millisecond, Max: time.Second})
	for range 3 {
		f := p.send(0, request(uint64(p.now)+1), core.Reliable)
		sent := p.now
		for i := range core.Instant(4) {
			f = p.repeat(0)
			if p.now-sent != (i+1)*500*ms {
				t.Fatalf("repetition %d after %v", i, p.now-sent)
			}
		}
		p.handled(p.one(p.handled(f, true)), false)
	}
}

// One late Tick repeats a message once, however many timeouts have passed.
func TestLateTick(t *testing.T) {
	p := newPair(t, reliable.Config{})
	p.send(0, request(1), core.Reliable)
	p.now += core.Instant(time.Hour)
	p.one(p.end[0].Tick(p.now, nil))
	if d := p.end[0].Deadline(); d <= p.now {
		t.Errorf("deadline %v is not after %v", d, p.now)
	}
}

// lossy is a network that loses, repeats and delays frames, between nodes
// that may restart or be forced to leave.
type lossy struct {
	t      *rapid.T
	now    core.Instant
	ends   []*reliable.Endpoint
	lives  []core.Peer
	flight []flying
	lose   bool
	// handled counts by receiving life and message.
	handled map[delivery]int
	latest  map[[3]int]uint64 // newest sent: from, to, kind
	orders  map[delivery3]uint64
}

type flying struct {
	at core.Instant
	f  wire.Frame
}

type delivery struct {
	to   core.Peer
	from int // process start
	id   core.NodeID
	kind byte
	n    uint64
}

type delivery3 struct {
	to, from core.Peer
	kind     byte
}

func number(m core.Message) uint64 {
	switch m := m.(type) {
	case *wire.Request:
		return m.ID.TS
	case *wire.OK:
		return m.ID.TS
	case *wire.Recover:
		return uint64(m.Nonce)
	}
	return 0
}

func process(p core.Peer) core.Peer { return life(p.ID, p.Inc.Start()) }

func (l *lossy) put(out []reliable.Out) {
	for _, o := range out {
		copies := 1
		if l.lose {
			copies = rapid.SampledFrom([]int{1, 1, 0, 0, 2, 3}).Draw(l.t, "copies")
		}
		for range copies {
			delay := rapid.IntRange(1, 400).Draw(l.t, "delay")
			l.flight = append(l.flight, flying{l.now + core.Instant(delay)*ms, o.Frame})
		}
	}
}

// until moves time on to an instant.
func (l *lossy) until(end core.Instant) {
	for {
		next, what := end, -1
		for i := range l.flight {
			if l.flight[i].at < next {
				next, what = l.flight[i].at, i
			}
		}
		tick := -1
		for i, e := range l.ends {
			if d := e.Deadline(); d < next {
				next, what, tick = d, -1, i
			}
		}
		l.now = max(l.now, next)
		switch {
		case what >= 0:
			f := l.flight[what].f
			l.flight = slices.Delete(l.flight, what, what+1)
			l.receive(f)
		case tick >= 0:
			l.put(l.ends[tick].Tick(l.now, nil))
		default:
			return
		}
	}
}

func (l *lossy) receive(f wire.Frame) {
	e := l.ends[f.To]
	var out []reliable.Out
	if e.Receive(l.now, &f) {
		me, n, kind := process(l.lives[f.To]), number(f.Msg), f.Msg.Kind()
		d := delivery{me, f.From.Inc.Start(), f.From.ID, kind, n}
		if l.handled[d]++; l.handled[d] > 1 {
			l.t.Fatalf("message %d of kind %d of %v was handled twice by %v", n, kind, f.From, me)
		}
		order := delivery3{me, process(f.From), kind}
		if f.Reliable && n <= l.orders[order] {
			l.t.Fatalf("message %d of kind %d of %v was handled after %d", n, kind, f.From, l.orders[order])
		}
		l.orders[order] = n
		if kind == wire.KindRequest {
			out = e.Send(l.now, core.Send{To: f.From.ID, Msg: okTo(n), Mode: core.Reply}, out)
		}
	}
	l.put(e.Finish(out))
}

// Over any channel and through restarts, a message is handled at most once a
// life of the receiver and in the order of its kind; once the channel is fair,
// the newest of every kind is handled, every request gets its reply, and
// nothing is left under way.
func TestExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &lossy{t: t, lose: true, handled: map[delivery]int{}, latest: map[[3]int]uint64{}, orders: map[delivery3]uint64{}}
		cfg := reliable.Config{Fixed: rapid.Bool().Draw(t, "fixed")}
		const nodes = 3
		for i := range core.NodeID(nodes) {
			l.lives = append(l.lives, life(i, 1))
			l.ends = append(l.ends, reliable.New(life(i, 1), cfg))
		}
		node := rapid.IntRange(0, nodes-1)
		var n uint64
		for range rapid.IntRange(1, 30).Draw(t, "deeds") {
			l.until(l.now + core.Instant(rapid.IntRange(0, 500).Draw(t, "wait"))*ms)
			a := node.Draw(t, "node")
			switch deed := rapid.IntRange(0, 9).Draw(t, "deed"); deed {
			case 0:
				l.lives[a] = life(core.NodeID(a), l.lives[a].Inc.Start()+1)
				l.ends[a] = reliable.New(l.lives[a], cfg)
				for k := range l.latest {
					if k[0] == a {
						delete(l.latest, k)
					}
				}
			case 1:
				l.lives[a].Inc++
				l.ends[a].SetSelf(l.lives[a])
			default:
				b := (a + rapid.IntRange(1, nodes-1).Draw(t, "to")) % nodes
				n++
				var m core.Message = request(n)
				if deed%2 == 0 {
					m = &wire.Recover{Nonce: core.Incarnation(n)}
				}
				l.latest[[3]int{a, b, int(m.Kind())}] = n
				l.put(l.ends[a].Send(l.now, core.Send{To: core.NodeID(b), Msg: m, Mode: core.Reliable}, nil))
			}
		}
		l.lose = false
		l.until(l.now + core.Instant(time.Minute))
		for k, n := range l.latest {
			from, to := l.lives[k[0]], l.lives[k[1]]
			d := delivery{process(to), from.Inc.Start(), from.ID, byte(k[2]), n}
			answered := delivery{process(from), to.Inc.Start(), to.ID, wire.KindOK, n}
			// Where the receiver restarted after it had handled the message,
			// the former life did.
			for s := 1; s < to.Inc.Start() && l.handled[d] == 0; s++ {
				d.to, answered.from = life(to.ID, s), s
			}
			if l.handled[d] == 0 {
				t.Errorf("message %d of kind %d from %v to %v was never handled", n, k[2], from, to)
			}
			if byte(k[2]) == wire.KindRequest {
				got := 0
				for s := 1; s <= to.Inc.Start(); s++ {
					answered.from = s
					got += l.handled[answered]
				}
				acknowledgedOnly := to.Inc.Start() > 1 // by a life that died with the reply
				if got == 0 && !acknowledgedOnly {
					t.Errorf("request %d from %v to %v was never answered", n, from, to)
				}
			}
		}
		for i, e := range l.ends {
			if p := e.Pending(); p != 0 {
				t.Errorf("%d messages of %v under way at the end", p, l.lives[i])
			}
			if d := e.Deadline(); d != core.Never {
				t.Errorf("deadline of %v at the end: %v", l.lives[i], d)
			}
		}
	})
}

// BenchmarkRequestReply is one request and its reply between two endpoints
// that deal with 255 peers each.
func BenchmarkRequestReply(b *testing.B) {
	a, c := reliable.New(life(0, 1), reliable.Config{}), reliable.New(life(1, 1), reliable.Config{})
	msg, ok := request(1), okTo(1)
	var out []reliable.Out
	var now core.Instant
	b.ReportAllocs()
	for b.Loop() {
		now += ms
		out = a.Send(now, core.Send{To: 1, Msg: msg, Mode: core.Reliable}, out[:0])
		f := out[0].Frame
		c.Receive(now, &f)
		out = c.Finish(c.Send(now, core.Send{To: 0, Msg: ok, Mode: core.Reply}, out[:0]))
		f = out[0].Frame
		a.Receive(now, &f)
		a.Finish(nil)
		a.Deadline()
	}
}
