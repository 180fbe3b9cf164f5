package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"churnbed/node/eventlog"
	"churnbed/results"
)

// groupLines are the lines of k-groups that a node of a run wrote so far.
func groupLines(t *testing.T, dir string, node int) []eventlog.Event {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "nodes", fmt.Sprintf("%d.jsonl", node)))
	if err != nil {
		return nil // not started yet
	}
	var lines []eventlog.Event
	for line := range bytes.Lines(text) {
		var e eventlog.Event
		if bytes.Contains(line, []byte(`"kg"`)) && json.Unmarshal(line, &e) == nil && e.KG != nil {
			lines = append(lines, e)
		}
	}
	return lines
}

// serving finds who serves a group in the newest epoch and term.
func serving(t *testing.T, dir string, nodes int, group int32) (leader int, epoch, term uint64) {
	t.Helper()
	leader = -1
	for id := range nodes {
		for _, e := range groupLines(t, dir, id) {
			if k := e.KG; e.Kind == eventlog.KGroup && e.State == "active" && k.Group == group && (k.Epoch > epoch || k.Epoch == epoch && k.Term > term) {
				leader, epoch, term = id, k.Epoch, k.Term
			}
		}
	}
	return leader, epoch, term
}

// TestFencing: real processes. A leader is stopped (SIGSTOP) for longer than
// its lease, its group goes on under another, and routines by time and by hand
// want locks of it all the while. When it wakes it grants none of them.
func TestFencing(t *testing.T) {
	const nodes = 10
	needRuns(t)
	dir := filepath.Join(t.TempDir(), t.Name())
	s := begin(t, program(t, "churnbed"), nil, "run", "--out", dir, "--duration", "10m", "--warmup", "200ms", "--counters-every", "1s",
		"--algorithm", "comesh", "--membership", "static", "--topology", "full", "--nodes", fmt.Sprint(nodes), "--link-delay", "1ms",
		"--smart-share", "0.6", "--kgroup-f", "1", "--device-group-size", "5", "--epoch-length", "0s", "--monitor-period", "200ms",
		"--routines", "6", "--routine-every", "1s", "--routine-takes", "20ms", "--routine-states", "0", "--state-every", "0s")
	if !s.await("running") {
		t.Fatal(s.end())
	}
	var old int
	var epoch, term uint64
	becomes(t, func() bool { old, epoch, term = serving(t, dir, nodes, 0); return old >= 0 }, "somebody serves group 0")
	granted := func(node int, after int64) bool {
		for _, e := range groupLines(t, dir, node) {
			if e.Kind == eventlog.Lock && e.State == "grant" && e.KG.Group == 0 && e.T > after {
				return true
			}
		}
		return false
	}
	becomes(t, func() bool { return granted(old, 0) }, "it grants a lock")
	hand(t, dir, "pause", fmt.Sprint(old)).want(t, 0)
	next := func() int { leader, _, _ := serving(t, dir, nodes, 0); return leader }
	becomes(t, func() bool { return next() != old }, "another one serves it")
	for i := range 6 {
		hand(t, dir, "trigger", fmt.Sprint(i)).want(t, 0)
	}
	becomes(t, func() bool { return granted(next(), 0) }, "that one grants locks")
	hand(t, dir, "resume", fmt.Sprint(old)).want(t, 0)
	var deposed int64
	becomes(t, func() bool {
		for _, e := range groupLines(t, dir, old) {
			if e.Kind == eventlog.KGroup && e.State == "deposed" && e.KG.Group == 0 {
				deposed = e.T
			}
		}
		return deposed > 0
	}, "the one that was stopped hears that it is deposed")
	becomes(t, func() bool { return granted(next(), deposed) }, "the other goes on granting")
	for _, wrong := range []struct{ arg, want string }{{"6", "from 0 to 5"}, {"x", "number of a routine"}, {"", "want one routine"}} {
		if o := hand(t, dir, "trigger", strings.Fields(wrong.arg)...); o.code != exitUsage || !strings.Contains(o.stderr, wrong.want) {
			t.Errorf("trigger %q: want %q, got %v", wrong.arg, wrong.want, o)
		}
	}
	strikeRoles(t, dir)
	interrupt(t, s)

	r, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	sum, v, err := results.Judge(r)
	if err != nil {
		t.Fatal(err)
	}
	if v.GroupCount > 0 || sum.Groups == nil || sum.Groups.Deposed == 0 || sum.Groups.Executed == 0 {
		t.Errorf("%+v, found %+v", sum.Groups, v.Groups)
	}
	if p := sum.Groups.Processes; p == nil || p.Memory.Mean < 100<<10 || p.Memory.Max > 1<<30 || !p.CPU.Mean.Known() || p.RSS.Max < p.Memory.Max {
		t.Errorf("what the kernel accounts: %+v", p)
	}
	// The checker aside: no grant under its old term from its resumption on.
	var woke int64
	controller, err := os.ReadFile(filepath.Join(dir, results.ControllerFile))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(controller) {
		var e eventlog.Event
		if json.Unmarshal(line, &e) == nil && e.Kind == eventlog.Resume && int(e.Node) == old {
			woke = e.T
		}
	}
	for _, e := range groupLines(t, dir, old) {
		if woke == 0 || e.Kind == eventlog.Lock && e.State == "grant" && e.KG.Group == 0 && e.KG.Epoch == epoch && e.KG.Term == term && e.T >= woke {
			t.Errorf("woken at %d, it granted: %+v", woke, e)
		}
	}
}

// strikeRoles strikes who leads, and who holds a lock, on a live run.
func strikeRoles(t *testing.T, dir string) {
	t.Helper()
	leads := regexp.MustCompile(`(?m)^\d+ .* \d+$`)
	becomes(t, func() bool {
		o := hand(t, dir, "ps")
		o.want(t, 0)
		return strings.Contains(o.stdout, "2 groups") && strings.Contains(o.stdout, "LEADS") && leads.MatchString(o.stdout)
	}, "ps names the leaders")
	// What is done at once says when; what waits for somebody says so.
	o := hand(t, dir, "kill", "leader", "--for", "1s")
	o.want(t, 0)
	if strings.Contains(o.stdout, "nobody is leader") {
		t.Error(o)
	}
	var killed eventlog.Event
	becomes(t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, results.ControllerFile))
		for line := range bytes.Lines(text) {
			var e eventlog.Event
			if json.Unmarshal(line, &e) == nil && e.Kind == eventlog.Kill {
				killed = e
			}
		}
		return err == nil && killed.Kind != ""
	}, "a leader is killed")
	led := false
	for _, e := range groupLines(t, dir, int(killed.Node)) {
		led = led || e.Kind == eventlog.KGroup && e.State == "active" && e.T <= killed.After
	}
	if !led {
		t.Errorf("node %d was killed, which led nothing", killed.Node)
	}
	hand(t, dir, "pause", "holder", "--for", "500ms").want(t, 0)
	if o := hand(t, dir, "kill", "boss"); o.code != exitUsage || !strings.Contains(o.stderr, "leader") {
		t.Error(o)
	}
}

// TestCoMeshDocument runs the simulated command that docs/COMESH.md shows.
func TestCoMeshDocument(t *testing.T) {
	for _, words := range documentCommands(t, "docs/COMESH.md") {
		if words[1] != "sim" {
			continue
		}
		scenario, err := filepath.Abs(filepath.Join("..", "..", "..", words[2]))
		if err != nil {
			t.Fatal(err)
		}
		run := filepath.Join(t.TempDir(), "run")
		o := churnbed(t, "sim", scenario, "--quiet", "--out", run)
		o.want(t, 0)
		if !strings.Contains(o.stdout, "2 kills") || !strings.Contains(o.stdout, "SAFE: routines, locks, leaders and inherited state") {
			t.Error(o)
		}
		exportsAgree(t, run)
		return
	}
	t.Error("docs/COMESH.md shows no simulation")
}

// exportsAgree compares the tables of a run with k-groups with its summary.
func exportsAgree(t *testing.T, run string) {
	t.Helper()
	tables := filepath.Join(t.TempDir(), "tables")
	churnbed(t, "export", "csv", run, "-o", tables).want(t, 0)
	// count counts the rows that have something in a column.
	count := func(table, column string) int {
		t.Helper()
		f, err := os.Open(filepath.Join(tables, table+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		at, n := slices.Index(rows[0], column), 0
		if at < 0 {
			t.Fatalf("table %s has no column %s: %v", table, column, rows[0])
		}
		for _, r := range rows[1:] {
			if r[at] != "" {
				n++
			}
		}
		return n
	}
	r, err := results.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	sum, _, err := results.Judge(r)
	if err != nil {
		t.Fatal(err)
	}
	g := sum.Groups
	for _, c := range []struct {
		table, column string
		want          int
	}{
		{"terms", "election_ms", g.Elections},
		{"migrations", "gap_ms", g.GapMS.N},
		{"migrations", "transfer_ms", g.TransferMS.N},
		{"migrations", "decommissioned_ms", g.Migrations},
		{"locks", "granted_ms", g.Grants},
		{"routines", "triggered_ms", g.Triggered},
		{"routines", "client_delay_ms", g.ClientMS.N},
		{"routines", "releasing_ms", g.Executed},
		{"device_failures", "detection_ms", g.DetectionMS.N},
		{"bandwidth", "node", sum.Nodes},
		{"group_members", "node", 3 * (g.Groups + g.Migrations)},
	} {
		if got := count(c.table, c.column); got != c.want || c.want == 0 {
			t.Errorf("%s.csv: %d rows have %s, the summary counts %d", c.table, got, c.column, c.want)
		}
	}
}
