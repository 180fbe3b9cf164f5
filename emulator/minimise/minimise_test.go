package minimise

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"churnbed/emulator/scenario"
	"churnbed/emulator/simulate"
	"churnbed/results"
)

func load(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"run.yaml": text,
		// 0 and 1 do not know each other; 2 knows everybody.
		"apart.lists": "0: !1\n1: !0\n",
		// 0 and 1 have only 2 in common.
		"friend.lists": "0: 2\n1: 2\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec, origin, err := scenario.Load(filepath.Join(dir, "run.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func manifest(sc *scenario.Scenario) *results.Manifest {
	return &results.Manifest{
		TimeScale: 1, Nodes: len(sc.Topology.Nodes), Links: len(sc.Topology.Links), Algorithm: sc.Algorithm.Name,
		Arrivals: len(sc.Arrivals), Started: time.Unix(0, 0),
	}
}

// again reads a scenario as a user would and tells what its run fails.
func again(t *testing.T, text []byte) (*scenario.Scenario, Property) {
	t.Helper()
	spec, origin, err := scenario.Decode(text, "minimised.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	s, err := Simulator(manifest)(t.Context(), sc)
	if err != nil {
		t.Fatal(err)
	}
	return sc, FailedBy(s)
}

const noise = `
topology: full
nodes: 6
link-delay: 5ms
link-loss: 0.02
link-jitter: 1ms
seed: 3
warmup: 100ms
drain: 20s
counters-every: 0
probe-every: 0
`

// Planted violations are found again among much else, with no more than what
// makes them.
func TestMinimiseSafety(t *testing.T) {
	for _, c := range []struct {
		name, text string
		check      func(t *testing.T, items []string)
	}{
		{"missing entries need no fault", noise + `
algorithm: ra
membership: static:apart.lists
requests: 40
mean: 50ms
cs: 60ms
fault:
  - from 0s to 2s every 300ms pause 1 nodes for 100ms
  - from 0s to 2s every 500ms set all loss 10% for 200ms
  - from 0s to 2s flap link 2-3 every 250ms
  - at 500ms partition 0-3|4-5 for 300ms
`, func(t *testing.T, items []string) {
			if len(items) != 2 || !strings.Contains(items[0], "node 0 ") && !strings.Contains(items[1], "node 0 ") {
				t.Errorf("%q: want one request of node 0 and one of node 1", items)
			}
		}},
		{"a friend forgets", noise + `
algorithm: camera-paper
membership: static:friend.lists
arrival:
  - at 100ms node 3 for 10ms
  - at 200ms node 4 for 10ms
  - at 1s node 0 for 3s
  - at 1.1s node 5 for 10ms
  - at 2s node 1 for 50ms
  - at 2.5s node 3 for 50ms
  - at 5s node 4 for 50ms
fault:
  - at 500ms crash nodes 4,5 restart after 200ms
  - at 1.5s crash nodes 2-4 restart after 200ms
  - at 1.6s link 3-4 down for 1s
  - at 2.2s poweroff node 5 for 1s
  - from 3s to 5s churn 3
`, func(t *testing.T, items []string) {
			if !slices.Equal(items, []string{"at 1s node 0 for 3s", "at 1.5s crash nodes 2", "at 1.7s restart nodes 2", "at 2s node 1 for 50ms"}) {
				t.Errorf("%q", items)
			}
		}},
		{"a trace brings a newcomer", strings.Replace(noise, "nodes: 6", "nodes: 3", 1) + `
algorithm: camera-paper
membership: oracle
down-at-start: 0
arrival:
  - at 1s node 1 for 3s
  - at 2.5s node 0 for 3s
  - at 9s node 2 for 10ms
fault:
  - at 0s set links 1-2 delay 2s
  - at 1.5s join node 0
  - at 8s set links 0-1 delay 7ms
`, func(t *testing.T, items []string) {
			if len(items) != 4 {
				t.Errorf("%q", items)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sc := load(t, c.text)
			before := Counts{}
			r, err := Run(t.Context(), Options{
				Scenario: sc, Property: Safety, Engine: Simulator(manifest),
				Progress: func(p Progress) { before = p.Before },
			})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Minimal || r.Before != before || r.After.Settings != 0 {
				t.Errorf("%+v", r)
			}
			c.check(t, r.Items())
			text, err := r.YAML("Minimised.")
			if err != nil {
				t.Fatal(err)
			}
			if _, fails := again(t, text); fails != Safety {
				t.Errorf("what was written fails %q:\n%s", fails, text)
			}
			t.Logf("%+v to %+v in %d runs: %q", r.Before, r.After, r.Runs, r.Items())
		})
	}
}

// A dead node that somebody names in an OK is waited for (H8, H4e).
func TestMinimiseLiveness(t *testing.T) {
	sc := load(t, noise+`
algorithm: camera-paper
membership: static:friend.lists
arrival:
  - at 100ms node 3 for 10ms
  - at 1s node 0 for 3s
  - at 2s node 1 for 50ms
  - at 2.5s node 3 for 50ms
fault:
  - at 50ms set all delay 7ms
  - at 1.5s crash node 0
  - at 1.6s link 3-4 down for 1s
`)
	r, err := Run(t.Context(), Options{Scenario: sc, Property: Liveness, Engine: Simulator(manifest)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.YAML("")
	if err != nil {
		t.Fatal(err)
	}
	if _, fails := again(t, text); !r.Minimal || fails != Liveness {
		t.Errorf("fails %q: %q", fails, r.Items())
	}
	if len(r.Items()) > 3 {
		t.Errorf("%q", r.Items())
	}
}

// A bound of runs, and an end of the context, leave the smallest so far.
func TestMinimiseEndsEarly(t *testing.T) {
	sc := load(t, noise+"algorithm: ra\nmembership: static:apart.lists\nrequests: 60\nmean: 50ms\ncs: 60ms\n")
	whole, err := Run(t.Context(), Options{Scenario: sc, Property: Safety, Engine: Simulator(manifest)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Scenario: sc, Property: Safety, Engine: Simulator(manifest), MaxRuns: 8})
	if err != nil || r.Minimal || r.Runs != 8 || r.Why == "" || r.After.Requests <= whole.After.Requests || r.After.Requests >= 60 {
		t.Errorf("%v: %+v; the whole search: %+v", err, r, whole)
	}
	ctx, cancel := context.WithCancel(t.Context())
	simulated := Simulator(manifest)
	n := 0
	r, err = Run(ctx, Options{Scenario: sc, Property: Safety, Engine: func(ctx context.Context, sc *scenario.Scenario) (*results.Summary, error) {
		if n++; n == 6 {
			cancel()
		}
		return simulated(ctx, sc)
	}})
	if err != nil || r.Minimal || r.Runs != 6 {
		t.Errorf("%v: %+v", err, r)
	}
	if text, err := r.YAML(""); err != nil {
		t.Error(err)
	} else if _, fails := again(t, text); fails != Safety {
		t.Errorf("what was written after the end fails %q", fails)
	}
}

func TestMinimiseWhatPasses(t *testing.T) {
	sc := load(t, noise+"algorithm: camera\nmembership: static\nrequests: 3\n")
	runs := 0
	simulated := Simulator(manifest)
	_, err := Run(t.Context(), Options{Scenario: sc, Property: Safety, Repeat: 3, Engine: func(ctx context.Context, sc *scenario.Scenario) (*results.Summary, error) {
		runs++
		return simulated(ctx, sc)
	}})
	if !errors.Is(err, ErrPasses) || runs != 3 {
		t.Errorf("%v after %d runs", err, runs)
	}
}

// A schedule that was taken apart and put together again is the same run: the
// simulator logs the same lines.
func TestTakeApart(t *testing.T) {
	for _, text := range []string{
		noise + "algorithm: camera\nmembership: medley\nrequests: 20\nchurn: exponential\nchurn-speedup: 600\nchurn-initial: trace\nchurn-until: 10s\nduration: 20s\nfault: ['at 1s set links of node 3 loss 50% for 2s', 'from 1s to 9s every 2s pause 1 waiter for 300ms', 'at 4s partition tag:a for 1s']\ntags: ['a=1-2']\n",
		noise + "algorithm: ra\nmembership: oracle\nrequests: 20\nfault: ['from 0s to 3s churn 4', 'at 1s leave 2 nodes restart after 1s']\n",
	} {
		sc := load(t, text)
		s := takeApart(sc, nil)
		spec, _ := s.spec(s.items)
		same, err := resolve(spec)
		if err != nil {
			t.Fatal(err)
		}
		var digests []string
		for _, sc := range []*scenario.Scenario{sc, same} {
			m := manifest(sc)
			if _, err := simulate.Run(t.Context(), sc, filepath.Join(t.TempDir(), "run"), m); err != nil {
				t.Fatal(err)
			}
			digests = append(digests, m.LogDigest)
		}
		if digests[0] != digests[1] {
			t.Errorf("the logs differ:\n%s", same.YAML())
		}
	}
}

// The requests of a closed workload are those of its logs.
func TestArrivalsOf(t *testing.T) {
	sc := load(t, noise+"algorithm: camera\nmembership: oracle\narrivals: poisson-closed\nmean: 300ms\ncs: 10ms\nrequests: 0\nduration: 5s\nfault: ['at 1s crash node 2 restart after 500ms']\n")
	run, err := simulate.Run(t.Context(), sc, filepath.Join(t.TempDir(), "run"), manifest(sc))
	if err != nil {
		t.Fatal(err)
	}
	if run, err = results.Open(run.Dir); err != nil {
		t.Fatal(err)
	}
	list, err := ArrivalsOf(run)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := results.Judge(run)
	if err != nil || len(list) != s.Requests.Issued || len(list) < 20 {
		t.Fatalf("%d arrivals of %d requests, %v", len(list), s.Requests.Issued, err)
	}
	for i, a := range list {
		if a.CS != 10*time.Millisecond || a.At > 5*time.Second || i > 0 && a.At < list[i-1].At {
			t.Errorf("arrival %d: %v", i, a)
		}
	}
}
