package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"google.golang.org/grpc/status"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/live"
)

// The verbs of this file act on a live run. Each says what it wants in the
// fault language; the controller carries it out and logs it.

// categoryLive gathers them in the help.
const categoryLive = "On a live run"

func runFlag() cli.Flag {
	return &cli.StringFlag{Name: "run", Usage: "`NAME` (or controller's pid) of the live run; needed only where there are several"}
}

func forFlag(what string) cli.Flag {
	return &cli.DurationFlag{Name: "for", Usage: what + " after `TIME` (scenario time)"}
}

// handsCommands are the verbs that change a live run.
func handsCommands() []*cli.Command {
	return []*cli.Command{
		nodesCommand("kill", "kill node processes (SIGKILL)", "crash", forFlag("start them again"),
			&cli.BoolFlag{Name: "poweroff", Usage: "take their links down as well"},
			&cli.BoolFlag{Name: "leave", Usage: "let them leave gracefully instead"}),
		nodesCommand("pause", "freeze node processes (SIGSTOP)", "pause", forFlag("resume them")),
		nodesCommand("resume", "let frozen node processes go on (SIGCONT)", "resume"),
		nodesCommand("restart", "start node processes that are down; kill those that run first", "restart"),
		linkCommand(), partitionCommand(), healCommand(), triggerCommand(), injectCommand(),
	}
}

// connect reaches the live run that --run means.
func connect(c *cli.Context) (*live.Client, live.Run, error) {
	r, err := live.Find(c.String("run"))
	if err != nil {
		return nil, r, usageError(err)
	}
	client, err := live.Dial(r)
	if err != nil {
		return nil, r, hostError(err)
	}
	return client, r, nil
}

// act carries out one action on a live run and prints what was done.
func act(c *cli.Context, actions ...string) error {
	client, r, err := connect(c)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	for _, a := range actions {
		reply, err := client.Act(c.Context, &controlpb.ActRequest{Action: a})
		if err != nil {
			return usageError(fmt.Errorf("run %s: %w", r.Name, told(err)))
		}
		fmt.Fprintln(c.App.Writer, reply.GetDone())
	}
	return nil
}

// told takes the gRPC wrapping off an error of the other side.
func told(err error) error {
	if s, ok := status.FromError(err); ok {
		return errors.New(s.Message())
	}
	return err
}

// nodesOf puts the nodes of an argument into the fault language: ids as in
// 3,5-7, or what the language calls them (holder, "2 waiters", tag:edge, 10%).
func nodesOf(args []string) (string, error) {
	if len(args) == 0 {
		return "", errors.New("which node? (an id, ids as in 3,5-7, tag:NAME, all, holder, waiter, idle, with k-groups leader, \"3 nodes\" or 10%; `churnbed ps` lists the nodes)")
	}
	text := strings.Join(args, " ")
	if strings.Trim(text, "0123456789,- ") == "" {
		return "nodes " + strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }), ","), nil
	}
	return text, nil
}

func nodesCommand(name, usage, verb string, flags ...cli.Flag) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "NODE", Category: categoryLive, Flags: append(flags, runFlag()),
		Action: func(c *cli.Context) error {
			args, err := interleaved(c)
			if err != nil {
				return err
			}
			nodes, err := nodesOf(args)
			if err != nil {
				return usageError(fmt.Errorf("%s: %w", name, err))
			}
			action := verb
			switch {
			case c.Bool("poweroff") && c.Bool("leave"):
				return usageError(errors.New("kill: --poweroff and --leave exclude each other"))
			case c.Bool("poweroff"):
				action = "poweroff"
			case c.Bool("leave"):
				action = "leave"
			}
			rule := action + " " + nodes + lasting(c)
			if verb != "restart" {
				return act(c, rule)
			}
			// What runs is killed first.
			v, err := viewOf(c)
			if err != nil {
				return err
			}
			running := slices.ContainsFunc(v.Nodes, func(n live.Node) bool { return n.State != live.Down && names(nodes, n.ID) })
			if running {
				return act(c, "crash "+nodes, rule)
			}
			return act(c, rule)
		},
	}
}

// names reports whether a choice by ids names a node; other choices name all.
func names(nodes string, id int) bool {
	list, ok := strings.CutPrefix(nodes, "nodes ")
	if !ok {
		return true
	}
	for item := range strings.SplitSeq(list, ",") {
		var first, last int
		if n, _ := fmt.Sscanf(item, "%d-%d", &first, &last); n == 1 {
			last = first
		}
		if first <= id && id <= last {
			return true
		}
	}
	return false
}

// lasting is the end of a rule that is undone after a while.
func lasting(c *cli.Context) string {
	if d := c.Duration("for"); d > 0 {
		return " for " + d.String()
	}
	return ""
}

func linkCommand() *cli.Command {
	return &cli.Command{
		Name: "link", Usage: "take a link down or up, or change its delay, loss, jitter, rate", Category: categoryLive,
		ArgsUsage: "A B down|up|delay=TIME|loss=SHARE|jitter=TIME|rate=RATE...",
		Flags:     []cli.Flag{forFlag("undo it"), &cli.BoolFlag{Name: "one-way", Usage: "change the direction from A to B only (not with down and up)"}, runFlag()},
		Action: func(c *cli.Context) error {
			args, err := interleaved(c)
			if err != nil {
				return err
			}
			// The link as two words or as one, "3-7".
			if len(args) > 0 && strings.Contains(args[0], "-") {
				args = slices.Concat(strings.SplitN(args[0], "-", 2), args[1:])
			}
			if len(args) < 3 {
				return usageError(errors.New("link: want two nodes and what to do, such as `churnbed link 3 7 down` or `churnbed link 3 7 delay=20ms loss=10%`"))
			}
			pair := args[0] + "-" + args[1]
			if c.Bool("one-way") {
				pair = args[0] + ">" + args[1]
			}
			if len(args) == 3 && (args[2] == "down" || args[2] == "up") {
				return act(c, "link "+pair+" "+args[2]+lasting(c))
			}
			words := []string{"set", "link", pair}
			for _, a := range args[2:] {
				key, value, ok := strings.Cut(a, "=")
				if !ok {
					return usageError(fmt.Errorf("link: %q: want down, up, or KEY=VALUE with delay, jitter, loss or rate", a))
				}
				words = append(words, key, value)
			}
			return act(c, strings.Join(words, " ")+lasting(c))
		},
	}
}

func partitionCommand() *cli.Command {
	return &cli.Command{
		Name: "partition", Usage: "cut all links between groups of nodes", Category: categoryLive, ArgsUsage: "GROUP [GROUP...]",
		Description: "A group is a list of nodes such as 0-3,7 or tag:NAME. Nodes that no group names form one more.",
		Flags:       []cli.Flag{forFlag("heal it"), runFlag()},
		Action: func(c *cli.Context) error {
			args, err := interleaved(c)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return usageError(errors.New("partition: want one group or more, such as `churnbed partition 0-3 4-7`"))
			}
			return act(c, "partition "+strings.Join(args, "|")+lasting(c))
		},
	}
}

func healCommand() *cli.Command {
	return &cli.Command{
		Name: "heal", Usage: "end all partitions", Category: categoryLive, Flags: []cli.Flag{runFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usageError(fmt.Errorf("heal: unexpected argument %q: it ends all partitions", c.Args().First()))
			}
			return act(c, "heal")
		},
	}
}

func triggerCommand() *cli.Command {
	return &cli.Command{
		Name: "trigger", Usage: "fire a routine by hand (algorithms comesh and hub)", Category: categoryLive, ArgsUsage: "ROUTINE",
		Description: "ROUTINE is its place in the scenario's list, from 0. A smart node passes the wish on to the leader that\n" +
			"manages the routine; a routine that runs is fired when it is done.",
		Flags: []cli.Flag{runFlag()},
		Action: func(c *cli.Context) error {
			arg, err := oneArgument(c, "trigger: want one routine, such as `churnbed trigger 0`")
			if err != nil {
				return err
			}
			return act(c, "trigger "+arg)
		},
	}
}

func injectCommand() *cli.Command {
	return &cli.Command{
		Name: "inject", Usage: "carry out any action of the fault language", Category: categoryLive, ArgsUsage: "ACTION",
		Description: "An action is a fault rule without its \"at TIME\"; it happens at once. The grammar is in the documentation of\n" +
			"package workloads.",
		Flags: []cli.Flag{runFlag()},
		Action: func(c *cli.Context) error {
			args, err := interleaved(c)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return usageError(errors.New("inject: want an action, such as `churnbed inject \"crash holder for 3s\"`"))
			}
			return act(c, strings.Join(args, " "))
		},
	}
}

// viewOf looks at the live run that --run means.
func viewOf(c *cli.Context) (*live.View, error) {
	client, _, err := connect(c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	return lookAt(c.Context, client)
}

func lookAt(ctx context.Context, client *live.Client) (*live.View, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stream, err := client.Watch(ctx, &controlpb.WatchRequest{Once: true})
	if err != nil {
		return nil, hostError(told(err))
	}
	m, err := stream.Recv()
	if err != nil {
		return nil, hostError(fmt.Errorf("look at the run: %w", told(err)))
	}
	v := new(live.View)
	if err := json.Unmarshal(m.GetJson(), v); err != nil {
		return nil, hostError(fmt.Errorf("look at the run: %w", err))
	}
	return v, nil
}

func psCommand() *cli.Command {
	return &cli.Command{
		Name: "ps", Usage: "list the live runs, and the nodes of one", Category: categoryLive, ArgsUsage: "[NAME]",
		Description: "Lists what of yours runs on this host. With one run, or a NAME, its nodes follow.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON array of runs with all that is known of them"}, runFlag(),
		},
		Action: func(c *cli.Context) error {
			args, err := interleaved(c)
			if err != nil {
				return err
			}
			which := c.String("run")
			switch {
			case len(args) > 1, len(args) == 1 && which != "" && which != args[0]:
				return usageError(errors.New("ps: want one run at most"))
			case len(args) == 1:
				which = args[0]
			}
			runs, err := live.List()
			if err != nil {
				return hostError(err)
			}
			if which != "" {
				r, err := live.Find(which)
				if err != nil {
					return usageError(err)
				}
				runs = []live.Run{r}
			}
			views := []*live.View{}
			for _, r := range runs {
				client, err := live.Dial(r)
				if err != nil {
					return hostError(err)
				}
				v, err := lookAt(c.Context, client)
				_ = client.Close()
				if err != nil {
					continue // it has just ended
				}
				views = append(views, v)
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, views)
			}
			return printRuns(c.App.Writer, views)
		},
	}
}

func printRuns(out io.Writer, views []*live.View) error {
	if len(views) == 0 {
		_, err := fmt.Fprintln(out, "no live run of yours here; start one with `churnbed run`")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tPID\tPHASE\tTIME\tNODES UP\tSERVED\tWAITING\tALGORITHM\tDIRECTORY")
	for _, v := range views {
		f := &v.Figures
		served := fmt.Sprint(f.Served)
		if f.Requests > 0 {
			served += fmt.Sprintf("/%d", f.Requests)
		}
		if v.Info.Groups > 0 {
			served = counted(f.Served, "routine")
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%.1f s\t%d/%d\t%s\t%d\t%s\t%s\n", v.Info.Name, v.Info.PID, f.Phase, f.ElapsedMS/1e3, f.Up, len(v.Nodes),
			served, f.Waiting, v.Info.Algorithm, v.Info.Dir)
	}
	if err := w.Flush(); err != nil || len(views) > 1 {
		return err
	}
	if groups := views[0].Info.Groups; groups > 0 {
		fmt.Fprintf(w, "\n%s, %s; holding: runs a routine that holds a device's lock\n", counted(groups, "group"), counted(views[0].Figures.Leaders, "leader"))
		fmt.Fprintln(w, "NODE\tSTATE\tLIFE\tROUTINES\tLEADS")
		for _, n := range views[0].Nodes {
			fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\n", n.ID, n.State, n.Life, n.Entries, n.Leads)
		}
		return w.Flush()
	}
	fmt.Fprintln(w, "\nNODE\tSTATE\tLIFE\tENTRIES")
	for _, n := range views[0].Nodes {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\n", n.ID, n.State, n.Life, n.Entries)
	}
	return w.Flush()
}

// parseNode reads the id of one node.
func parseNode(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("node %q: want its id; `churnbed ps` lists the nodes", text)
	}
	return uint32(id), nil
}
