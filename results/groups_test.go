package results

import (
	"strings"
	"testing"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// grouped plants lines of k-groups.
type grouped struct{ *plant }

func (p grouped) group(ms float64, id core.NodeID, state string, epoch, term uint64, digest, locks string) {
	p.t.Helper()
	p.log(ms, id, eventlog.Event{Kind: eventlog.KGroup, State: state, KG: &eventlog.Group{
		Group: 1, Epoch: epoch, Term: term, Digest: digest, Locks: locks, NS: 2e6,
	}})
}

func (p grouped) lock(ms float64, id core.NodeID, state string, device, routine int32, ticket, epoch, term uint64) {
	p.t.Helper()
	p.log(ms, id, eventlog.Event{Kind: eventlog.Lock, State: state, KG: &eventlog.Group{
		Group: 1, Epoch: epoch, Term: term, Device: device, Routine: routine, Ticket: ticket, NS: 1e6,
	}})
}

func (p grouped) routine(ms float64, id core.NodeID, state string, routine int32, ticket uint64) {
	p.t.Helper()
	p.log(ms, id, eventlog.Event{Kind: eventlog.Routine, State: state, KG: &eventlog.Group{
		Group: 1, Epoch: 1, Term: 1, Routine: routine, Ticket: ticket, Since: int64(ms * 1e6),
	}})
}

func (p grouped) command(ms float64, id core.NodeID, state string, routine int32, ticket uint64) {
	p.t.Helper()
	p.log(ms, id, eventlog.Event{Kind: eventlog.Command, State: state, KG: &eventlog.Group{
		Group: 1, Epoch: 1, Term: 1, Device: int32(id), Routine: routine, Ticket: ticket,
	}})
}

// run plants a sound execution of a routine with one device.
func (p grouped) run(ms float64, device, routine int32, ticket, epoch, term uint64) {
	p.t.Helper()
	p.routine(ms, 0, "TRIGGERED", routine, ticket)
	p.lock(ms+1, 0, "request", device, routine, ticket, epoch, term)
	p.lock(ms+2, 0, "grant", device, routine, ticket, epoch, term)
	p.routine(ms+3, 0, "EXECUTING", routine, ticket)
	p.command(ms+4, core.NodeID(device), "start", routine, ticket)
	p.command(ms+5, core.NodeID(device), "done", routine, ticket)
	p.routine(ms+6, 0, "RELEASING_LOCKS", routine, ticket)
	p.lock(ms+7, 0, "release", device, routine, ticket, epoch, term)
	p.routine(ms+8, 0, "NOT_TRIGGERED", routine, ticket)
}

// TestLockDelays: two routines want a device; the second one waits for the
// first one's end, and gets the lock of a device that nobody has at once.
func TestLockDelays(t *testing.T) {
	p := grouped{newPlant(t, 8)}
	const t1 = 1 << 16
	p.routine(20, 0, "ACQUIRING_LOCKS", 5, t1)
	p.lock(21, 0, "request", 2, 5, t1, 1, 1)
	p.lock(22, 0, "grant", 2, 5, t1, 1, 1)
	p.routine(23, 0, "EXECUTING", 5, t1)
	p.routine(24, 0, "ACQUIRING_LOCKS", 6, t1)
	p.lock(25, 0, "request", 2, 6, t1, 1, 1)
	p.routine(40, 0, "RELEASING_LOCKS", 5, t1)
	p.lock(43, 0, "release", 2, 5, t1, 1, 1)
	p.lock(43, 0, "grant", 2, 6, t1, 1, 1)
	p.lock(44, 0, "request", 3, 6, t1, 1, 1)
	p.lock(45, 0, "grant", 3, 6, t1, 1, 1)
	p.routine(50, 0, "EXECUTING", 6, t1)
	s, _, err := Judge(p.end(1000))
	if err != nil {
		t.Fatal(err)
	}
	validate(t, s)
	if a := s.Groups.AcquireMS; a.N != 2 || a.Max != 26 || a.Mean != 14.5 {
		t.Errorf("acquisition %+v", a)
	}
	if d := s.Groups.SyncMS; d.N != 1 || d.Mean != 3 {
		t.Errorf("handover %+v", d)
	}
}

// TestGroupChecks plants one violation each; the check of that name, and no
// other, must find it and name the lines.
func TestGroupChecks(t *testing.T) {
	const t1, t2 = 1 << 16, 2 << 16
	for _, c := range []struct {
		name  string
		check string // "": none
		lines int
		plant func(p grouped)
	}{
		{"sound", "", 0, func(p grouped) {
			p.run(20, 2, 5, t1, 1, 1)
			p.run(40, 2, 6, t1, 1, 1)
			p.group(60, 0, "frozen", 1, 1, "aa", "")
			p.group(70, 1, "elected", 2, 1, "", "")
			p.group(80, 1, "active", 2, 1, "aa", "")
			p.run(90, 2, 5, t2, 2, 1)
		}},
		{"two routines at once", CheckSafety, 4, func(p grouped) {
			p.lock(20, 0, "grant", 2, 5, t1, 1, 1)
			p.routine(21, 0, "EXECUTING", 5, t1)
			p.lock(22, 0, "release", 2, 5, t1, 1, 1) // too early
			p.lock(23, 0, "grant", 2, 6, t1, 1, 1)
			p.routine(24, 1, "EXECUTING", 6, t1)
			p.routine(25, 1, "RELEASING_LOCKS", 6, t1)
			p.routine(26, 0, "RELEASING_LOCKS", 5, t1)
		}},
		{"two commands at once", CheckCommands, 2, func(p grouped) {
			p.command(20, 2, "start", 5, t1)
			p.command(21, 2, "start", 6, t1)
			p.command(22, 2, "done", 5, t1)
			p.command(23, 2, "done", 6, t1)
		}},
		{"a command of a former life", "", 0, func(p grouped) {
			p.command(20, 2, "start", 5, t1)
			p.kill(21, 2, "crash")
			p.restart(22, 2)
			p.command(23, 2, "start", 6, t1)
			p.command(24, 2, "done", 6, t1)
		}},
		{"two holders", CheckHolders, 2, func(p grouped) {
			p.lock(20, 0, "grant", 2, 5, t1, 1, 1)
			p.lock(21, 1, "grant", 2, 6, t1, 1, 1)
		}},
		{"release and grant at one instant", "", 0, func(p grouped) {
			p.lock(20, 1, "grant", 2, 5, t1, 1, 1)
			p.lock(21, 0, "grant", 2, 6, t1, 1, 1)
			p.lock(21, 1, "release", 2, 5, t1, 1, 1)
		}},
		{"two leaders", CheckLeaders, 2, func(p grouped) {
			p.group(20, 1, "elected", 2, 1, "", "")
			p.group(21, 2, "elected", 2, 1, "", "")
		}},
		{"a deposed leader grants", CheckFencing, 1, func(p grouped) {
			p.group(20, 1, "elected", 1, 2, "", "")
			p.group(21, 1, "active", 1, 2, "aa", "")
			p.lock(22, 0, "grant", 2, 5, t1, 1, 1)
		}},
		{"a deposed leader tells late", "", 0, func(p grouped) {
			p.group(20, 1, "elected", 1, 2, "", "")
			p.group(21, 1, "active", 1, 2, "aa", "2:5.65536")
			p.lock(22, 0, "grant", 2, 5, t1, 1, 1)
		}},
		{"state changed by a migration", CheckInheritance, 2, func(p grouped) {
			p.group(20, 0, "frozen", 1, 1, "aa", "")
			p.group(21, 1, "elected", 2, 1, "", "")
			p.group(22, 1, "active", 2, 1, "bb", "")
		}},
		{"lock lost by a leader", CheckInheritance, 2, func(p grouped) {
			p.lock(20, 0, "grant", 2, 5, t1, 1, 1)
			p.group(21, 1, "elected", 1, 2, "", "")
			p.group(22, 1, "active", 1, 2, "bb", "")
		}},
		{"lock given back, its leader dead", "", 0, func(p grouped) {
			p.lock(20, 0, "grant", 2, 5, t1, 1, 1)
			p.routine(21, 2, "EXECUTING", 5, t1)
			p.routine(22, 2, "RELEASING_LOCKS", 5, t1)
			p.group(23, 1, "elected", 1, 2, "", "")
			p.group(24, 1, "active", 1, 2, "bb", "")
		}},
		{"circle", CheckDeadlock, 3, func(p grouped) {
			p.lock(20, 0, "grant", 2, 5, t1, 1, 1)
			p.lock(21, 0, "grant", 3, 6, t1, 1, 1)
			p.lock(22, 0, "request", 3, 5, t1, 1, 1)
			p.lock(23, 0, "request", 2, 6, t1, 1, 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := grouped{newPlant(t, 4)}
			p.group(10, 0, "elected", 1, 1, "", "")
			p.group(11, 0, "active", 1, 1, "aa", "")
			c.plant(p)
			r := p.end(1000)
			s, v, err := Judge(r)
			if err != nil {
				t.Fatal(err)
			}
			validate(t, s)
			if c.check == "" {
				if v.GroupCount != 0 || s.Verdict != VerdictOK {
					t.Errorf("verdict %s, found %+v", s.Verdict, v.Groups)
				}
				return
			}
			if len(v.Groups) != 1 || v.Groups[0].Check != c.check || s.Verdict != VerdictViolation {
				t.Fatalf("verdict %s, found %+v, want one of %s", s.Verdict, v.Groups, c.check)
			}
			if got := v.Groups[0].Lines; len(got) != c.lines {
				t.Errorf("%d lines, want %d: %v", len(got), c.lines, got)
			}
			var out strings.Builder
			if err := r.WriteVerdict(&out, s, v, 1); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), v.Groups[0].Text) || !strings.Contains(out.String(), "nodes/") {
				t.Errorf("the verdict as text lacks the finding or its lines:\n%s", out.String())
			}
		})
	}
}

// TestGroupProgress: a trigger that waits out of proportion starves.
func TestGroupProgress(t *testing.T) {
	p := grouped{newPlant(t, 4)}
	p.group(10, 0, "elected", 1, 1, "", "")
	p.group(11, 0, "active", 1, 1, "aa", "")
	p.run(20, 2, 5, 1<<16, 1, 1)
	p.routine(40, 0, "TRIGGERED", 6, 1<<16)
	s, _, err := Judge(p.end(5000))
	if err != nil {
		t.Fatal(err)
	}
	if s.Groups.Starved != 1 || s.Verdict != VerdictStarved || s.Groups.Executed != 1 {
		t.Errorf("verdict %s, %+v", s.Verdict, s.Groups)
	}
}
