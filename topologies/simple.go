package topologies

import (
	"fmt"
	"math"

	"churnbed/node/core"
)

// generateLine joins 0-1-2-..., step metres apart.
func generateLine(p GenerateParams) (*Topology, error) {
	nodes := make([]Node, p.Nodes)
	var links []Link
	for i := range nodes {
		nodes[i].X = float64(i) * p.Step
		if i > 0 {
			links = append(links, Link{A: core.NodeID(i - 1), B: core.NodeID(i)})
		}
	}
	return New(fmt.Sprintf("line%d", p.Nodes), nodes, links)
}

// generateLShape joins 0-1-2-..., step metres apart: along x to the middle
// node, from there at a right angle along y.
func generateLShape(p GenerateParams) (*Topology, error) {
	nodes := make([]Node, p.Nodes)
	var links []Link
	corner := p.Nodes / 2
	for i := range nodes {
		nodes[i] = Node{X: float64(min(i, corner)) * p.Step, Y: float64(max(0, i-corner)) * p.Step}
		if i > 0 {
			links = append(links, Link{A: core.NodeID(i - 1), B: core.NodeID(i)})
		}
	}
	return New(fmt.Sprintf("lshape%d", p.Nodes), nodes, links)
}

// circle places n nodes step metres apart on a circle whose lower left tangent
// is the origin.
func circle(n int, step float64) []Node {
	nodes := make([]Node, n)
	if n < 2 {
		return nodes
	}
	r := step / 2 / math.Sin(math.Pi/float64(n))
	for i := range nodes {
		a := 2 * math.Pi * float64(i) / float64(n)
		nodes[i] = Node{X: r + r*math.Cos(a), Y: r + r*math.Sin(a)}
	}
	return nodes
}

// generateRing joins 0-1-...-(n-1)-0 on a circle, step metres apart. Two nodes
// have one link, as a line.
func generateRing(p GenerateParams) (*Topology, error) {
	var links []Link
	for i := 1; i < p.Nodes; i++ {
		links = append(links, Link{A: core.NodeID(i - 1), B: core.NodeID(i)})
	}
	if p.Nodes > 2 {
		links = append(links, Link{A: 0, B: core.NodeID(p.Nodes - 1)})
	}
	return New(fmt.Sprintf("ring%d", p.Nodes), circle(p.Nodes, p.Step), links)
}

// generateFull joins every pair; the nodes lie on a circle.
func generateFull(p GenerateParams) (*Topology, error) {
	links, err := allPairs(p.Nodes)
	if err != nil {
		return nil, err
	}
	return New(fmt.Sprintf("full%d", p.Nodes), circle(p.Nodes, p.Step), links)
}

func allPairs(n int) ([]Link, error) {
	count := n * (n - 1) / 2
	if count > MaxLinks {
		return nil, fmt.Errorf("nodes %d: a full mesh of them has %d links, at most %d are supported", n, count, MaxLinks)
	}
	links := make([]Link, 0, count)
	for a := range n {
		for b := a + 1; b < n; b++ {
			links = append(links, Link{A: core.NodeID(a), B: core.NodeID(b)})
		}
	}
	return links, nil
}
