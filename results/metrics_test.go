package results

import (
	"math"
	"strings"
	"testing"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

func near(t *testing.T, what string, got Number, want float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 1e-9 || math.IsNaN(float64(got)) != math.IsNaN(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestWaits(t *testing.T) {
	p := newPlant(t, 3)
	p.run.Manifest.Arrivals = 6
	if err := p.run.WriteManifest(&p.run.Manifest); err != nil {
		t.Fatal(err)
	}
	a := p.request(10, 0) // alone: wait 4
	p.enter(14, a)
	p.exit(20, a)
	b, c := p.request(100, 1), p.request(101, 2) // waits 10 and 39; handed over in 6
	p.enter(110, b)
	p.exit(134, b)
	p.enter(140, c)
	p.exit(150, c)
	d := p.request(200, 0)
	p.request(201, 1) // killed
	p.kill(202, 1, "crash")
	p.enter(207, d) // contended: wait 7
	p.exit(208, d)
	p.log(300, 2, eventlog.Event{Kind: eventlog.Dropped, No: 9})
	p.restart(400, 1)
	s, _ := judge(t, p.end(1000))
	w := s.WaitMS
	if w.N != 4 || s.ClientMS.N != 1 || s.SyncMS.N != 1 || s.Normalised.Requesters != 2 {
		t.Errorf("%d waits, %d alone, %d handed over, %d at once", w.N, s.ClientMS.N, s.SyncMS.N, s.Normalised.Requesters)
	}
	near(t, "mean", w.Mean, 15)
	near(t, "p50", w.P50, 7)
	near(t, "p90", w.P90, 39)
	near(t, "max", w.Max, 39)
	near(t, "client delay", s.ClientMS.Mean, 4)
	near(t, "synchronisation delay", s.SyncMS.Mean, 6)
	near(t, "normalised by requesters", s.Normalised.ByRequesters, 7.5)
	near(t, "normalised by nodes", s.Normalised.ByNodes, 5)
	if s.Requests.Skipped != 1 { // 6 arrivals, 5 asked
		t.Errorf("%d skipped", s.Requests.Skipped)
	}
	if c := s.Churn; c.Kills != 1 || c.Restarts != 1 || c.Hit["WAIT"] != 1 || c.Hit["NONE"]+c.Hit["HELD"] != 0 {
		t.Errorf("churn %+v", c)
	}
}

func TestSkippedWithoutKnownArrivals(t *testing.T) {
	p := newPlant(t, 2)
	a := p.request(1, 0)
	p.log(2, 0, eventlog.Event{Kind: eventlog.Fenced, Req: a.req, No: a.no, State: "WAIT"})
	p.log(2, 0, eventlog.Event{Kind: eventlog.Dropped, No: a.no}) // was asked
	p.log(3, 0, eventlog.Event{Kind: eventlog.Dropped, No: 50})   // never was
	s, _ := judge(t, p.end(10))
	if s.Requests.Skipped != 1 {
		t.Errorf("%d skipped, want 1", s.Requests.Skipped)
	}
}

func TestStarvation(t *testing.T) {
	p := newPlant(t, 3)
	a := p.request(1, 0)
	for i := range 5 {
		at := float64(10 * (i + 1))
		b := p.request(at, 1)
		p.enter(at+1, b)
		p.exit(at+2, b)
	}
	p.enter(100, a)
	p.exit(101, a)
	s, _ := judge(t, p.end(200))
	if s.Requests.MaxOvertaken != 5 {
		t.Errorf("overtaken %d times, want 5", s.Requests.MaxOvertaken)
	}
}

func TestMessages(t *testing.T) {
	p := newPlant(t, 2)
	sent := func(pings, probes int64) map[string]eventlog.Count {
		return map[string]eventlog.Count{
			"REQUEST": {N: 10, Bytes: 400, Retrans: 2}, "PING": {N: pings, Bytes: 900}, "transport-ack": {N: 5, Bytes: 50},
			"PROBE": {N: probes, Bytes: 70}, "moon": {N: 1, Bytes: 1},
		}
	}
	p.section(1, 2, 0)
	p.section(3, 4, 1)
	p.log(5, 0, eventlog.Event{Kind: eventlog.Counters, Sent: sent(1, 1)}) // overtaken by the next
	p.log(6, 0, eventlog.Event{Kind: eventlog.Counters, Sent: sent(14, 7)})
	p.kill(7, 0, "crash")
	p.restart(8, 0)
	p.log(9, 0, eventlog.Event{Kind: eventlog.Counters, Sent: sent(14, 7)})
	p.control(9, eventlog.Event{Kind: eventlog.Slice, Host: &eventlog.Host{RealMS: 9, Frames: 314, Mutex: 80, Membership: 100, Other: 134}})
	s, _ := judge(t, p.end(10))
	m := s.Messages
	if m.E2EMutex != 20 || m.BytesMutex != 800 || m.E2EMembership != 28 || m.BytesMembership != 1800 || m.Acks != 10 ||
		m.Retransmissions != 4 || m.H2HTotal != 314 || m.PartialLives != 1 || m.ByKind["moon"].N != 2 {
		t.Errorf("messages %+v", m)
	}
	near(t, "e2e per entry", m.E2EPerCS, 10)
	near(t, "h2h per entry", m.H2HPerCS, 40)
	if m.H2HSource != "counted" {
		t.Errorf("source %s", m.H2HSource)
	}

	x := newSums()
	x.counters(sent(14, 14), true)
	x.host(&eventlog.Host{Frames: 314})
	m = x.messages(0)
	// 300 hops of 30 datagrams, 10 of them the algorithm's.
	if m.H2HSource != "apportioned" || m.H2HMutex != 100 {
		t.Errorf("apportioned: %+v", m)
	}
	if m.E2EPerCS.Known() {
		t.Errorf("messages per entry without an entry: %v", m.E2EPerCS)
	}
}

func TestMembership(t *testing.T) {
	p := newPlant(t, 4) // lists of 4 from 0
	member := func(ms float64, at, peer core.NodeID, inc core.Incarnation, change string, size int) {
		id := int32(peer)
		p.log(ms, at, eventlog.Event{Kind: eventlog.Member, Peer: &id, PeerInc: uint32(inc), Change: change, Size: size})
	}
	first := core.FirstIncarnation
	p.kill(100, 3, "poweroff")
	member(140, 0, 3, first, "failed", 3) // found after 40 ms
	member(160, 1, 3, first, "failed", 3)
	member(200, 2, 0, first, "failed", 3) // wrongly
	member(210, 1, 0, first, "failed", 2) // the same life
	p.control(300, eventlog.Event{Kind: eventlog.Pause, Node: 1})
	member(310, 0, 1, first, "failed", 2) // stopped: neither
	p.restart(400, 3)
	member(410, 0, 3, first, "failed", 2) // the old life again
	p.kill(500, 3, "crash")
	for id := range core.NodeID(3) {
		p.log(1000, id, eventlog.Event{Kind: eventlog.Stop})
	}
	p.control(1000, eventlog.Event{Kind: eventlog.End})
	s, _ := judge(t, p.open())
	m := s.Membership
	if m.FalsePositives != 1 || m.FalsePositiveEvents != 2 || m.DetectionMS.N != 1 || m.Undetected != 1 {
		t.Errorf("membership %+v", m)
	}
	near(t, "detection", m.DetectionMS.Mean, 40)
	near(t, "smallest list", m.SizeMin, 2)
	// node 0: 140 at 4, 170 at 3, 690 at 2; node 1: 160 at 4, 50 at 3, 790 at
	// 2; node 2: 200 at 4, 800 at 3; node 3: 100 at 4, then never joined again.
	near(t, "mean list", m.SizeMean, (140*4+170*3+690*2+160*4+50*3+790*2+200*4+800*3+100*4)/3100.)
	if c := s.Churn; c.Kills != 2 || c.Pauses != 1 || c.Hit["NONE"] != 3 {
		t.Errorf("churn %+v", c)
	}
}

func TestMutualFriend(t *testing.T) {
	pair := func(kill core.NodeID, restart bool) Number {
		p := newPlant(t, 4)
		a, b := p.request(10, 0), p.request(11, 1)
		if kill != core.None {
			p.kill(12, kill, "crash")
			if restart {
				p.restart(12.5, kill)
			}
		}
		p.enter(13, a, 2)
		p.exit(14, a)
		p.enter(15, b, 2, 3)
		p.exit(16, b)
		p.section(17, 18, 3) // overlaps nobody
		s, _ := judge(t, p.open())
		if s.Membership.MFPPairs != 1 {
			t.Fatalf("%d pairs", s.Membership.MFPPairs)
		}
		return s.Membership.MFPShare
	}
	near(t, "with the friend", pair(core.None, false), 1)
	near(t, "with the friend dead", pair(2, false), 0)
	near(t, "with the friend restarted", pair(2, true), 0)
	near(t, "with another node dead", pair(3, false), 1)
}

// Enter lines that do not tell whom their node asked make no pair without a
// friend; those of a node that asked nobody do.
func TestMutualFriendUnknown(t *testing.T) {
	for _, c := range []struct {
		grants []int // of the two requests
		pairs  int
	}{{[]int{0, 0}, 0}, {[]int{4, 4}, 0}, {[]int{1, 1}, 1}, {[]int{1, 4}, 0}} {
		p := newPlant(t, 4)
		a, b := p.request(10, 0), p.request(11, 1)
		for i, q := range []asked{a, b} {
			p.log(13+float64(2*i), q.id, eventlog.Event{Kind: eventlog.Enter, Req: q.req, No: q.no, Grants: c.grants[i]})
			p.exit(14+float64(2*i), q)
		}
		s, _ := judge(t, p.open())
		if m := s.Membership; m.MFPPairs != c.pairs {
			t.Errorf("grants %v: %d pairs", c.grants, m.MFPPairs)
		}
	}
}

// host is a slice that the host kept up with.
func host() *eventlog.Host {
	return &eventlog.Host{RealMS: 1000, CPUBusy: .5, Frames: 100_000, Dropped: 5000, ExpectDrops: 5000, LateP99US: 300}
}

func probe(errMS float64, n int64) *eventlog.Probe {
	p := &eventlog.Probe{DelayErr: make([]int64, len(eventlog.Bounds)+1), TimerLag: make([]int64, len(eventlog.Bounds)+1)}
	for i := range p.DelayErr {
		if i == len(eventlog.Bounds) || errMS*1e6 <= float64(eventlog.Bounds[i]) {
			p.DelayErr[i] = n
			break
		}
	}
	p.TimerLag[0] = n
	p.MaxErr = int64(errMS * 1e6)
	return p
}

func TestFidelity(t *testing.T) {
	for _, c := range []struct {
		name    string
		plant   func(h *eventlog.Host, p *eventlog.Probe) (*eventlog.Host, *eventlog.Probe)
		verdict string
		reason  string
	}{
		{"in time", func(h *eventlog.Host, p *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) { return h, p }, Faithful, ""},
		{"no probes", func(h *eventlog.Host, _ *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) { return h, nil }, Strained, "not measured"},
		{"late by half a link", func(h *eventlog.Host, _ *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			return h, probe(.9, 100)
		}, Strained, "median delay error"},
		{"late by four links", func(h *eventlog.Host, _ *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			return h, probe(20, 100)
		}, Unfaithful, "p99 delay error"},
		{"late beyond the histogram", func(h *eventlog.Host, _ *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			return h, probe(9000, 100)
		}, Unfaithful, "p99 delay error 8960 ms"},
		{"slow relay", func(h *eventlog.Host, p *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			h.LateP99US = 4000
			return h, p
		}, Strained, "lateness of the relay"},
		{"late timers", func(h *eventlog.Host, p *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			p.TimerLag[17] = 100 // 30 to 50 ms
			return h, p
		}, Unfaithful, "node timers"},
		{"drops by chance", func(h *eventlog.Host, p *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			h.Dropped = 5150 // 2.2 standard deviations
			return h, p
		}, Faithful, ""},
		{"too many drops", func(h *eventlog.Host, p *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			h.Dropped = 5700
			return h, p
		}, Strained, "5700 of 100000 frames were dropped by configured loss, 5000 were expected"},
		{"no drops at all", func(h *eventlog.Host, p *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			h.Dropped = 0
			return h, p
		}, Unfaithful, "configured loss"},
		{"a few unplanned losses", func(h *eventlog.Host, p *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			h.Unplanned = 50
			return h, p
		}, Strained, "50 frames were lost unplanned"},
		{"receive buffers overrun", func(h *eventlog.Host, p *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			p.RcvbufErrors = 500
			return h, p
		}, Unfaithful, "500 frames were lost unplanned"},
		{"busy", func(h *eventlog.Host, p *eventlog.Probe) (*eventlog.Host, *eventlog.Probe) {
			h.CPUBusy = .97
			return h, p
		}, Strained, "processors 97 % busy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pl := newPlant(t, 2)
			pl.section(1, 2, 0)
			h, p := c.plant(host(), probe(.05, 100))
			if p != nil {
				pl.log(500, 0, eventlog.Event{Kind: eventlog.Fidelity, Probe: p})
			}
			pl.control(1000, eventlog.Event{Kind: eventlog.Slice, Host: h})
			s, _ := judge(t, pl.end(1001))
			f := s.Fidelity
			if f.Verdict != c.verdict || !strings.Contains(f.Reason, c.reason) || (c.reason == "") != (f.Reason == "") {
				t.Errorf("%s: %q, want %s: %q", f.Verdict, f.Reason, c.verdict, c.reason)
			}
			if unfit := c.verdict == Unfaithful; s.WaitMS.Unfit != unfit || s.Requests.Unfit != unfit {
				t.Errorf("unfit %v and %v", s.WaitMS.Unfit, s.Requests.Unfit)
			}
			if f.TimeScale < 1 || c.verdict == Faithful && f.TimeScale != 1 {
				t.Errorf("time scale %v", f.TimeScale)
			}
			validate(t, s)
		})
	}
}

// Slices show what the averages of a run hide; what happened before the epoch
// does not count.
func TestFidelityOfSlices(t *testing.T) {
	make := func(bad, good int, epoch float64) Fidelity {
		p := newPlant(t, 2)
		if epoch > 0 {
			p.logs[core.None] = nil
			p.control(epoch, eventlog.Event{Kind: eventlog.Epoch})
		}
		at := 0.0
		for i := range bad + good {
			e, n := .05, int64(100_000)
			if i < bad {
				e, n = 50, 10
			}
			p.log(at+1, 0, eventlog.Event{Kind: eventlog.Fidelity, Probe: probe(e, n)})
			at += 1000
			p.control(at, eventlog.Event{Kind: eventlog.Slice, Host: host()})
		}
		s, _ := judge(t, p.end(at+1))
		return s.Fidelity
	}
	if f := make(0, 20, 0); f.Verdict != Faithful || len(f.Slices) != 20 {
		t.Errorf("%s, %d slices", f.Verdict, len(f.Slices))
	}
	if f := make(1, 20, 0); f.Verdict != Strained || f.Slices[0].Verdict != Unfaithful || !strings.Contains(f.Reason, "1 of 21 slices") {
		t.Errorf("%s: %s", f.Verdict, f.Reason)
	}
	if f := make(5, 20, 0); f.Verdict != Unfaithful || f.TimeScale <= 1 {
		t.Errorf("%s: %s, scale %v", f.Verdict, f.Reason, f.TimeScale)
	}
	if f := make(5, 20, 5000.5); f.Verdict != Faithful || len(f.Slices) != 20 {
		t.Errorf("after the epoch %s: %s, %d slices", f.Verdict, f.Reason, len(f.Slices))
	}
}

func TestSimulatedTimeIsFaithful(t *testing.T) {
	p := newPlant(t, 2)
	p.run.Manifest.Engine, p.run.Manifest.Fabric = Simulated, ""
	if err := p.run.WriteManifest(&p.run.Manifest); err != nil {
		t.Fatal(err)
	}
	s, _ := judge(t, p.end(10))
	if s.Fidelity.Verdict != Faithful || s.Fidelity.Reason != "" {
		t.Errorf("%+v", s.Fidelity)
	}
	validate(t, s)
}

func TestRoundUp(t *testing.T) {
	for in, want := range map[float64]float64{1: 1, 1.2: 1.5, 1.6: 2, 4: 5, 7.5: 10, 12: 15, .011: .015, 64: 70, 99: 100} {
		if got := roundUp(in); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", in, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var h histogram
	if h.quantile(.5).Known() {
		t.Error("quantile of nothing")
	}
	counts := make([]int64, len(eventlog.Bounds)+1)
	counts[0], counts[5], counts[len(counts)-1] = 98, 1, 1 // <= 0.05, 0.5..0.7, > 5000 ms
	h.add(counts, 8e9)
	near(t, "median", h.quantile(.49), .025)
	near(t, "p98.5", h.quantile(.985), .6)
	near(t, "largest", h.quantile(1), 8000)
}

// What a node saw while a fault had it stopped says nothing of the host.
func TestFidelityLeavesPausesOut(t *testing.T) {
	p := newPlant(t, 2)
	p.log(100, 0, eventlog.Event{Kind: eventlog.Fidelity, Probe: probe(.05, 1000)})
	p.log(100, 1, eventlog.Event{Kind: eventlog.Fidelity, Probe: probe(.05, 1000)})
	p.control(200, eventlog.Event{Kind: eventlog.Pause, Node: 1})
	p.control(700, eventlog.Event{Kind: eventlog.Resume, Node: 1})
	p.log(800, 1, eventlog.Event{Kind: eventlog.Fidelity, Probe: probe(500, 1000)})
	p.log(900, 1, eventlog.Event{Kind: eventlog.Fidelity, Probe: probe(.05, 1000)})
	p.control(1000, eventlog.Event{Kind: eventlog.Slice, Host: host()})
	s, _ := judge(t, p.end(1001))
	if s.Fidelity.Verdict != Faithful {
		t.Errorf("%s: %s", s.Fidelity.Verdict, s.Fidelity.Reason)
	}
	if s.Churn.Pauses != 1 {
		t.Errorf("%d pauses", s.Churn.Pauses)
	}
}
