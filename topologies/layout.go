package topologies

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/mds"

	"churnbed/node/core"
)

// lay makes up positions for the nodes that have none (placed is false), as a
// function of the graph alone. A node of a part that has some positions goes
// near the middle of its placed neighbours; a part without any is laid out by
// its hop distances, to the right of all others.
func lay(t *Topology, placed []bool) {
	adj := t.Adjacency()
	step := typicalLength(t, placed)
	spreadFromNeighbours(t, adj, placed, 0.3*step)
	right := math.Inf(-1)
	for i, n := range t.Nodes {
		if placed[i] {
			right = max(right, n.X+step)
		}
	}
	if math.IsInf(right, -1) {
		right = 0
	}
	for _, part := range t.Components() {
		if placed[part[0]] {
			continue
		}
		at := layPart(adj, part, len(t.Nodes))
		left, low := math.Inf(1), math.Inf(1)
		for _, p := range at {
			left, low = min(left, p[0]), min(low, p[1])
		}
		end := right
		for i, n := range part {
			x := right + (at[i][0]-left)*step
			t.Nodes[n].X, t.Nodes[n].Y = x, (at[i][1]-low)*step
			end = max(end, x)
			placed[n] = true
		}
		right = end + step
	}
}

// typicalLength is the median length of the links whose ends are both placed.
func typicalLength(t *Topology, placed []bool) float64 {
	var lengths []float64
	for i, l := range t.Links {
		if d := t.Length(i); placed[l.A] && placed[l.B] && d > 0 {
			lengths = append(lengths, d)
		}
	}
	if len(lengths) == 0 {
		return DefaultStep
	}
	slices.Sort(lengths)
	return lengths[len(lengths)/2]
}

// spreadFromNeighbours places, in rounds, nodes that have placed neighbours at
// their mean, moved by off metres in ever other directions so that they do not
// coincide.
func spreadFromNeighbours(t *Topology, adj *Adjacency, placed []bool, off float64) {
	goldenAngle := math.Pi * (3 - math.Sqrt(5))
	turn := 0
	for {
		var round []core.NodeID
		var at []Node
		for i := range t.Nodes {
			if placed[i] {
				continue
			}
			x, y, n := 0.0, 0.0, 0.0
			for _, nb := range adj.Of(core.NodeID(i)) {
				if placed[nb.Node] {
					x, y, n = x+t.Nodes[nb.Node].X, y+t.Nodes[nb.Node].Y, n+1
				}
			}
			if n > 0 {
				turn++
				sin, cos := math.Sincos(float64(turn) * goldenAngle)
				round = append(round, core.NodeID(i))
				at = append(at, Node{X: x/n + off*cos, Y: y/n + off*sin})
			}
		}
		if len(round) == 0 {
			return
		}
		for i, n := range round {
			t.Nodes[n].X, t.Nodes[n].Y = at[i].X, at[i].Y
			placed[n] = true
		}
	}
}

// maxScaled bounds the nodes laid out by scaling, which takes their cube.
const maxScaled = 400

// layPart returns positions in steps for the nodes of one connected part:
// classical scaling of the hop distances (Torgerson 1952), a circle where the
// part is too large or everything is one hop away.
func layPart(adj *Adjacency, part []core.NodeID, n int) [][2]float64 {
	at := make([][2]float64, len(part))
	scaled := len(part) > 3 && len(part) <= maxScaled
	if scaled {
		scaled = scaleHops(adj, part, n, at)
	}
	if !scaled {
		for i, p := range circle(len(part), 1) {
			at[i] = [2]float64{p.X, p.Y}
		}
	}
	return at
}

func scaleHops(adj *Adjacency, part []core.NodeID, n int, at [][2]float64) bool {
	index := make([]int, n)
	for i, v := range part {
		index[v] = i
	}
	dist := mat.NewSymDense(len(part), nil)
	hops := make([]int, len(part))
	complete := true
	for i, src := range part {
		for j := range hops {
			hops[j] = -1
		}
		hops[i] = 0
		queue := []core.NodeID{src}
		for k := 0; k < len(queue); k++ {
			for _, nb := range adj.Of(queue[k]) {
				if j := index[nb.Node]; hops[j] < 0 {
					hops[j] = hops[index[queue[k]]] + 1
					queue = append(queue, nb.Node)
				}
			}
		}
		for j := i; j < len(part); j++ {
			dist.SetSym(i, j, float64(hops[j]))
			complete = complete && hops[j] <= 1
		}
	}
	if complete {
		return false
	}
	var x mat.Dense
	k, _ := mds.TorgersonScaling(&x, nil, dist)
	if k == 0 {
		return false
	}
	for i := range part {
		at[i][0] = x.At(i, 0)
		if k > 1 {
			at[i][1] = x.At(i, 1)
		}
		if math.IsNaN(at[i][0]) || math.IsNaN(at[i][1]) {
			return false
		}
	}
	return true
}
