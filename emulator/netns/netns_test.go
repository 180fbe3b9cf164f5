package netns_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"churnbed/emulator/netns"

	"golang.org/x/sys/unix"
)

func newOrSkip(tb testing.TB) *netns.Handle {
	tb.Helper()
	h, err := netns.New()
	if errors.Is(err, unix.EPERM) {
		tb.Skip("skip: no CAP_SYS_ADMIN: run as root or inside a user namespace")
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := h.Close(); err != nil {
			tb.Error(err)
		}
	})
	return h
}

func TestNewIsEmptyAndApart(t *testing.T) {
	h := newOrSkip(t)
	own, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if h.ID() == own.ID() {
		t.Fatal("new namespace is the process's own")
	}
	err = h.Do(func() error {
		ifs, err := net.Interfaces()
		if err != nil {
			return err
		}
		if len(ifs) != 1 || ifs[0].Name != "lo" || ifs[0].Flags&net.FlagUp != 0 {
			return fmt.Errorf("interfaces of a new namespace: %v", ifs)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDoRestoresThreads(t *testing.T) {
	h := newOrSkip(t)
	own, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	link := func() string {
		s, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			return err.Error()
		}
		return s
	}
	want := link()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				sentinel := errors.New("from inside")
				err := h.Do(func() error {
					if link() == want {
						return errors.New("still outside")
					}
					return sentinel
				})
				if !errors.Is(err, sentinel) {
					t.Error(err)
					return
				}
				if got := link(); got != want {
					t.Errorf("thread stayed in %s, want %s", got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestCloseIsFinal(t *testing.T) {
	h := newOrSkip(t)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Do(func() error { return nil }); !errors.Is(err, netns.ErrClosed) {
		t.Fatalf("Do on a closed handle: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatalf("second Close: %v", err)
	}
	if h.FD() != -1 || h.ID() != "" {
		t.Fatalf("closed handle has fd %d id %q", h.FD(), h.ID())
	}
}

func TestStartRunsInside(t *testing.T) {
	h := newOrSkip(t)
	var inside string
	if err := h.Do(func() (err error) {
		inside, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("readlink", "/proc/self/ns/net")
	var out strings.Builder
	cmd.Stdout = &out
	if err := h.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(out.String()); got != inside {
		t.Fatalf("process ran in %s, want %s", got, inside)
	}
}

func TestNewMany(t *testing.T) {
	newOrSkip(t)
	hs, err := netns.NewMany(40)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, h := range hs {
		seen[h.ID()] = true
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(seen) != 40 {
		t.Fatalf("%d different namespaces, want 40", len(seen))
	}
}

func BenchmarkNewMany(b *testing.B) {
	newOrSkip(b)
	for _, n := range []int{256, 1024} {
		b.Run(fmt.Sprintf("namespaces=%d", n), func(b *testing.B) {
			for b.Loop() {
				hs, err := netns.NewMany(n)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				for _, h := range hs {
					if err := h.Close(); err != nil {
						b.Error(err)
					}
				}
				b.StartTimer()
			}
		})
	}
}

func BenchmarkDo(b *testing.B) {
	h := newOrSkip(b)
	for b.Loop() {
		if err := h.Do(func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
