package export

import (
	"cmp"
	"fmt"
	"slices"

	"churnbed/results/timeline"
)

// Processes of a trace of a run with k-groups: group i and routine i have
// thread 1+i of theirs.
const (
	groupProcess   = 3
	routineProcess = 4
)

// span is a slice before it is known what came before it on its track.
type span struct {
	thread         int
	category, name string
	from, to       int64
	args           map[string]any
}

// groups writes who served each group, migrations, and what each routine did.
func (t *trace) groups(tl *timeline.Timeline) {
	g := tl.Groups
	if g == nil {
		return
	}
	var terms, runs []span
	for i := range g.Terms {
		m := &g.Terms[i]
		if m.Active < 0 {
			continue
		}
		terms = append(terms, span{1 + int(m.Group), "term", fmt.Sprintf("node %d", m.Leader), m.Active, m.End, map[string]any{
			"epoch": m.Epoch, "term": m.Term, "members": idText(m.Members), "ended": string(m.How),
		}})
	}
	for i := range g.Migrations {
		if m := &g.Migrations[i]; m.Active >= 0 {
			terms = append(terms, span{1 + int(m.Group), "migration", "migration", m.Frozen, m.Active, map[string]any{
				"from_epoch": m.From, "to_epoch": m.To, "attempts": m.Attempts, "unchanged": m.Unchanged,
			}})
		}
	}
	for i := range g.Runs {
		r := &g.Runs[i]
		args := map[string]any{"run": r.Number, "attempts": r.Attempts, "leader": nodeNumber(r.Leader)}
		add := func(name string, from int64, until ...int64) {
			if from < 0 {
				return
			}
			for _, to := range append(until, tl.End) {
				if to >= from {
					runs = append(runs, span{1 + int(r.Routine), "routine", name, from, to, args})
					return
				}
			}
		}
		add("acquiring locks", r.Triggered, r.Executing, r.Done)
		add("executing", r.Executing, r.Releasing, r.Done)
		add("releasing locks", r.Releasing, r.Done)
	}
	t.tracks(groupProcess, "k-groups", "group", terms)
	t.tracks(routineProcess, "routines", "routine", runs)
}

// tracks writes the slices of a process. Those of one track must not overlap
// by half: what begins before the one before ended is cut at its front.
func (t *trace) tracks(process int, title, track string, spans []span) {
	t.add(&traceEvent{Phase: "M", Name: "process_name", Process: process, Args: map[string]any{"name": title}})
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.thread, b.thread), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	thread, free := 0, int64(0)
	for _, s := range spans {
		if s.thread != thread {
			thread, free = s.thread, 0
			t.name(process, thread, fmt.Sprintf("%s %d", track, thread-1), thread)
		}
		if from := max(s.from, free); from < s.to || s.from == s.to {
			t.slice(process, thread, s.category, s.name, from, max(from, s.to), s.args)
			free = max(from, s.to)
		}
	}
}
