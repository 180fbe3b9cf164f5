// Package supervise is the inside of a sandbox: its first process, which
// wires the mesh, starts and signals node processes, and ends (and with it
// everything inside) when the controller goes. It holds no state of a
// protocol and decides nothing. gRPC serialises nothing; Server locks.
package supervise

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/sandbox"
)

// socketName is the controller's socket, seen from a node's directory.
const socketName = "control.sock"

// Main is the first process of a sandbox; it does not return.
func Main() {
	os.Exit(run())
}

func run() int {
	f := os.NewFile(3, "controller")
	unix.CloseOnExec(3)
	conn, err := net.FileConn(f)
	if err != nil {
		fmt.Fprintln(os.Stderr, "churnbed-sandbox: use controller's socket:", err)
		return 1
	}
	_ = f.Close()
	controller := conn.(*net.UnixConn)
	listener, err := settle(os.Getenv(sandbox.EnvDir))
	if err != nil {
		// The controller prints it.
		_, _ = controller.Write([]byte("E" + err.Error()))
		return 1
	}
	if err := hand(controller, listener); err != nil {
		fmt.Fprintln(os.Stderr, "churnbed-sandbox:", err)
		return 1
	}
	gone := make(chan struct{})
	server := grpc.NewServer(grpc.MaxRecvMsgSize(sandbox.MaxMessage), grpc.MaxSendMsgSize(sandbox.MaxMessage))
	supervisor := NewServer(os.Getenv(sandbox.EnvDir))
	controlpb.RegisterSupervisorServer(server, supervisor)
	controlpb.RegisterHandsServer(server, NewHands(supervisor))
	go func() {
		// Ends when the one connection has.
		_ = server.Serve(&single{conn: &watched{Conn: controller, gone: gone}, gone: gone})
	}()
	<-gone
	return 0
}

// settle makes the private surroundings: mounts that nobody else sees, the
// socket for the nodes, descriptors enough for many of them.
func settle(dir string) (*net.UnixListener, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("churnbed", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=16m,mode=0700"); err != nil {
		return nil, fmt.Errorf("mount private tmpfs: %w", err)
	}
	// Best effort: inside a container with parts of /proc hidden the kernel
	// refuses; then the host's view serves.
	_ = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if err := unix.Sethostname([]byte("churnbed")); err != nil {
		return nil, fmt.Errorf("name the sandbox: %w", err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) // preflight has checked what is needed
	}
	// The path of a unix socket is short; the run directory's may be long.
	if err := os.Chdir(dir); err != nil {
		return nil, fmt.Errorf("enter sandbox directory: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketName, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for nodes: %w", err)
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}

// hand gives the listener to the controller.
func hand(controller *net.UnixConn, l *net.UnixListener) error {
	f, err := l.File()
	if err != nil {
		return fmt.Errorf("hand over listener: %w", err)
	}
	_, _, err = controller.WriteMsgUnix([]byte("L"), unix.UnixRights(int(f.Fd())), nil)
	return errors.Join(err, f.Close(), l.Close())
}

// single is a listener with one connection.
type single struct {
	conn net.Conn
	gone chan struct{}
	once sync.Once
}

func (s *single) Accept() (net.Conn, error) {
	var c net.Conn
	s.once.Do(func() { c = s.conn })
	if c != nil {
		return c, nil
	}
	<-s.gone
	return nil, io.EOF
}

func (s *single) Close() error   { return nil }
func (s *single) Addr() net.Addr { return s.conn.LocalAddr() }

// watched closes gone when the connection ends.
type watched struct {
	net.Conn
	gone chan struct{}
	once sync.Once
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		w.once.Do(func() { close(w.gone) })
	}
	return n, err
}

func (w *watched) Close() error {
	w.once.Do(func() { close(w.gone) })
	return w.Conn.Close()
}

// logPath is the event log of a node in the run directory.
// statePath names the file of what a node keeps over a crash.
func statePath(runDir string, node uint32) string {
	return filepath.Join(runDir, "nodes", fmt.Sprintf("%d.state", node))
}

func logPath(runDir string, node uint32) string {
	return filepath.Join(runDir, "nodes", fmt.Sprintf("%d.jsonl", node))
}
