package results

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// chartRow is one event of a chart.
type chartRow struct {
	t    int64
	col  int
	text string
	mark byte // lane after it: ' ', ':' waiting, '#' in the section, 'x' dead
	keep bool // leaves the lane as it is
}

// chartWidth is the width of a node's column.
const chartWidth = 34

// maxChartRows bounds a chart; what is left out is said.
const maxChartRows = 60

// nodesOf names the nodes of requests.
func nodesOf(list []*Request) string {
	names := make([]string, len(list))
	for i, q := range list {
		names[i] = strconv.Itoa(int(q.Node))
	}
	return strings.Join(names, ", ")
}

// WriteOverlap explains one overlapping pair: both sections, a chart of what
// the two nodes did meanwhile, and the lines of their logs around it, around
// lines on each side.
func (r *Run) WriteOverlap(w io.Writer, o *Overlap, around int) error {
	p := &printer{w: w}
	with := ""
	if n := len(o.Others); n > 0 {
		with = fmt.Sprintf(", where %d may be,", n+1)
	}
	p.printf("nodes %s and %d in the critical section together%s for %s ms, from %s ms\n", nodesOf(append(slices.Clone(o.Others), o.First)), o.Second.Node,
		with, instant(o.To-o.From), instant(o.From))
	for _, q := range append(slices.Clone(o.Others), o.First, o.Second) {
		p.printf("  node %-5d request %v (no %d)  [%s .. %s] ms, ended by %s, %d grants\n", q.Node, q.ID, q.No,
			instant(q.Enter), instant(q.End), q.Ending, q.Grants)
	}
	if o.Zombie {
		p.printf("  %s had been declared failed by a majority before: a zombie overlap, no violation\n", o.zombie())
	}
	if err := r.chart(p, o); err != nil {
		return err
	}
	for _, q := range []*Request{o.First, o.Second} {
		if err := r.linesAround(p, q, around); err != nil {
			return err
		}
	}
	return p.err
}

func instant(ns int64) string { return fmt.Sprintf("%.3f", float64(ns)/1e6) }

func (r *Run) chart(p *printer, o *Overlap) error {
	nodes := []core.NodeID{o.First.Node, o.Second.Node}
	from, to := min(o.First.Asked, o.Second.Asked), max(o.First.End, o.Second.End)
	var rows []chartRow
	other := 0
	add := func(e *eventlog.Event, col int) {
		if e.T < from || e.T > to {
			return
		}
		row, ok := describe(e, col, nodes)
		if !ok {
			if e.Kind == eventlog.Member {
				other++
			}
			return
		}
		rows = append(rows, row)
	}
	for col, id := range nodes {
		if err := eachEvent(r.NodeLog(id), func(e *eventlog.Event, _ int) { add(e, col) }); err != nil {
			return err
		}
	}
	control, _, err := r.controllerLines()
	if err != nil {
		return err
	}
	for i := range control {
		e := &control[i].Event
		if col := slices.Index(nodes, core.NodeID(e.Node)); col >= 0 && e.Node >= 0 {
			add(e, col)
		}
	}
	rows = append(rows,
		chartRow{t: o.From, col: -1, text: "overlap begins", keep: true},
		chartRow{t: o.To, col: -1, text: "overlap ends", keep: true})
	slices.SortStableFunc(rows, func(a, b chartRow) int { return cmp.Compare(a.t, b.t) })

	p.printf("\n  %14s   %s%s\n", "ms", pad(fmt.Sprintf("node %d", nodes[0])), fmt.Sprintf("node %d", nodes[1]))
	p.printf("  %s   %s   %s\n", strings.Repeat("-", 14), strings.Repeat("-", chartWidth-3), strings.Repeat("-", chartWidth-3))
	lanes := [2]byte{' ', ' '}
	for i, row := range rows {
		if i == maxChartRows {
			p.printf("  %14s   (%d more)\n", "", len(rows)-i)
			break
		}
		if row.col < 0 {
			p.printf("  %14s   %s\n", instant(row.t), "======== "+row.text+" ========")
			continue
		}
		cells := [2]string{string(lanes[0]), string(lanes[1])}
		cells[row.col] = row.text
		if !row.keep {
			lanes[row.col] = row.mark
		}
		p.printf("  %14s   %s\n", instant(row.t), strings.TrimRight(pad(cells[0])+cells[1], " "))
	}
	if other > 0 {
		p.printf("  (%d membership changes about other nodes left out)\n", other)
	}
	p.printf("  : waiting   # in the critical section   x process gone\n")
	return p.err
}

func pad(s string) string {
	if len(s) >= chartWidth {
		return s + " "
	}
	return s + strings.Repeat(" ", chartWidth-len(s))
}

// describe turns an event into a row of the chart; false where it does not
// belong there.
func describe(e *eventlog.Event, col int, nodes []core.NodeID) (chartRow, bool) {
	row := chartRow{t: e.T, col: col}
	switch e.Kind {
	case eventlog.Start:
		row.text, row.mark = fmt.Sprintf("start (incarnation %d)", e.Inc), ' '
	case eventlog.Request:
		row.text, row.mark = "request "+e.Req, ':'
	case eventlog.Enter:
		row.text, row.mark = "ENTER "+e.Req, '#'
	case eventlog.Exit:
		row.text, row.mark = "EXIT "+e.Req, ' '
	case eventlog.Fenced:
		row.text, row.mark = "FENCED "+e.Req, ' '
	case eventlog.Leave:
		row.text, row.keep = "leaves", true
	case eventlog.Stop:
		row.text, row.mark = "stop", 'x'
	case eventlog.Failure:
		row.text, row.mark = "failure: "+e.Text, 'x'
	case eventlog.Kill:
		row.text, row.mark = strings.TrimSpace("KILLED "+e.Verb), 'x'
	case eventlog.Pause, eventlog.Resume, eventlog.Restart:
		row.text, row.keep = strings.ToUpper(string(e.Kind)), true
	case eventlog.Exited:
		row.text, row.mark = "process ended", 'x'
	case eventlog.Member:
		if e.Peer == nil || !slices.Contains(nodes, core.NodeID(*e.Peer)) {
			return row, false
		}
		row.text, row.keep = fmt.Sprintf("node %d.%d: %s (list %d)", *e.Peer, e.PeerInc, e.Change, e.Size), true
	default:
		return row, false
	}
	return row, true
}

func eachEvent(path string, visit func(*eventlog.Event, int)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	rd := eventlog.NewReader(path, f)
	for rd.Scan() {
		e := rd.Event()
		visit(&e, rd.Line())
	}
	if err := rd.Err(); err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	return nil
}

// rawLine is a line as it stands in a log, cut to maxShownLine.
func (r *Run) rawLine(at LogLine) (string, error) {
	f, err := os.Open(r.Path(at.File))
	if err != nil {
		return "", fmt.Errorf("read logs: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	rd := bufio.NewReader(f)
	for no := 1; ; no++ {
		line, err := rd.ReadBytes('\n')
		if no == at.Line {
			return shorten(line), nil
		}
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("read logs: %w", err)
		}
	}
}

// shorten makes one line of a log fit the report.
func shorten(line []byte) string {
	line = bytes.TrimRight(line, "\n")
	if len(line) > maxShownLine {
		return string(line[:maxShownLine]) + "..."
	}
	return string(line)
}

// maxShownLine bounds a log line in the report.
const maxShownLine = 160

// linesAround prints the lines of the node's log around the enter and the end
// of the section.
func (r *Run) linesAround(p *printer, q *Request, around int) error {
	p.printf("\n  %s/%d.jsonl\n", NodesDir, q.Node)
	f, err := os.Open(r.NodeLog(q.Node))
	if err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	near := func(no, line int) bool { return line > 0 && no >= line-around && no <= line+around }
	rd := bufio.NewReader(f)
	last := 0
	for no := 1; ; no++ {
		line, err := rd.ReadBytes('\n')
		if len(line) > 0 && (near(no, q.EnterLine) || near(no, q.EndLine)) {
			if last > 0 && no > last+1 {
				p.printf("  %6s  ...\n", "")
			}
			last = no
			mark := ' '
			if no == q.EnterLine || no == q.EndLine {
				mark = '>'
			}
			p.printf("%c %6d  %s\n", mark, no, shorten(line))
		}
		if errors.Is(err, io.EOF) {
			return p.err
		}
		if err != nil {
			return fmt.Errorf("read logs: %w", err)
		}
	}
}

// zombie names the holder of a zombie overlap that had been declared failed.
func (o *Overlap) zombie() string {
	if o.First.declaredFailed(o.Second.Enter) {
		return fmt.Sprintf("node %d", o.First.Node)
	}
	return fmt.Sprintf("node %d", o.Second.Node)
}
