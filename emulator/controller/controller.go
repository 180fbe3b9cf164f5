// Package controller runs one emulated run from an empty directory to
// collected logs: it makes the sandbox, has the mesh wired, starts the node
// processes, begins the workload, injects the faults at their instants, ends
// the run and writes down what happened. It judges nothing (see results).
//
// One goroutine, the loop, owns the run's state; node streams and the
// supervisor's exits reach it over one channel.
package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/fabric"
	"churnbed/emulator/live"
	"churnbed/emulator/mesh"
	"churnbed/emulator/sandbox"
	"churnbed/emulator/scenario"
	"churnbed/emulator/supervise"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/transport"
	"churnbed/results"
)

// Options say what to run and with what.
type Options struct {
	Scenario   *scenario.Scenario
	Dir        string            // run directory; must not exist
	Fabric     string            // fabric.Netem or fabric.Relay; decided by the caller
	NodeBinary string            // path of churnbed-node
	Manifest   *results.Manifest // what the caller knows; timing is filled in
	Progress   func(Progress)    // called from the loop, at most a few times a second
	Page       *live.Page        // where the run is shown to browsers; nil: nowhere
	Capture    []core.NodeID     // nodes whose frames are recorded
	Log        *slog.Logger
}

// Phase of a run.
type Phase string

const (
	Wiring   Phase = "wiring"   // Done of Total steps of Stage
	Starting Phase = "starting" // Done of Total nodes have joined
	Running  Phase = "running"
	Ending   Phase = "ending"
)

// Progress is a snapshot for the terminal.
type Progress struct {
	Phase    Phase
	Stage    string
	Done     int
	Total    int
	Elapsed  time.Duration // scenario time since the epoch
	Alive    int
	Waiting  int // nodes in state WAIT; with k-groups: that run a routine that waits for a lock
	Served   int // requests; with k-groups: routines
	Requests int // of the workload, 0 = not known beforehand
	Kills    int
	Restarts int
}

// joinTimeout bounds, in real time, how long the first nodes may take to join
// beyond what the scenario's own timers need.
const joinTimeout = 60 * time.Second

// Run carries out a run in opt.Dir. Where that cannot be made it returns no
// run. When ctx ends, the run is ended in order and what it has shown is kept;
// the manifest then says so. Errors that kept the run from reaching its epoch
// (Timing.RunMS is then -1) and what went wrong in it are returned alike;
// failures of nodes are NodeErrors.
func Run(ctx context.Context, opt Options) (*results.Run, error) {
	sc := opt.Scenario
	m := opt.Manifest
	m.Timing = results.Timing{BringUpMS: -1, RunMS: -1, TeardownMS: -1}
	m.SetUpAtStart(sc.Up)
	dir, err := filepath.Abs(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	run, err := results.Create(dir, m)
	if err != nil {
		return nil, err
	}
	if err := run.WriteFile(results.ScenarioFile, sc.YAML()); err != nil {
		return run, err
	}
	log, err := eventlog.OpenWriter(run.Path(results.ControllerFile))
	if err != nil {
		return run, err
	}
	c := newController(opt, run, log)
	err = c.run(ctx)
	m.Interrupted = ctx.Err() != nil
	return run, errors.Join(err, log.Close(), run.WriteManifest(m))
}

// controller is the state of one run. All of it belongs to the loop, but for
// what never changes, events, and lives, which node streams share.
type controller struct {
	opt    Options
	sc     *scenario.Scenario
	run_   *results.Run
	log    *eventlog.Writer
	clock  transport.Clock
	zero   int64
	box    *sandbox.Sandbox
	events chan any
	now    func() core.Instant

	nodes    []*node
	mesh     *mesh.State
	schedule schedule
	waiting  []pendingRole
	measured measured
	progress Progress
	shown    time.Time
	phase    Phase // as last shown
	failures []error
	more     int  // failures beyond maxFailures
	broken   bool // the log cannot be written
	epoch    core.Instant
	began    bool
	joins    int           // reported by nodes
	joinCPU  time.Duration // that these took

	lives lives
	hands hands
}

// maxFailures bounds how many failures are told one by one.
const maxFailures = 10

func newController(opt Options, run *results.Run, log *eventlog.Writer) *controller {
	n := len(opt.Scenario.Topology.Nodes)
	c := &controller{
		opt: opt, sc: opt.Scenario, run_: run, log: log, events: make(chan any, 8*n+64),
		nodes: make([]*node, n), lives: lives{by: make([]*life, n)}, hands: hands{over: make(chan struct{})},
	}
	for i := range c.nodes {
		c.nodes[i] = &node{id: core.NodeID(i)}
	}
	c.progress.Requests = len(c.sc.Arrivals)
	c.zero = transport.Monotonic()
	c.clock = transport.NewClock(c.zero, c.sc.TimeScale)
	c.now = c.clock.Now
	return c
}

// run is the whole life of the run. Whatever happens, the sandbox is closed.
func (c *controller) run(ctx context.Context) (err error) {
	started := time.Now()
	c.box, err = sandbox.Start(ctx, c.run_.Dir)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	service := &nodeService{c: c}
	controlpb.RegisterControllerServer(server, service)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(c.box.Listener) // ends at Stop
	}()
	// The sandbox outlives ctx: an interrupted run is ended in order.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var exits <-chan struct{}
	defer func() {
		closing := time.Now()
		cancel()
		err = errors.Join(err, c.box.Close())
		server.Stop()
		<-served
		service.readers.Wait()
		if exits != nil {
			<-exits
		}
		c.opt.Manifest.Timing.TeardownMS = milliseconds(time.Since(closing))
	}()
	c.openHands()        //nolint:contextcheck // the server ends with the run, not with the interrupt
	defer c.closeHands() //nolint:contextcheck // it ends whatever the interrupt did
	if err := c.wire(ctx); err != nil {
		return err
	}
	c.cutFirst(life)
	if exits, err = c.watchExits(life); err != nil {
		return err
	}
	if err := c.startAll(ctx); err != nil {
		return err
	}
	c.opt.Manifest.Timing.BringUpMS = milliseconds(time.Since(started))
	began := time.Now()
	err = c.loop(ctx, life)
	c.opt.Manifest.Timing.RunMS = milliseconds(time.Since(began))
	if c.joins > 0 {
		c.opt.Manifest.Timing.JoinCPUMS = milliseconds(c.joinCPU) / float64(c.joins)
	}
	err = errors.Join(err, c.end(life))
	if c.more > 0 {
		err = errors.Join(err, fmt.Errorf("and %d more failures", c.more))
	}
	return errors.Join(append(c.failures, err)...)
}

// wire has the mesh wired.
func (c *controller) wire(ctx context.Context) error {
	c.mesh = mesh.New(c.sc.Topology, c.sc.LinkParams, c.sc.Metric)
	plan, err := c.plan().Encode()
	if err != nil {
		return err
	}
	stream, err := c.box.Supervisor.Build(ctx, &controlpb.BuildRequest{Plan: plan})
	if err != nil {
		return fmt.Errorf("wire the mesh: %w", err)
	}
	for {
		p, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("wire the mesh: %w", clean(err))
		}
		c.progress.Phase, c.progress.Stage = Wiring, p.GetStage()
		c.progress.Done, c.progress.Total = int(p.GetDone()), int(p.GetTotal())
		c.show()
	}
}

// plan describes the mesh in real time.
func (c *controller) plan() *supervise.Plan {
	t := c.sc.Topology
	n := len(t.Nodes)
	p := &supervise.Plan{
		Nodes: n, Kind: c.opt.Fabric, Seed: c.sc.Seed, NodeBinary: c.opt.NodeBinary, RunDir: c.run_.Dir,
		Links: make([]fabric.LinkSpec, len(t.Links)), Next: make([]core.NodeID, n*n),
		Capture: c.opt.Capture, CaptureDir: c.run_.Path(results.CapturesDir), Zero: c.zero, TimeScale: c.sc.TimeScale,
	}
	for i, l := range t.Links {
		p.Links[i] = fabric.LinkSpec{
			A: l.A, B: l.B,
			AB: c.mesh.Links[i].AB.Scaled(c.sc.TimeScale), BA: c.mesh.Links[i].BA.Scaled(c.sc.TimeScale),
		}
	}
	for src := range n {
		for dst := range n {
			p.Next[src*n+dst] = c.mesh.Routes().Next(core.NodeID(src), core.NodeID(dst))
		}
	}
	return p
}

// write appends a line to the controller's log. A log that cannot be written
// ends the run: without it nothing can be judged.
func (c *controller) write(e *eventlog.Event) {
	if e.Origin == "" {
		e.Origin = c.hands.origin
	}
	c.happened(e)
	if err := c.log.Write(e); err != nil && !c.broken {
		c.broken = true
		c.fail(fmt.Errorf("write controller's log: %w", err))
	}
}

// fail tells the user at once of something that went wrong and keeps it.
func (c *controller) fail(err error) {
	if len(c.failures) == maxFailures {
		c.more++
		return
	}
	c.failures = append(c.failures, err)
	c.opt.Log.Warn("failure", "error", err)
}

// show gives the terminal a snapshot, a few times a second and of each phase.
func (c *controller) show() {
	if c.progress.Phase == c.phase && time.Since(c.shown) < 200*time.Millisecond {
		return
	}
	c.shown, c.phase = time.Now(), c.progress.Phase
	c.look(true)
	if c.opt.Progress == nil {
		return
	}
	c.progress.Alive, c.progress.Waiting = 0, 0
	for _, n := range c.nodes {
		if n.alive {
			c.progress.Alive++
			if n.standing().Waits {
				c.progress.Waiting++
			}
		}
	}
	c.opt.Progress(c.progress)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// FindNodeBinary returns the path of churnbed-node: beside the running
// program, or in PATH.
func FindNodeBinary() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find churnbed-node: %w", err)
	}
	p := filepath.Join(filepath.Dir(exe), "churnbed-node")
	if st, err := os.Stat(p); err == nil && !st.IsDir() {
		return p, nil
	}
	return lookPath("churnbed-node")
}
