package results

import (
	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Changes of a membership list, as membership.ChangeKind names them.
const (
	changeUp     = "up"
	changeFailed = "failed"
)

// member notes what a node's membership list says of a peer.
func (h *history) member(n *nodeHistory, e *eventlog.Event) {
	if e.Peer == nil || *e.Peer < 0 || int(*e.Peer) >= len(h.nodes) || !n.up {
		return
	}
	peer := &h.nodes[*e.Peer]
	inc := core.Incarnation(e.PeerInc)
	switch e.Change {
	case changeFailed:
		if n.failedBy == nil {
			n.failedBy = make(map[core.NodeID]core.Incarnation)
		}
		n.failedBy[peer.id] = inc
		h.judgeFailure(peer, inc, e.T)
	case changeUp:
		delete(n.failedBy, peer.id)
	default:
		return
	}
	h.reviewPeer(peer.id, e.T)
}

// judgeFailure tells a detection from a false positive. A declaration of a
// paused node is neither: it does not answer, and it is not dead.
func (h *history) judgeFailure(peer *nodeHistory, inc core.Incarnation, t int64) {
	for i := len(peer.lives) - 1; i >= 0; i-- {
		l := &peer.lives[i]
		if inc.Start() != l.inc.Start() {
			continue
		}
		switch {
		case i == len(peer.lives)-1 && peer.up:
			if !peer.paused {
				h.metrics.falsePositive(core.Peer{ID: peer.id, Inc: inc})
			}
		case l.killed && !l.detected && (h.epoch < 0 || l.end >= h.epoch):
			l.detected = true
			h.metrics.detections = append(h.metrics.detections, float64(t-l.end)/1e6)
		}
		return
	}
}

// forgetViews drops what the node said of others: its process is gone.
func (h *history) forgetViews(n *nodeHistory) { clear(n.failedBy) }

// majorityDeclared reports whether more than half of the nodes that are up
// say that this life of the node failed.
func (h *history) majorityDeclared(q *Request) bool {
	votes := 0
	for i := range h.nodes {
		if inc, ok := h.nodes[i].failedBy[q.Node]; ok && inc >= q.ID.Inc {
			votes++
		}
	}
	return 2*votes > h.upCount
}

// review notes a change of "declared failed by a majority" for a holder.
func (h *history) review(q *Request, t int64) {
	if h.majorityDeclared(q) != (len(q.toggles)%2 == 1) {
		q.toggles = append(q.toggles, t)
	}
}

func (h *history) reviewPeer(id core.NodeID, t int64) {
	for _, q := range h.holding {
		if q.Node == id {
			h.review(q, t)
		}
	}
}

func (h *history) reviewAll(t int64) {
	for _, q := range h.holding {
		h.review(q, t)
	}
}

// resize takes the length of the node's list from an event.
func (h *history) resize(n *nodeHistory, e *eventlog.Event) {
	if e.Size <= 0 || !n.up {
		return
	}
	if n.size == 0 && e.Kind != eventlog.Joined {
		return // lists count from the moment their node is a member
	}
	h.account(n, e.T)
	n.size, n.sizeFrom = int64(e.Size), e.T
	if h.counting(e.T) {
		h.metrics.smallest(n.size)
	}
}

// counting reports whether list lengths count at t: from the epoch on, where
// the run has one, to its end.
func (h *history) counting(t int64) bool {
	return h.epoch >= 0 && t >= h.epoch && (h.end < 0 || t <= h.end)
}

// account adds the time that the node's list had its present length.
func (h *history) account(n *nodeHistory, t int64) {
	if h.end >= 0 {
		t = min(t, h.end)
	}
	if n.size == 0 || h.epoch < 0 || t <= n.sizeFrom {
		return
	}
	from := max(n.sizeFrom, h.epoch)
	if t <= from {
		return
	}
	h.metrics.sizeTime += float64(t - from)
	h.metrics.sizeArea += float64(t-from) * float64(n.size)
	h.metrics.smallest(n.size)
	n.sizeFrom = t
}
