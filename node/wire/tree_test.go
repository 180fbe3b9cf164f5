package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"churnbed/node/core"
)

func treeMessages() []core.Message {
	tree := Tree{ID: core.RequestID{Node: 7, Inc: core.FirstIncarnation, TS: 9}, Round: 2}
	set := []core.Peer{{ID: 0, Inc: 1024}, {ID: 5, Inc: 2048}, {ID: core.MaxNodes - 1, Inc: 1024}}
	return []core.Message{
		&TreeJoin{Tree: tree, Depth: 1},
		&TreeAck{Tree: tree},
		&TreeAck{Tree: tree, Answer: TreeUnknown},
		&TreeStart{Tree: tree, Level: 3, Depth: 1},
		&TreeStart{Tree: tree, Level: 3, Depth: 1, Adopt: true},
		&TreeEcho{Tree: tree},
		&TreeEcho{
			Tree: tree, Level: 300, More: true, Piece: Piece{Of: 3, Number: 2, Stamp: 1 << 60},
			Shape: []Branch{{set[1], 1}, {set[0], 2}, {set[2], MaxShapeDepth}},
		},
		&TreeOK{Tree: tree},
		&TreeOK{Tree: tree, Piece: Piece{Of: 2, Stamp: 4}, Grants: set, Amnesiac: set[:1], Recent: set[1:], Lives: set[2:]},
		&TreeMore{Tree: tree, Of: KindTreeOK, Stamp: 4, Number: 1},
		&Alive{Target: 1, Origin: 65535, Sent: -1},
		&AliveAck{Peer: set[1], Origin: 3, Sent: 1 << 50},
	}
}

func TestTreeRoundTrip(t *testing.T) {
	for _, m := range treeMessages() {
		f := Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 4, Msg: m}
		b := f.Append(nil)
		g, err := Parse(b)
		if err != nil {
			t.Errorf("%s: %v", KindName(m.Kind()), err)
			continue
		}
		if d := cmp.Diff(f, g); d != "" {
			t.Errorf("%s (-sent +read):\n%s", KindName(m.Kind()), d)
		}
		for n := range b {
			if h, err := Parse(b[:n]); err == nil && !bytes.Equal(h.Append(nil), b[:n]) {
				t.Errorf("%s cut to %d bytes reads as %+v", KindName(m.Kind()), n, h)
			}
		}
	}
}

func TestTreeRejects(t *testing.T) {
	tree := Tree{ID: core.RequestID{Node: 7, Inc: 1024, TS: 9}, Round: 1}
	for name, m := range map[string]core.Message{
		"round 0":         &TreeJoin{Tree: Tree{ID: tree.ID}},
		"one piece of 1":  &TreeOK{Tree: tree, Piece: Piece{Of: 1}},
		"piece beyond":    &TreeOK{Tree: tree, Piece: Piece{Of: 2, Number: 2}},
		"too many pieces": &TreeOK{Tree: tree, Piece: Piece{Of: MaxPieces + 1}},
		"answer":          &TreeAck{Tree: tree, Answer: TreeUnknown + 1},
		"depth 0":         &TreeEcho{Tree: tree, Shape: []Branch{{}}},
		"deep":            &TreeEcho{Tree: tree, Shape: []Branch{{Depth: MaxShapeDepth + 1}}},
		"far":             &TreeJoin{Tree: tree, Depth: MaxTreeDepth + 1},
	} {
		f := Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 4, Msg: m}
		if g, err := Parse(f.Append(nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: read %+v, error %v", name, g.Msg, err)
		}
	}
}

func FuzzTree(f *testing.F) {
	for _, m := range treeMessages() {
		fr := Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 4, Msg: m}
		f.Add(fr.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := Parse(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error does not wrap ErrMalformed: %v", err)
			}
			return
		}
		if c := g.Append(nil); !bytes.Equal(b, c) {
			t.Fatalf("read % x\nwrites % x", b, c)
		}
	})
}
