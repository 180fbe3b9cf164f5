package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/results"
	"churnbed/results/compare"
	"churnbed/results/foreign"
)

func compareCommand() *cli.Command {
	d := compare.DefaultOptions()
	return &cli.Command{
		Name:      "compare",
		Usage:     "tell whether runs, trial sets and other simulators' results agree",
		ArgsUsage: "A B [C...]",
		Description: "Each argument is a run directory, a trial set (a directory with trials/<seed>/ or trials.jsonl), any directory of\n" +
			"run directories, a result file of the Camera Java simulator (.json, .json.xz) or a CSV of requests. A selection\n" +
			"may follow a path: 'FILE?N=256&msg_drop_rate=0'. Every set is compared with A. The verdict's rule is printed;\n" +
			"exit code 1 with --fail-on differ where a metric differs.",
		Flags: append(csvFlags(),
			&cli.GenericFlag{Name: "where", Value: new(selection), Usage: "take only trials with `KEY=VALUE` from every set (again for more, or joined by &)"},
			&cli.Float64Flag{Name: "tolerance", Value: d.Tolerance, Usage: "relative `SHARE` by which means and distributions may differ"},
			&cli.IntFlag{Name: "min-trials", Value: d.MinTrials, Usage: "least `NUMBER` of trials a side for a verdict"},
			&cli.Float64Flag{Name: "alpha", Value: d.Alpha, Usage: "`LEVEL` of the permutation test"},
			&cli.IntFlag{Name: "resamples", Value: d.Resamples, Usage: "`NUMBER` of bootstrap resamples"},
			&cli.IntFlag{Name: "permutations", Value: d.Permutations, Usage: "`NUMBER` of permutations"},
			&cli.Uint64Flag{Name: "seed", Value: d.Seed, Usage: "`SEED` of resamples and permutations"},
			&cli.BoolFlag{Name: "force", Usage: "judge the times of unfaithful runs too"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
			&cli.StringFlag{Name: "plot", Usage: "draw distributions into `DIR`, <metric>.svg and .png"},
			&cli.StringFlag{Name: "fail-on", Usage: "exit code 1 on `VERDICT`: differ, or too-few (differ or too few trials)"},
		),
		Action: compareAction,
	}
}

// csvFlags say how to read a CSV of requests.
func csvFlags() []cli.Flag {
	return []cli.Flag{
		&cli.GenericFlag{Name: "columns", Value: new(verbatim), Usage: "headers of a CSV: `NAMES` such as trial=run,node=host,request=t0,enter=t1,exit=t2"},
		&cli.StringFlag{Name: "time-unit", Value: "ms", Usage: "`UNIT` of a CSV's instants: ms, s, us or ns"},
		&cli.GenericFlag{Name: "param", Value: new(selection), Usage: "state `KEY=VALUE` of a CSV's scenario, such as nodes=64 (again for more, or joined by &)"},
	}
}

// verbatim is a string flag that keeps its commas.
type verbatim string

// Set implements flag.Value.
func (v *verbatim) Set(s string) error {
	*v = verbatim(s)
	return nil
}

func (v *verbatim) String() string { return string(*v) }

// selection collects the conditions of a flag that may be repeated. The
// library's slice flags cannot be set again from their own text, which
// interleaved does.
type selection []results.Condition

// Set implements flag.Value.
func (s *selection) Set(text string) error {
	more, err := results.ParseConditions(text)
	if err != nil {
		return err
	}
	for _, c := range more {
		if !slices.Contains(*s, c) {
			*s = append(*s, c)
		}
	}
	return nil
}

func (s *selection) String() string {
	parts := make([]string, len(*s))
	for i, c := range *s {
		parts[i] = c.Key + "=" + c.Value
	}
	return strings.Join(parts, "&")
}

// conditions returns what a selection flag was given.
func conditions(c *cli.Context, name string) []results.Condition {
	s, _ := c.Generic(name).(*selection)
	if s == nil {
		return nil
	}
	return *s
}

// csvOptions reads the flags of csvFlags.
func csvOptions(c *cli.Context) (foreign.CSVOptions, error) {
	columns, err := foreign.ParseColumns(c.Generic("columns").(*verbatim).String())
	if err != nil {
		return foreign.CSVOptions{}, fmt.Errorf("--columns: %w", err)
	}
	opt := foreign.CSVOptions{Columns: columns, Unit: c.String("time-unit"), Parameters: map[string]string{}}
	for _, p := range conditions(c, "param") {
		opt.Parameters[p.Key] = p.Value
	}
	return opt, nil
}

func openOptions(c *cli.Context) (opt foreign.Options, err error) {
	if opt.CSV, err = csvOptions(c); err != nil {
		return opt, err
	}
	opt.Where = conditions(c, "where")
	return opt, nil
}

func compareAction(c *cli.Context) error {
	args, err := interleaved(c)
	if err != nil {
		return err
	}
	if len(args) < 2 {
		return usageError(fmt.Errorf("compare: want two sets of trials or more, got %d", len(args)))
	}
	failOn := c.String("fail-on")
	if failOn != "" && failOn != "differ" && failOn != "too-few" {
		return usageError(fmt.Errorf("--fail-on %q: want differ or too-few", failOn))
	}
	opt, err := openOptions(c)
	if err != nil {
		return usageError(err)
	}
	sets := make([]*results.TrialSet, len(args))
	for i, path := range args {
		if sets[i], err = foreign.Open(path, opt); err != nil {
			return usageError(err)
		}
	}
	cmp, err := compare.Compare(sets, compare.Options{
		Tolerance: c.Float64("tolerance"), MinTrials: c.Int("min-trials"), Alpha: c.Float64("alpha"), Resamples: c.Int("resamples"),
		Permutations: c.Int("permutations"), Seed: c.Uint64("seed"), Force: c.Bool("force"),
	})
	if err != nil {
		return usageError(err)
	}
	if dir := c.String("plot"); dir != "" {
		if err := drawAll(cmp, dir); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		err = printJSON(c.App.Writer, &cmp.Report)
	} else {
		err = cmp.Report.Print(c.App.Writer)
	}
	if err != nil {
		return err
	}
	v := cmp.Report.Verdict
	if failOn != "" && v == compare.Differ || failOn == "too-few" && v == compare.TooFew {
		return errCheckFailed
	}
	return nil
}

func drawAll(cmp *compare.Comparison, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usageError(fmt.Errorf("--plot: %w", err))
	}
	for _, metric := range cmp.Drawable() {
		for _, format := range [...]string{"svg", "png"} {
			var b bytes.Buffer
			if err := cmp.Draw(&b, metric, format); err != nil {
				return err
			}
			path := filepath.Join(dir, metric+"."+format)
			if err := renameio.WriteFile(path, b.Bytes(), 0o644); err != nil {
				return fmt.Errorf("write plot: %w", err)
			}
		}
	}
	return nil
}

// newDir creates a directory for output, which must not hold anything yet.
func newDir(path string) error {
	if path == "" {
		return usageError(errors.New("-o DIR is missing"))
	}
	entries, err := os.ReadDir(path)
	if err == nil && len(entries) > 0 {
		return usageError(fmt.Errorf("%s is not empty; name one that does not exist", path))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return usageError(err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return usageError(err)
	}
	return nil
}
