package main

import "github.com/urfave/cli/v2"

func topoCommand() *cli.Command { return &cli.Command{Name: "topo"} }
