// Package workloads says who asks for the critical section when and for how
// long, and who fails when: arrival processes, requester choices, churn
// traces and generators, and the fault language. Everything is expanded into
// timed events from named random streams before a run begins; nothing here
// touches a process or a clock. Values are not shared between calls, so nobody
// needs to serialise them; a *Closed and a CSLength draw from the stream that
// the caller owns.
//
// # Fault language
//
// One rule a line; words are separated by spaces, times are written as Go
// durations (500ms, 3s, 1m30s), ids are nodes.
//
//	rule     = when action { clause } .
//	when     = "at" time | "from" time "to" time [ "every" time ] .
//	action   = ( "crash" | "poweroff" | "leave" | "pause" ) nodes
//	         | ( "resume" | "restart" | "join" ) known
//	         | link links ( "down" | "up" )
//	         | "flap" link links
//	         | "partition" list { "|" list }
//	         | "heal"
//	         | "set" ( "all" | link links ) param { param }
//	         | "churn" ( count | share ) [ "nodes" ] [ of ]
//	         | "trigger" routine .
//	clause   = "for" time | "restart" "after" time | "every" time .
//	nodes    = known | share [ "nodes" ] [ of ] | count "nodes" [ of ] | [ count ] role .
//	of       = "of" list .
//	known    = "all" [ "nodes" ] | ( "node" | "nodes" ) list | "tag:" name { "," item } .
//	list     = item { "," item } .
//	item     = id | id "-" id | "tag:" name .
//	role     = "holder" | "holders" | "waiter" | "waiters" | "leader" | "leaders" | "idle" .
//	share    = number "%" .
//	link     = "link" | "links" .
//	links    = pair { "," pair } | "of" known .
//	pair     = id "-" id | id ">" id .
//	param    = "delay" time | "jitter" time | "distribution" ( "uniform" | "normal" )
//	         | "loss" prob | "burst" prob prob prob prob | "rate" rate .
//	prob     = number [ "%" ] .
//	rate     = number ( "bit" | "kbit" | "mbit" | "gbit" ) | "unlimited" .
//
// Meaning:
//   - "from A to B every D" happens at A, A+D, ... before B. Without "every" it
//     happens at A and is undone at B (flap and churn use the interval their
//     own way).
//   - "for D" undoes it after D: a restart after crash, poweroff and leave
//     (also written "restart after D"), a resume after pause, up after link
//     down, heal after partition. After "set" the parameters it changed go
//     back to what the scenario configured for the link.
//   - A share or count of nodes is drawn at random when the rule is expanded,
//     again at every repetition, among those the rule has not down already,
//     and, with "of", among the list, of which the share is then taken. A role
//     is looked up at run time: holder is who is in the critical section, waiter
//     who asked for it. With k-groups (algorithms comesh and hub) leader is who
//     serves a group, holder who runs a routine that holds a device's lock,
//     waiter who runs one that waits for a lock. idle is none of these.
//   - trigger fires a routine by hand (algorithms comesh and hub).
//   - flap takes the links down at A, up at A+D, down at A+2D, ... and leaves
//     them up at B.
//   - churn crashes and restarts (after 1s unless said) so many random nodes,
//     at uniformly random instants of the interval, or of every D of it; with
//     "at", all at once.
//   - partition cuts the links between different groups; nodes not named form
//     one more group. heal ends all partitions.
//   - A>B is one direction of a link, only for set. burst is Gilbert-Elliott
//     loss: good to bad, bad to good, loss when good, loss when bad.
//   - What has no effect (crashing a dead node, restarting a live one) is
//     carried out as nothing; rules do not know of each other.
package workloads

import (
	"time"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// Arrival is one local request: At after the epoch, node Node wants the critical
// section for CS. A node that waits or holds queues further arrivals.
type Arrival struct {
	No   int           `json:"no"` // number in the workload, from 1
	At   time.Duration `json:"at"`
	Node core.NodeID   `json:"node"`
	CS   time.Duration `json:"cs"`
}

// Verb is what a fault event does.
type Verb string

const (
	Crash     Verb = "crash"    // SIGKILL; links and forwarding stay
	Poweroff  Verb = "poweroff" // SIGKILL and all links of the node down
	Pause     Verb = "pause"    // SIGSTOP
	Resume    Verb = "resume"   // SIGCONT
	Restart   Verb = "restart"  // new incarnation of a dead node (links up again)
	Leave     Verb = "leave"    // graceful
	Join      Verb = "join"     // first start of a node, or restart
	LinkDown  Verb = "link-down"
	LinkUp    Verb = "link-up"
	Partition Verb = "partition" // links between different groups go down
	Heal      Verb = "heal"      // what partition took down comes up
	Set       Verb = "set"       // change link parameters
	Trigger   Verb = "trigger"   // fire a routine by hand
)

// ChurnSource is the Source of the faults that a churn trace makes.
const ChurnSource = "churn"

// Fault is one timed event of the expanded schedule, At after the epoch.
type Fault struct {
	At   time.Duration `json:"at"`
	Verb Verb          `json:"verb"`
	// Nodes are the nodes it concerns. Where Role is set they are chosen at
	// run time instead: Count nodes in that role ("holder", "waiter",
	// "leader", "idle"), ties broken by the lowest id.
	Nodes []core.NodeID `json:"nodes,omitempty"`
	Role  string        `json:"role,omitempty"`
	Count int           `json:"count,omitempty"`
	// After undoes it on the nodes chosen at run time after that time
	// (restart, resume); 0 = never. Faults on known nodes are undone by
	// events of their own.
	After time.Duration `json:"after,omitempty"`
	// Links (pairs a < b) for link-down, link-up and set; empty with set:
	// all links of Nodes, or all links where Nodes is empty too.
	Links [][2]core.NodeID `json:"links,omitempty"`
	// OneWay restricts set to the direction from the first to the second node
	// of each of Links, whose pairs then come in either order.
	OneWay bool            `json:"one_way,omitempty"`
	Groups [][]core.NodeID `json:"groups,omitempty"` // partition; nodes not named form one more group
	Set    link.Override   `json:"set"`
	// Routine is what trigger fires.
	Routine int    `json:"routine,omitempty"`
	Source  string `json:"source,omitempty"` // where it came from: "faults:3", "churn"
}

// Closed is the closed per-node workload: think (exponential with Rate per
// second), ask, hold for CS, again.
type Closed struct {
	Rate  float64       `json:"rate"`            // requests a second while thinking, > 0
	Quota int           `json:"quota,omitempty"` // requests of this node, 0 = no limit
	Until time.Duration `json:"until"`           // no request after it (after the epoch), 0 = no limit
	CS    CSLength      `json:"cs"`
}

// CSLength is the length of critical sections.
type CSLength struct {
	Dist string        `json:"dist"` // constant, exponential, uniform (0..2 Mean), normal (sd Mean/4, > 0)
	Mean time.Duration `json:"mean"`
}
