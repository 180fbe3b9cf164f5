package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"

	"churnbed/emulator/scenario"
	"churnbed/emulator/simulate"
	"churnbed/results"
	"churnbed/results/report"
)

// each calls do for 0 to n-1, at most parallel of them at a time. After an
// error or the end of ctx none is begun any more, and the context that do is
// given ends.
func each(ctx context.Context, n, parallel int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range n {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return do(ctx, i)
		})
	}
	return group.Wait()
}

// runTrials runs the spec.Trials seeds of a set into folders of their own below
// dir, each by one, and prints the set.
func runTrials(ctx context.Context, spec scenario.Spec, origin scenario.Origin, dir string, parallel int, bar *progressbar.ProgressBar,
	opt runOptions, one func(ctx context.Context, sc *scenario.Scenario) (failed bool, err error),
) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		err = os.Mkdir(dir, 0o755) // two commands that are given the same name do not share it
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return usageError(fmt.Errorf("create trial set: %w; name a directory that does not exist", err))
	case err != nil:
		return usageError(fmt.Errorf("create trial set: %w", err))
	}
	defer func() { _ = os.Remove(dir) }() // which fails once there is a trial in it
	ctx, stop := interruptible(ctx)
	defer stop()
	seeds := simulate.Seeds(spec.Seed, spec.Trials)
	var mu sync.Mutex
	failed := false
	err = each(ctx, len(seeds), parallel, func(ctx context.Context, i int) error {
		sc, err := resolveTrial(spec, origin, seeds[i], trialDir(dir, seeds[i]))
		if err != nil {
			return err
		}
		bad, err := one(ctx, sc)
		if err != nil {
			return fmt.Errorf("seed %d: %w", sc.Seed, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if bad {
			failed = true
			fmt.Fprintf(opt.stderr, "seed %d fails a check: %s\n", sc.Seed, sc.Out)
		}
		_ = bar.Add(1)
		return nil
	})
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
	if failed {
		return errCheckFailed
	}
	return nil
}

// trialDir is the folder of one seed in that of a set.
func trialDir(set string, seed uint64) string {
	return filepath.Join(set, results.TrialsDir, strconv.FormatUint(seed, 10))
}

// resolveTrial resolves one seed of a scenario that is to run into out.
func resolveTrial(spec scenario.Spec, origin scenario.Origin, seed uint64, out string) (*scenario.Scenario, error) {
	spec.Seed, spec.Trials, spec.Out = seed, 1, out
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		return nil, usageError(fmt.Errorf("seed %d: %w", seed, err))
	}
	return sc, nil
}

// simulateTrial simulates, judges and summarises one seed into sc.Out.
func simulateTrial(ctx context.Context, sc *scenario.Scenario) (failed bool, err error) {
	run, err := simulate.Run(ctx, sc, sc.Out, manifest(sc, "", ""))
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

// emulateTrial runs and judges one seed on real processes, into sc.Out. Its
// summary is not printed, and interrupts are the caller's.
func emulateTrial(ctx context.Context, sc *scenario.Scenario, opt runOptions) (failed bool, err error) {
	opt.stdout, opt.json, opt.interrupts = io.Discard, false, true
	err = emulate(ctx, sc, opt)
	if err != nil && exitCode(err) == exitCheckFailed {
		return true, nil
	}
	return false, err
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
	if err := set.Print(opt.stdout, dir); err != nil || len(set.Seeds) == 0 {
		return err
	}
	run := filepath.Join(dir, results.TrialsDir, strconv.FormatUint(set.Seeds[0], 10))
	_, err = fmt.Fprintf(opt.stdout, "next                            churnbed report %s, churnbed compare %s ANOTHER\n", report.Quote(run), report.Quote(dir))
	return err
}
