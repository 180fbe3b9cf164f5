package results

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Local says how locks of neighbourhoods went (ALGORITHMS 6). It is nil where
// the algorithm is another.
//
// A lock set is the node itself and the neighbours that its "enter" line
// names. The claim on a neighbour ends with the section, or when the link to it
// goes, or its process dies. That instant is taken just before the deed, so
// that no claim is taken for longer than it was.
type Local struct {
	// Intersections counts pairs of claims of two nodes on one node at the same
	// time.
	Intersections int `json:"intersections"`
	// Incomplete counts locks that lack a neighbour of their beginning though the
	// link to it stayed and the node saw nothing else, or that have a neighbour
	// that was none then.
	Incomplete int `json:"incomplete"`
	// Persistent counts locks whose neighbours of the beginning all stayed.
	Persistent int `json:"persistent"`
	// InFlightPerLink is the most messages under way at a time on a link: twice
	// the most requests that a node had under way on one of its links.
	InFlightPerLink int  `json:"in_flight_per_link"`
	LockMS          Dist `json:"lock_ms"` // from the beginning of Lock, not of the request
	// Tries are competitions a lock; Spins those that were lost.
	TriesMean Number `json:"tries_mean"`
	TriesMax  int    `json:"tries_max"`
	Spins     int    `json:"spins"`
	Degree    Number `json:"lock_set_mean"` // nodes of a lock set
	DegreeMax int    `json:"lock_set_max"`
	// Bytes of the shortest and of the longest message, without the frame that
	// the transport puts around it, and of the largest state of a node when it
	// had its lock.
	MessageBytesMin int  `json:"message_bytes_min"`
	MessageBytesMax int  `json:"message_bytes_max"`
	StateBytesMax   int  `json:"state_bytes_max"`
	LinkChanges     int  `json:"link_changes"` // links that went or came
	PortsClosed     int  `json:"ports_closed"` // by nodes that saw it
	App             *App `json:"app,omitempty"`
}

// localRequest is what a lock adds to a Request.
type localRequest struct {
	began int64
	first idSet
	tries int
}

// linkChange is a link going or coming, between two instants.
type linkChange struct {
	at, after int64
	up        bool
}

// locals is what the replay keeps of neighbourhood locks.
type locals struct {
	on    bool
	of    map[*Request]localRequest
	links map[[2]core.NodeID][]linkChange
	// closed is when a node (first) closed its port to a neighbour (second).
	closed map[[2]core.NodeID][]int64
	sum    Local
	app    *appState
}

func isLocal(algorithm string) bool {
	return algorithm == "localmutex" || algorithm == "localmutex-paper"
}

func newLocals(m *Manifest) locals {
	return locals{
		on: isLocal(m.Algorithm), of: map[*Request]localRequest{},
		links: map[[2]core.NodeID][]linkChange{}, closed: map[[2]core.NodeID][]int64{},
	}
}

// linkSet takes in a line of the controller about a link.
func (x *locals) linkSet(e *eventlog.Event) {
	if !x.on || e.Text != "up" && e.Text != "down" {
		return
	}
	a, b, _ := strings.Cut(e.Link, "-")
	i, err1 := strconv.ParseInt(a, 10, 32)
	j, err2 := strconv.ParseInt(b, 10, 32)
	if err1 != nil || err2 != nil {
		return
	}
	p := [2]core.NodeID{core.NodeID(min(i, j)), core.NodeID(max(i, j))}
	x.links[p] = append(x.links[p], linkChange{e.T, max(e.T, e.After), e.Text == "up"})
	x.sum.LinkChanges++
}

// port takes in that a node opened or closed a port.
func (x *locals) port(node core.NodeID, e *eventlog.Event) {
	if !x.on || e.Peer == nil || e.Change != "down" {
		return
	}
	p := [2]core.NodeID{node, core.NodeID(*e.Peer)}
	x.closed[p] = append(x.closed[p], e.T)
	x.sum.PortsClosed++
}

// enter takes in what an "enter" line has more.
func (x *locals) enter(q *Request, e *eventlog.Event) error {
	if !x.on {
		return nil
	}
	g := e.Hood
	if g == nil {
		return errors.New("no \"hood\": what was to be locked is not known")
	}
	r := localRequest{began: g.Began, tries: g.Tries}
	ids, err := eventlog.ParseRanges(g.First)
	for _, k := range ids {
		r.first = r.first.with(k)
	}
	x.of[q] = r
	s := &x.sum
	s.InFlightPerLink = max(s.InFlightPerLink, 2*g.InFlight)
	s.StateBytesMax = max(s.StateBytesMax, g.State)
	s.MessageBytesMax = max(s.MessageBytesMax, g.Most)
	if g.Most > 0 && (s.MessageBytesMin == 0 || g.Least < s.MessageBytesMin) {
		s.MessageBytesMin = g.Least
	}
	return err
}

// goes is when the link between two nodes goes first at or after from; from,
// where it is not there then. While a change is being made, the link counts as
// gone.
func (x *locals) goes(a, b core.NodeID, from int64) int64 {
	up := true
	for _, c := range x.links[[2]core.NodeID{min(a, b), max(a, b)}] {
		switch {
		case !c.up && c.after >= from:
			return c.at
		case c.up && c.at > from:
			return from
		}
		up = c.up
	}
	if !up {
		return from
	}
	return math.MaxInt64
}

// staysUntil is until when node k, and the link from the node that locks it,
// stay from an instant on.
func (h *history) staysUntil(by, k core.NodeID, from int64) int64 {
	until := h.local.goes(by, k, from)
	if int(k) >= len(h.nodes) {
		return until
	}
	for i := range slices.Backward(h.nodes[k].lives) {
		if l := &h.nodes[k].lives[i]; l.start <= from {
			return min(until, l.end)
		}
	}
	return from
}

// saw reports whether a node closed its port to a neighbour meanwhile, late or
// because the neighbour saw the link go.
func (x *locals) saw(node, peer core.NodeID, from, to int64) bool {
	return slices.ContainsFunc(x.closed[[2]core.NodeID{node, peer}], func(t int64) bool { return from <= t && t <= to })
}

// claim is the hold of a request on one node.
type claim struct {
	q        *Request
	from, to int64
}

// claims returns all claims by the node that they are on, by their beginning.
func (h *history) claims() [][]claim {
	on := make([][]claim, len(h.nodes))
	for _, q := range h.requests {
		if !q.Entered || q.End <= q.Enter {
			continue
		}
		q.set.eachCommon(q.set, func(k core.NodeID) bool {
			end := q.End
			if k != q.Node {
				end = min(end, h.staysUntil(q.Node, k, h.local.of[q].began))
			}
			if int(k) < len(on) && end > q.Enter {
				on[k] = append(on[k], claim{q, q.Enter, end})
			}
			return false
		})
	}
	for _, list := range on {
		slices.SortStableFunc(list, func(a, b claim) int { return cmp.Compare(a.from, b.from) })
	}
	return on
}

// safetyOfLocks looks for lock sets that intersect, node by node.
func (v *Verdict) safetyOfLocks(h *history) {
	var bad union
	var spans [][2]int64
	for _, list := range h.claims() {
		var open []claim
		for _, c := range list {
			open = slices.DeleteFunc(open, func(o claim) bool { return o.to <= c.from })
			for _, o := range open {
				if o.q.Node == c.q.Node {
					continue
				}
				pair := Overlap{First: o.q, Second: c.q, From: c.from, To: min(o.to, c.to)}
				v.ViolationCount++
				spans = append(spans, [2]int64{pair.From, pair.To})
				if len(v.Violations) < maxListed {
					v.Violations = append(v.Violations, pair)
				}
			}
			open = append(open, c)
			v.MaxConcurrent = max(v.MaxConcurrent, len(open))
		}
	}
	slices.SortFunc(spans, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	for _, s := range spans {
		bad.add(s[0], s[1])
	}
	v.ViolationTime = bad.total
	v.confirmLocks = func() (bool, int) { return h.locksLinearizable() }
	v.Local = h.locks(v)
}

// locksLinearizable is the second judge: each node is a mutex of its own,
// which those have who claim it.
func (h *history) locksLinearizable() (ok bool, operations int) {
	ok = true
	for _, list := range h.claims() {
		requests := make([]*Request, len(list))
		for i, c := range list {
			requests[i] = &Request{Node: c.q.Node, Asked: min(c.q.Asked, c.from), Enter: c.from, End: c.to, Entered: true, Ending: EndExited}
		}
		one, n := linearizable(requests, 1)
		ok = ok && one
		operations += n
	}
	return ok, operations
}

// locks computes the figures.
func (h *history) locks(v *Verdict) *Local {
	x := &h.local
	l := x.sum
	if x.app != nil {
		x.app.epoch = max(0, h.epoch)
	}
	l.Intersections, l.App = v.ViolationCount, x.app.summary()
	var took []float64
	tries, size, n := 0, 0, 0
	for _, q := range h.requests {
		r, ok := x.of[q]
		if !ok {
			continue
		}
		n++
		tries += r.tries
		size += q.set.count()
		l.DegreeMax = max(l.DegreeMax, q.set.count())
		l.TriesMax = max(l.TriesMax, r.tries)
		took = append(took, float64(q.Enter-r.began)/1e6)
		missing, all := false, true
		r.first.eachCommon(r.first, func(k core.NodeID) bool {
			stays := h.staysUntil(q.Node, k, r.began) > q.Enter && !x.saw(q.Node, k, r.began, q.Enter)
			all = all && stays
			missing = missing || stays && !q.set.has(k)
			return false
		})
		more := false
		q.set.eachCommon(q.set, func(k core.NodeID) bool {
			more = more || k != q.Node && !r.first.has(k)
			return false
		})
		if missing || more {
			l.Incomplete++
		}
		if all {
			l.Persistent++
		}
	}
	l.LockMS, l.TriesMean, l.Degree = distribution(took), ratio(float64(tries), float64(n)), ratio(float64(size), float64(n))
	l.Spins = max(0, tries-n)
	return &l
}

// Wrong reports whether the locks were not what the algorithm promises,
// intersections apart.
func (l *Local) Wrong() bool {
	return l != nil && (l.Incomplete > 0 || l.InFlightPerLink > 2 || l.MessageBytesMin != l.MessageBytesMax || l.App.wrong())
}

func (s idSet) has(id core.NodeID) bool { return int(id>>6) < len(s) && s[id>>6]&(1<<(id&63)) != 0 }

func (s idSet) count() (n int) {
	s.eachCommon(s, func(core.NodeID) bool {
		n++
		return false
	})
	return n
}

// print writes the rows of neighbourhood locks.
func (l *Local) print(p *printer, served int) {
	for _, line := range l.Lines(served) {
		p.row(line[0], "%s", line[1])
	}
}

// Lines tells it in words, each line a name and a text; none where l is nil.
// served is how many locks were taken.
func (l *Local) Lines(served int) [][2]string {
	if l == nil {
		return nil
	}
	bytes := strconv.Itoa(l.MessageBytesMin)
	if l.MessageBytesMax != l.MessageBytesMin {
		bytes += fmt.Sprintf(" to %d", l.MessageBytesMax)
	}
	lines := [][2]string{
		{"locks", fmt.Sprintf("%d of %s nodes each (up to %d), took mean %s  p99 %s; %d kept all neighbours, %d incomplete",
			served, num(l.Degree), l.DegreeMax, ms(l.LockMS.Mean), ms(l.LockMS.P99), l.Persistent, l.Incomplete)},
		{"competitions", fmt.Sprintf("%s a lock, at most %d; %d lost", num(l.TriesMean), l.TriesMax, l.Spins)},
		{"bounds", fmt.Sprintf("at most %d messages under way on a link, %s bytes each; at most %d bytes of state a node", l.InFlightPerLink, bytes, l.StateBytesMax)},
		{"links", fmt.Sprintf("went or came %d times; nodes closed %d ports", l.LinkChanges, l.PortsClosed)},
	}
	if l.App != nil {
		lines = append(lines, [2]string{"application", fmt.Sprint(l.App)})
	}
	return lines
}
