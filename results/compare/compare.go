// Package compare tells whether sets of trials say the same: runs of the
// emulator, of the simulator and of other simulators. It computes a table a
// metric, distances between distributions, a verdict with its rule, what
// differs in the scenarios, and draws distributions. It reads no files and
// judges no logs: package results makes trials of runs, package
// results/foreign of other simulators' output.
//
// # Statistics
//
// Values within a trial depend on each other (a long wait makes the next one
// long), so trials are the unit of everything that claims certainty: the mean
// is the mean over trials of the trial's mean; its standard error comes from
// the spread of trial means; its 95 % interval from resampling whole trials
// (percentile bootstrap, Efron 1979); the p-value from exchanging whole trials
// between the sets (permutation test of the Kolmogorov-Smirnov distance).
// Percentiles, Kolmogorov-Smirnov distance and Wasserstein-1 distance (the
// area between the distribution functions, in the metric's unit) are of all
// values together. Percentiles are the smallest value that at least that
// share of the values does not exceed. Chance comes from named streams of
// Options.Seed, so a comparison is repeatable to the last digit.
//
// # Rule of a verdict
//
// A set is compared with the first, A. Fewer than MinTrials trials with
// values on either side: too few trials. Otherwise the means agree when they
// differ by at most two combined standard errors, or by at most Tolerance of
// A's mean; the distributions agree when p >= Alpha, or when the Wasserstein-1
// distance is at most Tolerance of A's mean. Agree means both; anything else
// is differ. That two sets agree says that these trials do not show a
// difference that matters, not that there is none.
//
// A metric is not judged where one side did not measure it or measured it in
// units of its own. Times and served shares of unfaithful runs are left out
// unless Options.Force is set; counts of violations stand.
//
// Nothing here is safe for concurrent use on one Comparison.
package compare

import (
	_ "embed" // the schema
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"churnbed/node/core"
	"churnbed/results"
)

// Schema is the version of a Report.
const Schema = 1

// ReportSchema is the JSON Schema (draft 2020-12) of a Report.
//
//go:embed schema/compare.schema.json
var ReportSchema []byte

// Verdict is what is said of a metric of two sets.
type Verdict string

// Verdicts, from good to bad.
const (
	Agree     Verdict = "agree"
	NotJudged Verdict = "not judged"
	TooFew    Verdict = "too few trials"
	Differ    Verdict = "differ"
)

var badness = map[Verdict]int{Agree: 0, NotJudged: 1, TooFew: 2, Differ: 3}

// Options of a comparison; DefaultOptions are good ones.
type Options struct {
	Tolerance    float64 `json:"tolerance"`    // relative, 0 = exactly or within the errors
	MinTrials    int     `json:"min_trials"`   // a side, at least 2
	Alpha        float64 `json:"alpha"`        // of the permutation test, 0..1
	Resamples    int     `json:"resamples"`    // of the bootstrap
	Permutations int     `json:"permutations"` // of the test
	Seed         uint64  `json:"seed"`
	Force        bool    `json:"force"` // judge times of unfaithful runs
}

// DefaultOptions returns the options without flags.
func DefaultOptions() Options {
	return Options{Tolerance: 0.05, MinTrials: 5, Alpha: 0.01, Resamples: 2000, Permutations: 1000, Seed: 1}
}

func (o *Options) check() error {
	switch {
	case !(o.Tolerance >= 0 && o.Tolerance <= 1):
		return fmt.Errorf("tolerance %v: want 0 to 1", o.Tolerance)
	case o.MinTrials < 2:
		return fmt.Errorf("minimum of trials %d: want 2 or more", o.MinTrials)
	case !(o.Alpha > 0 && o.Alpha < 1):
		return fmt.Errorf("alpha %v: want more than 0, less than 1", o.Alpha)
	case o.Resamples < 100 || o.Resamples > 1_000_000:
		return fmt.Errorf("resamples %d: want 100 to 1000000", o.Resamples)
	case o.Permutations < 100 || o.Permutations > 1_000_000:
		return fmt.Errorf("permutations %d: want 100 to 1000000", o.Permutations)
	}
	return nil
}

// Rule states in a sentence how the options judge.
func (o *Options) Rule() string {
	return fmt.Sprintf("agree: means within 2 combined standard errors or %.4g %% of A's mean, and distributions not told apart "+
		"(permutation of trials, p >= %.4g) or within %.4g %% of A's mean (Wasserstein-1); too few trials: below %d a side; otherwise differ",
		100*o.Tolerance, o.Alpha, 100*o.Tolerance, o.MinTrials)
}

// Report is what is printed as JSON; its schema is ReportSchema.
type Report struct {
	Schema      int          `json:"schema"`
	Options     Options      `json:"options"`
	Rule        string       `json:"rule"`
	Verdict     Verdict      `json:"verdict"` // the worst of those that were judged
	Sets        []SetInfo    `json:"sets"`    // A first
	Differences []Difference `json:"differences"`
	Metrics     []MetricRow  `json:"metrics"`
}

// SetInfo describes one set.
type SetInfo struct {
	Letter    string   `json:"letter"`
	Name      string   `json:"name"`
	Source    string   `json:"source"`
	Engine    string   `json:"engine"`
	Trials    int      `json:"trials"`
	Unfit     int      `json:"unfit"`                  // trials whose run was unfaithful
	UnfitWhy  string   `json:"unfit_reason,omitempty"` // of the first
	Artefacts []string `json:"artefacts,omitempty"`
	Notes     []string `json:"notes,omitempty"`
}

// MetricRow is one metric of all sets.
type MetricRow struct {
	Name    string  `json:"name"`
	Title   string  `json:"title"`
	Unit    string  `json:"unit"`
	Verdict Verdict `json:"verdict"` // the worst of the sets
	Sets    []Stats `json:"sets"`
}

// Stats are the figures of one metric of one set; those that compare with A
// are unknown for A itself. Unknown figures are null.
type Stats struct {
	Trials   int            `json:"trials"` // with values
	Values   int            `json:"values"`
	Mean     results.Number `json:"mean"`      // over trials, of the trial's mean
	SD       results.Number `json:"sd"`        // of all values
	SDTrials results.Number `json:"sd_trials"` // of the trial means
	SE       results.Number `json:"se"`        // of the mean
	P50      results.Number `json:"p50"`
	P90      results.Number `json:"p90"`
	P99      results.Number `json:"p99"`
	Low      results.Number `json:"low"` // 95 % interval of the mean
	High     results.Number `json:"high"`

	Ratio       results.Number `json:"ratio"` // of the means, to A
	RatioLow    results.Number `json:"ratio_low"`
	RatioHigh   results.Number `json:"ratio_high"`
	KS          results.Number `json:"ks"` // 0..1
	Wasserstein results.Number `json:"wasserstein"`
	P           results.Number `json:"p"`
	Verdict     Verdict        `json:"verdict,omitempty"` // "" for A
	Reason      string         `json:"reason,omitempty"`
}

// Comparison is a report with the values behind it.
type Comparison struct {
	Report  Report
	samples [][]sample // by metric, by set
}

// Compare compares every set with the first. It needs two sets, each with at
// least one trial.
func Compare(sets []*results.TrialSet, o Options) (*Comparison, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if len(sets) < 2 {
		return nil, errors.New("compare: want two sets or more")
	}
	if len(sets) > 26 {
		return nil, errors.New("compare: want at most 26 sets")
	}
	c := &Comparison{Report: Report{Schema: Schema, Options: o, Rule: o.Rule(), Differences: differences(sets), Verdict: NotJudged}}
	for i, s := range sets {
		if len(s.Trials) == 0 {
			return nil, fmt.Errorf("compare: %s: %w", s.Name, results.ErrNotTrials)
		}
		info := SetInfo{
			Letter: string(rune('A' + i)), Name: s.Name, Source: s.Source, Engine: s.Engine, Trials: len(s.Trials),
			Artefacts: s.Artefacts, Notes: slices.Concat(s.Notes, mixtures(s)),
		}
		for _, t := range s.Trials {
			if t.Unfit() {
				if info.Unfit == 0 {
					info.UnfitWhy = t.FidelityReason
				}
				info.Unfit++
			}
		}
		c.Report.Sets = append(c.Report.Sets, info)
	}
	judged := false
	for i := range metrics {
		row, samples := metrics[i].compare(sets, &o)
		if row == nil {
			continue
		}
		c.Report.Metrics = append(c.Report.Metrics, *row)
		c.samples = append(c.samples, samples)
		if row.Verdict == NotJudged {
			continue
		}
		if !judged || badness[row.Verdict] > badness[c.Report.Verdict] {
			c.Report.Verdict = row.Verdict
		}
		judged = true
	}
	return c, nil
}

// compare makes the row of a metric, nil where no set measured it.
func (m *metric) compare(sets []*results.TrialSet, o *Options) (*MetricRow, []sample) {
	samples := make([]sample, len(sets))
	measured := false
	for i, s := range sets {
		samples[i] = m.sample(s, o.Force)
		measured = measured || len(samples[i].means) > 0
	}
	if !measured {
		return nil, nil
	}
	row := &MetricRow{Name: m.name, Title: m.title, Unit: m.unit, Verdict: Agree}
	var first []float64 // resampled means of A
	for i := range samples {
		s := &samples[i]
		boot := s.bootstrap(o.Resamples, core.Stream(o.Seed, fmt.Sprintf("compare/bootstrap/%s/%d", m.name, i)))
		st := s.stats(boot)
		if i == 0 {
			first = boot
		} else {
			a := &samples[0]
			st.against(row.Sets[0], first, boot)
			if len(a.means) > 0 && len(s.means) > 0 {
				d := newDistance(a.trials, s.trials)
				ks, w := d.between(d.labels())
				st.KS, st.Wasserstein = results.Number(ks), results.Number(w)
				if len(a.means) > 1 && len(s.means) > 1 {
					p := d.test(ks, o.Permutations, core.Stream(o.Seed, fmt.Sprintf("compare/permutation/%s/%d", m.name, i)))
					st.P = results.Number(p)
				}
			}
			st.judge(row.Sets[0], m.unjudged(sets[0], sets[i], a, s), o)
			if badness[st.Verdict] > badness[row.Verdict] {
				row.Verdict = st.Verdict
			}
		}
		row.Sets = append(row.Sets, st)
	}
	return row, samples
}

// unjudged says why the metric cannot be judged for two sets, "" where it can.
func (m *metric) unjudged(a, b *results.TrialSet, sa, sb *sample) string {
	for _, s := range [...]*results.TrialSet{a, b} {
		if why := s.Incomparable[m.name]; why != "" && a.Source != b.Source {
			return why
		}
	}
	for i, s := range [...]*sample{sa, sb} {
		if len(s.means) > 0 {
			continue
		}
		side := [...]*results.TrialSet{a, b}[i].Name
		if s.unfit > 0 {
			return fmt.Sprintf("the runs of %s were unfaithful, their times are no result", side)
		}
		return fmt.Sprintf("%s did not measure it", side)
	}
	return ""
}

func (s *sample) stats(boot []float64) Stats {
	u := results.Unknown()
	st := Stats{
		Trials: len(s.means), Mean: u, SD: u, SDTrials: u, SE: u, P50: u, P90: u, P99: u, Low: u, High: u,
		Ratio: u, RatioLow: u, RatioHigh: u, KS: u, Wasserstein: u, P: u,
	}
	if len(s.means) == 0 {
		return st
	}
	all := slices.Concat(s.trials...)
	slices.Sort(all)
	st.Values = len(all)
	st.Mean = results.Number(stat.Mean(s.means, nil))
	if len(all) > 1 {
		st.SD = results.Number(stat.StdDev(all, nil))
	}
	st.P50, st.P90, st.P99 = percentile(all, .5), percentile(all, .9), percentile(all, .99)
	if n := len(s.means); n > 1 {
		sd := stat.StdDev(s.means, nil)
		st.SDTrials, st.SE = results.Number(sd), results.Number(sd/math.Sqrt(float64(n)))
		st.Low, st.High = interval(boot)
	}
	return st
}

// percentile returns the smallest of ascending values that at least the share
// q of them does not exceed.
func percentile(v []float64, q float64) results.Number {
	i := int(math.Ceil(q*float64(len(v)))) - 1
	return results.Number(v[min(max(i, 0), len(v)-1)])
}

// interval returns the middle 95 % of v.
func interval(v []float64) (low, high results.Number) {
	if len(v) == 0 {
		return results.Unknown(), results.Unknown()
	}
	s := slices.Clone(v)
	slices.Sort(s)
	return percentile(s, .025), percentile(s, .975)
}

// against fills in the ratio to A.
func (st *Stats) against(a Stats, bootA, boot []float64) {
	if st.Trials == 0 || a.Trials == 0 || a.Mean == 0 {
		return
	}
	st.Ratio = st.Mean / a.Mean
	if st.Trials < 2 || a.Trials < 2 {
		return
	}
	ratios := make([]float64, 0, len(boot))
	for i := range boot {
		if bootA[i] != 0 {
			ratios = append(ratios, boot[i]/bootA[i])
		}
	}
	st.RatioLow, st.RatioHigh = interval(ratios)
}

// judge applies the rule.
func (st *Stats) judge(a Stats, unjudged string, o *Options) {
	if unjudged != "" {
		st.Verdict, st.Reason = NotJudged, unjudged
		return
	}
	if n := min(st.Trials, a.Trials); n < o.MinTrials {
		st.Verdict = TooFew
		st.Reason = fmt.Sprintf("%d and %d trials, want %d each", a.Trials, st.Trials, o.MinTrials)
		return
	}
	margin := o.Tolerance * math.Abs(float64(a.Mean))
	// A hair for rounding: equal means of equal counts must agree at 0.
	hair := 1e-12 * math.Abs(float64(a.Mean))
	diff := math.Abs(float64(st.Mean - a.Mean))
	errs := 2 * math.Hypot(float64(st.SE), float64(a.SE))
	means := diff <= errs+hair || diff <= margin+hair
	distributions := float64(st.P) >= o.Alpha || float64(st.Wasserstein) <= margin+hair
	st.Verdict = Agree
	if !means || !distributions {
		st.Verdict = Differ
	}
	switch {
	case !means:
		st.Reason = fmt.Sprintf("means differ by %.4g, more than 2 standard errors (%.4g) and the tolerance (%.4g)", diff, errs, margin)
	case !distributions:
		st.Reason = fmt.Sprintf("means agree, distributions do not: p %.2g, Wasserstein-1 %.4g above the tolerance (%.4g)",
			float64(st.P), float64(st.Wasserstein), margin)
	}
}
