package smart

import (
	"slices"

	"churnbed/node/kgroup"
)

// Standing is what a node is to the groups now, by its own lights: one that
// was stopped, or cut off, does not know yet what others decided.
type Standing struct {
	Leads []kgroup.Group // that it serves, ascending
	Holds bool           // it runs a routine that holds a device's lock
	Waits bool           // it runs a routine that waits for one
	// Executed counts routines that it saw through, in this life.
	Executed int
}

// Equal reports whether two standings are the same.
func (s *Standing) Equal(o *Standing) bool {
	return s.Holds == o.Holds && s.Waits == o.Waits && s.Executed == o.Executed && slices.Equal(s.Leads, o.Leads)
}

// Standing fills in what the node is now; it keeps the memory of s.
func (m *Machine) Standing(s *Standing) {
	*s = Standing{Leads: s.Leads[:0], Executed: m.executed}
	for _, r := range m.replicas { // by group
		if r.stage != leading {
			continue
		}
		s.Leads = append(s.Leads, r.group)
		for _, w := range r.lead.works {
			switch w.phase {
			case acquiring:
				s.Holds = s.Holds || slices.Contains(w.got, true)
				s.Waits = true
			case executing, releasing:
				s.Holds = true
			case notTriggered, backingOff:
			}
		}
	}
}
