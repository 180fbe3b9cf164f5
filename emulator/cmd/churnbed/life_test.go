package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
)

// A controller that is killed at any moment leaves nothing: no process, no
// namespace, no mount, no socket, no change of the host.
func TestKilledControllerLeavesNothing(t *testing.T) {
	needRuns(t)
	host := hostView(t)
	bin := ownProgram(t)
	seed := core.Stream(77, "moments")
	phases := []string{"", "wiring", "starting", "running", "ending"}
	repetitions := 6
	if testing.Short() {
		repetitions = 1
	}
	var longest time.Duration
	for i := range repetitions * len(phases) {
		phase := phases[i%len(phases)]
		// Somewhere in the phase, whose length depends on the host's load.
		delay := time.Duration(seed.Int64N(int64([]time.Duration{300, 80, 40, 400, 60}[i%len(phases)] * time.Millisecond)))
		dir := filepath.Join(t.TempDir(), "run")
		s := begin(t, bin, nil, quick(dir, "--requests", "2", "--seed", "3")...)
		if phase != "" && !s.await(phase) {
			t.Fatalf("no line %q: %v", phase, s.end())
		}
		time.Sleep(delay) // the moment, not a wait for something
		held := namespaces(t, processes(t, filepath.Dir(bin)+"/"))
		_ = s.cmd.Process.Kill() // it may have ended
		_ = s.end()
		took := nothingRemains(t, filepath.Dir(bin), dir, held)
		longest = max(longest, took)
	}
	t.Logf("the longest it took until nothing was left: %v", longest)
	if now := hostView(t); now != host {
		t.Errorf("the host was changed: %s", difference(host, now))
	}
}

// difference shows the first line that differs.
func difference(a, b string) string {
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(la), len(lb)) {
		if la[i] != lb[i] {
			return la[i] + " -> " + lb[i]
		}
	}
	return "lines are missing"
}

// Two runs side by side do not touch each other, nor the host.
func TestSideBySide(t *testing.T) {
	needRuns(t)
	host := hostView(t)
	bin := ownProgram(t)
	dirs := []string{filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "run")}
	var sessions []*session
	for _, dir := range dirs {
		sessions = append(sessions, begin(t, bin, nil, quick(dir, "--duration", "1s")...))
	}
	for _, s := range sessions {
		if !s.await("running") {
			t.Fatal(s.end())
		}
	}
	if now := hostView(t); now != host {
		t.Errorf("the host is changed during the run: %s", difference(host, now))
	}
	held := namespaces(t, processes(t, filepath.Dir(bin)+"/"))
	if len(held) < 2*6 {
		t.Errorf("two runs of 6 nodes have %d namespaces", len(held))
	}
	for i, s := range sessions {
		s.end().want(t, 0)
		if s := summary(t, dirs[i]); s.Requests.Served != 6 || s.Membership.SizeMin != 6 {
			t.Errorf("run %d: %+v %+v", i, s.Requests, s.Membership)
		}
		for id := range 6 {
			// A node of the other run would show as a second life or member.
			if n := count(nodeEvents(t, dirs[i], id), ofKind(eventlog.Start)); n != 1 {
				t.Errorf("run %d node %d has %d lives", i, id, n)
			}
		}
		nothingRemains(t, "/nowhere", dirs[i], nil)
	}
	nothingRemains(t, filepath.Dir(bin), dirs[0], held)
	if now := hostView(t); now != host {
		t.Errorf("the host was changed: %s", difference(host, now))
	}
}

// An ordinary user runs everything in a user namespace, and doctor says what
// the kernel forbids there.
func TestRootless(t *testing.T) {
	needRuns(t)
	var attr *syscall.SysProcAttr
	if os.Geteuid() == 0 {
		attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	dir, err := os.MkdirTemp("", "churnbed-rootless-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	doctor := begin(t, program(t, "churnbed"), attr, "doctor").end()
	if doctor.code == exitHost && strings.Contains(doctor.stdout, "user namespaces") {
		t.Skip("no user namespaces for ordinary users here:", doctor.stdout)
	}
	doctor.want(t, 0)
	for _, text := range []string{"This user is not root", "net.core.rmem_max", "SO_RCVBUFFORCE", "will be used"} {
		if !strings.Contains(doctor.stdout, text) {
			t.Errorf("doctor does not mention %q:\n%s", text, doctor.stdout)
		}
	}
	run := filepath.Join(dir, "run")
	begin(t, program(t, "churnbed"), attr, quick(run, append(medley(),
		"--requests", "10", "--mean", "100ms", "--fault", "at 300ms crash node 2 for 300ms", "--fault", "at 400ms link 4-5 down for 100ms")...)...).end().want(t, 0)
	if s := summary(t, run); s.Churn.Restarts != 1 || s.Safety.Violations != 0 || s.Requests.Served < 8 {
		t.Errorf("%+v %+v %+v", s.Churn, s.Safety, s.Requests)
	}
	rejoined(t, run, 2, 2048)
}

// The first interrupt ends a run in order in every phase, the second one at
// once.
func TestInterrupt(t *testing.T) {
	needRuns(t)
	bin := ownProgram(t)
	for _, c := range []struct {
		phase   string
		summary bool
	}{{"wiring", false}, {"starting", false}, {"running", true}, {"ending", true}} {
		t.Run(c.phase, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			length := "20s"
			if c.phase == "ending" {
				length = "300ms"
			}
			s := begin(t, bin, nil, quick(dir, "--duration", length, "--seed", "3", "--nodes", "20")...)
			if !s.await(c.phase) {
				t.Fatal(s.end())
			}
			if err := s.cmd.Process.Signal(unix.SIGINT); err != nil {
				t.Fatal(err)
			}
			o := s.end()
			o.want(t, exitInterrupted)
			_, err := os.Stat(filepath.Join(dir, results.SummaryFile))
			if c.summary != (err == nil) && c.phase != "starting" { // it may have begun meanwhile
				t.Errorf("summary: %v\n%v", err, o)
			}
			if err == nil {
				if s := summary(t, dir); !s.Interrupted || s.Verdict != results.VerdictOK {
					t.Errorf("%+v", s)
				}
				for id := range 20 {
					if log := nodeEvents(t, dir, id); log[len(log)-1].Kind != eventlog.Stop {
						t.Errorf("node %d was not ended in order", id)
					}
				}
			}
			nothingRemains(t, filepath.Dir(bin), dir, nil)
		})
	}
	t.Run("twice", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "run")
		// A paused node takes its time to end; so does one that never reads.
		s := begin(t, bin, nil, quick(dir, "--duration", "30s", "--node-binary", stubborn(t))...)
		if !s.await("starting") {
			t.Fatal(s.end())
		}
		for range 2 {
			if err := s.cmd.Process.Signal(unix.SIGTERM); err != nil {
				t.Log(err) // it was quick
				break
			}
			s.await("ending the run in order")
		}
		s.end().want(t, exitInterrupted)
		nothingRemains(t, filepath.Dir(bin), dir, nil)
	})
}

// stubborn is a node program that attaches to nobody and ignores all signals.
func stubborn(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stubborn")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ntrap '' TERM INT HUP\nwhile :; do sleep 1; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Wrong input gives one clear error, before anything is created.
func TestWrongInput(t *testing.T) {
	needRuns(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	full := filepath.Join(dir, "full")
	if err := os.Mkdir(full, 0o755); err != nil {
		t.Fatal(err)
	}
	file("full/old", "")
	for _, c := range []struct {
		name  string
		flags []string
		code  int
		says  string
	}{
		{"loss", []string{"--link-loss", "-0.1"}, exitUsage, "--link-loss"},
		{"no nodes", []string{"--nodes", "0"}, exitUsage, "--nodes"},
		{"unknown flag", []string{"--colour", "red"}, exitUsage, "colour"},
		{"unknown key", []string{"--seed", "1", file("key.yaml", "name: x\ncolour: red\n")}, exitUsage, "key.yaml:2"},
		{"two files", []string{"--seed", "1", file("a.yaml", "name: x\n"), file("b.yaml", "name: x\n")}, exitUsage, "one scenario file"},
		{"disconnected", []string{"--topology-file", file("mesh.txt", "0,0\n1,0\n90,0\n")}, exitUsage, "mesh.txt"},
		{"unsorted trace", []string{"--churn", file("trace.txt", "0 5 0\n0 1 1\n")}, exitUsage, "trace.txt"},
		{"malformed trace", []string{"--churn", file("bad.txt", "0 one two\n")}, exitUsage, "bad.txt:1"},
		{"malformed fault", []string{"--fault", "at noon crash"}, exitUsage, "--fault"},
		{"existing directory", []string{"--out", full}, exitUsage, "file exists"},
		{"file in the way", []string{"--out", filepath.Join(full, "old", "run")}, exitUsage, "not a directory"},
		{"unwritable directory", []string{"--out", "/proc/nowhere/run"}, exitUsage, "/proc/nowhere"},
		{"no node program", []string{"--node-binary", filepath.Join(full, "old")}, exitUsage, "may be executed"},
		{"netem and burst", []string{"--fabric", "netem", "--link-loss-model", "gilbert-elliott:0.1/0.5/0/1"}, exitUsage, "relay"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(dir, "out", "run")
			args := append([]string{"run", "--out", out}, c.flags...)
			if strings.Contains(strings.Join(c.flags, " "), "--out") {
				args = append([]string{"run"}, c.flags...)
			}
			o := churnbed(t, args...)
			o.want(t, c.code)
			if !strings.Contains(o.stderr, c.says) || o.stdout != "" && !strings.Contains(o.stdout, "USAGE") {
				t.Errorf("want a message with %q: %v", c.says, o)
			}
			if strings.Count(o.stderr, "churnbed:") != 1 {
				t.Errorf("want one message: %v", o)
			}
			if exists(filepath.Dir(out)) {
				t.Error("something was created")
			}
		})
	}
	t.Run("host too small", func(t *testing.T) {
		out := filepath.Join(dir, "out", "run")
		args := append([]string{"-c", `ulimit -n 200 && exec "$0" "$@"`, program(t, "churnbed")}, quick(out, "--nodes", "100")...)
		o := begin(t, "/bin/sh", nil, args...).end()
		o.want(t, exitHost)
		if !strings.Contains(o.stderr, "open files") || !strings.Contains(o.stderr, "ulimit") || exists(filepath.Dir(out)) {
			t.Error(o)
		}
	})
	entries, err := os.ReadDir(full)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

// netem where the kernel lacks it, relay where it does not, and why.
func TestDoctorAndFabric(t *testing.T) {
	needRuns(t)
	d, err := doctored()
	if err != nil {
		t.Fatal(err)
	}
	text := churnbed(t, "doctor")
	text.want(t, 0)
	if !strings.Contains(text.stdout, "Fabric: "+d.Fabric+" will be used: "+d.Why) {
		t.Error(text)
	}
	netem := false
	for _, c := range d.Capabilities {
		netem = netem || c.Name == "sch_netem" && c.OK
		if !c.OK && c.Remedy == "" {
			t.Errorf("no remedy for %+v", c)
		}
	}
	if want := map[bool]string{true: "netem", false: "relay"}[netem]; d.Fabric != want {
		t.Errorf("fabric %q, netem there: %v", d.Fabric, netem)
	}
	if netem {
		return
	}
	out := filepath.Join(t.TempDir(), "run")
	o := churnbed(t, quick(out, "--fabric", "netem")...)
	o.want(t, exitHost)
	if !strings.Contains(o.stderr, "sch_netem") || !strings.Contains(o.stderr, "relay") || exists(out) {
		t.Error(o)
	}
}

// A full disk is reported; what was written before is kept, and nothing hangs.
func TestFullDisk(t *testing.T) {
	needRuns(t)
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	// In a mount namespace of its own, made by the shell below.
	dir := t.TempDir()
	script := `mount -t tmpfs -o size=64k churnbed-test "$1" && shift && "$@"; code=$?; cp -r "$0"/. "$0.kept"; exit $code`
	args := append([]string{"--mount", "--propagation", "private", "sh", "-c", script, dir, dir, program(t, "churnbed")},
		quick(filepath.Join(dir, "run"), "--duration", "20s", "--requests", "100", "--counters-every", "20ms", "--probe-every", "50ms")...)
	unshare := "/usr/bin/unshare"
	if !exists(unshare) {
		t.Skip("unshare is missing (package util-linux)")
	}
	s := begin(t, unshare, nil, args...)
	o := s.end()
	if o.code != exitCheckFailed && o.code != exitHost || !strings.Contains(o.stderr, "no space left on device") {
		t.Fatal(o)
	}
	whole := 0
	for id := range 6 {
		whole += count(nodeEvents(t, filepath.Join(dir+".kept", "run"), id), ofKind(eventlog.Joined))
	}
	if whole != 6 {
		t.Errorf("%d of 6 logs kept", whole)
	}
	if err := os.RemoveAll(dir + ".kept"); err != nil {
		t.Error(err)
	}
}
