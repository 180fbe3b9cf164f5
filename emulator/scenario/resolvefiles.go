package scenario

import (
	"fmt"
	"io"
	"os"
	"time"

	"churnbed/node/core"
	"churnbed/node/membership/static"
	"churnbed/workloads"
)

// openFile opens a regular file that the scenario names; a fifo or directory
// would block or fail later with less to say.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, errNoFile)
	}
	return os.Open(path)
}

// churn expands churn into faults and tells which nodes run from the start.
func (r *resolver) churn() {
	s := &r.spec
	n := len(r.top.Nodes)
	r.up = make([]bool, n)
	for i := range r.up {
		r.up[i] = true
	}
	if s.Churn == "none" {
		return
	}
	until := r.churnHorizon()
	trace, err := r.trace(n, until)
	if err != nil {
		r.bad("churn", "%v", err)
		return
	}
	faults, up, err := trace.Faults(workloads.TraceOptions{
		SpeedUp: s.ChurnSpeedup, Verb: workloads.Verb(s.ChurnVerb), Initial: s.ChurnInitial, Horizon: until,
		Nodes: n, RandomHosts: s.ChurnChoose == "random", AtBoundaries: s.ChurnAtBoundaries, Seed: s.Seed,
	})
	if err != nil {
		r.bad("churn", "%v", err)
		return
	}
	r.up = up
	r.schedule = workloads.Merge(r.schedule, faults)
}

func (r *resolver) trace(nodes int, until time.Duration) (*workloads.Trace, error) {
	s := &r.spec
	hosts := s.ChurnHosts
	if hosts == 0 {
		hosts = nodes
	}
	switch s.Churn {
	case "overnet":
		days, err := clampDays(until, s.ChurnSpeedup)
		if err != nil {
			return nil, err
		}
		t, err := workloads.Overnet(hosts, days, s.Seed)
		if err != nil {
			return nil, err
		}
		// A host's state is drawn for sample 0 and may change from sample 1
		// on. What changed between the two happened in the sample between
		// them, so churn begins with the run and not one sample later.
		for i := range t.Hosts {
			for j := range t.Hosts[i].Events {
				t.Hosts[i].Events[j].At -= t.Sample
			}
		}
		return t, nil
	case "exponential":
		if _, err := clampDays(until, s.ChurnSpeedup); err != nil {
			return nil, err
		}
		// One nanosecond more, so that rounding loses nothing at the end.
		length := dur(float64(until)*s.ChurnSpeedup) + 1
		return workloads.ExponentialSessions(hosts, s.ChurnUpMean, s.ChurnDownMean, length, s.Seed)
	}
	f, err := openFile(s.Churn)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch s.TraceFormat {
	case "columns":
		return workloads.ReadThreeColumns(f, s.Churn, s.ChurnSample)
	case "avt":
		return workloads.ReadAVT(f, s.Churn)
	default:
		return workloads.ReadTrace(f, s.Churn, s.ChurnSample)
	}
}

// lists fills the initial membership lists: those of the file, or everyone
// that runs from the start.
func (r *resolver) lists() {
	n := len(r.top.Nodes)
	if r.membersIn == "" {
		return // everyone; needs to know who runs from the start
	}
	f, err := openFile(r.membersIn)
	if err != nil {
		r.bad("membership", "%v", err)
		return
	}
	defer f.Close()
	r.allLists, err = static.ReadLists(io.Reader(f), r.membersIn, n)
	if err != nil {
		r.bad("membership", "%v", err)
	}
}

// everyone returns the list of each node: all that run from the start, itself
// left out.
func everyone(up []bool) [][]core.NodeID {
	running := make([]core.NodeID, 0, len(up))
	for id, u := range up {
		if u {
			running = append(running, core.NodeID(id))
		}
	}
	lists := make([][]core.NodeID, len(up))
	for id := range lists {
		list := make([]core.NodeID, 0, len(running))
		for _, other := range running {
			if int(other) != id {
				list = append(list, other)
			}
		}
		lists[id] = list
	}
	return lists
}
