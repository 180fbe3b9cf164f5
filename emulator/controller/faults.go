package controller

import (
	"context"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"churnbed/emulator/controlpb"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/membership"
	"churnbed/workloads"
)

// pendingRole is a fault on a role that nobody had when it was due: it
// strikes the first node that takes the role.
type pendingRole struct {
	fault workloads.Fault
	until core.Instant
}

// rolePatience is how long such a fault waits, in scenario time.
const rolePatience = 30 * time.Second

// planFaults puts the scenario's faults into the schedule; those of one
// instant and verb are carried out side by side.
func (c *controller) planFaults() {
	faults := c.sc.Faults
	for i := 0; i < len(faults); {
		j := i + 1
		for j < len(faults) && faults[j].At == faults[i].At && faults[j].Verb == faults[i].Verb &&
			faults[j].Role == "" && faults[i].Role == "" && mergeable(faults[i].Verb) {
			j++
		}
		group := faults[i:j]
		c.schedule.add(c.epoch.Add(faults[i].At), func(life context.Context) { c.strike(life, group) })
		i = j
	}
}

// mergeable tells the verbs that concern processes only.
func mergeable(v workloads.Verb) bool {
	switch v {
	case workloads.Crash, workloads.Poweroff, workloads.Pause, workloads.Resume, workloads.Restart, workloads.Join, workloads.Leave:
		return true
	case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set:
	}
	return false
}

// strike carries out faults of one instant and verb.
func (c *controller) strike(life context.Context, group []workloads.Fault) {
	f := &group[0]
	if f.Role != "" {
		c.strikeRole(life, pendingRole{*f, c.now().Add(rolePatience)})
		return
	}
	var nodes []*node
	for i := range group {
		for _, id := range group[i].Nodes {
			nodes = append(nodes, c.nodes[id])
		}
	}
	switch f.Verb {
	case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set:
		c.applyLinks(life, c.mesh.Apply(f), string(f.Verb))
	case workloads.Crash, workloads.Poweroff, workloads.Pause, workloads.Resume, workloads.Restart, workloads.Join, workloads.Leave:
		c.strikeNodes(life, f.Verb, nodes)
	}
}

// strikeNodes does one thing to several nodes side by side.
func (c *controller) strikeNodes(life context.Context, verb workloads.Verb, nodes []*node) {
	why := string(verb)
	each := func(applies func(*node) bool, do func(*node)) []*node {
		var done []*node
		var group errgroup.Group
		group.SetLimit(4 * runtime.NumCPU())
		for _, n := range nodes {
			if applies(n) && !slices.Contains(done, n) {
				done = append(done, n)
				group.Go(func() error { do(n); return nil })
			}
		}
		_ = group.Wait()
		return done
	}
	alive := func(n *node) bool { return n.alive }
	switch verb {
	case workloads.Crash, workloads.Poweroff:
		struck := each(alive, func(n *node) { c.kill(life, n, why) })
		if verb == workloads.Poweroff {
			for _, n := range nodes {
				c.mesh.SetOff(n.id, true)
			}
			c.applyLinks(life, nil, why)
		}
		for _, n := range struck {
			c.announce(n, membership.Failed)
		}
	case workloads.Pause:
		struck := each(func(n *node) bool { return n.alive && !n.paused }, func(n *node) { c.signal(life, n, syscall.SIGSTOP, eventlog.Pause) })
		c.measured.pauses += len(struck)
	case workloads.Resume:
		each(func(n *node) bool { return n.alive && n.paused }, func(n *node) { c.signal(life, n, syscall.SIGCONT, eventlog.Resume) })
	case workloads.Restart, workloads.Join:
		for _, n := range nodes {
			c.mesh.SetOff(n.id, false)
		}
		c.applyLinks(life, nil, why)
		for _, n := range each(func(n *node) bool { return !n.alive }, func(n *node) { c.restart(life, n, why) }) {
			c.announce(n, membership.Up)
		}
	case workloads.Leave:
		for _, n := range nodes {
			if n.alive && !n.leaving && !n.paused {
				c.leave(n)
			}
		}
	case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set:
	}
}

// leaveTimeout bounds, in scenario time, how long a node may take to leave.
const leaveTimeout = 10 * time.Second

// leave asks a node to go; one that does not is killed.
func (c *controller) leave(n *node) {
	at := c.now()
	c.tell(n.id, &controlpb.Command{What: &controlpb.Command_Leave_{Leave: &controlpb.Command_Leave{}}})
	n.leaving = true
	c.write(&eventlog.Event{
		T: int64(at), After: int64(c.now()), Kind: eventlog.Leave, Node: int32(n.id), Inc: uint32(n.inc),
		Verb: string(workloads.Leave), State: n.state.String(),
	})
	inc := n.inc
	c.schedule.add(at.Add(leaveTimeout), func(life context.Context) {
		if n.alive && n.leaving && n.inc == inc {
			c.kill(life, n, "leave timed out")
		}
	})
}

// strikeRole carries out a fault on nodes that have a role now, the lowest
// ids first; if nobody has, it waits for somebody.
func (c *controller) strikeRole(life context.Context, p pendingRole) {
	f := &p.fault
	var struck []*node
	for _, n := range c.nodes {
		if n.alive && !n.paused && !n.leaving && inRole(n, f.Role) && len(struck) < max(1, f.Count) {
			struck = append(struck, n)
		}
	}
	if len(struck) == 0 {
		if c.now() < p.until {
			c.waiting = append(c.waiting, p)
		}
		return
	}
	c.strikeNodes(life, f.Verb, struck)
	if f.After <= 0 {
		return
	}
	undo := workloads.Restart
	if f.Verb == workloads.Pause {
		undo = workloads.Resume
	}
	c.schedule.add(c.now().Add(f.After), func(life context.Context) { c.strikeNodes(life, undo, struck) })
}

// retryRoles lets faults that wait for a role strike, where somebody has it.
func (c *controller) retryRoles(life context.Context) {
	waiting := c.waiting
	c.waiting = nil
	for _, p := range waiting {
		c.strikeRole(life, p)
	}
}

func inRole(n *node, role string) bool {
	switch role {
	case "holder":
		return n.state == controlpb.Report_Changed_HELD
	case "waiter":
		return n.state == controlpb.Report_Changed_WAIT
	case "idle":
		return n.joined && n.state == controlpb.Report_Changed_NONE
	}
	return false
}

// lastArrival is the instant of the last local request of the workload.
func (c *controller) lastArrival() core.Instant {
	last := c.epoch
	for i := range c.sc.Arrivals {
		last = max(last, c.epoch.Add(c.sc.Arrivals[i].At))
	}
	return last
}
