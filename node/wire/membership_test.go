package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"churnbed/node/core"
	"churnbed/node/wire"

	"github.com/google/go-cmp/cmp"
)

// membershipSamples has every membership kind, with plain and with extreme
// values.
func membershipSamples() []core.Message {
	table := []wire.Entry{
		{ID: 3, Inc: 1024, State: wire.MemberActive},
		{ID: 65535, Inc: 1<<32 - 1, Count: 1<<32 - 1, State: wire.MemberLeft},
		{ID: 0, Inc: 0, Count: 7, State: wire.MemberSuspected},
		{ID: 200, Inc: 2048, Count: 1, State: wire.MemberFailed},
		{ID: 201, Inc: 2049, State: wire.MemberJoin},
	}
	return []core.Message{
		&wire.Ping{Seq: 1, Count: 2},
		&wire.Ping{Seq: 1<<64 - 1, Count: 1<<32 - 1},
		&wire.Ack{Seq: 9},
		&wire.Ack{Seq: 9, Count: 1, Table: table},
		&wire.IndPing{Seq: 300, Target: 65535, Table: table[:2]},
		&wire.IndPingAck{Seq: 300, Count: 4, Alive: table[0], Table: table[2:]},
		&wire.ReportAlive{Count: 5, Table: table},
		&wire.Join{Seq: 1, From: 0},
		&wire.Join{Seq: 2, Count: 3, From: 512},
		&wire.JoinAck{Seq: 1, First: 0, Next: 4, List: table[:1]},
		&wire.JoinAck{Seq: 1, First: 100, Next: core.MaxNodes, List: table[3:]},
		&wire.JoinAck{Seq: 1, First: 65535, Next: core.MaxNodes},
		&wire.Unlucky{Count: 1},
		&wire.Leave{},
		&wire.Hello{},
	}
}

func membershipFrames() []wire.Frame {
	var out []wire.Frame
	for _, m := range membershipSamples() {
		out = append(out,
			wire.Frame{From: core.Peer{ID: 7, Inc: 1024}, To: 8, Msg: m},
			wire.Frame{From: core.Peer{ID: 7, Inc: 1024}, To: 8, Reliable: true, Seq: 12, Msg: m})
	}
	return out
}

func TestMembershipRoundTrip(t *testing.T) {
	seen := map[byte]bool{}
	for _, f := range membershipFrames() {
		b := f.Append(nil)
		got, err := wire.Parse(b)
		if err != nil {
			t.Fatalf("parse %s %+v: %v", wire.KindName(f.Msg.Kind()), f.Msg, err)
		}
		if d := cmp.Diff(f, got); d != "" {
			t.Errorf("%s (-sent +parsed):\n%s", wire.KindName(f.Msg.Kind()), d)
		}
		if f.Class() != wire.ClassMembership {
			t.Errorf("class of %s is %s", wire.KindName(f.Msg.Kind()), f.Class())
		}
		seen[f.Msg.Kind()] = true
	}
	for k := wire.KindPing; k <= wire.KindHello; k++ {
		if !seen[k] {
			t.Errorf("no sample of %s", wire.KindName(k))
		}
		if strings.HasPrefix(wire.KindName(k), "kind(") {
			t.Errorf("kind %d has no name", k)
		}
	}
}

func TestMembershipRejects(t *testing.T) {
	frame := func(kind byte, payload ...byte) []byte {
		b := wire.Frame{From: core.Peer{ID: 7, Inc: 1024}, To: 8, Msg: &wire.Leave{}}
		raw := b.Append(nil)
		raw[len(raw)-1] = kind
		return append(raw, payload...)
	}
	for _, c := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"short ping", frame(wire.KindPing, 1), "integer"},
		{"trailing byte", frame(wire.KindLeave, 0), "trailing"},
		{"list longer than the datagram", frame(wire.KindAck, 1, 0, 100, 1, 1, 0), "count"},
		{"unknown state", frame(wire.KindAck, 1, 0, 1, 3, 3, 5), "member state"},
		{"empty id range", frame(wire.KindJoinAck, 1, 0, 4, 0, 0), "empty id range"},
		{"member outside its range", frame(wire.KindJoinAck, 1, 0, 4, 2, 1, 6, 1, 0), "outside"},
		{"range beyond the ids", frame(wire.KindJoinAck, 1, 0, 4, 0x80, 0x80, 0x04, 0), "id range"},
		{"target beyond the ids", frame(wire.KindIndPing, 1, 0, 0x80, 0x80, 0x04, 0), "node id"},
	} {
		_, err := wire.Parse(c.raw)
		if !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %q", c.name, err, c.want)
		}
	}
}

func TestEntryLen(t *testing.T) {
	for _, m := range membershipSamples() {
		a, ok := m.(*wire.Ack)
		if !ok {
			continue
		}
		for _, e := range a.Table {
			if n := len(e.Append(nil)); n != e.Len() || n > wire.EntryMax {
				t.Errorf("%v takes %d bytes, Len says %d, at most %d", e, n, e.Len(), wire.EntryMax)
			}
		}
	}
	longest := wire.Entry{ID: core.MaxNodes - 1, Inc: 1<<32 - 1, Count: 1<<32 - 1, State: wire.MemberLeft}
	if longest.Len() != wire.EntryMax {
		t.Errorf("longest entry takes %d bytes, EntryMax is %d", longest.Len(), wire.EntryMax)
	}
}

// FuzzParse parses whole frames of every kind; what parses must encode to the
// very bytes it came from.
func FuzzParse(f *testing.F) {
	for _, fr := range membershipFrames() {
		f.Add(fr.Append(nil))
	}
	for _, fr := range []wire.Frame{
		{From: core.Peer{ID: 1, Inc: 1024}, To: 2, Msg: &wire.Probe{N: 1, Sent: -5}},
		{From: core.Peer{ID: 1, Inc: 1024}, To: 2, HasAck: true, AckInc: 1024, AckSeq: 3},
		{From: core.Peer{ID: 1, Inc: 1024}, To: 2, Reply: true, Seq: 4, Msg: &wire.Leave{}},
	} {
		f.Add(fr.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, err := wire.Parse(b)
		if err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		if again := fr.Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("% x parses to %+v, which encodes to % x", b, fr, again)
		}
	})
}
