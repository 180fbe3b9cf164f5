package reproduce_test

import (
	"bytes"
	"errors"
	"flag"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"churnbed/results"
	"churnbed/results/reproduce"
	sweeps "churnbed/workloads/scenarios/reproduce"
)

var update = flag.Bool("update", false, "rewrite the golden table")

func all(t testing.TB) []*reproduce.Sweep {
	t.Helper()
	list, err := reproduce.Load(sweeps.Files)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPublishedExperimentsAreThere(t *testing.T) {
	var names []string
	for _, s := range all(t) {
		names = append(names, s.Name)
	}
	const want = "fig1 fig8 fig9 fig10 fig11 fig12 fig13 fig14 fig15 table2 comesh-availability comesh-bandwidth comesh-churn comesh-distance comesh-gap comesh-hubs comesh-kgroup-k comesh-kgroup-nodes comesh-kgroup-policy comesh-leader comesh-load-groups comesh-load-time comesh-locks comesh-memory comesh-pi comesh-processor comesh-sync comesh-topologies drop-rate fairk-fig2 fairk-fig3 fairk-fig4 fairk-fig5 ia-d local-churn local-churn-tries local-contention local-contention-tries local-degree local-degree-tries local-in-flight local-message local-state size"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("experiments %s, want %s", got, want)
	}
}

// TestReferencesExist: what a series names of the authors' data is there,
// wherever the data is.
func TestReferencesExist(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	data := reproduce.NewData(reproduce.FindData(wd))
	if !data.Found() {
		t.Skip("../shared/data/camera-sim-results is not there")
	}
	cells := 0
	for _, s := range all(t) {
		for i := range s.Series {
			l := &s.Series[i]
			if l.File != "" {
				drawn, err := data.Drawn(l)
				if err != nil || len(drawn) != 5 {
					t.Errorf("%s: %s: %d points: %v", s.Name, l.File, len(drawn), err)
				}
			}
			for _, p := range s.Points {
				e, err := data.Reference(s, l, p.X)
				if err != nil {
					t.Errorf("%s, %s at %v: %v", s.Name, l.Name, p.X, err)
				}
				if e.N >= 50 && e.Mean > 0 && e.SE > 0 && e.Messages > 0 {
					cells++
				}
			}
		}
	}
	if cells < 77 {
		t.Errorf("%d cells have a reference, want 77 or more", cells)
	}
}

func estimate(mean, se float64) reproduce.Estimate {
	return reproduce.Estimate{N: 100, Mean: mean, SE: se, Messages: 765}
}

func example() *reproduce.Result {
	one := 1.0
	nothing := reproduce.Estimate{Mean: math.NaN(), SE: math.NaN(), Messages: math.NaN()}
	r := &reproduce.Result{
		Sweep: &reproduce.Sweep{
			Name: "example", Title: "An example", Text: "What it shows.", X: "nodes", Y: "mean wait, ms", LogX: true,
			Points: []reproduce.Point{{X: 32}, {X: 64}}, Series: []reproduce.Series{{Name: "imitated"}, {Name: "camera", Ours: true}},
		},
		Engine: "simulated", Version: "1.0", Host: "linux/amd64, 2 cores", Date: "2024-05-06", Notes: []string{"a note"},
		Cells: []reproduce.Cell{
			{Series: "imitated", X: 32, Seed: 1, Got: estimate(100, 3), Want: estimate(104, 4)},
			{Series: "imitated", X: 64, Seed: 1, Got: estimate(2000, 3), Want: nothing},
			{Series: "camera", X: 32, Seed: 1, Ours: true, Got: estimate(150, 3), Want: estimate(104, 4)},
			{Series: "camera", X: 64, Seed: 1, Ours: true, Got: estimate(1, 0), Want: nothing},
		},
	}
	for i := range r.Cells {
		var p *reproduce.Published
		if i == 3 {
			p = &reproduce.Published{Value: &one}
		}
		r.Cells[i].Judge(p)
	}
	return r
}

func TestPrint(t *testing.T) {
	var b bytes.Buffer
	if err := example().Print(&b); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "example.txt")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestRecord(t *testing.T) {
	var b bytes.Buffer
	r := example()
	if err := r.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	s, err := reproduce.ReadStatus(bytes.NewReader(b.Bytes()), "example.csv")
	if err != nil {
		t.Fatal(err)
	}
	if s.Cells != 4 || s.Date != r.Date || s.Host != r.Host || s.Version != r.Version || s.Verdict != string(reproduce.Agree) {
		t.Errorf("status %+v", s)
	}
	for _, broken := range []string{"", "# date: x\n", strings.Replace(b.String(), "first_seed", "seed", 1), strings.Replace(b.String(), "# date", "# day", 1), b.String() + "one,more\n"} {
		if _, err := reproduce.ReadStatus(strings.NewReader(broken), "broken.csv"); !errors.Is(err, reproduce.ErrNotARecord) {
			t.Errorf("%.40q: %v", broken, err)
		}
	}
}

func TestDraw(t *testing.T) {
	r := example()
	for _, log := range []bool{false, true} {
		r.Sweep.LogY = log
		var b bytes.Buffer
		if err := r.Draw(&b, "png"); err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(&b); err != nil {
			t.Error(err)
		}
		b.Reset()
		if err := r.Draw(&b, "svg"); err != nil || !strings.Contains(b.String(), "imitated") {
			t.Errorf("svg of %d bytes: %v", b.Len(), err)
		}
	}
	if err := r.Draw(&bytes.Buffer{}, "pdf"); err == nil {
		t.Error("pdf is accepted")
	}
	r.Cells = nil
	if err := r.Draw(&bytes.Buffer{}, "png"); err == nil {
		t.Error("nothing is drawn without an error")
	}
}

func TestOutcome(t *testing.T) {
	cells := func(agree, differ int, by float64) []reproduce.Cell {
		var list []reproduce.Cell
		for i := range agree + differ {
			c := reproduce.Cell{Got: estimate(100, 3), Want: estimate(100, 4)}
			if i >= agree {
				c.Got.Mean += by * 5
			}
			c.Judge(nil)
			list = append(list, c)
		}
		return list
	}
	for _, c := range []struct {
		cells []reproduce.Cell
		want  reproduce.Verdict
	}{
		{cells(16, 0, 0), reproduce.Agree},
		{cells(15, 1, 2.5), reproduce.Agree}, // one of sixteen, by chance
		{cells(15, 1, -4.5), reproduce.Differ},
		{cells(12, 4, 2.5), reproduce.Differ},
		{cells(0, 1, 2.5), reproduce.Differ},
		{nil, reproduce.NoJudge},
	} {
		if got, why := reproduce.Outcome(c.cells); got != c.want {
			t.Errorf("%d cells: %s (%s), want %s", len(c.cells), got, why, c.want)
		}
	}
	few := reproduce.Cell{Got: reproduce.Estimate{N: 4, Mean: 1, SE: 1}, Want: estimate(100, 4)}
	few.Judge(nil)
	if v, _ := reproduce.Outcome([]reproduce.Cell{few}); v != reproduce.TooFew {
		t.Errorf("four trials: %s", v)
	}
}

func TestEstimated(t *testing.T) {
	s := &reproduce.Sweep{Metric: "wait-by-requesters"}
	unfit := &results.Trial{WaitsMS: []float64{9e9}, Issued: 1, Served: 1, Fidelity: results.Unfaithful, E2EMessages: results.Unknown()}
	e := s.Estimated(&reproduce.Series{}, []*results.Trial{
		{WaitsMS: []float64{1000, 3000}, Issued: 2, Served: 2, E2EMessages: 20},
		{WaitsMS: []float64{4000, 4000}, Issued: 2, Served: 2, E2EMessages: 40},
		unfit,
	})
	if e.N != 2 || e.Mean != 1.5 || e.SE != 0.5 || e.Messages != 15 {
		t.Errorf("estimate %+v", e)
	}
}

func TestParseListsAllErrors(t *testing.T) {
	_, err := reproduce.Parse([]byte("title: x\nmetric: speed\nsweep: [{x: 1, mesh: 1}]\nseries: [{name: a}, {name: a}]\n"), "bad.yaml")
	for _, part := range []string{"bad.yaml", "title, text", `"speed"`, "trials 0", "mesh 1", `series "a"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q: %v", part, err)
		}
	}
	if _, err := reproduce.Parse([]byte("titel: x\n"), "bad.yaml"); err == nil || !strings.Contains(err.Error(), "titel") {
		t.Errorf("unknown key: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range all(f) {
		text, err := sweeps.Files.ReadFile(s.Name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("sweep: [{x: .nan}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := reproduce.Parse(text, "f.yaml")
		if (s == nil) == (err == nil) {
			t.Errorf("%v, %v", s, err)
		}
	})
}

func FuzzReadStatus(f *testing.F) {
	var b bytes.Buffer
	if err := example().WriteCSV(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("# date"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := reproduce.ReadStatus(bytes.NewReader(text), "f.csv")
		if (s == nil) == (err == nil) {
			t.Errorf("%v, %v", s, err)
		}
	})
}

func TestClaims(t *testing.T) {
	bound := func(v float64) *float64 { return &v }
	var cells []reproduce.Cell
	add := func(name string, values ...float64) {
		for i, v := range values {
			cells = append(cells, reproduce.Cell{Series: name, X: float64(i), Got: estimate(v, 0.01)})
		}
	}
	add("a", 1, 2, 3, 4)
	add("b", 2, 2, 2, 2)
	for _, c := range []struct {
		claim    reproduce.Claim
		measured string
		want     reproduce.Verdict
	}{
		{reproduce.Claim{Kind: "ratio", Of: "a", To: "b", Least: bound(0.5), Most: bound(2)}, "0.5 to 2", reproduce.Agree},
		{reproduce.Claim{Kind: "ratio", Of: "a", To: "b", From: bound(1), Until: bound(2), Least: bound(1.1)}, "1 to 1.5", reproduce.Differ},
		{reproduce.Claim{Kind: "ratio", Of: "a", To: "b", From: bound(9), Least: bound(1)}, "-", reproduce.NoJudge},
		{reproduce.Claim{Kind: "growth", Of: "a", From: bound(1), Least: bound(2), Most: bound(2)}, "2", reproduce.Agree},
		{reproduce.Claim{Kind: "growth", Of: "b", Least: bound(1.5)}, "1", reproduce.Differ},
		{reproduce.Claim{Kind: "spread", Of: "a", Most: bound(3)}, "4", reproduce.Differ},
		{reproduce.Claim{Kind: "linear", Of: "a", Least: bound(0.99)}, "1", reproduce.Agree},
		{reproduce.Claim{Kind: "crossings", Of: "a", To: "b", Least: bound(1), Most: bound(1)}, "1", reproduce.Agree},
		{reproduce.Claim{Kind: "crossings", Of: "a", To: "b", From: bound(1), Most: bound(0)}, "0", reproduce.Agree},
	} {
		c.claim.Text = "a claim"
		s := &reproduce.Sweep{Claims: []reproduce.Claim{c.claim}}
		f := s.Judge(cells)[0]
		if f.Verdict != c.want || f.Measured() != c.measured {
			t.Errorf("%+v: measured %s, %s; want %s, %s", c.claim, f.Measured(), f.Verdict, c.measured, c.want)
		}
		r := &reproduce.Result{Sweep: s, Cells: cells}
		if v, why := r.Outcome(); v != c.want {
			t.Errorf("%+v: outcome %s (%s), want %s", c.claim, v, why, c.want)
		}
	}
	const head = "title: x\ntext: x\nmetric: kgroups\nx: x\ny: y\ntrials: 1\nscenario: {topology: grid}\nsweep: [{x: 1}]\n"
	for _, bad := range []string{
		"series: [{name: a, figure: speed}]\n",
		"series: [{name: a, figure: client.mean, formula: pi}]\n",
		"series: [{name: a, figure: client.mean}]\nclaims: [{text: t, kind: taller, of: a, least: 1}]\n",
		"series: [{name: a, figure: client.mean}]\nclaims: [{text: t, kind: growth, of: b, least: 1}]\n",
		"series: [{name: a, figure: client.mean}]\nclaims: [{text: t, kind: ratio, of: a, least: 1}]\n",
		"series: [{name: a, figure: client.mean}]\nclaims: [{text: t, kind: growth, of: a}]\n",
	} {
		if _, err := reproduce.Parse([]byte(head+bad), "bad.yaml"); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if _, err := reproduce.Parse([]byte(head+"series: [{name: a, figure: client.mean}]\n"), "good.yaml"); err != nil {
		t.Error(err)
	}
}
