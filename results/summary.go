package results

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"churnbed/node/core"
)

// Summary is summary.json, schema 1 (results/schema/summary.schema.json).
// Times are milliseconds of scenario time but for Timing, which is real time.
// Figures that are unknown are null.
type Summary struct {
	Schema    int     `json:"schema"`
	Engine    string  `json:"engine"`
	Fabric    string  `json:"fabric"`
	Algorithm string  `json:"algorithm"`
	Members   string  `json:"membership_service"`
	Seed      uint64  `json:"seed"`
	TimeScale float64 `json:"time_scale"`
	Nodes     int     `json:"nodes"`
	Links     int     `json:"links"`

	// Verdict is the worst of VerdictViolation, VerdictLogErrors,
	// VerdictStarved and VerdictOK.
	Verdict     string `json:"verdict"`
	Interrupted bool   `json:"interrupted"`

	Requests   RequestCounts   `json:"requests"`
	Safety     SafetyCounts    `json:"safety"`
	WaitMS     Dist            `json:"wait_ms"`
	Normalised NormalisedWait  `json:"wait_normalised_ms"`
	ClientMS   Dist            `json:"client_delay_ms"` // waits without contention
	SyncMS     Dist            `json:"sync_delay_ms"`   // exit to the enter of the next already waiting
	Messages   Messages        `json:"messages"`
	Fairness   Fairness        `json:"fairness"`
	Tokens     *Tokens         `json:"tokens,omitempty"`
	Local      *Local          `json:"local,omitempty"`
	Churn      Churn           `json:"churn"`
	Membership MembershipStats `json:"membership"`
	Fidelity   Fidelity        `json:"fidelity"`
	Timing     Timing          `json:"timing"`
	// LiveActions counts what people did to the run by hand (controller.jsonl,
	// "fault"), which its scenario does not tell.
	LiveActions int      `json:"live_actions"`
	Logs        LogStats `json:"logs"`
	// Processes is there where the run had real processes.
	Processes *ProcessSummary `json:"processes,omitempty"`
	// Groups is there where the run had k-groups.
	Groups *GroupSummary `json:"groups,omitempty"`
}

// Verdicts of a run.
const (
	VerdictOK        = "ok"
	VerdictStarved   = "starved"    // a request waited out of proportion and was not served
	VerdictLogErrors = "log errors" // the logs contradict themselves
	VerdictViolation = "violation"  // more nodes than may were in the critical section, or tokens were made, lost or out of order
)

// RequestCounts counts requests; Issued = Served + Unserved + Aborted. A
// request that is given up when its node is fenced and made again counts
// twice: once aborted, once by what became of it then.
type RequestCounts struct {
	Issued   int `json:"issued"`
	Served   int `json:"served"`
	Unserved int `json:"unserved"`
	Aborted  int `json:"aborted"`
	// Skipped arrivals never became a request: their node was down, or ended
	// while they were queued.
	Skipped         int            `json:"skipped"`
	UnservedReasons map[string]int `json:"unserved_reasons"`
	AbortedReasons  map[string]int `json:"aborted_reasons"`
	MaxOvertaken    int            `json:"max_overtaken"`
	// SlowPath counts the critical sections that were entered by way of
	// Camera's slow path.
	SlowPath int  `json:"slow_path"`
	Unfit    bool `json:"unfit,omitempty"` // liveness of an unfaithful run is no result
}

// SafetyCounts says whether mutual exclusion held; it is judged whatever the
// load.
type SafetyCounts struct {
	Violations     int    `json:"violations"` // pairs
	MaxConcurrent  int    `json:"max_concurrent"`
	ViolationMS    Number `json:"violation_ms"`
	ZombieOverlaps int    `json:"zombie_overlaps"`
	ZombieMS       Number `json:"zombie_ms"`
}

// NormalisedWait is the mean wait divided by the largest number of requests
// under way at once, and by the number of nodes.
type NormalisedWait struct {
	ByRequesters Number `json:"by_requesters"`
	ByNodes      Number `json:"by_nodes"`
	Requesters   int    `json:"requesters"`
	Unfit        bool   `json:"unfit,omitempty"`
}

// Churn counts what was done to nodes. Hit counts the protocol state that
// each kill or pause met.
type Churn struct {
	Kills    int            `json:"kills"`
	Restarts int            `json:"restarts"`
	Pauses   int            `json:"pauses"`
	Leaves   int            `json:"leaves"`
	Joins    int            `json:"joins"`
	Hit      map[string]int `json:"hit"`
}

// MembershipStats describe the membership lists from the epoch to the end of
// the run, the node itself counted.
type MembershipStats struct {
	SizeMean Number `json:"size_mean"` // over time and nodes that are up
	SizeMin  Number `json:"size_min"`
	// FalsePositives counts lives that were declared failed while they ran
	// (a stopped process apart); FalsePositiveEvents how often.
	FalsePositives      int    `json:"false_positives"`
	FalsePositiveEvents int    `json:"false_positive_events"`
	MFPShare            Number `json:"mfp_share"`
	MFPPairs            int    `json:"mfp_pairs"`
	DetectionMS         Dist   `json:"detection_ms"` // kill to the first node that declares it
	Undetected          int    `json:"undetected"`   // killed lives that nobody declared failed
}

// LogStats tell about the logs themselves.
type LogStats struct {
	Errors int        `json:"errors"`
	Cut    int        `json:"cut_lines"`
	First  []LogError `json:"first,omitempty"` // the first few errors
}

// Failed reports whether the run failed a check: its safety, its logs, or,
// where the host kept up, its liveness.
func (s *Summary) Failed() bool {
	return s.Verdict != VerdictOK && (s.Verdict != VerdictStarved || !s.Requests.Unfit)
}

// Summarise reads the logs of a run once and computes its summary.
func Summarise(r *Run) (*Summary, error) {
	s, _, err := Judge(r)
	return s, err
}

// Judge reads the logs once and returns both the summary and the verdict it
// rests on. Two judges of safety, which share no code but the reading of the
// logs, must find the same; else the error is ErrJudgesDisagree.
func Judge(r *Run) (*Summary, *Verdict, error) {
	h, v, err := judged(r)
	if err != nil {
		return nil, nil, err
	}
	return h.summary(v), v, nil
}

// countLinks takes the frame counts from links.csv where no slice told them.
func (h *history) countLinks() error {
	if h.metrics.frames > 0 {
		return nil
	}
	return h.run.ReadLinks(func(l LinkRow) error {
		h.metrics.frames += l.Frames
		h.fid.run.frames += l.Frames
		h.fid.run.dropped += l.Dropped
		h.fid.run.expected += l.ExpectedDrops
		return nil
	})
}

// settled is the instant from which fairness counts.
func (h *history) settled() int64 { return h.epoch + int64(h.run.Manifest.SettleMS*1e6) }

func (h *history) summary(v *Verdict) *Summary {
	m, x := &h.run.Manifest, &h.metrics
	d := h.delays()
	pairs, friends := h.friendship()
	fid := h.fid.verdict()
	unfit := fid.Verdict == Unfaithful
	s := &Summary{
		Schema: Schema, Engine: m.Engine, Fabric: m.Fabric, Algorithm: m.Algorithm, Members: m.Membership, Seed: m.Seed,
		TimeScale: m.TimeScale, Nodes: m.Nodes, Links: m.Links, Interrupted: h.interrupted || m.Interrupted,
		Requests: RequestCounts{
			Issued: v.Issued, Served: v.Served, Unserved: total(v.Unserved), Aborted: total(v.Aborted), Skipped: x.skipped(m.Arrivals),
			UnservedReasons: v.Unserved, AbortedReasons: v.Aborted, MaxOvertaken: v.MaxOvertaken, SlowPath: x.slowPath, Unfit: unfit,
		},
		Safety: SafetyCounts{
			Violations: v.ViolationCount, MaxConcurrent: v.MaxConcurrent, ViolationMS: Number(float64(v.ViolationTime) / 1e6),
			ZombieOverlaps: v.ZombieCount, ZombieMS: Number(float64(v.ZombieTime) / 1e6),
		},
		WaitMS: distribution(d.wait), ClientMS: distribution(d.client), SyncMS: distribution(d.sync),
		Messages: x.messages(v.Served),
		Fairness: fairness(h.requests, v.Holders, h.settled()),
		Churn:    Churn{x.kills, x.restarts, x.pauses, x.leaves, x.joins, x.hit},
		Membership: MembershipStats{
			SizeMean: ratio(x.sizeArea, x.sizeTime), SizeMin: Unknown(),
			FalsePositives: len(x.falsePositives), FalsePositiveEvents: x.falseEvents,
			MFPShare: ratio(float64(friends), float64(pairs)), MFPPairs: pairs,
			DetectionMS: distribution(x.detections), Undetected: x.killedLives - len(x.detections),
		},
		Fidelity: fid, Timing: m.Timing, LiveActions: x.liveActions,
		Logs: LogStats{Errors: h.logErrorCount, Cut: len(h.cuts), First: h.logErrors[:min(len(h.logErrors), 10)]},
	}
	if x.sizeMin > 0 {
		s.Membership.SizeMin = Number(x.sizeMin)
	}
	s.Normalised = NormalisedWait{
		ByRequesters: ratio(float64(s.WaitMS.Mean), float64(d.requesters)), ByNodes: ratio(float64(s.WaitMS.Mean), float64(m.Nodes)),
		Requesters: d.requesters, Unfit: unfit,
	}
	for _, t := range []*Dist{&s.WaitMS, &s.ClientMS, &s.SyncMS, &s.Membership.DetectionMS} {
		t.Unfit = unfit
	}
	s.Fairness.Unfit = unfit
	s.Processes = h.processes.summary(func(core.NodeID) bool { return true })
	if h.groups != nil {
		s.Groups = &h.groups.sum
		s.Groups.Processes = h.processes.summary(func(n core.NodeID) bool { return h.groups.manages[n] })
		if unfit {
			s.Groups.unfit()
		}
	}
	s.Tokens = v.Tokens
	if s.Local = v.Local; s.Local != nil {
		s.Local.LockMS.Unfit = unfit
	}
	s.Verdict = v.verdict()
	return s
}

// verdict names the worst finding.
func (v *Verdict) verdict() string {
	switch {
	case !v.Safe() || v.GroupCount > 0 || v.Tokens.Wrong() || v.Local.Wrong():
		return VerdictViolation
	case v.LogErrorCount > 0:
		return VerdictLogErrors
	case v.Unserved[UnservedWaiting] > 0 || v.RoutinesStarved > 0:
		return VerdictStarved
	}
	return VerdictOK
}

// ReadSummary reads a summary that WriteSummary wrote.
func ReadSummary(r io.Reader) (*Summary, error) {
	var s Summary
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return nil, fmt.Errorf("read summary: %w", err)
	}
	if s.Schema != Schema {
		return nil, fmt.Errorf("read summary: schema %d, this version reads %d", s.Schema, Schema)
	}
	return &s, nil
}

// CutShort says of an interrupted run what its figures are worth.
const CutShort = "the run did not go on to its end (interrupted, killed or still under way): this covers what was logged"

// Print writes the summary of the run in dir as a short table.
func (s *Summary) Print(w io.Writer, dir string) error {
	p := &printer{w: w}
	unfit := ""
	if s.WaitMS.Unfit {
		unfit = "   UNFIT: the host did not keep up"
	}
	what := s.Engine
	if s.Fabric != "" {
		what += " (" + s.Fabric + ")"
	}
	p.row("run", "%s, %d nodes, %d links, seed %d%s", what, s.Nodes, s.Links, s.Seed, scaleNote(s.TimeScale))
	if s.Groups == nil {
		p.row("requests", "%d served of %d; %d aborted%s, %d unserved%s, %d skipped%s", s.Requests.Served, s.Requests.Issued,
			s.Requests.Aborted, reasons(s.Requests.AbortedReasons), s.Requests.Unserved, reasons(s.Requests.UnservedReasons),
			s.Requests.Skipped, unfit)
		if n := s.Requests.SlowPath; n > 0 {
			p.row("slow path", "%d of %d entries", n, s.Requests.Served)
		}
		d := s.WaitMS
		p.row("wait", "mean %s  p50 %s  p99 %s  max %s%s", ms(d.Mean), ms(d.P50), ms(d.P99), ms(d.Max), unfit)
		p.row("messages per entry", "%s end to end, %s hop to hop%s", num(s.Messages.E2EPerCS), num(s.Messages.H2HPerCS), sourceNote(s.Messages.H2HSource))
	}
	hit := ""
	if s.Groups == nil {
		hit = fmt.Sprintf(" (hit %d idle, %d waiting, %d holding)", s.Churn.Hit["NONE"], s.Churn.Hit["WAIT"], s.Churn.Hit["HELD"])
	}
	p.row("churn", "%d kills, %d restarts, %d pauses, %d leaves, %d joins%s", s.Churn.Kills,
		s.Churn.Restarts, s.Churn.Pauses, s.Churn.Leaves, s.Churn.Joins, hit)
	p.membership(s)
	if f := s.Fairness; f.K > 1 {
		p.row("fairness", "k %d, time to token: mean %s  max %s; spread of a node up to %s; Jain %s", f.K, ms(f.MTTTMS), ms(f.MaxMS), ms(f.SpreadMaxMS), num(f.Jain))
	}
	s.Tokens.print(p)
	s.Local.print(p, s.Requests.Served)
	if s.LiveActions > 0 {
		p.row("by hand", "%d actions while it ran; `churnbed scenario from-run %s` writes them down as a scenario", s.LiveActions, dir)
	}
	safety := "SAFE: " + s.Promise()
	if s.Safety.Violations > 0 {
		safety = fmt.Sprintf("VIOLATED: overlapping pairs: %d, %s ms in all, up to %d holders at once", s.Safety.Violations,
			num(s.Safety.ViolationMS), s.Safety.MaxConcurrent)
	}
	if s.Safety.ZombieOverlaps > 0 {
		safety += fmt.Sprintf("; overlaps with holders declared failed: %d, %s ms", s.Safety.ZombieOverlaps, num(s.Safety.ZombieMS))
	}
	p.processes("processes", s.Processes)
	if s.Groups != nil {
		p.groups(s.Groups)
	} else {
		p.row("safety", "%s", safety)
	}
	fid := strings.ToUpper(s.Fidelity.Verdict)
	if s.Fidelity.Reason != "" {
		fid += ": " + s.Fidelity.Reason
		if s.Fidelity.TimeScale > s.TimeScale {
			fid += fmt.Sprintf("; time-scale %g should do", s.Fidelity.TimeScale)
		}
	}
	p.row("fidelity", "%s", fid)
	if s.Logs.Errors+s.Logs.Cut > 0 {
		p.row("logs", "%d errors, %d cut lines", s.Logs.Errors, s.Logs.Cut)
	}
	if s.Interrupted {
		p.row("cut short", "%s", CutShort)
	}
	p.row("verdict", "%s", s.Verdict)
	p.row("run directory", "%s", dir)
	return p.err
}

// Promise says what holds in a run that is safe.
func (s *Summary) Promise() string {
	switch {
	case s.Groups != nil:
		return "routines, locks, leaders and inherited state"
	case s.Local != nil:
		return "no two lock sets intersected"
	case s.Fairness.K > 1:
		return fmt.Sprintf("never more than %d in the critical section", s.Fairness.K)
	}
	return "never two in the critical section"
}

// membership prints what the lists were where the algorithm uses them. Who
// sends tokens needs no mutual friend, who locks neighbours no list, and of
// nodes with k-groups only the smart ones list anybody but themselves.
func (p *printer) membership(s *Summary) {
	m := &s.Membership
	switch {
	case s.Local != nil, s.Algorithm == "hub":
	case s.Groups != nil:
		p.row("membership", "%d false positives", m.FalsePositives)
	case s.Tokens != nil || m.MFPPairs == 0:
		p.row("membership", "smallest list %s, mean %s, %d false positives", num(m.SizeMin), num(m.SizeMean), m.FalsePositives)
	default:
		p.row("membership", "smallest list %s, mean %s, %d false positives, mutual friend in %s of %d pairs", num(m.SizeMin),
			num(m.SizeMean), m.FalsePositives, percent(m.MFPShare), m.MFPPairs)
	}
}

// printer writes rows; the first error sticks.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) row(name, format string, args ...any) {
	p.printf("%-19s %s\n", name, fmt.Sprintf(format, args...))
}

func num(n Number) string {
	if !n.Known() {
		return "-"
	}
	if n >= 1000 || n <= -1000 { // %g would write 1.441e+04
		return fmt.Sprintf("%.0f", float64(n))
	}
	return fmt.Sprintf("%.4g", float64(n))
}

func ms(n Number) string {
	if !n.Known() {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", float64(n))
}

func percent(n Number) string {
	if !n.Known() {
		return "-"
	}
	return fmt.Sprintf("%.4g %%", 100*float64(n))
}

func scaleNote(k float64) string {
	if k == 1 {
		return ""
	}
	return fmt.Sprintf(", time-scale %g (times are scenario time)", k)
}

func sourceNote(source string) string {
	if source == "counted" {
		return ""
	}
	return " (" + source + ")"
}

func reasons(m map[string]int) string {
	if total(m) == 0 {
		return ""
	}
	var parts []string
	for k, n := range m {
		parts = append(parts, fmt.Sprintf("%d %s", n, k))
	}
	slices.Sort(parts)
	return " (" + strings.Join(parts, ", ") + ")"
}
