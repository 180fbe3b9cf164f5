package host

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"churnbed/node/core"
)

// udpDrops reads how many datagrams the kernel threw away in this network
// namespace because the receive buffer was full (RcvbufErrors, RFC 4113).
type udpDrops struct {
	last int64
	at   core.Instant
}

// pace bounds how often the file is read.
const pace = 500 * time.Millisecond

// newUDPDrops begins to count now: what an earlier life of the node lost in
// the same namespace is not this one's.
func newUDPDrops(now core.Instant) udpDrops {
	n, _ := rcvbufErrors()
	return udpDrops{last: n, at: now}
}

// read returns the growth since the last reading, 0 where it cannot be known
// or was read just now.
func (d *udpDrops) read(now core.Instant) int64 {
	if now.Sub(d.at) < pace {
		return 0
	}
	d.at = now
	n, ok := rcvbufErrors()
	if !ok {
		return 0
	}
	grown := max(0, n-d.last)
	d.last = n
	return grown
}

func rcvbufErrors() (int64, bool) {
	b, err := os.ReadFile("/proc/self/net/snmp")
	if err != nil {
		return 0, false
	}
	return udpField(b, "RcvbufErrors"), true
}

// udpField finds a counter in the format of /proc/net/snmp: a line of names
// and a line of values, both beginning with "Udp:". It is 0 where absent.
func udpField(b []byte, name string) int64 {
	var names [][]byte
	for line := range bytes.Lines(b) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || string(fields[0]) != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, f := range names {
			if string(f) == name && i < len(fields) {
				n, err := strconv.ParseInt(string(fields[i]), 10, 64)
				if err != nil {
					return 0
				}
				return n
			}
		}
	}
	return 0
}
