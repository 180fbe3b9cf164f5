package requests

import (
	"encoding/binary"
	"slices"

	"churnbed/node/core"
)

// Walk is a request that travels from node to node, where it is after so many
// hops.
type Walk struct {
	Request core.RequestID
	Hop     uint64
}

// Walks keeps the newest request of each node that came by, and its newest
// hop, ascending by node. A request may come by more than once; a repeated
// message of it has no newer hop.
type Walks []Walk

// Pass notes that r came by, and reports whether it is no repetition.
func (s *Walks) Pass(r core.RequestID, hop uint64) bool {
	i, ok := slices.BinarySearchFunc(*s, r.Node, func(w Walk, k core.NodeID) int { return int(w.Request.Node - k) })
	if !ok {
		*s = slices.Insert(*s, i, Walk{r, hop})
		return true
	}
	w := &(*s)[i]
	if w.Request.NewerThan(r) || w.Request == r && hop <= w.Hop {
		return false
	}
	*w = Walk{r, hop}
	return true
}

// AppendState appends a canonical encoding.
func (s Walks) AppendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	for _, w := range s {
		b = binary.AppendUvarint(AppendRequest(b, w.Request), w.Hop)
	}
	return b
}
