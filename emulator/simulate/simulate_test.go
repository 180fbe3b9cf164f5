package simulate_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"testing"

	"churnbed/emulator/scenario"
	"churnbed/emulator/simulate"
	"churnbed/results"
)

// digests of committed scenarios. They change only when a protocol, the
// simulator, the workload generators or the log format do: say which in the
// commit that changes them.
var digests = map[string]string{
	"smoke.yaml":              "f52da41e7c0a1441a8d78733ee10bba44c5bbd7307aad68a8205dac481983f97",
	"demo.yaml":               "459f9572051070638bfdd885035d890752b21514ccbf57b85ed85fc90f408691",
	"ra-missing-entries.yaml": "9cc8b3a7ee029f435877903f1bbeed261bd97a782e063bf672eecc1ba149d05a",
}

func resolve(t testing.TB, name string, flags ...scenario.Setting) *scenario.Scenario {
	t.Helper()
	spec, origin, err := scenario.Load(filepath.Join("..", "..", "workloads", "scenarios", name), flags)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func run(t testing.TB, sc *scenario.Scenario) (*results.Run, *results.Manifest) {
	t.Helper()
	m := &results.Manifest{TimeScale: sc.TimeScale, Nodes: len(sc.Topology.Nodes), Links: len(sc.Topology.Links), Seed: sc.Seed}
	r, err := simulate.Run(context.Background(), sc, filepath.Join(t.TempDir(), "run"), m)
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

// The same scenario gives the same logs on every machine and any number of
// processors.
func TestDigests(t *testing.T) {
	for name, want := range digests {
		t.Run(name, func(t *testing.T) {
			_, one := run(t, resolve(t, name))
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			_, two := run(t, resolve(t, name))
			if one.LogDigest != two.LogDigest {
				t.Errorf("digest %s, then %s on one processor", one.LogDigest, two.LogDigest)
			}
			if one.LogDigest != want {
				t.Errorf("digest %s, want %s", one.LogDigest, want)
			}
		})
	}
}

// Another seed gives other logs.
func TestSeedMatters(t *testing.T) {
	_, one := run(t, resolve(t, "demo.yaml"))
	_, two := run(t, resolve(t, "demo.yaml", scenario.Setting{Key: "seed", Value: "2"}))
	if one.LogDigest == two.LogDigest {
		t.Error("seeds 1 and 2 give the same logs")
	}
}

// A simulated run directory is judged like an emulated one.
func TestRunIsJudged(t *testing.T) {
	for name, violates := range map[string]bool{"demo.yaml": false, "ra-missing-entries.yaml": true} {
		r, _ := run(t, resolve(t, name))
		opened, err := results.Open(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		s, v, err := results.Judge(opened)
		if err != nil {
			t.Fatal(err)
		}
		if (v.ViolationCount > 0) != violates {
			t.Errorf("%s: %d violations", name, v.ViolationCount)
		}
		if s.Requests.Served == 0 || s.Fidelity.Verdict != results.Faithful {
			t.Errorf("%s: %d served, %s", name, s.Requests.Served, s.Fidelity.Verdict)
		}
	}
}

// An interrupted simulation keeps what it has shown.
func TestInterrupted(t *testing.T) {
	sc := resolve(t, "demo.yaml")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m := &results.Manifest{TimeScale: 1, Nodes: len(sc.Topology.Nodes)}
	r, err := simulate.Run(ctx, sc, filepath.Join(t.TempDir(), "run"), m)
	if !errors.Is(err, context.Canceled) || !m.Interrupted {
		t.Errorf("error %v, interrupted %v", err, m.Interrupted)
	}
	if _, err := results.Open(r.Dir); err != nil {
		t.Error(err)
	}
}

// Who departs under the imitation goes on asking and is served, while the
// others' lists lose it.
func TestDepartedStillAsk(t *testing.T) {
	r, _ := run(t, resolve(t, "smoke.yaml",
		scenario.Setting{Key: "imitate-departed", Value: "true"},
		scenario.Setting{Key: "fault", Value: "at 1s crash node 3"},
		scenario.Setting{Key: "algorithm", Value: "ra"},
		scenario.Setting{Key: "membership", Value: "medley"},
		scenario.Setting{Key: "requesters", Value: "list:3"},
		scenario.Setting{Key: "arrivals", Value: "constant"},
		scenario.Setting{Key: "mean", Value: "30s"},
		scenario.Setting{Key: "requests", Value: "3"},
	))
	opened, err := results.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := results.Judge(opened)
	if err != nil {
		t.Fatal(err)
	}
	if s.Requests.Served != 3 || s.Churn.Kills != 0 {
		t.Errorf("%d of 3 served, %d kills", s.Requests.Served, s.Churn.Kills)
	}
	if low, all := s.Membership.SizeMin, float64(len(resolve(t, "smoke.yaml").Topology.Nodes)); float64(low) != all-1 {
		t.Errorf("smallest list %v of %v nodes, want all but the departed one", low, all)
	}
}
