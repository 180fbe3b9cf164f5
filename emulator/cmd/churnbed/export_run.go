package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/node/eventlog"
	"churnbed/results/capture"
	"churnbed/results/export"
	"churnbed/results/timeline"
)

// runExports are the exports of a whole run for other tools.
func runExports() []*cli.Command {
	file := func(def string) cli.Flag {
		return &cli.StringFlag{Name: "o", Aliases: []string{"output"}, Usage: "write to `FILE` (default: " + def + " in the run directory)"}
	}
	dir := &cli.StringFlag{Name: "o", Aliases: []string{"output"}, Usage: "write into `DIR`, which must be new or empty"}
	const tables = "Tables: nodes, requests, overlaps, lives, faults, links, slices, members, counters, of real processes usage; instants in ms of scenario time.\n" +
		"Of a run with k-groups also: terms, group_members, migrations, locks, routines, commands, device_failures, bandwidth, group_lines.\n"
	return []*cli.Command{
		{
			Name: "perfetto", ArgsUsage: "RUN",
			Usage: "a trace for ui.perfetto.dev and chrome://tracing: a track a node",
			Description: "Slices for waiting, the critical section, being down and paused, terms of leaders and runs of routines; flows from each exit to the enter that it let\n" +
				"in and, where the run captured frames, of REQUEST, OK and the like; counters. Example:\n  churnbed export perfetto runs/mesh256 -o mesh256.trace.json",
			Flags: []cli.Flag{file(perfettoFile)}, Action: exportPerfetto,
		},
		{
			Name: "pcapng", ArgsUsage: "RUN",
			Usage: "the frames that the run captured, for Wireshark, with names, and comments at enter and exit",
			Description: "Needs a run with --capture. A dissector for the nodes' frames, churnbed.lua, is written beside the files.\n" +
				"Instants are scenario time since the run's zero. Examples:\n" +
				"  churnbed export pcapng runs/smoke -o frames\n" +
				"  wireshark -X lua_script:frames/churnbed.lua frames/node-3.pcapng",
			Flags: []cli.Flag{
				dir,
				&cli.StringFlag{Name: "by", Value: capture.ByNode, Usage: "a file for each `UNIT`: node, link (what both ends saw), or run"},
				&cli.StringFlag{Name: "nodes", Usage: "only the frames that `NODES` saw, ids such as 0,3,5-9"},
			},
			Action: exportFrames,
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
		return nil, "", err
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
	messages, more, err := capture.Messages(t.Run, maxMessages)
	if err != nil && !errors.Is(err, capture.ErrNone) {
		return usageError(err)
	}
	if more {
		fmt.Fprintf(c.App.Writer, "note: flows of the first %d messages only\n", maxMessages)
	}
	return exportFile(c, dir, perfettoFile, func(b *bytes.Buffer) error { return export.Perfetto(b, t, labelsOf(dir), messages) })
}

// maxMessages bounds the flows of a trace: four events each, which a browser
// has to hold.
const maxMessages = 100_000

// labelsOf returns the names of the nodes of a run, nil where it has none.
func labelsOf(dir string) []string {
	topology, err := topologyOf(dir, 0)
	if err != nil {
		return nil // its topology file is not here
	}
	labels := make([]string, len(topology.Nodes))
	for i, n := range topology.Nodes {
		labels[i] = n.Label
	}
	return labels
}

func exportFrames(c *cli.Context) error {
	t, dir, err := readTimeline(c)
	if err != nil {
		return err
	}
	nodes, err := eventlog.ParseRanges(c.String("nodes"))
	if err != nil {
		return usageError(fmt.Errorf("--nodes: %w", err))
	}
	by := c.String("by")
	if by != capture.ByNode && by != capture.ByLink && by != capture.ByRun {
		return usageError(fmt.Errorf("--by %q: want node, link or run", by))
	}
	if _, err := capture.Nodes(t.Run); err != nil {
		return usageError(err)
	}
	out := c.String("o")
	if err := newDir(out); err != nil {
		return err
	}
	w, err := capture.Write(out, t, by, nodes, labelsOf(dir))
	if err != nil {
		return usageError(err)
	}
	fmt.Fprintf(c.App.Writer, "%d frames in %s in %s\n", w.Frames, counted(len(w.Files), "file"), out)
	for _, id := range w.Cut {
		fmt.Fprintf(c.App.Writer, "warning: the capture of node %d ends in the middle of a frame\n", id)
	}
	return nil
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
