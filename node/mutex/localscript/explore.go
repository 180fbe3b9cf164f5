package localscript

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

type verb uint8

const (
	deliver verb = iota
	exit
	tick
	notice
	enter
	cut
	join
	dup
)

// calm steps are those that happen without new requests and faults.
func (v verb) calm() bool { return v <= notice }

// choice is one step: message a, node a, or link a and one of its ends b. draw
// is the priority that the machine draws, if it does.
type choice struct {
	verb verb
	a, b uint8
	draw uint8
}

// choices appends all that may happen, always in the same order.
func (n *net) choices(c []choice) []choice {
	for i, e := range n.flight {
		if i > 0 && e.compare(n.flight[i-1]) == 0 {
			continue
		}
		if n.reachable(e.from, e.to) {
			c = append(c, choice{verb: deliver, a: uint8(i)})
		}
		if n.dups > 0 {
			c = append(c, choice{verb: dup, a: uint8(i)})
		}
	}
	for k := range n.sites {
		m := n.sites[k].machine
		switch m.State() {
		case mutex.None:
			if n.entries[k] > 0 {
				c = append(c, choice{verb: enter, a: uint8(k)})
			}
		case mutex.Held:
			c = append(c, choice{verb: exit, a: uint8(k)})
		case mutex.Wait:
		}
		if m.Deadline() <= 0 {
			c = append(c, choice{verb: tick, a: uint8(k)})
		}
	}
	for i := range n.links {
		l := &n.links[i]
		for end := range l.news {
			if l.news[end] > 0 {
				c = append(c, choice{verb: notice, a: uint8(i), b: uint8(end)})
			}
		}
		switch {
		case l.up && n.cuts > 0:
			c = append(c, choice{verb: cut, a: uint8(i)})
		case !l.up && n.joins > 0:
			c = append(c, choice{verb: join, a: uint8(i)})
		}
	}
	return c
}

// do takes a step and reports whether a priority was drawn.
func (n *net) do(c choice) (drawn bool) {
	d := &draw{value: int(c.draw)}
	switch c.verb {
	case deliver:
		n.deliver(int(c.a), d)
	case dup:
		n.dups--
		n.flight = slices.Insert(n.flight, int(c.a), n.flight[c.a])
	case enter:
		n.entries[c.a]--
		n.step(int(c.a), mutex.Enter{}, d)
	case exit:
		n.step(int(c.a), mutex.Exit{}, d)
	case tick:
		n.step(int(c.a), mutex.Tick{}, d)
	case notice:
		n.notice(&n.links[c.a], int(c.b), d)
	case cut:
		n.cuts--
		n.flip(&n.links[c.a])
	case join:
		n.joins--
		n.flip(&n.links[c.a])
	}
	return d.used
}

// command is a choice as a line of a script.
func (n *net) command(c choice, drawn bool) string {
	var s string
	l := link{}
	if c.verb == notice || c.verb == cut || c.verb == join {
		l = n.links[c.a]
	}
	switch c.verb {
	case deliver, dup:
		e := n.flight[c.a]
		nth := 1
		for _, o := range n.flight[:c.a] {
			if o.from == e.from && o.to == e.to && o.msg.What == e.msg.What {
				nth++
			}
		}
		s = fmt.Sprintf("%s p%d->p%d %s", verbNames[c.verb], e.from, e.to, wire.KindName(e.msg.What))
		if nth > 1 {
			s += fmt.Sprintf(" %d", nth)
		}
	case enter, exit, tick:
		s = fmt.Sprintf("%s p%d", verbNames[c.verb], c.a)
	case notice:
		k, q := l.a, l.b
		if c.b == 1 {
			k, q = q, k
		}
		s = fmt.Sprintf("notice p%d p%d", k, q)
	case cut, join:
		s = fmt.Sprintf("%s p%d-p%d", verbNames[c.verb], l.a, l.b)
	}
	if drawn {
		s += fmt.Sprintf(" =%d", c.draw)
	}
	return s
}

var verbNames = [...]string{"deliver", "exit", "tick", "notice", "enter", "cut", "join", "dup"}

// Result is what an exploration came to.
type Result struct {
	States, Transitions, Depth int
	// Complete tells that no reachable state was left out; Bound names what
	// ended the exploration otherwise: "states", "depth", or "" where
	// something is wrong.
	Complete bool
	Bound    string
	// Violation is what is wrong, "" where nothing is: lock sets that
	// intersect, too many messages, or nodes from which a request can never be
	// served again, whatever is delivered ("STUCK").
	Violation string
	Schedule  []string // commands of a script that lead there
}

// Script is the schedule with its outcome as a file of testdata.
func (r *Result) Script(algorithm, comment string) (string, error) {
	schedule := strings.Join(r.Schedule, "\n") + "\n"
	out, err := Run(algorithm, schedule)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(comment) {
		fmt.Fprintf(&b, "# %s\n", strings.TrimSpace(line))
	}
	fmt.Fprintf(&b, "run %s\n%s----\n== %s\n%s", algorithm, schedule, algorithm, out)
	return b.String(), nil
}

type origin struct {
	parent uint32
	choice choice
	drawn  bool
}

type explorer struct {
	cfg   *Config
	seen  map[[16]byte]uint32
	from  []origin
	calm  [][2]uint32 // steps between states
	good  []bool      // nobody waits
	res   Result
	code  []byte
	every []choice
}

// Interrupted is the Bound of an exploration that Progress ended.
const Interrupted = "interrupted"

// progressEvery is how many states are gone on from between two calls of
// Progress.
const progressEvery = 64

// Explore visits all reachable states breadth first, until one is wrong: then no
// shorter schedule leads there. When all are visited, it looks for the first
// state from which, without new requests and faults, no step leads to where
// nobody waits. It panics where Check reports an error.
func Explore(cfg Config) Result {
	c, err := cfg.complete()
	if err != nil {
		panic(err)
	}
	x := &explorer{cfg: &c, seen: map[[16]byte]uint32{}}
	first := newNet(&c)
	x.number(first, origin{})
	level := []*net{first}
	at := 0
	x.res.Complete = true
	for len(level) > 0 {
		if c.MaxDepth > 0 && x.res.Depth >= c.MaxDepth {
			x.res.Bound = "depth"
			break
		}
		var next []*net
		for i, s := range level {
			level[i] = nil
			more, wrong := x.expand(s, uint32(at+i))
			next = append(next, more...)
			if wrong != "" {
				return x.found(wrong, len(x.from)-1)
			}
			if c.MaxStates > 0 && len(x.from) >= c.MaxStates {
				x.res.Bound = "states"
				break
			}
			if c.Progress != nil && i%progressEvery == 0 && !c.Progress(len(x.from), len(level)-i+len(next), x.res.Depth) {
				x.res.Bound = Interrupted
				break
			}
		}
		if x.res.Bound != "" {
			break
		}
		at += len(level)
		level = next
		if len(next) > 0 {
			x.res.Depth++
		}
	}
	x.res.States = len(x.from)
	if x.res.Bound != "" {
		x.res.Complete = false
		return x.res
	}
	if at := x.stuck(); at >= 0 {
		s := x.replay(at)
		return x.found("STUCK: never served again: "+names(s.waiting()), at)
	}
	return x.res
}

// number gives the state a number and reports whether it is new.
func (x *explorer) number(s *net, o origin) (uint32, bool) {
	x.code = s.encode(x.code[:0])
	sum := sha256.Sum256(x.code)
	key := [16]byte(sum[:16])
	if n, old := x.seen[key]; old {
		return n, false
	}
	n := uint32(len(x.from))
	x.seen[key] = n
	x.from = append(x.from, o)
	x.good = append(x.good, s.waiting() == 0)
	return n, true
}

func (x *explorer) expand(s *net, at uint32) (next []*net, wrong string) {
	x.every = s.choices(x.every[:0])
	for _, c := range x.every {
		for v := range x.cfg.Priorities {
			c.draw = uint8(v)
			t := s.clone()
			drawn := t.do(c)
			x.res.Transitions++
			n, fresh := x.number(t, origin{at, c, drawn})
			if c.verb.calm() && n != at {
				x.calm = append(x.calm, [2]uint32{n, at})
			}
			if fresh {
				next = append(next, t)
				if t.broken != "" {
					return next, t.broken
				}
			}
			if !drawn {
				break
			}
		}
	}
	return next, ""
}

// stuck returns the first state from which nobody can be served, or -1.
func (x *explorer) stuck() int {
	// Backwards from the good states, by steps sorted by where they lead.
	slices.SortFunc(x.calm, func(a, b [2]uint32) int { return int(int64(a[0]) - int64(b[0])) })
	start := make([]uint32, len(x.from)+1)
	for _, e := range x.calm {
		start[e[0]+1]++
	}
	for i := range x.from {
		start[i+1] += start[i]
	}
	var todo []uint32
	for i, g := range x.good {
		if g {
			todo = append(todo, uint32(i))
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range x.calm[start[n]:start[n+1]] {
			if !x.good[e[1]] {
				x.good[e[1]] = true
				todo = append(todo, e[1])
			}
		}
	}
	return slices.Index(x.good, false)
}

func (x *explorer) path(at int) (p []origin) {
	for ; at > 0; at = int(x.from[at].parent) {
		p = append(p, x.from[at])
	}
	slices.Reverse(p)
	return p
}

func (x *explorer) replay(at int) *net {
	s := newNet(x.cfg)
	for _, o := range x.path(at) {
		s.do(o.choice)
	}
	return s
}

func (x *explorer) found(wrong string, at int) Result {
	r := x.res
	r.States, r.Complete, r.Violation = len(x.from), false, wrong
	s := newNet(x.cfg)
	r.Schedule = []string{x.cfg.header()}
	for _, o := range x.path(at) {
		r.Schedule = append(r.Schedule, s.command(o.choice, o.drawn))
		s.do(o.choice)
	}
	if strings.HasPrefix(wrong, "STUCK") {
		r.Schedule = append(r.Schedule, "finish")
	}
	r.Depth = len(r.Schedule) - 1
	return r
}

// header is the first line of a script of the net.
func (c *Config) header() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nodes %d", c.Nodes)
	if c.Fresh {
		b.WriteString(" fresh")
	}
	if c.Late {
		b.WriteString(" late")
	}
	for i, l := range c.Links {
		b.WriteString(" ")
		if i >= len(c.Links)-c.Down {
			b.WriteString("/")
		}
		fmt.Fprintf(&b, "p%d-p%d", l[0], l[1])
	}
	return b.String()
}

// WalkResult is what a random walk came to.
type WalkResult struct {
	Violation string
	Waiting   int // requests that were not served
	Entries   int
	Steps     int
	Longest   int // steps that a request waited at most
}

// Walk takes fair random steps, drawn by the seed, until all entries of the
// configuration are served or so many steps are taken. Fair: of all that may
// happen without faults, each is as likely.
func Walk(cfg Config, seed uint64, steps int) WalkResult {
	c, err := cfg.complete()
	if err != nil {
		panic(err)
	}
	rng := core.Stream(seed, "mutex/localwalk")
	n := newNet(&c)
	var res WalkResult
	since := make([]int, c.Nodes)
	var every, calm []choice
	for res.Steps = 0; res.Steps < steps; res.Steps++ {
		every, calm = n.choices(every[:0]), calm[:0]
		for _, o := range every {
			if o.verb.calm() {
				calm = append(calm, o)
			}
		}
		if len(every) == 0 {
			break
		}
		from := every
		if len(calm) > 0 && rng.IntN(4) > 0 {
			from = calm
		}
		o := from[rng.IntN(len(from))]
		o.draw = uint8(rng.IntN(c.Priorities))
		if o.verb == enter {
			since[o.a] = res.Steps
		}
		before := slices.Clone(n.sites)
		n.do(o)
		for k := range c.Nodes {
			if before[k].machine.State() != mutex.Held && n.sites[k].machine.State() == mutex.Held {
				res.Entries++
				res.Longest = max(res.Longest, res.Steps-since[k])
			}
		}
		if n.broken != "" {
			res.Violation = n.broken
			return res
		}
	}
	for s := n.waiting(); s != 0; s &= s - 1 {
		res.Waiting++
	}
	return res
}
