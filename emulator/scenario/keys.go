package scenario

import (
	"churnbed/node/stack"
	"churnbed/node/wire"
	"churnbed/topologies"
	"churnbed/workloads"
)

// Group gathers keys in help, documentation and scenario.yaml.
type Group string

// The groups, in the order in which they are shown.
const (
	GroupRun         Group = "Run"
	GroupTopology    Group = "Topology"
	GroupLinks       Group = "Links"
	GroupRouting     Group = "Routing"
	GroupMembership  Group = "Membership"
	GroupAlgorithm   Group = "Algorithm"
	GroupTransport   Group = "Transport"
	GroupWorkload    Group = "Workload"
	GroupChurn       Group = "Churn and faults"
	GroupMeasurement Group = "Measurement"
)

// Keys returns the table of keys: the flags of `churnbed run` and
// `churnbed sim`, the keys of a scenario file, their schema and their
// documentation all derive from it. The caller must not change it.
func Keys() []Key { return keys }

// keys is the one table. Order is the order of help and of scenario.yaml.
var keys = []Key{
	text("name", GroupRun, func(s *Spec) *string { return &s.Name },
		"run", checkName, "NAME", "name of the run, part of the run directory's name"),
	seed("seed", GroupRun, func(s *Spec) *uint64 { return &s.Seed },
		"1", "seed of every random stream of the run"),
	integer("trials", GroupRun, func(s *Spec) *int { return &s.Trials },
		"1", 1, 1_000_000, "runs with the seeds seed, seed+1, ..."),
	path("out", GroupRun, func(s *Spec) *string { return &s.Out },
		"run directory, which must not exist; none: a new one under runs/").noInput(),
	choice("fabric", GroupRun, func(s *Spec) *string { return &s.Fabric },
		"auto", []string{"auto", "netem", "relay"}, "what imposes delay and loss on the links; auto takes netem where the kernel has it"),
	number("time-scale", GroupRun, func(s *Spec) *float64 { return &s.TimeScale },
		"1", 0.001, 1000, "", "real seconds a scenario second: above 1 buys fidelity on a small host, below 1 compresses long scenarios"),
	duration("warmup", GroupRun, func(s *Spec) *dur { return &s.Warmup },
		"1s", 0, "between everyone joined and the first arrival"),
	duration("drain", GroupRun, func(s *Spec) *dur { return &s.Drain },
		"30m", 0, "longest wait for unserved requests after the last arrival"),

	choice("topology", GroupTopology, func(s *Spec) *string { return &s.Topology },
		"random", names(topologies.Kinds()), "generator of the mesh; topology-file takes its place"),
	path("topology-file", GroupTopology, func(s *Spec) *string { return &s.TopologyFile },
		"read the mesh from this file"),
	choice("topology-format", GroupTopology, func(s *Spec) *string { return &s.TopologyFormat },
		"auto", append([]string{"auto"}, names(topologies.Formats())...), "format of topology-file; auto decides by name and content"),
	integer("nodes", GroupTopology, func(s *Spec) *int { return &s.Nodes },
		"64", 1, MaxNodes, "number of nodes; with topology-file, grid rows and cols: what they say"),
	area("area", GroupTopology, func(s *Spec) *Area { return &s.Area },
		"15x15", "width and height in metres"),
	number("radius", GroupTopology, func(s *Spec) *float64 { return &s.Radius },
		"0", 0, 1e6, "m", "radio range: nodes at most this far apart have a link; 0: 4 m (ns3 files: every pair; not used where links are given)").derived(),
	integer("rows", GroupTopology, func(s *Spec) *int { return &s.Rows },
		"0", 0, MaxNodes, "rows of a grid; 0: as square as nodes allow"),
	integer("cols", GroupTopology, func(s *Spec) *int { return &s.Cols },
		"0", 0, MaxNodes, "columns of a grid; 0: as square as nodes allow"),
	number("step", GroupTopology, func(s *Spec) *float64 { return &s.Step },
		"0", 0, 1e6, "m", "spacing of grid, line and ring; 0: 2.5 m, but a grid with area given fills it").derived(),
	list("rooms", GroupTopology, func(s *Spec) *[]string { return &s.Rooms },
		"X,Y,W,H:COUNT", "room of a cluster: corner, size, number of nodes; may be repeated; none: four in the corners, one in the middle"),
	number("min-spacing", GroupTopology, func(s *Spec) *float64 { return &s.MinSpacing },
		"0", 0, 1e6, "m", "least distance between two nodes (random, cluster)"),
	boolean("survivable", GroupTopology, func(s *Spec) *bool { return &s.Survivable },
		"redraw until the mesh stays connected after any one node's failure"),
	boolean("largest", GroupTopology, func(s *Spec) *bool { return &s.Largest },
		"keep only the largest connected part of topology-file"),
	boolean("wifi-only", GroupTopology, func(s *Spec) *bool { return &s.WifiOnly },
		"keep only the radio links of a freifunk map"),
	integer("rtt-nodes", GroupTopology, func(s *Spec) *int { return &s.RTTNodes },
		"0", 0, MaxNodes, "nodes taken from a round-trip matrix; 0: all"),
	boolean("rtt-random", GroupTopology, func(s *Spec) *bool { return &s.RTTRandom },
		"draw the rtt-nodes by the seed; otherwise the first ones"),
	number("rtt-scale", GroupTopology, func(s *Spec) *float64 { return &s.RTTScale },
		"1", 1e-6, 1e6, "", "factor on the delays of a round-trip matrix"),

	duration("link-delay", GroupLinks, func(s *Spec) *dur { return &s.LinkDelay },
		"5ms", 0, "one-way delay of a hop"),
	duration("link-jitter", GroupLinks, func(s *Spec) *dur { return &s.LinkJitter },
		"0s", 0, "half-width (uniform) or standard deviation (normal) of the delay"),
	choice("link-jitter-distribution", GroupLinks, func(s *Spec) *string { return &s.LinkJitterDis },
		"uniform", []string{"uniform", "normal"}, "shape of the jitter"),
	number("link-loss", GroupLinks, func(s *Spec) *float64 { return &s.LinkLoss },
		"0", 0, 1, "", "share of frames lost on a hop (bernoulli)"),
	text("link-loss-model", GroupLinks, func(s *Spec) *string { return &s.LinkLossModel },
		"bernoulli", checkLossModel, "MODEL", "bernoulli, or gilbert-elliott:P/R/GOOD/BAD (good to bad, bad to good, loss in either state; in place of link-loss)"),
	rate("link-rate", GroupLinks, func(s *Spec) *int64 { return &s.LinkRate },
		"0", "rate of a hop, such as 10mbit; 0: unlimited"),

	choice("routing", GroupRouting, func(s *Spec) *string { return &s.Routing },
		"euclid", names(topologies.Metrics()), "what a shortest path minimises: length in metres, hops, or configured delay"),
	duration("convergence", GroupRouting, func(s *Spec) *dur { return &s.Convergence },
		"0s", 0, "routes follow a change of the mesh after this time; 0: at once"),

	text("membership", GroupMembership, func(s *Spec) *string { return &s.Membership },
		"medley", checkMembership, "SERVICE", "medley, static (everyone listed), static:FILE (lists by node), oracle (told by the controller)"),
	duration("membership-period", GroupMembership, func(s *Spec) *dur { return &s.MembershipPeriod },
		"2s", 1, "protocol period"),
	duration("membership-ping-timeout", GroupMembership, func(s *Spec) *dur { return &s.MembershipPingTimeout },
		"500ms", 1, "wait for an answer before helpers are asked"),
	duration("membership-suspicion", GroupMembership, func(s *Spec) *dur { return &s.MembershipSuspicion },
		"16s", 1, "age at which a suspect is declared failed"),
	integer("membership-helpers", GroupMembership, func(s *Spec) *int { return &s.MembershipHelpers },
		"3", 1, 64, "helpers of an indirect ping"),
	number("membership-exponent", GroupMembership, func(s *Spec) *float64 { return &s.MembershipExponent },
		"3", 0.01, 64, "", "exponent of the distance when a ping target is drawn"),
	choice("membership-distance", GroupMembership, func(s *Spec) *string { return &s.MembershipDistance },
		"path", []string{"path", "euclid", "hops", "delay"}, "distance to a member: metres along the shortest path, metres straight, hops, or delay along the quickest path"),

	choice("algorithm", GroupAlgorithm, func(s *Spec) *string { return &s.Algorithm },
		"camera", []string{"ra", "camera", "camera-paper", "maekawa", "maekawa-basic", "naimi-trehel", "fairk", "bv95"}, "mutual-exclusion algorithm"),
	integer("k", GroupAlgorithm, func(s *Spec) *int { return &s.K },
		"1", 1, wire.MaxTokens, "nodes that may be in the critical section at once (fairk, bv95)"),
	text("token-placement", GroupAlgorithm, func(s *Spec) *string { return &s.TokenPlacement },
		"first", checkPlacement, "IDS", "nodes that have the k tokens at the start, such as 3,8-9; the first is root and coordinator; first: 0 to k-1 (naimi-trehel, fairk, bv95)"),
	choice("tree-choice", GroupAlgorithm, func(s *Spec) *string { return &s.TreeChoice },
		"load", []string{"load", "random", "last"}, "tree in which a request without an idle token queues: that of the least known load, any, or that of the token it had last (bv95)"),
	integer("n-upper", GroupAlgorithm, func(s *Spec) *int { return &s.NUpper },
		"0", 0, MaxNodes, "upper bound on the nodes that take part at a time (camera); 0: nodes").derived(),
	duration("suspicion-wait", GroupAlgorithm, func(s *Spec) *dur { return &s.SuspicionWait },
		"0s", 0, "further wait between a detected failure and the silent OK; not given: membership-suspicion with medley, else 0s").derived(),
	choice("release", GroupAlgorithm, func(s *Spec) *string { return &s.Release },
		"unicast", []string{"unicast", stack.Multicast}, "how a RELEASE that may be lost travels: a datagram to each member, or one flooded by one-hop multicast"),
	boolean("paper-snapshot", GroupAlgorithm, func(s *Spec) *bool { return &s.PaperSnapshot },
		"take the OK set once before the exit loop (camera-paper, trap H2)"),
	boolean("paper-release-by-id", GroupAlgorithm, func(s *Spec) *bool { return &s.PaperReleaseByID },
		"match RELEASE by node id only (camera-paper, trap H3a)"),
	boolean("imitate-uncleared-deferred", GroupAlgorithm, func(s *Spec) *bool { return &s.ImitateDeferred },
		"imitate the Camera authors' simulator: every exit answers all requests ever deferred again (camera-paper, simulator only)"),
	boolean("imitate-live-set", GroupAlgorithm, func(s *Spec) *bool { return &s.ImitateLiveSet },
		"imitate the Camera authors' simulator: the set in an OK is what its sender's set is on arrival (camera-paper, simulator only)"),
	boolean("imitate-local-hop", GroupAlgorithm, func(s *Spec) *bool { return &s.ImitateLocalHop },
		"imitate the Camera authors' simulator: REQUEST and RELEASE take one more hop at their source, with a link's delay and loss (simulator only)"),
	boolean("imitate-departed", GroupAlgorithm, func(s *Spec) *bool { return &s.ImitateDeparted },
		"imitate the Camera authors' simulator: who leaves goes on asking and answering, only the others' lists lose it, and nobody comes back (simulator only)"),

	choice("transport", GroupTransport, func(s *Spec) *string { return &s.Transport },
		"adaptive", []string{"adaptive", "fixed", stack.SourceFixed}, "retransmission timeout: from measured round trips (RFC 6298) or constant; source-fixed: no acknowledgements, the source sends again rto after the loss at any hop (simulator only)"),
	duration("rto", GroupTransport, func(s *Spec) *dur { return &s.RTO },
		"200ms", 1, "retransmission timeout before the first measurement, and of fixed and source-fixed"),
	duration("rto-min", GroupTransport, func(s *Spec) *dur { return &s.RTOMin },
		"50ms", 1, "lower bound of adaptive"),
	duration("rto-max", GroupTransport, func(s *Spec) *dur { return &s.RTOMax },
		"4s", 1, "upper bound of adaptive"),

	choice("arrivals", GroupWorkload, func(s *Spec) *string { return &s.Arrivals },
		"weibull", append(workloads.Dists(), arrivalsList), "arrival process of the requests; burst: all at once; poisson-closed: every node thinks, asks, thinks again; list: those of arrival (and the default where there are any)"),
	duration("mean", GroupWorkload, func(s *Spec) *dur { return &s.Mean },
		"200ms", 1, "mean time between two arrivals of the mesh (poisson-closed: thinking time of a node)"),
	number("ir-ratio", GroupWorkload, func(s *Spec) *float64 { return &s.IRRatio },
		"1", 1e-6, 1e6, "", "factor on mean"),
	number("weibull-shape", GroupWorkload, func(s *Spec) *float64 { return &s.WeibullShape },
		"2", 0.1, 100, "", "shape of weibull"),
	text("requesters", GroupWorkload, func(s *Spec) *string { return &s.Requesters },
		"uniform", checkRequesters, "CHOICE", "who asks: uniform, zipf over ids, or list:3,5,7 in turn"),
	number("zipf-exponent", GroupWorkload, func(s *Spec) *float64 { return &s.ZipfExponent },
		"2", 0.01, 64, "", "exponent of zipf"),
	integer("requests", GroupWorkload, func(s *Spec) *int { return &s.Requests },
		"30", 0, 10_000_000, "number of requests of the mesh; 0: as many as duration holds; not given: 0 with duration, the length of a requesters list, else 30"),
	duration("duration", GroupWorkload, func(s *Spec) *dur { return &s.Duration },
		"0s", 0, "fixed length of the run after the epoch; 0: until every request is served"),
	duration("cs", GroupWorkload, func(s *Spec) *dur { return &s.CS },
		"200ms", 0, "mean length of a critical section"),
	choice("cs-distribution", GroupWorkload, func(s *Spec) *string { return &s.CSDistribution },
		"constant", []string{"constant", "exponential", "uniform", "normal"}, "shape of the critical section's length"),
	list("arrival", GroupWorkload, func(s *Spec) *[]string { return &s.Arrival },
		"REQUEST", "one request such as 'at 1s node 3 for 200ms', may be repeated; without 'for': cs"),

	text("churn", GroupChurn, func(s *Spec) *string { return &s.Churn },
		"none", checkChurn, "CHURN", "none, overnet (synthetic), exponential (sessions), or a trace FILE").asPathExcept("none", "overnet", "exponential"),
	choice("trace-format", GroupChurn, func(s *Spec) *string { return &s.TraceFormat },
		"auto", traceFormats, "format of a churn trace file"),
	number("churn-speedup", GroupChurn, func(s *Spec) *float64 { return &s.ChurnSpeedup },
		"1", 1e-6, 1e9, "", "trace seconds a scenario second"),
	choice("churn-verb", GroupChurn, func(s *Spec) *string { return &s.ChurnVerb },
		"crash", []string{"crash", "poweroff", "leave"}, "what a departure is: SIGKILL, SIGKILL and links down, or graceful"),
	choice("churn-initial", GroupChurn, func(s *Spec) *string { return &s.ChurnInitial },
		"up", []string{"up", "trace"}, "nodes that run from the start: all, or those that the trace has up"),
	duration("churn-sample", GroupChurn, func(s *Spec) *dur { return &s.ChurnSample },
		"20m", 1, "length of a sample of a columns trace, in trace time"),
	boolean("churn-at-boundaries", GroupChurn, func(s *Spec) *bool { return &s.ChurnAtBoundaries },
		"all events of a sample at once at its beginning; otherwise spread over it at random"),
	duration("churn-up-mean", GroupChurn, func(s *Spec) *dur { return &s.ChurnUpMean },
		"1h17m", 1, "mean session of exponential, in trace time"),
	duration("churn-down-mean", GroupChurn, func(s *Spec) *dur { return &s.ChurnDownMean },
		"2h30m", 1, "mean time between two sessions of exponential, in trace time"),
	integer("churn-hosts", GroupChurn, func(s *Spec) *int { return &s.ChurnHosts },
		"0", 0, MaxNodes, "hosts that a generator makes; 0: as many as nodes"),
	choice("churn-choose", GroupChurn, func(s *Spec) *string { return &s.ChurnChoose },
		"first", []string{"first", "random"}, "hosts of the trace that the nodes stand for"),
	duration("churn-until", GroupChurn, func(s *Spec) *dur { return &s.ChurnUntil },
		"0s", 0, "no churn after it; 0: duration, or the last arrival and the sum of all critical sections").derived(),
	text("down-at-start", GroupChurn, func(s *Spec) *string { return &s.DownAtStart },
		"none", checkDownAtStart, "IDS", "nodes that do not run from the start, such as 3,8-11 (a join starts them), or none"),
	list("fault", GroupChurn, func(s *Spec) *[]string { return &s.Fault },
		"RULE", "fault rule such as 'at 10s crash 3 nodes restart after 5s', may be repeated (grammar: documentation of package workloads)"),
	list("tags", GroupChurn, func(s *Spec) *[]string { return &s.Tags },
		"NAME=IDS", "tag for nodes, such as edge=0,3,8-11, may be repeated; for fault rules").asTags(),

	duration("probe-every", GroupMeasurement, func(s *Spec) *dur { return &s.ProbeEvery },
		"1s", 0, "between two fidelity probes of a node; 0: none"),
	duration("counters-every", GroupMeasurement, func(s *Spec) *dur { return &s.CountersEvery },
		"5s", 0, "between two counter lines in a node's log; 0: only at the end"),
	duration("settle", GroupMeasurement, func(s *Spec) *dur { return &s.Settle },
		"0s", 0, "fairness figures (time to token, spread, Jain index) count requests from so long after the epoch on"),
	duration("slice", GroupMeasurement, func(s *Spec) *dur { return &s.Slice },
		"5s", 1, "time slice of the fidelity verdict"),
}
