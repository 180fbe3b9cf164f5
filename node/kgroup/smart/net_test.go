package smart

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/kgroup"
	"churnbed/node/wire"
)

// net is a mesh of machines in virtual time with random delay and loss.
type net struct {
	t       testing.TB
	cfg     *kgroup.Config
	now     core.Instant
	rng     *rand.Rand
	loss    float64
	delay   time.Duration // mean
	nodes   []*box
	queue   core.Queue[event]
	lines   []eventlog.Event
	onLine  func(e *eventlog.Event)
	epoch   core.Instant
	members [][]core.NodeID // lists by node; nil: all smart
	sent    map[string]int
}

type box struct {
	m      *Machine
	inc    core.Incarnation
	up     bool
	paused bool
	inbox  []Receive
}

type event struct {
	to  core.NodeID
	inc core.Incarnation
	in  Receive
	do  func()
}

func newNet(t testing.TB, cfg *kgroup.Config, seed uint64) *net {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	n := &net{t: t, cfg: cfg, rng: core.Stream(seed, "net"), delay: 5 * time.Millisecond, sent: map[string]int{}}
	n.nodes = make([]*box, len(cfg.Places))
	return n
}

func (n *net) start() {
	for i := range n.nodes {
		n.nodes[i] = &box{}
		n.boot(core.NodeID(i), true)
	}
	n.epoch = n.now.Add(time.Second)
	for i := range n.nodes {
		n.step(core.NodeID(i), Begin{n.epoch})
	}
}

func (n *net) boot(id core.NodeID, first bool) {
	b := n.nodes[id]
	b.inc += core.IncarnationStep
	b.up, b.paused, b.inbox = true, false, nil
	self := core.Peer{ID: id, Inc: b.inc}
	b.m = New(Config{Config: n.cfg, Self: self, Seed: 1})
	var list []core.Peer
	for _, s := range n.cfg.Smart {
		if s == id || n.members != nil && !slices.Contains(n.members[id], s) || !first && (n.nodes[s] == nil || !n.nodes[s].up) {
			continue
		}
		p := core.Peer{ID: s, Inc: core.FirstIncarnation}
		if !first {
			p.Inc = n.nodes[s].inc
		}
		list = append(list, p)
	}
	n.step(id, Start{Members: list, First: first})
	if first {
		return
	}
	n.step(id, Begin{n.epoch})
	for i := range n.nodes {
		if core.NodeID(i) != id && n.nodes[i].up {
			n.step(core.NodeID(i), MemberUp{self})
		}
	}
}

// kill ends a node; the membership service tells the others after a while.
func (n *net) kill(id core.NodeID) {
	b := n.nodes[id]
	if !b.up {
		return
	}
	b.up = false
	dead := core.Peer{ID: id, Inc: b.inc}
	n.after(5*time.Second, func() {
		for i := range n.nodes {
			if n.nodes[i].up && n.nodes[id].inc == dead.Inc {
				n.step(core.NodeID(i), MemberDown{dead})
			}
		}
	})
}

func (n *net) pause(id core.NodeID) { n.nodes[id].paused = true }

func (n *net) resume(id core.NodeID) {
	b := n.nodes[id]
	b.paused = false
	inbox := b.inbox
	b.inbox = nil
	for _, in := range inbox {
		n.step(id, in)
	}
	n.wake(id)
}

func (n *net) after(d time.Duration, do func()) {
	n.queue.Push(n.now.Add(d), event{do: do})
}

func (n *net) step(id core.NodeID, in Input) {
	b := n.nodes[id]
	if !b.up {
		return
	}
	var out Effects
	b.m.Step(n.now, in, &out)
	for i := range out.Lines {
		e := out.Lines[i]
		e.T, e.Node, e.Inc = int64(n.now), int32(id), uint32(b.inc)
		n.lines = append(n.lines, e)
		if n.onLine != nil {
			n.onLine(&e)
		}
	}
	if !b.up {
		return // killed by onLine, before its messages left
	}
	for _, s := range out.Sends {
		msg := s.Msg.(*wire.Group)
		n.sent[wire.KindName(msg.Type)]++
		// As on the wire.
		f := wire.Frame{From: core.Peer{ID: id, Inc: b.inc}, To: s.To, Msg: msg}
		enc := f.Append(nil)
		if len(enc) > wire.MaxFrame {
			n.t.Fatalf("%s of %d bytes", wire.KindName(msg.Type), len(enc))
		}
		got, err := wire.Parse(enc)
		if err != nil {
			n.t.Fatalf("%s: %v", wire.KindName(msg.Type), err)
		}
		if n.rng.Float64() < n.loss {
			continue
		}
		d := n.delay/2 + time.Duration(n.rng.Int64N(int64(n.delay)))
		n.queue.Push(n.now.Add(d), event{to: s.To, inc: n.nodes[s.To].inc, in: Receive{f.From, got.Msg.(*wire.Group)}})
	}
	n.wake(id)
}

func (n *net) wake(id core.NodeID) {
	b := n.nodes[id]
	at := b.m.Deadline()
	if at == core.Never {
		return
	}
	inc := b.inc
	n.queue.Push(max(at, n.now), event{do: func() {
		if b := n.nodes[id]; b.up && !b.paused && b.inc == inc && b.m.Deadline() <= n.now {
			n.step(id, Tick{})
		}
	}})
}

func (n *net) run(d time.Duration) {
	end := n.now.Add(d)
	for n.queue.Next() <= end {
		at, e := n.queue.Pop()
		n.now = at
		if e.do != nil {
			e.do()
			continue
		}
		b := n.nodes[e.to]
		switch {
		case !b.up || b.inc != e.inc:
		case b.paused:
			b.inbox = append(b.inbox, e.in)
		default:
			n.step(e.to, e.in)
		}
	}
	n.now = end
}

// leader returns the node that leads a group now, and its replica.
func (n *net) leader(g kgroup.Group) (core.NodeID, *replica) {
	best, at := (*replica)(nil), core.None
	for i, b := range n.nodes {
		if b.up && !b.paused {
			if r := b.m.leading(g); r != nil && (best == nil || r.epoch > best.epoch || r.epoch == best.epoch && r.lead.term > best.lead.term) {
				best, at = r, core.NodeID(i)
			}
		}
	}
	return at, best
}

type run struct {
	routine int32
	ticket  uint64
}

// verdict is what the lines prove.
type verdict struct {
	unsafe, holders, leaders, inheritance []string
	executed                              map[run]bool
	elections, migrations                 int
	active                                []eventlog.Event
	grants                                int
	delay                                 []time.Duration
}

func (n *net) judge() verdict {
	v := verdict{executed: map[run]bool{}}
	began, ended := map[run]int64{}, map[run]int64{}
	type lead struct {
		g           int32
		epoch, term uint64
	}
	leads := map[lead]int32{}
	holder := map[int32]run{}
	frozen := map[int32]string{}
	lines := slices.Clone(n.lines)
	for _, e := range lines {
		k := e.KG
		if k == nil {
			continue
		}
		r := run{k.Routine, k.Ticket}
		switch e.Kind {
		case eventlog.Routine:
			switch e.State {
			case "EXECUTING":
				if _, over := ended[r]; !over && began[r] == 0 {
					began[r] = e.T
					v.delay = append(v.delay, time.Duration(e.T-k.Since))
				}
			case "RELEASING_LOCKS":
				if _, over := ended[r]; !over {
					ended[r] = e.T
					v.executed[r] = true
				}
			}
		case eventlog.Lock:
			switch e.State {
			case "grant":
				v.grants++
				if h, held := holder[k.Device]; held && h != r {
					v.holders = append(v.holders, fmt.Sprintf("%d: device %d granted to %v while %v holds it", e.T, k.Device, r, h))
				}
				holder[k.Device] = r
			case "release":
				if holder[k.Device] == r {
					delete(holder, k.Device)
				}
			}
		case eventlog.KGroup:
			switch e.State {
			case "elected":
				v.elections++
				l := lead{k.Group, k.Epoch, k.Term}
				if other, found := leads[l]; found && other != e.Node {
					v.leaders = append(v.leaders, fmt.Sprintf("%d: nodes %d and %d lead %v", e.T, other, e.Node, l))
				}
				leads[l] = e.Node
			case "frozen":
				frozen[k.Group] = k.Digest
			case "transfer":
				v.migrations++
				if frozen[k.Group] != k.Digest {
					v.inheritance = append(v.inheritance, fmt.Sprintf("%d: group %d: state %s became %s", e.T, k.Group, frozen[k.Group], k.Digest))
				}
			case "active":
				v.active = append(v.active, e)
				if was, found := frozen[k.Group]; found && was != k.Digest {
					v.inheritance = append(v.inheritance, fmt.Sprintf("%d: group %d epoch %d term %d: state %s became %s", e.T, k.Group, k.Epoch, k.Term, was, k.Digest))
				}
				delete(frozen, k.Group)
				has := map[int32]run{}
				for _, f := range strings.Fields(k.Locks) {
					var d int32
					var h run
					if _, err := fmt.Sscanf(f, "%d:%d.%d", &d, &h.routine, &h.ticket); err != nil {
						n.t.Fatal(err)
					}
					has[d] = h
				}
				for d, h := range holder {
					if n.cfg.Of[d] != k.Group || has[d] == h {
						continue
					}
					if _, over := ended[h]; over || n.cfg.Locks == kgroup.OLA {
						// It was given back; the leader that knew is gone.
						delete(holder, d)
						if has[d] != (run{}) {
							holder[d] = has[d]
						}
						continue
					}
					v.inheritance = append(v.inheritance, fmt.Sprintf("%d: group %d: device %d: lock of %v is lost", e.T, k.Group, d, h))
				}
			}
		}
	}
	for a, from := range began {
		for b, start := range began {
			if a.routine >= b.routine || !n.cfg.Routines[a.routine].Shares(&n.cfg.Routines[b.routine]) {
				continue
			}
			endA, endB := int64(math.MaxInt64), int64(math.MaxInt64)
			if x, ok := ended[a]; ok {
				endA = x
			}
			if x, ok := ended[b]; ok {
				endB = x
			}
			if from < endB && start < endA {
				v.unsafe = append(v.unsafe, fmt.Sprintf("%v [%d, %d] and %v [%d, %d]", a, from, endA, b, start, endB))
			}
		}
	}
	return v
}

func (v *verdict) sound(t *testing.T) {
	t.Helper()
	for what, list := range map[string][]string{"safety": v.unsafe, "two holders": v.holders, "two leaders": v.leaders, "inheritance": v.inheritance} {
		for i, s := range list {
			if i == 5 {
				t.Errorf("%s: and %d more", what, len(list)-i)
				break
			}
			t.Errorf("%s: %s", what, s)
		}
	}
}

// small is a mesh of n devices with some smart ones, and routines.
func small(n, smart, groups, f, routines int, conflict float64, locks string) *kgroup.Config {
	c := &kgroup.Config{
		F: f, Policy: kgroup.LSHMix, Locks: locks, Ping: time.Second, Tries: 3, Epoch: 20 * time.Second, StateEvery: 5 * time.Second,
	}
	rng := core.Stream(7, "places")
	for i := range n {
		c.Places = append(c.Places, kgroup.Place{rng.Float64() * 15, rng.Float64() * 15})
		if i*smart/n >= len(c.Smart) && len(c.Smart) < smart {
			c.Smart = append(c.Smart, core.NodeID(i))
		}
	}
	c.Of, c.Centres = kgroup.Cluster(c.Places, groups, core.Stream(7, "clusters"))
	c.Routines = kgroup.Generate(kgroup.Generated{
		Count: routines, MeanDevices: 3, Conflict: conflict, Every: 5 * time.Second, Takes: 300 * time.Millisecond, States: 0.2,
	}, n, core.Stream(7, "routines"))
	return c
}

func (n *net) dump(t *testing.T, last int) {
	t.Helper()
	for _, e := range n.lines[max(0, len(n.lines)-last):] {
		if e.KG != nil {
			t.Logf("%.3f node %d %s %s %+v", float64(e.T)/1e9, e.Node, e.Kind, e.State, *e.KG)
		}
	}
}
