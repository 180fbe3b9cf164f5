package foreign

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"churnbed/node/core"
	"churnbed/topologies"
)

// Routes is a routing file: four N x N matrices in row order of the sending
// node.
//
// Via is what the simulator forwards to: for a neighbour the neighbour
// itself. The authors' script stores the relay of its last improvement, which
// lies on the path but need not be a neighbour.
type Routes struct {
	N     int
	DistM []float64
	PathM []float64
	Via   []core.NodeID
	Hops  []int
}

// The sections of a routing file, in their order.
var routeSections = [...]string{"dist_map:", "hop_dist_map:", "route_table:", "hop_num_map:"}

type routeRow struct {
	from, to core.NodeID
	value    float64
	line     int
}

// ReadRoutes reads a routing file; name is used in errors.
func ReadRoutes(data []byte, name string) (*Routes, error) {
	rows := map[string][]routeRow{}
	key := ""
	line := 0
	for raw := range bytes.Lines(data) {
		line++
		text := bytes.TrimSpace(raw)
		if len(text) == 0 {
			continue
		}
		if text[len(text)-1] == ':' {
			key = string(text)
			if !isRouteSection(key) {
				return nil, malformed(name, line, 1, "section %s: want one of %v", quote(text), routeSections)
			}
			if rows[key] != nil {
				return nil, malformed(name, line, 1, "section %s twice", quote(text))
			}
			rows[key] = []routeRow{}
			continue
		}
		if key == "" {
			return nil, malformed(name, line, 1, "%s: want a section's title such as dist_map:", quote(text))
		}
		row, err := parseRouteRow(text)
		if err != nil {
			return nil, malformed(name, line, 1, "%w", err)
		}
		row.line = line
		rows[key] = append(rows[key], row)
	}
	r := &Routes{}
	for _, key := range routeSections {
		if rows[key] == nil {
			return nil, malformed(name, max(line, 1), 1, "section %s is missing", key)
		}
		n := int(math.Sqrt(float64(len(rows[key]))))
		if n*n != len(rows[key]) || n == 0 {
			return nil, malformed(name, max(line, 1), 1, "section %s has %d rows, which is not the square of a number of nodes", key, len(rows[key]))
		}
		if r.N == 0 {
			r.N = n
		}
		if n != r.N {
			return nil, malformed(name, max(line, 1), 1, "section %s is of %d nodes, dist_map of %d", key, n, r.N)
		}
	}
	r.DistM, r.PathM = make([]float64, r.N*r.N), make([]float64, r.N*r.N)
	r.Via, r.Hops = make([]core.NodeID, r.N*r.N), make([]int, r.N*r.N)
	for _, key := range routeSections {
		seen := make([]bool, r.N*r.N)
		for _, row := range rows[key] {
			if int(row.from) >= r.N || int(row.to) >= r.N {
				return nil, malformed(name, row.line, 1, "pair %d,%d: there are nodes 0 to %d", row.from, row.to, r.N-1)
			}
			i := int(row.from)*r.N + int(row.to)
			if seen[i] {
				return nil, malformed(name, row.line, 1, "pair %d,%d twice in %s", row.from, row.to, key)
			}
			seen[i] = true
			if err := r.put(key, i, row); err != nil {
				return nil, malformed(name, row.line, 1, "%w", err)
			}
		}
	}
	return r, nil
}

func isRouteSection(s string) bool {
	for _, k := range routeSections {
		if k == s {
			return true
		}
	}
	return false
}

func parseRouteRow(text []byte) (routeRow, error) {
	f := bytes.Split(text, []byte{','})
	if len(f) != 3 {
		return routeRow{}, fmt.Errorf("%s: want from,to,value", quote(text))
	}
	from, errFrom := parseID(string(bytes.TrimSpace(f[0])))
	to, errTo := parseID(string(bytes.TrimSpace(f[1])))
	if err := errors.Join(errFrom, errTo); err != nil {
		return routeRow{}, err
	}
	v, err := strconv.ParseFloat(string(bytes.TrimSpace(f[2])), 64)
	if err != nil || !(v >= 0 && v <= 1e12) {
		return routeRow{}, fmt.Errorf("value %s: want a number from 0", quote(f[2]))
	}
	return routeRow{from: from, to: to, value: v}, nil
}

func (r *Routes) put(key string, i int, row routeRow) error {
	whole := row.value == math.Trunc(row.value)
	switch key {
	case "dist_map:":
		r.DistM[i] = row.value
	case "hop_dist_map:":
		r.PathM[i] = row.value
	case "route_table:":
		if !whole || int(row.value) >= r.N {
			return fmt.Errorf("route %d,%d goes to %v: want a node, 0 to %d", row.from, row.to, row.value, r.N-1)
		}
		r.Via[i] = core.NodeID(row.value)
	case "hop_num_map:":
		if !whole || int(row.value) >= r.N || (row.from == row.to) != (row.value == 0) {
			return fmt.Errorf("path %d,%d has %v links: want 1 to %d, 0 from a node to itself", row.from, row.to, row.value, r.N-1)
		}
		r.Hops[i] = int(row.value)
	}
	return nil
}

// Write writes the file.
func (r *Routes) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, key := range routeSections {
		fmt.Fprintln(b, key)
		for i := range r.N * r.N {
			fmt.Fprintf(b, "%d,%d,", i/r.N, i%r.N)
			switch key {
			case "dist_map:":
				fmt.Fprintln(b, number(r.DistM[i]))
			case "hop_dist_map:":
				fmt.Fprintln(b, number(r.PathM[i]))
			case "route_table:":
				fmt.Fprintln(b, r.Via[i])
			case "hop_num_map:":
				fmt.Fprintln(b, r.Hops[i])
			}
		}
	}
	if err := b.Flush(); err != nil { // the first error stays in b
		return fmt.Errorf("write routes: %w", err)
	}
	return nil
}

// RoutesOf computes the routing file of a topology; every pair must have a
// path.
func RoutesOf(t *topologies.Topology, metric topologies.Metric) (*Routes, error) {
	paths := topologies.ComputeRoutes(t, metric, nil, nil, nil)
	n := len(t.Nodes)
	r := &Routes{
		N: n, DistM: make([]float64, n*n), PathM: make([]float64, n*n), Via: make([]core.NodeID, n*n), Hops: make([]int, n*n),
	}
	for a := range core.NodeID(n) {
		for b := range core.NodeID(n) {
			i := int(a)*n + int(b)
			r.DistM[i] = topologies.Distance(t.Nodes[a], t.Nodes[b])
			r.Via[i] = b
			if a == b {
				continue
			}
			next := paths.Next(a, b)
			if next == core.None {
				return nil, fmt.Errorf("write routes: no path from node %d to node %d, and the format has no word for that", a, b)
			}
			path := paths.Path(a, b)
			for k := 1; k < len(path); k++ {
				r.PathM[i] += topologies.Distance(t.Nodes[path[k-1]], t.Nodes[path[k]])
			}
			r.Via[i], r.Hops[i] = next, paths.Hops(a, b)
		}
	}
	return r, nil
}

// Topology returns the mesh of the pairs that are one link apart. Positions
// are not in the file; nodes are laid out for drawing.
func (r *Routes) Topology(name string) (*topologies.Topology, error) {
	var b bytes.Buffer
	fmt.Fprintln(&b, r.N)
	for i := range r.N * r.N {
		if i/r.N != i%r.N {
			fmt.Fprintf(&b, "%d,%d,%d\n", i/r.N, i%r.N, r.Hops[i])
		}
	}
	t, err := topologies.Read(&b, name, topologies.ReadOptions{Format: topologies.NS3})
	if err != nil {
		return nil, fmt.Errorf("read topology from routes: %w", err)
	}
	return t, nil
}
