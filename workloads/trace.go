package workloads

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"churnbed/node/core"
)

// Trace is the availability of hosts over time, as measured or generated.
type Trace struct {
	Hosts []Host
	// Sample is the sampling period: an event at time t happened somewhere
	// in [t, t+Sample). 0 = the instants are exact.
	Sample time.Duration
	// Length is the time the trace covers; 0 = until its last event.
	Length time.Duration
}

// Host is one host of a trace.
type Host struct {
	Name    string
	Initial bool         // up at time 0
	Events  []TraceEvent // ascending by At, Up alternates
}

// TraceEvent is a host that comes up or goes down, At after the trace began.
type TraceEvent struct {
	At time.Duration
	Up bool
}

// Initial populations of TraceOptions.Initial.
const (
	InitialUp    = "up"
	InitialTrace = "trace"
)

// TraceOptions say how a trace becomes faults.
type TraceOptions struct {
	// SpeedUp divides all times of the trace, > 0, default 1. The Camera
	// authors' "churn forward rate" r replays r trace seconds in a scenario
	// millisecond, so it is SpeedUp 1000 r: at r = 60 a 20-minute sample
	// lasts 20 ms. A membership service with a suspicion time of 16 s
	// cannot follow that; 10 to 100 is what one can.
	SpeedUp float64
	// Verb is what the trace's leaves do: Crash (default), Poweroff or Leave.
	Verb Verb
	// Initial is InitialUp (default): all nodes run from the start, the
	// trace's first effect on a node is its first leave; or InitialTrace:
	// only hosts that are up at time 0 run from the start, the others come
	// by Join at their first join.
	Initial string
	// Horizon drops what happens at or after it (scenario time); 0 = keep all.
	Horizon time.Duration
	// Nodes is the number of nodes, at most the number of hosts.
	Nodes int
	// RandomHosts chooses the hosts by the seed where there are more than
	// Nodes; without it they are the first ones. Chosen hosts keep their order.
	RandomHosts bool
	// AtBoundaries lets all events of a sample happen together at its
	// beginning, as the Camera authors' simulator replays it. Without it each
	// event falls uniformly at random within its sample (a host's own events
	// keep their order).
	AtBoundaries bool
	Seed         uint64
}

func (o TraceOptions) withDefaults() TraceOptions {
	if o.SpeedUp == 0 {
		o.SpeedUp = 1
	}
	if o.Verb == "" {
		o.Verb = Crash
	}
	if o.Initial == "" {
		o.Initial = InitialUp
	}
	return o
}

func (o TraceOptions) validate(hosts int) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !positive(o.SpeedUp) {
		bad("churn speed-up %v: must be finite and > 0", o.SpeedUp)
	}
	if o.Verb != Crash && o.Verb != Poweroff && o.Verb != Leave {
		bad("churn verb %q: allowed are crash, poweroff, leave", o.Verb)
	}
	if o.Initial != InitialUp && o.Initial != InitialTrace {
		bad("initial population %q: allowed are up, trace", o.Initial)
	}
	if o.Horizon < 0 {
		bad("churn horizon %v: must be >= 0", o.Horizon)
	}
	switch {
	case o.Nodes < 1:
		bad("nodes %d: must be >= 1", o.Nodes)
	case o.Nodes > hosts:
		bad("the churn trace has %d hosts for %d nodes: use a trace with more hosts or fewer nodes", hosts, o.Nodes)
	}
	return errors.Join(errs...)
}

// Faults maps the hosts of the trace to nodes 0..Nodes-1 and its events to
// faults, ascending by time. A leave kills the node if it runs, a join starts
// it if it does not: Restart, or Join if it never ran; other events have no
// effect and are left out. Up tells which nodes run from the start.
func (t *Trace) Faults(o TraceOptions) (faults []Fault, up []bool, err error) {
	o = o.withDefaults()
	if err := errors.Join(o.validate(len(t.Hosts)), t.Validate()); err != nil {
		return nil, nil, fmt.Errorf("expand churn trace: %w", err)
	}
	hosts := make([]int, o.Nodes)
	for i := range hosts {
		hosts[i] = i
	}
	if o.RandomHosts {
		hosts = core.Stream(o.Seed, "churn/hosts").Perm(len(t.Hosts))[:o.Nodes]
		slices.Sort(hosts)
	}
	up = make([]bool, o.Nodes)
	for node, h := range hosts {
		host := t.Hosts[h]
		up[node] = o.Initial == InitialUp || host.Initial
		running, started := up[node], up[node]
		// One stream a node: what happens to it does not depend on how many
		// others there are.
		rng := core.Stream(o.Seed, fmt.Sprintf("churn/spread/%d", node))
		for i, at := range t.spread(host.Events, o.AtBoundaries, rng) {
			scaled := at / o.SpeedUp
			if scaled >= math.MaxInt64 {
				break // beyond any scenario
			}
			f := Fault{At: time.Duration(scaled), Nodes: []core.NodeID{core.NodeID(node)}, Source: ChurnSource}
			if o.Horizon > 0 && f.At >= o.Horizon {
				break
			}
			switch goesUp := host.Events[i].Up; {
			case goesUp == running:
				continue
			case !goesUp:
				f.Verb = o.Verb
			case started:
				f.Verb = Restart
			default:
				f.Verb = Join
			}
			running = !running
			started = started || running
			if len(faults) == maxFaults {
				return nil, nil, fmt.Errorf("expand churn trace: more than %d departures and returns of %d nodes: want a lower churn-speedup, fewer nodes, or a shorter duration (churn-until)", maxFaults, o.Nodes)
			}
			faults = append(faults, f)
		}
	}
	return Merge(faults), up, nil
}

// spread returns the instants of a host's events in nanoseconds of trace time.
func (t *Trace) spread(events []TraceEvent, boundaries bool, rng *rand.Rand) []float64 {
	at := make([]float64, len(events))
	for i, e := range events {
		at[i] = float64(e.At)
		if t.Sample > 0 && !boundaries {
			at[i] += rng.Float64() * float64(t.Sample)
		}
	}
	// Events of one sample were drawn independently; their order is known.
	slices.Sort(at)
	return at
}

// Validate reports hosts whose events are out of order or change nothing, or
// that have no name or the name of another.
func (t *Trace) Validate() error {
	if t.Sample < 0 || t.Length < 0 {
		return fmt.Errorf("trace with sample %v and length %v: must be >= 0", t.Sample, t.Length)
	}
	seen := make(map[string]bool, len(t.Hosts))
	for i, h := range t.Hosts {
		if !validHostName(h.Name) {
			return fmt.Errorf("host %d of the trace: name %q is empty, starts with # or has a space", i, h.Name)
		}
		if seen[h.Name] {
			return fmt.Errorf("host %d of the trace: %q appears twice", i, h.Name)
		}
		seen[h.Name] = true
		last, state := time.Duration(0), h.Initial
		for _, e := range h.Events {
			if e.At < last {
				return fmt.Errorf("host %q of the trace: event at %v after one at %v", h.Name, e.At, last)
			}
			if e.Up == state {
				return fmt.Errorf("host %q of the trace: event at %v changes nothing (up %v)", h.Name, e.At, e.Up)
			}
			last, state = e.At, e.Up
		}
	}
	return nil
}

// end returns the time the trace covers.
func (t *Trace) end() time.Duration {
	end := t.Length
	for _, h := range t.Hosts {
		if n := len(h.Events); n > 0 {
			end = max(end, h.Events[n-1].At+t.Sample)
		}
	}
	return end
}
