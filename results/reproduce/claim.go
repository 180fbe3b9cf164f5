package reproduce

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// Claim is a statement about the shape of a figure: an order, a ratio, a
// crossing. Absolute figures depend on hosts and radios, shapes should not.
type Claim struct {
	Text string `yaml:"text"`
	// Kind says what is measured: ratio, of Of to To at every common point;
	// growth of Of, its last mean by its first; spread, its largest by its
	// smallest; linear, the share of its variance that a straight line
	// explains; crossings, how often Of passes from below To to above or back.
	Kind string `yaml:"kind"`
	Of   string `yaml:"of"`
	To   string `yaml:"to"`
	// From and Until bound the points, both included.
	From  *float64 `yaml:"from"`
	Until *float64 `yaml:"until"`
	// Least and Most bound what is measured.
	Least *float64 `yaml:"least"`
	Most  *float64 `yaml:"most"`
	// Published is what was printed, in words.
	Published string `yaml:"published"`
}

var claimKinds = []string{"ratio", "growth", "spread", "linear", "crossings"}

// check reports what is wrong with a claim on series of these names.
func (c *Claim) check(known map[string]bool) error {
	switch two := c.Kind == "ratio" || c.Kind == "crossings"; {
	case c.Text == "":
		return fmt.Errorf("claim on %q: text must be given", c.Of)
	case !slices.Contains(claimKinds, c.Kind):
		return fmt.Errorf("claim %q: kind %q: want one of %s", c.Text, c.Kind, strings.Join(claimKinds, ", "))
	case !known[c.Of]:
		return fmt.Errorf("claim %q: of %q: want the name of a series", c.Text, c.Of)
	case two && !known[c.To], !two && c.To != "":
		return fmt.Errorf("claim %q: to %q: want the name of a series with ratio and crossings, else nothing", c.Text, c.To)
	case c.Least == nil && c.Most == nil:
		return fmt.Errorf("claim %q: want least, most or both", c.Text)
	}
	return nil
}

// Found is a judged claim: the least and largest value that was measured, NaN
// where nothing was.
type Found struct {
	*Claim
	Low, High float64
	Verdict   Verdict
}

// Judge holds the claims against cells.
func (s *Sweep) Judge(cells []Cell) []Found {
	found := make([]Found, len(s.Claims))
	for i := range s.Claims {
		c := &s.Claims[i]
		f := &found[i]
		*f = Found{Claim: c, Low: math.NaN(), High: math.NaN(), Verdict: NoJudge}
		for _, v := range c.measure(c.points(cells)) {
			if !(f.Low <= v) {
				f.Low = v
			}
			if !(f.High >= v) {
				f.High = v
			}
		}
		if !math.IsNaN(f.Low) {
			f.Verdict = verdict((c.Least == nil || f.Low >= *c.Least) && (c.Most == nil || f.High <= *c.Most))
		}
	}
	return found
}

// pair is a point of both series of a claim, or of one.
type pair struct {
	x    float64
	a, b Estimate
}

// points lists the points of a claim by x.
func (c *Claim) points(cells []Cell) []pair {
	inside := func(d *Cell, name string) bool {
		return d.Series == name && d.Got.N > 0 && (c.From == nil || d.X >= *c.From) && (c.Until == nil || d.X <= *c.Until)
	}
	var list []pair
	for i := range cells {
		if a := &cells[i]; inside(a, c.Of) {
			if c.To == "" {
				list = append(list, pair{x: a.X, a: a.Got})
				continue
			}
			for j := range cells {
				if b := &cells[j]; inside(b, c.To) && b.X == a.X {
					list = append(list, pair{a.X, a.Got, b.Got})
				}
			}
		}
	}
	slices.SortFunc(list, func(p, q pair) int {
		if p.x < q.x {
			return -1
		}
		return 1
	})
	return list
}

// measure gives the values that the bounds hold for; none: too few points.
func (c *Claim) measure(list []pair) []float64 {
	switch {
	case c.Kind == "ratio":
		var ratios []float64
		for _, p := range list {
			ratios = append(ratios, p.a.Mean/p.b.Mean)
		}
		return ratios
	case c.Kind == "crossings":
		return []float64{float64(crossings(list))}
	case len(list) < 2:
		return nil
	}
	var x, y []float64
	for _, p := range list {
		x, y = append(x, p.x), append(y, p.a.Mean)
	}
	switch c.Kind {
	case "growth":
		return []float64{y[len(y)-1] / y[0]}
	case "spread":
		return []float64{slices.Max(y) / slices.Min(y)}
	default:
		alpha, beta := stat.LinearRegression(x, y, nil, false)
		return []float64{stat.RSquared(x, y, nil, alpha, beta)}
	}
}

// crossings counts changes of the order of two series; points within two
// standard errors of each other have none.
func crossings(list []pair) int {
	count, side := 0, 0.0
	for _, p := range list {
		d := p.a.Mean - p.b.Mean
		noise := math.Hypot(p.a.SE, p.b.SE)
		if d == 0 || math.Abs(d) <= sigmas*noise {
			continue
		}
		if now := math.Copysign(1, d); now != side {
			if side != 0 {
				count++
			}
			side = now
		}
	}
	return count
}

// Wanted says the bounds in words.
func (c *Claim) Wanted() string {
	switch {
	case c.Least != nil && c.Most != nil && *c.Least == *c.Most:
		return number(*c.Least)
	case c.Least != nil && c.Most != nil:
		return number(*c.Least) + " to " + number(*c.Most)
	case c.Least != nil:
		return "at least " + number(*c.Least)
	default:
		return "at most " + number(*c.Most)
	}
}

// Measured says the values in words.
func (f *Found) Measured() string {
	if math.IsNaN(f.Low) || figure(f.Low) == figure(f.High) {
		return figure(f.Low)
	}
	return figure(f.Low) + " to " + figure(f.High)
}

// Outcome sums up a result: by its claims where the sweep has any, and by its
// cells.
func (r *Result) Outcome() (v Verdict, why string) {
	v, why = Outcome(r.Cells)
	if len(r.Sweep.Claims) == 0 {
		return v, why
	}
	holds, judged := 0, 0
	for _, f := range r.Sweep.Judge(r.Cells) {
		if f.Verdict != NoJudge {
			judged++
		}
		if f.Verdict == Agree {
			holds++
		}
	}
	text := fmt.Sprintf("%d of %d claims hold", holds, len(r.Sweep.Claims))
	switch {
	case judged == 0:
		return NoJudge, "no claim could be judged"
	case v == Differ || v == Agree:
		return verdict(v == Agree && holds == judged), text + "; " + why
	default:
		return verdict(holds == judged), text
	}
}
