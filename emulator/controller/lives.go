package controller

import (
	"encoding/json"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
	"churnbed/node/core"
	"churnbed/node/host"
	"churnbed/node/stack"
)

// life is one process of a node as seen from its control stream. It exists
// from before the process is started, so that nothing that is told to the
// node between its start and its Hello is lost. Commands are queued: the
// loop never waits for a node that is stopped or does not read.
type life struct {
	peer core.Peer
	// members are those whom an oracle knew when the life began; nil where
	// there is no oracle, or it is in the configuration already.
	members []core.Peer
	delays  []int64 // of the incoming links, as they were when the life began

	mu    sync.Mutex
	queue []*controlpb.Command
	taken bool          // a process has attached
	wake  chan struct{} // holds a token while the queue may not be empty
}

func newLife(p core.Peer) *life { return &life{peer: p, wake: make(chan struct{}, 1)} }

func (l *life) tell(cmd *controlpb.Command) {
	l.mu.Lock()
	l.queue = append(l.queue, cmd)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// queued takes what is to be told now.
func (l *life) queued() []*controlpb.Command {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queue
	l.queue = nil
	return q
}

// lives are the present lives by node, shared by the loop, which changes
// them, and the streams, which look theirs up.
type lives struct {
	mu sync.Mutex
	by []*life // nil: no process is expected
}

func (s *lives) of(id core.NodeID) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[id]
}

func (s *lives) set(id core.NodeID, l *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[id] = l
}

// attach gives a process its life, once.
func (s *lives) attach(p core.Peer) (*life, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ID < 0 || int(p.ID) >= len(s.by) || s.by[p.ID] == nil || s.by[p.ID].peer != p {
		return nil, fmt.Errorf("node %v is not expected", p)
	}
	l := s.by[p.ID]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken {
		return nil, fmt.Errorf("node %v has attached already", p)
	}
	l.taken = true
	return l, nil
}

// reported is a node's report on its way to the loop.
type reported struct {
	peer   core.Peer
	report *controlpb.Report
}

// nodeService implements controlpb.ControllerServer.
type nodeService struct {
	controlpb.UnimplementedControllerServer
	c       *controller
	readers sync.WaitGroup
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
	// Out of range becomes None, which nobody expects.
	peer := core.Peer{ID: core.None, Inc: core.Incarnation(hello.GetIncarnation())}
	if hello.GetNode() < core.MaxNodes {
		peer.ID = core.NodeID(hello.GetNode())
	}
	l, err := s.c.lives.attach(peer)
	if err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	b, err := json.Marshal(s.c.configuration(l))
	if err != nil {
		return status.Errorf(codes.Internal, "encode configuration: %v", err)
	}
	err = stream.Send(&controlpb.Command{What: &controlpb.Command_Configure_{Configure: &controlpb.Command_Configure{
		ConfigJson: b, ZeroMonotonicNs: s.c.zero, TimeScale: s.c.sc.TimeScale,
	}}})
	if err != nil {
		return err
	}
	over := make(chan struct{})
	s.readers.Add(1)
	go func() {
		defer s.readers.Done()
		defer close(over)
		s.read(stream, peer)
	}()
	for {
		select {
		case <-over:
			return nil // the node's end reaches the loop through Exits
		case <-l.wake:
		}
		for _, cmd := range l.queued() {
			if err := stream.Send(cmd); err != nil {
				return err // which ends read
			}
		}
	}
}

// read brings a node's reports to the loop, until its last one or its end.
func (s *nodeService) read(stream grpc.BidiStreamingServer[controlpb.Report, controlpb.Command], peer core.Peer) {
	for {
		r, err := stream.Recv()
		if err != nil {
			return
		}
		select {
		case s.c.events <- reported{peer, r}:
		case <-stream.Context().Done():
			return
		}
		if r.GetStopped() != nil || r.GetFailed() != nil {
			return
		}
	}
}

// configuration is what a life is told first. It is called by streams and
// reads only what does not change.
func (c *controller) configuration(l *life) stack.Config {
	cfg := c.sc.NodeConfig(l.peer.ID, l.peer.Inc)
	if l.members != nil {
		cfg.Join, cfg.Members = false, l.members
	}
	cfg.LinkDelay = l.delays
	return cfg
}

// expect begins a new life of a node: from now on it is told things.
func (c *controller) expect(n *node) {
	l := newLife(core.Peer{ID: n.id, Inc: n.inc})
	l.delays = c.mesh.Incoming(n.id)
	if c.began {
		l.tell(beginCommand(c.epoch))
		if c.sc.Membership.Service == "oracle" {
			l.members = c.present(n)
		}
	}
	c.lives.set(n.id, l)
}

// present lists who runs but n itself: what an oracle knows.
func (c *controller) present(n *node) []core.Peer {
	list := make([]core.Peer, 0, len(c.nodes))
	for _, o := range c.nodes {
		if o != n && o.alive {
			list = append(list, core.Peer{ID: o.id, Inc: o.inc})
		}
	}
	return list
}
