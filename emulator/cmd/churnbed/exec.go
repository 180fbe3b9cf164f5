package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
)

func execCommand() *cli.Command {
	return &cli.Command{
		Name: "exec", Usage: "run a program in the namespaces of a node", Category: categoryLive, ArgsUsage: "NODE [--] COMMAND [ARG...]",
		Description: "Standard input, output and error are passed on, and so is the exit status (125: churnbed itself failed,\n" +
			"127: no such program). The program sees the node's links and addresses, the processes of the mesh, and the\n" +
			"host's files; CHURNBED_NODE and CHURNBED_ADDRESS tell it where it is. It ends with the run.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "give it a terminal"}, runFlag(),
		},
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			// Flags may stand behind the node too, but only a -- tells them from
			// the program's.
			if i := slices.Index(args, "--"); i == 1 || i > 1 && strings.HasPrefix(args[1], "-") {
				node, err := interleavedIn(c, args[:i])
				if err != nil {
					return err
				}
				args = append(node, args[i+1:]...)
			}
			if len(args) > 1 && strings.HasPrefix(args[1], "-") {
				return usageError(fmt.Errorf("exec: %q is no program: put flags before the node, or -- before the program", args[1]))
			}
			if len(args) < 2 {
				return usageError(errors.New("exec: want a node and a command, such as `churnbed exec 3 -- ip route`"))
			}
			return enter(c, args[0], args[1:], c.Bool("tty"))
		},
	}
}

func shellCommand() *cli.Command {
	return &cli.Command{
		Name: "shell", Usage: "open a shell in the namespaces of a node", Category: categoryLive, ArgsUsage: "NODE",
		Description: "Runs $SHELL, or /bin/sh, on a terminal of its own; see exec.",
		Flags:       []cli.Flag{runFlag()},
		Action: func(c *cli.Context) error {
			arg, err := oneArgument(c, "shell: want one node, such as `churnbed shell 3`")
			if err != nil {
				return err
			}
			shell := os.Getenv("SHELL")
			if shell == "" || !exists(shell) {
				shell = "/bin/sh"
			}
			return enter(c, arg, []string{shell}, true)
		},
	}
}

// Exit codes of exec where the program's own is not there.
const (
	exitExecFailed    = 125
	exitExecNotFound  = 127
	bufferedFromStdin = 32 << 10
)

// enter runs a program at a node and ends as it ends.
func enter(c *cli.Context, node string, argv []string, tty bool) error {
	id, err := parseNode(node)
	if err != nil {
		return usageError(err)
	}
	client, r, err := connect(c)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	stream, err := client.Exec(ctx)
	if err != nil {
		return &codedError{exitExecFailed, told(err)}
	}
	dir, _ := os.Getwd() // the node's side takes another where it has none
	start := &controlpb.ExecInput_Start{Node: id, Argv: argv, Dir: dir, Tty: tty}
	if t := os.Getenv("TERM"); t != "" {
		start.Env = []string{"TERM=" + t}
	}
	in := &sender{stream: stream}
	onTerminal := tty && term.IsTerminal(int(os.Stdin.Fd()))
	if tty {
		start.Size = terminalSize()
	}
	in.send(&controlpb.ExecInput{What: &controlpb.ExecInput_Start_{Start: start}})
	restore := func() {}
	if onTerminal {
		old, err := term.MakeRaw(int(os.Stdin.Fd()))
		if err != nil {
			return &codedError{exitExecFailed, fmt.Errorf("set terminal to raw: %w", err)}
		}
		restore = func() { _ = term.Restore(int(os.Stdin.Fd()), old) }
	}
	defer restore()
	stop := in.signals(tty)
	defer stop()
	go in.stdin() // ends with standard input, or with the program
	code, err := receive(stream)
	restore()
	if err != nil {
		if status.Code(err) == codes.NotFound {
			return &codedError{exitExecNotFound, told(err)}
		}
		return &codedError{exitExecFailed, fmt.Errorf("run %s: %w", r.Name, told(err))}
	}
	if code != 0 {
		return &codedError{code, errQuiet}
	}
	return nil
}

// errQuiet ends the program with a status that needs no words.
var errQuiet = errors.New("the program's exit status")

// receive prints what comes until the program ends.
func receive(stream controlpb.Hands_ExecClient) (code int, err error) {
	for {
		out, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = errors.New("the run ended")
		}
		if err != nil {
			return 0, err
		}
		switch what := out.GetWhat().(type) {
		case *controlpb.ExecOutput_Stdout:
			_, err = os.Stdout.Write(what.Stdout)
		case *controlpb.ExecOutput_Stderr:
			_, err = os.Stderr.Write(what.Stderr)
		case *controlpb.ExecOutput_Exit:
			return int(what.Exit), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// sender sends to the program; what cannot be sent shows when receiving.
type sender struct {
	mu     sync.Mutex
	stream controlpb.Hands_ExecClient
}

func (s *sender) send(in *controlpb.ExecInput) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.stream.Send(in)
}

func (s *sender) stdin() {
	buf := make([]byte, bufferedFromStdin)
	for {
		n, err := os.Stdin.Read(buf)
		if n > 0 {
			s.send(&controlpb.ExecInput{What: &controlpb.ExecInput_Stdin{Stdin: append([]byte(nil), buf[:n]...)}})
		}
		if err != nil {
			s.send(&controlpb.ExecInput{What: &controlpb.ExecInput_Eof_{Eof: &controlpb.ExecInput_Eof{}}})
			return
		}
	}
}

// signals passes signals on, and the size of the terminal.
func (s *sender) signals(tty bool) (stop func()) {
	c := make(chan os.Signal, 8)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-c:
				if sig != syscall.SIGWINCH {
					s.send(&controlpb.ExecInput{What: &controlpb.ExecInput_Signal{Signal: int32(sig.(syscall.Signal))}})
				} else if tty {
					s.send(&controlpb.ExecInput{What: &controlpb.ExecInput_Size_{Size: terminalSize()}})
				}
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(c); close(done) }
}

func terminalSize() *controlpb.ExecInput_Size {
	columns, rows, err := term.GetSize(int(os.Stdin.Fd()))
	if err != nil {
		return nil
	}
	return &controlpb.ExecInput_Size{Rows: uint32(rows), Columns: uint32(columns)}
}
