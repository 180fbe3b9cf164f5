package wire

import (
	"bytes"
	"errors"
	"testing"

	"churnbed/node/core"

	"github.com/google/go-cmp/cmp"
)

func floodFrame() Frame {
	from := core.Peer{ID: 7, Inc: core.FirstIncarnation}
	return Frame{From: from, To: 7, Msg: &Flood{
		Seq: 300, Via: 12, Msg: &Release{ID: core.RequestID{Node: 7, Inc: core.FirstIncarnation, TS: 9}},
	}}
}

func TestFloodRoundTrip(t *testing.T) {
	f := floodFrame()
	b := f.Append(nil)
	g, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(f, g); d != "" {
		t.Errorf("-sent +read:\n%s", d)
	}
	if c := Class(b[1] & classMask); c != ClassMutex {
		t.Errorf("a flooded RELEASE has class %v", c)
	}
	for n := range b {
		if _, err := Parse(b[:n]); err == nil {
			t.Errorf("cut to %d bytes it is accepted", n)
		}
	}
}

func TestFloodRejects(t *testing.T) {
	for name, b := range map[string][]byte{
		"sequence 0":          {0, 1, KindRelease, 7, 1, 1},
		"a flood in a flood":  {1, 1, KindFlood, 1, 1, KindRelease, 7, 1, 1},
		"a membership ping":   {1, 1, KindPing, 0, 0},
		"no message":          {1, 1},
		"an unknown message":  {1, 1, 0xff},
		"a malformed message": {1, 1, KindRelease, 7, 1, 0},
	} {
		r := NewReader(b)
		if m := readFlood(r); !errors.Is(r.Err(), ErrMalformed) {
			t.Errorf("%s: read %+v, error %v", name, m, r.Err())
		}
	}
}

func FuzzFlood(f *testing.F) {
	fr := floodFrame()
	f.Add(fr.Msg.AppendPayload(nil))
	f.Add([]byte{1, 1, KindFlood, 1, 1, KindRelease})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		m := readFlood(r)
		if r.Err() != nil || r.Len() > 0 {
			return
		}
		if c := m.AppendPayload(nil); !bytes.Equal(b, c) {
			t.Fatalf("read % x\nwrites % x", b, c)
		}
	})
}
