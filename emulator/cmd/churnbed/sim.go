package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

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
				return runTrials(c.Context, spec, origin, sc.OutDir(exists), runtime.NumCPU(), countingBar("trials", spec.Trials, opt), opt, simulateTrial)
			}
			_, err = simulateOne(c.Context, sc, opt)
			return err
		},
	}
}

// newRun makes a run in the directory that the scenario names. Where it names
// none, and another command takes the name that was free, the next is tried.
func newRun(sc *scenario.Scenario, begin func(dir string) (*results.Run, error)) (*results.Run, error) {
	for {
		run, err := begin(sc.OutDir(exists))
		if run == nil && sc.Out == "" && errors.Is(err, fs.ErrExist) {
			continue
		}
		return run, err
	}
}

// simulateOne simulates and judges one run, and returns its directory.
func simulateOne(ctx context.Context, sc *scenario.Scenario, opt runOptions) (dir string, err error) {
	if !opt.quiet {
		for _, w := range sc.Warnings {
			fmt.Fprintln(opt.stderr, "note:", w)
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	m := manifest(sc, "", "")
	run, err := newRun(sc, func(dir string) (*results.Run, error) { return simulate.Run(ctx, sc, dir, m) })
	if run == nil {
		return "", usageError(err)
	}
	if err != nil && !m.Interrupted {
		return run.Dir, hostError(err)
	}
	failed, err := judge(run.Dir, opt)
	switch {
	case err != nil:
		return run.Dir, err
	case m.Interrupted:
		return run.Dir, &codedError{exitInterrupted, errors.New("interrupted: the summary covers what was run")}
	case failed:
		return run.Dir, errCheckFailed
	}
	return run.Dir, nil
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
	sc.Out = again
	if again, err = simulateOne(ctx, sc, opt); err != nil && !errors.Is(err, errCheckFailed) {
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
