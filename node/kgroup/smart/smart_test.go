package smart

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/kgroup"
)

// deep asks for more seeds of the fault tests.
var deep = flag.Uint64("deep", 1, "seeds a case of the fault tests")

func TestQuiet(t *testing.T) {
	for _, locks := range []string{kgroup.SLA, kgroup.OLA} {
		for _, conflict := range []float64{0, 0.7} {
			t.Run(fmt.Sprintf("%s conflict %v", locks, conflict), func(t *testing.T) {
				n := newNet(t, small(40, 16, 3, 2, 10, conflict, locks), 1)
				n.start()
				n.run(2 * time.Minute)
				v := n.judge()
				v.sound(t)
				t.Logf("%d executed, %d elections, %d migrations, %d grants", len(v.executed), v.elections, v.migrations, v.grants)
				if len(v.executed) < 150 || v.migrations < 9 {
					t.Errorf("%d executions, %d migrations: want more", len(v.executed), v.migrations)
					n.dump(t, 60)
				}
			})
		}
	}
}

// TestFaultPoints kills f nodes at once at each step of a migration: the
// leaders of the old and the new group, or one of them with a member.
func TestFaultPoints(t *testing.T) {
	steps := []string{"select", "elect", "transfer", "replicate", "decommission", "retire"}
	victims := []string{"old leader and old member", "old leader and new member", "new leader and old member", "both leaders"}
	for _, step := range steps {
		for which, what := range victims {
			t.Run(step+", "+what, func(t *testing.T) {
				for seed := range *deep {
					n := newNet(t, small(40, 20, 3, 2, 8, 0.4, kgroup.SLA), seed+1)
					const g = kgroup.Group(1)
					var old, now []core.NodeID
					struck := core.Instant(0)
					var victims []core.NodeID
					n.onLine = func(e *eventlog.Event) {
						if e.Kind != eventlog.KGroup || e.KG.Group != g || struck > 0 || e.T < int64(30*time.Second) {
							return
						}
						switch e.State {
						case "frozen":
							old = ids(e.KG.Members)
							old = append([]core.NodeID{core.NodeID(e.Node)}, slices.DeleteFunc(old, func(id core.NodeID) bool { return id == core.NodeID(e.Node) })...)
						case "select":
							now = ids(e.KG.Members)
						}
						if e.State != step || old == nil {
							return
						}
						struck = n.now
						switch which {
						case 0:
							victims = []core.NodeID{old[0], old[1]}
						case 1:
							victims = []core.NodeID{old[0], now[1]}
						case 2:
							victims = []core.NodeID{now[0], old[1]}
						case 3:
							victims = []core.NodeID{old[0], now[0]}
						}
						for _, id := range victims {
							n.kill(id)
						}
					}
					n.start()
					n.run(150 * time.Second)
					v := n.judge()
					v.sound(t)
					if struck == 0 {
						t.Fatalf("seed %d: step %s never came", seed, step)
					}
					served := int64(0)
					for _, e := range v.active {
						if e.KG.Group == g && e.T > int64(struck) && served == 0 {
							served = e.T
						}
					}
					if served == 0 {
						t.Errorf("seed %d: killed %v at %v; the group never served again", seed, victims, time.Duration(struck))
						n.dump(t, 40)
						continue
					}
					if at, r := n.leader(g); r == nil || slices.Contains(victims, at) {
						t.Errorf("seed %d: nobody leads at the end", seed)
					}
				}
			})
		}
	}
}

func ids(text string) []core.NodeID {
	var list []core.NodeID
	var id core.NodeID
	for text != "" {
		if _, err := fmt.Sscan(text, &id); err != nil {
			break
		}
		list = append(list, id)
		_, text, _ = cut(text)
	}
	return list
}

func cut(s string) (string, string, bool) {
	for i := range len(s) {
		if s[i] == ' ' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// TestChurn kills and restarts smart nodes for as long as the run goes, with
// loss: no violation, and routines go on.
func TestChurn(t *testing.T) {
	for seed := range 2 * *deep {
		locks := []string{kgroup.SLA, kgroup.OLA}[seed%2]
		t.Run(fmt.Sprintf("seed %d %s", seed, locks), func(t *testing.T) {
			cfg := small(60, 30, 4, 2, 12, 0.3, locks)
			n := newNet(t, cfg, seed+10)
			n.loss = 0.05
			n.start()
			for i := range 24 {
				id := cfg.Smart[n.rng.IntN(len(cfg.Smart))]
				at := time.Duration(10+10*i) * time.Second
				n.after(at, func() { n.kill(id) })
				n.after(at+15*time.Second, func() {
					if !n.nodes[id].up {
						n.boot(id, false)
					}
				})
			}
			n.run(5 * time.Minute)
			v := n.judge()
			v.sound(t)
			t.Logf("%d executed, %d elections, %d migrations", len(v.executed), v.elections, v.migrations)
			if len(v.executed) < 300 {
				t.Errorf("%d executions: want at least 300", len(v.executed))
			}
			for g := range cfg.Groups() {
				if _, r := n.leader(kgroup.Group(g)); r == nil {
					t.Errorf("nobody leads group %d at the end", g)
				}
			}
		})
	}
}

// TestPausedLeader: a leader that was stopped while its group went on under
// another grants no lock when it wakes, although requests wait for it.
func TestPausedLeader(t *testing.T) {
	cfg := small(40, 20, 3, 2, 10, 0.5, kgroup.SLA)
	cfg.Epoch = 0
	for seed := range uint64(8) {
		n := newNet(t, cfg, seed+1)
		n.start()
		n.run(20 * time.Second)
		const g = kgroup.Group(0)
		old, r := n.leader(g)
		if r == nil {
			t.Fatal("nobody leads")
		}
		n.pause(old)
		n.run(10 * time.Second)
		if now, r := n.leader(g); r == nil || now == old {
			t.Fatalf("seed %d: %d did not take over", seed, now)
		}
		woke := int64(n.now)
		n.resume(old)
		n.run(20 * time.Second)
		n.judgeSound(t)
		deposed := false
		for _, e := range n.lines {
			if e.T < woke || core.NodeID(e.Node) != old || e.KG == nil || e.KG.Group != g {
				continue
			}
			if e.Kind == eventlog.Lock && e.State == "grant" && !deposed {
				t.Errorf("seed %d: %d granted device %d after it woke", seed, old, e.KG.Device)
			}
			deposed = deposed || e.State == "deposed"
		}
		if !deposed {
			t.Errorf("seed %d: the old leader was not deposed", seed)
		}
	}
}

func (n *net) judgeSound(t *testing.T) verdict {
	t.Helper()
	v := n.judge()
	v.sound(t)
	return v
}

// diverging are lists of two camps that know only half of each other, but all
// of themselves: more than f members of a group differ.
func diverging(cfg *kgroup.Config) [][]core.NodeID {
	lists := make([][]core.NodeID, len(cfg.Places))
	for i := range lists {
		for j, id := range cfg.Smart {
			if j%2 == i%2 || i%2 == 0 && j%10 == 1 {
				lists[i] = append(lists[i], id)
			}
		}
	}
	return lists
}

// TestDivergence plants the trap of zero-message selection: with lists apart,
// groups as the paper forms them get two leaders and two holders of a lock;
// fenced ones do not.
func TestDivergence(t *testing.T) {
	found := 0
	for seed := range uint64(5) {
		for _, paper := range []bool{true, false} {
			cfg := small(40, 40, 2, 2, 12, 0.8, kgroup.SLA)
			cfg.Policy, cfg.Paper = kgroup.Hash, paper
			n := newNet(t, cfg, seed+1)
			n.start()
			// Equal lists for the first groups; then they fall apart.
			n.run(10 * time.Second)
			lists := diverging(cfg)
			for i, b := range n.nodes {
				for _, id := range cfg.Smart {
					if id != core.NodeID(i) && !slices.Contains(lists[i], id) {
						n.step(core.NodeID(i), MemberDown{core.Peer{ID: id, Inc: b.inc}})
					}
				}
			}
			n.run(110 * time.Second)
			v := n.judge()
			bad := len(v.unsafe) + len(v.holders) + len(v.leaders)
			t.Logf("seed %d paper %v: %d executed, %d unsafe, %d double holders, %d double leaders", seed, paper, len(v.executed), len(v.unsafe), len(v.holders), len(v.leaders))
			if paper {
				found += bad
				continue
			}
			v.sound(t)
			if len(v.executed) < 100 {
				t.Errorf("fenced: %d executions: want at least 100", len(v.executed))
			}
		}
	}
	if found == 0 {
		t.Error("the paper's groups showed no violation with lists apart")
	}
}

func TestPaperEqualLists(t *testing.T) {
	cfg := small(40, 20, 3, 2, 10, 0.3, kgroup.SLA)
	cfg.Paper = true
	n := newNet(t, cfg, 3)
	n.start()
	n.run(2 * time.Minute)
	v := n.judge()
	t.Logf("%d executed, %d elections, %d migrations", len(v.executed), v.elections, v.migrations)
	if len(v.unsafe)+len(v.holders)+len(v.leaders) > 0 || len(v.executed) < 150 || v.migrations < 9 {
		t.Errorf("paper with equal lists: %+v", v.unsafe)
	}
}

func TestHub(t *testing.T) {
	cfg := small(40, 1, 1, 0, 10, 0.3, kgroup.SLA)
	cfg.Epoch = 0
	n := newNet(t, cfg, 3)
	n.start()
	n.run(time.Minute)
	v := n.judgeSound(t)
	if len(v.executed) < 80 || v.elections != 1 {
		t.Errorf("%d executions, %d elections", len(v.executed), v.elections)
	}
}

func TestTriggerByHand(t *testing.T) {
	cfg := small(30, 12, 2, 1, 4, 0, kgroup.SLA)
	for i := range cfg.Routines {
		cfg.Routines[i].Every, cfg.Routines[i].When = 0, ""
	}
	n := newNet(t, cfg, 3)
	n.loss = 0.2
	n.start()
	n.run(10 * time.Second)
	for i := range cfg.Routines {
		n.step(cfg.Smart[i], Trigger{Routine: i})
	}
	n.step(cfg.Smart[0], Trigger{Routine: 99})
	n.run(20 * time.Second)
	v := n.judgeSound(t)
	if len(v.executed) != len(cfg.Routines) {
		t.Errorf("%d executions, want each routine once: %v", len(v.executed), v.executed)
	}
}

// TestDeviceFails: a device that dies is found within its pings, holds up no
// routine, and is found again.
func TestDeviceFails(t *testing.T) {
	cfg := small(30, 12, 2, 1, 6, 0.9, kgroup.SLA)
	n := newNet(t, cfg, 3)
	n.start()
	n.run(10 * time.Second)
	var victim core.NodeID
	for _, r := range cfg.Routines {
		for _, c := range r.Commands {
			if !cfg.IsSmart(c.Device) {
				victim = c.Device
			}
		}
	}
	killed := int64(n.now)
	n.kill(victim)
	n.run(20 * time.Second)
	n.boot(victim, false)
	back := int64(n.now)
	n.run(20 * time.Second)
	v := n.judgeSound(t)
	var failed, recovered int64
	for _, e := range n.lines {
		if e.Kind == eventlog.Monitor && core.NodeID(e.KG.Device) == victim {
			if e.State == "failed" && failed == 0 {
				failed = e.T
			} else if e.State == "recovered" {
				recovered = e.T
			}
		}
	}
	if failed < killed || failed > killed+int64(3*time.Second) {
		t.Errorf("killed at %v, found failed at %v", time.Duration(killed), time.Duration(failed))
	}
	if recovered < back {
		t.Errorf("back at %v, found at %v", time.Duration(back), time.Duration(recovered))
	}
	if len(v.executed) < 30 {
		t.Errorf("%d executions: want at least 30", len(v.executed))
	}
}
