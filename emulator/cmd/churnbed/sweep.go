package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/renameio/v2"
	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"

	"churnbed/emulator/scenario"
	"churnbed/emulator/simulate"
	"churnbed/results"
	"churnbed/results/sweep"
)

// sweepFile is what a sweep's directory has beside a folder for each cell.
const sweepFile = "sweep.json"

func sweepCommand() *cli.Command {
	var set settings
	opt := &sweepOptions{runOptions: runOptions{stderr: os.Stderr}}
	return &cli.Command{
		Name: "sweep", Usage: "run a scenario for each combination of values", ArgsUsage: "FILE",
		Description: "FILE is a scenario with a matrix: a list of values for each of some keys. Each combination is a cell and\n" +
			"runs with the seeds seed to seed+trials-1. Runs that are finished are kept: the same command takes an\n" +
			"interrupted sweep up again, and one with more trials adds them. Every cell is a trial set for `compare`.\n" +
			"In the simulator cells run over all cores; real ones one at a time, so that they do not disturb each\n" +
			"other's times, or --parallel at a time where the host has the cores: what did not stay faithful beside\n" +
			"others is then run again alone. Ends with a table, table.csv, table.json and plots in the directory. Exit status: 1 where\n" +
			"a run failed a check.",
		Flags: []cli.Flag{
			set.flag(),
			&cli.StringFlag{Name: "out", Usage: "`DIR` of the sweep (default: runs/NAME-sweep)", Destination: &opt.dir},
			&cli.StringFlag{Name: "engine", Value: "sim", Usage: "`sim|run`: simulator or real processes", Destination: &opt.engine},
			&cli.IntFlag{Name: "parallel", Usage: "`N` runs at a time (default: one a core with sim, 1 with run)", Destination: &opt.parallel},
			&cli.StringFlag{Name: "node-binary", Usage: "`PATH` of the node program (default: churnbed-node beside this program)", Destination: &opt.nodeBinary},
			&cli.BoolFlag{Name: "json", Usage: "print the table as JSON", Destination: &opt.json},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress", Destination: &opt.quiet},
		},
		Action: func(c *cli.Context) error {
			files, err := trailingFlags(c)
			switch {
			case err != nil:
			case len(files) != 1:
				err = errors.New("sweep: want one scenario file with a matrix (`churnbed scenario new` writes a file to begin with)")
			case opt.engine != "sim" && opt.engine != "run":
				err = fmt.Errorf("--engine %q: want sim or run", opt.engine)
			case opt.parallel < 0:
				err = fmt.Errorf("--parallel %d: want 1 or more", opt.parallel)
			}
			if err != nil {
				return usageError(err)
			}
			s, err := scenario.LoadSweep(files[0], set.given)
			if err != nil {
				return usageError(err)
			}
			opt.stdout = c.App.Writer
			return runSweep(c.Context, s, opt)
		},
	}
}

type sweepOptions struct {
	runOptions
	dir, engine string
	parallel    int
}

// sweepRecord is sweep.json: what may not change when a sweep is taken up
// again. Trials may.
type sweepRecord struct {
	Schema int             `json:"schema"`
	Engine string          `json:"engine"`
	Axes   []scenario.Axis `json:"axes"`
	Base   string          `json:"base_digest"` // of the scenario that all cells share, without trials and out
}

// sweepRun is one run of a sweep.
type sweepRun struct {
	cell *scenario.Cell
	seed uint64
	sc   *scenario.Scenario
	dir  string
}

// runSweep runs what is not finished and prints the table.
func runSweep(ctx context.Context, s *scenario.Sweep, opt *sweepOptions) error {
	base := s.Base()
	if opt.dir == "" {
		opt.dir = filepath.Join("runs", base.Name+"-sweep")
	}
	cells := s.Cells()
	// Every cell is resolved before anything is run: a mistake in the last one
	// shows now.
	var runs []sweepRun
	for i := range cells {
		for _, seed := range simulate.Seeds(base.Seed, base.Trials) {
			spec, origin, err := s.Spec(cells[i], seed)
			if err != nil {
				return usageError(err)
			}
			dir := filepath.Join(opt.dir, results.CellsDir, cellFolder(s, cells[i]), results.TrialsDir, strconv.FormatUint(seed, 10))
			spec.Out = dir
			runs = append(runs, sweepRun{&cells[i], seed, nil, dir}) // resolved when its turn comes
			if seed > base.Seed {
				continue
			}
			sc, err := scenario.Resolve(spec, origin)
			if err != nil {
				return usageError(fmt.Errorf("cell %s: %w", s.Name(cells[i]), err))
			}
			if why := sc.SimulatorOnly(); why != "" && opt.engine == "run" {
				return usageError(fmt.Errorf("cell %s: %s: the simulator alone has it: use --engine sim", s.Name(cells[i]), why))
			}
		}
	}
	if err := claimSweep(s, opt); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	kept, failed, err := runCells(ctx, s, runs, opt)
	if ctx.Err() != nil {
		return &codedError{exitInterrupted, fmt.Errorf("interrupted: finished runs are in %s; the same command goes on from there", opt.dir)}
	}
	if err != nil {
		return err
	}
	if kept > 0 && !opt.quiet {
		fmt.Fprintf(opt.stderr, "%d of %d runs were finished already\n", kept, len(runs))
	}
	if err := deliverTable(s, cells, opt); err != nil {
		return err
	}
	if failed {
		return errCheckFailed
	}
	return nil
}

// cellFolder is a folder's name for a cell: what it is, as far as names go,
// and a number that tells it from all others.
func cellFolder(s *scenario.Sweep, c scenario.Cell) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("=,._-", r) {
			return r
		}
		return '_'
	}, s.Name(c))
	return fmt.Sprintf("%03d-%s", c.Index, safe[:min(len(safe), 100)])
}

// claimSweep begins the directory, or checks that it is of the same sweep.
func claimSweep(s *scenario.Sweep, opt *sweepOptions) error {
	base := s.Base()
	base.Trials, base.Out = 1, ""
	text, err := base.YAML()
	if err != nil {
		return err
	}
	digest := sha256.Sum256(text)
	b, err := json.MarshalIndent(sweepRecord{results.Schema, opt.engine, s.Axes, hex.EncodeToString(digest[:])}, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	path := filepath.Join(opt.dir, sweepFile)
	old, err := os.ReadFile(path)
	switch {
	case err == nil && bytes.Equal(old, b):
		return nil
	case err == nil:
		return usageError(fmt.Errorf("%s holds another sweep (values, engine or shared keys differ); name another --out", opt.dir))
	case !errors.Is(err, os.ErrNotExist):
		return usageError(fmt.Errorf("read sweep: %w", err))
	}
	if err := newDir(opt.dir); err != nil {
		return err
	}
	if err := renameio.WriteFile(path, b, 0o644); err != nil {
		return usageError(fmt.Errorf("write sweep: %w", err))
	}
	return nil
}

// runCells runs all that is not finished.
func runCells(ctx context.Context, s *scenario.Sweep, runs []sweepRun, opt *sweepOptions) (kept int, failed bool, err error) {
	parallel := opt.parallel
	if parallel == 0 {
		parallel = map[string]int{"sim": runtime.NumCPU(), "run": 1}[opt.engine]
	}
	var bar *progressbar.ProgressBar
	if opt.engine == "sim" {
		bar = countingBar("trials", len(runs), opt.runOptions)
	}
	var mu sync.Mutex
	var disturbed []int // real runs that came out unfaithful beside others
	err = each(ctx, len(runs), parallel, func(ctx context.Context, i int) error {
		r := &runs[i]
		spec, origin, err := s.Spec(*r.cell, r.seed)
		if err != nil {
			return usageError(err)
		}
		spec.Out = r.dir
		if r.sc, err = scenario.Resolve(spec, origin); err != nil {
			return usageError(fmt.Errorf("cell %s, seed %d: %w", s.Name(*r.cell), r.seed, err))
		}
		bad, was := false, finished(r)
		again := false
		if was == nil {
			bad, err = runCell(ctx, s, r, i, len(runs), opt)
			if err != nil {
				return fmt.Errorf("cell %s, seed %d: %w", s.Name(*r.cell), r.seed, err)
			}
			if opt.engine == "run" && parallel > 1 {
				now := finished(r)
				again = now != nil && now.Fidelity.Verdict == results.Unfaithful
			}
		} else {
			bad = was.Failed()
		}
		mu.Lock()
		defer mu.Unlock()
		if was != nil {
			kept++
		}
		if again {
			disturbed = append(disturbed, i)
			return nil
		}
		r.sc = nil // large
		failed = failed || bad
		if bar != nil {
			_ = bar.Add(1)
		}
		return nil
	})
	if bar != nil {
		_ = bar.Finish()
	}
	slices.Sort(disturbed)
	for _, i := range disturbed {
		if err != nil {
			break
		}
		if !opt.quiet {
			fmt.Fprint(opt.stderr, "not faithful beside others, again alone: ")
		}
		var bad bool
		bad, err = runCell(ctx, s, &runs[i], i, len(runs), opt)
		failed = failed || bad
	}
	return kept, failed, err
}

// finished returns the summary of a run that is there already, whole and of
// the same scenario.
func finished(r *sweepRun) *results.Summary {
	run, err := results.Open(r.dir)
	if err != nil || run.Manifest.Interrupted || run.Manifest.Seed != r.seed {
		return nil
	}
	if run.Manifest.Engine == results.Simulated && run.Manifest.LogDigest == "" {
		return nil // it did not get to its end
	}
	f, err := os.Open(run.Path(results.SummaryFile))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	s, err := results.ReadSummary(f)
	if err != nil {
		return nil
	}
	spec, origin, err := scenario.Load(run.Path(results.ScenarioFile), nil)
	if err != nil {
		return nil
	}
	spec.Out = r.dir // wherever the sweep was called from
	old, err := scenario.Resolve(spec, origin)
	if err != nil || !bytes.Equal(old.YAML(), r.sc.YAML()) {
		return nil
	}
	return s
}

// runCell runs and judges one seed of one cell.
func runCell(ctx context.Context, s *scenario.Sweep, r *sweepRun, i, of int, opt *sweepOptions) (failed bool, err error) {
	// What is there is not finished: finished has said so.
	if err := os.RemoveAll(r.dir); err != nil {
		return false, hostError(fmt.Errorf("remove unfinished run: %w", err))
	}
	if opt.engine == "sim" {
		return simulateTrial(ctx, r.sc)
	}
	if !opt.quiet {
		fmt.Fprintf(opt.stderr, "run %d of %d: %s, seed %d\n", i+1, of, s.Name(*r.cell), r.seed)
	}
	one := opt.runOptions
	one.quiet = true
	return emulateTrial(ctx, r.sc, one)
}

// deliverTable prints the table and writes it and the plots.
func deliverTable(s *scenario.Sweep, cells []scenario.Cell, opt *sweepOptions) error {
	t := &sweep.Table{Engine: opt.engine}
	for _, a := range s.Axes {
		t.Axes = append(t.Axes, a.Key)
	}
	for _, c := range cells {
		set, err := results.ReadSummaries(filepath.Join(opt.dir, results.CellsDir, cellFolder(s, c)))
		if err != nil {
			return hostError(err)
		}
		t.Rows = append(t.Rows, sweep.NewRow(c.Values, set.Runs))
	}
	b, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	var table bytes.Buffer
	if err := t.WriteCSV(&table); err != nil {
		return err
	}
	files := map[string][]byte{"table.json": append(b, '\n'), "table.csv": table.Bytes()}
	for _, format := range []string{"svg", "png"} {
		var drawn bytes.Buffer
		if err := t.Draw(&drawn, format); err != nil {
			return err
		}
		files["wait."+format] = drawn.Bytes()
	}
	for name, content := range files {
		if err := renameio.WriteFile(filepath.Join(opt.dir, name), content, 0o644); err != nil {
			return hostError(fmt.Errorf("write table: %w", err))
		}
	}
	if opt.json {
		return printJSON(opt.stdout, t)
	}
	if err := t.Print(opt.stdout); err != nil {
		return err
	}
	_, err = fmt.Fprintf(opt.stdout, "\ndirectory %s: table.csv, table.json, wait.svg, wait.png, cells/; churnbed compare %s tells two cells apart\n", opt.dir,
		filepath.Join(opt.dir, results.CellsDir, "A")+" "+filepath.Join(opt.dir, results.CellsDir, "B"))
	return err
}
