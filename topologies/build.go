package topologies

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// MaxLinks bounds the links of a topology, so that a wrong number in a file
// or a flag ends in an error and not in the machine's memory.
const MaxLinks = 1 << 22

// maxCoordinate bounds |x|, |y|, |z| in metres: more than the earth's girth.
const maxCoordinate = 1e8

// New makes a topology of given nodes and links: it orders every link so that
// A < B (swapping its directions along), sorts the links by (A, B) and checks
// what Validate checks. The slices are taken over.
func New(name string, nodes []Node, links []Link) (*Topology, error) {
	for i, l := range links {
		if l.A > l.B {
			links[i] = Link{A: l.B, B: l.A, AB: l.BA, BA: l.AB}
		}
	}
	slices.SortStableFunc(links, compareLinks)
	if len(links) == 0 {
		links = nil // one way of saying none
	}
	t := &Topology{Name: name, Nodes: nodes, Links: links}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return t, nil
}

// Unplaced makes a topology of n nodes whose positions are not known: they are
// laid out by the links alone. The links are taken over.
func Unplaced(name string, n int, links []Link) (*Topology, error) {
	t, err := New(name, make([]Node, n), links)
	if err != nil {
		return nil, err
	}
	lay(t, make([]bool, n))
	return t, nil
}

// WithinRadius makes the topology whose links join all nodes at most radius
// metres apart (the rule of the reference simulators).
func WithinRadius(name string, nodes []Node, radius float64) (*Topology, error) {
	if err := checkRadius(radius); err != nil {
		return nil, err
	}
	if err := checkNodes(nodes); err != nil {
		return nil, err
	}
	links, err := linksWithin(nodes, radius)
	if err != nil {
		return nil, err
	}
	return &Topology{Name: name, Nodes: nodes, Links: links, Radius: radius}, nil
}

// Validate reports the first thing that is wrong with t: no nodes, too many
// nodes or links, a position that is not finite, a link to an unknown node, to
// itself, out of order or given twice, or a link parameter out of range.
func (t *Topology) Validate() error {
	if err := checkNodes(t.Nodes); err != nil {
		return err
	}
	if len(t.Links) > MaxLinks {
		return fmt.Errorf("%d links: at most %d are supported", len(t.Links), MaxLinks)
	}
	for i, l := range t.Links {
		if err := checkLink(l, len(t.Nodes)); err != nil {
			return err
		}
		if i > 0 {
			switch c := compareLinks(t.Links[i-1], l); {
			case c == 0:
				return fmt.Errorf("link %d-%d is given twice", l.A, l.B)
			case c > 0:
				return fmt.Errorf("link %d-%d is out of order: links are sorted by (A, B)", l.A, l.B)
			}
		}
	}
	return nil
}

func compareLinks(x, y Link) int {
	return cmp.Or(cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
}

func checkNodes(nodes []Node) error {
	if len(nodes) == 0 {
		return errors.New("no nodes: a topology needs at least one")
	}
	if len(nodes) > core.MaxNodes {
		return fmt.Errorf("%d nodes: at most %d are supported", len(nodes), core.MaxNodes)
	}
	for i, n := range nodes {
		for _, v := range [...]float64{n.X, n.Y, n.Z} {
			if !(math.Abs(v) <= maxCoordinate) {
				return fmt.Errorf("node %d has coordinate %v: want a finite number of metres within ±%g", i, v, maxCoordinate)
			}
		}
	}
	return nil
}

func checkLink(l Link, nodes int) error {
	for _, n := range [...]core.NodeID{l.A, l.B} {
		if n < 0 || int(n) >= nodes {
			return fmt.Errorf("link %d-%d names node %d: nodes are 0..%d", l.A, l.B, n, nodes-1)
		}
	}
	if l.A == l.B {
		return fmt.Errorf("link %d-%d joins a node to itself", l.A, l.B)
	}
	if l.A > l.B {
		return fmt.Errorf("link %d-%d: the lower id comes first", l.A, l.B)
	}
	if err := checkOverride(l.AB); err != nil {
		return fmt.Errorf("link %d-%d, direction %d to %d: %w", l.A, l.B, l.A, l.B, err)
	}
	if err := checkOverride(l.BA); err != nil {
		return fmt.Errorf("link %d-%d, direction %d to %d: %w", l.A, l.B, l.B, l.A, err)
	}
	return nil
}

func checkOverride(o link.Override) error {
	if o.Delay != nil && *o.Delay < 0 {
		return fmt.Errorf("delay %v is negative", *o.Delay)
	}
	if o.Jitter != nil && *o.Jitter < 0 {
		return fmt.Errorf("jitter %v is negative", *o.Jitter)
	}
	if o.Dist != nil && *o.Dist != link.Uniform && *o.Dist != link.Normal {
		return fmt.Errorf("jitter distribution %q: want %s or %s", *o.Dist, link.Uniform, link.Normal)
	}
	if o.Loss != nil && !probability(*o.Loss) {
		return fmt.Errorf("loss %v: want 0..1", *o.Loss)
	}
	if o.Rate != nil && *o.Rate < 0 {
		return fmt.Errorf("rate %d bit/s is negative", *o.Rate)
	}
	if b := o.Burst; b != nil && (!probability(b.P) || !probability(b.R) || !probability(b.Good) || !probability(b.Bad)) {
		return fmt.Errorf("burst loss p %v, r %v, good %v, bad %v: want 0..1 each", b.P, b.R, b.Good, b.Bad)
	}
	return nil
}

func probability(p float64) bool { return p >= 0 && p <= 1 }

func checkRadius(r float64) error {
	if !(r > 0 && r <= maxCoordinate) {
		return fmt.Errorf("radius %v: want metres above 0", r)
	}
	return nil
}

// Distance is the Euclidean distance of two nodes in metres. The products are
// rounded singly (no fused multiply-add), so the link rule gives the same
// links on every machine.
func Distance(a, b Node) float64 {
	dx, dy, dz := a.X-b.X, a.Y-b.Y, a.Z-b.Z
	return math.Sqrt(float64(dx*dx) + float64(dy*dy) + float64(dz*dz))
}

// Length returns the length of link i in metres.
func (t *Topology) Length(i int) float64 {
	return Distance(t.Nodes[t.Links[i].A], t.Nodes[t.Links[i].B])
}

// linksWithin lists the links between all nodes at most radius apart, sorted
// by (A, B). Nodes are hashed into square cells of side radius, so that only
// those of neighbouring cells are compared.
func linksWithin(nodes []Node, radius float64) ([]Link, error) {
	type cell struct{ cx, cy int64 }
	// A radius far below the coordinates would overflow the cell numbers;
	// cells of a coarser size hold more nodes but stay correct.
	size := max(radius, 2*maxCoordinate/(1<<40))
	at := func(n Node) cell {
		return cell{int64(math.Floor(n.X / size)), int64(math.Floor(n.Y / size))}
	}
	cells := make(map[cell][]core.NodeID, len(nodes))
	for i, n := range nodes {
		c := at(n)
		cells[c] = append(cells[c], core.NodeID(i))
	}
	var links []Link
	var near []core.NodeID
	for i, n := range nodes {
		c := at(n)
		near = near[:0]
		for dx := int64(-1); dx <= 1; dx++ {
			for dy := int64(-1); dy <= 1; dy++ {
				for _, j := range cells[cell{c.cx + dx, c.cy + dy}] {
					if int(j) > i && Distance(n, nodes[j]) <= radius {
						near = append(near, j)
					}
				}
			}
		}
		slices.Sort(near)
		if len(links)+len(near) > MaxLinks {
			return nil, fmt.Errorf("radius %g makes more than %d links: lower the radius or spread the nodes", radius, MaxLinks)
		}
		for _, j := range near {
			links = append(links, Link{A: core.NodeID(i), B: j})
		}
	}
	return links, nil
}
