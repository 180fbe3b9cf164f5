package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"churnbed/node/eventlog"
	"churnbed/results"
)

// The tests of real runs start the built programs as a user would. They are
// built once, with the race detector where the tests have it.

var (
	buildFlags []string
	buildDir   string
)

func TestMain(m *testing.M) {
	code := m.Run()
	if buildDir != "" {
		if err := os.RemoveAll(buildDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var built = sync.OnceValue(func() error {
	var err error
	// World-readable: an ordinary user runs it too.
	if buildDir, err = os.MkdirTemp("", "churnbed-live-*"); err != nil {
		return err
	}
	if err := os.Chmod(buildDir, 0o755); err != nil {
		return err
	}
	for _, p := range []string{".", "../../../node/cmd/churnbed-node", "./testdata/central"} {
		args := append([]string{"build", "-o", buildDir + "/"}, buildFlags...)
		if out, err := exec.Command("go", append(args, p)...).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", p, err, out)
		}
	}
	return nil
})

// program returns the path of a built program, for tests that need no run.
func program(t *testing.T, name string) string {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(buildDir, name)
}

var doctored = sync.OnceValues(func() (*diagnosis, error) {
	out, err := exec.Command(filepath.Join(buildDir, "churnbed"), "doctor", "--json").Output()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		return nil, err
	}
	d := new(diagnosis)
	return d, json.Unmarshal(out, d)
})

// needRuns skips a test where this host cannot carry out a run.
func needRuns(t *testing.T) {
	t.Helper()
	program(t, "churnbed")
	d, err := doctored()
	if err != nil {
		t.Fatal(err)
	}
	if !d.Possible {
		t.Skip("no run is possible here:", d.Why)
	}
}

// ownProgram returns churnbed at a path of this test's own, by which its
// processes can be told from those of other tests.
func ownProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"churnbed", "churnbed-node"} {
		if err := os.Link(program(t, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "churnbed")
}

// outcome is what a command left.
type outcome struct {
	code           int
	stdout, stderr string
}

func (o outcome) String() string {
	return fmt.Sprintf("exit code %d\n--- stdout\n%s--- stderr\n%s", o.code, o.stdout, o.stderr)
}

// session is a command under way.
type session struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    bytes.Buffer
	err    bytes.Buffer
	lines  chan string // of standard error
	reader sync.WaitGroup
}

// begin starts a churnbed command, which is killed at the test's end.
func begin(t *testing.T, path string, attr *syscall.SysProcAttr, args ...string) *session {
	t.Helper()
	s := &session{t: t, lines: make(chan string, 10_000)}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	s.cmd = exec.CommandContext(ctx, path, args...)
	s.cmd.Stdout, s.cmd.SysProcAttr = &s.out, attr
	s.cmd.Dir = filepath.Dir(path)
	if attr != nil && attr.Credential != nil {
		s.cmd.Env = []string{"PATH=/usr/bin:/bin"}
		s.cmd.Dir = "/"
	} else {
		s.cmd.Env = os.Environ()
	}
	// Or every process waits a second for the reports of others.
	s.cmd.Env = append(s.cmd.Env, "GORACE=atexit_sleep_ms=0")
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.reader.Go(func() {
		defer close(s.lines)
		scan := bufio.NewScanner(pipe)
		for scan.Scan() {
			s.err.WriteString(scan.Text() + "\n")
			s.lines <- scan.Text()
		}
	})
	return s
}

// await waits until a line of standard error begins so.
func (s *session) await(prefix string) bool {
	for line := range s.lines {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// end waits for the command.
func (s *session) end() outcome {
	s.t.Helper()
	s.reader.Wait()
	err := s.cmd.Wait()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		s.t.Fatal(err)
	}
	o := outcome{s.cmd.ProcessState.ExitCode(), s.out.String(), s.err.String()}
	if strings.Contains(o.stderr, "DATA RACE") {
		s.t.Error(o.stderr)
	}
	return o
}

// churnbed runs a command to its end.
func churnbed(t *testing.T, args ...string) outcome {
	t.Helper()
	return begin(t, program(t, "churnbed"), nil, args...).end()
}

// want checks the exit code.
func (o outcome) want(t *testing.T, code int) {
	t.Helper()
	if o.code != code {
		t.Fatalf("want exit code %d, got %v", code, o)
	}
}

// quick are the arguments of a run that is over soon. What is given in more
// takes the place of its own flags; only fault may be repeated.
func quick(dir string, more ...string) []string {
	args, given := []string{"run"}, map[string]bool{}
	for i := 0; i+1 < len(more); i += 2 {
		given[more[i]] = true
	}
	own := []string{
		"--out", dir, "--topology", "line", "--nodes", "6", "--link-delay", "1ms", "--membership", "static",
		"--requests", "6", "--mean", "50ms", "--cs", "20ms", "--warmup", "200ms", "--drain", "20s", "--seed", "5",
	}
	for i := 0; i < len(own); i += 2 {
		if !given[own[i]] {
			args = append(args, own[i:i+2]...)
		}
	}
	return append(args, more...)
}

// medley are flags of a membership service in a hurry.
func medley() []string {
	return []string{
		"--membership", "medley", "--membership-period", "300ms", "--membership-ping-timeout", "120ms", "--membership-suspicion", "1500ms",
	}
}

// summary reads summary.json, which must keep its schema.
func summary(t *testing.T, dir string) *results.Summary {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, results.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(results.SummarySchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("summary.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("summary.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(doc); err != nil {
		t.Error(err)
	}
	s, err := results.ReadSummary(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// events reads one log of a run.
func events(t *testing.T, dir, name string) []eventlog.Event {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var list []eventlog.Event
	r := eventlog.NewReader(name, f)
	for r.Scan() {
		list = append(list, r.Event())
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func nodeEvents(t *testing.T, dir string, node int) []eventlog.Event {
	t.Helper()
	return events(t, dir, filepath.Join(results.NodesDir, fmt.Sprintf("%d.jsonl", node)))
}

// count counts the events that match.
func count(list []eventlog.Event, match func(*eventlog.Event) bool) int {
	n := 0
	for i := range list {
		if match(&list[i]) {
			n++
		}
	}
	return n
}

func ofKind(k eventlog.Kind) func(*eventlog.Event) bool {
	return func(e *eventlog.Event) bool { return e.Kind == k }
}

// namespaces lists the network namespaces that processes live in or hold open,
// but for the test's own.
func namespaces(t *testing.T, pids []int) map[string]bool {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, pid := range pids {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // it may have ended
		for _, link := range append(links, fmt.Sprintf("/proc/%d/ns/net", pid)) {
			if ns, err := os.Readlink(link); err == nil && strings.HasPrefix(ns, "net:") && ns != own {
				set[ns] = true
			}
		}
	}
	return set
}

// processes lists the processes whose program's path begins so.
func processes(t *testing.T, prefix string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for _, e := range entries {
		pid := 0
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil {
			continue
		}
		exe, err := os.Readlink("/proc/" + e.Name() + "/exe")
		if prefix == "" || err == nil && strings.HasPrefix(exe, prefix) {
			list = append(list, pid)
		}
	}
	return list
}

// remains says what is left of runs of the programs in bin into dir, whose
// processes had the namespaces held; "" for nothing.
func remains(t *testing.T, bin, dir string, held map[string]bool) string {
	t.Helper()
	if left := processes(t, bin+"/"); len(left) > 0 {
		return fmt.Sprintf("processes %v", left)
	}
	for ns := range namespaces(t, processes(t, "")) {
		if held[ns] {
			return "namespace " + ns
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(dir)) {
		return "a mount below " + dir
	}
	sockets := ""
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSocket != 0 {
			sockets = path
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if sockets != "" {
		return "socket " + sockets
	}
	return ""
}

// nothingRemains polls until nothing is left, for a while.
func nothingRemains(t *testing.T, bin, dir string, held map[string]bool) time.Duration {
	t.Helper()
	began, left := time.Now(), ""
	for time.Since(began) < 20*time.Second {
		if left = remains(t, bin, dir, held); left == "" {
			return time.Since(began)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("still there after %v: %s", time.Since(began), left)
	return 0
}

// hostView is what a run must not change.
func hostView(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	links, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		fmt.Fprintln(&b, "link", l.Name())
	}
	paths := []string{"/proc/net/route", "/proc/net/arp"}
	for _, pattern := range []string{
		"/proc/sys/net/core/*", "/proc/sys/net/ipv4/*", "/proc/sys/net/ipv4/conf/*/*", "/proc/sys/net/ipv4/neigh/default/*", "/proc/sys/net/ipv6/conf/*/disable_ipv6",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	slices.Sort(paths)
	for _, p := range paths {
		if text, err := os.ReadFile(p); err == nil { // some can only be written
			fmt.Fprintf(&b, "%s\n%s", p, text)
		}
	}
	return b.String()
}
