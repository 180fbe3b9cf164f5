package script

import (
	"fmt"
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// custodyViolation says what is wrong with the tokens of s, or nothing. It
// counts while nobody has died: what a dead node had is gone.
func (m *model) custodyViolation(s *state) string {
	if !m.tokens {
		return ""
	}
	custody := make([]mutex.Custody, m.n)
	for k := range m.n {
		l := m.at(s, k)
		if !l.up || l.peer.Inc > core.FirstIncarnation {
			return ""
		}
		custody[k] = l.custody
	}
	m.flight = m.flight[:0]
	for _, f := range s.flight {
		m.flight = append(m.flight, m.letters[f].Envelope)
	}
	return checkCustody(custody, m.flight, max(1, m.cfg.Holders))
}

func (n *Net) custodyViolation() string {
	custody := make([]mutex.Custody, len(n.Nodes))
	for k, x := range n.Nodes {
		c, ok := x.Machine.(mutex.Custodian)
		if !ok || !x.Up || x.Peer.Inc.Start() > 1 {
			return ""
		}
		custody[k] = c.Custody()
		if i, ok := x.Machine.(interface{ Invariant() string }); ok {
			if why := i.Invariant(); why != "" {
				return fmt.Sprintf("BROKEN: p%d: %s", k, why)
			}
		}
	}
	return checkCustody(custody, n.Flight, max(1, n.Permits))
}

// checkCustody checks that tokens at nodes and on their way are k, that
// coordinators at nodes and on their way are one, where there are any, and,
// when nothing is on its way, that parents lead from every node to a root. A
// message that its receiver would not take any more is a repetition and does
// not count, nor does the second of two that are the same.
func checkCustody(custody []mutex.Custody, flight []Envelope, k int) string {
	tokens, coordinators := 0, 0
	coordinated := false
	var where []string
	for i, c := range custody {
		tokens += c.Tokens
		for range c.Tokens {
			where = append(where, nodeName(i))
		}
		coordinated = coordinated || c.Coordinator || !c.LedFor.IsZero()
		if c.Coordinator {
			coordinators++
		}
	}
	var counted, led []core.RequestID
	for _, e := range flight {
		to := custody[e.To]
		switch msg := e.Msg.(type) {
		case *wire.Token:
			if slices.Contains(to.Awaited, msg.For) && !slices.Contains(counted, msg.For) {
				counted = append(counted, msg.For)
				tokens++
				where = append(where, "to "+nodeName(int(e.To)))
			}
		case *wire.TokenLocations:
			if msg.For.NewerThan(to.LedFor) && !slices.Contains(led, msg.For) {
				led = append(led, msg.For)
				coordinators++
			}
			coordinated = true
		}
	}
	if tokens != k {
		return fmt.Sprintf("BROKEN: %d tokens, want %d: %v", tokens, k, where)
	}
	if coordinated && coordinators != 1 {
		return fmt.Sprintf("BROKEN: %d coordinators", coordinators)
	}
	if len(flight) == 0 {
		return checkParents(custody)
	}
	return ""
}

func checkParents(custody []mutex.Custody) string {
	for tree := range custody[0].Parents {
		for i := range custody {
			at, steps := core.NodeID(i), 0
			for custody[at].Parents[tree] != core.None {
				if at, steps = custody[at].Parents[tree], steps+1; steps > len(custody) {
					return fmt.Sprintf("BROKEN: parents of p%d lead in a circle", i)
				}
			}
		}
	}
	return ""
}
