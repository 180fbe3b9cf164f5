package topologies

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"churnbed/emulator/link"
)

type xmlGraphML struct {
	XMLName xml.Name `xml:"http://graphml.graphdrawing.org/xmlns graphml"`
	Keys    []xmlKey `xml:"key"`
	Graph   xmlGraph `xml:"graph"`
}

type xmlKey struct {
	ID   string `xml:"id,attr"`
	For  string `xml:"for,attr"`
	Name string `xml:"attr.name,attr"`
	Type string `xml:"attr.type,attr"`
}

type xmlGraph struct {
	Default string    `xml:"edgedefault,attr"`
	Data    []xmlData `xml:"data"`
	Nodes   []xmlNode `xml:"node"`
	Edges   []xmlEdge `xml:"edge"`
}

type xmlNode struct {
	ID   string    `xml:"id,attr"`
	Data []xmlData `xml:"data"`
}

type xmlEdge struct {
	Source string    `xml:"source,attr"`
	Target string    `xml:"target,attr"`
	Data   []xmlData `xml:"data"`
}

type xmlData struct {
	Key  string `xml:"key,attr"`
	Text string `xml:",chardata"`
}

// writeGraphML writes an undirected graph; values that differ between the
// directions of a link, or are set in one only, get the prefix ab_ or ba_.
func writeGraphML(w io.Writer, t *Topology) error {
	g := xmlGraph{Default: "undirected"}
	if t.Name != "" {
		g.Data = append(g.Data, xmlData{"name", t.Name})
	}
	float := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	if t.Radius != 0 {
		g.Data = append(g.Data, xmlData{"radius", float(t.Radius)})
	}
	for i, n := range t.Nodes {
		x := xmlNode{ID: "n" + strconv.Itoa(i), Data: []xmlData{{"x", float(n.X)}, {"y", float(n.Y)}}}
		if n.Z != 0 {
			x.Data = append(x.Data, xmlData{"z", float(n.Z)})
		}
		if n.Label != "" {
			x.Data = append(x.Data, xmlData{"label", n.Label})
		}
		for _, tag := range n.Tags {
			if tag == "" || strings.Contains(tag, ",") {
				return fmt.Errorf("graphml: tag %s of node %d: want one without commas; write json instead", quote(tag), i)
			}
		}
		if len(n.Tags) > 0 {
			x.Data = append(x.Data, xmlData{"tags", strings.Join(n.Tags, ",")})
		}
		g.Nodes = append(g.Nodes, x)
	}
	for _, l := range t.Links {
		g.Edges = append(g.Edges, xmlEdge{
			Source: "n" + strconv.Itoa(int(l.A)), Target: "n" + strconv.Itoa(int(l.B)), Data: edgeData(l),
		})
	}
	out, err := xml.MarshalIndent(xmlGraphML{Keys: keysOf(g), Graph: g}, "", "  ")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString(xml.Header)
	b.Write(out)
	b.WriteByte('\n')
	_, err = w.Write(b.Bytes())
	return err
}

// edgeData lists the values of a link, common ones without prefix.
func edgeData(l Link) []xmlData {
	var data []xmlData
	ab, ba := overrideData(l.AB), overrideData(l.BA)
	for i, there := range ab {
		back := ba[i]
		switch {
		case there.text != nil && back.text != nil && *there.text == *back.text:
			data = append(data, xmlData{there.name, *there.text})
			continue
		case there.text != nil:
			data = append(data, xmlData{"ab_" + there.name, *there.text})
		}
		if back.text != nil {
			data = append(data, xmlData{"ba_" + back.name, *back.text})
		}
	}
	return data
}

type namedText struct {
	name string
	text *string
}

func overrideData(o link.Override) []namedText {
	t := formatOverride(o)
	burst := formatField(o.Burst, func(b link.GilbertElliott) string {
		return strings.Trim(fmt.Sprint([]float64{b.P, b.R, b.Good, b.Bad}), "[]")
	})
	return []namedText{
		{"delay", t.delay},
		{"jitter", t.jitter},
		{"distribution", t.dist},
		{"loss", t.loss},
		{"rate", t.rate},
		{"burst", burst},
	}
}

// keysOf declares the keys that g uses, in the order of their first use.
func keysOf(g xmlGraph) []xmlKey {
	var keys []xmlKey
	seen := map[string]bool{}
	declare := func(of string, data []xmlData) {
		for _, d := range data {
			if seen[d.Key] {
				continue
			}
			seen[d.Key] = true
			kind := "string"
			switch strings.TrimPrefix(strings.TrimPrefix(d.Key, "ab_"), "ba_") {
			case "x", "y", "z", "radius", "loss":
				kind = "double"
			}
			keys = append(keys, xmlKey{ID: d.Key, For: of, Name: d.Key, Type: kind})
		}
	}
	declare("graph", g.Data)
	for _, n := range g.Nodes {
		declare("node", n.Data)
	}
	for _, e := range g.Edges {
		declare("edge", e.Data)
	}
	return keys
}
