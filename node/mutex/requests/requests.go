// Package requests holds the small sorted containers that the
// mutual-exclusion machines keep: at most one request a node, and sets of
// node ids. They are plain values with a fixed order, so that machines behave
// and encode the same whatever the history of insertions. Owners serialise
// all calls.
package requests

import (
	"encoding/binary"
	"slices"

	"churnbed/node/core"
)

// ByNode keeps at most one request a node, ascending by node.
type ByNode []core.RequestID

func (s ByNode) find(k core.NodeID) (int, bool) {
	return slices.BinarySearchFunc(s, k, func(r core.RequestID, k core.NodeID) int { return int(r.Node - k) })
}

// Get returns the request of node k, zero where there is none.
func (s ByNode) Get(k core.NodeID) core.RequestID {
	if i, ok := s.find(k); ok {
		return s[i]
	}
	return core.RequestID{}
}

// Put sets the request of node r.Node.
func (s *ByNode) Put(r core.RequestID) {
	if i, ok := s.find(r.Node); ok {
		(*s)[i] = r
	} else {
		*s = slices.Insert(*s, i, r)
	}
}

// Raise sets the request of node r.Node unless a newer one is there.
func (s *ByNode) Raise(r core.RequestID) {
	if !s.Get(r.Node).NewerThan(r) {
		s.Put(r)
	}
}

// Delete removes the request of node k.
func (s *ByNode) Delete(k core.NodeID) {
	if i, ok := s.find(k); ok {
		*s = slices.Delete(*s, i, i+1)
	}
}

// DeleteUpTo removes the request of node r.Node unless it is newer than r.
func (s *ByNode) DeleteUpTo(r core.RequestID) {
	if i, ok := s.find(r.Node); ok && !(*s)[i].NewerThan(r) {
		*s = slices.Delete(*s, i, i+1)
	}
}

// AppendState appends a canonical encoding.
func (s ByNode) AppendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	for _, r := range s {
		b = AppendRequest(b, r)
	}
	return b
}

// AppendRequest appends a canonical encoding of r.
func AppendRequest(b []byte, r core.RequestID) []byte {
	b = binary.AppendVarint(b, int64(r.Node))
	b = binary.AppendUvarint(b, uint64(r.Inc))
	return binary.AppendUvarint(b, r.TS)
}

// IDs is a set of node ids, ascending.
type IDs []core.NodeID

// Has reports whether k is a member.
func (s IDs) Has(k core.NodeID) bool {
	_, ok := slices.BinarySearch(s, k)
	return ok
}

// Add adds k and reports whether it was absent.
func (s *IDs) Add(k core.NodeID) bool {
	i, ok := slices.BinarySearch(*s, k)
	if !ok {
		*s = slices.Insert(*s, i, k)
	}
	return !ok
}

// Delete removes k and reports whether it was a member.
func (s *IDs) Delete(k core.NodeID) bool {
	i, ok := slices.BinarySearch(*s, k)
	if ok {
		*s = slices.Delete(*s, i, i+1)
	}
	return ok
}

// AppendState appends a canonical encoding.
func (s IDs) AppendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	for _, k := range s {
		b = binary.AppendVarint(b, int64(k))
	}
	return b
}

// Peers is a set of peers, one a node id, ascending by id.
type Peers []core.Peer

func (s Peers) find(k core.NodeID) (int, bool) {
	return slices.BinarySearchFunc(s, k, func(p core.Peer, k core.NodeID) int { return int(p.ID - k) })
}

// Has reports whether node k is a member.
func (s Peers) Has(k core.NodeID) bool {
	_, ok := s.find(k)
	return ok
}

// Get returns the incarnation of node k, 0 where it is no member.
func (s Peers) Get(k core.NodeID) core.Incarnation {
	if i, ok := s.find(k); ok {
		return s[i].Inc
	}
	return 0
}

// Put adds p or replaces the peer of its id.
func (s *Peers) Put(p core.Peer) {
	if i, ok := s.find(p.ID); ok {
		(*s)[i] = p
	} else {
		*s = slices.Insert(*s, i, p)
	}
}

// Delete removes node k.
func (s *Peers) Delete(k core.NodeID) {
	if i, ok := s.find(k); ok {
		*s = slices.Delete(*s, i, i+1)
	}
}

// AppendState appends a canonical encoding.
func (s Peers) AppendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	for _, p := range s {
		b = binary.AppendVarint(b, int64(p.ID))
		b = binary.AppendUvarint(b, uint64(p.Inc))
	}
	return b
}
