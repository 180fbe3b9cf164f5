package controller

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/membership"
	"churnbed/workloads"
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
	failed  bool           // it has reported why it cannot go on
	stopped bool           // it has reported an orderly end
	again   workloads.Verb // restart or join, due as soon as it has left
	state   controlpb.Report_Changed_State
	entries int // into the critical section, of all lives; with k-groups: routines it saw through
	// With k-groups: the groups that it serves, whether it runs a routine that
	// holds locks or waits for one, and how many it saw through in this life.
	leads        string
	holds, waits bool
	executed     int
}

// NodeError says that a node process failed by itself.
type NodeError struct {
	Node core.NodeID
	What string
}

func (e *NodeError) Error() string { return fmt.Sprintf("node %d %s", e.Node, e.What) }

// tell queues a command for the present life of a node, if it has one.
func (c *controller) tell(id core.NodeID, cmd *controlpb.Command) {
	if l := c.lives.of(id); l != nil {
		l.tell(cmd)
	}
}

// tellAll queues a command for every node that runs.
func (c *controller) tellAll(cmd *controlpb.Command) {
	for i := range c.nodes {
		c.tell(core.NodeID(i), cmd)
	}
}

func beginCommand(epoch core.Instant) *controlpb.Command {
	return &controlpb.Command{What: &controlpb.Command_Begin_{Begin: &controlpb.Command_Begin{EpochNs: int64(epoch)}}}
}

// begin sets the epoch and tells everyone.
func (c *controller) begin(epoch core.Instant) {
	c.epoch, c.began = epoch, true
	c.tellAll(beginCommand(epoch))
	c.write(&eventlog.Event{T: int64(epoch), Kind: eventlog.Epoch, Node: -1})
}

// watchExits brings the ends of node processes to the loop, until life ends;
// then over is closed.
func (c *controller) watchExits(life context.Context) (over <-chan struct{}, err error) {
	stream, err := c.box.Supervisor.Exits(life, &controlpb.ExitsRequest{})
	if err != nil {
		return nil, fmt.Errorf("watch node processes: %w", clean(err))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
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
	return done, nil
}

// startAll starts the nodes of the first hour and waits until they joined.
func (c *controller) startAll(ctx context.Context) error {
	total := 0
	for _, n := range c.nodes {
		if c.sc.Up[n.id] {
			total++
			n.inc, n.alive = core.FirstIncarnation, true
			c.expect(n)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	started := make(chan error, 1)
	go func() { started <- c.startProcesses(ctx) }()
	running := true
	defer func() {
		cancel()
		if running {
			<-started
		}
	}()
	deadline := time.NewTimer(joinTimeout + c.clock.Real(30*time.Second))
	defer deadline.Stop()
	for joined := 0; running || joined < total; {
		c.progress.Phase, c.progress.Done, c.progress.Total = Starting, joined, total
		c.show()
		select {
		case err := <-started:
			if running = false; err != nil {
				return fmt.Errorf("start nodes: %w", err)
			}
		case e := <-c.events:
			switch e := e.(type) {
			case reported:
				before := c.nodes[e.peer.ID].joined
				c.heard(e)
				if c.nodes[e.peer.ID].joined && !before {
					joined++
				}
				if f := e.report.GetFailed(); f != nil {
					return &NodeError{e.peer.ID, "could not start: " + f.GetError()}
				}
			case *controlpb.Exit:
				return &NodeError{core.NodeID(e.GetNode()), endedText(e)}
			case *order:
				c.obey(ctx, e)
			case *noted:
				c.note(e)
			}
		case <-c.box.Done():
			return errors.New("start nodes: the sandbox ended unexpectedly")
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return &NodeError{c.firstNotJoined(), fmt.Sprintf("has not joined in time (%d of %d have)", joined, total)}
		}
	}
	return nil
}

// startProcesses starts the process of every node that is to run.
func (c *controller) startProcesses(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.NumCPU())
	for id, up := range c.sc.Up {
		if !up || ctx.Err() != nil {
			continue
		}
		group.Go(func() error {
			_, err := c.box.Supervisor.Start(ctx, &controlpb.StartRequest{Node: uint32(id), Incarnation: uint32(core.FirstIncarnation)})
			return clean(err)
		})
	}
	return group.Wait()
}

func (c *controller) firstNotJoined() core.NodeID {
	for _, n := range c.nodes {
		if n.alive && !n.joined {
			return n.id
		}
	}
	return core.None
}

// endedText tells how a process ended by itself.
func endedText(e *controlpb.Exit) string {
	s := fmt.Sprintf("ended by itself (%s)", e.GetStatus())
	if words := strings.TrimSpace(e.GetStderr()); words != "" {
		s += ": " + words
	}
	return s
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
		c.joins++
		c.joinCPU += time.Duration(r.Joined.GetCpu())
	case *controlpb.Report_Changed_:
		if n.state == controlpb.Report_Changed_HELD && r.Changed.GetState() != controlpb.Report_Changed_HELD {
			c.progress.Served++
		}
		if n.state != controlpb.Report_Changed_HELD && r.Changed.GetState() == controlpb.Report_Changed_HELD {
			n.entries++
		}
		n.state, n.idle = r.Changed.GetState(), false
	case *controlpb.Report_Standing_:
		s := r.Standing
		leads := make([]string, len(s.GetLeads()))
		for i, g := range s.GetLeads() {
			leads[i] = strconv.Itoa(int(g))
		}
		more := int(s.GetExecuted()) - n.executed
		n.leads, n.holds, n.waits, n.executed = strings.Join(leads, " "), s.GetHolds(), s.GetWaits(), int(s.GetExecuted())
		n.entries += more
		c.progress.Served += more
	case *controlpb.Report_Idle_:
		n.idle = true
	case *controlpb.Report_Failed_:
		n.failed = true
		c.fail(&NodeError{n.id, "failed: " + r.Failed.GetError()})
	case *controlpb.Report_Stopped_:
		n.stopped = true
	case *controlpb.Report_Hello_:
	}
}

// exited takes in the end of a node process.
func (c *controller) exited(life context.Context, e *controlpb.Exit) {
	n := c.nodes[e.GetNode()]
	if uint32(n.inc) != e.GetIncarnation() || !n.alive {
		return // we ended it, and know
	}
	c.write(&eventlog.Event{
		T: int64(c.clock.At(e.GetAt())), Kind: eventlog.Exited, Node: int32(n.id), Inc: uint32(n.inc),
		State: n.state.String(), Text: e.GetStatus(),
	})
	left, again := n.leaving, n.again
	// A program may end before its last report was heard.
	orderly := n.stopped || (left || c.progress.Phase == Ending) && e.GetStatus() == "exit status 0"
	if !orderly && !n.failed {
		c.fail(&NodeError{n.id, endedText(e)})
	}
	c.ended(n)
	if left {
		c.announce(n, membership.Left)
	} else {
		c.announce(n, membership.Failed)
	}
	if again != "" && c.progress.Phase == Running {
		c.strikeNodes(life, again, []*node{n})
	}
}

// ended forgets the present life of a node.
func (c *controller) ended(n *node) {
	c.lives.set(n.id, nil)
	*n = node{id: n.id, inc: n.inc, entries: n.entries}
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

// request is one call to the supervisor about one node, and what came of it.
type request[Reply any] struct {
	n     *node
	reply Reply
	err   error
}

// together makes a call for each of several nodes side by side.
func together[Reply any](nodes []*node, call func(*node) (Reply, error)) []request[Reply] {
	done := make([]request[Reply], len(nodes))
	var group errgroup.Group
	group.SetLimit(4 * runtime.NumCPU())
	for i, n := range nodes {
		group.Go(func() error {
			reply, err := call(n)
			done[i] = request[Reply]{n, reply, clean(err)}
			return nil
		})
	}
	_ = group.Wait() // errors are kept one by one
	return done
}

// signal sends one signal to several nodes and returns what was done; nodes
// whose process had ended are left out: their end is on its way to the loop.
func (c *controller) signal(life context.Context, nodes []*node, sig syscall.Signal, kind eventlog.Kind, verb string) []*node {
	results := together(nodes, func(n *node) (*controlpb.SignalReply, error) {
		return c.box.Supervisor.Signal(life, &controlpb.SignalRequest{Node: uint32(n.id), Signal: int32(sig)})
	})
	var struck []*node
	for _, r := range results {
		n := r.n
		switch {
		case r.err != nil:
			c.fail(fmt.Errorf("%s node %d: %w", verb, n.id, r.err))
			continue
		case r.reply.GetGone():
			continue
		}
		c.write(&eventlog.Event{
			T: int64(c.clock.At(r.reply.GetBefore())), After: int64(c.clock.At(r.reply.GetAfter())), Kind: kind,
			Node: int32(n.id), Inc: uint32(n.inc), Verb: verb, State: n.state.String(),
		})
		struck = append(struck, n)
	}
	return struck
}

// kill ends the processes of nodes with SIGKILL and logs it under verb.
func (c *controller) kill(life context.Context, nodes []*node, verb string) []*node {
	struck := c.signal(life, nodes, syscall.SIGKILL, eventlog.Kill, verb)
	for _, n := range struck {
		c.progress.Kills++
		c.ended(n)
	}
	return struck
}

// restart starts the next incarnation of nodes.
func (c *controller) restart(life context.Context, nodes []*node, verb string) {
	for _, n := range nodes {
		if n.inc == 0 {
			n.inc = core.FirstIncarnation
		} else {
			n.inc = n.inc.Restarted()
		}
		c.expect(n)
	}
	results := together(nodes, func(n *node) (*controlpb.StartReply, error) {
		return c.box.Supervisor.Start(life, &controlpb.StartRequest{Node: uint32(n.id), Incarnation: uint32(n.inc)})
	})
	for _, r := range results {
		n := r.n
		if r.err != nil {
			c.ended(n)
			c.fail(fmt.Errorf("restart node %d: %w", n.id, r.err))
			continue
		}
		n.alive = true
		c.progress.Restarts++
		c.write(&eventlog.Event{
			T: int64(c.clock.At(r.reply.GetBefore())), After: int64(c.clock.At(r.reply.GetAfter())), Kind: eventlog.Restart,
			Node: int32(n.id), Inc: uint32(n.inc), Verb: verb, PID: int(r.reply.GetPid()),
		})
	}
	for _, r := range results {
		if r.n.alive {
			c.announce(r.n, membership.Up)
		}
	}
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

func lookPath(name string) (string, error) {
	p, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %s: it is neither beside this program nor in PATH: build it (go build -o bin/ ./emulator/cmd/churnbed ./node/cmd/churnbed-node), or name it (--node-binary): %w", name, err)
	}
	return filepath.Abs(p)
}
