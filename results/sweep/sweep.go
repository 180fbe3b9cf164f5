// Package sweep puts the cells of a sweep (one scenario with several values
// for some keys, see emulator/scenario) into one table and one plot. It reads
// summaries of runs that are over; it runs nothing. Values are not shared, so
// nobody needs to serialise calls.
package sweep

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"churnbed/results"
)

// Table is the outcome of a sweep.
type Table struct {
	Engine string   `json:"engine"`
	Axes   []string `json:"axes"` // keys
	Rows   []Row    `json:"cells"`
}

// Row is one cell. Times are milliseconds of scenario time; means are over the
// trials whose host kept up, Unfit counts the others.
type Row struct {
	Values     []string `json:"values"` // of the axes
	Trials     int      `json:"trials"` // finished
	Failed     int      `json:"failed"` // a check
	Unfit      int      `json:"unfit"`  // the host did not keep up: not in the means of times
	Served     int      `json:"served"` // of all trials, as Issued
	Issued     int      `json:"issued"`
	Violations int      `json:"violations"`
	WaitMS     Estimate `json:"wait_ms"` // mean wait
	P99MS      Estimate `json:"wait_p99_ms"`
	Messages   Estimate `json:"messages_per_entry"` // end to end
	Kills      Estimate `json:"kills"`
}

// Estimate is a mean over trials with its standard error (0 for one trial).
type Estimate struct {
	N    int            `json:"n"`
	Mean results.Number `json:"mean"`
	Err  results.Number `json:"standard_error"`
}

func estimate(values []float64) Estimate {
	values = slices.DeleteFunc(values, math.IsNaN)
	e := Estimate{N: len(values), Mean: results.Unknown(), Err: results.Unknown()}
	if e.N == 0 {
		return e
	}
	mean, sd := stat.MeanStdDev(values, nil)
	if e.N == 1 {
		sd = 0
	}
	e.Mean, e.Err = results.Number(mean), results.Number(sd/math.Sqrt(float64(e.N)))
	return e
}

// NewRow sums up the finished trials of a cell.
func NewRow(values []string, trials []*results.Summary) Row {
	r := Row{Values: values, Trials: len(trials)}
	var wait, p99, messages, kills []float64
	for _, s := range trials {
		if s.Failed() {
			r.Failed++
		}
		r.Served, r.Issued, r.Violations = r.Served+s.Requests.Served, r.Issued+s.Requests.Issued, r.Violations+s.Safety.Violations
		messages = append(messages, float64(s.Messages.E2EPerCS))
		kills = append(kills, float64(s.Churn.Kills))
		if s.Fidelity.Verdict == results.Unfaithful {
			r.Unfit++
			continue
		}
		wait, p99 = append(wait, float64(s.WaitMS.Mean)), append(p99, float64(s.WaitMS.P99))
	}
	r.WaitMS, r.P99MS, r.Messages, r.Kills = estimate(wait), estimate(p99), estimate(messages), estimate(kills)
	return r
}

func (e Estimate) String() string {
	switch {
	case e.N == 0:
		return "-"
	case e.N == 1:
		return fmt.Sprintf("%.4g", float64(e.Mean))
	}
	return fmt.Sprintf("%.4g ± %.2g", float64(e.Mean), float64(e.Err))
}

// Print writes the table for people: means with their standard errors.
func (t *Table) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tTRIALS\tSERVED\tVIOLATIONS\tWAIT MS\tP99 MS\tMESSAGES\tKILLS\tREMARKS\n", strings.ToUpper(strings.Join(t.Axes, "\t")))
	for i := range t.Rows {
		r := &t.Rows[i]
		var remarks []string
		if r.Failed > 0 {
			remarks = append(remarks, fmt.Sprintf("%d failed a check", r.Failed))
		}
		if r.Unfit > 0 {
			remarks = append(remarks, fmt.Sprintf("times of %d unfit: the host did not keep up", r.Unfit))
		}
		values := slices.Clone(r.Values)
		for k := range values {
			values[k] = cmp.Or(values[k], "-")
		}
		fmt.Fprintf(w, "%s\t%d\t%d/%d\t%d\t%v\t%v\t%v\t%v\t%s\n", strings.Join(values, "\t"), r.Trials, r.Served, r.Issued, r.Violations,
			r.WaitMS, r.P99MS, r.Messages, r.Kills, strings.Join(remarks, "; "))
	}
	return w.Flush()
}

// WriteCSV writes the table for programs.
func (t *Table) WriteCSV(out io.Writer) error {
	w := csv.NewWriter(out)
	head := append(slices.Clone(t.Axes), "trials", "failed", "unfit", "served", "issued", "violations", "wait_ms", "wait_ms_se",
		"wait_p99_ms", "wait_p99_ms_se", "messages_per_entry", "messages_per_entry_se", "kills", "kills_se")
	if err := w.Write(head); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		record := slices.Clone(r.Values)
		for _, n := range []int{r.Trials, r.Failed, r.Unfit, r.Served, r.Issued, r.Violations} {
			record = append(record, strconv.Itoa(n))
		}
		for _, e := range []Estimate{r.WaitMS, r.P99MS, r.Messages, r.Kills} {
			for _, n := range []results.Number{e.Mean, e.Err} {
				text := ""
				if n.Known() {
					text = strconv.FormatFloat(float64(n), 'g', 6, 64)
				}
				record = append(record, text)
			}
		}
		if err := w.Write(record); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	w.Flush()
	return w.Error()
}

// errorPoints are points with bars of one standard error.
type errorPoints struct {
	plotter.XYs
	plotter.YErrors
}

// Draw draws the mean wait as "svg" or "png": over the axis with the most
// numeric values, a line for each combination of the others. Where no axis is
// numeric the cells stand side by side by number.
func (t *Table) Draw(out io.Writer, format string) error {
	if format != "svg" && format != "png" {
		return fmt.Errorf("draw sweep: format %q: want svg or png", format)
	}
	x := t.numericAxis()
	p := plot.New()
	p.Y.Label.Text = "mean wait (ms), ± standard error"
	p.Y.Min = 0
	p.X.Label.Text = "cell"
	if x >= 0 {
		p.X.Label.Text = t.Axes[x]
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	lines, names := map[string]*errorPoints{}, []string{}
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.WaitMS.N == 0 {
			continue
		}
		name, at := "", float64(i)
		if x >= 0 {
			at, _ = number(r.Values[x])
			var words []string
			for a, v := range r.Values {
				if a != x {
					words = append(words, t.Axes[a]+"="+v)
				}
			}
			name = strings.Join(words, ", ")
		}
		l := lines[name]
		if l == nil {
			l = &errorPoints{}
			lines[name], names = l, append(names, name)
		}
		l.XYs = append(l.XYs, plotter.XY{X: at, Y: float64(r.WaitMS.Mean)})
		l.YErrors = append(l.YErrors, struct{ Low, High float64 }{float64(r.WaitMS.Err), float64(r.WaitMS.Err)})
	}
	for i, name := range names {
		l := lines[name]
		line, points, err := plotter.NewLinePoints(l.XYs)
		if err != nil {
			return fmt.Errorf("draw sweep: %w", err)
		}
		bars, err := plotter.NewYErrorBars(l)
		if err != nil {
			return fmt.Errorf("draw sweep: %w", err)
		}
		c := results.Colour(i)
		line.Color, points.Color, bars.Color = c, c, c
		points.Shape, points.Radius = draw.CircleGlyph{}, vg.Points(2.5)
		if x < 0 {
			p.Add(points, bars)
		} else {
			p.Add(line, points, bars)
		}
		if name != "" {
			p.Legend.Add(name, line, points)
		}
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(3)
	canvas, err := p.WriterTo(16*vg.Centimeter, 10*vg.Centimeter, format)
	if err != nil {
		return fmt.Errorf("draw sweep: %w", err)
	}
	if _, err := canvas.WriteTo(out); err != nil {
		return fmt.Errorf("draw sweep: %w", err)
	}
	return nil
}

// numericAxis is the axis of numbers (or durations) with the most different
// values, at least two; -1 where there is none.
func (t *Table) numericAxis() int {
	best, most := -1, 1
	for a := range t.Axes {
		seen := map[float64]bool{}
		for i := range t.Rows {
			v, ok := number(t.Rows[i].Values[a])
			if !ok {
				seen = nil
				break
			}
			seen[v] = true
		}
		if len(seen) > most {
			best, most = a, len(seen)
		}
	}
	return best
}

// number reads a number, or a duration in seconds.
func number(v string) (float64, bool) {
	if f, err := strconv.ParseFloat(v, 64); err == nil {
		return f, !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	if d, err := time.ParseDuration(v); err == nil {
		return d.Seconds(), true
	}
	return 0, false
}
