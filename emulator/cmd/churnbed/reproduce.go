package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"
	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"

	runner "churnbed/emulator/reproduce"
	"churnbed/emulator/scenario"
	"churnbed/results"
	"churnbed/results/reproduce"
	sweeps "churnbed/workloads/scenarios/reproduce"
)

// maxRounds bounds --rounds: six years of protocol periods.
const maxRounds = 100_000_000

// recordDir holds the records, below the module's root.
var recordDir = filepath.Join("results", "reference")

// reproduceOptions are what the flags of reproduce say.
type reproduceOptions struct {
	runOptions
	list, record, emulate            bool
	dir, data                        string
	trials, rounds, maxNodes, worker int
	seed                             uint64
	timeScale                        float64
	points                           cli.Float64Slice
	series                           texts
}

func reproduceCommand() *cli.Command {
	opt := &reproduceOptions{runOptions: runOptions{stdout: os.Stdout, stderr: os.Stderr}}
	return &cli.Command{
		Name:      "reproduce",
		Usage:     "run published experiments and hold them against the published figures",
		ArgsUsage: "NAME...|all",
		Description: "Each experiment is a committed sweep, run in the simulator over all cores. Prints a table with a verdict\n" +
			"on every point that has a published counterpart; --out DIR also writes table, CSV and plots there.\n" +
			"--emulate runs the same sweep on real processes, one run at a time, without the series that imitate\n" +
			"the authors' simulator; with --virtual-host in a virtual machine each, whose times are right on a busy\n" +
			"host as well. Exit status: 0 also where figures differ; 2 wrong usage, 3 the host lacks\n" +
			"something, 4 interrupted.",
		Subcommands: []*cli.Command{trapsCommand(), partitionExperiment(), killsExperiment()},
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "list", Usage: "show all experiments with their records", Destination: &opt.list},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write NAME.txt, NAME.csv, NAME.svg and NAME.png to `DIR`", Destination: &opt.dir},
			&cli.BoolFlag{Name: "record", Usage: "write results/reference/NAME.csv of the source tree around here", Destination: &opt.record},
			&cli.IntFlag{Name: "trials", Usage: "`N` seeds a point (default: as the experiment says)", Destination: &opt.trials},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "first seed of the first point; the next ones begin 10000 later", Destination: &opt.seed},
			&cli.IntFlag{Name: "rounds", Usage: "`N` protocol rounds of the experiment on membership lists (published: 350000)", Destination: &opt.rounds},
			&cli.IntFlag{Name: "max-nodes", Usage: "leave out meshes of more than `N` nodes", Destination: &opt.maxNodes},
			&cli.Float64SliceFlag{Name: "at", Usage: "only the points at `X` (again for more)", Destination: &opt.points},
			&cli.GenericFlag{Name: "series", Value: &opt.series, Usage: "only series that begin with `NAME` (again for more)"},
			&cli.IntFlag{Name: "parallel", Usage: "`N` runs at a time (default: one a processor; with --emulate: 1)", Destination: &opt.worker},
			&cli.StringFlag{Name: "data", Usage: "`DIR` with camera-sim-results and medley-topologies (default: ../shared/data beside the source tree)", Destination: &opt.data},
			&cli.BoolFlag{Name: "emulate", Usage: "on real processes", Destination: &opt.emulate},
			&cli.Float64Flag{Name: "time-scale", Usage: "with --emulate: real seconds a scenario second", Value: 1, Destination: &opt.timeScale},
			&cli.StringFlag{Name: "node-binary", Usage: "`PATH` of the node program (default: churnbed-node beside this program)", Destination: &opt.nodeBinary},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress", Destination: &opt.quiet},
			&cli.BoolFlag{Name: "json", Usage: "with --list: as JSON", Destination: &opt.json},
		}, opt.virtual.flags()...),
		Action: func(c *cli.Context) error {
			opt.stdout = c.App.Writer
			names, err := trailingFlags(c)
			if err != nil {
				return usageError(err)
			}
			return reproduceAll(c.Context, names, opt)
		},
	}
}

// reproduceAll lists or runs.
func reproduceAll(ctx context.Context, names []string, opt *reproduceOptions) error {
	all, err := reproduce.Load(sweeps.Files)
	if err != nil {
		return err
	}
	wd, err := os.Getwd()
	if err != nil {
		return hostError(err)
	}
	root := reproduce.FindRoot(wd)
	if opt.list {
		if len(names) > 0 {
			return usageError(fmt.Errorf("reproduce --list: unexpected argument %q", names[0]))
		}
		return listSweeps(all, root, opt)
	}
	chosen, err := chooseSweeps(all, names)
	if err != nil {
		return usageError(err)
	}
	if err := opt.check(root, chosen); err != nil {
		return usageError(err)
	}
	if opt.data == "" {
		opt.data = reproduce.FindData(wd)
	}
	if opt.dir != "" {
		if err := os.MkdirAll(opt.dir, 0o755); err != nil {
			return usageError(fmt.Errorf("create folder for results: %w", err))
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	data := reproduce.NewData(opt.data)
	for _, s := range chosen {
		if s.Processes && !opt.emulate && len(chosen) > 1 {
			fmt.Fprintf(opt.stdout, "%s: left out: %v\n\n", s.Name, runner.ErrNeedsProcesses)
			continue
		}
		r, err := reproduceOne(ctx, s, data, opt)
		if err == nil {
			err = opt.write(r, root)
		}
		switch {
		case ctx.Err() != nil:
			return &codedError{exitInterrupted, fmt.Errorf("interrupted in %s", s.Name)}
		case err != nil:
			return err
		}
	}
	return nil
}

// texts is a flag that may be repeated, and whose values may have commas.
type texts []string

// Set adds a value.
func (t *texts) Set(v string) error {
	*t = append(*t, v)
	return nil
}

func (t *texts) String() string { return strings.Join(*t, "; ") }

// check reports flags that make no sense.
func (o *reproduceOptions) check(root string, chosen []*reproduce.Sweep) error {
	for _, f := range []struct {
		name  string
		value int
	}{{"trials", o.trials}, {"rounds", o.rounds}, {"max-nodes", o.maxNodes}, {"parallel", o.worker}} {
		if f.value < 0 {
			return fmt.Errorf("--%s %d: want 0 or more", f.name, f.value)
		}
	}
	switch {
	case o.trials > scenario.MaxTrials:
		return fmt.Errorf("--trials %d: want at most %d", o.trials, scenario.MaxTrials)
	case o.rounds > maxRounds:
		return fmt.Errorf("--rounds %d: want at most %d", o.rounds, maxRounds)
	case o.timeScale < 0.001 || o.timeScale > 1000:
		return fmt.Errorf("--time-scale %v: want 0.001 to 1000", o.timeScale)
	case o.timeScale != 1 && !o.emulate:
		return errors.New("--time-scale is for --emulate: virtual time has no scale")
	case o.virtual.on && !o.emulate:
		return errors.New("--virtual-host is for --emulate: the simulator needs no host")
	case o.record && (len(o.points.Value()) > 0 || len(o.series) > 0):
		return errors.New("--record wants whole experiments: leave out --at and --series, or use --out")
	case o.record && root == "":
		return errors.New("--record: run it inside the source tree, where results/reference is")
	case o.record && o.emulate && slices.ContainsFunc(chosen, func(s *reproduce.Sweep) bool { return !s.Processes }):
		return errors.New("--record is for simulated figures, which every host gets alike: use --out with --emulate (records of real runs are those about processes)")
	case len(chosen) == 1 && chosen[0].Processes && !o.emulate:
		return fmt.Errorf("%s: %w", chosen[0].Name, runner.ErrNeedsProcesses)
	}
	return nil
}

func chooseSweeps(all []*reproduce.Sweep, names []string) ([]*reproduce.Sweep, error) {
	known := make([]string, len(all))
	byName := map[string]*reproduce.Sweep{}
	for i, s := range all {
		known[i], byName[s.Name] = s.Name, s
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("name an experiment: want all, or some of %s", strings.Join(known, ", "))
	}
	var chosen []*reproduce.Sweep
	for _, name := range names {
		switch s := byName[name]; {
		case name == "all":
			chosen = append(chosen, all...)
		case s == nil:
			return nil, fmt.Errorf("experiment %q: want all, or some of %s", name, strings.Join(known, ", "))
		default:
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// reproduceOne runs one experiment.
func reproduceOne(ctx context.Context, s *reproduce.Sweep, data *reproduce.Data, opt *reproduceOptions) (*reproduce.Result, error) {
	var bar *progressbar.ProgressBar
	o := runner.Options{
		Data: data, Seed: opt.seed, Trials: opt.trials, Rounds: opt.rounds, MaxNodes: opt.maxNodes, Workers: opt.worker,
		Points: opt.points.Value(), Series: opt.series,
		Plan: func(runs int) { bar = countingBar(s.Name, runs, opt.runOptions) },
		Done: func() { _ = bar.Add(1) },
		Manifest: func(sc *scenario.Scenario) *results.Manifest {
			return manifest(sc, "", "")
		},
	}
	engine := results.Simulated
	if opt.emulate {
		engine = fmt.Sprintf("%s, time scale %v", results.Emulated, opt.timeScale)
		o.TimeScale, o.Engine = opt.timeScale, opt.emulator()
		if o.Workers == 0 {
			o.Workers = 1
		}
	}
	started := time.Now()
	cells, notes, err := runner.Run(ctx, s, o)
	if bar != nil {
		_ = bar.Finish()
	}
	if err != nil {
		return nil, err
	}
	if !opt.quiet {
		fmt.Fprintf(opt.stderr, "%s: %d cells in %v\n", s.Name, len(cells), time.Since(started).Round(time.Second))
	}
	return &reproduce.Result{
		Sweep: s, Cells: cells, Engine: engine, Version: version(), Date: time.Now().UTC().Format(time.DateOnly), Notes: notes,
		Host: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
	}, nil
}

// emulator runs a cell's scenario on real processes. A violation is a figure
// here, not an end.
func (o *reproduceOptions) emulator() runner.Engine {
	return func(ctx context.Context, sc *scenario.Scenario, dir string) error {
		one := o.runOptions
		one.stdout, one.json, one.quiet, one.interrupts = io.Discard, false, true, true
		placed := *sc
		placed.Out = dir
		if err := emulate(ctx, &placed, one); err != nil && exitCode(err) != exitCheckFailed {
			return err
		}
		return nil
	}
}

// write prints the table and writes what was asked for.
func (o *reproduceOptions) write(r *reproduce.Result, root string) error {
	if err := r.Print(o.stdout); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(o.stdout); err != nil {
		return err
	}
	var errs []error
	save := func(path string, do func(io.Writer) error) {
		var b strings.Builder
		err := do(&b)
		if err == nil {
			err = renameio.WriteFile(path, []byte(b.String()), 0o644)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("write %s: %w", path, err))
		}
	}
	if o.dir != "" {
		base := filepath.Join(o.dir, r.Sweep.Name)
		save(base+".txt", r.Print)
		save(base+".csv", r.WriteCSV)
		for _, format := range []string{"svg", "png"} {
			save(base+"."+format, func(w io.Writer) error { return r.Draw(w, format) })
		}
	}
	if o.record {
		dir := filepath.Join(root, recordDir)
		errs = append(errs, os.MkdirAll(dir, 0o755))
		save(filepath.Join(dir, r.Sweep.Name+".csv"), r.WriteCSV)
	}
	if err := errors.Join(errs...); err != nil {
		return hostError(err)
	}
	return nil
}

// sweepRow is one line of --list.
type sweepRow struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Text    string `json:"text"`
	Points  int    `json:"points"`
	Series  int    `json:"series"`
	Status  string `json:"status"` // recorded, "not recorded", unreadable; unknown outside the project's folder
	Date    string `json:"date,omitempty"`
	Version string `json:"version,omitempty"`
	Host    string `json:"host,omitempty"`
	Verdict string `json:"verdict,omitempty"`
	Why     string `json:"why,omitempty"`
}

func listSweeps(all []*reproduce.Sweep, root string, opt *reproduceOptions) error {
	rows := make([]sweepRow, len(all))
	for i, s := range all {
		rows[i] = sweepRow{Name: s.Name, Title: s.Title, Text: s.Text, Points: len(s.Points), Series: len(s.Series), Status: "not recorded"}
		if root == "" {
			rows[i].Status = "unknown"
			continue
		}
		path := filepath.Join(root, recordDir, s.Name+".csv")
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return hostError(err)
		}
		st, err := reproduce.ReadStatus(f, path)
		_ = f.Close() // read only
		if err != nil {
			rows[i].Status, rows[i].Why = "unreadable", err.Error()
			continue
		}
		r := &rows[i]
		r.Status, r.Date, r.Version, r.Host, r.Verdict, r.Why = "recorded", st.Date, st.Version, st.Host, st.Verdict, st.Why
	}
	if opt.json {
		return printJSON(opt.stdout, rows)
	}
	tw := tabwriter.NewWriter(opt.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "name\tstatus\tdate\tverdict\ttitle")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Status, r.Date, r.Verdict, r.Title)
	}
	if root == "" {
		fmt.Fprintf(tw, "what is recorded lies in %s of the project: list it there\n", recordDir)
	}
	return tw.Flush()
}
