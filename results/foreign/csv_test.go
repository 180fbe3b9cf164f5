package foreign

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"churnbed/results"
)

const table = `trial,node,request,enter,exit,extra
1,17,43,108,308,x
1,3,111,310,510,
7,3,0,,,
7,a,5,10,20,
7,b,6,15,30,
`

func TestReadCSV(t *testing.T) {
	s, err := ReadCSV([]byte(table), "f", CSVOptions{Parameters: map[string]string{"nodes": "20"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Trials) != 2 {
		t.Fatalf("%d trials", len(s.Trials))
	}
	one, seven := s.Trials[0], s.Trials[1]
	if d := cmp.Diff([]float64{65, 199}, one.WaitsMS); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]float64{2}, one.SyncMS); d != "" {
		t.Error(d)
	}
	if one.Seed != 1 || one.Nodes != 20 || one.Violations != 0 || one.MaxConcurrent != 1 || one.Requesters != 2 {
		t.Errorf("trial 1: %+v", one)
	}
	if seven.Seed != 7 || seven.Issued != 3 || seven.Served != 2 || seven.Violations != 1 || seven.MaxConcurrent != 2 || seven.Requesters != 3 {
		t.Errorf("trial 7: %+v", seven)
	}
	if one.E2EMessages.Known() {
		t.Error("messages are known")
	}

	mapped := strings.NewReplacer("trial", "run", "node", "host", "request", "t0", "enter", "t1", "exit", "t2").Replace(table)
	columns, err := ParseColumns("trial=run, node=host,request=t0,enter=t1,exit=t2")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadCSV([]byte(strings.ReplaceAll(mapped, ",", ";")), "f", CSVOptions{Columns: columns, Unit: "s", Comma: ';'})
	if err != nil {
		t.Fatal(err)
	}
	if m.Trials[0].WaitsMS[0] != 65000 || m.Trials[0].Nodes != 0 || m.Trials[1].Figures["requesting_nodes"] != 3 {
		t.Errorf("mapped: %+v", m.Trials[0])
	}

	bare, err := ReadCSV([]byte("request,enter\n1e6,2e6\n"), "f", CSVOptions{Unit: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	if tr := bare.Trials[0]; tr.WaitsMS[0] != 1 || tr.Violations.Known() {
		t.Errorf("two columns: %+v", tr)
	}
}

func TestReadCSVMalformed(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "f:1:1: malformed file: the file is empty",
		"a,b\n1,2\n":                         `f:1:1: malformed file: no column "request"`,
		"request,enter\n":                    "f:1:1: malformed file: no rows",
		"request,enter\n1,2\nx,3\n":          `f:3:1: malformed file: request "x"`,
		"request,enter\n1,NaN\n":             `f:2:3: malformed file: enter "NaN"`,
		"request,enter\n1,1e300\n":           "f:2:3: ",
		"request,enter\n,2\n":                "f:2:1: malformed file: request is empty",
		"request,enter\n3,2\n":               "f:2:1: malformed file: enter is before request",
		"request,enter,exit\n1,3,2\n":        "f:2:1: malformed file: exit is before enter",
		"request,enter,exit\n1,,2\n":         "f:2:1: malformed file: exit without enter",
		"node,request,enter\n,1,2\n":         "f:2:1: malformed file: node is empty",
		"request,enter\n1,2\n1,2,3\n":        "f:3:1: ",
		"request,enter\n1,2\n\"1,2\n":        "f:3:6: ",
		"request,enter\n1,2\n1,2\n\n\n1\"\n": "f:6:",
	} {
		s, err := ReadCSV([]byte(in), "f", CSVOptions{})
		if err == nil || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) || s != nil {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	for name, opt := range map[string]CSVOptions{
		`column "nodes"`: {Columns: map[string]string{"nodes": "x"}}, `time unit "h"`: {Unit: "h"},
		`nodes "many"`: {Parameters: map[string]string{"nodes": "many"}}, `no column "run" for trial`: {Columns: map[string]string{"trial": "run"}},
	} {
		if _, err := ReadCSV([]byte("request,enter\n1,2\n"), "f", opt); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	for _, bad := range []string{"trial", "trial=", "trial=a,trial=b"} {
		if c, err := ParseColumns(bad); err == nil {
			t.Errorf("%q read as %v", bad, c)
		}
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add([]byte(table), "ms")
	f.Add([]byte("request,enter\n1,2\n"), "s")
	f.Fuzz(func(t *testing.T, data []byte, unit string) {
		s, err := ReadCSV(data, "f", CSVOptions{Unit: unit})
		if err != nil {
			return
		}
		var b strings.Builder
		if err := results.WriteTrials(&b, s); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOpenDetects(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var b strings.Builder
	set, err := ReadCSV([]byte(table), "f", CSVOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := results.WriteTrials(&b, set); err != nil {
		t.Fatal(err)
	}
	for path, trials := range map[string]int{
		file("a", cameraObject+cameraObject): 2, file("b", table): 2, file("c", b.String()): 2, file("what?N=7", cameraObject): 1,
	} {
		s, err := Open(path, Options{})
		if err != nil || len(s.Trials) != trials {
			t.Errorf("%s: %v, %+v", path, err, s)
		}
	}
	camera := filepath.Join(dir, "a")
	if s, err := Open(camera+"?N=2", Options{Where: []results.Condition{{Key: "cs", Value: "0.2s"}}}); err != nil || len(s.Trials) != 2 || s.Parameters["nodes"] != "2" {
		t.Errorf("selection: %v", err)
	}
	for path, want := range map[string]string{
		camera + "?N=3": "there are 2", camera + "?N": "want key=value", filepath.Join(dir, "none"): "no such file",
		file("d", "hello"): "neither trials", file("e", `{"status":{},"suspects":{}}`): "format memlist holds no results",
		file("g", "dist_map:\n"): "format routes holds no results",
	} {
		if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
