package sweep

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"churnbed/results"
)

func trial(wait, messages float64, verdict, fidelity string) *results.Summary {
	s := &results.Summary{Verdict: verdict}
	s.Requests.Served, s.Requests.Issued = 9, 10
	s.WaitMS.Mean, s.WaitMS.P99, s.Messages.E2EPerCS = results.Number(wait), results.Number(2*wait), results.Number(messages)
	s.Fidelity.Verdict = fidelity
	return s
}

func table() *Table {
	return &Table{Engine: "sim", Axes: []string{"algorithm", "nodes"}, Rows: []Row{
		NewRow([]string{"ra", "9"}, []*results.Summary{trial(10, 16, results.VerdictOK, ""), trial(20, 18, results.VerdictOK, ""), trial(900, 20, results.VerdictOK, results.Unfaithful)}),
		NewRow([]string{"ra", "16"}, []*results.Summary{trial(30, 30, results.VerdictViolation, "")}),
		NewRow([]string{"", "16"}, nil),
	}}
}

func TestTable(t *testing.T) {
	tb := table()
	r := tb.Rows[0]
	if r.WaitMS.Mean != 15 || r.WaitMS.N != 2 || r.WaitMS.Err != 5 || r.Messages.Mean != 18 || r.Unfit != 1 || r.Served != 27 {
		t.Errorf("row %+v", r)
	}
	if r := tb.Rows[1]; r.Failed != 1 || r.WaitMS.Err != 0 {
		t.Errorf("row %+v", r)
	}
	var b strings.Builder
	if err := tb.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ALGORITHM  NODES  TRIALS", "15 ± 5", "1 failed a check", "did not keep up"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := tb.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(rows) != 4 || rows[1][8] != "15" || rows[3][8] != "" {
		t.Errorf("%v: %q", err, rows)
	}
}

func TestDraw(t *testing.T) {
	tb := table()
	if x := tb.numericAxis(); x != 1 {
		t.Errorf("axis %d is drawn, want nodes", x)
	}
	var b bytes.Buffer
	if err := tb.Draw(&b, "svg"); err != nil || !strings.Contains(b.String(), "algorithm=ra") || !strings.Contains(b.String(), ">nodes<") {
		t.Errorf("%v\n%s", err, b.String())
	}
	tb.Axes, tb.Rows[0].Values, tb.Rows[1].Values, tb.Rows[2].Values = []string{"algorithm"}, []string{"a"}, []string{"b"}, []string{"c"}
	b.Reset()
	if err := tb.Draw(&b, "png"); err != nil || !bytes.HasPrefix(b.Bytes(), []byte("\x89PNG")) {
		t.Errorf("cells without a numeric axis: %v", err)
	}
	if err := tb.Draw(&b, "pdf"); err == nil {
		t.Error("pdf is drawn")
	}
}
