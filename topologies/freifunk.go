package topologies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

type freifunkMap struct {
	Nodes []freifunkNode `json:"nodes"`
	Links []freifunkLink `json:"links"`
}

type freifunkNode struct {
	ID freifunkID `json:"id"`
	X  *float64   `json:"x"` // latitude
	Y  *float64   `json:"y"` // longitude
}

type freifunkLink struct {
	Source   freifunkID `json:"source"`
	Target   freifunkID `json:"target"`
	SourceTQ float64    `json:"source_tq"`
	TargetTQ float64    `json:"target_tq"`
	Type     string     `json:"type"`
}

// freifunkID is a number or a string in the files.
type freifunkID string

func (id *freifunkID) UnmarshalJSON(b []byte) error {
	var s scalar
	if err := s.UnmarshalJSON(b); err != nil {
		return err
	}
	*id = freifunkID(s)
	return nil
}

// readFreifunk reads a map of meshnet-lab. The quality that an end sees is the
// one it transmits with (batman-adv's TQ), so the loss from source to target
// is 1 - source_tq; 0 is "not measured" and sets no loss. Of a pair with
// several links the first counts. Keys that the format does not name are
// ignored, as the maps carry much else. The largest connected part is kept;
// what was left out is noted.
func readFreifunk(data []byte, name string, opt ReadOptions) (*Topology, error) {
	var m freifunkMap
	p := &jsonParser{data: data}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&m); err != nil {
		return nil, freifunkError(p, dec, err)
	}
	if len(m.Nodes) == 0 {
		return nil, atLine(1, "no \"nodes\" in the map")
	}
	if len(m.Nodes) > core.MaxNodes || len(m.Links) > MaxLinks {
		return nil, fmt.Errorf("%d nodes and %d links: at most %d and %d are supported",
			len(m.Nodes), len(m.Links), core.MaxNodes, MaxLinks)
	}
	nodes, placed, index, err := m.nodes()
	if err != nil {
		return nil, err
	}
	links, err := m.links(index, opt)
	if err != nil {
		return nil, err
	}
	t, err := New(name, nodes, links)
	if err != nil {
		return nil, err
	}
	// Nodes are placed after the part was taken, lest others stretch the area.
	keep := t.Components()[0]
	kept := make([]bool, len(keep))
	without := 0
	for i, n := range keep {
		kept[i] = placed[n]
		if !placed[n] {
			without++
		}
	}
	t = keepLargest(t, opt)
	if far := dropFar(t.Nodes, kept); far > 0 {
		opt.note("%d nodes lie more than %d km from the others' middle: their position is taken for a mistake", far, maxSpread/1000)
		without += far
	}
	project(t.Nodes, kept)
	lay(t, kept)
	for i := range t.Nodes {
		t.Nodes[i].X, t.Nodes[i].Y = centimetres(t.Nodes[i].X), centimetres(t.Nodes[i].Y)
	}
	if without > 0 {
		opt.note("%d of %d nodes have no usable position: placed near their neighbours", without, len(t.Nodes))
	}
	return t, nil
}

func freifunkError(p *jsonParser, dec *json.Decoder, err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return atLine(p.lineOf(int(wrong.Offset)), "%s: found a %s: want %s", wrong.Field, wrong.Value, jsonType(wrong.Type.String()))
	}
	p.at = int(dec.InputOffset())
	return p.broken(err)
}

func (m freifunkMap) nodes() ([]Node, []bool, map[freifunkID]core.NodeID, error) {
	nodes := make([]Node, len(m.Nodes))
	placed := make([]bool, len(m.Nodes))
	index := make(map[freifunkID]core.NodeID, len(m.Nodes))
	for i, n := range m.Nodes {
		if n.ID == "" {
			return nil, nil, nil, fmt.Errorf("nodes[%d] has no id", i)
		}
		if _, ok := index[n.ID]; ok {
			return nil, nil, nil, fmt.Errorf("nodes[%d]: id %s is given twice", i, quote(string(n.ID)))
		}
		index[n.ID] = core.NodeID(i)
		nodes[i].Label = string(n.ID)
		if n.X == nil || n.Y == nil {
			continue
		}
		if !(*n.X >= -90 && *n.X <= 90 && *n.Y >= -180 && *n.Y <= 180) {
			return nil, nil, nil, fmt.Errorf("nodes[%d] (id %s): x %v, y %v: want latitude -90..90 and longitude -180..180",
				i, quote(string(n.ID)), *n.X, *n.Y)
		}
		nodes[i].X, nodes[i].Y = *n.Y, *n.X
		placed[i] = true
	}
	return nodes, placed, index, nil
}

func (m freifunkMap) links(index map[freifunkID]core.NodeID, opt ReadOptions) ([]Link, error) {
	var links []Link
	seen := make(map[[2]core.NodeID]bool, len(m.Links))
	repeated, loops := 0, 0
	for i, l := range m.Links {
		if opt.WifiOnly && l.Type != "wifi" {
			continue
		}
		a, okA := index[l.Source]
		b, okB := index[l.Target]
		if !okA || !okB {
			return nil, fmt.Errorf("links[%d]: %s-%s names an unknown node", i, quote(string(l.Source)), quote(string(l.Target)))
		}
		if !probability(l.SourceTQ) || !probability(l.TargetTQ) {
			return nil, fmt.Errorf("links[%d]: link qualities %v and %v: want 0..1", i, l.SourceTQ, l.TargetTQ)
		}
		key := [2]core.NodeID{min(a, b), max(a, b)}
		switch {
		case a == b:
			loops++
			continue
		case seen[key]:
			repeated++
			continue
		}
		seen[key] = true
		links = append(links, Link{A: a, B: b, AB: lossOf(l.SourceTQ), BA: lossOf(l.TargetTQ)})
	}
	if repeated+loops > 0 {
		opt.note("left out %d links of pairs that have one already and %d of a node to itself", repeated, loops)
	}
	return links, nil
}

// lossOf turns a link quality into a loss, rounded to the 6 digits that the
// quality has.
func lossOf(tq float64) link.Override {
	if tq == 0 {
		return link.Override{}
	}
	loss := float64(int(1e6*(1-tq)+0.5)) / 1e6
	return link.Override{Loss: &loss}
}
