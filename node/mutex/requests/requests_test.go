package requests

import (
	"bytes"
	"slices"
	"testing"

	"churnbed/node/core"

	"pgregory.net/rapid"
)

// TestByNode compares ByNode with a map under random operations.
func TestByNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s ByNode
		ref := map[core.NodeID]core.RequestID{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			r := core.RequestID{
				Node: core.NodeID(rapid.IntRange(0, 5).Draw(t, "node")),
				Inc:  core.Incarnation(rapid.IntRange(1, 2).Draw(t, "inc")),
				TS:   uint64(rapid.IntRange(1, 4).Draw(t, "ts")),
			}
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				s.Put(r)
				ref[r.Node] = r
			case 1:
				s.Raise(r)
				if r.NewerThan(ref[r.Node]) {
					ref[r.Node] = r
				}
			case 2:
				s.Delete(r.Node)
				delete(ref, r.Node)
			case 3:
				s.DeleteUpTo(r)
				if !ref[r.Node].NewerThan(r) {
					delete(ref, r.Node)
				}
			}
			if len(s) != len(ref) {
				t.Fatalf("%v, want %v", s, ref)
			}
			for k := core.NodeID(0); k < 6; k++ {
				if s.Get(k) != ref[k] {
					t.Fatalf("node %d: %v, want %v", k, s.Get(k), ref[k])
				}
			}
			if !slices.IsSortedFunc(s, func(a, b core.RequestID) int { return int(a.Node - b.Node) }) {
				t.Fatalf("not ascending: %v", s)
			}
		}
	})
}

// TestOrderDoesNotMatter: the same members in any order are the same state.
func TestOrderDoesNotMatter(t *testing.T) {
	var a, b IDs
	var p, q Peers
	for i := range core.NodeID(20) {
		a.Add(i)
		p.Put(core.Peer{ID: i, Inc: 7})
		j := 19 - i
		b.Add(j)
		q.Put(core.Peer{ID: j, Inc: 6})
		q.Put(core.Peer{ID: j, Inc: 7})
	}
	if !a.Delete(3) || a.Delete(3) || a.Has(3) || !b.Delete(3) || a.Add(4) {
		t.Error("Delete, Has or Add report the wrong membership")
	}
	p.Delete(5)
	q.Delete(5)
	if p.Has(5) || p.Get(5) != 0 || p.Get(6) != 7 {
		t.Error("Peers reports the wrong membership")
	}
	if !bytes.Equal(a.AppendState(nil), b.AppendState(nil)) || !bytes.Equal(p.AppendState(nil), q.AppendState(nil)) {
		t.Error("equal sets encode differently")
	}
}
