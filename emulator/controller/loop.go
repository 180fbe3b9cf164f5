package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"churnbed/emulator/controlpb"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/workloads"
)

// lead is how far ahead of now the epoch is set, in real time, so that every
// node knows it before it comes.
const lead = 50 * time.Millisecond

// loop runs the workload from the epoch to its end, or until ctx ends.
func (c *controller) loop(ctx, life context.Context) error {
	epoch := c.now().Add(c.sc.Warmup).Add(time.Duration(float64(lead) / c.sc.TimeScale))
	c.begin(epoch)
	c.progress.Phase = Running
	c.planFaults()
	if err := c.measured.start(life, c); err != nil {
		return err
	}
	last, limit := c.span()
	c.slice()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		now := c.now()
		for c.schedule.next() <= now && !c.broken && ctx.Err() == nil {
			c.schedule.pop()(life)
		}
		now = c.now()
		switch {
		case now >= limit, now > last && c.settled(), c.hopeless(), c.broken:
			return nil
		case ctx.Err() != nil:
			c.write(&eventlog.Event{T: int64(now), Kind: eventlog.Interrupt, Node: -1})
			return nil
		}
		c.progress.Elapsed = max(0, now.Sub(epoch))
		c.show()
		c.look(false)
		wait := c.wait(min(c.schedule.next(), limit))
		if c.hands.picture.Watched() {
			wait = min(wait, lookEvery)
		}
		timer := time.NewTimer(wait)
		select {
		case e := <-c.events:
			c.take(life, e)
		case <-timer.C:
		case <-tick.C:
		case <-ctx.Done():
		case <-c.box.Done():
			timer.Stop()
			return errors.New("the sandbox ended unexpectedly")
		}
		timer.Stop()
	}
}

// span returns when the last local request of the workload arrives and the
// last fault of a rule is due, after which the run ends as soon as all is served, and when it ends at the latest.
func (c *controller) span() (last, limit core.Instant) {
	if c.sc.Duration > 0 {
		return core.Never, c.epoch.Add(c.sc.Duration)
	}
	last = c.epoch.Add(workloads.LastOf(c.sc.Arrivals, c.sc.Faults))
	limit = last.Add(c.sc.Drain)
	if w := c.sc.Closed; w != nil && w.Rate > 0 {
		// Nodes think and ask in turn: what that takes without hindrance.
		quota := float64(w.Quota)
		each := quota/w.Rate + quota*float64(len(c.nodes))*w.CS.Mean.Seconds()
		limit = limit.Add(time.Duration(min(each, maxSpan.Seconds()) * float64(time.Second)))
	}
	return last, limit
}

// maxSpan bounds, in scenario time, the estimate of a closed workload.
const maxSpan = 30 * 24 * time.Hour

// take handles one event.
func (c *controller) take(life context.Context, e any) {
	switch e := e.(type) {
	case reported:
		c.heard(e)
		if (e.report.GetChanged() != nil || e.report.GetStanding() != nil) && len(c.waiting) > 0 {
			c.retryRoles(life)
		}
	case *controlpb.Exit:
		c.exited(life, e)
	case *order:
		c.obey(life, e)
	case *noted:
		c.note(e)
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

// hopeless reports whether something went wrong and no node is left, nor will
// be.
func (c *controller) hopeless() bool {
	if len(c.failures) == 0 || c.schedule.deeds > 0 {
		return false
	}
	for _, n := range c.nodes {
		if n.alive {
			return false
		}
	}
	return true
}

// endTimeout bounds, in real time, how long nodes may take to write their
// last lines.
const endTimeout = 10 * time.Second

// end ends all nodes in order and collects the last figures.
func (c *controller) end(life context.Context) error {
	c.progress.Phase = Ending
	c.show()
	at := c.now()
	c.waiting = nil // faults that waited for a role
	var paused []*node
	for _, n := range c.nodes {
		if n.alive && n.paused {
			paused = append(paused, n)
		}
	}
	c.resume(life, paused)
	c.tellAll(&controlpb.Command{What: &controlpb.Command_Stop_{Stop: &controlpb.Command_Stop{}}})
	deadline := time.NewTimer(endTimeout)
	defer deadline.Stop()
	var errs []error
	for running := c.running(); len(running) > 0; running = c.running() {
		select {
		case e := <-c.events:
			c.take(life, e)
			continue
		case <-c.box.Done():
			return errors.New("the sandbox ended unexpectedly")
		case <-deadline.C:
			// They are killed with the sandbox; their logs lack the last lines.
			for _, n := range running[:min(len(running), maxFailures)] {
				errs = append(errs, &NodeError{n.id, fmt.Sprintf("did not end within %v of Stop", endTimeout)})
			}
			if m := len(running) - maxFailures; m > 0 {
				errs = append(errs, fmt.Errorf("and %d more nodes did not", m))
			}
		}
		break
	}
	errs = append(errs, c.measured.finish(life, c))
	c.write(&eventlog.Event{T: int64(at), After: int64(c.now()), Kind: eventlog.End, Node: -1})
	return errors.Join(errs...)
}

// running lists the nodes whose process has not ended.
func (c *controller) running() []*node {
	var list []*node
	for _, n := range c.nodes {
		if n.alive {
			list = append(list, n)
		}
	}
	return list
}
