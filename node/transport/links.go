package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Links reads the state of the interfaces of the process's network namespace
// from the kernel (rtnetlink(7)): all of them at first, then each change. One
// goroutine owns it, and a Socket may wait for it.
type Links struct {
	fd  int
	seq uint32
	buf [16 << 10]byte
}

// Interface is the state of one interface. Up means set up and with carrier.
// Downs counts how often it lost the carrier: where it grew between two states
// that are both up, the link went and came back meanwhile.
type Interface struct {
	Name  string
	Index int32
	Up    bool
	Downs uint32
}

// linksBuffer is what is asked for the receive buffer, so that a burst of
// changes fits.
const linksBuffer = 1 << 20

// OpenLinks subscribes to changes and asks for the present state, which Read
// gives first.
func OpenLinks() (*Links, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	l := &Links{fd: fd}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, linksBuffer) // the default does mostly
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (unix.RTNLGRP_LINK - 1)}); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to links: %w", err), l.Close())
	}
	if err := l.dump(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// dump asks for the state of all interfaces.
func (l *Links) dump() error {
	l.seq++
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_GETLINK)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	binary.NativeEndian.PutUint32(b[8:], l.seq)
	b[unix.SizeofNlMsghdr] = unix.AF_UNSPEC
	if err := unix.Sendto(l.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask for links: %w", err)
	}
	return nil
}

// Close ends the subscription.
func (l *Links) Close() error { return os.NewSyscallError("close", unix.Close(l.fd)) }

// Read hands over what is there, in the order in which it happened. Where the
// kernel had to drop news, it asks for the present state again.
func (l *Links) Read(handle func(Interface)) error {
	for {
		n, _, err := unix.Recvfrom(l.fd, l.buf[:], 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			if err := l.dump(); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("read links: %w", err)
		}
		parseLinks(l.buf[:n], handle)
	}
}

// parseLinks reads the messages of one datagram; what is cut or of another
// kind is left out.
func parseLinks(b []byte, handle func(Interface)) {
	for len(b) >= unix.SizeofNlMsghdr {
		size := binary.NativeEndian.Uint32(b)
		if size < unix.SizeofNlMsghdr || uint64(size) > uint64(len(b)) {
			return
		}
		kind, body := binary.NativeEndian.Uint16(b[4:]), b[unix.SizeofNlMsghdr:size]
		if (kind == unix.RTM_NEWLINK || kind == unix.RTM_DELLINK) && len(body) >= unix.SizeofIfInfomsg {
			flags := binary.NativeEndian.Uint32(body[8:])
			const both = unix.IFF_UP | unix.IFF_LOWER_UP
			x := Interface{
				Index: int32(binary.NativeEndian.Uint32(body[4:])), Up: flags&both == both && kind == unix.RTM_NEWLINK,
			}
			x.attributes(body[unix.SizeofIfInfomsg:])
			if x.Name != "" {
				handle(x)
			}
		}
		b = b[min(uint64(len(b)), align(uint64(size))):]
	}
}

func align(n uint64) uint64 { return (n + 3) &^ 3 }

// attributes takes IFLA_IFNAME and IFLA_CARRIER_DOWN_COUNT from a list of
// attributes; what is cut ends it.
func (x *Interface) attributes(b []byte) {
	for len(b) >= unix.SizeofRtAttr {
		size := binary.NativeEndian.Uint16(b)
		if size < unix.SizeofRtAttr || int(size) > len(b) {
			return
		}
		value := b[unix.SizeofRtAttr:size]
		switch binary.NativeEndian.Uint16(b[2:]) {
		case unix.IFLA_IFNAME:
			text, _, _ := bytes.Cut(value, []byte{0})
			x.Name = string(text)
		case unix.IFLA_CARRIER_DOWN_COUNT:
			if len(value) >= 4 {
				x.Downs = binary.NativeEndian.Uint32(value)
			}
		}
		b = b[min(uint64(len(b)), align(uint64(size))):]
	}
}

// WaitAlso makes Wait return also when there is something to Read.
func (s *Socket) WaitAlso(l *Links) { s.also = int32(l.fd) }

// SendOver queues one datagram to a neighbour behind the interface with that
// index, whatever the routes say. Send's rules hold.
func (s *Socket) SendOver(index int32, to netip.Addr, encode func(b []byte) []byte) error {
	i := s.fill(to, encode)
	c := &s.outInfo[i]
	c.hdr.Level, c.hdr.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
	c.hdr.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
	c.info = unix.Inet4Pktinfo{Ifindex: index, Spec_dst: s.addr}
	h := &s.out[i].hdr
	h.Control = (*byte)(unsafe.Pointer(c))
	h.SetControllen(unix.CmsgSpace(unix.SizeofInet4Pktinfo))
	return s.enqueued()
}
