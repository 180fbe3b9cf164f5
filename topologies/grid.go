package topologies

import (
	"fmt"
	"math"
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
