package compare

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"churnbed/results"
)

// metric is one figure of trials: many values a trial, or one.
type metric struct {
	name, title, unit string
	// fit: the figure is no result where the host did not keep up.
	fit bool
	of  func(*results.Trial) []float64 // none where not measured
}

func one(v float64) []float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return []float64{v}
}

func perCS(total func(*results.Trial) results.Number) func(*results.Trial) []float64 {
	return func(t *results.Trial) []float64 { return one(float64(total(t)) / float64(t.Served)) }
}

func normalised(by func(*results.Trial) int) func(*results.Trial) []float64 {
	return func(t *results.Trial) []float64 {
		if len(t.WaitsMS) == 0 {
			return nil
		}
		return one(stat.Mean(t.WaitsMS, nil) / float64(by(t)))
	}
}

// metrics in the order in which they are shown.
var metrics = []metric{
	{"wait", "wait", "ms", true, func(t *results.Trial) []float64 { return t.WaitsMS }},
	{"client_delay", "client delay (wait without contention)", "ms", true, func(t *results.Trial) []float64 { return t.ClientMS }},
	{"sync_delay", "synchronisation delay", "ms", true, func(t *results.Trial) []float64 { return t.SyncMS }},
	{"wait_by_requesters", "mean wait / requests under way at most", "ms", true, normalised(func(t *results.Trial) int { return t.Requesters })},
	{"wait_by_nodes", "mean wait / nodes", "ms", true, normalised(func(t *results.Trial) int { return t.Nodes })},
	{"e2e_per_cs", "end-to-end messages per entry", "", false, perCS(func(t *results.Trial) results.Number { return t.E2EMessages })},
	{"h2h_per_cs", "hop-to-hop messages per entry", "", false, perCS(func(t *results.Trial) results.Number { return t.H2HMessages })},
	{"bytes_per_cs", "bytes per entry, end to end", "B", false, perCS(func(t *results.Trial) results.Number { return t.Bytes })},
	{"served_share", "share of requests served", "", true, func(t *results.Trial) []float64 { return one(float64(t.Served) / float64(t.Issued)) }},
	{"violations", "violations (pairs)", "", false, func(t *results.Trial) []float64 { return one(float64(t.Violations)) }},
	{"routine_delay", "trigger of a routine to its execution, mean", "ms", true, groups(func(g *results.GroupSummary) results.Number { return g.ClientMS.Mean })},
	{"lock_acquisition", "request for a routine's locks to its execution, mean", "ms", true, groups(func(g *results.GroupSummary) results.Number { return g.AcquireMS.Mean })},
	{"lock_handover", "end of a device's use to the grant to who waits, mean", "ms", true, groups(func(g *results.GroupSummary) results.Number { return g.SyncMS.Mean })},
	{"quorum", "delay of a quorum, mean", "ms", true, groups(func(g *results.GroupSummary) results.Number { return g.QuorumMS.Mean })},
	{"election", "length of an election, mean", "ms", true, groups(func(g *results.GroupSummary) results.Number { return g.ElectionMS.Mean })},
	{"transfer", "transfer of a group's state, mean", "ms", true, groups(func(g *results.GroupSummary) results.Number { return g.TransferMS.Mean })},
	{"migration_gap", "time without monitoring in a migration, mean", "ms", true, groups(func(g *results.GroupSummary) results.Number { return g.GapMS.Mean })},
	{"executed_share", "share of triggered routines executed", "", true, groups(func(g *results.GroupSummary) results.Number {
		return results.Number(float64(g.Executed) / float64(g.Triggered))
	})},
	{"foreground", "foreground bytes a second of a managing node", "B/s", false, groups(func(g *results.GroupSummary) results.Number { return g.Foreground.Mean })},
	{"background", "background bytes a second of a managing node", "B/s", false, groups(func(g *results.GroupSummary) results.Number { return g.Background.Mean })},
	{"group_violations", "violations by k-groups", "", false, groups(func(g *results.GroupSummary) results.Number { return results.Number(g.Found()) })},
}

// groups takes a figure of trials with k-groups; others have none.
func groups(of func(*results.GroupSummary) results.Number) func(*results.Trial) []float64 {
	return func(t *results.Trial) []float64 {
		if t.Summary == nil || t.Summary.Groups == nil {
			return nil
		}
		return one(float64(of(t.Summary.Groups)))
	}
}

// sample is one metric of one set: the values of the trials that have any.
type sample struct {
	trials [][]float64
	means  []float64 // of each trial
	unfit  int       // trials left out because their run was unfaithful
}

func (m *metric) sample(set *results.TrialSet, force bool) sample {
	var s sample
	for _, t := range set.Trials {
		v := m.of(t)
		switch {
		case len(v) == 0:
		case m.fit && t.Unfit() && !force:
			s.unfit++
		default:
			s.trials = append(s.trials, v)
			s.means = append(s.means, stat.Mean(v, nil))
		}
	}
	return s
}

// bootstrap returns the means of n resamples of whole trials.
func (s *sample) bootstrap(n int, rng *rand.Rand) []float64 {
	if len(s.means) == 0 {
		return nil
	}
	out := make([]float64, n)
	for i := range out {
		sum := 0.0
		for range s.means {
			sum += s.means[rng.IntN(len(s.means))]
		}
		out[i] = sum / float64(len(s.means))
	}
	return out
}

// distance holds the values of two sets sorted together, each with its
// trial, so that trials can change sides without sorting again.
type distance struct {
	values []float64
	trial  []int32
	count  []int // values of each trial
	a      int   // the first so many trials are A's
}

func newDistance(a, b [][]float64) *distance {
	d := &distance{a: len(a)}
	type tagged struct {
		v     float64
		trial int32
	}
	var all []tagged
	for i, t := range slices.Concat(a, b) {
		d.count = append(d.count, len(t))
		for _, v := range t {
			all = append(all, tagged{v, int32(i)})
		}
	}
	slices.SortFunc(all, func(x, y tagged) int { return cmp.Compare(x.v, y.v) })
	d.values, d.trial = make([]float64, len(all)), make([]int32, len(all))
	for i, t := range all {
		d.values[i], d.trial[i] = t.v, t.trial
	}
	return d
}

// labels tells for each trial whether it is A's.
func (d *distance) labels() []bool {
	inA := make([]bool, len(d.count))
	for i := range d.a {
		inA[i] = true
	}
	return inA
}

// between returns the Kolmogorov-Smirnov and the Wasserstein-1 distance of
// the values of the trials in A and of the others.
func (d *distance) between(inA []bool) (ks, wasserstein float64) {
	na, nb := 0, 0
	for i, n := range d.count {
		if inA[i] {
			na += n
		} else {
			nb += n
		}
	}
	if na == 0 || nb == 0 {
		return 0, 0
	}
	ka, kb := 0, 0
	for i, v := range d.values {
		if inA[d.trial[i]] {
			ka++
		} else {
			kb++
		}
		if i+1 == len(d.values) || d.values[i+1] != v { // the step is whole
			gap := math.Abs(float64(ka)/float64(na) - float64(kb)/float64(nb))
			ks = max(ks, gap)
			if i+1 < len(d.values) {
				wasserstein += gap * (d.values[i+1] - v)
			}
		}
	}
	return ks, wasserstein
}

// test returns the share of assignments of whole trials to the two sets whose
// distance is at least ks, the observed one counted among them.
func (d *distance) test(ks float64, permutations int, rng *rand.Rand) float64 {
	inA := d.labels()
	reached := 1
	for range permutations {
		rng.Shuffle(len(inA), func(i, j int) { inA[i], inA[j] = inA[j], inA[i] })
		if other, _ := d.between(inA); other >= ks-1e-12 {
			reached++
		}
	}
	return float64(reached) / float64(permutations+1)
}
