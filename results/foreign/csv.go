package foreign

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/results"
)

// CSVColumns are the columns that ReadCSV knows, in the order in which
// documentation names them.
var CSVColumns = []string{"trial", "node", "request", "enter", "exit"}

// CSVOptions say how to read a table of requests.
type CSVOptions struct {
	// Columns gives the header of a column by its name here, where it is
	// another: "trial": "run".
	Columns map[string]string
	// Unit of the instants: "ms" (also ""), "s", "us" or "ns".
	Unit string
	// Parameters are what is known of the scenario, by the keys of a
	// scenario file, such as "nodes".
	Parameters map[string]string
	Comma      rune // 0 = ','
}

var units = map[string]float64{"": 1e6, "ms": 1e6, "s": 1e9, "us": 1e3, "ns": 1} // ns

// ParseColumns reads "trial=run,node=host".
func ParseColumns(s string) (map[string]string, error) {
	out := map[string]string{}
	if strings.TrimSpace(s) == "" {
		return out, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		ours, theirs, ok := strings.Cut(part, "=")
		ours, theirs = strings.TrimSpace(ours), strings.TrimSpace(theirs)
		if !ok || theirs == "" || out[ours] != "" {
			return nil, fmt.Errorf("columns %q: want NAME=HEADER, each once, separated by commas", part)
		}
		out[ours] = theirs
	}
	return out, nil
}

func (o *CSVOptions) header(column string) string {
	if h := o.Columns[column]; h != "" {
		return h
	}
	return column
}

func (o *CSVOptions) check() error {
	for c := range o.Columns {
		if !slices.Contains(CSVColumns, c) {
			return fmt.Errorf("column %q: want one of %s", c, strings.Join(CSVColumns, ", "))
		}
	}
	if units[o.Unit] == 0 {
		return fmt.Errorf("time unit %q: want ms, s, us or ns", o.Unit)
	}
	if n, ok := o.Parameters["nodes"]; ok {
		if v, err := strconv.Atoi(n); err != nil || v < 1 || v > core.MaxNodes {
			return fmt.Errorf("nodes %q: want 1 to %d", n, core.MaxNodes)
		}
	}
	return nil
}

// ReadCSV reads a table of requests with a header, one row a request:
//
//	trial,node,request,enter,exit
//	1,17,43,108,308
//	1,3,111,,
//
// request, enter and exit are instants of one clock a trial, of any origin:
// when the node asked for, entered and left the critical section. An empty
// enter is a request that was not served, an empty exit a section whose end is
// not known. The columns request and enter are needed; without trial all rows
// are one trial, without node every row is a node of its own for the count of
// violations. Other columns are ignored. Rows stand in any order; trials keep
// the order of their first rows.
func ReadCSV(data []byte, name string, opt CSVOptions) (*results.TrialSet, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	t := &csvReader{name: name, opt: opt, trials: map[string]*csvTrial{}}
	t.csv = csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	t.csv.ReuseRecord = true
	t.csv.TrimLeadingSpace = true
	if opt.Comma != 0 {
		t.csv.Comma = opt.Comma
	}
	if err := t.head(); err != nil {
		return nil, err
	}
	for {
		rec, err := t.csv.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, t.failed(err)
		}
		if err := t.row(rec); err != nil {
			return nil, err
		}
	}
	if len(t.order) == 0 {
		return nil, malformed(name, 1, 1, "no rows below the header")
	}
	return t.set(), nil
}

type csvTrial struct {
	nodes    map[string]core.NodeID
	requests []*results.Request
}

type csvReader struct {
	name   string
	opt    CSVOptions
	csv    *csv.Reader
	column map[string]int // by our name, of those that are there
	trials map[string]*csvTrial
	order  []string
}

// failed turns an error of the csv package into one with a place.
func (t *csvReader) failed(err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return malformed(t.name, p.Line, p.Column, "%w", p.Err)
	}
	return malformed(t.name, 1, 1, "%w", err)
}

func (t *csvReader) head() error {
	rec, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return malformed(t.name, 1, 1, "the file is empty; want a header")
	}
	if err != nil {
		return t.failed(err)
	}
	t.column = map[string]int{}
	for _, c := range CSVColumns {
		h := t.opt.header(c)
		i := slices.IndexFunc(rec, func(s string) bool { return strings.TrimSpace(s) == h })
		switch {
		case i >= 0:
			t.column[c] = i
		case c == "request" || c == "enter" || t.opt.Columns[c] != "":
			return malformed(t.name, 1, 1, "no column %q for %s; there are %s", h, c, strings.Join(rec, ", "))
		}
	}
	return nil
}

func (t *csvReader) cell(rec []string, column string) string {
	i, ok := t.column[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(rec[i])
}

// instant reads a cell as ns; ok is false where it is empty.
func (t *csvReader) instant(rec []string, column string) (v int64, ok bool, err error) {
	s := t.cell(rec, column)
	if s == "" {
		return 0, false, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	ns := f * units[t.opt.Unit]
	if err != nil || math.IsNaN(ns) || math.Abs(ns) > 1<<60 {
		line, col := t.csv.FieldPos(t.column[column])
		return 0, false, malformed(t.name, line, col, "%s %s: want an instant in %s", column, quote([]byte(s)), unitName(t.opt.Unit))
	}
	return int64(math.Round(ns)), true, nil
}

func unitName(u string) string {
	if u == "" {
		return "ms"
	}
	return u
}

func (t *csvReader) row(rec []string) error {
	line, _ := t.csv.FieldPos(0)
	var at [3]int64
	var has [3]bool
	for i, column := range [...]string{"request", "enter", "exit"} {
		var err error
		if at[i], has[i], err = t.instant(rec, column); err != nil {
			return err
		}
	}
	switch {
	case !has[0]:
		return malformed(t.name, line, 1, "request is empty")
	case has[2] && !has[1]:
		return malformed(t.name, line, 1, "exit without enter")
	case has[1] && at[1] < at[0]:
		return malformed(t.name, line, 1, "enter is before request")
	case has[2] && at[2] < at[1]:
		return malformed(t.name, line, 1, "exit is before enter")
	}
	key := strings.Clone(t.cell(rec, "trial"))
	tr := t.trials[key]
	if tr == nil {
		tr = &csvTrial{nodes: map[string]core.NodeID{}}
		t.trials[key] = tr
		t.order = append(t.order, key)
	}
	name := strings.Clone(t.cell(rec, "node"))
	if _, ok := t.column["node"]; !ok {
		name = strconv.Itoa(len(tr.requests))
	} else if name == "" {
		return malformed(t.name, line, 1, "node is empty")
	}
	node, ok := tr.nodes[name]
	if !ok {
		node = core.NodeID(len(tr.nodes))
		tr.nodes[name] = node
	}
	q := &results.Request{Node: node, No: len(tr.requests) + 1, Asked: at[0], End: math.MaxInt64, Ending: results.EndOpen}
	if has[1] {
		q.Entered, q.Enter = true, at[1]
	}
	if has[2] {
		q.End, q.Ending = at[2], results.EndExited
	}
	tr.requests = append(tr.requests, q)
	return nil
}

func (t *csvReader) set() *results.TrialSet {
	s := &results.TrialSet{
		Name: t.name, Source: "csv", Engine: results.Foreign, Parameters: maps.Clone(t.opt.Parameters),
		Incomparable: map[string]string{},
	}
	if s.Parameters == nil {
		s.Parameters = map[string]string{}
	}
	s.Parameters["engine"] = results.Foreign
	nodes, _ := strconv.Atoi(s.Parameters["nodes"]) // checked; 0 where not told
	for _, key := range t.order {
		tr := t.trials[key]
		out := &results.Trial{
			From: t.name + " trial " + key, Nodes: nodes,
			E2EMessages: results.Unknown(), H2HMessages: results.Unknown(), Bytes: results.Unknown(),
		}
		if out.Nodes == 0 {
			// Nodes that never asked are not in the table: the figure is a
			// lower bound and is not used to normalise.
			out.Figures = map[string]float64{"requesting_nodes": float64(len(tr.nodes))}
		}
		if seed, err := strconv.ParseUint(key, 10, 64); err == nil {
			out.Seed = seed
		}
		out.SetRequests(tr.requests)
		s.Trials = append(s.Trials, out)
	}
	return s
}
