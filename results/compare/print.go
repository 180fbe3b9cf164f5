package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"churnbed/results"
)

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	p := &printer{w: w}
	for i := range r.Sets {
		s := &r.Sets[i]
		p.printf("%s  %s: %s, %s, %d trials\n", s.Letter, s.Name, s.Source, s.Engine, s.Trials)
		if s.Unfit > 0 {
			what := "their times are left out"
			if r.Options.Force {
				what = "their times count all the same (--force)"
			}
			p.printf("   UNFIT: %d of them were unfaithful (%s); %s\n", s.Unfit, s.UnfitWhy, what)
		}
		for _, n := range s.Notes {
			p.printf("   note: %s\n", n)
		}
	}
	r.printDifferences(p)
	p.printf("\n")
	r.printMetrics(p)
	r.printArtefacts(p)
	p.printf("\nrule: %s\nverdict: %s\n", r.Rule, r.Verdict)
	return p.err
}

// printArtefacts lists the artefacts of each source once.
func (r *Report) printArtefacts(p *printer) {
	for i := range r.Sets {
		s := &r.Sets[i]
		if len(s.Artefacts) == 0 {
			continue
		}
		letters, before := []string{}, false
		for k := range r.Sets {
			if slices.Equal(r.Sets[k].Artefacts, s.Artefacts) {
				letters = append(letters, r.Sets[k].Letter)
				before = before || k < i
			}
		}
		if before {
			continue
		}
		p.printf("\nknown artefacts of %s (%s)\n", strings.Join(letters, ", "), s.Source)
		for _, a := range s.Artefacts {
			p.printf("  - %s\n", a)
		}
	}
}

// mostUnstated is how many names of parameters that a set does not state are
// worth reading.
const mostUnstated = 20

func (r *Report) printDifferences(p *printer) {
	p.printf("\nwhat differs in the scenarios\n")
	tw := tabwriter.NewWriter(p, 0, 4, 2, ' ', 0)
	differing := 0
	for _, d := range r.Differences {
		if d.Unstated {
			continue
		}
		if differing == 0 {
			fmt.Fprint(tw, "  parameter")
			for i := range r.Sets {
				fmt.Fprintf(tw, "\t%s", r.Sets[i].Letter)
			}
			fmt.Fprintln(tw)
		}
		differing++
		fmt.Fprintf(tw, "  %s", d.Parameter)
		for _, v := range d.Values {
			fmt.Fprintf(tw, "\t%s", orDash(v))
		}
		fmt.Fprintln(tw)
	}
	p.note(tw.Flush())
	if differing == 0 {
		p.printf("  nothing that more than one of them states\n")
	}
	for i := range r.Sets {
		var only []string
		for _, d := range r.Differences {
			if d.Unstated && d.Values[i] == "" {
				only = append(only, d.Parameter)
			}
		}
		switch letter := r.Sets[i].Letter; {
		case len(only) > mostUnstated: // another simulator's file states hardly any
			p.printf("  not stated by %s: %d parameters (--json lists them)\n", letter, len(only))
		case len(only) > 0:
			p.wrapped(fmt.Sprintf("  not stated by %s: ", letter), only)
		}
	}
}

func (r *Report) printMetrics(p *printer) {
	tw := tabwriter.NewWriter(p, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "metric\tset\ttrials\tvalues\tmean\t95 %\tsd\tp50\tp90\tp99\tratio\t95 %\tKS\tW1\tp\tverdict")
	for i := range r.Metrics {
		m := &r.Metrics[i]
		for k := range m.Sets {
			s := &m.Sets[k]
			name := ""
			if k == 0 {
				name = m.Name
				if m.Unit != "" {
					name += " (" + m.Unit + ")"
				}
			}
			fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t", name, r.Sets[k].Letter, s.Trials, s.Values,
				num(s.Mean), span(s.Low, s.High), num(s.SD), num(s.P50), num(s.P90), num(s.P99))
			if k == 0 {
				fmt.Fprintln(tw, "\t\t\t\t\t")
				continue
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", num(s.Ratio), span(s.RatioLow, s.RatioHigh), num(s.KS), num(s.Wasserstein), num(s.P), s.Verdict)
		}
	}
	p.note(tw.Flush())
	for i := range r.Metrics {
		for k := range r.Metrics[i].Sets {
			if s := &r.Metrics[i].Sets[k]; s.Reason != "" {
				p.printf("  %s, %s: %s: %s\n", r.Metrics[i].Name, r.Sets[k].Letter, s.Verdict, s.Reason)
			}
		}
	}
}

// printer writes; the first error sticks.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) note(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// lineWidth is where lists of words are broken.
const lineWidth = 110

// wrapped prints words separated by commas in as many lines as they need.
func (p *printer) wrapped(head string, words []string) {
	line := head
	for i, w := range words {
		if i+1 < len(words) {
			w += ","
		}
		if len(line)+len(w) > lineWidth && strings.TrimSpace(line) != "" {
			p.printf("%s\n", strings.TrimRight(line, " "))
			line = "    "
		}
		line += w + " "
	}
	p.printf("%s\n", strings.TrimRight(line, " "))
}

// Write lets a tabwriter write through p.
func (p *printer) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.w.Write(b)
	p.err = err
	return n, err
}

func num(n results.Number) string {
	if !n.Known() {
		return "-"
	}
	return fmt.Sprintf("%.4g", float64(n))
}

func span(low, high results.Number) string {
	if !low.Known() || !high.Known() {
		return "-"
	}
	return fmt.Sprintf("%.4g..%.4g", float64(low), float64(high))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
