package sim

import (
	"churnbed/node/core"
	"churnbed/node/wire"
)

// queue holds what is to happen. An entry is the place of an event (0 or more)
// or stands for the timer of node ^entry, which needs no more than its
// instant. The events themselves lie still in an arena of chunks, whose places
// are used again.
type queue struct {
	core.Queue[int32]
	chunks []*[chunk]event
	free   []int32
}

const chunk = 512

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
	q.Push(at, i)
	return q.event(i)
}

func (q *queue) addTimer(at core.Instant, n core.NodeID) { q.Push(at, ^int32(n)) }

func (q *queue) event(i int32) *event { return &q.chunks[i/chunk][i%chunk] }

// recycle gives the place of a popped event back.
func (q *queue) recycle(i int32) {
	e := q.event(i)
	e.frame.Msg, e.do = nil, nil
	q.free = append(q.free, i)
}
