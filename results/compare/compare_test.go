package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"churnbed/node/core"
	"churnbed/results"
)

// makeSet makes trials of exponential waits whose mean is scaled, shifted, and
// differs from trial to trial as congestion makes it do.
func makeSet(name string, trials int, scale, shift float64) *results.TrialSet {
	rng := core.Stream(7, "test/"+name)
	s := &results.TrialSet{Name: name, Source: "test", Engine: results.Simulated, Parameters: map[string]string{"link-loss": "0", "cs": "200ms"}}
	for i := range trials {
		s.Trials = append(s.Trials, makeTrial(rng, i, scale, shift))
	}
	return s
}

func makeTrial(rng *rand.Rand, i int, scale, shift float64) *results.Trial {
	own := scale * (400 + 200*rng.Float64())
	t := &results.Trial{
		Seed: uint64(i), Nodes: 10, Requesters: 3, Issued: 30, Served: 30, E2EMessages: 27 * 30, H2HMessages: 2000, Bytes: 9000,
	}
	for range 30 {
		t.WaitsMS = append(t.WaitsMS, shift+own*rng.ExpFloat64())
	}
	t.SyncMS = []float64{10 + rng.Float64()}
	return t
}

func quick() Options {
	o := DefaultOptions()
	o.Resamples, o.Permutations = 400, 200
	return o
}

func compareSets(t testing.TB, o Options, sets ...*results.TrialSet) *Comparison {
	t.Helper()
	c, err := Compare(sets, o)
	if err != nil {
		t.Fatal(err)
	}
	validate(t, &c.Report)
	return c
}

// validate checks a report against the published schema.
func validate(t testing.TB, r *Report) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(ReportSchema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(instance); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
	if schema.Validate(map[string]any{"schema": 2.0}) == nil {
		t.Error("the schema accepts anything")
	}
}

func row(t testing.TB, c *Comparison, name string) *MetricRow {
	t.Helper()
	for i := range c.Report.Metrics {
		if c.Report.Metrics[i].Name == name {
			return &c.Report.Metrics[i]
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

func TestSelfAgrees(t *testing.T) {
	a := makeSet("a", 20, 1, 0)
	c := compareSets(t, quick(), a, a)
	if c.Report.Verdict != Agree || len(c.Report.Differences) != 0 {
		t.Errorf("verdict %s, differences %v", c.Report.Verdict, c.Report.Differences)
	}
	w := row(t, c, "wait").Sets[1]
	if w.Ratio != 1 || w.KS != 0 || w.Wasserstein != 0 || w.P != 1 || w.Values != 600 {
		t.Errorf("wait against itself: %+v", w)
	}
	exact := quick()
	exact.Tolerance = 0
	if c := compareSets(t, exact, a, a); c.Report.Verdict != Agree {
		t.Errorf("tolerance 0: %s", c.Report.Verdict)
	}
}

func TestSameProcessAgrees(t *testing.T) {
	c := compareSets(t, quick(), makeSet("a", 40, 1, 0), makeSet("b", 40, 1, 0))
	if v := row(t, c, "wait").Verdict; v != Agree {
		t.Errorf("wait: %s, %+v", v, row(t, c, "wait").Sets[1])
	}
}

func TestShiftDiffers(t *testing.T) {
	c := compareSets(t, quick(), makeSet("a", 40, 1, 0), makeSet("b", 40, 1, 300), makeSet("c", 40, 1, 0))
	w := row(t, c, "wait")
	if w.Verdict != Differ || w.Sets[1].Verdict != Differ || w.Sets[2].Verdict != Agree || c.Report.Verdict != Differ {
		t.Errorf("verdicts %s: %s, %s", w.Verdict, w.Sets[1].Verdict, w.Sets[2].Verdict)
	}
	if d := float64(w.Sets[1].Wasserstein); math.Abs(d-300) > 60 {
		t.Errorf("Wasserstein-1 of a shift by 300 ms is %v", d)
	}
	if float64(w.Sets[1].P) > 0.01 || !strings.Contains(w.Sets[1].Reason, "means differ by") {
		t.Errorf("p %v, reason %q", w.Sets[1].P, w.Sets[1].Reason)
	}
	if v := row(t, c, "e2e_per_cs").Verdict; v != Agree {
		t.Errorf("messages: %s", v)
	}
}

// Equal means must not hide another shape.
func TestShapeDiffers(t *testing.T) {
	a, b := makeSet("a", 30, 1, 0), makeSet("b", 30, 1, 0)
	for i, tr := range b.Trials {
		mean := 0.0
		for _, w := range a.Trials[i].WaitsMS {
			mean += w / 30
		}
		for k := range tr.WaitsMS {
			tr.WaitsMS[k] = mean
		}
	}
	w := row(t, compareSets(t, quick(), a, b), "wait").Sets[1]
	if w.Verdict != Differ || !strings.Contains(w.Reason, "distributions do not") {
		t.Errorf("%+v", w)
	}
}

func TestTooFewTrials(t *testing.T) {
	c := compareSets(t, quick(), makeSet("a", 20, 1, 0), makeSet("b", 4, 1, 900))
	if w := row(t, c, "wait").Sets[1]; w.Verdict != TooFew || w.Reason != "20 and 4 trials, want 5 each" || c.Report.Verdict != TooFew {
		t.Errorf("%s: %+v", c.Report.Verdict, w)
	}
	o := quick()
	o.MinTrials = 3
	if w := row(t, compareSets(t, o, makeSet("a", 20, 1, 0), makeSet("b", 4, 1, 900)), "wait").Sets[1]; w.Verdict != Differ {
		t.Errorf("with 3 enough: %+v", w)
	}
	one := row(t, compareSets(t, quick(), makeSet("a", 1, 1, 0), makeSet("b", 1, 1, 0)), "wait").Sets[1]
	if one.Verdict != TooFew || one.SE.Known() || one.Low.Known() || one.P.Known() || !one.Mean.Known() || !one.KS.Known() {
		t.Errorf("one trial each: %+v", one)
	}
}

func TestUnmeasuredAndIncomparable(t *testing.T) {
	a, b := makeSet("a", 10, 1, 0), makeSet("b", 10, 1, 0)
	b.Source, b.Incomparable = "java", map[string]string{"bytes_per_cs": "Java serialisation"}
	for _, tr := range b.Trials {
		tr.SyncMS, tr.Bytes = nil, 900000
	}
	c := compareSets(t, quick(), a, b)
	for name, want := range map[string]string{"sync_delay": "b did not measure it", "bytes_per_cs": "Java serialisation"} {
		if s := row(t, c, name).Sets[1]; s.Verdict != NotJudged || s.Reason != want {
			t.Errorf("%s: %s, %q", name, s.Verdict, s.Reason)
		}
	}
	if c.Report.Verdict != Agree {
		t.Errorf("what was not judged makes the verdict %s", c.Report.Verdict)
	}
	for _, m := range c.Report.Metrics {
		if m.Name == "client_delay" {
			t.Error("a metric that nobody measured is in the table")
		}
	}
	again := compareSets(t, quick(), b, b)
	if v := row(t, again, "bytes_per_cs").Verdict; v != Agree {
		t.Errorf("bytes of one source: %s", v)
	}
}

func TestUnfitRuns(t *testing.T) {
	a, b := makeSet("a", 10, 1, 0), makeSet("b", 10, 1, 5000)
	for _, tr := range b.Trials {
		tr.Fidelity, tr.FidelityReason, tr.Violations = results.Unfaithful, "delays 40 ms off", 1
	}
	c := compareSets(t, quick(), a, b)
	if s := row(t, c, "wait").Sets[1]; s.Verdict != NotJudged || !strings.Contains(s.Reason, "unfaithful") {
		t.Errorf("wait: %+v", s)
	}
	if s := row(t, c, "violations").Sets[1]; s.Verdict != Differ {
		t.Errorf("violations stand: %+v", s)
	}
	if c.Report.Sets[1].Unfit != 10 || c.Report.Sets[1].UnfitWhy != "delays 40 ms off" {
		t.Errorf("set %+v", c.Report.Sets[1])
	}
	o := quick()
	o.Force = true
	if s := row(t, compareSets(t, o, a, b), "wait").Sets[1]; s.Verdict != Differ {
		t.Errorf("forced: %+v", s)
	}
	b.Trials[0].Fidelity = results.Strained
	if s := row(t, compareSets(t, quick(), a, b), "wait").Sets[1]; s.Trials != 1 || s.Verdict != TooFew {
		t.Errorf("one fit run: %+v", s)
	}
}

func TestDifferences(t *testing.T) {
	a, b := makeSet("a", 3, 1, 0), makeSet("b", 3, 1, 0)
	a.Parameters = map[string]string{"cs": "200ms", "link-loss": "0", "routing": "euclid", "churn": ""}
	b.Parameters = map[string]string{"cs": "0.2s", "link-loss": "0.05", "fabric": "relay", "churn": "none"}
	for i, tr := range b.Trials {
		tr.Parameters = map[string]string{"nodes": fmt.Sprint(32 * (1 + i%2))}
	}
	c := compareSets(t, quick(), a, b)
	if d := cmp.Diff([]Difference{
		{Parameter: "link-loss", Values: []string{"0", "0.05"}},
		{Parameter: "fabric", Values: []string{"", "relay"}, Unstated: true},
		{Parameter: "nodes", Values: []string{"", "32, 64"}, Unstated: true},
		{Parameter: "routing", Values: []string{"euclid", ""}, Unstated: true},
	}, c.Report.Differences); d != "" {
		t.Error(d)
	}
	if n := c.Report.Sets[1].Notes; len(n) != 1 || !strings.Contains(n[0], "mix nodes 32, 64") {
		t.Errorf("notes %q", n)
	}
}

// The 95 % interval must hold the truth about that often: 300 sets of 20
// trials whose mean is known.
func TestBootstrapCoverage(t *testing.T) {
	rng := core.Stream(11, "test/coverage")
	const truth, sets = 500.0, 300 // 400 + 200/2
	held := 0
	for range sets {
		s := sample{}
		for i := range 20 {
			tr := makeTrial(rng, i, 1, 0)
			s.trials = append(s.trials, tr.WaitsMS)
			sum := 0.0
			for _, w := range tr.WaitsMS {
				sum += w
			}
			s.means = append(s.means, sum/float64(len(tr.WaitsMS)))
		}
		if low, high := interval(s.bootstrap(400, rng)); float64(low) <= truth && truth <= float64(high) {
			held++
		}
	}
	// The percentile bootstrap of 20 trials covers a little less than 95 %.
	if share := float64(held) / sets; share < 0.88 || share > 0.985 {
		t.Errorf("the 95 %% interval holds the truth in %.3f of the cases", share)
	}
}

// Under the null hypothesis p is uniform; values within a trial depend on
// each other, so a test that exchanged values would reject far too often.
func TestPermutationLevel(t *testing.T) {
	rng := core.Stream(12, "test/level")
	const tests = 200
	low := 0
	for range tests {
		trials := make([][]float64, 16)
		for i := range trials {
			trials[i] = makeTrial(rng, i, 1, 0).WaitsMS
			congestion := 1 + 2*rng.Float64()
			for k := range trials[i] {
				trials[i][k] *= congestion
			}
		}
		d := newDistance(trials[:8], trials[8:])
		ks, _ := d.between(d.labels())
		if d.test(ks, 100, rng) <= 0.1 {
			low++
		}
	}
	if share := float64(low) / tests; share < 0.03 || share > 0.18 {
		t.Errorf("p <= 0.1 in %.3f of the cases", share)
	}
}

func TestDistances(t *testing.T) {
	for _, c := range []struct {
		a, b  []float64
		ks, w float64
	}{
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, 0, 0},
		{[]float64{0, 1}, []float64{10, 11}, 1, 10},
		{[]float64{0, 0, 0, 0}, []float64{0, 0, 0, 4}, 0.25, 1},
		{[]float64{5}, []float64{5, 5, 7}, 1. / 3, 2. / 3},
	} {
		d := newDistance([][]float64{c.a}, [][]float64{c.b})
		ks, w := d.between(d.labels())
		if math.Abs(ks-c.ks) > 1e-12 || math.Abs(w-c.w) > 1e-12 {
			t.Errorf("%v and %v: KS %v, W1 %v; want %v and %v", c.a, c.b, ks, w, c.ks, c.w)
		}
	}
	v := []float64{1, 2, 3, 4}
	for q, want := range map[float64]float64{.5: 2, .51: 3, .9: 4, .25: 1, 0: 1, 1: 4} {
		if got := percentile(v, q); float64(got) != want {
			t.Errorf("percentile %v is %v, want %v", q, got, want)
		}
	}
}

func TestRepeatable(t *testing.T) {
	a, b := makeSet("a", 12, 1, 0), makeSet("b", 12, 1.2, 0)
	one, two := compareSets(t, quick(), a, b), compareSets(t, quick(), a, b)
	if d := cmp.Diff(one.Report.Metrics[0].Sets[1], two.Report.Metrics[0].Sets[1]); d != "" {
		t.Error(d)
	}
	o := quick()
	o.Seed = 2
	other := compareSets(t, o, a, b)
	if one.Report.Metrics[0].Sets[1].Low == other.Report.Metrics[0].Sets[1].Low {
		t.Error("the seed changes nothing")
	}
}

func TestOptionsAndSetsAreChecked(t *testing.T) {
	a := makeSet("a", 3, 1, 0)
	for _, change := range []func(*Options){
		func(o *Options) { o.Tolerance = -1 }, func(o *Options) { o.Tolerance = math.NaN() }, func(o *Options) { o.MinTrials = 1 },
		func(o *Options) { o.Alpha = 0 }, func(o *Options) { o.Resamples = 1 }, func(o *Options) { o.Permutations = 1 },
	} {
		o := quick()
		change(&o)
		if _, err := Compare([]*results.TrialSet{a, a}, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if _, err := Compare([]*results.TrialSet{a}, quick()); err == nil {
		t.Error("one set is compared")
	}
	if _, err := Compare([]*results.TrialSet{a, {Name: "empty"}}, quick()); !errors.Is(err, results.ErrNotTrials) {
		t.Errorf("an empty set: %v", err)
	}
	if _, err := Compare(slices.Repeat([]*results.TrialSet{a}, 27), quick()); err == nil {
		t.Error("27 sets have letters")
	}
}

func TestPrint(t *testing.T) {
	a, b := makeSet("a", 10, 1, 0), makeSet("b", 10, 1, 2000)
	b.Parameters = map[string]string{"link-loss": "0.05"}
	b.Artefacts = []string{"departed nodes still answer"}
	b.Trials[0].Fidelity, b.Trials[0].FidelityReason = results.Unfaithful, "the host slept"
	var out bytes.Buffer
	c := compareSets(t, quick(), a, b)
	if err := c.Report.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"A  a: test, simulated, 10 trials", "UNFIT: 1 of them were unfaithful (the host slept); their times are left out", "link-loss  0  0.05",
		"not stated by B: cs", "wait (ms)", "known artefacts of B (test)", "- departed nodes still answer", "rule: agree: means within 2", "verdict: differ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if err := c.Report.Print(failing{}); err == nil {
		t.Error("a failing writer goes unnoticed")
	}
	a.Parameters = map[string]string{}
	for i := range mostUnstated + 1 {
		a.Parameters[fmt.Sprintf("key-%d", i)] = "1"
	}
	out.Reset()
	if err := compareSets(t, quick(), a, b).Report.Print(&out); err != nil {
		t.Fatal(err)
	}
	if want := "not stated by B: 21 parameters (--json lists them)"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in\n%s", want, out.String())
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestDraw(t *testing.T) {
	c := compareSets(t, quick(), makeSet("a", 10, 1, 0), makeSet("b", 10, 2, 0))
	if d := cmp.Diff([]string{"wait", "sync_delay", "wait_by_requesters", "wait_by_nodes"}, c.Drawable()); d != "" {
		t.Error(d)
	}
	for _, metric := range append(c.Drawable(), "served_share") {
		var b bytes.Buffer
		if err := c.Draw(&b, metric, "png"); err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		colours := map[color.Color]bool{}
		for x := range img.Bounds().Dx() {
			for y := range img.Bounds().Dy() {
				colours[img.At(x, y)] = true
			}
		}
		for i := range 2 {
			seen := false
			r, g, bl, _ := results.Colour(i).RGBA()
			for k := range colours {
				pr, pg, pb, _ := k.RGBA()
				seen = seen || pr == r && pg == g && pb == bl
			}
			if !seen && metric != "served_share" {
				t.Errorf("%s: a curve is missing", metric)
			}
		}
		b.Reset()
		if err := c.Draw(&b, metric, "svg"); err != nil || !strings.Contains(b.String(), "<svg") {
			t.Errorf("%s as svg: %v", metric, err)
		}
	}
	if c.Draw(&bytes.Buffer{}, "wait", "gif") == nil || c.Draw(&bytes.Buffer{}, "moons", "png") == nil {
		t.Error("wrong formats and metrics are drawn")
	}
	steps := ecdf([]float64{3, 1, 1}, 0, 5)
	if d := cmp.Diff([]float64{0, 1, 1, 3, 3, 5}, []float64{steps[0].X, steps[1].X, steps[2].X, steps[3].X, steps[4].X, steps[5].X}); d != "" {
		t.Error(d)
	}
	if steps[2].Y != 2./3 || steps[5].Y != 1 {
		t.Errorf("steps %v", steps)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0, 1, "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1"},
		{-20, 2700, "0 500 1000 1500 2000 2500"},
		{764.9, 766.1, "765 765.2 765.4 765.6 765.8 766"},
		{5, 5, "5"},
	} {
		var got []string
		for _, tick := range ticks(c.low, c.high) {
			got = append(got, tick.Label)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%v to %v: %s, want %s", c.low, c.high, s, c.want)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	x, y := makeSet("a", 100, 1, 0), makeSet("b", 100, 1, 0)
	for b.Loop() {
		if _, err := Compare([]*results.TrialSet{x, y}, DefaultOptions()); err != nil {
			b.Fatal(err)
		}
	}
}
