package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"churnbed/emulator/scenario"
	"churnbed/emulator/simulate"
	"churnbed/results"
)

func simCommand() *cli.Command {
	args := &scenarioArgs{}
	var jsonOut, quiet bool
	var replay string
	return &cli.Command{
		Name:      "sim",
		Usage:     "run a scenario in virtual time and judge it",
		ArgsUsage: "[SCENARIO.yaml]",
		Description: "Runs the protocol code of real nodes in the simulator and writes the same run directory. The same\n" +
			"scenario and seed give the same log digest everywhere. With --trials N the seeds seed, seed+1, ... run\n" +
			"over all cores into DIR/trials/<seed>. --replay DIR simulates the scenario of a run directory, a\n" +
			"trial's for example, again and compares the digests; --replay SEED simulates one seed of the scenario that\n" +
			"is given. Exit status as that of run.",
		Flags: append(args.flags(),
			&cli.BoolFlag{Name: "json", Usage: "print summary.json instead of the table", Destination: &jsonOut},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress", Destination: &quiet},
			&cli.StringFlag{Name: "replay", Usage: "simulate the scenario of the run directory `DIR` again, or one seed of the given scenario's trials", Destination: &replay},
		),
		Action: func(c *cli.Context) error {
			spec, origin, err := args.spec(c) // sets the flags behind the file, too
			if err != nil {
				return err
			}
			opt := runOptions{json: jsonOut, quiet: quiet, stdout: c.App.Writer, stderr: os.Stderr}
			if seed, err := strconv.ParseUint(replay, 10, 64); err == nil && !exists(replay) {
				spec.Seed, spec.Trials = seed, 1
			} else if replay != "" {
				if i := slices.IndexFunc(args.given, func(s scenario.Setting) bool { return s.Key != "out" }); i >= 0 {
					return usageError(fmt.Errorf("--%s: --replay %s repeats that run as it was: only --out goes with it", args.given[i].Key, replay))
				}
				if c.Args().Present() {
					return usageError(fmt.Errorf("argument %q: --replay %s repeats the scenario of that run, and takes no other", c.Args().First(), replay))
				}
				return replayRun(c.Context, replay, spec.Out, opt)
			}
			sc, err := scenario.Resolve(spec, origin)
			if err != nil {
				return usageError(err)
			}
			if spec.Trials > 1 {
				return simulateTrials(c.Context, spec, origin, sc.OutDir(exists), opt)
			}
			return simulateOne(c.Context, sc, sc.OutDir(exists), opt)
		},
	}
}

// simulateOne simulates and judges one run.
func simulateOne(ctx context.Context, sc *scenario.Scenario, dir string, opt runOptions) error {
	if !opt.quiet {
		for _, w := range sc.Warnings {
			fmt.Fprintln(opt.stderr, "note:", w)
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	m := manifest(sc, "", "")
	run, err := simulate.Run(ctx, sc, dir, m)
	if run == nil {
		return usageError(err)
	}
	if err != nil && !m.Interrupted {
		return hostError(err)
	}
	failed, err := judge(run.Dir, opt)
	switch {
	case err != nil:
		return err
	case m.Interrupted:
		return &codedError{exitInterrupted, errors.New("interrupted: the summary covers what was run")}
	case failed:
		return errCheckFailed
	}
	return nil
}

// simulateTrials simulates spec.Trials seeds over all cores.
func simulateTrials(ctx context.Context, spec scenario.Spec, origin scenario.Origin, dir string, opt runOptions) error {
	if exists(dir) {
		return usageError(fmt.Errorf("create trial set: %s exists; name a directory that does not", dir))
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	bar := trialBar(spec.Trials, opt)
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	var mu sync.Mutex
	failed := 0
	for _, seed := range simulate.Seeds(spec.Seed, spec.Trials) {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			one := spec
			one.Seed, one.Trials = seed, 1
			sc, err := scenario.Resolve(one, origin)
			if err != nil {
				return usageError(fmt.Errorf("seed %d: %w", seed, err))
			}
			bad, err := trial(ctx, sc, filepath.Join(dir, "trials", strconv.FormatUint(seed, 10)))
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if bad {
				failed++
				fmt.Fprintf(opt.stderr, "seed %d fails a check: %s\n", seed, filepath.Join(dir, "trials", strconv.FormatUint(seed, 10)))
			}
			_ = bar.Add(1)
			return nil
		})
	}
	err := group.Wait()
	_ = bar.Finish()
	switch {
	case ctx.Err() != nil:
		return &codedError{exitInterrupted, fmt.Errorf("interrupted: the finished trials are in %s", dir)}
	case err != nil:
		return err
	}
	if err := printTrials(dir, opt); err != nil {
		return err
	}
	if failed > 0 {
		return errCheckFailed
	}
	return nil
}

// trial simulates, judges and summarises one seed.
func trial(ctx context.Context, sc *scenario.Scenario, dir string) (failed bool, err error) {
	run, err := simulate.Run(ctx, sc, dir, manifest(sc, "", ""))
	if err != nil {
		return false, err
	}
	run, err = results.Open(run.Dir)
	if err != nil {
		return false, err
	}
	s, _, err := results.Judge(run)
	if err != nil {
		return false, err
	}
	return s.Failed(), run.WriteSummary(s)
}

// printTrials prints the means over the trials of a set; compare says more.
func printTrials(dir string, opt runOptions) error {
	set, err := results.ReadSummaries(dir)
	if err != nil {
		return err
	}
	if opt.json {
		return printJSON(opt.stdout, set)
	}
	return set.Print(opt.stdout, dir)
}

func trialBar(n int, opt runOptions) *progressbar.ProgressBar {
	w := io.Discard
	if f, ok := opt.stderr.(*os.File); ok && !opt.quiet && term.IsTerminal(int(f.Fd())) {
		w = f
	}
	return progressbar.NewOptions(n, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(),
		progressbar.OptionSetDescription("trials"), progressbar.OptionClearOnFinish())
}

// replayRun simulates the scenario of a run directory again, into again ("":
// a new directory under runs/).
func replayRun(ctx context.Context, dir, again string, opt runOptions) error {
	old, err := results.Open(dir)
	if err != nil {
		return usageError(err)
	}
	spec, origin, err := scenario.Load(old.Path(results.ScenarioFile), nil)
	if err != nil {
		return usageError(err)
	}
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		return usageError(err)
	}
	if again == "" {
		again = sc.OutDir(exists)
	}
	if err := simulateOne(ctx, sc, again, opt); err != nil && !errors.Is(err, errCheckFailed) {
		return err
	}
	if old.Manifest.LogDigest == "" {
		return nil // an emulated run: there is nothing to be equal to
	}
	run, err := results.Open(again)
	if err != nil {
		return err
	}
	if run.Manifest.LogDigest != old.Manifest.LogDigest {
		fmt.Fprintf(opt.stderr, "the logs differ: digest %s, was %s\n", run.Manifest.LogDigest, old.Manifest.LogDigest)
		return errCheckFailed
	}
	fmt.Fprintln(opt.stderr, "the logs are the same, digest", run.Manifest.LogDigest)
	return nil
}
