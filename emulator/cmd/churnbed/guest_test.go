//go:build guest

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"churnbed/results"
)

// These tests boot virtual hosts, which takes QEMU and, once, the network:
// scripts/test-netem runs them. CHURNBED_BIN is the folder of the two programs.

// transcript collects what a program says and lets others wait for a line.
type transcript struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *transcript) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (o *transcript) await(t *testing.T, text string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(o.String(), text) },
		func() string { return fmt.Sprintf("no %q in:\n%s", text, o.String()) })
}

// eventually waits for what takes seconds, on a loaded machine more.
func eventually(t *testing.T, ok func() bool, why func() string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(why())
		}
	}
}

// inGuest starts a run in a virtual host, with a temporary folder of its own.
func inGuest(t *testing.T, args ...string) (cmd *exec.Cmd, out *transcript, tmp string) {
	t.Helper()
	bin := os.Getenv("CHURNBED_BIN")
	if bin == "" {
		t.Fatal("CHURNBED_BIN names no folder with churnbed and churnbed-node")
	}
	tmp, out = t.TempDir(), &transcript{}
	cmd = exec.CommandContext(context.Background(), filepath.Join(bin, "churnbed"), append([]string{"run", "--virtual-host"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, out, tmp
}

// children lists the processes that pid has started.
func children(t *testing.T, pid int) []int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, list := range lists {
		b, _ := os.ReadFile(list) // a thread may have ended
		for _, f := range strings.Fields(string(b)) {
			id, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	return ids
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

func mustBeEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v, %v", dir, left, err)
	}
}

// long is a run that does not end while a test watches.
var long = []string{
	"--topology", "grid", "--nodes", "9", "--membership", "static", "--duration", "3h", "--mean", "5s",
	"--churn", "exponential", "--churn-up-mean", "60s", "--churn-down-mean", "5s",
}

// TestGuestRun runs a scenario with files in a virtual host and simulates the
// directory that came out.
func TestGuestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"mesh.txt":  "0,0\n3,0\n0,3\n3,3\n",
		"lists.txt": "0: *\n1: *\n2: *\n3: *\n",
		"s.yaml":    "topology-file: mesh.txt\nmembership: static:lists.txt\nrequests: 12\nfabric: auto\nseed: 3\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "runs", "one")
	cmd, said, tmp := inGuest(t, filepath.Join(dir, "s.yaml"), "--out", out, "--json")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	mustBeEmpty(t, tmp)
	run, err := results.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	if v := run.Manifest.VirtualHost; v == nil || v.QEMU == "" || v.Kernel == "" || v.MemoryMiB == 0 || v.GuestMS <= 0 || run.Manifest.Fabric != "netem" {
		t.Errorf("manifest %+v, virtual host %+v", run.Manifest, v)
	}
	s, err := results.Summarise(run)
	if err != nil {
		t.Fatal(err)
	}
	if s.Requests.Served != 12 || s.Verdict != results.VerdictOK || s.Fidelity.Verdict != results.Faithful {
		t.Errorf("served %d, verdict %s, fidelity %s (%s)", s.Requests.Served, s.Verdict, s.Fidelity.Verdict, s.Fidelity.Reason)
	}
	var printed results.Summary
	if _, text, found := strings.Cut(said.String(), "\n{"); !found || json.Unmarshal([]byte("{"+text), &printed) != nil {
		t.Errorf("no summary in:\n%s", said)
	}
	if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) != 1 {
		t.Errorf("beside the run directory: %v, %v", entries, err)
	}
	// Its scenario names files of this host.
	sim := exec.Command(cmd.Path, "sim", filepath.Join(out, results.ScenarioFile), "--out", filepath.Join(dir, "sim"))
	if b, err := sim.CombinedOutput(); err != nil {
		t.Errorf("simulate it: %v\n%s", err, b)
	}
}

// TestGuestInterrupted: the first interrupt ends the run inside in order, and
// what it has shown is brought out and judged.
func TestGuestInterrupted(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	cmd, said, tmp := inGuest(t, append(slices.Clone(long), "--out", out)...)
	said.await(t, "guest: running")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d\n%s", code, exitInterrupted, said)
	}
	run, err := results.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	if !run.Manifest.Interrupted || !exists(run.Path(results.SummaryFile)) {
		t.Errorf("manifest %+v", run.Manifest)
	}
	mustBeEmpty(t, tmp)
}

// TestGuestKilled: a killed command leaves no machine, no image and no part
// of a run directory; neither does a second interrupt.
func TestGuestKilled(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *exec.Cmd, *transcript){
		"killed": func(t *testing.T, cmd *exec.Cmd, _ *transcript) {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		},
		"interrupted twice": func(t *testing.T, cmd *exec.Cmd, said *transcript) {
			// A stopped machine cannot answer the first.
			for _, pid := range children(t, cmd.Process.Pid) {
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
				said.await(t, "ending the run in order")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			cmd, said, tmp := inGuest(t, append(slices.Clone(long), "--out", filepath.Join(parent, "run"))...)
			said.await(t, "guest: running")
			machines := children(t, cmd.Process.Pid)
			if len(machines) != 1 {
				t.Fatalf("the command has the children %v, want one machine", machines)
			}
			end(t, cmd, said)
			_ = cmd.Wait()
			eventually(t, func() bool { return gone(machines[0]) }, func() string { return fmt.Sprintf("the machine %d lives on", machines[0]) })
			mustBeEmpty(t, tmp)
			mustBeEmpty(t, parent)
		})
	}
}

// TestGuestHasNoMemory: a machine that is too small ends the run with the
// host's exit code, and with words.
func TestGuestHasNoMemory(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	cmd, said, _ := inGuest(t, "--nodes", "400", "--virtual-host-memory", "600", "--out", out)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitHost || !strings.Contains(said.String(), "memory") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if exists(out) {
		t.Error("there is a run directory")
	}
}
