package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/results/export"
	"churnbed/results/timeline"
)

// runExports are the exports of a whole run for other tools.
func runExports() []*cli.Command {
	file := func(def string) cli.Flag {
		return &cli.StringFlag{Name: "o", Aliases: []string{"output"}, Usage: "write to `FILE` (default: " + def + " in the run directory)"}
	}
	dir := &cli.StringFlag{Name: "o", Aliases: []string{"output"}, Usage: "write into `DIR`, which must be new or empty"}
	const tables = "Tables: nodes, requests, overlaps, lives, faults, links, slices, members, counters; instants in ms of scenario time.\n"
	return []*cli.Command{
		{
			Name: "perfetto", ArgsUsage: "RUN",
			Usage: "a trace for ui.perfetto.dev and chrome://tracing: a track a node",
			Description: "Slices for waiting, the critical section, being down and paused; flows from each exit to the enter that it let\n" +
				"in; counters. Example:\n  churnbed export perfetto runs/mesh256 -o mesh256.trace.json",
			Flags: []cli.Flag{file(perfettoFile)}, Action: exportPerfetto,
		},
		{
			Name: "csv", ArgsUsage: "RUN",
			Usage:       "tables for notebooks, <table>.csv",
			Description: tables + "Example:\n  churnbed export csv runs/mesh256 -o tables\n  python3 -c 'import pandas; print(pandas.read_csv(\"tables/requests.csv\").wait_ms.describe())'",
			Flags:       []cli.Flag{dir}, Action: exportTables(export.CSV),
		},
		{
			Name: "parquet", ArgsUsage: "RUN",
			Usage:       "the same tables as Parquet files, <table>.parquet",
			Description: tables + "Example:\n  churnbed export parquet runs/mesh256 -o tables\n  duckdb -c \"select avg(wait_ms) from 'tables/requests.parquet'\"",
			Flags:       []cli.Flag{dir}, Action: exportTables(export.Parquet),
		},
		{
			Name: "openmetrics", ArgsUsage: "RUN",
			Usage:       "the figures of the run as OpenMetrics text",
			Description: "Example:\n  churnbed export openmetrics runs/mesh256 -o /var/lib/node_exporter/churnbed.prom",
			Flags:       []cli.Flag{file(metricsFile)}, Action: exportOpenMetrics,
		},
	}
}

// Names of files that exports write into the run directory by default.
const (
	perfettoFile = "trace.json"
	metricsFile  = "metrics.txt"
)

// readTimeline reads the run directory that is the one argument.
func readTimeline(c *cli.Context) (*timeline.Timeline, string, error) {
	args, err := interleaved(c)
	if err != nil {
		return nil, "", usageError(err)
	}
	if len(args) != 1 {
		return nil, "", usageError(fmt.Errorf("export %s: want one run directory, got %d arguments", c.Command.Name, len(args)))
	}
	t, err := timeline.Read(args[0])
	if err != nil {
		return nil, "", usageError(err)
	}
	return t, args[0], nil
}

// exportFile writes what make makes to the file of -o, or to def in the run
// directory.
func exportFile(c *cli.Context, dir, def string, make func(b *bytes.Buffer) error) error {
	var b bytes.Buffer
	if err := make(&b); err != nil {
		return err
	}
	out := c.String("o")
	if out == "" {
		out = filepath.Join(dir, def)
	}
	if err := renameio.WriteFile(out, b.Bytes(), 0o644); err != nil {
		return usageError(fmt.Errorf("export %s: %w", c.Command.Name, err))
	}
	fmt.Fprintf(c.App.Writer, "%s (%d kB)\n", out, (b.Len()+999)/1000)
	return nil
}

func exportPerfetto(c *cli.Context) error {
	t, dir, err := readTimeline(c)
	if err != nil {
		return err
	}
	var labels []string
	if topology, err := topologyOf(dir, 0); err == nil {
		for _, n := range topology.Nodes {
			labels = append(labels, n.Label)
		}
	}
	return exportFile(c, dir, perfettoFile, func(b *bytes.Buffer) error { return export.Perfetto(b, t, labels, nil) })
}

func exportOpenMetrics(c *cli.Context) error {
	t, dir, err := readTimeline(c)
	if err != nil {
		return err
	}
	name := filepath.Base(filepath.Clean(dir))
	return exportFile(c, dir, metricsFile, func(b *bytes.Buffer) error { return export.OpenMetrics(b, t, name) })
}

func exportTables(format string) cli.ActionFunc {
	return func(c *cli.Context) error {
		t, dir, err := readTimeline(c)
		if err != nil {
			return err
		}
		out := c.String("o")
		if out == "" {
			return usageError(errors.New("-o DIR is missing"))
		}
		if err := newDir(out); err != nil {
			return err
		}
		topology, _ := topologyOf(dir, 0) // without it, nodes have no positions
		names, err := export.Tables(out, format, t, topology)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.App.Writer, "%d tables in %s: %s\n", len(names), out, strings.Join(names, ", "))
		return nil
	}
}
