package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"churnbed/node/mutex"
)

// ReadSchedule reads the schedule of an interaction script: of a file of
// node/mutex/testdata that of its first run, or the commands alone. It returns
// whom the nodes list at the start, and the commands after that line, for
// ExploreConfig.After. A script's finish, at its end, is left out.
func ReadSchedule(text string) (lists [][]int, commands []string, err error) {
	for i, line := range strings.Split(text, "\n") {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) == "----" {
			break
		}
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] == "run" && lists == nil:
		case lists == nil:
			r := runner{name: "ra"}
			if f[0] != "nodes" {
				return nil, nil, fmt.Errorf("read schedule line %d, %q: want nodes first", i+1, line)
			}
			if err := r.nodes(f[1:]); err != nil {
				return nil, nil, fmt.Errorf("read schedule line %d, %q: %w", i+1, line, err)
			}
			lists = r.lists
		default:
			commands = append(commands, strings.Join(f, " "))
		}
	}
	if lists == nil {
		return nil, nil, errors.New("read schedule: it is empty")
	}
	if n := len(commands); n > 0 && strings.HasPrefix(commands[n-1], "finish") {
		commands = commands[:n-1]
	}
	return lists, commands, nil
}

// plant follows the commands of After from the first state; what they used of
// the bounds does not count.
func (m *model) plant() error {
	s := m.root()
	net := NewNet(m.n, m.mk)
	for k := range m.n {
		net.Start(k, m.cfg.Lists[k])
	}
	r := runner{net: net}
	for i, line := range m.cfg.After {
		c, err := m.choiceOf(s, &r, strings.Fields(line))
		if err == nil {
			_, err = m.replay(s, net, c)
		}
		if err != nil {
			return fmt.Errorf("explore after command %d, %q: %w", i+1, line, err)
		}
		m.do(s, c)
		if v := m.violation(s); v != "" {
			return fmt.Errorf("explore after command %d, %q: it is wrong there already: %s", i+1, line, v)
		}
		m.after = append(m.after, c)
	}
	s.left, s.entries, s.crashes = m.cfg.budget(), slices.Clone(m.cfg.Entries), slices.Clone(m.cfg.Crashes)
	m.planted = s
	return nil
}

// choiceOf returns the step that a command is.
func (m *model) choiceOf(s *state, r *runner, f []string) (c choice, err error) {
	v := verb(slices.Index(verbNames[:], f[0]))
	switch v {
	case deliver, drop, dup:
		i, err := r.find(f[1:])
		if err != nil {
			return c, err
		}
		c = choice{verb: v, a: m.letter(r.net.Flight[i])}
		if v == deliver && !m.reaches(s, &m.letters[c.a]) {
			return c, fmt.Errorf("%w: p%d is down", errNotNow, r.net.Flight[i].To)
		}
		return c, nil
	case enter, exit, crash, restart, tick, up, down:
	default:
		return c, errors.New("want one of deliver, drop, dup, enter, exit, crash, restart, tick, up, down: time stands still, and nobody leaves")
	}
	want := 2
	if v == up || v == down {
		want = 3
	}
	if len(f) != want {
		return c, fmt.Errorf("want %d nodes", want-1)
	}
	k, err := r.node(f[1])
	if err != nil {
		return c, err
	}
	c = choice{verb: v, a: uint32(k)}
	if want == 3 {
		j, err := r.node(f[2])
		if err != nil {
			return c, err
		}
		if c.b = uint8(j); j == k {
			return c, errors.New("want two different nodes")
		}
	}
	switch x := m.at(s, k); {
	case x.up == (v == restart):
		return c, fmt.Errorf("%w: up is %v", errNotNow, x.up)
	case v == enter && x.st != mutex.None, v == exit && x.st != mutex.Held:
		return c, fmt.Errorf("%w: p%d is %v", errNotNow, k, x.st)
	}
	return c, nil
}
