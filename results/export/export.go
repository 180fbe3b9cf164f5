// Package export writes runs in the formats of other tools: a trace for
// Perfetto and Chrome's tracing, tables for notebooks (CSV and Parquet), and
// OpenMetrics text. It reads run directories only (package timeline), judges
// nothing and keeps no state; callers may work side by side.
//
// Instants are scenario time since the run's zero in every format, so that
// they can be compared with the logs.
package export

import (
	"churnbed/node/core"
	"churnbed/results"
	"churnbed/results/timeline"
)

// nobody stands for a node in tables where a line is about none.
const nobody = -1

func nodeNumber(id core.NodeID) int32 {
	if id == core.None {
		return nobody
	}
	return int32(id)
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// optionalMS returns an instant in ms, nil where there is none.
func optionalMS(ns int64, have bool) *float64 {
	if !have {
		return nil
	}
	v := ms(ns)
	return &v
}

func optional(n results.Number) *float64 {
	if !n.Known() {
		return nil
	}
	v := float64(n)
	return &v
}

// served reports whether the request was in the critical section.
func served(q *timeline.Request) bool { return q.Entered }
