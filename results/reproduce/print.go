package reproduce

import (
	"cmp"
	"fmt"
	"go/doc/comment"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Result is a sweep that was run.
type Result struct {
	Sweep   *Sweep
	Cells   []Cell
	Engine  string
	Version string
	Host    string // class of host: system, processor, cores
	Date    string // 2006-01-02
	Notes   []string
}

// Print writes the table.
func (r *Result) Print(w io.Writer) error {
	s := r.Sweep
	if _, err := fmt.Fprintf(w, "%s: %s\n%s\n\n", s.Name, s.Title, wrap(s.Text, 96)); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if s.shaped() {
		return r.printShapes(w, tw)
	}
	fmt.Fprintf(tw, "series\t%s\ttrials\t%s\t±\tauthors'\t±\tsigmas\tmessages\tauthors'\tverdict\n", s.X, s.Y)
	for _, c := range r.shown() {
		v := string(c.Verdict)
		if c.Ours && c.Verdict != NoJudge {
			v = "(" + v + ")"
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Series, number(c.X), c.Got.N,
			figure(c.Got.Mean), figure(c.Got.SE), figure(c.Want.Mean), figure(c.Want.SE), signed(c.Sigmas()),
			figure(c.Got.Messages), figure(c.Want.Messages), v)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if err := r.printNotes(w); err != nil {
		return err
	}
	if s.Metric == TimeByNode {
		if _, err := fmt.Fprintln(w, "note: of each series the nodes with the least, the middle and the largest figure; the record has all"); err != nil {
			return err
		}
	}
	for _, q := range r.quotients() {
		if _, err := fmt.Fprintln(w, q); err != nil {
			return err
		}
	}
	v, why := r.Outcome()
	rule := ""
	if slices.ContainsFunc(s.Series, func(l Series) bool { return l.Published != nil }) {
		rule = "; printed figures: within the tolerance or bound that the experiment states"
	}
	_, err := fmt.Fprintf(w, "\nverdict: %s (%s)\nrule: means within %v combined standard errors; series in brackets are shown, not counted%s\n", v, why, sigmas, rule)
	return err
}

// shaped reports whether the sweep is held against shapes or a closed form,
// and not against runs of the authors.
func (s *Sweep) shaped() bool {
	return len(s.Claims) > 0 || slices.ContainsFunc(s.Series, func(l Series) bool { return l.Formula != "" })
}

// printShapes writes the rest of a table of shapes and its claims.
func (r *Result) printShapes(w io.Writer, tw *tabwriter.Writer) error {
	s := r.Sweep
	fmt.Fprintf(tw, "series\t%s\ttrials\t%s\t±\treference\tverdict\n", s.X, s.Y)
	for i := range r.Cells {
		c := &r.Cells[i]
		v := string(c.Verdict)
		if c.Ours && c.Verdict != NoJudge {
			v = "(" + v + ")"
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", c.Series, s.labelOf(c.X), c.Got.N, figure(c.Got.Mean), figure(c.Got.SE), figure(c.Want.Mean), v)
	}
	if found := s.Judge(r.Cells); len(found) > 0 {
		fmt.Fprintf(tw, "\nclaim\tmeasured\twanted\tpublished\tverdict\n")
		for i := range found {
			f := &found[i]
			published := f.Published
			if published == "" {
				published = "-"
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", f.Text, f.Measured(), f.Wanted(), published, f.Verdict)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if err := r.printNotes(w); err != nil {
		return err
	}
	v, why := r.Outcome()
	_, err := fmt.Fprintf(w, "\nverdict: %s (%s)\n", v, why)
	return err
}

func (r *Result) printNotes(w io.Writer) error {
	for _, n := range r.Notes {
		if _, err := fmt.Fprintln(w, "note:", n); err != nil {
			return err
		}
	}
	return nil
}

// labelOf is what stands for x.
func (s *Sweep) labelOf(x float64) string {
	for i := range s.Points {
		if p := &s.Points[i]; p.X == x && p.Label != "" {
			return p.Label
		}
	}
	return number(x)
}

// shown are the cells of the table: all, but of the nodes of TimeByNode those
// with the least, the middle and the largest figure of each series.
func (r *Result) shown() []*Cell {
	var cells []*Cell
	if r.Sweep.Metric != TimeByNode {
		for i := range r.Cells {
			cells = append(cells, &r.Cells[i])
		}
		return cells
	}
	for i := range r.Sweep.Series {
		var of []*Cell
		for j := range r.Cells {
			if c := &r.Cells[j]; c.Series == r.Sweep.Series[i].Name && !math.IsNaN(c.Got.Mean) {
				of = append(of, c)
			}
		}
		slices.SortStableFunc(of, func(a, b *Cell) int { return cmp.Compare(a.Got.Mean, b.Got.Mean) })
		if len(of) > 0 {
			cells = append(cells, of[0], of[(len(of)-1)/2], of[len(of)-1])
		}
	}
	return cells
}

// quotients says by how much each series lies above the one that the sweep
// names, point by point.
func (r *Result) quotients() (lines []string) {
	if r.Sweep.Over == "" {
		return nil
	}
	base := map[float64]float64{}
	for _, c := range r.Cells {
		if c.Series == r.Sweep.Over {
			base[c.X] = c.Got.Mean
		}
	}
	for _, l := range r.Sweep.Series {
		if l.Name == r.Sweep.Over {
			continue
		}
		line := ""
		for _, c := range r.Cells {
			if b, ok := base[c.X]; ok && c.Series == l.Name && b > 0 && !math.IsNaN(c.Got.Mean) {
				line += fmt.Sprintf(", %+.1f %% at %s", 100*(c.Got.Mean/b-1), number(c.X))
			}
		}
		if line != "" {
			lines = append(lines, l.Name+" over "+r.Sweep.Over+": "+strings.TrimPrefix(line, ", "))
		}
	}
	return lines
}

func figure(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.Abs(v) >= 1000:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}

func signed(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf("%+.1f", v)
}

// wrap breaks text into lines of at most width characters.
func wrap(text string, width int) string {
	lines := comment.Printer{TextWidth: width}
	return strings.TrimSpace(string(lines.Text(&comment.Doc{Content: []comment.Block{
		&comment.Paragraph{Text: []comment.Text{comment.Plain(text)}},
	}})))
}
