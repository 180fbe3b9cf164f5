package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"churnbed/emulator/scenario"
	"churnbed/emulator/simulate"
	"churnbed/results"
	"churnbed/results/compare"
)

// Folders of the two sides, in the directory of `both`.
const (
	emulatedDir  = "emulated"
	simulatedDir = "simulated"
)

func bothCommand() *cli.Command {
	args := &scenarioArgs{}
	opt := runOptions{stdout: os.Stdout, stderr: os.Stderr}
	var tolerance float64
	return &cli.Command{
		Name:      "both",
		Usage:     "run a scenario on real processes and in the simulator, and compare",
		ArgsUsage: "[SCENARIO.yaml]",
		Description: "Runs the scenario as `run` does and as `sim` does, with the same seeds and so the same arrivals and\n" +
			"faults, into DIR/emulated and DIR/simulated, and prints how the figures relate, trial by trial of the\n" +
			"same seed. --virtual-host makes the emulated side independent of this host's load. Both folders are\n" +
			"also arguments of `compare`. Exit status: 1 where a run failed its checks, where a figure is out of\n" +
			"--tolerance, or where a run was not faithful and a tolerance was asked for; else as run.",
		Flags: append(append(args.flags(),
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object instead of the table", Destination: &opt.json},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress", Destination: &opt.quiet},
			&cli.StringFlag{Name: "node-binary", Usage: "`PATH` of the node program (default: churnbed-node beside this program)", Destination: &opt.nodeBinary},
			&cli.Float64Flag{Name: "tolerance", Usage: "exit 1 where mean wait or messages differ by more than the share `X`, such as 0.03 (default: only tell)", Destination: &tolerance},
		), opt.virtual.flags()...),
		Action: func(c *cli.Context) error {
			spec, origin, err := args.spec(c)
			if err != nil {
				return err
			}
			if !(tolerance >= 0 && tolerance <= 1) {
				return usageError(fmt.Errorf("--tolerance %v: want 0 to 1", tolerance))
			}
			return runBoth(c.Context, spec, origin, opt, tolerance)
		},
	}
}

// runBoth runs all trials on both sides and prints the comparison.
func runBoth(ctx context.Context, spec scenario.Spec, origin scenario.Origin, opt runOptions, tolerance float64) error {
	first, err := scenario.Resolve(spec, origin)
	if err != nil {
		return usageError(err)
	}
	dir := first.OutDir(exists)
	if exists(dir) {
		return usageError(fmt.Errorf("create %s: it exists; name a directory that does not (--out names another)", dir))
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	seeds := simulate.Seeds(spec.Seed, spec.Trials)
	pairs := make([]pair, len(seeds))
	parallel := 1
	if opt.virtual.on {
		// Neighbours cannot disturb a virtual host, which takes one core.
		parallel = runtime.NumCPU()
	}
	var mu sync.Mutex
	err = each(ctx, len(seeds), parallel, func(ctx context.Context, i int) error {
		p, err := runPair(ctx, spec, origin, seeds[i], dir, opt)
		if err != nil {
			return err
		}
		pairs[i] = p
		if len(seeds) > 1 && !opt.quiet {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(opt.stderr, "seed %d: mean wait emulated %.1f ms (%s), simulated %.1f ms\n", seeds[i],
				float64(p.emulated.WaitMS.Mean), p.emulated.Fidelity.Verdict, float64(p.simulated.WaitMS.Mean))
		}
		return nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return &codedError{exitInterrupted, fmt.Errorf("interrupted: what was run is in %s", dir)}
		}
		return err
	}
	r := relate(dir, pairs)
	if len(seeds) >= compare.DefaultOptions().MinTrials {
		if r.Comparison, err = compareSides(r); err != nil {
			return hostError(err)
		}
	}
	if opt.json {
		err = printJSON(opt.stdout, r)
	} else {
		err = r.print(opt.stdout)
	}
	if err == nil && (r.Failed > 0 || tolerance > 0 && !r.within(tolerance)) {
		return errCheckFailed
	}
	return err
}

// pair is one seed on both sides.
type pair struct {
	emulated, simulated *results.Summary
	failed              bool // a check, on either side
}

// runPair runs one seed on both sides.
func runPair(ctx context.Context, spec scenario.Spec, origin scenario.Origin, seed uint64, dir string, opt runOptions) (pair, error) {
	var p pair
	isTrial := spec.Trials > 1
	resolve := func(side string) (*scenario.Scenario, error) {
		out := filepath.Join(dir, side)
		if isTrial {
			out = trialDir(out, seed)
		}
		return resolveTrial(spec, origin, seed, out)
	}
	sc, err := resolve(simulatedDir)
	if err != nil {
		return p, err
	}
	simFailed, err := simulateTrial(ctx, sc)
	if err != nil {
		return p, fmt.Errorf("simulate seed %d: %w", seed, err)
	}
	if p.simulated, err = readSummary(sc.Out); err != nil {
		return p, err
	}
	if sc, err = resolve(emulatedDir); err != nil {
		return p, err
	}
	opt.quiet = opt.quiet || isTrial
	emuFailed, err := emulateTrial(ctx, sc, opt)
	if err != nil {
		return p, err
	}
	p.failed = simFailed || emuFailed
	p.emulated, err = readSummary(sc.Out)
	return p, err
}

func readSummary(dir string) (*results.Summary, error) {
	f, err := os.Open(filepath.Join(dir, results.SummaryFile))
	if err != nil {
		return nil, err
	}
	s, err := results.ReadSummary(f)
	return s, errors.Join(err, f.Close())
}

// relation is what `both --json` prints, schema 1.
type relation struct {
	Schema    int           `json:"schema"`
	Emulated  string        `json:"emulated"`  // directory
	Simulated string        `json:"simulated"` // directory
	Trials    int           `json:"trials"`
	Failed    int           `json:"failed"` // trials with a failed check
	Fidelity  string        `json:"fidelity"`
	Reason    string        `json:"fidelity_reason,omitempty"`
	Rows      []relationRow `json:"metrics"`
	// Comparison takes the sides as independent sets, the simulated one as A;
	// it is there where there are trials enough for a verdict.
	Comparison *compare.Report `json:"comparison,omitempty"`
}

func compareSides(r *relation) (*compare.Report, error) {
	var sets []*results.TrialSet
	for _, dir := range []string{r.Simulated, r.Emulated} {
		set, err := results.OpenTrials(dir)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	c, err := compare.Compare(sets, compare.DefaultOptions())
	if err != nil {
		return nil, err
	}
	return &c.Report, nil
}

// relationRow relates one figure; means are over the trials that have it on
// both sides, ratios are emulated by simulated, of the same seed.
type relationRow struct {
	Name      string         `json:"name"`
	Unit      string         `json:"unit,omitempty"`
	Trials    int            `json:"trials"`
	Emulated  results.Number `json:"emulated"`
	Simulated results.Number `json:"simulated"`
	Ratio     results.Number `json:"ratio"`     // of the means
	RatioMin  results.Number `json:"ratio_min"` // over trials
	RatioMax  results.Number `json:"ratio_max"`
	judged    bool           // by --tolerance
}

var related = []struct {
	name, unit string
	judged     bool
	of         func(*results.Summary) results.Number
}{
	{"mean wait", "ms", true, func(s *results.Summary) results.Number { return s.WaitMS.Mean }},
	{"median wait", "ms", false, func(s *results.Summary) results.Number { return s.WaitMS.P50 }},
	{"p99 wait", "ms", false, func(s *results.Summary) results.Number { return s.WaitMS.P99 }},
	{"synchronisation delay", "ms", false, func(s *results.Summary) results.Number { return s.SyncMS.Mean }},
	{"messages per entry, end to end", "", true, func(s *results.Summary) results.Number { return s.Messages.E2EPerCS }},
	{"messages per entry, hop to hop", "", false, func(s *results.Summary) results.Number { return s.Messages.H2HPerCS }},
	{"requests served", "", true, func(s *results.Summary) results.Number { return results.Number(s.Requests.Served) }},
	{"kills", "", false, func(s *results.Summary) results.Number { return results.Number(s.Churn.Kills) }},
	{"violations", "", false, func(s *results.Summary) results.Number { return results.Number(s.Safety.Violations) }},
}

// relate computes the comparison of trials of the same seeds.
func relate(dir string, pairs []pair) *relation {
	r := &relation{
		Schema: 1, Emulated: filepath.Join(dir, emulatedDir), Simulated: filepath.Join(dir, simulatedDir),
		Trials: len(pairs), Fidelity: results.Faithful,
	}
	worst := map[string]int{results.Faithful: 0, results.Strained: 1, results.Unfaithful: 2}
	for _, p := range pairs {
		if p.failed {
			r.Failed++
		}
		if f := &p.emulated.Fidelity; worst[f.Verdict] > worst[r.Fidelity] {
			r.Fidelity, r.Reason = f.Verdict, f.Reason
		}
	}
	for _, m := range related {
		row := relationRow{
			Name: m.name, Unit: m.unit, judged: m.judged,
			Ratio: results.Unknown(), RatioMin: results.Unknown(), RatioMax: results.Unknown(),
		}
		var sumE, sumS float64
		least, most := math.Inf(1), math.Inf(-1)
		for _, p := range pairs {
			e, s := m.of(p.emulated), m.of(p.simulated)
			if !e.Known() || !s.Known() {
				continue
			}
			row.Trials++
			sumE, sumS = sumE+float64(e), sumS+float64(s)
			if s != 0 {
				q := float64(e) / float64(s)
				least, most = min(least, q), max(most, q)
			}
		}
		n := float64(row.Trials)
		row.Emulated, row.Simulated = results.Unknown(), results.Unknown()
		if row.Trials > 0 {
			row.Emulated, row.Simulated = results.Number(sumE/n), results.Number(sumS/n)
		}
		if least <= most {
			row.Ratio, row.RatioMin, row.RatioMax = results.Number(sumE/sumS), results.Number(least), results.Number(most)
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// within reports whether the emulated side is fit to be compared and its
// judged figures are as simulated, but for the share tolerance.
func (r *relation) within(tolerance float64) bool {
	if r.Fidelity == results.Unfaithful {
		return false
	}
	for _, row := range r.Rows {
		e, s := float64(row.Emulated), float64(row.Simulated)
		if row.judged && row.Trials > 0 && math.Abs(e-s) > tolerance*math.Abs(s) {
			return false
		}
	}
	return true
}

func (r *relation) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "METRIC\tEMULATED\tSIMULATED\tRATIO\tOF A TRIAL\n")
	for _, row := range r.Rows {
		unit, ratio, trials := "", "-", "-"
		if row.Unit != "" {
			unit = " " + row.Unit
		}
		if row.Ratio.Known() {
			ratio = fmt.Sprintf("%.4f", float64(row.Ratio))
			trials = fmt.Sprintf("%.4f to %.4f", float64(row.RatioMin), float64(row.RatioMax))
		}
		side := func(n results.Number) string {
			if !n.Known() {
				return "-"
			}
			return strconv.FormatFloat(float64(n), 'f', -1, 32) + unit
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", row.Name, side(round(row.Emulated)), side(round(row.Simulated)), ratio, trials)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fidelity := r.Fidelity
	if r.Reason != "" {
		fidelity += ": " + r.Reason
	}
	_, err := fmt.Fprintf(out, "\ntrials %d, with a failed check %d; the emulated side is %s\ndirectories %s %s\n",
		r.Trials, r.Failed, fidelity, r.Emulated, r.Simulated)
	if err != nil || r.Comparison == nil {
		return err
	}
	if _, err := fmt.Fprint(out, "\nas independent sets:\n"); err != nil {
		return err
	}
	return r.Comparison.Print(out)
}

// round keeps two decimals, for the table.
func round(n results.Number) results.Number {
	if !n.Known() {
		return n
	}
	return results.Number(math.Round(100*float64(n)) / 100)
}
