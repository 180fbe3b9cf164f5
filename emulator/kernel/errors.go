// Package kernel is the only place of the testbed that speaks netlink,
// ethtool and sysctl: links, addresses, neighbours, routes, queueing
// disciplines, counters, and the probes which tell what this kernel allows.
//
// It knows namespaces and interfaces, not nodes and topologies: see
// emulator/fabric. It never touches a namespace that it was not handed, and
// writes sysctls only through a handle.
//
// A Conn and its Batch serve one goroutine at a time; different Conns are
// independent (the kernel itself serialises changes by one lock).
package kernel

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// OpError is a failure at the kernel's edge: what was tried, on what, where,
// and the cause (usually a unix.Errno, see errors.As).
type OpError struct {
	Op        string // "create veth", "add route", ...
	Object    string // interface, route, file
	Namespace string // name given to Open, may be empty
	Err       error
}

func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Object != "" {
		b.WriteString(" " + e.Object)
	}
	if e.Namespace != "" {
		b.WriteString(" in namespace " + e.Namespace)
	}
	return b.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Missing says that the host lacks something, and what would help. The
// command line maps it to exit code 3.
type Missing struct {
	Capability string
	Remedy     string
	Err        error // what the probe got, may be nil
}

func (e *Missing) Error() string {
	s := "missing " + e.Capability
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Missing) Unwrap() error { return e.Err }

// kernelError is an errno with the kernel's own words (extended
// acknowledgement).
type kernelError struct {
	errno unix.Errno
	text  string
}

func (e *kernelError) Error() string { return fmt.Sprintf("%v (%s)", e.errno, e.text) }
func (e *kernelError) Unwrap() error { return e.errno }

// transient reports errors after which the same request may succeed.
func transient(err error) bool {
	return errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EBUSY)
}
