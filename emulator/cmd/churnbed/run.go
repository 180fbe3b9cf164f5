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
	"golang.org/x/sys/unix"

	"churnbed/emulator/controller"
	"churnbed/emulator/kernel"
	"churnbed/emulator/live"
	"churnbed/emulator/scenario"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/results/report"
)

func runCommand() *cli.Command {
	args := &scenarioArgs{}
	var jsonOut, quiet bool
	var nodeBinary string
	var virtual virtualHost
	var liveAt, capture string
	return &cli.Command{
		Name:      "run",
		Usage:     "run a scenario on real node processes and judge it",
		ArgsUsage: "[SCENARIO.yaml]",
		Description: "Builds the mesh in private namespaces, starts one process a node, runs the workload under the\n" +
			"faults, collects the logs into the run directory (--out) and judges them. Every flag in a category is\n" +
			"also a key of scenario files; flags win. Exit status: 0 all well, 1 a violation or a failed node,\n" +
			"2 wrong usage, 3 the host lacks something, 4 interrupted (the summary is written all the same).\n" +
			"With --trials N the seeds seed, seed+1, ... run one after the other into DIR/trials/<seed>.\n" +
			"--virtual-host does the same in a virtual machine, whose processor is slow but always there. It skips\n" +
			"idle time, so that --time-scale 4 makes its times four times as exact in about the same wall time.",
		Flags: append(append(args.flags(),
			&cli.BoolFlag{Name: "json", Usage: "print summary.json instead of the table", Destination: &jsonOut},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress", Destination: &quiet},
			&cli.StringFlag{Name: "live", Usage: "show the run to browsers at the loopback `ADDR`, such as 127.0.0.1:0 or 8080; its address is printed", Destination: &liveAt},
			&cli.StringFlag{Name: "capture", Usage: "record all frames at `NODES`, all or ids such as 0,3,5-9, for churnbed export pcapng; takes processor time", Destination: &capture},
			&cli.StringFlag{Name: "node-binary", Usage: "`PATH` of the node program (default: churnbed-node beside this program)", Destination: &nodeBinary},
		), virtual.flags()...),
		Action: func(c *cli.Context) error {
			spec, origin, err := args.spec(c)
			if err != nil {
				return err
			}
			sc, err := scenario.Resolve(spec, origin)
			if err != nil {
				return usageError(err)
			}
			opt := runOptions{
				json: jsonOut, quiet: quiet, nodeBinary: nodeBinary, virtual: virtual, stdout: os.Stdout, stderr: os.Stderr,
			}
			if opt.capture, err = captureNodes(capture, len(sc.Topology.Nodes)); err != nil {
				return usageError(err)
			}
			if virtual.on && len(opt.capture) > 0 {
				return usageError(errors.New("--capture: not in a virtual host"))
			}
			if liveAt != "" {
				if opt.page, err = openPage(liveAt, spec.Trials, virtual.on, os.Stderr); err != nil {
					return usageError(err)
				}
				defer func() { _ = opt.page.Close() }()
			}
			if spec.Trials > 1 {
				// One after the other: they would disturb each other's times.
				return runTrials(c.Context, spec, origin, sc.OutDir(exists), 1, progressbar.DefaultSilent(int64(spec.Trials)), opt,
					func(ctx context.Context, sc *scenario.Scenario) (bool, error) { return emulateTrial(ctx, sc, opt) })
			}
			return emulate(c.Context, sc, opt)
		},
	}
}

type runOptions struct {
	json, quiet bool
	nodeBinary  string
	virtual     virtualHost
	interrupts  bool // the caller sees to interrupts
	page        *live.Page
	capture     []core.NodeID
	stdout      io.Writer
	stderr      io.Writer
}

// emulate runs a scenario and judges it.
func emulate(ctx context.Context, sc *scenario.Scenario, opt runOptions) error {
	if why := sc.SimulatorOnly(); why != "" {
		return usageError(fmt.Errorf("%s: the simulator alone has it: use churnbed sim", why))
	}
	if opt.virtual.on {
		return emulateVirtually(ctx, sc, opt)
	}
	var err error
	if opt.nodeBinary, err = nodeProgram(opt.nodeBinary); err != nil {
		return err
	}
	ctx, stop := opt.interruptible(ctx)
	defer stop()
	h, err := probeHost(ctx)
	if err != nil {
		return hostError(err)
	}
	fabricKind, why, err := h.prepare(sc)
	if ctx.Err() != nil {
		return &codedError{exitInterrupted, errors.New("interrupted before anything was created")}
	}
	if err != nil {
		return err
	}
	if !opt.quiet {
		for _, w := range sc.Warnings {
			fmt.Fprintln(opt.stderr, "note:", w)
		}
	}
	show := progress(opt)
	m := manifest(sc, fabricKind, why)
	run, err := newRun(sc, func(dir string) (*results.Run, error) {
		return controller.Run(ctx, controller.Options{
			Scenario: sc, Dir: dir, Fabric: fabricKind, NodeBinary: opt.nodeBinary, Manifest: m, Progress: show.update, Page: opt.page,
			Capture: opt.capture,
			Log:     slog.New(slog.NewTextHandler(show, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
	})
	show.finish()
	if run == nil {
		return usageError(fmt.Errorf("%w (--out names another)", err))
	}
	interrupted := ctx.Err() != nil
	if m.Timing.RunMS < 0 { // it never began: there is nothing to judge
		return notBegun(err, interrupted, run.Dir)
	}
	if err != nil {
		fmt.Fprintln(opt.stderr, "churnbed: the run is incomplete:", err)
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

// captureNodes reads --capture for a mesh of so many nodes.
func captureNodes(text string, nodes int) ([]core.NodeID, error) {
	if text == "all" {
		text = fmt.Sprintf("0-%d", nodes-1)
	}
	ids, err := eventlog.ParseRanges(text)
	if err != nil {
		return nil, fmt.Errorf("--capture %q: want all, or ids such as 0,3,5-9: %w", text, err)
	}
	if n := len(ids); n > 0 && int(ids[n-1]) >= nodes {
		return nil, fmt.Errorf("--capture: no node %d: there are 0..%d", ids[n-1], nodes-1)
	}
	return ids, nil
}

// openPage opens the page of a run and says where it is.
func openPage(address string, trials int, virtual bool, told io.Writer) (*live.Page, error) {
	switch {
	case trials > 1:
		return nil, errors.New("--live: a page shows one run: want --trials 1")
	case virtual:
		return nil, errors.New("--live: a virtual host cannot be looked into: want a run without --virtual-host")
	}
	p, err := live.NewPage(address)
	if err != nil {
		return nil, fmt.Errorf("--live: %w", err)
	}
	_, err = fmt.Fprintln(told, "live page:", p.URL())
	return p, err
}

// nodeProgram returns the absolute path of the node program.
func nodeProgram(path string) (string, error) {
	if path == "" {
		path, err := controller.FindNodeBinary()
		if err != nil {
			return "", hostError(err)
		}
		return path, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", usageError(err)
	}
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || unix.Access(path, unix.X_OK) != nil {
		return "", usageError(fmt.Errorf("node-binary %s: not a program that may be executed", path))
	}
	return path, nil
}

// notBegun says why a run ended before its epoch.
func notBegun(err error, interrupted bool, dir string) error {
	if interrupted {
		return &codedError{exitInterrupted, fmt.Errorf("interrupted before the workload began; what there is of the run is in %s", dir)}
	}
	err = fmt.Errorf("the run failed before the workload began; what there is of it is in %s: %w", dir, err)
	var node *controller.NodeError
	if errors.As(err, &node) {
		return &codedError{exitCheckFailed, err}
	}
	return hostError(err)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// judge writes and prints the summary and reports whether a check failed. A
// summary that cannot be written is printed all the same.
func judge(dir string, opt runOptions) (violated bool, err error) {
	run, err := results.Open(dir)
	if err != nil {
		return false, hostError(err)
	}
	s, _, err := results.Judge(run)
	if err != nil {
		return false, hostError(err)
	}
	if err = run.WriteSummary(s); err != nil {
		err = hostError(err)
	}
	if opt.json {
		return s.Failed(), errors.Join(err, printJSON(opt.stdout, s))
	}
	err = errors.Join(err, s.Print(opt.stdout, run.Dir))
	quoted := report.Quote(run.Dir)
	next := "churnbed report " + quoted
	if s.Failed() {
		next = "churnbed check " + quoted + ", then " + next
	}
	if s.Safety.Violations > 0 {
		next += ", churnbed minimise " + quoted
	}
	_, werr := fmt.Fprintln(opt.stdout, "next               ", next)
	return s.Failed(), errors.Join(err, werr)
}

// interruptible is the function of that name where the caller leaves
// interrupts to the run.
func (o *runOptions) interruptible(ctx context.Context) (context.Context, func()) {
	if o.interrupts {
		return ctx, func() {}
	}
	return interruptible(ctx)
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
	host, _ := kernel.ReadLimits() // what cannot be read is left out
	return &results.Manifest{
		Engine: results.Emulated, Version: version(), GoVersion: runtime.Version(), Kernel: host.Kernel,
		Cores: runtime.NumCPU(), MemoryBytes: int64(host.MemoryTotal), Seed: sc.Seed, Command: os.Args,
		Fabric: fabricKind, FabricWhy: why, TimeScale: sc.TimeScale,
		Nodes: len(sc.Topology.Nodes), Links: len(sc.Topology.Links),
		Algorithm: sc.Algorithm.Name, Membership: sc.Membership.Service, Holders: sc.Spec.K, SettleMS: float64(sc.Spec.Settle) / 1e6,
		Arrivals: len(sc.Arrivals), Started: time.Now(), Fidelity: fidelityParameters(sc),
	}
}

// progressView shows a run on the terminal, or as plain lines elsewhere.
type progressView struct {
	out   io.Writer
	log   io.Writer
	bar   *progressbar.ProgressBar
	phase controller.Phase
	last  time.Time
}

func progress(opt runOptions) *progressView {
	v := &progressView{out: opt.stderr, log: opt.stderr}
	if opt.quiet {
		v.out = io.Discard
		return v
	}
	if f := terminal(opt.stderr); f != nil {
		v.bar = spinner(f, progressbar.OptionSetDescription("starting"), progressbar.OptionSetElapsedTime(true))
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

// Write lets messages of the log stand above the bar.
func (v *progressView) Write(p []byte) (int, error) {
	if v.bar != nil {
		_ = v.bar.Clear()
	}
	return v.log.Write(p)
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
		fmt.Fprintf(&b, "running %.1f s: ", p.Elapsed.Seconds())
		switch {
		case p.Requests > 0:
			fmt.Fprintf(&b, "served %d/%d, %d waiting, ", p.Served, p.Requests, p.Waiting)
		case p.Served+p.Waiting > 0: // k-groups have no requests, but routines
			fmt.Fprintf(&b, "served %d, %d waiting, ", p.Served, p.Waiting)
		}
		fmt.Fprintf(&b, "%d nodes up, %d kills, %d restarts", p.Alive, p.Kills, p.Restarts)
		return b.String()
	case controller.Ending:
		return "ending: collecting logs"
	}
	return string(p.Phase)
}
