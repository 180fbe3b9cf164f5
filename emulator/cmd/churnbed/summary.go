package main

import "github.com/urfave/cli/v2"

func summaryCommand() *cli.Command { return &cli.Command{Name: "summary"} }
