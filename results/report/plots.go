package report

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/results/timeline"
	"churnbed/topologies"
)

// Plot is one picture of a run.
type Plot struct {
	Name string // of its file, without the ending
	draw func(w io.Writer, format string) error
}

// Draw draws the plot as "svg" or "png".
func (p *Plot) Draw(w io.Writer, format string) error {
	if format != "svg" && format != "png" {
		return fmt.Errorf("draw %s: format %q: want svg or png", p.Name, format)
	}
	var b bytes.Buffer
	if err := p.draw(&b, format); err != nil {
		return fmt.Errorf("draw %s: %w", p.Name, err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("draw %s: %w", p.Name, err)
	}
	return nil
}

// Colours as the page has them: those of Okabe and Ito, which colour-blind
// people can tell apart.
var (
	colourHolding   = color.NRGBA{0, 114, 178, 255}
	colourWaiting   = color.NRGBA{242, 193, 78, 255}
	colourViolation = color.NRGBA{216, 30, 44, 255}
	colourZombie    = color.NRGBA{160, 47, 160, 255}
	colourDown      = color.NRGBA{180, 186, 193, 255}
	colourPaused    = color.NRGBA{122, 111, 208, 255}
	colourGrid      = color.Gray{225}
	palette         = []color.Color{
		colourHolding,
		color.NRGBA{213, 94, 0, 255},
		color.NRGBA{0, 158, 115, 255},
		color.NRGBA{204, 121, 167, 255},
		color.NRGBA{86, 180, 233, 255},
		color.NRGBA{179, 134, 0, 255},
		colourPaused,
		color.NRGBA{90, 98, 107, 255},
	}
	dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}}
)

// Plots returns the pictures that the run has data for.
func (r *Run) Plots() []Plot {
	t := r.Timeline
	list := []Plot{
		{"map", r.drawMap},
		{"timeline", func(w io.Writer, format string) error { return r.drawTimeline(w, format) }},
	}
	add := func(name string, have bool, fill func(p *plot.Plot) error) {
		if have {
			list = append(list, Plot{name, func(w io.Writer, format string) error { return r.chart(w, format, fill) }})
		}
	}
	_, waits := t.Waits()
	add("wait-ecdf", len(waits) > 0, r.waitECDF)
	add("wait-time", len(waits) > 0, r.waitTime)
	add("messages", len(t.Summary.Messages.ByKind) > 0, r.messages)
	add("traffic", len(t.Traffic.Bins) > 0, r.traffic)
	add("membership", len(t.Sizes) > 0, r.membership)
	add("churn", true, r.churn)
	add("fidelity", len(t.Summary.Fidelity.Slices) > 0, r.fidelity)
	return list
}

// chart draws axes with what fill adds.
func (r *Run) chart(w io.Writer, format string, fill func(*plot.Plot) error) error {
	p := plot.New()
	p.Title.Padding = vg.Points(8)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = colourGrid, colourGrid
	p.Add(grid)
	p.Legend.Top = true
	p.Legend.Padding = vg.Points(3)
	if err := fill(p); err != nil {
		return err
	}
	c, err := draw.NewFormattedCanvas(18*vg.Centimeter, 11*vg.Centimeter, format)
	if err != nil {
		return err
	}
	dc := draw.New(c)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	p.Draw(draw.Crop(dc, vg.Points(6), -vg.Points(12), vg.Points(4), -vg.Points(6)))
	_, err = c.WriteTo(w)
	return err
}

func addLine(p *plot.Plot, name string, k int, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Dashes, line.Width = palette[k%len(palette)], dashes[k%len(dashes)], vg.Points(1.5)
	line.StepStyle = plotter.PostStep
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

func sec(ns int64) float64 { return float64(ns) / 1e9 }

func (r *Run) overTime(p *plot.Plot, title, y string) {
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = "scenario time (s)", y
	p.X.Min, p.X.Max = sec(r.Timeline.Begin()), sec(r.Timeline.End)
	p.Y.Min = 0
}

func (r *Run) waitECDF(p *plot.Plot) error {
	_, ms := r.Timeline.Waits()
	slices.Sort(ms)
	p.Title.Text = fmt.Sprintf("Waits of %d entries", len(ms))
	p.X.Label.Text, p.Y.Label.Text = "wait (ms)", "share of entries that waited no longer"
	p.Y.Min, p.Y.Max, p.X.Min = 0, 1, 0
	points := plotter.XYs{{X: 0, Y: 0}}
	stride := max(1, len(ms)/2000) // more cannot be seen
	for i, v := range ms {
		if (i+1)%stride == 0 || i+1 == len(ms) {
			points = append(points, plotter.XY{X: v, Y: float64(i+1) / float64(len(ms))})
		}
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width, line.StepStyle = palette[0], vg.Points(1.5), plotter.PostStep
	p.Add(line)
	return nil
}

func (r *Run) waitTime(p *plot.Plot) error {
	r.overTime(p, "Wait of each entry", "wait (ms)")
	at, ms := r.Timeline.Waits()
	points := make(plotter.XYs, len(at))
	for i := range at {
		points[i] = plotter.XY{X: sec(at[i]), Y: ms[i]}
	}
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	dots.Color, dots.Shape, dots.Radius = palette[0], draw.CircleGlyph{}, vg.Points(1.6)
	p.Add(dots)
	return nil
}

// messages shows datagrams by kind.
func (r *Run) messages(p *plot.Plot) error {
	kinds := r.Timeline.Summary.Messages.ByKind
	names := slices.Sorted(maps.Keys(kinds))
	slices.SortStableFunc(names, func(a, b string) int { return int(min(max(kinds[b].N-kinds[a].N, -1), 1)) })
	first, again := make(plotter.Values, len(names)), make(plotter.Values, len(names))
	for i, k := range names {
		again[i] = float64(kinds[k].Retransmissions)
		first[i] = float64(kinds[k].N) - again[i]
	}
	p.Title.Text = "Datagrams sent, by kind"
	p.Y.Label.Text = "datagrams"
	width := vg.Points(min(26, 380/float64(len(names))))
	bars, err := plotter.NewBarChart(first, width)
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle.Width = palette[0], 0
	more, err := plotter.NewBarChart(again, width)
	if err != nil {
		return err
	}
	more.Color, more.LineStyle.Width = palette[1], 0
	more.StackOn(bars)
	p.Add(bars, more)
	p.Legend.Add("first transmissions", bars)
	p.Legend.Add("repetitions", more)
	p.NominalX(names...)
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = .7, draw.XRight, draw.YCenter
	return nil
}

func (r *Run) traffic(p *plot.Plot) error {
	r.overTime(p, "Datagrams sent, by class", "datagrams a second")
	d := &runData{}
	traffic(d, r.Timeline)
	for k, name := range d.Traffic.Classes {
		points := make(plotter.XYs, 0, len(d.Traffic.From))
		for i, from := range d.Traffic.From {
			points = append(points, plotter.XY{X: float64(from) / 1e6, Y: d.Traffic.N[k][i]})
		}
		if err := addLine(p, name, k, points); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) membership(p *plot.Plot) error {
	r.overTime(p, "Membership lists", "nodes in the list")
	var mean, least, up plotter.XYs
	for _, s := range r.Timeline.Sizes {
		x := sec(s.From)
		mean, least, up = append(mean, plotter.XY{X: x, Y: s.Mean}), append(least, plotter.XY{X: x, Y: float64(s.Min)}), append(up, plotter.XY{X: x, Y: s.Up})
	}
	return errors.Join(addLine(p, "mean", 0, mean), addLine(p, "smallest", 1, least), addLine(p, "members that run", 2, up))
}

func (r *Run) churn(p *plot.Plot) error {
	t := r.Timeline
	r.overTime(p, "Churn", "nodes")
	type step struct {
		t  int64
		by int
	}
	var steps []step
	for i := range t.Nodes {
		for _, l := range t.Nodes[i].Lives {
			steps = append(steps, step{l.From, 1}, step{l.To, -1})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(min(max(a.t-b.t, -1), 1)) })
	begin, up := t.Begin(), 0
	points := plotter.XYs{}
	for _, s := range steps {
		if s.t >= t.End {
			break
		}
		up += s.by
		if s.t <= begin {
			points = plotter.XYs{{X: sec(begin), Y: float64(up)}}
			continue
		}
		points = append(points, plotter.XY{X: sec(s.t), Y: float64(up)})
	}
	points = append(points, plotter.XY{X: sec(t.End), Y: float64(up)})
	count := func(kind eventlog.Kind) plotter.XYs {
		out := plotter.XYs{{X: sec(begin), Y: 0}}
		for _, f := range t.Faults {
			if f.Kind == kind && f.T >= begin {
				out = append(out, plotter.XY{X: sec(f.T), Y: float64(len(out))})
			}
		}
		return append(out, plotter.XY{X: sec(t.End), Y: float64(len(out) - 1)})
	}
	return errors.Join(addLine(p, "nodes up", 0, points), addLine(p, "kills so far", 1, count(eventlog.Kill)),
		addLine(p, "restarts so far", 2, count(eventlog.Restart)))
}

func (r *Run) fidelity(p *plot.Plot) error {
	r.overTime(p, "Fidelity by slice: "+r.Timeline.Summary.Fidelity.Verdict, "delay error p99 (ms)")
	by := map[string]plotter.XYs{}
	for _, s := range r.Timeline.Summary.Fidelity.Slices {
		if s.DelayErrorMS.P99.Known() {
			by[s.Verdict] = append(by[s.Verdict], plotter.XY{X: float64(s.ToMS) / 1e3, Y: float64(s.DelayErrorMS.P99)})
		}
	}
	colours := map[string]color.Color{results.Faithful: palette[2], results.Strained: colourWaiting, results.Unfaithful: colourViolation}
	for _, verdict := range []string{results.Faithful, results.Strained, results.Unfaithful} {
		if len(by[verdict]) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(by[verdict])
		if err != nil {
			return err
		}
		dots.Color, dots.Shape, dots.Radius = colours[verdict], draw.CircleGlyph{}, vg.Points(3)
		p.Add(dots)
		p.Legend.Add(verdict, dots)
	}
	return nil
}

// drawMap draws the mesh: the more often a node entered, the darker it is;
// nodes whose sections overlapped another's have a red ring.
func (r *Run) drawMap(w io.Writer, format string) error {
	entries := make([]int, len(r.Topology.Nodes))
	opt := topologies.DrawOptions{Fill: make([]color.Color, len(entries)), Ring: make([]color.Color, len(entries))}
	most, violating := 0, 0
	for i := range r.Timeline.Requests {
		q := &r.Timeline.Requests[i]
		if q.Entered {
			entries[q.Node]++
			most = max(most, entries[q.Node])
		}
		if q.Violating {
			violating++
			opt.Ring[q.Node] = colourViolation
		}
	}
	for i, n := range entries {
		opt.Fill[i] = color.NRGBA{150, 160, 170, 255}
		if n > 0 {
			v := float64(n) / float64(most)
			opt.Fill[i] = color.NRGBA{uint8(86 * (1 - v)), uint8(180 - 86*v), uint8(233 - 73*v), 255}
		}
	}
	opt.Title = fmt.Sprintf("%d nodes, %d links; blue: entered, up to %d times", len(entries), len(r.Topology.Links), most)
	if violating > 0 {
		opt.Title += fmt.Sprintf("; red: %d sections in violation", violating)
	}
	return topologies.Draw(w, r.Topology, format, opt)
}

// lanes is a plotter of what each node did when.
type lanes struct {
	t    *timeline.Timeline
	rows []core.NodeID
}

// maxLanes bounds the rows of the timeline plot; nodes that asked come first.
const maxLanes = 128

func (r *Run) drawTimeline(w io.Writer, format string) error {
	t := r.Timeline
	asked := map[core.NodeID]bool{}
	for i := range t.Requests {
		asked[t.Requests[i].Node] = true
	}
	l := &lanes{t: t, rows: slices.Sorted(maps.Keys(asked))}
	note := "nodes that asked"
	if len(l.rows) > maxLanes {
		note = fmt.Sprintf("the first %d of %d nodes that asked", maxLanes, len(l.rows))
		l.rows = l.rows[:maxLanes]
	}
	p := plot.New()
	p.Title.Text = "Who did what when: " + note
	p.Title.Padding = vg.Points(8)
	p.X.Label.Text, p.Y.Label.Text = "scenario time (s)", "node"
	p.X.Min, p.X.Max = sec(t.Begin()), sec(t.End)
	p.Y.Min, p.Y.Max = -.7, float64(max(1, len(l.rows)))-.3
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	var ticks plot.ConstantTicks
	every := 1 + len(l.rows)/40
	for i, id := range l.rows {
		if i%every == 0 {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: fmt.Sprint(id)})
		}
	}
	p.Y.Tick.Marker = ticks
	p.Add(l)
	for _, k := range []struct {
		name  string
		thumb swatch
	}{{"waiting", swatch{colourWaiting}}, {"in the section", swatch{colourHolding}}, {"violation", swatch{colourViolation}}, {"down", swatch{colourDown}}, {"paused", swatch{colourPaused}}} {
		p.Legend.Add(k.name, k.thumb)
	}
	legend := p.Legend
	legend.Left, legend.Top, legend.XOffs = true, true, vg.Points(36)
	p.Legend = plot.NewLegend()
	const key = 15
	height := max(6*vg.Centimeter, vg.Points(9)*vg.Length(len(l.rows))) + 3*vg.Centimeter
	c, err := draw.NewFormattedCanvas(24*vg.Centimeter, height+5*key, format)
	if err != nil {
		return err
	}
	dc := draw.New(c)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	p.Draw(draw.Crop(dc, vg.Points(6), -vg.Points(14), 5*key, -vg.Points(6)))
	legend.Draw(draw.Crop(dc, 0, 0, 0, -height))
	_, err = c.WriteTo(w)
	return err
}

type swatch struct{ color.Color }

// Thumbnail implements plot.Thumbnailer.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.SetColor(s.Color)
	c.Fill(c.Rectangle.Path())
}

// Plot implements plot.Plotter.
func (l *lanes) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	row := make(map[core.NodeID]float64, len(l.rows))
	for i, id := range l.rows {
		row[id] = float64(i)
	}
	bar := func(id core.NodeID, from, to int64, half float64, least vg.Length, colour color.Color) {
		at, ok := row[id]
		from, to = max(from, l.t.Begin()), min(to, l.t.End)
		if !ok || to < from {
			return
		}
		x1, x2 := x(sec(from)), x(sec(to))
		if x2-x1 < least {
			x2 = x1 + least
		}
		y1, y2 := y(at-half), y(at+half)
		c.SetColor(colour)
		c.Fill(vg.Rectangle{Min: vg.Point{X: x1, Y: min(y1, y2)}, Max: vg.Point{X: x2, Y: max(y1, y2)}}.Path())
	}
	for _, id := range l.rows {
		n := &l.t.Nodes[id]
		from := l.t.Begin()
		for _, life := range n.Lives {
			if life.From > from {
				bar(id, from, life.From, .4, 0, colourDown)
			}
			from = max(from, life.To)
		}
		if from < l.t.End {
			bar(id, from, l.t.End, .4, 0, colourDown)
		}
	}
	for i := range l.t.Requests {
		q := &l.t.Requests[i]
		until := q.End
		if q.Entered {
			until = q.Enter
		}
		bar(q.Node, q.Asked, until, .2, .2, colourWaiting)
	}
	for i := range l.t.Requests {
		if q := &l.t.Requests[i]; q.Entered {
			bar(q.Node, q.Enter, q.End, .4, .6, colourHolding)
		}
	}
	for _, id := range l.rows {
		for _, s := range l.t.Nodes[id].Pauses {
			bar(id, s.From, s.To, .15, .6, colourPaused)
		}
	}
	for _, v := range []struct {
		list   []results.Overlap
		colour color.Color
	}{{l.t.Verdict.Zombies, colourZombie}, {l.t.Verdict.Violations, colourViolation}} {
		for _, o := range v.list {
			for _, q := range []*results.Request{o.First, o.Second} {
				bar(q.Node, o.From, o.To, .45, 1.5, v.colour)
			}
		}
	}
}

// Distinguish gives runs of the same name numbers.
func Distinguish(runs []*Run) {
	seen := map[string]int{}
	for _, r := range runs {
		seen[r.Name]++
	}
	for i, r := range runs {
		if seen[r.Name] > 1 {
			r.Name = strings.TrimSpace(fmt.Sprintf("%s (%d)", r.Name, i+1))
		}
	}
}
