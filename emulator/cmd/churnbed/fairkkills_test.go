package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"churnbed/results"
)

func killRows(t *testing.T, o outcome) (rows []killRow) {
	t.Helper()
	if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil {
		t.Fatalf("%v: %v", err, o)
	}
	return rows
}

// Whoever lives is served, whether or not all copies of a state are gone, and
// the figure is drawn.
func TestFairKKills(t *testing.T) {
	t.Parallel()
	plot := filepath.Join(t.TempDir(), "fig6.svg")
	o := churnbed(t, "reproduce", "fairk-fig6", "--json", "--trials", "2", "--nodes", "11", "--plot", plot)
	o.want(t, 0)
	rows := killRows(t, o)
	lost := 0
	for _, r := range rows {
		if !r.asItMust() || r.Succeeded != r.Trials || r.Killed != 11*r.Percent/100 {
			t.Errorf("%+v", r)
		}
		lost += r.Succeeded - r.Kept
	}
	if len(rows) != 20 || lost == 0 {
		t.Errorf("%d points, %d trials in which a state was lost", len(rows), lost)
	}
	if text, err := os.ReadFile(plot); err != nil || !strings.Contains(string(text), "p = 6, no state lost") {
		t.Errorf("plot of %d bytes: %v", len(text), err)
	}
	for _, bad := range [][]string{{"--nodes", "7"}, {"--nodes", "129"}, {"--plot", "x.pdf"}, {"more"}} {
		churnbed(t, append([]string{"reproduce", "fairk-fig6"}, bad...)...).want(t, 2)
	}
}

// The same with real kills, in short. How many are served depends on the
// host's load only in that the run may end first, and is not asked for here.
func TestFairKKillsRealProcesses(t *testing.T) {
	needRuns(t)
	t.Parallel()
	for _, r := range killRows(t, churnbed(t, "reproduce", "fairk-fig6", "--emulate", "--required", "--nodes", "11", "--trials", "1", "--json")) {
		if r.Engine != results.Emulated || r.Violations != 0 || r.Trials != 1 {
			t.Errorf("%+v", r)
		}
	}
}

// Holders and the coordinator are stopped, others take over, they wake: no
// token is there twice, on real processes as well.
func TestFairKPausedHolder(t *testing.T) {
	t.Parallel()
	scenario, err := filepath.Abs(filepath.Join("..", "..", "..", "workloads", "scenarios", "fairk-paused-holder.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"sim", "run"} {
		t.Run(verb, func(t *testing.T) {
			if verb == "run" {
				needRuns(t)
			}
			dir := filepath.Join(t.TempDir(), "run")
			churnbed(t, verb, scenario, "--out", dir, "--quiet").want(t, 0)
			r, err := results.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			s, v, err := results.Judge(r)
			if err != nil {
				t.Fatal(err)
			}
			if s.Safety.Violations > 0 || len(v.TokenFaults) > 0 || s.Tokens == nil || s.Tokens.TakenOver == 0 {
				t.Errorf("%+v, tokens %+v, %v", s.Safety, s.Tokens, v.TokenFaults)
			}
		})
	}
}
