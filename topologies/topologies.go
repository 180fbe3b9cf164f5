// Package topologies makes, reads, writes, measures and draws mesh
// topologies, and computes shortest-path routes over them. It knows nothing
// of processes, kernels or protocols. Nothing in it is safe to change while
// others read: of its values only Routes changes, by Update, which the owner
// serialises with reads.
package topologies

import (
	"churnbed/emulator/link"
	"churnbed/node/core"
)

// Topology is a mesh: nodes 0..len(Nodes)-1 and undirected links whose two
// directions may differ. It is not changed after it was made.
type Topology struct {
	Name  string
	Nodes []Node
	Links []Link
	// Radius is the radio range in metres that made the links, 0 where they
	// were given.
	Radius float64
}

// Node is a position in metres (maps in degrees are projected) and labels.
type Node struct {
	X, Y, Z float64
	Label   string   // name in the file it came from, may be empty
	Tags    []string // for selecting nodes in fault schedules
}

// Link joins A and B, A < B, at most one link a pair. AB and BA hold what the
// topology itself says of a direction; the rest is the scenario's default.
type Link struct {
	A, B   core.NodeID
	AB, BA link.Override
}
