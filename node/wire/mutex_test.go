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
		&OK{ID: r, Grant: 3, Next: core.None},
		&OK{ID: r, Set: sparse, News: 5, Lives: dense, Grant: 1 << 40, Start: 256, Next: core.MaxNodes - 1},
		&Request{ID: r, NewsInc: 1024, Grant: 1, Start: 255},
		&Request{ID: r, News: 9, NewsInc: 1024, Grant: 77, Start: 0},
		&Recover{Nonce: 3072, Inc: 2048, Start: 5, LivesStart: 700},
		&Recovered{Nonce: 2048, Lives: sparse, Part: true, Start: 3, Next: 9, LivesStart: 0, LivesNext: core.None},
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
	every := func(n, step int, inc func(i int) core.Incarnation) (set []core.Peer) {
		for i := range n {
			set = append(set, core.Peer{ID: core.NodeID(5 + step*i), Inc: inc(i)})
		}
		return set
	}
	first := func(int) core.Incarnation { return core.FirstIncarnation }
	for _, c := range []struct {
		name string
		set  []core.Peer
		most int
	}{
		{"nobody", nil, 1},
		{"one", every(1, 1, first), 2},
		{"30 of 1000, nobody restarted: a byte each", every(30, 33, first), 30 + 2},
		{"256 of 256: a bit each", every(256, 1, first), 32 + 5},
		{"256 of three process starts: three bits each", every(256, 1, func(i int) core.Incarnation {
			return core.Incarnation(1+i%3) * core.IncarnationStep
		}), 32 + 64 + 9},
		{"8192, the most of a scenario", every(8192, 1, first), wireLimit},
	} {
		if n := SetSize(c.set); n > c.most {
			t.Errorf("%s: %d bytes, want at most %d", c.name, n, c.most)
		}
	}
}

const wireLimit = 1100

func TestFit(t *testing.T) {
	var set []core.Peer
	var requests []core.RequestID
	for i := range 3000 {
		set = append(set, core.Peer{ID: core.NodeID(i*i%7 + 20*i), Inc: core.Incarnation(1+i*i%17) * core.IncarnationStep})
		requests = append(requests, core.RequestID{Node: set[i].ID, Inc: set[i].Inc, TS: uint64(1 + i*i)})
	}
	for _, room := range []int{1, 2, 50, 500, MaxPayload, 1 << 20} {
		n, m := FitSet(set, room), FitRequests(requests, room)
		if n > 0 && SetSize(set[:n]) > room || n < len(set) && SetSize(set[:n+1]) <= room {
			t.Errorf("%d members fit in %d bytes, of %d", n, room, len(set))
		}
		if m > 0 && len(appendRequests(nil, requests[:m])) > room || m < len(set) && len(appendRequests(nil, requests[:m+1])) <= room {
			t.Errorf("%d requests fit in %d bytes, of %d", m, room, len(set))
		}
	}
}

func TestPeerSetRejects(t *testing.T) {
	const gaps, bitmap = 0, 4
	for name, b := range map[string][]byte{
		"no members":                   {0<<3 | livesOne},
		"count beyond the input":       {200, 1, 1, 0},
		"unknown coding of lives":      {1<<3 | 3, 5},
		"bitmap where gaps are short":  {1<<3 | bitmap, 5, 0},
		"gaps where a bitmap is short": {8<<3 | gaps, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"bits and count differ":        {5<<3 | bitmap, 5, 1, 0x07},
		"bitmap with an empty end":     {9<<3 | bitmap, 5, 2, 0xff, 0},
		"id out of range in a bitmap":  {8<<3 | bitmap, 0xff, 0xff, 3, 1, 0x7f},
		"id out of range":              {2 << 3, 0xff, 0xff, 3, 0},
		"first incarnation spelt out":  {1<<3 | livesOne, 5, 1 << 1},
		"rest 0 of an incarnation":     {1<<3 | livesOne, 5, 2<<1 | 1, 0},
		"table of one":                 {2<<3 | livesTable, 5, 0, 1, 1 << 1, 0},
		"table does not ascend":        {2<<3 | livesTable, 5, 0, 2, 2 << 1, 1 << 1, 1},
		"unused incarnation":           {2<<3 | livesTable, 5, 0, 2, 1 << 1, 2 << 1, 0},
		"index beyond the table":       {3<<3 | livesTable, 5, 0, 0, 3, 1 << 1, 2 << 1, 3 << 1, 0x3f},
		"bits after the indices":       {2<<3 | livesTable, 5, 0, 2, 1 << 1, 2 << 1, 0x06},
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
