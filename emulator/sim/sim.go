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
	"churnbed/node/kgroup/smart"
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
	Smart      []core.NodeID // with k-groups: who may fire a routine by hand
	Duration   time.Duration // after the epoch; 0 = until all is served
	Drain      time.Duration // after the last arrival, where Duration is 0

	// Imitate are ways of other simulators.
	Imitate Imitate

	// Down are links (indices) that are down at first. Detection is how long
	// after a link went or came its ends are told, where they want to know
	// (stack.Node.Links), if nothing comes over the link earlier.
	Down      []int
	Detection time.Duration
	// LinkLocal: nodes speak with neighbours only, routes stay as they are.
	LinkLocal bool

	// Log receives every line that a node (or, with Node -1, the controller)
	// would have written, in order.
	Log func(log core.NodeID, e *eventlog.Event)
}

// Imitate are choices with which the output of other simulators can be had
// again. The zero value imitates nothing. Those of the Camera authors'
// simulator were found in its published runs: hop counts, message counts and
// the waits of uncontended requests.
type Imitate struct {
	// Resend is, with stack.SourceFixed, how long after the loss of a message
	// of the algorithm at any hop its source sends it again. 0: never.
	Resend time.Duration
	// LocalHop lets REQUEST and RELEASE begin with a hop from their source to
	// itself with these parameters.
	LocalHop *link.Params
	// LiveSet lets an OK carry its sender's set of the moment of arrival.
	LiveSet bool
	// Departed lets a node that churn or a fault kills go on as a requester
	// and answer requests: only its membership service ends, with the list as
	// it is, so that the others drop it. It is never restarted.
	Departed bool
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
	events queue
	nodes  []node
	kept   [][]byte               // by node, over its lives
	busy   int                    // nodes that run and are not idle
	chans  []*link.Channel        // two a link: A->B at 2i, B->A at 2i+1
	news   map[linkEnd][]linkNews // with Detection: not told yet, in order
	linkOf []int32                // [from*nodes+to] of neighbours: index into chans
	local  []*link.Channel        // by node, with Imitate.LocalHop
	// hopwise: a frame takes its hops one event each, since what happens
	// meanwhile elsewhere matters to it: links have rates, or change. Else its
	// way is computed at once.
	hopwise bool

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
	Overrun  int64       // lost on the full receive buffer of a paused node
	Links    []LinkStats // two a link
}

// LinkStats counts one direction of a link.
type LinkStats struct{ Frames, Bytes, Dropped int64 }

// inboxLimit is how many frames wait for a paused node: the kernel's receive
// buffer (transport.ReceiveBuffer, which it doubles) over what it charges for
// a small datagram.
const inboxLimit = 2 * (8 << 20) / 768

type node struct {
	machine *stack.Node
	inc     core.Incarnation // of the present or last life
	alive   bool
	joined  bool
	idle    bool
	paused  bool
	leaving bool
	holding bool // in the critical section, by its log
	state   mutex.State
	groups  *smart.Standing // nil: it has not told, or there are none
	timer   core.Instant    // earliest timer in the queue for this life
	mail    []stack.Input   // commands, while paused
	inbox   []arrival       // frames, while paused
}

type arrival struct {
	frame wire.Frame
	size  int
}

// New prepares a simulation.
func New(cfg Config) (*World, error) {
	n := len(cfg.Topology.Nodes)
	w := &World{
		cfg: cfg, nodes: make([]node, n), kept: make([][]byte, n),
		mesh:   mesh.New(cfg.Topology, cfg.Params, cfg.Metric),
		chans:  make([]*link.Channel, 2*len(cfg.Topology.Links)),
		news:   map[linkEnd][]linkNews{},
		linkOf: make([]int32, n*n),
	}
	w.Stats.Links = make([]LinkStats, len(w.chans))
	for i := range w.nodes {
		w.nodes[i].idle = true
	}
	for i := range w.mesh.Links {
		l := &w.mesh.Links[i]
		w.chans[2*i] = link.NewChannel(l.AB, core.Stream(cfg.Seed, fmt.Sprintf("link/%d-%d", l.A, l.B)))
		w.chans[2*i+1] = link.NewChannel(l.BA, core.Stream(cfg.Seed, fmt.Sprintf("link/%d-%d", l.B, l.A)))
		w.hopwise = w.hopwise || l.AB.Rate > 0 || l.BA.Rate > 0
		w.linkOf[int(l.A)*n+int(l.B)], w.linkOf[int(l.B)*n+int(l.A)] = int32(2*i), int32(2*i+1)
	}
	if p := cfg.Imitate.LocalHop; p != nil {
		w.local = make([]*link.Channel, n)
		for i := range w.local {
			w.local[i] = link.NewChannel(*p, core.Stream(cfg.Seed, fmt.Sprintf("link/%d-%d", i, i)))
		}
	}
	for i := range cfg.Faults {
		switch cfg.Faults[i].Verb {
		case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set, workloads.Poweroff:
			w.hopwise = true
		case workloads.Crash, workloads.Pause, workloads.Resume, workloads.Restart, workloads.Join, workloads.Leave, workloads.Trigger:
		}
	}
	return w, nil
}

// Now is the present instant.
func (w *World) Now() core.Instant { return w.now }

// Run simulates from the start of the first nodes to the end of the run. stop
// is asked now and then whether to end early (nil: never).
func (w *World) Run(stop func() bool) error {
	w.cutFirst()
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
	last := w.epoch.Add(workloads.LastOf(w.cfg.Arrivals, w.cfg.Faults))
	limit := last.Add(w.cfg.Drain)
	if w.cfg.Duration > 0 {
		last, limit = core.Never, w.epoch.Add(w.cfg.Duration)
	}
	for n := 0; w.err == nil; n++ {
		if w.busy == 0 && (w.events.Len() == 0 || w.events.Next() > last) || !w.step(limit) {
			break
		}
		if stop != nil && n%1024 == 0 && stop() {
			break
		}
	}
	w.stopAll()
	w.log(-1, &eventlog.Event{Kind: eventlog.End, Node: -1})
	return w.err
}

// stopAll ends the nodes in order. Paused ones are resumed for that, and find
// the command before what else has come meanwhile.
func (w *World) stopAll() {
	for i := range w.nodes {
		if n := &w.nodes[i]; n.alive && n.paused {
			n.paused, n.mail, n.inbox = false, nil, nil
			w.logPause(core.NodeID(i), eventlog.Resume)
		}
	}
	for i := range w.nodes {
		if w.nodes[i].alive {
			w.input(core.NodeID(i), stack.Stop{})
		}
	}
}

// Up reports whether a node runs, and which life it is or was last in; 0:
// never started.
func (w *World) Up(n core.NodeID) (core.Incarnation, bool) { return w.nodes[n].inc, w.nodes[n].alive }

// Links are the links with their present parameters; direction A to B of link
// i is Stats.Links[2*i], back Stats.Links[2*i+1]. The slice is the world's.
func (w *World) Links() []mesh.Link { return w.mesh.Links }

// Host sums up what the links carried since the beginning, as the emulator's
// slices do. There is no host: nothing is late and only configured loss is
// lost.
func (w *World) Host() eventlog.Host {
	h := eventlog.Host{
		Dropped: w.Stats.Dropped, Unplanned: w.Stats.Overrun,
		Mutex: w.Stats.Hops[wire.ClassMutex], Membership: w.Stats.Hops[wire.ClassMembership],
	}
	for k := range w.chans {
		h.Frames += w.Stats.Links[k].Frames
		h.ExpectDrops += w.ExpectedDrops(k)
	}
	h.Other = h.Frames - h.Mutex - h.Membership
	return h
}

// ExpectedDrops is how many frames direction k (two a link, as Stats.Links)
// was to lose by its configured loss.
func (w *World) ExpectedDrops(k int) float64 { return w.chans[k].ExpectedLoss() }

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

func (w *World) after(at core.Instant, do func()) {
	e := w.events.add(max(at, w.now))
	e.kind, e.do = call, do
}

// step handles the next event, unless it lies beyond limit.
func (w *World) step(limit core.Instant) bool {
	if w.events.Len() == 0 || w.events.Next() > limit {
		if limit != core.Never {
			w.now = max(w.now, limit)
		}
		return false
	}
	at, entry := w.events.Pop()
	w.now = at
	w.Stats.Events++
	if entry < 0 {
		w.timer(core.NodeID(^entry))
		return true
	}
	e := w.events.event(entry)
	switch e.kind {
	case deliver:
		w.deliver(e.node, &e.frame, e.size)
	case overLink:
		w.arriveOver(e.node, &e.frame, e.size)
	case hop:
		w.forward(e.node, &e.frame, e.size, at)
	case call:
		e.do()
	}
	w.events.recycle(entry)
	return true
}

func (w *World) timer(id core.NodeID) {
	n := &w.nodes[id]
	if !n.alive || n.timer != w.now {
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

// rearm makes sure that a timer stands at the node's deadline.
func (w *World) rearm(id core.NodeID) {
	n := &w.nodes[id]
	if !n.alive || n.paused {
		return
	}
	if d := n.machine.Deadline(); d < n.timer {
		n.timer = max(d, w.now)
		w.events.addTimer(n.timer, id)
	}
}

func (w *World) deliver(id core.NodeID, f *wire.Frame, size int) {
	n := &w.nodes[id]
	switch {
	case !n.alive:
	case !n.paused:
		if w.cfg.Imitate.LiveSet {
			w.refresh(f)
		}
		w.carryOut(id, n.machine.Arrive(w.now, f, size-headerBytes, w.takeEffects()))
	case len(n.inbox) < inboxLimit:
		n.inbox = append(n.inbox, arrival{*f, size})
	default:
		w.Stats.Overrun++
	}
}

// forward sends a frame that is at node from onwards to its destination.
func (w *World) forward(from core.NodeID, f *wire.Frame, size int, at core.Instant) {
	routes, class := w.mesh.Routes(), f.Class()
	for cur := from; ; {
		var next core.NodeID
		if cur != f.To {
			if next = routes.Next(cur, f.To); next == core.None {
				w.lost(f, at)
				return
			}
			k := w.linkOf[int(cur)*len(w.nodes)+int(next)]
			if !w.mesh.Links[k/2].Up {
				w.lost(f, at) // the routes have not converged
				return
			}
			t, dropped := w.pass(k, class, size, at)
			if dropped {
				w.lost(f, at)
				return
			}
			cur, at = next, t
		}
		if cur == f.To || w.hopwise {
			e := w.events.add(at)
			e.kind, e.node, e.size, e.frame = hop, cur, size, *f
			if cur == f.To {
				e.kind = deliver
			}
			return
		}
	}
}

// pass puts a frame on direction k of the links and counts it.
func (w *World) pass(k int32, class wire.Class, size int, at core.Instant) (due core.Instant, dropped bool) {
	s := &w.Stats.Links[k]
	s.Frames++
	s.Bytes += int64(size)
	w.Stats.Hops[class]++
	w.Stats.HopBytes += int64(size)
	if due, dropped = w.chans[k].Send(at, size); dropped {
		s.Dropped++
		w.Stats.Dropped++
	}
	return due, dropped
}

// flood puts a frame on the links to every neighbour of a node but one, as
// one-hop multicast does: what is lost is lost, and a node that does not run
// sends nothing on.
func (w *World) flood(from, except core.NodeID, f *wire.Frame, size int) {
	class := f.Class()
	for _, nb := range w.cfg.Topology.Neighbours(from) {
		k := w.linkOf[int(from)*len(w.nodes)+int(nb)]
		if nb == except || !w.mesh.Links[k/2].Up {
			continue
		}
		at, dropped := w.pass(k, class, size, w.now)
		if dropped {
			continue
		}
		e := w.events.add(at)
		e.kind, e.node, e.size, e.frame = deliver, nb, size, *f
	}
}

// takeEffects lends the memory for the effects of a step; carryOut gives it
// back.
func (w *World) takeEffects() []stack.Effect {
	effects := w.effects[:0]
	w.effects = nil
	return effects
}

// input gives a node one input and carries out the effects.
func (w *World) input(id core.NodeID, in stack.Input) {
	w.carryOut(id, w.nodes[id].machine.Step(w.now, in, w.takeEffects()))
}

// command gives a node an input of the controller, which waits where the node
// is paused.
func (w *World) command(id core.NodeID, in stack.Input) {
	switch n := &w.nodes[id]; {
	case !n.alive:
	case n.paused:
		n.mail = append(n.mail, in)
	default:
		w.input(id, in)
	}
}

func (w *World) carryOut(id core.NodeID, effects []stack.Effect) {
	n := &w.nodes[id]
	for i := range effects {
		e := &effects[i]
		switch e.Op {
		case stack.Send:
			if e.OneHop {
				w.sendOver(id, &e.Frame, e.Size+headerBytes)
				continue
			}
			w.send(id, &e.Frame, e.Size+headerBytes)
		case stack.Flood:
			w.flood(id, e.To, &e.Frame, e.Size+headerBytes)
		case stack.Persist:
			w.kept[id] = e.Data
		case stack.Log:
			w.account(n, e.Event)
			w.log(id, e.Event)
		case stack.State:
			n.state = e.State
			w.setIdle(n, false)
			w.roleTaken()
		case stack.Standing:
			n.groups = e.Standing
			w.roleTaken()
		case stack.Joined:
			if !n.joined && n.inc == core.FirstIncarnation && !w.began {
				w.joining--
			}
			n.joined = true
		case stack.Idle:
			w.setIdle(n, true)
		case stack.End:
			w.ended(id)
		}
	}
	w.effects = effects
	w.rearm(id)
}

// account keeps count of the holders by what the nodes log. (The reported
// state does not tell of an exit that another request follows at once.)
func (w *World) account(n *node, e *eventlog.Event) {
	switch e.Kind {
	case eventlog.Enter:
		n.holding = true
		w.Stats.Holders++
		w.Stats.Most = max(w.Stats.Most, w.Stats.Holders)
	case eventlog.Exit:
		w.Stats.Served++
		w.release(n)
	case eventlog.Fenced:
		w.release(n)
	default: // the others change no holder
	}
}

// release notes that a node is not in the critical section.
func (w *World) release(n *node) {
	if n.holding {
		n.holding = false
		w.Stats.Holders--
	}
}

func (w *World) setIdle(n *node, idle bool) {
	if n.idle != idle {
		n.idle = idle
		if idle {
			w.busy--
		} else {
			w.busy++
		}
	}
}

// end forgets what ran at a node.
func (w *World) end(n *node) {
	w.release(n)
	w.setIdle(n, true)
	*n = node{inc: n.inc, idle: true}
}

// ended takes in the orderly end of a node.
func (w *World) ended(id core.NodeID) {
	n := &w.nodes[id]
	leaving := n.leaving
	w.end(n)
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
			inc := w.nodes[i].inc
			w.after(w.now, func() {
				if w.nodes[o].inc == inc { // a later life was started with the news
					w.command(o, stack.Told{Change: membership.Change{Peer: p, Kind: kind}})
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
