package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/host"
	"churnbed/node/membership"
	"churnbed/node/stack"
)

// node is what the loop knows of a node.
type node struct {
	id      core.NodeID
	inc     core.Incarnation // of the present or last process
	alive   bool             // its process was started and has not ended
	joined  bool
	idle    bool
	paused  bool
	leaving bool
	killed  bool // its end was our doing
	state   controlpb.Report_Changed_State
	started time.Time
}

// session is one attached node process.
type session struct {
	peer   core.Peer
	mu     sync.Mutex // serialises Send
	stream grpc.BidiStreamingServer[controlpb.Report, controlpb.Command]
}

func (s *session) send(c *controlpb.Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(c)
}

// reported is a node's report on its way to the loop.
type reported struct {
	peer   core.Peer
	report *controlpb.Report
}

// nodeService implements controlpb.ControllerServer.
type nodeService struct {
	controlpb.UnimplementedControllerServer
	c *controller
}

// Attach serves one life of one node.
func (s *nodeService) Attach(stream grpc.BidiStreamingServer[controlpb.Report, controlpb.Command]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello == nil {
		return status.Error(codes.InvalidArgument, "the first report must be Hello")
	}
	if hello.GetContract() != host.Contract {
		return status.Errorf(codes.FailedPrecondition, "node keeps contract %d, this controller %d", hello.GetContract(), host.Contract)
	}
	peer := core.Peer{ID: core.NodeID(hello.GetNode()), Inc: core.Incarnation(hello.GetIncarnation())}
	c := s.c
	cfg, err := c.configure(peer)
	if err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	b, err := json.Marshal(cfg)
	if err != nil {
		return status.Errorf(codes.Internal, "encode configuration: %v", err)
	}
	se := &session{peer: peer, stream: stream}
	err = se.send(&controlpb.Command{What: &controlpb.Command_Configure_{Configure: &controlpb.Command_Configure{
		ConfigJson: b, ZeroMonotonicNs: c.zero, TimeScale: c.sc.TimeScale,
	}}})
	if err != nil {
		return err
	}
	if err := c.register(se); err != nil {
		return err
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			c.unregister(se)
			return nil // the node's end reaches the loop through Exits
		}
		select {
		case c.events <- reported{peer, r}:
		case <-stream.Context().Done():
			return nil
		}
		if r.GetStopped() != nil || r.GetFailed() != nil {
			c.unregister(se)
			return nil
		}
	}
}

// configure returns the configuration of the life that attached.
func (c *controller) configure(p core.Peer) (stack.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ID < 0 || int(p.ID) >= len(c.expected) || c.expected[p.ID] != p.Inc {
		return stack.Config{}, fmt.Errorf("node %v is not expected", p)
	}
	cfg := c.sc.NodeConfig(p.ID, p.Inc)
	if c.sc.Membership.Service == "oracle" && cfg.Join {
		// The oracle knows who is there.
		cfg.Join = false
		cfg.Members = cfg.Members[:0]
		for id, se := range c.sessions {
			if se != nil && core.NodeID(id) != p.ID {
				cfg.Members = append(cfg.Members, se.peer)
			}
		}
	}
	return cfg, nil
}

// register makes the session known; a node that comes after the epoch is told
// of it at once.
func (c *controller) register(se *session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions[se.peer.ID] = se
	if !c.began {
		return nil
	}
	return se.send(beginCommand(c.epoch))
}

func (c *controller) unregister(se *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[se.peer.ID] == se {
		c.sessions[se.peer.ID] = nil
	}
}

func beginCommand(epoch core.Instant) *controlpb.Command {
	return &controlpb.Command{What: &controlpb.Command_Begin_{Begin: &controlpb.Command_Begin{EpochNs: int64(epoch)}}}
}

// tell sends a command to a node, if it is attached. A node that cannot be
// told has ended or will be seen to end.
func (c *controller) tell(id core.NodeID, cmd *controlpb.Command) bool {
	c.mu.Lock()
	se := c.sessions[id]
	c.mu.Unlock()
	return se != nil && se.send(cmd) == nil
}

// tellAll sends a command to all attached nodes.
func (c *controller) tellAll(cmd *controlpb.Command) {
	for i := range c.nodes {
		c.tell(core.NodeID(i), cmd)
	}
}

// begin sets the epoch and tells everyone.
func (c *controller) begin(epoch core.Instant) {
	c.mu.Lock()
	c.epoch, c.began = epoch, true
	all := append([]*session(nil), c.sessions...)
	c.mu.Unlock()
	for _, se := range all {
		if se != nil {
			_ = se.send(beginCommand(epoch)) // see tell
		}
	}
	c.write(&eventlog.Event{T: int64(epoch), Kind: eventlog.Epoch, Node: -1})
}

// watchExits brings the ends of node processes to the loop.
func (c *controller) watchExits(life context.Context) error {
	stream, err := c.box.Supervisor.Exits(life, &controlpb.ExitsRequest{})
	if err != nil {
		return fmt.Errorf("watch node processes: %w", err)
	}
	go func() {
		for {
			e, err := stream.Recv()
			if err != nil {
				return // the sandbox ends; the loop watches it
			}
			select {
			case c.events <- e:
			case <-life.Done():
				return
			}
		}
	}()
	return nil
}

// startAll starts the nodes of the first hour and waits until they joined.
func (c *controller) startAll(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(2 * runtime.NumCPU())
	total := 0
	for _, n := range c.nodes {
		if !c.sc.Up[n.id] {
			continue
		}
		total++
		n.inc, n.alive, n.started = core.FirstIncarnation, true, time.Now()
		c.expect(n)
	}
	for _, n := range c.nodes {
		if n.alive {
			group.Go(func() error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				_, err := c.box.Supervisor.Start(ctx, &controlpb.StartRequest{Node: uint32(n.id), Incarnation: uint32(n.inc)})
				return clean(err)
			})
		}
	}
	started := make(chan error, 1)
	go func() { started <- group.Wait() }()
	deadline := time.NewTimer(joinTimeout + c.clock.Real(30*time.Second))
	defer deadline.Stop()
	joined := 0
	for running := true; running || joined < total; {
		c.progress.Phase, c.progress.Done, c.progress.Total = Starting, joined, total
		c.show()
		select {
		case err := <-started:
			if err != nil {
				return fmt.Errorf("start nodes: %w", err)
			}
			running, started = false, nil
		case e := <-c.events:
			switch e := e.(type) {
			case reported:
				c.heard(e)
				if e.report.GetJoined() != nil {
					joined++
				}
				if f := e.report.GetFailed(); f != nil {
					return fmt.Errorf("start node %v: %s", e.peer, f.GetError())
				}
			case *controlpb.Exit:
				return fmt.Errorf("start node %d: its process ended (%s): %s", e.GetNode(), e.GetStatus(), e.GetStderr())
			}
		case <-c.box.Done():
			return errors.New("start nodes: the sandbox ended unexpectedly")
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("start nodes: %d of %d have not joined in time", total-joined, total)
		}
	}
	return nil
}

// expect lets the node's present incarnation attach.
func (c *controller) expect(n *node) {
	c.mu.Lock()
	c.expected[n.id] = n.inc
	c.mu.Unlock()
}

// heard takes in a report.
func (c *controller) heard(e reported) {
	n := c.nodes[e.peer.ID]
	if n.inc != e.peer.Inc || !n.alive {
		return // of a former life
	}
	switch r := e.report.GetWhat().(type) {
	case *controlpb.Report_Joined_:
		n.joined = true
	case *controlpb.Report_Changed_:
		// The next local request may follow at once: HELD, then WAIT.
		if n.state == controlpb.Report_Changed_HELD && r.Changed.GetState() != controlpb.Report_Changed_HELD {
			c.progress.Served++
		}
		n.state, n.idle = r.Changed.GetState(), false
	case *controlpb.Report_Idle_:
		n.idle = true
	case *controlpb.Report_Failed_:
		c.opt.Log.Error("node failed", "node", n.id, "error", r.Failed.GetError())
		c.failures = append(c.failures, fmt.Errorf("node %d: %s", n.id, r.Failed.GetError()))
	case *controlpb.Report_Stopped_, *controlpb.Report_Hello_:
	}
}

// exited takes in the end of a node process.
func (c *controller) exited(e *controlpb.Exit) {
	n := c.nodes[e.GetNode()]
	if uint32(n.inc) != e.GetIncarnation() || !n.alive {
		return // we ended it, and know
	}
	expected := n.leaving || c.progress.Phase == Ending
	n.alive, n.joined = false, false
	c.write(&eventlog.Event{
		T: int64(c.clock.At(e.GetAt())), Kind: eventlog.Exited, Node: int32(n.id), Inc: uint32(n.inc),
		State: n.state.String(), Text: e.GetStatus(),
	})
	if !expected {
		c.opt.Log.Error("node process ended by itself", "node", n.id, "status", e.GetStatus(), "stderr", e.GetStderr())
		c.failures = append(c.failures, fmt.Errorf("node %d ended by itself (%s): %s", n.id, e.GetStatus(), e.GetStderr()))
	}
	c.announce(n, membership.Left)
}

// announce tells the others through the oracle, where it is in charge.
func (c *controller) announce(n *node, change membership.ChangeKind) {
	if c.sc.Membership.Service != "oracle" {
		return
	}
	cmd := &controlpb.Command{What: &controlpb.Command_Told_{Told: &controlpb.Command_Told{
		Node: uint32(n.id), Incarnation: uint32(n.inc), Change: uint32(change),
	}}}
	for _, o := range c.nodes {
		if o != n && o.alive {
			c.tell(o.id, cmd)
		}
	}
}

// kill ends a node's process with SIGKILL and logs it under verb.
func (c *controller) kill(life context.Context, n *node, verb string) {
	state := n.state
	reply, err := c.box.Supervisor.Signal(life, &controlpb.SignalRequest{Node: uint32(n.id), Signal: int32(syscall.SIGKILL)})
	if err != nil {
		c.failures = append(c.failures, fmt.Errorf("kill node %d: %w", n.id, clean(err)))
		return
	}
	if reply.GetGone() {
		return // its end is on its way to the loop
	}
	c.mu.Lock()
	defer c.mu.Unlock() // kills of one instant run side by side
	n.alive, n.joined, n.idle, n.paused, n.state = false, false, false, false, controlpb.Report_Changed_NONE
	c.expected[n.id] = 0
	c.progress.Kills++
	c.write(&eventlog.Event{
		T: int64(c.clock.At(reply.GetBefore())), After: int64(c.clock.At(reply.GetAfter())), Kind: eventlog.Kill,
		Node: int32(n.id), Inc: uint32(n.inc), Verb: verb, State: state.String(),
	})
}

// restart starts the next incarnation of a node.
func (c *controller) restart(life context.Context, n *node, verb string) {
	c.mu.Lock()
	if n.inc == 0 {
		n.inc = core.FirstIncarnation
	} else {
		n.inc = core.Incarnation(n.inc.Start()+1) * core.IncarnationStep
	}
	c.expected[n.id] = n.inc
	n.alive, n.joined, n.idle, n.leaving, n.paused = true, false, false, false, false
	n.state, n.started = controlpb.Report_Changed_NONE, time.Now()
	c.mu.Unlock()
	reply, err := c.box.Supervisor.Start(life, &controlpb.StartRequest{Node: uint32(n.id), Incarnation: uint32(n.inc)})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		n.alive = false
		c.failures = append(c.failures, fmt.Errorf("restart node %d: %w", n.id, clean(err)))
		return
	}
	c.progress.Restarts++
	c.write(&eventlog.Event{
		T: int64(c.clock.At(reply.GetBefore())), After: int64(c.clock.At(reply.GetAfter())), Kind: eventlog.Restart,
		Node: int32(n.id), Inc: uint32(n.inc), Verb: verb, PID: int(reply.GetPid()),
	})
}

// signal pauses or resumes a node.
func (c *controller) signal(life context.Context, n *node, sig syscall.Signal, kind eventlog.Kind) {
	reply, err := c.box.Supervisor.Signal(life, &controlpb.SignalRequest{Node: uint32(n.id), Signal: int32(sig)})
	if err != nil {
		c.failures = append(c.failures, fmt.Errorf("signal node %d: %w", n.id, clean(err)))
		return
	}
	if reply.GetGone() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n.paused = sig == syscall.SIGSTOP
	c.write(&eventlog.Event{
		T: int64(c.clock.At(reply.GetBefore())), After: int64(c.clock.At(reply.GetAfter())), Kind: kind,
		Node: int32(n.id), Inc: uint32(n.inc), Verb: string(kind), State: n.state.String(),
	})
}

// clean takes the gRPC wrapping off an error of the supervisor.
func clean(err error) error {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok && s.Code() != codes.Canceled {
		return errors.New(s.Message())
	}
	return err
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

func lookPath(name string) (string, error) {
	p, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %s: it is neither beside this program nor in PATH: build it with scripts/build: %w", name, err)
	}
	return filepath.Abs(p)
}
