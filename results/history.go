package results

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Ending says how a request ended.
type Ending string

// Endings of a request. All but the first end a critical section from
// outside; a section that ends open was held when the logs end.
const (
	EndExited  Ending = "exit"    // left the critical section in order
	EndFenced  Ending = "fenced"  // given up after the node was declared failed (ALGORITHMS 2.4)
	EndKilled  Ending = "killed"  // at the controller's kill instant
	EndLeft    Ending = "left"    // its node left gracefully
	EndDied    Ending = "died"    // its process ended by itself: at its last line
	EndLogCut  Ending = "log cut" // its log could not be written any more: at its last line
	EndStopped Ending = "stopped" // the run was over
	EndOpen    Ending = "open"    // nothing in the logs ends it
)

// Request is one request for the critical section and what became of it.
// Instants are scenario nanoseconds. While Entered, the section is the
// half-open interval [Enter, End).
type Request struct {
	ID      core.RequestID
	Node    core.NodeID
	No      int   // number in the workload
	Asked   int64 // instant of enter()
	Enter   int64 // where Entered
	End     int64
	Entered bool
	Paused  bool // its node was stopped (SIGSTOP) at the end
	Ending  Ending
	Grants  int

	AskedLine, EnterLine, EndLine int // in the node's log, 0 = none

	set     idSet   // asked, itself included; nil where unknown
	toggles []int64 // instants at which "declared failed by a majority" changed
}

// declaredFailed reports whether the node, in the life of the request, stood
// declared failed by a majority just before instant t.
func (q *Request) declaredFailed(t int64) bool {
	n := 0
	for _, at := range q.toggles {
		if at < t {
			n++
		}
	}
	return n%2 == 1
}

// Process outcomes of a request, for the liveness figures.
func (q *Request) aborted() bool {
	switch q.Ending {
	case EndFenced, EndKilled, EndDied, EndLeft:
		return true
	case EndLogCut:
		return !q.Entered
	case EndExited, EndStopped, EndOpen:
	}
	return false
}

// idSet is a bit set of node ids.
type idSet []uint64

func (s idSet) with(id core.NodeID) idSet {
	for len(s) <= int(id>>6) {
		s = append(s, 0)
	}
	s[id>>6] |= 1 << (id & 63)
	return s
}

// each calls f for the ids in both sets until it returns true.
func (s idSet) eachCommon(o idSet, f func(core.NodeID) bool) bool {
	for w := range min(len(s), len(o)) {
		for x := s[w] & o[w]; x != 0; x &= x - 1 {
			if f(core.NodeID(w<<6 + bits.TrailingZeros64(x))) {
				return true
			}
		}
	}
	return false
}

// LogError is something that a sound log does not say. It concerns the node
// program or the logs, not the algorithm, and is kept apart from violations.
type LogError struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

func (e LogError) String() string {
	if e.Line == 0 { // of the file as a whole
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
}

// life is one process of a node.
type life struct {
	inc        core.Incarnation // at its start
	start, end int64            // end is math.MaxInt64 while it runs
	killed     bool
	detected   bool // somebody declared it failed after it was killed
}

// nodeHistory is the state of one node during the replay.
type nodeHistory struct {
	id     core.NodeID
	lives  []life
	up     bool // a process runs
	paused bool
	// wasPaused: stopped by a fault since its last fidelity line.
	wasPaused bool

	lastT  int64
	lastNo int

	cur     *Request
	left    int64 // instant of "leave" in this life, 0 = none
	stopped int64 // of "stop"
	died    bool  // "failure", or ended by itself
	cut     bool  // the log of this life is cut
	begun   bool  // a line of this life was read
	final   bool  // "stop" was logged after the last counters
	killAt  kill  // of a process that had not written a line yet

	sent     map[string]eventlog.Count // last counters of this life
	failedBy map[core.NodeID]core.Incarnation

	size, sizeFrom int64 // present list length (0 = unknown) and since when
}

type kill struct {
	at, after int64
	set       bool
}

func (n *nodeHistory) life() *life {
	if len(n.lives) == 0 {
		return nil
	}
	return &n.lives[len(n.lives)-1]
}

// upThroughout reports whether one process of the node ran over all of
// [from, to].
func (n *nodeHistory) upThroughout(from, to int64) bool {
	for i := range slices.Backward(n.lives) {
		if l := &n.lives[i]; l.start <= from {
			return l.end >= to
		}
	}
	return false
}

// history is what one pass over the logs of a run leaves: the requests, the
// lives, and the sums behind the metrics. Its size grows with nodes and
// requests, not with events.
type history struct {
	processes processes
	run       *Run
	nodes     []nodeHistory // by id
	requests  []*Request    // in the order they were asked
	entered   map[core.RequestID]int
	holding   []*Request // in the critical section as far as read
	upCount   int

	epoch, end  int64 // scenario instants; epoch -1 = not told
	lastT       int64
	interrupted bool

	logErrors     []LogError
	logErrorCount int
	cuts          []eventlog.CutLine

	metrics sums
	groups  *groupHistory // nil: a run without k-groups
	fid     fidelity
	tokens  tokenLog
	local   locals
}

// maxListed bounds the lists of log errors and violating pairs that are kept;
// the counts go on.
const maxListed = 1000

// replay reads all logs of a run once.
func replay(r *Run) (*history, error) {
	h := &history{
		run: r, nodes: make([]nodeHistory, r.Manifest.Nodes), entered: make(map[core.RequestID]int), epoch: -1, end: -1,
		metrics: newSums(), fid: newFidelity(&r.Manifest), local: newLocals(&r.Manifest),
	}
	for i := range h.nodes {
		h.nodes[i].id = core.NodeID(i)
	}
	cuts, err := r.Merge(func(l *Line) error {
		if l.Node == core.None {
			h.control(&l.Event)
		} else {
			h.nodeLine(&h.nodes[l.Node], l)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	h.cuts = cuts
	for _, c := range cuts { // of the last lives
		for i := range h.nodes {
			if n := &h.nodes[i]; c.Line > n.lastNo && c.File == logName(n.id) {
				n.cut = true
			}
		}
	}
	h.complete()
	if h.end < 0 {
		h.end = h.lastT
	}
	for i := range h.nodes {
		h.finishLife(&h.nodes[i], max(h.end, h.lastT), true)
	}
	h.fid.finish()
	return h, nil
}

func logName(id core.NodeID) string { return fmt.Sprintf("%s/%d.jsonl", NodesDir, id) }

func (h *history) logError(n *nodeHistory, line int, format string, args ...any) {
	h.fileError(logName(n.id), line, format, args...)
}

func (h *history) fileError(file string, line int, format string, args ...any) {
	h.logErrorCount++
	if len(h.logErrors) < maxListed {
		h.logErrors = append(h.logErrors, LogError{file, line, fmt.Sprintf(format, args...)})
	}
}

// complete tells of logs that must be there and are not: who is judged by
// what others wrote alone would look innocent.
func (h *history) complete() {
	m := &h.run.Manifest
	up, err := eventlog.ParseRanges(m.UpAtStart)
	if err != nil || len(up) == 0 {
		return // a run of an earlier version does not tell
	}
	ran := m.Timing.RunMS >= 0
	if ran && h.epoch < 0 {
		h.fileError(ControllerFile, 0, "no epoch: the file is missing or was cut, so that kills and restarts are not known")
	} else if ran && h.end < 0 {
		h.fileError(ControllerFile, 0, "no end: the file was cut, or the run was ended from outside")
	}
	h.interrupted = h.interrupted || !ran && h.end < 0 // its controller was killed, or is still at it
	if !ran && h.epoch < 0 {
		return // it ended while the nodes joined
	}
	for _, id := range up {
		if int(id) < len(h.nodes) && len(h.nodes[id].lives) == 0 {
			h.logError(&h.nodes[id], 0, "not a line of a node that ran from the start: the file is missing or was emptied")
		}
	}
}

// control handles one line of the controller's log.
func (h *history) control(e *eventlog.Event) {
	h.lastT = max(h.lastT, e.T)
	switch e.Kind {
	case eventlog.Epoch:
		h.epoch = e.T
		h.fid.epoch(e.T)
		for i := range h.nodes { // list lengths count from here
			h.nodes[i].sizeFrom = e.T
		}
		return
	case eventlog.End:
		h.end = e.T
		return
	case eventlog.Interrupt:
		h.interrupted = true
		return
	case eventlog.LinkSet:
		h.tokens.cut = true
		h.local.linkSet(e)
		return
	case eventlog.Fault:
		h.metrics.liveActions++
		return
	case eventlog.Slice:
		if e.Host != nil {
			h.metrics.host(e.Host)
			h.fid.slice(e.T, e.Host)
		}
		return
	default:
	}
	if e.Node < 0 || int(e.Node) >= len(h.nodes) {
		return
	}
	n := &h.nodes[e.Node]
	switch e.Kind {
	case eventlog.Kill:
		h.kill(n, e)
	case eventlog.Restart:
		if core.Incarnation(e.Inc).Start() <= 1 && e.Inc != 0 {
			h.metrics.joins++
		} else {
			h.metrics.restarts++
		}
	case eventlog.Pause:
		h.metrics.pauses++
		h.tokens.cut = true
		h.metrics.hit[n.protocolState()]++
		n.paused, n.wasPaused = true, true
	case eventlog.Resume:
		n.paused = false
	case eventlog.Exited:
		if n.up && (e.Inc == 0 || core.Incarnation(e.Inc).Start() == n.life().inc.Start()) {
			if n.stopped == 0 {
				n.died = true
				h.tokens.end(n.id, e.T)
			}
			h.down(n, e.T)
		}
	default:
	}
}

// verbLeave is the verb of a graceful leave, which ends by itself.
const verbLeave = "leave"

func (h *history) kill(n *nodeHistory, e *eventlog.Event) {
	if e.Verb == verbLeave {
		return
	}
	h.metrics.kills++
	h.tokens.end(n.id, max(e.T, e.After)) // what it wrote meanwhile was its last
	h.metrics.hit[n.protocolState()]++
	if !n.up {
		n.killAt = kill{e.T, max(e.T, e.After), true}
		return
	}
	h.killLife(n, e.T)
}

func (h *history) killLife(n *nodeHistory, t int64) {
	l := n.life()
	h.down(n, t)
	l.killed = true
	if h.groups != nil {
		h.groups.killed[n.id] = t
	}
	if h.epoch < 0 || t >= h.epoch {
		h.metrics.killedLives++
	}
}

func (n *nodeHistory) protocolState() string {
	switch {
	case !n.up || n.cur == nil:
		return "NONE"
	case n.cur.Entered:
		return "HELD"
	}
	return "WAIT"
}

// nodeLine handles one line of a node's log.
func (h *history) nodeLine(n *nodeHistory, l *Line) {
	e := &l.Event
	if e.Kind == eventlog.Failure && e.T == 0 {
		e.T = n.lastT // a process that failed before it had a clock
	}
	if l.AfterCut {
		n.cut = true
	}
	if e.Kind == eventlog.Start {
		h.finishLife(n, e.T, false)
		h.startLife(n, l)
		n.lastT, n.lastNo = e.T, l.No
		h.lastT = max(h.lastT, e.T)
		return
	}
	if e.Node != int32(n.id) {
		h.logError(n, l.No, "line of node %d in the log of node %d", e.Node, n.id)
	}
	if e.T < n.lastT {
		h.logError(n, l.No, "instant %d is before the line above it (%d)", e.T, n.lastT)
	}
	if !n.begun && e.Kind != eventlog.Failure {
		h.logError(n, l.No, "%q before \"start\"", e.Kind)
		h.startLife(n, l)
	}
	n.lastT, n.lastNo = max(n.lastT, e.T), l.No
	h.lastT = max(h.lastT, e.T)
	switch e.Kind {
	case eventlog.Request:
		h.request(n, l)
	case eventlog.Enter:
		h.enter(n, l)
	case eventlog.Exit:
		h.leaveSection(n, l, EndExited)
	case eventlog.Fenced:
		ending := EndFenced
		if n.left > 0 {
			ending = EndLeft
		}
		h.leaveSection(n, l, ending)
	case eventlog.Dropped:
		h.metrics.drop(e.No)
	case eventlog.Joined:
		h.resize(n, e)
	case eventlog.Member:
		h.member(n, e)
		h.resize(n, e)
	case eventlog.Counters:
		n.sent, n.final = e.Sent, false
		h.processes.line(n.id, e, h.epoch)
		h.resize(n, e)
	case eventlog.Fidelity:
		// What a node saw while it was stopped by a fault tells of the fault,
		// not of the host.
		if e.Probe != nil && !n.paused && !n.wasPaused {
			h.fid.probe(e.Probe)
		}
		n.wasPaused = false
	case eventlog.Leave:
		n.left = max(e.T, 1)
		h.metrics.leaves++
		h.tokens.end(n.id, e.T)
	case eventlog.KGroup, eventlog.Lock, eventlog.Routine, eventlog.Command, eventlog.Monitor:
		if h.groups == nil {
			h.groups = newGroupHistory()
		}
		h.groups.line(l)
	case eventlog.Token:
		h.token(n, l)
	case eventlog.Port:
		h.local.port(n.id, e)
	case eventlog.Note:
		h.local.note(n.id, e)
	case eventlog.Failure:
		n.died = true
		h.tokens.end(n.id, e.T)
		h.down(n, e.T)
	case eventlog.Stop:
		n.stopped, n.final = max(e.T, 1), true
		h.down(n, e.T)
	default: // kinds of later versions
	}
}

func (h *history) startLife(n *nodeHistory, l *Line) {
	if h.groups != nil {
		h.groups.born(n.id)
	}
	n.lives = append(n.lives, life{inc: core.Incarnation(l.Event.Inc), start: l.Event.T, end: math.MaxInt64})
	n.begun, n.up, n.paused = true, true, false
	h.upCount++
	h.forgetViews(n)
	if k := n.killAt; k.set && l.Event.T <= k.after {
		h.killLife(n, max(k.at, l.Event.T))
	} else {
		h.reviewAll(l.Event.T)
	}
	n.killAt = kill{}
}

// down notes that the node's process runs no more.
func (h *history) down(n *nodeHistory, t int64) {
	if !n.up {
		return
	}
	h.account(n, t)
	n.size = 0
	n.up = false
	h.upCount--
	n.life().end = t
	h.holding = slices.DeleteFunc(h.holding, func(q *Request) bool { return q.Node == n.id })
	h.forgetViews(n)
	h.reviewAll(t)
}

// finishLife ends the life that was read last: what is still open in it ends
// as the logs allow to prove. atEnd tells the end of the logs from a new
// start at t.
func (h *history) finishLife(n *nodeHistory, t int64, atEnd bool) {
	if !n.begun {
		return
	}
	l := n.life()
	if q := n.cur; q != nil {
		q.Paused = n.paused
		switch {
		case l.killed:
			q.End, q.Ending = l.end, EndKilled
		case n.left > 0:
			q.End, q.Ending = n.left, EndLeft
		case n.stopped > 0:
			q.End, q.Ending = n.stopped, EndStopped
		case n.cut:
			q.End, q.Ending = n.lastT, EndLogCut
			h.logError(n, n.lastNo, "log is cut while request %v is under way: its end was not seen", q.ID)
		case n.died:
			q.End, q.Ending = n.lastT, EndDied
		case atEnd:
			q.End, q.Ending = t, EndOpen
		default:
			q.End, q.Ending = n.lastT, EndDied
			h.logError(n, n.lastNo, "request %v is open, but the node starts again and nothing ended its last process", q.ID)
		}
		q.End = max(q.End, q.Asked)
		if q.Entered {
			q.End = max(q.End, q.Enter)
		}
		n.cur = nil
	}
	if n.up {
		end := t
		if !atEnd {
			end = n.lastT
		}
		h.down(n, end)
		if atEnd {
			l.end = math.MaxInt64
		}
	}
	h.metrics.counters(n.sent, n.final)
	if h.groups != nil {
		h.groups.counters(n.id, n.sent)
	}
	n.sent, n.final = nil, false
	n.left, n.stopped, n.died, n.cut, n.begun = 0, 0, false, false, false
}

func (h *history) request(n *nodeHistory, l *Line) {
	e := &l.Event
	id := h.requestID(n, l)
	if n.cur != nil {
		h.logError(n, l.No, "request %s while request %v is under way", e.Req, n.cur.ID)
		n.cur.End, n.cur.Ending, n.cur.EndLine = e.T, EndDied, l.No
		h.dropHolding(n.cur)
	}
	h.open(n, &Request{ID: id, Node: n.id, No: e.No, Asked: e.T, AskedLine: l.No})
	h.metrics.asked(e.No)
}

func (h *history) open(n *nodeHistory, q *Request) {
	n.cur = q
	h.requests = append(h.requests, q)
}

func (h *history) requestID(n *nodeHistory, l *Line) core.RequestID {
	id, err := core.ParseRequestID(l.Event.Req)
	if err != nil {
		h.logError(n, l.No, "%s: bad request id %q", l.Event.Kind, l.Event.Req)
		return core.RequestID{Node: n.id, Inc: core.Incarnation(l.Event.Inc)}
	}
	if id.Node != n.id {
		h.logError(n, l.No, "%s: request %v is not of node %d", l.Event.Kind, id, n.id)
	}
	return id
}

func (h *history) enter(n *nodeHistory, l *Line) {
	e := &l.Event
	id := h.requestID(n, l)
	if line, twice := h.entered[id]; twice {
		h.logError(n, l.No, "second enter of request %v (first in line %d)", id, line)
	}
	h.entered[id] = l.No
	switch q := n.cur; {
	case q != nil && q.Entered:
		h.logError(n, l.No, "enter of request %v inside the critical section of %v", id, q.ID)
		return // the section that is open goes on
	case q == nil:
		h.logError(n, l.No, "enter of request %v without request", id)
		h.open(n, &Request{ID: id, Node: n.id, No: e.No, Asked: e.T})
	case q.ID != id:
		h.logError(n, l.No, "enter of request %v while request %v waits", id, q.ID)
	case q.No != e.No:
		h.logError(n, l.No, "enter of request %v has number %d, its request had %d", id, e.No, q.No)
	}
	q := n.cur
	q.ID, q.Enter, q.Entered, q.EnterLine, q.Grants = id, e.T, true, l.No, e.Grants
	ids, err := eventlog.ParseRanges(e.Asked)
	if err != nil {
		h.logError(n, l.No, "enter: %v", err)
	}
	// Who asks nobody counts its own grant. Else nothing is known of it: who
	// waits for a token asks nobody, and foreign programs need not tell.
	if len(ids) > 0 || e.Grants == 1 {
		q.set = q.set.with(n.id)
	}
	for _, k := range ids {
		q.set = q.set.with(k)
	}
	if err := h.local.enter(q, e); err != nil {
		h.logError(n, l.No, "enter: %v", err)
	}
	if e.Text == eventlog.SlowPath {
		h.metrics.slowPath++
	}
	if n.up { // else it was killed before it wrote this line
		h.holding = append(h.holding, q)
		h.review(q, e.T)
	}
}

func (h *history) leaveSection(n *nodeHistory, l *Line, how Ending) {
	e := &l.Event
	q := n.cur
	if q == nil || how == EndExited && !q.Entered {
		h.logError(n, l.No, "%s of request %s without enter", e.Kind, e.Req)
		if q == nil {
			return
		}
	} else if id := h.requestID(n, l); id != q.ID {
		h.logError(n, l.No, "%s of request %v, but request %v is under way", e.Kind, id, q.ID)
	} else if e.No != q.No {
		h.logError(n, l.No, "%s of request %v has number %d, its request had %d", e.Kind, id, e.No, q.No)
	}
	if how == EndExited && !q.Entered {
		return // still waits
	}
	q.End, q.Ending, q.EndLine = max(e.T, q.Asked), how, l.No
	h.dropHolding(q)
	n.cur = nil
}

func (h *history) dropHolding(q *Request) {
	h.holding = slices.DeleteFunc(h.holding, func(o *Request) bool { return o == q })
}
