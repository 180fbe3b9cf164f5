package stack

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/kgroup/smart"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// CoMesh and Hub are the algorithms that run k-groups (Config.Group) instead
// of a mutual-exclusion algorithm: devices are locked for routines, not one
// section for everyone. Hub is the same protocol with one node that manages
// all devices.
const (
	CoMesh = "comesh"
	Hub    = "hub"
)

// Trigger fires a routine by hand, at any smart node (CoMesh, Hub).
type Trigger struct{ Routine int }

func (Trigger) input() {}

// noSection stands where a mutual-exclusion algorithm would: nobody enters.
type noSection struct{}

func (noSection) Step(core.Instant, mutex.Input, *mutex.Effects) {}
func (noSection) Deadline() core.Instant                         { return core.Never }
func (noSection) State() mutex.State                             { return mutex.None }
func (noSection) Request() core.RequestID                        { return core.RequestID{} }
func (noSection) AppendState(b []byte) []byte                    { return b }

// group is the slot of k-groups; its machine is nil where the algorithm is
// another.
type group struct {
	machine *smart.Machine
	fx      smart.Effects
	now     smart.Standing // after this step
	told    smart.Standing // to the owner
}

func (g *group) init(cfg *Config) {
	if cfg.Group != nil {
		g.machine = smart.New(smart.Config{Config: cfg.Group, Self: cfg.Self, Seed: cfg.Seed})
	}
}

func (g *group) deadline() core.Instant {
	if g.machine == nil {
		return core.Never
	}
	return g.machine.Deadline()
}

// stepGroup steps the k-groups and carries out what they ask.
func (n *Node) stepGroup(now core.Instant, in smart.Input) {
	g := &n.group
	if g.machine == nil {
		return
	}
	g.fx.Reset()
	g.machine.Step(now, in, &g.fx)
	for i := range g.fx.Lines {
		e := g.fx.Lines[i]
		e.T = int64(now)
		n.log(&e)
	}
	for _, s := range g.fx.Sends {
		n.transmit(n.endpoint.Send(now, s, n.frames[:0]))
	}
	g.machine.Standing(&g.now)
	if g.now.Equal(&g.told) {
		return
	}
	g.told = g.now
	g.told.Leads = slices.Clone(g.now.Leads)
	*n.out = append(*n.out, Effect{Op: Standing, Standing: &smart.Standing{
		Leads: g.told.Leads, Holds: g.told.Holds, Waits: g.told.Waits, Executed: g.told.Executed,
	}})
}

// receiveGroup hands a message to the k-groups.
func (n *Node) receiveGroup(now core.Instant, from core.Peer, msg core.Message) {
	if m, ok := msg.(*wire.Group); ok {
		n.stepGroup(now, smart.Receive{From: from, Msg: m})
	}
}

// listed reports whether the membership service may hear of a peer: with
// k-groups it is the smart nodes' own.
func (n *Node) listed(id core.NodeID) bool {
	return n.cfg.Group == nil || n.cfg.Group.IsSmart(id)
}
