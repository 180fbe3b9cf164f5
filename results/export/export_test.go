package export

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"churnbed/results"
	"churnbed/results/capture"
	"churnbed/results/timeline"
	"churnbed/results/timeline/timelinetest"
)

const hostile = "</script>\"'\\\n{}\x00é,;"

func planted(tb testing.TB, p timelinetest.Plan) *timeline.Timeline {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "run")
	timelinetest.Write(tb, dir, p)
	t, err := timeline.Read(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

type event struct {
	Phase    string         `json:"ph"`
	Name     string         `json:"name"`
	Category string         `json:"cat"`
	Time     float64        `json:"ts"`
	Length   float64        `json:"dur"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	ID       int            `json:"id"`
	Args     map[string]any `json:"args"`
}

func traced(t *testing.T, tl *timeline.Timeline, labels []string, messages []capture.Message) []event {
	t.Helper()
	var b bytes.Buffer
	if err := Perfetto(&b, tl, labels, messages); err != nil {
		t.Fatal(err)
	}
	var trace struct{ TraceEvents []event }
	if err := json.Unmarshal(b.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	return trace.TraceEvents
}

func TestPerfetto(t *testing.T) {
	tl := planted(t, timelinetest.Plan{Entries: 100, Violations: 3, Kills: 5})
	labels := make([]string, 16)
	labels[3] = hostile
	events := traced(t, tl, labels, []capture.Message{{Kind: "REQUEST", From: 1, To: 2, Sent: 5e9, Received: 5.01e9}, {Kind: "OK", From: 99, To: 1}})
	type track struct{ process, thread int }
	slicesOf := map[track][]event{}
	names := map[track]string{}
	starts, ends := map[int]event{}, map[int]event{}
	count := map[string]int{}
	for _, e := range events {
		at := track{e.Process, e.Thread}
		count[e.Phase+" "+e.Category]++
		switch e.Phase {
		case "X":
			slicesOf[at] = append(slicesOf[at], e)
		case "M":
			if e.Name == "thread_name" {
				names[at] = e.Args["name"].(string)
			}
		case "s":
			starts[e.ID] = e
		case "f":
			ends[e.ID] = e
		}
	}
	for i := range 16 {
		if names[track{meshProcess, nodeThread + i}] == "" {
			t.Errorf("node %d has no track", i)
		}
	}
	if got := names[track{meshProcess, nodeThread + 3}]; got != "node 3 "+hostile {
		t.Errorf("node 3 is called %q", got)
	}
	for at, list := range slicesOf {
		if names[at] == "" {
			t.Errorf("track %v has no name", at)
		}
		slices.SortStableFunc(list, func(a, b event) int { return cmp.Compare(a.Time, b.Time) })
		for i := 1; i < len(list); i++ {
			a, b := list[i-1], list[i]
			if a.Time+a.Length > b.Time+1e-6 && a.Time+a.Length < b.Time+b.Length-1e-6 {
				t.Errorf("%s: %s [%f %f] and %s [%f %f] overlap by half", names[at], a.Name, a.Time, a.Length, b.Name, b.Time, b.Length)
			}
		}
	}
	inside := func(e event) bool {
		return slices.ContainsFunc(slicesOf[track{e.Process, e.Thread}], func(s event) bool {
			return s.Time <= e.Time && e.Time <= s.Time+s.Length
		})
	}
	for id, s := range starts {
		f, ok := ends[id]
		if !ok || f.Time < s.Time || !inside(s) || !inside(f) {
			t.Errorf("flow %d (%s) from %f to %f joins no slices", id, s.Name, s.Time, f.Time)
		}
	}
	if len(starts) != len(ends) || count["s handover"] == 0 || count["s message"] != 1 {
		t.Errorf("%d flows begin, %d end: %v", len(starts), len(ends), count)
	}
	if count["i violation"] != 3 || count["X down"] == 0 || count["X paused"] != 1 {
		t.Errorf("events %v", count)
	}
	sections := 0
	for i := range 16 {
		for _, e := range slicesOf[track{meshProcess, nodeThread + i}] {
			if e.Category == "section" {
				sections++
			}
		}
	}
	if sections != 100 {
		t.Errorf("%d sections", sections)
	}
}

func TestTables(t *testing.T) {
	tl := planted(t, timelinetest.Plan{Entries: 100, Violations: 3, Kills: 5})
	tl.Faults[0].Text = hostile
	dir := t.TempDir()
	for _, format := range []string{CSV, Parquet} {
		names, err := Tables(dir, format, tl, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"nodes", "requests", "overlaps", "lives", "faults", "links", "slices", "members", "counters"}; !slices.Equal(names, want) {
			t.Errorf("tables %v", names)
		}
	}
	same(t, dir, "nodes", nodeRows(tl, nil))
	same(t, dir, "requests", requestRows(tl))
	same(t, dir, "overlaps", overlapRows(tl))
	same(t, dir, "lives", lifeRows(tl))
	same(t, dir, "faults", faultRows(tl))
	same(t, dir, "links", linkRows(tl))
	same(t, dir, "slices", sliceRows(tl))
	counters := fromParquet[CounterRow](t, dir, "counters")
	if rows := fromCSV(t, dir, "counters"); len(rows)-1 != len(counters) || len(counters) < 100 {
		t.Errorf("%d and %d rows of counters", len(rows)-1, len(counters))
	}
	if members := fromParquet[MemberRow](t, dir, "members"); len(members) != 9 || members[0].Change != "failed" {
		t.Errorf("members %v", members)
	}
	if _, err := Tables(dir, CSV, tl, nil); err == nil {
		t.Error("files are written over")
	}
	if _, err := Tables(t.TempDir(), "xlsx", tl, nil); err == nil {
		t.Error("format xlsx is known")
	}
}

// A run with k-groups has tables about them, and figures.
func TestGroupExports(t *testing.T) {
	tl := planted(t, timelinetest.Plan{Groups: true})
	dir := t.TempDir()
	for _, format := range []string{CSV, Parquet} {
		names, err := Tables(dir, format, tl, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"terms", "group_members", "migrations", "locks", "routines", "commands", "device_failures", "bandwidth", "group_lines"}
		if !slices.Equal(names[len(names)-len(want):], want) {
			t.Errorf("tables %v", names)
		}
	}
	same(t, dir, "terms", termRows(tl))
	same(t, dir, "group_members", groupMemberRows(tl))
	same(t, dir, "migrations", migrationRows(tl))
	same(t, dir, "locks", lockRows(tl))
	same(t, dir, "routines", routineRows(tl))
	same(t, dir, "commands", commandRows(tl))
	same(t, dir, "device_failures", failureRows(tl))
	same(t, dir, "bandwidth", bandwidthRows(tl))
	ms := func(v *float64) float64 {
		if v == nil {
			return -1
		}
		return *v
	}
	if m := fromParquet[MigrationRow](t, dir, "migrations"); len(m) != 1 || ms(m[0].GapMS) != 30 || ms(m[0].TransferMS) != 5 || ms(m[0].RetiredMS) != 2050 || !m[0].Unchanged {
		t.Errorf("migrations %+v", m)
	}
	if l := fromParquet[LockRow](t, dir, "locks"); len(l) != 2 || ms(l[0].WaitMS) != 3 || ms(l[0].HeldMS) != 116 || l[0].Inherited ||
		!l[1].Inherited || l[1].GrantedBy != 3 || l[1].Epoch != 2 || l[1].Term != 2 || l[1].FreedMS != nil {
		t.Errorf("locks %+v", l)
	}
	if r := fromParquet[RoutineRow](t, dir, "routines"); len(r) != 2 || ms(r[0].DelayMS) != 10 || ms(r[1].DelayMS) != 320 || r[1].Leader != 3 || r[1].DoneMS != nil {
		t.Errorf("routines %+v", r)
	}
	if rows := fromParquet[GroupMemberRow](t, dir, "group_members"); len(rows) != 6 || rows[4].Node != 3 || !rows[4].Leader || rows[5].Leader {
		t.Errorf("members %+v", rows)
	}
	if rows := fromParquet[GroupLineRow](t, dir, "group_lines"); len(rows) != 32 || rows[2].Kind != "routine" || rows[4].Device == nil || *rows[4].Device != 4 {
		t.Errorf("%d lines", len(rows))
	}

	shown, ends := map[string]int{}, map[[2]int]float64{}
	for _, e := range traced(t, tl, nil, nil) {
		if e.Phase != "X" || e.Process != groupProcess && e.Process != routineProcess {
			continue
		}
		shown[e.Category+" "+e.Name]++
		track := [2]int{e.Process, e.Thread}
		if e.Time < ends[track]-1e-6 {
			t.Errorf("%s begins before the one before ends", e.Name)
		}
		ends[track] = e.Time + e.Length
	}
	if want := map[string]int{
		"term node 1": 1, "term node 2": 1, "term node 3": 1, "migration migration": 1, "routine acquiring locks": 2, "routine executing": 2, "routine releasing locks": 1,
	}; !maps.Equal(shown, want) {
		t.Errorf("slices %v, want %v", shown, want)
	}

	e := exposed(t, tl, "run")
	found := map[string]float64{}
	for key, v := range e.values {
		name, labels, _ := strings.Cut(key, "{")
		for _, l := range []string{"stage", "check"} {
			if _, rest, ok := strings.Cut(labels, ","+l+"=\""); ok {
				name += " " + strings.TrimSuffix(rest, "\"}")
			}
		}
		found[name] = v
	}
	for name, want := range map[string]float64{
		"churnbed_routine_runs_total executed": 1, "churnbed_routine_runs_total triggered": 2, "churnbed_group_violations_total safety": 0,
		"churnbed_elections_total": 3, "churnbed_migrations_total": 1, "churnbed_lock_grants_total": 1, "churnbed_leaders_deposed_total": 1,
		"churnbed_monitoring_gap_mean_seconds": .03, "churnbed_state_transfer_max_seconds": .005, "churnbed_client_delay_max_seconds": .32,
	} {
		if got, ok := found[name]; !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s = %v (%v), want %v", name, got, ok, want)
		}
	}
}

func fromParquet[T any](t *testing.T, dir, name string) []T {
	t.Helper()
	rows, err := parquet.ReadFile[T](filepath.Join(dir, name+".parquet"))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func fromCSV(t *testing.T, dir, name string) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// same compares what both files hold with the rows.
func same[T any](t *testing.T, dir, name string, want []T) {
	t.Helper()
	text := func(rows []T) string {
		b, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(b), "null", "[]")
	}
	if got := fromParquet[T](t, dir, name); len(got) != len(want) || len(got) > 0 && text(got) != text(want) {
		t.Errorf("%s.parquet holds\n%.300s\nwant\n%.300s", name, text(got), text(want))
	}
	if got := fromCSV(t, dir, name); len(got) != len(want)+1 {
		t.Errorf("%s.csv has %d lines, want %d", name, len(got), len(want)+1)
	}
}

// exposition is a strict reader of the OpenMetrics text format 1.0: the order
// of lines, names, units, escapes and suffixes as the standard has them.
type exposition struct {
	types  map[string]string
	values map[string]float64
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,|$|\}))*)\}?)? (\S+)$`)
)

func readExposition(text string) (*exposition, error) {
	e := &exposition{map[string]string{}, map[string]float64{}}
	body, ok := strings.CutSuffix(text, "# EOF\n")
	if !ok {
		return nil, fmt.Errorf("does not end with EOF")
	}
	family, seen := "", map[string]bool{}
	suffixes := map[string][]string{"counter": {"_total", "_created"}, "gauge": {""}, "histogram": {"_bucket", "_count", "_sum", "_created"}}
	for no, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		fail := func(what string) error { return fmt.Errorf("line %d: %s: %q", no+1, what, line) }
		if rest, isMeta := strings.CutPrefix(line, "# "); isMeta {
			fields := strings.SplitN(rest, " ", 3)
			if len(fields) < 3 || !metricName.MatchString(fields[1]) {
				return nil, fail("no descriptor")
			}
			if fields[1] != family {
				if seen[fields[1]] {
					return nil, fail("family is torn apart")
				}
				family = fields[1]
				seen[family] = true
			}
			switch fields[0] {
			case "HELP":
			case "UNIT":
				if !strings.HasSuffix(family, "_"+fields[2]) {
					return nil, fail("unit is not the name's suffix")
				}
			case "TYPE":
				if suffixes[fields[2]] == nil || e.types[family] != "" {
					return nil, fail("type")
				}
				e.types[family] = fields[2]
			default:
				return nil, fail("unknown descriptor")
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fail("no sample")
		}
		if !slices.ContainsFunc(suffixes[e.types[family]], func(s string) bool { return m[1] == family+s }) {
			return nil, fail("sample is not of the family " + family)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil || math.IsNaN(v) || e.types[family] == "counter" && v < 0 {
			return nil, fail("value")
		}
		key, _, _ := strings.Cut(line, " "+m[3])
		if _, twice := e.values[key]; twice {
			return nil, fail("sample is given twice")
		}
		e.values[key] = v
	}
	return e, nil
}

// exposed is what OpenMetrics writes of a run, read again.
func exposed(t *testing.T, tl *timeline.Timeline, run string) *exposition {
	t.Helper()
	var b bytes.Buffer
	if err := OpenMetrics(&b, tl, run); err != nil {
		t.Fatal(err)
	}
	e, err := readExposition(b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return e
}

func TestOpenMetrics(t *testing.T) {
	tl := planted(t, timelinetest.Plan{Entries: 100, Violations: 3, Kills: 5})
	e := exposed(t, tl, "a \"run\"\\\n")
	at := func(name string) float64 {
		t.Helper()
		found := math.NaN()
		for key, v := range e.values {
			head, labels, _ := strings.Cut(name, "{")
			if strings.HasPrefix(key, head+"{") && strings.Contains(key, strings.TrimSuffix(labels, "}")) {
				found = v
			}
		}
		return found
	}
	for name, want := range map[string]float64{
		"churnbed_nodes": 16, "churnbed_violations_total": 3, `churnbed_requests_total{outcome="served"}`: 100,
		`churnbed_churn_total{deed="kill"}`: 5, `churnbed_verdict{verdict="violation"}`: 1, `churnbed_verdict{verdict="ok"}`: 0,
		"churnbed_wait_seconds_count": 100, `churnbed_wait_seconds_bucket{le="+Inf"}`: 100,
		`churnbed_datagrams_total{kind="PING"}`: float64(tl.Summary.Messages.ByKind["PING"].N),
	} {
		if got := at(name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

// The reader that judges the text is strict.
func TestExpositionReader(t *testing.T) {
	for _, bad := range []string{
		"", "# TYPE a gauge\na 1\n", "# TYPE a counter\na 1\n# EOF\n", "# TYPE a gauge\nb 1\n# EOF\n", "# TYPE a_x gauge\n# UNIT a_x seconds\na_x 1\n# EOF\n",
		"# TYPE a gauge\na{x=\"\\q\"} 1\n# EOF\n", "# TYPE a gauge\na 1\na 1\n# EOF\n", "# TYPE a gauge\na x\n# EOF\n", "a 1\n# EOF\n",
		"# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\n# EOF\n",
	} {
		if _, err := readExposition(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if e, err := readExposition("# HELP a_total_x Help \\n.\n# TYPE a_total_x counter\na_total_x_total{x=\"\\\"\",y=\"2\"} 3.0\n# EOF\n"); err != nil || len(e.values) != 1 {
		t.Errorf("%v, %v", e, err)
	}
}

// A run of which nothing is known has exports too.
func TestEmptyRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "empty")
	if _, err := results.Create(dir, &results.Manifest{Engine: results.Simulated, TimeScale: 1, Nodes: 2}); err != nil {
		t.Fatal(err)
	}
	tl, err := timeline.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	traced(t, tl, nil, nil)
	for _, format := range []string{CSV, Parquet} {
		if _, err := Tables(t.TempDir(), format, tl, nil); err != nil {
			t.Error(err)
		}
	}
	exposed(t, tl, "")
}

// Messages less than a microsecond apart do not overlap half on a node's track,
// which viewers would drop.
func TestMessagesDoNotOverlap(t *testing.T) {
	var b bytes.Buffer
	tr := &trace{w: bufio.NewWriter(&b)}
	tr.messages([]capture.Message{
		{Kind: "OK", From: 0, To: 2, Sent: 5_000, Received: 90_000},
		{Kind: "OK", From: 1, To: 2, Sent: 5_000, Received: 90_957},
		{Kind: "OK", From: 1, To: 2, Sent: 5_400, Received: 90_957},
		{Kind: "OK", From: 2, To: 0, Sent: 91_500, Received: 99_000},
	}, 3)
	if err := errors.Join(tr.err, tr.w.Flush()); err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Phase  string  `json:"ph"`
		Time   float64 `json:"ts"`
		Length float64 `json:"dur"`
		Thread int     `json:"tid"`
	}
	if err := json.Unmarshal([]byte("["+b.String()+"]"), &events); err != nil {
		t.Fatalf("%v\n%s", err, &b)
	}
	n := 0
	for _, x := range events {
		if x.Phase != "X" {
			continue
		}
		n++
		if x.Length <= 0 {
			t.Errorf("%+v has no length", x)
		}
		for _, y := range events {
			if y.Phase == "X" && y.Thread == x.Thread && x.Time < y.Time && y.Time < x.Time+x.Length-1e-9 && x.Time+x.Length < y.Time+y.Length {
				t.Errorf("%+v and %+v overlap half", x, y)
			}
		}
	}
	if n != 8 {
		t.Errorf("%d slices, want 8", n)
	}
}
