package scenario

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits are what the host grants, as emulator/kernel's probes find it; 0
// means no limit, or that it is not known.
type Limits struct {
	// Fabric that the run will take, "netem" or "relay"; "" counts as relay,
	// which needs more.
	Fabric string
	// NoFile is the hard limit of open files a process (RLIMIT_NOFILE).
	NoFile uint64
	// Tasks is how many more processes and threads may be started: the least
	// of pids.max of the control groups, kernel.pid_max, kernel.threads-max
	// and, for an ordinary user, RLIMIT_NPROC, each less what it has now.
	Tasks uint64
	// NetNamespaces is user.max_net_namespaces less those in use.
	NetNamespaces uint64
	// Memory is MemAvailable, or what the control group leaves if that is
	// less, in bytes.
	Memory uint64
}

// Needs are what a run of one scenario takes from the host at its peak.
type Needs struct {
	Nodes, Links    int
	Processes       int    // nodes, supervisor, init of the sandbox, controller
	Tasks           int    // threads of all of them
	ControllerFiles int    // open files of the controller
	SandboxFiles    int    // open files of the supervisor, which builds the fabric
	NetNamespaces   int    // a node each, and the wire
	Devices         int    // ends of veth pairs
	Neighbours      int    // permanent neighbour entries (outside the kernel's limits)
	Routes          int    // host routes, all pairs
	LongestName     int    // of an interface, bytes
	Memory          uint64 // bytes
}

// Figures behind Needs. An idle node process with its gRPC client was
// measured at 1.7 MB (PSS) and 5 to 7 threads; the others are read from the
// kernel's slab sizes and rounded up.
const (
	tasksPerNode     = 8
	tasksOfTestbed   = 64 // controller, supervisor, init, relay
	filesPerSession  = 2  // controller: the node's connection, and one that is just being replaced
	filesPerNode     = 6  // supervisor: namespace, netlink socket, log, process handle, pipes
	filesOfTestbed   = 128
	memoryPerNode    = 3 << 20 // process and namespace
	memoryPerDevice  = 16 << 10
	memoryPerRoute   = 256
	memoryPerPair    = 24 + 4 // of the controller: two tables of routes; and the list's entry
	memoryOfTestbed  = 128 << 20
	memoryShare      = 0.9 // of what is available may be taken
	maxInterfaceName = 15  // IFNAMSIZ less the final zero
)

// Needs returns what a run of the scenario on a fabric takes.
func (s *Scenario) Needs(fabric string) Needs {
	n, links := len(s.Topology.Nodes), len(s.Topology.Links)
	need := Needs{
		Nodes: n, Links: links,
		Processes:       n + 3,
		Tasks:           n*tasksPerNode + tasksOfTestbed,
		ControllerFiles: n*filesPerSession + filesOfTestbed,
		SandboxFiles:    n*filesPerNode + filesOfTestbed,
		NetNamespaces:   n + 1,
		Devices:         2 * links,
		Neighbours:      2 * links,
		Routes:          n * (n - 1),
		LongestName:     len("n") + len(strconv.Itoa(n-1)),
	}
	if fabric != "netem" {
		// Both ends of a link have a pair of their own to the wire.
		need.Devices *= 2
		need.LongestName = max(need.LongestName, len("w")+len(strconv.Itoa(links))+len("a"))
	}
	pairs := uint64(n) * uint64(n)
	need.Memory = memoryOfTestbed + uint64(n)*memoryPerNode + uint64(need.Devices)*memoryPerDevice +
		uint64(need.Routes)*memoryPerRoute + pairs*memoryPerPair
	return need
}

// Shortfall is one thing of which the host has too little.
type Shortfall struct {
	What   string // "open files of the supervisor"
	Need   uint64
	Have   uint64
	Unit   string // "" for a count, "MiB"
	Remedy string
}

func (f Shortfall) String() string {
	unit := ""
	if f.Unit != "" {
		unit = " " + f.Unit
	}
	return fmt.Sprintf("%s: need %d%s, the host grants %d%s: %s", f.What, f.Need, unit, f.Have, unit, f.Remedy)
}

// HostError says that the host cannot carry the run; nothing was created.
// The command ends with exit code 3.
type HostError struct {
	Nodes, Links int
	Shortfalls   []Shortfall
}

func (e *HostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the host is too small for %d nodes and %d links:", e.Nodes, e.Links)
	for _, f := range e.Shortfalls {
		b.WriteString("\n  ")
		b.WriteString(f.String())
	}
	return b.String()
}

// Preflight compares what the scenario needs with what the host grants. The
// error is a *HostError that lists every shortfall with its remedy.
func (s *Scenario) Preflight(l Limits) error {
	return s.Needs(l.Fabric).Check(l)
}

// Check compares needs with limits; see Preflight.
func (n Needs) Check(l Limits) error {
	e := &HostError{Nodes: n.Nodes, Links: n.Links}
	short := func(what string, need, have uint64, remedy string) {
		if have > 0 && need > have {
			e.Shortfalls = append(e.Shortfalls, Shortfall{What: what, Need: need, Have: have, Remedy: remedy})
		}
	}
	short("open files of the controller", uint64(n.ControllerFiles), l.NoFile, "raise the hard limit (ulimit -Hn, or LimitNOFILE of the service), or run fewer nodes")
	short("open files of the supervisor", uint64(n.SandboxFiles), l.NoFile, "raise the hard limit (ulimit -Hn, or LimitNOFILE of the service), or run fewer nodes")
	short("processes and threads", uint64(n.Tasks), l.Tasks, "raise pids.max of the control group, kernel.pid_max, kernel.threads-max or ulimit -u, whichever is least, or run fewer nodes")
	short("network namespaces", uint64(n.NetNamespaces), l.NetNamespaces, "raise user.max_net_namespaces, or run fewer nodes")
	short("bytes of an interface name", uint64(n.LongestName), maxInterfaceName, "run fewer nodes or links")
	if have := uint64(float64(l.Memory) * memoryShare); l.Memory > 0 && n.Memory > have {
		e.Shortfalls = append(e.Shortfalls, Shortfall{
			What: "memory", Need: (n.Memory + 1<<20 - 1) >> 20, Have: have >> 20, Unit: "MiB",
			Remedy: "free memory, or run fewer nodes or links",
		})
	}
	if len(e.Shortfalls) == 0 {
		return nil
	}
	return e
}
