package report

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"churnbed/node/core"
	"churnbed/results"
	"churnbed/results/timeline"
	"churnbed/results/timeline/timelinetest"
	"churnbed/topologies"
)

// hostile ends every context that a careless page would put it into.
const hostile = `</script></pre><script>window.pwned=1</script><img src=x onerror="window.pwned=1">'"` + "`${window.pwned=1}`"

func planted(tb testing.TB, name string, p timelinetest.Plan) *Run {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), name)
	timelinetest.Write(tb, dir, p)
	r, err := Open(dir, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func render(tb testing.TB, runs ...*Run) string {
	tb.Helper()
	var b bytes.Buffer
	if err := Render(&b, runs); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// evil is a run whose every name is hostile.
func evil(tb testing.TB) *Run {
	tb.Helper()
	r := planted(tb, "evil run", timelinetest.Plan{
		Violations: 2, Kills: 3, Scenario: "name: " + hostile + "\n", Command: []string{"churnbed", "run", "--name", hostile},
	})
	r.Name = hostile
	for i := range r.Topology.Nodes {
		r.Topology.Nodes[i].Label = hostile
	}
	return r
}

func TestNothingIsLoaded(t *testing.T) {
	page := render(t, planted(t, "run", timelinetest.Plan{}))
	if m := regexp.MustCompile(`(?i:(src|href)\s*=\s*"?(https?:)?//|@import)|\burl\(`).FindString(page); m != "" {
		t.Errorf("the page loads something: %q", m)
	}
	if !strings.Contains(page, "default-src &#39;none&#39;") {
		t.Error("the page has no policy")
	}
}

func TestNamesAreText(t *testing.T) {
	page := render(t, evil(t))
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("%d script elements, want the data and the script", n)
	}
	for _, bad := range []string{"<img", "</pre><", "<script>window.pwned"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	_, data, _ := strings.Cut(page, `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	var runs []runData
	if err := json.Unmarshal([]byte(data), &runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 || runs[0].Name != hostile || runs[0].Nodes.Label[3] != hostile {
		t.Errorf("names got lost: %q", runs[0].Name)
	}
}

func TestTables(t *testing.T) {
	one := planted(t, "one", timelinetest.Plan{Violations: 2})
	two := planted(t, "two", timelinetest.Plan{Seed: 2})
	page := render(t, one, two)
	for _, want := range []string{
		"violated: 2 pairs", "never two in the critical section", `id="run-0"`, `id="run-1"`, "churnbed run ", "churnbed check ", "name: planted",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if err := Render(&bytes.Buffer{}, nil); err == nil {
		t.Error("a page of no runs")
	}
}

// A run with k-groups shows its leaders and routines, and no section.
func TestGroups(t *testing.T) {
	groups := planted(t, "groups", timelinetest.Plan{Groups: true})
	page := render(t, groups)
	for _, want := range []string{
		"Who led each group", "What each routine did", `<text class="in"`, ">group 0<", ">routine 0<", "1 2 3", "replaced", "client delay: mean, p50, p90", "1, 2, 0",
		"routines, locks, leaders and inherited state",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, other := range []string{"requests served", `id="waits"`} {
		if strings.Contains(page, other) {
			t.Errorf("the page has %q", other)
		}
	}
	if page := render(t, groups, planted(t, "other", timelinetest.Plan{})); !strings.Contains(page, "requests served") || !strings.Contains(page, `id="waits"`) {
		t.Error("a page with another run lacks its requests")
	}
	groups.Timeline.Verdict.Groups = []results.GroupFinding{{Check: results.CheckHolders, Text: hostile, Lines: []results.LogError{{File: "1", Line: 3, Text: "grant"}}}}
	groups.Timeline.Verdict.GroupCount = 4
	groups.Timeline.Summary.Groups.Violations = map[string]int{results.CheckHolders: 4}
	page = render(t, groups)
	if !strings.Contains(page, "violated: 4 findings of groups") || !strings.Contains(page, "3 more are not listed") || strings.Contains(page, "<img") {
		t.Error("findings are not told, or not as text")
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"a-b_c.yaml": "a-b_c.yaml", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "~": "'~'"} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

// The page has the same numbers as the run.
func TestData(t *testing.T) {
	r := planted(t, "run", timelinetest.Plan{Entries: 100, Violations: 3, Kills: 5})
	d := r.data()
	if n := len(d.Requests.Node); n != 100 || len(d.Overlaps.From) != 3 || len(d.Links.A) != r.Timeline.Summary.Links {
		t.Errorf("%d requests, %d overlaps, %d links", n, len(d.Overlaps.From), len(d.Links.A))
	}
	flagged := 0
	for i, node := range d.Requests.Node {
		if i > 0 && (node < d.Requests.Node[i-1] || node == d.Requests.Node[i-1] && d.Requests.Asked[i] < d.Requests.Asked[i-1]) {
			t.Fatal("requests are not by node and instant")
		}
		flagged += d.Requests.Flag[i]
	}
	if flagged != 4 {
		t.Errorf("%d requests are marked", flagged)
	}
	for i := range d.Nodes.X {
		if d.Nodes.X[i] < 0 || d.Nodes.X[i] > 1 || d.Nodes.Y[i] < 0 || d.Nodes.Y[i] > 1 {
			t.Fatalf("node %d stands at %v, %v", i, d.Nodes.X[i], d.Nodes.Y[i])
		}
	}
	if d.Changes.Up[0] != 0 || d.Changes.Up[1] != 1 {
		t.Errorf("link changes %+v", d.Changes)
	}
}

func TestPlots(t *testing.T) {
	r := planted(t, "run", timelinetest.Plan{Violations: 3, Kills: 5})
	names := map[string]bool{}
	for _, p := range r.Plots() {
		names[p.Name] = true
		for _, format := range []string{"png", "svg"} {
			var b bytes.Buffer
			if err := p.Draw(&b, format); err != nil {
				t.Fatal(err)
			}
			if format == "svg" {
				if !strings.Contains(b.String(), "</svg>") {
					t.Errorf("%s: no SVG", p.Name)
				}
				continue
			}
			picture, err := png.Decode(&b)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			if size := picture.Bounds(); size.Dx() < 300 || size.Dy() < 200 {
				t.Errorf("%s is %v", p.Name, size)
			}
		}
		if err := p.Draw(&bytes.Buffer{}, "gif"); err == nil {
			t.Error("draws GIF")
		}
	}
	for _, want := range []string{"map", "timeline", "wait-ecdf", "wait-time", "messages", "traffic", "membership", "churn", "fidelity"} {
		if !names[want] {
			t.Errorf("no plot %s", want)
		}
	}
}

// A run in which nothing happened, of one node, has a report too.
func TestEmptyRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "empty")
	if _, err := results.Create(dir, &results.Manifest{Engine: results.Simulated, TimeScale: 1, Nodes: 1}); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	render(t, r)
	for _, p := range r.Plots() {
		if err := p.Draw(&bytes.Buffer{}, "png"); err != nil {
			t.Error(err)
		}
	}
}

// A topology that is not the run's is not used.
func TestOtherTopology(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	timelinetest.Write(t, dir, timelinetest.Plan{})
	other, err := topologies.Unplaced("other", 3, []topologies.Link{{A: 0, B: core.NodeID(1)}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir, other)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Topology.Nodes) != 16 {
		t.Errorf("the mesh has %d nodes", len(r.Topology.Nodes))
	}
}

func TestDistinguish(t *testing.T) {
	runs := []*Run{{Name: "a"}, {Name: "b"}, {Name: "a"}}
	Distinguish(runs)
	if runs[0].Name != "a (1)" || runs[1].Name != "b" || runs[2].Name != "a (3)" {
		t.Errorf("names %q, %q, %q", runs[0].Name, runs[1].Name, runs[2].Name)
	}
}

// BenchmarkReport reads a run of 256 nodes and 10,000 entries and writes its
// page.
func BenchmarkReport(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "run")
	timelinetest.Write(b, dir, timelinetest.Plan{Nodes: 256, Entries: 10_000, Violations: 20, Kills: 3000})
	size := 0
	for b.Loop() {
		r, err := Open(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		page := render(b, r)
		size = len(page)
		if err := os.WriteFile(filepath.Join(b.TempDir(), "report.html"), []byte(page), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size)/1e6, "MB")
}

// What a safe run promises goes by its algorithm, and what tokens and
// neighbourhoods came to is told, bad where it is wrong.
func TestPromises(t *testing.T) {
	runs := []*Run{
		{Timeline: &timeline.Timeline{Summary: &results.Summary{Fairness: results.Fairness{K: 3}, Tokens: &results.Tokens{K: 3, Lost: 1}}}},
		{Timeline: &timeline.Timeline{Summary: &results.Summary{Local: &results.Local{InFlightPerLink: 2}}}},
		{Timeline: &timeline.Timeline{Summary: &results.Summary{Interrupted: true}}},
	}
	cells := map[string][]value{}
	for _, g := range summaryGroups(runs) {
		for _, r := range g.Rows {
			cells[r.Name] = r.Values
		}
	}
	for k, want := range []string{"never more than 3 in the critical section", "no two lock sets intersected", "never two in the critical section"} {
		if got := cells["safety"][k].Text; got != want {
			t.Errorf("run %d: safety %q, want %q", k, got, want)
		}
	}
	if v := cells["cut short"]; len(v) != 3 || v[0].Text != "no" || v[2].Text != results.CutShort {
		t.Errorf("cut short: %+v", v)
	}
	if v := cells["tokens"]; len(v) != 3 || v[0].Class != bad || !strings.Contains(v[0].Text, "1 lost") || v[1].Text != "–" {
		t.Errorf("tokens: %+v", v)
	}
	if v := cells["bounds"]; len(v) != 3 || !strings.Contains(v[1].Text, "at most 2 messages") || v[2].Text != "–" {
		t.Errorf("bounds: %+v", v)
	}
}
