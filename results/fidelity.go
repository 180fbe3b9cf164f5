package results

import (
	"fmt"
	"math"
	"strings"

	"churnbed/node/eventlog"
)

// Fidelity verdicts, from good to bad.
const (
	Faithful   = "faithful"   // times are results
	Strained   = "strained"   // times are results to be read with the reason beside them
	Unfaithful = "unfaithful" // times and liveness are unfit; safety stands
)

// grade is a fidelity verdict with an order.
type grade int

const (
	gradeFaithful grade = iota
	gradeStrained
	gradeUnfaithful
)

func (g grade) String() string { return [...]string{Faithful, Strained, Unfaithful}[g] }

// limit is one row of the table of thresholds: up to Faithful is faithful, up
// to Strained strained, above unfaithful. Share is of the median configured
// link delay, Floor (ms) for meshes with little or no delay; the larger of
// the two counts. All in scenario time, so a larger time scale helps.
type limit struct {
	name           string
	faithfulShare  float64
	faithfulFloor  float64
	strainedShare  float64
	strainedFloor  float64
	whatItDisturbs string
}

// The table of thresholds. The reason for each stands beside it.
var (
	// A median shift of every hop shifts every wait by the same share; 5 %
	// is half of the 10 % to which waits are compared with path delays.
	limitDelayP50 = limit{"median delay error", .05, .1, .2, .5, "every wait is longer by the same share"}
	// A wait is the largest of about N answers, so that one late hop in a
	// hundred decides it: late by half a hop is still small beside a path of
	// several hops, late by two hops is a longer path.
	limitDelayP99 = limit{"p99 delay error", .5, 1, 2, 5, "the slowest answer decides a wait"}
	// The relay's own lateness is part of the delay error; it is held to the
	// same, to tell the fabric's fault from the node processes'.
	limitLate = limit{"p99 lateness of the relay", .5, 1, 2, 5, "frames leave the fabric late"}
	// Timers drive retransmission (tens of ms and more) and membership (500
	// ms): they stand more than a datagram does.
	limitTimer = limit{"p99 lateness of node timers", 1, 2, 4, 20, "retransmissions and suspicions come late"}
)

const (
	// lossSigma: up to so many standard deviations of the binomial
	// distribution a loss is what chance gives (1 of 15,000 runs by mistake).
	lossSigma = 4.0
	// Beyond chance, relative deviation from the configured loss.
	lossFaithful, lossStrained = .05, .20
	// unplannedFaithful and unplannedStrained are shares of the frames that
	// were lost unasked; one part in ten thousand adds less than a hundredth
	// to a loss of 1 %. A single frame is always forgiven.
	unplannedFaithful, unplannedStrained = 1e-4, 1e-3
	// cpuFaithful: above it run queues grow. It strains only: a host may be
	// busy with other things and still be in time, which the delays show.
	cpuFaithful = .9
	// badSlices is the share of unfaithful slices that makes a run
	// unfaithful whatever its averages say.
	badSlices = .1
)

// bounds returns the two thresholds in ms for a link delay in ms.
func (l *limit) bounds(delay float64) (faithful, strained float64) {
	return max(l.faithfulFloor, l.faithfulShare*delay), max(l.strainedFloor, l.strainedShare*delay)
}

// histogram counts over eventlog.Bounds.
type histogram struct {
	counts [len(eventlog.Bounds) + 1]int64
	n      int64
	max    int64
}

func (h *histogram) add(counts []int64, largest int64) {
	for i, c := range counts {
		if i < len(h.counts) && c > 0 {
			h.counts[i] += c
			h.n += c
		}
	}
	h.max = max(h.max, largest)
}

func (h *histogram) merge(o *histogram) { h.add(o.counts[:], o.max) }

// quantile returns the p-quantile in ms, linear inside a bucket, unknown
// where nothing was counted.
func (h *histogram) quantile(p float64) Number {
	if h.n == 0 {
		return Unknown()
	}
	rank := p * float64(h.n)
	below := 0.0
	for i, c := range h.counts {
		if c == 0 || below+float64(c) < rank {
			below += float64(c)
			continue
		}
		lo, hi := 0.0, float64(h.max)
		if i > 0 {
			lo = float64(eventlog.Bounds[i-1])
		}
		if i < len(eventlog.Bounds) {
			hi = float64(eventlog.Bounds[i])
			if h.max > 0 {
				hi = min(hi, max(lo, float64(h.max)))
			}
		}
		hi = max(hi, lo)
		return Number((lo + (hi-lo)*(rank-below)/float64(c)) / 1e6)
	}
	return Number(float64(h.max) / 1e6)
}

// window is what was measured over a slice or the run.
type window struct {
	to                         int64 // scenario instant of its end
	delay, timer               histogram
	rcvbuf                     int64
	frames, dropped, unplanned int64
	expected                   float64
	realMS, busyMS             float64
	late                       float64 // ms scenario, largest p99
	hosts                      int
}

func (w *window) merge(o *window) {
	w.to = o.to
	w.delay.merge(&o.delay)
	w.timer.merge(&o.timer)
	w.rcvbuf += o.rcvbuf
	w.frames += o.frames
	w.dropped += o.dropped
	w.unplanned += o.unplanned
	w.expected += o.expected
	w.realMS += o.realMS
	w.busyMS += o.busyMS
	w.late = max(w.late, o.late)
	w.hosts += o.hosts
}

// fidelity gathers windows while the logs are read.
type fidelity struct {
	m     *Manifest
	now   window
	run   window
	parts []SliceFidelity
	bad   int
}

func newFidelity(m *Manifest) fidelity { return fidelity{m: m} }

// epoch drops what was measured while the nodes were brought up.
func (f *fidelity) epoch(int64) {
	f.now, f.run, f.parts, f.bad = window{}, window{}, nil, 0
}

func (f *fidelity) probe(p *eventlog.Probe) {
	f.now.delay.add(p.DelayErr, p.MaxErr)
	f.now.timer.add(p.TimerLag, 0)
	f.now.rcvbuf += p.RcvbufErrors
}

func (f *fidelity) slice(t int64, h *eventlog.Host) {
	w := &f.now
	w.to = t
	w.frames, w.dropped, w.unplanned, w.expected = h.Frames, h.Dropped, h.Unplanned, h.ExpectDrops
	w.realMS, w.busyMS = h.RealMS, h.CPUBusy*h.RealMS
	w.late = h.LateP99US / 1e3 / f.m.TimeScale
	w.hosts = 1
	f.closeSlice()
}

func (f *fidelity) closeSlice() {
	g, reasons, _ := f.judge(&f.now, false)
	if g == gradeUnfaithful {
		f.bad++
	}
	f.parts = append(f.parts, SliceFidelity{
		ToMS: Number(float64(f.now.to) / 1e6), Verdict: g.String(), Reason: strings.Join(reasons, "; "),
		DelayErrorMS: Error{f.now.delay.quantile(.5), f.now.delay.quantile(.99)}, CPUBusy: ratio(f.now.busyMS, f.now.realMS),
	})
	f.run.merge(&f.now)
	f.now = window{}
}

// finish adds what nodes told after the last slice to the run.
func (f *fidelity) finish() {
	f.run.merge(&f.now)
	f.now = window{}
}

// Error is a distribution of delay errors in ms of scenario time.
type Error struct {
	P50 Number `json:"p50"`
	P99 Number `json:"p99"`
}

// SliceFidelity is the verdict on one slice of the run, which ends at ToMS.
type SliceFidelity struct {
	ToMS         Number `json:"to_ms"`
	Verdict      string `json:"verdict"`
	Reason       string `json:"reason,omitempty"`
	DelayErrorMS Error  `json:"delay_error_ms"`
	CPUBusy      Number `json:"cpu_busy"`
}

// Fidelity says whether the host kept up with the run.
type Fidelity struct {
	Verdict        string  `json:"verdict"` // Faithful, Strained or Unfaithful
	Reason         string  `json:"reason"`  // "" where faithful
	DelayErrorMS   Error   `json:"delay_error_ms"`
	LossConfigured Number  `json:"loss_configured"` // share of frames, as they were spread over the links
	LossMeasured   Number  `json:"loss_measured"`
	TimerLagMS     Error   `json:"timer_lag_ms"`
	RelayLateMS    Number  `json:"relay_late_ms"` // largest p99 of a slice
	CPUBusy        Number  `json:"cpu_busy"`      // 0..1
	Unplanned      int64   `json:"unplanned_losses"`
	TimeScale      float64 `json:"time_scale_suggested"` // should make the run faithful
	// Slices since the epoch.
	Slices []SliceFidelity `json:"slices"`
}

// judge grades a window; scale is how much slower the run should go.
func (f *fidelity) judge(w *window, whole bool) (worst grade, reasons []string, scale float64) {
	scale = 1
	say := func(g grade, factor float64, format string, args ...any) {
		if g == gradeFaithful {
			return
		}
		worst = max(worst, g)
		scale = max(scale, factor)
		reasons = append(reasons, fmt.Sprintf(format, args...))
	}
	delay := f.m.Fidelity.LinkDelayMS
	hold := func(l *limit, v Number) {
		if !v.Known() {
			return
		}
		faithful, strained := l.bounds(delay)
		g := gradeFaithful
		switch {
		case float64(v) > strained:
			g = gradeUnfaithful
		case float64(v) > faithful:
			g = gradeStrained
		}
		say(g, float64(v)/faithful, "%s %.4g ms, at most %.4g ms is faithful (%s)", l.name, float64(v), faithful, l.whatItDisturbs)
	}
	hold(&limitDelayP50, w.delay.quantile(.5))
	hold(&limitDelayP99, w.delay.quantile(.99))
	hold(&limitTimer, w.timer.quantile(.99))
	hold(&limitLate, Number(w.late))
	say(gradeLoss(w), 1, "%d of %d frames were dropped by configured loss, %.0f were expected", w.dropped, w.frames, w.expected)
	lost := w.unplanned + w.rcvbuf
	say(gradeUnplanned(lost, w.frames), 2, "%d frames were lost unplanned (queues, buffers)", lost)
	if busy := ratio(w.busyMS, w.realMS); busy > cpuFaithful {
		say(gradeStrained, float64(busy)/.7, "processors %.0f %% busy", 100*float64(busy))
	}
	if whole && w.delay.n == 0 {
		say(gradeStrained, 1, "delays were not measured (no probes)")
	}
	return worst, reasons, scale
}

// gradeLoss compares drops with what was configured, beyond what chance
// explains.
func gradeLoss(w *window) grade {
	off := math.Abs(float64(w.dropped) - w.expected)
	if w.frames == 0 || off <= 1 {
		return gradeFaithful
	}
	sigma := math.Sqrt(w.expected * max(0, 1-w.expected/float64(w.frames)))
	switch {
	case off <= lossSigma*sigma || off <= lossFaithful*w.expected:
		return gradeFaithful
	case off-lossSigma*sigma <= lossStrained*w.expected:
		return gradeStrained
	}
	return gradeUnfaithful
}

func gradeUnplanned(lost, frames int64) grade {
	switch {
	case lost <= 1 || float64(lost) <= unplannedFaithful*float64(frames):
		return gradeFaithful
	case float64(lost) <= unplannedStrained*float64(frames):
		return gradeStrained
	}
	return gradeUnfaithful
}

// verdict grades the run.
func (f *fidelity) verdict() Fidelity {
	w := &f.run
	out := Fidelity{
		DelayErrorMS: Error{w.delay.quantile(.5), w.delay.quantile(.99)},
		TimerLagMS:   Error{w.timer.quantile(.5), w.timer.quantile(.99)},
		RelayLateMS:  Unknown(), CPUBusy: ratio(w.busyMS, w.realMS), Unplanned: w.unplanned + w.rcvbuf,
		LossConfigured: Number(f.m.Fidelity.LossConfigured), LossMeasured: ratio(float64(w.dropped), float64(w.frames)),
		TimeScale: f.m.TimeScale, Slices: f.parts,
	}
	if out.Slices == nil {
		out.Slices = []SliceFidelity{}
	}
	if w.frames > 0 {
		out.LossConfigured = Number(w.expected / float64(w.frames))
	}
	if w.hosts > 0 {
		out.RelayLateMS = Number(w.late)
	}
	if f.m.Engine == Simulated {
		out.Verdict = Faithful // virtual time is never late
		return out
	}
	worst, reasons, scale := f.judge(w, true)
	if n := len(f.parts); f.bad > 0 {
		g := gradeStrained
		if float64(f.bad) > badSlices*float64(n) {
			g = gradeUnfaithful
		}
		worst = max(worst, g)
		reasons = append(reasons, fmt.Sprintf("%d of %d slices were unfaithful", f.bad, n))
		scale = max(scale, 1.5)
	}
	out.Verdict, out.Reason = worst.String(), strings.Join(reasons, "; ")
	if worst > gradeFaithful && scale > 1 {
		out.TimeScale = roundUp(f.m.TimeScale * scale)
	}
	return out
}

// roundUp returns the next of 1, 1.5, 2, 3, 5, 7 times a power of ten.
func roundUp(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, s := range []float64{1, 1.5, 2, 3, 5, 7} {
		if v <= s*p*(1+1e-9) {
			return s * p
		}
	}
	return 10 * p
}
