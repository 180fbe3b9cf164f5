package results

import (
	"io"
)

// Report is what `churnbed check --json` prints.
type Report struct {
	Schema        int             `json:"schema"`
	Run           string          `json:"run"`
	Verdict       string          `json:"verdict"`
	Safety        SafetyCounts    `json:"safety"`
	Requests      RequestCounts   `json:"requests"`
	Fidelity      string          `json:"fidelity"`
	Violations    []OverlapReport `json:"violations"` // at most 1000, by their beginning
	Zombies       []OverlapReport `json:"zombies"`
	Tokens        *Tokens         `json:"tokens,omitempty"`
	TokenFaults   []TokenFault    `json:"token_faults,omitempty"` // at most 1000
	LogErrors     []LogError      `json:"log_errors"`
	LogErrorCount int             `json:"log_error_count"`
	Cut           []string        `json:"cut_lines"`
	Interrupted   bool            `json:"interrupted"` // the run did not go on to its end
}

// OverlapReport is one overlapping pair; instants in ms of scenario time.
type OverlapReport struct {
	FromMS    Number           `json:"from_ms"`
	ToMS      Number           `json:"to_ms"`
	OverlapMS Number           `json:"overlap_ms"`
	Sections  [2]SectionReport `json:"sections"`
	// Others were inside with both where several may be, one fewer than that.
	Others []SectionReport `json:"others,omitempty"`
}

// SectionReport is one critical section of a pair.
type SectionReport struct {
	Node      int32  `json:"node"`
	Request   string `json:"request"`
	No        int    `json:"no"`
	RequestMS Number `json:"request_ms"`
	EnterMS   Number `json:"enter_ms"`
	EndMS     Number `json:"end_ms"`
	Ending    string `json:"ending"`
	EnterLine int    `json:"enter_line"`
	EndLine   int    `json:"end_line,omitempty"`
}

// NewReport puts a summary and its verdict into the form of Report.
func NewReport(r *Run, s *Summary, v *Verdict) *Report {
	out := &Report{
		Schema: Schema, Run: r.Dir, Verdict: s.Verdict, Safety: s.Safety, Requests: s.Requests, Fidelity: s.Fidelity.Verdict,
		Violations: overlaps(v.Violations), Zombies: overlaps(v.Zombies),
		Tokens: v.Tokens, TokenFaults: v.TokenFaults,
		LogErrors: append([]LogError{}, v.LogErrors...), LogErrorCount: v.LogErrorCount, Cut: []string{}, Interrupted: s.Interrupted,
	}
	for _, c := range v.Cut {
		out.Cut = append(out.Cut, c.Error())
	}
	return out
}

func overlaps(list []Overlap) []OverlapReport {
	out := make([]OverlapReport, 0, len(list))
	for i := range list {
		o := &list[i]
		r := OverlapReport{
			FromMS: inMS(o.From), ToMS: inMS(o.To), OverlapMS: inMS(o.To - o.From),
			Sections: [2]SectionReport{section(o.First), section(o.Second)},
		}
		for _, q := range o.Others {
			r.Others = append(r.Others, section(q))
		}
		out = append(out, r)
	}
	return out
}

func inMS(ns int64) Number { return Number(float64(ns) / 1e6) }

func section(q *Request) SectionReport {
	return SectionReport{
		Node: int32(q.Node), Request: q.ID.String(), No: q.No, RequestMS: inMS(q.Asked), EnterMS: inMS(q.Enter), EndMS: inMS(q.End),
		Ending: string(q.Ending), EnterLine: q.EnterLine, EndLine: q.EndLine,
	}
}

// maxShown bounds the log errors and cut lines that WriteVerdict lists.
const maxShown = 20

// WriteVerdict prints what was found, for people: each violating pair in one
// line, the first charts of them in full.
func (r *Run) WriteVerdict(w io.Writer, s *Summary, v *Verdict, charts int) error {
	p := &printer{w: w}
	for i := range v.Violations {
		o := &v.Violations[i]
		p.printf("violation %d: ", i+1)
		if p.err == nil && i < charts {
			if err := r.WriteOverlap(w, o, linesShown); err != nil {
				return err
			}
			p.printf("\n")
			continue
		}
		pairLine(p, o)
	}
	if n := v.ViolationCount - len(v.Violations); n > 0 {
		p.printf("%d more violations are not listed\n", n)
	}
	for i := range v.Zombies {
		p.printf("zombie overlap %d: ", i+1)
		if p.err == nil && i < charts-len(v.Violations) {
			if err := r.WriteOverlap(w, &v.Zombies[i], linesShown); err != nil {
				return err
			}
			p.printf("\n")
			continue
		}
		pairLine(p, &v.Zombies[i])
	}
	p.findings(v.Groups, v.GroupCount)
	if p.err == nil {
		if err := r.writeTokenFaults(p, v, charts); err != nil {
			return err
		}
	}
	for i, e := range v.LogErrors {
		if i == maxShown {
			p.printf("log error: %d more\n", v.LogErrorCount-i)
			break
		}
		p.printf("log error: %s\n", e)
	}
	for i, c := range v.Cut {
		if i == maxShown {
			p.printf("warning: %d more cut lines\n", len(v.Cut)-i)
			break
		}
		p.printf("warning: %s\n", c.Error())
	}
	if s.Interrupted {
		p.printf("warning: %s\n", CutShort)
	}
	unfit := ""
	if s.Requests.Unfit {
		unfit = "   UNFIT: the host did not keep up"
	}
	if s.Groups != nil {
		p.groupsSafety(s.Groups)
		p.row("liveness", "%d of %d routines executed, %d skipped, %d starved", s.Groups.Executed, s.Groups.Triggered, s.Groups.Skipped, s.Groups.Starved)
	} else {
		p.row("safety", "%d violating pairs, at most %d holders at once, %s ms in violation; zombie overlaps: %d, %s ms", s.Safety.Violations,
			s.Safety.MaxConcurrent, num(s.Safety.ViolationMS), s.Safety.ZombieOverlaps, num(s.Safety.ZombieMS))
		p.row("liveness", "%d of %d requests served, %d aborted%s, %d unserved%s; overtaken at most %d times%s", s.Requests.Served,
			s.Requests.Issued, s.Requests.Aborted, reasons(s.Requests.AbortedReasons), s.Requests.Unserved,
			reasons(s.Requests.UnservedReasons), s.Requests.MaxOvertaken, unfit)
	}
	v.Tokens.print(p)
	p.row("logs", "%d errors, %d cut lines", v.LogErrorCount, len(v.Cut))
	p.row("fidelity", "%s", s.Fidelity.Verdict)
	p.row("verdict", "%s", s.Verdict)
	return p.err
}

// linesShown is how many log lines stand on each side of those that matter.
const linesShown = 2

func pairLine(p *printer, o *Overlap) {
	p.printf("%v [%s .. %s] and %v [%s .. %s] ms, together %s ms\n", o.First.ID, instant(o.First.Enter), instant(o.First.End),
		o.Second.ID, instant(o.Second.Enter), instant(o.Second.End), instant(o.To-o.From))
}
