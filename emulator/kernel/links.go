package kernel

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// LinkStats is an interface with its counters.
type LinkStats struct {
	Index              int32
	Name               string
	Up                 bool // administratively
	Carrier            bool // the other end is up as well
	RxPackets, RxBytes uint64
	TxPackets, TxBytes uint64
	RxErrors, TxErrors uint64
	RxDropped          uint64
	TxDropped          uint64 // veth: the other end's backlog was full
}

// Links reads all interfaces of the namespace.
func (c *Conn) Links() ([]LinkStats, error) {
	var out []LinkStats
	body := make([]byte, unix.SizeofIfInfomsg)
	err := c.dump("read interfaces", unix.RTM_GETLINK, body, func() { out = out[:0] }, func(m []byte) {
		if len(m) < unix.SizeofIfInfomsg {
			return
		}
		flags := binary.NativeEndian.Uint32(m[8:])
		l := LinkStats{
			Index:   int32(binary.NativeEndian.Uint32(m[4:])),
			Up:      flags&unix.IFF_UP != 0,
			Carrier: flags&unix.IFF_LOWER_UP != 0,
		}
		for a := range attributes(m, unix.SizeofIfInfomsg) {
			switch a.kind {
			case unix.IFLA_IFNAME:
				l.Name = unix.ByteSliceToString(a.data)
			case unix.IFLA_STATS64: // struct rtnl_link_stats64
				for i, f := range []*uint64{
					&l.RxPackets, &l.TxPackets, &l.RxBytes, &l.TxBytes,
					&l.RxErrors, &l.TxErrors, &l.RxDropped, &l.TxDropped,
				} {
					if 8*i+8 <= len(a.data) {
						*f = binary.NativeEndian.Uint64(a.data[8*i:])
					}
				}
			}
		}
		out = append(out, l)
	})
	return out, err
}

// CountRoutes returns the number of IPv4 unicast routes of the main table.
func (c *Conn) CountRoutes() (int, error) {
	n := 0
	body := make([]byte, unix.SizeofRtMsg)
	body[0] = unix.AF_INET
	err := c.dump("read routes", unix.RTM_GETROUTE, body, func() { n = 0 }, func(m []byte) {
		if len(m) >= unix.SizeofRtMsg && m[4] == unix.RT_TABLE_MAIN && m[7] == unix.RTN_UNICAST {
			n++
		}
	})
	return n, err
}

// HasLink reports whether an interface of this index exists.
func (c *Conn) HasLink(index int32) (bool, error) {
	b := &c.b
	b.begin(unix.RTM_GETLINK, 0, desc{op: "look up link", index: index})
	b.ifinfo(index, 0, 0)
	b.end()
	err := b.Flush()
	if errors.Is(err, unix.ENODEV) {
		return false, nil
	}
	return err == nil, err
}
