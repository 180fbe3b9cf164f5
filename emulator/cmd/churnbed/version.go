package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// release is set by -ldflags in release builds.
var release = "0.1.0-dev"

// version names the program's version and, where known, the commit.
func version() string {
	v := release
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "+" + s.Value[:12]
			}
		}
	}
	return v
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "as JSON"}},
		Action: func(c *cli.Context) error {
			if c.Bool("json") {
				return printJSON(os.Stdout, map[string]string{"version": version(), "go": runtime.Version()})
			}
			fmt.Println("churnbed", version(), runtime.Version())
			return nil
		},
	}
}
