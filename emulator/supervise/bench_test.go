package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"churnbed/emulator/controller"
	"churnbed/emulator/fabric"
	"churnbed/emulator/sandbox"
	"churnbed/emulator/scenario"
	"churnbed/emulator/supervise"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/workloads"
)

func TestMain(m *testing.M) {
	if os.Args[0] == sandbox.Argv0 {
		supervise.Main()
	}
	os.Exit(m.Run())
}

// BenchmarkRestart kills and restarts nodes of a 64-node grid as fast as they
// come: restarts a second that were carried out, of twice what the design asks
// for, and the time from a kill to the new life's joining (static membership:
// no protocol time).
func BenchmarkRestart(b *testing.B) {
	const nodes, restarts, pace = 64, 400, 5 * time.Millisecond
	dir := b.TempDir()
	node := filepath.Join(dir, "churnbed-node")
	build := exec.Command("go", "build", "-o", node, "churnbed/node/cmd/churnbed-node")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build node: %v\n%s", err, out)
	}
	spec, origin, err := scenario.Load("", []scenario.Setting{
		{Key: "topology", Value: "grid"},
		{Key: "nodes", Value: fmt.Sprint(nodes)},
		{Key: "membership", Value: "static"},
		{Key: "algorithm", Value: "ra"},
		{Key: "requests", Value: "1"},
	})
	if err != nil {
		b.Fatal(err)
	}
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		b.Fatal(err)
	}
	sc.Arrivals[0].At = restarts*pace + time.Second // the run lasts at least so long
	for i := range restarts {
		id := []core.NodeID{core.NodeID(i % nodes)}
		at := time.Duration(i) * pace
		sc.Faults = append(sc.Faults,
			workloads.Fault{At: at, Verb: workloads.Crash, Nodes: id},
			workloads.Fault{At: at, Verb: workloads.Restart, Nodes: id})
	}
	for n := 0; b.Loop(); n++ {
		run, err := controller.Run(context.Background(), controller.Options{
			Scenario: sc, Dir: filepath.Join(dir, fmt.Sprint(n)), Fabric: fabric.KindRelay, NodeBinary: node,
			Manifest: &results.Manifest{Engine: results.Emulated, TimeScale: 1, Nodes: nodes},
			Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			b.Fatal(err)
		}
		rate, rejoin := restartFigures(b, run, nodes)
		b.ReportMetric(rate, "restarts/s")
		b.ReportMetric(rejoin, "rejoin-ms")
	}
}

// restartFigures reads the pace of the restarts and the median time from kill
// to joined out of the logs.
func restartFigures(b *testing.B, run *results.Run, nodes int) (rate, rejoinMS float64) {
	killed := map[[2]int64]int64{} // by node and process start of the next life
	var restarted []int64
	read(b, run.Path(results.ControllerFile), func(e eventlog.Event) {
		switch e.Kind {
		case eventlog.Kill:
			killed[[2]int64{int64(e.Node), int64(core.Incarnation(e.Inc).Start() + 1)}] = e.T
		case eventlog.Restart:
			restarted = append(restarted, e.After)
		default:
		}
	})
	var rejoin []float64
	for id := range nodes {
		read(b, run.NodeLog(core.NodeID(id)), func(e eventlog.Event) {
			at, ok := killed[[2]int64{int64(e.Node), int64(core.Incarnation(e.Inc).Start())}]
			if ok && e.Kind == eventlog.Joined {
				rejoin = append(rejoin, float64(e.T-at)/1e6)
			}
		})
	}
	if len(restarted) < 2 || len(rejoin) == 0 {
		b.Fatalf("%d restarts, %d joined again", len(restarted), len(rejoin))
	}
	slices.Sort(rejoin)
	seconds := float64(slices.Max(restarted)-slices.Min(restarted)) / 1e9
	return float64(len(restarted)-1) / seconds, rejoin[len(rejoin)/2]
}

func read(b *testing.B, path string, each func(eventlog.Event)) {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	r := eventlog.NewReader(path, f)
	for r.Scan() {
		each(r.Event())
	}
	if err := errors.Join(r.Err(), f.Close()); err != nil {
		b.Fatal(err)
	}
}
