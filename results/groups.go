package results

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/wire"
)

// Checks of a run with k-groups (ALGORITHMS 7).
const (
	CheckSafety      = "safety"      // two routines that share a device execute at once
	CheckCommands    = "commands"    // a device carries out commands of two routines at once
	CheckHolders     = "holders"     // a lock is granted while another holds it
	CheckFencing     = "fencing"     // a deposed leader granted a lock
	CheckLeaders     = "leaders"     // two nodes lead one (group, epoch, term)
	CheckInheritance = "inheritance" // state is lost or changed by an epoch or a leader
	CheckDeadlock    = "deadlock"    // routines wait for each other in a circle
)

// GroupChecks are the checks of a run with k-groups, in the order of reports.
var GroupChecks = []string{CheckSafety, CheckCommands, CheckHolders, CheckFencing, CheckLeaders, CheckInheritance, CheckDeadlock}

// GroupFinding is a violation by the k-groups and the log lines that prove it.
type GroupFinding struct {
	Check string     `json:"check"`
	Text  string     `json:"text"`
	Lines []LogError `json:"lines"`
}

// GroupSummary is what a run with k-groups comes to. Times are ms.
type GroupSummary struct {
	Violations map[string]int `json:"violations"` // by check
	Groups     int            `json:"groups"`
	Triggered  int            `json:"triggered"`
	Skipped    int            `json:"skipped"`  // triggers while the routine ran
	Executed   int            `json:"executed"` // to the release of their locks
	Starved    int            `json:"starved"`  // waited out of proportion and never executed
	Grants     int            `json:"grants"`
	Elections  int            `json:"elections"`
	Migrations int            `json:"migrations"`
	Deposed    int            `json:"deposed"`
	// StaleLines are lines about what was decided in time by a leader that
	// wrote them after others had deposed it.
	StaleLines int `json:"stale_lines"`

	ClientMS    Dist `json:"client_delay_ms"` // trigger to execution
	AcquireMS   Dist `json:"acquire_ms"`      // first request for a lock to execution: all locks of a routine
	SyncMS      Dist `json:"sync_ms"`         // a holder's end of a device's use to the grant to one that waited by then
	QuorumMS    Dist `json:"quorum_ms"`       // a change of a lock or a routine to its quorum
	ElectionMS  Dist `json:"election_ms"`
	TransferMS  Dist `json:"transfer_ms"`  // old leader's state to the new one
	GapMS       Dist `json:"gap_ms"`       // no monitoring: from freezing to the next leader
	DetectionMS Dist `json:"detection_ms"` // a device's failure, at its leader: kill to log line
	// Bytes a second (UDP payload, sent) of the nodes that manage devices:
	// monitoring and membership are background.
	Foreground Load `json:"foreground_bytes_s"`
	Background Load `json:"background_bytes_s"`
	Sent       Load `json:"bytes_s"` // both
	// Processes is about the same nodes, of a real run.
	Processes *ProcessSummary `json:"processes,omitempty"`
}

// Load describes a rate over the nodes that manage devices.
type Load struct {
	Mean Number `json:"mean"`
	Max  Number `json:"max"`
}

type execution struct {
	routine int32
	ticket  uint64
}

func (x execution) String() string {
	return fmt.Sprintf("routine %d ticket %d", x.routine, x.ticket)
}

// firing is the run of which x may be a later attempt.
func (x execution) firing() execution {
	run, _ := eventlog.SplitTicket(x.ticket)
	return execution{x.routine, run << eventlog.AttemptBits}
}

type executed struct {
	from, to   LogError
	began, end int64
	over       bool
	devices    []int32
}

type leadership struct {
	group       int32
	epoch, term uint64
}

type deviceLock struct {
	group  int32
	holder execution
	held   bool
	line   LogError
	at     int64
	seen   map[execution]bool // ever held
	asked  map[execution]int64
	before execution // gave the lock back last
	// A grant at the very instant at which another node may log the release.
	doubt     *GroupFinding
	doubtAt   int64
	doubtHeld execution
}

type groupState struct {
	epoch, term uint64 // newest that served
	frozen      *LogError
	digest      string
	frozenAt    int64
}

// groupHistory replays the lines of k-groups.
type groupHistory struct {
	sum      GroupSummary
	findings []GroupFinding

	groups  map[int32]*groupState
	leaders map[leadership]struct {
		node core.NodeID
		line LogError
	}
	locks   map[int32]*deviceLock
	runs    map[execution]*executed
	order   []execution // by their beginning
	asked   map[execution]int64
	over    map[execution]bool // gives its locks back, or did
	waits   map[int32]int32    // routine to the device that it waits for
	open    map[core.NodeID][]commandOpen
	sent    map[core.NodeID]map[string]eventlog.Count
	manages map[core.NodeID]bool // others; known at the end
	killed  map[core.NodeID]int64
	lifting map[execution]int64 // ACQUIRING_LOCKS of a firing, its first attempt
	freeing map[execution]int64 // RELEASING_LOCKS
	client  []float64
	acquire []float64
	sync    []float64
	quorum  []float64
	elect   []float64
	move    []float64
	gap     []float64
	detect  []float64
	longest int64
}

type commandOpen struct {
	of   execution
	line LogError
}

func newGroupHistory() *groupHistory {
	return &groupHistory{
		sum:    GroupSummary{Violations: map[string]int{}},
		groups: map[int32]*groupState{}, locks: map[int32]*deviceLock{}, runs: map[execution]*executed{},
		leaders: map[leadership]struct {
			node core.NodeID
			line LogError
		}{},
		lifting: map[execution]int64{}, freeing: map[execution]int64{},
		asked: map[execution]int64{}, over: map[execution]bool{}, waits: map[int32]int32{},
		open: map[core.NodeID][]commandOpen{}, sent: map[core.NodeID]map[string]eventlog.Count{}, manages: map[core.NodeID]bool{}, killed: map[core.NodeID]int64{},
	}
}

func (g *groupHistory) found(check, text string, lines ...LogError) {
	g.sum.Violations[check]++
	if len(g.findings) < maxListed {
		g.findings = append(g.findings, GroupFinding{check, text, lines})
	}
}

func refOf(l *Line) LogError {
	e, k := &l.Event, l.Event.KG
	text := fmt.Sprintf("%.6f s node %d %s %s", float64(e.T)/1e9, e.Node, e.Kind, e.State)
	switch e.Kind {
	case eventlog.KGroup:
		text += fmt.Sprintf(" group %d epoch %d term %d %s", k.Group, k.Epoch, k.Term, k.Digest)
	case eventlog.Command, eventlog.Lock:
		text += fmt.Sprintf(" device %d routine %d ticket %d (group %d epoch %d term %d)", k.Device, k.Routine, k.Ticket, k.Group, k.Epoch, k.Term)
	default:
		text += fmt.Sprintf(" routine %d ticket %d (group %d epoch %d term %d)", k.Routine, k.Ticket, k.Group, k.Epoch, k.Term)
	}
	return LogError{logName(l.Node), l.No, text}
}

func (g *groupHistory) group(id int32) *groupState {
	s := g.groups[id]
	if s == nil {
		s = &groupState{}
		g.groups[id] = s
	}
	return s
}

// line handles one line of a k-group.
func (g *groupHistory) line(l *Line) {
	e := &l.Event
	k := e.KG
	if k == nil {
		return
	}
	x := execution{k.Routine, k.Ticket}
	s := g.group(k.Group)
	stale := k.Epoch < s.epoch || k.Epoch == s.epoch && k.Term < s.term
	switch e.Kind {
	case eventlog.KGroup:
		g.groupLine(l, s, stale)
	case eventlog.Lock:
		g.lockLine(l, x, stale)
	case eventlog.Routine:
		g.routineLine(l, x, stale)
	case eventlog.Command:
		g.commandLine(l, x)
	case eventlog.Monitor:
		if at, dead := g.killed[core.NodeID(k.Device)]; dead && e.State == "failed" {
			g.detect = append(g.detect, float64(e.T-at)/1e6)
			delete(g.killed, core.NodeID(k.Device))
		}
	default:
	}
}

func (g *groupHistory) groupLine(l *Line, s *groupState, stale bool) {
	e, k := &l.Event, l.Event.KG
	switch e.State {
	case "elected":
		g.sum.Elections++
		g.elect = append(g.elect, float64(k.NS)/1e6)
		id := leadership{k.Group, k.Epoch, k.Term}
		if other, known := g.leaders[id]; known && other.node != l.Node {
			g.found(CheckLeaders, fmt.Sprintf("nodes %d and %d lead group %d in epoch %d, term %d", other.node, l.Node, k.Group, k.Epoch, k.Term), other.line, refOf(l))
			return
		}
		g.leaders[id] = struct {
			node core.NodeID
			line LogError
		}{l.Node, refOf(l)}
	case "frozen":
		if !stale {
			ref := refOf(l)
			s.frozen, s.digest, s.frozenAt = &ref, k.Digest, e.T
		}
	case "transfer":
		g.move = append(g.move, float64(k.NS)/1e6)
	case "decommission":
		g.sum.Migrations++
	case "deposed":
		g.sum.Deposed++
	case "active":
		if stale {
			g.sum.StaleLines++
			return
		}
		s.epoch, s.term = k.Epoch, k.Term
		if s.frozen != nil {
			if s.digest != k.Digest {
				g.found(CheckInheritance, fmt.Sprintf("group %d: the state of epoch %d, term %d is not the one that was frozen", k.Group, k.Epoch, k.Term), *s.frozen, refOf(l))
			}
			g.gap = append(g.gap, float64(e.T-s.frozenAt)/1e6)
			s.frozen = nil
		}
		g.inherit(l)
	}
}

// inherit compares the locks that a new leader begins with to those held
// before. A lock that is gone is excused where its routine gives its locks
// back: the leader that would have logged the release died.
func (g *groupHistory) inherit(l *Line) {
	k := l.Event.KG
	has := map[int32]execution{}
	for d, c := range k.Held() {
		has[d] = execution{c.Routine, c.Ticket}
	}
	var devices []int32
	for d, h := range g.locks {
		if h.group == k.Group {
			devices = append(devices, d)
		}
	}
	for d := range has {
		if g.locks[d] == nil {
			devices = append(devices, d)
		}
	}
	slices.Sort(devices)
	for _, d := range devices {
		h := g.lock(d, k.Group)
		now, held := has[d]
		if h.held && (!held || now != h.holder) && !g.over[h.holder] {
			g.found(CheckInheritance, fmt.Sprintf("device %d: the lock of %v is lost", d, h.holder), h.line, refOf(l))
		}
		if held && (!h.held || now != h.holder) {
			h.line, h.at = refOf(l), l.Event.T
			g.hold(now, d)
		}
		h.holder, h.held = now, held
		if held {
			h.seen[now] = true
		}
	}
}

func (g *groupHistory) lock(device, group int32) *deviceLock {
	h := g.locks[device]
	if h == nil {
		h = &deviceLock{group: group, seen: map[execution]bool{}, asked: map[execution]int64{}}
		g.locks[device] = h
	}
	return h
}

// hold notes that an execution has a device, and waits for it no more.
func (g *groupHistory) hold(x execution, device int32) {
	r := g.run(x)
	if !slices.Contains(r.devices, device) {
		r.devices = append(r.devices, device)
	}
	if d, waiting := g.waits[x.routine]; waiting && d == device {
		delete(g.waits, x.routine)
	}
}

func (g *groupHistory) run(x execution) *executed {
	r := g.runs[x]
	if r == nil {
		r = &executed{began: -1}
		g.runs[x] = r
	}
	return r
}

func (g *groupHistory) lockLine(l *Line, x execution, stale bool) {
	e, k := &l.Event, l.Event.KG
	h := g.lock(k.Device, k.Group)
	if k.NS > 0 {
		g.quorum = append(g.quorum, float64(k.NS)/1e6)
	}
	if stale {
		g.sum.StaleLines++
		if e.State == "grant" && !h.seen[x] {
			g.found(CheckFencing, fmt.Sprintf("device %d: a deposed leader grants the lock to %v", k.Device, x), refOf(l))
		}
		return
	}
	switch e.State {
	case "request":
		g.waits[x.routine] = k.Device
		if _, again := h.asked[x]; !again {
			h.asked[x] = e.T
		}
		g.circle(l, x)
	case "grant":
		g.sum.Grants++
		if at, asked := h.asked[x]; asked {
			if end, over := g.freeing[h.before]; over && at <= end {
				g.sync = append(g.sync, float64(e.T-end)/1e6)
			}
			delete(h.asked, x)
		}
		if h.held && h.holder != x {
			f := GroupFinding{
				CheckHolders, fmt.Sprintf("device %d: %v and %v hold its lock", k.Device, h.holder, x),
				[]LogError{h.line, refOf(l)},
			}
			h.settle(g)
			h.doubt, h.doubtAt, h.doubtHeld = &f, e.T, h.holder
		}
		h.holder, h.held, h.line, h.at = x, true, refOf(l), e.T
		h.seen[x] = true
		g.hold(x, k.Device)
	case "release":
		if h.doubt != nil && h.doubtAt == e.T && h.doubtHeld == x {
			h.doubt = nil // at the same instant, by another node
		}
		if h.held && h.holder == x {
			h.held, h.before = false, x
		}
	}
}

// settle counts a doubtful finding that nothing cleared.
func (h *deviceLock) settle(g *groupHistory) {
	if h.doubt != nil {
		g.found(h.doubt.Check, h.doubt.Text, h.doubt.Lines...)
		h.doubt = nil
	}
}

// circle looks for routines that wait for each other: each waits for one
// device at a time (sla), and a circle can close at a request only.
func (g *groupHistory) circle(l *Line, x execution) {
	at := x.routine
	path := []LogError{refOf(l)}
	for range len(g.waits) + 1 {
		device, waiting := g.waits[at]
		if !waiting {
			return
		}
		h := g.locks[device]
		if h == nil || !h.held || h.holder.routine == at {
			return
		}
		path = append(path, h.line)
		if at = h.holder.routine; at == x.routine {
			g.found(CheckDeadlock, fmt.Sprintf("routine %d waits for itself over %d others", at, len(path)-2), path...)
			return
		}
	}
}

func (g *groupHistory) routineLine(l *Line, x execution, stale bool) {
	e, k := &l.Event, l.Event.KG
	if k.NS > 0 {
		g.quorum = append(g.quorum, float64(k.NS)/1e6)
	}
	switch e.State {
	case "TRIGGERED":
		if stale {
			// A leader that does not know yet that it was deposed; who leads
			// now saw the same.
			g.sum.StaleLines++
			return
		}
		g.sum.Triggered++
		g.asked[x] = k.Since
	case "skipped":
		g.sum.Skipped++
	case "BACKING_OFF":
		g.over[x] = true
		delete(g.waits, x.routine)
	case "ACQUIRING_LOCKS":
		if first := x.firing(); g.lifting[first] == 0 {
			g.lifting[first] = e.T
		}
		if x != x.firing() { // another attempt of the same run
			g.asked[x.firing()] = k.Since
		}
	case "EXECUTING":
		r := g.run(x)
		if r.began >= 0 || g.over[x] {
			return // told again by another leader
		}
		r.began, r.from = e.T, refOf(l)
		if at, known := g.lifting[x.firing()]; known {
			g.acquire = append(g.acquire, float64(e.T-at)/1e6)
			delete(g.lifting, x.firing())
		}
		g.order = append(g.order, x)
		delete(g.asked, x.firing())
		delete(g.waits, x.routine)
		if k.Since > 0 {
			g.client = append(g.client, float64(e.T-k.Since)/1e6)
			g.longest = max(g.longest, e.T-k.Since)
		}
	case "RELEASING_LOCKS":
		r := g.run(x)
		if !r.over && r.began >= 0 {
			r.over, r.end, r.to = true, e.T, refOf(l)
			g.freeing[x] = e.T
			g.sum.Executed++
		}
		g.over[x] = true
	}
}

func (g *groupHistory) commandLine(l *Line, x execution) {
	open := g.open[l.Node]
	switch l.Event.State {
	case "start":
		for _, o := range open {
			if o.of.routine != x.routine {
				g.found(CheckCommands, fmt.Sprintf("device %d carries out commands of %v and %v at once", l.Node, o.of, x), o.line, refOf(l))
			}
		}
		g.open[l.Node] = append(open, commandOpen{x, refOf(l)})
	case "done":
		g.open[l.Node] = slices.DeleteFunc(open, func(o commandOpen) bool { return o.of == x })
	}
}

// born forgets what a former life of a device carried out.
func (g *groupHistory) born(n core.NodeID) {
	delete(g.open, n)
	delete(g.killed, n)
}

// counters adds the last counters of one life.
func (g *groupHistory) counters(n core.NodeID, sent map[string]eventlog.Count) {
	if len(sent) == 0 {
		return
	}
	m := g.sent[n]
	if m == nil {
		m = map[string]eventlog.Count{}
		g.sent[n] = m
	}
	for kind, c := range sent {
		s := m[kind]
		s.Bytes += c.Bytes
		m[kind] = s
	}
}

// overlaps finds executions of two routines that shared a device.
func (g *groupHistory) overlaps(end int64) {
	by := map[int32][]execution{}
	var devices []int32
	for _, x := range g.order {
		for _, d := range g.runs[x].devices {
			if by[d] == nil {
				devices = append(devices, d)
			}
			by[d] = append(by[d], x)
		}
	}
	slices.Sort(devices)
	type pair struct{ a, b execution }
	told := map[pair]bool{}
	until := func(r *executed) int64 {
		if r.over {
			return r.end
		}
		return end
	}
	for _, d := range devices {
		var open []execution
		for _, x := range by[d] {
			r := g.runs[x]
			open = slices.DeleteFunc(open, func(o execution) bool { return until(g.runs[o]) <= r.began })
			for _, o := range open {
				if o.routine == x.routine || told[pair{o, x}] {
					continue
				}
				told[pair{o, x}] = true
				lines := []LogError{g.runs[o].from, r.from}
				for _, q := range []*executed{g.runs[o], r} {
					if q.over {
						lines = append(lines, q.to)
					}
				}
				g.found(CheckSafety, fmt.Sprintf("%v and %v execute at once with device %d", o, x, d), lines...)
			}
			open = append(open, x)
		}
	}
}

// background reports whether a message kind is sent whether or not routines
// run, and manages whether only nodes that manage others send it.
func trafficOf(kind string) (background, manages bool) {
	switch kindClasses[kind] {
	case wire.ClassMembership:
		return true, true
	case wire.ClassGroup:
		switch kind {
		case wire.KindName(wire.KindGroupDevicePong):
			return true, false
		case wire.KindName(wire.KindGroupExecuted):
			return false, false
		case wire.KindName(wire.KindGroupDevicePing), wire.KindName(wire.KindGroupBeat), wire.KindName(wire.KindGroupBeatAck):
			return true, true
		}
		return false, true
	default:
		return true, false
	}
}

// GroupTraffic adds up the bytes that a node of a run with k-groups sent:
// background are monitoring and membership, foreground the rest. manages is
// whether it sent what only nodes send that manage others. Probes of the run
// itself do not count.
func GroupTraffic(sent map[string]eventlog.Count) (foreground, background int64, manages bool) {
	for kind, c := range sent {
		class, known := kindClasses[kind]
		if !known || class == wire.ClassProbe {
			continue
		}
		behind, of := trafficOf(kind)
		manages = manages || of
		if behind {
			background += c.Bytes
		} else {
			foreground += c.Bytes
		}
	}
	return foreground, background, manages
}

// finish judges what needs the whole run. interrupted runs starve nobody.
func (g *groupHistory) finish(epoch, end int64, interrupted bool) {
	for _, d := range slices.Sorted(maps.Keys(g.locks)) {
		g.locks[d].settle(g)
	}
	g.overlaps(end)
	g.sum.Groups = len(g.groups)
	if !interrupted {
		for _, at := range g.asked {
			if end-at > starvedAfter(g.longest) {
				g.sum.Starved++
			}
		}
	}
	seconds := float64(end-max(epoch, 0)) / 1e9
	var fore, back, both []float64
	for _, n := range slices.Sorted(maps.Keys(g.sent)) {
		if f, b, manages := GroupTraffic(g.sent[n]); manages {
			fore, back = append(fore, float64(f)), append(back, float64(b))
			both = append(both, float64(f+b))
			g.manages[n] = true
		}
	}
	g.sum.Sent = loadOf(both, seconds)
	g.sum.Foreground, g.sum.Background = loadOf(fore, seconds), loadOf(back, seconds)
	for to, from := range map[*Dist][]float64{
		&g.sum.ClientMS: g.client, &g.sum.AcquireMS: g.acquire, &g.sum.SyncMS: g.sync, &g.sum.QuorumMS: g.quorum, &g.sum.ElectionMS: g.elect, &g.sum.TransferMS: g.move,
		&g.sum.GapMS: g.gap, &g.sum.DetectionMS: g.detect,
	} {
		*to = distribution(from)
	}
}

func loadOf(bytes []float64, seconds float64) Load {
	if len(bytes) == 0 {
		return Load{Unknown(), Unknown()}
	}
	var sum float64
	for _, b := range bytes {
		sum += b
	}
	return Load{ratio(sum, seconds*float64(len(bytes))), ratio(slices.Max(bytes), seconds)}
}

// Found counts what the checks found.
func (s *GroupSummary) Found() int {
	if s == nil {
		return 0
	}
	return total(s.Violations)
}

// unfit marks the times of a run whose host did not keep up.
func (s *GroupSummary) unfit() {
	for _, d := range []*Dist{&s.ClientMS, &s.AcquireMS, &s.SyncMS, &s.QuorumMS, &s.ElectionMS, &s.TransferMS, &s.GapMS, &s.DetectionMS} {
		d.Unfit = true
	}
}

// printGroups writes the rows of a run with k-groups.
func (p *printer) groups(s *GroupSummary) {
	p.row("routines", "%d executed, %d triggered, %d skipped, %d starved; client delay mean %s  p50 %s  p90 %s", s.Executed, s.Triggered,
		s.Skipped, s.Starved, ms(s.ClientMS.Mean), ms(s.ClientMS.P50), ms(s.ClientMS.P90))
	p.row("locks", "%d grants; all locks of a routine mean %s p90 %s, handed to one that waits mean %s p90 %s", s.Grants, ms(s.AcquireMS.Mean),
		ms(s.AcquireMS.P90), ms(s.SyncMS.Mean), ms(s.SyncMS.P90))
	p.row("groups", "%s, %s (mean %s), %s (gap mean %s), %d leaders deposed; quorum mean %s", counted(s.Groups, "group"), counted(s.Elections, "election"),
		ms(s.ElectionMS.Mean), counted(s.Migrations, "migration"), ms(s.GapMS.Mean), s.Deposed, ms(s.QuorumMS.Mean))
	p.row("bytes/s of a node", "foreground mean %s max %s, background mean %s max %s", num(s.Foreground.Mean), num(s.Foreground.Max),
		num(s.Background.Mean), num(s.Background.Max))
	p.processes("managing processes", s.Processes)
	p.groupsSafety(s)
}

func (p *printer) groupsSafety(s *GroupSummary) {
	if s.Found() == 0 {
		p.row("groups' safety", "SAFE: routines, locks, leaders and inherited state")
		return
	}
	var parts []string
	for _, c := range GroupChecks {
		if n := s.Violations[c]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", c, n))
		}
	}
	p.row("groups' safety", "VIOLATED: %s", strings.Join(parts, ", "))
}

// findings writes what the checks of k-groups found, with the log lines.
func (p *printer) findings(list []GroupFinding, counted int) {
	for i, f := range list {
		if i == maxShown {
			p.printf("%d more findings of groups\n", counted-i)
			return
		}
		p.printf("%s %d: %s\n", f.Check, i+1, f.Text)
		for _, l := range f.Lines {
			p.printf("    %s\n", l)
		}
	}
}

// counted says how many there are of what a noun names.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
