package sim

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/membership"
	"churnbed/node/mutex"
	"churnbed/node/stack"
	"churnbed/topologies"
	"churnbed/workloads"
)

// pendingRole is a fault on a role that nobody had when it was due.
type pendingRole struct {
	fault *workloads.Fault
	until core.Instant
}

// start starts the next life of a node.
func (w *World) start(id core.NodeID) {
	n := &w.nodes[id]
	if n.inc == 0 {
		n.inc = core.FirstIncarnation
	} else {
		n.inc = n.inc.Restarted()
	}
	cfg := w.cfg.NodeConfig(id, n.inc)
	if w.cfg.Oracle && w.began {
		cfg.Join, cfg.Members = false, nil
		for i := range w.nodes {
			if core.NodeID(i) != id && w.nodes[i].alive {
				cfg.Members = append(cfg.Members, core.Peer{ID: core.NodeID(i), Inc: w.nodes[i].inc})
			}
		}
	}
	m, err := stack.New(cfg)
	if err != nil {
		w.err = err
		return
	}
	*n = node{machine: m, inc: n.inc, alive: true, idle: true, timer: core.Never}
	w.setIdle(n, false)
	w.input(id, stack.Boot{PID: int(id) + 1, Kept: w.kept[id]})
	w.tellLinks(id)
	if w.began && n.alive {
		w.input(id, stack.Begin{Epoch: w.epoch})
	}
}

func (w *World) strike(f *workloads.Fault) {
	if f.Role != "" {
		w.strikeRole(pendingRole{f, w.now.Add(workloads.RolePatience)})
		return
	}
	switch f.Verb {
	case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set:
		w.applyLinks(w.mesh.Apply(f), string(f.Verb))
	case workloads.Crash, workloads.Poweroff, workloads.Pause, workloads.Resume, workloads.Restart, workloads.Join, workloads.Leave:
		w.strikeNodes(f.Verb, f.Nodes)
	case workloads.Trigger:
		w.trigger(f.Routine)
	}
}

// trigger fires a routine by hand, at a smart node that runs; another one for
// another routine.
func (w *World) trigger(routine int) {
	smart := w.cfg.Smart
	for i := range smart {
		if id := smart[(routine+i)%len(smart)]; w.nodes[id].alive && !w.nodes[id].paused {
			w.command(id, stack.Trigger{Routine: routine})
			return
		}
	}
}

func (w *World) strikeNodes(verb workloads.Verb, ids []core.NodeID) {
	switch verb {
	case workloads.Crash, workloads.Poweroff:
		for _, id := range ids {
			w.kill(id, string(verb))
		}
		if verb == workloads.Poweroff {
			w.power(ids, true, string(verb))
		}
	case workloads.Pause, workloads.Resume:
		for _, id := range ids {
			w.pause(id, verb == workloads.Pause)
		}
	case workloads.Restart, workloads.Join:
		w.power(ids, false, string(verb))
		for _, id := range ids {
			if w.nodes[id].alive {
				continue
			}
			w.start(id)
			w.Stats.Restarts++
			w.log(-1, &eventlog.Event{
				After: int64(w.now), Kind: eventlog.Restart, Node: int32(id), Inc: uint32(w.nodes[id].inc), Verb: string(verb),
			})
			w.announce(id, membership.Up)
		}
	case workloads.Leave:
		for _, id := range ids {
			w.leave(id)
		}
	case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set, workloads.Trigger:
	}
}

func (w *World) kill(id core.NodeID, verb string) {
	n := &w.nodes[id]
	if !n.alive {
		return
	}
	if w.cfg.Imitate.Departed {
		w.command(id, stack.Depart{})
		w.announce(id, membership.Failed)
		return
	}
	w.log(-1, &eventlog.Event{
		After: int64(w.now), Kind: eventlog.Kill, Node: int32(id), Inc: uint32(n.inc), Verb: verb, State: n.state.String(),
	})
	w.Stats.Kills++
	w.end(n)
	w.announce(id, membership.Failed)
}

func (w *World) pause(id core.NodeID, pause bool) {
	n := &w.nodes[id]
	if !n.alive || n.paused == pause {
		return
	}
	n.paused = pause
	if pause {
		w.Stats.Pauses++
		w.logPause(id, eventlog.Pause)
		return
	}
	w.logPause(id, eventlog.Resume)
	// In the order of the real loop (node/host): commands, what has arrived,
	// then the timers that became due meanwhile.
	mail, inbox := n.mail, n.inbox
	n.mail, n.inbox = nil, nil
	for _, in := range mail {
		w.command(id, in)
	}
	for i := range inbox {
		w.deliver(id, &inbox[i].frame, inbox[i].size)
	}
	n.timer = core.Never
	w.rearm(id)
}

func (w *World) logPause(id core.NodeID, kind eventlog.Kind) {
	n := &w.nodes[id]
	w.log(-1, &eventlog.Event{
		After: int64(w.now), Kind: kind, Node: int32(id), Inc: uint32(n.inc), Verb: string(kind), State: n.state.String(),
	})
}

func (w *World) leave(id core.NodeID) {
	n := &w.nodes[id]
	if !n.alive || n.leaving || n.paused {
		return
	}
	w.log(-1, &eventlog.Event{
		After: int64(w.now), Kind: eventlog.Leave, Node: int32(id), Inc: uint32(n.inc), Verb: string(workloads.Leave),
		State: n.state.String(),
	})
	n.leaving = true
	inc := n.inc
	w.after(w.now.Add(workloads.LeaveTimeout), func() {
		if n := &w.nodes[id]; n.alive && n.leaving && n.inc == inc {
			w.kill(id, "leave timed out")
		}
	})
	w.input(id, stack.Leave{})
}

func (w *World) power(ids []core.NodeID, off bool, why string) {
	for _, id := range ids {
		w.mesh.SetOff(id, off)
	}
	w.applyLinks(nil, why)
}

// applyLinks brings the channels and routes to the mesh's state.
func (w *World) applyLinks(changed []int, why string) {
	var ends []core.NodeID
	for _, i := range changed {
		l := &w.mesh.Links[i]
		w.chans[2*i].SetParams(l.AB)
		w.chans[2*i+1].SetParams(l.BA)
		w.log(-1, &eventlog.Event{After: int64(w.now), Kind: eventlog.LinkSet, Node: -1, Link: l.Name(), Text: l.Describe(), Verb: why})
		ends = append(ends, l.A, l.B)
	}
	slices.Sort(ends)
	for _, id := range slices.Compact(ends) {
		w.command(id, stack.Relink{Delay: w.mesh.Incoming(id)})
	}
	flipped := w.mesh.Flip()
	for _, i := range flipped {
		l := &w.mesh.Links[i]
		text := "down"
		if l.Up {
			text = "up"
		}
		w.log(-1, &eventlog.Event{After: int64(w.now), Kind: eventlog.LinkSet, Node: -1, Link: l.Name(), Text: text, Verb: why})
		w.detect(i)
	}
	if w.cfg.LinkLocal {
		return // nothing is routed
	}
	if len(flipped) > 0 || len(changed) > 0 && w.cfg.Metric == topologies.Delay {
		if w.cfg.Convergence == 0 {
			w.mesh.Reroute()
			return
		}
		w.after(w.now.Add(w.cfg.Convergence), func() { w.mesh.Reroute() })
	}
}

// strikeRole carries out a fault on nodes that have a role now, the lowest
// ids first; if nobody has, it waits for somebody.
func (w *World) strikeRole(p pendingRole) {
	f := p.fault
	var struck []core.NodeID
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.alive && !n.paused && !n.leaving && n.standing().In(f.Role) && len(struck) < max(1, f.Count) {
			struck = append(struck, core.NodeID(i))
		}
	}
	if len(struck) == 0 {
		if w.now < p.until {
			w.waiting = append(w.waiting, p)
		}
		return
	}
	w.strikeNodes(f.Verb, struck)
	if f.After > 0 {
		undo := workloads.Restart
		if f.Verb == workloads.Pause {
			undo = workloads.Resume
		}
		w.after(w.now.Add(f.After), func() { w.strikeNodes(undo, struck) })
	}
}

// roleTaken lets faults that wait for a role strike, after this step.
func (w *World) roleTaken() {
	if len(w.waiting) > 0 {
		w.after(w.now, w.retryRoles)
	}
}

func (w *World) retryRoles() {
	waiting := w.waiting
	w.waiting = nil
	for _, p := range waiting {
		w.strikeRole(p)
	}
}

// standing is what a node is to faults on roles.
func (n *node) standing() workloads.Standing {
	s := workloads.Standing{Joined: n.joined, Holds: n.state == mutex.Held, Waits: n.state == mutex.Wait}
	if g := n.groups; g != nil {
		s.Holds, s.Waits, s.Leads = g.Holds, g.Waits, len(g.Leads) > 0
	}
	return s
}
