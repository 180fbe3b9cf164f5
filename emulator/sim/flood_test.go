package sim_test

import (
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/stack"
	"churnbed/node/wire"
	"churnbed/workloads"
)

func flooding(c *stack.Config) { c.Algorithm.Release = stack.Multicast }

// A flooded RELEASE is one message of its originator. It passes each link once
// from each end, but not back to whom it came from first: 2L-(N-1) frames.
func TestFloodCost(t *testing.T) {
	for _, algorithm := range []string{"camera", "camera-paper"} {
		t.Run(algorithm, func(t *testing.T) {
			run := func(tune func(*stack.Config)) (sent, received map[string]eventlog.Count, hops int64, links int) {
				s := &scene{nodes: 24, area: 10, seed: 3, algorithm: algorithm, membership: "static", tune: tune}
				s.arrivals = []workloads.Arrival{{No: 1, At: time.Second, Node: 3, CS: time.Millisecond}, {No: 2, At: 9 * time.Second, Node: 7, CS: time.Minute}}
				sent, received = map[string]eventlog.Count{}, map[string]eventlog.Count{}
				s.log = func(_ core.NodeID, e *eventlog.Event) {
					for k, c := range e.Sent {
						sum := sent[k]
						sum.N, sum.Hops, sum.Bytes = sum.N+c.N, sum.Hops+c.Hops, sum.Bytes+c.Bytes
						sent[k] = sum
					}
					for k, c := range e.Recv {
						sum := received[k]
						sum.N, sum.Bytes = sum.N+c.N, sum.Bytes+c.Bytes
						received[k] = sum
					}
				}
				w := s.world(t)
				if err := w.Run(nil); err != nil {
					t.Fatal(err)
				}
				return sent, received, w.Stats.Hops[wire.ClassMutex], len(w.Links())
			}
			plain, _, plainHops, links := run(nil)
			multi, received, hops, _ := run(flooding)
			// The run ends when the second RELEASE has just been sent.
			if got, want := multi["RELEASE"].Hops, int64(2*links-23+len((&scene{nodes: 24, area: 10, seed: 3}).topology(t).Neighbours(7))); got != want {
				t.Errorf("%d frames for the RELEASE, want %d over %d links", got, want, links)
			}
			if multi["RELEASE"].N != 2 || plain["RELEASE"].N != 2*23 {
				t.Errorf("%d and %d RELEASE sent, want 2 and %d", multi["RELEASE"].N, plain["RELEASE"].N, 2*23)
			}
			if n := received["RELEASE"].N; n != 23 {
				t.Errorf("%d RELEASE received, want one at each of the others", n)
			}
			for _, k := range []string{"REQUEST", "OK"} {
				if multi[k].N != plain[k].N {
					t.Errorf("%d %s with a flooded RELEASE, %d otherwise", multi[k].N, k, plain[k].N)
				}
			}
			if hops <= multi["RELEASE"].Hops || plainHops <= 0 {
				t.Errorf("%d hops counted by the links, of them %d of floods", hops, multi["RELEASE"].Hops)
			}
		})
	}
}

// Lost RELEASEs only leave requests named that are over: everybody is served,
// one at a time, whatever share of the frames is lost.
func TestFloodLoss(t *testing.T) {
	for _, loss := range []float64{0.1, 0.4} {
		s := &scene{nodes: 16, area: 9, seed: 11, loss: loss, algorithm: "camera", membership: "static", tune: flooding}
		s.arrivals = arrivals(t, s.nodes, 60, "burst", 5)
		j := newJudge(s.nodes)
		sent, received := int64(0), int64(0)
		s.log = func(n core.NodeID, e *eventlog.Event) {
			j.line(n, e)
			sent += e.Sent["RELEASE"].N
			received += e.Recv["RELEASE"].N
		}
		w := s.world(t)
		if err := w.Run(nil); err != nil {
			t.Fatal(err)
		}
		if w.Stats.Served != 60 || len(j.wants) > 0 {
			t.Errorf("loss %v: served %d of 60, unserved %v", loss, w.Stats.Served, j.wants)
		}
		for _, v := range j.violations {
			t.Errorf("loss %v: %s", loss, v)
		}
		if sent != 60 {
			t.Errorf("loss %v: %d floods of 60 requests", loss, sent)
		}
		if loss > 0.3 && received == 60*15 {
			t.Errorf("loss %v: no RELEASE was lost, so nothing was tried", loss)
		}
	}
}
