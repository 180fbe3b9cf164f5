package localscript

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// finishSteps bounds finish.
const finishSteps = 20_000

// Run executes a schedule with the named algorithm and returns what happened.
// A schedule has one command a line; nodes are p0, p1, ...:
//
//	nodes N [fresh] [late] [[/]P-P...]
//	                     first line: links (default: all pairs), those with a
//	                     slash are down at first; fresh and late as in Config
//	enter P / exit P     Lock, Unlock
//	deliver P->P KIND [I]  the first (or I-th) such message in flight
//	dup P->P KIND [I]    it is in flight once more
//	cut P-P / join P-P   the link goes, or comes
//	notice P Q           P learns the next change of its link to Q
//	tick P               P gets the Tick that it wants
//	finish               fair steps until nobody waits, or for long
//
// "=N" at the end of a line is the priority that the step draws (default 0).
// A command that does not apply says so in the output and changes nothing.
// The run ends where something is wrong.
func Run(algorithm, schedule string) (string, error) {
	r := runner{algorithm: algorithm}
	for i, line := range strings.Split(schedule, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		fmt.Fprintf(&r.out, "> %s\n", strings.Join(f, " "))
		if err := r.command(f); errors.Is(err, errNotNow) {
			fmt.Fprintf(&r.out, "  (%v)\n", err)
		} else if err != nil {
			return "", fmt.Errorf("run line %d, %q: %w", i+1, line, err)
		}
		if r.net.broken != "" {
			fmt.Fprintf(&r.out, "%s\n", r.net.broken)
			return r.out.String(), nil
		}
	}
	if r.net == nil {
		return "", errors.New("run schedule: it is empty")
	}
	for k := range r.net.sites {
		fmt.Fprintf(&r.out, "p%d %v\n", k, r.net.sites[k].machine.State())
	}
	return r.out.String(), nil
}

var errNotNow = errors.New("does not apply")

type runner struct {
	algorithm string
	out       strings.Builder
	net       *net
}

func (r *runner) command(f []string) error {
	verb, args := f[0], f[1:]
	if verb == "nodes" {
		return r.nodes(args)
	}
	if r.net == nil {
		return errors.New("want nodes first")
	}
	c := choice{}
	if n := len(args); n > 0 && strings.HasPrefix(args[n-1], "=") {
		v, err := strconv.ParseUint(args[n-1][1:], 10, 4)
		if err != nil {
			return fmt.Errorf("priority %q: want =0 to =15", args[n-1])
		}
		c.draw, args = uint8(v), args[:n-1]
	}
	if verb == "finish" {
		r.finish()
		return nil
	}
	at := slices.Index(verbNames[:], verb)
	if at < 0 {
		return errors.New("unknown command")
	}
	for len(args) < 2 {
		args = append(args, "")
	}
	return r.choose(at, args, c)
}

// choose finds the choice that the words mean among those that are possible.
func (r *runner) choose(at int, args []string, c choice) error {
	c.verb = verb(at)
	n := r.net
	// Bounds are for explorers.
	n.cuts, n.joins, n.dups = 1, 1, 1
	for k := range n.entries {
		n.entries[k] = 1
	}
	switch c.verb {
	case deliver, dup:
		nth := 1
		if len(args) == 3 {
			var err error
			if nth, err = strconv.Atoi(args[2]); err != nil || nth < 1 {
				return fmt.Errorf("number %q: want 1 or more", args[2])
			}
		}
		for i, e := range n.flight {
			if fmt.Sprintf("p%d->p%d", e.from, e.to) != args[0] || wire.KindName(e.msg.What) != args[1] {
				continue
			}
			if nth--; nth == 0 {
				if c.verb == deliver && !n.reachable(e.from, e.to) {
					return fmt.Errorf("%w: the link is down, or p%d has not noticed that it was", errNotNow, e.to)
				}
				c.a = uint8(i)
				n.do(c)
				return nil
			}
		}
		return fmt.Errorf("%w: no such message", errNotNow)
	case exit, tick, notice, enter, cut, join: // found below by their words
	}
	want := strings.TrimSpace(strings.Join(append([]string{verbNames[at]}, args...), " "))
	for _, o := range n.choices(nil) {
		if o.verb == c.verb && n.command(o, false) == want {
			o.draw = c.draw
			n.do(o)
			return nil
		}
	}
	return errNotNow
}

func (r *runner) nodes(args []string) error {
	if r.net != nil || len(args) == 0 {
		return errors.New("want nodes once, and their number")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("number of nodes %q: want a number", args[0])
	}
	cfg := Config{Algorithm: r.algorithm, Nodes: n, Priorities: 16, Entries: []int{1}}
	var down [][2]int
	for _, a := range args[1:] {
		switch a {
		case "fresh":
			cfg.Fresh = true
			continue
		case "late":
			cfg.Late = true
			continue
		}
		l, err := parseLink(strings.TrimPrefix(a, "/"))
		if err != nil {
			return err
		}
		if strings.HasPrefix(a, "/") {
			down = append(down, l)
		} else {
			cfg.Links = append(cfg.Links, l)
		}
	}
	cfg.Down = len(down)
	cfg.Links = append(cfg.Links, down...)
	if cfg, err = cfg.complete(); err != nil {
		return err
	}
	r.net = newNet(&cfg)
	r.net.trace = func(s string) { fmt.Fprintf(&r.out, "  %s\n", s) }
	return nil
}

// parseLink reads p0-p1.
func parseLink(s string) (l [2]int, err error) {
	a, b, _ := strings.Cut(s, "-")
	for i, t := range [2]string{a, b} {
		if l[i], err = strconv.Atoi(strings.TrimPrefix(t, "p")); err != nil || !strings.HasPrefix(t, "p") {
			return l, fmt.Errorf("link %q: want p0-p1 or so", s)
		}
	}
	return l, nil
}

// ParseLinks reads links as p0-p1.
func ParseLinks(texts []string) (links [][2]int, err error) {
	for _, t := range texts {
		l, err := parseLink(t)
		if err != nil {
			return nil, err
		}
		links = append(links, l)
	}
	return links, nil
}

// finish takes fair steps, each draw in turn, until nobody waits.
func (r *runner) finish() {
	n := r.net
	trace := n.trace
	n.trace = nil
	defer func() { n.trace = trace }()
	rng := core.Stream(1, "mutex/localscript")
	var every []choice
	for i := 0; n.waiting() != 0 && n.broken == "" && i < finishSteps; i++ {
		every = slices.DeleteFunc(n.choices(every[:0]), func(c choice) bool { return !c.verb.calm() })
		if len(every) == 0 {
			break
		}
		c := every[rng.IntN(len(every))]
		c.draw = uint8(rng.IntN(16))
		n.do(c)
	}
	if s := n.waiting(); s != 0 && n.broken == "" {
		fmt.Fprintf(&r.out, "  STUCK: %s\n", names(s))
		return
	}
	held := uint8(0)
	for k := range n.sites {
		if n.sites[k].machine.State() == mutex.Held {
			held |= 1 << k
		}
	}
	if n.broken == "" && held != 0 {
		fmt.Fprintf(&r.out, "  at last %s has the lock\n", names(held))
	}
}
