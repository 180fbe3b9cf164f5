package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"churnbed/results/compare"
)

// writeCSV writes a table of trials whose waits are shifted by so many ms.
func writeCSV(t *testing.T, dir, name string, trials int, shift float64, header string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintln(&b, header)
	for i := range trials {
		at := 0.0
		for k := range 10 {
			wait := shift + float64((i*7+k*13)%50)
			fmt.Fprintf(&b, "%d,%d,%g,%g,%g\n", i+1, k, at, at+wait, at+wait+5)
			at += wait + 20
		}
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const csvHeader = "trial,node,request,enter,exit"

func TestCompareCommand(t *testing.T) {
	dir := t.TempDir()
	a, b := writeCSV(t, dir, "a.csv", 8, 100, csvHeader), writeCSV(t, dir, "b.csv", 8, 100, csvHeader)
	shifted, few := writeCSV(t, dir, "shifted.csv", 8, 300, csvHeader), writeCSV(t, dir, "few.csv", 2, 100, csvHeader)
	mapped := writeCSV(t, dir, "mapped.csv", 8, 100, "run,host,t0,t1,t2")
	broken := filepath.Join(dir, "broken.csv")
	if err := os.WriteFile(broken, []byte(csvHeader+"\n1,2,3,4,5\n1,2,x,4,5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	quick := " --resamples 200 --permutations 200"
	columns := " --columns trial=run,node=host,request=t0,enter=t1,exit=t2"
	set := filepath.Join(dir, "set")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"compare " + a + " " + b + quick, exitOK, "verdict: agree"},
		{"compare " + a + " " + shifted + quick, exitOK, "verdict: differ"},
		{"compare --fail-on differ " + a + " " + shifted + quick, exitCheckFailed, "verdict: differ"},
		{"compare " + a + " " + shifted + " --tolerance 1 --alpha 0.000001" + quick, exitOK, "verdict: differ"},
		{"compare " + a + " " + few + quick + " --fail-on differ", exitOK, "verdict: too few trials"},
		{"compare " + a + " " + few + quick + " --fail-on too-few", exitCheckFailed, "8 and 2 trials, want 5 each"},
		{"compare " + a + " " + b + " " + shifted + quick, exitOK, "C  shifted.csv: csv, foreign, 8 trials"},
		{"compare " + mapped + " " + mapped + columns + quick, exitOK, "verdict: agree"},
		{"compare " + a + " " + b + " --param nodes=64&link-loss=0.05 --where N=64" + quick, exitUsage, ""},
		{"compare " + a + " " + b + " --param nodes=64 --param cs=5ms --where nodes=64.0" + quick, exitOK, "wait_by_nodes"},
		{"import csv " + a + " -o " + set, exitOK, "8 trials in " + set},
		{"import csv " + a + " -o " + set, exitUsage, ""}, // is there already
		{"compare " + a + " " + set + quick, exitOK, "verdict: agree"},
		{"compare " + mapped + " " + b + quick, exitUsage, ""},
		{"compare " + a + " " + broken, exitUsage, ""},
		{"compare " + a + " " + filepath.Join(dir, "none"), exitUsage, ""},
		{"compare " + a, exitUsage, ""},
		{"compare " + a + " " + b + " --fail-on rain", exitUsage, ""},
		{"compare " + a + " " + b + " --where rain", exitUsage, ""},
		{"compare " + a + " " + b + " --time-unit h", exitUsage, ""},
		{"compare " + a + " " + b + " --columns trial", exitUsage, ""},
		{"compare " + a + " " + b + " --min-trials 1", exitUsage, ""},
		{"import csv " + broken + " -o " + filepath.Join(dir, "never"), exitUsage, ""},
		{"import camera " + a + " -o " + filepath.Join(dir, "never"), exitUsage, ""},
		{"import csv " + a, exitUsage, ""},
		{"import csv", exitUsage, ""},
	} {
		code, out := invoke(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("churnbed %s: exit code %d, want %d, and %q in\n%s", c.args, code, c.code, c.want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "never")); err == nil {
		t.Error("a malformed file left something behind")
	}

	plots := filepath.Join(dir, "plots")
	_, out := invoke(t, "compare", a, shifted, "--json", "--plot", plots, "--resamples", "200", "--permutations", "200")
	var r compare.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Verdict != compare.Differ || len(r.Sets) != 2 || r.Metrics[0].Name != "wait" {
		t.Errorf("%v in %s", err, out)
	}
	for _, name := range []string{"wait.svg", "wait.png"} {
		if st, err := os.Stat(filepath.Join(plots, name)); err != nil || st.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCompareRunDirectories(t *testing.T) {
	a, b := plantRun(t, -1), plantRun(t, 4)
	code, out := invoke(t, "compare", a, b, "--min-trials", "2", "--resamples", "200", "--permutations", "200")
	if code != exitOK || !strings.Contains(out, "violations") || !strings.Contains(out, "1 and 1 trials, want 2 each") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestImportFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("lists/0.json", `{"suspects":{},"status":{"0":"active"}}`)
	lists := filepath.Dir(write("lists/1.json", `{"suspects":{},"status":{"0":"active","1":"active"}}`))
	sizes := write("memlist.csv", "t,id,n\n0,0,5\n0,1,3\n")
	routes := write("route.txt", "dist_map:\n0,0,0\n0,1,3\n1,0,3\n1,1,0\nhop_dist_map:\n0,0,0\n0,1,3\n1,0,3\n1,1,0\n"+
		"route_table:\n0,0,0\n0,1,1\n1,0,0\n1,1,1\nhop_num_map:\n0,0,0\n0,1,1\n1,0,1\n1,1,0\n")
	xy := write("xy.txt", "0,0\n3,0\n")
	trace := write("trace.txt", "a\t0\t1\na\t3\t0\n")
	avt := write("hosts.avt", "a 2 0 1800 3600 7200\nb 1 1000 7200\n")
	bad := write("bad.txt", "?\n")
	for i, c := range []struct {
		args, want, content string
	}{
		{"memlists " + lists, "2 lists, 1 missing entries", "0:"},
		{"memlist-sizes " + sizes + " --columns time_ms=t,node=id,size=n", "2 sizes, mean 4, least 3", "time_ms,node,size\n0,0,5"},
		{"routes " + routes, "2 nodes, 1 links", `"links"`},
		{"topology " + xy, "2 nodes, 1 links", `"radius": 4`},
		{"trace " + trace + " --sample 1s", "1 hosts, 4s", "a\t3\t0"},
		{"trace " + avt + " --sample 10m", "2 hosts, 2h0m0s", "a\t0\t1\na\t3\t0\na\t6\t1\nb\t0\t0\nb\t1\t1\n"},
	} {
		out := filepath.Join(dir, fmt.Sprint("out", i))
		args := append([]string{"import"}, append(strings.Fields(c.args), "-o", out)...)
		code, text := invoke(t, args...)
		if code != exitOK || !strings.Contains(text, c.want) {
			t.Errorf("%v: exit code %d, want %q in %s", args, code, c.want, text)
		}
		if b, err := os.ReadFile(out); err != nil || !strings.Contains(string(b), c.content) {
			t.Errorf("%v: %v, want %q in\n%s", args, err, c.content, b)
		}
		if code, _ := invoke(t, args...); code != exitUsage { // exists now
			t.Errorf("%v again: exit code %d", args, code)
		}
		verb := strings.Fields(c.args)[0]
		if code, _ := invoke(t, "import", verb, bad, "-o", out+"x"); code != exitUsage {
			t.Errorf("import %s of a malformed file: exit code %d", verb, code)
		}
		if _, err := os.Stat(out + "x"); err == nil {
			t.Errorf("import %s of a malformed file wrote something", verb)
		}
	}
}

func TestExport(t *testing.T) {
	run := plantRun(t, -1)
	dir := t.TempDir()
	lists, trace, mesh := filepath.Join(dir, "lists"), filepath.Join(dir, "trace"), filepath.Join(dir, "mesh")
	if code, out := invoke(t, "export", "memlists", run, "-o", lists, "--every", "10ms"); code != exitOK || !strings.Contains(out, "snapshots of 2 lists") {
		t.Errorf("exit code %d: %s", code, out)
	}
	for _, name := range []string{"0/0.json", "10/1.json", "0.json", "1.json", "memlist.csv"} {
		if b, err := os.ReadFile(filepath.Join(lists, name)); err != nil || len(b) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if code, _ := invoke(t, "export", "memlists", run, "-o", lists); code != exitUsage {
		t.Errorf("into a directory that holds something: exit code %d", code)
	}
	if code, _ := invoke(t, "export", "trace", run, "-o", trace); code != exitUsage { // no epoch in the planted run
		t.Errorf("trace of a run without epoch: exit code %d", code)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("a failed export left a directory")
	}
	xy := filepath.Join(dir, "xy.txt")
	if err := os.WriteFile(xy, []byte("0,0\n3,0\n6,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out := invoke(t, "export", "topology", xy, "--routes", "-o", mesh); code != exitOK || !strings.Contains(out, "3 nodes") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if b, err := os.ReadFile(filepath.Join(mesh, "topology.txt")); err != nil || string(b) != "0,0\n3,0\n6,0\n" {
		t.Errorf("%v: %s", err, b)
	}
	if b, err := os.ReadFile(filepath.Join(mesh, "topology_route.txt")); err != nil || !strings.HasPrefix(string(b), "dist_map:\n") {
		t.Errorf("%v: %s", err, b)
	}
	if code, out := invoke(t, "import", "routes", filepath.Join(mesh, "topology_route.txt"), "-o", filepath.Join(dir, "back.json")); code != exitOK || !strings.Contains(out, "3 nodes, 2 links") {
		t.Errorf("routes back: exit code %d: %s", code, out)
	}
	for _, args := range [][]string{
		{"export", "topology", xy},
		{"export", "topology", dir, "-o", mesh + "2"},
		{"export", "memlists", xy, "-o", mesh + "2"},
		{"export", "topology", xy, "--metric", "moons", "-o", mesh + "2"},
		{"export", "memlists", run, "--every", "0s", "-o", mesh + "2"},
	} {
		if code, _ := invoke(t, args...); code != exitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}
