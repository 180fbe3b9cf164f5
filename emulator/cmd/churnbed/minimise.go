package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/emulator/minimise"
	"churnbed/emulator/scenario"
	"churnbed/results"
	"churnbed/workloads"
)

// minimiseArgs are the flags of churnbed minimise.
type minimiseArgs struct {
	runOptions
	out, property, engine string
	repeat, maxRuns       int
	timeout               time.Duration
}

func minimiseCommand() *cli.Command {
	return &cli.Command{
		Name:      "minimise",
		Usage:     "find a smallest schedule with which a failing run still fails",
		ArgsUsage: "RUN",
		Description: "Leaves out faults, churn events, requests and disturbances of all links from the schedule of the run\n" +
			"directory RUN, as long as what is left still fails in the same way: two nodes in the critical section\n" +
			"at once (safety), or a request that waits out of proportion (liveness). The smallest schedule is written\n" +
			"as a scenario for sim and run: nothing in it can be left out (ddmin). A real run is first minimised in\n" +
			"the simulator, where it fails there too, and what is left of it then on real processes; with --engine\n" +
			"sim or run, only there. Exit status: 0 written, 1 the run does not fail again, 2 wrong usage or a run\n" +
			"that fails nothing, 3 the host lacks something, 4 interrupted (the smallest so far is written).",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the scenario to `FILE` (default: standard output)"},
			&cli.StringFlag{Name: "property", Usage: "what must go on failing, `safety|liveness` (default: what the run fails)"},
			&cli.StringFlag{Name: "engine", Value: "auto", Usage: "`auto|sim|run`: where schedules are tried"},
			&cli.IntFlag{Name: "repeat", Value: 3, Usage: "a schedule on real processes passes if it did not fail in `N` runs"},
			&cli.IntFlag{Name: "max-runs", Usage: "end after `N` runs (0: no bound)"},
			&cli.DurationFlag{Name: "timeout", Usage: "end after this `TIME` (0: no bound)"},
			&cli.StringFlag{Name: "node-binary", Usage: "`PATH` of the node program (default: churnbed-node beside this program)"},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
		},
		Action: func(c *cli.Context) error {
			run, err := openRun(c)
			if err != nil {
				return err
			}
			// Read here: interleaved flags reach the context only.
			a := &minimiseArgs{
				runOptions: runOptions{
					json: c.Bool("json"), quiet: c.Bool("quiet"), nodeBinary: c.String("node-binary"), stdout: c.App.Writer, stderr: os.Stderr,
				},
				out: c.String("out"), property: c.String("property"), engine: c.String("engine"),
				repeat: c.Int("repeat"), maxRuns: c.Int("max-runs"), timeout: c.Duration("timeout"),
			}
			if err := a.check(); err != nil {
				return usageError(err)
			}
			return a.minimise(c.Context, run)
		},
	}
}

func (a *minimiseArgs) check() error {
	switch {
	case a.property != "" && a.property != string(minimise.Safety) && a.property != string(minimise.Liveness):
		return fmt.Errorf("--property %q: want safety or liveness", a.property)
	case a.engine != "auto" && a.engine != "sim" && a.engine != "run":
		return fmt.Errorf("--engine %q: want auto, sim or run", a.engine)
	case a.repeat < 1:
		return fmt.Errorf("--repeat %d: want 1 or more", a.repeat)
	case a.maxRuns < 0:
		return fmt.Errorf("--max-runs %d: want 0 or more", a.maxRuns)
	case a.timeout < 0:
		return fmt.Errorf("--timeout %v: want 0s or more", a.timeout)
	}
	return nil
}

// minimisation is one run being minimised.
type minimisation struct {
	*minimiseArgs
	run      *results.Run
	scenario *scenario.Scenario
	arrivals []workloads.Arrival // of a closed workload, as the run had them
	property minimise.Property
	spent    int // runs
}

// minimiseReport is what --json prints.
type minimiseReport struct {
	Run      string            `json:"run"`
	Property minimise.Property `json:"property"`
	Engine   string            `json:"engine"` // that the schedule fails on
	Before   minimise.Counts   `json:"before"`
	After    minimise.Counts   `json:"after"`
	Runs     int               `json:"runs"`
	Minimal  bool              `json:"minimal"`
	Why      string            `json:"why,omitempty"` // it is not
	Items    []string          `json:"items"`
	Out      string            `json:"out,omitempty"`
	Scenario string            `json:"scenario,omitempty"` // its text, without --out
}

var errTimeout = errors.New("--timeout is over")

func (a *minimiseArgs) minimise(ctx context.Context, run *results.Run) error {
	m := &minimisation{minimiseArgs: a, run: run}
	if err := m.load(); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	bounded := ctx
	if a.timeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeoutCause(ctx, a.timeout, errTimeout)
		defer cancel()
	}
	r, engine, err := m.search(bounded)
	switch {
	case r != nil:
	case ctx.Err() != nil:
		return &codedError{exitInterrupted, errors.New("interrupted before the schedule failed again")}
	case errors.Is(err, minimise.ErrPasses), bounded.Err() != nil, errors.Is(err, results.ErrJudgesDisagree):
		return &codedError{exitCheckFailed, err}
	default:
		return err
	}
	if err := m.write(r, engine); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &codedError{exitInterrupted, errors.New("interrupted: the smallest schedule so far was written")}
	}
	return nil
}

// load reads the run and finds out what it fails.
func (m *minimisation) load() error {
	s, _, err := results.Judge(m.run)
	if errors.Is(err, results.ErrJudgesDisagree) {
		return &codedError{exitCheckFailed, err}
	}
	if err != nil {
		return usageError(err)
	}
	m.property = minimise.Property(m.minimiseArgs.property)
	if m.property == "" {
		if m.property = minimise.FailedBy(s); m.property == "" {
			return usageError(fmt.Errorf("minimise %s: the run fails neither safety nor liveness (verdict %s): name one with --property to look for it all the same", m.run.Dir, s.Verdict))
		}
	}
	spec, origin, err := scenario.Load(m.run.Path(results.ScenarioFile), nil)
	if err != nil {
		return usageError(err)
	}
	if m.scenario, err = scenario.Resolve(spec, origin); err != nil {
		return usageError(err)
	}
	if m.scenario.Closed != nil {
		if m.arrivals, err = minimise.ArrivalsOf(m.run); err != nil {
			return usageError(err)
		}
	}
	return nil
}

// search minimises in the engine that was asked for, or in the one or two
// that make sense, and says in which the result fails.
func (m *minimisation) search(ctx context.Context) (*minimise.Result, string, error) {
	simulated := m.engine == "sim" || m.engine == "auto" && m.run.Manifest.Engine == results.Simulated
	var first *minimise.Result
	if simulated || m.engine == "auto" {
		r, err := m.in(ctx, results.Simulated, m.scenario)
		if simulated || ctx.Err() != nil && r != nil {
			return r, results.Simulated, err
		}
		switch {
		case err == nil:
			first = r
			m.say("fails in the simulator too: %d faults and %d requests are left; now on real processes", r.After.Faults, r.After.Requests)
		case errors.Is(err, minimise.ErrPasses):
			m.say("does not fail in the simulator: on real processes")
		default:
			return nil, "", err
		}
	}
	if first != nil {
		m.arrivals = nil // they are in the scenario now
		r, err := m.in(ctx, results.Emulated, first.Scenario)
		if r == nil && ctx.Err() != nil {
			return first, results.Simulated, nil
		}
		if r != nil {
			r.Before = first.Before
		}
		if err == nil || !errors.Is(err, minimise.ErrPasses) {
			return r, results.Emulated, err
		}
		m.say("what is left does not fail on real processes: from the beginning")
		if m.scenario.Closed != nil {
			if m.arrivals, err = minimise.ArrivalsOf(m.run); err != nil {
				return nil, "", err
			}
		}
	}
	r, err := m.in(ctx, results.Emulated, m.scenario)
	return r, results.Emulated, err
}

func (m *minimisation) say(format string, args ...any) {
	if !m.quiet {
		fmt.Fprintf(m.stderr, format+"\n", args...)
	}
}

// in minimises sc in one engine.
func (m *minimisation) in(ctx context.Context, engine string, sc *scenario.Scenario) (*minimise.Result, error) {
	opt := minimise.Options{Scenario: sc, Arrivals: m.arrivals, Property: m.property, Repeat: 1}
	if engine == results.Emulated {
		opt.Engine, opt.Repeat = m.realProcesses(), m.repeat
	} else {
		opt.Engine = simulator()
	}
	show, finish := m.progress(engine)
	defer finish()
	before := m.spent
	opt.Progress = func(p minimise.Progress) {
		m.spent = before + p.Runs
		show(p)
	}
	for {
		if m.maxRuns > 0 {
			if opt.MaxRuns = m.maxRuns - m.spent; opt.MaxRuns <= 0 {
				return nil, &codedError{exitCheckFailed, fmt.Errorf("--max-runs %d: reached before the schedule failed again", m.maxRuns)}
			}
		}
		r, err := minimise.Run(ctx, opt)
		if errors.Is(err, minimise.ErrPasses) && opt.Arrivals != nil {
			// The same requests at other instants: keep the workload as it is.
			opt.Arrivals, before = nil, m.spent
			continue
		}
		return r, err
	}
}

// realProcesses is the Engine that runs a scenario on real processes and
// leaves nothing; look may read the run directory first.
func (o runOptions) realProcesses(look ...func(*results.Run) error) minimise.Engine {
	return func(ctx context.Context, sc *scenario.Scenario) (s *results.Summary, err error) {
		dir, err := os.MkdirTemp("", "churnbed-run-*")
		if err != nil {
			return nil, hostError(err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		var said bytes.Buffer
		o := o // runs may take place side by side
		o.stdout, o.stderr, o.json, o.quiet, o.interrupts = io.Discard, &said, false, true, true
		placed := *sc
		placed.Out = filepath.Join(dir, "run")
		if err := emulate(ctx, &placed, o); err != nil && exitCode(err) != exitCheckFailed {
			return nil, err
		}
		run, err := results.Open(placed.Out)
		if err != nil {
			return nil, hostError(fmt.Errorf("%w\n%s", err, &said))
		}
		if s, err = results.Summarise(run); err != nil {
			return nil, err
		}
		for _, f := range look {
			err = errors.Join(err, f(run))
		}
		return s, err
	}
}

// simulator is the Engine of the simulator.
func simulator(look ...func(*results.Run) error) minimise.Engine {
	return minimise.Simulator(func(sc *scenario.Scenario) *results.Manifest { return manifest(sc, "", "") }, look...)
}

// progress shows a bar on a terminal, else a line for each step forward.
func (m *minimisation) progress(engine string) (show func(minimise.Progress), finish func()) {
	if m.quiet {
		return func(minimise.Progress) {}, func() {}
	}
	line := func(p minimise.Progress) string {
		return fmt.Sprintf("%s, run %d: %d of %d faults, %d of %d requests left", engine, p.Runs, p.Left.Faults, p.Before.Faults, p.Left.Requests, p.Before.Requests)
	}
	if f := terminal(m.stderr); f != nil {
		bar := spinner(f)
		return func(p minimise.Progress) { bar.Describe(line(p)); _ = bar.Add(1) }, func() { _ = bar.Finish() }
	}
	return func(p minimise.Progress) {
		if p.Failed {
			fmt.Fprintln(m.stderr, line(p))
		}
	}, func() {}
}

// write writes the scenario and says what it holds.
func (m *minimisation) write(r *minimise.Result, engine string) error {
	how := "Nothing in it can be left out."
	if !r.Minimal {
		how = "More might be left out: " + r.Why + "."
	}
	text, err := r.YAML(fmt.Sprintf("The smallest schedule found with which a run of %s, seed %d, fails %s (%s).\n%s",
		m.scenario.Name, m.scenario.Seed, m.property, engine, how))
	if err != nil {
		return err
	}
	report := minimiseReport{
		Run: m.run.Dir, Property: m.property, Engine: engine, Before: r.Before, After: r.After, Runs: m.spent,
		Minimal: r.Minimal, Why: r.Why, Items: r.Items(), Out: m.out,
	}
	if m.out != "" {
		if err := renameio.WriteFile(m.out, text, 0o644); err != nil {
			return usageError(fmt.Errorf("write scenario: %w", err))
		}
	}
	switch {
	case m.json:
		if m.out == "" {
			report.Scenario = string(text)
		}
		return printJSON(m.stdout, report)
	case m.out == "":
		_, err = m.stdout.Write(text)
	default:
		for _, it := range report.Items {
			fmt.Fprintln(m.stdout, it)
		}
		_, err = fmt.Fprintf(m.stdout, "%s fails with %d of %d faults and %d of %d requests (%s, %d runs); written to %s\n", m.property,
			r.After.Faults, r.Before.Faults, r.After.Requests, r.Before.Requests, engine, report.Runs, m.out)
	}
	if !r.Minimal {
		fmt.Fprintln(m.stderr, "more might be left out:", r.Why)
	}
	return err
}
