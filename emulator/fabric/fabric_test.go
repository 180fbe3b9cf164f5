package fabric

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"churnbed/emulator/kernel"
	"churnbed/emulator/link"
	"churnbed/emulator/netns"
	"churnbed/node/core"
	"churnbed/node/transport"
	"churnbed/node/wire"

	"golang.org/x/sys/unix"
)

// require skips where the host lacks what a fabric of this kind needs.
func require(tb testing.TB, kind string) {
	tb.Helper()
	h, err := netns.New()
	if errors.Is(err, unix.EPERM) {
		tb.Skip("skip: no CAP_SYS_ADMIN: run as root or inside a user namespace")
	}
	if err != nil {
		tb.Fatal(err)
	}
	if err := h.Close(); err != nil {
		tb.Fatal(err)
	}
	if kind == KindNetem {
		if c := kernel.Find(kernel.Probe(context.Background()), kernel.CapNetem); !c.OK {
			tb.Skip("skip: kernel has no sch_netem: run scripts/test-netem")
		}
	}
}

func build(tb testing.TB, cfg Config) *Fabric {
	tb.Helper()
	require(tb, cfg.Kind)
	f, err := New(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := f.Close(); err != nil {
			tb.Error(err)
		}
	})
	return f
}

// line returns nodes 0 - 1 - ... - n-1 with the same parameters everywhere.
func line(kind string, n int, p link.Params) Config {
	c := Config{Nodes: n, Kind: kind, Seed: 1, NextHop: func(a, b core.NodeID) core.NodeID {
		if a < b {
			return a + 1
		}
		return a - 1
	}}
	for i := range n - 1 {
		c.Links = append(c.Links, LinkSpec{core.NodeID(i), core.NodeID(i + 1), p, p})
	}
	return c
}

func open(tb testing.TB, f *Fabric, n core.NodeID) *net.UDPConn {
	tb.Helper()
	var c *net.UDPConn
	err := f.Namespace(n).Do(func() (err error) {
		c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(Addr(n), wire.Port)))
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.SetReadBuffer(1 << 20); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// flow sends n datagrams of size bytes, pausing between them, and returns
// how long each took; -1 for those that had not come when quiet time passed
// after the last.
type flow struct {
	n, size int
	every   time.Duration
	quiet   time.Duration
}

func (fl flow) run(tb testing.TB, f *Fabric, from, to core.NodeID) (took []time.Duration, arrived []time.Time) {
	tb.Helper()
	src, dst := open(tb, f, from), open(tb, f, to)
	defer func() { _, _ = src.Close(), dst.Close() }()
	took, arrived = make([]time.Duration, fl.n), make([]time.Time, fl.n)
	sent := make([]time.Time, fl.n)
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, 2048)
		for {
			n, err := dst.Read(b)
			if err != nil {
				return
			}
			now := time.Now()
			if k := int(binary.BigEndian.Uint32(b[2:])); n == fl.size && k < fl.n {
				arrived[k] = now
			}
		}
	})
	b := make([]byte, fl.size)
	b[0], b[1] = wire.Version, byte(wire.ClassMutex)
	for k := range sent {
		binary.BigEndian.PutUint32(b[2:], uint32(k))
		sent[k] = time.Now()
		if _, err := src.WriteToUDPAddrPort(b, netip.AddrPortFrom(Addr(to), wire.Port)); err != nil {
			tb.Errorf("send %d: %v", k, err)
			break
		}
		if fl.every > 0 {
			time.Sleep(fl.every)
		}
	}
	if err := dst.SetReadDeadline(time.Now().Add(fl.quiet)); err != nil {
		tb.Fatal(err)
	}
	wg.Wait()
	for k := range took {
		took[k] = -1
		if !arrived[k].IsZero() {
			took[k] = arrived[k].Sub(sent[k])
		}
	}
	return took, arrived
}

func delivered(took []time.Duration) []time.Duration {
	var d []time.Duration
	for _, t := range took {
		if t >= 0 {
			d = append(d, t)
		}
	}
	slices.Sort(d)
	return d
}

// slack is what a busy host may add to the least of many delays.
const slack = 4 * time.Millisecond

const ms = time.Millisecond

// linkCases hold for every backend. Bounds of time are one-sided or have the
// slack of a busy host: the scheduler can only make frames later.
var linkCases = []struct {
	name  string
	p     link.Params
	f     flow
	check func(t *testing.T, took []time.Duration, arrived []time.Time)
}{
	{"perfect", link.Params{}, flow{200, 64, ms, time.Second}, func(t *testing.T, took []time.Duration, _ []time.Time) {
		between(t, "delivered", float64(len(delivered(took))), 200, 200)
		between(t, "least delay ms", msOf(delivered(took)[0]), 0, msOf(slack))
	}},
	{"delay", link.Params{Delay: 20 * ms}, flow{100, 64, ms, time.Second}, func(t *testing.T, took []time.Duration, _ []time.Time) {
		between(t, "delivered", float64(len(delivered(took))), 100, 100)
		between(t, "least delay ms", msOf(delivered(took)[0]), 20, 20+msOf(slack))
	}},
	{"loss", link.Params{Loss: 0.2, Delay: ms}, flow{1500, 64, ms / 5, time.Second}, func(t *testing.T, took []time.Duration, _ []time.Time) {
		// sd of the share is 0.0103; five of them.
		between(t, "delivered share", float64(len(delivered(took)))/1500, 0.8-0.052, 0.8+0.052)
	}},
	{"bursts", link.Params{Burst: &link.GilbertElliott{P: 0.05, R: 0.2, Bad: 1}}, flow{3000, 64, ms / 5, time.Second}, func(t *testing.T, took []time.Duration, _ []time.Time) {
		// Share lost P/(P+R) = 0.2; bursts of mean length 1/R = 5.
		bursts, lost := 0, 0
		for k, d := range took {
			if d < 0 {
				lost++
				if k == 0 || took[k-1] >= 0 {
					bursts++
				}
			}
		}
		between(t, "lost share", float64(lost)/3000, 0.08, 0.32)
		between(t, "mean burst", float64(lost)/math.Max(1, float64(bursts)), 3.2, 6.8)
	}},
	{"uniform jitter", link.Params{Delay: 30 * ms, Jitter: 20 * ms, Dist: link.Uniform}, flow{300, 64, ms, time.Second}, func(t *testing.T, took []time.Duration, _ []time.Time) {
		d := delivered(took)
		between(t, "delivered", float64(len(d)), 300, 300)
		between(t, "least delay ms", msOf(d[0]), 10, 12+msOf(slack))
		between(t, "first quartile ms", msOf(d[len(d)/4]), 15, 25+msOf(slack))
		between(t, "last decile ms", msOf(d[len(d)*9/10]), 42, 60)
	}},
	{"normal jitter", link.Params{Delay: 40 * ms, Jitter: 8 * ms, Dist: link.Normal}, flow{400, 64, ms, time.Second}, func(t *testing.T, took []time.Duration, _ []time.Time) {
		d := delivered(took)
		between(t, "delivered", float64(len(d)), 400, 400)
		// 2.3 % lie below two sd: far more than uniform jitter would place outside.
		between(t, "2.3 percentile ms", msOf(d[9]), 18, 29+msOf(slack))
		between(t, "median ms", msOf(d[200]), 37, 43+msOf(slack))
		between(t, "97.7 percentile ms", msOf(d[390]), 51, 75)
	}},
	{"rate", link.Params{Rate: 1_000_000, Delay: 5 * ms}, flow{60, 458, 0, time.Second}, func(t *testing.T, took []time.Duration, arrived []time.Time) {
		// 458 + 28 + 14 = 500 bytes = 4 ms each.
		between(t, "delivered", float64(len(delivered(took))), 60, 60)
		between(t, "first delay ms", msOf(took[0]), 9, 9+5*msOf(slack))
		between(t, "rest ms", msOf(arrived[59].Sub(arrived[0])), 59*4-5*msOf(slack), 59*4+5*msOf(slack))
	}},
}

func msOf(d time.Duration) float64 { return float64(d) / 1e6 }

func between(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s: %.3f, want %.3f to %.3f", what, got, low, high)
	}
}

func testLinks(t *testing.T, kind string) {
	for _, c := range linkCases {
		t.Run(c.name, func(t *testing.T) {
			// Only this direction is impaired: the other must not be.
			cfg := line(kind, 2, link.Params{})
			cfg.Links[0].AB = c.p
			f := build(t, cfg)
			took, arrived := c.f.run(t, f, 0, 1)
			c.check(t, took, arrived)
			back, _ := flow{20, 64, ms, time.Second}.run(t, f, 1, 0)
			if d := delivered(back); len(d) != 20 || d[0] > slack {
				t.Errorf("the other direction is impaired: %v", d)
			}
			counters, err := f.Counters()
			if err != nil {
				t.Fatal(err)
			}
			ab := counters.Links[0][0]
			if want := int64(c.f.n - len(delivered(took))); ab.Frames != int64(c.f.n) || ab.Dropped != want {
				t.Errorf("counted %d frames, %d dropped, want %d and %d", ab.Frames, ab.Dropped, c.f.n, want)
			}
			between(t, "expected loss", ab.Expected, float64(ab.Dropped)-300, float64(ab.Dropped)+300)
			if counters.Links[0][1].Dropped != 0 || counters.Links[0][1].Expected != 0 {
				t.Errorf("the other direction dropped: %+v", counters.Links[0][1])
			}
			if kind == KindRelay && ab.ByClass[wire.ClassMutex] != ab.Frames {
				t.Errorf("classes %v of %d frames", ab.ByClass, ab.Frames)
			}
			l := counters.Losses
			l.Backlog = 0 // other programs' of this host
			if l != (Losses{}) {
				t.Errorf("unplanned losses %+v", l)
			}
		})
	}
}

func TestRelayLinks(t *testing.T) { testLinks(t, KindRelay) }
func TestNetemLinks(t *testing.T) { testLinks(t, KindNetem) }

func testLiveChange(t *testing.T, kind string) {
	f := build(t, line(kind, 2, link.Params{Delay: 2 * ms, Jitter: ms, Dist: link.Normal}))
	least := func(p link.Params) time.Duration {
		t.Helper()
		if err := f.SetLink(0, p, link.Params{}); err != nil {
			t.Fatal(err)
		}
		took, _ := flow{30, 64, ms, 300 * ms}.run(t, f, 0, 1)
		if d := delivered(took); len(d) > 0 {
			return d[0]
		}
		return -1
	}
	between(t, "with 30 ms", msOf(least(link.Params{Delay: 30 * ms})), 30, 30+msOf(slack))
	between(t, "without", msOf(least(link.Params{})), 0, msOf(slack))
	between(t, "all lost", msOf(least(link.Params{Loss: 1})), msOf(-1), msOf(-1))
	between(t, "uniform", msOf(least(link.Params{Delay: 20 * ms, Jitter: ms, Dist: link.Uniform})), 19, 20+msOf(slack))
	between(t, "rate", msOf(least(link.Params{Rate: 106 * 8 * 100})), 10, 10+msOf(slack)) // 64+42 bytes
	between(t, "rate off", msOf(least(link.Params{})), 0, msOf(slack))
	if err := f.SetLink(0, link.Params{Loss: 2}, link.Params{}); err == nil {
		t.Error("loss 2 was accepted")
	}
	if err := f.SetLink(1, link.Params{}, link.Params{}); err == nil {
		t.Error("link 1 of 1 was accepted")
	}
	c, err := f.Counters()
	if err != nil {
		t.Fatal(err)
	}
	// Only what was sent while all was lost counts as expected loss.
	if ab := c.Links[0][0]; ab.Frames != 6*30 || ab.Dropped != 30 || math.Abs(ab.Expected-30) > 0.01 {
		t.Errorf("counters after changes: %+v", ab)
	}
}

func TestRelayLiveChange(t *testing.T) { testLiveChange(t, KindRelay) }
func TestNetemLiveChange(t *testing.T) { testLiveChange(t, KindNetem) }

func received(t *testing.T, f *Fabric, from, to core.NodeID) int {
	t.Helper()
	took, _ := flow{5, 64, ms, 300 * ms}.run(t, f, from, to)
	return len(delivered(took))
}

func testUpDown(t *testing.T, kind string) {
	// A ring of five with routes along the line 0-1-2-3-4 only.
	cfg := line(kind, 5, link.Params{Delay: ms})
	cfg.Links = append(cfg.Links, LinkSpec{A: 0, B: 4})
	f := build(t, cfg)
	if got := received(t, f, 0, 4); got != 5 {
		t.Fatalf("over four hops: %d of 5", got)
	}
	up := func(i int, up bool) {
		t.Helper()
		if err := f.SetUp(i, up); err != nil {
			t.Fatal(err)
		}
		l := cfg.Links[i]
		for _, end := range [2]core.NodeID{l.A, l.B} {
			links, err := f.nodes[end].conn.Links()
			if err != nil {
				t.Fatal(err)
			}
			seen := false
			for _, in := range links {
				if in.Name == InterfaceName(l.A+l.B-end) {
					seen = in.Up == up && in.Carrier == up
				}
			}
			if !seen {
				t.Errorf("node %d does not see link %d up=%v: %+v", end, i, up, links)
			}
		}
	}
	up(2, false)
	up(2, false) // twice is once
	if got := receivedQuietly(f, 1, 4); got != 0 {
		t.Errorf("%d datagrams went over a link that is down", got)
	}
	// Round the other way; 2 keeps what it has, its route to 3 lies on the
	// link that is down.
	if err := f.SetRoutes([]RouteChange{{0, 4, 4}, {4, 0, 0}, {2, 4, 1}, {1, 4, 0}, {3, 2, 4}, {0, 3, core.None}}); err != nil {
		t.Fatal(err)
	}
	if got := received(t, f, 2, 4); got != 5 {
		t.Errorf("the other way: %d of 5", got)
	}
	up(2, true)
	if got := received(t, f, 2, 3); got != 5 {
		t.Errorf("route over the link was not restored: %d of 5", got)
	}
	if got := received(t, f, 1, 3); got != 5 {
		t.Errorf("forwarded route over the link was not restored: %d of 5", got)
	}
	if got := receivedQuietly(f, 0, 3); got != 0 {
		t.Errorf("deleted route still leads somewhere: %d", got)
	}
	for _, bad := range []RouteChange{{0, 3, 2}, {0, 0, 1}, {0, 9, 1}, {-1, 2, 1}} {
		if err := f.SetRoutes([]RouteChange{bad}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	for i := range f.nodes {
		n, err := f.nodes[i].conn.CountRoutes()
		want := 0
		for _, v := range f.nodes[i].via {
			if v > 0 {
				want++
			}
		}
		if err != nil || n != want {
			t.Errorf("node %d has %d routes, want %d: %v", i, n, want, err)
		}
	}
}

// receivedQuietly is received where sending itself may fail.
func receivedQuietly(f *Fabric, from, to core.NodeID) int {
	var tb quietTB
	took, _ := flow{5, 64, ms, 300 * ms}.run(&tb, f, from, to)
	return len(delivered(took))
}

// quietTB swallows errors of sending into nowhere.
type quietTB struct{ testing.TB }

func (*quietTB) Helper()               {}
func (*quietTB) Cleanup(func())        {}
func (*quietTB) Errorf(string, ...any) {}
func (*quietTB) Fatal(args ...any)     { panic(fmt.Sprint(args...)) }

func TestRelayUpDown(t *testing.T) { testUpDown(t, KindRelay) }
func TestNetemUpDown(t *testing.T) { testUpDown(t, KindNetem) }

func testNodeView(t *testing.T, kind string) {
	f := build(t, line(kind, 3, link.Params{Delay: ms}))
	nd := &f.nodes[1]
	links, err := nd.conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range links {
		names = append(names, fmt.Sprintf("%d:%s:%v:%v", l.Index, l.Name, l.Up, l.Carrier))
	}
	slices.Sort(names)
	if want := []string{"1:lo:true:true", "2:n0:true:true", "3:n2:true:true"}; !slices.Equal(names, want) {
		t.Errorf("interfaces %v, want %v", names, want)
	}
	err = f.Namespace(1).Do(func() error {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return err
		}
		if len(addrs) != 2 || addrs[1].String() != "10.77.0.1/32" {
			return fmt.Errorf("addresses %v", addrs)
		}
		b, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
		if err == nil && string(b) != "1\n" {
			err = fmt.Errorf("ip_forward is %q", b)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// testOneHop: what a node sends by one-hop multicast reaches the neighbour
// behind that interface, once, and nobody else; more neighbours than the
// kernel's usual limit of memberships are no trouble.
func testOneHop(t *testing.T, kind string) {
	const leaves = 40
	cfg := Config{Nodes: leaves + 1, Kind: kind, NextHop: func(src, dst core.NodeID) core.NodeID {
		if src == 0 {
			return dst
		}
		return 0
	}}
	for i := range leaves {
		cfg.Links = append(cfg.Links, LinkSpec{A: 0, B: core.NodeID(i + 1)})
	}
	f := build(t, cfg)
	sockets := make([]*transport.Socket, cfg.Nodes)
	var links []int
	for i := range sockets {
		err := f.Namespace(core.NodeID(i)).Do(func() (err error) {
			if sockets[i], err = transport.Listen(netip.AddrPortFrom(Addr(core.NodeID(i)), wire.Port)); err != nil {
				return err
			}
			names := []string{InterfaceName(0)}
			if i == 0 {
				names = names[:0]
				for k := range leaves {
					names = append(names, InterfaceName(core.NodeID(k+1)))
				}
			}
			n, err := sockets[i].Join(append(names, "n9999"))
			if n[len(n)-1] != 0 {
				return fmt.Errorf("an interface that does not exist has number %d", n[len(n)-1])
			}
			if i == 0 {
				links = n
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := sockets[i].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for k := 0; k < leaves; k += 2 {
		if err := sockets[0].SendOneHop(links[k], func(b []byte) []byte { return append(b, wire.Version, byte(wire.ClassMutex), byte(k)) }); err != nil {
			t.Fatal(err)
		}
	}
	// And by unicast to all, which comes last.
	for k := range leaves {
		if err := sockets[0].Send(Addr(core.NodeID(k+1)), func(b []byte) []byte { return append(b, 'e', 'n', 'd') }); err != nil {
			t.Fatal(err)
		}
	}
	if err := sockets[0].Flush(); err != nil {
		t.Fatal(err)
	}
	for k := range leaves {
		var got []string
		for deadline := time.Now().Add(10 * time.Second); len(got) == 0 || k%2 == 0 && len(got) < 2; {
			if err := sockets[k+1].Wait(time.Until(deadline)); err != nil {
				t.Fatal(err)
			}
			if _, err := sockets[k+1].Receive(func(b []byte) { got = append(got, string(b)) }); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("leaf %d got %q", k+1, got)
			}
		}
		want := []string{"end"}
		if k%2 == 0 {
			want = []string{string([]byte{wire.Version, byte(wire.ClassMutex), byte(k)}), "end"}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("leaf %d got %q, want %q", k+1, got, want)
		}
	}
	if kind != KindRelay {
		return
	}
	c, err := f.Counters()
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Links {
		to, back := c.Links[i][0], c.Links[i][1]
		if want := int64(1 + (i+1)%2); to.Frames != want || back.Frames != 0 {
			t.Errorf("link %d: %d frames there and %d back, want %d and none: no reports of memberships", i, to.Frames, back.Frames, want)
		}
		if want := int64((i + 1) % 2); to.ByClass[wire.ClassMutex] != want {
			t.Errorf("link %d: %d frames of mutual exclusion, want %d", i, to.ByClass[wire.ClassMutex], want)
		}
	}
}

func TestRelayOneHop(t *testing.T) { testOneHop(t, KindRelay) }
func TestNetemOneHop(t *testing.T) { testOneHop(t, KindNetem) }

func TestRelayNodeView(t *testing.T) { testNodeView(t, KindRelay) }
func TestNetemNodeView(t *testing.T) { testNodeView(t, KindNetem) }

// testNothingLeft hangs a witness on every namespace: a veth end outside
// whose peer is inside. It must be gone when Close returns.
func testNothingLeft(t *testing.T, kind string) {
	require(t, kind)
	outside, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	c, err := kernel.Open(outside, "witness")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = c.Close(), outside.Close() }()
	before := openFiles(t)
	f, err := New(context.Background(), line(kind, 20, link.Params{Delay: ms}))
	if err != nil {
		t.Fatal(err)
	}
	took, _ := flow{10, 64, ms, 200 * ms}.run(t, f, 0, 19)
	if len(delivered(took)) != 10 {
		t.Errorf("line of 20: %v", took)
	}
	if _, err := f.Counters(); err != nil {
		t.Fatal(err)
	}
	b := c.Batch()
	inside := append([]*netns.Handle{f.Wire()}, f.Namespace(0), f.Namespace(7), f.Namespace(19))
	for i, ns := range inside {
		b.Veth(kernel.End{NS: outside, Name: fmt.Sprint("o", i), Index: int32(2 + i), MAC: mac(2, i, 0)},
			kernel.End{NS: ns, Name: "witness", Index: 9999, MAC: mac(2, i, 1)}, MTU)
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	for i := range inside {
		if i == 0 {
			continue // the wire namespace goes last and is not waited for
		}
		if there, err := c.HasLink(int32(2 + i)); err != nil || there {
			t.Errorf("namespace %d outlived Close: %v", i, err)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(ms) {
		there, err := c.HasLink(2)
		if err != nil {
			t.Fatal(err)
		}
		if !there {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the wire namespace outlived Close")
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files open, %d before", after, before)
	}
	if err := f.SetUp(0, false); !errors.Is(err, ErrClosed) {
		t.Errorf("SetUp after Close: %v", err)
	}
	if err := f.SetLink(0, link.Params{}, link.Params{}); !errors.Is(err, ErrClosed) {
		t.Errorf("SetLink after Close: %v", err)
	}
}

func TestRelayNothingLeft(t *testing.T) { testNothingLeft(t, KindRelay) }
func TestNetemNothingLeft(t *testing.T) { testNothingLeft(t, KindNetem) }

func openFiles(t *testing.T) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	require(t, KindRelay)
	if _, err := netns.Current(); err != nil { // opens the handle of the process's namespace
		t.Fatal(err)
	}
	before := openFiles(t)
	ctx, cancel := context.WithCancel(context.Background())
	cfg := line(KindRelay, 50, link.Params{})
	cfg.Progress = func(stage string, _, _ int) {
		if stage == "links" {
			cancel()
		}
	}
	if f, err := New(ctx, cfg); !errors.Is(err, context.Canceled) || f != nil {
		t.Errorf("got %v, %v", f, err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files open, %d before", after, before)
	}
}

// TestRelayIsRepeatable: the same seed loses the same frames.
func TestRelayIsRepeatable(t *testing.T) {
	lost := func(seed uint64) string {
		cfg := line(KindRelay, 2, link.Params{Loss: 0.3})
		cfg.Seed = seed
		took, _ := flow{200, 64, ms / 5, 500 * ms}.run(t, build(t, cfg), 0, 1)
		s := make([]byte, len(took))
		for k, d := range took {
			s[k] = '.'
			if d < 0 {
				s[k] = 'x'
			}
		}
		return string(s)
	}
	a, b, other := lost(5), lost(5), lost(6)
	if a != b {
		t.Errorf("one seed, two patterns:\n%s\n%s", a, b)
	}
	if a == other {
		t.Error("two seeds, one pattern")
	}
}

func TestConfigErrors(t *testing.T) {
	ok := line(KindRelay, 3, link.Params{})
	for name, change := range map[string]func(*Config){
		"no nodes":       func(c *Config) { c.Nodes = 0 },
		"too many nodes": func(c *Config) { c.Nodes = core.MaxNodes + 1 },
		"kind":           func(c *Config) { c.Kind = "tunnel" },
		"loop":           func(c *Config) { c.Links[0].A = 1 },
		"beyond":         func(c *Config) { c.Links[0].B = 3 },
		"negative":       func(c *Config) { c.Links[0].A = -1 },
		"twice":          func(c *Config) { c.Links[1] = LinkSpec{A: 1, B: 0} },
		"loss":           func(c *Config) { c.Links[1].BA.Loss = -0.1 },
	} {
		c := ok
		c.Links = slices.Clone(ok.Links)
		change(&c)
		if f, err := New(context.Background(), c); err == nil || f != nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestAddr(t *testing.T) {
	for id, want := range map[core.NodeID]string{0: "10.77.0.0", 255: "10.77.0.255", 256: "10.77.1.0", core.MaxNodes - 1: "10.77.255.255"} {
		if got := Addr(id).String(); got != want {
			t.Errorf("node %d has %s, want %s", id, got, want)
		}
	}
	if n := len(InterfaceName(core.MaxNodes - 1)); n > kernel.MaxName {
		t.Errorf("interface name has %d bytes", n)
	}
}

func TestClassOf(t *testing.T) {
	frame := make([]byte, 60)
	frame[ethLen], frame[ipProto] = 0x45, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(frame[udpDst:], wire.Port)
	frame[udpData], frame[udpData+1] = wire.Version, byte(wire.ClassProbe)|1<<3
	if c, ok := classOf(frame); !ok || c != wire.ClassProbe {
		t.Errorf("class %v %v", c, ok)
	}
	for name, change := range map[string]func([]byte){
		"tcp":      func(b []byte) { b[ipProto] = 6 },
		"port":     func(b []byte) { b[udpDst]++ },
		"fragment": func(b []byte) { b[ipFragment+1] = 1 },
		"version":  func(b []byte) { b[udpData]++ },
		"class":    func(b []byte) { b[udpData+1] = 7 },
	} {
		b := slices.Clone(frame)
		change(b)
		if _, ok := classOf(b); ok {
			t.Errorf("%s: still classified", name)
		}
	}
}

func FuzzClassOf(f *testing.F) {
	f.Add(make([]byte, 60))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, ok := classOf(b); ok && c >= wire.NumClasses {
			t.Errorf("class %d", c)
		}
	})
}
