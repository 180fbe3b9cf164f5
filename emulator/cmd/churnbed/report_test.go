package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simulated makes a small simulated run and returns its directory.
func simulated(t *testing.T, extra ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	args := append([]string{
		"churnbed", "sim", "--topology", "grid", "--nodes", "9", "--requests", "12", "--membership", "static", "--algorithm", "ra",
		"--out", dir,
	}, extra...)
	if code := run(args); code != exitOK {
		t.Fatalf("%s: exit status %d", strings.Join(args, " "), code)
	}
	return dir
}

func TestReport(t *testing.T) {
	dir := simulated(t)
	if code := run([]string{"churnbed", "report", dir}); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"never two in the critical section", "churnbed sim ", "algorithm: ra"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	// Several runs, flags after them, plots.
	out, plots := filepath.Join(t.TempDir(), "both.html"), filepath.Join(t.TempDir(), "plots")
	if code := run([]string{"churnbed", "report", dir, simulated(t, "--seed", "2"), "--out", out, "--plots", plots}); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	for _, name := range []string{out, filepath.Join(plots, "1-timeline.png"), filepath.Join(plots, "2-map.svg")} {
		if st, err := os.Stat(name); err != nil || st.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range [][]string{{"report"}, {"report", t.TempDir()}, {"report", dir, "--out", filepath.Join(dir, "none", "x.html")}, {"report", dir, "--plots", filepath.Join(dir, "manifest.json")}} {
		if code := run(append([]string{"churnbed"}, bad...)); code != exitUsage {
			t.Errorf("%v: exit status %d", bad, code)
		}
	}
}
