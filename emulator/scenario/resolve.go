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
	"churnbed/node/size"
	"churnbed/node/stack"
	"churnbed/topologies"
	"churnbed/workloads"
)

// MaxNodes bounds a scenario: routes and membership lists grow with the
// square of the nodes, and at 8192 they take about 1.5 GiB.
const MaxNodes = 8192

// MaxTrials bounds the seeds that one command runs.
const MaxTrials = 1_000_000

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
	burst, err := ParseLossModel(s.LinkLossModel)
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

// topology reads or generates the mesh.
func (r *resolver) topology() {
	key := "topology"
	var t *topologies.Topology
	var err error
	if r.spec.TopologyFile != "" {
		key = "topology-file"
		t, err = r.readTopology()
	} else {
		t, err = r.generate()
	}
	switch {
	case err != nil:
		r.bad(r.culprit(key, err.Error()), "%v", err)
		return
	case t == nil: // reported
		return
	case len(t.Nodes) > MaxNodes:
		r.bad(key, "%d nodes: want at most %d", len(t.Nodes), MaxNodes)
		return
	case len(t.Nodes) == 0:
		r.bad(key, "no nodes: want at least 1")
		return
	}
	if n := len(t.Nodes); r.origin.has("nodes") && r.spec.Nodes != n {
		r.bad("nodes", "%d: %s has %d nodes: leave nodes out, or give rtt-nodes with a round-trip matrix",
			r.spec.Nodes, r.spec.topologyName(), n)
	}
	if t = r.mobile(t); t == nil {
		return
	}
	r.spec.Nodes = len(t.Nodes)
	if t.Radius > 0 {
		r.spec.Radius = t.Radius
	}
	if parts := t.Components(); len(parts) > 1 {
		r.disconnected(key, t, parts)
		return
	}
	r.top = t
}

func (r *resolver) disconnected(key string, t *topologies.Topology, parts [][]core.NodeID) {
	largest := 0
	for _, p := range parts {
		largest = max(largest, len(p))
	}
	remedy := "keep its largest part with largest: true"
	if t.Radius > 0 {
		remedy = fmt.Sprintf("raise radius above %s m, add nodes, or %s", formatFloat(t.Radius), remedy)
	}
	r.bad(key, "%s is disconnected: %d parts, the largest has %d of %d nodes: %s",
		r.spec.topologyName(), len(parts), largest, len(t.Nodes), remedy)
}

// topologyName names the mesh in errors.
func (s *Spec) topologyName() string {
	if s.TopologyFile != "" {
		return s.TopologyFile
	}
	return "the " + s.Topology + " topology"
}

// culprit returns the key that an error of the topology speaks of: a key that
// the user gave and that stands first in the text, or the one given.
func (r *resolver) culprit(key, text string) string {
	best := len(text)
	for _, name := range []string{"nodes", "area", "radius", "rows", "cols", "layers", "step", "rooms", "min-spacing", "survivable", "rtt-nodes", "rtt-scale", "topology-format"} {
		if at := wordIndex(text, name); at >= 0 && at < best && r.origin.has(name) {
			best, key = at, name
		}
	}
	return key
}

// wordIndex returns where word stands in text as a word of its own, or -1.
func wordIndex(text, word string) int {
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return -1
		}
		at += from
		end := at + len(word)
		if (at == 0 || !isWordByte(text[at-1])) && (end == len(text) || !isWordByte(text[end])) {
			return at
		}
		from = end
	}
}

func isWordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-'
}

func (r *resolver) readTopology() (*topologies.Topology, error) {
	s := &r.spec
	opt := topologies.ReadOptions{
		Radius: s.Radius, Nodes: s.RTTNodes, RandomNodes: s.RTTRandom, Seed: s.Seed, Scale: s.RTTScale,
		WifiOnly: s.WifiOnly, Largest: s.Largest,
		Note: func(text string) { r.warn("%s: %s", s.TopologyFile, text) },
	}
	if s.TopologyFormat != "auto" {
		opt.Format = topologies.Format(s.TopologyFormat)
	}
	return topologies.ReadFile(s.TopologyFile, opt)
}

func (r *resolver) generate() (*topologies.Topology, error) {
	s := &r.spec
	p := topologies.GenerateParams{
		Kind: topologies.Kind(s.Topology), Radius: s.Radius, Step: s.Step,
		MinSpacing: s.MinSpacing, Survivable: s.Survivable,
	}
	byCount := true
	switch p.Kind {
	case topologies.Random:
		p.Width, p.Height = s.Area.Width, s.Area.Height
	case topologies.Cluster:
		p.Width, p.Height = s.Area.Width, s.Area.Height
		failed := false
		for i, text := range s.Rooms {
			room, err := topologies.ParseRoom(text)
			if err != nil {
				r.badAt(r.origin.item("rooms", i), "rooms", err.Error())
				failed = true
				continue
			}
			p.Rooms = append(p.Rooms, room)
		}
		if failed {
			return nil, nil
		}
		byCount = len(p.Rooms) == 0
	case topologies.Grid:
		p.Width, p.Height = s.Area.Width, s.Area.Height
		p.Rows, p.Cols = s.Rows, s.Cols
		if s.Step == 0 && !r.origin.has("area") {
			// The default area suits random meshes; a grid that nobody gave
			// an area keeps its cells square.
			s.Step = topologies.DefaultStep
			p.Step = s.Step
		}
		byCount = p.Rows == 0 || p.Cols == 0
	case topologies.Grid3D:
		p.Rows, p.Cols, p.Layers = s.Rows, s.Cols, s.Layers
		byCount = p.Rows == 0 || p.Cols == 0 || p.Layers == 0
	case topologies.Line, topologies.LShape, topologies.Ring, topologies.Full:
	}
	if byCount || r.origin.has("nodes") {
		p.Nodes = s.Nodes
	}
	if cells := p.Rows * p.Cols * max(1, p.Layers); p.Nodes > MaxNodes || cells > MaxNodes {
		return nil, fmt.Errorf("%d nodes: want at most %d", max(p.Nodes, cells), MaxNodes)
	}
	return topologies.Generate(p, s.Seed)
}

// tags adds the scenario's tags to those of the topology.
func (r *resolver) tags() {
	nodes := slices.Clone(r.top.Nodes)
	for i, text := range r.spec.Tags {
		name, ids, err := ParseTag(text)
		if err != nil {
			r.badAt(r.origin.item("tags", i), "tags", fmt.Sprintf("%q: %v", text, err))
			continue
		}
		for _, id := range ids {
			if int(id) >= len(nodes) {
				r.badAt(r.origin.item("tags", i), "tags", fmt.Sprintf("%q: node %d: want 0 to %d", text, id, len(nodes)-1))
				break
			}
			if !slices.Contains(nodes[id].Tags, name) {
				nodes[id].Tags = append(slices.Clip(nodes[id].Tags), name)
			}
		}
	}
	tagged := *r.top
	tagged.Nodes = nodes
	r.top = &tagged
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
	kind, ids, err := ParseRequesters(s.Requesters)
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

// downAtStart takes nodes from those that run from the start.
func (r *resolver) downAtStart() {
	if r.spec.DownAtStart == "none" {
		return
	}
	ids, err := parseIDs(r.spec.DownAtStart)
	if err != nil {
		r.bad("down-at-start", "%q: %v", r.spec.DownAtStart, err)
		return
	}
	for _, id := range ids {
		if int(id) >= len(r.up) {
			r.bad("down-at-start", "%q: node %d: want 0 to %d", r.spec.DownAtStart, id, len(r.up)-1)
			return
		}
		r.up[id] = false
	}
	if !slices.Contains(r.up, true) {
		r.bad("down-at-start", "%q: nobody would run", r.spec.DownAtStart)
	}
}

// churnHorizon is when churn ends: about when an unhindered mesh would be done
// with the workload. It ends at all because every death holds up a node's next
// request until the death is confirmed: under churn without end a busy node is
// served once a suspicion time, and in the end the majority is gone.
func (r *resolver) churnHorizon() time.Duration {
	s := &r.spec
	if s.ChurnUntil > 0 {
		return s.ChurnUntil
	}
	if s.Duration > 0 {
		return s.Duration
	}
	if c := r.closed; c != nil {
		think := float64(time.Second) / c.Rate * float64(c.Quota)
		serve := float64(c.CS.Mean) * float64(c.Quota) * float64(len(r.top.Nodes))
		return time.Duration(min(max(think+serve, 1), float64(maxDuration)))
	}
	var last, serve time.Duration
	for _, a := range r.open {
		last = max(last, a.At)
		if serve < maxDuration {
			serve += a.CS
		}
	}
	return max(last+serve, 1)
}

// faultTarget describes a mesh to the fault language.
func faultTarget(top *topologies.Topology, params link.Params) workloads.Target {
	t := workloads.Target{Nodes: len(top.Nodes), Tags: map[string][]core.NodeID{}, Link: params}
	for id := range top.Nodes {
		for _, tag := range top.Nodes[id].Tags {
			t.Tags[tag] = append(t.Tags[tag], core.NodeID(id))
		}
	}
	for i := range top.Links {
		l := &top.Links[i]
		t.Links = append(t.Links, [2]core.NodeID{l.A, l.B})
		t.LinkParams = append(t.LinkParams, [2]link.Params{l.AB.Apply(params), l.BA.Apply(params)})
	}
	return t
}

// rules parses the fault rules; nil stands for a wrong one.
func (r *resolver) rules() []*workloads.Rule {
	rules := make([]*workloads.Rule, len(r.spec.Fault))
	for i, text := range r.spec.Fault {
		rule, err := workloads.ParseFault(text)
		if err != nil {
			r.badAt(r.origin.item("fault", i), "fault", fmt.Sprintf("%q: %v", text, err))
			continue
		}
		rules[i] = &rule
	}
	return rules
}

func (r *resolver) faults(rules []*workloads.Rule) {
	if len(rules) == 0 {
		return
	}
	target := faultTarget(r.top, r.params)
	for i, rule := range rules {
		if rule == nil {
			continue
		}
		// The index counts from 1, as people count the lines of a list.
		faults, err := rule.Expand(target, r.spec.Seed, i+1)
		if err != nil {
			r.badAt(r.origin.item("fault", i), "fault", err.Error())
			continue
		}
		if err := checkFaults(r.group, faults); err != nil && (r.group != nil || !r.spec.grouped()) {
			r.badAt(r.origin.item("fault", i), "fault", fmt.Sprintf("%q: %v", r.spec.Fault[i], err))
		}
		if r.spec.Fabric == "netem" && rule.Set.Burst != nil {
			r.badAt(r.origin.item("fault", i), "fault", fmt.Sprintf("%q: Gilbert-Elliott loss needs the relay: want fabric relay or auto", r.spec.Fault[i]))
		}
		r.schedule = workloads.Merge(r.schedule, faults)
	}
}

// majority warns where the schedule leaves camera without a majority.
func (r *resolver) majority() {
	s := &r.spec
	estimated := s.NUpperFrom == stack.Gossip
	switch {
	case estimated && s.Algorithm != "camera":
		r.bad("n-upper-from", "%q: only camera takes a bound, but algorithm is %s", s.NUpperFrom, s.Algorithm)
		return
	case s.NUpper == 0 && estimated:
		s.NUpper = 1
	case s.NUpper == 0:
		s.NUpper = s.Nodes
	}
	r.algorithm.NUpper = s.NUpper
	if s.Algorithm != "camera" {
		return
	}
	if s.NUpper/2 >= s.Nodes {
		r.bad("n-upper", "%d: a majority needs %d nodes, but there are %d", s.NUpper, s.NUpper/2+1, s.Nodes)
		return
	}
	upper := s.NUpper
	switch {
	case estimated:
		upper = max(upper, int(size.Margin*float64(s.Nodes)))
	case s.NUpper < s.Nodes:
		r.warn("n-upper %d is below the %d nodes of the topology: camera is safe only if no more than that take part at a time", s.NUpper, s.Nodes)
	}
	least, at := leastUp(r.up, r.schedule)
	if least <= upper/2 {
		r.warn("only %d of %d nodes are up %s after the epoch: camera needs %d grants and waits until enough are back", least, s.Nodes, formatDuration(at), upper/2+1)
	}
}

// leastUp returns the least number of nodes that run at a time by the
// schedule, faults by role left out, and when that is first so.
func leastUp(initially []bool, faults []workloads.Fault) (least int, at time.Duration) {
	up := slices.Clone(initially)
	count := 0
	for _, u := range up {
		if u {
			count++
		}
	}
	least = count
	for _, f := range faults {
		for _, n := range f.Nodes {
			was := up[n]
			switch f.Verb {
			case workloads.Crash, workloads.Poweroff, workloads.Leave, workloads.Pause:
				up[n] = false
			case workloads.Resume, workloads.Restart, workloads.Join:
				up[n] = true
			case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set, workloads.Trigger:
			}
			if was && !up[n] {
				count--
			} else if !was && up[n] {
				count++
			}
		}
		if count < least {
			least, at = count, f.At
		}
	}
	return least, at
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
