package topologies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// The JSON format:
//
//	{
//	  "name": "lab", "radius": 4,
//	  "nodes": [
//	    {"x": 0, "y": 2.5, "z": 1, "label": "door", "tags": ["roof"]}, ...
//	  ],
//	  "links": [
//	    {"a": 0, "b": 1,
//	     "ab": {"delay": "5ms", "jitter": "1ms", "distribution": "normal", "loss": 0.05, "rate": "10mbit"},
//	     "ba": {"burst": {"p": 0.01, "r": 0.3, "good": 0, "bad": 0.8}}}, ...
//	  ]
//	}
//
// Node ids are places in "nodes" from 0. "a" and "b" are ids. All but nodes may
// be left out; without "links" the nodes within "radius" metres are joined.
// "loss" is 0..1 or "5%", "rate" bits a second or "10mbit", a bare number in
// "delay" and "jitter" milliseconds.

type jsonNode struct {
	X     float64  `json:"x"`
	Y     float64  `json:"y"`
	Z     float64  `json:"z,omitempty"`
	Label string   `json:"label,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}

type jsonLink struct {
	A  *core.NodeID   `json:"a"`
	B  *core.NodeID   `json:"b"`
	AB *jsonDirection `json:"ab,omitempty"`
	BA *jsonDirection `json:"ba,omitempty"`
}

type jsonDirection struct {
	Delay        *scalar    `json:"delay,omitempty"`
	Jitter       *scalar    `json:"jitter,omitempty"`
	Distribution *scalar    `json:"distribution,omitempty"`
	Loss         *scalar    `json:"loss,omitempty"`
	Rate         *scalar    `json:"rate,omitempty"`
	Burst        *jsonBurst `json:"burst,omitempty"`
}

type jsonBurst struct {
	P    *float64 `json:"p"`
	R    *float64 `json:"r"`
	Good *float64 `json:"good"`
	Bad  *float64 `json:"bad"`
}

// scalar is a JSON string or number, kept as text.
type scalar string

func (s *scalar) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		*s = scalar(text)
		return nil
	}
	if _, err := strconv.ParseFloat(string(b), 64); err != nil {
		return fmt.Errorf("%s: want a string or a number", quote(string(b)))
	}
	*s = scalar(b)
	return nil
}

// MarshalJSON writes what is a number as one.
func (s scalar) MarshalJSON() ([]byte, error) {
	if _, err := strconv.ParseFloat(string(s), 64); err == nil && json.Valid([]byte(s)) {
		return []byte(s), nil
	}
	return json.Marshal(string(s))
}

// override converts the texts of one direction.
func (d *jsonDirection) override() (link.Override, error) {
	if d == nil {
		return link.Override{}, nil
	}
	text := func(s *scalar) *string { return (*string)(s) }
	o, err := parseOverride(overrideText{
		text(d.Delay), text(d.Jitter), text(d.Distribution), text(d.Loss), text(d.Rate),
	})
	if err != nil {
		return o, err
	}
	if b := d.Burst; b != nil {
		if b.P == nil || b.R == nil || b.Good == nil || b.Bad == nil {
			return o, errors.New("burst: want p, r, good and bad")
		}
		o.Burst = &link.GilbertElliott{P: *b.P, R: *b.R, Good: *b.Good, Bad: *b.Bad}
	}
	return o, checkOverride(o)
}

func directionOf(o link.Override) *jsonDirection {
	if isZero(o) {
		return nil
	}
	t := formatOverride(o)
	d := &jsonDirection{
		Delay: (*scalar)(t.delay), Jitter: (*scalar)(t.jitter), Distribution: (*scalar)(t.dist),
		Loss: (*scalar)(t.loss), Rate: (*scalar)(t.rate),
	}
	if b := o.Burst; b != nil {
		d.Burst = &jsonBurst{&b.P, &b.R, &b.Good, &b.Bad}
	}
	return d
}

// readJSON decodes strictly: an unknown, repeated or missing key, a value out
// of range and anything after the end are errors with their line.
func readJSON(data []byte, name string) (*Topology, error) {
	p := &jsonParser{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	t := &Topology{Name: name}
	hasNodes, hasLinks := false, false
	var links []Link
	var lines []int
	err := p.object(func(key string) error {
		switch key {
		case "name":
			return p.value(&t.Name)
		case "radius":
			if err := p.value(&t.Radius); err != nil {
				return err
			}
			return p.here(checkRadius(t.Radius))
		case "nodes":
			hasNodes = true
			return p.array(func() error { return p.node(t) })
		case "links":
			hasLinks = true
			return p.array(func() error {
				l, err := p.link()
				links, lines = append(links, l), append(lines, p.line())
				return err
			})
		}
		return p.here(fmt.Errorf("unknown key %s: want name, radius, nodes or links", quote(key)))
	})
	if err != nil {
		return nil, err
	}
	if !hasNodes || len(t.Nodes) == 0 {
		return nil, atLine(1, "no nodes: a topology needs at least one in \"nodes\"")
	}
	if !hasLinks {
		if t.Radius == 0 && len(t.Nodes) > 1 {
			return nil, atLine(1, "neither \"links\" nor \"radius\": give one of them")
		}
		if t.Radius == 0 {
			return t, nil
		}
		return WithinRadius(t.Name, t.Nodes, t.Radius)
	}
	if err := checkGiven(links, lines, len(t.Nodes)); err != nil {
		return nil, err
	}
	made, err := New(t.Name, t.Nodes, links)
	if err != nil {
		return nil, err
	}
	made.Radius = t.Radius
	return made, nil
}

// checkGiven checks links as read, while their lines are known.
func checkGiven(links []Link, lines []int, nodes int) error {
	seen := make(map[[2]core.NodeID]int, len(links))
	for i, l := range links {
		key := [2]core.NodeID{min(l.A, l.B), max(l.A, l.B)}
		o := l
		o.A, o.B = key[0], key[1]
		if err := checkLink(o, nodes); err != nil {
			return &lineError{lines[i], err}
		}
		if first, ok := seen[key]; ok {
			return atLine(lines[i], "link %d-%d is given twice, first in line %d", key[0], key[1], first)
		}
		seen[key] = lines[i]
	}
	return nil
}

// jsonParser reads a JSON document value by value, so that errors know where.
type jsonParser struct {
	data []byte
	dec  *json.Decoder
	at   int // offset of the value or key being read

	counted, lineAt int // lines counted up to offset counted
}

// line returns the line of p.at.
func (p *jsonParser) line() int { return p.lineOf(p.at) }

// lineOf counts lines up to an offset, onwards from the last count.
func (p *jsonParser) lineOf(offset int) int {
	offset = min(offset, len(p.data))
	if offset < p.counted {
		p.counted, p.lineAt = 0, 0
	}
	p.lineAt += bytes.Count(p.data[p.counted:offset], []byte("\n"))
	p.counted = offset
	return p.lineAt + 1
}

// mark notes that the next value begins here, after blanks and separators.
func (p *jsonParser) mark() {
	p.at = int(p.dec.InputOffset())
	for p.at < len(p.data) && strings.IndexByte(" \t\r\n,:", p.data[p.at]) >= 0 {
		p.at++
	}
}

// here gives err the present place, unless it is nil or has one.
func (p *jsonParser) here(err error) error {
	var at *lineError
	if err == nil || errors.As(err, &at) {
		return err
	}
	return &lineError{p.line(), err}
}

// broken places an error of the decoder.
func (p *jsonParser) broken(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return atLine(p.lineOf(int(syntax.Offset)), "malformed JSON: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return atLine(p.lineOf(len(p.data)), "malformed JSON: it ends too early")
	}
	return p.here(err)
}

// object reads the one object of the document; member reads a key's value.
func (p *jsonParser) object(member func(key string) error) error {
	if err := p.delim('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for p.dec.More() {
		p.mark()
		tok, err := p.dec.Token()
		if err != nil {
			return p.broken(err)
		}
		key, ok := tok.(string)
		if !ok {
			return p.here(fmt.Errorf("malformed JSON: key %v is not a string", tok))
		}
		if seen[key] {
			return p.here(fmt.Errorf("key %s is given twice", quote(key)))
		}
		seen[key] = true
		if err := member(key); err != nil {
			return err
		}
	}
	if err := p.delim('}'); err != nil {
		return err
	}
	p.mark()
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return p.here(errors.New("something follows the end of the topology"))
	}
	return nil
}

// array reads an array; element reads one of its values.
func (p *jsonParser) array(element func() error) error {
	if err := p.delim('['); err != nil {
		return err
	}
	for p.dec.More() {
		if err := element(); err != nil {
			return p.here(err)
		}
	}
	return p.delim(']')
}

func (p *jsonParser) delim(want json.Delim) error {
	p.mark()
	tok, err := p.dec.Token()
	if err != nil {
		return p.broken(err)
	}
	if tok != want {
		return p.here(fmt.Errorf("found %s: want %s", quote(fmt.Sprint(tok)), want))
	}
	return nil
}

// value decodes the next value strictly into v.
func (p *jsonParser) value(v any) error {
	p.mark()
	var raw json.RawMessage
	if err := p.dec.Decode(&raw); err != nil {
		return p.broken(err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil && string(raw) == "null":
		return p.here(errors.New("null: leave the key out instead"))
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		field := ""
		if wrong.Field != "" {
			field = wrong.Field + ": "
		}
		return atLine(p.lineOf(p.at+int(wrong.Offset)), "%sfound a %s: want %s", field, wrong.Value, jsonType(wrong.Type.String()))
	}
	// The decoder tells the name of an unknown field but not its place.
	if _, field, ok := strings.Cut(err.Error(), "unknown field "); ok {
		if i := bytes.Index(raw, []byte(field)); i >= 0 {
			return atLine(p.lineOf(p.at+i), "unknown key %s", field)
		}
	}
	return p.here(errors.New(strings.TrimPrefix(err.Error(), "json: ")))
}

// jsonType words a Go type for people.
func jsonType(goType string) string {
	switch goType {
	case "float64":
		return "a number"
	case "string":
		return "a string"
	case "core.NodeID":
		return "a node id (a whole number)"
	case "[]string":
		return "a list of strings"
	}
	return "an object"
}

func (p *jsonParser) node(t *Topology) error {
	var n jsonNode
	if err := p.value(&n); err != nil {
		return err
	}
	if len(t.Nodes) == core.MaxNodes {
		return p.here(fmt.Errorf("more than %d nodes", core.MaxNodes))
	}
	if err := checkNodes([]Node{{X: n.X, Y: n.Y, Z: n.Z}}); err != nil {
		return p.here(fmt.Errorf("node %d: coordinates must be within ±%g metres", len(t.Nodes), maxCoordinate))
	}
	t.Nodes = append(t.Nodes, Node(n))
	return nil
}

func (p *jsonParser) link() (Link, error) {
	var j jsonLink
	if err := p.value(&j); err != nil {
		return Link{}, err
	}
	if j.A == nil || j.B == nil {
		return Link{}, p.here(errors.New("a link needs both ends \"a\" and \"b\""))
	}
	l := Link{A: *j.A, B: *j.B}
	var err error
	if l.AB, err = j.AB.override(); err != nil {
		return l, p.here(fmt.Errorf("link %d-%d, ab: %w", l.A, l.B, err))
	}
	if l.BA, err = j.BA.override(); err != nil {
		return l, p.here(fmt.Errorf("link %d-%d, ba: %w", l.A, l.B, err))
	}
	return l, nil
}

// writeJSON writes one node or link a line. Links that are just those of the
// radius are left out.
func writeJSON(w io.Writer, t *Topology) error {
	var b bytes.Buffer
	b.WriteString("{\n")
	if t.Name != "" {
		name, err := json.Marshal(t.Name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "  \"name\": %s,\n", name)
	}
	if t.Radius != 0 {
		fmt.Fprintf(&b, "  \"radius\": %s,\n", strconv.FormatFloat(t.Radius, 'g', -1, 64))
	}
	b.WriteString("  \"nodes\": [")
	for i, n := range t.Nodes {
		if err := writeElement(&b, i, jsonNode(n)); err != nil {
			return err
		}
	}
	b.WriteString("\n  ]")
	if t.byRadius() != nil {
		b.WriteString(",\n  \"links\": [")
		for i, l := range t.Links {
			if err := writeElement(&b, i, jsonLink{&l.A, &l.B, directionOf(l.AB), directionOf(l.BA)}); err != nil {
				return err
			}
		}
		b.WriteString("\n  ]")
	}
	b.WriteString("\n}\n")
	_, err := w.Write(b.Bytes())
	return err
}

func writeElement(b *bytes.Buffer, i int, v any) error {
	if i > 0 {
		b.WriteByte(',')
	}
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b.WriteString("\n    ")
	b.Write(line)
	return nil
}
