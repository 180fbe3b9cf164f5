package results

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Every judgement on a planted history.
func TestJudgement(t *testing.T) {
	type want struct {
		violations, zombies, concurrent int
		violationMS, zombieMS           float64
		issued, served                  int
		aborted, unserved               string // "reason:n,..."
		logErrors                       int
		errorText                       string
		cut                             int
		verdict                         string
	}
	fail := func(p *plant, ms float64, peer core.NodeID, observers ...core.NodeID) {
		for _, o := range observers {
			id := int32(peer)
			p.log(ms, o, eventlog.Event{Kind: eventlog.Member, Peer: &id, PeerInc: uint32(p.inc[peer]), Change: "failed", Size: 3})
		}
	}
	for _, c := range []struct {
		name string
		make func(p *plant) *Run
		want want
	}{
		{"nothing", func(p *plant) *Run { return p.end(10) }, want{verdict: VerdictOK}},
		{"apart", func(p *plant) *Run {
			p.section(1, 2, 0)
			p.section(3, 4, 1)
			return p.end(10)
		}, want{concurrent: 1, issued: 2, served: 2, verdict: VerdictOK}},
		{"touching", func(p *plant) *Run {
			p.section(1, 2, 1)
			p.section(2, 3, 0)
			return p.end(10)
		}, want{concurrent: 1, issued: 2, served: 2, verdict: VerdictOK}},
		{"overlap by a nanosecond", func(p *plant) *Run {
			p.section(1, 2.000001, 0)
			p.section(2, 3, 1)
			return p.end(10)
		}, want{violations: 1, concurrent: 2, violationMS: .000001, issued: 2, served: 2, verdict: VerdictViolation}},
		{"three at once", func(p *plant) *Run {
			p.section(1, 5, 0)
			p.section(2, 6, 1)
			p.section(3, 4, 2)
			return p.end(10)
		}, want{violations: 3, concurrent: 3, violationMS: 3, issued: 3, served: 3, verdict: VerdictViolation}},
		{"same instant", func(p *plant) *Run {
			p.section(1, 2, 0)
			p.section(1, 2, 1)
			return p.end(10)
		}, want{violations: 1, concurrent: 2, violationMS: 1, issued: 2, served: 2, verdict: VerdictViolation}},
		{"killed holder frees at the kill", func(p *plant) *Run {
			p.enter(1, p.request(1, 0))
			p.kill(2, 0, "crash")
			p.section(2, 3, 1)
			return p.open()
		}, want{concurrent: 1, issued: 2, served: 1, aborted: "killed holding:1", verdict: VerdictOK}},
		{"killed holder holds until the kill", func(p *plant) *Run {
			p.enter(1, p.request(1, 0))
			p.section(2, 4, 1)
			p.kill(3, 0, "crash")
			return p.open()
		}, want{violations: 1, concurrent: 2, violationMS: 1, issued: 2, served: 1, aborted: "killed holding:1", verdict: VerdictViolation}},
		{"exit between the instant of the kill and death", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			p.kill(2, 0, "crash")
			p.exit(2.0005, a)
			p.section(3, 4, 1)
			return p.open()
		}, want{concurrent: 1, issued: 2, served: 2, verdict: VerdictOK}},
		{"enter between the instant of the kill and death proves nothing", func(p *plant) *Run {
			a := p.request(1, 0)
			p.kill(2, 0, "crash")
			p.enter(2.0005, a)
			p.section(2.0002, 3, 1)
			return p.open()
		}, want{concurrent: 1, issued: 2, served: 1, aborted: "killed holding:1", verdict: VerdictOK}},
		{"killed holder restarts and enters again", func(p *plant) *Run {
			p.enter(1, p.request(1, 0))
			p.kill(2, 0, "crash")
			p.restart(5, 0)
			p.section(6, 7, 0)
			p.section(3, 4, 1)
			return p.end(10)
		}, want{concurrent: 1, issued: 3, served: 2, aborted: "killed holding:1", verdict: VerdictOK}},
		{"killed while starting", func(p *plant) *Run {
			p.kill(1, 0, "crash")
			p.control(2, eventlog.Event{Kind: eventlog.Kill, Node: 0, After: 3e6})
			p.start(2.5, 0) // wrote its first line after the instant of its kill
			p.enter(2.6, p.request(2.6, 0))
			p.section(4, 5, 1)
			return p.open()
		}, want{concurrent: 1, issued: 2, served: 1, aborted: "killed holding:1", verdict: VerdictOK}},
		{"killed while waiting", func(p *plant) *Run {
			p.request(1, 0)
			p.kill(2, 0, "crash")
			return p.open()
		}, want{issued: 1, aborted: "killed waiting:1", verdict: VerdictOK}},
		{"fenced holder", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			p.log(2, 0, eventlog.Event{Kind: eventlog.Fenced, Req: a.req, No: a.no, State: "HELD"})
			p.section(2, 3, 1)
			return p.end(10)
		}, want{concurrent: 1, issued: 2, served: 1, aborted: "fenced holding:1", verdict: VerdictOK}},
		{"fenced holder, too late", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			p.section(2, 3, 1)
			p.log(2.5, 0, eventlog.Event{Kind: eventlog.Fenced, Req: a.req, No: a.no, State: "HELD"})
			return p.end(10)
		}, want{violations: 1, concurrent: 2, violationMS: .5, issued: 2, served: 1, aborted: "fenced holding:1", verdict: VerdictViolation}},
		{"fenced waiter asks again", func(p *plant) *Run {
			a := p.request(1, 0)
			p.log(2, 0, eventlog.Event{Kind: eventlog.Fenced, Req: a.req, No: a.no, State: "WAIT"})
			p.inc[0]++
			p.section(2, 3, 0)
			return p.end(10)
		}, want{concurrent: 1, issued: 2, served: 1, aborted: "fenced waiting:1", verdict: VerdictOK}},
		{"zombie", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			fail(p, 2, 0, 1, 2, 3)
			p.section(3, 4, 1)
			p.exit(5, a)
			return p.end(10)
		}, want{zombies: 1, zombieMS: 1, concurrent: 1, issued: 2, served: 2, verdict: VerdictOK}},
		{"zombie enters second", func(p *plant) *Run {
			a := p.request(1, 0)
			b := p.request(1, 1)
			fail(p, 2, 1, 0, 2, 3)
			p.enter(2.5, a)
			p.enter(3, b)
			p.exit(4, b)
			p.exit(5, a)
			return p.end(10)
		}, want{zombies: 1, zombieMS: 1, concurrent: 1, issued: 2, served: 2, verdict: VerdictOK}},
		{"declared failed by half only", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			fail(p, 2, 0, 1, 2)
			p.section(3, 4, 1)
			p.exit(5, a)
			return p.end(10)
		}, want{violations: 1, violationMS: 1, concurrent: 2, issued: 2, served: 2, verdict: VerdictViolation}},
		{"the dead have no vote", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			fail(p, 2, 0, 1, 2, 3)
			p.kill(2.5, 2, "crash")
			p.kill(2.5, 3, "crash")
			p.section(3, 4, 1)
			p.exit(5, a)
			return p.open()
		}, want{violations: 1, violationMS: 1, concurrent: 2, issued: 2, served: 2, verdict: VerdictViolation}},
		{"declared failed only after the overlap began", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			b := p.request(2, 1)
			p.enter(2, b)
			fail(p, 2, 0, 1, 2, 3)
			p.exit(3, b)
			p.exit(5, a)
			return p.end(10)
		}, want{violations: 1, violationMS: 1, concurrent: 2, issued: 2, served: 2, verdict: VerdictViolation}},
		{"an earlier life was declared failed", func(p *plant) *Run {
			fail(p, .5, 0, 1, 2, 3)
			p.kill(.7, 0, "crash")
			p.restart(.8, 0)
			p.section(1, 4, 0)
			p.section(3, 5, 1)
			return p.end(10)
		}, want{violations: 1, violationMS: 1, concurrent: 2, issued: 2, served: 2, verdict: VerdictViolation}},
		{"declaration taken back", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			fail(p, 2, 0, 1, 2, 3)
			id := int32(0)
			p.log(2.5, 3, eventlog.Event{Kind: eventlog.Member, Peer: &id, PeerInc: uint32(p.inc[0]), Change: "up", Size: 4})
			p.section(3, 4, 1)
			p.exit(5, a)
			return p.end(10)
		}, want{violations: 1, violationMS: 1, concurrent: 2, issued: 2, served: 2, verdict: VerdictViolation}},
		{"paused holder remains a holder", func(p *plant) *Run {
			p.enter(1, p.request(1, 0))
			p.control(2, eventlog.Event{Kind: eventlog.Pause, Node: 0})
			p.section(3, 4, 1)
			p.control(9, eventlog.Event{Kind: eventlog.End})
			return p.open()
		}, want{violations: 1, violationMS: 1, concurrent: 2, issued: 2, served: 2, verdict: VerdictViolation}},
		{"missing exit holds to the end", func(p *plant) *Run {
			p.enter(1, p.request(1, 0))
			p.section(3, 4, 1)
			p.section(5, 6, 2)
			return p.open()
		}, want{violations: 2, violationMS: 2, concurrent: 2, issued: 3, served: 3, verdict: VerdictViolation}},
		{"graceful stop ends the section", func(p *plant) *Run {
			p.enter(1, p.request(1, 0))
			p.log(2, 0, eventlog.Event{Kind: eventlog.Stop})
			p.section(2, 3, 1)
			return p.open()
		}, want{concurrent: 1, issued: 2, served: 2, verdict: VerdictOK}},
		{"leave ends the section", func(p *plant) *Run {
			p.enter(1, p.request(1, 0))
			p.log(2, 0, eventlog.Event{Kind: eventlog.Leave, State: "HELD"})
			p.section(3, 4, 1)
			p.log(5, 0, eventlog.Event{Kind: eventlog.Stop})
			return p.open()
		}, want{concurrent: 1, issued: 2, served: 1, aborted: "left holding:1", verdict: VerdictOK}},
		{"leave with an exit after it", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			p.log(2, 0, eventlog.Event{Kind: eventlog.Leave, State: "HELD"})
			p.section(3, 4, 1)
			p.exit(3.5, a)
			return p.end(10)
		}, want{violations: 1, violationMS: .5, concurrent: 2, issued: 2, served: 2, verdict: VerdictViolation}},
		{"process died by itself", func(p *plant) *Run {
			p.enter(1, p.request(1, 0))
			p.control(5, eventlog.Event{Kind: eventlog.Exited, Node: 0, Text: "exit status 2"})
			p.section(3, 4, 1)
			return p.open()
		}, want{concurrent: 1, issued: 2, served: 1, aborted: "died holding:1", verdict: VerdictOK}},
		{"failure without an instant", func(p *plant) *Run {
			p.enter(1, p.request(1, 0))
			p.append(0, &eventlog.Event{Kind: eventlog.Failure, Text: "boom"})
			p.section(3, 4, 1)
			return p.open()
		}, want{concurrent: 1, issued: 2, served: 1, aborted: "died holding:1", verdict: VerdictOK}},
		{"restart that nothing explains", func(p *plant) *Run {
			p.enter(1, p.request(1, 0))
			p.start(5, 0)
			p.section(3, 4, 1)
			return p.open()
		}, want{
			concurrent: 1, issued: 2, served: 1, aborted: "died holding:1", logErrors: 1,
			errorText: "nodes/0.jsonl:4: request 0.1024.1 is open, but the node starts again", verdict: VerdictLogErrors,
		}},
		{"log cut by a full disk", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			p.logs[0] = append(p.logs[0], `{"t":2000000,"ev":"ex`...)
			p.section(3, 4, 1)
			return p.open()
		}, want{
			concurrent: 1, issued: 2, served: 2, cut: 1, logErrors: 1,
			errorText: "nodes/0.jsonl:4: log is cut while request 0.1024.1 is under way", verdict: VerdictLogErrors,
		}},
		{"line cut by a kill", func(p *plant) *Run {
			p.section(1, 2, 0)
			p.logs[0] = append(p.logs[0], `{"t":2000000,"ev":"coun`...)
			p.kill(2.5, 0, "crash")
			p.logs[0] = append(p.logs[0], '\n')
			p.restart(3, 0)
			p.section(4, 5, 0)
			return p.end(10)
		}, want{concurrent: 1, issued: 2, served: 2, cut: 1, verdict: VerdictOK}},
		{"waiting at the end, not for long", func(p *plant) *Run {
			p.request(8, 0)
			return p.end(10)
		}, want{issued: 1, unserved: "run ended:1", verdict: VerdictOK}},
		{"starved", func(p *plant) *Run {
			p.request(1, 0)
			p.section(1, 2, 1)
			return p.end(5000)
		}, want{concurrent: 1, issued: 2, served: 1, unserved: "still waiting:1", verdict: VerdictStarved}},
		{"interrupted", func(p *plant) *Run {
			p.request(1, 0)
			p.control(4999, eventlog.Event{Kind: eventlog.Interrupt, Node: -1})
			return p.end(5000)
		}, want{issued: 1, unserved: "run ended:1", verdict: VerdictOK}},
		{"paused at the end", func(p *plant) *Run {
			p.request(1, 0)
			p.control(2, eventlog.Event{Kind: eventlog.Pause, Node: 0})
			p.control(5000, eventlog.Event{Kind: eventlog.End})
			return p.open()
		}, want{issued: 1, unserved: "paused:1", verdict: VerdictOK}},
		{"enter without request still counts for safety", func(p *plant) *Run {
			a := asked{0, "0.1024.9", 1}
			p.enter(1, a)
			p.exit(3, a)
			p.section(2, 4, 1)
			return p.end(10)
		}, want{
			violations: 1, violationMS: 1, concurrent: 2, issued: 2, served: 2, logErrors: 1,
			errorText: "nodes/0.jsonl:3: enter of request 0.1024.9 without request", verdict: VerdictViolation,
		}},
		{"exit without enter", func(p *plant) *Run {
			p.exit(1, asked{0, "0.1024.9", 1})
			return p.end(10)
		}, want{logErrors: 1, errorText: "nodes/0.jsonl:3: exit of request 0.1024.9 without enter", verdict: VerdictLogErrors}},
		{"wrong number", func(p *plant) *Run {
			a := p.request(1, 0)
			a.no = 99
			p.enter(1, a)
			a.no = 1
			p.exit(2, a)
			return p.end(10)
		}, want{
			concurrent: 1, issued: 1, served: 1, logErrors: 1,
			errorText: "nodes/0.jsonl:4: enter of request 0.1024.1 has number 99, its request had 1", verdict: VerdictLogErrors,
		}},
		{"wrong request", func(p *plant) *Run {
			a := p.request(1, 0)
			p.enter(1, a)
			p.exit(2, asked{0, "0.1024.77", a.no})
			return p.end(10)
		}, want{
			concurrent: 1, issued: 1, served: 1, logErrors: 1,
			errorText: "nodes/0.jsonl:5: exit of request 0.1024.77, but request 0.1024.1 is under way", verdict: VerdictLogErrors,
		}},
		{"two enters of one request", func(p *plant) *Run {
			a := p.section(1, 2, 0)
			p.log(3, 0, eventlog.Event{Kind: eventlog.Request, Req: a.req, No: a.no})
			p.enter(3, a)
			p.exit(4, a)
			return p.end(10)
		}, want{
			concurrent: 1, issued: 2, served: 2, logErrors: 1,
			errorText: "nodes/0.jsonl:7: second enter of request 0.1024.1 (first in line 4)", verdict: VerdictLogErrors,
		}},
		{"time runs backwards", func(p *plant) *Run {
			p.section(5, 6, 0)
			p.log(4, 0, eventlog.Event{Kind: eventlog.Note})
			return p.end(10)
		}, want{
			concurrent: 1, issued: 1, served: 1, logErrors: 1,
			errorText: "nodes/0.jsonl:6: instant 4000000 is before the line above it (6000000)", verdict: VerdictLogErrors,
		}},
		{"request inside a request", func(p *plant) *Run {
			p.request(1, 0)
			p.section(2, 3, 0)
			return p.end(10)
		}, want{
			concurrent: 1, issued: 2, served: 1, aborted: "died waiting:1", logErrors: 1,
			errorText: "nodes/0.jsonl:4: request 0.1024.2 while request 0.1024.1 is under way", verdict: VerdictLogErrors,
		}},
		{"unknown kinds are skipped", func(p *plant) *Run {
			p.log(1, 0, eventlog.Event{Kind: "moon"})
			p.control(1, eventlog.Event{Kind: "tide", Node: -1})
			return p.end(10)
		}, want{verdict: VerdictOK}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, v := judge(t, c.make(newPlant(t, 4)))
			list := func(m map[string]int) string {
				var parts []string
				for _, k := range slices.Sorted(maps.Keys(m)) {
					parts = append(parts, fmt.Sprintf("%s:%d", k, m[k]))
				}
				return strings.Join(parts, ",")
			}
			got := want{
				violations: s.Safety.Violations, zombies: s.Safety.ZombieOverlaps, concurrent: s.Safety.MaxConcurrent,
				violationMS: float64(s.Safety.ViolationMS), zombieMS: float64(s.Safety.ZombieMS), issued: s.Requests.Issued,
				served: s.Requests.Served, aborted: list(s.Requests.AbortedReasons), unserved: list(s.Requests.UnservedReasons),
				logErrors: s.Logs.Errors, cut: s.Logs.Cut, verdict: s.Verdict, errorText: c.want.errorText,
			}
			if got != c.want {
				t.Errorf("\n got %+v\nwant %+v\nerrors %v", got, c.want, v.LogErrors)
			}
			if c.want.errorText != "" && (len(v.LogErrors) == 0 || !strings.HasPrefix(v.LogErrors[0].String(), c.want.errorText)) {
				t.Errorf("log errors %v, want %s", v.LogErrors, c.want.errorText)
			}
			if s.Requests.Issued != s.Requests.Served+s.Requests.Unserved+s.Requests.Aborted {
				t.Errorf("requests do not add up: %+v", s.Requests)
			}
			validate(t, s)
		})
	}
}

// Random histories: exactly the pairs that a comparison of all with all finds.
func TestFindsExactlyThePlantedOverlaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const nodes = 5
		p := newPlant(t, nodes)
		type interval struct {
			id       core.NodeID
			from, to int
		}
		var all []interval
		for id := range core.NodeID(nodes) {
			at := 1
			for n := rapid.IntRange(0, 4).Draw(rt, "sections"); n > 0; n-- {
				from := at + rapid.IntRange(0, 12).Draw(rt, "gap")
				to := from + rapid.IntRange(0, 6).Draw(rt, "length")
				at = to
				switch how := rapid.SampledFrom([]string{"exit", "kill", "fence"}).Draw(rt, "how"); how {
				case "exit":
					p.section(float64(from), float64(to), id)
				case "kill":
					p.enter(float64(from), p.request(float64(from), id))
					p.kill(float64(to), id, "crash")
					p.restart(float64(to)+.5, id)
					at++
				case "fence":
					a := p.request(float64(from), id)
					p.enter(float64(from), a)
					p.log(float64(to), id, eventlog.Event{Kind: eventlog.Fenced, Req: a.req, No: a.no, State: "HELD"})
					p.inc[id]++
				}
				all = append(all, interval{id, from, to})
			}
		}
		_, v := judge(t, p.end(1000))
		var want, got []string
		covered := map[int]bool{}
		for i, a := range all {
			for _, b := range all[i+1:] {
				from, to := max(a.from, b.from), min(a.to, b.to)
				if a.id == b.id || from >= to {
					continue
				}
				lo, hi := min(a.id, b.id), max(a.id, b.id)
				want = append(want, fmt.Sprintf("%d,%d %d-%d", lo, hi, from, to))
				for m := from; m < to; m++ {
					covered[m] = true
				}
			}
		}
		concurrent := 0
		for m := range 1000 {
			n := 0
			for _, a := range all {
				if a.from <= m && m < a.to {
					n++
				}
			}
			concurrent = max(concurrent, n)
		}
		for _, o := range v.Violations {
			lo, hi := min(o.First.Node, o.Second.Node), max(o.First.Node, o.Second.Node)
			got = append(got, fmt.Sprintf("%d,%d %d-%d", lo, hi, o.From/1e6, o.To/1e6))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) || v.ViolationCount != len(want) || v.ZombieCount != 0 {
			rt.Fatalf("found %v, planted %v", got, want)
		}
		if v.ViolationTime != int64(len(covered))*1e6 || v.MaxConcurrent != concurrent {
			rt.Fatalf("%d ns in violation, %d at once; want %d ms, %d", v.ViolationTime, v.MaxConcurrent, len(covered), concurrent)
		}
		if v.LogErrorCount != 0 {
			rt.Fatal(v.LogErrors)
		}
	})
}

func TestOvertakenAgainstAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var qs []*Request
		for n := rapid.IntRange(0, 12).Draw(t, "n"); n > 0; n-- {
			q := &Request{Asked: rapid.Int64Range(0, 8).Draw(t, "asked"), Entered: rapid.Bool().Draw(t, "entered")}
			q.Enter = q.Asked + rapid.Int64Range(0, 8).Draw(t, "wait")
			q.End = q.Enter
			qs = append(qs, q)
		}
		want := 0
		for _, q := range qs {
			n := 0
			for _, o := range qs {
				if o.Entered && o.Asked > q.Asked && o.Enter < q.End {
					n++
				}
			}
			want = max(want, n)
		}
		if got := overtaken(qs); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

func TestMergeOrdersLikeASort(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPlant(t, 4)
		var want []int64
		for id := core.None; id < 4; id++ {
			at := 0.0
			for n := rapid.IntRange(0, 6).Draw(rt, "lines"); n > 0; n-- {
				at += float64(rapid.IntRange(0, 3).Draw(rt, "step"))
				if id == core.None {
					p.control(at, eventlog.Event{Kind: eventlog.Note})
				} else {
					p.log(at, id, eventlog.Event{Kind: eventlog.Note})
				}
				want = append(want, int64(at*1e6))
			}
		}
		var got []int64
		var last Line
		if _, err := p.open().Merge(func(l *Line) error {
			if l.Event.Kind == eventlog.Note {
				if cmp.Or(cmp.Compare(last.Event.T, l.Event.T), cmp.Compare(uint32(last.Node), uint32(l.Node))) > 0 && len(got) > 0 {
					rt.Fatalf("%+v before %+v", last, *l)
				}
				last = *l
				got = append(got, l.Event.T)
			}
			return nil
		}); err != nil {
			rt.Fatal(err)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			rt.Fatalf("got %v, want %v", got, want)
		}
	})
}

// Where two may be inside, the third is a violation of all three, and the page
// and the text name them.
func TestThirdOfTwo(t *testing.T) {
	section := func(node core.NodeID, enter, end int64) *Request {
		return &Request{Node: node, Entered: true, Enter: enter * 1e6, End: end * 1e6, Ending: EndExited}
	}
	v := &Verdict{Holders: 2}
	v.safetyOfMany([]*Request{section(1, 0, 100), section(2, 10, 50), section(3, 20, 30), section(4, 40, 60), section(5, 55, 58)})
	if v.ViolationCount != 3 || v.MaxConcurrent != 3 || len(v.Violations) != 3 {
		t.Fatalf("%d violations, %d at once", v.ViolationCount, v.MaxConcurrent)
	}
	o := &v.Violations[0]
	if o.First.Node != 2 || o.Second.Node != 3 || len(o.Others) != 1 || o.Others[0].Node != 1 {
		t.Errorf("%+v", o)
	}
	if got := overlaps(v.Violations)[0]; len(got.Others) != 1 || got.Others[0].Node != 1 || got.OverlapMS != 10 {
		t.Errorf("%+v", got)
	}
	var b strings.Builder
	_ = (&Run{Dir: t.TempDir()}).WriteOverlap(&b, o, 0) // there are no logs to quote
	if !strings.HasPrefix(b.String(), "nodes 1, 2 and 3 in the critical section together, where 2 may be, for 10.000 ms") {
		t.Error(b.String())
	}
}
