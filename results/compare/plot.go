package compare

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"churnbed/results"
)

// Drawable names the metrics whose distributions can be drawn: those with two
// different values or more.
func (c *Comparison) Drawable() []string {
	var names []string
	for i := range c.Report.Metrics {
		if low, high := c.span(i); low < high {
			names = append(names, c.Report.Metrics[i].Name)
		}
	}
	return names
}

// span returns the least and the largest value of metric i.
func (c *Comparison) span(i int) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, s := range c.samples[i] {
		for _, t := range s.trials {
			low, high = min(low, slices.Min(t)), max(high, slices.Max(t))
		}
	}
	return low, high
}

var dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}}

// maxSteps bounds the points of one curve; more cannot be seen.
const maxSteps = 2000

// ecdf returns the steps of the empirical distribution function of v from low
// to high, which no value is beyond; it sorts v.
func ecdf(v []float64, low, high float64) plotter.XYs {
	slices.Sort(v)
	n := len(v)
	out := plotter.XYs{{X: low, Y: 0}}
	stride := max(1, n/maxSteps)
	y := 0.0
	for i := range v {
		last := i+1 == n
		if !last && (v[i+1] == v[i] || (i+1)%stride != 0) {
			continue
		}
		out = append(out, plotter.XY{X: v[i], Y: y})
		y = float64(i+1) / float64(n)
		out = append(out, plotter.XY{X: v[i], Y: y})
	}
	return append(out, plotter.XY{X: high, Y: 1})
}

// ticks marks five to ten round values, each with its number.
func ticks(low, high float64) []plot.Tick {
	span := high - low
	if !(span > 0) || math.IsInf(span, 0) {
		return []plot.Tick{{Value: low, Label: strconv.FormatFloat(low, 'g', 4, 64)}}
	}
	unit := math.Pow(10, math.Floor(math.Log10(span)))
	step := unit
	for _, f := range [...]float64{0.1, 0.2, 0.5, 1} {
		if step = f * unit; span/step <= 10 {
			break
		}
	}
	var out []plot.Tick
	for k := math.Ceil(low / step); k*step <= high+1e-9*span && len(out) < 20; k++ {
		// The nearest short decimal, not what rounding left of k*step.
		label := strconv.FormatFloat(k*step+0, 'g', 6, 64) // +0: not -0
		out = append(out, plot.Tick{Value: k * step, Label: label})
	}
	return out
}

// Draw draws the distribution functions of a metric as "svg" or "png".
func (c *Comparison) Draw(w io.Writer, metric, format string) error {
	if format != "svg" && format != "png" {
		return fmt.Errorf("draw comparison: format %q: want svg or png", format)
	}
	i := slices.IndexFunc(c.Report.Metrics, func(m MetricRow) bool { return m.Name == metric })
	if i < 0 {
		return fmt.Errorf("draw comparison: no values of metric %q", metric)
	}
	m := &c.Report.Metrics[i]
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s: %s", m.Title, m.Verdict)
	p.Title.Padding = vg.Points(8)
	p.X.Label.Text = m.Title
	if m.Unit != "" {
		p.X.Label.Text += " (" + m.Unit + ")"
	}
	p.Y.Label.Text = "share of values not above x"
	p.Y.Min, p.Y.Max = 0, 1
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(ticks), plot.TickerFunc(ticks)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	low, high := c.span(i)
	for k, s := range c.samples[i] {
		v := slices.Concat(s.trials...)
		if len(v) == 0 {
			continue
		}
		line, err := plotter.NewLine(ecdf(v, low, high))
		if err != nil {
			return fmt.Errorf("draw comparison: %w", err)
		}
		line.Color = results.Colour(k)
		line.Dashes = dashes[k%len(dashes)]
		line.Width = vg.Points(1.6)
		p.Add(line)
		name := c.Report.Sets[k].Name
		if r := []rune(name); len(r) > 48 {
			name = string(r[:47]) + "…"
		}
		p.Legend.Add(fmt.Sprintf("%s  %s (%d trials, mean %s)", c.Report.Sets[k].Letter, name, m.Sets[k].Trials, num(m.Sets[k].Mean)), line)
	}
	if low >= high {
		low, high = low-0.5, high+0.5
	}
	margin := 0.02 * (high - low)
	p.X.Min, p.X.Max = low-margin, high+margin
	p.Legend.YOffs, p.Legend.XOffs = vg.Points(6), -vg.Points(6)
	p.Legend.Padding = vg.Points(4)

	const width, height, key = 16 * vg.Centimeter, 10 * vg.Centimeter, vg.Length(17)
	legend := key*vg.Length(len(c.samples[i])) + vg.Points(12)
	canvas, err := draw.NewFormattedCanvas(width, height+legend, format)
	if err != nil {
		return fmt.Errorf("draw comparison: %w", err)
	}
	dc := draw.New(canvas)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	// The legend stands below the axes: inside it would hide a curve.
	l := p.Legend
	l.Left, l.XOffs, l.YOffs = true, vg.Points(24), vg.Points(4)
	p.Legend = plot.NewLegend()
	p.Draw(draw.Crop(dc, vg.Points(6), -vg.Points(12), legend, -vg.Points(6)))
	l.Draw(draw.Crop(dc, 0, 0, 0, -height))
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("draw comparison: %w", err)
	}
	return nil
}
