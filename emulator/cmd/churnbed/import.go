package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/node/core"
	"churnbed/node/membership/static"
	"churnbed/results"
	"churnbed/results/foreign"
	"churnbed/topologies"
	"churnbed/workloads"
)

func importCommand() *cli.Command {
	out := func(what string) cli.Flag {
		return &cli.StringFlag{Name: "o", Aliases: []string{"output"}, Usage: "write " + what}
	}
	return &cli.Command{
		Name:  "import",
		Usage: "turn other simulators' files into ours",
		Description: "Nothing is written where a file is malformed; the error names file, line and column.\n" +
			"churnbed compare reads result files without importing them.",
		Subcommands: []*cli.Command{
			{
				Name: "camera", Usage: "results of the Camera Java simulator (.json, .json.xz)", ArgsUsage: "FILE...",
				Flags:  []cli.Flag{out("the trial set into `DIR`"), whereFlag()},
				Action: importTrials(foreign.FormatCamera),
			},
			{
				Name: "csv", Usage: "a table of requests: columns request and enter, and trial, node, exit if known", ArgsUsage: "FILE...",
				Flags:  append(csvFlags(), out("the trial set into `DIR`"), whereFlag()),
				Action: importTrials(foreign.FormatCSV),
			},
			{
				Name: "memlists", Usage: "membership lists, a folder of <id>.json, for membership static:FILE", ArgsUsage: "FOLDER",
				Flags: []cli.Flag{out("the lists into `FILE`")}, Action: importMemlists,
			},
			{
				Name: "memlist-sizes", Usage: "memlist.csv: list sizes over time, columns time_ms, node, size", ArgsUsage: "FILE",
				Flags: []cli.Flag{
					out("the table into `FILE`"),
					&cli.GenericFlag{Name: "columns", Value: new(verbatim), Usage: "headers of the file: `NAMES` such as time_ms=t,node=id,size=n"},
				},
				Action: importSizes,
			},
			{
				Name: "routes", Usage: "routing file, as the mesh of its one-hop pairs", ArgsUsage: "FILE",
				Flags: []cli.Flag{out("the topology into `FILE`.json")}, Action: importRoutes,
			},
			{
				Name: "topology", Usage: "x,y lines", ArgsUsage: "FILE",
				Flags: []cli.Flag{out("the topology into `FILE`.json"), radiusFlag()}, Action: importTopology,
			},
			{
				Name: "trace", Usage: "churn trace of three columns, or .avt, checked and written in three columns", ArgsUsage: "FILE",
				Flags: []cli.Flag{
					out("the trace into `FILE`"),
					&cli.DurationFlag{Name: "sample", Value: workloads.DefaultSample, Usage: "`LENGTH` of a sample"},
				},
				Action: importTrace,
			},
		},
	}
}

func whereFlag() cli.Flag {
	return &cli.GenericFlag{Name: "where", Value: new(selection), Usage: "take only trials with `KEY=VALUE` (again for more, or joined by &)"}
}

// fileArgs returns the arguments of a command, one to most.
func fileArgs(c *cli.Context, most int) ([]string, error) {
	args, err := interleaved(c)
	if err != nil {
		return nil, err
	}
	if len(args) < 1 || len(args) > most {
		return nil, usageError(fmt.Errorf("%s: want %s, got %d arguments", c.Command.Name, c.Command.ArgsUsage, len(args)))
	}
	return args, nil
}

func importTrials(format foreign.Format) cli.ActionFunc {
	return func(c *cli.Context) error {
		args, err := fileArgs(c, 1<<20)
		if err != nil {
			return err
		}
		opt := foreign.Options{Format: format}
		if format == foreign.FormatCSV {
			if opt.CSV, err = csvOptions(c); err != nil {
				return usageError(err)
			}
		}
		opt.Where = conditions(c, "where")
		sets := make([]*results.TrialSet, len(args))
		for i, path := range args {
			if sets[i], err = foreign.Open(path, opt); err != nil {
				return usageError(err)
			}
		}
		set := sets[0]
		dir := c.String("o")
		if len(sets) > 1 {
			set = foreign.Merge(filepath.Base(dir), sets)
		}
		var b bytes.Buffer
		if err := results.WriteTrials(&b, set); err != nil {
			return err
		}
		if err := newDir(dir); err != nil {
			return err
		}
		path := filepath.Join(dir, results.TrialsFile)
		if err := renameio.WriteFile(path, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write trials: %w", err)
		}
		fmt.Fprintf(c.App.Writer, "%d trials in %s\n", len(set.Trials), path)
		for _, n := range set.Notes {
			fmt.Fprintln(c.App.Writer, "note:", n)
		}
		return nil
	}
}

// writeNew writes a file that must not be there yet, whole or not at all.
func writeNew(path string, write func(io.Writer) error) error {
	if path == "" {
		return usageError(errors.New("-o FILE is missing"))
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return usageError(fmt.Errorf("%s exists", path))
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return usageError(err)
	}
	if err := renameio.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return usageError(fmt.Errorf("write file: %w", err))
	}
	return nil
}

func importMemlists(c *cli.Context) error {
	args, err := fileArgs(c, 1)
	if err != nil {
		return err
	}
	files, err := foreign.ReadMemlists(args[0])
	if err != nil {
		return usageError(err)
	}
	lists := make([][]core.NodeID, len(files))
	missing := 0
	for i, m := range files {
		lists[i] = m.Listed(core.NodeID(i))
		missing += len(files) - 1 - len(lists[i])
	}
	if err := writeNew(c.String("o"), func(w io.Writer) error { return static.WriteLists(w, lists) }); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%d lists, %d missing entries\n", len(lists), missing)
	return nil
}

func importSizes(c *cli.Context) error {
	args, err := fileArgs(c, 1)
	if err != nil {
		return err
	}
	columns, err := foreign.ParseColumns(c.Generic("columns").(*verbatim).String())
	if err != nil {
		return usageError(fmt.Errorf("--columns: %w", err))
	}
	data, err := foreign.ReadFile(args[0])
	if err != nil {
		return usageError(err)
	}
	sizes, err := foreign.ReadMemlistSizes(data, args[0], columns)
	if err != nil {
		return usageError(err)
	}
	if err := writeNew(c.String("o"), func(w io.Writer) error { return foreign.WriteMemlistSizes(w, sizes) }); err != nil {
		return err
	}
	sum, least := 0, 0
	for i, s := range sizes {
		sum += s.Size
		if i == 0 || s.Size < least {
			least = s.Size
		}
	}
	fmt.Fprintf(c.App.Writer, "%d sizes, mean %.4g, least %d\n", len(sizes), float64(sum)/float64(max(len(sizes), 1)), least)
	return nil
}

func importRoutes(c *cli.Context) error {
	args, err := fileArgs(c, 1)
	if err != nil {
		return err
	}
	data, err := foreign.ReadFile(args[0])
	if err != nil {
		return usageError(err)
	}
	r, err := foreign.ReadRoutes(data, args[0])
	if err != nil {
		return usageError(err)
	}
	t, err := r.Topology(baseName(args[0]))
	if err != nil {
		return usageError(err)
	}
	return writeTopology(c, t, topologies.JSON)
}

func baseName(path string) string {
	base := filepath.Base(path)
	return base[:len(base)-len(filepath.Ext(base))]
}

func writeTopology(c *cli.Context, t *topologies.Topology, format topologies.Format) error {
	err := writeNew(c.String("o"), func(w io.Writer) error { return topologies.Write(w, format, t) })
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%d nodes, %d links\n", len(t.Nodes), len(t.Links))
	return nil
}

func importTopology(c *cli.Context) error {
	args, err := fileArgs(c, 1)
	if err != nil {
		return err
	}
	t, err := topologies.ReadFile(args[0], topologies.ReadOptions{Format: topologies.XY, Radius: c.Float64("radius")})
	if err != nil {
		return usageError(err)
	}
	return writeTopology(c, t, topologies.JSON)
}

func importTrace(c *cli.Context) error {
	args, err := fileArgs(c, 1)
	if err != nil {
		return err
	}
	data, err := foreign.ReadFile(args[0])
	if err != nil {
		return usageError(err)
	}
	t, err := workloads.ReadTrace(bytes.NewReader(data), args[0], c.Duration("sample"))
	if err != nil {
		return usageError(err)
	}
	t.Sample = c.Duration("sample") // exact instants (.avt) are cut to it
	if err := writeNew(c.String("o"), t.WriteThreeColumns); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%d hosts, %v\n", len(t.Hosts), t.Length)
	return nil
}
