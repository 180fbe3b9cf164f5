package supervise

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/fabric"
	"churnbed/emulator/link"
	"churnbed/node/core"
	"churnbed/node/transport"
	"churnbed/node/wire"
)

// Plan is what Build needs; it travels gob-encoded.
type Plan struct {
	Nodes int
	Links []fabric.LinkSpec // in real time
	Kind  string            // fabric.Netem or fabric.Relay
	Seed  uint64
	// Next is the next hop from src to dst at [src*Nodes+dst], -1 none.
	Next       []core.NodeID
	NodeBinary string // path of churnbed-node
	RunDir     string // absolute
	// Capture says at which nodes all frames are recorded, into CaptureDir; Zero
	// and TimeScale are the clock of their instants (transport.NewClock).
	Capture    []core.NodeID
	CaptureDir string // absolute
	Zero       int64
	TimeScale  float64
}

// Encode returns the plan as Build takes it.
func (p *Plan) Encode() ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(p); err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return b.Bytes(), nil
}

// Server implements controlpb.SupervisorServer.
type Server struct {
	controlpb.UnimplementedSupervisorServer
	dir string // working directory of nodes

	mu     sync.Mutex
	plan   Plan
	fabric *fabric.Fabric
	nodes  []*process // the present process of each node, nil: none
	exits  chan *controlpb.Exit
	// recorder is nil where no frames are recorded.
	recorder *recorder
}

// process is one node process.
type process struct {
	cmd    *exec.Cmd
	inc    uint32
	gone   chan struct{} // closed when it was waited for
	stderr tail
}

// NewServer returns the service; dir holds the controller's socket.
func NewServer(dir string) *Server {
	return &Server{dir: dir, exits: make(chan *controlpb.Exit, 1024)}
}

// Build implements controlpb.SupervisorServer.
func (s *Server) Build(req *controlpb.BuildRequest, stream grpc.ServerStreamingServer[controlpb.BuildProgress]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fabric != nil {
		return status.Error(codes.FailedPrecondition, "the mesh stands already")
	}
	if err := gob.NewDecoder(bytes.NewReader(req.GetPlan())).Decode(&s.plan); err != nil {
		return status.Errorf(codes.InvalidArgument, "decode plan: %v", err)
	}
	p := &s.plan
	f, err := fabric.New(stream.Context(), fabric.Config{
		Nodes: p.Nodes, Links: p.Links, Kind: p.Kind, Seed: p.Seed,
		NextHop: func(src, dst core.NodeID) core.NodeID { return p.Next[int(src)*p.Nodes+int(dst)] },
		Progress: func(stage string, done, total int) {
			// Progress is a courtesy; a lost controller ends us anyway.
			_ = stream.Send(&controlpb.BuildProgress{Stage: stage, Done: uint32(done), Total: uint32(total)})
		},
	})
	if err != nil {
		return status.Errorf(codes.Internal, "wire the mesh: %v", err)
	}
	p.Next = nil // large, and installed
	s.fabric = f
	if len(p.Capture) > 0 {
		// It ends with this process.
		if s.recorder, err = record(p.CaptureDir, transport.NewClock(p.Zero, p.TimeScale), p.Capture, f.Namespace); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}
	s.nodes = make([]*process, p.Nodes)
	return nil
}

// Start implements controlpb.SupervisorServer.
func (s *Server) Start(_ context.Context, req *controlpb.StartRequest) (*controlpb.StartReply, error) {
	s.mu.Lock()
	f, old := s.fabric, (*process)(nil)
	if f != nil && int(req.GetNode()) < len(s.nodes) {
		old = s.nodes[req.GetNode()]
	} else {
		s.mu.Unlock()
		return nil, status.Errorf(codes.FailedPrecondition, "no node %d in the mesh", req.GetNode())
	}
	s.mu.Unlock()
	if old != nil {
		select {
		case <-old.gone:
		default:
			return nil, status.Errorf(codes.FailedPrecondition, "node %d runs already", req.GetNode())
		}
	}
	id := core.NodeID(req.GetNode())
	log, err := os.OpenFile(logPath(s.plan.RunDir, req.GetNode()), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "open event log: %v", err)
	}
	defer func() { _ = log.Close() }()
	p := &process{inc: req.GetIncarnation(), gone: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path: s.plan.NodeBinary, Args: []string{filepath.Base(s.plan.NodeBinary)}, Dir: s.dir,
		Stdout: &p.stderr, Stderr: &p.stderr, ExtraFiles: []*os.File{log},
		Env: append(developers(),
			"CHURNBED_CONTROL=unix:"+socketName,
			fmt.Sprintf("CHURNBED_NODE=%d", id),
			fmt.Sprintf("CHURNBED_INCARNATION=%d", p.inc),
			"CHURNBED_ADDRESS="+fabric.Addr(id).String(),
			"CHURNBED_LOG_FD=3",
			"CHURNBED_STATE="+statePath(s.plan.RunDir, req.GetNode()),
			// One thread of Go code a node: hundreds share the cores.
			"GOMAXPROCS=1", "GOGC=200", "GOTRACEBACK=single",
		),
		// Signals go to the whole group: a program may stand behind a wrapper.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		// A child that it left behind must not keep it from being reaped.
		WaitDelay: 100 * time.Millisecond,
	}
	before := transport.Monotonic()
	if err := f.Namespace(id).Start(p.cmd); err != nil {
		return nil, status.Errorf(codes.Internal, "start node process: %v", err)
	}
	after := transport.Monotonic()
	s.mu.Lock()
	s.nodes[id] = p
	s.mu.Unlock()
	go s.wait(req.GetNode(), p)
	return &controlpb.StartReply{Pid: int32(p.cmd.Process.Pid), Before: before, After: after}, nil
}

// developers returns the settings of Go's own tools, which reach node
// processes; nothing else of the user's environment does.
func developers() []string {
	var env []string
	for _, name := range []string{"GORACE", "GOCOVERDIR"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// wait reaps a node process and tells the controller.
func (s *Server) wait(node uint32, p *process) {
	_ = p.cmd.Wait() // its result is in ProcessState
	at := transport.Monotonic()
	close(p.gone)
	s.exits <- &controlpb.Exit{
		Node: node, Incarnation: p.inc, Status: p.cmd.ProcessState.String(), At: at, Stderr: p.stderr.String(),
	}
}

// Signal implements controlpb.SupervisorServer.
func (s *Server) Signal(ctx context.Context, req *controlpb.SignalRequest) (*controlpb.SignalReply, error) {
	s.mu.Lock()
	var p *process
	if int(req.GetNode()) < len(s.nodes) {
		p = s.nodes[req.GetNode()]
	}
	s.mu.Unlock()
	reply := &controlpb.SignalReply{Before: transport.Monotonic()}
	reply.After = reply.Before
	if p == nil {
		reply.Gone = true
		return reply, nil
	}
	sig := syscall.Signal(req.GetSignal())
	switch err := p.cmd.Process.Signal(sig); {
	case errors.Is(err, os.ErrProcessDone):
		reply.Gone = true
		return reply, nil
	case err != nil:
		return nil, status.Errorf(codes.Internal, "signal node process: %v", err)
	}
	// The rest of its group, if there is any. The process was there a moment
	// ago, so its number is not in use again.
	_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	if sig == syscall.SIGKILL {
		select {
		case <-p.gone:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	reply.After = transport.Monotonic()
	return reply, nil
}

// SetLinks implements controlpb.SupervisorServer.
func (s *Server) SetLinks(_ context.Context, req *controlpb.SetLinksRequest) (*controlpb.SetLinksReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fabric == nil {
		return nil, status.Error(codes.FailedPrecondition, "the mesh does not stand")
	}
	reply := &controlpb.SetLinksReply{Before: transport.Monotonic()}
	for _, c := range req.GetChanges() {
		if int(c.GetLink()) >= len(s.plan.Links) {
			return nil, status.Errorf(codes.InvalidArgument, "no link %d", c.GetLink())
		}
		if err := s.change(c); err != nil {
			return nil, status.Errorf(codes.Internal, "change link %d: %v", c.GetLink(), err)
		}
	}
	if routes := req.GetRoutes(); len(routes) > 0 {
		changes := make([]fabric.RouteChange, len(routes))
		for i, r := range routes {
			changes[i] = fabric.RouteChange{
				Src: core.NodeID(r.GetSrc()), Dst: core.NodeID(r.GetDst()), Via: core.NodeID(r.GetVia()),
			}
		}
		if err := s.fabric.SetRoutes(changes); err != nil { //nolint:contextcheck // changes are made whole, whoever asked
			return nil, status.Errorf(codes.Internal, "change routes: %v", err)
		}
	}
	reply.After = transport.Monotonic()
	return reply, nil
}

func (s *Server) change(c *controlpb.SetLinksRequest_LinkChange) error {
	spec := &s.plan.Links[c.GetLink()]
	for _, d := range []struct {
		json []byte
		to   *link.Params
	}{{c.GetAbJson(), &spec.AB}, {c.GetBaJson(), &spec.BA}} {
		if len(d.json) == 0 {
			continue
		}
		var p link.Params
		if err := json.Unmarshal(d.json, &p); err != nil {
			return fmt.Errorf("decode link parameters: %w", err)
		}
		*d.to = p
	}
	if len(c.GetAbJson())+len(c.GetBaJson()) > 0 {
		if err := s.fabric.SetLink(int(c.GetLink()), spec.AB, spec.BA); err != nil {
			return err
		}
	}
	switch c.GetState() {
	case controlpb.SetLinksRequest_LinkChange_UP:
		return s.fabric.SetUp(int(c.GetLink()), true)
	case controlpb.SetLinksRequest_LinkChange_DOWN:
		return s.fabric.SetUp(int(c.GetLink()), false)
	case controlpb.SetLinksRequest_LinkChange_KEEP:
	}
	return nil
}

// Measure implements controlpb.SupervisorServer.
func (s *Server) Measure(_ context.Context, req *controlpb.MeasureRequest) (*controlpb.MeasureReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fabric == nil {
		return nil, status.Error(codes.FailedPrecondition, "the mesh does not stand")
	}
	counters, err := s.fabric.Counters()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "read link counters: %v", err)
	}
	if req.GetPerLink() && s.recorder != nil { // the nodes have stopped
		if err := s.recorder.sync(); err != nil {
			// The run is judged by its logs and stands all the same.
			fmt.Fprintln(os.Stderr, "churnbed-sandbox: the captures are incomplete:", err)
		}
	}
	late := s.fabric.Lateness()
	reply := &controlpb.MeasureReply{
		LateP50Us: float64(late.P50.Nanoseconds()) / 1e3, LateP99Us: float64(late.P99.Nanoseconds()) / 1e3,
		Unplanned: counters.Unplanned, Total: &controlpb.MeasureReply_LinkCount{ByClass: make([]int64, wire.NumClasses)},
	}
	for i := range counters.Links {
		for _, d := range counters.Links[i] {
			if req.GetPerLink() {
				reply.Links = append(reply.Links, &controlpb.MeasureReply_LinkCount{
					Frames: d.Frames, Bytes: d.Bytes, Dropped: d.Dropped, Expected: d.Expected, ByClass: d.ByClass[:],
				})
			}
			t := reply.GetTotal()
			t.Frames += d.Frames
			t.Bytes += d.Bytes
			t.Dropped += d.Dropped
			t.Expected += d.Expected
			for class, n := range d.ByClass {
				t.ByClass[class] += n
			}
		}
	}
	return reply, nil
}

// Exits implements controlpb.SupervisorServer.
func (s *Server) Exits(_ *controlpb.ExitsRequest, stream grpc.ServerStreamingServer[controlpb.Exit]) error {
	for {
		select {
		case e := <-s.exits:
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

// tail keeps the last words of a process.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b) - tailBytes; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
