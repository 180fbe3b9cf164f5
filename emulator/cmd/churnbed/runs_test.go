package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
)

// Real kills and restarts under each membership service: every life rejoins,
// nothing is violated, and the summary keeps its schema.
func TestRunUnderChurn(t *testing.T) {
	needRuns(t)
	churn := []string{
		// Six of nine remember at any time: Camera's restarted nodes need five.
		"--fault", "at 300ms crash node 5 restart after 600ms",
		"--fault", "at 500ms poweroff nodes 7,8 for 300ms",
	}
	for _, c := range []struct {
		name     string
		flags    []string
		restarts int
	}{
		{"camera medley", append(append(medley(), "--algorithm", "camera"), churn...), 3},
		{"camera oracle", append([]string{"--membership", "oracle", "--algorithm", "camera"}, churn...), 3},
		{"ra oracle", append([]string{"--membership", "oracle", "--algorithm", "ra"}, churn...), 3},
		{"ra static", []string{"--algorithm", "ra"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			flags := append([]string{"--topology", "grid", "--nodes", "9", "--requests", "20", "--mean", "100ms"}, c.flags...)
			o := churnbed(t, quick(dir, flags...)...)
			o.want(t, 0)
			if !strings.Contains(o.stdout, dir) || !strings.HasSuffix(o.stdout, "\n") || !strings.Contains(o.stderr, "running") {
				t.Errorf("want the table on standard output, progress on standard error: %v", o)
			}
			s := summary(t, dir)
			if s.Safety.Violations != 0 || s.Verdict != results.VerdictOK && s.Verdict != results.VerdictStarved {
				t.Errorf("summary %+v", s)
			}
			if s.Requests.Served == 0 || s.Timing.BringUpMS <= 0 || s.Timing.RunMS <= 0 || s.Timing.TeardownMS < 0 {
				t.Errorf("requests %+v timing %+v", s.Requests, s.Timing)
			}
			if s.Churn.Kills != c.restarts || s.Churn.Restarts != c.restarts {
				t.Errorf("churn %+v, want %d kills and restarts", s.Churn, c.restarts)
			}
			for i, e := range events(t, dir, results.ControllerFile) {
				if e.Kind != eventlog.Kill && e.Kind != eventlog.Restart {
					continue
				}
				if e.After < e.T || e.Verb == "" {
					t.Errorf("line %d: %+v", i+1, e)
				}
				if e.Kind == eventlog.Restart {
					rejoined(t, dir, int(e.Node), e.Inc)
				}
			}
		})
	}
}

// rejoined checks that a later life of a node became a member.
func rejoined(t *testing.T, dir string, node int, inc uint32) {
	t.Helper()
	if core.Incarnation(inc).Start() < 2 {
		t.Errorf("node %d restarted as %d", node, inc)
	}
	log := nodeEvents(t, dir, node)
	for _, k := range []eventlog.Kind{eventlog.Start, eventlog.Joined} {
		if count(log, func(e *eventlog.Event) bool { return e.Kind == k && e.Inc == inc }) != 1 {
			t.Errorf("node %d, life %d: no %q in its log", node, inc, k)
		}
	}
}

// Every verb of the fault language, with what it does to the nodes.
func TestFaultVerbs(t *testing.T) {
	needRuns(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	faults := []string{
		"at 100ms crash node 1 for 400ms",
		"at 150ms poweroff node 2 for 400ms",
		"at 200ms pause node 3 for 300ms",
		"at 250ms leave node 4 restart after 100ms", // is still leaving then, or has just left
		"at 1200ms link 0-1 down",
		"at 1400ms link 0-1 up",
		"from 1500ms to 1900ms flap link 4-5 every 100ms",
		"at 2s partition 0-3|4-5",
		"at 2300ms heal",
		"at 2400ms set links 0-1 delay 7ms loss 0.5 for 300ms",
		"at 2450ms set link 1>2 rate 1mbit",
		"at 2500ms crash node 5",
		"at 2600ms restart node 5",
		"from 2700ms to 2900ms churn 1",
		"at 50ms pause holder for 100ms",
		"at 3900ms pause node 5", // across the end of the run
	}
	args := quick(dir, "--membership", "oracle", "--algorithm", "ra", "--duration", "4s", "--requests", "20", "--mean", "150ms", "--slice", "1s")
	for _, f := range faults {
		args = append(args, "--fault", f)
	}
	churnbed(t, args...).want(t, 0)
	log := events(t, dir, results.ControllerFile)
	at := func(kind eventlog.Kind, match func(*eventlog.Event) bool, want int) {
		t.Helper()
		n := count(log, func(e *eventlog.Event) bool {
			if e.Kind != kind || !match(e) {
				return false
			}
			if e.After != 0 && e.After < e.T {
				t.Errorf("after before before: %+v", e)
			}
			return true
		})
		if n != want {
			t.Errorf("%d lines %q, want %d", n, kind, want)
		}
	}
	verb := func(v string, node int32) func(*eventlog.Event) bool {
		return func(e *eventlog.Event) bool { return e.Verb == v && e.Node == node }
	}
	link := func(name, text string) func(*eventlog.Event) bool {
		return func(e *eventlog.Event) bool { return e.Link == name && strings.HasPrefix(e.Text, text) }
	}
	at(eventlog.Kill, verb("crash", 1), 1)
	at(eventlog.Kill, verb("poweroff", 2), 1)
	at(eventlog.LinkSet, func(e *eventlog.Event) bool { return e.Verb == "poweroff" }, 2) // links of node 2 down
	// Node 3, node 5, and the holder, who may be any node and is paused when
	// there is one.
	at(eventlog.Pause, func(*eventlog.Event) bool { return true }, 3)
	for what, match := range map[string]func(*eventlog.Event) bool{
		"node 3 paused":     func(e *eventlog.Event) bool { return e.Kind == eventlog.Pause && e.Node == 3 },
		"node 3 resumed":    func(e *eventlog.Event) bool { return e.Kind == eventlog.Resume && e.Node == 3 },
		"the holder paused": func(e *eventlog.Event) bool { return e.Kind == eventlog.Pause && e.State == "HELD" },
	} {
		if count(log, match) == 0 {
			t.Errorf("not %s", what)
		}
	}
	at(eventlog.Leave, verb("leave", 4), 1)
	at(eventlog.Exited, func(e *eventlog.Event) bool { return e.Node == 4 && e.Inc == uint32(core.FirstIncarnation) }, 1)
	at(eventlog.Restart, verb("restart", 4), 1)
	at(eventlog.LinkSet, link("0-1", "down"), 1)
	at(eventlog.LinkSet, link("0-1", "up"), 1)
	at(eventlog.LinkSet, link("4-5", "down"), 2)
	at(eventlog.LinkSet, link("3-4", "down"), 1) // the partition
	at(eventlog.LinkSet, link("3-4", "up"), 1)
	at(eventlog.LinkSet, link("0-1", "delay 7ms jitter 0s loss 0.5"), 1)
	at(eventlog.LinkSet, link("0-1", "delay 1ms jitter 0s loss 0"), 1) // undone
	at(eventlog.LinkSet, link("1-2", "ab: delay 1ms jitter 0s loss 0 rate 1000000"), 1)
	at(eventlog.Kill, verb("crash", 5), 1)
	at(eventlog.Restart, verb("restart", 5), 1)
	// A race that a node's detector found shows in its status.
	at(eventlog.Exited, func(e *eventlog.Event) bool { return e.Text != "exit status 0" }, 0)
	for _, k := range []eventlog.Kind{eventlog.Epoch, eventlog.End} {
		at(k, func(*eventlog.Event) bool { return true }, 1)
	}
	if n := count(log, ofKind(eventlog.Slice)); n < 4 {
		t.Errorf("%d slices", n)
	}
	for id := range 6 {
		own := nodeEvents(t, dir, id)
		if n := count(own, ofKind(eventlog.Stop)); own[len(own)-1].Kind != eventlog.Stop || id != 4 && n != 1 {
			t.Errorf("node %d ends with %q, %d stops", id, own[len(own)-1].Kind, n)
		}
	}
	if s := summary(t, dir); s.Churn.Leaves != 1 || s.Churn.Pauses < 2 || s.Churn.Kills < 4 {
		t.Errorf("churn %+v", s.Churn)
	}
}

// Nodes 0 and 1 do not know each other: Ricart-Agrawala lets both in, Camera
// does not.
func TestPlantedMissingEntries(t *testing.T) {
	needRuns(t)
	t.Parallel()
	file, err := filepath.Abs("../../../workloads/scenarios/ra-missing-entries.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for try := 1; ; try++ {
		dir := filepath.Join(t.TempDir(), "run")
		o := churnbed(t, "run", file, "--requests", "6", "--out", dir, "--seed", fmt.Sprint(try), "--quiet")
		if o.code == 0 && try < 5 {
			continue
		}
		o.want(t, 1)
		if s := summary(t, dir); s.Safety.Violations == 0 || s.Safety.MaxConcurrent != 2 || s.Verdict != results.VerdictViolation {
			t.Errorf("%+v", s.Safety)
		}
		o = churnbed(t, "check", dir)
		o.want(t, 1)
		for _, text := range []string{"violation 1", "ENTER 0.1024.1", "ENTER 1.1024.1", "overlap begins", "nodes/0.jsonl", "nodes/1.jsonl"} {
			if !strings.Contains(o.stdout, text) {
				t.Errorf("no %q in the chart:\n%s", text, o.stdout)
			}
		}
		break
	}
	for seed := range 2 {
		dir := filepath.Join(t.TempDir(), "run")
		churnbed(t, "run", file, "--requests", "6", "--algorithm", "camera", "--out", dir, "--seed", fmt.Sprint(seed), "--quiet").want(t, 0)
		if s := summary(t, dir); s.Safety.Violations != 0 || s.Requests.Served != 6 {
			t.Errorf("%+v %+v", s.Safety, s.Requests)
		}
	}
}

// On a mesh without loss and contention an entry takes two paths to the
// farthest node asked: on a line of five nodes from its end, 4 hops of 10 ms,
// twice.
func TestUncontendedWait(t *testing.T) {
	needRuns(t)
	const tries = 3
	for range tries {
		dir := filepath.Join(t.TempDir(), "run")
		churnbed(t, "run", "--topology", "line", "--nodes", "5", "--link-delay", "10ms", "--membership", "static", "--algorithm", "ra",
			"--arrivals", "constant", "--mean", "200ms", "--requesters", "list:0", "--requests", "4", "--cs", "5ms", "--warmup", "500ms",
			"--probe-every", "100ms", "--time-scale", "3", "--quiet", "--out", dir).want(t, 0)
		s := summary(t, dir)
		if s.Fidelity.Verdict != results.Faithful {
			t.Log("not faithful:", s.Fidelity.Reason)
			continue
		}
		const path = 2 * 4 * 10
		if m := float64(s.WaitMS.Mean); s.WaitMS.N != 4 || m < .9*path || m > 1.1*path {
			t.Errorf("%d waits of %v ms on average, want 4 of %d ms +- 10 %%", s.WaitMS.N, m, path)
		}
		return
	}
	t.Skipf("the host was too busy for a faithful run, %d times", tries)
}

// A program that knows only the contract takes the nodes' place.
func TestForeignNodeProgram(t *testing.T) {
	needRuns(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	churnbed(t, quick(dir, "--node-binary", program(t, "central"), "--requests", "12")...).want(t, 0)
	if s := summary(t, dir); s.Requests.Served != 12 || s.Safety.Violations != 0 || s.Logs.Errors != 0 {
		t.Errorf("%+v %+v %+v", s.Requests, s.Safety, s.Logs)
	}
}

// A wrapper around the node program is killed with it, and what it leaves
// behind does not hold up the run.
func TestWrappedNodeProgram(t *testing.T) {
	needRuns(t)
	t.Parallel()
	bin := ownProgram(t)
	script := filepath.Join(t.TempDir(), "wrapper")
	text := "#!/bin/sh\nsleep 1000 &\n" + filepath.Join(filepath.Dir(bin), "churnbed-node") + "\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	s := begin(t, bin, nil, quick(dir, append(medley(), "--node-binary", script, "--fault", "at 100ms crash node 2 for 200ms")...)...)
	s.end().want(t, 0)
	if s := summary(t, dir); s.Churn.Kills != 1 || s.Churn.Restarts != 1 {
		t.Errorf("%+v", s.Churn)
	}
	rejoined(t, dir, 2, 2048)
	nothingRemains(t, filepath.Dir(bin), dir, nil)
}

// A node that ends by itself is reported; the others go on and keep their
// logs.
func TestNodeEndsByItself(t *testing.T) {
	needRuns(t)
	t.Parallel()
	bin := ownProgram(t)
	dir := filepath.Join(t.TempDir(), "run")
	s := begin(t, bin, nil, quick(dir, append(medley(), "--duration", "2s")...)...)
	if !s.await("running") {
		t.Fatal(s.end())
	}
	for _, pid := range processes(t, bin+"-node") {
		if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && strings.Contains(string(env), "CHURNBED_NODE=3\x00") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := s.end()
	o.want(t, 1)
	if !strings.Contains(o.stderr, "node 3 ended by itself (signal: killed)") {
		t.Error(o)
	}
	for id := range 6 {
		if log := nodeEvents(t, dir, id); id != 3 && log[len(log)-1].Kind != eventlog.Stop {
			t.Errorf("node %d does not end with its last lines", id)
		}
	}
	if n := count(events(t, dir, results.ControllerFile), ofKind(eventlog.Exited)); n < 1 {
		t.Error("its end is not in the log")
	}
	summary(t, dir)
}
