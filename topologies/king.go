package topologies

import (
	"bytes"
	"math"
	"strconv"

	"churnbed/node/core"
)

// maxKingNodes bounds the matrix that a King file may ask for: 4096 squared
// times 8 bytes.
const maxKingNodes = 4096

// readKing reads the topology files of the King data set (Gummadi, Saroiu and
// Gribble 2002; published with p2psim, which calls them E2EGraph):
//
//	topology E2EGraph 1740     number of nodes; may be missing
//	failure_model NullFailureModel
//	node 1                     ids from 1; what follows is not used
//	1,2 81234                  round-trip time of a pair in microseconds
//
// Each pair is there once or once in each direction, in any order; a negative
// time was not measured. What becomes of them is that of readRTT. Files in
// milliseconds (mking-t) want ReadOptions.Scale 1000.
func readKing(data []byte, name string, opt ReadOptions) (*Topology, error) {
	k := king{}
	no := 0
	for raw := range bytes.Lines(data) {
		no++
		if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] == '#' {
			continue
		}
		if err := k.line(no, bytes.Fields(raw)); err != nil {
			return nil, err
		}
	}
	if k.rows == nil {
		return nil, atLine(no, "no pair: want lines A,B and a round-trip time in microseconds")
	}
	pick, err := pickNodes(len(k.rows), opt)
	if err != nil {
		return nil, err
	}
	return meshOfRTT(k.rows, pick, name, opt)
}

// king is a file as far as it was read.
type king struct {
	nodes  int         // told so far
	rows   [][]float64 // ms; made at the first pair
	counts bool        // the topology line told nodes
}

// line reads one line.
func (k *king) line(no int, fields [][]byte) error {
	switch word := string(fields[0]); {
	case word == "topology" || word == "node":
		return k.head(no, word, fields)
	case word == "failure_model":
		return nil
	case len(fields) != 2:
		return atLine(no, "%d words: want A,B and a round-trip time in microseconds, or topology, failure_model, node", len(fields))
	}
	a, b, ok := bytes.Cut(fields[0], []byte(","))
	if !ok {
		return atLine(no, "%s: want two node ids A,B", quote(string(fields[0])))
	}
	if err := k.begin(no); err != nil {
		return err
	}
	i, err := k.id(no, a)
	if err != nil {
		return err
	}
	j, err := k.id(no, b)
	if err != nil {
		return err
	}
	v, err := strconv.ParseFloat(string(fields[1]), 64)
	if err != nil || math.IsNaN(v) || v > 86_400_000_000 {
		return atLine(no, "%s: want a round-trip time in microseconds, at most a day", quote(string(fields[1])))
	}
	switch {
	case i == j:
	case !math.IsNaN(k.rows[i][j]):
		return atLine(no, "pair %d,%d a second time", i+1, j+1)
	default:
		k.rows[i][j] = max(v, -1) / 1e3
	}
	return nil
}

// head reads a line about the number of nodes.
func (k *king) head(no int, word string, fields [][]byte) error {
	at, want := 1, "node ID"
	if word == "topology" {
		at, want = 2, "topology E2EGraph NODES"
	}
	if len(fields) <= at {
		return atLine(no, "%d words: want %s", len(fields), want)
	}
	n, err := strconv.Atoi(string(fields[at]))
	if err != nil || n < 1 || n > maxKingNodes {
		return atLine(no, "%s: want %s, from 1 to %d", quote(string(fields[at])), want, maxKingNodes)
	}
	switch {
	case k.rows != nil:
		return atLine(no, "%s after the first pair: want it before", word)
	case word == "topology":
		k.nodes, k.counts = n, true
	case k.counts && n > k.nodes:
		return atLine(no, "node %d: the topology line told %d", n, k.nodes)
	default:
		k.nodes = max(k.nodes, n)
	}
	return nil
}

// begin makes the matrix.
func (k *king) begin(no int) error {
	if k.rows != nil {
		return nil
	}
	if k.nodes == 0 {
		return atLine(no, "a pair before any node: want a line topology E2EGraph NODES, or node ID, before it")
	}
	k.rows = make([][]float64, k.nodes)
	all := make([]float64, k.nodes*k.nodes)
	for i := range all {
		all[i] = math.NaN()
	}
	for i := range k.rows {
		k.rows[i] = all[i*k.nodes : (i+1)*k.nodes]
	}
	return nil
}

func (k *king) id(no int, text []byte) (core.NodeID, error) {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > k.nodes {
		return 0, atLine(no, "node %s: want an id from 1 to %d", quote(string(text)), k.nodes)
	}
	return core.NodeID(n - 1), nil
}
