// Package capture reads the frames that a run recorded at its nodes
// (`churnbed run --capture`) and writes them for Wireshark: one pcapng file a
// node, a link or the run, with the nodes' names, and with comments where
// nodes ask for, enter and leave the critical section. It also finds the
// datagrams of the algorithm in them, sent and received.
//
// Instants in the files are scenario time since the run's zero, as in the
// logs; Wireshark shows them as the first hours of 1970.
//
// It captures nothing itself. Nothing here is safe for concurrent use.
package capture

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gopacket/gopacket/pcapgo"

	"churnbed/node/core"
	"churnbed/results"
)

// ErrNone is wrapped where a run has captured nothing.
var ErrNone = errors.New("the run has captured no frames")

// Nodes lists the nodes at which the run captured, ascending.
func Nodes(run *results.Run) ([]core.NodeID, error) {
	entries, err := os.ReadDir(run.Path(results.CapturesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: run it with --capture", run.Dir, ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("read captures: %w", err)
	}
	var ids []core.NodeID
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".pcapng")
		id, err := strconv.ParseUint(name, 10, 32)
		if !ok || err != nil || id >= uint64(run.Manifest.Nodes) {
			return nil, fmt.Errorf("read captures: %s: want <id of a node>.pcapng", filepath.Join(run.Path(results.CapturesDir), e.Name()))
		}
		ids = append(ids, core.NodeID(id))
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s: %w", run.Dir, ErrNone)
	}
	return ids, nil
}

// packet is one frame as a node saw it.
type packet struct {
	at        int64 // scenario instant
	node      core.NodeID
	neighbour core.NodeID // at the other end of the link
	out       bool        // it left the node
	data      []byte
	length    int // of the frame, of which data may be the beginning
}

// reader reads the capture of one node. A file that is cut, because the run
// was killed, ends where it is cut.
type reader struct {
	node       core.NodeID
	nodes      int
	r          *pcapgo.NgReader
	neighbours map[int]core.NodeID
	next       packet
	cut        bool
}

func newReader(in io.Reader, node core.NodeID, nodes int) (*reader, error) {
	r, err := pcapgo.NewNgReader(in, pcapgo.NgReaderOptions{})
	if err != nil {
		return nil, fmt.Errorf("read capture of node %d: %w", node, err)
	}
	return &reader{node: node, nodes: nodes, r: r, neighbours: map[int]core.NodeID{}}, nil
}

// scan advances to the next packet.
func (r *reader) scan() (bool, error) {
	data, ci, opt, err := r.r.ReadPacketDataWithOptions()
	switch {
	case errors.Is(err, io.EOF):
		return false, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		r.cut = true
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read capture of node %d: %w", r.node, err)
	}
	neighbour, err := r.neighbour(ci.InterfaceIndex)
	if err != nil {
		return false, err
	}
	p := packet{at: ci.Timestamp.UnixNano(), node: r.node, neighbour: neighbour, data: data, length: ci.Length}
	p.out = opt.Flags != nil && opt.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound
	p.at = max(p.at, r.next.at) // stamps of two links may be a little out of order
	r.next = p
	return true, nil
}

// neighbour returns the node at the other end of an interface.
func (r *reader) neighbour(index int) (core.NodeID, error) {
	if id, ok := r.neighbours[index]; ok {
		return id, nil
	}
	intf, err := r.r.Interface(index)
	if err != nil {
		return 0, fmt.Errorf("read capture of node %d: %w", r.node, err)
	}
	name, ok := strings.CutPrefix(intf.Name, "n")
	id, err := strconv.ParseUint(name, 10, 32)
	if !ok || err != nil || id >= uint64(r.nodes) {
		return 0, fmt.Errorf("read capture of node %d: interface %q: want n<id of a node>", r.node, intf.Name)
	}
	r.neighbours[index] = core.NodeID(id)
	return core.NodeID(id), nil
}

// merge hands the packets of some nodes' captures to visit in the order of
// their instants. It returns the nodes whose captures are cut.
func merge(run *results.Run, nodes []core.NodeID, visit func(*packet) error) (cut []core.NodeID, err error) {
	var h readerHeap
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // read only
		}
	}()
	var all []*reader
	for _, id := range nodes {
		f, err := os.Open(filepath.Join(run.Path(results.CapturesDir), strconv.Itoa(int(id))+".pcapng"))
		if err != nil {
			return nil, fmt.Errorf("read captures: %w", err)
		}
		files = append(files, f)
		r, err := newReader(f, id, run.Manifest.Nodes)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
		ok, err := r.scan()
		if err != nil {
			return nil, err
		}
		if ok {
			h = append(h, r)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		if err := visit(&h[0].next); err != nil {
			return nil, err
		}
		ok, err := h[0].scan()
		switch {
		case err != nil:
			return nil, err
		case ok:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
	}
	for _, r := range all {
		if r.cut {
			cut = append(cut, r.node)
		}
	}
	return cut, nil
}

// readerHeap orders by instant, then node.
type readerHeap []*reader

func (h readerHeap) Len() int      { return len(h) }
func (h readerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h readerHeap) Less(i, j int) bool {
	if h[i].next.at != h[j].next.at {
		return h[i].next.at < h[j].next.at
	}
	return h[i].node < h[j].node
}
func (h *readerHeap) Push(x any) { *h = append(*h, x.(*reader)) }
func (h *readerHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	*h = old[:len(old)-1]
	return r
}
