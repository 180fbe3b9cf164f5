package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"churnbed/emulator/link"
	"churnbed/emulator/netns"

	"golang.org/x/sys/unix"
)

func scratch(tb testing.TB) (*netns.Handle, *Conn) {
	tb.Helper()
	h, err := netns.New()
	if errors.Is(err, unix.EPERM) {
		tb.Skip("skip: no CAP_SYS_ADMIN: run as root or inside a user namespace")
	}
	if err != nil {
		tb.Fatal(err)
	}
	c, err := Open(h, "scratch")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(c.Close(), h.Close()); err != nil {
			tb.Error(err)
		}
	})
	return h, c
}

func pair(b *Batch, h *netns.Handle, first int32) {
	name := func(i int32) string { return "v" + string(rune('a'+i)) }
	b.Veth(End{NS: h, Name: name(first), Index: first, MAC: [6]byte{2, 0, 0, 0, 0, byte(first)}, Up: true},
		End{NS: h, Name: name(first + 1), Index: first + 1, MAC: [6]byte{2, 0, 0, 0, 0, byte(first + 1)}}, 1500)
}

func TestProbe(t *testing.T) {
	caps := Probe(context.Background())
	for _, c := range caps {
		t.Logf("%-28s %-5v %s; %s", c.Name, c.OK, c.Detail, c.Remedy)
		if !c.OK && c.Remedy == "" && c.Name != CapKernel {
			t.Errorf("%s is missing without a remedy", c.Name)
		}
		var m *Missing
		if !c.OK && !errors.As(c.Err(), &m) {
			t.Errorf("%s: error is no *Missing", c.Name)
		}
	}
	if c := Find(caps, "nothing"); c.OK {
		t.Error("an unknown capability is there")
	}
	if !Find(caps, CapNamespaces).OK {
		t.Skip("skip: no network namespaces here")
	}
	if !Find(caps, CapVeth).OK {
		t.Error("no veth")
	}
}

func TestProbeChild(t *testing.T) {
	caps, err := probeChild(context.Background())
	if err != nil {
		t.Skipf("skip: no user namespaces: %v", err)
	}
	if !Find(caps, CapVeth).OK || !Find(caps, CapPacket).OK {
		t.Errorf("user namespace allows too little: %+v", caps)
	}
}

func TestLimits(t *testing.T) {
	l, err := ReadLimits()
	if err != nil {
		t.Fatal(err)
	}
	if l.OpenFiles == 0 || l.PidMax == 0 || l.MemoryAvailable == 0 || l.MemoryAvailable > l.MemoryTotal || l.Kernel == "" {
		t.Errorf("%+v", l)
	}
}

func TestVethBornInPlace(t *testing.T) {
	h, c := scratch(t)
	h2, c2 := scratch(t)
	b := c.Batch()
	b.Veth(End{NS: h, Name: "one", Index: 17, MAC: [6]byte{2, 1, 2, 3, 4, 5}, Up: true},
		End{NS: h2, Name: "two", Index: 23, MAC: [6]byte{2, 1, 2, 3, 4, 6}}, 1400)
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	c2.Batch().SetUp(23, true)
	if err := c2.Batch().Flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		c     *Conn
		name  string
		index int32
	}{{c, "one", 17}, {c2, "two", 23}} {
		links, err := want.c.Links()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, l := range links {
			if l.Name == want.name {
				found = l.Index == want.index && l.Up && l.Carrier
			}
		}
		if !found || len(links) != 2 {
			t.Errorf("want %s (%d) up with carrier, got %+v", want.name, want.index, links)
		}
	}
	if err := c.Offload(new(OffloadMask), "one"); err != nil {
		t.Error(err)
	}
	there, err := c.HasLink(17)
	if err != nil || !there {
		t.Errorf("link 17: %v, %v", there, err)
	}
	b.DeleteLink(17)
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	if there, err = c2.HasLink(23); err != nil || there {
		t.Errorf("peer of a deleted link: %v, %v", there, err)
	}
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	h, c := scratch(t)
	b := c.Batch()
	b.SetUp(99, true)
	b.SetUp(1, true) // those after a failure are done
	b.Route(AddRoute, netip.MustParseAddr("10.77.0.9"), netip.MustParseAddr("10.77.0.9"), netip.MustParseAddr("10.77.0.1"), 1)
	err := b.Flush()
	var op *OpError
	if !errors.As(err, &op) || op.Op != "set up" || op.Namespace != "scratch" || !errors.Is(err, unix.ENODEV) {
		t.Errorf("got %v", err)
	}
	if links, err := c.Links(); err != nil || len(links) != 1 || !links[0].Up {
		t.Errorf("lo: %+v %v", links, err)
	}
	b.Veth(End{NS: h, Name: "far-too-long-name", Index: 2}, End{NS: h, Name: "x", Index: 3}, 1500)
	if err := b.Flush(); err == nil || !strings.Contains(err.Error(), "15 bytes") {
		t.Errorf("long name: %v", err)
	}
	if err := b.Flush(); err != nil {
		t.Errorf("errors were reported twice: %v", err)
	}
}

func TestManyFailuresInOneBatch(t *testing.T) {
	_, c := scratch(t)
	b := c.Batch()
	for i := range int32(1000) {
		b.SetUp(100+i, true)
	}
	err := b.Flush()
	if err == nil || !strings.Contains(err.Error(), "996 more") {
		t.Errorf("got %v", err)
	}
}

func TestRoutesInBulk(t *testing.T) {
	h, c := scratch(t)
	b := c.Batch()
	pair(b, h, 2)
	b.SetUp(3, true)
	self := netip.MustParseAddr("10.77.255.1")
	b.SetUp(1, true)
	b.Addr4(1, self)
	via := netip.MustParseAddr("10.77.0.0")
	b.Neighbour(2, via, [6]byte{2, 0, 0, 0, 0, 3})
	const n = 1000
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, byte(i >> 8), byte(i)}) }
	for i := range n {
		b.Route(AddRoute, addr(i), via, self, 2)
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.CountRoutes(); err != nil || got != n {
		t.Fatalf("%d routes, want %d: %v", got, n, err)
	}
	for i := range n / 2 {
		b.DeleteRoute(addr(i))
	}
	b.Route(ReplaceRoute, addr(n-1), via, self, 2)
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.CountRoutes(); err != nil || got != n/2 {
		t.Fatalf("%d routes, want %d: %v", got, n/2, err)
	}
}

// TestNetemMessage checks the bytes against linux/pkt_sched.h, also where the
// kernel has no sch_netem.
func TestNetemMessage(t *testing.T) {
	b := &Batch{c: &Conn{}}
	b.Netem(7, link.Params{
		Delay: 5*time.Millisecond + 7, Jitter: time.Millisecond + 3, Dist: link.Normal, Rate: 80e9,
		Burst: &link.GilbertElliott{P: 0.25, R: 0.5, Good: 0, Bad: 1},
	}, 0x1122334455667788, false)
	if got := int(binary.NativeEndian.Uint32(b.buf)); got != len(b.buf) {
		t.Fatalf("message says %d bytes, has %d", got, len(b.buf))
	}
	top := map[uint16][]byte{}
	for a := range attributes(b.buf, 16+20) {
		top[a.kind] = a.data
	}
	if string(top[1]) != "netem\x00" {
		t.Fatalf("kind %q", top[1])
	}
	q := top[2]
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	if u32(q) != 5000007>>6 || u32(q[4:]) != link.QueueLimit || u32(q[8:]) != 0 || u32(q[20:]) != 1000003>>6 {
		t.Errorf("qopt %x", q[:24])
	}
	opts := map[uint16][]byte{}
	for a := range attributes(q, 24) {
		opts[a.kind] = a.data
	}
	if u64(opts[10]) != 5000007 || u64(opts[11]) != 1000003 || u64(opts[14]) != 0x1122334455667788 {
		t.Errorf("64-bit attributes: %x %x %x", opts[10], opts[11], opts[14])
	}
	if u64(opts[8]) != 10e9 || u32(opts[6]) != math.MaxUint32 {
		t.Errorf("rate: %x %x", opts[8], opts[6])
	}
	if len(opts[2]) != 2*netemDistSize {
		t.Errorf("table has %d bytes", len(opts[2]))
	}
	for a := range attributes(opts[5], 0) {
		want := []uint32{1 << 30, 1 << 31, 0, 0}
		for i, w := range want {
			if u32(a.data[4*i:]) != w {
				t.Errorf("loss model %d: %x want %x", i, u32(a.data[4*i:]), w)
			}
		}
	}
}

func TestNetemTables(t *testing.T) {
	normal, uniform := netemTables()
	for name, c := range map[string]struct {
		table []byte
		sd    float64
	}{"normal": {normal, 1}, "uniform": {uniform, 1 / math.Sqrt(3)}} {
		var sum, sq float64
		for i := 0; i < len(c.table); i += 2 {
			v := float64(int16(binary.NativeEndian.Uint16(c.table[i:]))) / netemDistScale
			sum += v
			sq += v * v
		}
		n := float64(len(c.table) / 2)
		if mean, sd := sum/n, math.Sqrt(sq/n); math.Abs(mean) > 0.001 || math.Abs(sd-c.sd) > 0.01*c.sd {
			t.Errorf("%s: mean %.4f sd %.4f, want 0 and %.4f", name, mean, sd, c.sd)
		}
	}
}

func TestUDPCounters(t *testing.T) {
	h, _ := scratch(t)
	r, err := OpenUDP(h, "scratch")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	u, err := r.Read()
	if err != nil || u != (UDPCounters{}) {
		t.Errorf("a new namespace has %+v: %v", u, err)
	}
}

func FuzzParseSNMP(f *testing.F) {
	f.Add([]byte("Ip: a b\nIp: 1 2\nUdp: InDatagrams NoPorts RcvbufErrors\nUdp: 5 6 7\n"))
	f.Add([]byte("Udp:\nUdp: 1\n"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parseSNMP(b) })
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte{20, 0, 0, 0, 2, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0xed, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		for h, data := range messages(b) {
			_ = ackError(h.Flags, data)
			var q QdiscStats
			q.stats2(data)
			for a := range attributes(data, 4) {
				if len(a.data) > len(data) {
					t.Fatal("attribute longer than its message")
				}
			}
		}
	})
}
