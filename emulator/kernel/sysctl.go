package kernel

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"churnbed/emulator/netns"

	"golang.org/x/sys/unix"
)

// Sysctl is a setting of one namespace: the key with slashes below
// /proc/sys, for example "net/ipv4/ip_forward".
type Sysctl struct {
	Key, Value string
	// Optional: the kernel may lack it (IPv6 switched off, an older version).
	Optional bool
}

// writeHere writes settings in the namespace of the calling thread.
func writeHere(name string, settings []Sysctl) error {
	for _, s := range settings {
		err := writeFile("/proc/sys/"+s.Key, s.Value)
		if err != nil && !(s.Optional && errors.Is(err, os.ErrNotExist)) {
			return &OpError{"set", s.Key + "=" + s.Value, name, err}
		}
	}
	return nil
}

// writeFile is os.WriteFile without a poller and without creating anything.
func writeFile(path, value string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(value))
	return errors.Join(err, unix.Close(fd))
}

// OpenWith opens a Conn in ns as Open does and writes settings there first,
// entering the namespace once for both. Settings concern that namespace only.
func OpenWith(ns *netns.Handle, name string, settings []Sysctl) (*Conn, error) {
	c := &Conn{name: name, fd: -1, ctl: -1, ns: ns}
	err := ns.Do(func() error {
		if err := writeHere(name, settings); err != nil {
			return err
		}
		if err := c.open(); err != nil {
			return err
		}
		var err error
		if c.ctl, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return errors.Join(&OpError{"open", "control socket", name, err}, c.Close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// UDPCounters are the losses of datagrams inside one namespace since it was
// made.
type UDPCounters struct {
	InDatagrams  uint64
	NoPorts      uint64 // nobody listened
	InErrors     uint64 // all of the errors below and a few rarer ones
	RcvbufErrors uint64 // the socket's receive buffer was full
	SndbufErrors uint64
	InCsumErrors uint64
}

// UDPReader reads the UDP counters of one namespace. It holds a file that
// keeps the namespace alive until Close.
type UDPReader struct {
	fd   int
	name string
	buf  []byte
}

// OpenUDP opens the counters of ns.
func OpenUDP(ns *netns.Handle, name string) (*UDPReader, error) {
	r := &UDPReader{name: name, buf: make([]byte, 4096)}
	err := ns.Do(func() (err error) {
		// Not /proc/self: that is the main thread and its namespace.
		r.fd, err = unix.Open("/proc/thread-self/net/snmp", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &OpError{"open", "UDP counters", name, err}
	}
	return r, nil
}

// Read returns the counters.
func (r *UDPReader) Read() (UDPCounters, error) {
	n, err := unix.Pread(r.fd, r.buf, 0)
	if err != nil {
		return UDPCounters{}, &OpError{"read", "UDP counters", r.name, err}
	}
	c, err := parseSNMP(r.buf[:n])
	if err != nil {
		return c, &OpError{"read", "UDP counters", r.name, err}
	}
	return c, nil
}

// Close closes the file.
func (r *UDPReader) Close() error {
	if r.fd < 0 {
		return nil
	}
	err := unix.Close(r.fd)
	r.fd = -1
	return err
}

var errNoUDP = errors.New("no Udp lines in the counters")

// parseSNMP reads the two "Udp:" lines of /proc/net/snmp: names, then values.
func parseSNMP(b []byte) (UDPCounters, error) {
	var c UDPCounters
	var names []string
	for line := range bytes.Lines(b) {
		rest, ok := strings.CutPrefix(string(line), "Udp:")
		if !ok {
			continue
		}
		if names == nil {
			names = strings.Fields(rest)
			continue
		}
		for i, v := range strings.Fields(rest) {
			if i >= len(names) {
				break
			}
			n, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				return c, err
			}
			switch names[i] {
			case "InDatagrams":
				c.InDatagrams = n
			case "NoPorts":
				c.NoPorts = n
			case "InErrors":
				c.InErrors = n
			case "RcvbufErrors":
				c.RcvbufErrors = n
			case "SndbufErrors":
				c.SndbufErrors = n
			case "InCsumErrors":
				c.InCsumErrors = n
			}
		}
		return c, nil
	}
	return c, errNoUDP
}

// SoftnetDrops returns how many received frames the processors of this host
// have dropped since it booted because their backlog was full
// (net.core.netdev_max_backlog): veth hands every frame over through it. 0
// where the kernel does not tell.
func SoftnetDrops() int64 {
	b, err := os.ReadFile("/proc/thread-self/net/softnet_stat")
	if err != nil {
		return 0
	}
	var sum int64
	for line := range bytes.Lines(b) {
		if f := strings.Fields(string(line)); len(f) > 1 {
			if n, err := strconv.ParseInt(f[1], 16, 64); err == nil {
				sum += n
			}
		}
	}
	return sum
}
