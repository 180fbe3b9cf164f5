package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"churnbed/results/sweep"
)

func TestScenarioVerbs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	run := func(want int, args ...string) string {
		t.Helper()
		code, out := invoke(t, args...)
		if code != want {
			t.Fatalf("%q: exit code %d, want %d\n%s", args, code, want, out)
		}
		return out
	}
	run(0, "scenario", "new", "--algorithm", "camera", "-o", file)
	run(exitUsage, "scenario", "new", "-o", file)             // is there
	run(exitUsage, "scenario", "new", "--algorithm", "camra") // is none
	run(exitUsage, "scenario", "check")                       // what?
	if out := run(0, "scenario", "check", file); !strings.Contains(out, "s.yaml: ok") {
		t.Error(out)
	}
	out := run(0, "scenario", "explain", file, "--set", "nodes=9", "--set", "seed=4")
	for _, want := range []string{"9 nodes", "seed 4", "crash 1 holder, undone after 4s", "run and sim", "requests=20"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var e explanation
	if err := json.Unmarshal([]byte(run(0, "scenario", "explain", "--json", file)), &e); err != nil || len(e.Faults) != 3 || e.Mesh.Nodes != 16 {
		t.Errorf("%v: %+v", err, e)
	}
	var schema map[string]any
	if err := json.Unmarshal([]byte(run(0, "scenario", "schema")), &schema); err != nil || schema["properties"] == nil {
		t.Errorf("schema: %v", err)
	}
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("nodes: many\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := run(exitUsage, "scenario", "check", file, bad); !strings.Contains(out, "bad.yaml:1:8") || !strings.Contains(out, "s.yaml: ok") {
		t.Error(out)
	}
	if out := run(0, "sim", file, "--quiet", "--json", "--set", "requests=3", "--set=fault=at 1s heal", "--out", filepath.Join(dir, "run")); !strings.Contains(out, `"issued": 3`) {
		t.Error(out)
	}
	if text := run(0, "scenario", "from-run", filepath.Join(dir, "run")); !strings.Contains(text, "requests: 3") || !strings.Contains(text, "at 1s heal") {
		t.Error(text)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "s.yaml"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte("name: s\ntrials: 2\ntopology: line\nmembership: static\nrequests: 4\nmean: 50ms\ncs: 10ms\n"+
		"matrix:\n  algorithm: [ra, maekawa]\n  nodes: [4, 6, 8]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(want int, more ...string) string {
		t.Helper()
		code, text := invoke(t, append([]string{"sweep", file, "--out", out, "--quiet"}, more...)...)
		if code != want {
			t.Fatalf("%q: exit code %d, want %d\n%s", more, code, want, text)
		}
		return text
	}
	first := run(0)
	if strings.Count(first, "8/8") != 6 {
		t.Error(first)
	}
	started := map[string]int64{}
	changed := func() (n int) {
		logs, err := filepath.Glob(filepath.Join(out, "cells", "*", "trials", "*", "manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range logs {
			st, err := os.Stat(l)
			if err != nil {
				t.Fatal(err)
			}
			if at := st.ModTime().UnixNano(); started[l] != at {
				started[l] = at
				n++
			}
		}
		return n
	}
	if n := changed(); n != 12 {
		t.Fatalf("%d runs, want 12", n)
	}
	if again := run(0); again != first || changed() != 0 {
		t.Errorf("a finished sweep is run again:\n%s", again)
	}
	// One run is gone, one was cut short, one is of other keys.
	runs, err := filepath.Glob(filepath.Join(out, "cells", "*", "trials", "1"))
	if err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func(dir string) error{
		os.RemoveAll,
		func(dir string) error { return os.Remove(filepath.Join(dir, "summary.json")) },
		func(dir string) error {
			name := filepath.Join(dir, "scenario.yaml")
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return os.WriteFile(name, []byte(strings.Replace(string(b), "cs: 10ms", "cs: 11ms", 1)), 0o644)
		},
	} {
		if err := spoil(runs[i]); err != nil {
			t.Fatal(err)
		}
	}
	if again := run(0); again != first || changed() != 3 {
		t.Errorf("what was not finished is not run again:\n%s", again)
	}
	var tb sweep.Table
	if err := json.Unmarshal([]byte(run(0, "--set", "trials=3", "--json")), &tb); err != nil || len(tb.Rows) != 6 || tb.Rows[5].Trials != 3 {
		t.Errorf("%v: %+v", err, tb)
	}
	if n := changed(); n != 6 {
		t.Errorf("%d runs for one more trial a cell, want 6", n)
	}
	for _, f := range []string{"table.csv", "table.json", "wait.svg", "wait.png"} {
		if st, err := os.Stat(filepath.Join(out, f)); err != nil || st.Size() < 100 {
			t.Errorf("%s: %v", f, err)
		}
	}
	run(exitUsage, "--set", "cs=20ms") // another sweep
	run(exitUsage, "--engine", "real")
}
