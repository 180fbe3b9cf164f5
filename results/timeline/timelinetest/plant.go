// Package timelinetest plants run directories for the tests and benchmarks of
// what reads them: a mesh under churn whose nodes ask for the critical section
// in turn, with as many violations as wanted. Nothing of it has run.
package timelinetest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
)

// Plan says what to plant; the zero value of a field means the default.
type Plan struct {
	Nodes      int    // default 16
	Entries    int    // served requests; default 40
	Violations int    // pairs of sections that overlap
	Groups     bool   // a group of devices with its routine; needs 8 nodes
	Kills      int    // each with a restart 3 s later, but for the last
	Scenario   string // text of scenario.yaml
	Seed       uint64
	Command    []string
}

// Hold is the length of every planted section, and Begin the epoch.
const (
	Hold  = 200 * time.Millisecond
	Begin = time.Second
)

type planted struct {
	t     int64
	event eventlog.Event
}

// Write plants a run in dir, which must not exist, and opens it.
func Write(tb testing.TB, dir string, p Plan) *results.Run {
	tb.Helper()
	if p.Nodes == 0 {
		p.Nodes = 16
	}
	if p.Entries == 0 {
		p.Entries = 40
	}
	if p.Scenario == "" {
		p.Scenario = "name: planted\nnodes: " + fmt.Sprint(p.Nodes) + "\n"
	}
	random := core.Stream(p.Seed+1, "timelinetest")
	links := mesh(p.Nodes, random)
	run, err := results.Create(dir, &results.Manifest{
		Engine: results.Emulated, Version: "planted", Seed: p.Seed, Command: p.Command, Fabric: "relay", TimeScale: 1, Nodes: p.Nodes,
		Links: len(links) / 2, Algorithm: "camera", Membership: "medley", Arrivals: p.Entries,
		Started:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Fidelity: results.FidelityParameters{LinkDelayMS: 5, LossConfigured: .05, SliceMS: 5000},
	})
	check(tb, err)
	check(tb, run.WriteLinks(links))
	check(tb, run.WriteFile(results.ScenarioFile, []byte(p.Scenario)))
	logs := make([][]planted, p.Nodes)
	var control []planted
	add := func(id core.NodeID, t int64, e eventlog.Event) {
		e.T, e.Node = t, int32(id)
		logs[id] = append(logs[id], planted{t, e})
	}
	tell := func(t int64, e eventlog.Event) {
		e.T = t
		control = append(control, planted{t, e})
	}
	tell(int64(Begin), eventlog.Event{Kind: eventlog.Epoch, Node: -1})
	hold, step := int64(Hold), int64(Hold)*11/10
	end := int64(Begin) + int64(p.Entries+2)*step + 5e9

	// Node 0 never asks and is the one that churns most.
	inc := make([]uint32, p.Nodes)
	for i := range inc {
		inc[i] = uint32(core.IncarnationStep)
		add(core.NodeID(i), 1e6*int64(i), eventlog.Event{Kind: eventlog.Start, Inc: inc[i], PID: 100 + i})
		add(core.NodeID(i), 1e6*int64(i)+1000, eventlog.Event{Kind: eventlog.Joined, Inc: inc[i], Size: p.Nodes})
	}
	asking := max(1, p.Nodes-max(1, p.Nodes/8)) // the last ones are killed
	ts, early := uint64(0), int64(0)
	busy := make([]int64, p.Nodes) // until when
	for k := range p.Entries {
		if k > 0 && k <= p.Violations {
			early += step - hold + hold/4 // a quarter in the section before
		}
		enter := int64(Begin) + int64(k+1)*step - early
		id := core.NodeID(int(math.Pow(random.Float64(), 2) * float64(asking)))
		for busy[id] >= enter {
			id = core.NodeID((int(id) + 1) % asking)
		}
		ts++
		asked := max(busy[id]+1, enter-int64(random.ExpFloat64()*2e9), int64(Begin))
		req := core.RequestID{Node: id, Inc: core.Incarnation(inc[id]), TS: ts}.String()
		queued := asked
		add(id, asked, eventlog.Event{Kind: eventlog.Request, Inc: inc[id], Req: req, No: k + 1, Queued: &queued, CS: hold})
		others := make([]core.NodeID, 0, p.Nodes)
		for o := range core.NodeID(p.Nodes) {
			if o != id {
				others = append(others, o)
			}
		}
		add(id, enter, eventlog.Event{Kind: eventlog.Enter, Inc: inc[id], Req: req, No: k + 1, Asked: eventlog.FormatRanges(others), Grants: p.Nodes})
		add(id, enter+hold, eventlog.Event{Kind: eventlog.Exit, Inc: inc[id], Req: req, No: k + 1})
		busy[id] = enter + hold
	}
	if p.Groups {
		groups(add, inc)
	}
	for k := range p.Kills {
		id := core.NodeID(asking + k%max(1, p.Nodes-asking))
		if int(id) >= p.Nodes {
			break
		}
		at := int64(Begin) + int64(k/max(1, p.Nodes-asking))*8e9 + int64(k%max(1, p.Nodes-asking))*3e8 + 1e9
		if at+4e9 > end {
			break
		}
		tell(at, eventlog.Event{Kind: eventlog.Kill, Node: int32(id), Inc: inc[id], Verb: "crash", State: "NONE", After: at + 1000})
		peer := int32(id)
		add(0, at+2e9, eventlog.Event{Kind: eventlog.Member, Inc: inc[0], Peer: &peer, PeerInc: inc[id], Change: "failed", Size: p.Nodes - 1})
		if k+1 == p.Kills {
			break
		}
		inc[id] += uint32(core.IncarnationStep)
		tell(at+3e9, eventlog.Event{Kind: eventlog.Restart, Node: int32(id), Inc: inc[id], After: at + 3e9 + 1000})
		add(id, at+3e9, eventlog.Event{Kind: eventlog.Start, Inc: inc[id], PID: 900 + k})
		add(id, at+3e9+1e6, eventlog.Event{Kind: eventlog.Joined, Inc: inc[id], Size: p.Nodes})
		add(0, at+3e9+2e6, eventlog.Event{Kind: eventlog.Member, Inc: inc[0], Peer: &peer, PeerInc: inc[id], Change: "up", Size: p.Nodes})
	}
	if p.Nodes > 1 {
		tell(int64(Begin)+4e9, eventlog.Event{Kind: eventlog.LinkSet, Node: -1, Link: links[0].Link, Verb: "down", Text: "down"})
		tell(int64(Begin)+6e9, eventlog.Event{Kind: eventlog.LinkSet, Node: -1, Link: links[0].Link, Verb: "up", Text: "up"})
		tell(int64(Begin)+2e9, eventlog.Event{Kind: eventlog.Pause, Node: 1, Inc: inc[1]})
		tell(int64(Begin)+3e9, eventlog.Event{Kind: eventlog.Resume, Node: 1, Inc: inc[1]})
	}
	for t := int64(Begin) + 5e9; t < end; t += 5e9 {
		rounds := (t - int64(Begin)) / 5e9
		late := map[int64]float64{3: 3000, 5: 50_000}[rounds]
		tell(t, eventlog.Event{Kind: eventlog.Slice, Node: -1, Host: &eventlog.Host{
			RealMS: 5000, CPUBusy: .3, Frames: 10_000, Dropped: 500, ExpectDrops: 500, LateP50US: 10, LateP99US: 100 + late, Mutex: 4000, Membership: 6000,
		}})
	}
	for i := range inc {
		id := core.NodeID(i)
		slices.SortStableFunc(logs[id], func(a, b planted) int { return int(min(max(a.t-b.t, -1), 1)) })
		counters(&logs[id], end)
	}
	for i := range inc {
		id := core.NodeID(i)
		if dead(control, id) {
			continue
		}
		add(id, end, eventlog.Event{Kind: eventlog.Stop, Inc: inc[i]})
	}
	tell(end, eventlog.Event{Kind: eventlog.End, Node: -1})
	for i := range logs {
		write(tb, run.NodeLog(core.NodeID(i)), logs[i])
	}
	write(tb, run.Path(results.ControllerFile), control)
	run, err = results.Open(dir)
	check(tb, err)
	return run
}

// counters adds a line of counters every 5 s to a node's sorted log.
func counters(log *[]planted, end int64) {
	var out []planted
	var since, inc int64
	node := int32(0)
	line := func(t int64) planted {
		n := (t - since) / 1e7
		sent := map[string]eventlog.Count{
			"PING": {N: n, Bytes: 20 * n}, "ACK": {N: n, Bytes: 25 * n}, "REQUEST": {N: n / 3, Bytes: 4 * n, Retrans: n / 50},
			"OK": {N: n / 4, Bytes: 5 * n}, "transport-ack": {N: n / 9, Bytes: n},
		}
		return planted{t, eventlog.Event{T: t, Kind: eventlog.Counters, Node: node, Inc: uint32(inc), Sent: sent, Recv: sent}}
	}
	next := int64(math.MaxInt64)
	for i, e := range *log {
		if e.event.Kind == eventlog.Start {
			since, inc, node, next = e.t, int64(e.event.Inc), e.event.Node, e.t+5e9
		}
		out = append(out, e)
		until := end
		if i+1 < len(*log) {
			until = (*log)[i+1].t
			if (*log)[i+1].event.Kind == eventlog.Start {
				until -= 4e9 // it was dead by then
			}
		}
		for ; next < until; next += 5e9 {
			out = append(out, line(next))
		}
	}
	*log = out
}

func dead(control []planted, id core.NodeID) bool {
	down := false
	for _, e := range control {
		if e.event.Node == int32(id) {
			switch e.event.Kind {
			case eventlog.Kill:
				down = true
			case eventlog.Restart:
				down = false
			default:
			}
		}
	}
	return down
}

// mesh is a ring with chords.
func mesh(nodes int, random *rand.Rand) []results.LinkRow {
	seen := map[[2]int]bool{}
	var rows []results.LinkRow
	link := func(a, b int) {
		a, b = min(a, b), max(a, b)
		if a == b || seen[[2]int{a, b}] {
			return
		}
		seen[[2]int{a, b}] = true
		for _, dir := range []string{"ab", "ba"} {
			rows = append(rows, results.LinkRow{
				Link: fmt.Sprintf("%d-%d", a, b), A: core.NodeID(a), B: core.NodeID(b), Dir: dir, DelayMS: 5, Loss: .05,
				Frames: int64(random.IntN(5000)), Bytes: 400_000, Dropped: 50, ExpectedDrops: 50,
			})
		}
	}
	for i := range nodes {
		if nodes > 1 {
			link(i, (i+1)%nodes)
		}
		for range min(4, nodes/4) {
			link(i, (i+2+random.IntN(6))%nodes)
		}
	}
	return rows
}

func write(tb testing.TB, path string, lines []planted) {
	tb.Helper()
	var b bytes.Buffer
	w := eventlog.NewWriter(&b)
	for i := range lines {
		check(tb, w.Write(&lines[i].event))
	}
	check(tb, os.WriteFile(path, b.Bytes(), 0o644))
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
