package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"churnbed/emulator/netns"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// MaxName is the longest name of an interface in bytes.
const MaxName = unix.IFNAMSIZ - 1

// End is one end of a veth pair, wholly known beforehand so that nothing has
// to be looked up.
type End struct {
	NS    *netns.Handle // where the end is born
	Name  string        // 1..MaxName bytes
	Index int32         // interface index, free in NS
	MAC   [6]byte
	Up    bool // born up; the kernel allows it to the first end only
}

// Batch collects netlink requests and sends many with one system call. An
// operation that fails does not stop those after it. The order of operations
// is kept.
type Batch struct {
	c     *Conn
	buf   []byte
	descs []desc
	last  int // start of the last message in buf
	errs  []error
	lost  int // failures beyond maxErrors
	// Ignore, where set, decides which failures do not count.
	Ignore func(op string, err error) bool
}

// desc says what a message was about, without formatting it before it fails.
type desc struct {
	op    string
	name  string
	index int32
	dst   netip.Addr
}

func (d desc) String() string {
	s := d.name
	if s == "" && d.index != 0 {
		s = "interface " + strconv.Itoa(int(d.index))
	}
	if d.dst.IsValid() {
		if s != "" {
			return d.dst.String() + " on " + s
		}
		return d.dst.String()
	}
	return s
}

// begin opens a message; the caller appends its body to b.buf and calls end.
func (b *Batch) begin(kind, flags uint16, d desc) {
	b.last = len(b.buf)
	b.buf = append(b.buf, make([]byte, unix.SizeofNlMsghdr)...)
	putHeader(b.buf[b.last:], kind, unix.NLM_F_REQUEST|flags, 0)
	b.descs = append(b.descs, d)
}

func (b *Batch) end() {
	binary.NativeEndian.PutUint32(b.buf[b.last:], uint32(len(b.buf)-b.last))
	if len(b.descs) >= batchMessages || len(b.buf) >= batchBytes {
		b.send()
	}
}

// fail records a failure.
func (b *Batch) fail(d desc, err error) {
	if b.Ignore != nil && b.Ignore(d.op, err) {
		return
	}
	if len(b.errs) == maxErrors {
		b.lost++
		return
	}
	b.errs = append(b.errs, &OpError{d.op, d.String(), b.c.name, err})
}

// send sends what was collected and reads the answers. A batch that the
// kernel refused whole (no memory) is sent again a few times; it is not where
// answers were lost, since its operations may have been done.
func (b *Batch) send() {
	if len(b.descs) == 0 {
		return
	}
	c := b.c
	first := c.seq + 1
	off := 0
	for off < len(b.buf) {
		c.seq++
		binary.NativeEndian.PutUint32(b.buf[off+8:], c.seq)
		off += int(binary.NativeEndian.Uint32(b.buf[off:]))
	}
	flags := binary.NativeEndian.Uint16(b.buf[b.last+6:])
	binary.NativeEndian.PutUint16(b.buf[b.last+6:], flags|unix.NLM_F_ACK)

	var err error
	for range dumpRetries {
		err = unix.Sendto(c.fd, b.buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if err == nil || !transient(err) {
			break
		}
	}
	if err != nil {
		b.fail(b.descs[0], fmt.Errorf("send netlink requests: %w", err))
	} else {
		b.acks(first, c.seq)
	}
	b.buf, b.descs, b.last = b.buf[:0], b.descs[:0], 0
}

func (b *Batch) acks(first, last uint32) {
	for {
		d, err := b.c.receive()
		if err != nil {
			b.fail(b.descs[0], fmt.Errorf("receive netlink answers: %w", err))
			return
		}
		for h, data := range messages(d) {
			if h.Type != unix.NLMSG_ERROR || h.Seq < first || h.Seq > last {
				continue
			}
			if err := ackError(h.Flags, data); err != nil {
				b.fail(b.descs[h.Seq-first], err)
			}
			if h.Seq == last {
				return
			}
		}
	}
}

// Flush sends the rest and returns the failures since the last Flush, each an
// *OpError, the first few one by one.
func (b *Batch) Flush() error {
	b.send()
	err := errors.Join(b.errs...)
	if b.lost > 0 {
		err = errors.Join(err, fmt.Errorf("and %d more failures", b.lost))
	}
	b.errs, b.lost = nil, 0
	return err
}

func (b *Batch) u8(v uint8)    { b.buf = append(b.buf, v) }
func (b *Batch) u16(v uint16)  { b.buf = binary.NativeEndian.AppendUint16(b.buf, v) }
func (b *Batch) u32(v uint32)  { b.buf = binary.NativeEndian.AppendUint32(b.buf, v) }
func (b *Batch) i32(v int32)   { b.u32(uint32(v)) }
func (b *Batch) raw(v ...byte) { b.buf = append(b.buf, v...) }
func (b *Batch) attrHead(k, n int) {
	b.u16(uint16(4 + n))
	b.u16(uint16(k))
}

func (b *Batch) attr(kind int, data []byte) {
	b.attrHead(kind, len(data))
	b.buf = append(b.buf, data...)
	for len(b.buf)%unix.NLMSG_ALIGNTO != 0 {
		b.u8(0)
	}
}

func (b *Batch) attrString(kind int, s string) {
	b.attrHead(kind, len(s)+1)
	b.buf = append(append(b.buf, s...), 0)
	for len(b.buf)%unix.NLMSG_ALIGNTO != 0 {
		b.u8(0)
	}
}

func (b *Batch) attrU32(kind int, v uint32) {
	b.attrHead(kind, 4)
	b.u32(v)
}

func (b *Batch) attrU64(kind int, v uint64) {
	b.attrHead(kind, 8)
	b.buf = binary.NativeEndian.AppendUint64(b.buf, v)
}

// nest opens an attribute that holds attributes; its result goes to unnest.
func (b *Batch) nest(kind int) int {
	at := len(b.buf)
	b.attrHead(kind, 0)
	return at
}

func (b *Batch) unnest(at int) { binary.NativeEndian.PutUint16(b.buf[at:], uint16(len(b.buf)-at)) }

// ifinfo appends a struct ifinfomsg.
func (b *Batch) ifinfo(index int32, flags, change uint32) {
	b.raw(unix.AF_UNSPEC, 0, 0, 0)
	b.i32(index)
	b.u32(flags)
	b.u32(change)
}

func (b *Batch) endAttrs(e End, mtu int) {
	b.attrString(unix.IFLA_IFNAME, e.Name)
	b.attr(unix.IFLA_ADDRESS, e.MAC[:])
	b.attrU32(unix.IFLA_MTU, uint32(mtu))
	// One queue is all that a link with one sender at a time needs; each
	// more costs memory and sysfs work.
	b.attrU32(unix.IFLA_NUM_TX_QUEUES, 1)
	b.attrU32(unix.IFLA_NUM_RX_QUEUES, 1)
	b.attrU32(unix.IFLA_NET_NS_FD, uint32(e.NS.FD()))
}

// Veth creates a veth pair with both ends already in their namespaces:
// moving an end afterwards would cost a hundred times as much.
func (b *Batch) Veth(a, p End, mtu int) {
	d := desc{op: "create veth", name: a.Name + " - " + p.Name}
	for _, e := range []End{a, p} {
		if n := len(e.Name); n == 0 || n > MaxName {
			b.fail(d, fmt.Errorf("interface name %q: want 1 to %d bytes", e.Name, MaxName))
			return
		}
		if e.NS.FD() < 0 {
			b.fail(d, netns.ErrClosed)
			return
		}
	}
	b.begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, d)
	var up uint32
	if a.Up {
		up = unix.IFF_UP
	}
	b.ifinfo(a.Index, up, up)
	b.endAttrs(a, mtu)
	info := b.nest(unix.IFLA_LINKINFO)
	b.attrString(nl.IFLA_INFO_KIND, "veth")
	data := b.nest(nl.IFLA_INFO_DATA)
	peer := b.nest(nl.VETH_INFO_PEER)
	b.ifinfo(p.Index, 0, 0)
	b.endAttrs(p, mtu)
	b.unnest(peer)
	b.unnest(data)
	b.unnest(info)
	b.end()
}

// DeleteLink deletes an interface (both ends of a veth pair).
func (b *Batch) DeleteLink(index int32) {
	b.begin(unix.RTM_DELLINK, 0, desc{op: "delete link", index: index})
	b.ifinfo(index, 0, 0)
	b.end()
}

// SetUp sets an interface up or down.
func (b *Batch) SetUp(index int32, up bool) {
	d := desc{op: "set down", index: index}
	var flags uint32
	if up {
		d.op, flags = "set up", unix.IFF_UP
	}
	b.begin(unix.RTM_NEWLINK, 0, d)
	b.ifinfo(index, flags, unix.IFF_UP)
	b.end()
}

// Addr4 gives an interface an IPv4 address of 32 bits.
func (b *Batch) Addr4(index int32, addr netip.Addr) {
	b.begin(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, desc{op: "add address", index: index, dst: addr})
	b.raw(unix.AF_INET, 32, 0, unix.RT_SCOPE_UNIVERSE) // struct ifaddrmsg
	b.i32(index)
	a := addr.As4()
	b.attr(unix.IFA_LOCAL, a[:])
	b.attr(unix.IFA_ADDRESS, a[:])
	b.end()
}

// Neighbour adds or replaces a permanent neighbour entry: no ARP, and outside
// the limits of garbage collection.
func (b *Batch) Neighbour(index int32, addr netip.Addr, mac [6]byte) {
	b.begin(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, desc{op: "add neighbour", index: index, dst: addr})
	b.raw(unix.AF_INET, 0, 0, 0) // struct ndmsg
	b.i32(index)
	b.u16(unix.NUD_PERMANENT)
	b.raw(0, unix.RTN_UNICAST)
	a := addr.As4()
	b.attr(unix.NDA_DST, a[:])
	b.attr(unix.NDA_LLADDR, mac[:])
	b.end()
}

// RouteMode says what to do where a route to the destination exists.
type RouteMode uint16

const (
	// AddRoute fails where one exists; it is the cheapest.
	AddRoute RouteMode = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	// ReplaceRoute replaces it without a gap.
	ReplaceRoute RouteMode = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
)

// Route adds a host route to dst over the neighbour via on an interface;
// where via is dst itself, the destination is on the link. src is the
// preferred source address of what this host sends.
func (b *Batch) Route(mode RouteMode, dst, via, src netip.Addr, index int32) {
	b.begin(unix.RTM_NEWROUTE, uint16(mode), desc{op: "add route", index: index, dst: dst})
	b.rtmsg(via != dst)
	d := dst.As4()
	b.attr(unix.RTA_DST, d[:])
	if via != dst {
		v := via.As4()
		b.attr(unix.RTA_GATEWAY, v[:])
	}
	s := src.As4()
	b.attr(unix.RTA_PREFSRC, s[:])
	b.attrU32(unix.RTA_OIF, uint32(index))
	b.end()
}

func (b *Batch) rtmsg(gateway bool) {
	scope, flags := byte(unix.RT_SCOPE_LINK), uint32(0)
	if gateway {
		scope, flags = unix.RT_SCOPE_UNIVERSE, unix.RTNH_F_ONLINK
	}
	b.raw(unix.AF_INET, 32, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, scope, unix.RTN_UNICAST)
	b.u32(flags)
}

// DeleteRoute deletes the host route to dst.
func (b *Batch) DeleteRoute(dst netip.Addr) {
	b.begin(unix.RTM_DELROUTE, 0, desc{op: "delete route", dst: dst})
	b.raw(unix.AF_INET, 32, 0, 0, unix.RT_TABLE_MAIN, 0, unix.RT_SCOPE_NOWHERE, 0)
	b.u32(0)
	d := dst.As4()
	b.attr(unix.RTA_DST, d[:])
	b.end()
}
