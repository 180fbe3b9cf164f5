package export

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/results/timeline"
	"churnbed/topologies"
)

// Formats of tables.
const (
	CSV     = "csv"
	Parquet = "parquet"
)

// Rows of the tables. The names of columns are in the tags; instants are
// milliseconds of scenario time; a pointer may be missing (an empty field, a
// null).
type (
	// NodeRow is a node of the mesh, positions in metres.
	NodeRow struct {
		Node    int32   `parquet:"node"`
		X       float64 `parquet:"x_m"`
		Y       float64 `parquet:"y_m"`
		Label   string  `parquet:"label"`
		Entries int32   `parquet:"entries"`
	}
	// RequestRow is one request for the critical section.
	RequestRow struct {
		Node       int32    `parquet:"node"`
		Request    string   `parquet:"request"`
		Number     int32    `parquet:"number"` // in the workload, from 1
		QueuedMS   float64  `parquet:"queued_ms"`
		AskedMS    float64  `parquet:"asked_ms"`
		EnteredMS  *float64 `parquet:"entered_ms,optional"`
		EndedMS    float64  `parquet:"ended_ms"`
		WaitMS     *float64 `parquet:"wait_ms,optional"`
		HeldMS     *float64 `parquet:"held_ms,optional"`
		IntendedMS float64  `parquet:"intended_ms"` // length of the section
		Ending     string   `parquet:"ending"`
		Grants     int32    `parquet:"grants"`
		Violating  bool     `parquet:"violating"`
		Zombie     bool     `parquet:"zombie"`
	}
	// OverlapRow is a pair of sections held at once.
	OverlapRow struct {
		FromMS float64 `parquet:"from_ms"`
		ToMS   float64 `parquet:"to_ms"`
		First  string  `parquet:"first"`
		Second string  `parquet:"second"`
		Zombie bool    `parquet:"zombie"`
	}
	// LifeRow is one process of a node.
	LifeRow struct {
		Node        int32   `parquet:"node"`
		Incarnation int64   `parquet:"incarnation"`
		FromMS      float64 `parquet:"from_ms"`
		ToMS        float64 `parquet:"to_ms"`
		Ended       string  `parquet:"ended"`
	}
	// FaultRow is something that was done to a node or a link.
	FaultRow struct {
		AtMS float64 `parquet:"at_ms"`
		Kind string  `parquet:"kind"`
		Node int32   `parquet:"node"` // -1: none
		Link string  `parquet:"link"`
		Verb string  `parquet:"verb"`
		Text string  `parquet:"text"`
		Hit  string  `parquet:"hit"`
	}
	// MemberRow is a change of a membership list.
	MemberRow struct {
		AtMS            float64 `parquet:"at_ms"`
		Node            int32   `parquet:"node"`
		Incarnation     int64   `parquet:"incarnation"`
		Peer            int32   `parquet:"peer"`
		PeerIncarnation int64   `parquet:"peer_incarnation"`
		Change          string  `parquet:"change"`
		Size            int32   `parquet:"size"`
	}
	// CounterRow is what a node had sent or received of one kind in its
	// present life.
	CounterRow struct {
		AtMS        float64 `parquet:"at_ms"`
		Node        int32   `parquet:"node"`
		Incarnation int64   `parquet:"incarnation"`
		Direction   string  `parquet:"direction"` // sent, received
		Kind        string  `parquet:"kind"`
		Class       string  `parquet:"class"`
		Datagrams   int64   `parquet:"datagrams"`
		Bytes       int64   `parquet:"bytes"`
		Repeated    int64   `parquet:"repeated"` // of the datagrams
	}
	// UsageRow is what the kernel had accounted to a node's process in its
	// present life; its time is real.
	UsageRow struct {
		AtMS        float64 `parquet:"at_ms"`
		Node        int32   `parquet:"node"`
		Incarnation int64   `parquet:"incarnation"`
		CPUMS       float64 `parquet:"cpu_ms"`
		Memory      int64   `parquet:"memory_bytes"`  // its own (anonymous pages), now
		MaxRSS      int64   `parquet:"max_rss_bytes"` // most in use, shared pages included
	}
	// LinkRow is one direction of a link.
	LinkRow struct {
		Link          string  `parquet:"link"`
		From          int32   `parquet:"from"`
		To            int32   `parquet:"to"`
		DelayMS       float64 `parquet:"delay_ms"`
		JitterMS      float64 `parquet:"jitter_ms"`
		Loss          float64 `parquet:"loss"`
		RateBPS       int64   `parquet:"rate_bps"`
		Frames        int64   `parquet:"frames"`
		Bytes         int64   `parquet:"bytes"`
		Dropped       int64   `parquet:"dropped"`
		ExpectedDrops float64 `parquet:"expected_drops"`
	}
	// SliceRow is the fidelity of one slice.
	SliceRow struct {
		ToMS    float64  `parquet:"to_ms"`
		Verdict string   `parquet:"verdict"`
		P50MS   *float64 `parquet:"delay_error_p50_ms,optional"`
		P99MS   *float64 `parquet:"delay_error_p99_ms,optional"`
		CPU     *float64 `parquet:"cpu_busy,optional"`
		Reason  string   `parquet:"reason"`
	}
)

// Tables writes the run's tables into dir as <table>.<format> and returns
// their names: nodes, requests, overlaps, lives, faults, links, slices, and
// members and counters, which hold a row for every such line of the logs. A run
// of real processes has usage as well, one
// with k-groups has more: terms, group_members, migrations, locks, routines,
// commands, device_failures, bandwidth, and group_lines, a row for every line
// about them.
// topology may be nil; nodes then have no positions.
func Tables(dir, format string, t *timeline.Timeline, topology *topologies.Topology) ([]string, error) {
	if format != CSV && format != Parquet {
		return nil, fmt.Errorf("write tables: format %q: want %s or %s", format, CSV, Parquet)
	}
	out := &tables{dir: dir, format: format}
	writeAll(out, "nodes", nodeRows(t, topology))
	writeAll(out, "requests", requestRows(t))
	writeAll(out, "overlaps", overlapRows(t))
	writeAll(out, "lives", lifeRows(t))
	writeAll(out, "faults", faultRows(t))
	writeAll(out, "links", linkRows(t))
	writeAll(out, "slices", sliceRows(t))
	out.lines(t)
	if t.Groups != nil {
		out.groupTables(t)
	}
	return out.names, out.err
}

func nodeRows(t *timeline.Timeline, topology *topologies.Topology) []NodeRow {
	rows := make([]NodeRow, len(t.Nodes))
	for i := range rows {
		rows[i].Node = int32(i)
		if topology != nil && i < len(topology.Nodes) {
			n := topology.Nodes[i]
			rows[i].X, rows[i].Y, rows[i].Label = n.X, n.Y, n.Label
		}
	}
	for i := range t.Requests {
		if q := &t.Requests[i]; served(q) {
			rows[q.Node].Entries++
		}
	}
	return rows
}

func requestRows(t *timeline.Timeline) []RequestRow {
	rows := make([]RequestRow, len(t.Requests))
	for i := range t.Requests {
		q := &t.Requests[i]
		rows[i] = RequestRow{
			Node: int32(q.Node), Request: q.ID.String(), Number: int32(q.No), QueuedMS: ms(q.Queued), AskedMS: ms(q.Asked),
			EnteredMS: optionalMS(q.Enter, q.Entered), EndedMS: ms(q.End), WaitMS: optionalMS(q.Enter-q.Asked, q.Entered),
			HeldMS: optionalMS(q.End-q.Enter, q.Entered), IntendedMS: ms(q.CS), Ending: string(q.Ending), Grants: int32(q.Grants),
			Violating: q.Violating, Zombie: q.Zombie,
		}
	}
	return rows
}

func overlapRows(t *timeline.Timeline) []OverlapRow {
	var rows []OverlapRow
	for _, o := range slices.Concat(t.Verdict.Violations, t.Verdict.Zombies) {
		rows = append(rows, OverlapRow{ms(o.From), ms(o.To), o.First.ID.String(), o.Second.ID.String(), o.Zombie})
	}
	return rows
}

func lifeRows(t *timeline.Timeline) []LifeRow {
	var rows []LifeRow
	for i := range t.Nodes {
		for _, l := range t.Nodes[i].Lives {
			rows = append(rows, LifeRow{int32(i), int64(l.Inc), ms(l.From), ms(l.To), string(l.How)})
		}
	}
	return rows
}

func faultRows(t *timeline.Timeline) []FaultRow {
	var rows []FaultRow
	for _, f := range t.Faults {
		rows = append(rows, FaultRow{ms(f.T), string(f.Kind), nodeNumber(f.Node), f.Link, f.Verb, f.Text, f.Hit})
	}
	return rows
}

func linkRows(t *timeline.Timeline) []LinkRow {
	var rows []LinkRow
	for i := range t.Links {
		l := &t.Links[i]
		from, to := l.A, l.B
		if l.Dir == "ba" {
			from, to = to, from
		}
		rows = append(rows, LinkRow{
			l.Link, int32(from), int32(to), l.DelayMS, l.JitterMS, l.Loss, l.Rate, l.Frames, l.Bytes, l.Dropped, l.ExpectedDrops,
		})
	}
	return rows
}

func sliceRows(t *timeline.Timeline) []SliceRow {
	var rows []SliceRow
	for _, s := range t.Summary.Fidelity.Slices {
		rows = append(rows, SliceRow{
			float64(s.ToMS), s.Verdict, optional(s.DelayErrorMS.P50), optional(s.DelayErrorMS.P99), optional(s.CPUBusy), s.Reason,
		})
	}
	return rows
}

// tables writes the files of one export; the first error sticks.
type tables struct {
	dir, format string
	names       []string
	err         error
}

// lines writes the tables that hold log lines, as it reads them.
func (o *tables) lines(t *timeline.Timeline) {
	if o.err != nil {
		return
	}
	members, counters := begin[MemberRow](o, "members"), begin[CounterRow](o, "counters")
	var usage *table[UsageRow]
	if t.Summary.Processes != nil {
		usage = begin[UsageRow](o, "usage")
	}
	if o.err == nil {
		_, err := t.Run.Merge(func(l *results.Line) error {
			e := &l.Event
			switch {
			case l.Node == core.None:
			case e.Kind == eventlog.Member:
				row := MemberRow{AtMS: ms(e.T), Node: int32(l.Node), Incarnation: int64(e.Inc), Peer: nobody, PeerIncarnation: int64(e.PeerInc), Change: e.Change, Size: int32(e.Size)}
				if e.Peer != nil {
					row.Peer = *e.Peer
				}
				return members.write(row)
			case e.Kind == eventlog.Counters:
				if u := e.Usage; u != nil {
					if err := usage.write(UsageRow{ms(e.T), int32(l.Node), int64(e.Inc), ms(u.CPU), u.Anon, u.MaxRSS}); err != nil {
						return err
					}
				}
				return errors.Join(counterRows(t, l, "sent", e.Sent, counters), counterRows(t, l, "received", e.Recv, counters))
			}
			return nil
		})
		o.err = err
	}
	o.err = errors.Join(o.err, members.close(), counters.close(), usage.close())
}

func counterRows(t *timeline.Timeline, l *results.Line, direction string, counts map[string]eventlog.Count, to *table[CounterRow]) error {
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		c := counts[kind]
		class := "unknown"
		if k, ok := t.Summary.Messages.ByKind[kind]; ok {
			class = k.Class
		}
		row := CounterRow{ms(l.Event.T), int32(l.Node), int64(l.Event.Inc), direction, kind, class, c.N, c.Bytes, c.Retrans}
		if err := to.write(row); err != nil {
			return err
		}
	}
	return nil
}

func writeAll[T any](o *tables, name string, rows []T) {
	t := begin[T](o, name)
	for i := range rows {
		if o.err == nil {
			o.err = t.write(rows[i])
		}
	}
	o.err = errors.Join(o.err, t.close())
}

// table is one file under way.
type table[T any] struct {
	file    io.WriteCloser
	csv     *csv.Writer
	parquet *parquet.GenericWriter[T]
	batch   []T
	fields  []string
}

// batchRows are handed to the Parquet writer at once.
const batchRows = 1024

// begin creates the file of a table; where it cannot, or something failed
// before, it returns nil, which takes no rows.
func begin[T any](o *tables, name string) *table[T] {
	if o.err != nil {
		return nil
	}
	path := filepath.Join(o.dir, name+"."+o.format)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		o.err = fmt.Errorf("write table %s: %w", name, err)
		return nil
	}
	o.names = append(o.names, name)
	t := &table[T]{file: f}
	if o.format == Parquet {
		t.parquet = parquet.NewGenericWriter[T](f, parquet.Compression(&zstd.Codec{}), parquet.CreatedBy("churnbed", "", ""))
		return t
	}
	t.csv = csv.NewWriter(f)
	head := columns(reflect.TypeFor[T]())
	t.fields = make([]string, len(head))
	o.err = t.csv.Write(head)
	return t
}

func columns(row reflect.Type) []string {
	names := make([]string, row.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(row.Field(i).Tag.Get("parquet"), ",")
	}
	return names
}

func (t *table[T]) write(row T) error {
	if t == nil {
		return nil
	}
	if t.parquet != nil {
		if t.batch = append(t.batch, row); len(t.batch) < batchRows {
			return nil
		}
		return t.flush()
	}
	v := reflect.ValueOf(row)
	for i := range t.fields {
		t.fields[i] = cell(v.Field(i))
	}
	return t.csv.Write(t.fields)
}

func (t *table[T]) flush() error {
	_, err := t.parquet.Write(t.batch)
	t.batch = t.batch[:0]
	return err
}

// cell formats a field of a row.
func cell(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch v.Kind() { //nolint:exhaustive // the kinds that rows have
	case reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	}
	return v.String()
}

func (t *table[T]) close() error {
	if t == nil {
		return nil
	}
	var err error
	if t.parquet != nil {
		err = errors.Join(t.flush(), t.parquet.Close())
	} else {
		t.csv.Flush()
		err = t.csv.Error()
	}
	if err = errors.Join(err, t.file.Close()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
