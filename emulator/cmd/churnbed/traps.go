package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"churnbed/emulator/minimise"
	"churnbed/emulator/scenario"
	"churnbed/results"
	"churnbed/results/reproduce"
	"churnbed/workloads/traps"
)

// experimentArgs are the flags of reproduce traps and reproduce partition.
type experimentArgs struct {
	runOptions
	emulate bool
	record  string // folder; "" = not asked for
	trials  int
	workers int
	seed    uint64
}

func trapsCommand() *cli.Command {
	return &cli.Command{
		Name:      "traps",
		Usage:     "walk published and hardened algorithms into the traps of the published text",
		ArgsUsage: "[NAME...]",
		Description: "Runs the scenarios of workloads/traps with both algorithms: the published text (camera-paper,\n" +
			"localmutex-paper) must let two nodes in at once, or in h8, l1 and l2 wait for ever, and the hardened\n" +
			"one (camera, localmutex) must not. --emulate runs them\n" +
			"on real processes, --parallel of them at a time. Exit status: 0 all as it must be, 1 otherwise, 2 wrong usage,\n" +
			"3 the host lacks something, 4 interrupted.",
		Flags: experimentFlags("traps"),
		Action: func(c *cli.Context) error {
			a, names, err := experiment(c)
			if err != nil {
				return err
			}
			chosen, err := chooseTraps(names)
			if err != nil {
				return usageError(err)
			}
			if a.record != "" && len(names) > 0 {
				return usageError(errors.New("--record: wants all traps"))
			}
			return a.reproduce(c.Context, chosen)
		},
	}
}

func experimentFlags(name string) []cli.Flag {
	return append([]cli.Flag{
		&cli.IntFlag{Name: "trials", Value: 10, Usage: "`N` seeds each"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "first seed"},
		&cli.BoolFlag{Name: "emulate", Usage: "on real processes"},
		&cli.IntFlag{Name: "parallel", Usage: "`N` runs at a time (default: one a processor; with --emulate: 1)"},
		&cli.BoolFlag{Name: "record", Usage: "write results/reference/" + name + "-ENGINE.csv of the source tree around here"},
		&cli.StringFlag{Name: "node-binary", Usage: "`PATH` of the node program (default: churnbed-node beside this program)"},
		&cli.BoolFlag{Name: "quiet", Usage: "no progress"},
		&cli.BoolFlag{Name: "json", Usage: "print JSON"},
	}, (&virtualHost{}).flags()...)
}

// experiment reads those flags and the arguments between them.
func experiment(c *cli.Context) (*experimentArgs, []string, error) {
	names, err := interleaved(c)
	if err != nil {
		return nil, nil, err
	}
	a := &experimentArgs{
		runOptions: runOptions{
			json: c.Bool("json"), quiet: c.Bool("quiet"), nodeBinary: c.String("node-binary"), stdout: c.App.Writer, stderr: os.Stderr,
			virtual: virtualHost{on: c.Bool("virtual-host"), memoryMiB: c.Int("virtual-host-memory")},
		},
		emulate: c.Bool("emulate"), trials: c.Int("trials"), seed: c.Uint64("seed"), workers: c.Int("parallel"),
	}
	switch {
	case a.workers < 0:
		return nil, nil, usageError(fmt.Errorf("--parallel %d: want 0 or more", a.workers))
	case a.workers == 0 && a.emulate:
		a.workers = 1
	case a.workers == 0:
		a.workers = runtime.GOMAXPROCS(0)
	}
	switch {
	case a.trials < 1 || a.trials > scenario.MaxTrials:
		return nil, nil, usageError(fmt.Errorf("--trials %d: want 1 to %d", a.trials, scenario.MaxTrials))
	case a.virtual.on && !a.emulate:
		return nil, nil, usageError(errors.New("--virtual-host is for --emulate: the simulator needs no host"))
	}
	if c.Bool("record") {
		wd, err := os.Getwd()
		if err != nil {
			return nil, nil, hostError(err)
		}
		root := reproduce.FindRoot(wd)
		if root == "" {
			return nil, nil, usageError(errors.New("--record: run it inside the source tree, where results/reference is"))
		}
		a.record = filepath.Join(root, recordDir)
	}
	return a, names, nil
}

// engine returns where runs take place, and how.
func (a *experimentArgs) engine(look ...func(*results.Run) error) (string, minimise.Engine) {
	if a.emulate {
		where := results.Emulated
		if a.virtual.on {
			where = "virtual-host" // as records name it
		}
		return where, a.realProcesses(look...)
	}
	return results.Simulated, simulator(look...)
}

// each calls f for 0 to n-1, some at a time, until one fails.
func (a *experimentArgs) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(a.workers)
	for i := range n {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(ctx, i)
		})
	}
	return g.Wait()
}

// scenario resolves a scenario file for one trial.
func (a *experimentArgs) scenario(file string, trial int, more ...scenario.Setting) (*scenario.Scenario, error) {
	spec, origin, err := scenario.Load(file, append(more, scenario.Setting{Key: "seed", Value: strconv.FormatUint(a.seed+uint64(trial), 10)}))
	if err != nil {
		return nil, err
	}
	return scenario.Resolve(spec, origin)
}

// recordRows writes a CSV file; date, version and host end every row.
func recordRows(path string, head []string, rows [][]string) error {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(append(head, "date", "version", "host")) // a strings.Builder takes everything
	host := fmt.Sprintf("%s/%s %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, r := range rows {
		_ = w.Write(append(r, time.Now().UTC().Format(time.DateOnly), version(), host))
	}
	w.Flush()
	if err := renameio.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// plain writes a figure for CSV; unknown is empty.
func plain(n results.Number) string {
	if !n.Known() {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'f', 3, 64)
}

func chooseTraps(names []string) ([]traps.Trap, error) {
	all := traps.All()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []traps.Trap
	known := make([]string, len(all))
	for i, t := range all {
		known[i] = t.Name
	}
	for _, name := range names {
		n := len(chosen)
		for _, t := range all {
			if t.Name == name {
				chosen = append(chosen, t)
			}
		}
		if len(chosen) == n {
			return nil, fmt.Errorf("trap %q: want some of %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// trapRow is what the trials of one trap with one algorithm came to.
type trapRow struct {
	Trap      string         `json:"trap"`
	Title     string         `json:"title"`
	Algorithm string         `json:"algorithm"`
	Engine    string         `json:"engine"`
	FirstSeed uint64         `json:"first_seed"`
	Trials    int            `json:"trials"`
	Violating int            `json:"violating"` // trials
	Starved   int            `json:"starved"`   // trials in which a request waited for ever
	Shortest  results.Number `json:"shortest_overlap_ms"`
	AsItMust  bool           `json:"as_it_must"`
	Unfit     int            `json:"unfit,omitempty"` // trials in which the host did not keep up
}

func (a *experimentArgs) reproduce(ctx context.Context, chosen []traps.Trap) (err error) {
	ctx, stop := interruptible(ctx)
	defer stop()
	dir, err := unpackTraps()
	if err != nil {
		return hostError(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	engine, run := a.engine()
	var rows []trapRow
	for _, t := range chosen {
		for _, algorithm := range []string{t.Paper, t.Hardened} {
			rows = append(rows, trapRow{Trap: t.Name, Title: t.Title, Algorithm: algorithm, Engine: engine, FirstSeed: a.seed, Shortest: results.Unknown()})
		}
	}
	var mu sync.Mutex
	err = a.each(ctx, len(rows)*a.trials, func(ctx context.Context, i int) error {
		row := &rows[i/a.trials]
		sc, err := a.scenario(filepath.Join(dir, row.Trap+".yaml"), i%a.trials, scenario.Setting{Key: "algorithm", Value: row.Algorithm})
		if err != nil {
			return err
		}
		s, err := run(ctx, sc)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		row.add(s)
		if !a.quiet && a.emulate {
			fmt.Fprintf(a.stderr, "%s %s seed %d: %s\n", row.Trap, row.Algorithm, sc.Seed, s.Verdict)
		}
		return nil
	})
	if ctx.Err() != nil {
		return &codedError{exitInterrupted, errors.New("interrupted")}
	}
	if err != nil {
		return err
	}
	wrong := false
	for i := range rows {
		rows[i].judge(chosen[i/2])
		wrong = wrong || !rows[i].AsItMust
	}
	if a.json {
		err = printJSON(a.stdout, rows)
	} else {
		err = printTraps(a.stdout, rows)
	}
	if err == nil && a.record != "" {
		err = recordTraps(filepath.Join(a.record, "traps-"+engine+".csv"), rows)
	}
	switch {
	case err != nil:
		return hostError(err)
	case wrong:
		return errCheckFailed
	}
	return nil
}

// unpackTraps writes the scenarios and the lists that they name to a folder.
func unpackTraps() (dir string, err error) {
	dir, err = os.MkdirTemp("", "churnbed-traps-*")
	if err != nil {
		return "", err
	}
	files, err := fs.Glob(traps.Files, "*")
	for _, f := range files {
		var b []byte
		if b, err = traps.Files.ReadFile(f); err == nil {
			err = os.WriteFile(filepath.Join(dir, f), b, 0o644)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// judge says whether the trials are as they must be.
func (r *trapRow) judge(t traps.Trap) {
	switch {
	case r.Algorithm != t.Paper:
		r.AsItMust = r.Violating == 0 && r.Starved == 0
	case t.Starves:
		r.AsItMust = r.Starved > 0
	default:
		r.AsItMust = r.Violating > 0
	}
}

func (r *trapRow) add(s *results.Summary) {
	r.Trials++
	if s.WaitMS.Unfit {
		r.Unfit++
	}
	if s.Requests.UnservedReasons[results.UnservedWaiting] > 0 {
		r.Starved++
	}
	if s.Safety.Violations > 0 {
		r.Violating++
		if !r.Shortest.Known() || s.Safety.ViolationMS < r.Shortest {
			r.Shortest = s.Safety.ViolationMS
		}
	}
}

func printTraps(w io.Writer, rows []trapRow) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "trap\talgorithm\tengine\ttrials\tviolating\tstarved\tshortest overlap\t\t")
	late := 0
	for _, r := range rows {
		overlap, note := "-", ""
		if r.Shortest.Known() {
			overlap = fmt.Sprintf("%.1f ms", float64(r.Shortest))
		}
		if !r.AsItMust {
			note = "NOT AS IT MUST BE"
			late += r.Unfit
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", r.Trap, r.Algorithm, r.Engine, r.Trials, r.Violating, r.Starved, overlap, r.Title, note)
	}
	if err := tw.Flush(); err != nil || late == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "%d of those trials were unfaithful: the host did not keep up, and may have missed the moment of a trap; --virtual-host does not\n", late)
	return err
}

func recordTraps(path string, rows []trapRow) error {
	list := make([][]string, len(rows))
	for i, r := range rows {
		list[i] = []string{r.Trap, r.Algorithm, r.Engine, strconv.FormatUint(r.FirstSeed, 10), strconv.Itoa(r.Trials), strconv.Itoa(r.Violating), strconv.Itoa(r.Starved), plain(r.Shortest)}
	}
	return recordRows(path, []string{"trap", "algorithm", "engine", "first_seed", "trials", "violating_trials", "starved_trials", "shortest_overlap_ms"}, list)
}
