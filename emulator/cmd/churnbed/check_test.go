package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
)

// plantRun writes a run of two nodes whose sections overlap by the given
// time, in ms; below zero they lie apart.
func plantRun(t *testing.T, overlap int64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	r, err := results.Create(dir, &results.Manifest{Engine: results.Emulated, Fabric: "relay", TimeScale: 1, Nodes: 2, Links: 1, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	const ms = 1_000_000
	for id, from := range []int64{10 * ms, (20 - overlap) * ms} {
		w, err := eventlog.OpenWriter(r.NodeLog(core.NodeID(id)))
		if err != nil {
			t.Fatal(err)
		}
		node := int32(id)
		req := core.RequestID{Node: core.NodeID(id), Inc: core.FirstIncarnation, TS: 1}.String()
		for _, e := range []eventlog.Event{
			{T: 0, Kind: eventlog.Start, Node: node, Inc: 1024},
			{T: from, Kind: eventlog.Request, Node: node, Req: req, No: id + 1},
			{T: from, Kind: eventlog.Enter, Node: node, Req: req, No: id + 1, Asked: "0-1"},
			{T: from + 10*ms, Kind: eventlog.Exit, Node: node, Req: req, No: id + 1},
			{T: 100 * ms, Kind: eventlog.Stop, Node: node},
		} {
			if err := w.Write(&e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// invoke runs one command line and returns its exit code and what it printed.
func invoke(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	old := os.Stdout
	os.Stdout = f
	defer func() { os.Stdout = old }()
	code = run(append([]string{"churnbed"}, args...))
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return code, string(b)
}

func TestCheckAndSummary(t *testing.T) {
	safe, unsafe := plantRun(t, -1), plantRun(t, 4)
	empty := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"check " + safe, exitOK, "verdict             ok"},
		{"check " + unsafe, exitCheckFailed, "======== overlap begins ========"},
		{"check " + unsafe + " --chart 0", exitCheckFailed, "together 4.000 ms"},
		{"check --chart=0 " + unsafe, exitCheckFailed, "together 4.000 ms"},
		{"check " + unsafe + " --json", exitCheckFailed, `"overlap_ms": 4`},
		{"check --json " + safe, exitOK, `"violations": []`},
		{"summary " + unsafe, exitOK, "VIOLATED"},
		{"summary " + safe + " --json", exitOK, `"schema": 1`},
		{"summary --json=false " + safe, exitOK, "SAFE"},
		{"check " + empty, exitUsage, ""},
		{"summary " + filepath.Join(empty, "none"), exitUsage, ""},
		{"check", exitUsage, ""},
		{"check " + safe + " " + unsafe, exitUsage, ""},
		{"check " + safe + " --chart -1", exitUsage, ""},
		{"check " + safe + " --nonsense", exitUsage, ""},
		{"check " + safe + " -- --json", exitUsage, ""},
	} {
		code, out := invoke(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("churnbed %s: exit code %d, want %d, and %q in\n%s", c.args, code, c.code, c.want, out)
		}
	}
	if _, out := invoke(t, "check", unsafe, "--chart", "0"); strings.Contains(out, "overlap begins") {
		t.Errorf("--chart 0 draws a chart:\n%s", out)
	}
	_, out := invoke(t, "summary", unsafe, "--json")
	var s results.Summary
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.Safety.Violations != 1 || s.Seed != 3 {
		t.Errorf("%v: %+v", err, s.Safety)
	}
}
