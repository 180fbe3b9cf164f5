package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"churnbed/emulator/kernel"
	"churnbed/emulator/link"
	"churnbed/node/core"
	"churnbed/node/wire"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

const (
	ringFrame = 2048 // header, address and a frame of MTU 1500
	ringBlock = 1 << 20
	ringBytes = 32 << 20 // 16,384 frames: 50 ms of standstill at 300,000 a second
	rxBatch   = 256      // frames taken in before those due are sent again
	txBatch   = 64

	// clockSlack bounds how old a kernel time stamp may be before it is taken
	// for a step of the wall clock.
	clockSlack = 100 * time.Millisecond
)

// direction is one direction of a link inside the relay.
type direction struct {
	ch     *link.Channel
	queued int32
	up     bool
	out    int32 // interface index
	c      LinkCounters
}

// relay forwards frames between the ends in the wire namespace. One thread
// owns everything below cmds; other goroutines hand it closures.
//
// Frames come in through a memory-mapped ring (TPACKET_V2), whose size,
// unlike a socket buffer's, no sysctl of the host bounds, and which costs no
// system call a frame. The kernel's time stamp of arrival counts, so what a
// frame waited in the ring is not added to its delay.
type relay struct {
	fd, wake int
	ring     []byte
	done     chan struct{}
	pending  atomic.Bool
	mu       sync.Mutex
	cmds     []func()
	stopped  bool

	dirs   []direction // 2*link + side
	base   time.Time
	next   int               // next frame of the ring
	queue  core.Queue[int32] // frames under way
	store  store
	late   *hdrhistogram.Histogram
	losses Losses

	softnet int64
	quit    bool
	err     error

	hdrs  [txBatch]mmsghdr
	iovs  [txBatch]unix.Iovec
	addrs [txBatch]unix.RawSockaddrLinklayer
	batch [txBatch]int32 // frames; -1 where it lies in the ring
}

// mmsghdr is struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

func newRelay(f *Fabric) (backend, error) {
	r := &relay{
		fd: -1, wake: -1, done: make(chan struct{}), dirs: make([]direction, 2*len(f.links)),
		base: time.Now(), late: newHistogram(), softnet: kernel.SoftnetDrops(),
	}
	for i, l := range f.links {
		r.dirs[2*i] = direction{
			ch: link.NewChannel(l.AB, core.Stream(f.cfg.Seed, streamName(l.A, l.B))),
			up: true, out: wireIndex(i, 1),
		}
		r.dirs[2*i+1] = direction{
			ch: link.NewChannel(l.BA, core.Stream(f.cfg.Seed, streamName(l.B, l.A))),
			up: true, out: wireIndex(i, 0),
		}
	}
	if err := f.wire.Do(r.open); err != nil {
		return nil, errors.Join(err, r.free())
	}
	for i := range r.hdrs {
		r.addrs[i] = unix.RawSockaddrLinklayer{Family: unix.AF_PACKET, Protocol: ethIP, Halen: 6}
		r.hdrs[i].hdr = unix.Msghdr{
			Name: (*byte)(unsafe.Pointer(&r.addrs[i])), Namelen: unix.SizeofSockaddrLinklayer,
			Iov: &r.iovs[i], Iovlen: 1,
		}
	}
	// The relay's thread uses up one of the scheduler's slots. Without one
	// more it would queue behind this process's other goroutines each time
	// that it wakes: milliseconds, where they are busy.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	go r.run()
	return r, nil
}

// newHistogram holds nanoseconds up to a minute with two digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Minute), 2)
}

// ethIP is ETH_P_IP in network byte order, as sockets want it.
var ethIP = func() uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], unix.ETH_P_IP)
	return binary.NativeEndian.Uint16(b[:])
}()

// open opens the packet socket in the namespace of the calling thread.
func (r *relay) open() error {
	var err error
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("open relay event: %w", err)
	}
	// Protocol 0: nothing arrives before the ring is there.
	if r.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		if errors.Is(err, unix.EPERM) {
			return &kernel.Missing{Capability: "packet sockets", Remedy: "give CAP_NET_RAW, or use the netem fabric", Err: err}
		}
		return fmt.Errorf("open relay socket: %w", err)
	}
	for _, o := range []struct{ name, value int }{
		{unix.PACKET_VERSION, unix.TPACKET_V2},
		{unix.PACKET_IGNORE_OUTGOING, 1},
		{unix.PACKET_QDISC_BYPASS, 1},
	} {
		if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, o.name, o.value); err != nil && o.name == unix.PACKET_VERSION {
			return fmt.Errorf("set up relay socket: %w", err)
		}
	}
	req := &unix.TpacketReq{
		Block_size: ringBlock, Block_nr: ringBytes / ringBlock,
		Frame_size: ringFrame, Frame_nr: ringBytes / ringFrame,
	}
	if err := unix.SetsockoptTpacketReq(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, req); err != nil {
		return fmt.Errorf("make relay ring: %w", err)
	}
	if r.ring, err = unix.Mmap(r.fd, 0, ringBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map relay ring: %w", err)
	}
	// Sent frames are charged to the socket until the receiver has them.
	if unix.SetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64<<20) != nil {
		_ = unix.SetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 64<<20)
	}
	if err := unix.Bind(r.fd, &unix.SockaddrLinklayer{Protocol: ethIP}); err != nil {
		return fmt.Errorf("bind relay socket: %w", err)
	}
	return nil
}

func (r *relay) free() error {
	var errs []error
	if r.ring != nil {
		errs = append(errs, unix.Munmap(r.ring))
		r.ring = nil
	}
	for _, fd := range []*int{&r.fd, &r.wake} {
		if *fd >= 0 {
			errs = append(errs, unix.Close(*fd))
			*fd = -1
		}
	}
	return errors.Join(errs...)
}

// do runs f on the relay's thread and waits for it.
func (r *relay) do(f func()) error {
	ran := make(chan struct{})
	r.mu.Lock()
	if r.stopped {
		r.mu.Unlock()
		return ErrClosed
	}
	r.cmds = append(r.cmds, func() { f(); close(ran) })
	r.pending.Store(true)
	_, err := unix.Write(r.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	r.mu.Unlock()
	if err != nil && !errors.Is(err, unix.EAGAIN) { // EAGAIN: it is awake as can be
		return fmt.Errorf("wake relay: %w", err)
	}
	select {
	case <-ran:
		return nil
	case <-r.done:
	}
	select {
	case <-ran: // f was the last thing that it did, such as to stop
		return nil
	default:
		return fmt.Errorf("relay stopped: %w", errors.Join(ErrClosed, r.err))
	}
}

// run is the relay's thread. It is never unlocked: priority and timer slack
// are the thread's and end with it.
func (r *relay) run() {
	runtime.LockOSThread()
	defer close(r.done)
	hasten()
	fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}, {Fd: int32(r.wake), Events: unix.POLLIN}}
	for !r.quit {
		if r.pending.Load() {
			r.commands()
			continue // one of them may have been to quit
		}
		r.deliver(r.now())
		if r.receive() > 0 {
			continue
		}
		var timeout *unix.Timespec
		if r.queue.Len() > 0 {
			wait := r.queue.Next() - r.now()
			if wait <= 0 {
				continue
			}
			ts := unix.NsecToTimespec(int64(wait))
			timeout = &ts
		}
		if _, err := unix.Ppoll(fds, timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
			r.err = fmt.Errorf("wait for frames: %w", err)
			return
		}
	}
}

// hasten makes the kernel run the calling thread when a frame is due. As root
// it becomes a real-time thread of the lowest priority: on a busy host of two
// cores that took the 99th percentile of lateness from 10 ms to under 1 ms;
// the kernel still leaves other threads a twentieth of the core. Otherwise it
// asks for short slices, which anybody may (Linux 6.12), and a good nice
// value. All is best effort: without it frames are later, and Lateness says so.
func hasten() {
	const slice = 100 * time.Microsecond
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	attr.Policy, attr.Priority = unix.SCHED_RR, 1
	if unix.SchedSetAttr(0, &attr, 0) == nil {
		return
	}
	attr.Policy, attr.Priority, attr.Runtime, attr.Nice = unix.SCHED_NORMAL, 0, uint64(slice), -20
	if unix.SchedSetAttr(0, &attr, 0) == nil {
		return
	}
	attr.Nice = 0
	_ = unix.SchedSetAttr(0, &attr, 0)
}

func (r *relay) commands() {
	var b [8]byte
	_, _ = unix.Read(r.wake, b[:]) // EAGAIN where two commands shared one wake
	r.mu.Lock()
	cmds := r.cmds
	r.cmds = nil
	r.pending.Store(false)
	r.mu.Unlock()
	for _, f := range cmds {
		f()
	}
}

// receive takes frames out of the ring and schedules them.
func (r *relay) receive() int {
	n := 0
	var mono, wall int64
	for ; n < rxBatch; n++ {
		slot := r.ring[r.next*ringFrame : (r.next+1)*ringFrame : (r.next+1)*ringFrame]
		h := (*unix.Tpacket2Hdr)(unsafe.Pointer(&slot[0]))
		if atomic.LoadUint32(&h.Status)&unix.TP_STATUS_USER == 0 {
			break
		}
		if n == 0 {
			t := time.Now()
			mono, wall = int64(t.Sub(r.base)), t.UnixNano()
		}
		at := mono
		age := wall - (int64(h.Sec)*1e9 + int64(h.Nsec))
		if age > 0 && age < int64(clockSlack) {
			at -= age
		}
		from := (*unix.RawSockaddrLinklayer)(unsafe.Pointer(&slot[tpacketAddr]))
		mac, snap, size := int(h.Mac), int(h.Snaplen), int(h.Len)
		if snap == size && mac+snap <= len(slot) {
			r.arrive(slot[mac:mac+snap], from.Ifindex, at)
		} else {
			r.losses.RelaySocket++ // longer than the MTU: never sent by a node
		}
		atomic.StoreUint32(&h.Status, unix.TP_STATUS_KERNEL)
		if r.next++; r.next == ringBytes/ringFrame {
			r.next = 0
		}
	}
	return n
}

// tpacketAddr is where the ring puts the address: TPACKET_ALIGN of the header.
const tpacketAddr = (unix.SizeofTpacket2Hdr + unix.TPACKET_ALIGNMENT - 1) &^ (unix.TPACKET_ALIGNMENT - 1)

// arrive passes a frame that came in at an interface through its channel.
func (r *relay) arrive(b []byte, index int32, at int64) {
	i, side := wireEnd(index)
	d := 2*i + side
	if index < 2 || d >= len(r.dirs) {
		return // lo, or none of ours
	}
	dir := &r.dirs[d]
	if !dir.up {
		return
	}
	dir.c.Frames++
	dir.c.Bytes += int64(len(b))
	if class, ok := classOf(b); ok {
		dir.c.ByClass[class]++
	}
	due, dropped := dir.ch.Send(core.Instant(at), len(b))
	if dropped {
		dir.c.Dropped++
		return
	}
	if dir.queued >= link.QueueLimit {
		r.losses.Queue++
		return
	}
	dir.queued++
	r.queue.Push(due, r.store.put(b, int32(d)))
}

// Offsets in an Ethernet frame with IPv4 without options and UDP.
const (
	ethLen     = 14
	ipProto    = ethLen + 9
	ipFragment = ethLen + 6
	udpDst     = ethLen + 20 + 2
	udpData    = ethLen + 20 + 8
)

// classOf reads the class at its fixed place (package wire).
func classOf(b []byte) (wire.Class, bool) {
	if len(b) < udpData+2 || b[ethLen] != 0x45 || b[ipProto] != unix.IPPROTO_UDP ||
		binary.BigEndian.Uint16(b[ipFragment:])&0x1fff != 0 || binary.BigEndian.Uint16(b[udpDst:]) != wire.Port ||
		b[udpData] != wire.Version {
		return 0, false
	}
	c := wire.Class(b[udpData+1] & 7)
	return c, c < wire.NumClasses
}

// now is the instant by which frames are timed.
func (r *relay) now() core.Instant { return core.Instant(time.Since(r.base)) }

// deliver sends every frame that is due.
func (r *relay) deliver(now core.Instant) {
	n := 0
	for r.queue.Next() <= now {
		due, k := r.queue.Pop()
		f := &r.store.frames[k]
		dir := &r.dirs[f.dir]
		dir.queued--
		if !dir.up {
			r.store.release(k) // the link went while it was under way
			continue
		}
		r.iovs[n] = unix.Iovec{Base: &f.buf[0], Len: uint64(f.n)}
		r.addrs[n].Ifindex = dir.out
		r.batch[n] = k
		_ = r.late.RecordValue(max(1, int64(now-due))) // beyond a minute: not kept
		if n++; n == txBatch {
			r.send(n)
			n = 0
			now = r.now()
		}
	}
	r.send(n)
}

// send sends the first n prepared frames. The system call does not block (the
// socket does not, and veth has no queue), so the scheduler is not told.
func (r *relay) send(n int) {
	for at := 0; at < n; {
		sent, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(r.fd), uintptr(unsafe.Pointer(&r.hdrs[at])),
			uintptr(n-at), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			// The first of them failed: interface gone or down, or no memory.
			if errno != unix.ENETDOWN && errno != unix.ENXIO {
				r.losses.RelaySend++
			}
			at++
		default:
			at += int(sent)
		}
	}
	for _, k := range r.batch[:n] {
		r.store.release(k)
	}
}

func (r *relay) set(i int, ab, ba link.Params) error {
	return r.do(func() {
		r.dirs[2*i].ch.SetParams(ab)
		r.dirs[2*i+1].ch.SetParams(ba)
	})
}

func (r *relay) setUp(i int, up bool) error {
	return r.do(func() { r.dirs[2*i].up, r.dirs[2*i+1].up = up, up })
}

func (r *relay) counters() ([][2]LinkCounters, Losses, error) {
	out := make([][2]LinkCounters, len(r.dirs)/2)
	var losses Losses
	err := r.do(func() {
		for i := range out {
			for side := range 2 {
				d := &r.dirs[2*i+side]
				out[i][side] = d.c
				out[i][side].Expected = d.ch.ExpectedLoss()
			}
		}
		// Reading resets the kernel's count.
		if s, err := unix.GetsockoptTpacketStats(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			r.losses.RelaySocket += int64(s.Drops)
		}
		losses = r.losses
	})
	losses.Backlog = kernel.SoftnetDrops() - r.softnet
	return out, losses, err
}

func (r *relay) lateness() Lateness {
	fresh := newHistogram()
	var h *hdrhistogram.Histogram
	if r.do(func() { h, r.late = r.late, fresh }) != nil {
		return Lateness{}
	}
	return Lateness{
		Count: h.TotalCount(), P50: time.Duration(h.ValueAtPercentile(50)), P90: time.Duration(h.ValueAtPercentile(90)),
		P99: time.Duration(h.ValueAtPercentile(99)), Max: time.Duration(h.Max()),
	}
}

func (r *relay) close() error {
	err := r.do(func() { r.quit = true })
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	<-r.done
	runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)-1))
	return errors.Join(err, r.free())
}
