package timeline

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/results/timeline/timelinetest"
)

func TestRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	timelinetest.Write(t, dir, timelinetest.Plan{Entries: 100, Violations: 3, Kills: 5})
	tl, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if tl.Epoch != int64(timelinetest.Begin) || tl.Begin() != tl.Epoch || tl.End <= tl.Epoch {
		t.Errorf("epoch %d, end %d", tl.Epoch, tl.End)
	}
	if len(tl.Requests) != 100 || tl.Summary.Safety.Violations != 3 || tl.Summary.Logs.Errors != 0 {
		t.Errorf("%d requests, %+v, log errors %v", len(tl.Requests), tl.Summary.Safety, tl.Verdict.LogErrors)
	}
	violating := 0
	for _, q := range tl.Requests {
		if q.CS != int64(timelinetest.Hold) || q.Queued != q.Asked {
			t.Fatalf("request %v: cs %d, queued %d, asked %d", q.ID, q.CS, q.Queued, q.Asked)
		}
		if q.Violating {
			violating++
		}
	}
	if violating != 4 { // a chain of four
		t.Errorf("%d requests in violations", violating)
	}
	if at, ms := tl.Waits(); len(at) != 100 || len(ms) != 100 {
		t.Errorf("%d waits", len(ms))
	}
	var got []Ended
	for _, n := range tl.Nodes[14:] {
		for _, l := range n.Lives {
			got = append(got, l.How)
		}
	}
	// Node 14 is killed three times, for good in the end; 15 twice.
	if d := cmp.Diff([]Ended{Killed, Killed, Killed, Killed, Killed, Stopped}, got); d != "" {
		t.Error(d)
	}
	if p := tl.Nodes[1].Pauses; len(p) != 1 || p[0] != (Span{int64(timelinetest.Begin) + 2e9, int64(timelinetest.Begin) + 3e9}) {
		t.Errorf("pauses %v", p)
	}
	kinds := map[eventlog.Kind]int{}
	for _, f := range tl.Faults {
		kinds[f.Kind]++
	}
	if kinds[eventlog.Kill] != 5 || kinds[eventlog.Restart] != 4 || kinds[eventlog.LinkSet] != 2 {
		t.Errorf("faults %v", kinds)
	}
}

// Terms, migrations, locks and routines of k-groups come out as planted.
func TestGroups(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	timelinetest.Write(t, dir, timelinetest.Plan{Groups: true})
	tl, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if tl.Summary.Groups.Found() > 0 {
		t.Fatalf("%+v", tl.Verdict.Groups)
	}
	at := func(ms int64) int64 { return int64(timelinetest.Begin) + ms*1e6 }
	g := tl.Groups
	if d := cmp.Diff([]Term{
		{0, 1, 1, 1, []core.NodeID{1, 2, 3}, at(10), 5e6, at(12), at(1000), TermMigrated},
		{0, 2, 1, 2, []core.NodeID{2, 3, 5}, at(1010), 4e6, at(1030), at(1804), TermReplaced},
		{0, 2, 2, 3, []core.NodeID{2, 3, 5}, at(1800), 6e6, at(1804), tl.End, TermServing},
	}, g.Terms); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Migration{{
		Group: 0, From: 1, To: 2, OldLeader: 1, NewLeader: 2, Frozen: at(1000), Selected: at(1004), Elected: at(1010), Transferred: at(1015),
		Replicated: at(1018), Decommissioned: at(1020), Active: at(1030), Retiring: at(1040), Retired: at(1050),
		Election: 4e6, Transfer: 5e6, Replication: 3e6, Ack: 2e6, Attempts: 1, Unchanged: true,
	}}, g.Migrations); d != "" {
		t.Error(d)
	}
	if len(g.Locks) != 2 || g.Locks[0].Freed.T != at(224) || !g.Locks[1].Inherited || g.Locks[1].Granted.Leader != 3 {
		t.Errorf("locks %+v", g.Locks)
	}
	if len(g.Runs) != 2 || g.Runs[0].Done != at(230) || g.Runs[1].Executing != at(1820) || g.Runs[1].Releasing != -1 {
		t.Errorf("runs %+v", g.Runs)
	}
	if d := cmp.Diff([]Command{{4, 0, 1 << 16, at(112), at(212)}, {4, 0, 2 << 16, at(1830), -1}}, g.Commands); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]DeviceFailure{{6, 0, 3, 2, 2, -1, at(2000), at(3000)}}, g.Failures); d != "" {
		t.Error(d)
	}
}

// A leader that is killed leads no more.
func TestLeaderDies(t *testing.T) {
	c := newCollector(2)
	line := func(node core.NodeID, e eventlog.Event) { c.line(lineOf(node, e)) }
	line(1, eventlog.Event{T: 1, Kind: eventlog.Start, Inc: 1024})
	line(1, eventlog.Event{T: 5, Kind: eventlog.KGroup, State: "active", KG: &eventlog.Group{Epoch: 1, Term: 1, Members: "1 x 0"}})
	line(core.None, eventlog.Event{T: 9, Kind: eventlog.Kill, Node: 1, Verb: "crash"})
	line(0, eventlog.Event{T: 12, Kind: eventlog.Monitor, State: "failed", KG: &eventlog.Group{Device: 1}})
	g := c.finish().Groups
	if len(g.Terms) != 1 || g.Terms[0].How != TermDied || g.Terms[0].End != 9 || len(g.Terms[0].Members) != 2 {
		t.Errorf("%+v", g.Terms)
	}
	if len(g.Failures) != 1 || g.Failures[0].Killed != 9 {
		t.Errorf("%+v", g.Failures)
	}
}

// What was sent over time adds up to what was sent.
func TestTrafficAddsUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	timelinetest.Write(t, dir, timelinetest.Plan{Kills: 7, Entries: 300})
	tl, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range tl.Traffic.Kinds {
		sum, want := 0.0, int64(0)
		for _, v := range tl.Traffic.N[i] {
			sum += v
		}
		for _, n := range tl.Nodes {
			want += n.Sent[kind].N
		}
		if math.Abs(sum-float64(want)) > 1e-6*float64(want) {
			t.Errorf("%s: %v over time, %d by node", kind, sum, want)
		}
		if k := tl.Summary.Messages.ByKind[kind]; k.N != want {
			t.Errorf("%s: %d by node, %d in the summary", kind, want, k.N)
		}
	}
	if c := tl.Traffic.Class["REQUEST"]; c != "mutex" {
		t.Errorf("REQUEST is of class %q", c)
	}
}

func TestSizes(t *testing.T) {
	c := newCollector(3)
	c.resize(&c.now[0], 0, 3)
	c.resize(&c.now[1], 0, 3)
	c.resize(&c.now[0], 1e9, 1)
	c.resize(&c.now[1], 2e9, 0)
	c.end = 4e9
	tl := c.finish()
	at := func(sec int64) SizeBin {
		for _, b := range tl.Sizes {
			if b.From <= sec*1e9 && sec*1e9 < b.To {
				return b
			}
		}
		return SizeBin{}
	}
	for sec, want := range map[int64]SizeBin{0: {Mean: 3, Up: 2, Min: 3}, 1: {Mean: 2, Up: 2, Min: 1}, 2: {Mean: 1, Up: 1, Min: 1}} {
		got := at(sec)
		got.Span = Span{}
		if got != want {
			t.Errorf("second %d: %+v, want %+v", sec, got, want)
		}
	}
}

// Processes end one after the other when the run is over: that is no fall of
// their number.
func TestSizesToTheEnd(t *testing.T) {
	c := newCollector(2)
	for k := range core.NodeID(2) {
		c.line(&results.Line{Node: k, Event: eventlog.Event{Kind: eventlog.Start, T: 0, Inc: 1024}})
		c.line(&results.Line{Node: k, Event: eventlog.Event{Kind: eventlog.Joined, T: 0, Size: 2}})
	}
	c.line(&results.Line{Node: core.None, Event: eventlog.Event{Kind: eventlog.End, T: 1e9}})
	c.line(&results.Line{Node: 0, Event: eventlog.Event{Kind: eventlog.Stop, T: 1e9 + 1e6}})
	c.line(&results.Line{Node: 1, Event: eventlog.Event{Kind: eventlog.Stop, T: 1e9 + 90e6}})
	tl := c.finish()
	last := tl.Sizes[len(tl.Sizes)-1]
	if last.To > tl.End || last.Up != 2 || last.Mean != 2 || last.Min != 2 {
		t.Errorf("last: %+v, end %d", last, tl.End)
	}
	if l := tl.Nodes[1].Lives[0]; l.How != Stopped || l.To != 1e9+90e6 {
		t.Errorf("life %+v", l)
	}
}

// Bins keep the amount whatever is spread, and stay few.
func TestBins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bins
		want := 0.0
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			from := rapid.Int64Range(-5, 1e13).Draw(t, "from")
			to := rapid.Int64Range(-5, 1e13).Draw(t, "to")
			amount := float64(rapid.IntRange(0, 1000).Draw(t, "amount"))
			b.spread(from, to, amount)
			want += amount
		}
		got := 0.0
		for _, v := range b.sum {
			got += v
		}
		if math.Abs(got-want) > 1e-6*(1+want) || len(b.sum) > maxBins {
			t.Fatalf("%v of %v in %d bins", got, want, len(b.sum))
		}
	})
}

// The smallest length is right at every change.
func TestSmallest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const nodes = 5
		c := newCollector(nodes)
		for i := range rapid.IntRange(1, 60).Draw(t, "n") {
			k := rapid.IntRange(0, nodes-1).Draw(t, "node")
			c.resize(&c.now[k], int64(i)*1e8, rapid.IntRange(0, nodes).Draw(t, "size"))
			want := 0
			for _, n := range c.now {
				if n.size > 0 && (want == 0 || n.size < want) {
					want = n.size
				}
			}
			if c.sizes.min != want {
				t.Fatalf("smallest %d, want %d", c.sizes.min, want)
			}
		}
	})
}

func TestNotARun(t *testing.T) {
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("an empty directory is a run")
	}
}

// Lines that make no sense must not upset it.
func FuzzCollector(f *testing.F) {
	f.Add(int64(5), "start", int32(0), 3)
	f.Add(int64(-1), "joined", int32(2), 70000)
	f.Add(int64(math.MaxInt64), "kill", int32(9), -4)
	f.Fuzz(func(t *testing.T, at int64, kind string, node int32, size int) {
		c := newCollector(3)
		for _, id := range []core.NodeID{0, 1, core.None} {
			for _, k := range []string{"start", "joined", kind, "group", "lock", "routine", "command", "monitor", "counters", kind} {
				kg := &eventlog.Group{Group: node, Device: node, Epoch: uint64(size), Ticket: uint64(at), Members: kind, Locks: kind}
				e := eventlog.Event{T: at, Kind: eventlog.Kind(k), Node: node, Size: size, State: []string{"active", "grant", "EXECUTING", "start", "failed", "frozen"}[uint(size)%6], KG: kg, Sent: map[string]eventlog.Count{"X": {N: 4}}}
				c.line(lineOf(id, e))
			}
		}
		tl := c.finish()
		if len(tl.Sizes) > maxBins || len(tl.Traffic.Bins) > maxBins {
			t.Fatalf("%d and %d bins", len(tl.Sizes), len(tl.Traffic.Bins))
		}
	})
}

func lineOf(id core.NodeID, e eventlog.Event) *results.Line {
	return &results.Line{Node: id, Event: e, No: 1}
}
