package export

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"churnbed/results"
	"churnbed/results/timeline"
)

// waitBounds are the upper bounds, in seconds, of the wait histogram.
var waitBounds = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50, 100}

// families collects metric families that share labels.
type families struct {
	list   []*dto.MetricFamily
	labels []*dto.LabelPair
}

func label(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: proto.String(name), Value: proto.String(value)}
}

func (f *families) add(name, help, unit string, kind dto.MetricType, metrics ...*dto.Metric) {
	if len(metrics) == 0 {
		return
	}
	if kind == dto.MetricType_COUNTER {
		name += "_total" // as the library wants counters to be called
	}
	family := &dto.MetricFamily{Name: proto.String(name), Help: proto.String(help), Type: kind.Enum(), Metric: metrics}
	if unit != "" {
		family.Unit = proto.String(unit)
	}
	f.list = append(f.list, family)
}

func (f *families) labelled(more []*dto.LabelPair) []*dto.LabelPair {
	return append(slices.Clone(f.labels), more...)
}

func (f *families) gauge(v float64, more ...*dto.LabelPair) *dto.Metric {
	return &dto.Metric{Label: f.labelled(more), Gauge: &dto.Gauge{Value: proto.Float64(v)}}
}

func (f *families) counter(v int64, more ...*dto.LabelPair) *dto.Metric {
	return &dto.Metric{Label: f.labelled(more), Counter: &dto.Counter{Value: proto.Float64(float64(v))}}
}

// known adds a gauge where the figure was measured.
func (f *families) known(name, help, unit string, n results.Number, scale float64) {
	if n.Known() {
		f.add(name, help, unit, dto.MetricType_GAUGE, f.gauge(float64(n)*scale))
	}
}

// OpenMetrics writes the run's figures as OpenMetrics text 1.0, for a
// textfile collector or a push gateway. run names it in the label of that
// name.
func OpenMetrics(w io.Writer, t *timeline.Timeline, run string) error {
	s := t.Summary
	f := &families{labels: []*dto.LabelPair{
		label("run", run), label("engine", s.Engine), label("algorithm", s.Algorithm), label("membership", s.Members),
		label("seed", strconv.FormatUint(s.Seed, 10)),
	}}
	f.add("churnbed_nodes", "Nodes of the mesh.", "", dto.MetricType_GAUGE, f.gauge(float64(s.Nodes)))
	f.add("churnbed_links", "Links of the mesh.", "", dto.MetricType_GAUGE, f.gauge(float64(s.Links)))
	f.add("churnbed_time_scale", "Real seconds a scenario second.", "", dto.MetricType_GAUGE, f.gauge(s.TimeScale))
	f.add("churnbed_length_seconds", "Length of the run since its epoch, scenario time.", "seconds", dto.MetricType_GAUGE, f.gauge(float64(t.End-t.Begin())/1e9))

	var verdicts, fidelity []*dto.Metric
	state := func(list *[]*dto.Metric, name, value string, all ...string) {
		for _, v := range all {
			on := 0.0
			if v == value {
				on = 1
			}
			*list = append(*list, f.gauge(on, label(name, v)))
		}
	}
	state(&verdicts, "verdict", s.Verdict, results.VerdictOK, results.VerdictStarved, results.VerdictLogErrors, results.VerdictViolation)
	f.add("churnbed_verdict", "1 for the verdict of the run.", "", dto.MetricType_GAUGE, verdicts...)
	state(&fidelity, "fidelity", s.Fidelity.Verdict, results.Faithful, results.Strained, results.Unfaithful)
	f.add("churnbed_fidelity", "1 for the fidelity of the run.", "", dto.MetricType_GAUGE, fidelity...)

	f.add("churnbed_requests", "Requests by what became of them.", "", dto.MetricType_COUNTER,
		f.counter(int64(s.Requests.Served), label("outcome", "served")), f.counter(int64(s.Requests.Unserved), label("outcome", "unserved")),
		f.counter(int64(s.Requests.Aborted), label("outcome", "aborted")), f.counter(int64(s.Requests.Skipped), label("outcome", "skipped")))
	f.add("churnbed_violations", "Pairs of critical sections that overlapped.", "", dto.MetricType_COUNTER, f.counter(int64(s.Safety.Violations)))
	f.add("churnbed_zombie_overlaps", "Overlaps with a holder declared failed.", "", dto.MetricType_COUNTER, f.counter(int64(s.Safety.ZombieOverlaps)))
	f.known("churnbed_violation_seconds", "Time during which two held the section.", "seconds", s.Safety.ViolationMS, 1e-3)
	f.add("churnbed_holders_max", "Holders at one instant, at most.", "", dto.MetricType_GAUGE, f.gauge(float64(s.Safety.MaxConcurrent)))
	f.waits(t)

	var datagrams, bytes, again []*dto.Metric
	for _, kind := range slices.Sorted(maps.Keys(s.Messages.ByKind)) {
		k := s.Messages.ByKind[kind]
		labels := []*dto.LabelPair{label("kind", kind), label("class", k.Class)}
		datagrams = append(datagrams, f.counter(k.N, labels...))
		bytes = append(bytes, f.counter(k.Bytes, labels...))
		again = append(again, f.counter(k.Retransmissions, labels...))
	}
	f.add("churnbed_datagrams", "Datagrams sent, repetitions included.", "", dto.MetricType_COUNTER, datagrams...)
	f.add("churnbed_datagram_bytes", "UDP payload sent, repetitions included.", "bytes", dto.MetricType_COUNTER, bytes...)
	f.add("churnbed_repetitions", "Datagrams that were repetitions.", "", dto.MetricType_COUNTER, again...)
	f.add("churnbed_frames", "Frames handed to links.", "", dto.MetricType_COUNTER, f.counter(s.Messages.H2HTotal))
	f.known("churnbed_datagrams_per_entry", "Datagrams of the algorithm for each served request, end to end.", "", s.Messages.E2EPerCS, 1)
	f.known("churnbed_hops_per_entry", "Hops of the algorithm's datagrams for each served request.", "", s.Messages.H2HPerCS, 1)

	f.add("churnbed_churn", "What was done to nodes.", "", dto.MetricType_COUNTER,
		f.counter(int64(s.Churn.Kills), label("deed", "kill")), f.counter(int64(s.Churn.Restarts), label("deed", "restart")),
		f.counter(int64(s.Churn.Pauses), label("deed", "pause")), f.counter(int64(s.Churn.Leaves), label("deed", "leave")),
		f.counter(int64(s.Churn.Joins), label("deed", "join")))
	f.known("churnbed_membership_size_mean", "Mean length of membership lists over time and nodes.", "", s.Membership.SizeMean, 1)
	f.known("churnbed_membership_size_min", "Shortest membership list.", "", s.Membership.SizeMin, 1)
	f.add("churnbed_false_positives", "Lives declared failed while they ran.", "", dto.MetricType_COUNTER, f.counter(int64(s.Membership.FalsePositives)))
	f.known("churnbed_delay_error_p50_seconds", "Median error of link delays.", "seconds", s.Fidelity.DelayErrorMS.P50, 1e-3)
	f.known("churnbed_delay_error_p99_seconds", "99th percentile of the error of link delays.", "seconds", s.Fidelity.DelayErrorMS.P99, 1e-3)
	f.known("churnbed_cpu_busy_ratio", "Share of time in which processors were busy.", "ratio", s.Fidelity.CPUBusy, 1)

	if p := s.Processes; p != nil {
		f.known("churnbed_process_cpu_mean_seconds_per_second", "Processor time of a node process a second of scenario time: mean.", "seconds_per_second", p.CPU.Mean, 1e-3)
		f.known("churnbed_process_cpu_max_seconds_per_second", "Processor time of a node process a second of scenario time: the busiest one.", "seconds_per_second", p.CPU.Max, 1e-3)
		f.known("churnbed_process_memory_mean_bytes", "Memory of its own of a node process, the most seen: mean.", "bytes", p.Memory.Mean, 1)
		f.known("churnbed_process_memory_max_bytes", "Memory of its own of a node process: the largest.", "bytes", p.Memory.Max, 1)
	}
	if s.Groups != nil {
		f.groups(t)
	}

	b := bufio.NewWriter(w)
	for _, family := range f.list {
		if _, err := expfmt.MetricFamilyToOpenMetrics(b, family, expfmt.WithUnit()); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	if _, err := expfmt.FinalizeOpenMetrics(b); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// groups are the figures of a run with k-groups.
func (f *families) groups(t *timeline.Timeline) {
	g := t.Summary.Groups
	f.add("churnbed_groups", "Groups of devices.", "", dto.MetricType_GAUGE, f.gauge(float64(g.Groups)))
	f.add("churnbed_routine_runs", "Firings of routines by what became of them.", "", dto.MetricType_COUNTER,
		f.counter(int64(g.Triggered), label("stage", "triggered")), f.counter(int64(g.Skipped), label("stage", "skipped")),
		f.counter(int64(g.Executed), label("stage", "executed")), f.counter(int64(g.Starved), label("stage", "starved")))
	f.add("churnbed_lock_grants", "Grants of devices' locks.", "", dto.MetricType_COUNTER, f.counter(int64(g.Grants)))
	f.add("churnbed_elections", "Elections won.", "", dto.MetricType_COUNTER, f.counter(int64(g.Elections)))
	f.add("churnbed_migrations", "Groups handed over to the next epoch.", "", dto.MetricType_COUNTER, f.counter(int64(g.Migrations)))
	f.add("churnbed_leaders_deposed", "Leaders that others took over from.", "", dto.MetricType_COUNTER, f.counter(int64(g.Deposed)))
	var found []*dto.Metric
	for _, check := range results.GroupChecks {
		found = append(found, f.counter(int64(g.Violations[check]), label("check", check)))
	}
	f.add("churnbed_group_violations", "Violations by the check that found them.", "", dto.MetricType_COUNTER, found...)
	for _, d := range []struct {
		name, help string
		of         *results.Dist
	}{
		{"churnbed_client_delay", "Trigger of a routine to its execution", &g.ClientMS},
		{"churnbed_lock_acquisition", "First request for a lock to execution", &g.AcquireMS},
		{"churnbed_lock_handover", "End of a device's use to the grant to one that waited", &g.SyncMS},
		{"churnbed_quorum", "Change of a lock or a routine to its quorum", &g.QuorumMS},
		{"churnbed_election", "Elections of leaders", &g.ElectionMS},
		{"churnbed_state_transfer", "State of a group from the old leader to the new one", &g.TransferMS},
		{"churnbed_monitoring_gap", "Time without monitoring in a migration", &g.GapMS},
		{"churnbed_device_detection", "Kill of a device to its leader's notice", &g.DetectionMS},
	} {
		for _, part := range []struct {
			name string
			v    results.Number
		}{{"mean", d.of.Mean}, {"p50", d.of.P50}, {"p90", d.of.P90}, {"max", d.of.Max}} {
			f.known(d.name+"_"+part.name+"_seconds", d.help+": "+part.name+", scenario time.", "seconds", part.v, 1e-3)
		}
	}
	for _, d := range []struct {
		name, help string
		of         results.Load
	}{
		{"churnbed_foreground", "Bytes a second that a managing node sends for routines and migrations", g.Foreground},
		{"churnbed_background", "Bytes a second that a managing node sends for monitoring and membership", g.Background},
	} {
		f.known(d.name+"_mean_bytes_per_second", d.help+": mean.", "bytes_per_second", d.of.Mean, 1)
		f.known(d.name+"_max_bytes_per_second", d.help+": the busiest one.", "bytes_per_second", d.of.Max, 1)
	}
	var fore, back []*dto.Metric
	for i := range t.Nodes {
		f1, b1, manages := results.GroupTraffic(t.Nodes[i].Sent)
		if manages {
			fore, back = append(fore, f.counter(f1, label("node", strconv.Itoa(i)))), append(back, f.counter(b1, label("node", strconv.Itoa(i))))
		}
	}
	f.add("churnbed_node_foreground_bytes", "UDP payload that a managing node sent for routines and migrations.", "bytes", dto.MetricType_COUNTER, fore...)
	f.add("churnbed_node_background_bytes", "UDP payload that a managing node sent for monitoring and membership.", "bytes", dto.MetricType_COUNTER, back...)
}

// waits is the histogram of waits.
func (f *families) waits(t *timeline.Timeline) {
	_, waits := t.Waits()
	sum := 0.0
	h := &dto.Histogram{SampleCount: proto.Uint64(uint64(len(waits)))}
	counts := make([]uint64, len(waitBounds))
	for _, v := range waits {
		sum += v / 1e3
		for i, bound := range waitBounds {
			if v/1e3 <= bound {
				counts[i]++
			}
		}
	}
	h.SampleSum = proto.Float64(sum)
	for i, bound := range waitBounds {
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: proto.Float64(bound), CumulativeCount: proto.Uint64(counts[i])})
	}
	f.add("churnbed_wait_seconds", "Waits for the critical section, scenario time.", "seconds", dto.MetricType_HISTOGRAM,
		&dto.Metric{Label: f.labels, Histogram: h})
}
