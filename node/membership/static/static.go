// Package static is the membership service that detects nothing: the list a
// node starts with stays as it is, dead peers and missing entries included.
// It exists to plant missing entries (ReadLists) and to run an algorithm
// without a failure detector.
//
// What changes all the same: a newer life of a listed peer replaces the older
// one, since answers of the older are void; a restarted node tells the peers
// it lists by HELLO, reliably. A peer that the algorithm met itself (Learned)
// is taken into the list, as Camera demands of an unknown sender (ALGORITHMS
// 2.1). A frame of an unlisted peer alone adds nothing: an entry planted as
// missing stays missing until the algorithm finds the peer.
//
// The owner serialises all calls.
package static

import (
	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/membership/internal/roster"
	"churnbed/node/wire"
)

// Machine is a static list at one node.
type Machine struct {
	self core.Peer
	list roster.List
}

var _ membership.Machine = (*Machine)(nil)

// New returns a machine that waits for its Start. The peers of Start are its
// list, whether or not the node joins again.
func New() *Machine { return &Machine{} }

// Step implements membership.Machine.
func (m *Machine) Step(_ core.Instant, in membership.Input, out *membership.Effects) {
	switch in := in.(type) {
	case membership.Start:
		m.self = in.Self
		m.list.Set(in.Peers, in.Self.ID)
		if in.Join {
			for _, p := range m.list.Append(nil) {
				out.Send(p.ID, &wire.Hello{}, core.Reliable)
			}
		}
		out.Joined = true
	case membership.Receive: // HELLO has no content: its sender's life is the news
		m.renew(in.From, out)
	case membership.Heard:
		m.renew(in.Peer, out)
	case membership.Learned:
		if in.Peer.ID != m.self.ID && m.list.Add(in.Peer) {
			out.Changes = append(out.Changes, membership.Change{Peer: in.Peer, Kind: membership.Up})
		}
	case membership.Told, membership.Leave, membership.Tick: // a static list is told nothing
	}
}

func (m *Machine) renew(p core.Peer, out *membership.Effects) {
	if m.list.Renew(p) {
		out.Changes = append(out.Changes, membership.Change{Peer: p, Kind: membership.Up})
	}
}

// Deadline implements membership.Machine; a static list waits for nothing.
func (m *Machine) Deadline() core.Instant { return core.Never }

// Self implements membership.Machine.
func (m *Machine) Self() core.Peer { return m.self }

// Members implements membership.Machine.
func (m *Machine) Members(list []core.Peer) []core.Peer { return m.list.Append(list) }

// Size implements membership.Machine.
func (m *Machine) Size() int { return m.list.Len() + 1 }
