package results

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// ProcessSummary is what the kernel accounted to the node processes of a real
// run; simulated nodes have none. It holds on a busy host as well.
type ProcessSummary struct {
	// CPU is processor time, user and system, a second of scenario time, ms. It
	// counts from a process's first line of counters after the epoch to its
	// last: what starting takes is left out.
	CPU Load `json:"cpu_ms_s"`
	// Memory is the most memory of its own that a node was seen with (anonymous
	// pages), RSS the most in use, with the program's pages that all share.
	Memory Load `json:"memory_bytes"`
	RSS    Load `json:"rss_bytes"`
}

// processes follows the processes' usage through their logs.
type processes struct {
	of map[core.NodeID]*process
}

type process struct {
	inc         uint32 // of the life that from is of
	from        eventlog.Usage
	at          int64
	cpu         int64 // ns of all lives
	span        int64 // that it is about, ns
	memory, rss int64
}

// line takes in a line of counters.
func (x *processes) line(node core.NodeID, e *eventlog.Event, epoch int64) {
	u := e.Usage
	if u == nil {
		return
	}
	if x.of == nil {
		x.of = map[core.NodeID]*process{}
	}
	p := x.of[node]
	if p == nil {
		p = &process{}
		x.of[node] = p
	}
	p.memory, p.rss = max(p.memory, u.Anon), max(p.rss, u.MaxRSS)
	if epoch < 0 || e.T < epoch {
		return
	}
	if start := uint32(core.Incarnation(e.Inc).Start()); start == p.inc && e.T > p.at {
		p.cpu += max(0, u.CPU-p.from.CPU)
		p.span += e.T - p.at
	} else {
		p.inc = start
	}
	p.from, p.at = *u, e.T
}

// summary is about the nodes that which holds for; nil where nothing was
// measured.
func (x *processes) summary(which func(core.NodeID) bool) *ProcessSummary {
	var cpu, memory, rss []float64
	for n, p := range x.of {
		if !which(n) {
			continue
		}
		if p.span > 0 {
			cpu = append(cpu, float64(p.cpu)/1e6/(float64(p.span)/1e9))
		}
		memory, rss = append(memory, float64(p.memory)), append(rss, float64(p.rss))
	}
	if len(memory) == 0 {
		return nil
	}
	// Sums of floats depend on their order.
	for _, l := range [][]float64{cpu, memory, rss} {
		slices.Sort(l)
	}
	return &ProcessSummary{CPU: loadOf(cpu, 1), Memory: loadOf(memory, 1), RSS: loadOf(rss, 1)}
}

// processes prints the row of the figures.
func (p *printer) processes(name string, s *ProcessSummary) {
	if s == nil {
		return
	}
	const mib = 1 << 20
	p.row(name, "processor time mean %s max %s ms/s; own memory mean %s max %s MiB, resident max %s MiB", num(s.CPU.Mean), num(s.CPU.Max),
		num(s.Memory.Mean/mib), num(s.Memory.Max/mib), num(s.RSS.Max/mib))
}
