package fairk

import (
	"bytes"
	"slices"
	"testing"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// TestHeirs: who acts for an id is itself while it takes part, else the next
// one of its copies' keepers.
func TestHeirs(t *testing.T) {
	const nodes, copies = 20, 3
	c := newCircle(nodes)
	v := &wire.View{Nodes: make([]wire.ViewNode, nodes)}
	for i := range v.Nodes {
		v.Nodes[i].Member = true
	}
	for id := range core.NodeID(nodes) {
		before := c.heirs(v, id, copies+1)
		if len(before) != copies+1 || before[0] != id || c.host(v, id) != id {
			t.Fatalf("heirs of %d: %v", id, before)
		}
		v.Nodes[id].Member, v.Nodes[before[1]].Member = false, false
		if after := c.heirs(v, id, copies+1); after[0] != before[2] || c.host(v, id) != before[2] {
			t.Errorf("heirs of %d: %v, and without the first two %v", id, before, after)
		}
		v.Nodes[id].Member, v.Nodes[before[1]].Member = true, true
	}
	slices.Sort(c.order)
	for i, id := range c.order {
		if int(id) != i {
			t.Fatalf("%v is no order of all nodes", c.order)
		}
	}
}

func sampleState() []byte {
	r := core.RequestID{Node: 3, Inc: 1024, TS: 5}
	h := &hosted{
		m: member{
			id: 2, st: mutex.Held, clk: 9, cur: r, parent: core.None, next: r, token: true, slot: 1, anchor: r, child: r,
			lead: true, slots: []core.RequestID{r, r}, order: 4, ledFor: r, seen: requests.Walks{{Request: r, Hop: 3}},
		},
		out: 7, parcels: []parcel{{n: 6, to: 4, msg: &wire.Token{For: r, Slot: 1}}, {n: 7, to: 5, msg: &wire.Child{After: r, For: r}}},
	}
	return h.append(nil)
}

// FuzzState: a state that can be read is written again as the same bytes, and
// nothing makes the reader panic.
func FuzzState(f *testing.F) {
	f.Add(sampleState())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, state []byte) {
		h, err := readHosted(2, state)
		if err == nil && !bytes.Equal(h.append(nil), state) {
			again, err := readHosted(2, h.append(nil))
			if err != nil || !bytes.Equal(again.append(nil), h.append(nil)) {
				t.Errorf("%x is written as %x (%v)", state, h.append(nil), err)
			}
		}
	})
}

func TestStateIsRead(t *testing.T) {
	state := sampleState()
	h, err := readHosted(2, state)
	if err != nil || !bytes.Equal(h.append(nil), state) {
		t.Fatalf("%x is read as %+v: %v", state, h, err)
	}
	for n := range state {
		if h, err := readHosted(2, state[:n]); err == nil {
			t.Errorf("cut to %d bytes: %+v", n, h)
		}
	}
}
