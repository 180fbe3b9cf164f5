// Command churnbed launches emulated meshes of real node processes and judges
// what they did.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"churnbed/emulator/guest/guestinit"
	"churnbed/emulator/sandbox"
	"churnbed/emulator/supervise"
)

// Exit codes of every verb.
const (
	exitOK          = 0
	exitCheckFailed = 1 // a check failed
	exitUsage       = 2 // usage or validation
	exitHost        = 3 // the host lacks something
	exitInterrupted = 4
)

// codedError carries the exit code of an error.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func usageError(err error) error { return &codedError{exitUsage, err} }
func hostError(err error) error  { return &codedError{exitHost, err} }

// errCheckFailed ends the program with exitCheckFailed; what failed was
// printed already.
var errCheckFailed = &codedError{exitCheckFailed, errors.New("check failed")}

// commands returns the whole command line, ready to run.
func commands() []*cli.Command {
	all := append([]*cli.Command{
		topoCommand(),
		checkCommand(),
		exploreCommand(),
		minimiseCommand(),
		summaryCommand(),
		doctorCommand(),
		runCommand(),
		simCommand(),
		reproduceCommand(),
		bothCommand(),
		compareCommand(),
		importCommand(),
		exportCommand(),
		reportCommand(),
		versionCommand(),
		scenarioCommand(),
		sweepCommand(),
		completionCommand(),
		manCommand(),
		psCommand(),
		topCommand(),
		execCommand(),
		shellCommand(),
		pcapCommand(),
	}, handsCommands()...)
	for _, c := range all {
		finish(c)
	}
	addExamples(all)
	return all
}

func main() {
	if os.Args[0] == sandbox.Argv0 {
		supervise.Main() // the inside of a sandbox; does not return
	}
	guestinit.Main() // the first process of a virtual host; does not return there
	os.Exit(run(os.Args))
}

// run runs one command line and returns its exit code.
func run(args []string) int {
	app := &cli.App{
		Name:            "churnbed",
		Usage:           "test coordination protocols on a churning mesh of real processes",
		Commands:        commands(),
		HideVersion:     true,
		HideHelpCommand: true,
		ExitErrHandler:  func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return usageError(err)
		},
	}
	args = customary(args)
	if len(args) > 1 && args[1] == completeWord {
		for _, line := range complete(app.Commands, args[2:]) {
			fmt.Println(line)
		}
		return exitOK
	}
	err := unknownCommand(app.Commands, args[1:])
	if err == nil {
		err = app.Run(args)
	} else {
		err = usageError(err)
	}
	if err == nil {
		return exitOK
	}
	err = explainFlag(app.Commands, args[1:], err)
	if !errors.Is(err, errCheckFailed) && !errors.Is(err, errQuiet) {
		fmt.Fprintln(os.Stderr, "churnbed:", err)
	}
	return exitCode(err)
}

// customary turns what other programs understand (`help VERB`, --version)
// into our own words.
func customary(args []string) []string {
	switch {
	case len(args) < 2:
	case args[1] == "help":
		return append(append(args[:1:1], args[2:]...), "--help")
	case args[1] == "--version" || args[1] == "-v":
		return append(append(args[:1:1], "version"), args[2:]...)
	}
	return args
}

// exitCode returns the exit code that err ends the program with.
func exitCode(err error) int {
	var coded *codedError
	if errors.As(err, &coded) {
		return coded.code
	}
	return exitUsage
}

// finish makes wrong flags of c and its subcommands end with exitUsage, and
// leaves out the command "help" below each: there is --help.
func finish(c *cli.Command) {
	c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usageError(err) }
	c.HideHelpCommand = true
	for _, s := range c.Subcommands {
		finish(s)
	}
}
