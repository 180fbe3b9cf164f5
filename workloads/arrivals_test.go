package workloads

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ulikunitz/xz"
	"pgregory.net/rapid"

	"churnbed/node/core"
)

// ks returns the Kolmogorov-Smirnov distance between a sample and a
// distribution function.
func ks(sample []float64, cdf func(float64) float64) float64 {
	s := slices.Clone(sample)
	slices.Sort(s)
	n, d := float64(len(s)), 0.0
	for i, x := range s {
		f := cdf(x)
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	return d
}

// ksLimit is the distance that a true sample of n exceeds once in 1,000.
func ksLimit(n int) float64 { return 1.95 / math.Sqrt(float64(n)) }

func gapsMillis(arrivals []Arrival) []float64 {
	var prev time.Duration
	gaps := make([]float64, len(arrivals))
	for i, a := range arrivals {
		gaps[i] = float64(a.At-prev) / 1e6
		prev = a.At
	}
	return gaps
}

func weibullCDF(mean, shape float64) func(float64) float64 {
	scale := mean / math.Gamma(1+1/shape)
	return func(x float64) float64 { return 1 - math.Exp(-math.Pow(x/scale, shape)) }
}

func TestInterarrivalDistributions(t *testing.T) {
	const n = 20000
	for _, c := range []struct {
		name string
		p    ArrivalParams
		cdf  func(float64) float64
		mean float64
	}{
		{"default is weibull 200 ms", ArrivalParams{}, weibullCDF(200, 2), 200},
		{"exponential", ArrivalParams{Dist: DistExponential}, weibullCDF(200, 1), 200},
		{"exponential, ratio 3", ArrivalParams{Dist: DistExponential, IRRatio: 3}, weibullCDF(600, 1), 600},
		{"weibull of shape 0.7", ArrivalParams{Dist: DistWeibull, Shape: 0.7, Mean: time.Second}, weibullCDF(1000, 0.7), 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.Requests = n
			arrivals, closed, err := Arrivals(c.p, 10, 7)
			if err != nil || closed != nil {
				t.Fatalf("Arrivals: %v, %v", closed, err)
			}
			gaps := gapsMillis(arrivals)
			if d := ks(gaps, c.cdf); d > ksLimit(n) {
				t.Errorf("KS distance %.4f, allowed %.4f", d, ksLimit(n))
			}
			sum := 0.0
			for _, g := range gaps {
				sum += g
			}
			if m := sum / n; math.Abs(m/c.mean-1) > 0.05 {
				t.Errorf("mean gap %.1f ms, want %.1f", m, c.mean)
			}
		})
	}
}

func TestConstantArrivalsStartOneGapAfterZero(t *testing.T) {
	arrivals, _, err := Arrivals(ArrivalParams{Dist: DistConstant, Mean: 100 * time.Millisecond, IRRatio: 2, Duration: time.Second}, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(arrivals) != 4 { // 200, 400, 600, 800 ms; 1 s is the end
		t.Fatalf("%d arrivals, want 4: %v", len(arrivals), arrivals)
	}
	for i, a := range arrivals {
		if want := time.Duration(i+1) * 200 * time.Millisecond; a.At != want || a.No != i+1 || a.CS != DefaultCS {
			t.Errorf("arrival %d = %+v, want at %v for %v", i, a, want, DefaultCS)
		}
	}
}

func TestZipfWeights(t *testing.T) {
	const n, nodes = 50000, 64
	arrivals, _, err := Arrivals(ArrivalParams{Dist: DistExponential, Requests: n, Requesters: RequestersZipf}, nodes, 3)
	if err != nil {
		t.Fatal(err)
	}
	count := make([]float64, nodes)
	for _, a := range arrivals {
		count[a.Node]++
	}
	total := 0.0
	for i := range nodes {
		total += 1 / float64((i+1)*(i+1))
	}
	for i := range 8 {
		p := 1 / float64((i+1)*(i+1)) / total
		if sd := math.Sqrt(n * p * (1 - p)); math.Abs(count[i]-n*p) > 4*sd {
			t.Errorf("node %d asked %v times, want %.0f +- %.0f", i, count[i], n*p, 4*sd)
		}
	}
}

func TestUniformRequesters(t *testing.T) {
	const n, nodes = 40000, 20
	arrivals, _, err := Arrivals(ArrivalParams{Dist: DistExponential, Requests: n}, nodes, 3)
	if err != nil {
		t.Fatal(err)
	}
	count := make([]float64, nodes)
	for _, a := range arrivals {
		count[a.Node]++
	}
	chi := 0.0
	for _, c := range count {
		chi += (c - n/nodes) * (c - n/nodes) / (n / nodes)
	}
	if chi > 43.8 { // the 0.999 quantile at 19 degrees of freedom
		t.Errorf("chi-square %.1f over %v", chi, count)
	}
}

func TestBurst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 40).Draw(t, "nodes")
		requests := rapid.IntRange(1, 100).Draw(t, "requests")
		seed := rapid.Uint64().Draw(t, "seed")
		arrivals, _, err := Arrivals(ArrivalParams{Dist: DistBurst, Requests: requests}, nodes, seed)
		if err != nil {
			t.Fatal(err)
		}
		if len(arrivals) != requests {
			t.Fatalf("%d arrivals, want %d", len(arrivals), requests)
		}
		count := make([]int, nodes)
		for _, a := range arrivals {
			if a.At != 0 {
				t.Fatalf("arrival %+v, want at 0", a)
			}
			count[a.Node]++
		}
		if slices.Max(count)-slices.Min(count) > 1 {
			t.Fatalf("uneven burst: %v", count)
		}
	})
}

func TestListIsWalkedInTurn(t *testing.T) {
	p := ArrivalParams{Dist: DistBurst, Requesters: RequestersList, List: []core.NodeID{4, 1, 4}}
	arrivals, _, err := Arrivals(p, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []core.NodeID
	for _, a := range arrivals {
		got = append(got, a.Node)
	}
	if !slices.Equal(got, p.List) {
		t.Errorf("requesters %v, want %v", got, p.List)
	}
	p.Requests = 5
	arrivals, _, err = Arrivals(p, 5, 1)
	if err != nil || len(arrivals) != 5 || arrivals[3].Node != 4 || arrivals[4].Node != 1 {
		t.Errorf("arrivals %v, %v", arrivals, err)
	}
}

func TestStreamsAreSeparate(t *testing.T) {
	p := ArrivalParams{Requests: 50}
	a, _, err := Arrivals(p, 10, 5)
	if err != nil {
		t.Fatal(err)
	}
	p.Requesters, p.CS = RequestersZipf, CSLength{Dist: CSExponential, Mean: time.Second}
	b, _, err := Arrivals(p, 10, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if a[i].At != b[i].At {
			t.Fatalf("arrival %d moved from %v to %v with another requester choice", i, a[i].At, b[i].At)
		}
	}
	c, _, err := Arrivals(p, 10, 6)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(b, c) {
		t.Error("another seed gave the same workload")
	}
}

func TestClosed(t *testing.T) {
	arrivals, c, err := Arrivals(ArrivalParams{
		Dist: DistPoissonClosed, Mean: 2 * time.Second, Requests: 101,
		Duration: time.Minute, CS: CSLength{Mean: 10 * time.Second},
	}, 100, 1)
	if err != nil || arrivals != nil {
		t.Fatalf("Arrivals: %v, %v", arrivals, err)
	}
	if c.Rate != 0.5 || c.Quota != 2 || c.Until != time.Minute || c.CS.Mean != 10*time.Second {
		t.Errorf("closed = %+v", c)
	}
	rng := core.Stream(1, "think")
	sample := make([]float64, 10000)
	for i := range sample {
		sample[i] = c.Think(rng).Seconds()
	}
	if d := ks(sample, weibullCDF(2, 1)); d > ksLimit(len(sample)) {
		t.Errorf("KS distance of thinking times %.4f, allowed %.4f", d, ksLimit(len(sample)))
	}
}

func TestCSLengths(t *testing.T) {
	const n = 20000
	for _, c := range []struct {
		dist string
		sd   float64 // over the mean
	}{{"", 0}, {CSConstant, 0}, {CSExponential, 1}, {CSUniform, 1 / math.Sqrt(3)}, {CSNormal, 0.25}} {
		l := CSLength{Dist: c.dist, Mean: 200 * time.Millisecond}
		rng := core.Stream(9, "cs")
		sum, sq := 0.0, 0.0
		for range n {
			d := l.Draw(rng)
			if d < 0 {
				t.Fatalf("%s: drew %v", c.dist, d)
			}
			x := float64(d) / float64(l.Mean)
			sum, sq = sum+x, sq+x*x
		}
		mean := sum / n
		sd := math.Sqrt(max(0, sq/n-mean*mean))
		if math.Abs(mean-1) > 0.03 || math.Abs(sd-c.sd) > 0.03 {
			t.Errorf("%q: mean %.3f, sd %.3f of the mean, want 1, %.3f", c.dist, mean, sd, c.sd)
		}
	}
}

func TestBadArrivals(t *testing.T) {
	for _, c := range []struct {
		p     ArrivalParams
		nodes int
		want  string
	}{
		{ArrivalParams{Dist: "pareto", Requests: 1}, 5, `arrivals "pareto": allowed are burst, exponential`},
		{ArrivalParams{Requests: 1}, 0, "nodes 0: allowed are 1.."},
		{ArrivalParams{}, 5, "needs a number of requests or a duration"},
		{ArrivalParams{Dist: DistBurst, Duration: time.Second}, 5, "a burst needs a number of requests"},
		{ArrivalParams{Requests: -1}, 5, "requests -1"},
		{ArrivalParams{Requests: 1, Mean: -time.Second}, 5, "mean interarrival time -1s"},
		{ArrivalParams{Requests: 1, IRRatio: math.NaN()}, 5, "ir-ratio NaN"},
		{ArrivalParams{Requests: 1, Shape: math.Inf(1)}, 5, "weibull shape +Inf"},
		{ArrivalParams{Requests: 1, ZipfExponent: -1}, 5, "zipf exponent -1"},
		{ArrivalParams{Requests: 1, Requesters: "pareto"}, 5, `requesters "pareto": allowed`},
		{ArrivalParams{Requests: 1, Requesters: RequestersList}, 5, "list is empty"},
		{ArrivalParams{Requests: 1, Requesters: RequestersList, List: []core.NodeID{5}}, 5, "requester 5: allowed are nodes 0..4"},
		{ArrivalParams{Dist: DistPoissonClosed, Requests: 1, Requesters: RequestersZipf}, 5, "every node asks"},
		{ArrivalParams{Requests: 1, CS: CSLength{Dist: "beta"}}, 5, `distribution "beta"`},
		{ArrivalParams{Requests: 1, CS: CSLength{Mean: -1}}, 5, "must be >= 0"},
		{ArrivalParams{Dist: DistConstant, Mean: 1, Duration: time.Hour}, 5, "more than 1000000 requests"},
		{ArrivalParams{Dist: DistConstant, Mean: math.MaxInt64, Requests: 2}, 5, "request 1 comes after"},
	} {
		_, _, err := Arrivals(c.p, c.nodes, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Arrivals(%+v, %d): %v, want %q", c.p, c.nodes, err, c.want)
		}
	}
}

// sharedData returns the path of a file that lies beside the checkout, or
// skips the test.
func sharedData(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test's directory")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, "..", "shared", "data", filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("reference data %s is not here", name)
	}
	return path
}

// TestArrivalsMatchCameraReference compares first arrivals (which no busy
// requester has delayed) with the authors' runs.
func TestArrivalsMatchCameraReference(t *testing.T) {
	for _, c := range []struct {
		file, dist string
		shape      float64
	}{
		{"N--exponential_uniform", DistExponential, 1},
		{"N--weibull_uniform", DistWeibull, 2},
	} {
		t.Run(c.dist, func(t *testing.T) {
			f, err := os.Open(sharedData(t, "camera-sim-results/"+c.file+".json.xz"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			r, err := xz.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			var theirs []float64
			for dec := json.NewDecoder(r); ; {
				var run struct {
					IRRatio float64 `json:"ir_ratio"`
					Metric  struct {
						Arrivals []float64 `json:"arrivals"`
					} `json:"algorithmMetric"`
				}
				if err := dec.Decode(&run); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				if run.IRRatio == 1 {
					// Their instants are cut to whole milliseconds.
					theirs = append(theirs, run.Metric.Arrivals[0]+0.5)
				}
			}
			if len(theirs) < 100 {
				t.Fatalf("only %d runs at ir_ratio 1", len(theirs))
			}
			if d := ks(theirs, weibullCDF(200, c.shape)); d > ksLimit(len(theirs)) {
				t.Errorf("their first arrivals differ from mean 200 ms, shape %v by %.3f, allowed %.3f",
					c.shape, d, ksLimit(len(theirs)))
			}
			ours := make([]float64, len(theirs))
			for seed := range ours {
				a, _, err := Arrivals(ArrivalParams{Dist: c.dist, Requests: 1}, 256, uint64(seed))
				if err != nil {
					t.Fatal(err)
				}
				ours[seed] = float64(a[0].At) / 1e6
			}
			slices.Sort(theirs)
			empirical := func(x float64) float64 {
				i, _ := slices.BinarySearch(theirs, x)
				return float64(i) / float64(len(theirs))
			}
			if d := ks(ours, empirical); d > ksLimit(len(theirs)/2) {
				t.Errorf("first arrivals of both differ by %.3f, allowed %.3f", d, ksLimit(len(theirs)/2))
			}
		})
	}
}
