// Package netns makes network namespaces and runs code inside them. It is the
// only place of the testbed that locks goroutines to threads for the sake of
// a namespace: everything else receives a Handle.
//
// A namespace made here has no name and no mount: it lives as long as a file
// descriptor, a process or a socket refers to it, so nothing is left behind
// when the process that made it dies, however it dies.
//
// Why not vishvananda/netns or containernetworking/plugins/pkg/ns alone: both
// find the namespace of the current thread by a path under /proc, which fails
// where the visible /proc belongs to another pid namespace (as it does in a
// sandbox before its own /proc is mounted). Here the descriptor comes from a
// socket (SIOCGSKNS, Linux 4.9), which needs no /proc; the path is the
// fall-back. The handles themselves are netns.NsHandle.
//
// It is not a container runtime: it knows nothing of user, pid and mount
// namespaces. All functions may be called from any goroutine.
package netns

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrClosed is returned by operations on a closed Handle.
var ErrClosed = errors.New("network namespace is closed")

// errGone stands where the function ended its goroutine (runtime.Goexit)
// instead of returning.
var errGone = errors.New("function inside network namespace did not return")

// Handle refers to a network namespace and keeps it alive until Close.
type Handle struct {
	mu sync.RWMutex // held for reading while the descriptor is in use
	fd netns.NsHandle
}

// home is the namespace of the process, in which every thread that is not
// locked runs.
var home = sync.OnceValues(func() (netns.NsHandle, error) {
	// A fresh goroutine never runs on a thread that another goroutine has
	// locked, so this is the namespace of ordinary threads even where the
	// first caller sits in a namespace of its own.
	type result struct {
		fd  netns.NsHandle
		err error
	}
	c := make(chan result)
	go func() {
		fd, err := current()
		c <- result{fd, err}
	}()
	r := <-c
	return r.fd, r.err
})

// current returns a descriptor of the calling thread's namespace.
func current() (netns.NsHandle, error) {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(s)
		var fd int
		fd, err = unix.IoctlRetInt(s, unix.SIOCGSKNS)
		if err == nil {
			unix.CloseOnExec(fd)
			return netns.NsHandle(fd), nil
		}
	}
	// SIOCGSKNS asks for CAP_NET_ADMIN over the namespace; the path does not.
	fd, perr := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if perr != nil {
		return netns.None(), fmt.Errorf("open network namespace of thread: %w", errors.Join(err, perr))
	}
	return netns.NsHandle(fd), nil
}

// onThread runs f on a locked thread that is afterwards back in the
// namespace of the process, or else is thrown away.
func onThread(f func() error) error {
	back, err := home()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := errGone
		defer func() {
			if netns.Set(back) == nil {
				runtime.UnlockOSThread()
			} // else the goroutine ends locked and takes its thread with it
			done <- err
		}()
		err = f()
	}()
	return <-done
}

// New makes an empty network namespace (its loopback is down).
// It needs CAP_SYS_ADMIN in the user namespace of the process.
func New() (*Handle, error) {
	h := []*Handle{nil}
	if err := fill(h); err != nil {
		return nil, err
	}
	return h[0], nil
}

// NewMany makes n namespaces, on all processors at once. On an error none
// is left.
func NewMany(n int) ([]*Handle, error) {
	hs := make([]*Handle, n)
	workers := min(runtime.GOMAXPROCS(0), (n+15)/16)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { errs[w] = fill(hs[n*w/workers : n*(w+1)/workers]) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, h := range hs {
			if h != nil {
				err = errors.Join(err, h.Close())
			}
		}
		return nil, err
	}
	return hs, nil
}

func fill(hs []*Handle) error {
	return onThread(func() error {
		for i := range hs {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("make network namespace: %w", err)
			}
			fd, err := current()
			if err != nil {
				return err
			}
			hs[i] = &Handle{fd: fd}
		}
		return nil
	})
}

// Current returns a handle of the namespace of the process (not of the
// calling goroutine where that runs inside Do).
func Current() (*Handle, error) {
	fd, err := home()
	if err != nil {
		return nil, err
	}
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate namespace descriptor: %w", err)
	}
	return &Handle{fd: netns.NsHandle(n)}, nil
}

// FD returns the descriptor, which stays the Handle's; -1 once closed.
func (h *Handle) FD() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return int(h.fd)
}

// ID returns the namespace's identity (device and inode number), which is
// equal for two handles of one namespace, or "" once closed.
func (h *Handle) ID() string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if !h.fd.IsOpen() {
		return ""
	}
	return h.fd.UniqueId()
}

// Close gives the descriptor up; it waits for calls of Do that are running.
// The namespace goes when nothing else refers to it. A second Close does
// nothing.
func (h *Handle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.fd.IsOpen() {
		return nil
	}
	if err := h.fd.Close(); err != nil {
		return fmt.Errorf("close network namespace: %w", err)
	}
	return nil
}

// Do runs f on a thread inside the namespace and returns its error. f must
// not unlock its thread; goroutines that it starts run outside. Sockets that
// it opens stay in the namespace wherever they are used later.
func (h *Handle) Do(f func() error) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if !h.fd.IsOpen() {
		return ErrClosed
	}
	return onThread(func() error {
		if err := netns.Set(h.fd); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// Start starts cmd inside the namespace. Where cmd.SysProcAttr.Pdeathsig is
// set, note that the signal follows the death of the starting thread, which
// is not under the caller's control.
func (h *Handle) Start(cmd *exec.Cmd) error {
	return h.Do(cmd.Start)
}
