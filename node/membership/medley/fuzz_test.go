package medley_test

import (
	"testing"

	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/membership/medley"
	"churnbed/node/wire"
)

// FuzzReceive feeds frames of any content to a member: whatever others say,
// the machine neither panics nor sends what does not fit a frame, and its
// list and size agree.
func FuzzReceive(f *testing.F) {
	table := []wire.Entry{
		{ID: 2, Inc: 1024, State: wire.MemberSuspected},
		{ID: 0, Inc: 1024, State: wire.MemberFailed},
		{ID: 65535, Inc: 1<<32 - 1, Count: 1<<32 - 1, State: wire.MemberLeft},
	}
	for _, m := range []core.Message{
		&wire.Ping{Seq: 1},
		&wire.Ack{Seq: 1, Table: table},
		&wire.IndPing{Target: 3, Table: table},
		&wire.IndPing{Target: 60000},
		&wire.IndPingAck{Alive: wire.Entry{ID: 60000}},
		&wire.ReportAlive{Table: []wire.Entry{{ID: 0, Inc: 1<<32 - 1, State: wire.MemberSuspected}}},
		&wire.Join{From: 60000},
		&wire.JoinAck{First: 2, Next: core.MaxNodes, List: []wire.Entry{{ID: 4, Inc: 5, State: wire.MemberSuspected}}},
		&wire.Unlucky{},
		&wire.Leave{},
		&wire.Hello{},
	} {
		fr := wire.Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 0, Msg: m}
		f.Add(fr.Append(nil), true)
		f.Add(fr.Append(nil), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, join bool) {
		fr, err := wire.Parse(b)
		if err != nil || fr.Msg == nil {
			return
		}
		var peers []core.Peer
		for id := range core.NodeID(8) {
			peers = append(peers, core.Peer{ID: id, Inc: core.FirstIncarnation})
		}
		m := medley.New(medley.Config{}, 8, []core.NodeID{1, 2}, nil, core.Stream(1, "fuzz"))
		var out membership.Effects
		m.Step(0, membership.Start{Self: peers[0], Peers: peers, Join: join}, &out)
		for range 40 {
			now := m.Deadline()
			if now == core.Never {
				break
			}
			m.Step(now, membership.Receive{From: fr.From, Msg: fr.Msg}, &out)
			m.Step(now, membership.Tick{}, &out)
			if n := len(m.Members(nil)); n+1 != m.Size() {
				t.Fatalf("%d members, size %d", n, m.Size())
			}
		}
		for _, s := range out.Sends {
			if n := len(s.Msg.AppendPayload(nil)); n > wire.MaxPayload {
				t.Fatalf("%s of %d bytes", wire.KindName(s.Msg.Kind()), n)
			}
		}
	})
}
