package main

import "github.com/urfave/cli/v2"

func versionCommand() *cli.Command { return &cli.Command{Name: "version"} }
