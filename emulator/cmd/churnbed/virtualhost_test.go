package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"churnbed/emulator/scenario"
	"churnbed/results"
)

// resolved is a scenario of a text and files beside it.
func resolved(t *testing.T, text string, files map[string]string) (*scenario.Scenario, string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec, origin, err := scenario.Decode([]byte(text), filepath.Join(dir, "scenario.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		t.Fatal(err)
	}
	return sc, dir
}

// TestPackScenario: the packed scenario means the same with its files moved.
func TestPackScenario(t *testing.T) {
	const text = "topology-file: mesh.txt\nmembership: static:lists.txt\nchurn: trace.txt\ntrace-format: columns\nout: runs/x\nseed: 5\n"
	mesh, list, trace := "mesh.txt", "lists.txt", "trace.txt"
	sc, dir := resolved(t, text, map[string]string{
		mesh:  "0,0\n3,0\n0,3\n",
		list:  "0: 1 2\n1: 0\n",
		trace: "0 0 1\n1 0 1\n2 0 1\n",
	})
	packed, files, err := packScenario(sc)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"/scenario/topology-file/mesh.txt": filepath.Join(dir, mesh),
		"/scenario/membership/lists.txt":   filepath.Join(dir, list),
		"/scenario/churn/trace.txt":        filepath.Join(dir, trace),
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	spec, _, err := scenario.Decode(packed, guestScenario)
	if err != nil {
		t.Fatal(err)
	}
	if spec.Out != "" {
		t.Errorf("the packed scenario names the run directory %s", spec.Out)
	}
	if strings.Contains(string(packed), dir) {
		t.Errorf("the packed scenario names a file of the host:\n%s", packed)
	}
	// Back at the host's paths, every key is as it was.
	spec.TopologyFile, spec.Churn, spec.Membership = sc.Spec.TopologyFile, sc.Spec.Churn, sc.Spec.Membership
	spec.Out = sc.Spec.Out
	if diff := cmp.Diff(sc.Spec, spec, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("scenario (-want +got):\n%s", diff)
	}
}

func TestPackScenarioWithoutFiles(t *testing.T) {
	sc, _ := resolved(t, "nodes: 4\ntopology: grid\nchurn: overnet\nduration: 1m\n", nil)
	_, files, err := packScenario(sc)
	if err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
}

// TestPackKnowsEveryFile fails where a key is added that names a file, which
// packScenario would leave behind.
func TestPackKnowsEveryFile(t *testing.T) {
	var keys []string
	for _, k := range scenario.Keys() {
		if k.Type == "path" || strings.Contains(k.Help, "FILE") {
			keys = append(keys, k.Name)
		}
	}
	if diff := cmp.Diff([]string{"out", "topology-file", "membership", "routines-file", "churn"}, keys); diff != "" {
		t.Errorf("keys that name files (-packed +there):\n%s", diff)
	}
}

func TestGuestMemoryGrows(t *testing.T) {
	last := 0
	for _, n := range []int{4, 64, 256} {
		sc, _ := resolved(t, fmt.Sprintf("topology: grid\nnodes: %d\n", n), nil)
		mib := guestMemory(sc, 50<<20)
		// Half of it holds the logs, and what is left all processes.
		if need := int(sc.Needs("netem").Memory >> 20); mib <= last || mib < need+150 {
			t.Errorf("%d nodes: %d MiB, need %d, fewer nodes had %d", n, mib, need, last)
		}
		last = mib
	}
}

func TestGuestConfig(t *testing.T) {
	sc, _ := resolved(t, "topology: grid\nnodes: 4\n", nil)
	node, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := guestConfig(sc, node, runOptions{quiet: true, virtual: virtualHost{on: true, memoryMiB: 777}})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.MemoryMiB != 777 || !slices.Contains(cfg.Command, "--quiet") || cfg.Files[guestNode] != node {
		t.Errorf("memory %d, command %q, files %v", cfg.MemoryMiB, cfg.Command, cfg.Files)
	}
	if _, ok := cfg.Data[guestScenario]; !ok {
		t.Errorf("no scenario: %v", slices.Collect(maps.Keys(cfg.Data)))
	}
	_, err = guestConfig(sc, node, runOptions{virtual: virtualHost{memoryMiB: -1}})
	if err == nil || exitCode(err) != exitUsage {
		t.Errorf("negative memory: %v", err)
	}
}

func TestFreeDir(t *testing.T) {
	parent := t.TempDir()
	free := filepath.Join(parent, "runs", "new")
	if got, err := freeDir(free); err != nil || got != free {
		t.Errorf("%s: %s, %v", free, got, err)
	}
	if _, err := freeDir(parent); err == nil || !strings.Contains(err.Error(), "exists; name one that does not") {
		t.Errorf("a directory that is there: %v", err)
	}
}

func TestAdopt(t *testing.T) {
	sc, _ := resolved(t, "topology: grid\nnodes: 4\n", nil)
	from := filepath.Join(t.TempDir(), "run")
	m := &results.Manifest{Engine: results.Emulated, Kernel: "6.1-guest", TimeScale: 1, Nodes: 4, Command: []string{guestProgram}}
	if _, err := results.Create(from, m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, results.ScenarioFile), []byte("topology-file: /scenario/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(filepath.Dir(from), "adopted")
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := adopt(from, to, sc, started, &results.VirtualHost{QEMU: "7.2", MemoryMiB: 512}); err != nil {
		t.Fatal(err)
	}
	run, err := results.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	got := run.Manifest
	if got.VirtualHost == nil || got.VirtualHost.Kernel != "6.1-guest" || got.VirtualHost.QEMU != "7.2" ||
		!got.Started.Equal(started) || slices.Equal(got.Command, m.Command) {
		t.Errorf("manifest %+v, virtual host %+v", got, got.VirtualHost)
	}
	b, err := os.ReadFile(run.Path(results.ScenarioFile))
	if err != nil || !bytes.Equal(b, sc.YAML()) {
		t.Errorf("scenario: %v\n%s", err, b)
	}
	if exists(from) {
		t.Error("the folder it came from is still there")
	}
}

func TestGuestStatus(t *testing.T) {
	for status, want := range map[int]int{1: exitCheckFailed, 2: exitUsage, 3: exitHost, 4: exitInterrupted, 130: exitInterrupted, 137: exitHost, 99: exitHost} {
		if err := guestStatus(status); exitCode(err) != want {
			t.Errorf("status %d: %v, exit %d, want %d", status, err, exitCode(err), want)
		}
	}
	if err := guestStatus(0); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := orInterrupted(ctx, hostError(errors.New("x"))); exitCode(err) != exitHost {
		t.Errorf("not interrupted: %v", err)
	}
	cancel()
	if err := orInterrupted(ctx, hostError(errors.New("x"))); exitCode(err) != exitInterrupted {
		t.Errorf("interrupted: %v", err)
	}
}

func TestGuestLines(t *testing.T) {
	var out bytes.Buffer
	g := &guestLines{w: &out}
	for _, piece := range []string{"wiring\n\nstart", "ing 1/2\nru", "n"} {
		if n, err := g.Write([]byte(piece)); err != nil || n != len(piece) {
			t.Fatal(n, err)
		}
	}
	if want := "guest: wiring\nguest: starting 1/2\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestNoMachine: without QEMU the run ends with what to install.
func TestNoMachine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	sc, _ := resolved(t, "topology: grid\nnodes: 4\nout: x\n", nil)
	node, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	err = emulate(t.Context(), sc, runOptions{
		virtual: virtualHost{on: true}, nodeBinary: node, stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, interrupts: true,
	})
	if err == nil || exitCode(err) != exitHost || !strings.Contains(err.Error(), "apt-get install -y --no-install-recommends qemu-system-x86") {
		t.Errorf("error %v", err)
	}
}

func TestRelate(t *testing.T) {
	side := func(wait float64, verdict string) *results.Summary {
		s := &results.Summary{Fidelity: results.Fidelity{Verdict: verdict}}
		s.WaitMS.Mean, s.WaitMS.P50, s.WaitMS.P99 = results.Number(wait), results.Unknown(), results.Unknown()
		s.Messages.E2EPerCS, s.Requests.Served = 93, 30
		return s
	}
	pairs := []pair{
		{emulated: side(102, results.Faithful), simulated: side(100, results.Faithful)},
		{emulated: side(198, results.Faithful), simulated: side(200, results.Faithful)},
	}
	r := relate("x", pairs)
	wait, median := r.Rows[0], r.Rows[1]
	near := func(n results.Number, want float64) bool { return math.Abs(float64(n)-want) < 1e-9 }
	if wait.Trials != 2 || !near(wait.Emulated, 150) || !near(wait.Ratio, 1) || !near(wait.RatioMin, .99) || !near(wait.RatioMax, 1.02) {
		t.Errorf("wait %+v", wait)
	}
	if median.Trials != 0 || median.Ratio.Known() || median.Emulated.Known() {
		t.Errorf("an unknown figure: %+v", median)
	}
	if !r.within(.001) {
		t.Error("equal means are out of tolerance")
	}
	var out bytes.Buffer
	if err := r.print(&out); err != nil || !strings.Contains(out.String(), "0.9900 to 1.0200") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	pairs[0].emulated = side(140, results.Faithful)
	if r := relate("x", pairs); r.within(.05) || !r.within(.2) {
		t.Errorf("wait %+v", r.Rows[0])
	}
	pairs[0] = pair{emulated: side(100, results.Unfaithful), simulated: side(100, results.Faithful), failed: true}
	if r := relate("x", pairs); r.within(.05) || r.Failed != 1 || r.Fidelity != results.Unfaithful {
		t.Errorf("an unfaithful trial: %+v", r)
	}
}
