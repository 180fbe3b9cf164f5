package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"churnbed/results"
	"churnbed/results/report"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "judge the logs of a run: safety, liveness, soundness",
		ArgsUsage: "DIR",
		Description: "Reads the run directory DIR alone, so an old run can be judged again. Exit code 1 where two nodes were in\n" +
			"the critical section at once, a request starved (on a host that kept up) or the logs contradict themselves.\n" +
			"Safety is judged twice, by a sweep over the sections and by porcupine, which searches for an order in which\n" +
			"a mutex can have done it all; where they disagree, that is an error.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
			&cli.IntFlag{Name: "chart", Usage: "print log lines and a message chart of the first `N` violations", Value: 3},
		},
		Action: func(c *cli.Context) error {
			run, err := openRun(c)
			if err != nil {
				return err
			}
			if c.Int("chart") < 0 {
				return usageError(fmt.Errorf("--chart %d: want 0 or more", c.Int("chart")))
			}
			s, v, err := results.Judge(run)
			if errors.Is(err, results.ErrJudgesDisagree) {
				return &codedError{exitCheckFailed, err}
			}
			if err != nil {
				return usageError(err)
			}
			if c.Bool("json") {
				err = printJSON(c.App.Writer, results.NewReport(run, s, v))
			} else {
				err = run.WriteVerdict(c.App.Writer, s, v, c.Int("chart"))
				if s.Groups == nil { // it looks at requests of one lock
					fmt.Fprintf(c.App.Writer, "second judge        agrees on safety (porcupine, %d operations of the lock)\n", v.Operations)
				}
			}
			if err != nil {
				return err
			}
			if s.Safety.Violations > 0 && !c.Bool("json") {
				fmt.Fprintln(c.App.Writer, "next                churnbed minimise "+report.Quote(run.Dir)+" finds the faults that it takes, churnbed report "+report.Quote(run.Dir)+" shows it")
			}
			if s.Failed() {
				return errCheckFailed
			}
			return nil
		},
	}
}

// openRun opens the run directory that is the one argument of the command.
func openRun(c *cli.Context) (*results.Run, error) {
	args, err := interleaved(c)
	if err != nil {
		return nil, err
	}
	if len(args) != 1 {
		return nil, usageError(fmt.Errorf("%s: want one run directory, got %d arguments", c.Command.Name, len(args)))
	}
	run, err := results.Open(args[0])
	if err != nil {
		return nil, usageError(noRun(err))
	}
	return run, nil
}

// noRun adds to an error about a run directory where such come from.
func noRun(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, results.ErrNotARun) {
		return fmt.Errorf("%w (`churnbed run` and `churnbed sim` print the directory that they wrote, by default below runs/)", err)
	}
	return err
}

// interleaved returns the arguments of a command whose flags may stand
// between and after them (`summary DIR --json`), which the command line
// library leaves unread; its errors are usage errors.
func interleaved(c *cli.Context) ([]string, error) { return interleavedIn(c, c.Args().Slice()) }

// interleavedIn is interleaved for some of the arguments.
func interleavedIn(c *cli.Context, rest []string) ([]string, error) {
	var args []string
	for len(rest) > 0 {
		switch arg := rest[0]; {
		case arg == "--":
			return append(args, rest[1:]...), nil
		case len(arg) < 2 || !strings.HasPrefix(arg, "-"):
			args, rest = append(args, arg), rest[1:]
			continue
		}
		set := flag.NewFlagSet(c.Command.Name, flag.ContinueOnError)
		set.SetOutput(io.Discard)
		for _, f := range c.Command.Flags {
			if err := f.Apply(set); err != nil {
				return nil, usageError(err)
			}
		}
		if err := set.Parse(rest); err != nil {
			return nil, usageError(err)
		}
		var errs []error
		set.Visit(func(f *flag.Flag) { errs = append(errs, setFlag(c, f.Name, f.Value.String())) })
		if err := errors.Join(errs...); err != nil {
			return nil, usageError(err)
		}
		rest = set.Args()
	}
	return args, nil
}

// oneArgument is interleaved for a command that takes one argument; want says
// so where there is not one.
func oneArgument(c *cli.Context, want string) (string, error) {
	args, err := interleaved(c)
	if err != nil {
		return "", err
	}
	if len(args) != 1 {
		return "", usageError(errors.New(want))
	}
	return args[0], nil
}

// setFlag sets a flag under all its names: the library tells them of each
// other only before the first argument.
func setFlag(c *cli.Context, name, value string) error {
	for _, f := range c.Command.Flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		var errs []error
		for _, n := range f.Names() {
			errs = append(errs, c.Set(n, value))
		}
		return errors.Join(errs...)
	}
	return c.Set(name, value)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
