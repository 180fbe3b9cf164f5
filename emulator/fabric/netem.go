package fabric

import (
	"churnbed/emulator/kernel"
	"churnbed/emulator/link"
	"churnbed/node/core"
)

// netemBackend leaves the work to the kernel's sch_netem.
type netemBackend struct {
	f       *Fabric
	seeds   [][2]func() uint64
	dirs    [][2]netemCounter
	softnet int64
}

// netemCounter turns the kernel's counters into LinkCounters: what is
// expected to be lost changes with the parameters.
type netemCounter struct {
	expected float64 // up to frames
	frames   int64   // counted into expected
	drops    int64   // the kernel's counter, which has 32 bits, unwrapped
	now      LinkCounters
}

func newNetem(f *Fabric, seeds [][2]func() uint64) backend {
	return &netemBackend{f: f, seeds: seeds, dirs: make([][2]netemCounter, len(f.links)), softnet: kernel.SoftnetDrops()}
}

func (n *netemBackend) ends(i int) [2]core.NodeID {
	return [2]core.NodeID{n.f.links[i].A, n.f.links[i].B}
}

func (n *netemBackend) set(i int, ab, ba link.Params) error {
	for side, end := range n.ends(i) {
		// What went before is judged by the parameters of then.
		if err := n.read(int(end)); err != nil {
			return err
		}
		nd := &n.f.nodes[end]
		p := ab
		if side == 1 {
			p = ba
		}
		b := nd.conn.Batch()
		b.Netem(nd.adj[nd.at[n.ends(i)[1-side]]].index, p, n.seeds[i][side](), true)
		if err := b.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// read takes over the counters of all interfaces of a node.
func (n *netemBackend) read(i int) error {
	nd := &n.f.nodes[i]
	stats, err := nd.conn.Qdiscs()
	if err != nil {
		return err
	}
	for _, s := range stats {
		k := int(s.Index) - 2
		if s.Kind != "netem" || k < 0 || k >= len(nd.adj) {
			continue
		}
		li := nd.adj[k].link
		p, side := n.f.direction(li, core.NodeID(i))
		c := &n.dirs[li][side]
		c.drops += int64(s.Drops - uint32(c.drops))
		frames := int64(s.Packets) + int64(s.Queued) + c.drops
		c.expected += float64(frames-c.frames) * p.MeanLoss()
		c.frames = frames
		c.now = LinkCounters{Frames: frames, Bytes: int64(s.Bytes), Dropped: c.drops, Expected: c.expected}
	}
	return nil
}

func (n *netemBackend) counters() ([][2]LinkCounters, Losses, error) {
	losses := Losses{Backlog: kernel.SoftnetDrops() - n.softnet}
	for i := range n.f.nodes {
		if err := n.read(i); err != nil {
			return nil, losses, err
		}
	}
	out := make([][2]LinkCounters, len(n.dirs))
	for i := range n.dirs {
		out[i] = [2]LinkCounters{n.dirs[i][0].now, n.dirs[i][1].now}
	}
	return out, losses, nil
}

func (n *netemBackend) setUp(int, bool) error { return nil }

func (n *netemBackend) lateness() Lateness { return Lateness{} }

func (n *netemBackend) close() error { return nil }
