package maekawa

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex/requests"
)

// VotingSet appends the voting set of self, ascending and self included: the
// row and the column of self in the matrix of list and self, which is
// ceil(sqrt(N)) wide for N nodes; the last row may be short. It has at most
// 2*ceil(sqrt(N))-1 members.
func VotingSet(set []core.NodeID, self core.NodeID, list requests.Peers) []core.NodeID {
	n := len(list) + 1
	at, listed := slices.BinarySearchFunc(list, self, func(p core.Peer, k core.NodeID) int { return int(p.ID - k) })
	if listed {
		n--
	}
	width := 1
	for width*width < n {
		width++
	}
	for i := range n {
		if i/width != at/width && i%width != at%width {
			continue
		}
		switch {
		case i == at:
			set = append(set, self)
		case i < at || listed:
			set = append(set, list[i].ID)
		default:
			set = append(set, list[i-1].ID)
		}
	}
	return set
}
