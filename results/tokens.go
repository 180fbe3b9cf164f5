package results

import (
	"cmp"
	"fmt"
	"slices"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/mutex"
)

// Tokens says how the tokens of a run went (ALGORITHMS 5, 8), by the "token"
// lines of its nodes. It is nil where no node wrote one.
//
// A token is at a node from its "held" line to a "sent" line that names the
// request it goes to, then under way until the "held" line of that request.
// The role of the coordinator goes the same way, by "leads" and "promised".
// Whatever does not fit such a chain was made out of nothing.
type Tokens struct {
	K         int `json:"k"`
	Transfers int `json:"transfers"` // that a token went to another request
	Promises  int `json:"promises"`  // by coordinators
	// Duplicated counts the times that a token was where it cannot have come
	// from, and so was there twice; Coordinators the same of that role.
	Duplicated   int `json:"duplicated"`
	Coordinators int `json:"coordinators"`
	// Lost counts tokens, and the role, that were nowhere at the end of a run
	// in which no process ended, stood still or was cut off; LostToFaults those
	// whose node was gone, or to which they were under way, in other runs.
	Lost         int `json:"lost"`
	LostToFaults int `json:"lost_to_faults"`
	// OutOfOrder counts departures from first come, first served by the
	// coordinators' count.
	OutOfOrder int `json:"out_of_order"`
	TakenOver  int `json:"taken_over"` // ids for which another node acts
	Rebuilt    int `json:"rebuilt"`    // times that tokens were dealt out anew
}

// Wrong reports whether the tokens were not what the algorithm promises.
func (t *Tokens) Wrong() bool {
	return t != nil && t.Duplicated+t.Coordinators+t.Lost+t.OutOfOrder > 0
}

// Rules of tokens.
const (
	RuleConservation = "token conservation" // never more than k, none lost without a fault
	RuleCoordinator  = "one coordinator"
	RuleOrder        = "first come, first served" // by the coordinators' count
)

// TokenFault is a breach of a rule, with the log lines that show it.
type TokenFault struct {
	Rule  string    `json:"rule"`
	Text  string    `json:"text"`
	Lines []LogLine `json:"lines"`
}

// LogLine is a place in the logs of a run.
type LogLine struct {
	File string `json:"file"` // relative to the run directory
	Line int    `json:"line"`
}

func (l LogLine) String() string { return fmt.Sprintf("%s:%d", l.File, l.Line) }

// tokenLine is what a "token" line told.
type tokenLine struct {
	t     int64
	node  core.NodeID // whose log
	no    int
	what  mutex.FactKind
	slot  int
	order uint64
	req   core.RequestID // zero: none
	peer  core.NodeID
	again bool // may have been told by another node
}

func (l *tokenLine) place() LogLine { return LogLine{logName(l.node), l.no} }

// owner is the id that has what the line says arrived: that of the request it
// was for, which another node may act for.
func (l *tokenLine) owner() core.NodeID {
	if l.req.IsZero() {
		return l.node
	}
	return l.req.Node
}

// tokenLog is what the replay keeps of tokens: like the requests, it grows
// with the entries.
type tokenLog struct {
	lines []tokenLine
	// ended are the instants at which processes ended before the run did.
	ended map[core.NodeID][]int64
	// cut: nodes stood still or links were changed.
	cut bool
}

// factKinds are the kinds by their names in logs.
var factKinds = func() map[string]mutex.FactKind {
	m := map[string]mutex.FactKind{}
	for k := mutex.TokenHeld; k <= mutex.Rebuilt; k++ {
		m[k.String()] = k
	}
	return m
}()

func (x *tokenLog) end(id core.NodeID, t int64) {
	if x.ended == nil {
		x.ended = map[core.NodeID][]int64{}
	}
	x.ended[id] = append(x.ended[id], t)
}

// token takes in a line of a node.
func (h *history) token(n *nodeHistory, l *Line) {
	e := &l.Event
	what, ok := factKinds[e.Change]
	if !ok {
		return // of a later version
	}
	t := tokenLine{t: e.T, node: n.id, no: l.No, what: what, slot: e.Slot, order: e.Order, peer: core.None}
	if e.Req != "" {
		id, err := core.ParseRequestID(e.Req)
		if err != nil {
			h.logError(n, l.No, "token: bad request id %q", e.Req)
			return
		}
		t.req = id
	}
	if e.Peer != nil {
		t.peer = core.NodeID(*e.Peer)
	}
	t.again = e.Text == eventlog.Again
	h.tokens.lines = append(h.tokens.lines, t)
}

// copyOf is one copy of a token, or of the coordinator's role: there ought to
// be one. It rests where the line says, or is under way since that line.
type copyOf struct {
	line   tokenLine
	flying bool
}

// chain follows one token, or the role.
type chain struct {
	name   string
	rule   string
	began  bool
	free   bool // after tokens were dealt out anew: whatever comes first is right
	copies []copyOf
	// arrivals are the lines that fit, in the order in which they followed.
	arrivals []tokenLine
	longest  int64 // time under way
}

// apply lets the line follow the chain and reports whether it fits.
func (c *chain) apply(l tokenLine, acts func(node, id core.NodeID) bool) bool {
	arrives := l.what == mutex.TokenHeld || l.what == mutex.Leads
	if c.free || arrives && !c.began {
		c.began, c.free = true, false
		c.copies = append(c.copies, copyOf{l, !arrives})
		return true
	}
	for i := range c.copies {
		k := &c.copies[i]
		from := k.line.owner() // of a copy under way: who is to have it
		switch {
		case arrives && k.flying && k.line.req == l.req:
			c.longest = max(c.longest, l.t-k.line.t)
			c.arrivals = append(c.arrivals, l)
			*k = copyOf{l, false}
			return true
		case arrives && !k.flying && k.line.req == l.req && k.line.node != l.node && acts(l.node, from):
			k.line = l // who acts for a dead node took it in once more
			return true
		case !arrives && !k.flying && acts(l.node, from):
			*k = copyOf{l, true}
			return true
		case !arrives && k.flying && l.node != from && acts(l.node, from):
			// Somebody acts for a dead node, which had not yet told of the arrival.
			*k = copyOf{l, true}
			return true
		case !arrives && k.flying && k.line.req == l.req && k.line.node != l.node:
			// Sent once more by who acts for the sender; it is taken once.
			return true
		}
	}
	return false
}

// force adds a copy that has no origin.
func (c *chain) force(l tokenLine) {
	arrives := l.what == mutex.TokenHeld || l.what == mutex.Leads
	c.copies = append(c.copies, copyOf{l, !arrives})
	if arrives {
		c.arrivals = append(c.arrivals, l)
	}
}

// where says where the copies are.
func (c *chain) where() (text string, lines []LogLine) {
	for i := range c.copies {
		k := &c.copies[i]
		if i > 0 {
			text += ", and "
		}
		switch {
		case k.flying:
			text += fmt.Sprintf("was under way from node %d to %v", k.line.node, k.line.req)
		default:
			text += fmt.Sprintf("was at node %d", k.line.owner())
		}
		text += fmt.Sprintf(" since %s ms", instant(k.line.t))
		lines = append(lines, k.line.place())
	}
	if text == "" {
		text = "had never been anywhere"
	}
	return text, lines
}

// tokenJudge judges the token lines of a run.
type tokenJudge struct {
	h     *history
	v     *Verdict
	t     *Tokens
	slots []chain
	role  chain
	// acting is who acts for an id in its place, moved when that changed last.
	acting   map[core.NodeID]core.NodeID
	moved    map[core.NodeID]int64
	rebuilt  map[uint64]bool // by view
	promised []tokenLine
}

// judgeTokens sets Verdict.Tokens and TokenFaults.
func (v *Verdict) judgeTokens(h *history) {
	lines := h.tokens.lines
	if len(lines) == 0 {
		return
	}
	j := &tokenJudge{h: h, v: v, t: &Tokens{K: v.Holders}, acting: map[core.NodeID]core.NodeID{}, moved: map[core.NodeID]int64{}, rebuilt: map[uint64]bool{}}
	v.Tokens = j.t
	for i := range v.Holders {
		j.slots = append(j.slots, chain{name: fmt.Sprintf("token %d", i), rule: RuleConservation})
	}
	j.role = chain{name: "the coordinator's role", rule: RuleCoordinator}
	// What happens at one instant may follow in any order of the lines.
	slices.SortStableFunc(lines, func(a, b tokenLine) int { return cmp.Compare(a.t, b.t) })
	lines = once(lines)
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && lines[n].t == lines[0].t {
			n++
		}
		j.instant(lines[:n])
		lines = lines[n:]
	}
	j.order()
	for i := range j.slots {
		j.atEnd(&j.slots[i])
	}
	if len(j.promised) > 0 || j.role.began {
		j.atEnd(&j.role)
	}
}

// once leaves out what was told before, where who acts for a failed node told
// it again, or that node did when it woke. Each of these happens once a
// request.
func once(lines []tokenLine) []tokenLine {
	type event struct {
		what mutex.FactKind
		slot int
		req  core.RequestID
	}
	again := map[event]bool{}
	for i := range lines {
		if l := &lines[i]; l.again {
			again[event{l.what, l.slot, l.req}] = true
		}
	}
	told := map[event]bool{}
	return slices.DeleteFunc(lines, func(l tokenLine) bool {
		e := event{l.what, l.slot, l.req}
		if !again[e] {
			return false
		}
		was := told[e]
		told[e] = true
		return was
	})
}

// fault notes a breach.
func (j *tokenJudge) fault(rule string, count *int, lines []LogLine, format string, args ...any) {
	*count++
	if len(j.v.TokenFaults) < maxListed {
		j.v.TokenFaults = append(j.v.TokenFaults, TokenFault{Rule: rule, Text: fmt.Sprintf(format, args...), Lines: lines})
	}
}

func (j *tokenJudge) acts(node, id core.NodeID) bool {
	by, taken := j.acting[id]
	return node == id || taken && by == node
}

// instant takes the lines of one instant in the order in which they can have
// happened; what is left cannot have.
func (j *tokenJudge) instant(lines []tokenLine) {
	left := slices.Clone(lines)
	left = slices.DeleteFunc(left, func(l tokenLine) bool {
		switch l.what {
		case mutex.TakenOver:
			j.t.TakenOver++
			j.acting[l.peer], j.moved[l.peer] = l.node, l.t
		case mutex.GaveBack:
			delete(j.acting, l.peer)
			j.moved[l.peer] = l.t
		case mutex.Rebuilt:
			if j.rebuilt[l.order] {
				return true // every node tells of it
			}
			j.rebuilt[l.order] = true
			j.t.Rebuilt++
			for i := range j.slots {
				j.slots[i].copies, j.slots[i].free = nil, true
			}
			j.role.copies, j.role.free = nil, true
		case mutex.TokenHeld, mutex.TokenSent, mutex.Leads, mutex.Promised:
			return false
		}
		return true
	})
	for progress := true; progress; {
		progress = false
		left = slices.DeleteFunc(left, func(l tokenLine) bool {
			c := j.chain(&l)
			if c == nil || !c.apply(l, j.acts) {
				return false
			}
			progress = true
			j.follow(&l)
			return true
		})
	}
	for _, l := range left {
		c := j.chain(&l)
		if c == nil {
			j.fault(RuleConservation, &j.t.Duplicated, []LogLine{l.place()}, "token %d at node %d at %s ms: there are %d, from 0", l.slot, l.node, instant(l.t), j.t.K)
			continue
		}
		count := &j.t.Duplicated
		if c == &j.role {
			count = &j.t.Coordinators
		}
		verb := "came to"
		if l.what == mutex.TokenSent || l.what == mutex.Promised {
			verb = "was sent on by"
		}
		where, places := c.where()
		j.fault(c.rule, count, append(places, l.place()), "%s %s node %d at %s ms, but it %s", c.name, verb, l.node, instant(l.t), where)
		c.force(l)
		j.follow(&l)
	}
}

// chain is what the line is about; nil: a token that there is not.
func (j *tokenJudge) chain(l *tokenLine) *chain {
	switch {
	case l.what == mutex.Leads || l.what == mutex.Promised:
		return &j.role
	case l.slot < 0 || l.slot >= len(j.slots):
		return nil
	}
	return &j.slots[l.slot]
}

// follow counts a line that was taken.
func (j *tokenJudge) follow(l *tokenLine) {
	switch l.what {
	case mutex.TokenSent:
		j.t.Transfers++
	case mutex.Promised:
		j.t.Promises++
		j.promised = append(j.promised, *l)
	default: // arrivals
	}
}

// faulty reports whether processes ended or stood still, or links changed:
// then tokens may be lost, and promises with them.
func (j *tokenJudge) faulty() bool {
	return len(j.h.tokens.ended) > 0 || j.h.tokens.cut || j.t.TakenOver+j.t.Rebuilt > 0
}

// order checks the promises and that tokens follow them.
func (j *tokenJudge) order() {
	if len(j.promised) == 0 || j.t.Rebuilt > 0 {
		return // the count begins anew when tokens are dealt out
	}
	number := map[core.RequestID]*tokenLine{}
	queues := make([][]*tokenLine, len(j.slots)) // in the order of promises
	wrong := func(format string, args ...any) func(...*tokenLine) {
		return func(at ...*tokenLine) {
			var lines []LogLine
			for _, l := range at {
				lines = append(lines, l.place())
			}
			j.fault(RuleOrder, &j.t.OutOfOrder, lines, format, args...)
		}
	}
	var last *tokenLine
	for i := range j.promised {
		l := &j.promised[i]
		switch {
		case last == nil && l.order > 0 && !j.faulty():
			wrong("the first promise is number %d", l.order)(l)
		case last != nil && l.order <= last.order:
			wrong("promise %d to %v at %s ms comes after promise %d to %v", l.order, l.req, instant(l.t), last.order, last.req)(last, l)
		case last != nil && l.order != last.order+1 && !j.faulty():
			wrong("promise %d to %v follows on promise %d", l.order, l.req, last.order)(last, l)
		}
		last = l
		if first := number[l.req]; first != nil {
			wrong("request %v was promised a token twice", l.req)(first, l)
		}
		number[l.req] = l
		if slot := int(l.order % uint64(len(j.slots))); slot != l.slot {
			wrong("promise %d is for token %d, whose turn it is not: token %d", l.order, l.slot, slot)(l)
		}
		if l.slot >= 0 && l.slot < len(queues) {
			queues[l.slot] = append(queues[l.slot], l)
		}
	}
	for slot := range j.slots {
		next := 0
		for i := range j.slots[slot].arrivals {
			l := &j.slots[slot].arrivals[i]
			at := slices.IndexFunc(queues[slot][next:], func(p *tokenLine) bool { return p.req == l.req })
			switch p := number[l.req]; {
			case p == nil:
				wrong("token %d came to %v, to which no coordinator promised it", slot, l.req)(l)
			case p.slot != slot:
				wrong("token %d came to %v, which was promised token %d", slot, l.req, p.slot)(p, l)
			case at < 0:
				wrong("token %d came to %v after it had been with later ones in its queue", slot, l.req)(p, l)
			case at > 0 && !j.faulty():
				p := queues[slot][next]
				wrong("token %d came to %v, though it was the turn of %v", slot, l.req, p.req)(p, l)
				next += at + 1
			default:
				next += at + 1
			}
		}
	}
}

// atEnd looks for what is nowhere at the end of the run.
func (j *tokenJudge) atEnd(c *chain) {
	if len(c.copies) == 0 {
		if !c.free {
			j.nowhere(c, nil, "%s was nowhere", c.name)
		}
		return
	}
	for i := range c.copies {
		k := &c.copies[i]
		at := k.line.owner()
		since := max(k.line.t, j.moved[at]) // what the id had before came along
		if by, taken := j.acting[at]; taken {
			at = by
		}
		gone := slices.ContainsFunc(j.h.tokens.ended[at], func(t int64) bool { return t >= since })
		long := j.h.end-k.line.t > starvedAfter(c.longest)
		switch {
		case !k.flying && gone:
			j.t.LostToFaults++
		case k.flying && (gone || long && !j.interrupted()):
			j.nowhere(c, []LogLine{k.line.place()}, "%s was sent to %v at %s ms and had not come there %s ms later, when the run ended (the longest way took %s ms)",
				c.name, k.line.req, instant(k.line.t), instant(j.h.end-k.line.t), instant(c.longest))
		}
	}
}

func (j *tokenJudge) interrupted() bool { return j.h.interrupted || j.h.run.Manifest.Interrupted }

// nowhere counts what is lost, by a fault or without one.
func (j *tokenJudge) nowhere(c *chain, lines []LogLine, format string, args ...any) {
	if j.faulty() {
		j.t.LostToFaults++
		return
	}
	j.fault(c.rule, &j.t.Lost, lines, format, args...)
}

// print writes the row of the summary.
func (t *Tokens) print(p *printer) {
	if t != nil {
		p.row("tokens", "%s", t)
	}
}

// String tells it in words.
func (t *Tokens) String() string {
	text := fmt.Sprintf("%d conserved over %d transfers", t.K, t.Transfers)
	if t.Duplicated+t.Lost > 0 {
		text = fmt.Sprintf("NOT CONSERVED: of %d, %d times too many, %d lost; %d transfers", t.K, t.Duplicated, t.Lost, t.Transfers)
	}
	if t.LostToFaults > 0 {
		text += fmt.Sprintf("; %d lost to faults", t.LostToFaults)
	}
	switch {
	case t.Coordinators > 0:
		text += fmt.Sprintf("; MORE THAN ONE COORDINATOR %d times", t.Coordinators)
	case t.Promises > 0:
		text += "; one coordinator at a time"
	}
	switch {
	case t.OutOfOrder > 0:
		text += fmt.Sprintf("; OUT OF ORDER %d times of %d promises", t.OutOfOrder, t.Promises)
	case t.Promises > 0:
		text += fmt.Sprintf("; %d promises kept in order", t.Promises)
	}
	if t.TakenOver+t.Rebuilt > 0 {
		text += fmt.Sprintf("; %d ids taken over, dealt out anew %d times", t.TakenOver, t.Rebuilt)
	}
	return text
}

// writeTokenFaults prints each breach with its log lines, in full the first
// few.
func (r *Run) writeTokenFaults(p *printer, v *Verdict, full int) error {
	for i, f := range v.TokenFaults {
		if i == maxShown {
			p.printf("%d more breaches of the rules of tokens\n", len(v.TokenFaults)-i)
			break
		}
		p.printf("%s: %s\n", f.Rule, f.Text)
		if i >= full {
			continue
		}
		for _, l := range f.Lines {
			text, err := r.rawLine(l)
			if err != nil {
				return err
			}
			p.printf("  %s  %s\n", l, text)
		}
	}
	return p.err
}
