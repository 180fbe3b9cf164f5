package foreign

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/workloads"
)

// MembershipOptions say how to replay the lists of a run.
type MembershipOptions struct {
	Every time.Duration // scenario time between two snapshots, > 0
	// Initial are the lists of the first lives by node, each without the node
	// itself, for runs that planted missing entries: the logs tell their
	// lengths only. nil: everyone, or everyone who was there at the start.
	Initial [][]core.NodeID
}

// Snapshot is the lists of all nodes at one instant.
type Snapshot struct {
	At time.Duration // after the epoch, scenario time
	// Lists by node; nil where the node never ran. The list of a node that is
	// down stays what it was, as the files of the Java simulators do. It is
	// valid until the next snapshot.
	Lists []*Memlist
	Up    []bool
}

// memberNode is one node during the replay.
type memberNode struct {
	list     *Memlist
	up       bool
	lives    int
	joinedAt int64         // of a join whose list is not complete yet
	size     int           // as reported with it, 0 = none pending
	there    []core.NodeID // who else was up then
}

type membershipReplay struct {
	opt     MembershipOptions
	nodes   []memberNode
	initial [][]core.NodeID
	// disagree counts counters lines whose list length is another.
	disagree int
}

// ReplayMembership hands the membership lists of a run to visit, from the
// epoch on every so often and once at the end. It returns how many lines of
// the logs tell another length than the lists have, 0 for sound logs.
func ReplayMembership(r *results.Run, opt MembershipOptions, visit func(*Snapshot) error) (disagree int, err error) {
	if opt.Every <= 0 {
		return 0, fmt.Errorf("replay membership: interval %v: want more than 0", opt.Every)
	}
	m := &membershipReplay{opt: opt, nodes: make([]memberNode, r.Manifest.Nodes)}
	epoch, err := m.prepare(r)
	if err != nil {
		return 0, err
	}
	next, last, taken := epoch, epoch, int64(-1)
	shot := func(at int64) error {
		if at == taken {
			return nil
		}
		taken = at
		s := Snapshot{At: time.Duration(at - epoch)}
		for i := range m.nodes {
			n := &m.nodes[i]
			m.settle(n, core.NodeID(i), at)
			s.Lists = append(s.Lists, n.list)
			s.Up = append(s.Up, n.up)
		}
		return visit(&s)
	}
	_, err = r.Merge(func(l *results.Line) error {
		for ; l.Event.T > next; next += int64(opt.Every) {
			if err := shot(next); err != nil {
				return err
			}
		}
		last = max(last, l.Event.T)
		m.line(l)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return m.disagree, shot(last)
}

// prepare reads the logs once for the epoch and what the first lists were.
func (m *membershipReplay) prepare(r *results.Run) (epoch int64, err error) {
	n := len(m.nodes)
	sizes := make([]int, n) // of the first life
	early := make([]bool, n)
	seenEpoch := false
	_, err = r.Merge(func(l *results.Line) error {
		e := &l.Event
		switch {
		case l.Node == core.None && e.Kind == eventlog.Epoch:
			epoch, seenEpoch = e.T, true
		case l.Node != core.None && e.Kind == eventlog.Start && !seenEpoch:
			early[l.Node] = true
		case l.Node != core.None && e.Kind == eventlog.Joined && sizes[l.Node] == 0:
			sizes[l.Node] = e.Size
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if m.opt.Initial != nil {
		if len(m.opt.Initial) != n {
			return 0, fmt.Errorf("replay membership: %d initial lists for %d nodes", len(m.opt.Initial), n)
		}
		m.initial = m.opt.Initial
		return epoch, nil
	}
	m.initial = make([][]core.NodeID, n)
	for i := range n {
		var all, there []core.NodeID
		for k := range n {
			if k == i {
				continue
			}
			all = append(all, core.NodeID(k))
			if early[k] {
				there = append(there, core.NodeID(k))
			}
		}
		switch size := sizes[i] - 1; {
		case !early[i] || size == len(there):
			m.initial[i] = there
		case size == len(all):
			m.initial[i] = all
		case sizes[i] > 0:
			return 0, fmt.Errorf("replay membership: the first list of node %d had %d members, neither all %d nodes nor the %d that were there: "+
				"the logs do not tell which; give the initial lists", i, sizes[i], n, len(there)+1)
		}
	}
	return epoch, nil
}

// settle completes the list of a node that joined again with one that was
// given to it rather than learned.
func (m *membershipReplay) settle(n *memberNode, self core.NodeID, now int64) {
	if n.size == 0 || now <= n.joinedAt {
		return
	}
	for _, given := range [...][]core.NodeID{n.there, m.initial[self]} { // by an oracle, by configuration
		if len(n.list.Status) >= n.size {
			break
		}
		extra := 0
		for _, p := range given {
			if _, ok := n.list.Status[p]; !ok {
				extra++
			}
		}
		if len(n.list.Status)+extra != n.size {
			continue
		}
		for _, p := range given {
			if _, ok := n.list.Status[p]; !ok {
				n.list.Status[p] = Active
			}
		}
	}
	n.size, n.there = 0, nil
}

func (n *memberNode) fill(self core.NodeID, peers []core.NodeID) {
	n.list = &Memlist{Status: map[core.NodeID]Status{self: Active}, Suspects: map[core.NodeID]int64{}}
	for _, p := range peers {
		n.list.Status[p] = Active
	}
}

func (m *membershipReplay) line(l *results.Line) {
	e := &l.Event
	if l.Node == core.None {
		if e.Node >= 0 && int(e.Node) < len(m.nodes) && (e.Kind == eventlog.Kill && e.Verb != "leave" || e.Kind == eventlog.Exited) {
			m.nodes[e.Node].up = false
		}
		return
	}
	n := &m.nodes[l.Node]
	m.settle(n, l.Node, e.T)
	switch e.Kind {
	case eventlog.Start:
		n.up = true
		n.lives++
		n.size = 0
		if n.lives == 1 {
			n.fill(l.Node, m.initial[l.Node])
		} else {
			n.fill(l.Node, nil)
		}
	case eventlog.Joined:
		if n.lives > 1 {
			n.joinedAt, n.size = e.T, e.Size
			for i := range m.nodes {
				if m.nodes[i].up && core.NodeID(i) != l.Node {
					n.there = append(n.there, core.NodeID(i))
				}
			}
		}
	case eventlog.Member:
		if n.list != nil && e.Peer != nil && *e.Peer >= 0 && int(*e.Peer) < len(m.nodes) {
			n.change(core.NodeID(*e.Peer), e.Change)
			if n.size > 0 { // of the instant at which it joined
				n.size = e.Size
			}
		}
	case eventlog.Counters:
		if n.list != nil && e.Size > 0 && len(n.list.Status) != e.Size {
			m.disagree++
		}
	case eventlog.Stop, eventlog.Failure:
		n.up = false
	default:
	}
}

func (n *memberNode) change(peer core.NodeID, what string) {
	switch what {
	case "up", "cleared":
		n.list.Status[peer] = Active
	case "suspected":
		n.list.Status[peer] = Suspect
		n.list.Suspects[peer]++
	case "failed", "left":
		delete(n.list.Status, peer)
	}
}

// ChurnOf returns the starts and ends of a run's nodes from the epoch on as a
// churn trace of the given sampling period: what was done by the controller,
// whatever the verb; pauses are no churn. A node is a host by its id.
func ChurnOf(r *results.Run, sample time.Duration) (*workloads.Trace, error) {
	if sample <= 0 {
		return nil, fmt.Errorf("replay churn: sample %v: want more than 0", sample)
	}
	type state struct{ up, initial bool }
	nodes := make([]state, r.Manifest.Nodes)
	t := &workloads.Trace{Sample: sample, Hosts: make([]workloads.Host, len(nodes))}
	epoch, end := int64(-1), int64(0)
	set := func(id int32, at int64, up bool) {
		n := &nodes[id]
		if n.up == up {
			return
		}
		n.up = up
		if epoch >= 0 {
			h := &t.Hosts[id]
			h.Events = append(h.Events, workloads.TraceEvent{At: time.Duration(at - epoch), Up: up})
		}
	}
	_, err := r.Merge(func(l *results.Line) error {
		e := &l.Event
		end = max(end, e.T)
		if l.Node != core.None {
			if e.Kind == eventlog.Start {
				set(int32(l.Node), e.T, true)
			}
			return nil
		}
		switch {
		case e.Kind == eventlog.Epoch:
			epoch = e.T
			for i := range nodes {
				nodes[i].initial = nodes[i].up
			}
		case e.Node < 0 || int(e.Node) >= len(nodes):
		case e.Kind == eventlog.Kill:
			set(e.Node, e.T, false)
		case e.Kind == eventlog.Restart:
			set(e.Node, e.T, true)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if epoch < 0 {
		return nil, errors.New("replay churn: the run has no epoch: it ended before its workload began")
	}
	for i := range t.Hosts {
		t.Hosts[i].Name = fmt.Sprint(i)
		t.Hosts[i].Initial = nodes[i].initial
	}
	t.Length = max(time.Duration(end-epoch), 0)
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("replay churn: %w", err)
	}
	return t, nil
}

// Sizes returns the lengths of the lists of the nodes that are up.
func (s *Snapshot) Sizes() []ListSize {
	var out []ListSize
	for i, m := range s.Lists {
		if m != nil && s.Up[i] {
			out = append(out, ListSize{float64(s.At) / 1e6, core.NodeID(i), len(m.Status)})
		}
	}
	return out
}

// Merge joins trial sets, such as several files of one simulator, into one.
// Each trial keeps all its parameters.
func Merge(name string, sets []*results.TrialSet) *results.TrialSet {
	out := &results.TrialSet{Name: name, Aliases: map[string]string{}, Incomparable: map[string]string{}}
	for i, s := range sets {
		if i == 0 {
			out.Source, out.Engine = s.Source, s.Engine
		}
		if out.Source != s.Source {
			out.Source = "mixed"
		}
		if out.Engine != s.Engine {
			out.Engine = "mixed"
		}
		maps.Copy(out.Aliases, s.Aliases)
		maps.Copy(out.Incomparable, s.Incomparable)
		for _, a := range s.Artefacts {
			if !slices.Contains(out.Artefacts, a) {
				out.Artefacts = append(out.Artefacts, a)
			}
		}
		for _, n := range s.Notes {
			out.Notes = append(out.Notes, s.Name+": "+n)
		}
		for _, t := range s.Trials {
			own := *t
			own.Parameters = maps.Clone(s.Parameters)
			if own.Parameters == nil {
				own.Parameters = map[string]string{}
			}
			maps.Copy(own.Parameters, t.Parameters)
			out.Trials = append(out.Trials, &own)
		}
	}
	out, _ = out.Where(nil) // moves the common parameters to the set
	return out
}
