// Package timeline reads the logs of a run into what each node did when: its
// lives, pauses, requests and critical sections, its datagrams, and the
// faults of the run, with the verdict beside them. Reports and exports are
// made from it. It judges nothing itself (package results does) and keeps no
// single log line: its size grows with nodes, requests and faults.
//
// A Timeline is not changed after Read; any number of goroutines may read it.
package timeline

import (
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
)

// Timeline is a run by node and instant. Instants are scenario nanoseconds
// since the run's zero.
type Timeline struct {
	Run     *results.Run
	Summary *results.Summary
	Verdict *results.Verdict

	Epoch    int64 // -1 where the logs tell none
	End      int64 // of the run: its "end" line, else the last line of all
	Nodes    []Node
	Requests []Request // as they were asked
	Faults   []Fault   // in the order of their instants
	Links    []results.LinkRow
	Sizes    []SizeBin
	Traffic  Traffic
	Groups   *Groups // nil where the run has no k-groups
}

// Node is what one node did.
type Node struct {
	Lives  []Life
	Pauses []Span // stopped by SIGSTOP
	// Sent and Recv add up the last counters of each life by message kind.
	Sent, Recv map[string]eventlog.Count
}

// Span is the half-open interval [From, To).
type Span struct{ From, To int64 }

// Life is one process of a node.
type Life struct {
	Span
	Inc core.Incarnation // at its start
	How Ended
}

// Ended says how a life ended.
type Ended string

// Endings of lives.
const (
	Killed  Ended = "killed"
	Left    Ended = "left"
	Stopped Ended = "stopped" // by the end of the run
	Died    Ended = "died"    // by itself
	Running Ended = "running" // nothing in the logs ends it
)

// Request is a request with what its log line told beyond the verdict.
type Request struct {
	*results.Request
	Queued int64 // instant of the local arrival, at most Asked
	CS     int64 // intended length of the section
	// Violating: its section overlaps another one that counts; Zombie: one
	// with a holder declared failed.
	Violating, Zombie bool
}

// Fault is one line of the controller about a node or a link.
type Fault struct {
	T    int64
	Kind eventlog.Kind // Kill, Restart, Pause, Resume, LinkSet, Exited, Interrupt
	Node core.NodeID   // core.None where it is about a link or the run
	Link string        // "a-b"
	Verb string        // crash, poweroff, set, partition, ...
	Text string        // the link's new state, a process's status
	Hit  string        // state of the node that it met: NONE, WAIT, HELD
}

// SizeBin tells the lengths of the membership lists of nodes that are up and
// joined during [From, To): the mean over time and nodes, and the smallest.
// Up is the mean number of such nodes.
type SizeBin struct {
	Span
	Mean, Up float64
	Min      int
}

// Traffic counts datagrams handed to the network over time, retransmissions
// included. Counter lines tell sums over seconds, which are spread evenly.
type Traffic struct {
	Bins  []Span
	Kinds []string    // ascending
	N     [][]float64 // [kind][bin] datagrams
	Bytes [][]float64 // [kind][bin] UDP payload
	Class map[string]string
}

// Read reads the run directory dir: twice, side by side, once to judge it.
func Read(dir string) (*Timeline, error) {
	var group errgroup.Group
	judged := &Timeline{}
	group.Go(func() error {
		run, err := results.Open(dir)
		if err != nil {
			return err
		}
		judged.Run = run
		judged.Summary, judged.Verdict, err = results.Judge(run)
		return err
	})
	var c *collector
	group.Go(func() error {
		run, err := results.Open(dir)
		if err != nil {
			return err
		}
		c = newCollector(run.Manifest.Nodes)
		if _, err := run.Merge(func(l *results.Line) error { c.line(l); return nil }); err != nil {
			return err
		}
		return run.ReadLinks(func(l results.LinkRow) error {
			if int(l.A) >= run.Manifest.Nodes || int(l.B) >= run.Manifest.Nodes {
				return fmt.Errorf("read links: link %q joins nodes that the run has not", l.Link)
			}
			c.t.Links = append(c.t.Links, l)
			return nil
		})
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	t := c.finish()
	t.Run, t.Summary, t.Verdict = judged.Run, judged.Summary, judged.Verdict
	t.join(c)
	return t, nil
}

// join brings verdict and logs together.
func (t *Timeline) join(c *collector) {
	at := make(map[*results.Request]int, len(t.Verdict.Requests))
	t.Requests = make([]Request, len(t.Verdict.Requests))
	for i, q := range t.Verdict.Requests {
		at[q] = i
		asked := c.asked[place{q.Node, q.AskedLine}]
		t.Requests[i] = Request{Request: q, Queued: q.Asked, CS: asked.cs}
		if asked.queued != nil {
			t.Requests[i].Queued = min(*asked.queued, q.Asked)
		}
	}
	for _, o := range t.Verdict.Violations {
		t.Requests[at[o.First]].Violating, t.Requests[at[o.Second]].Violating = true, true
	}
	for _, o := range t.Verdict.Zombies {
		t.Requests[at[o.First]].Zombie, t.Requests[at[o.Second]].Zombie = true, true
	}
	t.Traffic.Class = make(map[string]string, len(t.Traffic.Kinds))
	for _, k := range t.Traffic.Kinds {
		t.Traffic.Class[k] = "unknown"
		if known, ok := t.Summary.Messages.ByKind[k]; ok {
			t.Traffic.Class[k] = known.Class
		}
	}
}

// Begin returns the instant at which pictures of the run begin: shortly
// before the epoch where there is one, else the first line.
func (t *Timeline) Begin() int64 {
	if t.Epoch >= 0 {
		return t.Epoch
	}
	first := t.End
	for i := range t.Nodes {
		if l := t.Nodes[i].Lives; len(l) > 0 {
			first = min(first, l[0].From)
		}
	}
	return max(0, first)
}

// Waits returns the waits of served requests in ms, by their entering.
func (t *Timeline) Waits() (at []int64, ms []float64) {
	served := make([]*results.Request, 0, len(t.Requests))
	for i := range t.Requests {
		if q := t.Requests[i].Request; q.Entered {
			served = append(served, q)
		}
	}
	slices.SortStableFunc(served, func(a, b *results.Request) int { return int(min(max(a.Enter-b.Enter, -1), 1)) })
	for _, q := range served {
		at = append(at, q.Enter)
		ms = append(ms, float64(q.Enter-q.Asked)/1e6)
	}
	return at, ms
}
