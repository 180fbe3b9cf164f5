package reproduce

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"churnbed/results"
)

const (
	plotWidth  = 18 * vg.Centimeter
	plotHeight = 12 * vg.Centimeter
)

// Draw draws the series as lines with two standard errors, and the authors'
// means beside their imitation as hollow circles of its colour, as "svg" or "png".
func (r *Result) Draw(w io.Writer, format string) error {
	if format != "svg" && format != "png" {
		return fmt.Errorf("draw %s: format %q: want svg or png", r.Sweep.Name, format)
	}
	s := r.Sweep
	p := plot.New()
	p.Title.Text = s.Title
	p.Title.TextStyle.Font.Size = 11
	p.X.Label.Text, p.Y.Label.Text = s.X, s.Y
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font.Size = 8
	p.Add(plotter.NewGrid())
	low, high, floor := math.Inf(1), math.Inf(-1), math.Inf(1)
	for i := range s.Series {
		var l, want line
		for j := range r.Cells {
			c := &r.Cells[j]
			if c.Series != s.Series[i].Name {
				continue
			}
			l.add(c.X, c.Got, s)
			of := s.Series[i].Published
			printed := of != nil && (len(of.Only) > 0 && c.Verdict != NoJudge || of.Shown != nil)
			if c.Want.N > 1 && !c.Ours || c.Want.N == 1 && printed { // runs, once, or one printed figure
				want.add(c.X, c.Want, s)
			}
		}
		if len(l.XYs) == 0 {
			continue
		}
		for _, set := range []*line{&l, &want} {
			for k, xy := range set.XYs {
				low, high = min(low, xy.Y-set.YErrors[k].Low), max(high, xy.Y+set.YErrors[k].High)
				floor = min(floor, xy.X)
			}
		}
		if err := addSeries(p, &s.Series[i], l, want, results.Colour(i)); err != nil {
			return fmt.Errorf("draw %s: %w", s.Name, err)
		}
	}
	for _, l := range s.Lines {
		low, high = min(low, l.Y), max(high, l.Y)
		if err := addLine(p, l, s.Points); err != nil {
			return fmt.Errorf("draw %s: %w", s.Name, err)
		}
	}
	if math.IsInf(low, 0) {
		return fmt.Errorf("draw %s: nothing was measured", s.Name)
	}
	// Room for the legend above the lines.
	if s.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Y.Min, p.Y.Max = low/1.3, high*math.Pow(high/low, 0.1*float64(len(s.Series))/2)*1.5
	} else {
		bottom := min(0, low)
		if low > 0.5*high { // all close together: show that
			bottom = low - 0.5*(high-low)
		}
		p.Y.Min, p.Y.Max = bottom, high+(high-bottom)*(0.1+0.05*float64(len(s.Series)+len(s.Lines)))
	}
	if s.LogX && floor > 0 {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticks(s.Points)
	}
	if len(s.Points) > 0 && s.Points[0].Label != "" {
		p.X.Tick.Marker = ticks(s.Points)
	}
	to, err := p.WriterTo(plotWidth, plotHeight, format)
	if err != nil {
		return fmt.Errorf("draw %s: %w", s.Name, err)
	}
	_, err = to.WriteTo(w)
	return err
}

// ticks marks the points themselves.
func ticks(points []Point) plot.ConstantTicks {
	var t plot.ConstantTicks
	for _, p := range points {
		label := p.Label
		if label == "" {
			label = number(p.X)
		}
		t = append(t, plot.Tick{Value: p.X, Label: label})
	}
	return t
}

// addLine draws a published figure across the points.
func addLine(p *plot.Plot, l Line, points []Point) error {
	ln, err := plotter.NewLine(plotter.XYs{{X: points[0].X, Y: l.Y}, {X: points[len(points)-1].X, Y: l.Y}})
	if err != nil {
		return err
	}
	ln.Color = color.Gray{110}
	ln.Dashes = []vg.Length{vg.Points(1), vg.Points(3)}
	p.Add(ln)
	p.Legend.Add(l.Name, ln)
	return nil
}

// line is points with their errors.
type line struct {
	plotter.XYs
	plotter.YErrors
}

// add adds an estimate that can be drawn.
func (l *line) add(x float64, e Estimate, s *Sweep) {
	if math.IsNaN(e.Mean) || s.LogY && e.Mean <= 0 || s.LogX && x <= 0 {
		return
	}
	d := sigmas * e.SE
	if math.IsNaN(d) {
		d = 0
	}
	down := d
	if s.LogY {
		down = min(d, 0.9*e.Mean)
	}
	l.XYs = append(l.XYs, plotter.XY{X: x, Y: e.Mean})
	l.YErrors = append(l.YErrors, struct{ Low, High float64 }{down, d})
}

func addSeries(p *plot.Plot, l *Series, got, want line, c color.NRGBA) error {
	ln, points, err := plotter.NewLinePoints(got.XYs)
	if err != nil {
		return err
	}
	ln.Color, points.Color = c, c
	points.Shape, points.Radius = draw.CircleGlyph{}, vg.Points(2)
	if l.Ours {
		ln.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	bars, err := plotter.NewYErrorBars(got)
	if err != nil {
		return err
	}
	bars.Color = c
	p.Add(ln, points, bars)
	p.Legend.Add(l.Name, ln, points)
	if len(want.XYs) == 0 {
		return nil
	}
	ref, err := plotter.NewScatter(want.XYs)
	if err != nil {
		return err
	}
	ref.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(4), Shape: draw.RingGlyph{}}
	p.Add(ref)
	whose := ": authors"
	if l.Formula != "" {
		whose = ": formula"
	}
	p.Legend.Add(l.Name+whose, ref)
	return nil
}
