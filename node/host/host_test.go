package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"churnbed/emulator/controlpb"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/host"
	"churnbed/node/stack"
	"churnbed/node/transport"
)

// stream is a control stream in memory; the test is the controller.
type stream struct {
	commands chan *controlpb.Command
	reports  chan *controlpb.Report
	close    func()
	closed   chan struct{}
}

func newStream() *stream {
	s := &stream{commands: make(chan *controlpb.Command, 16), reports: make(chan *controlpb.Report, 256), closed: make(chan struct{})}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	return s
}

func (s *stream) Send(r *controlpb.Report) error {
	select {
	case <-s.closed:
		return io.EOF
	case s.reports <- r:
		return nil
	}
}

func (s *stream) Recv() (*controlpb.Command, error) {
	select {
	case c := <-s.commands:
		return c, nil
	default:
	}
	select {
	case <-s.closed:
		return nil, io.EOF
	case c := <-s.commands:
		return c, nil
	}
}

// logFile keeps what is written, and fails when told to.
type logFile struct {
	mu   sync.Mutex
	b    bytes.Buffer
	fail error
}

func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return 0, l.fail
	}
	return l.b.Write(b)
}

func (l *logFile) events(t testing.TB) (list []eventlog.Event) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	r := eventlog.NewReader("log", bytes.NewReader(l.b.Bytes()))
	for r.Scan() {
		list = append(list, r.Event())
	}
	if len(r.Cut()) > 0 {
		t.Errorf("cut lines %v", r.Cut())
	}
	return list
}

// nodeRun is one host in a goroutine.
type nodeRun struct {
	*testing.T
	stream *stream
	log    *logFile
	done   chan error
	seen   []string
}

func address(id core.NodeID) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 77, byte(os.Getpid()), byte(10 + id)})
}

func start(ctx context.Context, t *testing.T, id core.NodeID, log *logFile) *nodeRun {
	t.Helper()
	n := &nodeRun{T: t, stream: newStream(), log: log, done: make(chan error, 1)}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		n.done <- host.Run(ctx, host.Env{
			Node: core.Peer{ID: id, Inc: core.FirstIncarnation}, Address: address(id), Log: log, Stream: n.stream,
		})
	}()
	t.Cleanup(func() { // the next test takes the same address
		n.stream.close()
		<-gone
	})
	return n
}

func config(id core.NodeID, nodes int) stack.Config {
	c := stack.Config{
		Self: core.Peer{ID: id, Inc: core.FirstIncarnation}, Nodes: nodes,
		Algorithm: stack.Algorithm{Name: "camera"}, Membership: stack.Membership{Service: "static"},
	}
	for i := range core.NodeID(nodes) {
		if i != id {
			c.Members = append(c.Members, core.Peer{ID: i, Inc: core.FirstIncarnation})
			c.Neighbours = append(c.Neighbours, i)
		}
	}
	return c
}

func (n *nodeRun) configure(c stack.Config) {
	n.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		n.Fatal(err)
	}
	n.stream.commands <- &controlpb.Command{What: &controlpb.Command_Configure_{Configure: &controlpb.Command_Configure{
		ConfigJson: b, ZeroMonotonicNs: transport.Monotonic(), TimeScale: 1,
	}}}
}

func name(r *controlpb.Report) string {
	switch w := r.GetWhat().(type) {
	case *controlpb.Report_Hello_:
		return "hello"
	case *controlpb.Report_Joined_:
		return "joined"
	case *controlpb.Report_Changed_:
		return w.Changed.GetState().String()
	case *controlpb.Report_Idle_:
		return "idle"
	case *controlpb.Report_Stopped_:
		return "stopped"
	case *controlpb.Report_Failed_:
		return "failed"
	}
	return "?"
}

// until reads reports up to one of that name.
func (n *nodeRun) until(want string) *controlpb.Report {
	n.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case r := <-n.stream.reports:
			n.seen = append(n.seen, name(r))
			if name(r) == want {
				return r
			}
		case <-timeout:
			n.Fatalf("no report %q after %q", want, n.seen)
		}
	}
}

func (n *nodeRun) end() error {
	n.Helper()
	select {
	case err := <-n.done:
		return err
	case <-time.After(30 * time.Second):
		n.Fatal("the node did not end")
		return nil
	}
}

var (
	begin = &controlpb.Command{What: &controlpb.Command_Begin_{Begin: &controlpb.Command_Begin{EpochNs: 1}}}
	stop  = &controlpb.Command{What: &controlpb.Command_Stop_{Stop: &controlpb.Command_Stop{}}}
	leave = &controlpb.Command{What: &controlpb.Command_Leave_{Leave: &controlpb.Command_Leave{}}}
)

func enter(no uint32, cs time.Duration) *controlpb.Command {
	return &controlpb.Command{What: &controlpb.Command_Enter_{Enter: &controlpb.Command_Enter{No: no, CsNs: int64(cs)}}}
}

// Three nodes on real sockets enter one after the other, as their logs prove,
// and end in order.
func TestThreeNodes(t *testing.T) {
	const nodes, each = 3, 4
	var list []*nodeRun
	zero := transport.Monotonic()
	for id := range core.NodeID(nodes) {
		n := start(t.Context(), t, id, &logFile{})
		hello := n.until("hello").GetHello()
		if hello.GetNode() != uint32(id) || hello.GetIncarnation() != uint32(core.FirstIncarnation) || hello.GetContract() != host.Contract || hello.GetPid() != int32(os.Getpid()) {
			t.Errorf("hello %v", hello)
		}
		b, err := json.Marshal(config(id, nodes))
		if err != nil {
			t.Fatal(err)
		}
		n.stream.commands <- &controlpb.Command{What: &controlpb.Command_Configure_{Configure: &controlpb.Command_Configure{
			ConfigJson: b, ZeroMonotonicNs: zero, TimeScale: 1,
		}}}
		list = append(list, n)
	}
	for i, n := range list {
		if j := n.until("joined").GetJoined(); j.GetSize() != nodes {
			t.Errorf("node %d joined a list of %d", i, j.GetSize())
		}
	}
	for i, n := range list {
		n.stream.commands <- begin
		for k := range each {
			n.stream.commands <- enter(uint32(each*i+k+1), 3*time.Millisecond)
		}
	}
	for _, n := range list {
		for range each {
			n.until("HELD")
		}
		n.until("idle")
	}
	for _, n := range list {
		n.stream.commands <- stop
		n.until("stopped")
		n.stream.close()
		if err := n.end(); err != nil {
			t.Error(err)
		}
	}
	type section struct{ from, to int64 }
	var sections []section
	for i, n := range list {
		events := n.log.events(t)
		open, last := int64(0), int64(0)
		for _, e := range events {
			if e.T < last {
				t.Errorf("node %d: %s at %d follows %d", i, e.Kind, e.T, last)
			}
			last = e.T
			switch e.Kind {
			case eventlog.Enter:
				open = e.T
			case eventlog.Exit:
				sections = append(sections, section{open, e.T})
			}
		}
		if first, end := events[0].Kind, events[len(events)-1].Kind; first != eventlog.Start || end != eventlog.Stop {
			t.Errorf("node %d: log from %q to %q", i, first, end)
		}
	}
	if len(sections) != nodes*each {
		t.Errorf("%d sections, want %d", len(sections), nodes*each)
	}
	for i, a := range sections {
		for _, b := range sections[:i] {
			if a.from < b.to && b.from < a.to {
				t.Errorf("sections %v and %v overlap", a, b)
			}
		}
	}
}

// A leaving node says goodbye and ends.
func TestLeave(t *testing.T) {
	n := start(t.Context(), t, 0, &logFile{})
	n.configure(config(0, 1))
	n.until("joined")
	n.stream.commands <- leave
	n.until("stopped")
	n.stream.close()
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

// What keeps a node from running is told to the controller and the log.
func TestFailures(t *testing.T) {
	full := errors.New("no space left")
	for name, c := range map[string]struct {
		spoil func(n *nodeRun)
		want  string
		quiet bool // nobody to tell
	}{
		"not configured": {func(n *nodeRun) { n.stream.commands <- stop }, "want Configure", false},
		"no JSON": {func(n *nodeRun) {
			n.stream.commands <- &controlpb.Command{What: &controlpb.Command_Configure_{Configure: &controlpb.Command_Configure{ConfigJson: []byte("{")}}}
		}, "read configuration", false},
		"bad configuration": {func(n *nodeRun) { n.configure(config(2, 2)) }, "read configuration", false},
		"configured twice": {func(n *nodeRun) {
			n.configure(config(0, 1))
			n.until("joined")
			n.configure(config(0, 1))
		}, "unexpected command", false},
		"disk full": {func(n *nodeRun) {
			n.log.fail = full
			n.configure(config(0, 1))
		}, "write event log", false},
		"controller gone": {func(n *nodeRun) {
			n.configure(config(0, 1))
			n.until("joined")
			n.stream.close()
		}, "controller has gone", true},
		"controller gone at once": {func(n *nodeRun) { n.stream.close() }, "controller has gone", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t.Context(), t, 0, &logFile{})
			n.until("hello")
			c.spoil(n)
			if !c.quiet {
				if told := n.until("failed").GetFailed().GetError(); !strings.Contains(told, c.want) {
					t.Errorf("told %q, want %q", told, c.want)
				}
			}
			if err := n.end(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("ended by %v, want %q", err, c.want)
			}
			if n.log.fail == nil && !c.quiet {
				events := n.log.events(t)
				if last := events[len(events)-1]; last.Kind != eventlog.Failure || !strings.Contains(last.Text, c.want) {
					t.Errorf("last line %+v", last)
				}
			}
		})
	}
}

// The address may be taken.
func TestAddressTaken(t *testing.T) {
	first := start(t.Context(), t, 0, &logFile{})
	first.configure(config(0, 1))
	first.until("joined")
	second := start(t.Context(), t, 0, &logFile{})
	second.configure(config(0, 1))
	second.until("failed")
	if err := second.end(); err == nil || !strings.Contains(err.Error(), "bind udp socket") {
		t.Error(err)
	}
}

// A cancelled context ends a node that waits for nothing.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := start(ctx, t, 0, &logFile{})
	n.configure(config(0, 1))
	n.until("joined")
	cancel()
	if err := n.end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
