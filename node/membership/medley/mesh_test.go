package medley_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/membership/medley"
	"churnbed/node/wire"
)

// mesh runs machines in virtual time over a random mesh: every message takes
// hopDelay a hop along the shortest path and is lost with hopLoss at each.
type mesh struct {
	t       testing.TB
	cfg     medley.Config
	seed    uint64
	rng     *rand.Rand
	loss    float64
	near    [][]core.NodeID
	dist    [][]float32
	hops    [][]int
	nodes   []*meshNode
	now     core.Instant
	events  core.Queue[event]
	side    []int // nodes of different sides do not hear each other
	changed func(at core.Instant, node core.NodeID, c membership.Change)
	hash    uint64 // of everything sent and changed
	sent    map[byte]int
	bytes   map[byte]int
	buf     []byte
	quiet   bool // keep no trace hash

	falsePositives int // FAILED about a life that is up
	fences         int
}

type meshNode struct {
	id     core.NodeID
	m      *medley.Machine
	inc    core.Incarnation
	up     bool
	start  int
	wake   core.Instant // earliest tick in the heap
	joined core.Instant
}

const hopDelay = 5 * time.Millisecond

type event struct {
	node core.NodeID
	life int // start count the event is for; frames go to any life
	from core.Peer
	msg  core.Message // nil: a tick
}

// newMesh scatters n nodes over a square with about ten neighbours each and
// starts all of them with full lists.
func newMesh(t testing.TB, n int, loss float64, seed uint64, cfg medley.Config) *mesh {
	t.Helper()
	h := &mesh{
		t: t, cfg: cfg, seed: seed, rng: core.Stream(seed, "mesh"), loss: loss,
		side: make([]int, n), sent: map[byte]int{}, bytes: map[byte]int{},
	}
	for !h.scatter(n) {
	}
	all := make([]core.Peer, n)
	for id := range all {
		all[id] = core.Peer{ID: core.NodeID(id), Inc: core.FirstIncarnation}
	}
	for id := range core.NodeID(n) {
		h.nodes = append(h.nodes, &meshNode{id: id, wake: core.Never})
	}
	for id := range core.NodeID(n) {
		h.begin(id, all, false)
	}
	return h
}

// reach is a node at a distance, in Dijkstra's queue.
type reach struct {
	d  float64
	id core.NodeID
}

// scatter draws positions and computes shortest paths; false: not connected.
func (h *mesh) scatter(n int) bool {
	edge := math.Sqrt(float64(n))
	radius := 1.8 // mean degree about pi*1.8^2 = 10, less at the rim
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i], y[i] = h.rng.Float64()*edge, h.rng.Float64()*edge
	}
	h.near, h.dist, h.hops = make([][]core.NodeID, n), make([][]float32, n), make([][]int, n)
	for i := range n {
		for j := range n {
			if i != j && math.Hypot(x[i]-x[j], y[i]-y[j]) <= radius {
				h.near[i] = append(h.near[i], core.NodeID(j))
			}
		}
	}
	for s := range n {
		dist, hops := make([]float64, n), make([]int, n)
		for i := range dist {
			dist[i] = math.Inf(1)
		}
		dist[s] = 0
		q := core.Heap[reach]{Less: func(a, b *reach) bool { return a.d < b.d }}
		for q.Push(reach{0, core.NodeID(s)}); q.Len() > 0; {
			r := q.Pop()
			u := r.id
			if r.d > dist[u] {
				continue
			}
			for _, v := range h.near[u] {
				if d := r.d + math.Hypot(x[u]-x[v], y[u]-y[v]); d < dist[v] {
					dist[v], hops[v] = d, hops[u]+1
					q.Push(reach{d, v})
				}
			}
		}
		if math.IsInf(slices.Max(dist), 1) {
			return false
		}
		h.hops[s], h.dist[s] = hops, make([]float32, n)
		for i, d := range dist {
			h.dist[s][i] = float32(d)
		}
	}
	return true
}

func (h *mesh) begin(id core.NodeID, peers []core.Peer, join bool) {
	n := h.nodes[id]
	n.start++
	n.up, n.inc, n.joined, n.wake = true, core.Incarnation(n.start)*core.IncarnationStep, core.Never, core.Never
	rng := core.Stream(h.seed, fmt.Sprintf("medley %d %d", id, n.start))
	n.m = medley.New(h.cfg, len(h.nodes), h.near[id], h.dist[id], rng)
	var list []core.Peer
	for _, p := range peers {
		if p.ID != id {
			list = append(list, p)
		}
	}
	h.step(n, membership.Start{Self: core.Peer{ID: id, Inc: n.inc}, Peers: list, Join: join})
}

// crash kills a node, restart starts it again, with its neighbours for
// contacts.
func (h *mesh) crash(id core.NodeID) { h.nodes[id].up = false }

func (h *mesh) restart(id core.NodeID) {
	var contacts []core.Peer
	for _, p := range h.near[id] {
		contacts = append(contacts, core.Peer{ID: p, Inc: core.FirstIncarnation})
	}
	h.begin(id, contacts, true)
}

func (h *mesh) note(v ...any) {
	if h.quiet {
		return
	}
	f := fnv.New64a()
	fmt.Fprint(f, h.hash, h.now, v)
	h.hash = f.Sum64()
}

func (h *mesh) step(n *meshNode, in membership.Input) {
	var out membership.Effects
	before := n.m.Self()
	n.m.Step(h.now, in, &out)
	if out.Fenced {
		h.fences++
		if n.m.Self().Inc <= before.Inc {
			h.t.Fatalf("node %v fenced without a higher incarnation", before)
		}
	}
	n.inc = n.m.Self().Inc
	if out.Joined {
		if n.joined != core.Never {
			h.t.Fatalf("node %d joined twice in a life", n.id)
		}
		n.joined = h.now
	}
	for _, c := range out.Changes {
		if o := h.nodes[c.Peer.ID]; c.Kind == membership.Failed && o.up && o.inc == c.Peer.Inc {
			h.falsePositives++
		}
		if c.Peer.ID == n.id {
			h.t.Fatalf("node %d tells of itself: %v %v", n.id, c.Kind, c.Peer)
		}
		if h.changed != nil {
			h.changed(h.now, n.id, c)
		}
		h.note(n.id, c.Peer, c.Kind)
	}
	for _, s := range out.Sends {
		h.send(n, s)
	}
	if d := n.m.Deadline(); d < n.wake {
		n.wake = d
		h.events.Push(max(d, h.now), event{node: n.id, life: n.start})
	}
}

func (h *mesh) send(n *meshNode, s core.Send) {
	h.buf = s.Msg.AppendPayload(h.buf[:0])
	if len(h.buf) > wire.MaxPayload {
		h.t.Fatalf("%s of %d bytes, at most %d", wire.KindName(s.Msg.Kind()), len(h.buf), wire.MaxPayload)
	}
	h.sent[s.Msg.Kind()]++
	h.bytes[s.Msg.Kind()] += len(h.buf)
	h.note(n.id, s.To, s.Msg.Kind(), len(h.buf))
	hops := h.hops[n.id][s.To]
	if s.Mode == core.Datagram && h.rng.Float64() >= math.Pow(1-h.loss, float64(hops)) {
		return
	}
	h.events.Push(h.now.Add(time.Duration(hops)*hopDelay), event{node: s.To, from: core.Peer{ID: n.id, Inc: n.inc}, msg: s.Msg})
}

// run goes on until the instant.
func (h *mesh) run(until time.Duration) {
	for h.events.Next() <= core.Instant(until) {
		at, e := h.events.Pop()
		h.now = at
		n := h.nodes[e.node]
		switch {
		case !n.up:
		case e.msg != nil:
			if h.side[e.node] == h.side[e.from.ID] {
				h.step(n, membership.Heard{Peer: e.from})
				h.step(n, membership.Receive{From: e.from, Msg: e.msg})
			}
		case e.life == n.start && at >= n.wake:
			n.wake = core.Never
			if d := n.m.Deadline(); d > h.now { // it moved meanwhile
				if d != core.Never {
					n.wake = d
					h.events.Push(d, event{node: n.id, life: n.start})
				}
				break
			}
			h.step(n, membership.Tick{})
		}
	}
	h.now = core.Instant(until)
}

// sizes returns the mean and the least list size of the nodes that are up.
func (h *mesh) sizes() (mean float64, least int) {
	n := 0
	least = math.MaxInt
	for _, o := range h.nodes {
		if o.up {
			mean += float64(o.m.Size())
			least = min(least, o.m.Size())
			n++
		}
	}
	return mean / float64(n), least
}

// sample runs until the instant, looks every second, and returns the mean and
// the least of all list sizes seen.
func (h *mesh) sample(until time.Duration) (mean float64, least int) {
	n := 0
	least = math.MaxInt
	for t := time.Duration(h.now) + time.Second; t <= until; t += time.Second {
		h.run(t)
		m, l := h.sizes()
		mean, least, n = mean+m, min(least, l), n+1
	}
	return mean / float64(n), least
}

// lists tells how many nodes that are up list exactly this life of id.
func (h *mesh) lists(id core.NodeID, inc core.Incarnation) (n int) {
	for _, o := range h.nodes {
		if !o.up || o.id == id {
			continue
		}
		for _, p := range o.m.Members(nil) {
			if p.ID == id && p.Inc == inc {
				n++
			}
		}
	}
	return n
}

// others is the number of nodes that are up, id left out.
func (h *mesh) others(id core.NodeID) (n int) {
	for _, o := range h.nodes {
		if o.up && o.id != id {
			n++
		}
	}
	return n
}

// wrong counts missing, dead and outdated entries over all lists.
func (h *mesh) wrong() (n int) {
	for _, o := range h.nodes {
		if !o.up {
			continue
		}
		seen := 0
		for _, p := range o.m.Members(nil) {
			if q := h.nodes[p.ID]; !q.up || q.inc != p.Inc {
				n++
			} else {
				seen++
			}
		}
		n += h.others(o.id) - seen
	}
	return n
}
