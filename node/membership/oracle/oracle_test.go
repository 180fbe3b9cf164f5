package oracle

import (
	"testing"

	"churnbed/node/core"
	"churnbed/node/membership"

	"github.com/google/go-cmp/cmp"
)

func peer(id, inc int) core.Peer { return core.Peer{ID: core.NodeID(id), Inc: core.Incarnation(inc)} }

func TestTold(t *testing.T) {
	m := New()
	var out membership.Effects
	m.Step(0, membership.Start{Self: peer(0, 1024), Peers: []core.Peer{peer(1, 1024), peer(2, 1024), peer(3, 1024)}}, &out)
	if !out.Joined || len(out.Changes)+len(out.Sends) != 0 {
		t.Errorf("start: %+v", out)
	}
	told := func(k membership.ChangeKind, p core.Peer) membership.Input {
		return membership.Told{Change: membership.Change{Peer: p, Kind: k}}
	}
	for i, c := range []struct {
		in   membership.Input
		news bool
	}{
		{told(membership.Failed, peer(1, 1024)), true},
		{told(membership.Failed, peer(1, 1024)), false},
		{told(membership.Up, peer(1, 1024)), false}, // that life is over
		{membership.Learned{Peer: peer(1, 1024)}, false},
		{membership.Heard{Peer: peer(1, 2048)}, false}, // not listed: to be told
		{told(membership.Up, peer(1, 2048)), true},
		{told(membership.Failed, peer(1, 1024)), false}, // late news of the older life
		{told(membership.Suspected, peer(2, 1024)), true},
		{told(membership.Suspected, peer(2, 1024)), false},
		{told(membership.Cleared, peer(2, 1024)), true},
		{told(membership.Cleared, peer(2, 1024)), false},
		{membership.Heard{Peer: peer(2, 1025)}, true},
		{told(membership.Left, peer(3, 1024)), true},
		{told(membership.Suspected, peer(3, 1024)), false},
		{membership.Learned{Peer: peer(5, 1024)}, false}, // dead, or to be told
		{membership.Learned{Peer: peer(2, 1026)}, true},
		{told(membership.Up, peer(4, 1024)), true},
		{told(membership.Failed, peer(0, 1024)), false}, // itself
		{membership.Leave{}, false},
		{membership.Tick{}, false},
	} {
		out.Reset()
		m.Step(0, c.in, &out)
		if got := len(out.Changes) == 1; got != c.news || len(out.Sends) != 0 || out.Fenced {
			t.Errorf("%d: %+v gives %+v, news %t expected", i, c.in, out, c.news)
		}
	}
	want := []core.Peer{peer(1, 2048), peer(2, 1026), peer(4, 1024)}
	if d := cmp.Diff(want, m.Members(nil)); d != "" || m.Size() != 4 || m.Self() != peer(0, 1024) || m.Deadline() != core.Never {
		t.Errorf("size %d, members (-want +got):\n%s", m.Size(), d)
	}
}
