// Package host is the shell of a real node: the loop that gives node/stack a
// socket, a clock, a log file and the controller's stream. It decides nothing
// of a protocol. One goroutine owns the machine; a second one reads the
// controller's commands and hands them over.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"churnbed/emulator/controlpb"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/membership"
	"churnbed/node/mutex"
	"churnbed/node/stack"
	"churnbed/node/transport"
	"churnbed/node/wire"
)

// Contract is the version of node/CONTRACT.md that this node keeps.
const Contract = 1

// Stream is the node's end of the Attach call.
type Stream interface {
	Send(*controlpb.Report) error
	Recv() (*controlpb.Command, error)
}

// Env is what the process was started with.
type Env struct {
	Node    core.Peer
	Address netip.Addr // mesh address
	Log     io.Writer  // opened for appending
	State   string     // file for what is kept over a crash; "": nothing is
	Stream  Stream
}

// Run runs the node until the controller ends it or it cannot go on.
func Run(ctx context.Context, env Env) error {
	err := run(ctx, env)
	if err != nil && !errors.Is(err, errDetached) {
		// Best effort: the controller learns of it, and the log keeps it.
		line, _ := json.Marshal(eventlog.Event{
			Kind: eventlog.Failure, Node: int32(env.Node.ID), Inc: uint32(env.Node.Inc), Text: err.Error(),
		})
		_, _ = env.Log.Write(append(line, '\n'))
		_ = env.Stream.Send(&controlpb.Report{What: &controlpb.Report_Failed_{Failed: &controlpb.Report_Failed{Error: err.Error()}}})
	}
	return err
}

// errDetached means that the controller is gone: there is nobody to report to.
var errDetached = errors.New("controller has gone")

func run(ctx context.Context, env Env) error {
	err := env.Stream.Send(&controlpb.Report{What: &controlpb.Report_Hello_{Hello: &controlpb.Report_Hello{
		Node: uint32(env.Node.ID), Incarnation: uint32(env.Node.Inc), Pid: int32(os.Getpid()), Contract: Contract,
	}}})
	if err != nil {
		return fmt.Errorf("%w: %w", errDetached, err)
	}
	first, err := env.Stream.Recv()
	if err != nil {
		return fmt.Errorf("%w: %w", errDetached, err)
	}
	configure := first.GetConfigure()
	if configure == nil {
		return fmt.Errorf("first command is %T, want Configure", first.GetWhat())
	}
	var cfg stack.Config
	if err := json.Unmarshal(configure.GetConfigJson(), &cfg); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	machine, err := stack.New(cfg)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	socket, err := transport.Listen(netip.AddrPortFrom(env.Address, wire.Port))
	if err != nil {
		return err
	}
	clock := transport.NewClock(configure.GetZeroMonotonicNs(), configure.GetTimeScale())
	h := &host{
		env: env, machine: machine, socket: socket, log: eventlog.NewWriter(env.Log),
		clock:     clock,
		addresses: addressTable(env, cfg.Nodes),
		dropped:   newUDPDrops(clock.Now()),
	}
	if cfg.Algorithm.Release == stack.Multicast {
		h.neighbours = cfg.Neighbours
		if h.links, err = socket.Join(interfaces(cfg.Neighbours)); err != nil {
			return errors.Join(err, socket.Close())
		}
	}
	if cfg.Algorithm.Durable {
		if h.kept, err = recall(env.State); err != nil {
			return errors.Join(err, socket.Close())
		}
	}
	defer context.AfterFunc(ctx, socket.Wake)()
	received := make(chan struct{})
	go func() {
		defer close(received)
		h.receive()
	}()
	err = h.loop(ctx)
	if err == nil {
		// The controller closes the stream when it has the last report: before
		// that, the process must not end.
		<-received
	}
	return errors.Join(err, socket.Close(), h.closeLinks())
}

// addressTable computes the mesh addresses of all nodes from the node's own:
// they are numbered by id from one base.
func addressTable(env Env, nodes int) []netip.Addr {
	own := env.Address.As4()
	base := uint32(own[0])<<24 | uint32(own[1])<<16 | uint32(own[2])<<8 | uint32(own[3])
	base -= uint32(env.Node.ID)
	table := make([]netip.Addr, nodes)
	for i := range table {
		a := base + uint32(i)
		table[i] = netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)})
	}
	return table
}

// interfaces names the interfaces to the neighbours (node/CONTRACT.md).
func interfaces(neighbours []core.NodeID) []string {
	names := make([]string, len(neighbours))
	for i, n := range neighbours {
		names[i] = "n" + strconv.Itoa(int(n))
	}
	return names
}

type host struct {
	env       Env
	machine   *stack.Node
	socket    *transport.Socket
	log       *eventlog.Writer
	clock     transport.Clock
	addresses []netip.Addr
	effects   []stack.Effect
	failed    error // of a datagram
	malformed int64
	// links are the kernel's interface numbers to the one-hop neighbours, where
	// something is flooded; 0: no such interface.
	neighbours []core.NodeID
	links      []int
	carrier    *carrier // nil: the machine does not want to know of links
	dropped    udpDrops
	ended      bool
	kept       []byte // by earlier lives

	mu       sync.Mutex
	commands []*controlpb.Command
	detached error
}

// receive hands the controller's commands over to the loop.
func (h *host) receive() {
	for {
		c, err := h.env.Stream.Recv()
		h.mu.Lock()
		if err != nil {
			h.detached = err
		} else {
			h.commands = append(h.commands, c)
		}
		h.mu.Unlock()
		h.socket.Wake()
		if err != nil {
			return
		}
	}
}

// loop gives the machine commands, datagrams and time, in this order: what
// arrived before a timer was due is handled before it, also where the host is
// overloaded or the process was stopped meanwhile.
func (h *host) loop(ctx context.Context) error {
	if err := h.step(h.clock.Now(), stack.Boot{PID: os.Getpid(), Kept: h.kept}); err != nil {
		return err
	}
	if err := h.openLinks(); err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := h.obey(); err != nil || h.ended {
			return err
		}
		if err := h.follow(); err != nil || h.ended {
			return err
		}
		more, err := h.read()
		if err != nil || h.ended {
			return err
		}
		if err := h.tick(); err != nil || h.ended {
			return err
		}
		if err := h.socket.Flush(); err != nil {
			return err
		}
		timeout := time.Duration(-1)
		if more {
			timeout = 0
		} else if d := h.machine.Deadline(); d != core.Never {
			timeout = max(0, h.clock.Real(d.Sub(h.clock.Now())))
		}
		if err := h.socket.Wait(timeout); err != nil {
			return err
		}
	}
}

// read hands over the datagrams that are there, a few batches at most, so that
// timers and commands get their turn; more tells that some are left.
func (h *host) read() (more bool, err error) {
	for range 4 {
		n, err := h.socket.Receive(func(b []byte) {
			if h.failed == nil && !h.ended {
				h.failed = h.datagram(b)
			}
		})
		if err := errors.Join(err, h.failed, h.socket.Flush()); err != nil {
			return false, err
		}
		if n == 0 || h.ended {
			return false, nil
		}
	}
	return true, nil
}

// tick lets the machine do what is due.
func (h *host) tick() error {
	for !h.ended {
		now := h.clock.Now()
		if h.machine.Deadline() > now {
			break
		}
		if err := h.step(now, stack.Tick{Lost: h.dropped.read(now)}); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) datagram(b []byte) error {
	if err := h.follow(); err != nil || h.ended {
		return err
	}
	f, err := wire.Parse(b)
	if _, flood := f.Msg.(*wire.Flood); err != nil || !flood && f.To != h.env.Node.ID {
		// Not ours, or damaged: as good as lost.
		h.malformed++
		return nil
	}
	now := h.clock.Now()
	h.effects = h.machine.Arrive(now, &f, len(b), h.effects[:0])
	return h.carryOut(now)
}

// obey carries out the commands that arrived.
func (h *host) obey() error {
	h.mu.Lock()
	commands, detached := h.commands, h.detached
	h.commands = nil
	h.mu.Unlock()
	for _, c := range commands {
		var in stack.Input
		switch c := c.GetWhat().(type) {
		case *controlpb.Command_Begin_:
			in = stack.Begin{Epoch: core.Instant(c.Begin.GetEpochNs())}
		case *controlpb.Command_Leave_:
			in = stack.Leave{}
		case *controlpb.Command_Stop_:
			in = stack.Stop{}
		case *controlpb.Command_Enter_:
			in = stack.Enter{No: int(c.Enter.GetNo()), CS: time.Duration(c.Enter.GetCsNs())}
		case *controlpb.Command_Told_:
			in = stack.Told{Change: membership.Change{
				Peer: core.Peer{ID: core.NodeID(c.Told.GetNode()), Inc: core.Incarnation(c.Told.GetIncarnation())},
				Kind: membership.ChangeKind(c.Told.GetChange()),
			}}
		case *controlpb.Command_Trigger_:
			in = stack.Trigger{Routine: int(c.Trigger.GetRoutine())}
		case *controlpb.Command_Links_:
			in = stack.Relink{Delay: c.Links.GetDelayNs()}
		default:
			return fmt.Errorf("unexpected command %T", c)
		}
		if err := h.step(h.clock.Now(), in); err != nil || h.ended {
			return err
		}
	}
	if detached != nil {
		return fmt.Errorf("%w: %w", errDetached, detached)
	}
	return nil
}

// step gives the machine one input and carries out the effects.
func (h *host) step(now core.Instant, in stack.Input) error {
	h.effects = h.machine.Step(now, in, h.effects[:0])
	return h.carryOut(now)
}

// carryOut does what the last step asks, in order.
func (h *host) carryOut(now core.Instant) error {
	for i := range h.effects {
		e := &h.effects[i]
		switch e.Op {
		case stack.Send:
			if e.To < 0 || int(e.To) >= len(h.addresses) {
				continue
			}
			if e.OneHop {
				if err := h.sendOver(e); err != nil {
					return err
				}
				continue
			}
			if err := h.socket.Send(h.addresses[e.To], e.Frame.Append); err != nil {
				return err
			}
		case stack.Flood:
			for k, n := range h.neighbours {
				if n == e.To {
					continue
				}
				if err := h.socket.SendOneHop(h.links[k], e.Frame.Append); err != nil {
					return err
				}
			}
		case stack.Persist:
			if err := h.keep(e.Data); err != nil {
				return err
			}
		case stack.Log:
			if e.Event.Kind == eventlog.Counters {
				e.Event.Usage = usage()
			}
			if err := h.log.Write(e.Event); err != nil {
				return fmt.Errorf("write event log: %w", err)
			}
		case stack.State:
			h.report(&controlpb.Report{What: &controlpb.Report_Changed_{Changed: &controlpb.Report_Changed{
				State: stateCodes[e.State], At: int64(now), No: uint32(e.No),
			}}})
		case stack.Joined:
			h.report(&controlpb.Report{What: &controlpb.Report_Joined_{Joined: &controlpb.Report_Joined{
				Size: uint32(h.machine.Membership().Size()), Cpu: int64(used()),
			}}})
		case stack.Standing:
			s := e.Standing
			h.report(&controlpb.Report{What: &controlpb.Report_Standing_{Standing: &controlpb.Report_Standing{
				Leads: s.Leads, Holds: s.Holds, Waits: s.Waits, Executed: uint32(s.Executed),
			}}})
		case stack.Idle:
			h.report(&controlpb.Report{What: &controlpb.Report_Idle_{Idle: &controlpb.Report_Idle{}}})
		case stack.End:
			h.ended = true
			if err := h.socket.Flush(); err != nil {
				return err
			}
			h.report(&controlpb.Report{What: &controlpb.Report_Stopped_{Stopped: &controlpb.Report_Stopped{}}})
		}
	}
	return nil
}

var stateCodes = map[mutex.State]controlpb.Report_Changed_State{
	mutex.None: controlpb.Report_Changed_NONE,
	mutex.Wait: controlpb.Report_Changed_WAIT,
	mutex.Held: controlpb.Report_Changed_HELD,
}

// report tells the controller. A lost controller is noticed by receive.
func (h *host) report(r *controlpb.Report) { _ = h.env.Stream.Send(r) }
