package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/emulator/minimise"
	"churnbed/emulator/scenario"
	"churnbed/results"
	"churnbed/results/reproduce"
	"churnbed/workloads/traps"
)

// trapArgs are the flags of churnbed reproduce traps.
type trapArgs struct {
	runOptions
	emulate, record bool
	trials          int
	seed            uint64
}

func trapsCommand() *cli.Command {
	return &cli.Command{
		Name:      "traps",
		Usage:     "walk camera-paper and camera into the traps of the published text",
		ArgsUsage: "[NAME...]",
		Description: "Runs the scenarios of workloads/traps with both algorithms: the published text (camera-paper) must let\n" +
			"two nodes in at once, or in h8 wait for ever, and the hardened one (camera) must not. --emulate runs them\n" +
			"on real processes, one after the other. Exit status: 0 all as it must be, 1 otherwise, 2 wrong usage,\n" +
			"3 the host lacks something, 4 interrupted.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "trials", Value: 10, Usage: "`N` seeds each"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "first seed"},
			&cli.BoolFlag{Name: "emulate", Usage: "on real processes"},
			&cli.BoolFlag{Name: "record", Usage: "write results/reference/traps-ENGINE.csv of the source tree around here"},
			&cli.StringFlag{Name: "node-binary", Usage: "`PATH` of the node program (default: churnbed-node beside this program)"},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: func(c *cli.Context) error {
			names, err := interleaved(c)
			if err != nil {
				return usageError(err)
			}
			a := &trapArgs{
				runOptions: runOptions{
					json: c.Bool("json"), quiet: c.Bool("quiet"), nodeBinary: c.String("node-binary"), stdout: c.App.Writer, stderr: os.Stderr,
				},
				emulate: c.Bool("emulate"), record: c.Bool("record"), trials: c.Int("trials"), seed: c.Uint64("seed"),
			}
			chosen, err := chooseTraps(names)
			if err != nil {
				return usageError(err)
			}
			if a.trials < 1 {
				return usageError(fmt.Errorf("--trials %d: want 1 or more", a.trials))
			}
			if a.record && len(names) > 0 {
				return usageError(errors.New("--record: wants all traps"))
			}
			return a.reproduce(c.Context, chosen)
		},
	}
}

func chooseTraps(names []string) ([]traps.Trap, error) {
	all := traps.All()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []traps.Trap
	known := make([]string, len(all))
	for i, t := range all {
		known[i] = t.Name
	}
	for _, name := range names {
		n := len(chosen)
		for _, t := range all {
			if t.Name == name {
				chosen = append(chosen, t)
			}
		}
		if len(chosen) == n {
			return nil, fmt.Errorf("trap %q: want some of %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// trapRow is what the trials of one trap with one algorithm came to.
type trapRow struct {
	Trap      string         `json:"trap"`
	Title     string         `json:"title"`
	Algorithm string         `json:"algorithm"`
	Engine    string         `json:"engine"`
	Trials    int            `json:"trials"`
	Violating int            `json:"violating"` // trials
	Starved   int            `json:"starved"`   // trials in which a request waited for ever
	Shortest  results.Number `json:"shortest_overlap_ms"`
	AsItMust  bool           `json:"as_it_must"`
}

// trapAlgorithms are the published text and the hardened one.
var trapAlgorithms = [2]string{"camera-paper", "camera"}

func (a *trapArgs) reproduce(ctx context.Context, chosen []traps.Trap) (err error) {
	root := ""
	if a.record {
		wd, err := os.Getwd()
		if err != nil {
			return hostError(err)
		}
		if root = reproduce.FindRoot(wd); root == "" {
			return usageError(errors.New("--record: run it inside the source tree, where results/reference is"))
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	dir, err := unpackTraps()
	if err != nil {
		return hostError(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	engine, run := results.Simulated, simulator()
	if a.emulate {
		engine, run = results.Emulated, a.realProcesses()
	}
	var rows []trapRow
	wrong := false
	for _, t := range chosen {
		for _, algorithm := range trapAlgorithms {
			row, err := a.runTrials(ctx, run, t, algorithm, filepath.Join(dir, t.Name+".yaml"))
			if ctx.Err() != nil {
				return &codedError{exitInterrupted, fmt.Errorf("interrupted in %s", t.Name)}
			}
			if err != nil {
				return err
			}
			row.Engine = engine
			rows = append(rows, row)
			wrong = wrong || !row.AsItMust
		}
	}
	if a.json {
		err = printJSON(a.stdout, rows)
	} else {
		err = printTraps(a.stdout, rows)
	}
	if err == nil && a.record {
		err = recordTraps(filepath.Join(root, recordDir, "traps-"+engine+".csv"), rows)
	}
	switch {
	case err != nil:
		return hostError(err)
	case wrong:
		return errCheckFailed
	}
	return nil
}

// unpackTraps writes the scenarios and the lists that they name to a folder.
func unpackTraps() (dir string, err error) {
	dir, err = os.MkdirTemp("", "churnbed-traps-*")
	if err != nil {
		return "", err
	}
	files, err := fs.Glob(traps.Files, "*")
	for _, f := range files {
		var b []byte
		if b, err = traps.Files.ReadFile(f); err == nil {
			err = os.WriteFile(filepath.Join(dir, f), b, 0o644)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// runTrials runs one trap with one algorithm.
func (a *trapArgs) runTrials(ctx context.Context, run minimise.Engine, t traps.Trap, algorithm, file string) (trapRow, error) {
	row := trapRow{Trap: t.Name, Title: t.Title, Algorithm: algorithm, Shortest: results.Unknown()}
	for i := range a.trials {
		spec, origin, err := scenario.Load(file, []scenario.Setting{
			{Key: "algorithm", Value: algorithm}, {Key: "seed", Value: strconv.FormatUint(a.seed+uint64(i), 10)},
		})
		if err != nil {
			return row, err
		}
		sc, err := scenario.Resolve(spec, origin)
		if err != nil {
			return row, err
		}
		s, err := run(ctx, sc)
		if err != nil {
			return row, err
		}
		row.add(s)
		if !a.quiet && a.emulate {
			fmt.Fprintf(a.stderr, "%s %s seed %d: %s\n", t.Name, algorithm, sc.Seed, s.Verdict)
		}
	}
	row.AsItMust = row.Violating == 0 && row.Starved == 0
	if algorithm == trapAlgorithms[0] {
		row.AsItMust = row.Violating > 0
		if t.Starves {
			row.AsItMust = row.Starved > 0
		}
	}
	return row, nil
}

func (r *trapRow) add(s *results.Summary) {
	r.Trials++
	if s.Requests.UnservedReasons[results.UnservedWaiting] > 0 {
		r.Starved++
	}
	if s.Safety.Violations > 0 {
		r.Violating++
		if !r.Shortest.Known() || s.Safety.ViolationMS < r.Shortest {
			r.Shortest = s.Safety.ViolationMS
		}
	}
}

func printTraps(w io.Writer, rows []trapRow) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "trap\talgorithm\tengine\ttrials\tviolating\tstarved\tshortest overlap\t\t")
	for _, r := range rows {
		overlap, note := "-", ""
		if r.Shortest.Known() {
			overlap = fmt.Sprintf("%.1f ms", float64(r.Shortest))
		}
		if !r.AsItMust {
			note = "NOT AS IT MUST BE"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", r.Trap, r.Algorithm, r.Engine, r.Trials, r.Violating, r.Starved, overlap, r.Title, note)
	}
	return tw.Flush()
}

func recordTraps(path string, rows []trapRow) error {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"trap", "algorithm", "engine", "trials", "violating_trials", "starved_trials", "shortest_overlap_ms", "date", "version", "host"})
	host := fmt.Sprintf("%s/%s %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, r := range rows {
		overlap := ""
		if r.Shortest.Known() {
			overlap = strconv.FormatFloat(float64(r.Shortest), 'f', 3, 64)
		}
		_ = w.Write([]string{
			r.Trap, r.Algorithm, r.Engine, strconv.Itoa(r.Trials), strconv.Itoa(r.Violating), strconv.Itoa(r.Starved), overlap,
			time.Now().UTC().Format(time.DateOnly), version(), host,
		})
	}
	w.Flush()
	if err := renameio.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
