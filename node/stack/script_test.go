package stack_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/membership"
	"churnbed/node/stack"
	"churnbed/node/wire"
	"churnbed/workloads"
)

// TestScripts runs the scripts of testdata. Frames travel only when a script
// says so, and time stands still until it does. Commands:
//
//	nodes n=3 algorithm=ra membership=oracle [arrivals=(no@at,...)] [closed=(quota=..,until=..)]
//	boot [node=0]              start (a later life where there was one)
//	begin [epoch=1s] [node=0]
//	enter node=0 no=1 cs=10ms
//	deliver [from=0] [to=1] [kind=OK] [max=1]   frames under way, oldest first
//	drop [from=0] [to=1]
//	advance 10ms [node=0]      timers that become due fire; node: only its own
//	sleep 10ms                 time passes, no timer fires
//	tick node=0                at the present instant, however late
//	told node=0 peer=1 change=failed
//	accuse node=0 by=1         1 tells 0 that it was declared failed
//	leave | stop | kill node=0
//	flight                     show what is under way
//
// Every effect is a line of its own, in order.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		e := &env{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			e.t, e.out = t, strings.Builder{}
			e.run(d)
			if e.out.Len() == 0 {
				return "ok\n"
			}
			return e.out.String()
		})
	})
}

type env struct {
	t      *testing.T
	out    strings.Builder
	now    core.Instant
	base   stack.Config
	nodes  []*stack.Node // nil: not running
	lives  []core.Incarnation
	flight []wire.Frame
}

func (e *env) run(d *datadriven.TestData) {
	arg := func(key string, def int) int {
		for _, a := range d.CmdArgs {
			if a.Key == key {
				n, err := strconv.Atoi(a.Vals[0])
				if err != nil {
					d.Fatalf(e.t, "%s: %v", key, err)
				}
				return n
			}
		}
		return def
	}
	span := func(s string) time.Duration {
		v, err := time.ParseDuration(s)
		if err != nil {
			d.Fatalf(e.t, "%v", err)
		}
		return v
	}
	text := func(key string) (s string) {
		d.MaybeScanArgs(e.t, key, &s)
		return s
	}
	id := core.NodeID(arg("node", -1))
	each := func(f func(core.NodeID)) {
		for n := range e.nodes {
			if id < 0 || core.NodeID(n) == id {
				f(core.NodeID(n))
			}
		}
	}
	switch d.Cmd {
	case "nodes":
		n := arg("n", 0)
		e.nodes, e.lives, e.now = make([]*stack.Node, n), make([]core.Incarnation, n), 0
		e.flight = nil
		e.base = stack.Config{
			Seed: 1, Nodes: n,
			Algorithm:  stack.Algorithm{Name: text("algorithm"), SuspicionWait: 2 * time.Second},
			Membership: stack.Membership{Service: text("membership"), Period: time.Hour, Suspicion: 10 * time.Hour},
		}
		for _, a := range d.CmdArgs {
			switch a.Key {
			case "arrivals": // of node 0
				for _, v := range a.Vals {
					no, at, _ := strings.Cut(v, "@")
					k, _ := strconv.Atoi(no)
					e.base.Arrivals = append(e.base.Arrivals, workloads.Arrival{No: k, At: span(at), CS: 10 * time.Millisecond})
				}
			case "closed":
				e.base.Closed = &workloads.Closed{Rate: 100, CS: workloads.CSLength{Dist: "constant", Mean: 10 * time.Millisecond}}
				for _, v := range a.Vals {
					k, v, _ := strings.Cut(v, "=")
					if k == "quota" {
						e.base.Closed.Quota, _ = strconv.Atoi(v)
					} else {
						e.base.Closed.Until = span(v)
					}
				}
			}
		}
	case "boot":
		each(e.boot)
	case "begin":
		epoch := e.now
		if s := text("epoch"); s != "" {
			epoch = core.Instant(span(s))
		}
		each(func(n core.NodeID) { e.step(n, stack.Begin{Epoch: epoch}) })
	case "enter":
		e.step(id, stack.Enter{No: arg("no", 0), CS: span(text("cs"))})
	case "deliver", "drop":
		most := arg("max", 1000)
		for i := 0; i < len(e.flight) && most > 0; {
			f := e.flight[i]
			if from, to := arg("from", -1), arg("to", -1); from >= 0 && int(f.From.ID) != from || to >= 0 && int(f.To) != to ||
				text("kind") != "" && text("kind") != wire.FrameName(kindOf(&f)) {
				i++
				continue
			}
			e.flight = slices.Delete(e.flight, i, i+1)
			most--
			if d.Cmd == "deliver" && e.nodes[f.To] != nil {
				e.carryOut(f.To, e.nodes[f.To].Arrive(e.now, &f, len(f.Append(nil)), nil))
			}
		}
	case "advance":
		e.advance(e.now.Add(span(d.CmdArgs[0].Key)), id)
	case "sleep":
		e.now = e.now.Add(span(d.CmdArgs[0].Key))
	case "tick":
		e.step(id, stack.Tick{})
	case "told":
		peer := core.Peer{ID: core.NodeID(arg("peer", -1))}
		peer.Inc = e.lives[peer.ID]
		kinds := map[string]membership.ChangeKind{
			"up": membership.Up, "suspected": membership.Suspected, "cleared": membership.Cleared, "failed": membership.Failed, "left": membership.Left,
		}
		e.step(id, stack.Told{Change: membership.Change{Peer: peer, Kind: kinds[text("change")]}})
	case "accuse":
		by := core.NodeID(arg("by", -1))
		self := e.nodes[id].Self()
		f := wire.Frame{
			From: core.Peer{ID: by, Inc: e.lives[by]}, To: id,
			Msg: &wire.ReportAlive{Table: []wire.Entry{{ID: id, Inc: self.Inc, State: wire.MemberFailed}}},
		}
		e.step(id, stack.Arrived{Frame: f, Size: len(f.Append(nil))})
	case "leave":
		e.step(id, stack.Leave{})
	case "stop":
		e.step(id, stack.Stop{})
	case "kill":
		e.nodes[id] = nil
	case "flight":
		for i := range e.flight {
			fmt.Fprintf(&e.out, "%v -> %d: %s\n", e.flight[i].From, e.flight[i].To, describe(&e.flight[i]))
		}
	default:
		d.Fatalf(e.t, "unknown command")
	}
}

func (e *env) boot(id core.NodeID) {
	c := e.base
	if e.lives[id] == 0 {
		e.lives[id] = core.FirstIncarnation
	} else {
		e.lives[id] += core.IncarnationStep
		c.Restarted = true
	}
	c.Self = core.Peer{ID: id, Inc: e.lives[id]}
	for n := range e.nodes {
		if n := core.NodeID(n); n != id {
			c.Members = append(c.Members, core.Peer{ID: n, Inc: max(e.lives[n], core.FirstIncarnation)})
			c.Neighbours = append(c.Neighbours, n)
		}
	}
	if id != 0 {
		c.Arrivals, c.Closed = nil, nil
	}
	n, err := stack.New(c)
	if err != nil {
		e.t.Fatal(err)
	}
	e.nodes[id] = n
	e.step(id, stack.Boot{PID: 100 + int(id)})
}

func (e *env) step(id core.NodeID, in stack.Input) {
	e.carryOut(id, e.nodes[id].Step(e.now, in, nil))
}

// advance lets time pass; timers fire where they are due, on one node or all.
func (e *env) advance(end core.Instant, only core.NodeID) {
	for {
		next, who := end, core.None
		for i, n := range e.nodes {
			if n != nil && (only < 0 || core.NodeID(i) == only) && (n.Deadline() < next || n.Deadline() == end && who < 0) {
				next, who = n.Deadline(), core.NodeID(i)
			}
		}
		e.now = max(e.now, next)
		if who < 0 {
			return
		}
		e.step(who, stack.Tick{})
	}
}

func describe(f *wire.Frame) string {
	var b strings.Builder
	b.WriteString(wire.FrameName(kindOf(f)))
	switch m := f.Msg.(type) {
	case *wire.Request:
		fmt.Fprintf(&b, " %v", m.ID)
	case *wire.OK:
		fmt.Fprintf(&b, " %v", m.ID)
		if len(m.Set) > 0 {
			fmt.Fprintf(&b, " set %v", m.Set)
		}
		if m.Amnesiac {
			b.WriteString(" amnesiac")
		}
	case *wire.Release:
		fmt.Fprintf(&b, " %v", m.ID)
	}
	switch {
	case f.Reliable:
		b.WriteString(" (reliable)")
	case f.Reply:
		b.WriteString(" (reply)")
	}
	return b.String()
}

func kindOf(f *wire.Frame) byte {
	if f.Msg == nil {
		return 0
	}
	return f.Msg.Kind()
}

func (e *env) carryOut(id core.NodeID, effects []stack.Effect) {
	for i := range effects {
		x := &effects[i]
		say := func(format string, args ...any) {
			fmt.Fprintf(&e.out, "%v %d: ", time.Duration(e.now), id)
			fmt.Fprintf(&e.out, format+"\n", args...)
		}
		switch x.Op {
		case stack.Send:
			if want := len(x.Frame.Append(nil)); x.Size != want {
				e.t.Errorf("size of %+v is %d, want %d", x.Frame, x.Size, want)
			}
			e.flight = append(e.flight, x.Frame)
			say("send %d %s", x.To, describe(&x.Frame))
		case stack.Log:
			if core.Instant(x.Event.T) != e.now || core.NodeID(x.Event.Node) != id || core.Incarnation(x.Event.Inc) != e.nodes[id].Self().Inc {
				e.t.Errorf("line %+v is not of node %d at %v", x.Event, id, e.now)
			}
			say("log %s", line(x.Event))
		case stack.State:
			say("state %v no=%d", x.State, x.No)
		case stack.Joined:
			say("joined")
		case stack.Idle:
			say("idle")
		case stack.End:
			if i != len(effects)-1 {
				e.t.Errorf("%+v follows the end", effects[i+1:])
			}
			say("end")
			e.nodes[id] = nil
		}
	}
}

func line(ev *eventlog.Event) string {
	var b strings.Builder
	b.WriteString(string(ev.Kind))
	add := func(format string, args ...any) { fmt.Fprintf(&b, " "+format, args...) }
	if ev.Req != "" {
		add("%s", ev.Req)
	}
	if ev.No != 0 {
		add("no=%d", ev.No)
	}
	if ev.Queued != nil {
		add("queued=%v", time.Duration(*ev.Queued))
	}
	if ev.State != "" {
		add("state=%s", ev.State)
	}
	if ev.Asked != "" {
		add("asked=%s grants=%d", ev.Asked, ev.Grants)
	}
	if ev.Peer != nil {
		add("peer=%d.%d %s", *ev.Peer, ev.PeerInc, ev.Change)
	}
	if ev.Text != "" {
		add("%q", ev.Text)
	}
	for _, k := range slices.Sorted(maps.Keys(ev.Sent)) {
		add("%s=%d", k, ev.Sent[k].N)
		if r := ev.Sent[k].Retrans; r > 0 {
			add("(%d again)", r)
		}
	}
	return b.String()
}
