package topologies

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// readGraphML reads GraphML (http://graphml.graphdrawing.org/specification.html)
// as networkx, yEd, the Topology Zoo and our own writer make it. Of the data of
// a node it takes x, y, z (metres; latitude and longitude are projected),
// label and tags (separated by commas), and yEd's geometry and label; of an
// edge delay, jitter, distribution, loss, rate and burst ("p r good bad"), for
// both directions of an undirected edge and the one of a directed edge, and
// with ab_ or ba_ in front for the direction from source to target or back. A
// bare number is milliseconds, or bits a second. Other data is ignored. Nodes
// are numbered by their place in the file.
func readGraphML(data []byte, name string, opt ReadOptions) (*Topology, error) {
	p := &graphmlParser{
		dec:   xml.NewDecoder(bytes.NewReader(data)),
		keys:  map[string]string{},
		index: map[string]core.NodeID{},
		edges: map[[2]core.NodeID]int{},
		t:     &Topology{Name: name},
	}
	if err := p.document(); err != nil {
		return nil, err
	}
	if p.repeated+p.loops > 0 {
		opt.note("left out %d edges between nodes that have one already and %d of a node to itself", p.repeated, p.loops)
	}
	links := make([]Link, len(p.links))
	for i, e := range p.links {
		links[i] = e.Link
	}
	t, err := New(p.t.Name, p.t.Nodes, links)
	if err != nil {
		return nil, err
	}
	t.Radius = p.t.Radius
	without := 0
	for _, ok := range p.placed {
		if !ok {
			without++
		}
	}
	if p.geographic {
		project(t.Nodes, p.placed)
	}
	if without > 0 {
		lay(t, p.placed)
		opt.note("%d of %d nodes have no position: it is made up from the links", without, len(t.Nodes))
	}
	return t, checkNodes(t.Nodes)
}

// graphmlEdge is a link and which of its directions an edge gave.
type graphmlEdge struct {
	Link
	ab, ba bool
}

type graphmlParser struct {
	dec        *xml.Decoder
	keys       map[string]string // key id -> attribute name, lower case
	index      map[string]core.NodeID
	edges      map[[2]core.NodeID]int // into links
	links      []graphmlEdge
	placed     []bool
	t          *Topology
	directed   bool
	geographic bool
	graphs     int

	repeated, loops int
}

func (p *graphmlParser) errorf(format string, args ...any) error {
	line, _ := p.dec.InputPos()
	return atLine(line, format, args...)
}

// next returns the next token; the end of the input is an error.
func (p *graphmlParser) next() (xml.Token, error) {
	tok, err := p.dec.Token()
	if err != nil {
		var syntax *xml.SyntaxError
		switch {
		case errors.As(err, &syntax):
			return nil, atLine(syntax.Line, "malformed XML: %s", syntax.Msg)
		case errors.Is(err, io.EOF):
			return nil, p.errorf("malformed XML: it ends too early")
		}
		return nil, p.errorf("malformed XML: %w", err)
	}
	return tok, nil
}

// children calls element for every child element until the end of the present
// one; element must read its own to the end.
func (p *graphmlParser) children(element func(xml.StartElement) error) error {
	for {
		tok, err := p.next()
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if err := element(tok); err != nil {
				return err
			}
		case xml.EndElement:
			return nil
		}
	}
}

func (p *graphmlParser) skip(xml.StartElement) error { return p.children(p.skip) }

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (p *graphmlParser) document() error {
	for {
		tok, err := p.next()
		if err != nil {
			return err
		}
		start, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if start.Name.Local != "graphml" {
			return p.errorf("root element is %s: want graphml", quote(start.Name.Local))
		}
		if err := p.children(p.top); err != nil {
			return err
		}
		if p.graphs == 0 {
			return p.errorf("no graph in the document")
		}
		return nil
	}
}

func (p *graphmlParser) top(e xml.StartElement) error {
	switch e.Name.Local {
	case "key":
		if name := attr(e, "attr.name"); name != "" {
			p.keys[attr(e, "id")] = strings.ToLower(name)
		}
	case "graph":
		if p.graphs++; p.graphs > 1 {
			return p.errorf("a second graph: want one")
		}
		p.directed = attr(e, "edgedefault") == "directed"
		return p.children(p.graph)
	}
	return p.children(p.skip)
}

func (p *graphmlParser) graph(e xml.StartElement) error {
	switch e.Name.Local {
	case "node":
		return p.node(e)
	case "edge":
		return p.edge(e)
	case "hyperedge":
		return p.errorf("hyperedges are not supported: join nodes in pairs")
	case "data":
		d, err := p.data(e)
		if err != nil {
			return err
		}
		switch d.name {
		case "name":
			p.t.Name = d.text
		case "radius":
			r, err := strconv.ParseFloat(strings.TrimSpace(d.text), 64)
			if err == nil {
				err = checkRadius(r)
			}
			if err != nil {
				return p.errorf("radius %s: want metres above 0", quote(d.text))
			}
			p.t.Radius = r
		}
		return nil
	}
	return p.children(p.skip)
}

// graphmlData is one data element: text, and what yEd nests.
type graphmlData struct {
	name, text string
	geometry   *xml.StartElement
	label      string
	line       int
}

func (p *graphmlParser) data(e xml.StartElement) (graphmlData, error) {
	line, _ := p.dec.InputPos()
	key := attr(e, "key")
	d := graphmlData{name: p.keys[key], line: line}
	if d.name == "" {
		d.name = strings.ToLower(key) // undeclared keys, as people write by hand
	}
	var text strings.Builder
	var open []string
	for {
		tok, err := p.next()
		if err != nil {
			return d, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			open = append(open, tok.Name.Local)
			if tok.Name.Local == "Geometry" {
				geometry := tok.Copy()
				d.geometry = &geometry
			}
		case xml.CharData:
			switch {
			case len(open) == 0:
				text.Write(tok)
			case open[len(open)-1] == "NodeLabel":
				d.label += strings.TrimSpace(string(tok))
			}
		case xml.EndElement:
			if len(open) == 0 {
				d.text = text.String()
				return d, nil
			}
			open = open[:len(open)-1]
		}
	}
}

func (p *graphmlParser) node(e xml.StartElement) error {
	id := attr(e, "id")
	if id == "" {
		return p.errorf("node without id")
	}
	if _, ok := p.index[id]; ok {
		return p.errorf("node %s is given twice", quote(id))
	}
	if len(p.t.Nodes) == core.MaxNodes {
		return p.errorf("more than %d nodes", core.MaxNodes)
	}
	at := strconv.Itoa(len(p.t.Nodes))
	p.index[id] = core.NodeID(len(p.t.Nodes))
	var n Node
	if id != at && id != "n"+at {
		n.Label = id
	}
	has := map[string]bool{}
	err := p.children(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "data":
			d, err := p.data(e)
			if err != nil {
				return err
			}
			return p.nodeData(&n, d, has)
		case "graph":
			return p.errorf("node %s holds a graph of its own: ungroup it first", quote(id))
		}
		return p.children(p.skip)
	})
	if err != nil {
		return err
	}
	if has["x"] != has["y"] {
		return p.errorf("node %s has one of x and y: give both or none", quote(id))
	}
	p.t.Nodes = append(p.t.Nodes, n)
	p.placed = append(p.placed, has["x"])
	return nil
}

func (p *graphmlParser) nodeData(n *Node, d graphmlData, has map[string]bool) error {
	coordinate := func(into *float64, axis, text string) error {
		v, err := parseCoordinate(text)
		if err != nil {
			return &lineError{d.line, err}
		}
		*into, has[axis] = v, true
		return nil
	}
	if d.geometry != nil {
		if d.label != "" {
			n.Label = d.label
		}
		return cmpErr(
			coordinate(&n.X, "x", attr(*d.geometry, "x")),
			coordinate(&n.Y, "y", attr(*d.geometry, "y")),
		)
	}
	if d.label != "" {
		n.Label = d.label
	}
	switch d.name {
	case "x":
		return coordinate(&n.X, "x", d.text)
	case "y":
		return coordinate(&n.Y, "y", d.text)
	case "z":
		return coordinate(&n.Z, "z", d.text)
	case "longitude", "lon":
		p.geographic = true
		return coordinate(&n.X, "x", d.text)
	case "latitude", "lat":
		p.geographic = true
		return coordinate(&n.Y, "y", d.text)
	case "label":
		n.Label = d.text
	case "tags":
		n.Tags = strings.Split(d.text, ",")
	}
	return nil
}

func (p *graphmlParser) edge(e xml.StartElement) error {
	source, target := attr(e, "source"), attr(e, "target")
	a, okA := p.index[source]
	b, okB := p.index[target]
	if !okA || !okB {
		return p.errorf("edge %s-%s names a node that no line above gives", quote(source), quote(target))
	}
	directed := p.directed
	switch v := attr(e, "directed"); v {
	case "":
	case "true", "false":
		directed = v == "true"
	default:
		return p.errorf("directed %s: want true or false", quote(v))
	}
	var there, back overrideText
	var burstThere, burstBack *link.GilbertElliott
	err := p.children(func(e xml.StartElement) error {
		if e.Name.Local != "data" {
			return p.children(p.skip)
		}
		d, err := p.data(e)
		if err != nil {
			return err
		}
		name, forth := strings.CutPrefix(d.name, "ab_")
		name, only := strings.CutPrefix(name, "ba_")
		if name == "burst" {
			burst, err := parseBurst(d.text)
			if err != nil {
				return &lineError{d.line, err}
			}
			if !only {
				burstThere = burst
			}
			if !forth && (only || !directed) {
				burstBack = burst
			}
			return nil
		}
		if !only {
			there.set(name, d.text)
		}
		if !forth && (only || !directed) {
			back.set(name, d.text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	ab, err := parseOverride(there)
	if err != nil {
		return p.errorf("edge %s-%s: %w", quote(source), quote(target), err)
	}
	ba, err := parseOverride(back)
	if err != nil {
		return p.errorf("edge %s-%s: %w", quote(source), quote(target), err)
	}
	ab.Burst, ba.Burst = burstThere, burstBack
	return p.join(a, b, ab, ba, directed)
}

// join adds an edge, or the other direction of a directed one.
func (p *graphmlParser) join(a, b core.NodeID, ab, ba link.Override, directed bool) error {
	if a == b {
		p.loops++
		return nil
	}
	l := graphmlEdge{Link: Link{A: a, B: b, AB: ab, BA: ba}, ab: true, ba: !directed}
	if a > b {
		l = graphmlEdge{Link: Link{A: b, B: a, AB: ba, BA: ab}, ab: !directed, ba: true}
	}
	key := [2]core.NodeID{l.A, l.B}
	i, ok := p.edges[key]
	if !ok {
		if len(p.links) == MaxLinks {
			return p.errorf("more than %d edges", MaxLinks)
		}
		p.edges[key] = len(p.links)
		p.links = append(p.links, l)
		return nil
	}
	first := &p.links[i]
	switch {
	case directed && l.ab && !first.ab:
		first.AB, first.ab = l.AB, true
	case directed && l.ba && !first.ba:
		first.BA, first.ba = l.BA, true
	default:
		p.repeated++
	}
	return nil
}

// set stores the text of an attribute of that name, if it is one of ours.
func (t *overrideText) set(name, text string) {
	switch name {
	case "delay":
		t.delay = &text
	case "jitter":
		t.jitter = &text
	case "distribution":
		t.dist = &text
	case "loss":
		t.loss = &text
	case "rate":
		t.rate = &text
	}
}

func parseBurst(s string) (*link.GilbertElliott, error) {
	fields := strings.Fields(s)
	var v [4]float64
	if len(fields) != len(v) {
		return nil, fmt.Errorf("burst %s: want p, r, good and bad", quote(s))
	}
	for i, f := range fields {
		x, err := strconv.ParseFloat(f, 64)
		if err != nil || !probability(x) {
			return nil, fmt.Errorf("burst %s: want p, r, good and bad, 0..1 each", quote(s))
		}
		v[i] = x
	}
	return &link.GilbertElliott{P: v[0], R: v[1], Good: v[2], Bad: v[3]}, nil
}
