package stack

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/kgroup/smart"
	"churnbed/node/membership"
	"churnbed/node/mutex"
	"churnbed/node/reliable"
	"churnbed/node/size"
	"churnbed/node/wire"
)

// lingering bounds how long a leaving node waits for acknowledgements.
const lingering = 2 * time.Second

// request is one local request on its way.
type request struct {
	no     int
	queued core.Instant
	cs     time.Duration
}

// Node is the pure machine of one node.
type Node struct {
	cfg        Config
	self       core.Peer
	membership membership.Machine
	mutex      mutex.Machine
	local      mutex.Local // mutex, if it is one
	bounds     bounds      // of local
	endpoint   *reliable.Endpoint
	size       size.Estimator
	think      *rand.Rand

	began   bool
	booted  core.Instant
	epoch   core.Instant
	next    int          // index of the next arrival of cfg.Arrivals
	closed  core.Instant // next arrival of the closed workload
	issued  int          // of the closed workload
	queue   []request
	current request
	exitAt  core.Instant
	state   mutex.State // as last reported
	idle    bool

	last  core.Instant  // of the latest step
	stall time.Duration // a longer gap between steps means that the node stood still

	joined   bool
	departed bool
	leaving  core.Instant // when a leaving node ends at the latest; Never: not leaving
	ended    bool

	probes  prober
	traffic traffic
	floods  floods
	group   group

	// scratch memory of Step
	out    *[]Effect
	mfx    mutex.Effects
	bfx    membership.Effects
	frames []reliable.Out
	ids    []core.NodeID
	sizes  []core.Send
}

// New returns the machine of one life of a node.
func New(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, self: cfg.Self, closed: core.Never, exitAt: core.Never, leaving: core.Never,
		stall: silence(&cfg),
		think: core.Stream(cfg.Seed, "think/"+cfg.Self.String()),
		endpoint: reliable.New(cfg.Self, reliable.Config{
			Fixed: cfg.Transport.Mode == "fixed", RTO: cfg.Transport.RTO, Min: cfg.Transport.Min, Max: cfg.Transport.Max,
		}),
	}
	n.membership = services[cfg.Membership.Service](&n.cfg)
	n.mutex = algorithms[cfg.Algorithm.Name](&n.cfg)
	n.local, _ = n.mutex.(mutex.Local)
	n.size = n.cfg.estimator()
	n.group.init(&n.cfg)
	n.probes.init(&n.cfg)
	n.traffic.every = cfg.CountersEvery
	n.traffic.next = core.Never
	return n, nil
}

// Self is the node in its present life.
func (n *Node) Self() core.Peer { return n.self }

// Mutex shows the algorithm to tests and explorers.
func (n *Node) Mutex() mutex.Machine { return n.mutex }

// Membership shows the membership service to tests and explorers.
func (n *Node) Membership() membership.Machine { return n.membership }

// Step handles one input at instant now and appends its effects to out.
func (n *Node) Step(now core.Instant, in Input, out []Effect) []Effect {
	if n.ended {
		return out
	}
	n.out = &out
	n.wake(now)
	switch in := in.(type) {
	case Boot:
		n.boot(now, in)
	case Arrived:
		n.arrived(now, &in.Frame, in.Size)
	case Begin:
		n.begin(now, in.Epoch)
	case Enter:
		n.enqueue(now, request{in.No, now, in.CS})
	case Told:
		n.stepMembership(now, membership.Told{Change: in.Change})
	case Trigger:
		n.stepGroup(now, smart.Trigger{Routine: in.Routine})
	case Relink:
		n.probes.relink(in.Delay)
	case LinkUp:
		n.link(now, in.Peer, true)
	case LinkDown:
		n.link(now, in.Peer, false)
	case Leave:
		n.leave(now)
	case Depart:
		n.depart(now)
	case Stop:
		n.stop(now)
	case Tick:
		n.tick(now, in.Lost)
	case Resend:
		n.transmit([]reliable.Out{{To: in.To, Frame: wire.Frame{From: n.self, To: in.To, Msg: in.Msg}, Retrans: true}})
	}
	n.settle(now)
	n.out = nil
	return out
}

// Arrive is Step of Arrived without its copy of the frame, which it does not
// keep. Simulators and hosts spend most of their time here.
func (n *Node) Arrive(now core.Instant, f *wire.Frame, size int, out []Effect) []Effect {
	if n.ended {
		return out
	}
	n.out = &out
	n.wake(now)
	n.arrived(now, f, size)
	n.settle(now)
	n.out = nil
	return out
}

// wake begins every step. A node that stood still (SIGSTOP, a suspended host)
// for so long that others may have declared it failed gives up what it wants
// or holds before it handles what has come meanwhile: the answers among it
// may be from before others went on without it (ALGORITHMS 2.4). Without
// that, it would enter on them before it hears that it must leave.
func (n *Node) wake(now core.Instant) {
	gap := now.Sub(n.last)
	if n.cfg.Membership.Service == "static" { // no rounds, so steps may be far apart
		gap = min(gap, now.Sub(min(n.Deadline(), now)))
	}
	n.last = now
	if n.stall == 0 || gap <= n.stall || n.mutex.State() == mutex.None {
		return
	}
	n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Note, Text: "stood still for " + gap.String() + ", gives up its request"})
	n.stepMutex(now, mutex.Fence{Inc: n.self.Inc})
}

// settle ends every step: whatever the input was, it may have freed the way
// for the next local request.
func (n *Node) settle(now core.Instant) {
	if n.ended {
		return
	}
	n.advance(now)
	n.report(now)
}

// Deadline is the instant at which the node wants a Tick, or core.Never.
func (n *Node) Deadline() core.Instant {
	if n.ended {
		return core.Never
	}
	d := min(n.membershipDeadline(), n.mutex.Deadline(), n.endpoint.Deadline(), n.size.Deadline(), n.exitAt, n.closed, n.leaving,
		n.probes.next, n.traffic.next, n.group.deadline())
	if n.began && n.next < len(n.cfg.Arrivals) {
		d = min(d, n.epoch.Add(n.cfg.Arrivals[n.next].At))
	}
	return d
}

func (n *Node) membershipDeadline() core.Instant {
	if n.departed {
		return core.Never
	}
	return n.membership.Deadline()
}

func (n *Node) boot(now core.Instant, in Boot) {
	n.booted = now
	n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Start, PID: in.PID})
	n.stepMembership(now, membership.Start{Self: n.self, Peers: n.cfg.Members, Join: n.cfg.Join})
	n.stepMutex(now, mutex.Start{Members: n.membership.Members(nil), Restarted: n.cfg.Restarted, Kept: in.Kept})
	kept := 0
	if m, ok := n.mutex.(interface{ KeptBound() int }); ok {
		kept = m.KeptBound()
	}
	n.stepSize(now, size.Start{
		Members: n.membership.Members(nil), Neighbours: n.cfg.Neighbours, Later: n.cfg.Join || n.cfg.Restarted, Kept: kept,
	})
	n.stepGroup(now, smart.Start{Members: n.membership.Members(nil), First: !n.cfg.Join && !n.cfg.Restarted})
	n.probes.start(now, int(n.self.ID), n.cfg.Nodes)
	n.traffic.start(now)
}

func (n *Node) arrived(now core.Instant, f *wire.Frame, size int) {
	if f.From.ID == n.self.ID || int(f.From.ID) >= n.cfg.Nodes {
		return
	}
	if m, ok := f.Msg.(*wire.Flood); ok {
		if !n.endpoint.Former(f.From) {
			n.flooded(now, f, m, size)
		}
		return
	}
	n.traffic.received(f, size)
	if n.endpoint.Former(f.From) {
		return // late: its sender is in a newer life
	}
	if p, ok := f.Msg.(*wire.Probe); ok {
		n.probes.received(now, f.From.ID, p)
		return
	}
	n.handle(now, f)
}

// handle gives a frame that came in to the transport and its message to the
// machine that it is for.
func (n *Node) handle(now core.Instant, f *wire.Frame) {
	deliver := n.endpoint.Receive(now, f)
	if n.listed(f.From.ID) {
		n.stepMembership(now, membership.Heard{Peer: f.From})
	}
	if deliver {
		switch wire.KindClass(f.Msg.Kind()) {
		case wire.ClassMembership:
			if m, ok := f.Msg.(*wire.Size); ok {
				n.stepSize(now, size.Receive{From: f.From.ID, Msg: m})
				break
			}
			if wire.IsRing(f.Msg.Kind()) {
				n.stepMutex(now, mutex.Receive{From: f.From, Msg: f.Msg})
				break
			}
			n.stepMembership(now, membership.Receive{From: f.From, Msg: f.Msg})
		case wire.ClassMutex:
			n.stepMutex(now, mutex.Receive{From: f.From, Msg: f.Msg})
		case wire.ClassGroup:
			n.receiveGroup(now, f.From, f.Msg)
		case wire.ClassAck, wire.ClassProbe:
		}
	}
	n.transmit(n.endpoint.Finish(n.frames[:0]))
}

func (n *Node) begin(now, epoch core.Instant) {
	if n.began {
		return
	}
	n.began, n.epoch = true, epoch
	// What was to arrive before this life of the node began found it dead.
	// What arrived since then, while the node was joining or Begin was on its
	// way, waits.
	for n.next < len(n.cfg.Arrivals) && epoch.Add(n.cfg.Arrivals[n.next].At) < n.booted {
		n.next++
	}
	n.stepGroup(now, smart.Begin{Epoch: epoch})
	if n.cfg.Closed != nil {
		n.thinkAgain(max(now, epoch))
	}
}

func (n *Node) thinkAgain(now core.Instant) {
	c := n.cfg.Closed
	n.closed = core.Never
	if c.Quota > 0 && n.issued >= c.Quota {
		return
	}
	at := now.Add(c.Think(n.think))
	if c.Until > 0 && at > n.epoch.Add(c.Until) {
		return
	}
	n.closed = at
}

func (n *Node) tick(now core.Instant, lost int64) {
	if d := n.Deadline(); d <= now {
		n.probes.timer(now.Sub(d))
	}
	n.probes.lost += lost
	if n.membershipDeadline() <= now {
		n.stepMembership(now, membership.Tick{})
	}
	if n.size.Deadline() <= now {
		n.stepSize(now, size.Tick{})
	}
	if n.group.deadline() <= now {
		n.stepGroup(now, smart.Tick{})
	}
	if n.mutex.Deadline() <= now {
		n.stepMutex(now, mutex.Tick{})
	}
	n.transmit(n.endpoint.Tick(now, n.frames[:0]))
	for n.began && n.next < len(n.cfg.Arrivals) && n.epoch.Add(n.cfg.Arrivals[n.next].At) <= now {
		a := n.cfg.Arrivals[n.next]
		n.next++
		n.enqueue(now, request{a.No, n.epoch.Add(a.At), a.CS})
	}
	if n.closed <= now {
		n.closed = core.Never
		no := n.closedNumber()
		n.issued++
		n.enqueue(now, request{no, now, n.cfg.Closed.CS.Draw(n.think)})
	}
	if n.exitAt <= now {
		n.exit(now)
	}
	for n.probes.next <= now {
		if to, p := n.probes.probe(now); p != nil {
			n.transmit([]reliable.Out{{To: to, Frame: wire.Frame{From: n.self, To: to, Msg: p}}})
		}
	}
	if n.traffic.next <= now {
		n.account(now)
		n.traffic.next = now.Add(n.traffic.every)
	}
}

// livesApart keeps the numbers of the closed requests of two lives apart:
// no life makes so many.
const livesApart = 1 << 24

// closedNumber is the number of the next request of the closed workload: from
// 1, unique in the run.
func (n *Node) closedNumber() int {
	life := max(n.cfg.Self.Inc.Start()-1, 0)
	return (life*livesApart+n.issued)*n.cfg.Nodes + int(n.self.ID) + 1
}

// advance starts the next local request where one is waiting.
func (n *Node) advance(now core.Instant) {
	if len(n.queue) == 0 || !n.joined || n.leaving != core.Never || n.mutex.State() != mutex.None {
		return
	}
	n.current = n.queue[0]
	n.queue = append(n.queue[:0], n.queue[1:]...)
	n.stepMutexThen(now, mutex.Enter{}, func() {
		queued := int64(n.current.queued)
		n.log(&eventlog.Event{
			T: int64(now), Kind: eventlog.Request, Req: n.mutex.Request().String(),
			No: n.current.no, Queued: &queued, CS: int64(n.current.cs),
		})
	})
}

func (n *Node) enqueue(now core.Instant, r request) {
	if n.leaving != core.Never {
		n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Dropped, No: r.no})
		return
	}
	n.queue = append(n.queue, r)
}

func (n *Node) exit(now core.Instant) {
	n.exitAt = core.Never
	n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Exit, Req: n.mutex.Request().String(), No: n.current.no})
	n.current = request{}
	n.stepMutex(now, mutex.Exit{})
	if n.cfg.Closed != nil {
		n.thinkAgain(now)
	}
}

// leave gives up what is wanted or held, tells the others, and lingers until
// they have heard it.
func (n *Node) leave(now core.Instant) {
	if n.leaving != core.Never {
		return
	}
	n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Leave, State: n.mutex.State().String()})
	n.leaving = now.Add(lingering)
	n.dropQueue(now)
	switch n.mutex.State() {
	case mutex.Held:
		n.exit(now)
	case mutex.Wait:
		n.stepMutex(now, mutex.Fence{Inc: n.self.Inc})
	case mutex.None:
	}
	n.closed = core.Never
	n.stepMutex(now, mutex.Leave{})
	n.stepMembership(now, membership.Leave{})
}

func (n *Node) dropQueue(now core.Instant) {
	for _, r := range n.queue {
		n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Dropped, No: r.no})
	}
	n.queue = n.queue[:0]
}

func (n *Node) stop(now core.Instant) {
	n.dropQueue(now)
	n.finish(now)
}

func (n *Node) finish(now core.Instant) {
	n.account(now)
	n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Stop, State: n.mutex.State().String()})
	n.ended = true
	*n.out = append(*n.out, Effect{Op: End})
}

// stepSize steps the estimator of the number of nodes and tells the algorithm
// what has come of it.
func (n *Node) stepSize(now core.Instant, in size.Input) {
	before := n.size.Upper()
	n.sizes = n.size.Step(now, in, n.sizes[:0])
	for _, s := range n.sizes {
		n.transmit(n.endpoint.Send(now, s, n.frames[:0]))
	}
	if upper := n.size.Upper(); upper != before {
		n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Note, Text: eventlog.UpperBound + strconv.Itoa(upper)})
		n.stepMutex(now, mutex.Bound{Nodes: upper})
	}
}

// depart ends the membership service.
func (n *Node) depart(now core.Instant) {
	if !n.departed {
		n.departed, n.stall = true, 0
		n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Note, Text: "departed"})
	}
}

func (n *Node) stepMembership(now core.Instant, in membership.Input) {
	if n.departed {
		return
	}
	fx := &n.bfx
	fx.Reset()
	n.membership.Step(now, in, fx)
	// Where the algorithm is stepped below it may learn of peers and step the
	// membership again, which reuses fx.
	changes, joined := slices.Clone(fx.Changes), fx.Joined
	listed := n.membership.Size()
	if fx.Fenced {
		// The life ends before anything of the next one is told: "fenced" is
		// logged first, and the news travel under the new incarnation.
		sends := slices.Clone(fx.Sends)
		n.self = n.membership.Self()
		n.endpoint.SetSelf(n.self)
		n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Note, Text: "declared failed by others, goes on as " + n.self.String()})
		n.stepMutex(now, mutex.Fence{Inc: n.self.Inc})
		n.stepGroup(now, smart.Renamed{Self: n.self})
		for _, s := range sends {
			n.transmit(n.endpoint.Send(now, s, n.frames[:0]))
		}
	} else {
		for _, s := range fx.Sends {
			n.transmit(n.endpoint.Send(now, s, n.frames[:0]))
		}
	}
	if joined && !n.joined {
		n.joined = true
		n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Joined, Size: listed})
		*n.out = append(*n.out, Effect{Op: Joined})
	}
	for _, c := range changes {
		id := int32(c.Peer.ID)
		n.log(&eventlog.Event{
			T: int64(now), Kind: eventlog.Member, Peer: &id, PeerInc: uint32(c.Peer.Inc),
			Change: c.Kind.String(), Size: listed,
		})
		switch c.Kind {
		case membership.Up:
			n.stepSize(now, size.Listed{Node: c.Peer.ID})
			n.stepMutex(now, mutex.MemberUp{Peer: c.Peer})
			n.stepGroup(now, smart.MemberUp{Peer: c.Peer})
		case membership.Suspected:
			n.stepMutex(now, mutex.MemberSuspected{Peer: c.Peer})
		case membership.Cleared:
			// A cleared suspicion is news of life.
			n.stepMutex(now, mutex.MemberUp{Peer: c.Peer})
			n.stepGroup(now, smart.MemberUp{Peer: c.Peer})
		case membership.Failed, membership.Left:
			n.stepGroup(now, smart.MemberDown{Peer: c.Peer})
			n.stepMutex(now, mutex.MemberDown{Peer: c.Peer, Left: c.Kind == membership.Left})
		}
	}
}

func (n *Node) transmit(frames []reliable.Out) {
	for i := range frames {
		size := n.traffic.sent(&frames[i])
		*n.out = append(*n.out, Effect{Op: Send, To: frames[i].To, Frame: frames[i].Frame, Size: size, OneHop: n.oneHop(&frames[i].Frame)})
	}
	n.frames = frames[:0]
}

// log appends a line; Node and Inc are filled in.
func (n *Node) log(e *eventlog.Event) {
	e.Node, e.Inc = int32(n.self.ID), uint32(n.self.Inc)
	*n.out = append(*n.out, Effect{Op: Log, Event: e})
}

// report tells the owner when the requester's state changed or the node ran
// out of things to do, and ends a node that has left.
func (n *Node) report(now core.Instant) {
	if s := n.mutex.State(); s != n.state {
		n.state = s
		*n.out = append(*n.out, Effect{Op: State, State: s, No: n.current.no})
	}
	idle := n.began && n.joined && n.next >= len(n.cfg.Arrivals) && n.closed == core.Never &&
		len(n.queue) == 0 && n.mutex.State() == mutex.None
	if idle && !n.idle {
		*n.out = append(*n.out, Effect{Op: Idle})
	}
	n.idle = idle
	if n.leaving != core.Never && !n.ended && (now >= n.leaving || n.endpoint.Pending() == 0) {
		n.finish(now)
	}
}

// account logs the counters and what the probes saw.
func (n *Node) account(now core.Instant) {
	n.log(&eventlog.Event{
		T: int64(now), Kind: eventlog.Counters, Sent: n.traffic.table(&n.traffic.out),
		Recv: n.traffic.table(&n.traffic.in), Size: n.membership.Size(),
	})
	if p := n.probes.take(); p != nil {
		n.log(&eventlog.Event{T: int64(now), Kind: eventlog.Fidelity, Probe: p})
	}
}

// String names the node in messages.
func (n *Node) String() string { return "node " + strconv.Itoa(int(n.self.ID)) }
