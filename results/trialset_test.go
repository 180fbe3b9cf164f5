package results

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plantTrial writes a run of two nodes and one contended entry into dir.
func plantTrial(t *testing.T, dir string, seed uint64, scenario string) {
	t.Helper()
	p := newPlant(t, 2)
	a, b := p.request(10, 0), p.request(15, 1)
	p.enter(20, a, 1)
	p.exit(30, a)
	p.enter(35, b, 0)
	p.exit(40, b)
	r := p.end(50)
	r.Manifest.Seed = seed
	if err := r.WriteManifest(&r.Manifest); err != nil {
		t.Fatal(err)
	}
	if scenario != "" {
		if err := r.WriteFile(ScenarioFile, []byte(scenario)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.Dir, dir); err != nil {
		t.Fatal(err)
	}
}

func TestTrialOf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	plantTrial(t, dir, 9, "seed: 9\nlink-loss: 0.05\nfault:\n  - a\n  - b\ntopology-file: /some/where/random32.txt\n")
	s, err := OpenTrials(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Trials) != 1 || s.Engine != Emulated || s.Source != "churnbed" {
		t.Fatalf("set %+v", s)
	}
	tr := s.Trials[0]
	if d := cmp.Diff([]float64{10, 20}, tr.WaitsMS); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]float64{5}, tr.SyncMS); d != "" {
		t.Error(d)
	}
	if tr.Seed != 9 || tr.Issued != 2 || tr.Served != 2 || tr.Violations != 0 || tr.Requesters != 2 || tr.Summary == nil {
		t.Errorf("trial %+v", tr)
	}
	for key, want := range map[string]string{
		"link-loss": "0.05", "fault": "a; b", "topology-file": "random32.txt", "nodes": "2", "engine": Emulated, "fabric": "relay",
	} {
		if got, ok := s.Parameter(0, key); !ok || got != want {
			t.Errorf("parameter %s is %q, want %q", key, got, want)
		}
	}
	if _, ok := s.Parameter(0, "seed"); ok {
		t.Error("the seed is a parameter")
	}
}

func TestOpenTrialsForms(t *testing.T) {
	full := t.TempDir()
	for _, seed := range []uint64{10, 9, 100} {
		plantTrial(t, filepath.Join(full, "trials", strconv.FormatUint(seed, 10)), seed, "link-loss: 0.0"+strconv.FormatUint(seed, 10)+"\nmean: 200ms\n")
	}
	set, err := OpenTrials(full)
	if err != nil {
		t.Fatal(err)
	}
	var seeds []uint64
	for _, tr := range set.Trials {
		seeds = append(seeds, tr.Seed)
	}
	if d := cmp.Diff([]uint64{9, 10, 100}, seeds); d != "" {
		t.Error(d)
	}
	if set.Parameters["mean"] != "200ms" || set.Parameters["link-loss"] != "" {
		t.Errorf("common parameters %v", set.Parameters)
	}

	loose, err := OpenTrials(filepath.Join(full, "trials")) // a directory of run directories
	if err != nil || len(loose.Trials) != 3 {
		t.Fatalf("loose: %v, %+v", err, loose)
	}

	var b bytes.Buffer
	if err := WriteTrials(&b, set); err != nil {
		t.Fatal(err)
	}
	compact := filepath.Join(t.TempDir(), filepath.Base(full))
	if err := os.MkdirAll(compact, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(compact, TrialsFile), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{compact, filepath.Join(compact, TrialsFile)} {
		back, err := OpenTrials(path)
		if err != nil {
			t.Fatal(err)
		}
		back.Name = set.Name
		var again bytes.Buffer
		if err := WriteTrials(&again, back); err != nil {
			t.Fatal(err)
		}
		if again.String() != b.String() {
			t.Errorf("%s reads back differently:\n%s\n%s", path, again.String(), b.String())
		}
	}

	if _, err := OpenTrials(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no trials") {
		t.Errorf("empty directory: %v", err)
	}
	if _, err := OpenTrials(filepath.Join(full, "none")); err == nil {
		t.Error("a missing directory opens")
	}
}

func TestWhere(t *testing.T) {
	trial := func(n string) *Trial {
		return &Trial{Nodes: 1, Parameters: map[string]string{"nodes": n, "cs": "200ms"}, WaitsMS: []float64{1}}
	}
	s := NewTrialSet("x", []*Trial{trial("32"), trial("64"), trial("64")})
	s.Aliases = map[string]string{"N": "nodes"}
	conditions, err := ParseConditions("N=64.0&cs=0.2s")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Where(conditions)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Trials) != 2 || got.Parameters["nodes"] != "64" || got.Name != "x?N=64.0&cs=0.2s" {
		t.Errorf("got %+v", got)
	}
	if len(s.Trials) != 3 || s.Trials[1].Parameters["nodes"] != "64" {
		t.Error("the set selected from was changed")
	}
	for cond, want := range map[string]string{"N=7": "there are 32, 64", "what=1": `no parameter "what"`} {
		c, err := ParseConditions(cond)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Where(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", cond, err)
		}
	}
	for _, bad := range []string{"", "N", "=3", "N=1&"} {
		if c, err := ParseConditions(bad); err == nil {
			t.Errorf("%q read as %v", bad, c)
		}
	}
}

func TestSameValue(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"0", "0.0", true},
		{"200ms", "0.2s", true},
		{"a", "a", true},
		{"a", "b", false},
		{"1", "1s", false},
		{"", "0", false},
		{"32", "64", false},
	} {
		if SameValue(c.a, c.b) != c.same || SameValue(c.b, c.a) != c.same {
			t.Errorf("%q and %q: want same %v", c.a, c.b, c.same)
		}
	}
}

func TestReadTrialsRefuses(t *testing.T) {
	const head = `{"churnbed_trials":1,"name":"x","source":"s","engine":"foreign"}` + "\n"
	const good = `{"seed":1,"nodes":2,"requesters":0,"issued":1,"served":1,"waits_ms":[3],"e2e_messages":null,"h2h_messages":1,"bytes":2,"violations":0,"max_concurrent":1}` + "\n"
	if s, err := ReadTrials(strings.NewReader(head+good), "f"); err != nil || s.Trials[0].E2EMessages.Known() || s.Trials[0].WaitsMS[0] != 3 {
		t.Fatalf("%v %+v", err, s)
	}
	for in, want := range map[string]string{
		"":                                   "f:0: no trials",
		"hello\n":                            "f:1: no trials",
		head:                                 "no trials after the header",
		`{"churnbed_trials":2}` + "\n":       "f:1: schema 2",
		head + good + "{\n":                  "f:3: ",
		head + `{"nodes":-1}` + "\n":         "f:2: trial has -1 nodes",
		head + `{"waits_ms":[-1]}` + "\n":    "f:2: time -1 ms",
		head + `{"violations":-1}` + "\n":    "f:2: count -1",
		head + `{"issued":1,"served":2}\n`:   "f:2: ",
		head + `{"waits_ms":["a"]}` + "\n":   "f:2: ",
		head + `{"issued":0,"served":2}`:     "f:2: trial has 0 nodes, 0 requests issued and 2 served",
		`{"churnbed_trials":"one"}` + "\n":   "f:1: ",
		head + good + good[:len(good)/2]:     "f:3: ",
		"\n" + head:                          "f:1: ",
		head + `{"nodes":99999999}` + "\n":   "f:2: trial has 99999999 nodes",
		head + `{"client_ms":[1,-2]}` + "\n": "f:2: time -2",
	} {
		if s, err := ReadTrials(strings.NewReader(in), "f"); err == nil || !strings.Contains(err.Error(), want) || s != nil {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func FuzzReadTrials(f *testing.F) {
	f.Add([]byte(`{"churnbed_trials":1,"name":"x"}` + "\n" + `{"nodes":2,"waits_ms":[3],"e2e_messages":null,"violations":1}` + "\n"))
	f.Add([]byte(`{"churnbed_trials":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ReadTrials(bytes.NewReader(b), "f")
		if err != nil {
			return
		}
		var one, two bytes.Buffer
		if err := WriteTrials(&one, s); err != nil {
			t.Fatal(err)
		}
		back, err := ReadTrials(&one, "g")
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteTrials(&one, s); err != nil {
			t.Fatal(err)
		}
		if err := WriteTrials(&two, back); err != nil {
			t.Fatal(err)
		}
		if one.String() != two.String() {
			t.Fatalf("%s\n%s", one.String(), two.String())
		}
	})
}
