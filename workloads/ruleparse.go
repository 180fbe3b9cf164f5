package workloads

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// maxRuleTime bounds the times of a rule, so that sums of them do not overflow.
const maxRuleTime = 10 * 365 * 24 * time.Hour

// SyntaxError says where a fault rule is wrong and what is allowed there.
type SyntaxError struct {
	Column int // in characters, from 1
	Msg    string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Msg) }

// ParseFault parses one line of the fault language (see the package comment
// for its grammar). The error is a *SyntaxError.
func ParseFault(line string) (Rule, error) {
	p := &ruleParser{line: line, tokens: tokenize(line)}
	if err := p.rule(); err != nil {
		return Rule{}, err
	}
	return p.r, nil
}

// token is a word or one of the symbols , | %.
type token struct {
	text string
	off  int // in bytes
}

func tokenize(line string) []token {
	var tokens []token
	start := -1
	flush := func(end int) {
		if start >= 0 {
			tokens = append(tokens, token{line[start:end], start})
			start = -1
		}
	}
	for i, c := range line {
		switch {
		case unicode.IsSpace(c):
			flush(i)
		case c == ',' || c == '|' || c == '%':
			flush(i)
			tokens = append(tokens, token{line[i : i+1], i})
		case start < 0:
			start = i
		}
	}
	flush(len(line))
	return tokens
}

// ruleParser is a recursive-descent parser with one token of look-ahead.
type ruleParser struct {
	line   string
	tokens []token
	pos    int
	r      Rule
}

func (p *ruleParser) peek() token {
	if p.pos < len(p.tokens) {
		return p.tokens[p.pos]
	}
	return token{off: len(p.line)}
}

func (p *ruleParser) next() token {
	t := p.peek()
	p.pos++
	return t
}

// accept takes the next token if it is one of the words.
func (p *ruleParser) accept(words ...string) (string, bool) {
	if t := p.peek(); t.text != "" && slices.Contains(words, t.text) {
		p.pos++
		return t.text, true
	}
	return "", false
}

// expect takes the next token, which must be the word.
func (p *ruleParser) expect(word string) error {
	if _, ok := p.accept(word); !ok {
		return p.unexpected(p.peek(), strconv.Quote(word))
	}
	return nil
}

func (p *ruleParser) errorAt(t token, format string, args ...any) error {
	return &SyntaxError{
		Column: utf8.RuneCountInString(p.line[:t.off]) + 1,
		Msg:    fmt.Sprintf(format, args...),
	}
}

func (p *ruleParser) unexpected(t token, allowed string) error {
	if t.text == "" {
		return p.errorAt(t, "the rule ends here: allowed is %s", allowed)
	}
	return p.errorAt(t, "unexpected %q: allowed is %s", t.text, allowed)
}

func (p *ruleParser) rule() error {
	word, _ := p.accept("at", "from")
	var err error
	switch word {
	case "at":
		p.r.From, err = p.duration(0)
	case "from":
		p.r.From, err = p.duration(0)
		if err == nil {
			err = p.expect("to")
		}
		to := p.peek()
		if err == nil {
			p.r.To, err = p.duration(1)
		}
		if err == nil && p.r.To <= p.r.From {
			err = p.errorAt(to, "the interval ends at %v, before it begins at %v", p.r.To, p.r.From)
		}
	default:
		return p.unexpected(p.peek(), `"at TIME" or "from TIME to TIME"`)
	}
	if err != nil {
		return err
	}
	if err := p.every(); err != nil {
		return err
	}
	action := p.peek()
	if err := p.action(); err != nil {
		return err
	}
	if err := p.clauses(); err != nil {
		return err
	}
	return p.consistent(action)
}

// every parses an optional "every TIME".
func (p *ruleParser) every() error {
	t := p.peek()
	if _, ok := p.accept("every"); !ok {
		return nil
	}
	switch {
	case p.r.To == 0:
		return p.errorAt(t, `"every" is allowed only after "from TIME to TIME"`)
	case p.r.Every != 0:
		return p.errorAt(t, `"every" is there already`)
	}
	var err error
	p.r.Every, err = p.duration(1)
	return err
}

const actions = "crash, poweroff, leave, pause, resume, restart, join, link, flap, partition, heal, set, churn or trigger"

func (p *ruleParser) action() error {
	t := p.next()
	p.r.Action = Action(t.text)
	var err error
	switch t.text {
	case "crash", "poweroff", "leave", "pause":
		p.r.Nodes, err = p.nodes()
	case "resume", "restart", "join":
		p.r.Nodes, err = p.knownNodes("nodes LIST, tag:NAME or all")
	case "link", "links":
		p.r.Links, err = p.links()
		if err != nil {
			return err
		}
		switch word, _ := p.accept("down", "up"); word {
		case "down":
			p.r.Action = Action(LinkDown)
		case "up":
			p.r.Action = Action(LinkUp)
		default:
			return p.unexpected(p.peek(), `"down" or "up" (parameters change with "set link ...")`)
		}
	case "flap":
		if _, ok := p.accept("link", "links"); !ok {
			return p.unexpected(p.peek(), `"link"`)
		}
		p.r.Links, err = p.links()
	case "partition":
		err = p.groups()
	case "heal":
	case "set":
		err = p.set()
	case "churn":
		p.r.For = DefaultChurnDown
		p.r.Nodes, err = p.amount()
	case "trigger":
		p.r.Routine, err = p.routine()
	default:
		return p.unexpected(t, actions)
	}
	if err == nil && p.r.Links.OneWay && p.r.Action != Action(Set) {
		err = p.errorAt(t, `one direction of a link (A>B) is allowed only with "set"`)
	}
	return err
}

// clauses parses what may follow the action, in any order.
func (p *ruleParser) clauses() error {
	undone := false
	for {
		t := p.peek()
		switch t.text {
		case "":
			return nil
		case "every":
			if err := p.every(); err != nil {
				return err
			}
			continue
		case "for":
			if !slices.Contains([]Action{
				Action(Crash), Action(Poweroff), Action(Leave), Action(Pause),
				Action(LinkDown), Action(Partition), Action(Set),
			}, p.r.Action) {
				return p.errorAt(t, `"for" is not allowed with %s`, p.r.Action)
			}
			p.pos++
		case "restart":
			if !slices.Contains([]Action{Action(Crash), Action(Poweroff), Action(Leave), Churn}, p.r.Action) {
				return p.errorAt(t, `"restart after" is not allowed with %s`, p.r.Action)
			}
			p.pos++
			if err := p.expect("after"); err != nil {
				return err
			}
		default:
			return p.unexpected(t, `"for TIME", "restart after TIME", "every TIME" or the end`)
		}
		if undone {
			return p.errorAt(t, "how long it lasts is there already")
		}
		undone = true
		var err error
		if p.r.For, err = p.duration(1); err != nil {
			return err
		}
	}
}

// consistent checks what spans several parts of the rule.
func (p *ruleParser) consistent(action token) error {
	r := &p.r
	switch r.Action {
	case Flap:
		if r.Every == 0 {
			return p.errorAt(action, `flap needs "from TIME to TIME" and "every TIME"`)
		}
		return nil
	case Churn:
		return nil // spread over its interval
	case Action(Resume), Action(Restart), Action(Join), Action(LinkUp), Action(Heal), Action(Trigger):
		if r.To > 0 && r.Every == 0 {
			return p.errorAt(action, `%s lasts no time: use "at", or "every" with the interval`, r.Action)
		}
		return nil
	default:
	}
	if r.To > 0 && r.Every == 0 && r.For > 0 {
		return p.errorAt(action, `how long it lasts is said by both the interval and "for": use "at", or "every" with the interval`)
	}
	fixed := r.Nodes.known() || r.Action == Action(LinkDown) || r.Action == Action(Partition) || r.Action == Action(Set)
	if fixed && r.Every > 0 && r.For > r.Every {
		return p.errorAt(action, "it lasts %v but comes again every %v: allowed is at most that", r.For, r.Every)
	}
	return nil
}

// nodes parses any choice of nodes.
func (p *ruleParser) nodes() (NodeSet, error) {
	const allowed = "nodes LIST, tag:NAME, all, N%, N nodes, holder, waiter, leader or idle"
	t := p.peek()
	if !startsNumber(t.text) {
		if role, ok := p.role(); ok {
			return NodeSet{Role: role, Count: 1}, nil
		}
		return p.knownNodes(allowed)
	}
	if p.pos+1 < len(p.tokens) && p.tokens[p.pos+1].text == "%" {
		percent, err := p.percent()
		if err != nil {
			return NodeSet{}, err
		}
		p.accept("nodes")
		return p.of(NodeSet{Percent: percent})
	}
	count, err := p.count()
	if err != nil {
		return NodeSet{}, err
	}
	if role, ok := p.role(); ok {
		return NodeSet{Role: role, Count: count}, nil
	}
	if _, ok := p.accept("nodes", "node"); ok {
		return p.of(NodeSet{Count: count})
	}
	return NodeSet{}, p.errorAt(t, `%q: write "node %s" for that node, "%s nodes" or "%s%%" for so many`, t.text, t.text, t.text, t.text)
}

func (p *ruleParser) role() (string, bool) {
	switch word, _ := p.accept("holder", "holders", "waiter", "waiters", "leader", "leaders", "idle"); word {
	case "holder", "holders":
		return RoleHolder, true
	case "waiter", "waiters":
		return RoleWaiter, true
	case "leader", "leaders":
		return RoleLeader, true
	case "idle":
		return RoleIdle, true
	default:
		return "", false
	}
}

// knownNodes parses a choice that the topology alone answers.
func (p *ruleParser) knownNodes(allowed string) (NodeSet, error) {
	if _, ok := p.accept("all"); ok {
		p.accept("nodes")
		return NodeSet{All: true}, nil
	}
	if _, ok := p.accept("node", "nodes"); !ok && !strings.HasPrefix(p.peek().text, "tag:") {
		return NodeSet{}, p.unexpected(p.peek(), allowed)
	}
	items, err := p.items()
	return NodeSet{Items: items}, err
}

// items parses "1,4-7,tag:gateway".
func (p *ruleParser) items() ([]NodeItem, error) {
	var items []NodeItem
	for {
		it, err := p.item()
		if err != nil {
			return nil, err
		}
		items = append(items, it)
		if _, more := p.accept(","); !more {
			return items, nil
		}
	}
}

func (p *ruleParser) item() (NodeItem, error) {
	t := p.next()
	const allowed = "a node (5), a range (4-7) or tag:NAME"
	if tag, ok := strings.CutPrefix(t.text, "tag:"); ok {
		if tag == "" {
			return NodeItem{}, p.errorAt(t, "the tag has no name")
		}
		return NodeItem{Tag: tag}, nil
	}
	first, last, ranged := strings.Cut(t.text, "-")
	a, ok := nodeID(first)
	b := a
	if ok && ranged {
		b, ok = nodeID(last)
	}
	if !ok {
		return NodeItem{}, p.unexpected(t, allowed)
	}
	if b < a {
		return NodeItem{}, p.errorAt(t, "range %q descends: write %d-%d", t.text, b, a)
	}
	return NodeItem{First: a, Last: b}, nil
}

// groups parses "0-15|16-31".
func (p *ruleParser) groups() error {
	for {
		items, err := p.items()
		if err != nil {
			return err
		}
		p.r.Groups = append(p.r.Groups, items)
		if _, more := p.accept("|"); !more {
			return nil
		}
	}
}

// links parses what follows "link" or "links".
func (p *ruleParser) links() (LinkSet, error) {
	if _, ok := p.accept("of"); ok {
		nodes, err := p.knownNodes("nodes LIST, tag:NAME or all")
		return LinkSet{Of: nodes}, err
	}
	var s LinkSet
	for {
		t := p.next()
		a, b, oneWay := strings.Cut(t.text, ">")
		both := false
		if !oneWay {
			a, b, both = strings.Cut(t.text, "-")
		}
		x, okX := nodeID(a)
		y, okY := nodeID(b)
		switch {
		case !okX || !okY || !oneWay && !both:
			return s, p.unexpected(t, `a link (3-7), one direction of it (3>7) or "of nodes LIST"`)
		case x == y:
			return s, p.errorAt(t, "link %q joins a node with itself", t.text)
		case len(s.Pairs) > 0 && oneWay != s.OneWay:
			return s, p.errorAt(t, "links (3-7) and directions (3>7) do not mix in one rule")
		}
		if !oneWay {
			x, y = min(x, y), max(x, y)
		}
		s.OneWay = oneWay
		s.Pairs = append(s.Pairs, [2]core.NodeID{x, y})
		if _, more := p.accept(","); !more {
			return s, nil
		}
	}
}

// amount parses "N" or "N%" of churn.
func (p *ruleParser) amount() (NodeSet, error) {
	if t := p.peek(); !startsNumber(t.text) {
		return NodeSet{}, p.unexpected(t, "a number of nodes (5) or a share (10%)")
	}
	if p.pos+1 < len(p.tokens) && p.tokens[p.pos+1].text == "%" {
		percent, err := p.percent()
		if err != nil {
			return NodeSet{}, err
		}
		p.accept("nodes")
		return p.of(NodeSet{Percent: percent})
	}
	count, err := p.count()
	if err != nil {
		return NodeSet{}, err
	}
	p.accept("nodes")
	return p.of(NodeSet{Count: count})
}

// of parses an optional "of LIST": the nodes of which some are drawn.
func (p *ruleParser) of(s NodeSet) (NodeSet, error) {
	if _, ok := p.accept("of"); !ok {
		return s, nil
	}
	var err error
	s.Items, err = p.items()
	return s, err
}

// routine parses the number of a routine.
func (p *ruleParser) routine() (int, error) {
	t := p.next()
	n, err := strconv.ParseUint(t.text, 10, 31)
	if err != nil {
		return 0, p.unexpected(t, "the number of a routine, from 0")
	}
	return int(n), nil
}

func (p *ruleParser) percent() (float64, error) {
	t := p.next()
	p.pos++ // the %
	f, ok := number(t.text)
	if !ok || f <= 0 || f > 100 {
		return 0, p.errorAt(t, "share %s%%: allowed are numbers above 0%%, up to 100%%", t.text)
	}
	return f, nil
}

func (p *ruleParser) count() (int, error) {
	t := p.next()
	n, err := strconv.Atoi(t.text)
	if err != nil || n < 1 || n > core.MaxNodes || !startsNumber(t.text) {
		return 0, p.errorAt(t, "number of nodes %q: allowed are 1..%d", t.text, core.MaxNodes)
	}
	return n, nil
}

// set parses what follows "set".
func (p *ruleParser) set() error {
	var err error
	switch word, _ := p.accept("all", "link", "links"); word {
	case "all":
		p.accept("links")
		p.r.Links.All = true
	case "link", "links":
		p.r.Links, err = p.links()
	default:
		err = p.unexpected(p.peek(), `"all", "link A-B" or "links of nodes LIST"`)
	}
	for n := 0; err == nil; n++ {
		t := p.peek()
		word, ok := p.accept("delay", "jitter", "distribution", "loss", "burst", "rate")
		if !ok {
			if n == 0 {
				return p.unexpected(t, "delay, jitter, distribution, loss, burst or rate")
			}
			return nil
		}
		err = p.parameter(t, word)
	}
	return err
}

func (p *ruleParser) parameter(t token, word string) error {
	o := &p.r.Set
	again := func(is bool) error {
		if is {
			return p.errorAt(t, "%s is there already", word)
		}
		return nil
	}
	switch word {
	case "delay", "jitter":
		field := &o.Delay
		if word == "jitter" {
			field = &o.Jitter
		}
		if err := again(*field != nil); err != nil {
			return err
		}
		d, err := p.duration(0)
		*field = &d
		return err
	case "distribution":
		if err := again(o.Dist != nil); err != nil {
			return err
		}
		name, ok := p.accept(string(link.Uniform), string(link.Normal))
		if !ok {
			return p.unexpected(p.peek(), "uniform or normal")
		}
		dist := link.Distribution(name)
		o.Dist = &dist
		return nil
	case "rate":
		if err := again(o.Rate != nil); err != nil {
			return err
		}
		bps, err := p.rate()
		o.Rate = &bps
		return err
	}
	// loss or burst: the one replaces the other
	if o.Loss != nil || o.Burst != nil {
		return p.errorAt(t, "loss or burst is there already: allowed is one of them")
	}
	if word == "loss" {
		f, err := p.probability()
		o.Loss = &f
		return err
	}
	b := &link.GilbertElliott{}
	for _, f := range []*float64{&b.P, &b.R, &b.Good, &b.Bad} {
		var err error
		if *f, err = p.probability(); err != nil {
			return err
		}
	}
	o.Burst = b
	return nil
}

// probability parses "0.2" or "20%".
func (p *ruleParser) probability() (float64, error) {
	t := p.next()
	f, ok := number(t.text)
	if _, percent := p.accept("%"); percent {
		f /= 100
	}
	switch {
	case t.text == "":
		return 0, p.unexpected(t, "a probability (0.2 or 20%)")
	case !ok || f > 1:
		return 0, p.errorAt(t, "probability %q: allowed are 0..1 or 0%%..100%%", t.text)
	}
	return f, nil
}

func (p *ruleParser) rate() (int64, error) {
	t := p.next()
	if t.text == "unlimited" {
		return 0, nil
	}
	for _, u := range rateUnits() {
		digits, ok := strings.CutSuffix(t.text, u.name)
		if !ok {
			continue
		}
		f, ok := number(digits)
		f *= float64(u.bits)
		if !ok || f < 1 || f > 1e15 {
			break
		}
		return int64(math.Round(f)), nil
	}
	return 0, p.unexpected(t, "a rate from 1bit to 1000000gbit (bit, kbit, mbit, gbit a second) or unlimited")
}

// duration parses a time of at least so many nanoseconds.
func (p *ruleParser) duration(least time.Duration) (time.Duration, error) {
	t := p.next()
	d, err := time.ParseDuration(t.text)
	if err != nil || !startsNumber(t.text) || d < least || d > maxRuleTime {
		above := "from 0s"
		if least > 0 {
			above = "above 0s"
		}
		return 0, p.unexpected(t, fmt.Sprintf("a time %s to %v, such as 500ms, 3s, 1m30s", above, maxRuleTime))
	}
	return d, nil
}

func startsNumber(s string) bool { return s != "" && (s[0] >= '0' && s[0] <= '9' || s[0] == '.') }

// number parses an unsigned decimal without exponent.
func number(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

func nodeID(s string) (core.NodeID, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return core.NodeID(n), err == nil && n < core.MaxNodes
}
