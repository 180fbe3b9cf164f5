package medley_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/membership/medley"
	"churnbed/node/wire"
)

// TestListsUnderLoss is the expectation of ALGORITHMS 4: at 5 % loss a hop
// the mean list is near N and no list below 0.9 N.
func TestListsUnderLoss(t *testing.T) {
	for _, c := range []struct {
		nodes int
		span  time.Duration
	}{{64, 10 * time.Minute}, {256, 5 * time.Minute}} {
		t.Run(fmt.Sprint(c.nodes), func(t *testing.T) {
			h := newMesh(t, c.nodes, 0.05, 1, medley.DefaultConfig())
			suspicions := 0
			h.changed = func(_ core.Instant, _ core.NodeID, ch membership.Change) {
				if ch.Kind == membership.Suspected {
					suspicions++
				}
			}
			mean, least := h.sample(c.span)
			t.Logf("%d nodes, %v: mean list %.2f, least %d, suspicions %d, false positives %d, fences %d, messages/node/s %.2f",
				c.nodes, c.span, mean, least, suspicions, h.falsePositives, h.fences, h.rate(c.span))
			if n := float64(c.nodes); mean < 0.99*n || float64(least) < 0.9*n {
				t.Errorf("mean list %.2f, least %d of %d", mean, least, c.nodes)
			}
			if suspicions == 0 {
				t.Error("no suspicion at all: the loss is not at work")
			}
		})
	}
}

func (h *mesh) rate(span time.Duration) float64 {
	n := 0
	for _, v := range h.sent {
		n += v
	}
	return float64(n) / float64(len(h.nodes)) / span.Seconds()
}

// TestCrashAndRestart follows one node through a crash, its removal
// everywhere, and its return in a newer life.
func TestCrashAndRestart(t *testing.T) {
	for _, n := range []int{64, 256} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			h := newMesh(t, n, 0.05, 2, medley.DefaultConfig())
			h.run(30 * time.Second)
			const victim = 5
			h.crash(victim)
			gone := waitFor(t, h, 2*time.Minute, func() bool { return h.lists(victim, 1024) == 0 })
			t.Logf("removed everywhere after %v", gone)
			h.restart(victim)
			all := waitFor(t, h, 3*time.Minute, func() bool {
				return h.lists(victim, 2048) == h.others(victim)
			})
			joined := h.nodes[victim].joined
			t.Logf("joined %v after the restart, listed everywhere after %v; its list has %d",
				joined.Sub(h.now)+all, all, h.nodes[victim].m.Size())
			if h.nodes[victim].m.Size() < n-1 {
				t.Errorf("the restarted node lists %d of %d", h.nodes[victim].m.Size(), n)
			}
		})
	}
}

// TestDetectionTime crashes eight of 256 nodes at once and tells when the
// first and the last of the others removed each: not before the suspicion is
// over, nor long after.
func TestDetectionTime(t *testing.T) {
	h := newMesh(t, 256, 0.05, 13, medley.DefaultConfig())
	const crash = 30 * time.Second
	h.run(crash)
	first, last := map[core.NodeID]time.Duration{}, map[core.NodeID]time.Duration{}
	h.changed = func(at core.Instant, _ core.NodeID, c membership.Change) {
		if id := c.Peer.ID; c.Kind == membership.Failed && !h.nodes[id].up {
			last[id] = at.Sub(core.Instant(crash))
			if _, ok := first[id]; !ok {
				first[id] = last[id]
			}
		}
	}
	for id := core.NodeID(10); id < 250; id += 30 {
		h.crash(id)
	}
	h.run(3 * time.Minute)
	var a, b time.Duration
	cfg := medley.DefaultConfig()
	for id := core.NodeID(10); id < 250; id += 30 {
		if n := h.lists(id, 1024); n != 0 {
			t.Errorf("%d nodes still list %d", n, id)
		}
		// A suspicion of a false alarm just before the crash may be older.
		if first[id] < cfg.Suspicion-2*cfg.Period || last[id] > 60*time.Second {
			t.Errorf("node %d removed from %v to %v after its crash", id, first[id], last[id])
		}
		a, b = a+first[id]/8, b+last[id]/8
	}
	t.Logf("removed by the first after %v, by the last after %v, on average", a.Round(time.Millisecond), b.Round(time.Millisecond))
}

// TestPublishedReading runs without this package's own last pings and late
// entry into the bag: still a membership service, with more false positives.
func TestPublishedReading(t *testing.T) {
	count := func(cfg medley.Config) int {
		h := newMesh(t, 128, 0.05, 14, cfg)
		mean, least := h.sample(4 * time.Minute)
		t.Logf("%+v: mean list %.2f, least %d, false positives %d, fences %d", cfg, mean, least, h.falsePositives, h.fences)
		if mean < 0.98*128 || float64(least) < 0.9*128 {
			t.Errorf("mean list %.2f, least %d of 128", mean, least)
		}
		return h.falsePositives
	}
	own, published := count(medley.Config{}), count(medley.Config{NoLastWord: true, EnterAtRefill: true, ReconnectProb: -1})
	if own >= published {
		t.Errorf("%d false positives with last pings, %d without", own, published)
	}
}

// waitFor runs until cond holds and returns how long that took.
func waitFor(t *testing.T, h *mesh, limit time.Duration, cond func() bool) time.Duration {
	t.Helper()
	from := time.Duration(h.now)
	for h.now < core.Instant(from+limit) {
		if cond() {
			return time.Duration(h.now) - from
		}
		h.run(time.Duration(h.now) + 500*time.Millisecond)
	}
	t.Fatalf("not within %v; %d wrong entries", limit, h.wrong())
	return 0
}

// TestQuickRestart restarts a node before anybody missed it: the newer life
// replaces the older one without a failure in between.
func TestQuickRestart(t *testing.T) {
	h := newMesh(t, 64, 0.05, 3, medley.DefaultConfig())
	h.run(30 * time.Second)
	h.crash(9)
	h.run(30200 * time.Millisecond)
	h.restart(9)
	took := waitFor(t, h, time.Minute, func() bool { return h.lists(9, 2048) == h.others(9) })
	t.Logf("newer life listed everywhere after %v", took)
	if n := h.lists(9, 1024); n != 0 {
		t.Errorf("%d nodes list the older life", n)
	}
}

func TestGracefulLeave(t *testing.T) {
	h := newMesh(t, 64, 0.05, 4, medley.DefaultConfig())
	h.run(30 * time.Second)
	kinds := map[membership.ChangeKind]int{}
	h.changed = func(_ core.Instant, _ core.NodeID, c membership.Change) {
		if c.Peer.ID == 7 {
			kinds[c.Kind]++
		}
	}
	h.step(h.nodes[7], membership.Leave{})
	h.crash(7)
	took := waitFor(t, h, time.Minute, func() bool { return h.lists(7, 1024) == 0 })
	t.Logf("gone everywhere after %v: %v", took, kinds)
	if kinds[membership.Left] < 60 || kinds[membership.Failed] > 3 {
		t.Errorf("changes %v, want nearly all left and hardly any failed", kinds)
	}
}

// TestFencedNodeComesBack plants a FAILED about a live node: the node must
// leave its life and all must list the next.
func TestFencedNodeComesBack(t *testing.T) {
	h := newMesh(t, 64, 0.05, 5, medley.DefaultConfig())
	h.run(30 * time.Second)
	liar := core.Peer{ID: 20, Inc: 1024}
	for _, id := range h.near[20] {
		h.step(h.nodes[id], membership.Receive{From: liar, Msg: &wire.ReportAlive{
			Table: []wire.Entry{{ID: 40, Inc: 1024, State: wire.MemberFailed}},
		}})
	}
	took := waitFor(t, h, time.Minute, func() bool {
		return h.nodes[40].inc == 1025 && h.lists(40, 1025) == h.others(40)
	})
	t.Logf("fenced and listed again everywhere after %v, fences %d", took, h.fences)
	if h.fences != 1 {
		t.Errorf("%d fences, want 1", h.fences)
	}
}

// TestFalseSuspicionIsRefuted plants a suspicion at one node.
func TestFalseSuspicionIsRefuted(t *testing.T) {
	h := newMesh(t, 64, 0.05, 6, medley.DefaultConfig())
	h.run(30 * time.Second)
	var suspected, cleared, failed int
	h.changed = func(_ core.Instant, _ core.NodeID, c membership.Change) {
		if c.Peer.ID != 40 {
			return
		}
		switch c.Kind {
		case membership.Suspected:
			suspected++
		case membership.Cleared:
			cleared++
		case membership.Failed:
			failed++
		case membership.Up, membership.Left:
		}
	}
	h.step(h.nodes[20], membership.Receive{From: core.Peer{ID: 21, Inc: 1024}, Msg: &wire.ReportAlive{
		Table: []wire.Entry{{ID: 40, Inc: 1024, State: wire.MemberSuspected}},
	}})
	h.run(60 * time.Second)
	t.Logf("suspected at %d nodes, cleared at %d", suspected, cleared)
	if suspected == 0 || cleared != suspected || failed != 0 {
		t.Errorf("suspected %d, cleared %d, failed %d", suspected, cleared, failed)
	}
	if h.nodes[40].inc != 1024 || h.lists(40, 1024) != 63 {
		t.Errorf("the refuting node is in life %d, listed by %d", h.nodes[40].inc, h.lists(40, 1024))
	}
}

// TestPartitionAndHeal cuts a mesh into two halves that are each connected,
// long enough for each to forget the other.
func TestPartitionAndHeal(t *testing.T) {
	h := newMesh(t, 64, 0.05, 7, medley.DefaultConfig())
	h.run(20 * time.Second)
	order := slices.Clone(h.dist[0])
	slices.Sort(order)
	for id := range h.side {
		if h.dist[0][id] > order[31] {
			h.side[id] = 1
		}
	}
	h.run(200 * time.Second)
	mean, least := h.sizes()
	t.Logf("parted for 180 s: mean list %.1f, least %d", mean, least)
	if mean > 34 {
		t.Errorf("mean list %.1f of halves of 32", mean)
	}
	clear(h.side)
	took := waitFor(t, h, 10*time.Minute, func() bool { return h.wrong() == 0 })
	t.Logf("all lists right %v after healing, fences %d", took, h.fences)
}

// TestPausedNodeFencesItself stops a node for longer than the suspicion.
func TestPausedNodeFencesItself(t *testing.T) {
	h := newMesh(t, 64, 0.05, 8, medley.DefaultConfig())
	h.run(20 * time.Second)
	h.nodes[3].up = false
	h.run(80 * time.Second)
	if n := h.lists(3, 1024); n != 0 {
		t.Fatalf("%d nodes list the stopped one", n)
	}
	var blamed int
	h.changed = func(_ core.Instant, node core.NodeID, c membership.Change) {
		if node == 3 && c.Kind == membership.Suspected {
			blamed++
		}
	}
	n := h.nodes[3]
	n.up, n.wake = true, core.Never
	h.step(n, membership.Tick{})
	took := waitFor(t, h, 5*time.Minute, func() bool { return n.inc == 1025 && h.lists(3, 1025) == 63 })
	t.Logf("back everywhere %v after it went on; it suspected %d meanwhile", took, blamed)
}

// TestChurn crashes and restarts nodes all the time.
func TestChurn(t *testing.T) {
	h := newMesh(t, 256, 0.05, 9, medley.DefaultConfig())
	churn := core.Stream(9, "churn")
	h.run(20 * time.Second)
	var sum, up float64
	for at := 21 * time.Second; at <= 5*time.Minute; at += time.Second {
		h.run(at)
		if id := core.NodeID(churn.IntN(256)); h.nodes[id].up {
			if h.others(id) > 200 {
				h.crash(id)
			}
		} else {
			h.restart(id)
		}
		mean, _ := h.sizes()
		sum, up = sum+mean, up+float64(h.others(core.None))
	}
	t.Logf("mean list %.1f at %.1f nodes up, false positives %d, fences %d", sum/280, up/280, h.falsePositives, h.fences)
	if sum < 0.9*up {
		t.Errorf("mean list %.1f at %.1f nodes up", sum/280, up/280)
	}
	for _, n := range h.nodes {
		if !n.up {
			h.restart(n.id)
		}
	}
	h.run(8 * time.Minute)
	mean, least := h.sizes()
	t.Logf("three minutes after the churn: mean list %.2f, least %d, wrong entries %d", mean, least, h.wrong())
	if mean < 0.98*256 || float64(least) < 0.9*256 {
		t.Errorf("mean list %.2f, least %d of 256", mean, least)
	}
}

// TestThousandNodesJoinUnderLoss needs a list of several parts.
func TestThousandNodesJoinUnderLoss(t *testing.T) {
	h := newMesh(t, 1000, 0.2, 10, medley.DefaultConfig())
	h.run(time.Second)
	h.crash(500)
	h.run(3 * time.Second)
	h.restart(500)
	waitFor(t, h, time.Minute, func() bool { return h.nodes[500].joined != core.Never })
	joins, parts := h.sent[wire.KindJoin], h.sent[wire.KindJoinAck]
	t.Logf("joined after %v with %d JOIN and %d JOIN_ACK; list %d", h.nodes[500].joined.Sub(core.Instant(3*time.Second)), joins, parts, h.nodes[500].m.Size())
	if h.nodes[500].m.Size() != 1000 || parts < 4 {
		t.Errorf("list %d of 1000 after %d parts", h.nodes[500].m.Size(), parts)
	}
}

// TestSameSeedSameTrace runs twice over everything that is random.
func TestSameSeedSameTrace(t *testing.T) {
	run := func(seed uint64) uint64 {
		h := newMesh(t, 64, 0.1, seed, medley.DefaultConfig())
		h.run(20 * time.Second)
		h.crash(3)
		h.run(50 * time.Second)
		h.restart(3)
		h.run(80 * time.Second)
		return h.hash
	}
	a, b, c := run(11), run(11), run(12)
	if a != b {
		t.Errorf("traces of one seed differ: %x, %x", a, b)
	}
	if a == c {
		t.Error("traces of two seeds are the same")
	}
}
