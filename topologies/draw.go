package topologies

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// DrawOptions say how to draw; the zero value is good.
type DrawOptions struct {
	Title string        // empty: the topology's name, nodes and links
	Width float64       // of the picture in cm, 0 for 18 to 34 by the number of nodes
	Fill  []color.Color // of each node's disc; nil, or nil for a node: dark blue
	Ring  []color.Color // around the disc; nil, or nil for a node: white
}

// slant draws heights as an oblique projection, so that nodes above each other
// do not hide each other.
func slant(t *Topology) (*Topology, bool) {
	if !slices.ContainsFunc(t.Nodes, func(n Node) bool { return n.Z != t.Nodes[0].Z }) {
		return t, false
	}
	flat := *t
	flat.Nodes = slices.Clone(t.Nodes)
	for i := range flat.Nodes {
		n := &flat.Nodes[i]
		n.X, n.Y, n.Z = n.X+0.27*n.Z, n.Y+0.41*n.Z, 0
	}
	return &flat, true
}

// Draw draws t as "svg" or "png": nodes with their ids, axes in metres, and
// where links have a loss of their own, links shaded by the worse of their
// two directions.
func Draw(w io.Writer, t *Topology, format string, opt DrawOptions) error {
	if format != "svg" && format != "png" {
		return fmt.Errorf("draw topology: format %q: want svg or png", format)
	}
	if err := checkNodes(t.Nodes); err != nil {
		return fmt.Errorf("draw topology: %w", err)
	}
	t, slanted := slant(t)
	m := newMeshPlot(t)
	m.fill, m.ring = opt.Fill, opt.Ring
	p := plot.New()
	p.Title.Text = opt.Title
	if opt.Title == "" {
		p.Title.Text = fmt.Sprintf("%s: %d nodes, %d links", t.Name, len(t.Nodes), len(t.Links))
	}
	x0, x1, y0, y1 := m.bounds()
	outside := 0
	for _, n := range t.Nodes {
		if n.X < x0 || n.X > x1 || n.Y < y0 || n.Y > y1 {
			outside++
		}
	}
	if outside > 0 {
		p.Title.Text += fmt.Sprintf(" (%d nodes far off are outside)", outside)
	}
	p.Title.Padding = vg.Points(6)
	p.X.Label.Text, p.Y.Label.Text = "x (m)", "y (m)"
	if slanted {
		p.X.Label.Text = "x (m), height slanted"
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = x0, x1, y0, y1
	p.X.Padding, p.Y.Padding = vg.Points(2), vg.Points(2)
	p.Add(m)

	width := opt.Width
	if width == 0 {
		width = min(max(18*math.Sqrt(float64(len(t.Nodes))/100), 18), 34)
	}
	// Axes and title take about 1.8 cm each way, so that a metre is about as
	// long in both directions; very flat or high meshes are squeezed.
	ratio := (p.Y.Max - p.Y.Min) / (p.X.Max - p.X.Min)
	field := min(max((width-1.8)*ratio, width/4), 1.5*width)
	height := field + 2
	m.setSizes(vg.Length(math.Sqrt(field*width)) * vg.Centimeter)
	key := vg.Length(0)
	if m.losses {
		key = vg.Centimeter
	}
	c, err := draw.NewFormattedCanvas(vg.Length(width)*vg.Centimeter, vg.Length(height)*vg.Centimeter+key, format)
	if err != nil {
		return fmt.Errorf("draw topology: %w", err)
	}
	dc := draw.New(c)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	if m.losses {
		bottom := dc
		bottom.Max.Y = bottom.Min.Y + key
		m.drawKey(bottom)
	}
	p.Draw(draw.Crop(dc, vg.Points(6), -vg.Points(10), key+vg.Points(4), -vg.Points(6)))
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("draw topology: %w", err)
	}
	return nil
}

// meshPlot draws links and nodes; it is a plot.Plotter.
type meshPlot struct {
	t         *Topology
	loss      []float64 // by link, -1 where it has none
	losses    bool      // any link has one
	worst     float64   // upper end of the shades
	radius    vg.Length // of a node's disc
	lineWidth vg.Length
	alpha     uint8 // of links
	font      text.Style
	fill      []color.Color
	ring      []color.Color
}

func newMeshPlot(t *Topology) *meshPlot {
	m := &meshPlot{t: t, loss: make([]float64, len(t.Links))}
	for i, l := range t.Links {
		m.loss[i] = -1
		for _, own := range [...]*float64{l.AB.Loss, l.BA.Loss} {
			if own != nil {
				m.loss[i] = max(m.loss[i], *own)
			}
		}
		m.losses = m.losses || m.loss[i] >= 0
		m.worst = max(m.worst, m.loss[i])
	}
	if m.worst == 0 {
		m.worst = 1
	}
	return m
}

// bounds returns the nodes' rectangle with a margin, never empty. Nodes far
// off the crowd (some nodes of city maps stand 200 km away) would leave a dot
// of the rest, so they stay outside.
func (m *meshPlot) bounds() (x0, x1, y0, y1 float64) {
	xs, ys := make([]float64, len(m.t.Nodes)), make([]float64, len(m.t.Nodes))
	for i, n := range m.t.Nodes {
		xs[i], ys[i] = n.X, n.Y
	}
	x0, x1 = crowd(xs)
	y0, y1 = crowd(ys)
	margin := 0.04 * max(x1-x0, y1-y0)
	if margin == 0 {
		margin = 1
	}
	return x0 - margin, x1 + margin, y0 - margin, y1 + margin
}

// crowd returns the range of the values that lie at most twice the middle 80 %'s
// width away from it.
func crowd(v []float64) (lo, hi float64) {
	slices.Sort(v)
	low, high := v[len(v)/10], v[len(v)-1-len(v)/10]
	reach := 2 * (high - low)
	if reach == 0 {
		return v[0], v[len(v)-1]
	}
	lo, hi = low, high
	for _, x := range v {
		if x >= low-reach && x <= high+reach {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	return lo, hi
}

// setSizes fits discs, letters and lines to the number of nodes and links on a
// field of about side x side.
func (m *meshPlot) setSizes(side vg.Length) {
	room := side / vg.Length(math.Sqrt(float64(len(m.t.Nodes)))) // between nodes of a grid
	m.radius = min(max(0.17*room, vg.Points(1.5)), vg.Points(11))
	perNode := float64(len(m.t.Links)) / float64(len(m.t.Nodes))
	m.lineWidth = vg.Points(min(max(3/math.Sqrt(1+perNode), 0.35), 1.4))
	m.alpha = uint8(min(max(700/(1+perNode), 60), 220))
	m.font = text.Style{
		Color:   color.White,
		Font:    plot.DefaultFont,
		XAlign:  text.XCenter,
		YAlign:  text.YCenter,
		Handler: plot.DefaultTextHandler,
	}
	digits := len(strconv.Itoa(len(m.t.Nodes) - 1))
	m.font.Font.Size = m.radius * [...]vg.Length{1.3, 1.3, 1.2, 0.95}[min(digits, 4)-1]
	m.font.Font.Variant = "Sans"
}

// smallestLetter is the letter height below which ids are left out.
const smallestLetter = 3.5

// shade goes from light blue-grey over orange to dark red.
func shade(v float64, alpha uint8) color.NRGBA {
	stops := [...][3]float64{{166, 189, 219}, {253, 141, 60}, {153, 0, 13}}
	v = min(max(v, 0), 1) * float64(len(stops)-1)
	i := min(int(v), len(stops)-2)
	f := v - float64(i)
	mix := func(c int) uint8 { return uint8(stops[i][c]*(1-f) + stops[i+1][c]*f) }
	return color.NRGBA{mix(0), mix(1), mix(2), alpha}
}

// Plot draws onto c, whose axes plt has.
func (m *meshPlot) Plot(c draw.Canvas, plt *plot.Plot) {
	toX, toY := plt.Transforms(&c)
	at := make([]vg.Point, len(m.t.Nodes))
	for i, n := range m.t.Nodes {
		at[i] = vg.Point{X: toX(n.X), Y: toY(n.Y)}
	}
	for i, l := range m.t.Links {
		line := draw.LineStyle{Color: color.NRGBA{120, 130, 145, m.alpha}, Width: m.lineWidth}
		if m.losses && m.loss[i] >= 0 {
			line.Color = shade(m.loss[i]/m.worst, max(m.alpha, 170))
		}
		if m.losses && m.loss[i] < 0 {
			line.Dashes = []vg.Length{vg.Points(2), vg.Points(2)}
			line.Width /= 2
		}
		c.StrokeLines(line, c.ClipLinesXY([]vg.Point{at[l.A], at[l.B]})...)
	}
	rim := draw.GlyphStyle{Color: color.White, Radius: m.radius * 1.12, Shape: draw.CircleGlyph{}}
	disc := draw.GlyphStyle{Color: color.NRGBA{31, 78, 121, 255}, Radius: m.radius, Shape: draw.CircleGlyph{}}
	for i, p := range at {
		if !c.Contains(p) {
			continue
		}
		rim, disc := rim, disc
		if i < len(m.ring) && m.ring[i] != nil {
			rim.Color, rim.Radius = m.ring[i], m.radius*1.35
		}
		if i < len(m.fill) && m.fill[i] != nil {
			disc.Color = m.fill[i]
		}
		c.DrawGlyph(rim, p)
		c.DrawGlyph(disc, p)
		if m.font.Font.Size >= vg.Points(smallestLetter) {
			c.FillText(m.font, p, strconv.Itoa(i))
		}
	}
}

// drawKey explains the shades.
func (m *meshPlot) drawKey(c draw.Canvas) {
	style := m.font
	style.Color = color.Black
	style.Font.Size = vg.Points(9)
	style.XAlign = text.XLeft
	mid := (c.Min.Y + c.Max.Y) / 2
	x := c.Min.X + 1.5*vg.Centimeter
	label := func(s string) {
		c.FillText(style, vg.Point{X: x, Y: mid}, s)
		x += style.Width(s) + vg.Points(6)
	}
	label("loss of a link: 0")
	const steps = 60
	bar := 4 * vg.Centimeter
	for i := range steps {
		c.SetColor(shade(float64(i)/(steps-1), 255))
		left := x + bar*vg.Length(i)/steps
		cell := vg.Rectangle{Min: vg.Point{X: left, Y: mid - vg.Points(4)}, Max: vg.Point{X: left + bar/steps + 0.2, Y: mid + vg.Points(4)}}
		c.Fill(cell.Path())
	}
	x += bar + vg.Points(6)
	label(strconv.FormatFloat(m.worst, 'g', 3, 64))
	x += vg.Points(14)
	line := draw.LineStyle{Color: color.NRGBA{120, 130, 145, 255}, Width: vg.Points(0.7), Dashes: []vg.Length{vg.Points(2), vg.Points(2)}}
	c.StrokeLine2(line, x, mid, x+vg.Centimeter, mid)
	x += vg.Centimeter + vg.Points(6)
	label("not given")
}
