package medley_test

import (
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/membership/medley"
	"churnbed/node/wire"
)

// BenchmarkRound is the cost of one round of one node among 1,000: the tick,
// the ACK of its ping and the answer to somebody else's.
func BenchmarkRound(b *testing.B) {
	const nodes = 1000
	dist := make([]float32, nodes)
	var peers []core.Peer
	for id := range core.NodeID(nodes) {
		dist[id] = float32(id%97 + 1)
		peers = append(peers, core.Peer{ID: id, Inc: core.FirstIncarnation})
	}
	m := medley.New(medley.DefaultConfig(), nodes, []core.NodeID{1, 2, 3}, dist, core.Stream(1, "bench"))
	var out membership.Effects
	m.Step(0, membership.Start{Self: peers[0], Peers: peers}, &out)
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		now := m.Deadline()
		m.Step(now, membership.Tick{}, &out)
		for _, s := range out.Sends {
			if p, ok := s.Msg.(*wire.Ping); ok {
				from := peers[s.To]
				m.Step(now, membership.Heard{Peer: from}, &out)
				m.Step(now, membership.Receive{From: from, Msg: &wire.Ack{Seq: p.Seq}}, &out)
				m.Step(now, membership.Receive{From: from, Msg: &wire.Ping{Seq: 1}}, &out)
				break
			}
		}
	}
}

// BenchmarkMesh is one virtual second of 1,000 nodes at 5 % loss a hop.
func BenchmarkMesh(b *testing.B) {
	h := newMesh(b, 1000, 0.05, 1, medley.DefaultConfig())
	h.quiet = true
	b.ReportAllocs()
	for b.Loop() {
		h.run(time.Duration(h.now) + time.Second)
	}
}
