package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/emulator/scenario"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/topologies"
	"churnbed/workloads"
)

func scenarioCommand() *cli.Command {
	return &cli.Command{
		Name: "scenario", Usage: "write, check and explain scenario files",
		Subcommands: []*cli.Command{scenarioNew(), scenarioCheck(), scenarioExplain(), scenarioSchema(), scenarioFromRun()},
	}
}

func outFlag() cli.Flag {
	return &cli.StringFlag{Name: "o", Usage: "write to `FILE`, which must not exist (default: standard output)"}
}

// deliver writes text to -o FILE or to standard output.
func deliver(c *cli.Context, text []byte) error {
	file := c.String("o")
	if file == "" {
		_, err := c.App.Writer.Write(text)
		return err
	}
	if exists(file) {
		return usageError(fmt.Errorf("%s exists; name a file that does not", file))
	}
	if err := renameio.WriteFile(file, text, 0o644); err != nil {
		return usageError(fmt.Errorf("write scenario: %w", err))
	}
	return nil
}

func algorithms() []string {
	for _, k := range scenario.Keys() {
		if k.Name == "algorithm" {
			return k.Allowed
		}
	}
	return nil
}

func scenarioNew() *cli.Command {
	return &cli.Command{
		Name: "new", Usage: "write a commented scenario to begin with",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "algorithm", Value: "camera", Usage: "example for this `ALGORITHM`: " + strings.Join(algorithms(), ", ")},
			&cli.BoolFlag{Name: "all", Usage: "list every other key as a comment too"}, outFlag(),
		},
		Action: func(c *cli.Context) error {
			args, err := interleaved(c)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return usageError(fmt.Errorf("scenario new: unexpected argument %q (-o FILE names the file)", args[0]))
			}
			text, err := scenario.Template(c.String("algorithm"), c.Bool("all"))
			if err != nil {
				return usageError(err)
			}
			if err := deliver(c, text); err != nil || c.String("o") == "" {
				return err
			}
			_, err = fmt.Fprintf(c.App.Writer, "wrote %[1]s; next: churnbed scenario explain %[1]s, churnbed sim %[1]s, churnbed run %[1]s\n", c.String("o"))
			return err
		},
	}
}

// resolveFile reads a scenario file, or every cell of a sweep.
func resolveFile(file string, set []scenario.Setting) (scenarios []*scenario.Scenario, sweep *scenario.Sweep, err error) {
	sweep, err = scenario.LoadSweep(file, set)
	if err == nil {
		for _, cell := range sweep.Cells() {
			spec, origin, err := sweep.Spec(cell, sweep.Base().Seed)
			if err != nil {
				return nil, sweep, err
			}
			sc, err := scenario.Resolve(spec, origin)
			if err != nil {
				return nil, sweep, fmt.Errorf("cell %s: %w", sweep.Name(cell), err)
			}
			scenarios = append(scenarios, sc)
		}
		return scenarios, sweep, nil
	}
	if !strings.HasSuffix(err.Error(), scenario.ErrNoMatrix.Error()) {
		// A sweep with mistakes, or a file that cannot be read at all: the plain
		// reading has the better words for the second.
		if _, _, plain := scenario.Load(file, set); plain == nil || strings.Contains(plain.Error(), "is a sweep") {
			return nil, nil, err
		}
	}
	spec, origin, err := scenario.Load(file, set)
	if err != nil {
		return nil, nil, err
	}
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		return nil, nil, err
	}
	return []*scenario.Scenario{sc}, nil, nil
}

func scenarioCheck() *cli.Command {
	var set settings
	return &cli.Command{
		Name: "check", Usage: "tell all that is wrong with scenario files, and what may surprise", ArgsUsage: "FILE...",
		Description: "Reads each file (a sweep: every cell) as run and sim would, with all that it names, and touches nothing.\n" +
			"Exit status 2 where one is wrong.",
		Flags: []cli.Flag{set.flag()},
		Action: func(c *cli.Context) error {
			files, err := trailingFlags(c)
			if err != nil {
				return usageError(err)
			}
			if len(files) == 0 {
				return usageError(errors.New("scenario check: which file? (`churnbed scenario new -o FILE` writes one)"))
			}
			wrong := 0
			for _, file := range files {
				list, sweep, err := resolveFile(file, set.given)
				if err != nil {
					wrong++
					fmt.Fprintln(c.App.Writer, err)
					continue
				}
				what := "ok"
				if sweep != nil {
					what = fmt.Sprintf("ok: a sweep of %d cells, %d trials each", len(list), sweep.Trials())
				}
				fmt.Fprintf(c.App.Writer, "%s: %s\n", file, what)
				var warned []string
				for _, sc := range list {
					for _, w := range sc.Warnings {
						if !slices.Contains(warned, w) {
							warned = append(warned, w)
							fmt.Fprintf(c.App.Writer, "  note: %s\n", w)
						}
					}
				}
			}
			if wrong > 0 {
				return usageError(fmt.Errorf("%d of %d files are wrong (`churnbed scenario schema` tells what is allowed)", wrong, len(files)))
			}
			return nil
		},
	}
}

func scenarioSchema() *cli.Command {
	return &cli.Command{
		Name: "schema", Usage: "print the JSON Schema of scenario files, for editors",
		Description: "With a language server for YAML, write it beside the scenario and begin that with\n" +
			"# yaml-language-server: $schema=scenario.schema.json",
		Flags: []cli.Flag{outFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usageError(fmt.Errorf("scenario schema: unexpected argument %q (-o FILE names the file)", c.Args().First()))
			}
			text, err := scenario.JSONSchema()
			if err != nil {
				return err
			}
			return deliver(c, text)
		},
	}
}

func scenarioExplain() *cli.Command {
	var set settings
	var jsonOut bool
	return &cli.Command{
		Name: "explain", Usage: "say in words what a scenario does", ArgsUsage: "FILE",
		Description: "Shows the mesh, who asks when, the faults with their instants, what a run needs of the host, and the keys that\n" +
			"are not at their defaults.",
		Flags: []cli.Flag{set.flag(), &cli.BoolFlag{Name: "json", Usage: "print one JSON object", Destination: &jsonOut}},
		Action: func(c *cli.Context) error {
			files, err := trailingFlags(c)
			if err == nil && len(files) != 1 {
				err = errors.New("scenario explain: want one scenario file")
			}
			if err != nil {
				return usageError(err)
			}
			list, sweep, err := resolveFile(files[0], set.given)
			if err != nil {
				return usageError(err)
			}
			e := explain(list[0])
			if sweep != nil {
				e.Cells, e.Trials = len(list), sweep.Trials()
			}
			if jsonOut {
				return printJSON(c.App.Writer, e)
			}
			return e.print(c.App.Writer)
		},
	}
}

// explanation is what `scenario explain` says.
type explanation struct {
	Name    string            `json:"name"`
	Seed    uint64            `json:"seed"`
	Trials  int               `json:"trials"`
	Cells   int               `json:"cells,omitempty"` // of a sweep; the rest is that of the first
	Mesh    topologies.Stats  `json:"mesh"`
	Link    string            `json:"link"`
	Member  string            `json:"membership"`
	Alg     string            `json:"algorithm"`
	Load    string            `json:"workload"`
	Faults  []explainedFault  `json:"faults"`
	Ends    string            `json:"ends"`
	Engines string            `json:"engines"`
	Needs   scenario.Needs    `json:"needs"`
	Keys    map[string]string `json:"keys"` // not at their defaults
	Notes   []string          `json:"notes,omitempty"`
}

type explainedFault struct {
	AtMS float64 `json:"at_ms"`
	What string  `json:"what"`
}

func explain(sc *scenario.Scenario) *explanation {
	s := &sc.Spec
	e := &explanation{
		Name: sc.Name, Seed: sc.Seed, Trials: s.Trials, Mesh: topologies.Measure(sc.Topology, sc.Metric), Needs: sc.Needs(""),
		Alg: sc.Algorithm.Name, Member: sc.Membership.Service, Keys: map[string]string{}, Notes: sc.Warnings,
	}
	l := sc.Link
	e.Link = fmt.Sprintf("delay %v, jitter %v, loss %g %%, rate %s", l.Delay, l.Jitter, 100*l.MeanLoss(), cmp.Or(map[bool]string{true: "unlimited"}[l.Rate == 0], fmt.Sprint(l.Rate, " bit/s")))
	switch {
	case sc.Closed != nil:
		e.Load = fmt.Sprintf("every node thinks (%g requests a second), asks, holds for %v (%s)", sc.Closed.Rate, sc.Closed.CS.Mean, sc.Closed.CS.Dist)
	case len(sc.Arrivals) == 0:
		e.Load = "no requests"
	default:
		var held time.Duration
		askers := map[core.NodeID]bool{}
		for _, a := range sc.Arrivals {
			held += a.CS
			askers[a.Node] = true
		}
		last := sc.Arrivals[len(sc.Arrivals)-1].At
		e.Load = fmt.Sprintf("%d requests of %d nodes (%s, %s), the last at %v; critical sections of %v in all", len(sc.Arrivals), len(askers),
			s.Arrivals, s.Requesters, last.Round(time.Millisecond), held.Round(time.Millisecond))
		if last > 0 {
			e.Load += fmt.Sprintf(", a load of %.0f %%", 100*held.Seconds()/last.Seconds())
		}
	}
	for i := range sc.Faults {
		f := &sc.Faults[i]
		e.Faults = append(e.Faults, explainedFault{float64(f.At) / 1e6, faultText(f)})
	}
	if sc.Duration > 0 {
		e.Ends = fmt.Sprintf("%v after the workload began", sc.Duration)
	} else {
		e.Ends = fmt.Sprintf("when all is served and the last fault is over, at the latest %v after that", sc.Drain)
	}
	e.Engines = "run and sim"
	if why := sc.SimulatorOnly(); why != "" {
		e.Engines = "sim only: " + why
	} else if why := sc.NeedsRelay(); why != "" {
		e.Engines += "; on the relay fabric, for " + why
	}
	standard := scenario.Default()
	for _, k := range scenario.Keys() {
		if v := k.Format(s); v != k.Format(&standard) {
			e.Keys[k.Name] = v
		}
	}
	return e
}

// faultText tells one expanded fault.
func faultText(f *workloads.Fault) string {
	var b strings.Builder
	b.WriteString(string(f.Verb))
	switch {
	case f.Verb == workloads.Trigger:
		fmt.Fprintf(&b, " %d", f.Routine)
	case f.Role != "":
		fmt.Fprintf(&b, " %d %s", max(1, f.Count), f.Role)
	case len(f.Links) > 0:
		sign := "-"
		if f.OneWay {
			sign = ">"
		}
		for i, l := range f.Links {
			if i == 8 {
				fmt.Fprintf(&b, " and %d more", len(f.Links)-i)
				break
			}
			fmt.Fprintf(&b, " %d%s%d", l[0], sign, l[1])
		}
	case len(f.Groups) > 0:
		for i, g := range f.Groups {
			b.WriteString([]string{" ", "|"}[min(i, 1)] + eventlog.FormatRanges(g))
		}
	case len(f.Nodes) > 0:
		b.WriteString(" " + eventlog.FormatRanges(f.Nodes))
	}
	if f.After > 0 {
		fmt.Fprintf(&b, ", undone after %v", f.After)
	}
	if f.Source != "" {
		fmt.Fprintf(&b, "  (%s)", f.Source)
	}
	return b.String()
}

// maxFaultsShown bounds the faults of the table.
const maxFaultsShown = 40

func (e *explanation) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("scenario", "%s, seed %d, trials %d", e.Name, e.Seed, e.Trials)
	if e.Cells > 0 {
		row("sweep", "%d cells of %d trials; what follows is the first", e.Cells, e.Trials)
	}
	m := &e.Mesh
	row("mesh", "%d nodes, %d links, degree %d to %d (mean %.1f), %d hops across", m.Nodes, m.Links, m.DegreeMin, m.DegreeMax, m.DegreeMean, m.HopDiameter)
	if !m.Connected {
		row("", "in %d parts, the largest of %d nodes", m.Components, m.Largest)
	}
	row("links", "%s", e.Link)
	row("membership", "%s", e.Member)
	row("algorithm", "%s", e.Alg)
	row("workload", "%s", e.Load)
	row("faults", "%d", len(e.Faults))
	for i, f := range e.Faults {
		if i == maxFaultsShown {
			row("", "... and %d more (--json lists them)", len(e.Faults)-i)
			break
		}
		row("", "%9.3f s  %s", f.AtMS/1e3, f.What)
	}
	row("ends", "%s", e.Ends)
	row("engines", "%s", e.Engines)
	row("needs", "%d processes, %d network devices, %d routes, %d MiB", e.Needs.Processes, e.Needs.Devices, e.Needs.Routes, e.Needs.Memory>>20)
	keys := make([]string, 0, len(e.Keys))
	for _, k := range scenario.Keys() {
		if v, ok := e.Keys[k.Name]; ok {
			keys = append(keys, k.Name+"="+v)
		}
	}
	row("set", "%s", strings.Join(keys, ", "))
	for _, n := range e.Notes {
		row("note", "%s", n)
	}
	return w.Flush()
}

func scenarioFromRun() *cli.Command {
	return &cli.Command{
		Name: "from-run", Usage: "write a run down as a scenario, with what was done to it by hand", ArgsUsage: "DIR",
		Description: "The scenario of the run directory, and each action on the live run as a fault at its instant. What was done\n" +
			"to a role (the holder) is done to whoever has it then.",
		Flags: []cli.Flag{outFlag()},
		Action: func(c *cli.Context) error {
			run, err := openRun(c)
			if err != nil {
				return err
			}
			text, err := fromRun(run)
			if err != nil {
				return usageError(err)
			}
			return deliver(c, text)
		},
	}
}

// fromRun returns the scenario of a run with its live actions as faults.
func fromRun(run *results.Run) ([]byte, error) {
	spec, origin, err := scenario.Load(run.Path(results.ScenarioFile), nil)
	if err != nil {
		return nil, err
	}
	rules, err := liveRules(run.Path(results.ControllerFile))
	if err != nil {
		return nil, err
	}
	spec.Fault = append(spec.Fault, rules...)
	spec.Out = ""
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		return nil, err
	}
	text, err := sc.ConciseYAML()
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("# The scenario of a run, with %d actions by hand as faults.\n", len(rules))
	return append([]byte(head), text...), nil
}

// liveRules reads the actions of a controller's log as fault rules.
func liveRules(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	defer func() { _ = f.Close() }()
	epoch := int64(-1)
	var rules []string
	r := eventlog.NewReader(path, f)
	for r.Scan() {
		switch e := r.Event(); e.Kind {
		case eventlog.Epoch:
			epoch = e.T
		case eventlog.Fault:
			if epoch < 0 {
				return nil, fmt.Errorf("read run: %s: an action before the epoch", path)
			}
			at := max(0, time.Duration(e.T-epoch)).Round(time.Microsecond)
			rules = append(rules, "at "+at.String()+" "+e.Text)
		default:
		}
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	return rules, nil
}

// settings collects --set KEY=VALUE.
type settings struct{ given []scenario.Setting }

// Set implements flag.Value.
func (s *settings) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return errors.New("want KEY=VALUE, such as nodes=64")
	}
	s.given = append(s.given, scenario.Setting{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value)})
	return nil
}

func (s *settings) String() string { return "" }

func (s *settings) flag() cli.Flag {
	return &cli.GenericFlag{Name: "set", Value: s, Usage: "set a scenario key: `KEY=VALUE`, over the file; may be repeated"}
}
