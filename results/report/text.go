package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/results"
)

func linkName(a, b core.NodeID) string { return fmt.Sprintf("%d-%d", min(a, b), max(a, b)) }

func number(n results.Number) string {
	if !n.Known() {
		return "–"
	}
	return strconv.FormatFloat(float64(n), 'g', 5, 64)
}

func inMS(n results.Number) string {
	if !n.Known() {
		return "–"
	}
	return fmt.Sprintf("%.1f ms", float64(n))
}

func seconds(ns int64) string { return fmt.Sprintf("%.3f s", float64(ns)/1e9) }

func share(n results.Number) string {
	if !n.Known() {
		return "–"
	}
	return fmt.Sprintf("%.4g %%", 100*float64(n))
}

func bytesText(n int64) string {
	switch {
	case n >= 10e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 10e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

// Classes of values: how the page colours them.
const (
	good = "good"
	fair = "fair"
	bad  = "bad"
)

func class(ok bool) string {
	if ok {
		return good
	}
	return bad
}

func verdictClass(s *results.Summary) string {
	switch {
	case s.Verdict == results.VerdictOK:
		return good
	case s.Failed():
		return bad
	}
	return fair
}

func fidelityClass(verdict string) string {
	return map[string]string{results.Faithful: good, results.Strained: fair, results.Unfaithful: bad}[verdict]
}

func engineOf(s *results.Summary) string {
	if s.Fabric != "" {
		return s.Engine + ", " + s.Fabric
	}
	return s.Engine
}

// summaryGroups are the figures, runs side by side.
func summaryGroups(runs []*Run) []group {
	var groups []group
	// A named group begins; without a name the last one goes on.
	add := func(name, figure string, of func(s *results.Summary, r *Run) value) {
		if name != "" {
			groups = append(groups, group{Name: name})
		}
		x := row{Name: figure}
		for _, r := range runs {
			x.Values = append(x.Values, of(r.Timeline.Summary, r))
		}
		g := &groups[len(groups)-1]
		g.Rows = append(g.Rows, x)
	}
	plain := func(f func(s *results.Summary) string) func(*results.Summary, *Run) value {
		return func(s *results.Summary, _ *Run) value { return value{Text: f(s)} }
	}
	times := func(f func(s *results.Summary) string) func(*results.Summary, *Run) value {
		return func(s *results.Summary, _ *Run) value {
			if s.WaitMS.Unfit {
				return value{f(s) + " (unfit)", fair}
			}
			return value{Text: f(s)}
		}
	}
	add("Verdict", "verdict", func(s *results.Summary, _ *Run) value { return value{s.Verdict, verdictClass(s)} })
	if slices.ContainsFunc(runs, func(r *Run) bool { return r.Timeline.Summary.Interrupted }) {
		add("", "cut short", func(s *results.Summary, _ *Run) value {
			if s.Interrupted {
				return value{results.CutShort, fair}
			}
			return value{Text: "no"}
		})
	}
	add("", "safety", func(s *results.Summary, _ *Run) value {
		if s.Safety.Violations > 0 {
			return value{fmt.Sprintf("violated: %d pairs, %s ms, up to %d holders at once", s.Safety.Violations, number(s.Safety.ViolationMS), s.Safety.MaxConcurrent), bad}
		}
		if n := s.Groups.Found(); n > 0 {
			return value{fmt.Sprintf("violated: %d findings of groups", n), bad}
		}
		return value{s.Promise(), good}
	})
	if slices.ContainsFunc(runs, func(r *Run) bool { return r.Timeline.Summary.Tokens != nil }) {
		add("", "tokens", func(s *results.Summary, _ *Run) value {
			if s.Tokens == nil {
				return value{Text: "–"}
			}
			return value{s.Tokens.String(), class(!s.Tokens.Wrong())}
		})
	}
	add("", "overlaps with holders declared failed", func(s *results.Summary, _ *Run) value {
		if s.Safety.ZombieOverlaps == 0 {
			return value{Text: "none"}
		}
		return value{fmt.Sprintf("%d, %s ms", s.Safety.ZombieOverlaps, number(s.Safety.ZombieMS)), fair}
	})
	add("", "fidelity", func(s *results.Summary, _ *Run) value {
		text := s.Fidelity.Verdict
		if s.Fidelity.Reason != "" {
			text += ": " + s.Fidelity.Reason
		}
		return value{text, fidelityClass(s.Fidelity.Verdict)}
	})
	add("", "logs", func(s *results.Summary, _ *Run) value {
		return value{fmt.Sprintf("%d errors, %d cut lines", s.Logs.Errors, s.Logs.Cut), class(s.Logs.Errors == 0)}
	})
	add("Run", "engine", plain(engineOf))
	add("", "algorithm, membership", plain(func(s *results.Summary) string { return s.Algorithm + ", " + s.Members }))
	add("", "nodes, links", plain(func(s *results.Summary) string { return fmt.Sprintf("%d, %d", s.Nodes, s.Links) }))
	add("", "seed", plain(func(s *results.Summary) string { return strconv.FormatUint(s.Seed, 10) }))
	add("", "time scale", plain(func(s *results.Summary) string { return strconv.FormatFloat(s.TimeScale, 'g', -1, 64) }))
	add("", "length since the epoch", func(_ *results.Summary, r *Run) value {
		return value{Text: seconds(r.Timeline.End - r.Timeline.Begin())}
	})
	groupRows(runs, add)
	localRows(runs, add)
	section := anySection(runs)
	if section {
		add("Liveness", "requests served", func(s *results.Summary, _ *Run) value {
			return value{fmt.Sprintf("%d of %d", s.Requests.Served, s.Requests.Issued), ""}
		})
		add("", "aborted, unserved, skipped", plain(func(s *results.Summary) string {
			return fmt.Sprintf("%d, %d, %d", s.Requests.Aborted, s.Requests.Unserved, s.Requests.Skipped)
		}))
		add("", "overtaken at most", plain(func(s *results.Summary) string { return strconv.Itoa(s.Requests.MaxOvertaken) }))
		add("Waits", "mean", times(func(s *results.Summary) string { return inMS(s.WaitMS.Mean) }))
		add("", "p50, p90, p99", times(func(s *results.Summary) string {
			return inMS(s.WaitMS.P50) + ", " + inMS(s.WaitMS.P90) + ", " + inMS(s.WaitMS.P99)
		}))
		add("", "longest", times(func(s *results.Summary) string { return inMS(s.WaitMS.Max) }))
		add("", "handover (exit to next enter), p50", times(func(s *results.Summary) string { return inMS(s.SyncMS.P50) }))
	}
	name := "Messages"
	if section {
		add("Messages", "per entry, end to end", plain(func(s *results.Summary) string { return number(s.Messages.E2EPerCS) }))
		add("", "per entry, hop by hop", plain(func(s *results.Summary) string { return number(s.Messages.H2HPerCS) }))
		add("", "mutual exclusion, in all", plain(func(s *results.Summary) string {
			return fmt.Sprintf("%d, %s", s.Messages.E2EMutex, bytesText(s.Messages.BytesMutex))
		}))
		name = ""
	}
	add(name, "membership, in all", plain(func(s *results.Summary) string {
		return fmt.Sprintf("%d, %s", s.Messages.E2EMembership, bytesText(s.Messages.BytesMembership))
	}))
	add("", "acknowledgements, retransmissions", plain(func(s *results.Summary) string {
		return fmt.Sprintf("%d, %d", s.Messages.Acks, s.Messages.Retransmissions)
	}))
	add("Membership", "list size: mean, smallest", plain(func(s *results.Summary) string {
		return number(s.Membership.SizeMean) + ", " + number(s.Membership.SizeMin)
	}))
	add("", "false positives", plain(func(s *results.Summary) string { return strconv.Itoa(s.Membership.FalsePositives) }))
	add("", "detection p50; undetected", plain(func(s *results.Summary) string {
		return fmt.Sprintf("%s; %d", inMS(s.Membership.DetectionMS.P50), s.Membership.Undetected)
	}))
	add("Churn", "kills, restarts, pauses", plain(func(s *results.Summary) string {
		return fmt.Sprintf("%d, %d, %d", s.Churn.Kills, s.Churn.Restarts, s.Churn.Pauses)
	}))
	add("", "leaves, joins", plain(func(s *results.Summary) string { return fmt.Sprintf("%d, %d", s.Churn.Leaves, s.Churn.Joins) }))
	if section {
		add("", "hit idle, waiting, holding", plain(func(s *results.Summary) string {
			return fmt.Sprintf("%d, %d, %d", s.Churn.Hit["NONE"], s.Churn.Hit["WAIT"], s.Churn.Hit["HELD"])
		}))
	}
	add("Host", "delay error p50, p99", plain(func(s *results.Summary) string {
		return number(s.Fidelity.DelayErrorMS.P50) + " ms, " + number(s.Fidelity.DelayErrorMS.P99) + " ms"
	}))
	add("", "loss configured, measured", plain(func(s *results.Summary) string {
		return share(s.Fidelity.LossConfigured) + ", " + share(s.Fidelity.LossMeasured)
	}))
	if slices.ContainsFunc(runs, func(r *Run) bool { return r.Timeline.Summary.Processes != nil }) {
		process := func(f func(p *results.ProcessSummary) string) func(*results.Summary, *Run) value {
			return plain(func(s *results.Summary) string {
				if s.Processes == nil {
					return "– (no processes: simulated)"
				}
				return f(s.Processes)
			})
		}
		add("", "processor time of a node: mean, most", process(func(p *results.ProcessSummary) string {
			return number(p.CPU.Mean) + ", " + number(p.CPU.Max) + " ms/s"
		}))
		add("", "memory of its own: mean, most", process(func(p *results.ProcessSummary) string {
			return bytesText(int64(p.Memory.Mean)) + ", " + bytesText(int64(p.Memory.Max))
		}))
	}
	add("", "processors busy", plain(func(s *results.Summary) string { return share(s.Fidelity.CPUBusy) }))
	return groups
}

// anySection reports whether a run has requests for the critical section.
func anySection(runs []*Run) bool {
	return slices.ContainsFunc(runs, func(r *Run) bool { return r.Timeline.Summary.Groups == nil })
}

// maxListed bounds the tables of overlaps and log errors.
const maxListed = 200

func (r *Run) text(index int) (runText, error) {
	t := r.Timeline
	s := t.Summary
	out := runText{
		Index: index, Name: r.Name, Verdict: s.Verdict, Class: verdictClass(s),
		What: fmt.Sprintf("%s; %s over %s; %d nodes, %d links; seed %d", engineOf(s), orNone(s.Algorithm), orNone(s.Members), s.Nodes, s.Links, s.Seed),
	}
	list := func(o []results.Overlap) []overlapText {
		var texts []overlapText
		for i := range o[:min(len(o), maxListed)] {
			nodes, ids := "", ""
			for _, q := range o[i].Others { // where several may be inside
				nodes += strconv.Itoa(int(q.Node)) + ", "
				ids += q.ID.String() + ", "
			}
			texts = append(texts, overlapText{
				FirstNode: nodes + strconv.Itoa(int(o[i].First.Node)), SecondNode: strconv.Itoa(int(o[i].Second.Node)),
				First: ids + o[i].First.ID.String(), Second: o[i].Second.ID.String(),
				FromMS: seconds(o[i].From), ToMS: seconds(o[i].To), From: o[i].From / micro,
				Length: fmt.Sprintf("%.3f ms", float64(o[i].To-o[i].From)/1e6),
			})
		}
		return texts
	}
	for i := range t.Requests {
		if t.Requests[i].Entered {
			out.Entries++
		}
	}
	out.Violations, out.Zombies = list(t.Verdict.Violations), list(t.Verdict.Zombies)
	out.More = t.Verdict.ViolationCount - len(out.Violations)
	out.MoreZombies = t.Verdict.ZombieCount - len(out.Zombies)
	for _, e := range t.Verdict.LogErrors[:min(len(t.Verdict.LogErrors), maxListed)] {
		out.LogErrors = append(out.LogErrors, e.String())
	}
	out.Groups = groupsOf(t)
	for _, f := range s.Fidelity.Slices {
		out.Slices = append(out.Slices, sliceText{
			To: fmt.Sprintf("%.1f s", float64(f.ToMS)/1e3), Verdict: f.Verdict, Class: fidelityClass(f.Verdict),
			P50: number(f.DelayErrorMS.P50), P99: number(f.DelayErrorMS.P99), CPU: share(f.CPUBusy), Reason: f.Reason,
		})
	}
	var err error
	if out.Scenario, err = r.scenario(); err != nil {
		return out, err
	}
	m := &t.Run.Manifest
	if !m.Started.IsZero() {
		out.Started = m.Started.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	out.Commands = r.commands()
	return out, nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// commands say how to have the run again and look at it further.
func (r *Run) commands() []command {
	m := &r.Timeline.Run.Manifest
	dir := r.Timeline.Run.Dir
	verb := "run"
	if m.Engine == results.Simulated {
		verb = "sim"
	}
	scenario := filepath.Join(dir, results.ScenarioFile)
	again := "churnbed " + verb + " " + Quote(scenario)
	if m.Fabric != "" && m.VirtualHost == nil {
		again += " --fabric " + Quote(m.Fabric)
	}
	if m.VirtualHost != nil {
		again += " --virtual-host"
	}
	list := []command{
		{"The same scenario again, from the run directory (or from the scenario below, saved as a file)", again + " --out " + Quote(dir+"-again")},
		{"Judge its logs again", "churnbed check " + Quote(dir)},
	}
	if m.Engine == results.Emulated {
		list = append(list, command{"The same scenario in the simulator", "churnbed sim " + Quote(scenario) + " --out " + Quote(dir+"-sim")})
	}
	if len(m.Command) > 0 {
		words := make([]string, len(m.Command))
		for i, w := range m.Command {
			words[i] = Quote(w)
		}
		words[0] = Quote(filepath.Base(m.Command[0]))
		list = append(list, command{"The command that made it", strings.Join(words, " ")})
	}
	return list
}

// localRows tell of locks of neighbourhoods, where a run has them.
func localRows(runs []*Run, add func(name, figure string, of func(*results.Summary, *Run) value)) {
	i := slices.IndexFunc(runs, func(r *Run) bool { return r.Timeline.Summary.Local != nil })
	if i < 0 {
		return
	}
	head := "Neighbourhoods"
	for _, line := range runs[i].Timeline.Summary.Local.Lines(0) {
		add(head, line[0], func(s *results.Summary, _ *Run) value {
			for _, own := range s.Local.Lines(s.Requests.Served) {
				if own[0] != line[0] {
					continue
				}
				if s.Local.Wrong() {
					return value{own[1], bad}
				}
				return value{Text: own[1]}
			}
			return value{Text: "–"}
		})
		head = ""
	}
}

// Quote quotes a word for a POSIX shell, where it needs that.
func Quote(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_-./=:,@%+", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
