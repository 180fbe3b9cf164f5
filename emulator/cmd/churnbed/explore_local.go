package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"churnbed/node/mutex/localscript"
)

// localFlags are the flags of churnbed explore that only localmutex has.
func localFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "cuts", Usage: "`N` times a link goes (localmutex)"},
		&cli.IntFlag{Name: "joins", Usage: "`N` times a link that went comes back (localmutex)"},
		&cli.IntFlag{Name: "priorities", Value: 2, Usage: "`N` priorities that a try draws from (localmutex)"},
		&cli.BoolFlag{Name: "late", Usage: "what is in flight on a link that goes arrives once it is back; otherwise it is lost (localmutex)"},
	}
}

func isLocalmutex(algorithm string) bool {
	return algorithm == "localmutex" || algorithm == "localmutex-paper"
}

// exploreLocal explores localmutex or localmutex-paper on the given links.
func exploreLocal(c *cli.Context, links []string) error {
	for _, name := range []string{"k", "n-upper", "crashes", "restarts", "losses", "member-changes", "gains-only", "silent-oks", "no-fence", "partition", "stopped", "stay-dead", "after"} {
		if c.IsSet(name) {
			return usageError(fmt.Errorf("--%s: %s has none of it; it has --cuts, --joins, --late and --duplicates", name, c.String("algorithm")))
		}
	}
	cfg := localscript.Config{
		Algorithm: c.String("algorithm"), Nodes: c.Int("nodes"), Priorities: c.Int("priorities"), Cuts: c.Int("cuts"), Joins: c.Int("joins"),
		Late: c.Bool("late"), Duplicates: c.Int("duplicates"), MaxStates: c.Int("states"), MaxDepth: c.Int("depth"),
	}
	var err error
	if cfg.Entries, _, err = perNode("requests", c.String("requests"), cfg.Nodes); err != nil {
		return usageError(err)
	}
	if len(links) > 0 {
		if cfg.Links, err = localscript.ParseLinks(links); err != nil {
			return usageError(err)
		}
	}
	if err := cfg.Check(); err != nil {
		return usageError(err)
	}
	walks := c.Int("walks")
	if walks < 0 || cfg.MaxDepth < 0 || cfg.MaxStates < 0 {
		return usageError(errors.New("--walks, --depth, --states: want 0 or more"))
	}
	if walks > 0 && c.String("script") != "" {
		return usageError(errors.New("--script: not of random walks of localmutex: want it without --walks"))
	}
	if walks > 0 {
		return walkLocal(c.App.Writer, cfg, walks, c.Uint64("seed"), c.Bool("json"))
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	cfg.Progress = exploreReporter(ctx, c.Bool("quiet"), cfg.MaxStates)
	began := time.Now()
	r := localscript.Explore(cfg)
	took := time.Since(began).Seconds()
	if file := c.String("script"); file != "" && r.Violation != "" {
		text, err := r.Script(cfg.Algorithm, fmt.Sprintf("Found by churnbed explore --algorithm %s --nodes %d.", cfg.Algorithm, cfg.Nodes))
		if err != nil {
			return fmt.Errorf("write script: %w", err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return usageError(fmt.Errorf("write script: %w", err))
		}
	}
	if err := printLocal(c.App.Writer, &cfg, &r, took, c.Bool("json")); err != nil {
		return err
	}
	switch {
	case r.Violation != "":
		return errCheckFailed
	case r.Bound == localscript.Interrupted:
		return &codedError{exitInterrupted, errExploreInterrupted}
	}
	if file := c.String("script"); file != "" && !c.Bool("json") {
		fmt.Fprintf(c.App.Writer, "%s is not written: there is no schedule to show\n", file)
	}
	return nil
}

func printLocal(w io.Writer, cfg *localscript.Config, r *localscript.Result, took float64, asJSON bool) error {
	if asJSON {
		report := exploreReport{
			Algorithm: cfg.Algorithm, Nodes: cfg.Nodes, States: r.States, Transitions: r.Transitions, Depth: r.Depth, Seconds: took,
			StatesPerS: float64(r.States) / took, Complete: r.Complete, Bound: r.Bound, Violation: r.Violation, Schedule: r.Schedule,
		}
		if r.Violation != "" {
			report.Steps = r.Depth
		}
		return printJSON(w, report)
	}
	if r.Violation != "" {
		out, err := localscript.Run(cfg.Algorithm, strings.Join(r.Schedule, "\n"))
		if err != nil {
			return fmt.Errorf("replay schedule: %w", err)
		}
		fmt.Fprintf(w, "%s\n", out)
	}
	fmt.Fprintf(w, "%s, %d nodes: %d states, %d transitions, up to %d steps, %.2f s, %.0f states/s\n",
		cfg.Algorithm, cfg.Nodes, r.States, r.Transitions, r.Depth, took, float64(r.States)/took)
	switch {
	case r.Violation != "":
		fmt.Fprintf(w, "%s\nwrong after %d steps, and never after fewer\n", r.Violation, r.Depth)
	case r.Complete:
		fmt.Fprintln(w, "complete: nothing wrong in any reachable state")
	default:
		fmt.Fprintf(w, "bound reached (%s): nothing wrong so far\n", r.Bound)
	}
	return nil
}

// localSteps bounds a walk where --depth does not.
const localSteps = 100_000

// localWalks is what --json prints of walks.
type localWalks struct {
	Algorithm string  `json:"algorithm"`
	Nodes     int     `json:"nodes"`
	Walks     int     `json:"walks"`
	Seed      uint64  `json:"seed"`
	Entries   int     `json:"entries"`
	Stuck     int     `json:"stuck"`        // walks in which a request was not served
	Longest   int     `json:"longest_wait"` // steps
	Violation string  `json:"violation,omitempty"`
	WrongSeed *uint64 `json:"wrong_seed,omitempty"` // of the first walk that went wrong
}

// walkLocal takes fair random walks, which must serve everybody.
func walkLocal(w io.Writer, cfg localscript.Config, walks int, seed uint64, asJSON bool) error {
	steps := cfg.MaxDepth
	if steps == 0 {
		steps = localSteps
	}
	sum := localWalks{Algorithm: cfg.Algorithm, Nodes: cfg.Nodes, Walks: walks, Seed: seed}
	for i := range uint64(walks) {
		r := localscript.Walk(cfg, seed+i, steps)
		sum.Entries += r.Entries
		sum.Longest = max(sum.Longest, r.Longest)
		if r.Waiting > 0 {
			sum.Stuck++
		}
		if sum.WrongSeed == nil && (r.Waiting > 0 || r.Violation != "") {
			wrong := seed + i
			sum.WrongSeed, sum.Violation = &wrong, r.Violation
		}
	}
	if asJSON {
		if err := printJSON(w, sum); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(w, "%s, %d nodes: %d fair walks, %d entries, longest wait %d steps; %d walks in which a request was never served\n",
			sum.Algorithm, sum.Nodes, walks, sum.Entries, sum.Longest, sum.Stuck)
		if sum.WrongSeed != nil {
			fmt.Fprintf(w, "wrong with seed %d: %s\n", *sum.WrongSeed, orText(sum.Violation, "STUCK"))
		}
	}
	if sum.WrongSeed != nil {
		return errCheckFailed
	}
	return nil
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
