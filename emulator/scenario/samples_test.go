package scenario

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"churnbed/node/core"
	"churnbed/workloads"
)

// moduleRoot walks up to the directory of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

func sample(t *testing.T, name string) *Scenario {
	t.Helper()
	file := filepath.Join(moduleRoot(t), "workloads", "scenarios", name)
	spec, origin, err := Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Resolve(spec, origin)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEverySampleResolvesAndValidates(t *testing.T) {
	dir := filepath.Join(moduleRoot(t), "workloads", "scenarios")
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("samples %v: %v", files, err)
	}
	schema := compileSchema(t)
	for _, file := range files {
		s := sample(t, filepath.Base(file))
		if len(s.Warnings) > 0 {
			t.Errorf("%s: warnings %q", file, s.Warnings)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validateYAML(t, schema, data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := validateYAML(t, schema, s.YAML()); err != nil {
			t.Errorf("%s resolved: %v", file, err)
		}
	}
}

func verbs(s *Scenario) map[workloads.Verb]int {
	count := map[workloads.Verb]int{}
	for _, f := range s.Faults {
		count[f.Verb]++
	}
	return count
}

func TestDemoKillsAndRestarts(t *testing.T) {
	s := sample(t, "demo.yaml")
	count := verbs(s)
	if kills := count[workloads.Crash]; kills < 8 || kills > 25 {
		t.Errorf("%d kills, want 8 to 25", kills)
	}
	if count[workloads.Restart] < 1 {
		t.Errorf("%d restarts, want one or more", count[workloads.Restart])
	}
	if n := len(s.Arrivals); n != 40 {
		t.Errorf("%d requests, want 40", n)
	}
	if last := s.Arrivals[len(s.Arrivals)-1].At; last > 45e9 {
		t.Errorf("the last request comes at %v, too late for a demo of 90 s", last)
	}
	dead := map[core.NodeID]bool{}
	for _, f := range s.Faults {
		if f.Verb == workloads.Crash {
			dead[f.Nodes[0]] = true
		}
	}
	asked := 0
	for _, a := range s.Arrivals {
		if !dead[a.Node] {
			asked++
		}
	}
	if asked < 20 {
		t.Errorf("only %d of 40 requests come from nodes that live through", asked)
	}
	t.Logf("demo: %d requests of nodes never killed, %d links, %v, last arrival %v", asked, len(s.Topology.Links), count, s.Arrivals[len(s.Arrivals)-1].At)
}

func TestMesh256HasKillsRestartsAndItsLinks(t *testing.T) {
	s := sample(t, "mesh256.yaml")
	count := verbs(s)
	if count[workloads.Crash] < 20 || count[workloads.Restart] < 5 {
		t.Errorf("faults %v, want 20 kills and 5 restarts or more", count)
	}
	if n := len(s.Topology.Links); n < 5000 || n > 6200 {
		t.Errorf("%d links, want about 5,600", n)
	}
	t.Logf("mesh256: %d links, %v, least up %v", len(s.Topology.Links), count, func() int { n, _ := leastUp(s.Up, s.Faults); return n }())
}

func TestMissingEntriesSampleLacksBothEntries(t *testing.T) {
	s := sample(t, "ra-missing-entries.yaml")
	for id, list := range s.Lists {
		lacks := 0
		for _, other := range list {
			if core.NodeID(id)+other == 1 {
				t.Errorf("node %d lists node %d", id, other)
			}
		}
		lacks = len(s.Lists) - 1 - len(list)
		if want := map[bool]int{true: 1, false: 0}[id < 2]; lacks != want {
			t.Errorf("node %d lacks %d entries, want %d", id, lacks, want)
		}
	}
}

// The sets that differ are those of ALGORITHMS 3, with ids from 0.
func TestMaekawaSampleListsAsInTheExample(t *testing.T) {
	s := sample(t, "maekawa11.yaml")
	for id, want := range map[int][]core.NodeID{0: {1, 2, 4, 5, 6, 7, 9, 10}, 10: {0, 1, 3, 4, 5, 6, 8, 9}} {
		if !slices.Equal(s.Lists[id], want) {
			t.Errorf("node %d lists %v, want %v", id, s.Lists[id], want)
		}
	}
}
