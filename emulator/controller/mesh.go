package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/link"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/topologies"
	"churnbed/workloads"
)

// applyLinks brings the fabric to the mesh's state: links whose parameters
// changed, links that go up or down, then routes, at once or after the
// convergence delay.
func (c *controller) applyLinks(life context.Context, changed []int, why string) {
	req := &controlpb.SetLinksRequest{}
	for _, i := range changed {
		l := &c.mesh.Links[i]
		req.Changes = append(req.Changes, &controlpb.SetLinksRequest_LinkChange{
			Link: uint32(i), AbJson: c.encodeParams(l.AB), BaJson: c.encodeParams(l.BA),
		})
	}
	flipped := c.mesh.Flip()
	for _, i := range flipped {
		state := controlpb.SetLinksRequest_LinkChange_DOWN
		if c.mesh.Links[i].Up {
			state = controlpb.SetLinksRequest_LinkChange_UP
		}
		req.Changes = append(req.Changes, &controlpb.SetLinksRequest_LinkChange{Link: uint32(i), State: state})
	}
	if len(req.GetChanges()) == 0 {
		return
	}
	reroute := !c.sc.LinkLocal() && len(flipped) > 0 || len(changed) > 0 && c.sc.Metric == topologies.Delay
	if reroute && c.sc.Convergence == 0 {
		req.Routes = c.reroute()
		reroute = false
	}
	reply, err := c.box.Supervisor.SetLinks(life, req)
	if err != nil {
		c.fail(fmt.Errorf("change links: %w", clean(err)))
		return
	}
	c.lookAtLinks()
	at, after := int64(c.clock.At(reply.GetBefore())), int64(c.clock.At(reply.GetAfter()))
	for _, i := range changed {
		c.logLink(at, after, i, c.mesh.Links[i].Describe(), why)
	}
	for _, i := range flipped {
		c.logLink(at, after, i, map[bool]string{true: "up", false: "down"}[c.mesh.Links[i].Up], why)
	}
	if reroute {
		c.schedule.add(c.now().Add(c.sc.Convergence), func(life context.Context) {
			if routes := c.reroute(); len(routes) > 0 {
				if _, err := c.box.Supervisor.SetLinks(life, &controlpb.SetLinksRequest{Routes: routes}); err != nil {
					c.fail(fmt.Errorf("change routes: %w", clean(err)))
				}
			}
		})
	}
	c.relink(changed)
}

func (c *controller) logLink(at, after int64, i int, text, why string) {
	c.write(&eventlog.Event{
		T: at, After: after, Kind: eventlog.LinkSet, Node: -1, Link: c.mesh.Links[i].Name(), Text: text, Verb: why,
	})
}

// encodeParams encodes parameters in real time for the supervisor.
func (c *controller) encodeParams(p link.Params) []byte {
	b, _ := json.Marshal(p.Scaled(c.sc.TimeScale)) // plain numbers cannot fail
	return b
}

// reroute recomputes the routes for the present links and returns what
// changed.
func (c *controller) reroute() []*controlpb.SetLinksRequest_RouteChange {
	changes := c.mesh.Reroute()
	list := make([]*controlpb.SetLinksRequest_RouteChange, len(changes))
	for i, ch := range changes {
		list[i] = &controlpb.SetLinksRequest_RouteChange{
			Src: uint32(ch.Src), Dst: uint32(ch.Dst), Via: int32(ch.Next),
		}
	}
	return list
}

// relink tells the ends of changed links what delay to expect of them.
func (c *controller) relink(changed []int) {
	told := map[core.NodeID]bool{}
	for _, i := range changed {
		for _, n := range []core.NodeID{c.mesh.Links[i].A, c.mesh.Links[i].B} {
			if told[n] || !c.nodes[n].alive {
				continue
			}
			told[n] = true
			c.tell(n, &controlpb.Command{What: &controlpb.Command_Links_{
				Links: &controlpb.Command_Links{DelayNs: c.mesh.Incoming(n)},
			}})
		}
	}
}

// cutFirst takes down the links that are down at first, before any node runs.
func (c *controller) cutFirst(life context.Context) {
	if len(c.sc.Down) == 0 {
		return
	}
	c.mesh.CutFirst(c.sc.Down)
	c.applyLinks(life, nil, string(workloads.LinkDown))
}

// schedule is what is still to be done, by instant.
type schedule struct {
	queue core.Queue[deed]
	deeds int // of the scenario; measurements are chores
}

type deed struct {
	do    func(life context.Context)
	chore bool
}

func (s *schedule) add(at core.Instant, do func(life context.Context)) {
	s.deeds++
	s.queue.Push(at, deed{do: do})
}

func (s *schedule) addChore(at core.Instant, do func(life context.Context)) {
	s.queue.Push(at, deed{do: do, chore: true})
}

// pop takes what is due next; there must be something.
func (s *schedule) pop() func(life context.Context) {
	_, d := s.queue.Pop()
	if !d.chore {
		s.deeds--
	}
	return d.do
}

// next returns when the next deed is due, core.Never if none is.
func (s *schedule) next() core.Instant { return s.queue.Next() }

// wait is how long until t, in real time.
func (c *controller) wait(t core.Instant) time.Duration {
	return max(0, c.clock.Real(t.Sub(c.now())))
}
