package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An interrupted sweep says so, and the same command goes on: what was
// finished is not run again.
func TestSweepInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "s.yaml"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte("name: s\ntrials: 40\ntopology: grid\nnodes: 36\nmembership: static\nalgorithm: ra\nrequests: 40\nmean: 20ms\ncs: 10ms\n"+
		"matrix:\n  link-loss: [0, 0.1]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"sweep", file, "--out", out, "--parallel", "1"}
	finishedRuns := func() map[string]time.Time {
		names, err := filepath.Glob(filepath.Join(out, "cells", "*", "trials", "*", "summary.json"))
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]time.Time{}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			at[name] = info.ModTime()
		}
		return at
	}
	s := begin(t, program(t, "churnbed"), nil, args...)
	for deadline := time.Now().Add(time.Minute); len(finishedRuns()) < 3; {
		if time.Now().After(deadline) {
			t.Fatal("no run is finished")
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	o := s.end()
	o.want(t, exitInterrupted)
	before := finishedRuns()
	if n := len(before); n < 3 || n >= 80 || !strings.Contains(o.stderr, "the same command goes on") {
		t.Fatalf("%d runs of 80 are finished: %v", n, o)
	}
	o = churnbed(t, args...)
	o.want(t, exitOK)
	after := finishedRuns()
	if len(after) != 80 || strings.Count(o.stdout, "40") < 2 || !strings.Contains(o.stderr, "were finished already") {
		t.Errorf("%d runs of 80: %v", len(after), o)
	}
	for name, at := range before {
		if !after[name].Equal(at) && !strings.Contains(name, lastOf(before)) {
			t.Errorf("%s was run again", name)
		}
	}
}

// lastOf names the run that was finished last: an interrupt may have come
// between its summary and the end of its cell.
func lastOf(at map[string]time.Time) (last string) {
	for name, t := range at {
		if last == "" || t.After(at[last]) {
			last = name
		}
	}
	return last
}

// Real runs side by side end as alone: those that the others made unfaithful
// are run again.
func TestSweepRealParallel(t *testing.T) {
	needRuns(t)
	t.Parallel()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "s.yaml"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte("name: s\ntopology: line\nnodes: 4\nmembership: static\nalgorithm: ra\nrequests: 4\nmean: 50ms\ncs: 10ms\nwarmup: 200ms\n"+
		"matrix:\n  link-delay: [1ms, 2ms]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := churnbed(t, "sweep", file, "--out", out, "--engine", "run", "--parallel", "2")
	o.want(t, exitOK)
	if strings.Count(o.stdout, "4/4") != 2 {
		t.Errorf("%v", o)
	}
}
