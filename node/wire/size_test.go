package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"churnbed/node/core"
)

func sizeFrame() Frame {
	m := &Size{Settled: true, Answer: true, Floor: 300, Minima: make([]uint16, MaxMinima)}
	for i := range m.Minima {
		m.Minima[i] = uint16(100 * i)
	}
	return Frame{From: core.Peer{ID: 7, Inc: core.FirstIncarnation}, To: 3, Msg: m}
}

func TestSizeRoundTrip(t *testing.T) {
	f := sizeFrame()
	b := f.Append(nil)
	if len(b) > MaxFrame {
		t.Errorf("%d bytes, more than a frame", len(b))
	}
	g, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(f, g); d != "" {
		t.Errorf("-sent +read:\n%s", d)
	}
	for n := range b {
		if _, err := Parse(b[:n]); err == nil {
			t.Errorf("cut to %d bytes it is accepted", n)
		}
	}
}

func FuzzSize(f *testing.F) {
	f.Add(sizeFrame().Msg.AppendPayload(nil))
	f.Add([]byte{3, 5, 2, 0, 1, 2, 3})
	f.Add([]byte{4, 5, 2, 0, 1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		m := readSize(r)
		if r.Err() != nil {
			if !errors.Is(r.Err(), ErrMalformed) {
				t.Errorf("error %v", r.Err())
			}
			return
		}
		if n := len(b) - r.Len(); !bytes.Equal(m.AppendPayload(nil), b[:n]) {
			t.Errorf("%x was read as %+v", b[:n], m)
		}
	})
}
