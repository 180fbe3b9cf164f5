package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/fabric"
	"churnbed/emulator/kernel"
	"churnbed/emulator/link"
	"churnbed/emulator/sandbox"
	"churnbed/emulator/supervise"
	"churnbed/node/core"
)

// The test's own program is also the first process of its sandboxes.
func TestMain(m *testing.M) {
	if os.Args[0] == sandbox.Argv0 {
		supervise.Main()
	}
	os.Exit(m.Run())
}

func start(t *testing.T, dir string) *sandbox.Sandbox {
	t.Helper()
	caps := kernel.Probe(t.Context())
	for _, name := range []string{kernel.CapNamespaces, kernel.CapNetAdmin, kernel.CapVeth, kernel.CapPacket} {
		if err := kernel.Find(caps, name).Err(); err != nil {
			t.Skip("no sandbox is possible here:", err)
		}
	}
	s, err := sandbox.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// empty checks that a sandbox left nothing in its directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left in its directory: %v, %v", entries, err)
	}
}

func ended(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the sandbox has not ended")
	}
	if err := syscall.Kill(s.PID(), 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("its first process is still there: %v", err)
	}
}

func build(t *testing.T, s *sandbox.Sandbox, p supervise.Plan) error {
	t.Helper()
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := s.Supervisor.Build(t.Context(), &controlpb.BuildRequest{Plan: b})
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}

// pair is a mesh of two nodes.
func pair(runDir, program string) supervise.Plan {
	return supervise.Plan{
		Nodes: 2, Kind: fabric.KindRelay, Seed: 1, NodeBinary: program, RunDir: runDir,
		Links: []fabric.LinkSpec{{A: 0, B: 1, AB: link.Params{Delay: time.Millisecond}, BA: link.Params{Delay: time.Millisecond}}},
		Next:  []core.NodeID{core.None, 1, 0, core.None},
	}
}

func TestNamespacesAreItsOwn(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	for _, ns := range []string{"net", "mnt", "pid", "uts", "ipc"} {
		own, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", s.PID(), ns))
		if err != nil {
			t.Skip("namespaces of a child cannot be read here:", err)
		}
		if own == its {
			t.Errorf("%s namespace is the host's", ns)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("its mount is seen outside (%v)", err)
	}
	empty(t, filepath.Join(dir, ".sandbox")) // the socket is on the private mount
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error("second Close:", err)
	}
	ended(t, s)
	empty(t, dir)
	if _, err := s.Listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("its listener: %v", err)
	}
}

func TestStartLeavesNothingWhereItFails(t *testing.T) {
	if _, err := sandbox.Start(t.Context(), filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("started in a directory that is not there")
	}
	start(t, t.TempDir()) // skips where there are none
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sandbox.Start(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("started although canceled: %v", err)
	}
	empty(t, dir)
}

func TestFirstProcessDies(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(t, s)
	if _, err := s.Supervisor.Measure(t.Context(), &controlpb.MeasureRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a call to it: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	empty(t, dir)
}

func TestSupervisorRefuses(t *testing.T) {
	s := start(t, t.TempDir())
	ctx, sup := t.Context(), s.Supervisor
	refused := func(what string, err error, code codes.Code) {
		t.Helper()
		if status.Code(err) != code {
			t.Errorf("%s: %v, want %v", what, err, code)
		}
	}
	_, err := sup.Start(ctx, &controlpb.StartRequest{Node: 0})
	refused("start without a mesh", err, codes.FailedPrecondition)
	_, err = sup.SetLinks(ctx, &controlpb.SetLinksRequest{})
	refused("set links without a mesh", err, codes.FailedPrecondition)
	_, err = sup.Measure(ctx, &controlpb.MeasureRequest{})
	refused("measure without a mesh", err, codes.FailedPrecondition)
	bad := pair("/", "/bin/true")
	bad.Links[0].B = 7
	refused("link to nowhere", build(t, s, bad), codes.Internal)

	runDir := t.TempDir()
	if err := os.Mkdir(filepath.Join(runDir, "nodes"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(runDir, "program")
	text := "#!/bin/sh\necho node $CHURNBED_NODE life $CHURNBED_INCARNATION >&2\necho '{}' >&3\nsleep 1000 &\n[ $CHURNBED_NODE = 1 ] && exit 7\nwait\n"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := build(t, s, pair(runDir, program)); status.Code(err) != codes.Unknown || err.Error() != "EOF" {
		t.Fatal("build after a failed one:", err)
	}
	refused("second mesh", build(t, s, pair(runDir, program)), codes.FailedPrecondition)
	_, err = sup.Start(ctx, &controlpb.StartRequest{Node: 2})
	refused("start node 2 of 2", err, codes.FailedPrecondition)
	_, err = sup.SetLinks(ctx, &controlpb.SetLinksRequest{Changes: []*controlpb.SetLinksRequest_LinkChange{{Link: 1}}})
	refused("set link 1 of 1", err, codes.InvalidArgument)
	if r, err := sup.Signal(ctx, &controlpb.SignalRequest{Node: 0, Signal: int32(syscall.SIGKILL)}); err != nil || !r.GetGone() {
		t.Errorf("signal to a node that never ran: %v, %v", r, err)
	}

	exits, err := sup.Exits(ctx, &controlpb.ExitsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for node := range uint32(2) {
		if _, err := sup.Start(ctx, &controlpb.StartRequest{Node: node, Incarnation: 1024}); err != nil {
			t.Fatal(err)
		}
	}
	// Node 1 ends by itself and leaves a child with its standard error behind.
	e, err := exits.Recv()
	if err != nil || e.GetNode() != 1 || e.GetIncarnation() != 1024 || e.GetStatus() != "exit status 7" || e.GetStderr() != "node 1 life 1024\n" {
		t.Errorf("exit %v, %v", e, err)
	}
	_, err = sup.Start(ctx, &controlpb.StartRequest{Node: 0, Incarnation: 2048})
	refused("start what runs", err, codes.FailedPrecondition)
	// Node 0 is killed with its children, and may start again.
	if r, err := sup.Signal(ctx, &controlpb.SignalRequest{Node: 0, Signal: int32(syscall.SIGKILL)}); err != nil || r.GetGone() || r.GetAfter() < r.GetBefore() {
		t.Errorf("kill: %v, %v", r, err)
	}
	if e, err := exits.Recv(); err != nil || e.GetNode() != 0 || e.GetStatus() != "signal: killed" {
		t.Errorf("exit %v, %v", e, err)
	}
	if _, err := sup.Start(ctx, &controlpb.StartRequest{Node: 0, Incarnation: 2048}); err != nil {
		t.Error(err)
	}
}
