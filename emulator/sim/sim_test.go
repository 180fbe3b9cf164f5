package sim_test

import (
	"fmt"
	"testing"
	"time"

	"churnbed/emulator/link"
	"churnbed/emulator/sim"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/stack"
	"churnbed/node/wire"
	"churnbed/topologies"
	"churnbed/workloads"
)

// scene is a small scenario made by hand; the scenario package is not
// imported so that the simulator is tested alone.
type scene struct {
	nodes      int
	area       float64
	loss       float64
	seed       uint64
	algorithm  string
	membership string
	arrivals   []workloads.Arrival
	faults     []workloads.Fault
	log        func(core.NodeID, *eventlog.Event)

	top    *topologies.Topology // instead of a random one
	params *link.Params         // instead of 5 ms and loss
	tune   func(*stack.Config)  // changes what a node is told
}

func (s *scene) world(t testing.TB) *sim.World {
	t.Helper()
	top := s.topology(t)
	routes := topologies.ComputeRoutes(top, topologies.Euclid, nil, nil, nil)
	up := make([]bool, s.nodes)
	for i := range up {
		up[i] = true
	}
	params := link.Params{Delay: 5 * time.Millisecond, Loss: s.loss}
	if s.params != nil {
		params = *s.params
	}
	w, err := sim.New(sim.Config{
		Topology: top, Metric: topologies.Euclid, Seed: s.seed, Up: up, Arrivals: s.arrivals, Faults: s.faults,
		Params: func(int) (link.Params, link.Params) { return params, params },
		Drain:  5 * time.Minute, Warmup: time.Second, Oracle: s.membership == "oracle", Log: s.log,
		NodeConfig: func(n core.NodeID, inc core.Incarnation) stack.Config {
			c := stack.Config{
				Self: core.Peer{ID: n, Inc: inc}, Seed: s.seed, Nodes: s.nodes, Restarted: inc != core.FirstIncarnation,
				Join: inc != core.FirstIncarnation, Neighbours: top.Neighbours(n),
				Algorithm:  stack.Algorithm{Name: s.algorithm, SuspicionWait: 16 * time.Second},
				Membership: stack.Membership{Service: s.membership},
			}
			for i := range s.nodes {
				c.Distance = append(c.Distance, float32(routes.Length(n, core.NodeID(i))))
				if id := core.NodeID(i); id != n {
					c.Members = append(c.Members, core.Peer{ID: id, Inc: core.FirstIncarnation})
				}
			}
			for _, a := range s.arrivals {
				if a.Node == n {
					c.Arrivals = append(c.Arrivals, a)
				}
			}
			if s.tune != nil {
				s.tune(&c)
			}
			return c
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func arrivals(t testing.TB, nodes, requests int, dist string, seed uint64) []workloads.Arrival {
	t.Helper()
	list, _, err := workloads.Arrivals(workloads.ArrivalParams{
		Dist: dist, Requests: requests, Requesters: "uniform", CS: workloads.CSLength{Dist: "constant", Mean: 200 * time.Millisecond},
	}, nodes, seed)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Without loss, a request costs REQUEST, OK and RELEASE to each of the N-1
// others, and an uncontended one waits for two path delays to the farthest.
func TestReferenceCost(t *testing.T) {
	for _, algorithm := range []string{"camera", "camera-paper", "ra"} {
		t.Run(algorithm, func(t *testing.T) {
			sent := map[string]int64{}
			var waits []time.Duration
			var asked int64
			s := &scene{nodes: 24, area: 10, seed: 3, algorithm: algorithm, membership: "static"}
			s.arrivals = []workloads.Arrival{
				{No: 1, At: time.Second, Node: 3, CS: 200 * time.Millisecond},
				{No: 2, At: 3 * time.Second, Node: 17, CS: 200 * time.Millisecond},
			}
			s.log = func(_ core.NodeID, e *eventlog.Event) {
				switch e.Kind {
				case eventlog.Request:
					asked = e.T
				case eventlog.Enter:
					waits = append(waits, time.Duration(e.T-asked))
				case eventlog.Counters:
					for k, c := range e.Sent {
						sent[k] += c.N
					}
				}
			}
			w := s.world(t)
			if err := w.Run(nil); err != nil {
				t.Fatal(err)
			}
			if w.Stats.Served != 2 || w.Stats.Most != 1 {
				t.Fatalf("served %d, at most %d at once", w.Stats.Served, w.Stats.Most)
			}
			for _, k := range []string{"REQUEST", "OK"} {
				if sent[k] != 2*23 {
					t.Errorf("%d %s sent, want %d", sent[k], k, 2*23)
				}
			}
			if want := map[string]int64{"ra": 0}; algorithm == "ra" && sent["RELEASE"] != want["ra"] || algorithm != "ra" && sent["RELEASE"] != 2*23 {
				t.Errorf("%d RELEASE sent", sent["RELEASE"])
			}
			if sent[wire.AckName] != 0 {
				t.Errorf("%d acknowledgements sent where every request was answered at once", sent[wire.AckName])
			}
			top := s.topology(t)
			routes := topologies.ComputeRoutes(top, topologies.Euclid, nil, nil, nil)
			for i, a := range s.arrivals {
				far := 0
				for n := range top.Nodes {
					far = max(far, routes.Hops(a.Node, core.NodeID(n)))
				}
				if want := time.Duration(2*far) * 5 * time.Millisecond; waits[i] != want {
					t.Errorf("request %d waited %v, want %v", i+1, waits[i], want)
				}
			}
		})
	}
}

func (s *scene) topology(t testing.TB) *topologies.Topology {
	t.Helper()
	if s.top != nil {
		return s.top
	}
	top, err := topologies.Generate(topologies.GenerateParams{Kind: "random", Nodes: s.nodes, Width: s.area, Height: s.area, Radius: 4}, s.seed)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// Camera serves everybody and never has two holders, under loss, contention
// and real churn, whatever the seed.
func TestCameraUnderChurn(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := &scene{nodes: 20, area: 9, loss: 0.05, seed: seed, algorithm: "camera", membership: "medley"}
			s.arrivals = arrivals(t, s.nodes, 60, "exponential", seed)
			rng := core.Stream(seed, "test churn")
			for i := range 12 {
				at := time.Duration(i) * 1500 * time.Millisecond
				id := []core.NodeID{core.NodeID(rng.IntN(s.nodes))}
				s.faults = append(s.faults,
					workloads.Fault{At: at, Verb: workloads.Crash, Nodes: id},
					workloads.Fault{At: at + 4*time.Second, Verb: workloads.Restart, Nodes: id})
			}
			requested, gone := map[int]core.NodeID{}, map[int]bool{}
			entered := map[int]bool{}
			open := map[core.NodeID]int{}
			s.log = func(id core.NodeID, e *eventlog.Event) {
				switch e.Kind {
				case eventlog.Request:
					requested[e.No], open[id] = id, e.No
				case eventlog.Enter:
					entered[e.No] = true
				case eventlog.Kill:
					gone[open[core.NodeID(e.Node)]] = true
				}
			}
			w := s.world(t)
			if err := w.Run(nil); err != nil {
				t.Fatal(err)
			}
			if w.Stats.Most > 1 {
				t.Errorf("seed %d: %d nodes in the critical section at once", seed, w.Stats.Most)
			}
			for no, id := range requested {
				if !entered[no] && !gone[no] {
					t.Errorf("seed %d: request %d of node %d was never served, now %v", seed, no, id, w.Now())
				}
			}
			if w.Stats.Kills == 0 || w.Stats.Restarts == 0 {
				t.Errorf("%d kills, %d restarts", w.Stats.Kills, w.Stats.Restarts)
			}
		})
	}
}

// The same configuration gives the same lines.
func TestDeterminism(t *testing.T) {
	run := func() (lines []string) {
		s := &scene{nodes: 12, area: 7, loss: 0.1, seed: 9, algorithm: "camera", membership: "medley"}
		s.arrivals = arrivals(t, s.nodes, 20, "weibull", 9)
		s.faults = []workloads.Fault{
			{At: time.Second, Verb: workloads.Crash, Role: "holder", Count: 1, After: 3 * time.Second},
			{At: 2 * time.Second, Verb: workloads.Pause, Nodes: []core.NodeID{4}},
			{At: 4 * time.Second, Verb: workloads.Resume, Nodes: []core.NodeID{4}},
			{At: 5 * time.Second, Verb: workloads.Poweroff, Nodes: []core.NodeID{7}},
			{At: 7 * time.Second, Verb: workloads.Restart, Nodes: []core.NodeID{7}},
			{At: 8 * time.Second, Verb: workloads.Leave, Nodes: []core.NodeID{2}},
		}
		s.log = func(id core.NodeID, e *eventlog.Event) {
			lines = append(lines, fmt.Sprintf("%d %d %s %s %v %v", id, e.T, e.Kind, e.Req, e.Peer != nil, e.Sent))
		}
		if err := s.world(t).Run(nil); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	a, b := run(), run()
	if len(a) != len(b) {
		t.Fatalf("%d lines, then %d", len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("line %d: %q, then %q", i, a[i], b[i])
		}
	}
}
