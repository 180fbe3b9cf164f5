package results

import (
	"fmt"
	"slices"
	"strings"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Partition is what one partition of the mesh did to a run. Instants are
// scenario nanoseconds, spans milliseconds; unknown where it did not come to
// that before the run ended.
type Partition struct {
	From, To int64 // cut, and healed (the end of the run where it was not)
	Healed   bool
	Sides    []Side // those of more nodes first
	// WholeMS is how long after the heal the list of every node that runs was
	// as long as there are such nodes.
	WholeMS Number
	// ResumedMS is how long after the heal every side had a request served.
	ResumedMS Number
}

// Side is one of the parts that a partition leaves.
type Side struct {
	Nodes []core.NodeID
	// Asked counts requests made while it lasted, Served those of them that
	// were let in before the heal.
	Asked, Served int
	// FirstMS is how long after the cut the first of them was let in.
	FirstMS Number
	// ResumedMS is how long after the heal the side's next request was let in.
	ResumedMS Number
}

// Verbs of the controller's lines about links.
const (
	verbPartition = "partition"
	verbHeal      = "heal"
)

// Partitions reads the logs of a run and measures its partitions. Links that
// are down for other reasons are not looked at.
func Partitions(r *Run) ([]Partition, error) {
	var edges [][2]core.NodeID
	if err := r.ReadLinks(func(l LinkRow) error {
		if l.Dir == "ab" {
			edges = append(edges, [2]core.NodeID{l.A, l.B})
		}
		return nil
	}); err != nil {
		return nil, err
	}
	h, err := replay(r)
	if err != nil {
		return nil, err
	}
	list, err := cuts(r, edges, max(h.end, h.lastT))
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].serve(h.requests)
	}
	return list, wholeLists(r, list)
}

// cuts finds when links went down by a partition, and which sides that left.
func cuts(r *Run, edges [][2]core.NodeID, end int64) ([]Partition, error) {
	var list []Partition
	down := map[string]bool{}
	open := false
	finish := func(at int64, healed bool) {
		p := &list[len(list)-1]
		p.To, p.Healed, open = at, healed, false
		p.Sides = sides(r.Manifest.Nodes, edges, down)
	}
	_, err := r.Merge(func(l *Line) error {
		if l.Node != core.None || l.Event.Kind != eventlog.LinkSet {
			return nil
		}
		e := &l.Event
		at := max(e.T, e.After)
		switch {
		case e.Verb == verbPartition && e.Text == "down":
			if !open {
				open = true
				clear(down)
				list = append(list, Partition{From: at, WholeMS: Unknown(), ResumedMS: Unknown()})
			}
			down[e.Link] = true
		case e.Verb == verbHeal && e.Text == "up" && open:
			finish(at, true)
		}
		return nil
	})
	if open {
		finish(end, false)
	}
	return list, err
}

// sides are the parts that remain connected, the largest first.
func sides(nodes int, edges [][2]core.NodeID, down map[string]bool) []Side {
	side := make([]int, nodes)
	for i := range side {
		side[i] = i
	}
	root := func(i int) int {
		for side[i] != i {
			side[i] = side[side[i]]
			i = side[i]
		}
		return i
	}
	for _, e := range edges {
		if !down[fmt.Sprintf("%d-%d", e[0], e[1])] {
			side[root(int(e[0]))] = root(int(e[1]))
		}
	}
	byRoot := map[int]int{}
	var list []Side
	for i := range nodes {
		k, known := byRoot[root(i)]
		if !known {
			k = len(list)
			byRoot[root(i)] = k
			list = append(list, Side{FirstMS: Unknown(), ResumedMS: Unknown()})
		}
		list[k].Nodes = append(list[k].Nodes, core.NodeID(i))
	}
	slices.SortStableFunc(list, func(a, b Side) int { return len(b.Nodes) - len(a.Nodes) })
	return list
}

func (p *Partition) serve(requests []*Request) {
	all := Number(0)
	for i := range p.Sides {
		s := &p.Sides[i]
		first := func(n *Number, since, at int64) {
			if v := Number(float64(at-since) / 1e6); !n.Known() || v < *n {
				*n = v
			}
		}
		for _, q := range requests {
			if !slices.Contains(s.Nodes, q.Node) {
				continue
			}
			if q.Asked > p.From && q.Asked < p.To {
				s.Asked++
				if q.Entered && q.Enter < p.To {
					s.Served++
					first(&s.FirstMS, p.From, q.Enter)
				}
			}
			if p.Healed && q.Entered && q.Enter >= p.To {
				first(&s.ResumedMS, p.To, q.Enter)
			}
		}
		switch {
		case !s.ResumedMS.Known():
			all = Unknown()
		case all.Known():
			all = max(all, s.ResumedMS)
		}
	}
	if p.Healed {
		p.ResumedMS = all
	}
}

// wholeLists finds when all lists were whole again after each heal.
func wholeLists(r *Run, list []Partition) error {
	if len(list) == 0 {
		return nil
	}
	n := r.Manifest.Nodes
	size, up, running := make([]int, n), make([]bool, n), 0
	next := 0
	whole := func() bool {
		for i := range n {
			if up[i] && size[i] != running {
				return false
			}
		}
		return true
	}
	set := func(id core.NodeID, runs bool) {
		if up[id] != runs {
			up[id] = runs
			if runs {
				running++
			} else {
				running--
			}
		}
	}
	found := func(after int64) {
		list[next].WholeMS = Number(float64(after) / 1e6)
		next++
	}
	_, err := r.Merge(func(l *Line) error {
		e := &l.Event
		for next < len(list) && (!list[next].Healed || e.T > list[next].To && whole()) {
			if list[next].Healed {
				found(0) // as they were at the heal
			} else {
				next++
			}
		}
		switch {
		case l.Node == core.None && e.Kind == eventlog.Kill && e.Node >= 0 && int(e.Node) < n:
			set(core.NodeID(e.Node), false)
		case l.Node == core.None:
		case e.Kind == eventlog.Start:
			set(l.Node, true)
			size[l.Node] = 0
		case e.Kind == eventlog.Leave:
			set(l.Node, false)
		case e.Kind == eventlog.Joined, e.Kind == eventlog.Member && e.Size > 0:
			size[l.Node] = e.Size
		}
		if next < len(list) && e.T >= list[next].To && whole() {
			found(e.T - list[next].To)
		}
		return nil
	})
	return err
}

// String names the sides, as in "0-4|5-6".
func (p *Partition) String() string {
	parts := make([]string, len(p.Sides))
	for i, s := range p.Sides {
		parts[i] = eventlog.FormatRanges(s.Nodes)
	}
	return strings.Join(parts, "|")
}
