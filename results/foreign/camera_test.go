package foreign

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ulikunitz/xz"

	"churnbed/results"
)

// shared returns the folder of reference data, which is not part of the
// project.
func shared(t testing.TB, sub string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if filepath.Dir(dir) == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, "..", "shared", "data", sub)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("reference data are not there: %v", err)
	}
	return path
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func sd(v []float64) float64 {
	m, sum := mean(v), 0.0
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(v))) // of a population, as summary.csv has it
}

// The table of the data's README, and every row of summary.csv, must come
// out of the raw files.
func TestCameraSummaryReproduced(t *testing.T) {
	dir := shared(t, "camera-sim-results")
	f, err := os.Open(filepath.Join(dir, "summary.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, h := range rows[0] {
		column[h] = i
	}
	opened := map[string]*results.TrialSet{}
	open := func(file string) *results.TrialSet {
		if opened[file] == nil {
			s, err := Open(filepath.Join(dir, file), Options{})
			if err != nil {
				t.Fatal(err)
			}
			opened[file] = s
		}
		return opened[file]
	}
	checked := 0
	for _, row := range rows[1:] {
		at := func(name string) string { return row[column[name]] }
		file := at("swept") + "--" + at("workload") + ".json.xz"
		if at("workload") == "all-at-t0" {
			file = map[string]string{"N": "concurrent-short--n.json.xz", "msg_drop_rate": "concurrent-short--drop.json.xz"}[at("swept")]
		}
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Fatalf("row %v: %v", row, err)
		}
		s, err := open(file).Where([]results.Condition{{Key: at("swept"), Value: at("value")}})
		if err != nil {
			t.Fatal(err)
		}
		var means, all, e2e []float64
		for _, tr := range s.Trials {
			means = append(means, mean(tr.WaitsMS))
			all = append(all, tr.WaitsMS...)
			e2e = append(e2e, float64(tr.E2EMessages)/float64(tr.Served))
		}
		slices.Sort(all)
		for name, got := range map[string]float64{
			"mean_wait_ms": mean(means), "sd_of_run_means_ms": sd(means), "runs": float64(len(means)), "max_wait_ms": all[len(all)-1],
			"e2e_msgs_per_cs": mean(e2e),
		} {
			text := at(map[string]string{"max_wait_ms": "max_ms"}[name] + strings.TrimPrefix(name, "max_wait_ms"))
			want, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			digits := len(text) - strings.IndexByte(text+".", '.') - 1
			if math.Abs(got-want) > 0.5000001*math.Pow10(-max(digits, 0)) {
				t.Errorf("%s %s=%s: %s is %v, summary.csv says %s", at("workload"), at("swept"), at("value"), name, got, text)
			}
			checked++
		}
	}
	if checked < 150 {
		t.Errorf("only %d figures compared", checked)
	}
	// The README's table, in whole milliseconds.
	for workload, want := range map[string][4]float64{
		"exponential_uniform": {592, 646, 709, 891}, "exponential_zipfian": {187, 190, 219, 248},
		"weibull_uniform": {373, 451, 539, 670}, "weibull_zipfian": {173, 170, 199, 233},
	} {
		for i, n := range []string{"32", "64", "128", "256"} {
			s, err := Open(filepath.Join(dir, "N--"+workload+".json.xz?N="+n+"&msg_drop_rate=0"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var means []float64
			for _, tr := range s.Trials {
				means = append(means, mean(tr.WaitsMS))
			}
			if got := math.Round(mean(means)); got != want[i] || len(means) != 100 {
				t.Errorf("%s N=%s: mean wait %v ms of %d runs, README says %v", workload, n, got, len(means), want[i])
			}
		}
	}
}

const cameraObject = `{
  "networkMetric": {"RAe2eMsgSizeTotal": 5, "e2eMsgSizeTotal": 100, "h2hMsgSizeTotal": 300, "h2hMsgTotal": 30, "e2eMsgTotal": 12},
  "algorithmMetric": {"max_rec_OK_sizes": [1, 3], "waitTimes": [10, 220], "slows": 0, "arrivals": [5, 40], "clientDelay": 45},
  "qualityMetric": {"unsafePairs": 2, "vioTimeRatio": 0.25, "worstVioCount": 3},
  "ir_ratio": 1.0, "churn_ratio": 0.5, "conc_requesters": 2, "msg_drop_rate": 0.05, "N": 2
}`

func TestCameraFields(t *testing.T) {
	f, err := ReadCamera([]byte("\n"+cameraObject+cameraObject+"run_num 3, num_serv 2\n"+cameraObject+"\n"), "f")
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Runs) != 3 || f.Stray != 1 || len(f.Unread) != 0 {
		t.Fatalf("%d runs, %d stray, unread %v", len(f.Runs), f.Stray, f.Unread)
	}
	s := f.Trials("x/churn_ratio--weibull_zipfian.json.xz")
	tr := s.Trials[2]
	if d := cmp.Diff([]float64{10, 220}, tr.WaitsMS); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]float64{45}, tr.SyncMS); d != "" { // the second waited at 215 ms
		t.Error(d)
	}
	if tr.Issued != 2 || tr.Served != 2 || tr.E2EMessages != 12 || tr.H2HMessages != 30 || tr.Bytes != 100 || tr.Violations != 2 || tr.MaxConcurrent != 3 {
		t.Errorf("trial %+v", tr)
	}
	if d := cmp.Diff(map[string]float64{
		"clientDelay": 45, "slows": 0, "max_rec_OK_size_mean": 2, "max_rec_OK_size_max": 3, "h2hMsgSizeTotal": 300, "RAe2eMsgSizeTotal": 5,
		"vioTimeRatio": 0.25,
	}, tr.Figures); d != "" {
		t.Error(d)
	}
	for key, want := range map[string]string{
		"N": "2", "nodes": "2", "msg_drop_rate": "0.05", "ir_ratio": "1", "arrivals": "weibull", "requesters": "zipf", "churn": "trace",
		"churn-speedup": "500", "membership": "medley", "topology-file": "random2.txt", "cs": "200ms",
	} {
		if got, _ := s.Parameter(2, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if len(s.Artefacts) < 6 || s.Incomparable["bytes_per_cs"] == "" || s.Incomparable["sync_delay"] == "" {
		t.Errorf("artefacts %v, incomparable %v", s.Artefacts, s.Incomparable)
	}
	// Without churn in the name the configured ratio was not used.
	if got, _ := f.Trials("N--weibull_zipfian.json").Parameter(0, "churn"); got != "none" {
		t.Errorf("churn is %q", got)
	}
}

func TestParseCameraName(t *testing.T) {
	for path, want := range map[string]CameraName{
		"a/N--exponential_uniform.json.xz": {"N", "exponential", "uniform"},
		"no_drop--weibull_zipfian.json":    {"no_drop", "weibull", "zipf"},
		"concurrent-short--drop.json.xz":   {"drop", "burst", ""},
		"weibull_uniform.txt":              {"", "weibull", "uniform"},
		"stats.json":                       {},
	} {
		if got := ParseCameraName(path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}

func TestCameraMalformed(t *testing.T) {
	with := func(old, replacement string) string {
		out := strings.Replace(cameraObject, old, replacement, 1)
		if out == cameraObject {
			t.Fatalf("%q is not in the object", old)
		}
		return out
	}
	second := cameraObject + "\n"
	for in, want := range map[string]string{
		"":                                   "f:1:1: ",
		"just text\n":                        "f:1:1: malformed file: no result objects",
		second + `"networkMetric": {`:        "f:7:1: ",
		second + "}":                         "f:7:1: ",
		second + cameraObject[:40]:           "f:8:39: malformed file: object 2 (of line 7): unexpected EOF",
		second + with(`[10, 220]`, `[10,,]`): "f:9:68: malformed file: object 2 (of line 7): invalid character ','",
		with(`"N": 2`, `"N": "two"`):         "f:5:",
		with(`"N": 2`, `"N": 0`):             "f:1:1: malformed file: object 1: field N is 0",
		with(`[10, 220]`, `[10, -220]`):      "waitTimes[1] is -220",
		with(`[10, 220]`, `null`):            "waitTimes is missing",
		with(`0.05`, `1.05`):                 "msg_drop_rate is 1.05",
		with(`"conc_requesters": 2`, `"conc_requesters": -2`): "conc_requesters is -2",
		with(`"unsafePairs": 2`, `"unsafePairs": -1`):         "qualityMetric holds -1",
		with(`"ir_ratio": 1.0`, `"ir_ratio": -1`):             "ratio is -1",
		second + "\x00\x01binary\n":                           "f:7:1: ",
		`[` + cameraObject + `]`:                              "f:1:1: ",
	} {
		f, err := ReadCamera([]byte(in), "f")
		if err == nil || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) || f != nil {
			t.Errorf("%.60q...: %v\nwant %q", in[max(0, len(in)-60):], err, want)
		}
	}
	over, err := ReadCamera([]byte(with(`"e2eMsgSizeTotal": 100`, `"e2eMsgSizeTotal": -966777637`)), "f")
	if err != nil {
		t.Fatal(err)
	}
	s := over.Trials("f.json")
	if s.Trials[0].Bytes.Known() || !strings.Contains(strings.Join(s.Notes, "\n"), "1 message or byte totals are negative") {
		t.Errorf("a counter that ran over: %v, notes %q", s.Trials[0].Bytes, s.Notes)
	}
	f, err := ReadCamera([]byte(with(`"N": 2`, `"N": 2, "new": {"a": 1}`)), "f")
	if err != nil || f.Unread["new"] != 1 {
		t.Errorf("an unknown field: %v, %+v", err, f)
	}
}

func FuzzReadCamera(f *testing.F) {
	f.Add([]byte(cameraObject + cameraObject))
	f.Add([]byte(cameraObject + "run_num 3\n" + cameraObject))
	f.Add([]byte("{}{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ReadCamera(data, "f")
		if err != nil {
			if file != nil || !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("%v with %+v", err, file)
			}
			return
		}
		s := file.Trials("N--weibull_uniform.json")
		if len(s.Trials) != len(file.Runs) {
			t.Fatalf("%d trials of %d runs", len(s.Trials), len(file.Runs))
		}
		var b strings.Builder
		if err := results.WriteTrials(&b, s); err != nil {
			t.Fatal(err)
		}
		if _, err := results.ReadTrials(strings.NewReader(b.String()), "g"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestReadFileXZ(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "bad.xz")
	if err := os.WriteFile(path, append(slices.Clone(xzMagic), "nonsense"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), path) {
		t.Errorf("broken .xz: %v", err)
	}
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(bytes.Repeat([]byte("{}\n"), 1000)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, packed.Bytes()[:packed.Len()-20], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), path+":1001:1: ") {
		t.Errorf("cut .xz: %v", err)
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func BenchmarkReadCamera(b *testing.B) {
	object := []byte(strings.Repeat(cameraObject, 100))
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		if _, err := ReadCamera(object, "f"); err != nil {
			b.Fatal(err)
		}
	}
}
