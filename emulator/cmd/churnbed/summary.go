package main

import (
	"github.com/urfave/cli/v2"

	"churnbed/results"
)

func summaryCommand() *cli.Command {
	return &cli.Command{
		Name:      "summary",
		Usage:     "compute the metrics of a run from its logs",
		ArgsUsage: "DIR",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print it as summary.json has it"},
		},
		Action: func(c *cli.Context) error {
			run, err := openRun(c)
			if err != nil {
				return err
			}
			s, err := results.Summarise(run)
			if err != nil {
				return usageError(err)
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, s)
			}
			return s.Print(c.App.Writer, run.Dir)
		},
	}
}
