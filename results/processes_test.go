package results

import (
	"testing"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// TestProcesses: a rate counts from the first line after the epoch and not
// over a restart; memory is the most that was seen.
func TestProcesses(t *testing.T) {
	p := newPlant(t, 3)
	usage := func(ms float64, id core.NodeID, cpu, anon int64) {
		p.log(ms, id, eventlog.Event{Kind: eventlog.Counters, Usage: &eventlog.Usage{CPU: cpu * 1e6, Anon: anon, MaxRSS: 10 * anon}})
	}
	usage(1000, 0, 50, 100)
	usage(3000, 0, 54, 300)
	usage(5000, 0, 60, 200)
	usage(1000, 1, 10, 100)
	usage(2000, 1, 13, 100)
	p.kill(2500, 1, "crash")
	p.restart(2600, 1)
	usage(3000, 1, 20, 100)
	usage(4000, 1, 25, 100)
	s, _, err := Judge(p.end(6000))
	if err != nil {
		t.Fatal(err)
	}
	validate(t, s)
	x := s.Processes
	if x == nil || x.CPU.Max != 4 || x.CPU.Mean != 3.25 || x.Memory.Max != 300 || x.Memory.Mean != 200 || x.RSS.Max != 3000 {
		t.Errorf("%+v", x)
	}
	if s.Groups != nil {
		t.Errorf("groups %+v", s.Groups)
	}

	q := newPlant(t, 2)
	if s, _, err := Judge(q.end(1000)); err != nil || s.Processes != nil {
		t.Errorf("%v: a run without usage has %+v", err, s.Processes)
	}
}
