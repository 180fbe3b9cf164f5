package host

import (
	"os"
	"strings"
	"testing"
	"time"

	"churnbed/node/core"
)

const snmp = `Ip: Forwarding DefaultTTL
Ip: 1 64
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
Udp: 10 20 30 40 50 60
UdpLite: InDatagrams RcvbufErrors
UdpLite: 7 8
`

func TestUDPField(t *testing.T) {
	for _, c := range []struct {
		text, name string
		want       int64
	}{
		{snmp, "RcvbufErrors", 50},
		{snmp, "InDatagrams", 10},
		{snmp, "Absent", 0},
		{"", "RcvbufErrors", 0},
		{"Udp: RcvbufErrors\n", "RcvbufErrors", 0},
		{"Udp: A RcvbufErrors\nUdp: 1\n", "RcvbufErrors", 0},
		{"Udp: RcvbufErrors\nUdp: many\n", "RcvbufErrors", 0},
		{"Udp: RcvbufErrors\nUdp: 3", "RcvbufErrors", 3},
	} {
		if got := udpField([]byte(c.text), c.name); got != c.want {
			t.Errorf("%q of %q is %d, want %d", c.name, c.text, got, c.want)
		}
	}
}

func FuzzUDPField(f *testing.F) {
	f.Add(snmp, "RcvbufErrors")
	f.Add("Udp:\nUdp:", "Udp:")
	f.Fuzz(func(t *testing.T, text, name string) {
		if got := udpField([]byte(text), name); got != 0 && !strings.Contains(text, name) {
			t.Errorf("%q of %q is %d", name, text, got)
		}
	})
}

// The host's own counters are there, and count from when the node began.
func TestDropsCountFromTheBeginning(t *testing.T) {
	b, err := os.ReadFile("/proc/self/net/snmp")
	if err != nil {
		t.Skip("no /proc/net/snmp: ", err)
	}
	if !strings.Contains(string(b), "RcvbufErrors") {
		t.Error("the kernel's counters have another name")
	}
	d := newUDPDrops(1)
	d.last -= 5 // as if five were lost since
	if n := d.read(1 + core.Instant(pace) - 1); n != 0 {
		t.Errorf("%d before its time", n)
	}
	if n := d.read(1 + core.Instant(pace)); n < 5 {
		t.Errorf("%d lost, want 5", n)
	}
	if n := d.read(1 + 3*core.Instant(time.Second)); n < 0 {
		t.Errorf("%d lost", n)
	}
}
