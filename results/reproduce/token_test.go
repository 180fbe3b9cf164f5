package reproduce_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"churnbed/node/core"
	"churnbed/results"
	"churnbed/results/reproduce"
)

func ptr(v float64) *float64 { return &v }

// TestJudgePrinted: figures that are printed, without runs.
func TestJudgePrinted(t *testing.T) {
	for _, c := range []struct {
		x, got float64
		p      reproduce.Published
		want   reproduce.Verdict
	}{
		{0.5, 364, reproduce.Published{Value: ptr(355), Tolerance: 0.03, Only: []float64{0.5}}, reproduce.Agree},
		{0.5, 366, reproduce.Published{Value: ptr(355), Tolerance: 0.03, Only: []float64{0.5}}, reproduce.Differ},
		{0.2, 366, reproduce.Published{Value: ptr(355), Tolerance: 0.03, Only: []float64{0.5}}, reproduce.NoJudge},
		{7, 14.9, reproduce.Published{Below: ptr(15)}, reproduce.Agree},
		{7, 15, reproduce.Published{Below: ptr(15)}, reproduce.Differ},
		{7, 1301, reproduce.Published{Above: ptr(1300)}, reproduce.Agree},
		{7, 1300, reproduce.Published{Above: ptr(1300)}, reproduce.Differ},
		{7, 3, reproduce.Published{Above: ptr(2), Below: ptr(3)}, reproduce.Differ},
	} {
		cell := reproduce.Cell{X: c.x, Got: estimate(c.got, 1)}
		if cell.Judge(&c.p); cell.Verdict != c.want {
			t.Errorf("%v at %v: %s, want %s", c.got, c.x, cell.Verdict, c.want)
		}
	}
}

// TestByNode: the figures of one node over trials, and the table of a mesh.
func TestByNode(t *testing.T) {
	trials := []*results.Trial{
		{ByNode: []results.NodeWaits{{Node: 0, Entries: 2, MeanMS: 1000, MaxMS: 4000}, {Node: 1, Entries: 1, MeanMS: 2000, MaxMS: 2000}}},
		{ByNode: []results.NodeWaits{{Node: 0, Entries: 2, MeanMS: 3000, MaxMS: 8000}, {Node: 1}}},
	}
	s := &reproduce.Sweep{Name: "nodes", Metric: reproduce.TimeByNode, X: "node", Y: "s", Series: []reproduce.Series{{Name: "spread", Figure: "spread"}}}
	r := &reproduce.Result{Sweep: s}
	for node, want := range []reproduce.Estimate{{N: 2, Mean: 4}, {N: 1, Mean: 0}, {N: 0, Mean: math.NaN()}} {
		got := s.EstimatedAt(&s.Series[0], core.NodeID(node), trials)
		if got.N != want.N || got.Mean != want.Mean && !math.IsNaN(want.Mean) {
			t.Errorf("node %d: %+v, want %+v", node, got, want)
		}
	}
	for node := range 9 {
		r.Cells = append(r.Cells, reproduce.Cell{Series: "spread", X: float64(node), Got: estimate(float64(100+(node*5)%9), 1), Verdict: reproduce.NoJudge})
	}
	var b bytes.Buffer
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\nspread"); n != 3 {
		t.Errorf("%d lines of 9 nodes, want 3:\n%s", n, b.String())
	}
	for _, want := range []string{"spread  0     100     100 ", "spread  8     100     104 ", "spread  7     100     108 "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestParseRefusesFigures: what a series may show of a metric.
func TestParseRefusesFigures(t *testing.T) {
	const head = "title: a\ntext: b\nx: c\ny: d\ntrials: 1\n"
	const point = "sweep: [{x: 1, mesh: 4}]\n"
	for text, want := range map[string]string{
		"metric: time-to-token\n" + point + "series: [{name: s}]\n":                                                    `figure "": want one of max, mean, spread`,
		"metric: wait-mean\n" + point + "series: [{name: s, figure: max}]\n":                                           "metric wait-mean has one",
		"metric: time-to-token-by-node\nsweep: [{x: 1, mesh: 4}, {x: 2, mesh: 4}]\nseries: [{name: s, figure: max}]\n": "2 points: metric time-to-token-by-node has the nodes of one",
		"metric: wait-mean\nmatrix: {}\n" + point + "series: [{name: s}]\n":                                            "matrix: want a file",
	} {
		if _, err := reproduce.Parse([]byte(head+text), "bad.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
