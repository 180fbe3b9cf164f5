package wire

import (
	"bytes"
	"errors"
	"testing"

	"churnbed/node/core"

	"github.com/google/go-cmp/cmp"
)

func mutexMessages() []core.Message {
	r := core.RequestID{Node: 7, Inc: core.FirstIncarnation, TS: 9}
	dense := make([]core.Peer, 256)
	for i := range dense {
		dense[i] = core.Peer{ID: core.NodeID(i), Inc: core.Incarnation(1+i%3) * core.IncarnationStep}
	}
	sparse := []core.Peer{{ID: 0, Inc: 0}, {ID: 5, Inc: 1<<32 - 1}, {ID: core.MaxNodes - 1, Inc: 1024}}
	return []core.Message{
		&Request{ID: r},
		&Request{ID: r, News: 3, NewsInc: 2048},
		&OK{ID: r},
		&OK{ID: r, Amnesiac: true, Set: sparse},
		&OK{ID: r, Set: dense, News: 12, Lives: sparse},
		&OK{ID: r, News: 1 << 60},
		&OK{ID: r, Round: 200},
		&Release{ID: r},
		&Inquire{ID: r},
		&Inquire{ID: r, Round: 1},
		&Relinquish{ID: r},
		&Relinquish{ID: r, Round: 1 << 60},
		&Failed{ID: r},
		&Failed{ID: r, Round: 3},
		&Recover{Nonce: 2048},
		&Recovered{Nonce: 2048},
		&Recovered{Nonce: 2048, Requests: []core.RequestID{
			{Node: 1, Inc: 1024, TS: 1 << 63}, {Node: 2, Inc: 2048, TS: 1}, {Node: 9, Inc: 1024, TS: 1<<64 - 1},
		}, Lives: dense},
	}
}

func TestMutexRoundTrip(t *testing.T) {
	for _, m := range mutexMessages() {
		f := Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 4, Reliable: true, Seq: 5, Msg: m}
		g, err := Parse(f.Append(nil))
		if err != nil {
			t.Errorf("%s: %v", KindName(m.Kind()), err)
			continue
		}
		if d := cmp.Diff(f, g); d != "" {
			t.Errorf("%s (-sent +read):\n%s", KindName(m.Kind()), d)
		}
		b := f.Append(nil)
		for n := range b {
			if h, err := Parse(b[:n]); err == nil && !bytes.Equal(h.Append(nil), b[:n]) {
				t.Errorf("%s cut to %d bytes reads as %+v", KindName(m.Kind()), n, h)
			}
		}
	}
}

func TestPeerSetSize(t *testing.T) {
	// 256 members of three process starts: one byte each, and the table.
	m := mutexMessages()[4].(*OK)
	if n := len(appendPeerSet(nil, m.Set)); n > 256+9 {
		t.Errorf("256 members take %d bytes", n)
	}
	// 30 of 1000, one incarnation: one byte each.
	var set []core.Peer
	for i := range 30 {
		set = append(set, core.Peer{ID: core.NodeID(33 * i), Inc: core.FirstIncarnation})
	}
	if n := len(appendPeerSet(nil, set)); n > 30+4 {
		t.Errorf("30 of 1000 take %d bytes", n)
	}
}

func TestPeerSetRejects(t *testing.T) {
	for name, b := range map[string][]byte{
		"count beyond the input":      {200, 1, 1, 0},
		"no incarnation":              {1, 0, 0},
		"more incarnations than sets": {1, 2, 1, 1, 0},
		"table does not ascend":       {2, 2, 1, 0, 0, 1},
		"unused incarnation":          {2, 2, 1, 1, 0, 0},
		"id out of range":             {2, 1, 1, 0xff, 0xff, 3, 0},
	} {
		r := NewReader(b)
		if set := readPeerSet(r); !errors.Is(r.Err(), ErrMalformed) {
			t.Errorf("%s: read %v, error %v", name, set, r.Err())
		}
	}
}

func FuzzMutex(f *testing.F) {
	for _, m := range mutexMessages() {
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
		// What parses has one encoding only.
		if c := g.Append(nil); !bytes.Equal(b, c) {
			t.Fatalf("read % x\nwrites % x", b, c)
		}
	})
}
