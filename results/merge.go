package results

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Line is one event and where it stands.
type Line struct {
	Event eventlog.Event
	// Node whose log it is; core.None for the controller's.
	Node core.NodeID
	No   int // line number in its file, from 1
	// AfterCut: the line before it in the file was cut.
	AfterCut bool
}

// Merge hands the events of all logs to visit in the order of their instants
// and returns the cut lines it met. Events of equal instants come by node,
// the controller's last. Memory is one event a node plus the controller's
// log, which holds the faults only.
//
// Where instants fall inside one node's log, its order of lines is kept; the
// controller's lines are sorted, because it writes a kill after the deed with
// the instant before it.
func (r *Run) Merge(visit func(*Line) error) ([]eventlog.CutLine, error) {
	m := &merge{}
	defer m.close()
	control, cuts, err := r.controllerLines()
	if err != nil {
		return nil, err
	}
	if len(control) > 0 {
		m.sources = append(m.sources, &source{node: core.None, lines: control})
	}
	for _, id := range r.nodes {
		f, err := os.Open(r.NodeLog(id))
		if err != nil {
			return nil, fmt.Errorf("read logs: %w", err)
		}
		name := filepath.Join(NodesDir, filepath.Base(f.Name()))
		m.sources = append(m.sources, &source{node: id, file: f, reader: eventlog.NewReader(name, f)})
	}
	for _, s := range slices.Clone(m.sources) {
		if err := m.advance(s); err != nil {
			return nil, err
		}
	}
	for len(m.heap) > 0 {
		s := m.heap[0]
		if err := visit(&s.line); err != nil {
			return nil, err
		}
		ok, err := s.next()
		switch {
		case err != nil:
			return nil, err
		case ok:
			heap.Fix(&m.heap, 0)
		default:
			heap.Pop(&m.heap)
		}
	}
	for _, s := range m.sources {
		if s.reader != nil {
			cuts = append(cuts, s.reader.Cut()...)
		}
	}
	return cuts, nil
}

func (r *Run) controllerLines() ([]Line, []eventlog.CutLine, error) {
	f, err := os.Open(r.Path(ControllerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil // a simulated run without faults
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read logs: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	rd := eventlog.NewReader(ControllerFile, f)
	var lines []Line
	for rd.Scan() {
		lines = append(lines, Line{Event: rd.Event(), Node: core.None, No: rd.Line()})
	}
	if err := rd.Err(); err != nil {
		return nil, nil, fmt.Errorf("read logs: %w", err)
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(a.Event.T, b.Event.T) })
	return lines, rd.Cut(), nil
}

// source is one log in the merge.
type source struct {
	node   core.NodeID
	file   *os.File
	reader *eventlog.Reader
	lines  []Line // instead of reader
	line   Line   // the next one
	key    int64  // its instant, never falling
	cuts   int
	begun  bool
}

// next advances to the next line and reports whether there is one.
func (s *source) next() (bool, error) {
	if s.reader == nil {
		if len(s.lines) == 0 {
			return false, nil
		}
		s.line, s.lines = s.lines[0], s.lines[1:]
		s.key = s.line.Event.T
		return true, nil
	}
	if !s.reader.Scan() {
		if err := s.reader.Err(); err != nil {
			return false, fmt.Errorf("read logs: %w", err)
		}
		return false, nil
	}
	cuts := len(s.reader.Cut())
	s.line = Line{Event: s.reader.Event(), Node: s.node, No: s.reader.Line(), AfterCut: cuts > s.cuts}
	s.cuts = cuts
	if !s.begun || s.line.Event.T > s.key {
		s.key, s.begun = s.line.Event.T, true
	}
	return true, nil
}

type merge struct {
	sources []*source
	heap    sourceHeap
}

func (m *merge) advance(s *source) error {
	ok, err := s.next()
	if ok {
		heap.Push(&m.heap, s)
	}
	return err
}

func (m *merge) close() {
	for _, s := range m.sources {
		if s.file != nil {
			_ = s.file.Close() // read only
		}
	}
}

// sourceHeap orders by instant, then node, the controller last.
type sourceHeap []*source

func (h sourceHeap) Len() int      { return len(h) }
func (h sourceHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h sourceHeap) Less(i, j int) bool {
	if h[i].key != h[j].key {
		return h[i].key < h[j].key
	}
	return uint32(h[i].node) < uint32(h[j].node) // core.None is the largest
}
func (h *sourceHeap) Push(x any) { *h = append(*h, x.(*source)) }
func (h *sourceHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	*h = old[:len(old)-1]
	return s
}
