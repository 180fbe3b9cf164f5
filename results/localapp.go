package results

import (
	"fmt"
	"strings"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// App is what an application did under the locks (node/mutex/localmutex): each
// node has a value and changes it, and one neighbour's.
type App struct {
	Name string `json:"name"` // election, majority, amoebot
	// First and Values count the nodes that had a value at the beginning and at
	// the end.
	First        map[string]int `json:"first"`
	Values       map[string]int `json:"values"`
	Changes      int            `json:"changes"`
	LastChangeMS Number         `json:"last_change_ms"` // after the epoch
	// Done: one leader is left; every node votes as the majority did at first;
	// all particles are there, each in one place.
	Done bool `json:"done"`
	// Wrong counts what locks must prevent: instants without a leader, a
	// majority that turned, particles that another moved onto.
	Wrong int `json:"wrong"`
	// Copies counts particles, or leaders, too many at the end: where the link
	// goes in the middle of a move, both ends keep what moves.
	Copies int `json:"copies"`
}

// Names of applications, and of the values of MajorityApp, as node/mutex/localmutex
// has them.
const (
	appElection = "election"
	appMajority = "majority"
	appAmoebot  = "amoebot"

	// appNote begins a note about a new value of a node.
	appNote = "app "

	strongA, strongB, weakA, weakB = "0", "1", "2", "3"
)

// appState follows the values.
type appState struct {
	App
	values map[core.NodeID]string
	last   int64
	epoch  int64
	full   int // nodes whose value is not 0
}

// note takes in a node's note, which may tell of a new value.
func (x *locals) note(node core.NodeID, e *eventlog.Event) {
	text, ok := strings.CutPrefix(e.Text, appNote)
	if !x.on || !ok {
		return
	}
	name, value, _ := strings.Cut(text, " ")
	a := x.app
	if a == nil {
		a = &appState{App: App{Name: name, First: map[string]int{}}, values: map[core.NodeID]string{}}
		x.app = a
	}
	old, known := a.values[node]
	a.values[node] = value
	if value != "0" {
		a.full++
	}
	if !known {
		a.First[value]++
		return
	}
	if old != "0" {
		a.full--
	}
	if old != value {
		a.Changes++
		a.last = e.T
	}
	switch name {
	case appElection:
		if a.full == 0 {
			a.Wrong++
		}
	case appAmoebot:
		if old != "0" && value != "0" && old != value {
			a.Wrong++
		}
	}
}

// summary says what has come of it, nil where there is no application.
func (a *appState) summary() *App {
	if a == nil {
		return nil
	}
	s := a.App
	s.LastChangeMS = Unknown()
	if s.Changes > 0 {
		s.LastChangeMS = Number(float64(a.last-a.epoch) / 1e6)
	}
	s.Values = map[string]int{}
	for _, value := range a.values { // counts: order does not matter
		s.Values[value]++
	}
	switch s.Name {
	case appElection:
		leaders := s.Values["1"]
		s.Done, s.Copies = leaders == 1, max(0, leaders-1)
	case appMajority:
		s.majority()
	case appAmoebot:
		for p, n := range s.Values {
			if p != "0" {
				s.Copies += n - 1
			}
		}
		s.Done = s.Copies == 0 && len(s.Values)-min(1, s.Values["0"]) == len(s.First)-min(1, s.First["0"])
	}
	return &s
}

// majority judges the votes: the stronger side of the beginning must have all,
// and the other must never.
func (s *App) majority() {
	votes := func(m map[string]int) (a, b int) { return m[strongA] + m[weakA], m[strongB] + m[weakB] }
	a, b := votes(s.First)
	endA, endB := votes(s.Values)
	s.Done = a > b && endB == 0 || b > a && endA == 0
	if a > b && endA == 0 || b > a && endB == 0 {
		s.Wrong++
	}
}

func (s *App) wrong() bool { return s != nil && s.Wrong > 0 }

// String tells the outcome in a line.
func (s *App) String() string {
	var b strings.Builder
	switch s.Name {
	case appElection:
		fmt.Fprintf(&b, "election: %d of %d leaders left", s.Values["1"], s.First["1"])
	case appMajority:
		fmt.Fprintf(&b, "majority: votes %d to %d at first, %d to %d at the end", s.First[strongA]+s.First[weakA], s.First[strongB]+s.First[weakB],
			s.Values[strongA]+s.Values[weakA], s.Values[strongB]+s.Values[weakB])
	default:
		cells := func(m map[string]int) (n int) {
			for v, k := range m { // a sum
				if v != "0" {
					n += k
				}
			}
			return n
		}
		fmt.Fprintf(&b, "%s: %d particles at first, %d cells taken at the end, %d moves onto another", s.Name, cells(s.First), cells(s.Values), s.Wrong)
	}
	fmt.Fprintf(&b, "; %d changes", s.Changes)
	if s.LastChangeMS.Known() {
		fmt.Fprintf(&b, ", the last after %.4g s", float64(s.LastChangeMS)/1e3)
	}
	if s.Copies > 0 && s.Name == appAmoebot {
		fmt.Fprintf(&b, "; %d copies", s.Copies)
	}
	if s.Wrong > 0 {
		fmt.Fprintf(&b, "; WRONG %d times", s.Wrong)
	}
	return b.String()
}
