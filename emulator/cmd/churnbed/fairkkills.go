package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/emulator/scenario"
	"churnbed/results"
	"churnbed/results/reproduce"
	"churnbed/workloads/scenarios"
)

// killCell is one point: so many copies, such a share of the nodes killed.
type killCell struct {
	copies, percent int
	least           float64 // success that must be reached; 0: none is published
}

// killCells lists the points of fig. 6, or those that must reach something.
func killCells(all bool) []killCell {
	must := []killCell{{4, 20, 0.95}, {6, 50, 0.8}}
	if !all {
		return must
	}
	var cells []killCell
	for _, copies := range []int{1, 2, 4, 6} {
		for percent := 10; percent <= 50; percent += 10 {
			c := killCell{copies: copies, percent: percent}
			for _, m := range must {
				if m.copies == copies && m.percent == percent {
					c.least = m.least
				}
			}
			cells = append(cells, c)
		}
	}
	return cells
}

func killsExperiment() *cli.Command {
	return &cli.Command{
		Name:  "fairk-fig6",
		Usage: "kill a share of the nodes of fairk at once, and see whether the others are served (Fair-K, fig. 6)",
		Description: "Runs workloads/scenarios/fairk-kills.yaml with 1, 2, 4 and 6 copies of each state and 10 to 50 % of the nodes\n" +
			"killed at one instant. A trial succeeds where every request of a node that lives is served; a share \"kept\"\n" +
			"of them lost no state, the others dealt the tokens out anew. More than k in the critical section, or a token\n" +
			"that is there twice, is a failure of the experiment in any trial. An odd number of nodes leaves a majority\n" +
			"alive at 50 %. --emulate runs it on real processes, --parallel trials at a time. Exit status: 0 all as it must\n" +
			"be, 1 otherwise, 2 wrong usage, 3 the host lacks something, 4 interrupted.",
		Flags: append(
			experimentFlags("fairk-fig6"),
			&cli.IntFlag{Name: "nodes", Value: 21, Usage: "`N` nodes of the mesh"},
			&cli.BoolFlag{Name: "required", Usage: "only the two points that have a figure to reach: 20 % with 4 copies, 50 % with 6"},
			&cli.StringFlag{Name: "plot", Usage: "draw success against the share killed to `FILE`.svg or FILE.png"},
		),
		Action: func(c *cli.Context) error {
			a, names, err := experiment(c)
			if err != nil {
				return err
			}
			if len(names) > 0 {
				return usageError(fmt.Errorf("unexpected argument %q", names[0]))
			}
			if n := c.Int("nodes"); n < 8 || n > 128 {
				return usageError(fmt.Errorf("--nodes %d: want 8 to 128", n))
			}
			if p := c.String("plot"); p != "" && filepath.Ext(p) != ".svg" && filepath.Ext(p) != ".png" {
				return usageError(fmt.Errorf("--plot %s: want a name in .svg or .png", p))
			}
			return a.kills(c.Context, killCells(!c.Bool("required")), c.Int("nodes"), c.String("plot"))
		},
	}
}

// killRow is what the trials of one point came to.
type killRow struct {
	Engine     string         `json:"engine"`
	Nodes      int            `json:"nodes"`
	Copies     int            `json:"copies"`
	Percent    int            `json:"percent"`
	Killed     int            `json:"killed"`
	Trials     int            `json:"trials"`
	Succeeded  int            `json:"succeeded"`
	Kept       int            `json:"kept"` // of these, with no state lost
	Violations int            `json:"violations"`
	Least      results.Number `json:"least"`  // share that must succeed
	Failed     []uint64       `json:"failed"` // seeds
}

func (r *killRow) success() float64 { return float64(r.Succeeded) / float64(r.Trials) }

func (r *killRow) asItMust() bool {
	return r.Violations == 0 && (!r.Least.Known() || r.success() >= float64(r.Least))
}

func (a *experimentArgs) kills(ctx context.Context, cells []killCell, nodes int, plot string) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	dir, err := os.MkdirTemp("", "churnbed-kills-*")
	if err != nil {
		return hostError(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // one small file
	file := filepath.Join(dir, "fairk-kills.yaml")
	if err := os.WriteFile(file, scenarios.FairKKills, 0o644); err != nil {
		return hostError(err)
	}
	engine, run := a.engine()
	rows := make([]killRow, len(cells))
	outcomes := make([]*results.Summary, len(cells)*a.trials)
	for i, c := range cells {
		rows[i] = killRow{Engine: engine, Nodes: nodes, Copies: c.copies, Percent: c.percent, Killed: nodes * c.percent / 100, Trials: a.trials, Least: results.Number(math.NaN())}
		if c.least > 0 {
			rows[i].Least = results.Number(c.least)
		}
	}
	err = a.each(ctx, len(outcomes), func(ctx context.Context, i int) error {
		r := &rows[i/a.trials]
		sc, err := a.scenario(
			file, i%a.trials,
			scenario.Setting{Key: "nodes", Value: strconv.Itoa(nodes)},
			scenario.Setting{Key: "replicas", Value: strconv.Itoa(r.Copies)},
			scenario.Setting{Key: "fault", Value: fmt.Sprintf("at 700ms crash %d nodes", r.Killed)},
		)
		if err != nil {
			return usageError(err)
		}
		outcomes[i], err = run(ctx, sc)
		return err
	})
	if ctx.Err() != nil {
		return &codedError{exitInterrupted, errors.New("interrupted")}
	}
	if err != nil {
		return err
	}
	for i, s := range outcomes {
		rows[i/a.trials].take(s, a.seed+uint64(i%a.trials))
	}
	if a.json {
		err = printJSON(a.stdout, rows)
	} else {
		err = printKills(a.stdout, rows)
	}
	if err == nil && a.record != "" {
		err = recordKills(filepath.Join(a.record, "fairk-fig6-"+engine+".csv"), rows)
	}
	if err == nil && plot != "" {
		err = drawKills(plot, rows)
	}
	if err != nil {
		return hostError(err)
	}
	for i := range rows {
		if !rows[i].asItMust() {
			return errCheckFailed
		}
	}
	return nil
}

// take counts one trial.
func (r *killRow) take(s *results.Summary, seed uint64) {
	r.Violations += s.Safety.Violations
	rebuilt := false
	if t := s.Tokens; t != nil {
		r.Violations += t.Duplicated + t.Coordinators
		rebuilt = t.Rebuilt > 0
	}
	switch {
	case s.Requests.Unserved > 0:
		r.Failed = append(r.Failed, seed)
	default:
		r.Succeeded++
		if !rebuilt {
			r.Kept++
		}
	}
}

// wilson is the 95 % interval of a share (Wilson 1927).
func wilson(n, of int) (low, high float64) {
	const z = 1.96
	p, m := float64(n)/float64(of), float64(of)
	mid, half := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return (mid - half) / (1 + z*z/m), (mid + half) / (1 + z*z/m)
}

func printKills(w io.Writer, rows []killRow) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "copies\tkilled\ttrials\tsuccess\t95 %% interval\tno state lost\tviolations\twant\n")
	for i := range rows {
		r := &rows[i]
		low, high := wilson(r.Succeeded, r.Trials)
		want := "-"
		if r.Least.Known() {
			want = fmt.Sprintf("at least %v: %s", float64(r.Least), map[bool]string{true: "yes", false: "NO"}[r.asItMust()])
		}
		fmt.Fprintf(tw, "%d\t%d of %d (%d %%)\t%d\t%.3f\t%.3f to %.3f\t%.3f\t%d\t%s\n",
			r.Copies, r.Killed, r.Nodes, r.Percent, r.Trials, r.success(), low, high, float64(r.Kept)/float64(r.Trials), r.Violations, want)
	}
	err := tw.Flush()
	for i := range rows {
		if f := rows[i].Failed; len(f) > 0 && err == nil {
			_, err = fmt.Fprintf(w, "%d copies, %d %%: not all served with seeds %s\n", rows[i].Copies, rows[i].Percent, strings.Trim(fmt.Sprint(f), "[]"))
		}
	}
	return err
}

func recordKills(path string, rows []killRow) error {
	list := make([][]string, len(rows))
	for i := range rows {
		r := &rows[i]
		low, high := wilson(r.Succeeded, r.Trials)
		list[i] = []string{
			r.Engine, strconv.Itoa(r.Nodes), strconv.Itoa(r.Copies), strconv.Itoa(r.Percent), strconv.Itoa(r.Killed), strconv.Itoa(r.Trials),
			strconv.Itoa(r.Succeeded), fmt.Sprintf("%.4f", low), fmt.Sprintf("%.4f", high), strconv.Itoa(r.Kept), strconv.Itoa(r.Violations),
		}
	}
	return recordRows(path, []string{
		"engine", "nodes", "copies", "percent", "killed", "trials", "succeeded", "success_low", "success_high", "no_state_lost", "violations",
	}, list)
}

// drawKills draws fig. 6.
func drawKills(path string, rows []killRow) error {
	s := &reproduce.Sweep{
		Name: "fairk-fig6", Title: fmt.Sprintf("Fair-K, fig. 6: %d nodes, a share killed at once (%s)", rows[0].Nodes, rows[0].Engine),
		X: "nodes killed at once, %", Y: "share of trials",
	}
	r := &reproduce.Result{Sweep: s, Engine: rows[0].Engine}
	for _, kind := range []string{"all served", "no state lost"} {
		for i := range rows {
			row := &rows[i]
			name := fmt.Sprintf("p = %d, %s", row.Copies, kind)
			if i == 0 || rows[i-1].Copies != row.Copies {
				s.Series = append(s.Series, reproduce.Series{Name: name, Ours: true})
			}
			n := row.Succeeded
			if kind != "all served" {
				n = row.Kept
			}
			p := float64(n) / float64(row.Trials)
			none := reproduce.Estimate{Mean: math.NaN(), SE: math.NaN(), Messages: math.NaN()}
			r.Cells = append(r.Cells, reproduce.Cell{
				Series: name, Ours: true, X: float64(row.Percent), Want: none,
				Got: reproduce.Estimate{N: row.Trials, Mean: p, SE: math.Sqrt(p * (1 - p) / float64(row.Trials)), Messages: math.NaN()},
			})
		}
	}
	var b strings.Builder
	if err := r.Draw(&b, strings.TrimPrefix(filepath.Ext(path), ".")); err != nil {
		return err
	}
	return renameio.WriteFile(path, []byte(b.String()), 0o644)
}
