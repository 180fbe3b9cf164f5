package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/results/report"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "make an HTML page of runs: map, timeline, waits, messages, fidelity",
		ArgsUsage: "DIR...",
		Description: "Writes one self-contained HTML file, which any browser shows without a network; several runs stand side by\n" +
			"side. With --plots it also draws every picture as PNG and SVG. Example:\n" +
			"  churnbed report runs/mesh256 --out mesh256.html --plots plots",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write the page to `FILE` (default: report.html in the run directory, of several in the working directory)"},
			&cli.StringFlag{Name: "plots", Usage: "draw into `DIR`: <plot>.png and .svg; of several runs, <run>-<plot>"},
		},
		Action: reportAction,
	}
}

func reportAction(c *cli.Context) error {
	args, err := interleaved(c)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return usageError(errors.New("report: want one run directory or more; `churnbed run` prints its own at the end"))
	}
	runs := make([]*report.Run, len(args))
	for i, dir := range args {
		// The scenario knows where nodes stand; a run directory from elsewhere
		// may name a topology file that is not here.
		topology, _ := topologyOf(dir, 0)
		if runs[i], err = report.Open(dir, topology); err != nil {
			return usageError(noRun(err))
		}
	}
	report.Distinguish(runs)
	out := c.String("out")
	switch {
	case out != "":
	case len(args) == 1:
		out = filepath.Join(args[0], "report.html")
	default:
		out = "report.html"
	}
	var b bytes.Buffer
	if err := report.Render(&b, runs); err != nil {
		return err
	}
	if err := renameio.WriteFile(out, b.Bytes(), 0o644); err != nil {
		return usageError(fmt.Errorf("write report: %w", err))
	}
	fmt.Fprintf(c.App.Writer, "report of %s in %s (%d kB)\n", counted(len(runs), "run"), out, (b.Len()+999)/1000)
	if dir := c.String("plots"); dir != "" {
		n, err := drawPlots(runs, dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.App.Writer, "%s in %s\n", counted(n, "plot"), dir)
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func drawPlots(runs []*report.Run, dir string) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, usageError(fmt.Errorf("--plots: %w", err))
	}
	n := 0
	for i, r := range runs {
		prefix := ""
		if len(runs) > 1 {
			prefix = fmt.Sprintf("%d-", i+1)
		}
		for _, p := range r.Plots() {
			n++
			for _, format := range [...]string{"svg", "png"} {
				var b bytes.Buffer
				if err := p.Draw(&b, format); err != nil {
					return n, err
				}
				path := filepath.Join(dir, prefix+p.Name+"."+format)
				if err := renameio.WriteFile(path, b.Bytes(), 0o644); err != nil {
					return n, usageError(fmt.Errorf("write plot: %w", err))
				}
			}
		}
	}
	return n, nil
}
