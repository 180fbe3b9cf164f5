package wire

import (
	"testing"

	"churnbed/node/core"

	"github.com/google/go-cmp/cmp"
)

func ringMessages() []core.Message {
	r := core.RequestID{Node: 7, Inc: core.FirstIncarnation, TS: 9}
	big := &View{Num: 1 << 20, Nodes: make([]ViewNode, MaxRing)}
	for i := range big.Nodes {
		big.Nodes[i] = ViewNode{Life: 40, Member: i%2 == 0, Floor: Stamp{View: 16_000, Version: 16_000}, Source: core.NodeID(i)}
	}
	return []core.Message{
		&Beat{},
		&Beat{View: 300, Ask: true, Answer: true, Started: true, Frozen: true, Join: true, Leaves: true, Stamp: 1 << 60, Down: []core.NodeID{3, 4}},
		&Claim{Ballot: 1 << 40, View: 7},
		&Promise{Ballot: 9},
		&Promise{Ballot: 9, Knows: true, View: 4, Amnesiac: true, Lives: []uint64{1, 300}, Have: []Held{{ID: 5, Stamp: Stamp{View: 4, Version: 9}}}, Holds: r},
		&View{Num: 4, Fresh: true, Slots: []core.RequestID{r, r}, Nodes: []ViewNode{{Life: 3, Source: core.None}}},
		big,
		&Vote{View: 8, Amnesiac: true},
		&Refuse{Ballot: 9, Promised: 10, Lives: []uint64{3}},
		&Copy{View: 9, ID: 4, Stamp: Stamp{View: 8, Version: 7}, State: []byte{1, 2, 3}},
		&Copied{View: 9, ID: 4, Version: 300},
		&Deliver{View: 9, From: 4, To: 5, N: 6, Msg: &Child{After: r, For: r, Order: 5}},
		&Taken{View: 9, From: 4, N: 300},
	}
}

func TestRingRoundTrip(t *testing.T) {
	for _, m := range ringMessages() {
		f := Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 4, Msg: m}
		b := f.Append(nil)
		if len(b) > MaxFrame {
			t.Errorf("%s takes %d bytes", KindName(m.Kind()), len(b))
		}
		g, err := Parse(b)
		if err != nil {
			t.Errorf("%s: %v", KindName(m.Kind()), err)
			continue
		}
		if d := cmp.Diff(f, g); d != "" {
			t.Errorf("%s (-sent +read):\n%s", KindName(m.Kind()), d)
		}
		for n := range b {
			if _, err := Parse(b[:n]); err == nil && n > 8 {
				t.Errorf("%s is read when cut to %d of %d bytes", KindName(m.Kind()), n, len(b))
			}
		}
		if !IsRing(m.Kind()) {
			t.Errorf("%s is not told for one of the ring", KindName(m.Kind()))
		}
	}
	for _, k := range []byte{KindTokenLocations, KindFlood, KindTaken + 1, KindToken} {
		if IsRing(k) {
			t.Errorf("%s is told for one of the ring", KindName(k))
		}
	}
}

func TestRingRejects(t *testing.T) {
	r := core.RequestID{Node: 1, Inc: 1024, TS: 1}
	for name, m := range map[string]core.Message{
		"nodes":               &View{Num: 4, Nodes: make([]ViewNode, MaxRing+1)},
		"a source of no node": &View{Num: 4, Nodes: []ViewNode{{Life: 1, Source: 1}}},
		"slots, not fresh":    &View{Num: 4, Slots: []core.RequestID{r}, Nodes: []ViewNode{{Life: 1}}},
		"lives":               &Promise{Lives: make([]uint64, MaxRing+1)},
		"a beat in a parcel":  &Deliver{Msg: &Beat{}},
	} {
		f := Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 4, Msg: m}
		if g, err := Parse(f.Append(nil)); err == nil {
			t.Errorf("%s: read as %+v", name, g)
		}
	}
}
