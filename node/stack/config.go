// Package stack is one whole node without its shell: a membership service, a
// mutual-exclusion algorithm, the retransmitting transport and the workload
// driver, wired together as one pure machine. node/host gives it real sockets
// and timers, emulator/sim virtual ones. The owner serialises Step.
package stack

import (
	"time"

	"churnbed/node/core"
	"churnbed/node/kgroup"
	"churnbed/workloads"
)

// Config is everything a node is told before it starts (node/CONTRACT.md).
// All durations and instants are scenario time.
type Config struct {
	Self  core.Peer `json:"self"`
	Seed  uint64    `json:"seed"`  // of the run
	Nodes int       `json:"nodes"` // of the topology; ids are 0..Nodes-1
	// Restarted: an earlier life of this node may have taken part.
	Restarted bool `json:"restarted,omitempty"`
	// Members is the initial membership list without the node itself; with
	// Join they are contacts to join through, preferred first.
	Members []core.Peer `json:"members"`
	Join    bool        `json:"join,omitempty"`
	// Neighbours are the one-hop neighbours; LinkDelay their configured
	// one-way delays in ns, in the same order, for the fidelity probes.
	Neighbours []core.NodeID `json:"neighbours"`
	LinkDelay  []int64       `json:"link_delay,omitempty"`
	// Distance to every node by id, in the unit of the membership service's
	// metric (metres along the shortest path by default).
	Distance []float32 `json:"distance,omitempty"`

	Algorithm  Algorithm  `json:"algorithm"`
	Membership Membership `json:"membership"`
	Transport  Transport  `json:"transport"`
	// Group is what all nodes of a run have in common with CoMesh and Hub.
	Group *kgroup.Config `json:"group,omitempty"`

	Arrivals []workloads.Arrival `json:"arrivals,omitempty"` // of this node, ascending
	Closed   *workloads.Closed   `json:"closed,omitempty"`

	ProbeEvery    time.Duration `json:"probe_every,omitempty"`    // 0 = no probes
	CountersEvery time.Duration `json:"counters_every,omitempty"` // 0 = only at the end
}

// Algorithm names and tunes the mutual-exclusion algorithm.
type Algorithm struct {
	Name string `json:"name"` // a name of Algorithms
	// NUpper is the upper bound on the number of nodes that take part at a
	// time (camera); 0 = Config.Nodes.
	NUpper int `json:"n_upper,omitempty"`
	// Estimate is where the bound comes from: Configured ("" as well) is NUpper;
	// with Gossip nodes estimate it while they run, and NUpper is the least
	// that it may be, 0 = 1 (camera; package size).
	Estimate string `json:"estimate,omitempty"`
	// SuspicionWait is the further wait between a confirmed failure and the
	// silent OK (ALGORITHMS 2.4).
	SuspicionWait time.Duration `json:"suspicion_wait,omitempty"`
	// Placement is who has each token of a token algorithm at the beginning
	// (naimi-trehel, fairk, bv95); the first is root. Empty: node 0 has one.
	Placement []core.NodeID `json:"placement,omitempty"`
	// Replicas is how many other nodes keep the state of each (fairk), 0 for no
	// fault tolerance; RingPeriod is the pace at which they look after each
	// other, RingQuorum how many must agree on who takes part, 0 for a majority.
	Replicas   int           `json:"replicas,omitempty"`
	RingPeriod time.Duration `json:"ring_period,omitempty"`
	RingQuorum int           `json:"ring_quorum,omitempty"`
	// TreeChoice is how a requester picks a tree (bv95): load, random, last.
	TreeChoice string `json:"tree_choice,omitempty"`
	// Durable: what others rely on survives the process (camera).
	Durable bool `json:"durable,omitempty"`
	// SlowPath is SlowAuto ("" as well) or SlowOff, TreeFailures the f of the
	// slow path's trees, 0 = 2 (camera; ALGORITHMS 2.5).
	SlowPath     string `json:"slow_path,omitempty"`
	TreeFailures int    `json:"tree_failures,omitempty"`
	// ProbeTimeout is the silence after which camera takes a peer as failed
	// that it has met and that the membership service does not watch (trap H8);
	// 0 = 16 s, negative = never.
	ProbeTimeout time.Duration `json:"probe_timeout,omitempty"`
	// Local tunes localmutex and localmutex-paper.
	Local *Local `json:"local,omitempty"`
	// Release is how a RELEASE that may be lost travels: unicast or Multicast.
	Release string `json:"release,omitempty"`
	// Readings of the published text (camera-paper only): the OK set taken
	// once before the exit loop; RELEASE matched by node id only.
	Snapshot    bool `json:"snapshot,omitempty"`
	ReleaseByID bool `json:"release_by_id,omitempty"`
	// KeepDeferred imitates the authors' simulator: deferred requests are
	// answered again at every exit (camera-paper only).
	KeepDeferred bool `json:"keep_deferred,omitempty"`
}

// The values of Algorithm.Estimate.
const (
	Configured = "configured"
	Gossip     = "gossip"
)

// The values of Algorithm.SlowPath.
const (
	SlowAuto = "auto" // where the list, or the grants, make no majority
	SlowOff  = "off"  // such requests wait until enough peers have appeared
)

// Membership names and tunes the membership service. Zero durations mean the
// published values (ALGORITHMS 4).
type Membership struct {
	Service     string        `json:"service"` // medley, static, oracle
	Period      time.Duration `json:"period,omitempty"`
	PingTimeout time.Duration `json:"ping_timeout,omitempty"`
	Suspicion   time.Duration `json:"suspicion,omitempty"`
	Indirect    int           `json:"indirect,omitempty"`
	Exponent    float64       `json:"exponent,omitempty"` // of the distance, default 3
}

// Transport tunes retransmission.
type Transport struct {
	Mode string        `json:"mode,omitempty"` // adaptive (RFC 6298), fixed, source-fixed (SourceFixed)
	RTO  time.Duration `json:"rto,omitempty"`  // initial, and the constant one of fixed
	Min  time.Duration `json:"min,omitempty"`  // adaptive bounds
	Max  time.Duration `json:"max,omitempty"`
}

// SourceFixed is the transport of the authors' simulator: messages of the
// algorithm are neither acknowledged nor repeated by the node. The simulator,
// which knows of every loss, has the source send the message again a fixed
// time later (Resend). Nothing of the kind exists on a real network.
const SourceFixed = "source-fixed"

// Multicast is the Release of one flood to everyone (ALGORITHMS 2.6): one-hop
// multicast, sent on by each node that sees it first. It counts as one
// end-to-end message. A RELEASE that must arrive (maekawa) is not flooded.
const Multicast = "multicast"
