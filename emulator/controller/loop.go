package controller

import (
	"context"
	"errors"
	"syscall"
	"time"

	"churnbed/emulator/controlpb"
	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// lead is how far ahead of now the epoch is set, in real time, so that every
// node knows it before it comes.
const lead = 50 * time.Millisecond

// loop runs the workload from the epoch to its end. It returns ctx's error
// when the user ended it.
func (c *controller) loop(ctx, life context.Context) error {
	epoch := c.now().Add(c.sc.Warmup).Add(time.Duration(float64(lead) / c.sc.TimeScale))
	c.begin(epoch)
	c.progress.Phase = Running
	c.planFaults()
	if err := c.measured.start(c, life); err != nil {
		return err
	}
	last := c.lastArrival()
	limit := last.Add(c.sc.Drain)
	if c.sc.Duration > 0 {
		last, limit = core.Never, epoch.Add(c.sc.Duration)
	}
	if c.sc.Slice > 0 {
		c.slice(life)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		now := c.now()
		for c.schedule.next() <= now {
			c.schedule.heap.Pop().do(life)
		}
		now = c.now()
		if now >= limit || now > last && c.settled() {
			return nil
		}
		if len(c.failures) > 0 && c.hopeless() {
			return nil
		}
		c.progress.Elapsed = now.Sub(epoch)
		c.show()
		timer := time.NewTimer(c.wait(min(c.schedule.next(), limit)))
		select {
		case e := <-c.events:
			c.take(life, e)
		case <-timer.C:
		case <-tick.C:
		case <-c.box.Done():
			timer.Stop()
			return errors.New("the sandbox ended unexpectedly")
		case <-ctx.Done():
			timer.Stop()
			c.write(&eventlog.Event{T: int64(c.now()), Kind: eventlog.Interrupt, Node: -1})
			return ctx.Err()
		}
		timer.Stop()
	}
}

// take handles one event.
func (c *controller) take(life context.Context, e any) {
	switch e := e.(type) {
	case reported:
		c.heard(e)
		if e.report.GetChanged() != nil && len(c.waiting) > 0 {
			c.retryRoles(life)
		}
	case *controlpb.Exit:
		c.exited(e)
	}
}

// settled reports whether nothing more will be served: all arrivals are past
// (the caller sees to that), and every node that runs has nothing to do.
// Paused nodes count as having something to do; they are waited for until the
// drain is over.
func (c *controller) settled() bool {
	for _, n := range c.nodes {
		if n.alive && !n.idle {
			return false
		}
	}
	return true
}

// hopeless reports whether no node is left.
func (c *controller) hopeless() bool {
	for _, n := range c.nodes {
		if n.alive {
			return false
		}
	}
	return c.schedule.next() == core.Never
}

// endTimeout bounds, in real time, how long nodes may take to write their
// last lines.
const endTimeout = 10 * time.Second

// end ends all nodes in order and collects the last figures.
func (c *controller) end(life context.Context) error {
	c.progress.Phase = Ending
	c.show()
	at := c.now()
	for _, n := range c.nodes {
		if n.alive && n.paused {
			c.signal(life, n, syscall.SIGCONT, eventlog.Resume)
		}
	}
	c.tellAll(&controlpb.Command{What: &controlpb.Command_Stop_{Stop: &controlpb.Command_Stop{}}})
	deadline := time.NewTimer(endTimeout)
	defer deadline.Stop()
	var errs []error
	for waiting := true; waiting; {
		waiting = false
		for _, n := range c.nodes {
			waiting = waiting || n.alive
		}
		if !waiting {
			break
		}
		select {
		case e := <-c.events:
			c.take(life, e)
		case <-c.box.Done():
			return errors.New("the sandbox ended unexpectedly")
		case <-deadline.C:
			// They are killed with the sandbox; their logs lack the last lines.
			errs = append(errs, errors.New("end nodes: some did not write their last lines in time"))
			waiting = false
		}
	}
	errs = append(errs, c.measured.finish(c, life))
	c.write(&eventlog.Event{T: int64(at), After: int64(c.now()), Kind: eventlog.End, Node: -1})
	return errors.Join(errs...)
}
