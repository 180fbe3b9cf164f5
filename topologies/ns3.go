package topologies

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"churnbed/node/core"
)

// readNS3 reads the pair list of the NS-3 Medley: the node count, then "i,j,d"
// a line for directed pairs. Where all d are whole numbers from 1 on they are
// hop counts (the authors' are distance over range, rounded up, so the paths
// may be longer) and the links are the pairs of 1; otherwise they are metres and
// the links are the pairs within the radius, all where none is given. The file
// has no positions: nodes are placed by lay.
func readNS3(data []byte, name string, opt ReadOptions) (*Topology, error) {
	type pair struct {
		a, b core.NodeID
		d    float64
		line int
	}
	n := 0
	var pairs []pair
	hops, nearest := true, math.Inf(1)
	no := 0
	for raw := range bytes.Lines(data) {
		no++
		text := strings.TrimSpace(string(raw))
		if text == "" || text[0] == '#' {
			continue
		}
		if n == 0 {
			v, err := strconv.Atoi(text)
			if err != nil || v < 1 || v > core.MaxNodes {
				return nil, atLine(no, "%s: want the number of nodes, 1..%d", quote(text), core.MaxNodes)
			}
			n = v
			continue
		}
		parts := strings.Split(text, ",")
		if len(parts) != 3 {
			return nil, atLine(no, "%s: want i,j,d", quote(text))
		}
		a, errA := strconv.Atoi(strings.TrimSpace(parts[0]))
		b, errB := strconv.Atoi(strings.TrimSpace(parts[1]))
		d, errD := strconv.ParseFloat(strings.TrimSpace(parts[2]), 64)
		if err := cmpErr(errA, errB, errD); err != nil {
			return nil, atLine(no, "%s: want i,j,d, two node ids and a distance", quote(text))
		}
		if a < 0 || a >= n || b < 0 || b >= n {
			return nil, atLine(no, "%s: nodes are %s", quote(text), idRange(n))
		}
		if a == b {
			return nil, atLine(no, "%s: a pair joins two nodes", quote(text))
		}
		if !(d > 0 && d <= maxCoordinate) {
			return nil, atLine(no, "%s: the distance must be above 0", quote(text))
		}
		if len(pairs) == 2*MaxLinks {
			return nil, atLine(no, "more than %d pairs", 2*MaxLinks)
		}
		hops = hops && d == math.Trunc(d)
		nearest = min(nearest, d)
		pairs = append(pairs, pair{core.NodeID(min(a, b)), core.NodeID(max(a, b)), d, no})
	}
	reach := opt.Radius
	if reach == 0 {
		reach = math.Inf(1)
	}
	if hops = hops && nearest == 1; hops {
		reach = 1
	}
	given := map[[2]core.NodeID]float64{}
	var links []Link
	for _, p := range pairs {
		key := [2]core.NodeID{p.a, p.b}
		if d, ok := given[key]; ok {
			if d != p.d {
				return nil, atLine(p.line, "pair %d,%d has distance %v here and %v before", p.a, p.b, p.d, d)
			}
			continue
		}
		given[key] = p.d
		if p.d <= reach {
			links = append(links, Link{A: p.a, B: p.b})
		}
	}
	t, err := New(name, make([]Node, n), links)
	if err != nil {
		return nil, err
	}
	lay(t, make([]bool, n))
	opt.note("the file has no positions: they are made up from the links")
	return t, nil
}
