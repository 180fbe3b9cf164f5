package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestExportRun(t *testing.T) {
	dir := simulated(t)
	out := t.TempDir()
	for _, args := range [][]string{
		{"perfetto", dir},
		{"perfetto", dir, "-o", filepath.Join(out, "t.json")},
		{"openmetrics", dir},
		{"csv", dir, "-o", filepath.Join(out, "csv")},
		{"parquet", dir, "-o", filepath.Join(out, "parquet")},
	} {
		if code := run(append([]string{"churnbed", "export"}, args...)); code != exitOK {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
	trace, err := os.ReadFile(filepath.Join(dir, perfettoFile))
	if err != nil || !json.Valid(trace) {
		t.Errorf("the trace is no JSON: %v", err)
	}
	metrics, err := os.ReadFile(filepath.Join(dir, metricsFile))
	if err != nil || !strings.Contains(string(metrics), "churnbed_violations_total{") {
		t.Errorf("the metrics say %.300s, %v", metrics, err)
	}
	requests, err := os.ReadFile(filepath.Join(out, "csv", "requests.csv"))
	if err != nil || strings.Count(string(requests), "\n") != 13 {
		t.Errorf("the requests are %s, %v", requests, err)
	}
	for _, args := range [][]string{
		{"perfetto"}, {"perfetto", out}, {"csv", dir}, {"csv", dir, "-o", filepath.Join(out, "csv")}, {"openmetrics", dir, "-o", filepath.Join(out, "no", "x")},
	} {
		if code := run(append([]string{"churnbed", "export"}, args...)); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}

// The examples that the exports and the report show in their help work.
func TestExportExamples(t *testing.T) {
	line := regexp.MustCompile(`(?m)^\s+churnbed (.*)$`)
	examples := 0
	for _, c := range append(runExports(), reportCommand()) {
		for _, m := range line.FindAllStringSubmatch(c.Description, -1) {
			examples++
			if strings.Contains(m[1], "pcapng") {
				continue // needs a capture: TestRunCapture
			}
			words := strings.Fields(m[1])
			dir := simulated(t)
			out := t.TempDir()
			for i, w := range words {
				switch {
				case strings.HasPrefix(w, "runs/"):
					words[i] = dir
				case i > 0 && strings.HasPrefix(words[i-1], "-"):
					words[i] = filepath.Join(out, filepath.Base(w))
				}
			}
			if code := run(append([]string{"churnbed"}, words...)); code != exitOK {
				t.Errorf("%s: exit status %d", m[1], code)
			}
		}
	}
	if examples < 5 {
		t.Errorf("%d examples", examples)
	}
}
