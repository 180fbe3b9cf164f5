// Package sim runs a whole mesh in virtual time: the same node/stack machines
// that real nodes run, over the same link model, routes, workloads and
// faults, driven by one event heap. Nothing in it depends on the host's speed
// or on the number of processors: the same configuration gives the same
// events everywhere. It reads no file and knows no process. One goroutine
// owns a World.
package sim

import (
	"fmt"
	"time"

	"churnbed/emulator/link"
	"churnbed/emulator/mesh"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/membership"
	"churnbed/node/mutex"
	"churnbed/node/stack"
	"churnbed/node/wire"
	"churnbed/topologies"
	"churnbed/workloads"
)

// Config says what to simulate. Instants and durations are scenario time.
type Config struct {
	Topology *topologies.Topology
	Params   func(i int) (ab, ba link.Params)
	Metric   topologies.Metric
	// Convergence is how long routes take to follow a change of the links.
	Convergence time.Duration
	Seed        uint64

	// NodeConfig is the configuration of one life of a node.
	NodeConfig func(n core.NodeID, inc core.Incarnation) stack.Config
	Oracle     bool // tell the nodes of every start and end at once
	Up         []bool
	Arrivals   []workloads.Arrival
	Faults     []workloads.Fault
	Warmup     time.Duration // between everyone joined and the epoch
	Duration   time.Duration // after the epoch; 0 = until all is served
	Drain      time.Duration // after the last arrival, where Duration is 0

	// Log receives every line that a node (or, with Node -1, the controller)
	// would have written, in order.
	Log func(log core.NodeID, e *eventlog.Event)
}

// joinLimit bounds how long the first nodes may take to join.
const joinLimit = 10 * time.Minute

// headerBytes is what Ethernet, IPv4 and UDP add to a frame on a link.
const headerBytes = 14 + 20 + 8

// World is one simulation.
type World struct {
	cfg    Config
	mesh   *mesh.State
	now    core.Instant
	events core.Heap[event]
	seq    uint64
	nodes  []node
	chans  []*link.Channel // two a link: A->B at 2i, B->A at 2i+1
	linkOf []int32         // [from*nodes+to] of neighbours
	queued bool            // some link has a rate: hops must happen in order

	epoch   core.Instant
	began   bool
	joining int
	effects []stack.Effect
	waiting []pendingRole
	err     error

	// Stats of the run.
	Stats Stats
}

// Stats counts what happened.
type Stats struct {
	Events   int64 // handled
	Served   int
	Kills    int
	Restarts int
	Pauses   int
	Holders  int // in the critical section now, by the machines' own account
	Most     int // largest number at once
	Hops     [wire.NumClasses]int64
	HopBytes int64
	Dropped  int64
	Links    []LinkStats // two a link
}

// LinkStats counts one direction of a link.
type LinkStats struct{ Frames, Bytes, Dropped int64 }

type node struct {
	machine *stack.Node
	inc     core.Incarnation // of the present or last life
	alive   bool
	joined  bool
	idle    bool
	paused  bool
	leaving bool
	state   mutex.State
	timer   core.Instant // earliest timer event in the heap for this life
	inbox   []wire.Frame // while paused
}

// event is one entry of the heap: a function call at an instant. Frames and
// timers, the many, have fields of their own.
type event struct {
	at    core.Instant
	seq   uint64
	kind  eventKind
	node  core.NodeID // where
	inc   core.Incarnation
	frame wire.Frame
	size  int
	do    func()
}

type eventKind uint8

const (
	deliver eventKind = iota
	hop               // frame is at node, on its way
	timer
	call
)

// New prepares a simulation.
func New(cfg Config) (*World, error) {
	n := len(cfg.Topology.Nodes)
	w := &World{
		cfg: cfg, nodes: make([]node, n),
		mesh:   mesh.New(cfg.Topology, cfg.Params, cfg.Metric),
		chans:  make([]*link.Channel, 2*len(cfg.Topology.Links)),
		linkOf: make([]int32, n*n),
		events: core.Heap[event]{Less: func(a, b *event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }},
	}
	w.Stats.Links = make([]LinkStats, len(w.chans))
	for i := range w.mesh.Links {
		l := &w.mesh.Links[i]
		w.chans[2*i] = link.NewChannel(l.AB, core.Stream(cfg.Seed, fmt.Sprintf("link/%d-%d", l.A, l.B)))
		w.chans[2*i+1] = link.NewChannel(l.BA, core.Stream(cfg.Seed, fmt.Sprintf("link/%d-%d", l.B, l.A)))
		w.queued = w.queued || l.AB.Rate > 0 || l.BA.Rate > 0
		w.linkOf[int(l.A)*n+int(l.B)], w.linkOf[int(l.B)*n+int(l.A)] = int32(i), int32(i)
	}
	for i := range cfg.Faults {
		w.queued = w.queued || cfg.Faults[i].Set.Rate != nil
	}
	return w, nil
}

// Now is the present instant.
func (w *World) Now() core.Instant { return w.now }

// Epoch is when the workload began; 0 before that.
func (w *World) Epoch() core.Instant { return w.epoch }

// Machine is the present life of a node, nil where it is dead.
func (w *World) Machine(n core.NodeID) *stack.Node {
	if !w.nodes[n].alive {
		return nil
	}
	return w.nodes[n].machine
}

// Run simulates from the start of the first nodes to the end of the run. stop
// is asked now and then whether to end early (nil: never).
func (w *World) Run(stop func() bool) error {
	for i := range w.nodes {
		if w.cfg.Up[i] {
			w.joining++
			w.start(core.NodeID(i))
		}
	}
	for limit := w.now.Add(joinLimit); w.joining > 0; {
		if !w.step(limit) {
			return fmt.Errorf("simulate: %d nodes have not joined after %v", w.joining, joinLimit)
		}
	}
	w.begin()
	last := w.epoch
	for i := range w.cfg.Arrivals {
		last = max(last, w.epoch.Add(w.cfg.Arrivals[i].At))
	}
	limit := last.Add(w.cfg.Drain)
	if w.cfg.Duration > 0 {
		last, limit = core.Never, w.epoch.Add(w.cfg.Duration)
	}
	for n := 0; w.err == nil; n++ {
		if w.now > last && w.settled() || !w.step(limit) {
			break
		}
		if stop != nil && n%1024 == 0 && stop() {
			break
		}
	}
	for i := range w.nodes {
		if w.nodes[i].alive {
			w.input(core.NodeID(i), stack.Stop{})
		}
	}
	w.log(-1, &eventlog.Event{Kind: eventlog.End, Node: -1})
	return w.err
}

// ExpectedDrops is how many frames direction k (two a link, as Stats.Links)
// was to lose by its configured loss.
func (w *World) ExpectedDrops(k int) float64 { return w.chans[k].ExpectedLoss() }

// settled reports whether every node that runs has nothing to do.
func (w *World) settled() bool {
	for i := range w.nodes {
		if n := &w.nodes[i]; n.alive && !n.idle {
			return false
		}
	}
	return true
}

// begin tells everyone the epoch and plans the faults.
func (w *World) begin() {
	w.epoch, w.began = w.now.Add(w.cfg.Warmup), true
	w.log(-1, &eventlog.Event{T: int64(w.epoch), Kind: eventlog.Epoch, Node: -1})
	for i := range w.nodes {
		if w.nodes[i].alive {
			w.input(core.NodeID(i), stack.Begin{Epoch: w.epoch})
		}
	}
	for i := range w.cfg.Faults {
		f := &w.cfg.Faults[i]
		w.after(w.epoch.Add(f.At), func() { w.strike(f) })
	}
}

// push adds an event.
func (w *World) push(e event) {
	w.seq++
	e.seq = w.seq
	w.events.Push(e)
}

func (w *World) after(at core.Instant, do func()) {
	w.push(event{at: max(at, w.now), kind: call, do: do})
}

// step handles the next event, unless it lies beyond limit.
func (w *World) step(limit core.Instant) bool {
	if w.events.Len() == 0 || w.events.Min().at > limit {
		if limit != core.Never {
			w.now = max(w.now, limit)
		}
		return false
	}
	e := w.events.Pop()
	w.now = e.at
	w.Stats.Events++
	switch e.kind {
	case deliver:
		w.deliver(e.node, e.frame)
	case hop:
		w.forward(e.node, e.frame, e.size, e.at)
	case timer:
		w.timer(e.node, e.inc)
	case call:
		e.do()
	}
	return true
}

func (w *World) timer(id core.NodeID, inc core.Incarnation) {
	n := &w.nodes[id]
	if !n.alive || n.inc != inc || n.timer != w.now {
		return
	}
	n.timer = core.Never
	if n.paused {
		return // it comes late, when the node is resumed
	}
	if n.machine.Deadline() <= w.now {
		w.input(id, stack.Tick{})
	}
	w.rearm(id)
}

// rearm makes sure that a timer event stands at the node's deadline.
func (w *World) rearm(id core.NodeID) {
	n := &w.nodes[id]
	if !n.alive {
		return
	}
	if d := n.machine.Deadline(); d < n.timer {
		n.timer = max(d, w.now)
		w.push(event{at: n.timer, kind: timer, node: id, inc: n.inc})
	}
}

func (w *World) deliver(id core.NodeID, f wire.Frame) {
	n := &w.nodes[id]
	switch {
	case !n.alive:
	case n.paused:
		n.inbox = append(n.inbox, f)
	default:
		w.input(id, stack.Arrived{Frame: f})
	}
}

// forward sends a frame that is at node from onwards to its destination.
func (w *World) forward(from core.NodeID, f wire.Frame, size int, at core.Instant) {
	for cur := from; ; {
		if cur == f.To {
			w.push(event{at: at, kind: deliver, node: cur, frame: f})
			return
		}
		next := w.mesh.Routes().Next(cur, f.To)
		if next == core.None {
			return
		}
		i := w.linkOf[int(cur)*len(w.nodes)+int(next)]
		if !w.mesh.Links[i].Up {
			return // the routes have not converged
		}
		k := 2 * i
		if next < cur {
			k++
		}
		s := &w.Stats.Links[k]
		s.Frames++
		s.Bytes += int64(size)
		w.Stats.Hops[f.Class()]++
		w.Stats.HopBytes += int64(size)
		t, dropped := w.chans[k].Send(at, size)
		if dropped {
			s.Dropped++
			w.Stats.Dropped++
			return
		}
		cur, at = next, t
		if w.queued {
			w.push(event{at: at, kind: hop, node: cur, frame: f, size: size})
			return
		}
	}
}

// input gives a node one input and carries out the effects.
func (w *World) input(id core.NodeID, in stack.Input) {
	n := &w.nodes[id]
	effects := n.machine.Step(w.now, in, w.effects[:0])
	w.effects = nil // effects may nest through the oracle
	for i := range effects {
		e := &effects[i]
		switch e.Op {
		case stack.Send:
			w.forward(id, e.Frame, e.Size+headerBytes, w.now)
		case stack.Log:
			w.log(id, e.Event)
		case stack.State:
			w.changed(id, e.State)
		case stack.Joined:
			if !n.joined && n.inc == core.FirstIncarnation && !w.began {
				w.joining--
			}
			n.joined = true
		case stack.Idle:
			n.idle = true
		case stack.End:
			w.ended(id)
		}
	}
	w.effects = effects[:0]
	w.rearm(id)
}

// changed keeps count of the holders.
func (w *World) changed(id core.NodeID, s mutex.State) {
	n := &w.nodes[id]
	if n.state == mutex.Held {
		w.Stats.Holders--
		w.Stats.Served++ // the next local request may follow at once: HELD, then WAIT
	}
	if s == mutex.Held {
		w.Stats.Holders++
		w.Stats.Most = max(w.Stats.Most, w.Stats.Holders)
	}
	n.state, n.idle = s, false
	if len(w.waiting) > 0 {
		w.after(w.now, w.retryRoles)
	}
}

// ended takes in the orderly end of a node.
func (w *World) ended(id core.NodeID) {
	n := &w.nodes[id]
	if n.state == mutex.Held {
		w.Stats.Holders--
	}
	leaving := n.leaving
	n.alive, n.joined, n.idle, n.leaving, n.state = false, false, false, false, mutex.None
	if leaving {
		w.log(-1, &eventlog.Event{Kind: eventlog.Exited, Node: int32(id), Inc: uint32(n.inc), Text: "exit status 0"})
		w.announce(id, membership.Left)
	}
}

// announce tells the others through the oracle, where it is in charge.
func (w *World) announce(id core.NodeID, kind membership.ChangeKind) {
	if !w.cfg.Oracle {
		return
	}
	p := core.Peer{ID: id, Inc: w.nodes[id].inc}
	for i := range w.nodes {
		if o := core.NodeID(i); o != id && w.nodes[i].alive {
			w.after(w.now, func() {
				if w.nodes[o].alive && !w.nodes[o].paused {
					w.input(o, stack.Told{Change: membership.Change{Peer: p, Kind: kind}})
				}
			})
		}
	}
}

// log writes a line; instants that are not set are now.
func (w *World) log(id core.NodeID, e *eventlog.Event) {
	if e.T == 0 {
		e.T = int64(w.now)
	}
	if w.cfg.Log != nil {
		w.cfg.Log(id, e)
	}
}
