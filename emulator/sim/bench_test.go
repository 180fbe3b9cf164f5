package sim_test

import (
	"math"
	"testing"
	"time"

	"churnbed/emulator/link"
	"churnbed/emulator/sim"
	"churnbed/node/core"
	"churnbed/node/stack"
	"churnbed/topologies"
	"churnbed/workloads"
)

// bigWorld is a random mesh, radius 4 m, 5 ms a hop, with 256 nodes on 34 x 34 m
// or as many to the area.
func bigWorld(b *testing.B, nodes int, service string, list []workloads.Arrival, length time.Duration) *sim.World {
	b.Helper()
	side := 34 * math.Sqrt(float64(nodes)/256)
	top, err := topologies.Generate(topologies.GenerateParams{Kind: "random", Nodes: nodes, Width: side, Height: side, Radius: 4}, 1)
	if err != nil {
		b.Fatal(err)
	}
	routes := topologies.ComputeRoutes(top, topologies.Euclid, nil, nil, nil)
	members := make([]core.Peer, nodes)
	up := make([]bool, nodes)
	for i := range members {
		members[i], up[i] = core.Peer{ID: core.NodeID(i), Inc: core.FirstIncarnation}, true
	}
	perNode := make([][]workloads.Arrival, nodes)
	for _, a := range list {
		perNode[a.Node] = append(perNode[a.Node], a)
	}
	params := link.Params{Delay: 5 * time.Millisecond}
	w, err := sim.New(sim.Config{
		Topology: top, Metric: topologies.Euclid, Seed: 1, Up: up, Arrivals: list,
		Params: func(int) (link.Params, link.Params) { return params, params },
		Drain:  5 * time.Minute, Warmup: time.Second, Duration: length,
		NodeConfig: func(n core.NodeID, inc core.Incarnation) stack.Config {
			c := stack.Config{
				Self: core.Peer{ID: n, Inc: inc}, Seed: 1, Nodes: nodes, Neighbours: top.Neighbours(n),
				Algorithm: stack.Algorithm{Name: "camera"}, Membership: stack.Membership{Service: service},
				Arrivals: perNode[n],
			}
			c.Members = append(append(c.Members, members[:n]...), members[n+1:]...)
			for i := range members {
				c.Distance = append(c.Distance, float32(routes.Length(n, core.NodeID(i))))
			}
			return c
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func benchmark(b *testing.B, nodes int, service string, requests int, length time.Duration) {
	b.Helper()
	var list []workloads.Arrival
	if requests > 0 {
		var err error
		list, _, err = workloads.Arrivals(workloads.ArrivalParams{
			Dist: "exponential", Mean: 200 * time.Millisecond, Requests: requests, Requesters: "uniform",
			CS: workloads.CSLength{Dist: "constant", Mean: 200 * time.Millisecond},
		}, nodes, 1)
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	var events, frames int64
	var running time.Duration
	for b.Loop() {
		b.StopTimer()
		w := bigWorld(b, nodes, service, list, length)
		b.StartTimer()
		start := time.Now()
		if err := w.Run(nil); err != nil {
			b.Fatal(err)
		}
		running += time.Since(start)
		events += w.Stats.Events
		for _, n := range w.Stats.Hops {
			frames += n
		}
		if w.Stats.Served != requests {
			b.Fatalf("%d requests served, want %d", w.Stats.Served, requests)
		}
	}
	b.ReportMetric(float64(events)/running.Seconds(), "events/s")
	b.ReportMetric(float64(frames)/running.Seconds(), "hops/s")
	b.ReportMetric(float64(events)/float64(b.N), "events/op")
}

// BenchmarkCameraReference is the reference cell of the Camera authors
// (ALGORITHMS 9): 30 requests, exponential arrivals of mean 200 ms, full
// static lists. The budget is one second.
func BenchmarkCameraReference(b *testing.B) { benchmark(b, 256, "static", 30, 0) }

// BenchmarkMedleyHour is an hour of membership service alone. The budget is
// five minutes.
func BenchmarkMedleyHour(b *testing.B) { benchmark(b, 1000, "medley", 0, time.Hour) }
