package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"churnbed/node/mutex/catalog"
	"churnbed/node/mutex/script"
)

// exploreArgs are the flags of churnbed explore.
type exploreArgs struct {
	cfg               script.ExploreConfig
	nodes, walks      int
	requests, crashes string
	restarts          int
	partition         string
	stopped           string
	after             string
	given             bool // --nodes is set
	seed              uint64
	script            string
	json, quiet       bool
}

func exploreCommand() *cli.Command {
	return &cli.Command{
		Name:      "explore",
		Usage:     "try all schedules of a few nodes, and show the shortest that goes wrong",
		ArgsUsage: "[LIST...]",
		Description: "Drives the protocol code of real nodes through every interleaving of deliveries, entries, exits and the\n" +
			"faults that the flags allow, breadth first; with --walks N through N random schedules instead. LIST is\n" +
			"p0:p1,p2 and says whom p0 lists at its start (default: everyone). Wrong is: more nodes than may be in\n" +
			"the critical section, a request that is never served though the trouble ends, a token or coordinator\n" +
			"too many or too few, or a state that contradicts itself.\n" +
			"localmutex runs on a graph: LIST is a link such as p0-p1 (default: all pairs), --cuts and --joins change\n" +
			"it; wrong is then lock sets that intersect, more than two messages under way on a link, and the same.\n" +
			"--partition p0,p1|p2 may begin at any time and lasts: messages between the sides wait; --stopped p1 stands\n" +
			"still from then on, and neither acts nor leaves when it is given up. --after FILE begins where the schedule\n" +
			"of an interaction script ends, for what takes too many steps from the start.\n" +
			"Readings of an algorithm follow its name, as in camera-paper+snapshot. Exit status 1 where something\n" +
			"is wrong, 0 where all was visited or a bound was reached (which is said), 4 where it was interrupted.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "algorithm", Value: "camera", Usage: "`NAME` of the algorithm and its readings"},
			&cli.IntFlag{Name: "k", Value: 1, Usage: "`K` tokens, and nodes that may hold at once (fairk, bv95)"},
			&cli.IntFlag{Name: "nodes", Value: 3, Usage: "`N` nodes, 2 to 5, with --walks to 64"},
			&cli.IntFlag{Name: "n-upper", Usage: "bound of the number of nodes that they are told (default: --nodes)"},
			&cli.StringFlag{Name: "requests", Value: "1", Usage: "`N` of each node, or one number a node: 1,1,0"},
			&cli.StringFlag{Name: "crashes", Value: "0", Usage: "`N` in all, or one number a node"},
			&cli.IntFlag{Name: "restarts", Value: -1, Usage: "`N` in all (default: after each crash)"},
			&cli.IntFlag{Name: "losses", Usage: "`N` of datagrams and of messages of dead processes; what is retransmitted is late instead"},
			&cli.IntFlag{Name: "duplicates", Usage: "`N` messages twice in flight"},
			&cli.IntFlag{Name: "member-changes", Usage: "`N` times a list gains a node that is up or loses one"},
			&cli.BoolFlag{Name: "gains-only", Usage: "lists lose nobody"},
			&cli.IntFlag{Name: "silent-oks", Usage: "`N` times a node gives up a peer that its detector calls failed, rightly or not"},
			&cli.BoolFlag{Name: "no-fence", Usage: "a live peer that is given up does not leave first (it does by ALGORITHMS 2.4)"},
			&cli.StringFlag{Name: "partition", Usage: "`SIDES` into which the nodes may be cut: p0,p1|p2"},
			&cli.StringFlag{Name: "stopped", Usage: "`NODES` that stand still from then on: p1"},
			&cli.BoolFlag{Name: "stay-dead", Usage: "who is down stays down when the trouble ends, and is detected by those who list it only"},
			&cli.StringFlag{Name: "after", Usage: "begin after the commands of the interaction script `FILE`, with its nodes and lists"},
			&cli.IntFlag{Name: "depth", Usage: "at most `N` steps (0: no bound; --walks: 300)"},
			&cli.IntFlag{Name: "states", Value: 5_000_000, Usage: "at most `N` states (0: no bound)"},
			&cli.IntFlag{Name: "walks", Usage: "`N` random schedules"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the first walk, the others count from it"},
			&cli.StringFlag{Name: "script", Usage: "write the schedule to `FILE` as an interaction script"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress"},
		}, localFlags()...),
		Action: func(c *cli.Context) error {
			lists, err := interleaved(c)
			if err != nil {
				return err
			}
			if isLocalmutex(c.String("algorithm")) {
				return exploreLocal(c, lists)
			}
			for _, f := range localFlags() {
				if name := f.Names()[0]; c.IsSet(name) {
					return usageError(fmt.Errorf("--%s: %s has no such thing, localmutex has", name, c.String("algorithm")))
				}
			}
			// Read here: interleaved flags reach the context only.
			a := &exploreArgs{
				nodes: c.Int("nodes"), walks: c.Int("walks"), restarts: c.Int("restarts"), seed: c.Uint64("seed"),
				requests: c.String("requests"), crashes: c.String("crashes"), script: c.String("script"), json: c.Bool("json"), quiet: c.Bool("quiet"),
				partition: c.String("partition"), stopped: c.String("stopped"), after: c.String("after"), given: c.IsSet("nodes"),
				cfg: script.ExploreConfig{
					Algorithm: c.String("algorithm"), Holders: c.Int("k"), NUpper: c.Int("n-upper"), Losses: c.Int("losses"), Duplicates: c.Int("duplicates"),
					Changes: c.Int("member-changes"), GainsOnly: c.Bool("gains-only"), SilentOKs: c.Int("silent-oks"), NoFence: c.Bool("no-fence"),
					StayDead: c.Bool("stay-dead"), MaxDepth: c.Int("depth"), MaxStates: c.Int("states"), Stuck: true,
				},
			}
			if err := a.resolve(lists); err != nil {
				return usageError(err)
			}
			return a.explore(c.Context, c.App.Writer)
		},
	}
}

// resolve makes the configuration of the flags.
func (a *exploreArgs) resolve(lists []string) error {
	if err := a.begin(lists); err != nil {
		return err
	}
	most := 5
	if a.walks > 0 {
		most = 64
	}
	switch {
	case a.nodes < 2 || a.nodes > most:
		return fmt.Errorf("--nodes %d: want 2 to %d", a.nodes, most)
	case a.walks < 0:
		return fmt.Errorf("--walks %d: want 0 or more", a.walks)
	}
	if a.cfg.Holders < 1 || a.cfg.Holders > a.nodes {
		return fmt.Errorf("--k %d: want 1 to %d", a.cfg.Holders, a.nodes)
	}
	if a.cfg.Holders == 1 {
		a.cfg.Holders = 0 // what the name says
	} else if base, _, _ := strings.Cut(a.cfg.Algorithm, "+"); base != "fairk" && base != "bv95" {
		return fmt.Errorf("--k %d: %s lets one in at a time; fairk and bv95 let more", a.cfg.Holders, base)
	}
	if a.cfg.Algorithm == "comesh" || a.cfg.Algorithm == "hub" {
		return fmt.Errorf("--algorithm %s: k-groups are not explored; want camera, camera-paper, naimi-trehel, fairk, bv95, localmutex, localmutex-paper, %s",
			a.cfg.Algorithm, strings.Join(catalog.Names(), ", "))
	}
	for name, n := range map[string]int{
		"losses": a.cfg.Losses, "duplicates": a.cfg.Duplicates, "member-changes": a.cfg.Changes, "silent-oks": a.cfg.SilentOKs,
		"depth": a.cfg.MaxDepth, "states": a.cfg.MaxStates, "n-upper": a.cfg.NUpper,
	} {
		if n < 0 {
			return fmt.Errorf("--%s %d: want 0 or more", name, n)
		}
	}
	var err error
	if a.cfg.Entries, _, err = perNode("requests", a.requests, a.nodes); err != nil {
		return err
	}
	if a.cfg.Crashes, a.cfg.MaxCrashes, err = perNode("crashes", a.crashes, a.nodes); err != nil {
		return err
	}
	if a.cfg.MaxRestarts = a.restarts; a.restarts < 0 {
		a.cfg.MaxRestarts = a.cfg.MaxCrashes
	}
	if a.cfg.Lists == nil {
		if a.cfg.Lists, err = script.ParseLists(a.nodes, lists); err != nil {
			return err
		}
	}
	if a.partition != "" {
		if a.cfg.Sides, err = script.ParseSides(a.nodes, a.partition); err != nil {
			return fmt.Errorf("--partition %w", err)
		}
	}
	if a.stopped != "" {
		if a.cfg.Stopped, err = script.ParseNodes(a.nodes, a.stopped); err != nil {
			return fmt.Errorf("--stopped %s: %w", a.stopped, err)
		}
		if a.cfg.Sides == nil {
			return errors.New("--stopped: wants --partition: whoever holds, stands still and is given up by a majority is a zombie overlap, nothing to find")
		}
	}
	return a.cfg.Check()
}

// begin reads the file of --after.
func (a *exploreArgs) begin(lists []string) error {
	if a.after == "" {
		return nil
	}
	if a.given || len(lists) > 0 {
		return errors.New("--after: the script says how many nodes there are and whom they list: leave out --nodes and LIST")
	}
	text, err := os.ReadFile(a.after)
	if err != nil {
		return fmt.Errorf("--after: %w", err)
	}
	if a.cfg.Lists, a.cfg.After, err = script.ReadSchedule(string(text)); err != nil {
		return fmt.Errorf("--after %s: %w", a.after, err)
	}
	a.nodes = len(a.cfg.Lists)
	return nil
}

// perNode reads a number for every node, or one for each. The sum is the one
// number, or that of all.
func perNode(flag, text string, nodes int) (each []int, sum int, err error) {
	fields := strings.Split(text, ",")
	if len(fields) != 1 && len(fields) != nodes {
		return nil, 0, fmt.Errorf("--%s %s: want one number, or %d", flag, text, nodes)
	}
	for k := range nodes {
		n, err := strconv.Atoi(fields[min(k, len(fields)-1)])
		if err != nil || n < 0 || n > 255 {
			return nil, 0, fmt.Errorf("--%s %s: want numbers from 0 to 255", flag, text)
		}
		each = append(each, n)
		sum += n
	}
	if len(fields) == 1 {
		sum = each[0]
	}
	return each, sum, nil
}

// exploreReport is what --json prints.
type exploreReport struct {
	Algorithm   string   `json:"algorithm"`
	Nodes       int      `json:"nodes"`
	Walks       int      `json:"walks,omitempty"`
	Seed        uint64   `json:"seed,omitempty"`
	States      int      `json:"states"`
	NodeStates  int      `json:"node_states"`
	Transitions int      `json:"transitions"`
	Depth       int      `json:"depth"`
	Entries     int      `json:"entries,omitempty"`
	Seconds     float64  `json:"seconds"`
	StatesPerS  float64  `json:"states_per_s"`
	Complete    bool     `json:"complete"`
	Bound       string   `json:"bound,omitempty"`
	Violation   string   `json:"violation,omitempty"`
	Given       int      `json:"given,omitempty"` // of Steps, those of --after
	Steps       int      `json:"steps,omitempty"`
	Schedule    []string `json:"schedule,omitempty"` // commands of an interaction script
}

func (a *exploreArgs) explore(ctx context.Context, w io.Writer) error {
	if a.walks == 0 {
		var stop func()
		ctx, stop = interruptible(ctx)
		defer stop()
		a.cfg.Progress = exploreReporter(ctx, a.quiet, a.cfg.MaxStates)
	}
	began := time.Now()
	var r script.ExploreResult
	if a.walks > 0 {
		depth := a.cfg.MaxDepth
		if depth == 0 {
			depth = 300
		}
		r = script.Wander(a.cfg, a.seed, a.walks, depth)
	} else {
		r = script.Explore(a.cfg)
	}
	took := time.Since(began).Seconds()
	if err := a.writeScript(r.Found); err != nil {
		return err
	}
	if a.json {
		report := exploreReport{
			Algorithm: a.cfg.Algorithm, Nodes: a.nodes, Walks: a.walks, States: r.States, NodeStates: r.LocalStates, Transitions: r.Transitions,
			Depth: r.Depth, Entries: r.Entries, Seconds: took, StatesPerS: float64(r.States) / took, Complete: r.Complete, Bound: r.Bound, Violation: r.Violation,
		}
		if a.walks > 0 {
			report.Seed = a.seed
		}
		if r.Found != nil {
			report.Steps, report.Given = len(r.Found.Steps), r.Found.Given
			report.Schedule = strings.Split(strings.TrimSpace(r.Found.Schedule()), "\n")
		}
		if err := printJSON(w, report); err != nil {
			return err
		}
	} else {
		a.print(w, r, took)
	}
	switch {
	case r.Found != nil:
		return errCheckFailed
	case r.Bound == script.Interrupted:
		return &codedError{exitInterrupted, errExploreInterrupted}
	}
	if a.script != "" && !a.json {
		fmt.Fprintf(w, "%s is not written: there is no schedule to show\n", a.script)
	}
	return nil
}

var errExploreInterrupted = errors.New("interrupted before all was visited")

// exploreReporter tells of an exploration on the standard error output.
func exploreReporter(ctx context.Context, quiet bool, maxStates int) func(states, frontier, depth int) bool {
	var w io.Writer = os.Stderr
	if quiet {
		w = nil
	}
	return newExploreProgress(w, ctx.Done(), maxStates).report
}

func (a *exploreArgs) writeScript(f *script.Found) error {
	if a.script == "" || f == nil {
		return nil
	}
	text, err := f.Script(fmt.Sprintf("Found by churnbed explore --algorithm %s --nodes %d.", a.cfg.Algorithm, a.nodes))
	if err != nil {
		return fmt.Errorf("write script: %w", err)
	}
	if err := os.WriteFile(a.script, []byte(text), 0o644); err != nil {
		return usageError(fmt.Errorf("write script: %w", err))
	}
	return nil
}

func (a *exploreArgs) print(w io.Writer, r script.ExploreResult, took float64) {
	if f := r.Found; f != nil {
		fmt.Fprintf(w, "%s\n%s\n", f.Numbered(), f.Chart())
	}
	fmt.Fprintf(w, "%s, %d nodes: %d states (%d of single nodes), %d transitions, up to %d steps, %.2f s, %.0f states/s\n",
		a.cfg.Algorithm, a.nodes, r.States, r.LocalStates, r.Transitions, r.Depth, took, float64(r.States)/took)
	switch {
	case r.Found != nil && a.walks > 0:
		fmt.Fprintf(w, "wrong after %s (random walks from seed %d, made shorter)\n", a.steps(r.Found), a.seed)
	case r.Found != nil:
		fmt.Fprintf(w, "wrong after %s, and never after fewer\n", a.steps(r.Found))
	case r.Complete:
		fmt.Fprintln(w, "complete: nothing wrong in any reachable state")
	case a.walks > 0:
		fmt.Fprintf(w, "bound reached (%d walks, %d entries): nothing wrong so far\n", a.walks, r.Entries)
	default:
		fmt.Fprintf(w, "bound reached (%s): nothing wrong so far\n", r.Bound)
	}
}

// steps counts the steps of a schedule, those of --after apart.
func (a *exploreArgs) steps(f *script.Found) string {
	if f.Given == 0 {
		return fmt.Sprintf("%d steps", len(f.Steps))
	}
	return fmt.Sprintf("the %d of %s and %d steps more", f.Given, a.after, len(f.Steps)-f.Given)
}
