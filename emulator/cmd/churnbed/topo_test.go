package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"churnbed/topologies"
)

// runTopo runs `churnbed topo args...` and returns its exit code and outputs.
func runTopo(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	oldOut, oldErr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = oldOut, oldErr }()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	out, err := open("out"), open("err")
	defer out.Close()
	defer err.Close()
	os.Stdout, os.Stderr = out, err
	code = run(append([]string{"churnbed", "topo"}, args...))
	text := func(f *os.File) string {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return code, text(out), text(err)
}

func TestTopoGenShowConvert(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(args ...string) string {
		t.Helper()
		code, out, stderr := runTopo(t, args...)
		if code != exitOK || stderr != "" {
			t.Fatalf("topo %v: exit %d, %s", args, code, stderr)
		}
		return out
	}
	must("gen", "--topology", "random", "--nodes", "40", "--area", "12x12", "--radius", "4", "--seed", "7", "-o", in("a.json"))
	must("convert", in("a.json"), in("b.graphml"))
	must("convert", "--radius", "4", "--to", "xy", in("b.graphml"), in("c.txt"))
	must("convert", in("c.txt"), in("d.json"))
	first, err := topologies.ReadFile(in("a.json"), topologies.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b.graphml", "c.txt", "d.json"} {
		var s topologies.Stats
		if err := json.Unmarshal([]byte(must("show", "--json", in(name))), &s); err != nil {
			t.Fatal(err)
		}
		want := topologies.Measure(first, topologies.Euclid)
		s.Name, want.Name = "", ""
		if s != want {
			t.Errorf("%s: got %+v, want %+v", name, s, want)
		}
	}
	drawn := must("show", "--draw", in("grid.svg"), "--topology", "grid", "--rows", "3", "--cols", "4", "--step", "3")
	for _, want := range []string{"nodes         12", "hop diameter  5", "connected, also without any one node"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("show prints\n%s\nwithout %q", drawn, want)
		}
	}
	if svg, err := os.ReadFile(in("grid.svg")); err != nil || !strings.Contains(string(svg), "<svg") {
		t.Errorf("the drawing is no SVG: %v", err)
	}
	must("show", in("d.json"), "--json", "--draw", in("behind.svg"))
	must("convert", in("a.json"), in("e.txt"), "--radius", "4", "--to", "xy")
	must("convert", in("a.json"), "--to", "graphml", in("f.xml"))
	for _, name := range []string{"behind.svg", "e.txt", "f.xml"} {
		if _, err := os.Stat(in(name)); err != nil {
			t.Errorf("flags behind the file: %v", err)
		}
	}
	rooms := must("gen", "--topology", "cluster", "--rooms", "0,0,3,3:4;2,0,3,3:2", "--rooms", "0,2,3,3:1", "--format", "xy")
	if n := strings.Count(rooms, "\n"); n != 7 {
		t.Errorf("three rooms of 4, 2 and 1 nodes make %d lines", n)
	}
}

func TestTopoUsageErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, bad := file("good.txt", "0,0\n3,0\n"), file("bad.txt", "0,0\n3,zero\n")
	missing := filepath.Join(dir, "out.json")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"gen"}, "--topology is missing"},
		{[]string{"gen", "--topology", "torus", "--nodes", "4"}, `topology "torus": want one of random`},
		{[]string{"gen", "--topology", "line", "--nodes", "0", "-o", missing}, "nodes 0: want 1 or more"},
		{[]string{"gen", "--topology", "random", "--nodes", "9", "--area", "15", "-o", missing}, `area "15": want WIDTHxHEIGHT`},
		{[]string{"gen", "--topology", "random", "--nodes", "9", "--radius", "-4", "-o", missing}, "radius -4: want metres above 0"},
		{[]string{"gen", "--topology", "random", "--nodes", "9", "--area", "900x900", "-o", missing}, "raise the radius"},
		{[]string{"gen", "--topology", "cluster", "--rooms", "1,2,3:4", "-o", missing}, `room "1,2,3:4": want x,y,width,height:count`},
		{[]string{"gen", "--topology", "ring", "--nodes", "5", "-o", good}, "exists: take another name, or --force"},
		{[]string{"gen", "--topology", "ring", "--nodes", "5", "--format", "xy"}, "write json instead"},
		{[]string{"gen", "--topology", "ring", "--nodes", "5", "--format", "dot"}, `format "dot": want one of xy, json, graphml`},
		{[]string{"gen", "--topology", "ring", "--nodes", "5", "-o", filepath.Join(dir, "none", "a.json")}, "there is no folder"},
		{[]string{"gen", "--colour", "red"}, "colour"},
		{[]string{"show"}, "name a file, or --topology"},
		{[]string{"show", bad}, "bad.txt:2: coordinate \"zero\""},
		{[]string{"show", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"show", "--metric", "fast", good}, `metric "fast": want euclid, hops or delay`},
		{[]string{"show", "--draw", "a.pdf", good}, "ends in .svg or .png"},
		{[]string{"show", "--rows", "3", good}, "--rows is for --topology"},
		{[]string{"convert", good}, "want IN and OUT"},
		{[]string{"convert", good, good}, "exists"},
		{[]string{"convert", bad, missing}, "bad.txt:2"},
		{[]string{"convert", "--from", "dot", good, missing}, `format "dot"`},
		{[]string{"convert", good, filepath.Join(dir, "a.dot")}, "no format has that ending"},
	} {
		code, out, stderr := runTopo(t, c.args...)
		if code != exitUsage || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("topo %v: exit %d, stderr %q; want exit %d and one line with %q", c.args, code, stderr, exitUsage, c.want)
		}
		if strings.Contains(out, "{") {
			t.Errorf("topo %v: wrote %q in spite of the error", c.args, out)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("an output was written in spite of the errors")
	}
	if code, _, stderr := runTopo(t, "gen", "--topology", "ring", "--nodes", "5", "--format", "json", "--force", "-o", good); code != exitOK {
		t.Errorf("--force does not replace: %s", stderr)
	}
}
