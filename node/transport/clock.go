package transport

import (
	"time"

	"golang.org/x/sys/unix"

	"churnbed/node/core"
)

// Clock turns CLOCK_MONOTONIC into scenario time. All processes of a host
// share that clock, so their instants compare exactly.
type Clock struct {
	zero  int64 // CLOCK_MONOTONIC of scenario time 0, ns
	scale float64
}

// Monotonic reads CLOCK_MONOTONIC in nanoseconds.
func Monotonic() int64 {
	var ts unix.Timespec
	// Cannot fail: the clock exists on every Linux.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// NewClock returns the clock of a run whose scenario time 0 is at zero
// (CLOCK_MONOTONIC, ns) and whose scenario seconds last scale real seconds.
func NewClock(zero int64, scale float64) Clock { return Clock{zero: zero, scale: scale} }

// Now is the present instant.
func (c Clock) Now() core.Instant { return c.At(Monotonic()) }

// At is the instant at which CLOCK_MONOTONIC shows mono.
func (c Clock) At(mono int64) core.Instant {
	if c.scale == 1 {
		return core.Instant(mono - c.zero)
	}
	return core.Instant(float64(mono-c.zero) / c.scale)
}

// Real is how long the scenario time d lasts.
func (c Clock) Real(d time.Duration) time.Duration {
	if c.scale == 1 {
		return d
	}
	return time.Duration(float64(d) * c.scale)
}
