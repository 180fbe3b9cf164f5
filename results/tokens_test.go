package results

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// fair plants what nodes of fairk write.
type fair struct {
	*plant
	k int
}

func newFair(t testing.TB, nodes, k int) *fair {
	t.Helper()
	p := newPlant(t, nodes)
	p.run.Manifest.Algorithm, p.run.Manifest.Holders = "fairk", k
	if err := p.run.WriteManifest(&p.run.Manifest); err != nil {
		t.Fatal(err)
	}
	f := &fair{p, k}
	for i := range k {
		f.token(0, core.NodeID(i), "held", i, 0, f.first(i))
	}
	f.token(0, 0, "leads", 0, 0, f.first(0))
	return f
}

func (f *fair) first(i int) core.RequestID {
	return core.RequestID{Node: core.NodeID(i), Inc: core.FirstIncarnation, TS: 1}
}

func (f *fair) req(node, ts int) core.RequestID {
	return core.RequestID{Node: core.NodeID(node), Inc: core.FirstIncarnation, TS: uint64(ts)}
}

func (f *fair) token(ms float64, id core.NodeID, change string, slot int, order uint64, req core.RequestID) {
	f.t.Helper()
	f.log(ms, id, eventlog.Event{Kind: eventlog.Token, Change: change, Slot: slot, Order: order, Req: req.String()})
}

// serve plants promise number order by node by, 1 ms later the new coordinator.
func (f *fair) serve(ms float64, by core.NodeID, order uint64, r core.RequestID) {
	f.t.Helper()
	f.token(ms, by, "promised", int(order)%f.k, order, r)
	f.token(ms+1, r.Node, "leads", 0, order+1, r)
}

// pass plants the way of a token of 1 ms.
func (f *fair) pass(ms float64, from core.NodeID, slot int, r core.RequestID) {
	f.t.Helper()
	f.token(ms, from, "sent", slot, 0, r)
	f.token(ms+1, r.Node, "held", slot, 0, r)
}

// sound plants three promises and their tokens.
func (f *fair) sound() {
	f.serve(1, 0, 0, f.req(2, 2))
	f.serve(3, 2, 1, f.req(3, 2))
	f.serve(5, 3, 2, f.req(1, 2))
	f.pass(2, 0, 0, f.req(2, 2))
	f.pass(6, 1, 1, f.req(3, 2))
	f.pass(8, 2, 0, f.req(1, 2))
}

// TestTokens: every rule on planted histories, with the lines that show it.
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(f *fair) *Run
		want Tokens
		rule string
		text string
		at   string // last line
	}{
		{"nothing", func(f *fair) *Run { return f.end(10) }, Tokens{}, "", "", ""},
		{"sound", func(f *fair) *Run { f.sound(); return f.end(20) }, Tokens{Transfers: 3, Promises: 3}, "", "", ""},
		{"all at one instant", func(f *fair) *Run {
			// The lines of nodes 0 to 2 are read before those of 3, which come between.
			f.token(1, 0, "promised", 0, 0, f.req(3, 2))
			f.token(1, 0, "sent", 0, 0, f.req(3, 2))
			f.token(1, 1, "held", 0, 0, f.req(1, 2))
			f.token(1, 1, "leads", 0, 3, f.req(1, 2))
			f.token(1, 2, "leads", 0, 2, f.req(2, 2))
			f.token(1, 2, "promised", 0, 2, f.req(1, 2))
			f.token(1, 3, "held", 0, 0, f.req(3, 2))
			f.token(1, 3, "sent", 0, 0, f.req(1, 2))
			f.token(1, 3, "leads", 0, 1, f.req(3, 2))
			f.token(1, 3, "promised", 1, 1, f.req(2, 2))
			return f.end(10)
		}, Tokens{Transfers: 2, Promises: 3}, "", "", ""},
		{"a token out of nothing", func(f *fair) *Run {
			f.sound()
			f.token(9, 3, "held", 0, 0, f.req(3, 3))
			return f.end(20)
		}, Tokens{Transfers: 3, Promises: 3, Duplicated: 1, OutOfOrder: 1}, RuleConservation, "token 0 came to node 3 at 9.000 ms, but it was at node 1", ""},
		{"a repeated TOKEN taken twice", func(f *fair) *Run {
			f.sound()
			f.token(12, 1, "held", 0, 0, f.req(1, 2))
			return f.end(20)
		}, Tokens{Transfers: 3, Promises: 3, Duplicated: 1, OutOfOrder: 1}, RuleConservation, "token 0 came to node 1 at 12.000 ms, but it was at node 1", "nodes/1.jsonl:7"},
		{"a token sent twice", func(f *fair) *Run {
			f.sound()
			f.token(12, 0, "sent", 0, 0, f.req(3, 4))
			return f.end(20)
		}, Tokens{Transfers: 4, Promises: 3, Duplicated: 1}, RuleConservation, "token 0 was sent on by node 0 at 12.000 ms, but it was at node 1", ""},
		{"a token more", func(f *fair) *Run {
			f.token(1, 3, "held", 2, 0, f.first(3))
			return f.end(20)
		}, Tokens{Duplicated: 1}, RuleConservation, "token 2 at node 3 at 1.000 ms: there are 2, from 0", "nodes/3.jsonl:3"},
		{"a token less", func(f *fair) *Run {
			f.logs[1] = nil
			f.start(0, 1)
			return f.end(20)
		}, Tokens{Lost: 1}, RuleConservation, "token 1 was nowhere", ""},
		{"a token lost on its way", func(f *fair) *Run {
			f.sound()
			f.serve(12, 1, 3, f.req(2, 3))
			f.token(13, 3, "sent", 1, 0, f.req(2, 3))
			return f.end(5000)
		}, Tokens{Transfers: 4, Promises: 4, Lost: 1}, RuleConservation, "token 1 was sent to 2.1024.3 at 13.000 ms and had not come there 4987.000 ms later", "nodes/3.jsonl:6"},
		{"a token under way at the end", func(f *fair) *Run {
			f.sound()
			f.serve(12, 1, 3, f.req(2, 3))
			f.token(13, 3, "sent", 1, 0, f.req(2, 3))
			return f.end(14)
		}, Tokens{Transfers: 4, Promises: 4}, "", "", ""},
		{"a token lost by a crash", func(f *fair) *Run {
			f.sound()
			f.kill(12, 3, "crash")
			return f.open()
		}, Tokens{Transfers: 3, Promises: 3, LostToFaults: 1}, "", "", ""},
		{"lost on the way to a dead node", func(f *fair) *Run {
			f.sound()
			f.serve(12, 1, 3, f.req(2, 3))
			f.kill(13.5, 2, "crash")
			f.token(14, 3, "sent", 1, 0, f.req(2, 3))
			f.log(5000, 0, eventlog.Event{Kind: eventlog.Stop})
			return f.open()
		}, Tokens{Transfers: 4, Promises: 4, LostToFaults: 2}, "", "", ""}, // and the role
		{"two coordinators", func(f *fair) *Run {
			f.sound()
			f.token(12, 2, "leads", 0, 3, f.req(2, 9))
			return f.end(20)
		}, Tokens{Transfers: 3, Promises: 3, Coordinators: 1}, RuleCoordinator, "the coordinator's role came to node 2 at 12.000 ms, but it was at node 1", ""},
		{"promised by one who is none", func(f *fair) *Run {
			f.sound()
			f.token(12, 0, "promised", 1, 3, f.req(2, 9))
			return f.end(20)
		}, Tokens{Transfers: 3, Promises: 4, Coordinators: 1}, RuleCoordinator, "the coordinator's role was sent on by node 0 at 12.000 ms, but it was at node 1", ""},
		{"the role lost", func(f *fair) *Run {
			f.sound()
			f.token(12, 1, "promised", 1, 3, f.req(2, 9))
			return f.end(5000)
		}, Tokens{Transfers: 3, Promises: 4, Lost: 1}, RuleCoordinator, "the coordinator's role was sent to 2.1024.9", ""},
		{"overtaken in the queue", func(f *fair) *Run {
			f.serve(1, 0, 0, f.req(2, 2))
			f.serve(3, 2, 1, f.req(3, 2))
			f.serve(5, 3, 2, f.req(1, 2))
			f.pass(8, 0, 0, f.req(1, 2))
			f.pass(10, 1, 0, f.req(2, 2))
			return f.end(20)
		}, Tokens{Transfers: 2, Promises: 3, OutOfOrder: 2}, RuleOrder, "token 0 came to 1.1024.2, though it was the turn of 2.1024.2", "nodes/1.jsonl:5"},
		{"to the wrong queue", func(f *fair) *Run {
			f.serve(1, 0, 0, f.req(2, 2))
			f.pass(8, 1, 1, f.req(2, 2))
			return f.end(20)
		}, Tokens{Transfers: 1, Promises: 1, OutOfOrder: 1}, RuleOrder, "token 1 came to 2.1024.2, which was promised token 0", ""},
		{"never promised", func(f *fair) *Run {
			f.serve(1, 0, 0, f.req(2, 2))
			f.pass(8, 1, 1, f.req(3, 2))
			return f.end(20)
		}, Tokens{Transfers: 1, Promises: 1, OutOfOrder: 1}, RuleOrder, "token 1 came to 3.1024.2, to which no coordinator promised it", ""},
		{"a number twice", func(f *fair) *Run {
			f.serve(1, 0, 0, f.req(2, 2))
			f.serve(3, 2, 0, f.req(3, 2))
			return f.end(20)
		}, Tokens{Promises: 2, OutOfOrder: 1}, RuleOrder, "promise 0 to 3.1024.2 at 3.000 ms comes after promise 0 to 2.1024.2", ""},
		{"a number left out", func(f *fair) *Run {
			f.serve(1, 0, 0, f.req(2, 2))
			f.serve(3, 2, 2, f.req(3, 2))
			return f.end(20)
		}, Tokens{Promises: 2, OutOfOrder: 1}, RuleOrder, "promise 2 to 3.1024.2 follows on promise 0", ""},
		{"out of turn", func(f *fair) *Run {
			f.token(1, 0, "promised", 1, 0, f.req(2, 2))
			f.token(2, 2, "leads", 0, 1, f.req(2, 2))
			return f.end(20)
		}, Tokens{Promises: 1, OutOfOrder: 1}, RuleOrder, "promise 0 is for token 1, whose turn it is not: token 0", ""},
		{"promised twice", func(f *fair) *Run {
			f.serve(1, 0, 0, f.req(2, 2))
			f.serve(3, 2, 1, f.req(2, 2))
			return f.end(20)
		}, Tokens{Promises: 2, OutOfOrder: 1}, RuleOrder, "request 2.1024.2 was promised a token twice", ""},
		{"taken over", func(f *fair) *Run {
			f.sound() // 3 has token 1
			f.kill(12, 3, "crash")
			peer := int32(3)
			f.log(13, 0, eventlog.Event{Kind: eventlog.Token, Change: "taken over", Peer: &peer})
			f.serve(14, 1, 3, f.req(2, 3))
			f.token(15, 0, "sent", 1, 0, f.req(2, 3)) // in place of 3
			f.token(16, 2, "held", 1, 0, f.req(2, 3))
			return f.open()
		}, Tokens{Transfers: 4, Promises: 4, TakenOver: 1}, "", "", ""},
		{"taken over and given back", func(f *fair) *Run {
			f.sound() // 3 has token 1
			f.kill(12, 3, "crash")
			peer := int32(3)
			f.log(13, 0, eventlog.Event{Kind: eventlog.Token, Change: "taken over", Peer: &peer})
			f.restart(14, 3)
			f.log(15, 0, eventlog.Event{Kind: eventlog.Token, Change: "gave back", Peer: &peer})
			return f.end(20)
		}, Tokens{Transfers: 3, Promises: 3, TakenOver: 1}, "", "", ""},
		{"dealt out anew, as all nodes tell", func(f *fair) *Run {
			f.sound()
			for i := range 4 {
				f.log(12+float64(i), core.NodeID(i), eventlog.Event{Kind: eventlog.Token, Change: "rebuilt", Order: 7})
				if i < f.k {
					f.token(12+float64(i), core.NodeID(i), "held", i, 0, f.first(i))
				}
			}
			f.token(12, 0, "leads", 0, 0, f.first(0))
			return f.end(20)
		}, Tokens{Transfers: 3, Promises: 3, Rebuilt: 1}, "", "", ""},
		{"dealt out anew and there twice before all tell", func(f *fair) *Run {
			f.sound()
			f.log(12, 0, eventlog.Event{Kind: eventlog.Token, Change: "rebuilt", Order: 7})
			f.token(12, 0, "held", 0, 0, f.first(0))
			f.token(12, 1, "held", 1, 0, f.first(1))
			f.token(12, 0, "leads", 0, 0, f.first(0))
			f.log(14, 2, eventlog.Event{Kind: eventlog.Token, Change: "rebuilt", Order: 7})
			f.token(15, 2, "held", 0, 0, f.first(2))
			return f.end(20)
		}, Tokens{Transfers: 3, Promises: 3, Rebuilt: 1, Duplicated: 1}, RuleConservation, "token 0 came to node 2 at 15.000 ms, but it was at node 0", ""},
		{"taken over and sent by both", func(f *fair) *Run {
			f.sound()
			peer := int32(3)
			f.serve(12, 1, 3, f.req(2, 3))
			f.log(13, 0, eventlog.Event{Kind: eventlog.Token, Change: "taken over", Peer: &peer})
			f.pass(15, 0, 1, f.req(2, 3))
			f.serve(17, 2, 4, f.req(0, 3))
			f.serve(19, 0, 5, f.req(1, 3))
			f.pass(22, 3, 1, f.req(1, 3)) // 3 was only paused: a token twice
			return f.end(30)
		}, Tokens{Transfers: 5, Promises: 6, TakenOver: 1, Duplicated: 1}, RuleConservation, "token 1 was sent on by node 3 at 22.000 ms, but it was at node 2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFair(t, 4, 2)
			r := c.make(f)
			s, v := judge(t, r)
			validate(t, s)
			c.want.K = 2
			if s.Tokens == nil || *s.Tokens != c.want {
				t.Errorf("%+v, want %+v", s.Tokens, c.want)
			}
			if wrong := s.Tokens.Wrong(); wrong != (c.rule != "") || wrong != (s.Verdict == VerdictViolation) {
				t.Errorf("verdict %s: %+v", s.Verdict, v.TokenFaults)
			}
			if c.rule == "" {
				return
			}
			if len(v.TokenFaults) == 0 || v.TokenFaults[0].Rule != c.rule || !strings.HasPrefix(v.TokenFaults[0].Text, c.text) {
				t.Fatalf("%+v, want %s: %s", v.TokenFaults, c.rule, c.text)
			}
			if lines := v.TokenFaults[0].Lines; c.at != "" && (len(lines) == 0 || lines[len(lines)-1].String() != c.at) {
				t.Errorf("lines %v, want the last to be %s", lines, c.at)
			}
			var b bytes.Buffer
			if err := r.WriteVerdict(&b, s, v, 3); err != nil {
				t.Fatal(err)
			}
			for _, l := range v.TokenFaults[0].Lines {
				if want := l.String() + "  {\"t\":"; !strings.Contains(b.String(), want) {
					t.Errorf("no %s in\n%s", want, b.String())
				}
			}
			if rep := NewReport(r, s, v); len(rep.TokenFaults) != len(v.TokenFaults) {
				t.Errorf("%d faults reported of %d", len(rep.TokenFaults), len(v.TokenFaults))
			}
		})
	}
}

// TestTokensOfRandomRuns plants sound runs and mutates a line of each: what is
// sound is not accused, and what lacks a line, or has it twice, is.
func TestTokensOfRandomRuns(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		run := func(drop, twice int) *Verdict {
			rng := rand.New(rand.NewPCG(seed, 2))
			f := newFair(t, 5, 2)
			ts := [5]int{1, 1, 1, 1, 1}
			lead := core.NodeID(0)
			tails := [2]core.NodeID{0, 1}
			at, n := 1.0, 0
			put := func(f func()) {
				if n != drop {
					f()
				}
				if n == twice {
					f()
				}
				n++
			}
			for order := range uint64(6) {
				to := core.NodeID(rng.IntN(5))
				ts[to]++
				r, slot, by, from := f.req(int(to), ts[to]), int(order)%2, lead, tails[order%2]
				put(func() { f.token(at, by, "promised", slot, order, r) })
				put(func() { f.token(at+1, to, "leads", 0, order+1, r) })
				put(func() { f.token(at+1.5, from, "sent", slot, 0, r) })
				put(func() { f.token(at+2, to, "held", slot, 0, r) })
				lead, tails[slot] = to, to
				at += 3
			}
			_, v := judge(t, f.end(at+2000))
			return v
		}
		if v := run(-1, -1); v.Tokens.Wrong() || v.Tokens.Transfers != 6 || v.Tokens.Promises != 6 {
			t.Errorf("seed %d: %+v %+v", seed, v.Tokens, v.TokenFaults)
		}
		if drop := rng.IntN(24); !run(drop, -1).Tokens.Wrong() {
			t.Errorf("seed %d: line %d missing, and nothing is wrong", seed, drop)
		}
		if twice := rng.IntN(24); !run(-1, twice).Tokens.Wrong() {
			t.Errorf("seed %d: line %d twice, and nothing is wrong", seed, twice)
		}
	}
}

// TestFairness on figures worked out by hand.
func TestFairness(t *testing.T) {
	p := newPlant(t, 4)
	ask := func(node core.NodeID, from, enter float64) {
		a := p.request(from, node)
		p.enter(enter, a)
		p.exit(enter+.1, a)
	}
	ask(0, 1, 500)     // before the figures count
	ask(0, 1000, 1010) // waits 10, 30: mean 20, spread 10
	ask(0, 1100, 1130)
	ask(1, 1000, 1040) // 40: spread 0
	ask(2, 1000, 1020) // 20, 20, 50: mean 30, spread 20
	ask(2, 1200, 1220)
	ask(2, 1300, 1350)
	p.request(1400, 3) // never enters
	p.run.Manifest.Holders, p.run.Manifest.SettleMS = 4, 900
	if err := p.run.WriteManifest(&p.run.Manifest); err != nil {
		t.Fatal(err)
	}
	s, _ := judge(t, p.end(2000))
	validate(t, s)
	f := s.Fairness
	near := func(name string, got Number, want float64) {
		if d := float64(got) - want; !(d < 1e-9 && d > -1e-9) {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
	near("mttt", f.MTTTMS, (10+30+40+20+20+50)/6.)
	near("max", f.MaxMS, 50)
	near("largest spread", f.SpreadMaxMS, 20)
	near("mean spread", f.SpreadMeanMS, 10)
	near("smallest spread", f.SpreadMinMS, 0)
	near("Jain", f.Jain, 36/(4*(4+1+9+0.))) // entries 2, 1, 3 and 0
	if f.Nodes != 3 || f.K != 4 {
		t.Errorf("%+v", f)
	}
	if none := fairness(nil, 3, 0); none.MTTTMS.Known() || none.Jain.Known() || none.SpreadMaxMS.Known() || none.Nodes != 0 {
		t.Errorf("of nothing: %+v", none)
	}
	near("Jain of equals", fairness([]*Request{{Node: 1, Entered: true}, {Node: 2, Entered: true}}, 1, 0).Jain, 1)
	near("Jain where one has all", fairness([]*Request{{Node: 1, Entered: true}, {Node: 2}, {Node: 3}, {Node: 4}}, 1, 0).Jain, .25)
}
