package minimise

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"churnbed/emulator/scenario"
	"churnbed/results"
	"churnbed/workloads"
)

// Property is what a run fails.
type Property string

// The properties.
const (
	Safety   Property = "safety"   // two nodes were in the critical section at once
	Liveness Property = "liveness" // a request waited out of proportion and was not served
)

// FailedBy returns what s fails, safety first; "" where it fails neither.
func FailedBy(s *results.Summary) Property {
	for _, p := range []Property{Safety, Liveness} {
		if p.failedBy(s) {
			return p
		}
	}
	return ""
}

func (p Property) failedBy(s *results.Summary) bool {
	if p == Safety {
		return s.Safety.Violations > 0
	}
	// The liveness of a run whose host did not keep up is no result.
	return s.Requests.UnservedReasons[results.UnservedWaiting] > 0 && !s.Requests.Unfit
}

// Engine carries out a scenario and judges the run.
type Engine func(ctx context.Context, sc *scenario.Scenario) (*results.Summary, error)

// Options say what to minimise, and how far to go.
type Options struct {
	// Scenario is that of the failing run. Arrivals, where not nil, stand for
	// its requests: what a closed workload came to in that run (ArrivalsOf).
	Scenario *scenario.Scenario
	Arrivals []workloads.Arrival
	Property Property
	Engine   Engine
	// Repeat is how often a schedule is run at most before it counts as not
	// failing; at least 1. It fails where it fails once.
	Repeat int
	// MaxRuns bounds the runs, 0 = no bound.
	MaxRuns int
	// Progress, where given, is told after each schedule that was tried.
	Progress func(Progress)
}

// Progress says how far it has come.
type Progress struct {
	Runs   int    // carried out
	Tried  int    // schedules
	Before Counts // at the beginning
	Left   Counts // of the smallest that fails so far
	Trying int    // items of the schedule just tried
	Failed bool   // it did
}

// Result is the smallest failing schedule that was found.
type Result struct {
	Scenario      *scenario.Scenario // it, as a scenario
	Before, After Counts
	Runs, Tried   int
	// Minimal: without any one of its items the run fails no more (in Repeat
	// tries). Else Why says what ended the search.
	Minimal bool
	Why     string
	items   []item
}

// ErrPasses is wrapped by the error of a run that did not fail again.
var ErrPasses = errors.New("it does not fail again")

// errBudget ends the search.
var errBudget = errors.New("the bound of runs is reached")

// Run searches. An end of ctx, or of the bound of runs, is no error once the
// whole schedule has failed again: the result is then what was found until
// then.
func Run(ctx context.Context, opt Options) (*Result, error) {
	m := &minimiser{opt: opt, seen: map[string]bool{}}
	m.opt.Repeat = max(1, opt.Repeat)
	m.schedule = takeApart(opt.Scenario, opt.Arrivals)
	m.before = count(m.schedule.items)
	m.left = m.schedule.items
	bad, err := m.fails(ctx, m.schedule.items)
	switch {
	case err != nil:
		return nil, err
	case !bad:
		return nil, fmt.Errorf("minimise: %w (%s, %d tries)", ErrPasses, opt.Property, m.opt.Repeat)
	}
	err = m.search(ctx)
	r := &Result{Before: m.before, After: count(m.left), Runs: m.runs, Tried: m.tried, Minimal: err == nil, items: m.left}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		r.Why = "ended early: " + context.Cause(ctx).Error()
	case errors.Is(err, errBudget):
		r.Why = err.Error()
	default:
		return nil, err
	}
	spec, _ := m.schedule.spec(m.left)
	r.Scenario, err = resolve(spec)
	return r, err
}

// YAML returns the scenario with the keys that it needs, below a comment.
func (r *Result) YAML(comment string) ([]byte, error) {
	text, err := r.Scenario.ConciseYAML()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(comment), "\n") {
		b.WriteString("# " + line + "\n")
	}
	b.Write(text)
	return []byte(b.String()), nil
}

// Items lists what is left, in the order of time, as a scenario writes it.
func (r *Result) Items() []string {
	var list []string
	for _, it := range r.items {
		list = append(list, it.String())
	}
	return list
}

type minimiser struct {
	opt      Options
	schedule *schedule
	before   Counts
	left     []item          // the smallest that fails so far
	seen     map[string]bool // what was tried, by its scenario
	runs     int
	tried    int
}

// search leaves out items, then single nodes and links of what names several.
func (m *minimiser) search(ctx context.Context) error {
	fails := func(part []item) (bool, error) { return m.fails(ctx, part) }
	if _, err := ddmin(m.left, fails); err != nil {
		return err
	}
	parts := divide(m.left)
	if len(parts) == len(m.left) {
		return nil
	}
	// Divided faults of one instant are carried out one after the other, which
	// need not come to the same.
	if bad, err := m.fails(ctx, parts); err != nil || !bad {
		return err
	}
	_, err := ddmin(parts, fails)
	return err
}

// fails reports whether the run fails with this part of the schedule alone.
func (m *minimiser) fails(ctx context.Context, part []item) (bool, error) {
	spec, something := m.schedule.spec(part)
	if !something {
		return false, nil
	}
	sc, err := resolve(spec)
	if err != nil {
		return false, err
	}
	key := string(sc.YAML())
	bad, known := m.seen[key]
	if known {
		return bad, nil
	}
	for try := 0; try < m.opt.Repeat && !bad; try++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if m.opt.MaxRuns > 0 && m.runs == m.opt.MaxRuns {
			return false, errBudget
		}
		m.runs++
		s, err := m.opt.Engine(ctx, sc)
		if ctx.Err() != nil {
			return false, ctx.Err() // the run was cut short: it says nothing
		}
		if err != nil {
			return false, err
		}
		bad = m.opt.Property.failedBy(s)
	}
	m.seen[key] = bad
	m.tried++
	if bad {
		m.left = part
	}
	if m.opt.Progress != nil {
		m.opt.Progress(Progress{
			Runs: m.runs, Tried: m.tried, Before: m.before, Left: count(m.left), Trying: len(part), Failed: bad,
		})
	}
	return bad, nil
}
