package controller

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	"churnbed/emulator/controlpb"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/membership"
	"churnbed/workloads"
)

// pendingRole is a fault on a role that nobody had when it was due: it
// strikes the first node that takes the role.
type pendingRole struct {
	fault  workloads.Fault
	until  core.Instant
	origin string // as of events
}

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
	case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set, workloads.Trigger:
	}
	return false
}

// strike carries out faults of one instant and verb.
func (c *controller) strike(life context.Context, group []workloads.Fault) {
	f := &group[0]
	if f.Role != "" {
		c.strikeRole(life, pendingRole{*f, c.now().Add(workloads.RolePatience), c.hands.origin})
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
	case workloads.Trigger:
		c.trigger(f.Routine)
	}
}

// trigger fires a routine by hand, at a smart node that runs; another one for
// another routine.
func (c *controller) trigger(routine int) {
	smart := c.sc.Group.Smart
	for i := range smart {
		n := c.nodes[smart[(routine+i)%len(smart)]]
		if n.alive && n.joined && !n.paused {
			c.tell(n.id, &controlpb.Command{What: &controlpb.Command_Trigger_{Trigger: &controlpb.Command_Trigger{Routine: uint32(routine)}}})
			return
		}
	}
	c.write(&eventlog.Event{
		T: int64(c.now()), Kind: eventlog.Note, Node: -1, Verb: string(workloads.Trigger),
		Text: fmt.Sprintf("no smart node runs: routine %d is not triggered", routine),
	})
}

// strikeNodes does one thing to several nodes side by side.
func (c *controller) strikeNodes(life context.Context, verb workloads.Verb, nodes []*node) {
	why := string(verb)
	those := func(applies func(*node) bool) []*node {
		var list []*node
		for _, n := range nodes {
			if applies(n) && !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
		return list
	}
	switch verb {
	case workloads.Crash, workloads.Poweroff:
		struck := c.kill(life, those(func(n *node) bool { return n.alive }), why)
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
		running := those(func(n *node) bool { return n.alive && !n.paused })
		for _, n := range c.signal(life, running, syscall.SIGSTOP, eventlog.Pause, why) {
			n.paused = true
		}
	case workloads.Resume:
		c.resume(life, those(func(n *node) bool { return n.paused }))
	case workloads.Restart, workloads.Join:
		for _, n := range nodes {
			c.mesh.SetOff(n.id, false)
			if n.leaving {
				n.again = verb // as soon as it has left
			}
		}
		c.applyLinks(life, nil, why)
		c.restart(life, those(func(n *node) bool { return !n.alive }), why)
	case workloads.Leave:
		for _, n := range those(func(n *node) bool { return n.alive && !n.leaving && !n.paused }) {
			c.leave(n)
		}
	case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set, workloads.Trigger:
	}
}

func (c *controller) resume(life context.Context, nodes []*node) {
	for _, n := range c.signal(life, nodes, syscall.SIGCONT, eventlog.Resume, string(workloads.Resume)) {
		n.paused = false
	}
}

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
	c.schedule.add(at.Add(workloads.LeaveTimeout), func(life context.Context) {
		if !n.alive || !n.leaving || n.inc != inc {
			return
		}
		again := n.again
		for _, n := range c.kill(life, []*node{n}, "leave timed out") {
			c.announce(n, membership.Failed)
		}
		if again != "" {
			c.strikeNodes(life, again, []*node{n})
		}
	})
}

// strikeRole carries out a fault on nodes that have a role now, the lowest
// ids first; if nobody has, it waits for somebody.
func (c *controller) strikeRole(life context.Context, p pendingRole) {
	f := &p.fault
	before := c.hands.origin
	c.hands.origin = p.origin
	defer func() { c.hands.origin = before }()
	var struck []*node
	for _, n := range c.nodes {
		if n.alive && !n.paused && !n.leaving && n.standing().In(f.Role) && len(struck) < max(1, f.Count) {
			struck = append(struck, n)
		}
	}
	if len(struck) == 0 {
		if c.now() < p.until {
			c.waiting = append(c.waiting, p)
			return
		}
		c.write(&eventlog.Event{
			T: int64(c.now()), Kind: eventlog.Note, Node: -1, Verb: string(f.Verb),
			Text: fmt.Sprintf("nobody was %s within %v: given up", f.Role, workloads.RolePatience),
		})
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
	c.schedule.add(c.now().Add(f.After), func(life context.Context) {
		c.hands.origin = p.origin
		c.strikeNodes(life, undo, struck)
		c.hands.origin = ""
	})
}

// retryRoles lets faults that wait for a role strike, where somebody has it.
func (c *controller) retryRoles(life context.Context) {
	waiting := c.waiting
	c.waiting = nil
	for _, p := range waiting {
		c.strikeRole(life, p)
	}
}

// standing is what a node is, as far as it has told.
func (n *node) standing() workloads.Standing {
	return workloads.Standing{
		Joined: n.joined, Leads: n.leads != "",
		Holds: n.holds || n.state == controlpb.Report_Changed_HELD, Waits: n.waits || n.state == controlpb.Report_Changed_WAIT,
	}
}
