package minimise

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/workloads"
)

// ArrivalsOf lists the requests of a run as its logs tell them: when each came
// up at its node, and for how long it wanted the critical section. A request
// that was given up at a forced leave and made again counts once.
func ArrivalsOf(r *results.Run) ([]workloads.Arrival, error) {
	var epoch int64
	err := events(r.Path(results.ControllerFile), func(e *eventlog.Event) {
		if e.Kind == eventlog.Epoch {
			epoch = e.T
		}
	})
	if err != nil {
		return nil, err
	}
	var list []workloads.Arrival
	for id := range core.NodeID(r.Manifest.Nodes) {
		path := r.NodeLog(id)
		if _, err := os.Stat(path); os.IsNotExist(err) {
			continue // it never ran
		}
		// Numbers begin anew with a life where nodes draw their own requests.
		type name struct {
			life int
			no   int
		}
		seen := map[name]bool{}
		err := events(path, func(e *eventlog.Event) {
			n := name{core.Incarnation(e.Inc).Start(), e.No}
			if e.Kind != eventlog.Request || seen[n] {
				return
			}
			seen[n] = true
			at := e.T
			if e.Queued != nil {
				at = *e.Queued
			}
			list = append(list, workloads.Arrival{At: max(0, time.Duration(at-epoch)), Node: id, CS: time.Duration(e.CS)})
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(list, func(a, b workloads.Arrival) int { return cmp.Compare(a.At, b.At) })
	return list, nil
}

func events(path string, visit func(*eventlog.Event)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	r := eventlog.NewReader(path, f)
	for r.Scan() {
		e := r.Event()
		visit(&e)
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	return nil
}
