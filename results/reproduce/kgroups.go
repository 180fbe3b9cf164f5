package reproduce

import (
	"maps"
	"math"
	"slices"
	"strings"

	"churnbed/results"
)

// KGroups is the metric of runs with k-groups, Assignments that of the group
// assignments alone, which nothing runs for. Both have figures.
const (
	KGroups     = "kgroups"
	Assignments = "assignments"
)

// Figures of Assignments.
const (
	// Survived is the share of draws in which every group keeps more than f
	// members when x smart nodes fail at once.
	Survived = "survived"
	// MemberTime and LeaderTime are the shares of smart nodes that are in the
	// role for at most x % of the epochs.
	MemberTime = "member-time"
	LeaderTime = "leader-time"
	// GroupsAtOnce is the share of (smart node, epoch) with at most x groups.
	GroupsAtOnce = "groups-at-once"
	// QuorumHops is the mean number of hops from a leader to the f nearest
	// other members, MemberHops that to all others.
	QuorumHops = "quorum-hops"
	MemberHops = "member-hops"
)

var assignmentFigures = []string{Survived, MemberTime, LeaderTime, GroupsAtOnce, QuorumHops, MemberHops}

// groupTimes are the distributions of a run with k-groups, ms.
var groupTimes = map[string]func(*results.GroupSummary) *results.Dist{
	"client":    func(s *results.GroupSummary) *results.Dist { return &s.ClientMS },
	"acquire":   func(s *results.GroupSummary) *results.Dist { return &s.AcquireMS },
	"sync":      func(s *results.GroupSummary) *results.Dist { return &s.SyncMS },
	"quorum":    func(s *results.GroupSummary) *results.Dist { return &s.QuorumMS },
	"election":  func(s *results.GroupSummary) *results.Dist { return &s.ElectionMS },
	"transfer":  func(s *results.GroupSummary) *results.Dist { return &s.TransferMS },
	"gap":       func(s *results.GroupSummary) *results.Dist { return &s.GapMS },
	"detection": func(s *results.GroupSummary) *results.Dist { return &s.DetectionMS },
}

var parts = map[string]func(*results.Dist) results.Number{
	"mean": func(d *results.Dist) results.Number { return d.Mean },
	"p50":  func(d *results.Dist) results.Number { return d.P50 },
	"p90":  func(d *results.Dist) results.Number { return d.P90 },
	"p99":  func(d *results.Dist) results.Number { return d.P99 },
	"max":  func(d *results.Dist) results.Number { return d.Max },
}

// groupRates are other figures of such a run: bytes a second of a node that
// manages devices, mean over them or the largest; executions by triggers.
var groupRates = map[string]func(*results.GroupSummary) float64{
	"foreground.mean": func(s *results.GroupSummary) float64 { return float64(s.Foreground.Mean) },
	"background.mean": func(s *results.GroupSummary) float64 { return float64(s.Background.Mean) },
	"bytes.mean":      func(s *results.GroupSummary) float64 { return float64(s.Foreground.Mean + s.Background.Mean) },
	"bytes.max":       func(s *results.GroupSummary) float64 { return float64(s.Sent.Max) },
	"foreground.max":  func(s *results.GroupSummary) float64 { return float64(s.Foreground.Max) },
	"background.max":  func(s *results.GroupSummary) float64 { return float64(s.Background.Max) },
	"executed":        func(s *results.GroupSummary) float64 { return float64(s.Executed) / float64(s.Triggered) },
}

// processFigures are about the node processes that manage devices, of real
// runs: processor time, ms a second of scenario time; memory of their own, KiB.
var processFigures = map[string]func(*results.ProcessSummary) results.Number{
	"processor.mean": func(s *results.ProcessSummary) results.Number { return s.CPU.Mean },
	"processor.max":  func(s *results.ProcessSummary) results.Number { return s.CPU.Max },
	"memory.mean":    func(s *results.ProcessSummary) results.Number { return s.Memory.Mean / 1024 },
	"memory.max":     func(s *results.ProcessSummary) results.Number { return s.Memory.Max / 1024 },
}

func groupFigures() []string {
	names := slices.Collect(maps.Keys(groupRates))
	names = slices.AppendSeq(names, maps.Keys(processFigures))
	for time := range groupTimes {
		for part := range parts {
			names = append(names, time+"."+part)
		}
	}
	slices.Sort(names)
	return names
}

// groupFigure computes a figure of a run with k-groups, NaN where there is
// none.
func groupFigure(name string, t *results.Trial) float64 {
	if t.Summary == nil || t.Summary.Groups == nil {
		return math.NaN()
	}
	if of := groupRates[name]; of != nil {
		return of(t.Summary.Groups)
	}
	if of := processFigures[name]; of != nil {
		if p := t.Summary.Groups.Processes; p != nil {
			return float64(of(p))
		}
		return math.NaN()
	}
	time, part, _ := strings.Cut(name, ".")
	return float64(parts[part](groupTimes[time](t.Summary.Groups)))
}

// FigureOf names the figure of a cell: that of its series, or of its series
// and its point with a dot between.
func FigureOf(p *Point, l *Series) string {
	if p.Figure == "" {
		return l.Figure
	}
	return l.Figure + "." + p.Figure
}
