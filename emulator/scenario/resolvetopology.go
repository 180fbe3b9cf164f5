package scenario

import (
	"fmt"
	"slices"
	"strings"

	"churnbed/node/core"
	"churnbed/topologies"
)

// topology reads or generates the mesh.
func (r *resolver) topology() {
	key := "topology"
	var t *topologies.Topology
	var err error
	if r.spec.TopologyFile != "" {
		key = "topology-file"
		t, err = r.readTopology()
	} else {
		t, err = r.generate()
	}
	switch {
	case err != nil:
		r.bad(r.culprit(key, err.Error()), "%v", err)
		return
	case t == nil: // reported
		return
	case len(t.Nodes) > MaxNodes:
		r.bad(key, "%d nodes: want at most %d", len(t.Nodes), MaxNodes)
		return
	case len(t.Nodes) == 0:
		r.bad(key, "no nodes: want at least 1")
		return
	}
	if n := len(t.Nodes); r.origin.has("nodes") && r.spec.Nodes != n {
		r.bad("nodes", "%d: %s has %d nodes: leave nodes out, or give rtt-nodes with a round-trip matrix",
			r.spec.Nodes, r.spec.topologyName(), n)
	}
	if t = r.mobile(t); t == nil {
		return
	}
	r.spec.Nodes = len(t.Nodes)
	if t.Radius > 0 {
		r.spec.Radius = t.Radius
	}
	if parts := t.Components(); len(parts) > 1 {
		r.disconnected(key, t, parts)
		return
	}
	r.top = t
}

func (r *resolver) disconnected(key string, t *topologies.Topology, parts [][]core.NodeID) {
	largest := 0
	for _, p := range parts {
		largest = max(largest, len(p))
	}
	remedy := "keep its largest part with largest: true"
	if t.Radius > 0 {
		remedy = fmt.Sprintf("raise radius above %s m, add nodes, or %s", formatFloat(t.Radius), remedy)
	}
	r.bad(key, "%s is disconnected: %d parts, the largest has %d of %d nodes: %s",
		r.spec.topologyName(), len(parts), largest, len(t.Nodes), remedy)
}

// topologyName names the mesh in errors.
func (s *Spec) topologyName() string {
	if s.TopologyFile != "" {
		return s.TopologyFile
	}
	return "the " + s.Topology + " topology"
}

// culprit returns the key that an error of the topology speaks of: a key that
// the user gave and that stands first in the text, or the one given.
func (r *resolver) culprit(key, text string) string {
	best := len(text)
	for _, name := range []string{"nodes", "area", "radius", "rows", "cols", "layers", "step", "rooms", "min-spacing", "survivable", "rtt-nodes", "rtt-scale", "topology-format"} {
		if at := wordIndex(text, name); at >= 0 && at < best && r.origin.has(name) {
			best, key = at, name
		}
	}
	return key
}

// wordIndex returns where word stands in text as a word of its own, or -1.
func wordIndex(text, word string) int {
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return -1
		}
		at += from
		end := at + len(word)
		if (at == 0 || !isWordByte(text[at-1])) && (end == len(text) || !isWordByte(text[end])) {
			return at
		}
		from = end
	}
}

func isWordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-'
}

func (r *resolver) readTopology() (*topologies.Topology, error) {
	s := &r.spec
	opt := topologies.ReadOptions{
		Radius: s.Radius, Nodes: s.RTTNodes, RandomNodes: s.RTTRandom, Seed: s.Seed, Scale: s.RTTScale,
		WifiOnly: s.WifiOnly, Largest: s.Largest,
		Note: func(text string) { r.warn("%s: %s", s.TopologyFile, text) },
	}
	if s.TopologyFormat != "auto" {
		opt.Format = topologies.Format(s.TopologyFormat)
	}
	return topologies.ReadFile(s.TopologyFile, opt)
}

func (r *resolver) generate() (*topologies.Topology, error) {
	s := &r.spec
	p := topologies.GenerateParams{
		Kind: topologies.Kind(s.Topology), Radius: s.Radius, Step: s.Step,
		MinSpacing: s.MinSpacing, Survivable: s.Survivable,
	}
	byCount := true
	switch p.Kind {
	case topologies.Random:
		p.Width, p.Height = s.Area.Width, s.Area.Height
	case topologies.Cluster:
		p.Width, p.Height = s.Area.Width, s.Area.Height
		failed := false
		for i, text := range s.Rooms {
			room, err := topologies.ParseRoom(text)
			if err != nil {
				r.badAt(r.origin.item("rooms", i), "rooms", err.Error())
				failed = true
				continue
			}
			p.Rooms = append(p.Rooms, room)
		}
		if failed {
			return nil, nil
		}
		byCount = len(p.Rooms) == 0
	case topologies.Grid:
		p.Width, p.Height = s.Area.Width, s.Area.Height
		p.Rows, p.Cols = s.Rows, s.Cols
		if s.Step == 0 && !r.origin.has("area") {
			// The default area suits random meshes; a grid that nobody gave
			// an area keeps its cells square.
			s.Step = topologies.DefaultStep
			p.Step = s.Step
		}
		byCount = p.Rows == 0 || p.Cols == 0
	case topologies.Grid3D:
		p.Rows, p.Cols, p.Layers = s.Rows, s.Cols, s.Layers
		byCount = p.Rows == 0 || p.Cols == 0 || p.Layers == 0
	case topologies.Line, topologies.LShape, topologies.Ring, topologies.Full:
	}
	if byCount || r.origin.has("nodes") {
		p.Nodes = s.Nodes
	}
	if cells := p.Rows * p.Cols * max(1, p.Layers); p.Nodes > MaxNodes || cells > MaxNodes {
		return nil, fmt.Errorf("%d nodes: want at most %d", max(p.Nodes, cells), MaxNodes)
	}
	return topologies.Generate(p, s.Seed)
}

// tags adds the scenario's tags to those of the topology.
func (r *resolver) tags() {
	nodes := slices.Clone(r.top.Nodes)
	for i, text := range r.spec.Tags {
		name, ids, err := parseTag(text)
		if err != nil {
			r.badAt(r.origin.item("tags", i), "tags", fmt.Sprintf("%q: %v", text, err))
			continue
		}
		for _, id := range ids {
			if int(id) >= len(nodes) {
				r.badAt(r.origin.item("tags", i), "tags", fmt.Sprintf("%q: node %d: want 0 to %d", text, id, len(nodes)-1))
				break
			}
			if !slices.Contains(nodes[id].Tags, name) {
				nodes[id].Tags = append(slices.Clip(nodes[id].Tags), name)
			}
		}
	}
	tagged := *r.top
	tagged.Nodes = nodes
	r.top = &tagged
}
