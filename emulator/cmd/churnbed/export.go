package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/emulator/scenario"
	"churnbed/node/core"
	"churnbed/node/membership/static"
	"churnbed/results"
	"churnbed/results/foreign"
	"churnbed/topologies"
)

// Names inside an exported directory.
const (
	exportedTopology = "topology.txt"
	exportedRoutes   = "topology_route.txt"
	exportedTrace    = "trace.txt"
	exportedSizes    = "memlist.csv"
)

func exportCommand() *cli.Command {
	dir := &cli.StringFlag{Name: "o", Aliases: []string{"output"}, Usage: "write into `DIR`, which must be new or empty"}
	return &cli.Command{
		Name:  "export",
		Usage: "write runs in the formats of other tools: Perfetto, notebooks, OpenMetrics, the Java simulators",
		Subcommands: append(runExports(), []*cli.Command{
			{
				Name: "memlists", ArgsUsage: "RUN",
				Usage: "for the Java simulators: membership lists over time: <ms>/<id>.json, the last ones as <id>.json, sizes in memlist.csv",
				Flags: []cli.Flag{
					dir,
					&cli.DurationFlag{Name: "every", Value: time.Second, Usage: "`TIME` between two snapshots, scenario time"},
					&cli.StringFlag{Name: "initial", Usage: "`FILE` of the lists that the run began with, where it planted missing entries"},
				},
				Action: exportMemlists,
			},
			{
				Name: "topology", ArgsUsage: "RUN or topology FILE",
				Usage: "for the Java simulators: x,y lines, and the routing file",
				Flags: []cli.Flag{
					dir, radiusFlag(),
					&cli.BoolFlag{Name: "routes", Usage: "write the routing file too"},
					&cli.StringFlag{Name: "metric", Value: string(topologies.Euclid), Usage: "route by `METRIC` euclid, hops or delay"},
				},
				Action: exportTopology,
			},
			{
				Name: "trace", ArgsUsage: "RUN",
				Usage: "for the Java simulators: who left and came back when: host, sample, 1 or 0",
				Flags: []cli.Flag{
					dir,
					&cli.DurationFlag{Name: "sample", Value: time.Second, Usage: "`LENGTH` of a sample, scenario time"},
				},
				Action: exportTrace,
			},
		}...),
	}
}

// exported writes one file of an export.
func exported(dir, name string, b []byte) error {
	if err := renameio.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func exportMemlists(c *cli.Context) error {
	run, err := openRun(c)
	if err != nil {
		return err
	}
	dir := c.String("o")
	opt := foreign.MembershipOptions{Every: c.Duration("every")}
	if opt.Every < time.Millisecond {
		return usageError(fmt.Errorf("--every %v: want 1ms or more", opt.Every))
	}
	if file := c.String("initial"); file != "" {
		if opt.Initial, err = readLists(file, run.Manifest.Nodes); err != nil {
			return usageError(err)
		}
	}
	// The logs are read through before anything is written.
	if _, err := foreign.ReplayMembership(run, opt, func(*foreign.Snapshot) error { return nil }); err != nil {
		return usageError(err)
	}
	if err := newDir(dir); err != nil {
		return err
	}
	var sizes []foreign.ListSize
	var last []*foreign.Memlist
	snapshots := 0
	disagree, err := foreign.ReplayMembership(run, opt, func(s *foreign.Snapshot) error {
		snapshots++
		last = s.Lists
		sizes = append(sizes, s.Sizes()...)
		return foreign.WriteMemlists(filepath.Join(dir, strconv.FormatInt(s.At.Milliseconds(), 10)), s.Lists)
	})
	if err != nil {
		return err
	}
	if err := foreign.WriteMemlists(dir, last); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := foreign.WriteMemlistSizes(&b, sizes); err != nil {
		return err
	}
	if err := exported(dir, exportedSizes, b.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%d snapshots of %d lists in %s\n", snapshots, len(last), dir)
	if disagree > 0 {
		fmt.Fprintf(c.App.Writer, "warning: %d log lines tell another list length than the replay has\n", disagree)
	}
	return nil
}

func readLists(file string, nodes int) ([][]core.NodeID, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--initial: %w", err)
	}
	lists, err := static.ReadLists(f, file, nodes)
	return lists, errors.Join(err, f.Close())
}

func exportTopology(c *cli.Context) error {
	args, err := fileArgs(c, 1)
	if err != nil {
		return err
	}
	metric, err := topologies.ParseMetric(c.String("metric"))
	if err != nil {
		return usageError(fmt.Errorf("--metric: %w", err))
	}
	t, err := topologyOf(args[0], c.Float64("radius"))
	if err != nil {
		return usageError(err)
	}
	var xy, routes bytes.Buffer
	if err := topologies.Write(&xy, topologies.XY, t); err != nil {
		return usageError(fmt.Errorf("the Java simulators read positions alone: %w", err))
	}
	if c.Bool("routes") {
		r, err := foreign.RoutesOf(t, metric)
		if err != nil {
			return usageError(err)
		}
		if err := r.Write(&routes); err != nil {
			return err
		}
	}
	dir := c.String("o")
	if err := newDir(dir); err != nil {
		return err
	}
	if err := exported(dir, exportedTopology, xy.Bytes()); err != nil {
		return err
	}
	if routes.Len() > 0 {
		if err := exported(dir, exportedRoutes, routes.Bytes()); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.App.Writer, "%d nodes in %s; one_hop_radius %g\n", len(t.Nodes), filepath.Join(dir, exportedTopology), t.Radius)
	return nil
}

// topologyOf returns the topology of a run directory or of a file.
func topologyOf(path string, radius float64) (*topologies.Topology, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return topologies.ReadFile(path, topologies.ReadOptions{Radius: radius})
	}
	run, err := results.Open(path)
	if err != nil {
		return nil, err
	}
	spec, origin, err := scenario.Load(run.Path(results.ScenarioFile), nil)
	if err != nil {
		return nil, err
	}
	s, err := scenario.Resolve(spec, origin)
	if err != nil {
		return nil, err
	}
	return s.Topology, nil
}

func exportTrace(c *cli.Context) error {
	run, err := openRun(c)
	if err != nil {
		return err
	}
	sample := c.Duration("sample")
	t, err := foreign.ChurnOf(run, sample)
	if err != nil {
		return usageError(err)
	}
	var b bytes.Buffer
	if err := t.WriteThreeColumns(&b); err != nil {
		return usageError(err)
	}
	dir := c.String("o")
	if err := newDir(dir); err != nil {
		return err
	}
	if err := exported(dir, exportedTrace, b.Bytes()); err != nil {
		return err
	}
	// Their samples are 20 minutes, of which churn_ratio seconds pass in a
	// millisecond.
	fmt.Fprintf(c.App.Writer, "%d hosts in %s; samples of %v: churn_ratio %g replays it at its own speed, as does churn-sample %v here\n",
		len(t.Hosts), filepath.Join(dir, exportedTrace), sample, 1200/float64(sample.Milliseconds()), sample)
	return nil
}
