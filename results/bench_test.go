package results

import (
	"testing"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// A run of 256 nodes with 2000 requests and 250,000 membership changes.
func BenchmarkSummarise(b *testing.B) {
	const nodes = 256
	p := newPlant(b, nodes)
	all := make([]core.NodeID, nodes)
	for i := range all {
		all[i] = core.NodeID(i)
	}
	for i := range 2000 {
		at := float64(i * 10)
		a := p.request(at, core.NodeID(i%nodes))
		p.enter(at+1, a, all...)
		p.exit(at+2, a)
		for k := range 125 {
			id := int32(k)
			p.log(at+3, core.NodeID(i%nodes), eventlog.Event{Kind: eventlog.Member, Peer: &id, PeerInc: 1024, Change: "suspected", Size: 200})
		}
	}
	run := p.end(50_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Summarise(run); err != nil {
			b.Fatal(err)
		}
	}
}
