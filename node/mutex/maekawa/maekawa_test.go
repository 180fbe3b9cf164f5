package maekawa

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

const life = core.FirstIncarnation

func peer(k core.NodeID) core.Peer { return core.Peer{ID: k, Inc: life} }

func list(ids ...core.NodeID) requests.Peers {
	var l requests.Peers
	for _, k := range ids {
		l.Put(peer(k))
	}
	return l
}

// The matrices of ALGORITHMS 3, with its numbers.
func TestVotingSetOfTheExample(t *testing.T) {
	one := VotingSet(nil, 1, list(2, 3, 5, 6, 7, 8, 10, 11))
	eleven := VotingSet(nil, 11, list(1, 2, 4, 5, 6, 7, 9, 10))
	if want := []core.NodeID{1, 2, 3, 5, 8}; !slices.Equal(one, want) {
		t.Errorf("p1 asks %v, want %v", one, want)
	}
	if want := []core.NodeID{4, 7, 9, 10, 11}; !slices.Equal(eleven, want) {
		t.Errorf("p11 asks %v, want %v", eleven, want)
	}
}

func TestVotingSetsOfOneListIntersect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Int32Range(0, core.MaxNodes-1), 1, 60, rapid.ID[int32]).Draw(t, "ids")
		var all requests.Peers
		for _, k := range ids {
			all.Put(peer(core.NodeID(k)))
		}
		width := 1
		for width*width < len(all) {
			width++
		}
		sets := make([][]core.NodeID, len(all))
		for i, p := range all {
			others := slices.Clone(all)
			if rapid.Bool().Draw(t, "unlisted") {
				others.Delete(p.ID) // the node may or may not list itself
			}
			sets[i] = VotingSet(nil, p.ID, others)
			if !slices.IsSorted(sets[i]) || !slices.Contains(sets[i], p.ID) || len(sets[i]) > 2*width-1 {
				t.Fatalf("set of %d among %d is %v", p.ID, len(all), sets[i])
			}
		}
		for i, a := range sets {
			for j, b := range sets {
				if !slices.ContainsFunc(a, func(k core.NodeID) bool { return slices.Contains(b, k) }) {
					t.Fatalf("sets of %d and %d among %v: %v and %v", all[i].ID, all[j].ID, ids, a, b)
				}
			}
		}
	})
}

// driver steps one machine and keeps what it sends.
type driver struct {
	*Machine
	t   *testing.T
	out mutex.Effects
}

func start(t *testing.T, self core.NodeID, cfg Config, members ...core.NodeID) *driver {
	d := &driver{Machine: New(peer(self), cfg), t: t}
	d.step(mutex.Start{Members: list(members...)})
	return d
}

func (d *driver) step(in mutex.Input) {
	d.t.Helper()
	d.out.Reset()
	d.Step(0, in, &d.out)
	if bad := d.Invariant(); bad != "" {
		d.t.Fatal(bad)
	}
}

func (d *driver) hear(from core.NodeID, m core.Message) {
	d.t.Helper()
	d.step(mutex.Receive{From: peer(from), Msg: m})
}

// sent wants the sends of the last step to be these, as "KIND>node".
func (d *driver) sent(want ...string) {
	d.t.Helper()
	var got []string
	for _, s := range d.out.Sends {
		got = append(got, wire.KindName(s.Msg.Kind())+">"+core.Peer{ID: s.To}.String()[:1])
	}
	if !slices.Equal(got, want) {
		d.t.Fatalf("sent %q, want %q", got, want)
	}
}

func req(k core.NodeID, ts uint64) core.RequestID { return core.RequestID{Node: k, Inc: life, TS: ts} }

// A voter outside any request of its own: node 9 among nine others.
func TestVoter(t *testing.T) {
	d := start(t, 9, Config{}, 1, 2, 3, 4)
	d.hear(3, &wire.Request{ID: req(3, 5)})
	d.sent("OK>3")
	d.hear(3, &wire.Request{ID: req(3, 5)}) // again
	d.sent("OK>3")
	d.hear(4, &wire.Request{ID: req(4, 6)}) // behind
	d.sent("FAILED>4")
	d.hear(4, &wire.Request{ID: req(4, 6)})
	d.sent("FAILED>4")
	d.hear(2, &wire.Request{ID: req(2, 4)}) // before
	d.sent("INQUIRE>3")
	d.hear(1, &wire.Request{ID: req(1, 4)}) // before that one: Sanders 1987
	d.sent("FAILED>2")
	d.hear(3, &wire.Relinquish{ID: req(3, 5), Round: 1}) // not a round it had
	d.sent()
	d.hear(3, &wire.Relinquish{ID: req(3, 5)})
	d.sent("OK>1")
	d.hear(3, &wire.Relinquish{ID: req(3, 5)})
	d.sent()
	d.hear(1, &wire.Release{ID: req(1, 4)})
	d.sent("OK>2")
	d.hear(1, &wire.Request{ID: req(1, 4)}) // over
	d.sent()
	d.hear(2, &wire.Request{ID: req(2, 9)}) // so (4, 2) is over as well
	if d.sent("OK>3", "FAILED>2"); d.out.Sends[0].Msg.(*wire.OK).Round != 1 {
		t.Error("the vote given again is of round 0")
	}
	d.hear(1, &wire.Release{ID: req(3, 5)}) // of another's request
	d.sent()
}

func TestBasicVoterKeepsTheOrderOfArrival(t *testing.T) {
	d := start(t, 9, Config{Basic: true}, 1, 2, 3, 4)
	d.hear(3, &wire.Request{ID: req(3, 5)})
	d.sent("OK>3")
	d.hear(4, &wire.Request{ID: req(4, 6)})
	d.hear(2, &wire.Request{ID: req(2, 4)})
	d.hear(2, &wire.Request{ID: req(2, 4)})
	d.sent()
	d.hear(3, &wire.Release{ID: req(3, 5)})
	d.sent("OK>4")
	d.hear(4, &wire.Release{ID: req(4, 6)})
	d.sent("OK>2")
	d.hear(2, &wire.Release{ID: req(2, 4)})
	d.sent()
}

// Node 1 of 1, 2, 3, 4 asks itself, 2 and 3.
func TestRequester(t *testing.T) {
	d := start(t, 1, Config{}, 2, 3, 4)
	d.step(mutex.Enter{})
	d.sent("REQUEST>2", "REQUEST>3")
	r := d.Request()
	if asked := d.Asked(nil); !slices.Equal(asked, []core.NodeID{2, 3}) || d.Grants() != 1 {
		t.Fatalf("asked %v, %d votes", asked, d.Grants())
	}
	d.hear(2, &wire.Inquire{ID: r}) // overtook its OK
	d.sent()
	d.hear(2, &wire.OK{ID: r})
	d.sent()
	d.hear(3, &wire.Failed{ID: r})
	d.sent("RELINQUISH>2")
	d.hear(2, &wire.OK{ID: r}) // late
	if d.sent(); d.Grants() != 1 {
		t.Fatalf("%d votes, one of them given back", d.Grants())
	}
	d.hear(3, &wire.OK{ID: r})
	d.hear(3, &wire.Failed{ID: r}) // overtaken
	d.hear(4, &wire.OK{ID: r})     // not asked
	if d.State() != mutex.Wait {
		t.Fatal(d.State())
	}
	d.hear(2, &wire.OK{ID: r, Round: 1})
	if !d.out.Granted || d.State() != mutex.Held || d.Grants() != 3 {
		t.Fatalf("%v with %d votes", d.State(), d.Grants())
	}
	d.hear(2, &wire.Inquire{ID: r, Round: 1})
	d.sent()
	d.step(mutex.Exit{})
	d.sent("RELEASE>2", "RELEASE>3")
	for _, s := range d.out.Sends {
		if s.Mode != core.Reliable {
			t.Errorf("RELEASE in mode %v", s.Mode)
		}
	}
	d.hear(2, &wire.Inquire{ID: r, Round: 1}) // RELEASE is on its way
	d.sent()
	d.hear(2, &wire.OK{ID: r}) // of a voter that restarted and got the REQUEST
	d.sent("RELEASE>2")
}

func TestMemberChanges(t *testing.T) {
	d := start(t, 1, Config{}, 2, 3, 4)
	d.step(mutex.Enter{})
	r := d.Request()
	d.hear(2, &wire.OK{ID: r})
	d.step(mutex.MemberUp{Peer: core.Peer{ID: 2, Inc: life + 1}}) // the same process
	d.sent()
	d.step(mutex.MemberUp{Peer: core.Peer{ID: 2, Inc: 2 * life}}) // forgot its vote
	if d.sent("REQUEST>2"); d.Grants() != 1 {
		t.Fatalf("%d votes", d.Grants())
	}
	d.hear(2, &wire.OK{ID: r}) // of the former process
	d.step(mutex.Receive{From: core.Peer{ID: 2, Inc: 2 * life}, Msg: &wire.OK{ID: r}})
	d.step(mutex.MemberDown{Peer: peer(3)})
	if !d.out.Granted || d.Grants() != 2 || !slices.Equal(d.out.Forget, []core.NodeID{3}) {
		t.Fatalf("%v with %d votes after the last voter failed", d.State(), d.Grants())
	}
	d.step(mutex.Exit{})
	d.sent("RELEASE>2")
	d.step(mutex.MemberUp{Peer: peer(3)})
	d.sent("RELEASE>3") // which was due

	d = start(t, 1, Config{}, 2, 3, 4)
	d.step(mutex.Enter{})
	d.step(mutex.MemberDown{Peer: peer(3)})
	d.step(mutex.MemberUp{Peer: peer(3)})
	d.sent("REQUEST>3")
	r = d.Request()
	d.step(mutex.Fence{Inc: life + 1})
	if d.sent("RELEASE>2", "RELEASE>3"); d.out.Given != r || d.State() != mutex.None {
		t.Fatalf("gave up %v, %v", d.out.Given, d.State())
	}
	d.hear(2, &wire.OK{ID: r})
	d.sent("RELEASE>2")
}

func TestVoterAndMemberChanges(t *testing.T) {
	d := start(t, 9, Config{}, 1, 2, 3, 4)
	d.hear(3, &wire.Request{ID: req(3, 5)})
	d.hear(4, &wire.Request{ID: req(4, 6)})
	d.step(mutex.MemberDown{Peer: peer(3)})
	d.sent("OK>4")
	d.hear(4, &wire.Release{ID: req(4, 6)})
	d.sent() // 3 is parked
	d.step(mutex.MemberUp{Peer: peer(3)})
	if d.sent("OK>3"); d.out.Sends[0].Msg.(*wire.OK).Round != 1 {
		t.Error("a vote taken back is given again in the same round")
	}
	d.hear(4, &wire.Request{ID: req(4, 7)})
	d.step(mutex.MemberUp{Peer: core.Peer{ID: 3, Inc: 2 * life}})
	d.sent("OK>4")
	d.hear(3, &wire.Request{ID: req(3, 8)}) // of the process that ended
	d.sent()
	d.step(mutex.MemberDown{Peer: peer(4), Left: true})
	d.step(mutex.MemberUp{Peer: peer(4)})
	d.sent()
}

// Equal states have one encoding, and messages that repeat change nothing.
func TestRepeatedMessagesChangeNothing(t *testing.T) {
	d := start(t, 1, Config{}, 2, 3, 4)
	d.step(mutex.Enter{})
	r := d.Request()
	for _, m := range []struct {
		from core.NodeID
		msg  core.Message
	}{
		{2, &wire.OK{ID: r}},
		{2, &wire.Request{ID: req(2, 9)}},
		{3, &wire.Failed{ID: r}},
		{2, &wire.Inquire{ID: r}},
		{2, &wire.Failed{ID: r, Round: 1}},
		{4, &wire.Request{ID: req(4, 1)}},
		{2, &wire.Release{ID: req(2, 9)}},
	} {
		d.hear(m.from, m.msg)
		before := d.AppendState(nil)
		d.hear(m.from, m.msg)
		if after := d.AppendState(nil); !slices.Equal(before, after) {
			t.Errorf("%s again changes the state", wire.KindName(m.msg.Kind()))
		}
	}
}
