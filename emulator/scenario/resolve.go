package scenario

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"churnbed/emulator/link"
	"churnbed/node/core"
	"churnbed/node/kgroup"
	"churnbed/node/stack"
	"churnbed/topologies"
	"churnbed/workloads"
)

// MaxNodes bounds a scenario: routes and membership lists grow with the
// square of the nodes, and at 8192 they take about 1.5 GiB.
const MaxNodes = 8192

// MaxTrials bounds the seeds that one command runs.
const MaxTrials = 1_000_000

// leastSlice is how long a slice takes at least, in real time, unless it is
// given: at its end the counters of all links are read.
const leastSlice = time.Second

// Resolve checks a specification as a whole and makes the scenario of it:
// reads the files it names, generates what is random from named streams of
// the seed, and fills what is derived. The same specification, seed and file
// contents give the same Scenario. The error is Problems: everything that is
// wrong, with the place that origin (nil: unknown) knows of it.
func Resolve(spec Spec, origin Origin) (*Scenario, error) {
	r := &resolver{spec: spec, origin: origin}
	// What is appended to below must not be the caller's memory.
	r.spec.Fault = slices.Clone(spec.Fault)
	r.spec.Arrival = slices.Clone(spec.Arrival)
	r.spec.Tags = slices.Clone(spec.Tags)
	r.spec.Rooms = slices.Clone(spec.Rooms)
	r.fixedMembership()
	r.paths()
	r.stack()
	rules := r.rules()
	if r.topology(); r.top != nil {
		r.tags()
		r.tokens()
		r.link()
		r.lists()
		r.groups()
		r.arrivals()
		r.churn()
		r.downAtStart()
		if r.allLists == nil {
			r.allLists = everyone(r.up)
		}
		r.faults(rules)
		r.graph()
		r.majority()
		r.idle()
		r.mortal()
	}
	if err := r.problems.err(); err != nil {
		return nil, err
	}
	return r.scenario()
}

// resolver holds what is being resolved. Each step reports its problems and
// leaves its results; steps after a failed one do without them.
type resolver struct {
	spec     Spec
	origin   Origin
	problems Problems
	warnings []string

	top        *topologies.Topology
	params     link.Params
	algorithm  stack.Algorithm
	membership stack.Membership
	membersIn  string // file of "static:FILE"
	allLists   [][]core.NodeID
	up         []bool
	open       []workloads.Arrival
	closed     *workloads.Closed
	schedule   []workloads.Fault
	edges      workloads.Edges
	group      *kgroup.Config
}

// bad reports a problem of a key; lines of one message are problems of their
// own.
func (r *resolver) bad(key, format string, args ...any) {
	r.badAt(r.origin.at(key), key, fmt.Sprintf(format, args...))
}

func (r *resolver) badAt(place, key, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if place != "--"+key {
			line = key + ": " + line
		}
		r.problems = append(r.problems, Problem{place, line})
	}
}

func (r *resolver) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// paths makes the named files absolute, so that scenario.yaml means the same
// wherever it lies.
func (r *resolver) paths() {
	abs := func(key string, p *string) {
		if *p == "" {
			return
		}
		a, err := filepath.Abs(*p)
		if err != nil {
			r.bad(key, "%q: %v", *p, err)
			return
		}
		*p = a
	}
	abs("topology-file", &r.spec.TopologyFile)
	abs("out", &r.spec.Out)
	abs("routines-file", &r.spec.RoutinesFile)
	if !slices.Contains(churnGenerators, r.spec.Churn) {
		abs("churn", &r.spec.Churn)
	}
	if stack.LinkLocal(r.spec.Algorithm) && !r.origin.has("membership") {
		r.spec.Membership = "static" // neighbours are known by their links
	}
	service, file, err := ParseMembership(r.spec.Membership)
	if err != nil {
		r.bad("membership", "%q: %v", r.spec.Membership, err)
		return
	}
	r.membership.Service = service
	if file != "" {
		abs("membership", &file)
		r.membersIn = file
		r.spec.Membership = "static:" + file
	}
}

// stack fills what every node runs, and checks keys against each other that
// need no topology.
func (r *resolver) stack() {
	s := &r.spec
	r.membership.Period = s.MembershipPeriod
	r.membership.PingTimeout = s.MembershipPingTimeout
	r.membership.Suspicion = s.MembershipSuspicion
	r.membership.Indirect = s.MembershipHelpers
	r.membership.Exponent = s.MembershipExponent
	if s.MembershipPingTimeout >= s.MembershipPeriod {
		r.bad("membership-ping-timeout", "%s: want less than membership-period %s",
			formatDuration(s.MembershipPingTimeout), formatDuration(s.MembershipPeriod))
	}
	if !r.origin.has("suspicion-wait") && r.membership.Service == "medley" {
		s.SuspicionWait = s.MembershipSuspicion
	}
	if !r.origin.has("slice") {
		s.Slice = max(s.Slice, time.Duration(float64(leastSlice)/s.TimeScale))
	}
	r.algorithm = stack.Algorithm{
		Name: s.Algorithm, NUpper: s.NUpper, SuspicionWait: s.SuspicionWait, Release: s.Release,
		Estimate: s.NUpperFrom, Durable: s.Durable, SlowPath: s.SlowPath, TreeFailures: s.TreeFailures, ProbeTimeout: s.ProbeTimeout,
		Snapshot: s.PaperSnapshot, ReleaseByID: s.PaperReleaseByID,
		KeepDeferred: s.ImitateDeferred,
	}
	if s.Durable && s.Algorithm != "camera" {
		r.bad("durable", `"true": only camera keeps its state, but algorithm is %s`, s.Algorithm)
	}
	if s.ProbeTimeout == 0 {
		r.algorithm.ProbeTimeout = -1 // never
	}
	if s.Algorithm != "camera-paper" {
		const why = `"true": a reading of camera-paper, but algorithm is %s`
		if s.PaperSnapshot {
			r.bad("paper-snapshot", why, s.Algorithm)
		}
		if s.PaperReleaseByID {
			r.bad("paper-release-by-id", why, s.Algorithm)
		}
		const artefact = `"true": an artefact of camera-paper, but algorithm is %s`
		if s.ImitateDeferred {
			r.bad("imitate-uncleared-deferred", artefact, s.Algorithm)
		}
		if s.ImitateLiveSet {
			r.bad("imitate-live-set", artefact, s.Algorithm)
		}
	}
	if s.RTOMin > s.RTOMax {
		r.bad("rto-min", "%s: want at most rto-max %s", formatDuration(s.RTOMin), formatDuration(s.RTOMax))
	}
	if s.Transport == "adaptive" && s.RTOMin <= s.RTOMax && (s.RTO < s.RTOMin || s.RTO > s.RTOMax) {
		r.bad("rto", "%s: want rto-min %s to rto-max %s", formatDuration(s.RTO), formatDuration(s.RTOMin), formatDuration(s.RTOMax))
	}
	burst, err := parseLossModel(s.LinkLossModel)
	if err != nil {
		r.bad("link-loss-model", "%q: %v", s.LinkLossModel, err)
	}
	r.params = link.Params{
		Delay: s.LinkDelay, Jitter: s.LinkJitter, Dist: link.Distribution(s.LinkJitterDis), Loss: s.LinkLoss, Rate: s.LinkRate, Burst: burst,
	}
	if burst != nil && s.LinkLoss > 0 {
		r.bad("link-loss", "%s: gilbert-elliott takes the place of link-loss: want 0 with it", formatFloat(s.LinkLoss))
	}
}

// link checks what the fabric cannot do.
func (r *resolver) link() {
	if r.spec.Fabric != "netem" {
		return
	}
	if why := needsRelay(r.top, r.params); why != "" {
		r.bad("fabric", `"netem": %s needs the relay: want relay or auto`, why)
	}
}

// needsRelay says which feature only the relay fabric has, or "".
func needsRelay(t *topologies.Topology, p link.Params) string {
	const why = "Gilbert-Elliott loss"
	if p.Burst != nil {
		return why
	}
	for i := range t.Links {
		if t.Links[i].AB.Burst != nil || t.Links[i].BA.Burst != nil {
			return why
		}
	}
	return ""
}

// arrivals expands the workload.
func (r *resolver) arrivals() {
	s := &r.spec
	if s.grouped() {
		return // routines are the workload
	}
	if len(s.Arrival) > 0 && !r.origin.has("arrivals") {
		s.Arrivals = arrivalsList
	}
	if s.Arrivals == arrivalsList {
		r.listed()
		return
	}
	if len(s.Arrival) > 0 {
		r.bad("arrivals", "%q: with arrival given, want list", s.Arrivals)
	}
	kind, ids, err := parseRequesters(s.Requesters)
	if err != nil {
		r.bad("requesters", "%q: %v", s.Requesters, err)
		return
	}
	for _, id := range ids {
		if int(id) >= len(r.top.Nodes) {
			r.bad("requesters", "%q: node %d: want 0 to %d", s.Requesters, id, len(r.top.Nodes)-1)
			return
		}
	}
	if !r.origin.has("requests") {
		switch {
		case s.Duration > 0 && s.Arrivals != workloads.DistBurst:
			s.Requests = 0
		case len(ids) > 0:
			s.Requests = len(ids)
		}
	}
	if s.Requests == 0 && s.Duration == 0 {
		r.bad("requests", `"0": with duration 0s nothing would happen: want one of them above 0`)
		return
	}
	r.open, r.closed, err = workloads.Arrivals(workloads.ArrivalParams{
		Dist: s.Arrivals, Mean: s.Mean, IRRatio: s.IRRatio, Shape: s.WeibullShape,
		Requests: s.Requests, Duration: s.Duration,
		Requesters: kind, ZipfExponent: s.ZipfExponent, List: ids,
		CS: workloads.CSLength{Dist: s.CSDistribution, Mean: s.CS},
	}, len(r.top.Nodes), s.Seed)
	if err != nil {
		r.bad("arrivals", "%v", err)
		return
	}
	if r.closed == nil && s.Requests > len(r.open) {
		r.bad("requests", "%d: only %d arrive before duration %s is over: give one of the two, or fewer requests",
			s.Requests, len(r.open), formatDuration(s.Duration))
	}
}

// listed takes the requests that are given one by one.
func (r *resolver) listed() {
	s := &r.spec
	list := make([]workloads.Arrival, 0, len(s.Arrival))
	for i, text := range s.Arrival {
		a, err := workloads.ParseArrival(text, s.CS)
		if err == nil && int(a.Node) >= len(r.top.Nodes) {
			err = fmt.Errorf("node %d: want 0 to %d", a.Node, len(r.top.Nodes)-1)
		}
		if err != nil {
			r.badAt(r.origin.item("arrival", i), "arrival", fmt.Sprintf("%q: %v", text, err))
			continue
		}
		list = append(list, a)
	}
	if len(list) < len(s.Arrival) {
		return
	}
	if len(list) == 0 && s.Duration == 0 {
		r.bad("arrivals", `"list": with no arrival and duration 0s nothing would happen: give at least one arrival`)
		return
	}
	if r.origin.has("requests") && s.Requests != len(list) {
		r.bad("requests", "%d: arrival lists %d: leave requests out", s.Requests, len(list))
		return
	}
	s.Requests = len(list)
	var err error
	if r.open, err = workloads.Explicit(list, len(r.top.Nodes)); err != nil {
		r.bad("arrival", "%v", err)
	}
}

// scenario puts the result together.
func (r *resolver) scenario() (*Scenario, error) {
	s := r.spec
	out := s.Out
	s.Out = "" // a run repeated from its scenario.yaml gets a directory of its own
	text, err := s.YAML()
	if err != nil {
		return nil, err
	}
	return &Scenario{
		Spec: s, Name: s.Name, Seed: s.Seed, TimeScale: s.TimeScale,
		Topology: r.top, Link: r.params,
		Metric: topologies.Metric(s.Routing), Convergence: s.Convergence, Fabric: s.Fabric,
		Algorithm: r.algorithm, Membership: r.membership,
		Transport: stack.Transport{Mode: s.Transport, RTO: s.RTO, Min: s.RTOMin, Max: s.RTOMax},
		Lists:     r.allLists, Up: r.up, Arrivals: r.open, Closed: r.closed, Faults: r.schedule, Down: r.edges.Down, DetectionDelay: s.DetectionDelay,
		Duration: s.Duration, Drain: s.Drain, Warmup: s.Warmup,
		ProbeEvery: s.ProbeEvery, CountersEvery: s.CountersEvery, Slice: s.Slice,
		Out: out, Warnings: r.warnings, Group: r.group,
		yaml: text, distance: sync.OnceValue(r.distances), perNode: arrivalsByNode(r.open, len(r.top.Nodes)), neighbours: r.top.Adjacency(),
	}, nil
}

// distances computes what Medley weighs its targets by: nil for another
// service. It is asked for when the first node is configured, so that a mesh
// that is too large for the host is refused before the time that this takes.
func (r *resolver) distances() [][]float32 {
	if r.membership.Service != "medley" {
		return nil
	}
	n := len(r.top.Nodes)
	all := make([][]float32, n)
	flat := make([]float32, n*n)
	metric := map[string]topologies.Metric{
		"path": topologies.Euclid, "hops": topologies.Hops, "delay": topologies.Delay,
	}[r.spec.MembershipDistance]
	var routes *topologies.Routes
	if metric != "" {
		routes = topologies.ComputeRoutes(r.top, metric, nil, nil, func(i int, ab bool) time.Duration {
			if ab {
				return r.top.Links[i].AB.Apply(r.params).Delay
			}
			return r.top.Links[i].BA.Apply(r.params).Delay
		})
	}
	for i := range n {
		row := flat[i*n : (i+1)*n : (i+1)*n]
		for j := range n {
			a, b := core.NodeID(i), core.NodeID(j)
			var d float64
			switch {
			case i == j:
				continue
			case routes == nil:
				d = topologies.Distance(r.top.Nodes[i], r.top.Nodes[j])
			case metric == topologies.Hops:
				d = float64(routes.Hops(a, b))
			default:
				d = routes.Length(a, b)
			}
			row[j] = float32(max(d, leastDistance))
		}
		all[i] = row
	}
	return all
}

// leastDistance keeps 1/d^m finite for two nodes at one place.
const leastDistance = 1e-6

func arrivalsByNode(all []workloads.Arrival, nodes int) [][]workloads.Arrival {
	byNode := make([][]workloads.Arrival, nodes)
	for _, a := range all {
		byNode[a.Node] = append(byNode[a.Node], a)
	}
	return byNode
}

// errNoFile is for files that are something else.
var errNoFile = errors.New("not a regular file")

// clampDays returns how many days of a generated trace cover the horizon.
func clampDays(horizon time.Duration, speedUp float64) (int, error) {
	days := math.Ceil(horizon.Hours()*speedUp/24 + 0.1) // a few samples to spare
	if days > 366 {
		return 0, fmt.Errorf("%s at churn-speedup %s are %.0f days of the trace: want at most 366", formatDuration(horizon), formatFloat(speedUp), days)
	}
	return max(int(days), 1), nil
}
