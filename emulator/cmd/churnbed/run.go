package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"churnbed/emulator/controller"
	"churnbed/emulator/scenario"
	"churnbed/results"
)

func runCommand() *cli.Command {
	args := &scenarioArgs{}
	var jsonOut, quiet bool
	var nodeBinary string
	return &cli.Command{
		Name:      "run",
		Usage:     "run a scenario on real node processes and judge it",
		ArgsUsage: "[SCENARIO.yaml]",
		Description: "Builds the mesh in private namespaces, starts one process a node, runs the workload under the\n" +
			"faults, collects the logs into the run directory (--out) and judges them. Every flag in a category is\n" +
			"also a key of scenario files; flags win. Exit status: 0 all well, 1 a violation or a failed node,\n" +
			"2 wrong usage, 3 the host lacks something, 4 interrupted (the summary is written all the same).",
		Flags: append(args.flags(),
			&cli.BoolFlag{Name: "json", Usage: "print summary.json instead of the table", Destination: &jsonOut},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress", Destination: &quiet},
			&cli.StringFlag{Name: "node-binary", Usage: "`PATH` of the node program (default: churnbed-node beside this program)", Destination: &nodeBinary},
		),
		Action: func(c *cli.Context) error {
			sc, err := args.load(c)
			if err != nil {
				return err
			}
			return emulate(c.Context, sc, runOptions{
				json: jsonOut, quiet: quiet, nodeBinary: nodeBinary, stdout: os.Stdout, stderr: os.Stderr,
			})
		},
	}
}

type runOptions struct {
	json, quiet bool
	nodeBinary  string
	stdout      io.Writer
	stderr      io.Writer
}

// emulate runs a scenario and judges it.
func emulate(ctx context.Context, sc *scenario.Scenario, opt runOptions) error {
	fabricKind, why, err := chooseFabric(sc.Fabric)
	if err != nil {
		return hostError(err)
	}
	if opt.nodeBinary == "" {
		if opt.nodeBinary, err = controller.FindNodeBinary(); err != nil {
			return hostError(err)
		}
	}
	if opt.nodeBinary, err = filepath.Abs(opt.nodeBinary); err != nil {
		return usageError(err)
	}
	if st, err := os.Stat(opt.nodeBinary); err != nil || st.IsDir() || st.Mode()&0o111 == 0 {
		return usageError(fmt.Errorf("node program %s: not an executable file", opt.nodeBinary))
	}
	if !opt.quiet {
		for _, w := range sc.Warnings {
			fmt.Fprintln(opt.stderr, "note:", w)
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	show := progress(opt)
	m := manifest(sc, fabricKind, why)
	run, err := controller.Run(ctx, controller.Options{
		Scenario: sc, Dir: sc.OutDir(exists), Fabric: fabricKind, NodeBinary: opt.nodeBinary, Manifest: m, Progress: show.update,
		Log: slog.New(slog.NewTextHandler(opt.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	show.finish()
	if run == nil {
		return usageError(err)
	}
	interrupted := ctx.Err() != nil
	if err != nil && !(interrupted && errors.Is(err, context.Canceled)) {
		fmt.Fprintln(opt.stderr, "churnbed:", err)
	}
	if m.Timing.RunMS < 0 { // it never began: there is nothing to judge
		if interrupted {
			return &codedError{exitInterrupted, errors.New("interrupted before the workload began")}
		}
		return hostError(fmt.Errorf("the run failed before the workload began; what there is of it is in %s", run.Dir))
	}
	violated, jerr := judge(run.Dir, opt)
	switch {
	case jerr != nil:
		return jerr
	case interrupted:
		return &codedError{exitInterrupted, errors.New("interrupted: the summary covers what was run")}
	case violated || err != nil:
		return errCheckFailed
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// judge writes and prints the summary and reports whether a check
// failed.
func judge(dir string, opt runOptions) (violated bool, err error) {
	run, err := results.Open(dir)
	if err != nil {
		return false, err
	}
	s, _, err := results.Judge(run)
	if err != nil {
		return false, err
	}
	if err := run.WriteSummary(s); err != nil {
		return false, err
	}
	violated = s.Failed()
	if opt.json {
		return violated, printJSON(opt.stdout, s)
	}
	return violated, s.Print(opt.stdout, run.Dir)
}

// interruptible returns a context that the first SIGINT or SIGTERM ends; the
// second one ends the program, and with it the sandbox.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
				if n > 0 {
					os.Exit(exitInterrupted)
				}
				fmt.Fprintln(os.Stderr, "\nending the run in order; interrupt once more to kill it")
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel() }
}

// manifest says what is run by what; the controller fills in the timing.
func manifest(sc *scenario.Scenario, fabricKind, why string) *results.Manifest {
	m := &results.Manifest{
		Engine: results.Emulated, Version: version(), GoVersion: runtime.Version(), Kernel: "",
		Cores: runtime.NumCPU(), MemoryBytes: 0, Seed: sc.Seed, Command: os.Args,
		Fabric: fabricKind, FabricWhy: why, TimeScale: sc.TimeScale,
		Nodes: len(sc.Topology.Nodes), Links: len(sc.Topology.Links),
		Algorithm: sc.Algorithm.Name, Membership: sc.Membership.Service,
		Arrivals: len(sc.Arrivals), Started: time.Now(), Fidelity: fidelityParameters(sc),
	}
	return m
}

// progressView shows a run on the terminal, or as plain lines elsewhere.
type progressView struct {
	out   io.Writer
	bar   *progressbar.ProgressBar
	phase controller.Phase
	last  time.Time
}

func progress(opt runOptions) *progressView {
	v := &progressView{out: opt.stderr}
	if opt.quiet {
		v.out = io.Discard
		return v
	}
	if f, ok := opt.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		v.bar = progressbar.NewOptions(-1, progressbar.OptionSetWriter(f), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetDescription("starting"), progressbar.OptionSpinnerType(14), progressbar.OptionSetElapsedTime(true))
	}
	return v
}

// plainEvery is how often a line is printed where there is no terminal.
const plainEvery = 5 * time.Second

func (v *progressView) update(p controller.Progress) {
	line := describe(p)
	if v.bar != nil {
		v.bar.Describe(line)
		_ = v.bar.Add(1)
		return
	}
	if p.Phase == v.phase && time.Since(v.last) < plainEvery {
		return
	}
	v.phase, v.last = p.Phase, time.Now()
	fmt.Fprintln(v.out, line)
}

func (v *progressView) finish() {
	if v.bar != nil {
		_ = v.bar.Finish()
	}
}

func describe(p controller.Progress) string {
	switch p.Phase {
	case controller.Wiring:
		return fmt.Sprintf("wiring the mesh: %s %d/%d", p.Stage, p.Done, p.Total)
	case controller.Starting:
		return fmt.Sprintf("starting nodes: %d/%d joined", p.Done, p.Total)
	case controller.Running:
		var b strings.Builder
		fmt.Fprintf(&b, "running %.1f s: served %d", p.Elapsed.Seconds(), p.Served)
		if p.Requests > 0 {
			fmt.Fprintf(&b, "/%d", p.Requests)
		}
		fmt.Fprintf(&b, ", %d waiting, %d nodes up, %d kills, %d restarts", p.Waiting, p.Alive, p.Kills, p.Restarts)
		return b.String()
	case controller.Ending:
		return "ending: collecting logs"
	}
	return string(p.Phase)
}
