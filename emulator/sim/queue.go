package sim

import (
	"churnbed/node/core"
	"churnbed/node/wire"
)

// queue holds what is to happen, by instant and, of the same instant, in the
// order of pushing. It is a 4-ary min-heap of small keys; the events
// themselves lie still in an arena of chunks, whose places are used again.
type queue struct {
	keys   []key
	chunks []*[chunk]event
	free   []int32
	seq    uint64
}

const chunk = 512

// key stands for an event in the arena (what >= 0) or for the timer of node
// ^what, which needs no more than its instant.
type key struct {
	at   core.Instant
	seq  uint64
	what int32
}

func (k *key) before(o *key) bool { return k.at < o.at || k.at == o.at && k.seq < o.seq }

// event is a frame at a node, or a function call.
type event struct {
	kind  eventKind
	node  core.NodeID
	size  int // of the frame on a link, bytes
	frame wire.Frame
	do    func()
}

type eventKind uint8

const (
	deliver eventKind = iota // the frame is at its destination
	hop                      // the frame is at node, on its way
	call
	overLink // the frame is at the other end of a link, if that is still up
)

// add makes room for an event at an instant. It stays where it is until
// recycle.
func (q *queue) add(at core.Instant) *event {
	if len(q.free) == 0 {
		first := int32(len(q.chunks)) * chunk
		q.chunks = append(q.chunks, new([chunk]event))
		for i := first + chunk - 1; i >= first; i-- {
			q.free = append(q.free, i)
		}
	}
	i := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	q.push(at, i)
	return q.event(i)
}

func (q *queue) addTimer(at core.Instant, n core.NodeID) { q.push(at, ^int32(n)) }

func (q *queue) event(i int32) *event { return &q.chunks[i/chunk][i%chunk] }

// recycle gives the place of a popped event back.
func (q *queue) recycle(i int32) {
	e := q.event(i)
	e.frame.Msg, e.do = nil, nil
	q.free = append(q.free, i)
}

func (q *queue) len() int { return len(q.keys) }

func (q *queue) min() core.Instant { return q.keys[0].at }

func (q *queue) push(at core.Instant, what int32) {
	q.seq++
	k := key{at, q.seq, what}
	q.keys = append(q.keys, k)
	i := len(q.keys) - 1
	for i > 0 {
		p := (i - 1) / 4
		if !k.before(&q.keys[p]) {
			break
		}
		q.keys[i] = q.keys[p]
		i = p
	}
	q.keys[i] = k
}

func (q *queue) pop() key {
	top := q.keys[0]
	n := len(q.keys) - 1
	k := q.keys[n]
	q.keys = q.keys[:n]
	if n == 0 {
		return top
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, n); c++ {
			if q.keys[c].before(&q.keys[least]) {
				least = c
			}
		}
		if !q.keys[least].before(&k) {
			break
		}
		q.keys[i] = q.keys[least]
		i = least
	}
	q.keys[i] = k
	return top
}
