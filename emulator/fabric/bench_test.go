package fabric

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"churnbed/emulator/link"
	"churnbed/node/core"
	"churnbed/node/wire"

	"golang.org/x/sys/unix"
)

// grid returns an n x n grid without routes and the rule for those along x,
// then y.
func grid(n int, kind string, p link.Params) (Config, func(a, b core.NodeID) core.NodeID) {
	c := Config{Nodes: n * n, Kind: kind, Seed: 1}
	for y := range n {
		for x := range n {
			id := core.NodeID(y*n + x)
			if x+1 < n {
				c.Links = append(c.Links, LinkSpec{id, id + 1, p, p})
			}
			if y+1 < n {
				c.Links = append(c.Links, LinkSpec{id, id + core.NodeID(n), p, p})
			}
		}
	}
	return c, func(a, b core.NodeID) core.NodeID {
		ax, bx := int(a)%n, int(b)%n
		switch {
		case ax < bx:
			return a + 1
		case ax > bx:
			return a - 1
		case a < b:
			return a + core.NodeID(n)
		default:
			return a - core.NodeID(n)
		}
	}
}

// disc returns n nodes placed at random in side x side metres, joined within
// radius.
func disc(n int, side, radius float64, kind string, p link.Params) Config {
	c := Config{Nodes: n, Kind: kind, Seed: 1}
	rng := core.Stream(1, "bench")
	at := make([][2]float64, n)
	for i := range at {
		at[i] = [2]float64{rng.Float64() * side, rng.Float64() * side}
		for k := range i {
			dx, dy := at[i][0]-at[k][0], at[i][1]-at[k][1]
			if dx*dx+dy*dy <= radius*radius {
				c.Links = append(c.Links, LinkSpec{core.NodeID(k), core.NodeID(i), p, p})
			}
		}
	}
	return c
}

// BenchmarkBringUp builds a mesh without routes and takes it down.
func BenchmarkBringUp(b *testing.B) {
	p := link.Params{Delay: 5 * ms}
	for _, kind := range []string{KindNetem, KindRelay} {
		type mesh struct {
			shape string
			Config
		}
		var cases []mesh
		for _, n := range []int{10, 23, 32} {
			c, _ := grid(n, kind, p)
			cases = append(cases, mesh{"grid", c})
		}
		cases = append(cases, mesh{"dense", disc(256, 15, 4, kind, p)})
		for _, c := range cases {
			b.Run(fmt.Sprintf("%s/%s%d", kind, c.shape, c.Nodes), func(b *testing.B) {
				require(b, kind)
				var up, down time.Duration
				for b.Loop() {
					t := time.Now()
					f, err := New(context.Background(), c.Config)
					if err != nil {
						b.Fatal(err)
					}
					up += time.Since(t)
					t = time.Now()
					if err := f.Close(); err != nil {
						b.Fatal(err)
					}
					down += time.Since(t)
				}
				b.ReportMetric(float64(len(c.Links)), "links")
				b.ReportMetric(up.Seconds()*1e3/float64(b.N), "up-ms")
				b.ReportMetric(down.Seconds()*1e3/float64(b.N), "down-ms")
			})
		}
	}
}

// BenchmarkRoutes installs and changes all routes of a grid.
func BenchmarkRoutes(b *testing.B) {
	for _, n := range []int{16, 32} {
		c, next := grid(n, KindRelay, link.Params{})
		b.Run(fmt.Sprintf("grid%d", c.Nodes), func(b *testing.B) {
			require(b, KindRelay)
			var add time.Duration
			for b.Loop() {
				f, err := New(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				var all []RouteChange
				for i := range c.Nodes {
					for d := range c.Nodes {
						if d != i {
							s, t := core.NodeID(i), core.NodeID(d)
							all = append(all, RouteChange{s, t, next(s, t)})
						}
					}
				}
				t := time.Now()
				if err := f.SetRoutes(all); err != nil {
					b.Fatal(err)
				}
				add += time.Since(t)
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
			routes := float64(c.Nodes * (c.Nodes - 1))
			b.ReportMetric(add.Seconds()*1e3/float64(b.N), "routes-ms")
			b.ReportMetric(add.Seconds()/float64(b.N)/routes*1e6, "us/route")
		})
	}
}

// BenchmarkLinkChanges takes links down and up and changes their parameters
// on a mesh with routes.
func BenchmarkLinkChanges(b *testing.B) {
	require(b, KindRelay)
	c, next := grid(16, KindRelay, link.Params{Delay: ms})
	c.NextHop = next
	f, err := New(context.Background(), c)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	b.Run("down-up", func(b *testing.B) {
		for b.Loop() {
			if err := f.SetUp(100, false); err != nil {
				b.Fatal(err)
			}
			if err := f.SetUp(100, true); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("set", func(b *testing.B) {
		for b.Loop() {
			if err := f.SetLink(100, link.Params{Delay: ms}, link.Params{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("counters", func(b *testing.B) {
		for b.Loop() {
			if _, err := f.Counters(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRelay pushes frames through the relay as fast as senders can, and
// reports frames a second of processor time of the relay's own thread, which is
// what one core forwards (the senders use another), and a second of the wall.
func BenchmarkRelay(b *testing.B) {
	require(b, KindRelay)
	const pairs = 8
	p := link.Params{Delay: 2 * ms}
	cfg := Config{Nodes: 2 * pairs, Kind: KindRelay, Seed: 1}
	cfg.NextHop = func(a, d core.NodeID) core.NodeID {
		if a^1 == d {
			return d
		}
		return core.None
	}
	for i := range pairs {
		cfg.Links = append(cfg.Links, LinkSpec{core.NodeID(2 * i), core.NodeID(2*i + 1), p, p})
	}
	f, err := New(context.Background(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r := f.back.(*relay)
	cpu := func() (d time.Duration) {
		err := r.do(func() {
			var u unix.Rusage
			if unix.Getrusage(unix.RUSAGE_THREAD, &u) == nil {
				d = time.Duration(u.Utime.Nano() + u.Stime.Nano())
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		return d
	}
	frames := func() (n int64) {
		c, err := f.Counters()
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range c.Links {
			n += l[0].Frames + l[1].Frames
		}
		return n
	}
	const perRound = 20_000
	var conns [pairs]int
	for i := range conns {
		c := open(b, f, core.NodeID(2*i))
		raw, err := c.SyscallConn()
		if err != nil {
			b.Fatal(err)
		}
		if err := c.SetWriteBuffer(4 << 20); err != nil {
			b.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) { conns[i] = int(fd) }); err != nil {
			b.Fatal(err)
		}
		sink := open(b, f, core.NodeID(2*i+1))
		go func() {
			buf := make([]byte, 2048)
			for {
				if _, err := sink.Read(buf); err != nil {
					return
				}
			}
		}()
	}
	cpu0, n0, t0 := cpu(), frames(), time.Now()
	f.Lateness()
	msg := make([]byte, 100)
	msg[0], msg[1] = wire.Version, byte(wire.ClassMutex)
	for b.Loop() {
		for k := range perRound {
			i := k % pairs
			a := Addr(core.NodeID(2*i + 1)).As4()
			_ = unix.Sendto(conns[i], msg, unix.MSG_DONTWAIT, &unix.SockaddrInet4{Port: wire.Port, Addr: a})
		}
	}
	elapsed := time.Since(t0)
	time.Sleep(50 * ms) // the last are under way
	n, spent, late := frames()-n0, cpu()-cpu0, f.Lateness()
	b.ReportMetric(float64(n)/elapsed.Seconds(), "wall-frames/s")
	b.ReportMetric(float64(n)/spent.Seconds(), "frames/s")
	b.ReportMetric(float64(late.P99)/1e3, "late-p99-us")
	c, err := f.Counters()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(c.Losses.RelaySocket+c.Losses.RelaySend)/float64(n), "lost-share")
}

// BenchmarkRelayDelay reports how much the relay adds to the configured
// delay of one hop, at 20,000 frames a second.
func BenchmarkRelayDelay(b *testing.B) {
	require(b, KindRelay)
	const delay = 10 * ms
	f, err := New(context.Background(), line(KindRelay, 2, link.Params{Delay: delay}))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	src, dst := open(b, f, 0), open(b, f, 1)
	stamp(b, dst)
	const perRound = 5000
	var added []float64
	for b.Loop() {
		sent, got := make([]time.Time, perRound), make([]time.Duration, perRound)
		var wg sync.WaitGroup
		wg.Go(func() { readStamps(dst, got) })
		buf := make([]byte, 64)
		rng := rand.New(rand.NewPCG(1, 1))
		for k := range sent {
			buf[2], buf[3] = byte(k>>8), byte(k)
			sent[k] = time.Now()
			if _, err := src.WriteToUDPAddrPort(buf, netip.AddrPortFrom(Addr(1), wire.Port)); err != nil {
				b.Fatal(err)
			}
			for until := sent[k].Add(time.Duration(20+rng.IntN(60)) * time.Microsecond); time.Now().Before(until); {
			}
		}
		if err := dst.SetReadDeadline(time.Now().Add(100 * ms)); err != nil {
			b.Fatal(err)
		}
		wg.Wait()
		for k := range sent {
			if got[k] != 0 {
				added = append(added, float64(got[k]-time.Duration(sent[k].UnixNano())-delay)/1e3)
			}
		}
	}
	slices.Sort(added)
	if len(added) == 0 {
		b.Fatal("nothing arrived")
	}
	b.ReportMetric(added[len(added)/2], "p50-us")
	b.ReportMetric(added[len(added)*99/100], "p99-us")
	late := f.Lateness()
	b.ReportMetric(float64(late.P50)/1e3, "late-p50-us")
	b.ReportMetric(float64(late.P99)/1e3, "late-p99-us")
}

// readStamps notes the kernel's instants of arrival (wall clock, ns), so that
// the reader's own scheduling does not count.
func readStamps(c *net.UDPConn, got []time.Duration) {
	if c.SetReadDeadline(time.Time{}) != nil {
		return
	}
	buf, oob := make([]byte, 2048), make([]byte, 128)
	for {
		_, n, _, _, err := c.ReadMsgUDP(buf, oob)
		if err != nil {
			return
		}
		msgs, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil || len(msgs) == 0 || len(msgs[0].Data) < 16 {
			continue
		}
		sec, nsec := binary.NativeEndian.Uint64(msgs[0].Data), binary.NativeEndian.Uint64(msgs[0].Data[8:])
		if k := int(buf[2])<<8 | int(buf[3]); k < len(got) {
			got[k] = time.Duration(sec)*time.Second + time.Duration(nsec)
		}
	}
}

func stamp(tb testing.TB, c *net.UDPConn) {
	tb.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		tb.Fatal(err)
	}
	var serr error
	err = raw.Control(func(fd uintptr) {
		serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil || serr != nil {
		tb.Fatal(err, serr)
	}
}
