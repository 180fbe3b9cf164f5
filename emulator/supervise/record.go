package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/netns"
	"churnbed/node/core"
	"churnbed/node/transport"
)

// recordFlush is how long frames may wait in memory: what a run that is killed
// loses of its captures.
const recordFlush = 50 * time.Millisecond

// recorder writes the frames of some nodes to a pcapng file each. One
// goroutine owns all of it.
type recorder struct {
	clock transport.Clock
	nodes []*recording
	syncs chan chan<- error
	stop  chan struct{}
	done  chan struct{}
	err   error // of what could not be written
}

// recording is the capture of one node.
type recording struct {
	*capture
	file *os.File
	w    *pcapgo.NgWriter
	ids  map[int32]int // interface index to its number in the file
	told uint64        // losses that the file knows of
	full bool          // the file cannot be written any more
}

// record starts to capture at nodes, into dir/<id>.pcapng. Instants are those
// of clock. Nodes without links are left out.
func record(dir string, clock transport.Clock, nodes []core.NodeID, namespace func(core.NodeID) *netns.Handle) (*recorder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	r := &recorder{clock: clock, syncs: make(chan chan<- error), stop: make(chan struct{}), done: make(chan struct{})}
	for _, id := range nodes {
		n, err := openRecording(dir, id, namespace(id))
		if err != nil {
			r.closeFiles()
			return nil, fmt.Errorf("capture at node %d: %w", id, err)
		}
		if n != nil {
			r.nodes = append(r.nodes, n)
		}
	}
	go r.run()
	return r, nil
}

func openRecording(dir string, id core.NodeID, ns *netns.Handle) (*recording, error) {
	if ns == nil {
		return nil, errors.New("no such node")
	}
	c, err := openCapture(ns, "")
	if err != nil || len(c.interfaces) == 0 {
		if c != nil {
			c.close()
		}
		return nil, err
	}
	n := &recording{capture: c, ids: make(map[int32]int, len(c.interfaces))}
	if n.file, err = os.Create(filepath.Join(dir, strconv.Itoa(int(id))+".pcapng")); err != nil {
		c.close()
		return nil, err
	}
	for i, e := range c.interfaces {
		intf := pcapgo.NgInterface{
			Name: e.GetName(), Description: fmt.Sprintf("link of node %d to node %s", id, strings.TrimPrefix(e.GetName(), "n")),
			LinkType: layers.LinkTypeEthernet, TimestampResolution: 9, SnapLength: snapLength, OS: "Linux",
		}
		if i == 0 {
			n.w, err = pcapgo.NewNgWriterInterface(n.file, intf, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{
				Application: "churnbed", OS: "Linux", Comment: fmt.Sprintf("node %d; instants are scenario time since the run's zero", id),
			}})
		} else {
			n.ids[e.GetIndex()], err = n.w.AddInterface(intf)
		}
		if err != nil {
			n.end()
			return nil, err
		}
		if i == 0 {
			n.ids[e.GetIndex()] = 0
		}
	}
	if err := n.w.Flush(); err != nil {
		n.end()
		return nil, err
	}
	return n, nil
}

func (n *recording) end() {
	n.close()
	_ = n.file.Close() // what matters was flushed, and Flush told of errors
}

func (r *recorder) closeFiles() {
	for _, n := range r.nodes {
		n.end()
	}
}

// sync returns when all frames that have come are written, with what could not
// be written so far.
func (r *recorder) sync() error {
	done := make(chan error, 1)
	select {
	case r.syncs <- done:
		return <-done
	case <-r.done:
		return r.err
	}
}

// close ends the capture; what has come is written.
func (r *recorder) close() error {
	close(r.stop)
	<-r.done
	return r.err
}

func (r *recorder) run() {
	defer close(r.done)
	defer r.closeFiles()
	fds := make([]unix.PollFd, len(r.nodes))
	for i, n := range r.nodes {
		fds[i] = unix.PollFd{Fd: int32(n.fd), Events: unix.POLLIN}
	}
	flushed := time.Now()
	for {
		if _, err := unix.Poll(fds, int(recordFlush.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
			r.err = errors.Join(r.err, fmt.Errorf("wait for frames: %w", err))
			return
		}
		for i := range fds {
			if fds[i].Revents != 0 {
				r.take(r.nodes[i])
			}
		}
		if time.Since(flushed) >= recordFlush {
			flushed = time.Now()
			for _, n := range r.nodes {
				r.flush(n)
			}
		}
		select {
		case done := <-r.syncs:
			r.all()
			done <- r.err
		case <-r.stop:
			r.all()
			return
		default:
		}
	}
}

// all writes everything that has come.
func (r *recorder) all() {
	for _, n := range r.nodes {
		more := true
		for more {
			more = r.take(n) == batchFrames
		}
		r.flush(n)
	}
}

// take writes the frames that have come for a node, a batch at most, and
// returns how many there were.
func (r *recorder) take(n *recording) int {
	batch := &controlpb.CaptureBatch{}
	if err := n.read(batch, 0); err != nil {
		r.fail(n, err)
	}
	if n.full {
		return 0
	}
	// The kernel's stamps are of the wall clock, the run's of the monotonic one.
	offset := transport.Monotonic() - time.Now().UnixNano()
	for _, f := range batch.GetFrames() {
		direction := pcapgo.NgEpbFlagDirectionInbound
		if f.GetOutgoing() {
			direction = pcapgo.NgEpbFlagDirectionOutbound
		}
		err := n.w.WritePacketWithOptions(gopacket.CaptureInfo{
			Timestamp: time.Unix(0, max(0, int64(r.clock.At(f.GetAt()+offset)))), CaptureLength: len(f.GetData()),
			Length: max(int(f.GetLength()), len(f.GetData())), InterfaceIndex: n.ids[f.GetInterface()],
		}, f.GetData(), pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: direction}})
		if err != nil {
			r.fail(n, err)
			return 0
		}
	}
	return len(batch.GetFrames())
}

func (r *recorder) flush(n *recording) {
	if n.full {
		return
	}
	if lost := n.lost(); lost > n.told {
		n.told = lost
		err := n.w.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{
			LastUpdate:      time.Unix(0, max(0, int64(r.clock.Now()))),
			PacketsReceived: pcapgo.NgNoValue64, PacketsDropped: lost,
		})
		if err != nil {
			r.fail(n, err)
			return
		}
	}
	if err := n.w.Flush(); err != nil {
		r.fail(n, err)
	}
}

// fail gives a node's capture up, for example because the disk is full. The
// run goes on: it is judged by its logs.
func (r *recorder) fail(n *recording, err error) {
	if !n.full {
		n.full = true
		r.err = errors.Join(r.err, fmt.Errorf("write capture %s: %w", n.file.Name(), err))
	}
}
