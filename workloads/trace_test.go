package workloads

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"churnbed/node/core"
)

// drawTrace draws a trace that three columns can hold exactly.
func drawTrace(t *rapid.T, minHosts int) *Trace {
	tr := &Trace{Sample: rapid.SampledFrom([]time.Duration{time.Second, DefaultSample}).Draw(t, "sample")}
	for i := range rapid.IntRange(minHosts, minHosts+5).Draw(t, "hosts") {
		h := Host{Name: fmt.Sprintf("h%d", i), Initial: rapid.Bool().Draw(t, "initial")}
		up, at := h.Initial, time.Duration(0)
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 12).Draw(t, "steps") {
			at += time.Duration(step) * tr.Sample
			up = !up
			h.Events = append(h.Events, TraceEvent{At: at, Up: up})
		}
		tr.Hosts = append(tr.Hosts, h)
	}
	tr.Length = tr.end()
	return tr
}

func TestThreeColumnsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawTrace(t, 1)
		var b bytes.Buffer
		if err := want.WriteThreeColumns(&b); err != nil {
			t.Fatal(err)
		}
		got, err := ReadTrace(&b, "trace.txt", want.Sample)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("after writing and reading (-want +got):\n%s", d)
		}
	})
}

func TestReadThreeColumns(t *testing.T) {
	in := "# ours\n\nb\t0\t1\nb\t3\t0\na   2 1\na 2 0\na 2 0\r\nc 5 0\nd 0 0\n"
	got, err := ReadThreeColumns(strings.NewReader(in), "x", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	want := &Trace{Sample: time.Minute, Length: 6 * time.Minute, Hosts: []Host{
		{Name: "b", Initial: true, Events: []TraceEvent{{3 * time.Minute, false}}},
		{Name: "a", Events: []TraceEvent{{2 * time.Minute, true}, {2 * time.Minute, false}}},
		{Name: "c", Initial: true, Events: []TraceEvent{{5 * time.Minute, false}}},
		{Name: "d"},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestReadAVT(t *testing.T) {
	in := "# comment\nn1 2 1000 1010 1020.5 1100\nn2\t1\t1005\t1050\nn3 0\nn4 3 1000 1000 1001 1002 1002 1003\n"
	got, err := ReadTrace(strings.NewReader(in), "kad.avt", 0)
	if err != nil {
		t.Fatal(err)
	}
	s := time.Second
	want := &Trace{Length: 100 * s, Hosts: []Host{
		// Up at the end of the measurement: no leave at 100 s.
		{Name: "n1", Initial: true, Events: []TraceEvent{{10 * s, false}, {20*s + s/2, true}}},
		{Name: "n2", Events: []TraceEvent{{5 * s, true}, {50 * s, false}}},
		{Name: "n3"},
		{Name: "n4", Events: []TraceEvent{{1 * s, true}, {3 * s, false}}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestBadTraces(t *testing.T) {
	for _, c := range []struct{ file, in, want string }{
		{"t.txt", "", "t.txt: no hosts"},
		{"t.txt", "# only this\n", "t.txt: no hosts"},
		{"t.txt", "a 1 1\na 2\n", "t.txt:2: 2 columns: want \"host sample 1|0\""},
		{"t.txt", "a 1 1 1\n", "t.txt:1: 4 columns"},
		{"t.txt", "a x 1\n", "t.txt:1: sample \"x\": allowed are integers"},
		{"t.txt", "a -1 1\n", "t.txt:1: sample \"-1\""},
		{"t.txt", "a 99999999999 1\n", "t.txt:1: sample \"99999999999\""},
		{"t.txt", "a 1.5 1\n", "t.txt:1: sample \"1.5\""},
		{"t.txt", "\na 1 up\n", "t.txt:2: state \"up\": allowed are 1 (joins) and 0"},
		{"t.txt", "a 2 1\na 1 0\n", "t.txt:2: host \"a\" has sample 1 after sample 2"},
		{"t.txt", "a 2 1\nb 1 0\na 3 0\n", "t.txt:3: host \"a\" appears again after other hosts (first in line 1)"},
		{"t.avt", "", "t.avt: no sessions"},
		{"t.avt", "a 0\n", "t.avt: no sessions"},
		{"t.avt", "a\n", "t.avt:1: 1 columns"},
		{"t.avt", "a one 1 2\n", "t.avt:1: number of sessions \"one\""},
		{"t.avt", "a 2 1 2\n", "t.avt:1: 2 times for 2 sessions"},
		{"t.avt", "a 1 1 2 3\n", "t.avt:1: 3 times for 1 sessions"},
		{"t.avt", "a 1 2 1\n", "t.avt:1: session 1 (2 1) of host \"a\": times must ascend"},
		{"t.avt", "a 2 1 5 4 6\n", "t.avt:1: session 2 (4 6)"},
		{"t.avt", "a 1 NaN 2\n", "t.avt:1: time \"NaN\": allowed are seconds"},
		{"t.avt", "a 1 1 1e300\n", "t.avt:1: time \"1e300\""},
		{"t.avt", "a 1 1 2\na 1 3 4\n", "t.avt:2: host \"a\" appears again (first in line 1)"},
	} {
		_, err := ReadTrace(strings.NewReader(c.in), c.file, 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ReadTrace(%q): %v, want %q", c.in, err, c.want)
		}
	}
	if _, err := ReadTrace(strings.NewReader("a 1 1"), "t", -time.Second); err == nil {
		t.Error("a negative sample length was accepted")
	}
	long := strings.NewReader("a 1 1\n" + strings.Repeat("x", maxTraceLine+1))
	if _, err := ReadTrace(long, "t", 0); err == nil || !strings.Contains(err.Error(), "t:2: line is longer") {
		t.Errorf("overlong line: %v", err)
	}
}

func FuzzReadThreeColumns(f *testing.F) {
	f.Add([]byte("a\t0\t1\na\t2\t0\nb 1 1\n"))
	f.Add([]byte("a 2 1\na 2 0\n# x\n\na 2 1"))
	f.Add([]byte("a 1 1\nb 1 1\na 2 0"))
	f.Fuzz(func(t *testing.T, in []byte) {
		tr, err := ReadThreeColumns(bytes.NewReader(in), "fuzz", 0)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := tr.WriteThreeColumns(&b); err != nil {
			t.Fatalf("write what was read: %v", err)
		}
		again, err := ReadThreeColumns(&b, "again", 0)
		if err != nil {
			t.Fatalf("read what was written: %v", err)
		}
		// The length reaches to the last line, effective or not.
		tr.Length, again.Length = 0, 0
		if d := cmp.Diff(tr, again); d != "" {
			t.Fatalf("round trip:\n%s", d)
		}
	})
}

func FuzzReadAVT(f *testing.F) {
	f.Add([]byte("n1 2 1000 1010 1020.5 1100\n# c\nn2\t1\t1005\t1050\nn3 0\n"))
	f.Add([]byte("n1 1 0 1e9"))
	f.Add([]byte("n1 9223372036854775807 1 2"))
	f.Fuzz(func(t *testing.T, in []byte) {
		tr, err := ReadAVT(bytes.NewReader(in), "fuzz")
		if err != nil {
			return
		}
		if err := tr.Validate(); err != nil {
			t.Fatalf("accepted an inconsistent trace: %v", err)
		}
		for _, h := range tr.Hosts {
			for _, e := range h.Events {
				if e.At < 0 || e.At >= tr.Length {
					t.Fatalf("event at %v of a trace of %v", e.At, tr.Length)
				}
			}
		}
	})
}

// TestOvernetStatistics holds the generator against the published figures
// (ALGORITHMS 9). One trace of 1468 hosts has a sampling error: the median
// availability one of 0.010 (0.5/(density 1.3 x sqrt 1468)), the share one of
// 0.013, the cycles one of 0.02, so the published ranges, which are as
// narrow, are asked of the mean of 16 traces, widened by two standard errors
// of that mean; every single trace must lie within four.
func TestOvernetStatistics(t *testing.T) {
	const seeds = 16
	var all []traceStats
	for seed := range uint64(seeds) {
		tr, err := Overnet(0, 0, seed)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tr.stats())
	}
	minutes := func(d time.Duration) float64 { return d.Minutes() }
	for _, c := range []struct {
		name         string
		get          func(traceStats) float64
		low, high    float64 // published
		single, mean float64 // tolerance of one trace, of the mean
	}{
		{"median availability", func(s traceStats) float64 { return s.MedianAvailability }, 0.29, 0.30, 0.04, 0.005},
		{"share of hosts at or below 0.3", func(s traceStats) float64 { return s.ShareBelow30 }, 0.50, 0.50, 0.052, 0.0065},
		{"joins a host and day", func(s traceStats) float64 { return s.JoinsPerDay }, 6.35, 6.39, 0.08, 0.01},
		{"leaves a host and day", func(s traceStats) float64 { return s.LeavesPerDay }, 6.35, 6.39, 0.08, 0.01},
		{"daily swing", func(s traceStats) float64 { return s.DailySwing }, 103, 118, 20, 3},
		{"session mean (min)", func(s traceStats) float64 { return minutes(s.SessionMean) }, 77, 77, 4, 1},
		{"session median (min)", func(s traceStats) float64 { return minutes(s.SessionMedian) }, 40, 40, 0, 0},
		{"session p90 (min)", func(s traceStats) float64 { return minutes(s.SessionP90) }, 160, 160, 20, 5},
	} {
		sum := 0.0
		for seed, s := range all {
			v := c.get(s)
			sum += v / seeds
			if v < c.low-c.single || v > c.high+c.single {
				t.Errorf("seed %d: %s %.4g, published %v to %v", seed, c.name, v, c.low, c.high)
			}
		}
		t.Logf("%s: mean of %d traces %.4f, published %v to %v", c.name, seeds, sum, c.low, c.high)
		if sum < c.low-c.mean || sum > c.high+c.mean {
			t.Errorf("%s: mean of %d traces %.4g, published %v to %v +- %v", c.name, seeds, sum, c.low, c.high, c.mean)
		}
	}
}

func TestOvernetHostsDoNotDependOnTheLength(t *testing.T) {
	a, err := Overnet(20, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Overnet(20, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range a.Hosts {
		if !slices.Equal(h.Events, b.Hosts[i].Events[:len(h.Events)]) {
			t.Errorf("host %d of one day is not the beginning of two days", i)
		}
	}
	if _, err := Overnet(-1, 0, 0); err == nil {
		t.Error("-1 hosts were accepted")
	}
}

func TestBetaMoments(t *testing.T) {
	const n, a, b = 100000, 0.9, 1.7
	rng := core.Stream(1, "beta")
	sum, sq := 0.0, 0.0
	for range n {
		x := beta(rng, a, b)
		sum, sq = sum+x, sq+x*x
	}
	mean := sum / n
	variance := sq/n - mean*mean
	if math.Abs(mean-a/(a+b)) > 0.003 || math.Abs(variance-a*b/((a+b)*(a+b)*(a+b+1))) > 0.002 {
		t.Errorf("mean %.4f, variance %.4f", mean, variance)
	}
}

func TestExponentialSessions(t *testing.T) {
	up, down := 30*time.Second, 10*time.Second
	tr, err := ExponentialSessions(400, up, down, time.Hour, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Validate(); err != nil {
		t.Fatal(err)
	}
	var lengths [2][]float64
	initial := 0
	for _, h := range tr.Hosts {
		if h.Initial {
			initial++
		}
		for i := 1; i < len(h.Events); i++ {
			k := 0
			if h.Events[i].Up { // a down period ends
				k = 1
			}
			lengths[k] = append(lengths[k], (h.Events[i].At - h.Events[i-1].At).Seconds())
		}
	}
	for k, mean := range []float64{30, 10} {
		// Periods cut by the end are missing: an error of 1 % at most here.
		if d := ks(lengths[k], weibullCDF(mean, 1)); d > ksLimit(len(lengths[k]))+0.01 {
			t.Errorf("periods of mean %v s: KS distance %.4f over %d", mean, d, len(lengths[k]))
		}
	}
	if s := tr.stats(); math.Abs(s.MedianAvailability-0.75) > 0.02 || initial < 265 || initial > 335 {
		t.Errorf("availability %.3f, %d of 400 hosts up at 0, want 0.75, 300", s.MedianAvailability, initial)
	}
	for _, bad := range [][3]time.Duration{{0, 1, 1}, {1, -1, 1}, {1, 1, 0}, {1, 1, time.Hour}} {
		if _, err := ExponentialSessions(10, bad[0], bad[1], bad[2], 1); err == nil {
			t.Errorf("sessions %v were accepted", bad)
		}
	}
}

func TestInconsistentTraces(t *testing.T) {
	event := func(at time.Duration, up bool) TraceEvent { return TraceEvent{At: at, Up: up} }
	for _, c := range []struct {
		tr   Trace
		want string
	}{
		{Trace{Sample: -1}, "must be >= 0"},
		{Trace{Hosts: []Host{{Name: ""}}}, `name "" is empty`},
		{Trace{Hosts: []Host{{Name: "a b"}}}, `name "a b"`},
		{Trace{Hosts: []Host{{Name: "#a"}}}, `name "#a"`},
		{Trace{Hosts: []Host{{Name: "a"}, {Name: "a"}}}, `"a" appears twice`},
		{Trace{Hosts: []Host{{Name: "a", Events: []TraceEvent{event(2, true), event(1, false)}}}}, "after one at"},
		{Trace{Hosts: []Host{{Name: "a", Events: []TraceEvent{event(-1, true)}}}}, "after one at"},
		{Trace{Hosts: []Host{{Name: "a", Initial: true, Events: []TraceEvent{event(1, true)}}}}, "changes nothing"},
	} {
		if err := c.tr.WriteThreeColumns(io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: write: %v, want %q", c.tr, err, c.want)
		}
		if _, _, err := c.tr.Faults(TraceOptions{Nodes: 1}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: faults: %v, want %q", c.tr, err, c.want)
		}
	}
}

// verbs renders faults compactly: "at verb node".
func verbs(faults []Fault) []string {
	var s []string
	for _, f := range faults {
		s = append(s, fmt.Sprintf("%v %s %d", f.At, f.Verb, f.Nodes[0]))
	}
	return s
}

func TestTraceFaults(t *testing.T) {
	const minute = time.Minute
	tr := &Trace{Sample: minute, Hosts: []Host{
		{Name: "a", Initial: true, Events: []TraceEvent{{1 * minute, false}, {3 * minute, true}}},
		{Name: "b", Events: []TraceEvent{{2 * minute, true}, {4 * minute, false}, {5 * minute, true}}},
		{Name: "c"},
	}}
	for _, c := range []struct {
		name string
		o    TraceOptions
		want []string
		up   []bool
	}{
		{
			"all up from the start",
			TraceOptions{SpeedUp: 60, Nodes: 2, AtBoundaries: true},
			[]string{"1s crash 0", "3s restart 0", "4s crash 1", "5s restart 1"},
			[]bool{true, true},
		},
		{
			"as the trace begins",
			TraceOptions{Nodes: 3, AtBoundaries: true, Initial: InitialTrace, Verb: Leave, Horizon: 5 * minute},
			[]string{"1m0s leave 0", "2m0s join 1", "3m0s restart 0", "4m0s leave 1"},
			[]bool{true, false, false},
		},
	} {
		faults, up, err := tr.Faults(c.o)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := verbs(faults); !slices.Equal(got, c.want) || !slices.Equal(up, c.up) {
			t.Errorf("%s: %q, up %v; want %q, %v", c.name, got, up, c.want, c.up)
		}
	}
	for _, c := range []struct {
		o    TraceOptions
		want string
	}{
		{TraceOptions{Nodes: 4}, "3 hosts for 4 nodes"},
		{TraceOptions{}, "nodes 0"},
		{TraceOptions{Nodes: 1, SpeedUp: -1}, "speed-up -1"},
		{TraceOptions{Nodes: 1, Verb: Pause}, `verb "pause": allowed are crash, poweroff, leave`},
		{TraceOptions{Nodes: 1, Initial: "down"}, `"down": allowed are up, trace`},
		{TraceOptions{Nodes: 1, Horizon: -1}, "horizon"},
	} {
		if _, _, err := tr.Faults(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Faults(%+v): %v, want %q", c.o, err, c.want)
		}
	}
}

// TestTraceFaultsAlternate checks on drawn traces that a node is killed only
// while it runs and started only while it does not, and that every event lies
// in its sample.
func TestTraceFaultsAlternate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrace(t, 1)
		o := TraceOptions{
			SpeedUp:      rapid.SampledFrom([]float64{0.5, 1, 1000}).Draw(t, "speed-up"),
			Nodes:        rapid.IntRange(1, len(tr.Hosts)).Draw(t, "nodes"),
			Initial:      rapid.SampledFrom([]string{InitialUp, InitialTrace}).Draw(t, "initial population"),
			RandomHosts:  rapid.Bool().Draw(t, "random hosts"),
			AtBoundaries: rapid.Bool().Draw(t, "at boundaries"),
			Seed:         rapid.Uint64().Draw(t, "seed"),
		}
		faults, up, err := tr.Faults(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := Validate(faults, o.Nodes); err != nil {
			t.Fatal(err)
		}
		running, started := slices.Clone(up), slices.Clone(up)
		for _, f := range faults {
			n := f.Nodes[0]
			kills := f.Verb == Crash
			if kills != running[n] || (f.Verb == Join) == started[n] && !kills {
				t.Fatalf("%+v while running %v, started %v", f, running[n], started[n])
			}
			running[n] = !running[n]
			started[n] = true
		}
	})
}

func TestSpreadIsUniformWithinTheSample(t *testing.T) {
	tr, err := Overnet(400, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	faults, _, err := tr.Faults(TraceOptions{SpeedUp: 100, Nodes: 400, Initial: InitialTrace, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	var phase []float64
	for _, f := range faults {
		phase = append(phase, math.Mod(f.At.Seconds(), 12)/12) // 20 min / 100
	}
	if d := ks(phase, func(x float64) float64 { return x }); d > ksLimit(len(phase)) {
		t.Errorf("KS distance from uniform %.4f over %d events", d, len(phase))
	}
	// What happens to a node does not depend on the number of nodes.
	few, _, err := tr.Faults(TraceOptions{SpeedUp: 100, Nodes: 10, Initial: InitialTrace, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	faults = slices.DeleteFunc(faults, func(f Fault) bool { return f.Nodes[0] >= 10 })
	if d := cmp.Diff(faults, few); d != "" {
		t.Errorf("the first 10 of 400 nodes against 10 nodes:\n%s", d)
	}
}
