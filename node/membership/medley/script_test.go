package medley_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/membership/medley"
	"churnbed/node/wire"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs the interaction scripts: a few machines whose messages
// wait in a pool until the script delivers or drops them.
//
//	nodes n=3 [up=2] [neighbours=...]  start nodes 0..up-1 of n with full lists
//	set period=.. indirect=..          before nodes: change the configuration
//	start node=2 inc=2048 contacts=(0,1)   start a node that joins
//	run to=2s [node=0]                 tick machines (of one node) until the instant
//	deliver [kind=PING] [from=0] [to=1] [max=1]   deliver matching messages, once each
//	drop ...                           same, dropping them
//	receive to=0 from=1 [inc=..] report-alive|unlucky table=(3.1024+0:FAILED)
//	leave node=0
//	members [node=0]
//
// Output: every message sent, every change, joined and fenced; with brief the
// lists only counted, with quiet nothing.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{cfg: medley.DefaultConfig()}
		s.cfg.PassiveProb, s.cfg.ReconnectProb = -1, -1
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(t, d)
			if s.out.Len() == 0 {
				return "nothing\n"
			}
			if d.HasArg("quiet") {
				return "ok\n"
			}
			if d.HasArg("brief") {
				return brief(s.out.String())
			}
			return s.out.String()
		})
	})
}

var listInside = regexp.MustCompile(`(List|Table):\[([^]]*)\]`)

// brief shortens what tells of hundreds of nodes.
func brief(out string) string {
	var b strings.Builder
	ups := 0
	for line := range strings.Lines(out) {
		if strings.HasSuffix(line, " up\n") {
			ups++
			continue
		}
		b.WriteString(listInside.ReplaceAllStringFunc(line, func(s string) string {
			return fmt.Sprintf("%s of %d", s[:strings.Index(s, ":")], len(strings.Fields(s)))
		}))
	}
	fmt.Fprintf(&b, "%d up\n", ups)
	return b.String()
}

type script struct {
	cfg   medley.Config
	now   core.Instant
	nodes map[core.NodeID]*medley.Machine
	total int
	pool  []flight
	out   strings.Builder
}

type flight struct {
	from core.Peer
	core.Send
}

func (s *script) run(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	inc, limit := int(core.FirstIncarnation), 1<<30
	node, from, to := -1, -1, -1
	var kind string
	d.MaybeScanArgs(t, "inc", &inc)
	d.MaybeScanArgs(t, "max", &limit)
	d.MaybeScanArgs(t, "node", &node)
	d.MaybeScanArgs(t, "from", &from)
	d.MaybeScanArgs(t, "kind", &kind)
	switch d.Cmd {
	case "set":
		var v string
		for key, f := range map[string]*time.Duration{"join-timeout": &s.cfg.JoinTimeout, "active-gap": &s.cfg.ActiveGap} {
			if d.MaybeScanArgs(t, key, &v) {
				*f = must(time.ParseDuration(v))(t)
			}
		}
		d.MaybeScanArgs(t, "passive", &s.cfg.PassiveProb)
		d.MaybeScanArgs(t, "reconnect", &s.cfg.ReconnectProb)
	case "nodes":
		d.ScanArgs(t, "n", &s.total)
		up := s.total
		d.MaybeScanArgs(t, "up", &up)
		s.nodes = map[core.NodeID]*medley.Machine{}
		var peers []core.Peer
		for id := range core.NodeID(up) {
			peers = append(peers, core.Peer{ID: id, Inc: core.FirstIncarnation})
		}
		for id := range core.NodeID(up) {
			s.start(id, membership.Start{Self: peers[id], Peers: peers})
		}
	case "start":
		var contacts []core.NodeID
		for _, v := range arg(d, "contacts") {
			contacts = append(contacts, core.NodeID(must(parseInt(v))(t)))
		}
		in := membership.Start{Self: core.Peer{ID: core.NodeID(node), Inc: core.Incarnation(inc)}, Join: true}
		for _, id := range contacts {
			in.Peers = append(in.Peers, core.Peer{ID: id, Inc: core.FirstIncarnation})
		}
		s.start(core.NodeID(node), in)
	case "run":
		var v string
		d.ScanArgs(t, "to", &v)
		s.ticks(core.Instant(must(time.ParseDuration(v))(t)), core.NodeID(node))
	case "deliver", "drop":
		d.MaybeScanArgs(t, "to", &to)
		s.take(kind, core.NodeID(from), core.NodeID(to), limit, d.Cmd == "deliver")
	case "receive":
		d.ScanArgs(t, "to", &to)
		s.step(core.NodeID(to), membership.Receive{
			From: core.Peer{ID: core.NodeID(from), Inc: core.Incarnation(inc)}, Msg: message(t, d),
		})
	case "leave":
		s.step(core.NodeID(node), membership.Leave{})
	case "members":
		for id := range core.NodeID(s.total) {
			if m := s.nodes[id]; m != nil && (node < 0 || id == core.NodeID(node)) {
				fmt.Fprintf(&s.out, "%v lists %v\n", m.Self(), m.Members(nil))
			}
		}
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func parseInt(s string) (n int, err error) {
	_, err = fmt.Sscan(s, &n)
	return n, err
}

func arg(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

// message builds the message of a receive command.
func message(t *testing.T, d *datadriven.TestData) core.Message {
	t.Helper()
	var table []wire.Entry
	for _, v := range arg(d, "table") {
		var e wire.Entry
		var state string
		if _, err := fmt.Sscanf(strings.Replace(v, ":", " ", 1), "%d.%d+%d %s", &e.ID, &e.Inc, &e.Count, &state); err != nil {
			d.Fatalf(t, "entry %q: %v", v, err)
		}
		for e.State.String() != state {
			e.State++
		}
		table = append(table, e)
	}
	count := 0
	d.MaybeScanArgs(t, "count", &count)
	switch {
	case d.HasArg("unlucky"):
		return &wire.Unlucky{Count: uint32(count)}
	case d.HasArg("ping"):
		return &wire.Ping{Seq: 99, Count: uint32(count)}
	default:
		return &wire.ReportAlive{Count: uint32(count), Table: table}
	}
}

func (s *script) start(id core.NodeID, in membership.Start) {
	var near []core.NodeID // a line: the next ids are neighbours
	for _, n := range []core.NodeID{id - 1, id + 1} {
		if n >= 0 && int(n) < s.total {
			near = append(near, n)
		}
	}
	dist := make([]float32, s.total)
	for j := range dist {
		dist[j] = float32(max(int(id)-j, j-int(id)))
	}
	s.nodes[id] = medley.New(s.cfg, s.total, near, dist, core.Stream(1, fmt.Sprint("script", id)))
	s.step(id, in)
}

func (s *script) step(id core.NodeID, in membership.Input) {
	m := s.nodes[id]
	if m == nil {
		return
	}
	var out membership.Effects
	m.Step(s.now, in, &out)
	if out.Joined {
		fmt.Fprintf(&s.out, "%v %v joined\n", s.now, m.Self())
	}
	if out.Fenced {
		fmt.Fprintf(&s.out, "%v fenced, now %v\n", s.now, m.Self())
	}
	for _, c := range out.Changes {
		fmt.Fprintf(&s.out, "%v %v: %v %v\n", s.now, m.Self(), c.Peer, c.Kind)
	}
	for _, send := range out.Sends {
		f := flight{m.Self(), send}
		fmt.Fprintf(&s.out, "%v %s\n", s.now, f)
		s.pool = append(s.pool, f)
	}
}

func (f flight) String() string {
	body := fmt.Sprintf("%+v", f.Msg)
	if f.Mode == core.Reliable {
		body += " reliable"
	}
	return fmt.Sprintf("%v -> %d %s %s", f.from, f.To, wire.KindName(f.Msg.Kind()), strings.TrimPrefix(body, "&"))
}

// ticks runs the machines, of one node or of all, until the instant.
func (s *script) ticks(until core.Instant, only core.NodeID) {
	for {
		next, at := core.None, until+1
		for id := range core.NodeID(s.total) {
			if m := s.nodes[id]; m != nil && (only < 0 || only == id) && m.Deadline() < at {
				next, at = id, m.Deadline()
			}
		}
		if next == core.None {
			break
		}
		s.now = max(s.now, at)
		s.step(next, membership.Tick{})
	}
	s.now = until
}

func (s *script) take(kind string, from, to core.NodeID, limit int, deliver bool) {
	pool := slices.Clone(s.pool)
	s.pool = s.pool[:0]
	var hit []flight
	for _, f := range pool {
		if len(hit) < limit && (kind == "" || kind == wire.KindName(f.Msg.Kind())) &&
			(from < 0 || from == f.from.ID) && (to < 0 || to == f.To) {
			hit = append(hit, f)
		} else {
			s.pool = append(s.pool, f)
		}
	}
	for _, f := range hit {
		if !deliver {
			fmt.Fprintf(&s.out, "dropped %s\n", f)
			continue
		}
		s.step(f.To, membership.Receive{From: f.from, Msg: f.Msg})
	}
}
