package transport_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"churnbed/node/transport"
)

// listen opens a socket on its own loopback address, since all ends of a mesh
// use one port.
func listen(t testing.TB, host byte, port uint16) *transport.Socket {
	t.Helper()
	s, err := transport.Listen(netip.AddrPortFrom(loopback(host), port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, unix.EBADF) {
			t.Error(err)
		}
	})
	return s
}

func loopback(host byte) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 66, byte(os.Getpid()), host})
}

// port is a free one, the same for all addresses of the test.
func port(t testing.TB) uint16 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{}); err != nil {
		t.Fatal(err)
	}
	a, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(a.(*unix.SockaddrInet4).Port)
}

func sendNumber(t testing.TB, s *transport.Socket, to byte, n uint64) {
	t.Helper()
	if err := s.Send(loopback(to), func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, n) }); err != nil {
		t.Fatal(err)
	}
}

// collect reads numbers until it has so many or a deadline has passed.
func collect(t testing.TB, s *transport.Socket, want int) (got []uint64) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); len(got) < want && time.Now().Before(end); {
		if err := s.Wait(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Receive(func(b []byte) { got = append(got, binary.BigEndian.Uint64(b)) }); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// Datagrams arrive in order over many batches, the last, partial one after
// Flush only.
func TestBatches(t *testing.T) {
	p := port(t)
	a, b := listen(t, 1, p), listen(t, 2, p)
	const count = 64*5 + 7
	for n := range uint64(count) {
		sendNumber(t, a, 2, n)
	}
	got := collect(t, b, 64*5)
	if len(got) != 64*5 {
		t.Fatalf("%d datagrams before Flush, want the full batches", len(got))
	}
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	got = append(got, collect(t, b, 7)...)
	if !slices.IsSorted(got) || len(got) != count || got[count-1] != count-1 {
		t.Errorf("%d datagrams, want %d in order", len(got), count)
	}
	if a.Failed != 0 {
		t.Errorf("%d failed", a.Failed)
	}
	if n, err := b.Receive(func([]byte) { t.Error("one more") }); n != 0 || err != nil {
		t.Errorf("%d more, %v", n, err)
	}
}

// Sizes up to the largest frame arrive whole; a batch goes to several nodes.
func TestSizes(t *testing.T) {
	p := port(t)
	a, b, c := listen(t, 1, p), listen(t, 2, p), listen(t, 3, p)
	sizes := []int{1, 8, 100, 1400, 9}
	for i, size := range sizes {
		to := loopback(byte(2 + i%2))
		if err := a.Send(to, func(b []byte) []byte { return append(b, make([]byte, size)...) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[*transport.Socket][]int{b: {1, 100, 9}, c: {8, 1400}} {
		var got []int
		for end := time.Now().Add(20 * time.Second); len(got) < len(want) && time.Now().Before(end); {
			if _, err := s.Receive(func(b []byte) { got = append(got, len(b)) }); err != nil {
				t.Fatal(err)
			}
			if err := s.Wait(10 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("sizes %v, want %v", got, want)
		}
	}
}

// What the kernel refuses is counted and lost, and the rest of the batch goes
// out.
func TestRefused(t *testing.T) {
	p := port(t)
	a, b := listen(t, 1, p), listen(t, 2, p)
	sendNumber(t, a, 2, 1)
	nowhere := netip.MustParseAddr("255.255.255.255") // broadcast without leave: EACCES
	for range 2 {
		if err := a.Send(nowhere, func(b []byte) []byte { return append(b, 1) }); err != nil {
			t.Fatal(err)
		}
	}
	sendNumber(t, a, 2, 2)
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, b, 2); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("got %v", got)
	}
	if a.Failed != 2 {
		t.Errorf("%d refused, want 2", a.Failed)
	}
}

// Nobody listening at the other end is no error, now or later.
func TestNobodyListens(t *testing.T) {
	p := port(t)
	a, b := listen(t, 1, p), listen(t, 2, p)
	for n := range uint64(5) {
		sendNumber(t, a, 9, n)
		if err := a.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Receive(func([]byte) { t.Error("something came back") }); err != nil {
			t.Fatal(err)
		}
	}
	sendNumber(t, a, 2, 7)
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, b, 1); !slices.Equal(got, []uint64{7}) {
		t.Errorf("got %v", got)
	}
}

func TestWait(t *testing.T) {
	s := listen(t, 1, port(t))
	for _, timeout := range []time.Duration{0, 1, time.Microsecond, 3 * time.Millisecond} {
		start := time.Now()
		if err := s.Wait(timeout); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < timeout {
			t.Errorf("waited %v, want at least %v", took, timeout)
		}
	}
	// Wakes before and during a wait end it; several count as one.
	s.Wake()
	s.Wake()
	if err := s.Wait(-1); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := s.Wait(5 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if time.Since(start) < 5*time.Millisecond {
		t.Error("an old Wake ended a later wait")
	}
	done := make(chan error)
	go func() { done <- s.Wait(-1) }()
	s.Wake()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Wake did not end the wait")
	}
}

// A Wake after Close touches nobody's descriptor.
func TestWakeAfterClose(t *testing.T) {
	s, err := transport.Listen(netip.AddrPortFrom(loopback(1), port(t)))
	if err != nil {
		t.Fatal(err)
	}
	var wakers sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wakers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.Wake()
				}
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for i := range 8 { // take the descriptors that are free now
		f, err := os.CreateTemp(t.TempDir(), fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	for range 1000 {
		s.Wake()
	}
	close(stop)
	wakers.Wait()
	for _, f := range files {
		if st, err := f.Stat(); err != nil || st.Size() != 0 {
			t.Errorf("%v was written to: %v", f.Name(), err)
		}
		f.Close()
	}
}

func TestListenErrors(t *testing.T) {
	p := port(t)
	listen(t, 1, p)
	for addr, want := range map[netip.AddrPort]error{
		netip.AddrPortFrom(loopback(1), p):                       unix.EADDRINUSE,
		netip.AddrPortFrom(netip.MustParseAddr("192.0.2.77"), p): unix.EADDRNOTAVAIL,
	} {
		if s, err := transport.Listen(addr); !errors.Is(err, want) {
			t.Errorf("listen on %v: %v, %v; want %v", addr, s, err, want)
		}
	}
}

func TestReceiveBuffer(t *testing.T) {
	if s := listen(t, 1, port(t)); s.ReceiveBuffer < 100_000 {
		t.Errorf("receive buffer is %d bytes", s.ReceiveBuffer)
	}
}

func TestClock(t *testing.T) {
	for _, scale := range []float64{1, 2, 0.01, 3.7} {
		c := transport.NewClock(1e9, scale)
		if at := c.At(1e9); at != 0 {
			t.Errorf("scale %v: zero is %v", scale, at)
		}
		if at, want := c.At(1e9+37e8), 3.7e9/scale; (float64(at)-want) > 1 || float64(at)-want < -1 {
			t.Errorf("scale %v: 3.7 s real are %v", scale, at)
		}
		if d := c.Real(time.Second).Seconds(); d-scale > 1e-9 || scale-d > 1e-9 {
			t.Errorf("scale %v: a scenario second lasts %v s", scale, d)
		}
		a := c.Now()
		if b := c.Now(); b < a {
			t.Errorf("time went from %v to %v", a, b)
		}
	}
}

func BenchmarkSendReceive(b *testing.B) {
	p := port(b)
	s, r := listen(b, 1, p), listen(b, 2, p)
	b.ReportAllocs()
	got := 0
	for b.Loop() {
		for n := range uint64(64) {
			sendNumber(b, s, 2, n)
		}
		for want := got + 64; got < want; {
			n, err := r.Receive(func([]byte) {})
			if err != nil || n == 0 {
				b.Fatal(n, err)
			}
			got += n
		}
	}
	b.ReportMetric(float64(got)/b.Elapsed().Seconds(), "datagrams/s")
}
