package simulate_test

import (
	"slices"
	"testing"

	"churnbed/emulator/scenario"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/results/timeline"
)

// comesh runs a committed scenario with k-groups and judges it: whatever the
// flags, nothing may be violated.
func comesh(t testing.TB, name string, flags ...string) *results.Summary {
	t.Helper()
	var set []scenario.Setting
	for i := 0; i < len(flags); i += 2 {
		set = append(set, scenario.Setting{Key: flags[i], Value: flags[i+1]})
	}
	r, _ := run(t, resolve(t, name, set...))
	opened, err := results.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s, v, err := results.Judge(opened)
	if err != nil {
		t.Fatal(err)
	}
	if s.Verdict != results.VerdictOK || v.GroupCount > 0 || s.Groups == nil {
		t.Fatalf("%v: verdict %s, %+v", flags, s.Verdict, v.Groups)
	}
	return s
}

// TestBandwidth: what a node sends by groups and by the hub, monitoring and
// membership included. The hub's grows with the devices, a smart node's only
// with what it manages: at 20 routines at least ten times less, and hardly
// more with four times the routines.
func TestBandwidth(t *testing.T) {
	bytes := func(algorithm, routines string) float64 {
		g := comesh(t, "comesh250.yaml", "algorithm", algorithm, "routines", routines, "routine-every", "10s", "duration", "1m", "fault", "at 59s trigger 0").Groups
		return float64(g.Foreground.Mean + g.Background.Mean)
	}
	groups, hub := bytes("comesh", "20"), bytes("hub", "20")
	if hub < 10*groups {
		t.Errorf("20 routines: %.0f bytes/s a node by groups, %.0f by the hub: want ten times less", groups, hub)
	}
	few := bytes("comesh", "5")
	if groups > 1.5*few {
		t.Errorf("%.0f bytes/s a node at 5 routines, %.0f at 20: want hardly more", few, groups)
	}
	t.Logf("bytes/s a node: groups %.0f at 5 routines, %.0f at 20; hub %.0f", few, groups, hub)
}

// TestGroupsUnderChurn: 40 % of the smart nodes fail within the first two
// minutes of a run that ends after three.
func TestGroupsUnderChurn(t *testing.T) {
	g := comesh(t, "comesh250.yaml", "duration", "3m", "fault", "from 20s to 120s churn 40% of tag:smart restart after 10s").Groups
	if g.Executed < 1000 || g.Elections < 20 || g.Migrations < 20 {
		t.Errorf("%d executions, %d elections, %d migrations: want at least 1000, 20 and 20", g.Executed, g.Elections, g.Migrations)
	}
}

// TestRolesOfGroups: faults on roles strike who leads a group, and who runs a
// routine that holds a device's lock, at once.
func TestRolesOfGroups(t *testing.T) {
	var set []scenario.Setting
	for _, f := range []string{"at 12s crash leader restart after 3s", "at 24500ms pause holder for 4s"} {
		set = append(set, scenario.Setting{Key: "fault", Value: f})
	}
	set = append(set, scenario.Setting{Key: "routine-takes", Value: "2s"}, scenario.Setting{Key: "duration", Value: "40s"})
	r, _ := run(t, resolve(t, "comesh30.yaml", set...))
	tl, err := timeline.Read(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if tl.Verdict.GroupCount > 0 {
		t.Fatalf("%+v", tl.Verdict.Groups)
	}
	struck := 0
	for _, f := range tl.Faults {
		switch f.Kind {
		case eventlog.Kill:
			struck++
			if f.T != tl.Epoch+12e9 || !slices.ContainsFunc(tl.Groups.Terms, func(m timeline.Term) bool {
				return m.Leader == f.Node && m.Active >= 0 && m.Active <= f.T && m.End == f.T && m.How == timeline.TermDied
			}) {
				t.Errorf("killed node %d at %d, which led nothing", f.Node, f.T)
			}
		case eventlog.Pause:
			struck++
			if !slices.ContainsFunc(tl.Groups.Locks, func(l timeline.Lock) bool {
				return l.Granted.T >= 0 && l.Granted.T <= f.T && (l.Freed.T < 0 || l.Freed.T > f.T)
			}) {
				t.Errorf("paused node %d at %d, when nobody held a lock", f.Node, f.T)
			}
		default:
		}
	}
	if struck != 2 {
		t.Errorf("%d faults, want 2: %+v", struck, tl.Faults)
	}
}

// BenchmarkGroups simulates ten minutes of 1,000 devices with 100 routines, 400
// of them smart and lists by Medley; a tenth fails and comes back.
func BenchmarkGroups(b *testing.B) {
	set := func(key, value string) scenario.Setting { return scenario.Setting{Key: key, Value: value} }
	for b.Loop() {
		run(b, resolve(b, "comesh250.yaml", set("topology", "grid"), set("nodes", "1000"), set("rows", "25"), set("cols", "40"), set("step", "2.5"),
			set("routines", "100"), set("fault", "from 30s to 570s churn 10% of tag:smart restart after 10s")))
	}
}
