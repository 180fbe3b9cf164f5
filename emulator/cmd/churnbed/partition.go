package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/urfave/cli/v2"

	"churnbed/results"
	"churnbed/workloads/scenarios"
)

func partitionExperiment() *cli.Command {
	return &cli.Command{
		Name:      "partition",
		Usage:     "cut a mesh in two, heal it, and measure what that takes",
		ArgsUsage: "[SCENARIO.yaml]",
		Description: "Runs workloads/scenarios/partition.yaml, or another scenario with one partition and its heal. Safety must\n" +
			"hold; of the requests made while it lasts the largest side must serve some and the others none; after the\n" +
			"heal all sides must be served. --emulate runs it on real processes, --parallel trials at a time. Exit status:\n" +
			"0 all as it must be, 1 otherwise, 2 wrong usage, 3 the host lacks something, 4 interrupted.",
		Flags: experimentFlags("partition"),
		Action: func(c *cli.Context) error {
			a, files, err := experiment(c)
			if err != nil {
				return err
			}
			if len(files) > 1 {
				return usageError(fmt.Errorf("unexpected argument %q: want one scenario file at most", files[1]))
			}
			return a.partition(c.Context, files)
		},
	}
}

// partitionRow is what one trial came to. Times are milliseconds.
type partitionRow struct {
	Seed       uint64 `json:"seed"`
	Engine     string `json:"engine"`
	Sides      string `json:"sides"` // largest first
	Violations int    `json:"violations"`
	// Of requests made while it lasted.
	MajorityServed int            `json:"majority_served"`
	MajorityFirst  results.Number `json:"majority_first_ms"` // since the cut
	OthersAsked    int            `json:"others_asked"`
	OthersServed   int            `json:"others_served"`
	// Since the heal: every side was served, all lists were whole.
	Resumed results.Number `json:"resumed_ms"`
	Whole   results.Number `json:"whole_ms"`
	Unfit   bool           `json:"unfit,omitempty"` // the host did not keep up: the times are no results
}

func (r *partitionRow) asItMust() bool {
	return r.Violations == 0 && r.MajorityServed > 0 && r.OthersAsked > 0 && r.OthersServed == 0 && r.Resumed.Known() && r.Whole.Known()
}

func (a *experimentArgs) partition(ctx context.Context, files []string) (err error) {
	ctx, stop := interruptible(ctx)
	defer stop()
	file := ""
	if len(files) > 0 {
		file = files[0]
	} else {
		dir, err := os.MkdirTemp("", "churnbed-partition-*")
		if err != nil {
			return hostError(err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // one small file
		file = filepath.Join(dir, "partition.yaml")
		if err := os.WriteFile(file, scenarios.Partition, 0o644); err != nil {
			return hostError(err)
		}
	}
	engine, _ := a.engine()
	rows := make([]partitionRow, a.trials)
	err = a.each(ctx, a.trials, func(ctx context.Context, i int) error {
		sc, err := a.scenario(file, i)
		if err != nil {
			return usageError(err)
		}
		var cut []results.Partition
		_, run := a.engine(func(r *results.Run) (err error) {
			cut, err = results.Partitions(r)
			return err
		})
		s, err := run(ctx, sc)
		if err != nil {
			return err
		}
		if len(cut) != 1 {
			return usageError(fmt.Errorf("%s: %d partitions happened, want one", file, len(cut)))
		}
		row := partitionRow{Seed: sc.Seed, Engine: engine, Violations: s.Safety.Violations, Unfit: s.WaitMS.Unfit}
		row.take(&cut[0])
		rows[i] = row
		if a.emulate && !a.quiet {
			fmt.Fprintf(a.stderr, "seed %d: %s\n", sc.Seed, s.Verdict)
		}
		return nil
	})
	if ctx.Err() != nil {
		return &codedError{exitInterrupted, errors.New("interrupted")}
	}
	if err != nil {
		return err
	}
	wrong := 0
	for i := range rows {
		if !rows[i].asItMust() {
			wrong++
		}
	}
	if a.json {
		err = printJSON(a.stdout, rows)
	} else {
		err = printPartitions(a.stdout, rows, wrong)
	}
	if err == nil && a.record != "" {
		err = recordPartitions(filepath.Join(a.record, "partition-"+engine+".csv"), rows)
	}
	switch {
	case err != nil:
		return hostError(err)
	case wrong > 0:
		return errCheckFailed
	}
	return nil
}

func (r *partitionRow) take(p *results.Partition) {
	r.Sides, r.Resumed, r.Whole = p.String(), p.ResumedMS, p.WholeMS
	r.MajorityServed, r.MajorityFirst = p.Sides[0].Served, p.Sides[0].FirstMS
	for _, s := range p.Sides[1:] {
		r.OthersAsked += s.Asked
		r.OthersServed += s.Served
	}
}

// printPartitions prints the mean and the range over the trials.
func printPartitions(w io.Writer, rows []partitionRow, wrong int) error {
	var violations, majority, asked, others, unfit int
	for _, r := range rows {
		violations, majority, asked, others = violations+r.Violations, majority+r.MajorityServed, asked+r.OthersAsked, others+r.OthersServed
		if r.Unfit {
			unfit++
		}
	}
	_, err := fmt.Fprintf(w, "%d trials (%s), sides %s, %d not as it must be, %d with times unfit\n"+
		"violations                       %d\n"+
		"majority side, while it lasts    %d served, the first %s after the cut\n"+
		"other sides, while it lasts      %d served of %d\n"+
		"heal to every side served        %s\n"+
		"heal to all lists whole          %s\n",
		len(rows), rows[0].Engine, rows[0].Sides, wrong, unfit, violations, majority,
		span(rows, func(r *partitionRow) results.Number { return r.MajorityFirst }), others, asked,
		span(rows, func(r *partitionRow) results.Number { return r.Resumed }),
		span(rows, func(r *partitionRow) results.Number { return r.Whole }))
	return err
}

// span writes mean and range of a time over the trials in which it is known.
func span(rows []partitionRow, of func(*partitionRow) results.Number) string {
	sum, least, most, n := 0.0, math.Inf(1), 0.0, 0
	for i := range rows {
		if v := of(&rows[i]); v.Known() {
			sum, least, most, n = sum+float64(v), min(least, float64(v)), max(most, float64(v)), n+1
		}
	}
	if n == 0 {
		return "never"
	}
	return fmt.Sprintf("%.0f ms (%.0f to %.0f, %d trials)", sum/float64(n), least, most, n)
}

func recordPartitions(path string, rows []partitionRow) error {
	list := make([][]string, len(rows))
	for i, r := range rows {
		list[i] = []string{
			strconv.FormatUint(r.Seed, 10), r.Engine, r.Sides, strconv.Itoa(r.Violations), strconv.Itoa(r.MajorityServed), plain(r.MajorityFirst),
			strconv.Itoa(r.OthersAsked), strconv.Itoa(r.OthersServed), plain(r.Resumed), plain(r.Whole), strconv.FormatBool(r.Unfit),
		}
	}
	return recordRows(path, []string{
		"seed", "engine", "sides", "violations", "majority_served", "majority_first_ms", "others_asked", "others_served",
		"heal_to_served_ms", "heal_to_whole_ms", "times_unfit",
	}, list)
}
