package topologies

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"churnbed/node/core"
)

// readXY reads positions, one "x,y" a line in id order; a space may follow the
// comma. Empty lines and lines that begin with # are skipped. Links join nodes
// within the radius.
func readXY(data []byte, name string, opt ReadOptions) (*Topology, error) {
	var nodes []Node
	no := 0
	for line := range bytes.Lines(data) {
		no++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		xs, ys, ok := strings.Cut(text, ",")
		if !ok || strings.Contains(ys, ",") {
			return nil, atLine(no, "%s: want x,y in metres", quote(text))
		}
		x, errX := parseCoordinate(xs)
		y, errY := parseCoordinate(ys)
		if err := cmpErr(errX, errY); err != nil {
			return nil, &lineError{no, err}
		}
		if len(nodes) == core.MaxNodes {
			return nil, tooManyNodes(no)
		}
		nodes = append(nodes, Node{X: x, Y: y})
	}
	radius := opt.Radius
	if radius == 0 {
		radius = DefaultRadius
	}
	return WithinRadius(name, nodes, radius)
}

func parseCoordinate(s string) (float64, error) {
	s = strings.TrimSpace(s)
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(math.Abs(v) <= maxCoordinate) {
		return 0, fmt.Errorf("coordinate %s: want a finite number of metres within ±%g", quote(s), maxCoordinate)
	}
	return v, nil
}

// quote quotes s, cut to a length that fits a message.
func quote(s string) string {
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	return strconv.Quote(s)
}

// writeXY writes positions only, so it refuses what they cannot bring back:
// links that are not those of the radius or that have parameters, and heights.
// Labels and tags are dropped.
func writeXY(w io.Writer, t *Topology) error {
	if err := t.byRadius(); err != nil {
		return fmt.Errorf("xy holds positions alone, but %w; write json instead", err)
	}
	var b bytes.Buffer
	for _, n := range t.Nodes {
		b.Write(strconv.AppendFloat(b.AvailableBuffer(), n.X, 'g', -1, 64))
		b.WriteByte(',')
		b.Write(strconv.AppendFloat(b.AvailableBuffer(), n.Y, 'g', -1, 64))
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

// byRadius says why positions and radius alone do not give t, or nil.
func (t *Topology) byRadius() error {
	for i, n := range t.Nodes {
		if n.Z != 0 {
			return fmt.Errorf("node %d has a height", i)
		}
	}
	for _, l := range t.Links {
		if !isZero(l.AB) || !isZero(l.BA) {
			return fmt.Errorf("link %d-%d has parameters of its own", l.A, l.B)
		}
	}
	if t.Radius == 0 {
		return errors.New("the links do not come from a radius")
	}
	links, err := linksWithin(t.Nodes, t.Radius)
	if err != nil {
		return err
	}
	if len(links) != len(t.Links) {
		return fmt.Errorf("the links are not those of radius %g", t.Radius)
	}
	for i, l := range links {
		if compareLinks(l, t.Links[i]) != 0 {
			return fmt.Errorf("the links are not those of radius %g", t.Radius)
		}
	}
	return nil
}
