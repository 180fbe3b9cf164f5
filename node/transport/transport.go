// Package transport is the socket of a node: one UDP socket on its mesh
// address, and where it joins it a second one for one-hop multicast, read and
// written in batches, waited for with nanosecond timeouts.
// Retransmission is node/reliable's; framing is node/wire's. One goroutine
// owns a Socket; only Wake may be called from others.
package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ReceiveBuffer is what is asked for the kernel's receive buffer: a burst of
// requests from a thousand nodes must fit (DESIGN, known facts).
const ReceiveBuffer = 8 << 20

// batch is how many datagrams one system call takes or gives.
const batch = 64

// SendBuffer is what is asked for the kernel's send buffer: a frame counts
// there until the link has taken it.
const SendBuffer = 4 << 20

// maxDatagram is the largest datagram taken in; larger ones are cut and then
// rejected by the parser.
const maxDatagram = 2048

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

// Socket is a UDP socket.
type Socket struct {
	fd    int
	port  uint16
	addr  [4]byte
	group int // bound to Group, -1 before Join

	also int32 // descriptor that Wait waits for as well; negative: none

	mu   sync.Mutex // guards wake against Close
	wake int        // eventfd, -1 when closed

	in      [batch]mmsghdr
	inIov   [batch]unix.Iovec
	inBuf   [batch][maxDatagram]byte
	out     [batch]mmsghdr
	outIov  [batch]unix.Iovec
	outAddr [batch]unix.RawSockaddrInet4
	outInfo [batch]packetInfo
	outBuf  [batch][]byte
	queued  int

	// ReceiveBuffer is what the kernel granted, in bytes.
	ReceiveBuffer int
	// Failed counts datagrams that the kernel refused to send (no route,
	// full buffers); the network may lose datagrams, so it is no error.
	Failed int64
}

// Listen opens the socket on addr.
func Listen(addr netip.AddrPort) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open udp socket: %w", err)
	}
	s := &Socket{fd: fd, wake: -1, also: -1, group: -1, port: addr.Port(), addr: addr.Addr().As4()}
	if err := s.open(addr); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// enlarge asks for the receive buffer. Only the initial user namespace's root
// may force it; others get what net.core.rmem_max allows.
func enlarge(fd int) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, ReceiveBuffer) != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, ReceiveBuffer); err != nil {
			return fmt.Errorf("set receive buffer: %w", err)
		}
	}
	return nil
}

func (s *Socket) open(addr netip.AddrPort) (err error) {
	if err := enlarge(s.fd); err != nil {
		return err
	}
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, SendBuffer) != nil {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, SendBuffer); err != nil {
			return fmt.Errorf("set send buffer: %w", err)
		}
	}
	if s.ReceiveBuffer, err = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil {
		return fmt.Errorf("get receive buffer: %w", err)
	}
	if err := unix.Bind(s.fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		return fmt.Errorf("bind udp socket to %s: %w", addr, err)
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("create eventfd: %w", err)
	}
	for i := range batch {
		s.inIov[i].Base, s.inIov[i].Len = &s.inBuf[i][0], maxDatagram
		s.in[i].hdr.Iov, s.in[i].hdr.Iovlen = &s.inIov[i], 1
		s.outBuf[i] = make([]byte, 0, maxDatagram)
		s.out[i].hdr.Iov, s.out[i].hdr.Iovlen = &s.outIov[i], 1
		s.out[i].hdr.Name = (*byte)(unsafe.Pointer(&s.outAddr[i]))
		s.out[i].hdr.Namelen = unix.SizeofSockaddrInet4
	}
	return nil
}

// Close closes the socket. Wake does nothing afterwards.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := os.NewSyscallError("close", unix.Close(s.fd))
	if s.group >= 0 {
		err = errors.Join(err, os.NewSyscallError("close", unix.Close(s.group)))
		s.group = -1
	}
	if s.wake >= 0 {
		err = errors.Join(err, os.NewSyscallError("close", unix.Close(s.wake)))
		s.wake = -1
	}
	return err
}

// Wake makes a present or the next Wait return. Any goroutine may call it,
// also after Close, when the descriptor may be somebody else's.
func (s *Socket) Wake() {
	one := [8]byte{}
	binary.NativeEndian.PutUint64(one[:], 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake >= 0 {
		_, _ = unix.Write(s.wake, one[:]) // full: it is awake already
	}
}

// Wait blocks until a datagram can be read, Wake was called, or timeout has
// passed (negative: no timeout; 0: look only).
func (s *Socket) Wait(timeout time.Duration) error {
	// poll(2) passes over negative descriptors.
	fds := [4]unix.PollFd{
		{Fd: int32(s.fd), Events: unix.POLLIN},
		{Fd: int32(s.wake), Events: unix.POLLIN},
		{Fd: int32(s.group), Events: unix.POLLIN},
		{Fd: s.also, Events: unix.POLLIN},
	}
	var ts *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	if _, err := unix.Ppoll(fds[:], ts, nil); err != nil && !errors.Is(err, syscall.EINTR) {
		return fmt.Errorf("wait for datagrams: %w", err)
	}
	if fds[1].Revents != 0 {
		var b [8]byte
		_, _ = unix.Read(s.wake, b[:])
	}
	return nil
}

// Receive reads what is there, at most one batch of either kind, and calls
// handle for each datagram. The slice is valid during the call.
func (s *Socket) Receive(handle func(b []byte)) (int, error) {
	n, err := s.receive(s.fd, handle)
	if err != nil || s.group < 0 {
		return n, err
	}
	more, err := s.receive(s.group, handle)
	return n + more, err
}

func (s *Socket) receive(fd int, handle func(b []byte)) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&s.in[0])), batch,
		unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
	case unix.EBADF, unix.EFAULT, unix.EINVAL, unix.ENOTSOCK:
		return 0, os.NewSyscallError("recvmmsg", errno)
	default:
		// Nothing there, or news of an earlier datagram that was lost on its
		// way (RFC 1122, 4.1.3.3).
		return 0, nil
	}
	for i := range int(n) {
		handle(s.inBuf[i][:s.in[i].n])
	}
	return int(n), nil
}

// Send queues one datagram, whose bytes encode appends; Flush sends the
// queue. A full queue is flushed.
func (s *Socket) Send(to netip.Addr, encode func(b []byte) []byte) error {
	i := s.fill(to, encode)
	s.out[i].hdr.Control, s.out[i].hdr.Controllen = nil, 0
	return s.enqueued()
}

// fill writes a datagram and its destination into the next place of the queue.
func (s *Socket) fill(to netip.Addr, encode func(b []byte) []byte) (i int) {
	i = s.queued
	s.outBuf[i] = encode(s.outBuf[i][:0])
	s.outIov[i].Base, s.outIov[i].Len = &s.outBuf[i][0], uint64(len(s.outBuf[i]))
	a := &s.outAddr[i]
	a.Family, a.Addr = unix.AF_INET, to.As4()
	a.Port = s.port<<8 | s.port>>8
	return i
}

// enqueued counts one more queued datagram.
func (s *Socket) enqueued() error {
	s.queued++
	if s.queued == batch {
		return s.Flush()
	}
	return nil
}

// Flush sends what is queued.
func (s *Socket) Flush() error {
	for done := 0; done < s.queued; {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.out[done])),
			uintptr(s.queued-done), 0, 0, 0)
		switch errno {
		case 0:
			done += int(n)
		case unix.EINTR:
		case unix.EBADF, unix.EFAULT, unix.EINVAL, unix.ENOTSOCK:
			s.queued = 0
			return os.NewSyscallError("sendmmsg", errno)
		default:
			// Unreachable, no buffers: this datagram is lost like any other.
			s.Failed++
			done++
		}
	}
	s.queued = 0
	return nil
}
