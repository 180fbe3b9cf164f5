package topologies

import (
	"fmt"
	"math"

	"churnbed/node/core"
)

// gridShape returns rows and columns of a grid for so many nodes: those given,
// else the fewest cells of the squarest grid that holds them.
func (p GenerateParams) gridShape() (rows, cols, nodes int, err error) {
	rows, cols, nodes = p.Rows, p.Cols, p.Nodes
	switch {
	case rows > 0 && cols > 0:
		if nodes == 0 {
			nodes = rows * cols
		}
	case rows > 0:
		cols = (nodes + rows - 1) / rows
	case cols > 0:
		rows = (nodes + cols - 1) / cols
	default:
		cols = int(math.Ceil(math.Sqrt(float64(nodes))))
		rows = (nodes + cols - 1) / cols
	}
	if nodes > rows*cols {
		return 0, 0, 0, fmt.Errorf("nodes %d: rows %d x cols %d hold only %d", nodes, rows, cols, rows*cols)
	}
	return rows, cols, nodes, nil
}

// grid3DShape returns rows, columns and layers of a grid in space: those given,
// else the most cubic ones that hold the nodes.
func (p GenerateParams) grid3DShape() (rows, cols, layers, nodes int, err error) {
	rows, cols, layers, nodes = p.Rows, p.Cols, p.Layers, p.Nodes
	var open []*int
	cells := 1
	for _, side := range []*int{&cols, &rows, &layers} {
		if *side == 0 {
			open = append(open, side)
		}
		cells *= max(1, *side)
		if cells > core.MaxNodes {
			return 0, 0, 0, 0, fmt.Errorf("rows %d x cols %d x layers %d: at most %d nodes are supported", rows, cols, layers, core.MaxNodes)
		}
	}
	for i, side := range open {
		rest := float64((nodes + cells - 1) / cells)
		switch len(open) - i {
		case 3:
			*side = int(math.Ceil(math.Cbrt(rest)))
		case 2:
			*side = int(math.Ceil(math.Sqrt(rest)))
		default:
			*side = int(rest)
		}
		cells *= *side
	}
	if nodes == 0 {
		nodes = cells
	}
	if nodes > cells {
		return 0, 0, 0, 0, fmt.Errorf("nodes %d: rows %d x cols %d x layers %d hold only %d", nodes, rows, cols, layers, cells)
	}
	return rows, cols, layers, nodes, nil
}

// gridStep returns the distances of neighbours along x and y.
func (p GenerateParams) gridStep(rows, cols int) (dx, dy float64) {
	if p.Step > 0 {
		return p.Step, p.Step
	}
	return p.Width / float64(max(1, cols-1)), p.Height / float64(max(1, rows-1))
}

func (p GenerateParams) gridSteps() string {
	rows, cols, _, err := p.gridShape()
	if err != nil {
		return "?"
	}
	dx, dy := p.gridStep(rows, cols)
	return fmt.Sprintf("%.3g x %.3g m", dx, dy)
}

// generateGrid fills a grid row by row; the last row may stay short. Without a
// step the outermost nodes lie on the border of the area.
func generateGrid(p GenerateParams) (*Topology, error) {
	rows, cols, n, err := p.gridShape()
	if err != nil {
		return nil, err
	}
	dx, dy := p.gridStep(rows, cols)
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{X: float64(i%cols) * dx, Y: float64(i/cols) * dy}
	}
	return WithinRadius(fmt.Sprintf("grid%d", n), nodes, p.Radius)
}

// generateGrid3D fills a grid in space row by row and layer by layer; the last
// ones may stay short.
func generateGrid3D(p GenerateParams) (*Topology, error) {
	rows, cols, _, n, err := p.grid3DShape()
	if err != nil {
		return nil, err
	}
	nodes := make([]Node, n)
	for i := range nodes {
		layer, in := i/(rows*cols), i%(rows*cols)
		nodes[i] = Node{X: float64(in%cols) * p.Step, Y: float64(in/cols) * p.Step, Z: float64(layer) * p.Step}
	}
	return WithinRadius(fmt.Sprintf("grid3d%d", n), nodes, p.Radius)
}
