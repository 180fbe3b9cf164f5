package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/results/capture"
	"churnbed/results/timeline"
)

// traceEvent is one event of the trace event format (Trace Event Format,
// Google, 2016), as Perfetto and chrome://tracing read it. Instants and
// lengths are microseconds.
type traceEvent struct {
	Phase    string         `json:"ph"`
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Time     micros         `json:"ts"`
	Length   *micros        `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	ID       int            `json:"id,omitempty"`
	Scope    string         `json:"s,omitempty"`  // of an instant
	Bind     string         `json:"bp,omitempty"` // "e": a flow ends in the slice around it
	Args     map[string]any `json:"args,omitempty"`
}

// micros is an instant in nanoseconds that is written as microseconds.
type micros int64

// MarshalJSON implements json.Marshaler.
func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", int64(m)/1000, int64(m)%1000), nil
}

// Processes and threads of a trace. Node i has thread nodeThread+i; what can
// overlap its requests half, which slices of one thread must not, has threads
// of its own.
const (
	meshProcess   = 1
	runProcess    = 2
	nodeThread    = 1
	pausedThread  = 100_001
	messageThread = 200_001
	lockThread    = 1
	faultThread   = 2
)

// trace writes the events of a trace one by one; the first error sticks.
type trace struct {
	w     *bufio.Writer
	any   bool
	flows int
	err   error
}

func (t *trace) add(e *traceEvent) {
	if t.err != nil {
		return
	}
	b, err := json.Marshal(e)
	if err != nil {
		t.err = err
		return
	}
	if t.any {
		_, _ = t.w.WriteString(",\n") // the writer keeps its first error for Flush
	}
	t.any = true
	_, _ = t.w.Write(b)
}

func (t *trace) slice(process, thread int, category, name string, from, to int64, args map[string]any) {
	length := micros(max(0, to-from))
	t.add(&traceEvent{Phase: "X", Name: name, Category: category, Time: micros(max(0, from)), Length: &length, Process: process, Thread: thread, Args: args})
}

func (t *trace) instant(process, thread int, category, name string, at int64, args map[string]any) {
	t.add(&traceEvent{Phase: "i", Name: name, Category: category, Time: micros(max(0, at)), Process: process, Thread: thread, Scope: "t", Args: args})
}

// flow joins a slice that is open at from to one that is open at to.
func (t *trace) flow(category, name string, fromThread, toThread int, from, to int64) {
	t.flows++
	t.add(&traceEvent{Phase: "s", Name: name, Category: category, Time: micros(max(0, from)), Process: meshProcess, Thread: fromThread, ID: t.flows})
	t.add(&traceEvent{Phase: "f", Name: name, Category: category, Time: micros(max(0, to)), Process: meshProcess, Thread: toThread, ID: t.flows, Bind: "e"})
}

func (t *trace) name(process, thread int, name string, order int) {
	t.add(&traceEvent{Phase: "M", Name: "thread_name", Process: process, Thread: thread, Args: map[string]any{"name": name}})
	t.add(&traceEvent{Phase: "M", Name: "thread_sort_index", Process: process, Thread: thread, Args: map[string]any{"sort_index": order}})
}

// Perfetto writes the run as a JSON trace: a track a node with slices for
// waiting, the critical section and being down, instants for kills and
// restarts, who served each k-group and what routines did, flows from each exit to the next enter that it let in, and, where
// messages were captured, flows from their sending to their arrival. labels
// name nodes; where nil, or "", they have their number only.
func Perfetto(w io.Writer, tl *timeline.Timeline, labels []string, messages []capture.Message) error {
	t := &trace{w: bufio.NewWriterSize(w, 64<<10)}
	_, _ = t.w.WriteString(`{"displayTimeUnit":"ms","traceEvents":[` + "\n")
	for process, name := range map[int]string{meshProcess: "mesh", runProcess: "run"} {
		t.add(&traceEvent{Phase: "M", Name: "process_name", Process: process, Args: map[string]any{"name": name}})
	}
	for i := range tl.Nodes {
		name := fmt.Sprintf("node %d", i)
		if i < len(labels) && labels[i] != "" {
			name += " " + labels[i]
		}
		t.name(meshProcess, nodeThread+i, name, 3*i)
		if len(tl.Nodes[i].Pauses) > 0 {
			t.name(meshProcess, pausedThread+i, name+" paused", 3*i+1)
		}
	}
	t.name(runProcess, lockThread, "critical section", 0)
	t.name(runProcess, faultThread, "faults", 1)
	t.nodes(tl)
	t.requests(tl)
	t.groups(tl)
	t.faults(tl)
	t.counts(tl)
	t.messages(messages, len(tl.Nodes))
	_, _ = t.w.WriteString("\n]}\n")
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err != nil {
		return fmt.Errorf("write trace: %w", t.err)
	}
	return nil
}

func (t *trace) nodes(tl *timeline.Timeline) {
	for i := range tl.Nodes {
		from, why := int64(0), "not started"
		for k, l := range tl.Nodes[i].Lives {
			if l.From > from && k > 0 {
				t.slice(meshProcess, nodeThread+i, "down", "down", from, l.From, map[string]any{"since": why})
			}
			from, why = l.To, string(l.How)
			t.instant(meshProcess, nodeThread+i, "life", "start", l.From, map[string]any{"incarnation": uint32(l.Inc)})
			if l.How == timeline.Killed || l.How == timeline.Died || l.How == timeline.Left {
				t.instant(meshProcess, nodeThread+i, "life", string(l.How), l.To, nil)
			}
		}
		if from < tl.End {
			t.slice(meshProcess, nodeThread+i, "down", "down", from, tl.End, map[string]any{"since": why})
		}
		for _, p := range tl.Nodes[i].Pauses {
			t.slice(meshProcess, pausedThread+i, "paused", "paused", p.From, p.To, nil)
		}
	}
}

func (t *trace) requests(tl *timeline.Timeline) {
	var sections []*timeline.Request
	for i := range tl.Requests {
		q := &tl.Requests[i]
		thread := nodeThread + int(q.Node)
		args := map[string]any{"request": q.ID.String(), "number": q.No, "ending": string(q.Ending)}
		if !q.Entered {
			t.slice(meshProcess, thread, "waiting", "waiting", q.Asked, q.End, args)
			continue
		}
		t.slice(meshProcess, thread, "waiting", "waiting", q.Asked, q.Enter, args)
		args["grants"] = q.Grants
		name := "in the section"
		if q.Violating {
			name, args["violation"] = "VIOLATION", true
		}
		t.slice(meshProcess, thread, "section", name, q.Enter, q.End, args)
		if q.End > q.Enter {
			sections = append(sections, q)
		}
	}
	slices.SortStableFunc(sections, func(a, b *timeline.Request) int { return cmp.Compare(a.Enter, b.Enter) })
	free := int64(-1) // when the last of the sections so far ended
	var last *timeline.Request
	for _, q := range sections {
		name := fmt.Sprintf("node %d", q.Node)
		if q.Enter >= free { // else the track of the lock is taken: see violations
			t.slice(runProcess, lockThread, "section", name, q.Enter, q.End, map[string]any{"request": q.ID.String()})
			if last != nil && q.Asked <= last.End && last.Node != q.Node {
				t.flow("handover", "handover", nodeThread+int(last.Node), nodeThread+int(q.Node), last.End-1, q.Enter)
			}
		}
		if q.End > free {
			free, last = q.End, q
		}
	}
	for _, o := range tl.Verdict.Violations {
		t.instant(runProcess, lockThread, "violation", "VIOLATION", o.From, map[string]any{
			"first": o.First.ID.String(), "second": o.Second.ID.String(), "together_ms": ms(o.To - o.From),
		})
	}
}

func (t *trace) faults(tl *timeline.Timeline) {
	if tl.Epoch >= 0 {
		t.instant(runProcess, faultThread, "run", "epoch", tl.Epoch, nil)
	}
	for _, f := range tl.Faults {
		name := string(f.Kind)
		if f.Kind == eventlog.LinkSet {
			name = "link " + f.Link + ": " + f.Text
		} else if f.Node != core.None {
			name = fmt.Sprintf("%s node %d", f.Kind, f.Node)
		}
		t.instant(runProcess, faultThread, "fault", name, f.T, map[string]any{"verb": f.Verb, "hit": f.Hit, "text": f.Text})
	}
}

// counts are the counter tracks: nodes up and lengths of lists.
func (t *trace) counts(tl *timeline.Timeline) {
	count := func(name string, at int64, values map[string]any) {
		t.add(&traceEvent{Phase: "C", Name: name, Time: micros(max(0, at)), Process: runProcess, Args: values})
	}
	for _, s := range tl.Sizes {
		count("membership list", s.From, map[string]any{"mean": s.Mean, "smallest": s.Min})
	}
	type change struct {
		t  int64
		by int
	}
	var waiting []change
	for i := range tl.Requests {
		q := &tl.Requests[i]
		until := q.End
		if q.Entered {
			until = q.Enter
		}
		waiting = append(waiting, change{q.Asked, 1}, change{until, -1})
	}
	slices.SortStableFunc(waiting, func(a, b change) int { return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.by, b.by)) })
	n := 0
	for i, c := range waiting {
		n += c.by
		if i+1 == len(waiting) || waiting[i+1].t > c.t {
			count("waiting", c.t, map[string]any{"nodes": n})
		}
	}
	if s := tl.Summary; s.Engine == results.Emulated {
		for _, f := range s.Fidelity.Slices {
			if f.DelayErrorMS.P99.Known() {
				count("delay error p99 (ms)", int64(float64(f.ToMS)*1e6), map[string]any{"ms": float64(f.DelayErrorMS.P99)})
			}
		}
	}
}

// messages are slices of a microsecond at both ends, which flows join. Slices
// of a thread must not overlap half: where another begins sooner, one is shorter.
func (t *trace) messages(list []capture.Message, nodes int) {
	begins := map[core.NodeID][]int64{}
	for _, m := range list {
		begins[m.From] = append(begins[m.From], m.Sent)
		begins[m.To] = append(begins[m.To], m.Received)
	}
	for _, at := range begins {
		slices.Sort(at)
	}
	end := func(id core.NodeID, from int64) int64 {
		at := begins[id]
		if next, _ := slices.BinarySearch(at, from+1); next < len(at) {
			return min(from+1000, at[next])
		}
		return from + 1000
	}
	named := map[core.NodeID]bool{}
	for _, m := range list {
		if int(m.From) >= nodes || int(m.To) >= nodes {
			continue
		}
		for _, id := range []core.NodeID{m.From, m.To} {
			if !named[id] {
				named[id] = true
				t.name(meshProcess, messageThread+int(id), fmt.Sprintf("node %d messages", id), 3*int(id)+2)
			}
		}
		from, to := messageThread+int(m.From), messageThread+int(m.To)
		t.slice(meshProcess, from, "message", fmt.Sprintf("%s to %d", m.Kind, m.To), m.Sent, end(m.From, m.Sent), nil)
		t.slice(meshProcess, to, "message", fmt.Sprintf("%s from %d", m.Kind, m.From), m.Received, end(m.To, m.Received), nil)
		t.flow("message", m.Kind, from, to, m.Sent, m.Received)
	}
}
