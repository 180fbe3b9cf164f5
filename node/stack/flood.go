package stack

import (
	"churnbed/node/core"
	"churnbed/node/reliable"
	"churnbed/node/wire"
)

// floods are what a node knows of the floods that passed it: simplified
// multicast forwarding (RFC 6621) with sequence-based duplicate detection, a
// window for each node that begins floods. A flood of a process older than
// the newest one heard of, or that lies below the window, is taken for a
// duplicate: it is lost there, which is harmless to what is flooded.
type floods struct {
	seq  uint64   // of the latest flood of this process
	seen []window // by origin
}

// windowSize is how many floods of one origin may overtake each other.
const windowSize = 64

// window tells which floods of one process of a node have passed: the highest
// number, and in bit i the one i+1 below it.
type window struct {
	start int
	high  uint64
	below uint64
}

// fresh reports whether a flood is seen for the first time, and notes it.
func (f *floods) fresh(origin core.Peer, seq uint64) bool {
	if n := int(origin.ID) + 1 - len(f.seen); n > 0 {
		f.seen = append(f.seen, make([]window, n)...)
	}
	w := &f.seen[origin.ID]
	if start := origin.Inc.Start(); start != w.start {
		if start < w.start {
			return false
		}
		*w = window{start: start}
	}
	if seq > w.high {
		ahead := seq - w.high
		w.below <<= min(ahead, windowSize) // a shift by the whole width gives 0
		if w.high > 0 && ahead <= windowSize {
			w.below |= 1 << (ahead - 1)
		}
		w.high = seq
		return true
	}
	behind := w.high - seq
	if behind == 0 || behind > windowSize || w.below&(1<<(behind-1)) != 0 {
		return false
	}
	w.below |= 1 << (behind - 1)
	return true
}

// beginFlood sends a message to everyone: one end-to-end message, one frame
// to each neighbour.
func (n *Node) beginFlood(m core.Message) {
	n.floods.seq++
	f := wire.Frame{From: n.self, To: n.self.ID, Msg: &wire.Flood{Seq: n.floods.seq, Via: n.self.ID, Msg: m}}
	size := n.traffic.sent(&reliable.Out{Frame: f})
	n.flood(core.None, f, size)
}

// flooded takes in a flooded frame: a new one goes on to the other neighbours
// and is handled.
func (n *Node) flooded(now core.Instant, f *wire.Frame, m *wire.Flood, size int) {
	if !n.floods.fresh(f.From, m.Seq) {
		return
	}
	onward := wire.Frame{From: f.From, To: f.To, Msg: &wire.Flood{Seq: m.Seq, Via: n.self.ID, Msg: m.Msg}}
	n.flood(m.Via, onward, n.traffic.size(&onward))
	inner := wire.Frame{From: f.From, To: n.self.ID, Msg: m.Msg}
	n.traffic.received(&inner, size)
	n.handle(now, &inner)
}

// flood asks the owner to send a frame to every neighbour but one.
func (n *Node) flood(except core.NodeID, f wire.Frame, size int) {
	copies := int64(0)
	for _, k := range n.cfg.Neighbours {
		if k != except {
			copies++
		}
	}
	if copies == 0 {
		return
	}
	n.traffic.out[frameKind(&f)].Hops += copies
	*n.out = append(*n.out, Effect{Op: Flood, To: except, Frame: f, Size: size})
}
