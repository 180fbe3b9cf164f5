package link

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"churnbed/node/core"
)

// QueueLimit is how many frames one direction of a link holds at a time, in
// every backend: far above what a mesh of small datagrams queues, so that a
// loss by it means that the link's rate was overrun for long.
const QueueLimit = 100_000

// MaxDelay bounds Delay and Jitter: netem stores jitter in 31 bits of
// nanoseconds, and a frame delayed for longer than a minute is a fault of
// the scenario.
const (
	MaxDelay  = time.Minute
	MaxJitter = time.Duration(math.MaxInt32)
)

// Validate reports every field of p that is out of range.
func Validate(p Params) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Delay < 0 || p.Delay > MaxDelay {
		bad("delay %v: want 0 to %v", p.Delay, MaxDelay)
	}
	if p.Jitter < 0 || p.Jitter > MaxJitter {
		bad("jitter %v: want 0 to %v", p.Jitter, MaxJitter)
	}
	switch p.Dist {
	case "", Uniform, Normal:
	default:
		bad("jitter distribution %q: want %q or %q", p.Dist, Uniform, Normal)
	}
	probability := func(name string, v float64) {
		if !(v >= 0 && v <= 1) { // also catches NaN
			bad("%s %v: want 0 to 1", name, v)
		}
	}
	probability("loss", p.Loss)
	if p.Rate < 0 {
		bad("rate %d bit/s: want 0 (unlimited) or more", p.Rate)
	}
	if b := p.Burst; b != nil {
		probability("burst p", b.P)
		probability("burst r", b.R)
		probability("burst loss in the good state", b.Good)
		probability("burst loss in the bad state", b.Bad)
	}
	return errors.Join(errs...)
}

// MeanLoss returns the long-run share of frames that p drops, 0..1. For
// Gilbert-Elliott it weighs the loss of both states by how long they last
// (Elliott 1963); a chain that never moves stays in the good state.
func (p Params) MeanLoss() float64 {
	b := p.Burst
	if b == nil {
		return p.Loss
	}
	if b.P+b.R == 0 {
		return b.Good
	}
	bad := b.P / (b.P + b.R)
	return (1-bad)*b.Good + bad*b.Bad
}

// SendTime returns how long size bytes occupy the link, rounded down to the
// nanosecond as netem does; 0 where the rate is unlimited.
func (p Params) SendTime(size int) time.Duration {
	if p.Rate <= 0 {
		return 0
	}
	return time.Duration(float64(size) * 8 * 1e9 / float64(p.Rate))
}

// Channel is one direction of one link: the state between frames. The rules
// are those of Linux' sch_netem: first loss, then delay with jitter, then
// rate. With a rate, a frame is delivered one SendTime after the later of its
// own delayed arrival and the delivery of the frame before it, so frames stay
// in order; without one, jitter may reorder them.
type Channel struct {
	p   Params
	rng *rand.Rand

	bad      bool         // state of the Gilbert-Elliott chain
	last     core.Instant // latest delivery handed out
	expected float64
}

// NewChannel returns a channel in the good state with nothing queued. p must
// be valid (Validate); rng is the channel's own stream.
func NewChannel(p Params, rng *rand.Rand) *Channel {
	return &Channel{p: p, rng: rng, last: math.MinInt64}
}

// Params returns the present parameters.
func (c *Channel) Params() Params { return c.p }

// SetParams changes the parameters from the next frame on. Frames already
// sent keep their instants, and a frame sent under a rate still waits for
// them; the Gilbert-Elliott state is kept where both have one.
func (c *Channel) SetParams(p Params) {
	if p.Burst == nil {
		c.bad = false
	}
	c.p = p
}

// ExpectedLoss is the sum over all frames sent of the probability with which
// each was to be lost, given the state of the chain: what the count of drops
// is to be compared with.
func (c *Channel) ExpectedLoss() float64 { return c.expected }

// Send passes a frame of size bytes (with its Ethernet header, without
// checksum) at the instant now, which does not go back between calls. It
// returns when the frame arrives at the other end, never before now, or that
// it is lost.
func (c *Channel) Send(now core.Instant, size int) (deliverAt core.Instant, dropped bool) {
	if c.lose() {
		return 0, true
	}
	at := now
	if d := c.delay(); d > 0 {
		at += core.Instant(d)
	}
	if c.p.Rate > 0 {
		at = max(at, c.last) + core.Instant(c.p.SendTime(size))
	}
	c.last = max(c.last, at)
	return at, false
}

func (c *Channel) lose() bool {
	loss := c.p.Loss
	if b := c.p.Burst; b != nil {
		// As sch_netem's loss_gilb_ell: the frame is judged in the state it
		// finds, the chain moves for the next one.
		move := b.P
		loss = b.Good
		if c.bad {
			move, loss = b.R, b.Bad
		}
		if move > 0 && c.rng.Float64() < move {
			c.bad = !c.bad
		}
	}
	c.expected += loss
	return loss > 0 && c.rng.Float64() < loss
}

func (c *Channel) delay() time.Duration {
	if c.p.Jitter == 0 {
		return c.p.Delay
	}
	if c.p.Dist == Normal {
		// netem's tables end near four standard deviations.
		z := min(max(c.rng.NormFloat64(), -4), 4)
		return c.p.Delay + time.Duration(z*float64(c.p.Jitter))
	}
	return c.p.Delay - c.p.Jitter + time.Duration(c.rng.Int64N(2*int64(c.p.Jitter)+1))
}
