package capture

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"churnbed/node/core"
	"churnbed/node/wire"
	"churnbed/results/timeline"
)

// What a file holds.
const (
	ByNode = "node" // node-<id>.pcapng: all links of a node
	ByLink = "link" // link-<a>-<b>.pcapng: what both ends saw
	ByRun  = "run"  // mesh.pcapng: everything
)

// DissectorFile is the name of the dissector that Write puts beside the
// files: `wireshark -X lua_script:churnbed.lua node-3.pcapng`.
const DissectorFile = "churnbed.lua"

//go:embed churnbed.lua
var dissector string

// Dissector returns a Lua script by which Wireshark reads frames of node/wire.
func Dissector() string {
	var kinds strings.Builder
	for k := 1; k < 256; k++ {
		if name := wire.KindName(byte(k)); !strings.HasPrefix(name, "kind(") {
			fmt.Fprintf(&kinds, "  [%d] = %q,\n", k, name)
		}
	}
	return strings.Replace(dissector, "  -- KINDS\n", kinds.String(), 1)
}

// Written says what Write wrote.
type Written struct {
	Files  []string
	Frames int
	Cut    []core.NodeID // whose capture ends in the middle of a frame
}

// end is one end of a link: an interface of a file.
type end struct{ node, neighbour core.NodeID }

// Write writes the run's captures into dir, which exists, and the dissector.
// by is ByNode, ByLink or ByRun; nodes are those whose captures count, all
// where nil. labels name nodes; where nil, or "", they are called node<id>.
func Write(dir string, t *timeline.Timeline, by string, nodes []core.NodeID, labels []string) (*Written, error) {
	captured, err := Nodes(t.Run)
	if err != nil {
		return nil, err
	}
	for _, id := range nodes {
		if !slices.Contains(captured, id) {
			return nil, fmt.Errorf("node %d was not captured", id)
		}
	}
	if nodes == nil {
		nodes = captured
	}
	w := &writer{t: t, dir: dir, labels: labels, marks: marks(t), out: &Written{}}
	ends := map[end]bool{}
	for _, l := range t.Links {
		ends[end{l.A, l.B}], ends[end{l.B, l.A}] = true, true
	}
	switch by {
	case ByNode:
		for _, id := range nodes {
			if err := w.file(fmt.Sprintf("node-%d.pcapng", id), []core.NodeID{id}, nil); err != nil {
				return nil, err
			}
		}
	case ByLink:
		var links []end
		for e := range ends {
			if e.node < e.neighbour && (slices.Contains(nodes, e.node) || slices.Contains(nodes, e.neighbour)) {
				links = append(links, e)
			}
		}
		slices.SortFunc(links, compareEnds)
		for _, l := range links {
			both := slices.DeleteFunc([]core.NodeID{l.node, l.neighbour}, func(id core.NodeID) bool { return !slices.Contains(nodes, id) })
			if err := w.file(fmt.Sprintf("link-%d-%d.pcapng", l.node, l.neighbour), both, &l); err != nil {
				return nil, err
			}
		}
	case ByRun:
		if err := w.file("mesh.pcapng", nodes, nil); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("write captures: by %q: want %s, %s or %s", by, ByNode, ByLink, ByRun)
	}
	if err := os.WriteFile(filepath.Join(dir, DissectorFile), []byte(Dissector()), 0o644); err != nil {
		return nil, fmt.Errorf("write dissector: %w", err)
	}
	slices.Sort(w.out.Cut)
	w.out.Cut = slices.Compact(w.out.Cut)
	return w.out, nil
}

func compareEnds(a, b end) int {
	return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.neighbour, b.neighbour))
}

// mark is something that a node did, for a comment.
type mark struct {
	at   int64
	text string
}

// marks lists what each node did, by instant.
func marks(t *timeline.Timeline) map[core.NodeID][]mark {
	m := make(map[core.NodeID][]mark)
	add := func(id core.NodeID, at int64, format string, args ...any) {
		m[id] = append(m[id], mark{at, fmt.Sprintf("%.6f s: node %d ", float64(at)/1e9, id) + fmt.Sprintf(format, args...)})
	}
	for i := range t.Requests {
		q := &t.Requests[i]
		add(q.Node, q.Asked, "asks for the critical section, request %v", q.ID)
		if !q.Entered {
			continue
		}
		add(q.Node, q.Enter, "ENTERS the critical section, request %v", q.ID)
		add(q.Node, q.End, "LEAVES the critical section (%s), request %v", q.Ending, q.ID)
	}
	for _, o := range t.Verdict.Violations {
		add(o.Second.Node, o.From, "VIOLATION: is in the critical section together with node %d, requests %v and %v", o.First.Node, o.Second.ID, o.First.ID)
	}
	for i := range t.Nodes {
		for _, l := range t.Nodes[i].Lives {
			add(core.NodeID(i), l.From, "starts, incarnation %d", l.Inc)
			if l.How != timeline.Running && l.How != timeline.Stopped {
				add(core.NodeID(i), l.To, "is gone (%s)", l.How)
			}
		}
	}
	for id := range m {
		slices.SortStableFunc(m[id], func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	}
	return m
}

type writer struct {
	t      *timeline.Timeline
	dir    string
	labels []string
	marks  map[core.NodeID][]mark
	out    *Written
}

// file writes one file of the frames that the nodes saw, on one link where
// only is set. Each comment stands at the first frame that its node saw from
// then on, or at the last one of all.
func (w *writer) file(name string, nodes []core.NodeID, only *end) (err error) {
	wanted := func(p *packet) bool {
		return only == nil || p.node == only.node && p.neighbour == only.neighbour || p.node == only.neighbour && p.neighbour == only.node
	}
	// Interfaces stand before the frames, and the last frame of each node must
	// be known.
	var ends []end
	last := map[core.NodeID]int{}
	n := 0
	cut, err := merge(w.t.Run, nodes, func(p *packet) error {
		if !wanted(p) {
			return nil
		}
		if e := (end{p.node, p.neighbour}); !slices.Contains(ends, e) {
			ends = append(ends, e)
		}
		last[p.node] = n
		n++
		return nil
	})
	if err != nil {
		return err
	}
	w.out.Cut = append(w.out.Cut, cut...)
	if len(ends) == 0 {
		return nil // nothing was sent there
	}
	slices.SortFunc(ends, compareEnds)
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := bufio.NewWriterSize(f, 256<<10)
	ng, err := w.head(b, nodes, ends)
	if err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	index := make(map[end]int, len(ends))
	for i, e := range ends {
		index[e] = i
	}
	left := make(map[core.NodeID][]mark, len(nodes))
	for _, id := range nodes {
		left[id] = w.marks[id]
	}
	at := 0
	_, err = merge(w.t.Run, nodes, func(p *packet) error {
		if !wanted(p) {
			return nil
		}
		var opt pcapgo.NgPacketOptions
		direction := pcapgo.NgEpbFlagDirectionInbound
		if p.out {
			direction = pcapgo.NgEpbFlagDirectionOutbound
		}
		opt.Flags = &pcapgo.NgEpbFlags{Direction: direction}
		for m := left[p.node]; len(m) > 0 && (m[0].at <= p.at || at == last[p.node]); m = m[1:] {
			opt.Comments = append(opt.Comments, m[0].text)
			left[p.node] = m[1:]
		}
		at++
		w.out.Frames++
		return ng.WritePacketWithOptions(gopacket.CaptureInfo{
			Timestamp: time.Unix(0, p.at), CaptureLength: len(p.data), Length: max(p.length, len(p.data)),
			InterfaceIndex: index[end{p.node, p.neighbour}],
		}, p.data, opt)
	})
	if err = errors.Join(err, ng.Flush(), b.Flush()); err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	w.out.Files = append(w.out.Files, name)
	return nil
}

// head writes what stands before the frames: the section, the interfaces and
// the names.
func (w *writer) head(b *bufio.Writer, nodes []core.NodeID, ends []end) (*pcapgo.NgWriter, error) {
	var ng *pcapgo.NgWriter
	for i, e := range ends {
		name := fmt.Sprintf("n%d", e.neighbour)
		if len(nodes) > 1 {
			name = fmt.Sprintf("%d/n%d", e.node, e.neighbour)
		}
		intf := pcapgo.NgInterface{
			Name: name, Description: fmt.Sprintf("link of %s to %s, as %s sees it", w.name(e.node), w.name(e.neighbour), w.name(e.node)),
			LinkType: layers.LinkTypeEthernet, TimestampResolution: 9, OS: "Linux",
		}
		var err error
		if i == 0 {
			ng, err = pcapgo.NewNgWriterInterface(b, intf, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{
				Application: "churnbed", OS: "Linux",
				Comment: fmt.Sprintf("%s; instants are scenario time since the run's zero; dissector: %s", filepath.Base(w.t.Run.Dir), DissectorFile),
			}})
		} else {
			_, err = ng.AddInterface(intf)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := ng.Flush(); err != nil {
		return nil, err
	}
	_, err := b.Write(w.names())
	return ng, err
}

// name is what a node is called: no spaces, as names of hosts are.
func (w *writer) name(id core.NodeID) string {
	name := fmt.Sprintf("node%d", id)
	if int(id) >= len(w.labels) || w.labels[id] == "" {
		return name
	}
	plain := func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' {
			return c
		}
		return '_'
	}
	label := strings.Map(plain, w.labels[id])
	return name + "-" + label[:min(len(label), 40)]
}

// names is the name resolution block of all nodes (pcapng, section 4.5), which
// the library cannot write.
func (w *writer) names() []byte {
	const block, ipv4 = 4, 1
	le := binary.LittleEndian
	b := le.AppendUint32(nil, block)
	b = le.AppendUint32(b, 0) // length, below
	for i := range w.t.Nodes {
		name := w.name(core.NodeID(i))
		b = le.AppendUint16(b, ipv4)
		b = le.AppendUint16(b, uint16(4+len(name)+1))
		b = append(b, 10, 77, byte(i>>8), byte(i))
		b = append(append(b, name...), 0)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	b = le.AppendUint32(b, 0) // end of records
	b = le.AppendUint32(b, uint32(len(b)+4))
	le.PutUint32(b[4:], uint32(len(b)))
	return b
}
