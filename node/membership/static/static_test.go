package static

import (
	"bytes"
	"strings"
	"testing"

	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/wire"

	"github.com/google/go-cmp/cmp"
)

func peer(id, inc int) core.Peer { return core.Peer{ID: core.NodeID(id), Inc: core.Incarnation(inc)} }

func step(m *Machine, in membership.Input) membership.Effects {
	var out membership.Effects
	m.Step(0, in, &out)
	return out
}

func TestListStaysAsItIs(t *testing.T) {
	m := New()
	out := step(m, membership.Start{Self: peer(1, 1024), Peers: []core.Peer{peer(3, 1024), peer(0, 1024), peer(1, 1024)}})
	if !out.Joined || len(out.Sends) != 0 || len(out.Changes) != 0 {
		t.Errorf("first start: %+v, want joined and nothing else", out)
	}
	for _, in := range []membership.Input{
		membership.Heard{Peer: peer(2, 1024)},                           // unlisted
		membership.Receive{From: peer(2, 4096), Msg: &wire.Hello{}},     // unlisted
		membership.Heard{Peer: peer(3, 1024)},                           // same life
		membership.Heard{Peer: peer(3, 1000)},                           // older life
		membership.Learned{Peer: peer(1, 1024)},                         // itself
		membership.Learned{Peer: peer(3, 1024)},                         // listed
		membership.Told{Change: membership.Change{Peer: peer(3, 1024)}}, // not an oracle
		membership.Leave{}, membership.Tick{},
	} {
		if out := step(m, in); len(out.Changes)+len(out.Sends) != 0 {
			t.Errorf("%T %+v: %+v, want no effect", in, in, out)
		}
	}
	want := []core.Peer{peer(0, 1024), peer(3, 1024)}
	if d := cmp.Diff(want, m.Members(nil)); d != "" || m.Size() != 3 || m.Self() != peer(1, 1024) || m.Deadline() != core.Never {
		t.Errorf("size %d, self %v, deadline %v, members (-want +got):\n%s", m.Size(), m.Self(), m.Deadline(), d)
	}
}

func TestNewerLifeAndLearned(t *testing.T) {
	m := New()
	step(m, membership.Start{Self: peer(1, 1024), Peers: []core.Peer{peer(0, 1024), peer(3, 1024)}})
	up := func(p core.Peer) []membership.Change { return []membership.Change{{Peer: p, Kind: membership.Up}} }
	for _, c := range []struct {
		in   membership.Input
		want []membership.Change
	}{
		{membership.Receive{From: peer(3, 2048), Msg: &wire.Hello{}}, up(peer(3, 2048))},
		{membership.Receive{From: peer(3, 2048), Msg: &wire.Hello{}}, nil},
		{membership.Heard{Peer: peer(0, 1025)}, up(peer(0, 1025))},
		{membership.Learned{Peer: peer(2, 1024)}, up(peer(2, 1024))},
		{membership.Heard{Peer: peer(2, 2048)}, up(peer(2, 2048))},
	} {
		if d := cmp.Diff(c.want, step(m, c.in).Changes); d != "" {
			t.Errorf("%+v (-want +got):\n%s", c.in, d)
		}
	}
	if d := cmp.Diff([]core.Peer{peer(0, 1025), peer(2, 2048), peer(3, 2048)}, m.Members(nil)); d != "" {
		t.Errorf("members (-want +got):\n%s", d)
	}
}

func TestRestartSaysHello(t *testing.T) {
	m := New()
	out := step(m, membership.Start{Self: peer(1, 2048), Peers: []core.Peer{peer(2, 1024), peer(0, 1024)}, Join: true})
	want := []core.Send{
		{To: 0, Msg: &wire.Hello{}, Mode: core.Reliable},
		{To: 2, Msg: &wire.Hello{}, Mode: core.Reliable},
	}
	if d := cmp.Diff(want, out.Sends); d != "" || !out.Joined {
		t.Errorf("joined %t, sends (-want +got):\n%s", out.Joined, d)
	}
}

func TestReadLists(t *testing.T) {
	in := `# planted
1: * !0     # p1 does not know p0
5: 0-2 6-7

7: !3 !8-9
4:
0: 0 9 1 1
`
	got, err := ReadLists(strings.NewReader(in), "lists.txt", 10)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]core.NodeID{
		{1, 9},
		{2, 3, 4, 5, 6, 7, 8, 9},
		{0, 1, 3, 4, 5, 6, 7, 8, 9},
		{0, 1, 2, 4, 5, 6, 7, 8, 9},
		{},
		{0, 1, 2, 6, 7},
		{0, 1, 2, 3, 4, 5, 7, 8, 9},
		{0, 1, 2, 4, 5, 6},
		{0, 1, 2, 3, 4, 5, 6, 7, 9},
		{0, 1, 2, 3, 4, 5, 6, 7, 8},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lists (-want +got):\n%s", d)
	}
	var b bytes.Buffer
	if err := WriteLists(&b, got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("0: 1 9\n1: * !0\n4:\n5: * !3-4 !8-9\n7: * !3 !8-9\n", b.String()); d != "" {
		t.Errorf("written (-want +got):\n%s", d)
	}
}

func TestReadListsErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"1 2 3", `lists.txt:1: "1 2 3" has no colon`},
		{"\n# x\n10: 1", "lists.txt:3: node 10 is not in the topology, whose ids are 0 to 9"},
		{"1: 2 x", `lists.txt:1: "x" is not a node id`},
		{"1: -2", `"" is not a node id`},
		{"1: 5-", `"" is not a node id`},
		{"1: !", `"" is not a node id`},
		{"1: !*", `"*" is not a node id`},
		{"1: 5-3", `range "5-3" runs backwards`},
		{"1: 3-12", "node 12 is not in the topology"},
		{"1: *\n2: *\n1: *", "lists.txt:3: node 1 has its list at line 1 already"},
		{"1: x\n2: y", `lists.txt:2: "y" is not a node id`},
	} {
		if _, err := ReadLists(strings.NewReader(c.in), "lists.txt", 10); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.in, err, c.want)
		}
	}
	if _, err := ReadLists(strings.NewReader(""), "lists.txt", 0); err == nil {
		t.Error("no error for zero nodes")
	}
}

func FuzzReadLists(f *testing.F) {
	for _, s := range []string{"", "1: * !0\n", "5: 0-2 6-7 # c\n7: !3 !8-9\n4:\n", "0: 0 9 1 1", "1: 5-", ":", "1:\x00", "1: !*"} {
		f.Add(s, 10)
	}
	f.Fuzz(func(t *testing.T, s string, nodes int) {
		nodes = nodes&63 + 1
		lists, err := ReadLists(strings.NewReader(s), "f", nodes)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteLists(&b, lists); err != nil {
			t.Fatal(err)
		}
		again, err := ReadLists(bytes.NewReader(b.Bytes()), "g", nodes)
		if err != nil {
			t.Fatalf("%q cannot be read again: %v", b.String(), err)
		}
		if d := cmp.Diff(lists, again); d != "" {
			t.Fatalf("%q (-read +read again):\n%s", b.String(), d)
		}
	})
}
