package topologies

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"churnbed/node/core"
)

// readRTT reads a square matrix of round-trip times in milliseconds, separated
// by blanks: line i, column j is the time from i to j and back. It becomes a
// full mesh whose links take half of it each way. A negative or NaN entry was
// not measured: the opposite one stands for it, or there is no link. The
// diagonal is ignored; positions are a circle.
func readRTT(data []byte, name string, opt ReadOptions) (*Topology, error) {
	rows := make([][]float64, 0, 512)
	no, width := 0, 0
	for raw := range bytes.Lines(data) {
		no++
		raw = bytes.TrimSpace(raw)
		if len(raw) == 0 || raw[0] == '#' {
			continue
		}
		row := make([]float64, 0, max(width, 16))
		for field := range bytes.FieldsSeq(raw) {
			v, err := strconv.ParseFloat(string(field), 64)
			if err != nil || v > 86_400_000 {
				return nil, atLine(no, "column %d: %s: want a round-trip time in ms", len(row)+1, quote(string(field)))
			}
			row = append(row, v)
		}
		if width == 0 {
			width = len(row)
		}
		if len(row) != width {
			return nil, atLine(no, "%d columns, but %d in the lines before: want a square matrix", len(row), width)
		}
		if len(rows) == width {
			return nil, atLine(no, "more lines than the %d columns: want a square matrix", width)
		}
		rows = append(rows, row)
	}
	if len(rows) != width {
		return nil, atLine(no, "%d lines of %d columns: want a square matrix", len(rows), width)
	}
	pick, err := pickNodes(width, opt)
	if err != nil {
		return nil, err
	}
	return meshOfRTT(rows, pick, name, opt)
}

// pickNodes returns which nodes of the matrix are used, ascending.
func pickNodes(n int, opt ReadOptions) ([]int, error) {
	want := opt.Nodes
	if want == 0 {
		want = n
	}
	if want > n {
		return nil, fmt.Errorf("nodes %d: the matrix has only %d", want, n)
	}
	pick := make([]int, n)
	for i := range pick {
		pick[i] = i
	}
	if opt.RandomNodes {
		rng := core.Stream(opt.Seed, "topology")
		rng.Shuffle(n, func(i, j int) { pick[i], pick[j] = pick[j], pick[i] })
		slices.Sort(pick[:want])
	}
	return pick[:want], nil
}

func meshOfRTT(rows [][]float64, pick []int, name string, opt ReadOptions) (*Topology, error) {
	links, err := allPairs(len(pick))
	if err != nil {
		return nil, err
	}
	half := 0.5 * float64(time.Millisecond)
	if opt.Scale != 0 {
		half *= opt.Scale
	}
	delays := make([]time.Duration, 2*len(links)) // one allocation for all
	known := links[:0]
	for i, l := range links {
		there, back := rows[pick[l.A]][pick[l.B]], rows[pick[l.B]][pick[l.A]]
		if !(there >= 0) {
			there = back
		}
		if !(back >= 0) {
			back = there
		}
		if !(there >= 0) {
			continue
		}
		delays[2*i] = time.Duration(math.Round(there * half))
		delays[2*i+1] = time.Duration(math.Round(back * half))
		l.AB.Delay, l.BA.Delay = &delays[2*i], &delays[2*i+1]
		known = append(known, l)
	}
	if missing := len(links) - len(known); missing > 0 {
		opt.note("%d of %d pairs were not measured and have no link", missing, len(links))
	}
	nodes := circle(len(pick), DefaultStep)
	for i, p := range pick {
		nodes[i].Label = strconv.Itoa(p)
	}
	return New(name, nodes, known)
}
