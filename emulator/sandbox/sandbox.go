// Package sandbox makes the private set of namespaces (user when not root,
// pid, net, mount, uts, ipc) that holds everything of one run, and is the
// controller's handle on it. Inside runs emulator/supervise as process 1; when
// it dies, the kernel kills every node and frees every namespace and link.
// That is the whole clean-up. It dies
//
//   - when Close is called,
//   - when the controller's end of the socket pair closes, however that
//     happens,
//   - by the parent-death signal, should the controller be killed before the
//     first process has begun to watch the socket.
package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"churnbed/emulator/controlpb"
)

// Argv0 is how the first process is called; main of the controller's program
// hands over to supervise.Main when it is started under this name.
const Argv0 = "churnbed-sandbox"

// Environment of the first process.
const (
	EnvDir = "CHURNBED_SANDBOX_DIR" // an empty directory to mount a private tmpfs on
	EnvFD  = "3"                    // the socket pair's end is descriptor 3
)

// MaxMessage bounds gRPC messages between controller and supervisor: the
// next-hop table of 4,096 nodes.
const MaxMessage = 80 << 20

// Sandbox is a running sandbox.
type Sandbox struct {
	// Supervisor drives the first process.
	Supervisor controlpb.SupervisorClient
	// Hands reaches into the nodes' namespaces.
	Hands controlpb.HandsClient
	// Listener accepts the node processes' connections. Its socket file lies
	// on a file system that only the sandbox sees.
	Listener net.Listener

	dir    string
	conn   *grpc.ClientConn
	socket net.Conn
	cmd    *exec.Cmd
	done   chan struct{}
	err    error
	close  sync.Once
}

// Rootless reports whether sandboxes of this process need a user namespace:
// whether it lacks CAP_SYS_ADMIN, as ordinary users do, and root in most
// containers.
func Rootless() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return os.Geteuid() != 0
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0
}

// Start makes a sandbox. dir is a directory for its mount point, which must
// be on a file system that the caller may write to.
func Start(ctx context.Context, dir string) (_ *Sandbox, err error) {
	mount := filepath.Join(dir, ".sandbox")
	if err := os.Mkdir(mount, 0o700); err != nil {
		return nil, fmt.Errorf("create mount point of the sandbox: %w", err)
	}
	s := &Sandbox{dir: mount, done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	ours, theirs, err := socketPair()
	if err != nil {
		return s, err
	}
	defer func() { _ = theirs.Close() }()
	s.socket = ours
	if err := s.launch(theirs); err != nil {
		return s, err
	}
	_ = theirs.Close()
	if err := s.accept(ctx, ours); err != nil {
		return s, err
	}
	conn, err := grpc.NewClient("passthrough:sandbox",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(onlyOnce(ours)),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(MaxMessage), grpc.MaxCallRecvMsgSize(MaxMessage)))
	if err != nil {
		return s, fmt.Errorf("connect to the sandbox: %w", err)
	}
	s.conn, s.Supervisor, s.Hands = conn, controlpb.NewSupervisorClient(conn), controlpb.NewHandsClient(conn)
	return s, nil
}

// launch starts the first process from a thread that lives as long as the
// sandbox: the parent-death signal is sent when the thread that forked ends.
func (s *Sandbox) launch(theirs *os.File) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	flags := unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if Rootless() {
		flags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	attr.Cloneflags = uintptr(flags)
	s.cmd = &exec.Cmd{
		Path: exe, Args: []string{Argv0}, Stderr: os.Stderr, ExtraFiles: []*os.File{theirs}, SysProcAttr: attr,
		Env: append(os.Environ(), EnvDir+"="+s.dir),
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(s.done)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.err = s.cmd.Wait()
		}
		runtime.UnlockOSThread()
	}()
	if err := <-started; err != nil {
		s.cmd = nil
		return fmt.Errorf("create sandbox namespaces: %w (churnbed doctor says what is missing)", err)
	}
	return nil
}

// accept takes the listener that the first process made inside.
func (s *Sandbox) accept(ctx context.Context, conn *net.UnixConn) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(30 * time.Second)
	}
	_ = conn.SetReadDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	note := make([]byte, 4096)
	rights := make([]byte, unix.CmsgSpace(4))
	n, rn, _, _, err := conn.ReadMsgUnix(note, rights)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("wait for the sandbox: %w", ctx.Err())
	case errors.Is(err, io.EOF):
		return errors.New("wait for the sandbox: its first process ended")
	case err != nil:
		return fmt.Errorf("wait for the sandbox: %w", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	if note[0] != 'L' {
		return fmt.Errorf("set up the sandbox: %s", bytes.TrimPrefix(note[:n], []byte("E")))
	}
	f, err := passed(rights[:rn])
	if err != nil {
		return fmt.Errorf("take the sandbox's listener: %w", err)
	}
	defer func() { _ = f.Close() }()
	listener, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("take the sandbox's listener: %w", err)
	}
	if l, ok := listener.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(false) // its path means nothing out here
	}
	s.Listener = listener
	return nil
}

// passed takes the one descriptor out of a control message.
func passed(rights []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("%d control messages, want 1", len(messages))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		return nil, fmt.Errorf("%d descriptors, want 1", len(fds))
	}
	return os.NewFile(uintptr(fds[0]), "control.sock"), nil
}

// Done is closed when the sandbox has ended.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// PID is the first process as the host sees it.
func (s *Sandbox) PID() int { return s.cmd.Process.Pid }

// Close ends everything inside and waits until its processes are gone.
func (s *Sandbox) Close() error {
	var errs []error
	s.close.Do(func() {
		if s.conn != nil {
			errs = append(errs, s.conn.Close())
		}
		if s.socket != nil {
			_ = s.socket.Close() // gRPC may have closed it already
		}
		if s.cmd != nil {
			_ = s.cmd.Process.Kill() // it may have ended already
			<-s.done
		}
		if s.Listener != nil {
			_ = s.Listener.Close() // the gRPC server may have closed it already
		}
		errs = append(errs, os.Remove(s.dir))
	})
	return errors.Join(errs...)
}

func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("create socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "controller")
	defer func() { _ = ours.Close() }()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("use socket pair: %w", err), theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil
}

// onlyOnce dials by handing out the one connection there is.
func onlyOnce(conn net.Conn) func(context.Context, string) (net.Conn, error) {
	taken := make(chan net.Conn, 1)
	taken <- conn
	return func(context.Context, string) (net.Conn, error) {
		select {
		case c := <-taken:
			return c, nil
		default:
			return nil, errors.New("the sandbox has gone")
		}
	}
}
