// Package trigger reads and evaluates the conditions of routines: Boolean
// expressions over device states.
//
//	expr   = and { "or" and }
//	and    = not { "and" not }
//	not    = "not" not | "(" expr ")" | state compare number
//	state  = "d" id
//	compare = "<" | "<=" | ">" | ">=" | "==" | "!="
//
// A state is a whole number. It is no general expression language on purpose:
// every node evaluates conditions, and a node is light.
package trigger

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
)

// ErrSyntax is wrapped by all errors of Parse.
var ErrSyntax = errors.New("malformed condition")

// MaxLength and maxDepth bound a condition.
const (
	MaxLength = 4096
	maxDepth  = 64
)

// Expr is a condition.
type Expr struct {
	op          string // or, and, not, or a comparison
	left, right *Expr
	device      core.NodeID
	number      int64
}

// Parse reads a condition.
func Parse(text string) (*Expr, error) {
	if len(text) > MaxLength {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrSyntax, len(text), MaxLength)
	}
	p := &parser{text: text}
	p.next()
	e := p.or()
	if p.err == nil && p.token != "" {
		p.fail("end")
	}
	if p.err != nil {
		return nil, p.err
	}
	return e, nil
}

type parser struct {
	text  string
	at    int // behind token
	token string
	depth int
	err   error
}

func (p *parser) fail(want string) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %q: want %s at byte %d", ErrSyntax, p.text, want, p.at-len(p.token))
	}
	p.token = ""
}

const symbols = "<>=!()"

func (p *parser) next() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
	from := p.at
	switch {
	case p.at == len(p.text):
	case strings.IndexByte("()", p.text[p.at]) >= 0:
		p.at++
	case strings.IndexByte(symbols, p.text[p.at]) >= 0:
		for p.at < len(p.text) && strings.IndexByte("<>=!", p.text[p.at]) >= 0 {
			p.at++
		}
	default:
		for p.at < len(p.text) && p.text[p.at] != ' ' && strings.IndexByte(symbols, p.text[p.at]) < 0 {
			p.at++
		}
	}
	p.token = p.text[from:p.at]
}

func (p *parser) take(word string) bool {
	if p.err == nil && p.token == word {
		p.next()
		return true
	}
	return false
}

func (p *parser) or() *Expr {
	e := p.and()
	for p.take("or") {
		e = &Expr{op: "or", left: e, right: p.and()}
	}
	return e
}

func (p *parser) and() *Expr {
	e := p.not()
	for p.take("and") {
		e = &Expr{op: "and", left: e, right: p.not()}
	}
	return e
}

func (p *parser) not() *Expr {
	if p.depth++; p.depth > maxDepth {
		p.fail("less nesting")
	}
	defer func() { p.depth-- }()
	switch {
	case p.err != nil:
		return &Expr{}
	case p.take("not"):
		return &Expr{op: "not", left: p.not()}
	case p.take("("):
		e := p.or()
		if !p.take(")") {
			p.fail(`")"`)
		}
		return e
	}
	return p.comparison()
}

func (p *parser) comparison() *Expr {
	e := &Expr{}
	digits, ok := strings.CutPrefix(p.token, "d")
	id, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil || id >= core.MaxNodes {
		p.fail("a device such as d12")
		return e
	}
	e.device = core.NodeID(id)
	p.next()
	if !slices.Contains([]string{"<", "<=", ">", ">=", "==", "!="}, p.token) {
		p.fail("a comparison")
		return e
	}
	e.op = p.token
	p.next()
	if e.number, err = strconv.ParseInt(p.token, 10, 64); err != nil {
		p.fail("a whole number")
		return e
	}
	p.next()
	return e
}

// Devices lists the devices that the condition names, ascending.
func (e *Expr) Devices() []core.NodeID {
	var ids []core.NodeID
	e.walk(func(id core.NodeID) { ids = append(ids, id) })
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (e *Expr) walk(visit func(core.NodeID)) {
	switch e.op {
	case "or", "and":
		e.left.walk(visit)
		e.right.walk(visit)
	case "not":
		e.left.walk(visit)
	default:
		visit(e.device)
	}
}

// Holds evaluates the condition. A comparison with a state that is not known
// does not hold.
func (e *Expr) Holds(state func(core.NodeID) (value int64, known bool)) bool {
	switch e.op {
	case "or":
		return e.left.Holds(state) || e.right.Holds(state)
	case "and":
		return e.left.Holds(state) && e.right.Holds(state)
	case "not":
		return !e.left.Holds(state)
	}
	v, known := state(e.device)
	if !known {
		return false
	}
	switch e.op {
	case "<":
		return v < e.number
	case "<=":
		return v <= e.number
	case ">":
		return v > e.number
	case ">=":
		return v >= e.number
	case "==":
		return v == e.number
	}
	return v != e.number
}

// String writes the condition so that Parse reads it.
func (e *Expr) String() string {
	switch e.op {
	case "or", "and":
		return "(" + e.left.String() + " " + e.op + " " + e.right.String() + ")"
	case "not":
		return "not " + e.left.String()
	}
	return fmt.Sprintf("d%d %s %d", e.device, e.op, e.number)
}
