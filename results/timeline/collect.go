package timeline

import (
	"maps"
	"slices"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
)

// place is a line of a node's log.
type place struct {
	node core.NodeID
	line int
}

type asked struct {
	queued *int64
	cs     int64
}

// now is what a node is doing where the collector has read to.
type now struct {
	up      bool
	leaving bool
	last    int64 // instant of its last line
	since   int64 // of its last counters
	inc     core.Incarnation
	sent    map[string]eventlog.Count
	recv    map[string]eventlog.Count
	size    int
}

// collector takes in the lines of all logs in the order of their instants.
type collector struct {
	t       *Timeline
	now     []now
	asked   map[place]asked
	last    int64
	end     int64
	sizes   sizes
	traffic map[string]*flow
	groups  *groupCollector
}

type flow struct{ n, bytes bins }

func newCollector(nodes int) *collector {
	return &collector{
		t:       &Timeline{Epoch: -1, Nodes: make([]Node, nodes)},
		now:     make([]now, nodes),
		asked:   make(map[place]asked),
		end:     -1,
		sizes:   sizes{count: make([]int, nodes+2)},
		traffic: make(map[string]*flow),
		groups:  newGroupCollector(),
	}
}

func (c *collector) line(l *results.Line) {
	e := &l.Event
	c.last = max(c.last, e.T)
	if l.Node == core.None {
		c.control(e)
		return
	}
	if int(l.Node) >= len(c.now) {
		return
	}
	n := &c.now[l.Node]
	n.last = max(n.last, e.T)
	switch e.Kind {
	case eventlog.Start:
		c.down(l.Node, n.last, Died)
		c.start(l.Node, e)
	case eventlog.Request:
		c.asked[place{l.Node, l.No}] = asked{e.Queued, e.CS}
	case eventlog.Joined:
		c.resize(n, e.T, e.Size)
	case eventlog.Member:
		if n.size > 0 {
			c.resize(n, e.T, e.Size)
		}
	case eventlog.Counters:
		c.counters(n, e)
	case eventlog.Leave:
		n.leaving = true
	case eventlog.Stop:
		how := Stopped
		if n.leaving {
			how = Left
		}
		c.down(l.Node, e.T, how)
	case eventlog.Failure:
		c.down(l.Node, n.last, Died)
	default:
		c.groups.line(l.Node, e)
	}
}

func (c *collector) control(e *eventlog.Event) {
	switch e.Kind {
	case eventlog.Epoch:
		c.t.Epoch = e.T
		return
	case eventlog.End:
		c.end = e.T
		return
	case eventlog.Kill, eventlog.Restart, eventlog.Pause, eventlog.Resume, eventlog.LinkSet, eventlog.Exited, eventlog.Interrupt:
	default:
		return
	}
	f := Fault{T: e.T, Kind: e.Kind, Node: core.None, Link: e.Link, Verb: e.Verb, Text: e.Text, Hit: e.State}
	if e.Node >= 0 && int(e.Node) < len(c.now) {
		f.Node = core.NodeID(e.Node)
	}
	c.t.Faults = append(c.t.Faults, f)
	if f.Node == core.None {
		return
	}
	node := &c.t.Nodes[f.Node]
	switch e.Kind {
	case eventlog.Kill:
		if e.Verb == "leave" {
			c.now[f.Node].leaving = true
			return
		}
		c.down(f.Node, e.T, Killed)
	case eventlog.Exited:
		how := Died
		if c.now[f.Node].leaving {
			how = Left
		}
		c.down(f.Node, e.T, how)
	case eventlog.Pause:
		if k := len(node.Pauses); k == 0 || node.Pauses[k-1].To >= 0 {
			node.Pauses = append(node.Pauses, Span{e.T, -1})
		}
	case eventlog.Resume:
		c.resume(f.Node, e.T)
	default:
	}
}

func (c *collector) resume(id core.NodeID, t int64) {
	p := c.t.Nodes[id].Pauses
	if k := len(p) - 1; k >= 0 && p[k].To < 0 {
		p[k].To = max(t, p[k].From)
	}
}

func (c *collector) start(id core.NodeID, e *eventlog.Event) {
	n := &c.now[id]
	c.addCounts(id, n)
	c.groups.born(id)
	*n = now{up: true, last: e.T, since: e.T, inc: core.Incarnation(e.Inc)}
	c.t.Nodes[id].Lives = append(c.t.Nodes[id].Lives, Life{Span: Span{e.T, -1}, Inc: n.inc, How: Running})
}

// down ends the node's present life, if it has one.
func (c *collector) down(id core.NodeID, t int64, how Ended) {
	n := &c.now[id]
	if !n.up {
		return
	}
	c.resume(id, t)
	if how != Running && how != Stopped {
		c.resize(n, t, 0)
		c.groups.down(id, t)
	} // else the run is over: processes end one by one, which is no news of it
	n.up = false
	l := &c.t.Nodes[id].Lives[len(c.t.Nodes[id].Lives)-1]
	l.To, l.How = max(t, l.From), how
}

// addCounts adds the last counters of a life to its node's. It waits for the
// next life, or the end of the logs: lines may follow the instant of a kill.
func (c *collector) addCounts(id core.NodeID, n *now) {
	add := func(to *map[string]eventlog.Count, from map[string]eventlog.Count) {
		if *to == nil && len(from) > 0 {
			*to = make(map[string]eventlog.Count, len(from))
		}
		for k, v := range from {
			s := (*to)[k]
			s.N, s.Bytes, s.Retrans = s.N+v.N, s.Bytes+v.Bytes, s.Retrans+v.Retrans
			(*to)[k] = s
		}
	}
	add(&c.t.Nodes[id].Sent, n.sent)
	add(&c.t.Nodes[id].Recv, n.recv)
	n.sent, n.recv = nil, nil
}

func (c *collector) counters(n *now, e *eventlog.Event) {
	for kind, v := range e.Sent {
		old := n.sent[kind]
		if v.N <= old.N {
			continue
		}
		f := c.traffic[kind]
		if f == nil {
			f = &flow{}
			c.traffic[kind] = f
		}
		f.n.spread(n.since, e.T, float64(v.N-old.N))
		f.bytes.spread(n.since, e.T, float64(v.Bytes-old.Bytes))
	}
	n.sent, n.recv, n.since = e.Sent, e.Recv, e.T
}

func (c *collector) resize(n *now, t int64, size int) {
	if size == n.size || size < 0 || size >= len(c.sizes.count) {
		return
	}
	c.sizes.change(t, n.size, size)
	n.size = size
}

// finish ends what is open.
func (c *collector) finish() *Timeline {
	t := c.t
	if t.End = c.end; t.End < 0 {
		t.End = c.last
	}
	for i := range c.now {
		id := core.NodeID(i)
		if c.now[i].up {
			c.down(id, max(t.End, c.now[i].last), Running)
		}
		c.addCounts(id, &c.now[i])
		c.resume(id, t.End)
	}
	t.Groups = c.groups.finish(t.End)
	c.sizes.until(t.End)
	t.Sizes = c.sizes.result()
	t.Traffic.Kinds = slices.Sorted(maps.Keys(c.traffic))
	width := int64(0)
	for _, f := range c.traffic {
		width = max(width, f.n.width, f.bytes.width)
	}
	count := 0
	for _, k := range t.Traffic.Kinds {
		f := c.traffic[k]
		f.n.widen(width)
		f.bytes.widen(width)
		count = max(count, len(f.n.sum), len(f.bytes.sum))
	}
	for _, k := range t.Traffic.Kinds {
		f := c.traffic[k]
		t.Traffic.N = append(t.Traffic.N, f.n.padded(count))
		t.Traffic.Bytes = append(t.Traffic.Bytes, f.bytes.padded(count))
	}
	for i := range count {
		t.Traffic.Bins = append(t.Traffic.Bins, Span{int64(i) * width, int64(i+1) * width})
	}
	return t
}
