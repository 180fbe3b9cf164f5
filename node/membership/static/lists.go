package static

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
)

// maxErrors bounds how many errors of one file are listed.
const maxErrors = 20

// ReadLists reads per-node membership lists, one node a line:
//
//	# p1 does not know p0; p5 knows two ranges; p7 knows all but 3 and 8-9
//	1: * !0
//	5: 0-2 6-7
//	7: !3 !8-9
//	4:
//
// Before the colon stands the node, after it the members it knows: ids and
// ranges a-b (both ends included), * for all, !7 or !5-9 for all but these.
// Exceptions apply last, wherever they stand; a line of exceptions alone
// starts from all. The node itself may be named and is left out. A node
// without a line knows all; one with nothing after the colon knows nobody.
// Blank lines and everything from # on are ignored.
//
// It returns the list of every node 0..nodes-1, ascending, without itself.
// Errors name file (name), line and value; the first twenty are returned,
// joined.
func ReadLists(r io.Reader, name string, nodes int) ([][]core.NodeID, error) {
	if nodes < 1 || nodes > core.MaxNodes {
		return nil, fmt.Errorf("read membership lists %s: %d nodes, want 1 to %d", name, nodes, core.MaxNodes)
	}
	lists := make([][]core.NodeID, nodes)
	lineOf := make([]int, nodes)
	var errs []error
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	line := 0
	for sc.Scan() && len(errs) < maxErrors {
		line++
		text, _, _ := strings.Cut(sc.Text(), "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		id, list, err := parseLine(text, nodes)
		if err == nil && lineOf[id] != 0 {
			err = fmt.Errorf("node %d has its list at line %d already", id, lineOf[id])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, line, err))
			continue
		}
		lineOf[id], lists[id] = line, list
	}
	if err := sc.Err(); err != nil {
		errs = append(errs, fmt.Errorf("%s:%d: read membership list: %w", name, line+1, err))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for id := range lists {
		if lineOf[id] == 0 {
			lists[id] = everyoneBut(core.NodeID(id), nodes)
		}
	}
	return lists, nil
}

func everyoneBut(self core.NodeID, nodes int) []core.NodeID {
	list := make([]core.NodeID, 0, nodes-1)
	for id := range core.NodeID(nodes) {
		if id != self {
			list = append(list, id)
		}
	}
	return list
}

func parseLine(text string, nodes int) (core.NodeID, []core.NodeID, error) {
	head, rest, ok := strings.Cut(text, ":")
	if !ok {
		return 0, nil, fmt.Errorf("%q has no colon: want \"node: members\"", strings.TrimSpace(text))
	}
	self, err := parseID(strings.TrimSpace(head), nodes)
	if err != nil {
		return 0, nil, err
	}
	fields := strings.Fields(rest)
	onlyExcept := len(fields) > 0
	for _, f := range fields {
		onlyExcept = onlyExcept && f[0] == '!'
	}
	in, except := make([]bool, nodes), make([]bool, nodes)
	if onlyExcept {
		fill(in, 0, nodes-1)
	}
	for _, f := range fields {
		set, span := in, f
		if f[0] == '!' {
			set, span = except, f[1:]
		}
		if f == "*" {
			fill(in, 0, nodes-1)
			continue
		}
		a, b, isRange := strings.Cut(span, "-")
		lo, err := parseID(a, nodes)
		if err != nil {
			return 0, nil, err
		}
		hi := lo
		if isRange {
			if hi, err = parseID(b, nodes); err != nil {
				return 0, nil, err
			}
		}
		if hi < lo {
			return 0, nil, fmt.Errorf("range %q runs backwards", f)
		}
		fill(set, int(lo), int(hi))
	}
	list := []core.NodeID{}
	for id := range core.NodeID(nodes) {
		if id != self && in[id] && !except[id] {
			list = append(list, id)
		}
	}
	return self, list, nil
}

func fill(set []bool, lo, hi int) {
	for i := lo; i <= hi; i++ {
		set[i] = true
	}
}

func parseID(s string, nodes int) (core.NodeID, error) {
	v, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is not a node id, 0 to %d", s, nodes-1)
	}
	if v >= uint64(nodes) {
		return 0, fmt.Errorf("node %s is not in the topology, whose ids are 0 to %d", s, nodes-1)
	}
	return core.NodeID(v), nil
}

// WriteLists writes lists, one per node and ascending, in the form ReadLists
// reads. Nodes that know all are not named.
func WriteLists(w io.Writer, lists [][]core.NodeID) error {
	bw := bufio.NewWriter(w)
	for i, list := range lists {
		self := core.NodeID(i)
		var missing []core.NodeID
		for _, id := range everyoneBut(self, len(lists)) {
			if _, ok := slices.BinarySearch(list, id); !ok {
				missing = append(missing, id)
			}
		}
		if len(missing) == 0 {
			continue
		}
		fmt.Fprintf(bw, "%d:", i)
		text := spans(list, self, "")
		if len(missing) < len(list) { // the planted gaps are what a reader looks for
			text = " *" + spans(missing, self, "!")
		}
		bw.WriteString(text)
		bw.WriteByte('\n')
	}
	if err := bw.Flush(); err != nil {
		return fmt.Errorf("write membership lists: %w", err)
	}
	return nil
}

// spans formats ascending ids as ranges, each after a blank and the mark. A
// range may run over self, which every reader leaves out.
func spans(ids []core.NodeID, self core.NodeID, mark string) string {
	var b strings.Builder
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && (ids[j+1] == ids[j]+1 || ids[j+1] == ids[j]+2 && self == ids[j]+1) {
			j++
		}
		fmt.Fprintf(&b, " %s%d", mark, ids[i])
		if j > i {
			fmt.Fprintf(&b, "-%d", ids[j])
		}
		i = j + 1
	}
	return b.String()
}
