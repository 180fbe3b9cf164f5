package sim_test

import (
	"math"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/workloads"
)

// sentBy runs s and returns what its nodes sent, by kind, and the number of
// sections.
func sentBy(t *testing.T, s *scene) map[string]int64 {
	t.Helper()
	sent := map[string]int64{}
	s.log = func(_ core.NodeID, e *eventlog.Event) {
		if e.Kind == eventlog.Counters {
			for k, c := range e.Sent {
				sent[k] += c.N
			}
		}
	}
	w := s.world(t)
	if err := w.Run(nil); err != nil {
		t.Fatal(err)
	}
	if w.Stats.Served != len(s.arrivals) || w.Stats.Most != 1 {
		t.Fatalf("served %d of %d, at most %d at once", w.Stats.Served, len(s.arrivals), w.Stats.Most)
	}
	return sent
}

// A voting set has 2*sqrt(N)-1 members, the node itself among them. An
// uncontended request costs REQUEST, OK and RELEASE to each of the others.
func TestMaekawaUncontendedCost(t *testing.T) {
	for _, algorithm := range []string{"maekawa", "maekawa-basic"} {
		s := &scene{nodes: 25, area: 10, seed: 3, algorithm: algorithm, membership: "static", arrivals: []workloads.Arrival{
			{No: 1, At: time.Second, Node: 3, CS: 200 * time.Millisecond},
			{No: 2, At: 3 * time.Second, Node: 17, CS: 200 * time.Millisecond},
		}}
		sent := sentBy(t, s)
		for _, k := range []string{"REQUEST", "OK", "RELEASE"} {
			if sent[k] != 2*8 {
				t.Errorf("%s: %d %s sent, want %d", algorithm, sent[k], k, 2*8)
			}
		}
		if n := sent["FAILED"] + sent["INQUIRE"] + sent["RELINQUISH"]; n != 0 {
			t.Errorf("%s: %d messages of contention sent without any", algorithm, n)
		}
	}
}

// Maekawa 1985 counts 3 messages a member other than the node itself where
// nobody contends, and 5 where many do.
func TestMaekawaCost(t *testing.T) {
	for _, c := range []struct {
		nodes int
		dist  string
		loss  float64
	}{{16, "weibull", 0}, {49, "weibull", 0}, {49, "burst", 0}, {100, "weibull", 0}, {36, "burst", 0.05}} {
		s := &scene{nodes: c.nodes, area: 10, seed: 5, algorithm: "maekawa", membership: "static", loss: c.loss}
		s.arrivals = arrivals(t, c.nodes, 60, c.dist, 7)
		sent := sentBy(t, s)
		n := sent["REQUEST"] + sent["OK"] + sent["RELEASE"] + sent["FAILED"] + sent["INQUIRE"] + sent["RELINQUISH"]
		perSection := float64(n) / float64(len(s.arrivals))
		root := math.Sqrt(float64(c.nodes))
		others := 2*root - 2
		t.Logf("N=%d %s loss %.2f: %.1f messages a section: %.2f a member, %.2f sqrt(N); %v", c.nodes, c.dist, c.loss, perSection, perSection/others, perSection/root, sent)
		if c.loss == 0 && (perSection < 3*others || perSection > 5*others) {
			t.Errorf("N=%d: %.1f messages a section, want %.0f to %.0f", c.nodes, perSection, 3*others, 5*others)
		}
	}
}
