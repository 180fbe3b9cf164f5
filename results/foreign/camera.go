package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/results"
)

// CameraSource is the source of trial sets that the Camera Java simulator
// made.
const CameraSource = "camera-java"

// CameraRun is one object of a result file; names are its own. Times are
// milliseconds. A pointer is nil where the version of the simulator did not
// write the field.
type CameraRun struct {
	N              int      `json:"N"`
	ConcRequesters int      `json:"conc_requesters"`
	MsgDropRate    float64  `json:"msg_drop_rate"`
	IRRatio        *float64 `json:"ir_ratio"`
	ChurnRatio     *float64 `json:"churn_ratio"`

	Algorithm *struct {
		WaitTimes     []float64 `json:"waitTimes"`
		Arrivals      []float64 `json:"arrivals"`
		ClientDelay   *float64  `json:"clientDelay"`
		Slows         *int64    `json:"slows"`
		MaxRecOKSizes []int64   `json:"max_rec_OK_sizes"`
	} `json:"algorithmMetric"`
	Network *struct {
		E2EMsgTotal       *int64 `json:"e2eMsgTotal"`
		H2HMsgTotal       *int64 `json:"h2hMsgTotal"`
		E2EMsgSizeTotal   *int64 `json:"e2eMsgSizeTotal"`
		H2HMsgSizeTotal   *int64 `json:"h2hMsgSizeTotal"`
		RAE2EMsgSizeTotal *int64 `json:"RAe2eMsgSizeTotal"`
	} `json:"networkMetric"`
	Quality *struct {
		UnsafePairs   *int64   `json:"unsafePairs"`
		WorstVioCount *int64   `json:"worstVioCount"`
		VioTimeRatio  *float64 `json:"vioTimeRatio"`
	} `json:"qualityMetric"`
}

// CameraFile is a result file.
type CameraFile struct {
	Runs []CameraRun
	// Stray counts text lines between the objects, Unread the fields that no
	// known version writes, by name.
	Stray  int
	Unread map[string]int
}

// ReadCamera reads a result file, unpacked; name is used in errors.
func ReadCamera(data []byte, name string) (*CameraFile, error) {
	f := &CameraFile{Unread: map[string]int{}}
	for pos := 0; ; {
		rest := data[pos:]
		trimmed := bytes.TrimLeft(rest, " \t\r\n")
		pos += len(rest) - len(trimmed)
		if len(trimmed) == 0 {
			break
		}
		line, col := place(data, pos)
		if trimmed[0] != '{' {
			text, _, _ := bytes.Cut(trimmed, []byte{'\n'})
			// Part of a broken object must not pass as a comment.
			if bytes.ContainsAny(text, "{}[]\"\x00") || !printable(text) {
				return nil, malformed(name, line, col, "%s is neither an object nor a stray text line", quote(text))
			}
			f.Stray++
			pos += len(text)
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(trimmed))
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			at := len(data) // cut off
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				at = pos + int(syntax.Offset) - 1
			}
			l, c := place(data, at)
			return nil, malformed(name, l, c, "object %d (of line %d): %w", len(f.Runs)+1, line, err)
		}
		var run CameraRun
		if err := json.Unmarshal(raw, &run); err != nil {
			at := pos
			var typed *json.UnmarshalTypeError
			if errors.As(err, &typed) {
				at = pos + int(typed.Offset) - 1
			}
			l, c := place(data, at)
			return nil, malformed(name, l, c, "object %d (of line %d): %w", len(f.Runs)+1, line, err)
		}
		if err := run.check(); err != nil {
			return nil, malformed(name, line, col, "object %d: %w", len(f.Runs)+1, err)
		}
		if err := unread(raw, f.Unread); err != nil {
			return nil, malformed(name, line, col, "object %d: %w", len(f.Runs)+1, err)
		}
		f.Runs = append(f.Runs, run)
		pos += int(dec.InputOffset())
	}
	if len(f.Runs) == 0 {
		return nil, malformed(name, 1, 1, "no result objects in it")
	}
	return f, nil
}

func printable(b []byte) bool {
	return !bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' && r != '\t' && r != '\r' || r == '\uFFFD' })
}

// quote quotes the beginning of b.
func quote(b []byte) string {
	if len(b) > 40 {
		return strconv.Quote(string(b[:40])) + "..."
	}
	return strconv.Quote(string(b))
}

func (r *CameraRun) check() error {
	switch {
	case r.N < 1 || r.N > core.MaxNodes:
		return fmt.Errorf("field N is %d: want 1 to %d", r.N, core.MaxNodes)
	case r.ConcRequesters < 0:
		return fmt.Errorf("conc_requesters is %d: want 0 or more", r.ConcRequesters)
	case !(r.MsgDropRate >= 0 && r.MsgDropRate <= 1):
		return fmt.Errorf("msg_drop_rate is %v: want 0 to 1", r.MsgDropRate)
	case r.Algorithm == nil || r.Algorithm.WaitTimes == nil:
		return errors.New("algorithmMetric.waitTimes is missing")
	case r.Network == nil:
		return errors.New("networkMetric is missing")
	}
	for _, list := range [...]struct {
		name   string
		values []float64
	}{{"waitTimes", r.Algorithm.WaitTimes}, {"arrivals", r.Algorithm.Arrivals}} {
		for i, v := range list.values {
			if !(v >= 0) {
				return fmt.Errorf("%s[%d] is %v ms: want 0 or more", list.name, i, v)
			}
		}
	}
	for _, ratio := range [...]*float64{r.IRRatio, r.ChurnRatio} {
		if ratio != nil && !(*ratio >= 0) {
			return fmt.Errorf("ratio is %v: want 0 or more", *ratio)
		}
	}
	if q := r.Quality; q != nil {
		for _, count := range [...]*int64{q.UnsafePairs, q.WorstVioCount} {
			if count != nil && *count < 0 {
				return fmt.Errorf("qualityMetric holds %d: want 0 or more", *count)
			}
		}
	}
	return nil
}

// known are the fields that CameraRun has, by object.
var known = map[string][]string{
	"":                {"N", "conc_requesters", "msg_drop_rate", "ir_ratio", "churn_ratio", "algorithmMetric", "networkMetric", "qualityMetric"},
	"algorithmMetric": {"waitTimes", "arrivals", "clientDelay", "slows", "max_rec_OK_sizes"},
	"networkMetric":   {"e2eMsgTotal", "h2hMsgTotal", "e2eMsgSizeTotal", "h2hMsgSizeTotal", "RAe2eMsgSizeTotal"},
	"qualityMetric":   {"unsafePairs", "worstVioCount", "vioTimeRatio"},
}

func unread(raw json.RawMessage, count map[string]int) error {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil {
		return err
	}
	for key, v := range top {
		if !slices.Contains(known[""], key) {
			count[key]++
			continue
		}
		fields, ok := known[key]
		if !ok {
			continue
		}
		var sub map[string]json.RawMessage
		if err := json.Unmarshal(v, &sub); err != nil {
			return err
		}
		for k := range sub {
			if !slices.Contains(fields, k) {
				count[key+"."+k]++
			}
		}
	}
	return nil
}

// cameraCS is the critical section of all published runs, ms.
const cameraCS = 200

// cameraFixed are the parameters that hold for every published run, in the
// words of a scenario file.
var cameraFixed = map[string]string{
	"engine": results.Foreign, "algorithm": "camera-paper", "cs": "200ms", "cs-distribution": "constant", "link-delay": "5ms",
	"link-jitter": "0s", "link-rate": "0", "radius": "4", "routing": "euclid", "release": "unicast", "membership": "static",
	"transport": "resend from the source 500ms after a hop's drop", "mean": "200ms", "weibull-shape": "2", "zipf-exponent": "2",
}

// cameraAliases are the simulator's names of our parameters.
var cameraAliases = map[string]string{
	"N": "nodes", "conc_requesters": "requests", "msg_drop_rate": "link-loss", "ir_ratio": "ir-ratio",
	"time_distro": "arrivals", "spatial_distro": "requesters", "one_hop_delay": "link-delay", "one_hop_radius": "radius",
	"crit_duration": "cs", "topology_file": "topology-file",
}

// cameraArtefacts are those of ALGORITHMS 9.
var cameraArtefacts = []string{
	"the set in an OK is a live reference, so it shows later changes of the sender's set",
	"deferred is not cleared at exit: spurious OKs, up to 205 a run, count as messages and can stand for answers to later requests",
	"departed nodes still answer",
	"nobody rejoins",
	"routes are of least Euclidean length, so paths have more hops than the fewest",
	"a lost message is resent from its source 500 ms after any hop's drop, without acknowledgements",
	"byte counts are Java serialisation, and run over at 2^31",
	"times are whole milliseconds",
}

// CameraName is what the name of a result file tells of its runs.
type CameraName struct {
	Swept      string // N, churn_ratio, no_drop, drop, n; "" where unknown
	Arrivals   string // exponential, weibull or burst
	Requesters string // uniform or zipf
}

// ParseCameraName reads "<swept>--<temporal>_<spatial>.json.xz" and
// "concurrent-<what>--<swept>.json.xz"; unknown names tell nothing.
func ParseCameraName(path string) CameraName {
	base := filepath.Base(path)
	base, _, _ = strings.Cut(base, ".")
	swept, rest, ok := strings.Cut(base, "--")
	if !ok {
		swept, rest = "", base
	}
	if strings.HasPrefix(swept, "concurrent") {
		return CameraName{Swept: rest, Arrivals: "burst"}
	}
	temporal, spatial, _ := strings.Cut(rest, "_")
	out := CameraName{Swept: swept}
	switch temporal {
	case "exponential", "weibull":
		out.Arrivals = temporal
	}
	switch spatial {
	case "uniform":
		out.Requesters = "uniform"
	case "zipfian", "zipf":
		out.Requesters = "zipf"
	}
	if out.Arrivals == "" {
		return CameraName{}
	}
	return out
}

// Trials turns the runs into a trial set. Path is the file they come from;
// its name tells the workload.
func (f *CameraFile) Trials(path string) *results.TrialSet {
	name := ParseCameraName(path)
	base := filepath.Base(path)
	s := &results.TrialSet{
		Name: base, Source: CameraSource, Engine: results.Foreign, Parameters: maps.Clone(cameraFixed),
		Aliases: cameraAliases, Artefacts: cameraArtefacts,
		Incomparable: map[string]string{
			"bytes_per_cs": "byte counts are Java serialisation, not a wire format",
			"sync_delay":   "the Camera simulator tells the first handover of a run only",
		},
	}
	if name.Arrivals != "" {
		s.Parameters["arrivals"] = name.Arrivals
	} else {
		s.Notes = append(s.Notes, "the file name does not tell arrivals and requesters")
	}
	if name.Requesters != "" {
		s.Parameters["requesters"] = name.Requesters
	}
	if f.Stray > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d stray text lines between the objects", f.Stray))
	}
	if len(f.Unread) > 0 {
		s.Notes = append(s.Notes, "fields without a meaning here: "+strings.Join(slices.Sorted(maps.Keys(f.Unread)), ", "))
	}
	wrapped := 0
	for i := range f.Runs {
		wrapped += f.Runs[i].wrapped()
	}
	if wrapped > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d message or byte totals are negative, 32-bit counters that ran over, and are left out", wrapped))
	}
	for i := range f.Runs {
		s.Trials = append(s.Trials, f.Runs[i].trial(fmt.Sprintf("%s object %d", base, i+1), name))
	}
	// A set without conditions is the set itself with its common parameters
	// moved to it.
	s, _ = s.Where(nil)
	return s
}

// wrapped counts the network totals below zero: the simulator counts in 32
// bits, and the published files hold byte totals that ran over.
func (r *CameraRun) wrapped() int {
	k := 0
	n := r.Network
	for _, v := range [...]*int64{n.E2EMsgTotal, n.H2HMsgTotal, n.E2EMsgSizeTotal, n.H2HMsgSizeTotal, n.RAE2EMsgSizeTotal} {
		if v != nil && *v < 0 {
			k++
		}
	}
	return k
}

func (r *CameraRun) trial(from string, name CameraName) *results.Trial {
	a, n := r.Algorithm, r.Network
	t := &results.Trial{
		From: from, Nodes: r.N, WaitsMS: a.WaitTimes, Served: len(a.WaitTimes),
		Issued:      max(r.ConcRequesters, len(a.Arrivals), len(a.WaitTimes)),
		E2EMessages: count(n.E2EMsgTotal), H2HMessages: count(n.H2HMsgTotal), Bytes: count(n.E2EMsgSizeTotal),
		Violations: results.Unknown(), MaxConcurrent: results.Unknown(),
		Figures: map[string]float64{},
		Parameters: map[string]string{
			"nodes": strconv.Itoa(r.N), "requests": strconv.Itoa(r.ConcRequesters), "link-loss": number(r.MsgDropRate),
			"topology-file": fmt.Sprintf("random%d.txt", r.N),
		},
	}
	if r.IRRatio != nil && name.Arrivals != "burst" {
		t.Parameters["ir-ratio"] = number(*r.IRRatio)
	}
	t.Parameters["churn"] = "none"
	if r.ChurnRatio != nil && name.Swept == "churn_ratio" {
		// A forward rate of r replays r trace seconds a millisecond.
		t.Parameters["churn"] = "trace"
		t.Parameters["churn_ratio"] = number(*r.ChurnRatio)
		t.Parameters["churn-speedup"] = number(1000 * *r.ChurnRatio)
		t.Parameters["membership"] = "medley"
	}
	burst := len(a.Arrivals) > 0
	for _, at := range a.Arrivals {
		burst = burst && at == a.Arrivals[0]
	}
	if burst {
		t.Requesters = len(a.Arrivals)
	}
	if d := a.ClientDelay; d != nil {
		t.Figures["clientDelay"] = *d
		// Second entry less first exit is a synchronisation delay only where
		// the second request was waiting at the first exit.
		if len(a.Arrivals) > 1 && len(a.WaitTimes) > 1 && *d >= 0 && a.Arrivals[1] <= a.Arrivals[0]+a.WaitTimes[0]+cameraCS {
			t.SyncMS = []float64{*d}
		}
	}
	if a.Slows != nil {
		t.Figures["slows"] = float64(*a.Slows)
	}
	if len(a.MaxRecOKSizes) > 0 {
		sum := 0.0
		for _, v := range a.MaxRecOKSizes {
			sum += float64(v)
		}
		t.Figures["max_rec_OK_size_mean"] = sum / float64(len(a.MaxRecOKSizes))
		t.Figures["max_rec_OK_size_max"] = float64(slices.Max(a.MaxRecOKSizes))
	}
	for key, v := range map[string]*int64{"h2hMsgSizeTotal": n.H2HMsgSizeTotal, "RAe2eMsgSizeTotal": n.RAE2EMsgSizeTotal} {
		if v != nil && *v >= 0 {
			t.Figures[key] = float64(*v)
		}
	}
	if q := r.Quality; q != nil {
		t.Violations, t.MaxConcurrent = count(q.UnsafePairs), count(q.WorstVioCount)
		if q.VioTimeRatio != nil && !math.IsNaN(*q.VioTimeRatio) {
			t.Figures["vioTimeRatio"] = *q.VioTimeRatio
		}
	}
	return t
}

func count(v *int64) results.Number {
	if v == nil || *v < 0 {
		return results.Unknown()
	}
	return results.Number(*v)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
