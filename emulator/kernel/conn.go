package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"churnbed/emulator/netns"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// batchBytes and batchMessages bound what one sendmsg carries. The kernel
	// works through it without returning; only the last message is
	// acknowledged, errors always are, so the receive buffer must hold one
	// acknowledgement a message in the worst case.
	batchBytes    = 48 << 10
	batchMessages = 128
	receiveBuffer = 1 << 20
	dumpRetries   = 8
	// maxErrors is how many failures of one batch are told one by one.
	maxErrors = 4
)

// Conn is a routing netlink socket inside one namespace, together with a
// datagram socket for ioctls. It keeps the namespace alive until Close.
type Conn struct {
	name string
	fd   int
	ctl  int // for ethtool; -1 until it is needed
	ns   *netns.Handle
	seq  uint32
	rbuf []byte
	b    Batch
}

// Open opens a Conn in ns; name is used in errors only. The handle must stay
// open as long as the Conn is used for Offload (other calls do not need it).
func Open(ns *netns.Handle, name string) (*Conn, error) {
	c := &Conn{name: name, fd: -1, ctl: -1, ns: ns}
	if err := ns.Do(c.open); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Conn) open() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return &OpError{"open", "route netlink socket", c.name, err}
	}
	c.fd = fd
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer); err != nil {
		// Not root of the first user namespace: rmem_max is the bound then.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*batchBytes)
	// Both only make errors better: words from the kernel, no echo of the request.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	// Without strict checking some kernels ignore the filters of a dump.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}); err != nil {
		return errors.Join(&OpError{"set timeout of", "netlink socket", c.name, err}, c.Close())
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return errors.Join(&OpError{"bind", "netlink socket", c.name, err}, c.Close())
	}
	c.b.c = c
	return nil
}

// Close closes the sockets. A second Close does nothing.
func (c *Conn) Close() error {
	var errs []error
	for _, fd := range []*int{&c.fd, &c.ctl} {
		if *fd >= 0 {
			errs = append(errs, unix.Close(*fd))
			*fd = -1
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &OpError{"close", "netlink socket", c.name, err}
	}
	return nil
}

// Batch returns the connection's batch, to which operations are added; it is
// sent whenever it is full and by Flush.
func (c *Conn) Batch() *Batch { return &c.b }

// receive reads one datagram of the kernel.
func (c *Conn) receive() ([]byte, error) {
	if c.rbuf == nil {
		c.rbuf = make([]byte, nl.RECEIVE_BUFFER_SIZE)
	}
	for {
		n, from, err := unix.Recvfrom(c.fd, c.rbuf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if a, ok := from.(*unix.SockaddrNetlink); ok && a.Pid != nl.PidKernel {
			continue
		}
		return c.rbuf[:n], nil
	}
}

// ackError reads the payload of NLMSG_ERROR: the errno (nil for 0) and, where
// the kernel added words, those.
func ackError(flags uint16, data []byte) error {
	if len(data) < 4 {
		return unix.EPROTO
	}
	errno := int32(binary.NativeEndian.Uint32(data))
	if errno == 0 {
		return nil
	}
	e := unix.Errno(-errno)
	if flags&unix.NLM_F_ACK_TLVS == 0 || len(data) < 4+unix.SizeofNlMsghdr {
		return e
	}
	skip := 4 + unix.SizeofNlMsghdr
	if flags&unix.NLM_F_CAPPED == 0 {
		skip = 4 + align(int(binary.NativeEndian.Uint32(data[4:])))
	}
	for attr := range attributes(data, skip) {
		if attr.kind == nl.NLMSGERR_ATTR_MSG {
			return &kernelError{e, unix.ByteSliceToString(attr.data)}
		}
	}
	return e
}

type attribute struct {
	kind uint16
	data []byte
}

// attributes walks the netlink attributes of b from offset from, and stops at
// the first that does not fit.
func attributes(b []byte, from int) func(func(attribute) bool) {
	return func(yield func(attribute) bool) {
		for from >= 0 && from+4 <= len(b) {
			n := int(binary.NativeEndian.Uint16(b[from:]))
			if n < 4 || from+n > len(b) {
				return
			}
			kind := binary.NativeEndian.Uint16(b[from+2:]) & nl.NLA_TYPE_MASK
			if !yield(attribute{kind, b[from+4 : from+n]}) {
				return
			}
			from += align(n)
		}
	}
}

// messages walks the netlink messages of a datagram.
func messages(b []byte) func(func(unix.NlMsghdr, []byte) bool) {
	return func(yield func(unix.NlMsghdr, []byte) bool) {
		for len(b) >= unix.SizeofNlMsghdr {
			h := unix.NlMsghdr{
				Len:   binary.NativeEndian.Uint32(b),
				Type:  binary.NativeEndian.Uint16(b[4:]),
				Flags: binary.NativeEndian.Uint16(b[6:]),
				Seq:   binary.NativeEndian.Uint32(b[8:]),
				Pid:   binary.NativeEndian.Uint32(b[12:]),
			}
			if h.Len < unix.SizeofNlMsghdr || int(h.Len) > len(b) {
				return
			}
			if !yield(h, b[unix.SizeofNlMsghdr:h.Len]) {
				return
			}
			b = b[min(align(int(h.Len)), len(b)):]
		}
	}
}

// dump sends a dump request and calls each with every answer, from the start
// again (after reset) where the kernel reports that the dump was interrupted
// by a change.
func (c *Conn) dump(op string, kind uint16, body []byte, reset func(), each func([]byte)) error {
	var err error
	for range dumpRetries {
		reset()
		if err = c.dumpOnce(kind, body, each); err == nil {
			return nil
		}
		if !transient(err) && !errors.Is(err, nl.ErrDumpInterrupted) {
			break
		}
	}
	return &OpError{Op: op, Namespace: c.name, Err: err}
}

func (c *Conn) dumpOnce(kind uint16, body []byte, each func([]byte)) error {
	c.seq++
	b := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(body))
	b = append(b, body...)
	putHeader(b, kind, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, c.seq)
	if err := unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	interrupted := false
	for {
		d, err := c.receive()
		if err != nil {
			return err
		}
		for h, data := range messages(d) {
			if h.Seq != c.seq {
				continue
			}
			interrupted = interrupted || h.Flags&unix.NLM_F_DUMP_INTR != 0
			switch h.Type {
			case unix.NLMSG_DONE:
				if len(data) >= 4 {
					if n := int32(binary.NativeEndian.Uint32(data)); n < 0 {
						return unix.Errno(-n)
					}
				}
				if interrupted {
					return nl.ErrDumpInterrupted
				}
				return nil
			case unix.NLMSG_ERROR:
				return ackError(h.Flags, data)
			default:
				each(data)
			}
		}
	}
}

func putHeader(b []byte, kind, flags uint16, seq uint32) {
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], flags)
	binary.NativeEndian.PutUint32(b[8:], seq)
	binary.NativeEndian.PutUint32(b[12:], 0)
}

func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// offloads that make a frame on the wire differ from what a real interface
// would send: unfinished checksums and segments longer than the MTU.
var offloads = []string{
	"tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation",
	"tx-tcp6-segmentation", "tx-udp-segmentation", "tx-generic-segmentation", "tx-gso-list", "tx-sctp-segmentation", "rx-gro", "tx-scatter-gather",
}

// Offload switches the transmit checksum and segmentation offloads of the
// named interfaces off: one ioctl each (ETHTOOL_SFEATURES). The bit numbers
// are asked of the first interface and kept in mask, which then serves any
// number of Conns.
func (c *Conn) Offload(mask *OffloadMask, names ...string) error {
	if c.ctl < 0 {
		err := c.ns.Do(func() (err error) {
			c.ctl, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			return err
		})
		if err != nil {
			return &OpError{"open", "control socket", c.name, err}
		}
	}
	for _, name := range names {
		if mask.arg == nil {
			if err := c.features(name, mask); err != nil {
				return &OpError{"read offloads of", name, c.name, err}
			}
		}
		if err := c.ethtool(name, mask.arg); err != nil {
			return &OpError{"switch off offloads of", name, c.name, err}
		}
	}
	return nil
}

// OffloadMask is the argument of ETHTOOL_SFEATURES that switches the offloads
// off in this kernel. Once filled by the first Offload it is only read.
type OffloadMask struct {
	arg []byte
}

type ifreqData struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

func (c *Conn) ethtool(name string, arg []byte) error {
	var r ifreqData
	copy(r.name[:unix.IFNAMSIZ-1], name)
	r.data = unsafe.Pointer(&arg[0])
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.ctl), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&r)))
	if errno != 0 {
		return errno
	}
	return nil
}

// features learns the numbers of the feature bits (linux/ethtool.h: the
// strings of the set ETH_SS_FEATURES, in the order of the bits).
func (c *Conn) features(name string, m *OffloadMask) error {
	const (
		stringLen     = 32
		ethSSFeatures = 4
	)
	info := make([]byte, 4+4+8+4)
	binary.NativeEndian.PutUint32(info, unix.ETHTOOL_GSSET_INFO)
	binary.NativeEndian.PutUint64(info[8:], 1<<ethSSFeatures)
	if err := c.ethtool(name, info); err != nil {
		return err
	}
	n := int(binary.NativeEndian.Uint32(info[16:]))
	if n <= 0 || n > 4096 {
		return fmt.Errorf("kernel has %d interface features", n)
	}
	set := make([]byte, 12+n*stringLen)
	binary.NativeEndian.PutUint32(set, unix.ETHTOOL_GSTRINGS)
	binary.NativeEndian.PutUint32(set[4:], ethSSFeatures)
	binary.NativeEndian.PutUint32(set[8:], uint32(n))
	if err := c.ethtool(name, set); err != nil {
		return err
	}
	words := (n + 31) / 32
	arg := make([]byte, 8+8*words)
	binary.NativeEndian.PutUint32(arg, unix.ETHTOOL_SFEATURES)
	binary.NativeEndian.PutUint32(arg[4:], uint32(words))
	found := 0
	for i := range n {
		s := unix.ByteSliceToString(set[12+i*stringLen : 12+(i+1)*stringLen])
		for _, o := range offloads {
			if s == o {
				at := 8 + 8*(i/32)
				v := binary.NativeEndian.Uint32(arg[at:]) | 1<<(i%32)
				binary.NativeEndian.PutUint32(arg[at:], v) // valid; requested stays 0
				found++
			}
		}
	}
	if found == 0 {
		return errors.New("kernel names none of the offload features")
	}
	m.arg = arg
	return nil
}
