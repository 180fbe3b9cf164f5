package controller

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/mesh"
	"churnbed/emulator/scenario"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/membership"
)

// fresh returns the controller of a line of four nodes, with no process.
func fresh(t *testing.T, settings ...scenario.Setting) *controller {
	t.Helper()
	settings = append([]scenario.Setting{{Key: "topology", Value: "line"}, {Key: "nodes", Value: "4"}}, settings...)
	spec, origin, err := scenario.Load("", settings)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		t.Fatal(err)
	}
	log, err := eventlog.OpenWriter(filepath.Join(t.TempDir(), "controller.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	c := newController(Options{Scenario: sc, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, nil, log)
	c.mesh = mesh.New(sc.Topology, sc.LinkParams, sc.Metric)
	return c
}

// stream is the controller's end of a node's stream.
type stream struct {
	ctx      context.Context
	reports  chan *controlpb.Report
	commands chan *controlpb.Command
}

func (s *stream) Recv() (*controlpb.Report, error) {
	select {
	case r, ok := <-s.reports:
		if !ok {
			return nil, io.EOF
		}
		return r, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *stream) Send(c *controlpb.Command) error {
	select {
	case s.commands <- c:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *stream) Context() context.Context     { return s.ctx }
func (s *stream) SetHeader(metadata.MD) error  { return nil }
func (s *stream) SendHeader(metadata.MD) error { return nil }
func (s *stream) SetTrailer(metadata.MD)       {}
func (s *stream) SendMsg(any) error            { return nil }
func (s *stream) RecvMsg(any) error            { return nil }

var _ grpc.BidiStreamingServer[controlpb.Report, controlpb.Command] = (*stream)(nil)

// attach lets a process say Hello; result gets what Attach returns.
func attach(t *testing.T, c *controller, hello *controlpb.Report_Hello) (s *stream, result <-chan error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	s = &stream{ctx: ctx, reports: make(chan *controlpb.Report, 8), commands: make(chan *controlpb.Command)}
	s.reports <- &controlpb.Report{What: &controlpb.Report_Hello_{Hello: hello}}
	done := make(chan error, 1)
	service := &nodeService{c: c}
	over := make(chan struct{})
	go func() {
		defer close(over)
		done <- service.Attach(s)
	}()
	t.Cleanup(func() {
		cancel()
		<-over
		service.readers.Wait()
	})
	return s, done
}

func (s *stream) next(t *testing.T) *controlpb.Command {
	t.Helper()
	select {
	case c := <-s.commands:
		return c
	case <-s.ctx.Done():
		t.Fatal("no command came")
		return nil
	}
}

func TestAttachRefuses(t *testing.T) {
	c := fresh(t)
	n := c.nodes[2]
	n.inc = core.FirstIncarnation
	c.expect(n)
	for _, test := range []struct {
		name  string
		hello *controlpb.Report_Hello
		code  codes.Code
	}{
		{"no hello", nil, codes.InvalidArgument},
		{"other contract", &controlpb.Report_Hello{Node: 2, Incarnation: 1024, Contract: 2}, codes.FailedPrecondition},
		{"other life", &controlpb.Report_Hello{Node: 2, Incarnation: 2048, Contract: 1}, codes.PermissionDenied},
		{"not started", &controlpb.Report_Hello{Node: 1, Incarnation: 1024, Contract: 1}, codes.PermissionDenied},
		{"no such node", &controlpb.Report_Hello{Node: 1 << 31, Incarnation: 1024, Contract: 1}, codes.PermissionDenied},
	} {
		if _, result := attach(t, c, test.hello); status.Code(<-result) != test.code {
			t.Errorf("%s: want %v", test.name, test.code)
		}
	}
	s, _ := attach(t, c, &controlpb.Report_Hello{Node: 2, Incarnation: 1024, Contract: 1})
	if s.next(t).GetConfigure() == nil {
		t.Error("no Configure")
	}
	if _, result := attach(t, c, &controlpb.Report_Hello{Node: 2, Incarnation: 1024, Contract: 1}); status.Code(<-result) != codes.PermissionDenied {
		t.Error("one life attached twice")
	}
}

// What is told to a life before its process has attached reaches it, in order,
// after its configuration: the epoch, an oracle's news, the end.
func TestToldBeforeAttached(t *testing.T) {
	c := fresh(t, scenario.Setting{Key: "membership", Value: "oracle"})
	for _, n := range c.nodes {
		n.inc, n.alive = core.FirstIncarnation, true
		c.expect(n)
	}
	c.begin(7)
	// Node 0 starts again; node 1 dies and node 2 is told of before 0 attaches.
	c.ended(c.nodes[0])
	c.nodes[0].inc = 2048
	c.expect(c.nodes[0])
	c.nodes[0].alive = true
	c.ended(c.nodes[1])
	c.announce(c.nodes[1], membership.Failed)
	c.tellAll(&controlpb.Command{What: &controlpb.Command_Stop_{Stop: &controlpb.Command_Stop{}}})
	s, result := attach(t, c, &controlpb.Report_Hello{Node: 0, Incarnation: 2048, Contract: 1})
	configure := s.next(t).GetConfigure()
	if configure == nil || !strings.Contains(string(configure.GetConfigJson()), `"members":[{"id":1,"inc":1024},{"id":2,"inc":1024},{"id":3,"inc":1024}]`) {
		t.Errorf("configuration %s", configure.GetConfigJson())
	}
	if b := s.next(t).GetBegin(); b.GetEpochNs() != 7 {
		t.Errorf("begin %v", b)
	}
	if told := s.next(t).GetTold(); told.GetNode() != 1 || membership.ChangeKind(told.GetChange()) != membership.Failed {
		t.Errorf("told %v", told)
	}
	if s.next(t).GetStop() == nil {
		t.Error("no Stop")
	}
	s.reports <- &controlpb.Report{What: &controlpb.Report_Stopped_{Stopped: &controlpb.Report_Stopped{}}}
	if err := <-result; err != nil {
		t.Error(err)
	}
	if r := (<-c.events).(reported); r.report.GetStopped() == nil || r.peer != (core.Peer{ID: 0, Inc: 2048}) {
		t.Errorf("event %v", r)
	}
}

// The loop never waits for a node that does not read.
func TestTellDoesNotBlock(t *testing.T) {
	c := fresh(t)
	n := c.nodes[3]
	n.inc = core.FirstIncarnation
	c.expect(n)
	attach(t, c, &controlpb.Report_Hello{Node: 3, Incarnation: 1024, Contract: 1}) // and never takes a command
	for range 100_000 {
		c.tell(3, beginCommand(1))
	}
}

// A later life learns the delays that links have now, and which way they go.
func TestDelaysOfLaterLives(t *testing.T) {
	c := fresh(t)
	i := c.sc.Topology.LinkIndex(1, 2)
	c.mesh.Links[i].AB.Delay = 30 * time.Millisecond // from 1 to 2
	n := c.nodes[2]
	n.inc = 2048
	c.expect(n)
	cfg := c.configuration(c.lives.of(2))
	if len(cfg.Neighbours) != 2 || cfg.Neighbours[0] != 1 || cfg.LinkDelay[0] != 30e6 || cfg.LinkDelay[1] != 5e6 {
		t.Errorf("neighbours %v delays %v", cfg.Neighbours, cfg.LinkDelay)
	}
}

func TestHopeless(t *testing.T) {
	c := fresh(t)
	c.schedule.addChore(5, nil)
	if c.hopeless() {
		t.Error("hopeless though nothing went wrong")
	}
	c.fail(&NodeError{1, "ended"})
	if !c.hopeless() {
		t.Error("waits for the next measurement of a mesh without nodes")
	}
	c.schedule.add(9, nil)
	if c.hopeless() {
		t.Error("hopeless though a restart may come")
	}
	c.schedule.pop()
	c.schedule.pop()
	c.nodes[0].alive = true
	if c.hopeless() || c.schedule.next() != core.Never {
		t.Error("hopeless though a node runs")
	}
}

// Failures are told one by one up to a bound.
func TestFailuresAreBounded(t *testing.T) {
	c := fresh(t)
	for range maxFailures + 5 {
		c.fail(&NodeError{1, "ended"})
	}
	if len(c.failures) != maxFailures || c.more != 5 {
		t.Errorf("%d and %d more", len(c.failures), c.more)
	}
}
