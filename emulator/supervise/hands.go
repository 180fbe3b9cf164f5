package supervise

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/fabric"
	"churnbed/emulator/netns"
	"churnbed/node/core"
)

// Hands implements controlpb.HandsServer: people's hands on a node of a live
// run.
type Hands struct {
	controlpb.UnimplementedHandsServer
	s *Server
}

// NewHands returns the service for the nodes of s.
func NewHands(s *Server) *Hands { return &Hands{s: s} }

// namespace returns that of a node.
func (h *Hands) namespace(node uint32) (*netns.Handle, error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	switch {
	case h.s.fabric == nil:
		return nil, status.Error(codes.FailedPrecondition, "the mesh does not stand yet")
	case int(node) >= h.s.plan.Nodes:
		return nil, status.Errorf(codes.NotFound, "no node %d: there are 0..%d", node, h.s.plan.Nodes-1)
	}
	return h.s.fabric.Namespace(core.NodeID(node)), nil
}

// Exec implements controlpb.HandsServer. The program's process group ends
// with the call.
func (h *Hands) Exec(stream grpc.BidiStreamingServer[controlpb.ExecInput, controlpb.ExecOutput]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil || len(start.GetArgv()) == 0 {
		return status.Error(codes.InvalidArgument, "the first message must be Start with a program")
	}
	ns, err := h.namespace(start.GetNode())
	if err != nil {
		return err
	}
	cmd := exec.Command(start.GetArgv()[0], start.GetArgv()[1:]...) //nolint:gosec // the point of it
	if cmd.Err != nil {
		return status.Error(codes.NotFound, cmd.Err.Error())
	}
	cmd.Env = append(surroundings(), start.GetEnv()...)
	cmd.Env = append(cmd.Env, fmt.Sprintf("CHURNBED_NODE=%d", start.GetNode()),
		"CHURNBED_ADDRESS="+fabric.Addr(core.NodeID(start.GetNode())).String())
	if st, err := os.Stat(start.GetDir()); err == nil && st.IsDir() {
		cmd.Dir = start.GetDir()
	} else {
		cmd.Dir = "/"
	}
	p := &program{cmd: cmd, stream: stream}
	if start.GetTty() {
		err = p.startOnTerminal(ns, start.GetSize())
	} else {
		err = p.start(ns)
	}
	if err != nil {
		code := codes.Internal
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			code = codes.NotFound
		}
		return status.Errorf(code, "start %s: %v", start.GetArgv()[0], err)
	}
	// Whoever asked may go, or the run may end, before the program does.
	stop := context.AfterFunc(stream.Context(), func() { p.signal(syscall.SIGKILL) })
	defer stop()
	go p.listen() // ends with the stream, which ends with this call
	return p.wait()
}

// surroundings is the user's environment without what concerns the sandbox.
func surroundings() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CHURNBED_") {
			env = append(env, v)
		}
	}
	return env
}

// program is a program that somebody runs in a node's namespaces.
type program struct {
	cmd      *exec.Cmd
	stdin    interface{ Write([]byte) (int, error) }
	endInput func()
	terminal *os.File // the master's side; nil where there is none
	copied   chan struct{}

	mu     sync.Mutex // of sending
	stream grpc.BidiStreamingServer[controlpb.ExecInput, controlpb.ExecOutput]
}

// output sends what is written to it.
type output struct {
	p    *program
	wrap func([]byte) *controlpb.ExecOutput
}

func (o output) Write(b []byte) (int, error) {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	if err := o.p.stream.Send(o.wrap(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func toStdout(b []byte) *controlpb.ExecOutput {
	return &controlpb.ExecOutput{What: &controlpb.ExecOutput_Stdout{Stdout: b}}
}

func toStderr(b []byte) *controlpb.ExecOutput {
	return &controlpb.ExecOutput{What: &controlpb.ExecOutput_Stderr{Stderr: b}}
}

func (p *program) start(ns *netns.Handle) error {
	p.cmd.Stdout, p.cmd.Stderr = output{p, toStdout}, output{p, toStderr}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	p.stdin, p.endInput = stdin, func() { _ = stdin.Close() }
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A child that it left behind must not keep the call.
	p.cmd.WaitDelay = 500 * time.Millisecond
	return ns.Start(p.cmd)
}

func (p *program) startOnTerminal(ns *netns.Handle, size *controlpb.ExecInput_Size) error {
	master, slave, err := pty.Open()
	if err != nil {
		return fmt.Errorf("open terminal: %w", err)
	}
	defer func() { _ = slave.Close() }()
	_ = pty.Setsize(master, winsize(size)) // a terminal of another size works too
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := ns.Start(p.cmd); err != nil {
		return errors.Join(err, master.Close())
	}
	p.terminal, p.stdin, p.endInput = master, master, func() { _, _ = master.Write([]byte{4}) }
	p.copied = make(chan struct{})
	go func() {
		defer close(p.copied)
		buf := make([]byte, 32<<10)
		out := output{p, toStdout}
		for {
			n, err := master.Read(buf) // EIO when the last process on it is gone
			if n > 0 {
				if _, err := out.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return nil
}

func winsize(s *controlpb.ExecInput_Size) *pty.Winsize {
	if s.GetRows() == 0 || s.GetColumns() == 0 {
		return &pty.Winsize{Rows: 24, Cols: 80}
	}
	return &pty.Winsize{Rows: uint16(min(s.GetRows(), 9999)), Cols: uint16(min(s.GetColumns(), 9999))}
}

// listen carries out what the caller sends.
func (p *program) listen() {
	for {
		in, err := p.stream.Recv()
		if err != nil {
			p.endInput()
			return
		}
		switch what := in.GetWhat().(type) {
		case *controlpb.ExecInput_Stdin:
			_, _ = p.stdin.Write(what.Stdin) // it may not want any
		case *controlpb.ExecInput_Eof_:
			p.endInput()
		case *controlpb.ExecInput_Size_:
			if p.terminal != nil {
				_ = pty.Setsize(p.terminal, winsize(what.Size))
			}
		case *controlpb.ExecInput_Signal:
			p.signal(syscall.Signal(what.Signal))
		}
	}
}

// signal reaches the program's whole group.
func (p *program) signal(sig syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, sig) // it may have ended
}

// wait waits for the program and sends its exit status.
func (p *program) wait() error {
	err := p.cmd.Wait()
	if p.terminal != nil {
		// What it wrote last is still in the terminal; a child that it left
		// behind may hold it open.
		select {
		case <-p.copied:
		case <-time.After(500 * time.Millisecond):
		}
		_ = p.terminal.Close()
		<-p.copied
	}
	if p.cmd.ProcessState == nil {
		return status.Errorf(codes.Internal, "wait for %s: %v", p.cmd.Path, err)
	}
	code := int32(p.cmd.ProcessState.ExitCode())
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int32(ws.Signal())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream.Send(&controlpb.ExecOutput{What: &controlpb.ExecOutput_Exit{Exit: code}})
}

// Bounds of a capture: longest frame, how many frames go together, and how
// long the first of them waits for the others.
const (
	snapLength   = 65536
	batchFrames  = 128
	batchWait    = 50 * time.Millisecond
	captureQueue = 16 << 20 // bytes that the kernel keeps for a slow reader
)

// Capture implements controlpb.HandsServer.
func (h *Hands) Capture(req *controlpb.CaptureRequest, stream grpc.ServerStreamingServer[controlpb.CaptureBatch]) error {
	ns, err := h.namespace(req.GetNode())
	if err != nil {
		return err
	}
	only := ""
	if req.GetNeighbour() >= 0 {
		only = fabric.InterfaceName(core.NodeID(req.GetNeighbour()))
	}
	c, err := openCapture(ns, only)
	if err != nil {
		return status.Errorf(codes.NotFound, "capture at node %d: %v", req.GetNode(), err)
	}
	defer c.close()
	batch := &controlpb.CaptureBatch{Interfaces: c.interfaces}
	if err := stream.Send(batch); err != nil { // says that it has begun
		return err
	}
	for stream.Context().Err() == nil {
		batch := &controlpb.CaptureBatch{}
		if err := c.read(batch, batchWait); err != nil {
			return status.Errorf(codes.Internal, "capture at node %d: %v", req.GetNode(), err)
		}
		if len(batch.GetFrames()) > 0 {
			batch.Lost = c.lost()
			if err := stream.Send(batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// capture is a packet socket in a node's namespace.
type capture struct {
	fd         int
	interfaces []*controlpb.CaptureBatch_Interface
	known      map[int32]bool
	total      uint64 // lost so far
	buf, oob   []byte
}

// openCapture opens a socket for all links of a node, or for one.
func openCapture(ns *netns.Handle, only string) (*capture, error) {
	c := &capture{fd: -1, known: map[int32]bool{}, buf: make([]byte, snapLength), oob: make([]byte, 256)}
	err := ns.Do(func() error {
		entries, err := net.Interfaces()
		if err != nil {
			return fmt.Errorf("list links: %w", err)
		}
		bound := 0
		for _, e := range entries {
			if e.Name == "lo" || only != "" && e.Name != only {
				continue
			}
			c.interfaces = append(c.interfaces, &controlpb.CaptureBatch_Interface{Index: int32(e.Index), Name: e.Name})
			c.known[int32(e.Index)] = true
			bound = e.Index
		}
		if only == "" {
			bound = 0
		} else if bound == 0 {
			return fmt.Errorf("no link to %s", strings.TrimPrefix(only, "n"))
		}
		// Nothing arrives before it is bound with a protocol.
		if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return fmt.Errorf("open packet socket: %w", err)
		}
		_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureQueue) // best effort
		if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
			return fmt.Errorf("ask for timestamps: %w", err)
		}
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		if err := unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: bound}); err != nil {
			return fmt.Errorf("bind packet socket: %w", err)
		}
		return nil
	})
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *capture) close() {
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
	}
}

// read takes in the frames that come within wait.
func (c *capture) read(batch *controlpb.CaptureBatch, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for len(batch.Frames) < batchFrames {
		n, oobn, _, from, err := unix.Recvmsg(c.fd, c.buf, c.oob, unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EAGAIN):
			left := time.Until(deadline)
			if left <= 0 {
				return nil
			}
			fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
			if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("wait for frames: %w", err)
			}
			continue
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN): // a link went down
			continue
		case err != nil:
			return fmt.Errorf("read frame: %w", err)
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok || !c.known[int32(ll.Ifindex)] {
			continue
		}
		batch.Frames = append(batch.Frames, &controlpb.CaptureBatch_Frame{
			Interface: int32(ll.Ifindex), At: stamp(c.oob[:oobn]), Length: uint32(n), Outgoing: ll.Pkttype == unix.PACKET_OUTGOING,
			Data: append([]byte(nil), c.buf[:min(n, len(c.buf))]...),
		})
	}
	return nil
}

// stamp finds the kernel's timestamp.
func stamp(oob []byte) int64 {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err == nil {
		for _, m := range messages {
			if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
				return int64(binary.NativeEndian.Uint64(m.Data))*1e9 + int64(binary.NativeEndian.Uint64(m.Data[8:]))
			}
		}
	}
	return time.Now().UnixNano()
}

// lost counts the frames for which the kernel had no room.
func (c *capture) lost() uint64 {
	if st, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		c.total += uint64(st.Drops) // reading resets them
	}
	return c.total
}
