package script

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// Found is a schedule that leads to something wrong.
type Found struct {
	Violation string
	// Waiting are the nodes whose requests are never served, although the
	// trouble ended at the end of the schedule; empty where something else is
	// wrong.
	Waiting []int
	// Steps are the steps, numbered from 1 in the texts that are made of them.
	// The first Given of them are those that came before the exploration.
	Steps []FoundStep
	Given int
	// ending are the commands that end the trouble, where Waiting.
	ending    []string
	algorithm string
	nodes     int
	lists     [][]int
}

// FoundStep is one step of a schedule.
type FoundStep struct {
	Commands []string // of a script; more than one where a node must leave first
	Effects  []string // what the machines did, as scripts print it

	from, to int // of a delivery; else from is the node, to -1
	label    string
	states   []string // of the nodes afterwards
}

// found replays a schedule on a Net, with machines of its own, and describes
// it. What the exploration saw must happen there as well.
func (m *model) found(path []choice) (*Found, error) {
	f := &Found{algorithm: m.cfg.Algorithm, nodes: m.n, lists: m.cfg.Lists, Given: len(m.after)}
	net := NewNet(m.n, m.mk)
	net.Permits = m.cfg.Holders
	for k := range m.n {
		net.Start(k, m.cfg.Lists[k])
	}
	s := m.root()
	path = slices.Concat(m.after, path)
	var effects []string
	net.Trace = func(t string) { effects = append(effects, t) }
	for _, c := range path {
		effects = nil
		step, err := m.replay(s, net, c)
		if err != nil {
			return nil, err
		}
		m.do(s, c)
		step.Effects = effects
		for _, x := range net.Nodes {
			switch {
			case !x.Up:
				step.states = append(step.states, "down")
			default:
				step.states = append(step.states, x.Machine.State().String())
			}
		}
		f.Steps = append(f.Steps, step)
	}
	if f.Violation = m.violation(s); f.Violation != "" {
		if v := net.Violation(); strings.Contains(f.Violation, "HELD") && m.cfg.Holders <= 1 {
			if v == "" {
				return nil, fmt.Errorf("replay schedule of %d steps: nothing is wrong at its end, but the exploration saw %s", len(path), f.Violation)
			}
			f.Violation = v
		}
		return f, nil
	}
	net.Trace = nil
	r := runner{net: net, lists: m.cfg.Lists}
	for _, c := range m.ending(s) {
		f.ending = append(f.ending, c)
		if err := r.command(strings.Fields(c)); err != nil {
			return nil, fmt.Errorf("replay ending of schedule, %q: %w", c, err)
		}
	}
	f.ending = append(f.ending, fmt.Sprintf("finish %d", finishTicks))
	if f.Waiting = net.Finish(finishTicks); len(f.Waiting) == 0 {
		return nil, fmt.Errorf("replay schedule of %d steps: everybody is served, but the exploration saw somebody wait", len(path))
	}
	f.Violation = fmt.Sprintf("STUCK: waiting for ever, though %s and everything was delivered:%s", whoIsUp(m.cfg), nodeNames(f.Waiting))
	return f, nil
}

func whoIsUp(c ExploreConfig) string {
	if c.StayDead {
		return "those who list the dead have heard of it"
	}
	return "everybody is up"
}

// replay takes step c, possible in s, on the net.
func (m *model) replay(s *state, net *Net, c choice) (FoundStep, error) {
	k := int(c.a)
	step := FoundStep{from: k, to: -1}
	switch c.verb {
	case deliver, drop, dup:
		e := &m.letters[c.a]
		i := slices.IndexFunc(net.Flight, func(o Envelope) bool { return bytes.Equal(appendEnvelope(nil, o), []byte(e.text)) })
		if i < 0 {
			return step, fmt.Errorf("replay %s of %v: no such message", verbNames[c.verb], e.Envelope)
		}
		nth := 1
		for _, o := range net.Flight[:i] {
			if o.From.ID == e.From.ID && o.To == e.To && o.Msg.Kind() == e.Msg.Kind() {
				nth++
			}
		}
		cmd := fmt.Sprintf("%s p%d->p%d %s", verbNames[c.verb], e.From.ID, e.To, wire.KindName(e.Msg.Kind()))
		if nth > 1 {
			cmd += fmt.Sprintf(" %d", nth)
		}
		step.Commands = []string{cmd}
		step.from, step.to, step.label = int(e.From.ID), int(e.To), describe(e.Msg)
		switch c.verb {
		case deliver:
			net.Deliver(i)
		case drop:
			step.label += " LOST"
			net.Take(i)
		default:
			step.label += " TWICE"
			net.Flight = append(net.Flight, net.Flight[i])
		}
		return step, nil
	case silent, tick:
		after := s
		if c.verb == silent {
			after = s.clone()
			m.memberDown(after, k, int(c.b))
			step.Commands = append(step.Commands, "down "+nodeName(k)+" "+nodeName(int(c.b)))
			net.Step(k, mutex.MemberDown{Peer: net.Nodes[c.b].Peer})
			step.label = "silent OK of " + nodeName(int(c.b))
		} else {
			step.label = "tick"
		}
		for _, j := range m.fenced(after, k) {
			step.Commands = append(step.Commands, "fence "+nodeName(j))
			step.label += ", " + nodeName(j) + " leaves"
			net.Fence(j)
		}
		if net.Nodes[k].Machine.Deadline() <= net.Now {
			step.Commands = append(step.Commands, "tick "+nodeName(k))
			net.Tick(k)
		}
		return step, nil
	case cut:
		step.Commands, step.label = []string{"# partition"}, "partition"
		return step, nil
	default:
	}
	step.label = verbNames[c.verb]
	cmd := verbNames[c.verb] + " " + nodeName(k)
	switch c.verb {
	case bound:
		n := m.cfg.Bounds[k][c.b]
		cmd += fmt.Sprintf(" %d", n)
		step.label = fmt.Sprintf("bound %d", n)
		net.Step(k, mutex.Bound{Nodes: n})
	case enter:
		net.Step(k, mutex.Enter{})
	case exit:
		net.Step(k, mutex.Exit{})
	case crash:
		net.Crash(k)
	case restart:
		net.Start(k, m.cfg.Lists[k])
	default:
		q := net.Nodes[c.b].Peer
		cmd += " " + nodeName(int(c.b))
		step.label = "list gains " + nodeName(int(c.b))
		if c.verb == up {
			net.Step(k, mutex.MemberUp{Peer: q})
		} else {
			step.label = "list loses " + nodeName(int(c.b))
			net.Step(k, mutex.MemberDown{Peer: q})
		}
	}
	step.Commands = []string{cmd}
	return step, nil
}

// Numbered returns the steps, one or more lines each, and the violation.
func (f *Found) Numbered() string {
	var b strings.Builder
	for i, s := range f.Steps {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, strings.Join(s.Commands, "; "))
		for _, e := range s.Effects {
			fmt.Fprintf(&b, "       %s\n", e)
		}
	}
	for _, c := range f.ending {
		fmt.Fprintf(&b, "  -  %s\n", c)
	}
	fmt.Fprintln(&b, f.Violation)
	return b.String()
}

// Schedule is the schedule as Run reads it.
func (f *Found) Schedule() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nodes %d", f.nodes)
	for k, list := range f.lists {
		var names []string
		for _, j := range list {
			if j != k {
				names = append(names, nodeName(j))
			}
		}
		if len(names) < f.nodes-1 {
			fmt.Fprintf(&b, " %s:%s", nodeName(k), strings.Join(names, ","))
		}
	}
	b.WriteByte('\n')
	for _, s := range f.Steps {
		for _, c := range s.Commands {
			fmt.Fprintln(&b, c)
		}
	}
	for _, c := range f.ending {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}

// Script is the schedule with its outcome as a file of node/mutex/testdata.
func (f *Found) Script(comment string) (string, error) {
	schedule := f.Schedule()
	out, err := Run(f.algorithm, schedule)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(comment) {
		fmt.Fprintf(&b, "# %s\n", strings.TrimSpace(line))
	}
	fmt.Fprintf(&b, "# Shortest schedule: %d steps.\nrun %s\n%s----\n== %s\n%s", len(f.Steps), f.algorithm, schedule, f.algorithm, out)
	return b.String(), nil
}

// column is the width of a node in a chart.
const column = 16

// Chart draws the schedule: a column a node, deliveries as arrows.
func (f *Found) Chart() string {
	var b strings.Builder
	b.WriteString("     ")
	for k := range f.nodes {
		fmt.Fprintf(&b, "%-*s", column, nodeName(k))
	}
	b.WriteByte('\n')
	states := make([]string, f.nodes)
	for k := range states {
		states[k] = mutex.None.String()
	}
	for i, s := range f.Steps {
		row := f.rails()
		if s.to < 0 {
			row.put(s.from*column, "* "+s.label)
		} else {
			row.arrow(s.from*column, s.to*column, s.label)
		}
		fmt.Fprintf(&b, "%3d  %s\n", i+1, row)
		changed := f.rails()
		any := false
		for k := range states {
			if s.states[k] != states[k] {
				changed.put(k*column, "["+s.states[k]+"]")
				any = true
			}
		}
		copy(states, s.states)
		if any {
			fmt.Fprintf(&b, "     %s\n", changed)
		}
	}
	return b.String()
}

type row []byte

func (f *Found) rails() *row {
	r := row(strings.Repeat(" ", f.nodes*column))
	for k := range f.nodes {
		r[k*column] = '|'
	}
	return &r
}

func (r *row) String() string { return strings.TrimRight(string(*r), " ") }

func (r *row) put(at int, text string) {
	for len(*r) < at+len(text)+1 {
		*r = append(*r, ' ')
	}
	copy((*r)[at:], text)
	if end := at + len(text); (*r)[end] != '|' && (*r)[end] != ' ' {
		(*r)[end] = ' '
	}
}

func (r *row) arrow(from, to int, label string) {
	lo, hi := min(from, to), max(from, to)
	for i := lo + 1; i < hi; i++ {
		(*r)[i] = '-'
	}
	(*r)[from] = 'o'
	if to > from {
		(*r)[to-1] = '>'
	} else {
		(*r)[to+1] = '<'
	}
	if room := hi - lo - 4; len(label) <= room {
		copy((*r)[lo+2+(room-len(label))/2:], label)
		return
	}
	r.put(max(hi, len(strings.TrimRight(string(*r), " |")))+2, label)
}

func nodeName(k int) string { return fmt.Sprintf("p%d", core.NodeID(k)) }

func nodeNames(ks []int) string {
	var b strings.Builder
	for _, k := range ks {
		b.WriteString(" " + nodeName(k))
	}
	return b.String()
}
