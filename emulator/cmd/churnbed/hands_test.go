package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/gopacket/gopacket/pcapgo"

	"churnbed/emulator/live"
	"churnbed/node/eventlog"
	"churnbed/results"
)

// liveRun starts a run that lasts until it is interrupted, and waits until it
// takes actions.
func liveRun(t *testing.T, more ...string) (s *session, dir string) {
	t.Helper()
	needRuns(t)
	// The name of the run: no other test's is the same.
	dir = filepath.Join(t.TempDir(), strings.ReplaceAll(t.Name(), "/", "-"))
	s = begin(t, program(t, "churnbed"), nil, quick(dir, append([]string{
		"--requests", "0", "--duration", "10m", "--mean", "150ms", "--algorithm", "ra", "--membership", "oracle",
	}, more...)...)...)
	if !s.await("running") {
		t.Fatal(s.end())
	}
	return s, dir
}

// hand runs a verb on the run of a directory.
func hand(t *testing.T, dir, verb string, args ...string) outcome {
	t.Helper()
	return churnbed(t, append([]string{verb, "--run", filepath.Base(dir)}, args...)...)
}

// interrupt ends a run in order.
func interrupt(t *testing.T, s *session) {
	t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	s.end().want(t, exitInterrupted)
}

// node returns what ps says of a node.
func psNode(t *testing.T, dir string, id int) live.Node {
	t.Helper()
	o := hand(t, dir, "ps", "--json")
	o.want(t, 0)
	var views []live.View
	if err := json.Unmarshal([]byte(o.stdout), &views); err != nil || len(views) != 1 {
		t.Fatalf("%v: %v", err, o)
	}
	return views[0].Nodes[id]
}

// becomes polls until something is so, for a while.
func becomes(t *testing.T, so func() bool, what string) {
	t.Helper()
	for began := time.Now(); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("not within a minute: ", what)
		}
	}
}

func TestHands(t *testing.T) {
	s, dir := liveRun(t)
	for _, step := range [][]string{
		{"kill", "3"},
		{"restart", "3"},
		{"restart", "3"},
		{"pause", "1"},
		{"resume", "1"},
		{"kill", "4,5", "--for", "200ms"},
		{"link", "2", "3", "down", "--for", "300ms"},
		{"link", "0-1", "delay=3ms", "loss=1%"},
		{"link", "0", "1", "--one-way", "jitter=1ms"},
		{"partition", "0-2", "3-5", "--for", "200ms"},
		{"heal"},
		{"inject", "pause holder for 100ms"},
	} {
		hand(t, dir, step[0], step[1:]...).want(t, 0)
	}
	hand(t, dir, "kill", "2").want(t, 0)
	if n := psNode(t, dir, 2); n.State != live.Down {
		t.Errorf("a killed node is %+v", n)
	}
	for _, wrong := range []struct{ want, verb, arg string }{
		{"churnbed restart", "kill", "2"},
		{"0..5", "kill", "17"},
		{"not paused", "resume", "0"},
		{"does not join", "link", "0-5 down"},
		{"which node", "kill", ""},
		{"crash, poweroff", "inject", "explode"},
		{"ends here", "partition", "0-2|"},
	} {
		o := hand(t, dir, wrong.verb, strings.Fields(wrong.arg)...)
		if o.code != exitUsage || !strings.Contains(o.stderr, wrong.want) {
			t.Errorf("%s %s: want %q, got %v", wrong.verb, wrong.arg, wrong.want, o)
		}
	}
	hand(t, dir, "restart", "2").want(t, 0)
	if n := psNode(t, dir, 3); n.Life != 3 {
		t.Errorf("a node that was restarted twice is %+v", n)
	}
	// What was to be undone is; else it would be in doubt whether it is replayed.
	becomes(t, func() bool {
		return psNode(t, dir, 4).Life == 2 && psNode(t, dir, 5).Life == 2
	}, "nodes 4 and 5 start again")
	interrupt(t, s)
	log := events(t, dir, results.ControllerFile)
	var rules []string
	for i := range log {
		e := &log[i]
		if e.Kind == eventlog.Fault {
			if e.Origin != eventlog.Live || e.After < e.T {
				t.Errorf("fault %+v", e)
			}
			rules = append(rules, e.Text)
		}
	}
	if len(rules) != 15 || rules[0] != "crash nodes 3" || rules[6] != "crash nodes 4-5 restart after 200ms" && rules[6] != "crash nodes 4,5 restart after 200ms" {
		t.Errorf("%d actions: %q", len(rules), rules)
	}
	if n := count(log, func(e *eventlog.Event) bool { return e.Kind == eventlog.Kill && e.Origin == eventlog.Live }); n != 5 {
		t.Errorf("%d kills by hand", n)
	}
	if sum := summary(t, dir); sum.LiveActions != len(rules) || sum.Churn.Kills != 5 {
		t.Errorf("summary: %d live actions, %+v", sum.LiveActions, sum.Churn)
	}
	// The same again, as a scenario. Whether it is safe hangs on the instants of
	// the kills: ra forgets whom it let in.
	replay := filepath.Join(t.TempDir(), "replay.yaml")
	churnbed(t, "scenario", "from-run", dir, "-o", replay).want(t, 0)
	again := filepath.Join(t.TempDir(), "again")
	if o := churnbed(t, "sim", replay, "--quiet", "--set", "duration=5s", "--out", again); o.code != 0 && o.code != exitCheckFailed {
		t.Fatal(o)
	}
	if sum := summary(t, again); sum.Churn.Kills != 5 || sum.Churn.Pauses != 2 || sum.LiveActions != 0 {
		t.Errorf("replayed: %+v", sum.Churn)
	}
	if o := hand(t, dir, "kill", "1"); o.code != exitUsage || !strings.Contains(o.stderr, "no live run") {
		t.Errorf("after the end: %v", o)
	}
}

func TestExecAndShell(t *testing.T) {
	s, dir := liveRun(t)
	run := func(stdin string, args ...string) outcome {
		cmd := exec.Command(program(t, "churnbed"), append([]string{"exec", "--run", filepath.Base(dir)}, args...)...)
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
		_ = cmd.Run()
		return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	}
	big := strings.Repeat("0123456789abcdef\n", 20_000)
	if o := run(big, "3", "--", "sh", "-c", `echo "$CHURNBED_NODE $CHURNBED_ADDRESS"; cat; echo oops >&2; exit 7`); o.code != 7 ||
		o.stdout != "3 10.77.0.3\n"+big || o.stderr != "oops\n" {
		t.Errorf("code %d, %d bytes out, stderr %q", o.code, len(o.stdout), o.stderr)
	}
	if o := run("", "2", "cat", "/proc/net/dev"); o.code != 0 || !strings.Contains(o.stdout, "n1:") || !strings.Contains(o.stdout, "n3:") || strings.Contains(o.stdout, "eth0") {
		t.Errorf("node 2's links: %v", o)
	}
	if o := run("", "2", "--", "sh", "-c", "kill -9 $$"); o.code != 128+9 {
		t.Errorf("killed by a signal: %v", o)
	}
	behind := exec.Command(program(t, "churnbed"), "exec", "2", "--run", filepath.Base(dir), "--", "sh", "-c", "exit 9")
	if _ = behind.Run(); behind.ProcessState.ExitCode() != 9 {
		t.Errorf("flags behind the node: exit code %d, want 9", behind.ProcessState.ExitCode())
	}
	if o := run("", "2", "--tty", "true"); o.code != exitUsage || !strings.Contains(o.stderr, "before the program") {
		t.Errorf("a flag for a program: %v", o)
	}
	if o := churnbed(t, "ps", "a", "--run", "b"); o.code != exitUsage {
		t.Errorf("two names: %v", o)
	}
	if o := run("", "2", "--", "no-such-program"); o.code != exitExecNotFound || !strings.Contains(o.stderr, "no-such-program") {
		t.Errorf("no such program: %v", o)
	}
	if o := run("", "9", "--", "true"); o.code != exitExecNotFound || !strings.Contains(o.stderr, "0..5") {
		t.Errorf("no such node: %v", o)
	}
	// A shell, on a terminal of ours.
	cmd := exec.Command(program(t, "churnbed"), "shell", "--run", filepath.Base(dir), "4")
	cmd.Env = append(os.Environ(), "SHELL=/bin/sh", "PS1=$ ")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 101})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tty.Close() }()
	if _, err := io.WriteString(tty, "stty size; echo node-$CHURNBED_NODE-; exit 5\n"); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(tty) // ends with EIO
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 5 || !bytes.Contains(said, []byte("33 101")) || !bytes.Contains(said, []byte("node-4-")) {
		t.Errorf("shell: exit code %d, said %q", cmd.ProcessState.ExitCode(), said)
	}
	// What runs in the sandbox ends with it.
	long := begin(t, program(t, "churnbed"), nil, "exec", "--run", filepath.Base(dir), "1", "--", "sleep", "1000")
	becomes(t, func() bool {
		return count(events(t, dir, results.ControllerFile), func(e *eventlog.Event) bool { return e.Text == "node 1 sleep 1000" }) == 1
	}, "the program is logged")
	interrupt(t, s)
	if o := long.end(); o.code != exitExecFailed {
		t.Errorf("a program of a run that ended: %v", o)
	}
}

func TestPcap(t *testing.T) {
	s, dir := liveRun(t)
	file := filepath.Join(t.TempDir(), "node.pcapng")
	hand(t, dir, "pcap", "2", "-o", file, "--count", "30").want(t, 0)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := pcapgo.NewNgReader(f, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		t.Fatal(err)
	}
	links, frames := map[string]int{}, 0
	for ; ; frames++ {
		data, ci, err := r.ReadPacketData()
		if err != nil {
			break
		}
		i, err := r.Interface(ci.InterfaceIndex)
		if err != nil || len(data) < 42 || time.Since(ci.Timestamp).Abs() > 10*time.Minute {
			t.Errorf("frame %+v, %v", ci, err)
		}
		links[i.Name]++
	}
	if frames != 30 || links["n1"] == 0 || links["n3"] == 0 {
		t.Errorf("%d frames, by link %v", frames, links)
	}
	// One link, to standard output; tshark reads it where it is there.
	o := hand(t, dir, "pcap", "2-3", "--count", "10")
	o.want(t, 0)
	if tshark, err := exec.LookPath("tshark"); err == nil {
		cmd := exec.Command(tshark, "-r", "-", "-T", "fields", "-e", "udp.dstport", "-e", "frame.interface_name")
		cmd.Stdin = strings.NewReader(o.stdout)
		out, err := cmd.Output()
		if err != nil || len(strings.Fields(string(out))) != 20 || strings.Count(string(out), "n3") != 10 {
			t.Errorf("tshark: %v\n%s", err, out)
		}
	}
	if o := hand(t, dir, "pcap", "2-5"); o.code != exitUsage || !strings.Contains(o.stderr, "no link to 5") {
		t.Errorf("no such link: %v", o)
	}
	interrupt(t, s)
}

// Two runs are told apart by name, and a run whose controller is killed is
// gone from the list.
func TestSeveralLiveRuns(t *testing.T) {
	first, dir := liveRun(t)
	second := begin(t, program(t, "churnbed"), nil, quick(dir+"-b", "--requests", "0", "--duration", "10m", "--algorithm", "ra")...)
	if !second.await("running") {
		t.Fatal(second.end())
	}
	if o := churnbed(t, "heal"); o.code != exitUsage || !strings.Contains(o.stderr, filepath.Base(dir)+"-b (pid") || !strings.Contains(o.stderr, "--run") {
		t.Errorf("without a name: %v", o)
	}
	hand(t, dir+"-b", "kill", "1").want(t, 0)
	if a, b := psNode(t, dir, 1), psNode(t, dir+"-b", 1); a.State == live.Down || b.State != live.Down {
		t.Errorf("node 1 of the two runs: %+v, %+v", a, b)
	}
	_ = second.cmd.Process.Kill()
	_ = second.end()
	runs, err := live.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.Name == filepath.Base(dir)+"-b" {
			t.Errorf("a killed run is still listed: %+v", r)
		}
	}
	interrupt(t, first)
}

// The page shows a run and takes actions; top prints it.
func TestLivePage(t *testing.T) {
	for _, wrong := range []string{"0.0.0.0:0", ":8080", "example.org:80"} {
		if o := churnbed(t, "run", "--live", wrong); o.code != exitUsage || !strings.Contains(o.stderr, "loopback") {
			t.Errorf("--live %s: %v", wrong, o)
		}
	}
	s, dir := liveRun(t, "--live", "0")
	o := hand(t, dir, "ps")
	o.want(t, 0)
	_, url, ok := strings.Cut(s.err.String(), "live page: ")
	if !ok {
		t.Fatal("no address is printed")
	}
	url, _, _ = strings.Cut(url, "\n")
	res, err := http.Get(url + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	watched := begin(t, program(t, "churnbed"), nil, "top", "--run", filepath.Base(dir), "--every", "100ms")
	post, err := http.NewRequest(http.MethodPost, url+"act", strings.NewReader(`{"action":"crash node 5"}`))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Origin", strings.Join(strings.SplitN(url, "/", 4)[:3], "/"))
	answer, err := http.DefaultClient.Do(post)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("POST: %v, %v", answer, err)
	}
	_ = answer.Body.Close()
	var v live.View
	entered, over := 0, false
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() == "event: over" {
			over = true
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || over {
			continue
		}
		var d live.View
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			t.Fatal(err)
		}
		v.Merge(&d)
		if n := v.Nodes[0].Entries; n > entered && v.Nodes[5].State == live.Down && v.Figures.MembersMin == 5 {
			if entered = n; n >= 2 {
				_ = s.cmd.Process.Signal(os.Interrupt)
				entered = 1 << 30
			}
		}
	}
	if !over || v.Figures.Kills != 1 || len(v.Links) != 5 {
		t.Errorf("over %v, the last view: %+v", over, v)
	}
	s.end().want(t, exitInterrupted)
	top := watched.end()
	if top.code != 0 || !strings.Contains(top.stdout, "crash node 5") || !strings.Contains(top.stdout, "the run has ended") {
		t.Errorf("top: %v", top)
	}
}
