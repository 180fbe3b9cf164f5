package transport

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Group is the multicast group of one-hop datagrams: LL-MANET-Routers
// (RFC 5498), link-local, so that no router ever sends it on.
var Group = [4]byte{224, 0, 0, 109}

// packetInfo is a control message of type IP_PKTINFO: by which interface a
// datagram leaves, and its source address.
type packetInfo struct {
	hdr  unix.Cmsghdr
	info unix.Inet4Pktinfo
	_    [4]byte // CMSG_ALIGN
}

// Join opens the second socket, which gets what the neighbours behind the
// named interfaces send with SendOneHop, and returns the interfaces' numbers
// in the same order: 0 where there is no such interface.
func (s *Socket) Join(interfaces []string) (numbers []int, err error) {
	for _, o := range []struct{ name, value int }{
		{unix.IP_MULTICAST_TTL, 1},
		{unix.IP_MULTICAST_LOOP, 0},
	} {
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, o.name, o.value); err != nil {
			return nil, fmt.Errorf("set up multicast sending: %w", err)
		}
	}
	s.group, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open multicast socket: %w", err)
	}
	if err := enlarge(s.group); err != nil {
		return nil, err
	}
	// Of groups that other sockets of the host joined this one gets nothing.
	if err := unix.SetsockoptInt(s.group, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0); err != nil {
		return nil, fmt.Errorf("set up multicast socket: %w", err)
	}
	if err := unix.Bind(s.group, &unix.SockaddrInet4{Port: int(s.port), Addr: Group}); err != nil {
		return nil, fmt.Errorf("bind multicast socket: %w", err)
	}
	numbers = make([]int, len(interfaces))
	for i, name := range interfaces {
		if numbers[i], err = interfaceNumber(s.group, name); err != nil {
			return nil, err
		}
		if numbers[i] == 0 {
			continue
		}
		m := &unix.IPMreqn{Multiaddr: Group, Ifindex: int32(numbers[i])}
		if err := unix.SetsockoptIPMreqn(s.group, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, m); err != nil {
			return nil, fmt.Errorf("join multicast group on %s: %w", name, err)
		}
	}
	return numbers, nil
}

func interfaceNumber(fd int, name string) (int, error) {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return 0, fmt.Errorf("look up interface %q: %w", name, err)
	}
	switch err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r); {
	case errors.Is(err, unix.ENODEV):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("look up interface %q: %w", name, os.NewSyscallError("ioctl", err))
	}
	return int(r.Uint32()), nil
}

// SendOneHop queues one datagram to whoever joined Group behind an interface.
// Number 0 sends nothing. Send's rules hold.
func (s *Socket) SendOneHop(number int, encode func(b []byte) []byte) error {
	if number == 0 {
		return nil
	}
	i := s.queued
	s.outBuf[i] = encode(s.outBuf[i][:0])
	s.outIov[i].Base, s.outIov[i].Len = &s.outBuf[i][0], uint64(len(s.outBuf[i]))
	a := &s.outAddr[i]
	a.Family, a.Addr = unix.AF_INET, Group
	a.Port = s.port<<8 | s.port>>8
	c := &s.outInfo[i]
	c.hdr.Level, c.hdr.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
	c.hdr.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
	c.info = unix.Inet4Pktinfo{Ifindex: int32(number), Spec_dst: s.addr}
	h := &s.out[i].hdr
	h.Control = (*byte)(unsafe.Pointer(c))
	h.SetControllen(unix.CmsgSpace(unix.SizeofInet4Pktinfo))
	return s.enqueued()
}
