// Package scenario turns what a user wrote (flags, a YAML file) into one
// immutable, fully resolved Scenario: spec -> resolved. Decoding is strict,
// all errors are listed with their place, and nothing outside is touched but
// the files that the scenario names.
//
// The flags of `churnbed run` and the keys of a scenario file are the same
// flat names with the same values, from one table.
package scenario

import (
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"churnbed/emulator/link"
	"churnbed/node/core"
	"churnbed/node/kgroup"
	"churnbed/node/stack"
	"churnbed/topologies"
	"churnbed/workloads"
)

// Scenario is a resolved scenario. It is shared by emulator and simulator and
// is not changed after Resolve made it.
type Scenario struct {
	Spec      Spec // the resolved values of all keys, as written to scenario.yaml
	Name      string
	Seed      uint64
	TimeScale float64

	Topology *topologies.Topology
	Link     link.Params // default of every direction of every link

	Metric      topologies.Metric
	Convergence time.Duration // routes follow topology changes after it
	Fabric      string        // auto, netem, relay

	Algorithm  stack.Algorithm
	Membership stack.Membership
	Transport  stack.Transport
	// Group is what nodes have in common with k-groups, nil with other
	// algorithms.
	Group *kgroup.Config
	// Lists are the initial membership lists by node, itself left out.
	Lists [][]core.NodeID

	// Up tells which nodes run from the start; the others come by Join.
	Up       []bool
	Arrivals []workloads.Arrival
	Closed   *workloads.Closed // per-node workload instead of Arrivals
	Faults   []workloads.Fault // ascending by At
	// Down are links (indices of Topology.Links) that are down at first.
	Down []int
	// DetectionDelay is how long after a link went or came its ends know.
	DetectionDelay time.Duration

	// Duration is the fixed length of the run after the epoch, 0 = until
	// every arrival was served or Drain after the last arrival is over.
	Duration time.Duration
	Drain    time.Duration
	Warmup   time.Duration // between everyone joined and the epoch

	ProbeEvery    time.Duration
	CountersEvery time.Duration
	Slice         time.Duration // of the fidelity verdict

	Out string // run directory, "" where none was given: see OutDir

	// Warnings are sentences about what is allowed but may surprise.
	Warnings []string

	yaml       []byte // of Spec
	distance   func() [][]float32
	perNode    [][]workloads.Arrival
	neighbours *topologies.Adjacency
}

// YAML returns the resolved scenario as text, the scenario.yaml of a run
// directory: every key with its value. It resolves to the same Scenario.
func (s *Scenario) YAML() []byte { return slices.Clone(s.yaml) }

// OutDir returns the run directory: the one given, or the first of
// runs/NAME-SEED, runs/NAME-SEED-2, ... that taken says does not exist.
func (s *Scenario) OutDir(taken func(dir string) bool) string {
	if s.Out != "" {
		return s.Out
	}
	base := filepath.Join("runs", s.Name+"-"+strconv.FormatUint(s.Seed, 10))
	dir := base
	for i := 2; taken(dir); i++ {
		dir = base + "-" + strconv.Itoa(i)
	}
	return dir
}

// NeedsRelay says which feature of the scenario only the relay fabric has, ""
// where netem can do it all.
func (s *Scenario) NeedsRelay() string {
	if why := needsRelay(s.Topology, s.Link); why != "" {
		return why
	}
	for _, f := range s.Faults {
		if f.Set.Burst != nil {
			return "Gilbert-Elliott loss"
		}
	}
	return ""
}

// SimulatorOnly says which choice of the scenario no real node can follow, ""
// where there is none.
func (s *Scenario) SimulatorOnly() string {
	spec := &s.Spec
	switch {
	case spec.Transport == stack.SourceFixed:
		return "transport source-fixed (a source cannot know of a loss on the way)"
	case spec.ImitateDeferred:
		return "imitate-uncleared-deferred"
	case spec.ImitateLiveSet:
		return "imitate-live-set"
	case spec.ImitateLocalHop:
		return "imitate-local-hop"
	case spec.DetectionDelay > 0:
		return "detection-delay (real nodes are told by their kernel)"
	case spec.ImitateDeparted:
		return "imitate-departed"
	}
	return ""
}

// FaultTarget describes the mesh to the fault language.
func (s *Scenario) FaultTarget() workloads.Target { return faultTarget(s.Topology, s.Link) }

// LinkParams returns the parameters of link i in direction a->b and b->a.
func (s *Scenario) LinkParams(i int) (ab, ba link.Params) {
	l := s.Topology.Links[i]
	return l.AB.Apply(s.Link), l.BA.Apply(s.Link)
}
