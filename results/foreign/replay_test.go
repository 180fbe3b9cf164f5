package foreign

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/workloads"
)

const ms = int64(1_000_000)

// plantRun writes a run of three nodes: node 2 is killed at 1.5 s, suspected
// and declared failed by the others, and comes back at 3.2 s. joined is the
// list length that node 0 reports at first.
func plantRun(t *testing.T, joined int) *results.Run {
	t.Helper()
	r, err := results.Create(filepath.Join(t.TempDir(), "run"), &results.Manifest{Engine: results.Simulated, TimeScale: 1, Nodes: 3, Links: 3, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string][]eventlog.Event{}
	put := func(path string, e eventlog.Event) { logs[path] = append(logs[path], e) }
	node := func(id int32, at int64, e eventlog.Event) {
		e.T, e.Node = at*ms, id
		put(r.NodeLog(core.NodeID(id)), e)
	}
	control := func(at int64, e eventlog.Event) {
		e.T = at * ms
		put(r.Path(results.ControllerFile), e)
	}
	two := int32(2)
	for id := range int32(3) {
		size := 3
		if id == 0 {
			size = joined
		}
		node(id, 10, eventlog.Event{Kind: eventlog.Start, Inc: 1024})
		node(id, 10, eventlog.Event{Kind: eventlog.Joined, Inc: 1024, Size: size})
	}
	control(100, eventlog.Event{Kind: eventlog.Epoch, Node: -1})
	control(1600, eventlog.Event{Kind: eventlog.Kill, Node: 2, Verb: "crash", After: 1601 * ms})
	for id := range int32(2) {
		node(id, 2000, eventlog.Event{Kind: eventlog.Member, Peer: &two, Change: "suspected", Size: 3})
		node(id, 2500, eventlog.Event{Kind: eventlog.Member, Peer: &two, Change: "failed", Size: 2})
		node(id, 2600, eventlog.Event{Kind: eventlog.Counters, Size: 2})
	}
	node(2, 3300, eventlog.Event{Kind: eventlog.Start, Inc: 2048})
	control(3300, eventlog.Event{Kind: eventlog.Restart, Node: 2, Inc: 2048})
	zero, one := int32(0), int32(1)
	node(2, 3400, eventlog.Event{Kind: eventlog.Joined, Size: 3})
	node(2, 3400, eventlog.Event{Kind: eventlog.Member, Peer: &zero, Change: "up", Size: 3})
	node(2, 3400, eventlog.Event{Kind: eventlog.Member, Peer: &one, Change: "up", Size: 3})
	node(2, 3500, eventlog.Event{Kind: eventlog.Counters, Size: 3})
	for id := range int32(2) {
		node(id, 3450, eventlog.Event{Kind: eventlog.Member, Peer: &two, Change: "up", Size: 3})
	}
	for id := range int32(3) {
		node(id, 4100, eventlog.Event{Kind: eventlog.Stop})
	}
	control(4100, eventlog.Event{Kind: eventlog.End, Node: -1})
	for path, events := range logs {
		w, err := eventlog.OpenWriter(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			if err := w.Write(&events[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r, err = results.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReplayMembership(t *testing.T) {
	r := plantRun(t, 3)
	var at []time.Duration
	var lists []string
	disagree, err := ReplayMembership(r, MembershipOptions{Every: time.Second}, func(s *Snapshot) error {
		at = append(at, s.At)
		text := ""
		for i, m := range s.Lists {
			for id := range core.NodeID(3) {
				switch m.Status[id] {
				case Active:
					text += "a"
				case Suspect:
					text += "s"
				case Failed, "":
					text += "-"
				}
			}
			if !s.Up[i] {
				text += "!"
			}
			text += " "
		}
		lists = append(lists, strings.TrimSpace(text))
		return nil
	})
	if err != nil || disagree != 0 {
		t.Fatalf("%v, %d lines disagree", err, disagree)
	}
	if d := cmp.Diff([]time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}, at); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"aaa aaa aaa", "aaa aaa aaa", "aas aas aaa!", "aa- aa- aaa!", "aaa! aaa! aaa!"}, lists); d != "" {
		t.Error(d)
	}
}

func TestReplayMembershipPlantedLists(t *testing.T) {
	r := plantRun(t, 2)
	opt := MembershipOptions{Every: time.Hour}
	ignore := func(*Snapshot) error { return nil }
	if _, err := ReplayMembership(r, opt, ignore); err == nil || !strings.Contains(err.Error(), "first list of node 0 had 2 members") {
		t.Errorf("an unknown first list: %v", err)
	}
	opt.Initial = [][]core.NodeID{{1}, {0, 2}, {0, 1}}
	first := true
	disagree, err := ReplayMembership(r, opt, func(s *Snapshot) error {
		if first && len(s.Lists[0].Status) != 2 {
			t.Errorf("first list %v", s.Lists[0].Status)
		}
		first = false
		return nil
	})
	if err != nil || disagree != 0 {
		t.Errorf("%v, %d lines disagree", err, disagree)
	}
	opt.Initial = opt.Initial[:2]
	if _, err := ReplayMembership(r, opt, ignore); err == nil {
		t.Error("two lists for three nodes")
	}
	if _, err := ReplayMembership(r, MembershipOptions{}, ignore); err == nil {
		t.Error("no interval")
	}
}

// A list that an oracle gives at a restart is not in the logs, only its
// length; two nodes that restart at one instant are told of each other there.
func TestReplayMembershipOfOracle(t *testing.T) {
	m := &membershipReplay{nodes: make([]memberNode, 3), initial: [][]core.NodeID{{1, 2}, {0, 2}, {0, 1}}}
	line := func(node core.NodeID, at int64, e eventlog.Event) {
		e.T, e.Node = at, int32(node)
		m.line(&results.Line{Event: e, Node: node})
	}
	for id := range core.NodeID(3) {
		line(id, 0, eventlog.Event{Kind: eventlog.Start})
	}
	for id := range int32(2) {
		m.line(&results.Line{Node: core.None, Event: eventlog.Event{T: 5, Kind: eventlog.Kill, Node: id, Verb: "crash"}})
	}
	one := int32(1)
	line(0, 9, eventlog.Event{Kind: eventlog.Start})
	line(0, 9, eventlog.Event{Kind: eventlog.Joined, Size: 2}) // itself and 2
	line(1, 9, eventlog.Event{Kind: eventlog.Start})
	line(1, 9, eventlog.Event{Kind: eventlog.Joined, Size: 3})
	line(0, 9, eventlog.Event{Kind: eventlog.Member, Peer: &one, Change: "up", Size: 3})
	for id := range core.NodeID(2) {
		line(id, 12, eventlog.Event{Kind: eventlog.Counters, Size: 3})
		if got := len(m.nodes[id].list.Status); got != 3 {
			t.Errorf("node %d lists %d: %v", id, got, m.nodes[id].list.Status)
		}
	}
	if m.disagree != 0 {
		t.Errorf("%d lines disagree", m.disagree)
	}
	line(0, 13, eventlog.Event{Kind: eventlog.Counters, Size: 2})
	if m.disagree != 1 {
		t.Error("a wrong length goes unnoticed")
	}
}

func TestChurnOf(t *testing.T) {
	trace, err := ChurnOf(plantRun(t, 3), 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	want := []workloads.TraceEvent{{At: 1500 * time.Millisecond}, {At: 3200 * time.Millisecond, Up: true}}
	if d := cmp.Diff(want, trace.Hosts[2].Events); d != "" {
		t.Error(d)
	}
	if !trace.Hosts[2].Initial || len(trace.Hosts[0].Events) != 0 {
		t.Errorf("hosts %+v", trace.Hosts)
	}
	var b bytes.Buffer
	if err := trace.WriteThreeColumns(&b); err != nil {
		t.Fatal(err)
	}
	if b.String() != "0\t0\t1\n1\t0\t1\n2\t0\t1\n2\t3\t0\n2\t6\t1\n" {
		t.Errorf("written:\n%s", b.String())
	}
	if _, err := ChurnOf(plantRun(t, 3), 0); err == nil {
		t.Error("no sample")
	}
}

func TestMerge(t *testing.T) {
	one, err := ReadCamera([]byte(cameraObject), "one")
	if err != nil {
		t.Fatal(err)
	}
	other, err := ReadCSV([]byte(table), "two", CSVOptions{Parameters: map[string]string{"nodes": "2"}})
	if err != nil {
		t.Fatal(err)
	}
	s := Merge("both", []*results.TrialSet{one.Trials("N--weibull_uniform.json"), other})
	if len(s.Trials) != 3 || s.Source != "mixed" || s.Engine != results.Foreign || s.Parameters["nodes"] != "2" {
		t.Errorf("merged %+v", s)
	}
	if v, ok := s.Parameter(0, "msg_drop_rate"); !ok || v != "0.05" {
		t.Errorf("parameter of the first: %q", v)
	}
	if v, ok := s.Parameter(2, "link-loss"); ok {
		t.Errorf("parameter that the other does not state: %q", v)
	}
}
