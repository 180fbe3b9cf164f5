// Command churnbed-guest runs a command in a guest of package guest and ends
// with that command's exit status; 125 where there is no verdict. Build it with
// CGO_ENABLED=0: it is the guest's init as well.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"churnbed/emulator/guest"
	"churnbed/emulator/guest/guestinit"
)

const exitNoVerdict = 125

func main() {
	guestinit.Main()
	os.Exit(run())
}

func run() int {
	cfg := guest.Config{Files: map[string]string{}, Stdout: os.Stdout, Stderr: os.Stderr}
	flag.Func("file", "GUEST=HOST: put a file or directory into the guest (repeatable)", func(v string) error {
		to, from, ok := strings.Cut(v, "=")
		if !ok {
			return fmt.Errorf("want GUEST=HOST")
		}
		cfg.Files[to] = from
		return nil
	})
	flag.Func("env", "KEY=value for the command (repeatable)", func(v string) error {
		cfg.Env = append(cfg.Env, v)
		return nil
	})
	flag.IntVar(&cfg.MemoryMiB, "memory", guest.DefaultMemoryMiB, "memory in `MiB`")
	flag.StringVar(&cfg.Cache, "cache", "", "`folder` that keeps the kernel (default ~/.cache/churnbed)")
	flag.StringVar(&cfg.Dir, "dir", "/", "working `directory` in the guest")
	flag.StringVar(&cfg.Out, "out", "", "guest `directory` to bring out")
	flag.StringVar(&cfg.OutDir, "out-dir", "", "host `directory` that receives it")
	timeout := flag.Duration("timeout", 5*time.Minute, "kill the guest after this time")
	console := flag.Bool("console", false, "show the kernel's messages")
	prepare := flag.Bool("prepare", false, "only fetch the kernel into the cache")
	flag.Parse()
	// An argument --then begins a command that runs where those before ended
	// with 0.
	rest := flag.Args()
	for {
		i := slices.Index(rest, "--then")
		if i < 0 {
			break
		}
		cfg.Then = append(cfg.Then, rest[:i])
		rest = rest[i+1:]
	}
	cfg.Then = append(cfg.Then, rest)
	cfg.Command, cfg.Then = cfg.Then[0], cfg.Then[1:]
	if *console {
		cfg.Console = os.Stderr
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *timeout, fmt.Errorf("no end after %v", *timeout))
	defer cancel()
	if *prepare {
		if _, err := guest.Prepare(ctx, cfg.Cache); err != nil {
			fmt.Fprintln(os.Stderr, "churnbed-guest:", err)
			return exitNoVerdict
		}
		return 0
	}
	r, err := guest.Run(ctx, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "churnbed-guest:", err)
		return exitNoVerdict
	}
	fmt.Fprintf(os.Stderr, "churnbed-guest: exit %d, %v of guest time in %v\n",
		r.Exit, r.GuestTime.Round(time.Millisecond), r.WallTime.Round(time.Millisecond))
	return r.Exit
}
