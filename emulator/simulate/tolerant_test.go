package simulate_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"churnbed/emulator/scenario"
	"churnbed/emulator/simulate"
	"churnbed/results"
)

// tolerant simulates fairk with fault tolerance and judges the run.
func tolerant(t *testing.T, seed int, faults ...string) *results.Summary {
	t.Helper()
	settings := []scenario.Setting{}
	set := func(key, value string) { settings = append(settings, scenario.Setting{Key: key, Value: value}) }
	for k, v := range map[string]string{
		"topology": "full", "nodes": "15", "link-delay": "5ms", "link-loss": "0.02", "algorithm": "fairk", "k": "3",
		"replicas": "2", "ring-period": "200ms", "requests": "120", "mean": "250ms", "seed": strconv.Itoa(seed), "drain": "60s",
	} {
		set(k, v)
	}
	for _, f := range faults {
		set("fault", f)
	}
	spec, origin, err := scenario.Load("", settings)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulate.Run(t.Context(), sc, filepath.Join(t.TempDir(), "run"), &results.Manifest{Seed: sc.Seed, TimeScale: 1, Nodes: 15, Holders: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r, err = results.Open(r.Dir); err != nil {
		t.Fatal(err)
	}
	s, v, err := results.Judge(r)
	if err != nil {
		t.Fatal(err)
	}
	if v.ViolationCount > 0 || len(v.TokenFaults) > 0 || v.Unserved[results.UnservedWaiting] > 0 {
		t.Errorf("seed %d: %d violations, unserved %v, tokens %+v", seed, v.ViolationCount, v.Unserved, v.TokenFaults)
	}
	return s
}

// TestTolerantFairK: nodes are killed, come back, stand still, are cut off,
// leave; some lose all copies of a state. Never more than k are in, no token is
// there twice, and whoever is up is served.
func TestTolerantFairK(t *testing.T) {
	for name, c := range map[string]struct {
		faults     []string
		lose, keep bool // some of the runs lose all copies of a state; none does
	}{
		"killed":     {faults: []string{"at 3s crash 2 nodes", "at 12s crash 2 nodes", "at 22s crash 2 nodes"}, keep: true},
		"come back":  {faults: []string{"at 3s crash 3 nodes restart after 5s", "at 15s crash 2 nodes restart after 300ms"}},
		"at once":    {faults: []string{"at 3s crash 7 nodes"}, lose: true},
		"holders":    {faults: []string{"at 3s crash 1 holder", "at 8s pause 1 holder for 4s", "at 18s crash 1 holder restart after 4s"}},
		"stand":      {faults: []string{"at 3s pause 2 nodes for 3s", "at 12s pause 1 holder for 1300ms", "at 20s pause node 0 for 20s"}},
		"divided":    {faults: []string{"at 3s partition 0-4 | 5-14 for 12s"}},
		"they leave": {faults: []string{"at 3s leave 2 nodes", "at 9s leave node 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rebuilt := 0
			for seed := range 3 {
				s := tolerant(t, seed, c.faults...)
				if s.Tokens != nil {
					rebuilt += s.Tokens.Rebuilt
				}
			}
			if c.lose && rebuilt == 0 || c.keep && rebuilt > 0 {
				t.Errorf("dealt out anew %d times", rebuilt)
			}
		})
	}
}
