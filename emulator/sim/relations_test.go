package sim_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"churnbed/emulator/link"
	"churnbed/emulator/mesh"
	"churnbed/emulator/sim"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/topologies"
	"churnbed/workloads"
)

// sections runs a scene and returns the lines about requests, "instant kind
// request", those of the controller left out.
func (s *scene) sections(t testing.TB) (lines []string, w *sim.World) {
	t.Helper()
	s.log = func(log core.NodeID, e *eventlog.Event) {
		switch e.Kind {
		case eventlog.Request, eventlog.Enter, eventlog.Exit, eventlog.Fenced:
			if log >= 0 {
				lines = append(lines, fmt.Sprintf("%v %s %s", core.Instant(e.T), e.Kind, e.Req))
			}
		}
	}
	w = s.world(t)
	if err := w.Run(nil); err != nil {
		t.Fatal(err)
	}
	if w.Stats.Served == 0 {
		t.Fatal("nothing was served")
	}
	return lines, w
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func generate(t testing.TB, p topologies.GenerateParams) *topologies.Topology {
	t.Helper()
	top, err := topologies.Generate(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func ring(t testing.TB, nodes int) *topologies.Topology {
	return generate(t, topologies.GenerateParams{Kind: "ring", Nodes: nodes, Radius: 4})
}

// Impairments of size nothing are none, for every algorithm and service.
func TestZeroIsNoImpairment(t *testing.T) {
	for _, algorithm := range []string{"ra", "camera", "camera-paper"} {
		for _, service := range []string{"static", "oracle", "medley"} {
			t.Run(algorithm+"/"+service, func(t *testing.T) {
				run := func(p link.Params) []string {
					s := &scene{nodes: 10, area: 7, seed: 4, algorithm: algorithm, membership: service, params: &p}
					s.arrivals = arrivals(t, s.nodes, 20, "exponential", 4)
					lines, w := s.sections(t)
					if w.Stats.Dropped != 0 {
						t.Errorf("%d frames dropped", w.Stats.Dropped)
					}
					return lines
				}
				want := run(link.Params{Delay: ms(5)})
				got := run(link.Params{Delay: ms(5), Dist: link.Normal, Burst: &link.GilbertElliott{P: 0.5, R: 0.5}})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-plain +zero):\n%s", diff)
				}
			})
		}
	}
}

// What the links carry does not depend on whether a frame's hops are computed
// one by one: a fault on links that changes nothing changes nothing.
func TestHopByHop(t *testing.T) {
	run := func(faults ...workloads.Fault) []string {
		s := &scene{nodes: 16, area: 9, seed: 2, algorithm: "camera", membership: "medley", faults: faults}
		s.arrivals = arrivals(t, s.nodes, 30, "exponential", 2)
		lines, _ := s.sections(t)
		return lines
	}
	want := run()
	if diff := cmp.Diff(want, run(workloads.Fault{At: time.Second, Verb: workloads.Heal})); diff != "" {
		t.Errorf("(-at once +hop by hop):\n%s", diff)
	}
}

// A mesh that is turned round behaves as before: ids decide only between
// requests of the same timestamp.
func TestRenamedNodes(t *testing.T) {
	const nodes = 9
	line := generate(t, topologies.GenerateParams{Kind: "line", Nodes: nodes, Radius: 4})
	for _, algorithm := range []string{"ra", "camera", "camera-paper"} {
		run := func(rename func(core.NodeID) core.NodeID) (entered []string, hops int64) {
			s := &scene{nodes: nodes, seed: 1, algorithm: algorithm, membership: "static", top: line}
			for i, n := range []core.NodeID{0, 3, 3, 7, 5} {
				s.arrivals = append(s.arrivals, workloads.Arrival{No: i + 1, At: time.Duration(i) * 2 * time.Second, Node: rename(n), CS: ms(100)})
			}
			s.log = func(_ core.NodeID, e *eventlog.Event) {
				if e.Kind == eventlog.Enter || e.Kind == eventlog.Exit {
					entered = append(entered, fmt.Sprintf("%v %s %d %d", core.Instant(e.T), e.Kind, e.No, e.Grants))
				}
			}
			w := s.world(t)
			if err := w.Run(nil); err != nil {
				t.Fatal(err)
			}
			for _, n := range w.Stats.Hops {
				hops += n
			}
			return entered, hops
		}
		plain, hops := run(func(n core.NodeID) core.NodeID { return n })
		turned, turnedHops := run(func(n core.NodeID) core.NodeID { return nodes - 1 - n })
		if diff := cmp.Diff(plain, turned); diff != "" || hops != turnedHops || len(plain) != 10 {
			t.Errorf("%s: %d hops, turned %d (-plain +turned):\n%s", algorithm, hops, turnedHops, diff)
		}
	}
}

// A pause in which nothing reaches the node changes nothing.
func TestPauseWithoutTraffic(t *testing.T) {
	run := func(faults ...workloads.Fault) []string {
		s := &scene{nodes: 12, area: 8, seed: 6, algorithm: "camera", membership: "static", faults: faults}
		for i := range 4 {
			s.arrivals = append(s.arrivals, workloads.Arrival{No: i + 1, At: time.Duration(1+10*i) * time.Second, Node: core.NodeID(i), CS: ms(200)})
		}
		lines, _ := s.sections(t)
		return lines
	}
	want := run()
	paused := []core.NodeID{2, 5}
	got := run(
		workloads.Fault{At: 5 * time.Second, Verb: workloads.Pause, Nodes: paused},
		workloads.Fault{At: 9 * time.Second, Verb: workloads.Resume, Nodes: paused})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-undisturbed +paused):\n%s", diff)
	}
	// With traffic it does: the pauses are real.
	got = run(
		workloads.Fault{At: 500 * time.Millisecond, Verb: workloads.Pause, Nodes: paused},
		workloads.Fault{At: 9 * time.Second, Verb: workloads.Resume, Nodes: paused})
	if cmp.Equal(want, got) {
		t.Error("a pause of a node that is asked changed nothing")
	}
}

// News for a paused node waits for it.
func TestPausedNodeHearsTheOracle(t *testing.T) {
	s := &scene{nodes: 6, area: 5, seed: 1, algorithm: "ra", membership: "oracle"}
	s.faults = []workloads.Fault{
		{At: 1 * time.Second, Verb: workloads.Pause, Nodes: []core.NodeID{0}},
		{At: 2 * time.Second, Verb: workloads.Crash, Nodes: []core.NodeID{1}},
		{At: 3 * time.Second, Verb: workloads.Resume, Nodes: []core.NodeID{0}},
	}
	s.arrivals = []workloads.Arrival{{No: 1, At: 4 * time.Second, Node: 0, CS: ms(10)}}
	lines, _ := s.sections(t)
	if len(lines) != 3 {
		t.Errorf("lines %q: the request waits for a node of whose crash it was told", lines)
	}
}

// A rate puts frames in a row: the wait of a lone request between two nodes
// is two delays and two sendings.
func TestRateLimitedLink(t *testing.T) {
	const rate = 80_000
	pair := generate(t, topologies.GenerateParams{Kind: "line", Nodes: 2, Radius: 4})
	var sent map[string]eventlog.Count
	var wait time.Duration
	s := &scene{
		nodes: 2, seed: 1, algorithm: "ra", membership: "static", top: pair, params: &link.Params{Delay: ms(5), Rate: rate},
		arrivals: []workloads.Arrival{{No: 1, At: time.Second, Node: 0, CS: ms(1)}},
	}
	var bytes int64
	s.log = func(log core.NodeID, e *eventlog.Event) {
		switch e.Kind {
		case eventlog.Request:
			wait = -time.Duration(e.T)
		case eventlog.Enter:
			wait += time.Duration(e.T)
		case eventlog.Counters:
			sent = e.Sent
			for _, c := range sent {
				bytes += c.Bytes
			}
		}
	}
	if err := s.world(t).Run(nil); err != nil {
		t.Fatal(err)
	}
	const headers = 2 * (14 + 20 + 8) // Ethernet, IPv4, UDP
	want := 2*ms(5) + time.Duration((bytes+headers)*8)*time.Second/rate
	if d := (wait - want).Abs(); d > 2 || bytes == 0 {
		t.Errorf("waited %v, want %v for %d bytes", wait, want, bytes)
	}
}

// After a poweroff routes lead round the node; after its restart they lead
// through it again. A crash leaves them alone, since the kernel forwards.
func TestPoweroffReroutes(t *testing.T) {
	for _, c := range []struct {
		verb  workloads.Verb
		waits []time.Duration // before, while node 1 is dead, after
	}{
		{workloads.Poweroff, []time.Duration{2 * ms(15), 2 * ms(20), 2 * ms(15)}},
		{workloads.Crash, []time.Duration{2 * ms(15), 2 * ms(15), 2 * ms(15)}},
	} {
		t.Run(string(c.verb), func(t *testing.T) {
			s := &scene{nodes: 6, seed: 1, algorithm: "ra", membership: "oracle", top: ring(t, 6)}
			s.faults = []workloads.Fault{
				{At: 5 * time.Second, Verb: c.verb, Nodes: []core.NodeID{1}},
				{At: 15 * time.Second, Verb: workloads.Restart, Nodes: []core.NodeID{1}},
			}
			for i := range 3 {
				s.arrivals = append(s.arrivals, workloads.Arrival{No: i + 1, At: time.Duration(1+10*i) * time.Second, Node: 0, CS: ms(10)})
			}
			var waits []time.Duration
			var asked int64
			s.log = func(_ core.NodeID, e *eventlog.Event) {
				switch e.Kind {
				case eventlog.Request:
					asked = e.T
				case eventlog.Enter:
					waits = append(waits, time.Duration(e.T-asked))
				}
			}
			if err := s.world(t).Run(nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.waits, waits); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// A frame on its way is lost where a link ahead of it goes down.
func TestLinkFailsUnderWay(t *testing.T) {
	line := generate(t, topologies.GenerateParams{Kind: "line", Nodes: 4, Radius: 4})
	s := &scene{nodes: 4, seed: 1, algorithm: "ra", membership: "static", top: line}
	s.arrivals = []workloads.Arrival{{No: 1, At: time.Second, Node: 0, CS: ms(10)}}
	s.faults = []workloads.Fault{
		{At: time.Second + ms(7), Verb: workloads.LinkDown, Links: [][2]core.NodeID{{2, 3}}},
		{At: time.Second + ms(50), Verb: workloads.LinkUp, Links: [][2]core.NodeID{{2, 3}}},
	}
	_, w := s.sections(t)
	if n := w.Stats.Links[4].Frames; n != 1 {
		t.Errorf("%d frames crossed the last link, want the repetition only", n)
	}
}

// A request that follows another at once is counted like any other.
func TestServedBackToBack(t *testing.T) {
	s := &scene{nodes: 4, area: 5, seed: 1, algorithm: "camera", membership: "static"}
	for i := range 5 {
		s.arrivals = append(s.arrivals, workloads.Arrival{No: i + 1, At: time.Second, Node: 2, CS: ms(100)})
	}
	lines, w := s.sections(t)
	if w.Stats.Served != 5 || w.Stats.Holders != 0 || w.Stats.Most != 1 || len(lines) != 15 {
		t.Errorf("served %d, %d holders at the end, at most %d, %d lines", w.Stats.Served, w.Stats.Holders, w.Stats.Most, len(lines))
	}
}

// Neither the number of processors nor what ran before has a say.
func TestDeterminismAcrossProcessors(t *testing.T) {
	run := func() []string {
		rng := core.Stream(3, "chaos/medley")
		s := &scene{nodes: 11, area: 7, loss: 0.1, seed: 3, algorithm: "camera", membership: "medley"}
		s.faults, s.arrivals = chaos(rng, s.topology(t), 30*time.Second, false)
		lines, w := s.sections(t)
		h := w.Host()
		return append(lines, fmt.Sprintf("%+v %d", h, w.Stats.Events))
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one := run()
	runtime.GOMAXPROCS(4)
	if diff := cmp.Diff(one, run()); diff != "" {
		t.Errorf("(-one processor +four):\n%s", diff)
	}
}

// The sums agree with each other.
func TestFigures(t *testing.T) {
	s := &scene{nodes: 12, area: 8, loss: 0.2, seed: 8, algorithm: "camera", membership: "medley"}
	s.arrivals = arrivals(t, s.nodes, 30, "weibull", 8)
	_, w := s.sections(t)
	var frames, bytes, dropped int64
	for _, l := range w.Stats.Links {
		frames, bytes, dropped = frames+l.Frames, bytes+l.Bytes, dropped+l.Dropped
	}
	h := w.Host()
	if frames != h.Frames || bytes != w.Stats.HopBytes || dropped != h.Dropped || h.Other < 0 || h.Mutex == 0 || h.Membership == 0 {
		t.Errorf("links carried %d frames, %d bytes, dropped %d; sums %+v, %d bytes", frames, bytes, dropped, h, w.Stats.HopBytes)
	}
	if share := float64(h.Dropped) / h.ExpectDrops; share < 0.9 || share > 1.1 {
		t.Errorf("%d frames dropped, expected %g", h.Dropped, h.ExpectDrops)
	}
	if len(w.Links())*2 != len(w.Stats.Links) || !slices.ContainsFunc(w.Links(), func(l mesh.Link) bool { return l.AB.Loss == 0.2 }) {
		t.Error("links lack their parameters")
	}
	if inc, up := w.Up(0); inc != core.FirstIncarnation || up {
		t.Errorf("node 0 ended in life %d, up %v", inc, up)
	}
}
