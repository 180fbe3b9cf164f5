package results

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Error(d)
	}
}

// A violation between nodes 3 and 7, with everything a chart can show.
func violating(t *testing.T) *plant {
	p := newPlant(t, 8)
	up := func(ms float64, at, peer core.NodeID, change string, size int) {
		id := int32(peer)
		p.log(ms, at, eventlog.Event{Kind: eventlog.Member, Peer: &id, PeerInc: 1024, Change: change, Size: size})
	}
	p.section(100, 140, 1)
	a, b := p.request(200, 3), p.request(210, 7)
	up(215, 3, 7, "suspected", 8)
	up(216, 3, 5, "failed", 7)
	up(217, 7, 5, "failed", 7)
	up(230, 3, 7, "failed", 6)
	p.enter(231.5, a, 0, 1, 2, 4, 6)
	p.log(240, 3, eventlog.Event{Kind: eventlog.Note, Text: "a note"})
	p.enter(250.25, b, 0, 1, 2, 4, 6)
	p.control(260, eventlog.Event{Kind: eventlog.Pause, Node: 7})
	p.control(265, eventlog.Event{Kind: eventlog.Resume, Node: 7})
	p.kill(270.125, 3, "poweroff")
	p.exit(300, b)
	return p
}

func TestGoldenVerdict(t *testing.T) {
	run := violating(t).end(1000)
	// The run's end stops node 3 as well, which was killed: take that line out.
	logs, err := os.ReadFile(run.NodeLog(3))
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.LastIndex(logs[:len(logs)-1], []byte("\n"))
	if err := os.WriteFile(run.NodeLog(3), logs[:i+1], 0o644); err != nil {
		t.Fatal(err)
	}
	s, v := judge(t, run)
	var out bytes.Buffer
	if err := run.WriteVerdict(&out, s, v, 1); err != nil {
		t.Fatal(err)
	}
	golden(t, "violation.txt", out.Bytes())

	out.Reset()
	if err := s.Print(&out, "runs/one"); err != nil {
		t.Fatal(err)
	}
	golden(t, "summary.txt", out.Bytes())

	out.Reset()
	if err := run.WriteVerdict(&out, s, v, 0); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 6 || !strings.Contains(out.String(), "together for") && !strings.Contains(out.String(), "together 19.875 ms") {
		t.Errorf("without charts:\n%s", out.String())
	}
	rep := NewReport(run, s, v)
	if len(rep.Violations) != 1 || rep.Violations[0].OverlapMS != 19.875 || rep.Violations[0].Sections[0].Ending != "killed" ||
		rep.Violations[0].Sections[1].EnterLine != 5 {
		t.Errorf("report %+v", rep)
	}
}

func TestGoldenZombie(t *testing.T) {
	p := newPlant(t, 3)
	a := p.request(1, 0)
	p.enter(2, a, 1, 2)
	for _, o := range []core.NodeID{1, 2} {
		id := int32(0)
		p.log(3, o, eventlog.Event{Kind: eventlog.Member, Peer: &id, PeerInc: 1024, Change: "failed", Size: 2})
	}
	b := p.request(4, 1)
	p.enter(5, b, 2)
	p.log(6, 0, eventlog.Event{Kind: eventlog.Fenced, Req: a.req, No: a.no, State: "HELD"})
	p.exit(7, b)
	run := p.end(10)
	s, v := judge(t, run)
	var out bytes.Buffer
	if err := run.WriteVerdict(&out, s, v, 1); err != nil {
		t.Fatal(err)
	}
	golden(t, "zombie.txt", out.Bytes())
	if s.Failed() {
		t.Error("a zombie overlap fails the run")
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	spoil := func(name, content string) string {
		dir := newPlant(t, 2).end(1).Dir
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	set, sweep := t.TempDir(), t.TempDir()
	for _, dir := range []string{filepath.Join(set, TrialsDir, "7"), filepath.Join(sweep, CellsDir, "a", TrialsDir, "7")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	noNodes := newPlant(t, 2).end(1).Dir
	if err := os.RemoveAll(filepath.Join(noNodes, NodesDir)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir, want string
		foreign         bool
	}{
		{"missing", filepath.Join(t.TempDir(), "none"), "no such file", false},
		{"file", file, "is a file", true},
		{"foreign", t.TempDir(), "has no manifest.json", true},
		{"trial set", set, "is a trial set; name a run of it, such as " + filepath.Join(set, "trials", "7"), true},
		{"sweep", sweep, "is a sweep; name a run of it, such as " + filepath.Join(sweep, "cells", "a", "trials", "7"), true},
		{"no logs", noNodes, "has no folder nodes", true},
		{"broken manifest", spoil(ManifestFile, "{"), "unexpected end of JSON", true},
		{"other schema", spoil(ManifestFile, `{"schema":2}`), "has schema 2, this version reads 1", true},
		{"other engine", spoil(ManifestFile, `{"schema":1,"engine":"x"}`), `has engine "x"`, true},
		{"no nodes", spoil(ManifestFile, `{"schema":1,"engine":"emulated","time_scale":1}`), "0 nodes", true},
		{"log of a stranger", spoil("nodes/9.jsonl", ""), "nodes/9.jsonl: want the id of a node, 0..1", false},
		{"log without id", spoil("nodes/x.jsonl", ""), "nodes/x.jsonl: want the id of a node, 0..1", false},
		{"log with a padded id", spoil("nodes/01.jsonl", ""), "nodes/01.jsonl: want the id of a node, 0..1", false},
	} {
		_, err := Open(c.dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrNotARun) != c.foreign {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Create(filepath.Dir(file), &Manifest{}); err == nil || !strings.Contains(err.Error(), "exists; name one that does not exist") {
		t.Errorf("create in a full directory: %v", err)
	}
	if _, err := Create(t.TempDir(), &Manifest{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create in a directory that is there: %v", err)
	}
}

func TestMalformedLineIsNamed(t *testing.T) {
	for _, name := range []string{"nodes/1.jsonl", ControllerFile} {
		run := newPlant(t, 2).end(10)
		b, err := os.ReadFile(run.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		b = append([]byte("{\"t\":\n"), b...)
		b = bytes.Replace(b, []byte(`"ev":"start"`), []byte(`"ev":"note"`), 1)
		if err := os.WriteFile(run.Path(name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = Summarise(run)
		var line *eventlog.LineError
		if !errors.As(err, &line) || line.File != name || line.Line != 1 || !errors.Is(err, eventlog.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManifestAndLinks(t *testing.T) {
	run := newPlant(t, 2).end(10)
	if run.Manifest.Seed != 7 || run.Manifest.Started.Year() != 2026 {
		t.Errorf("manifest %+v", run.Manifest)
	}
	want := []LinkRow{
		{"0-1", 0, 1, "ab", 5, .5, .05, 0, 100, 9000, 5, 5},
		{"0-1", 0, 1, "ba", 5, 0, 0, 1e6, 1, 90, 0, 0},
	}
	if err := run.WriteLinks(want); err != nil {
		t.Fatal(err)
	}
	var got []LinkRow
	if err := run.ReadLinks(func(l LinkRow) error { got = append(got, l); return nil }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	s, _ := judge(t, run)
	if s.Messages.H2HTotal != 101 || float64(s.Fidelity.LossMeasured) != 5./101 {
		t.Errorf("without slices: %d frames, loss %v", s.Messages.H2HTotal, s.Fidelity.LossMeasured)
	}
	for _, bad := range []string{"a,b\n", strings.Join(linkColumns, ",") + "\n0-1,0,x,ab,0,0,0,0,0,0,0,0\n"} {
		if err := run.WriteFile(LinksFile, []byte(bad)); err != nil {
			t.Fatal(err)
		}
		err := run.ReadLinks(func(LinkRow) error { return nil })
		if err == nil || !strings.Contains(err.Error(), LinksFile) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestWriteSummary(t *testing.T) {
	run := newPlant(t, 2).end(10)
	s, _ := judge(t, run)
	if err := run.WriteSummary(s); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(run.Path(SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	back, err := ReadSummary(f)
	if err != nil || back.Verdict != VerdictOK || back.WaitMS.Mean.Known() {
		t.Errorf("%+v, %v", back, err)
	}
}

func FuzzReadLinks(f *testing.F) {
	f.Add(strings.Join(linkColumns, ",") + "\n0-1,0,1,ab,5,0,0.05,0,1,2,3,4\n")
	f.Fuzz(func(t *testing.T, s string) {
		n := 0
		_ = parseLinks("links.csv", strings.NewReader(s), func(LinkRow) error { n++; return nil })
		if n > strings.Count(s, "\n")+strings.Count(s, "\r") {
			t.Fatalf("%d rows of %q", n, s)
		}
	})
}

// Logs that must be there and are not make a run unsound: the judge would
// take silence for good behaviour.
func TestMissingLogs(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(r *Run) error
		want   string // "": nothing is found
	}{
		{"whole", func(*Run) error { return nil }, ""},
		{"log of a node gone", func(r *Run) error { return os.Remove(r.NodeLog(1)) }, "nodes/1.jsonl: not a line"},
		{"log of a node empty", func(r *Run) error { return os.Truncate(r.NodeLog(2), 0) }, "nodes/2.jsonl: not a line"},
		{"log of a node that came later", func(r *Run) error { return os.Remove(r.NodeLog(3)) }, ""},
		{"controller's log gone", func(r *Run) error { return os.Remove(r.Path(ControllerFile)) }, "controller.jsonl: no epoch"},
		{"controller's log cut", func(r *Run) error {
			return os.WriteFile(r.Path(ControllerFile), []byte(`{"t":0,"ev":"epoch","node":-1}`+"\n"), 0o644)
		}, "controller.jsonl: no end"},
		{"controller killed", func(r *Run) error {
			m := r.Manifest
			m.Timing.RunMS = -1
			return errors.Join(os.WriteFile(r.Path(ControllerFile), []byte(`{"t":0,"ev":"epoch","node":-1}`+"\n"), 0o644), r.WriteManifest(&m))
		}, ""},
		{"ended while nodes joined", func(r *Run) error {
			m := r.Manifest
			m.Timing.RunMS = -1
			return errors.Join(os.Remove(r.NodeLog(1)), os.Remove(r.Path(ControllerFile)), r.WriteManifest(&m))
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newPlant(t, 4).end(10)
			r.Manifest.SetUpAtStart([]bool{true, true, true, false})
			if err := r.WriteManifest(&r.Manifest); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(r); err != nil {
				t.Fatal(err)
			}
			r, err := Open(r.Dir)
			if err != nil {
				t.Fatal(err)
			}
			s, v, err := Judge(r)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.want == "" && v.LogErrorCount > 0:
				t.Errorf("found %v", v.LogErrors)
			case s.Interrupted != (c.name == "controller killed" || c.name == "ended while nodes joined"):
				t.Errorf("interrupted: %t", s.Interrupted)
			case c.want == "":
			case v.LogErrorCount != 1 || !strings.HasPrefix(v.LogErrors[0].String(), c.want) || s.Verdict != VerdictLogErrors:
				t.Errorf("found %v, verdict %s; want %q", v.LogErrors, s.Verdict, c.want)
			}
		})
	}
}
