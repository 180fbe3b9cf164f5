package wire

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"churnbed/node/core"
)

func groupSamples() []*Group {
	return []*Group{
		{Type: KindGroupDevicePing, Device: core.None},
		{Type: KindGroupDevicePong, Group: 3, Device: 0, Value: -7, Seq: 9},
		{Type: KindGroupLock, Group: 1, Epoch: 4, Term: 2, Device: 65535, Routine: 12, Ticket: 1 << 40, Code: 2, Takes: time.Second},
		{
			Type: KindGroupInvite, Group: 2, Epoch: 9, Term: 1, Op: 1 << 63, Device: core.None,
			Leader:  core.Peer{ID: 0, Inc: 1024},
			Members: []core.Peer{{ID: 1, Inc: 1024}, {ID: 0, Inc: 2048}}, Prev: []core.Peer{{ID: 5, Inc: 1}},
		},
		{Type: KindGroupAppend, Device: core.None, Items: []Item{{Key: 0, Version: 1, Data: []byte("abc")}, {Key: 1 << 31, Version: 1 << 50}}},
	}
}

func TestGroupRoundTrip(t *testing.T) {
	for _, m := range groupSamples() {
		f := Frame{From: core.Peer{ID: 1, Inc: 1024}, To: 2, Msg: m}
		b := f.Append(nil)
		got, err := Parse(b)
		if err != nil {
			t.Errorf("%s: %v", KindName(m.Type), err)
			continue
		}
		if diff := cmp.Diff(m, got.Msg); diff != "" {
			t.Errorf("%s: %s", KindName(m.Type), diff)
		}
		for cut := range b {
			if p, err := Parse(b[:cut]); err == nil && p.Msg != nil {
				t.Errorf("%s: parses when cut to %d of %d bytes", KindName(m.Type), cut, len(b))
			}
		}
	}
}

func FuzzGroup(f *testing.F) {
	for _, m := range groupSamples() {
		f.Add(m.Type, m.AppendPayload(nil))
	}
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		if KindClass(kind) != ClassGroup {
			return
		}
		r := NewReader(payload)
		m := readGroup(r, kind)
		if r.Err() != nil || r.Len() > 0 {
			return
		}
		if got := m.AppendPayload(nil); !bytes.Equal(got, payload) {
			t.Errorf("%x encodes again as %x", payload, got)
		}
	})
}
