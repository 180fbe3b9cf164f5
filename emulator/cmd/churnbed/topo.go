package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/topologies"
)

func topoCommand() *cli.Command {
	return &cli.Command{
		Name:  "topo",
		Usage: "make, measure, draw and convert mesh topologies",
		Subcommands: []*cli.Command{
			{
				Name:   "gen",
				Usage:  "generate a topology",
				Flags:  append(generateFlags(), outputFlags(true)...),
				Action: topoGen,
			},
			{
				Name:      "show",
				Usage:     "print degree, diameter, hops and connectivity of a topology, and draw it",
				ArgsUsage: "FILE (or --topology and its flags)",
				Flags: append(append(generateFlags(), readFlags("format", "topology-format")...),
					&cli.StringFlag{Name: "metric", Value: string(topologies.Euclid), Usage: "route by `METRIC` euclid, hops or delay"},
					&cli.BoolFlag{Name: "json", Usage: "print JSON"},
					&cli.StringFlag{Name: "draw", Usage: "draw into `FILE`.svg or .png"},
					&cli.BoolFlag{Name: "force", Usage: "replace the drawing if it exists"},
				),
				Action: topoShow,
			},
			{
				Name:      "convert",
				Usage:     "read a topology and write it in another format",
				ArgsUsage: "IN OUT (OUT - is standard output)",
				Flags: append(append(readFlags("from"), outputFlags(false)...),
					radiusFlag(), nodesFlag(), seedFlag()),
				Action: topoConvert,
			},
		},
	}
}

func radiusFlag() cli.Flag {
	return &cli.Float64Flag{Name: "radius", Value: topologies.DefaultRadius, Usage: "join nodes at most `METRES` apart"}
}

func nodesFlag() cli.Flag {
	return &cli.IntFlag{Name: "nodes", Usage: "`NUMBER` of nodes"}
}

func seedFlag() cli.Flag {
	return &cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of everything random"}
}

func generateFlags() []cli.Flag {
	kinds := make([]string, 0, len(topologies.Kinds()))
	for _, k := range topologies.Kinds() {
		kinds = append(kinds, string(k))
	}
	return []cli.Flag{
		&cli.StringFlag{Name: "topology", Usage: "`KIND` of mesh: " + strings.Join(kinds, ", ")},
		nodesFlag(),
		&cli.StringFlag{Name: "area", Usage: "`WxH` in metres (15x15)"},
		radiusFlag(),
		seedFlag(),
		&cli.IntFlag{Name: "rows", Usage: "`ROWS` of a grid or grid3d"},
		&cli.IntFlag{Name: "cols", Usage: "`COLUMNS` of a grid or grid3d"},
		&cli.IntFlag{Name: "layers", Usage: "`LAYERS` of a grid3d"},
		&cli.Float64Flag{Name: "step", Usage: "`METRES` between neighbours of a grid, line or ring"},
		&cli.GenericFlag{Name: "rooms", Value: &roomList{}, Usage: "a room `X,Y,W,H:COUNT` of a cluster (again for more, or separated by ;)"},
		&cli.Float64Flag{Name: "min-spacing", Usage: "least distance of two nodes, `METRES`"},
		&cli.BoolFlag{Name: "survivable", Usage: "stay connected after any one node failure"},
	}
}

// roomList is the value of --rooms. The library's slice flags would split the
// rooms at their commas.
type roomList struct{ rooms []topologies.Room }

// Set adds the rooms of one flag.
func (l *roomList) Set(s string) error {
	for part := range strings.SplitSeq(s, ";") {
		r, err := topologies.ParseRoom(part)
		if err != nil {
			return err
		}
		l.rooms = append(l.rooms, r)
	}
	return nil
}

func (l *roomList) String() string {
	parts := make([]string, len(l.rooms))
	for i, r := range l.rooms {
		parts[i] = r.String()
	}
	return strings.Join(parts, ";")
}

func formatNames(formats []topologies.Format) string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

func readFlags(format string, aliases ...string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: format, Aliases: aliases, Usage: "`FORMAT` of the input: " + formatNames(topologies.Formats()) + " (told from the content)"},
		&cli.BoolFlag{Name: "largest", Usage: "keep the largest connected part"},
		&cli.BoolFlag{Name: "wifi-only", Usage: "keep the wifi links of a freifunk map"},
		&cli.BoolFlag{Name: "random-nodes", Usage: "draw --nodes of an rtt or king file by --seed instead of taking the first"},
		&cli.Float64Flag{Name: "scale", Value: 1, Usage: "multiply the delays of an rtt or king file by `FACTOR` (king files in ms: 1000)"},
	}
}

func outputFlags(file bool) []cli.Flag {
	name, flags := "to", []cli.Flag(nil)
	if file {
		name = "format"
		flags = append(flags, &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", Usage: "write `FILE`, - for standard output"})
	}
	return append(flags,
		&cli.StringFlag{Name: name, Usage: "`FORMAT` of the output: " + formatNames(topologies.WriteFormats()) + " (told from its name)"},
		&cli.BoolFlag{Name: "force", Usage: "replace the output if it exists"},
	)
}

// generateParams reads the flags of generateFlags.
func generateParams(c *cli.Context) (topologies.GenerateParams, error) {
	p := topologies.GenerateParams{
		Kind:       topologies.Kind(c.String("topology")),
		Nodes:      c.Int("nodes"),
		Radius:     c.Float64("radius"),
		Rows:       c.Int("rows"),
		Cols:       c.Int("cols"),
		Layers:     c.Int("layers"),
		Step:       c.Float64("step"),
		MinSpacing: c.Float64("min-spacing"),
		Survivable: c.Bool("survivable"),
	}
	if l, ok := c.Generic("rooms").(*roomList); ok {
		p.Rooms = l.rooms
	}
	// In the parameters 0 is "not given", on the command line a mistake.
	for _, name := range []string{"radius", "step"} {
		if c.IsSet(name) && !(c.Float64(name) > 0) {
			return p, fmt.Errorf("%s %v: want metres above 0", name, c.Float64(name))
		}
	}
	for _, name := range []string{"nodes", "rows", "cols", "layers"} {
		if c.IsSet(name) && c.Int(name) < 1 {
			return p, fmt.Errorf("%s %d: want 1 or more", name, c.Int(name))
		}
	}
	if c.IsSet("area") {
		var err error
		if p.Width, p.Height, err = topologies.ParseArea(c.String("area")); err != nil {
			return p, err
		}
	}
	return p, nil
}

// readOptions reads the flags of readFlags; notes go to standard error.
func readOptions(c *cli.Context, format string) (topologies.ReadOptions, error) {
	opt := topologies.ReadOptions{
		Format:      topologies.Format(c.String(format)),
		Nodes:       c.Int("nodes"),
		RandomNodes: c.Bool("random-nodes"),
		Seed:        c.Uint64("seed"),
		Scale:       c.Float64("scale"),
		WifiOnly:    c.Bool("wifi-only"),
		Largest:     c.Bool("largest"),
		Note:        func(s string) { fmt.Fprintln(c.App.ErrWriter, "note:", s) },
	}
	if opt.Format != "" {
		if _, err := topologies.ParseFormat(string(opt.Format), topologies.Formats()); err != nil {
			return opt, err
		}
	}
	if c.IsSet("radius") {
		if opt.Radius = c.Float64("radius"); !(opt.Radius > 0) {
			return opt, fmt.Errorf("radius %v: want metres above 0", opt.Radius)
		}
	}
	if c.IsSet("nodes") && opt.Nodes < 1 {
		return opt, fmt.Errorf("nodes %d: want 1 or more", opt.Nodes)
	}
	if !(opt.Scale > 0) {
		return opt, fmt.Errorf("scale %v: want a number above 0", opt.Scale)
	}
	return opt, nil
}

// outputFormat returns the format asked for, else that of the file's name,
// else JSON.
func outputFormat(asked, path string) (topologies.Format, error) {
	if asked != "" {
		return topologies.ParseFormat(asked, topologies.WriteFormats())
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".txt", ".xy", ".csv":
		return topologies.XY, nil
	case ".graphml", ".xml":
		return topologies.GraphML, nil
	case ".json", "":
		return topologies.JSON, nil
	}
	return "", fmt.Errorf("output %s: no format has that ending: name it by a flag (%s)", path, formatNames(topologies.WriteFormats()))
}

// free reports an output that exists and may not be replaced.
func free(path string, force bool) error {
	if path == "-" {
		return nil
	}
	_, err := os.Lstat(path)
	switch {
	case err == nil && force:
		return nil
	case err == nil:
		return fmt.Errorf("output %s exists: take another name, or --force to replace it", path)
	case errors.Is(err, fs.ErrNotExist):
		if st, err := os.Stat(filepath.Dir(path)); err != nil || !st.IsDir() {
			return fmt.Errorf("output %s: there is no folder %s", path, filepath.Dir(path))
		}
		return nil
	}
	return fmt.Errorf("look for output: %w", err)
}

// output writes the whole of what fill makes, or nothing.
func output(c *cli.Context, path string, fill func(io.Writer) error) error {
	var b bytes.Buffer
	if err := fill(&b); err != nil {
		return usageError(err)
	}
	if path == "-" {
		if _, err := c.App.Writer.Write(b.Bytes()); err != nil {
			return hostError(fmt.Errorf("write standard output: %w", err))
		}
		return nil
	}
	if err := renameio.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return hostError(fmt.Errorf("write %s: %w", path, err))
	}
	return nil
}

func topoGen(c *cli.Context) error {
	args, err := interleaved(c)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		return usageError(fmt.Errorf("argument %q: topo gen takes flags only (-o FILE names the file)", args[0]))
	}
	if !c.IsSet("topology") {
		return usageError(errors.New("--topology is missing: want one of random, grid, grid3d, cluster, line, lshape, ring, full"))
	}
	p, err := generateParams(c)
	if err != nil {
		return usageError(err)
	}
	path := c.String("output")
	format, err := outputFormat(c.String("format"), path)
	if err != nil {
		return usageError(err)
	}
	if err := free(path, c.Bool("force")); err != nil {
		return usageError(err)
	}
	t, err := topologies.Generate(p, c.Uint64("seed"))
	if err != nil {
		return usageError(err)
	}
	return output(c, path, func(w io.Writer) error { return topologies.Write(w, format, t) })
}

// topoInput reads the file that args name, or generates.
func topoInput(c *cli.Context, args []string) (*topologies.Topology, error) {
	switch {
	case len(args) > 1:
		return nil, fmt.Errorf("argument %q: want one file", args[1])
	case len(args) == 1 && c.IsSet("topology"):
		return nil, fmt.Errorf("both file %s and --topology: give one of them", args[0])
	case len(args) == 1:
		for _, name := range []string{"area", "rows", "cols", "layers", "step", "rooms", "min-spacing", "survivable"} {
			if c.IsSet(name) {
				return nil, fmt.Errorf("--%s is for --topology, not for a file", name)
			}
		}
		opt, err := readOptions(c, "format")
		if err != nil {
			return nil, err
		}
		return topologies.ReadFile(args[0], opt)
	case !c.IsSet("topology"):
		return nil, errors.New("no topology: name a file, or --topology with its flags")
	}
	p, err := generateParams(c)
	if err != nil {
		return nil, err
	}
	return topologies.Generate(p, c.Uint64("seed"))
}

func topoShow(c *cli.Context) error {
	args, err := interleaved(c)
	if err != nil {
		return err
	}
	metric, err := topologies.ParseMetric(c.String("metric"))
	if err != nil {
		return usageError(err)
	}
	drawing := c.String("draw")
	ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(drawing)), ".")
	if drawing != "" {
		if ending != "svg" && ending != "png" {
			return usageError(fmt.Errorf("draw %s: want a name that ends in .svg or .png", drawing))
		}
		if err := free(drawing, c.Bool("force")); err != nil {
			return usageError(err)
		}
	}
	t, err := topoInput(c, args)
	if err != nil {
		return usageError(err)
	}
	s := topologies.Measure(t, metric)
	if drawing != "" {
		if err := output(c, drawing, func(w io.Writer) error {
			return topologies.Draw(w, t, ending, topologies.DrawOptions{})
		}); err != nil {
			return err
		}
	}
	return output(c, "-", func(w io.Writer) error {
		if !c.Bool("json") {
			printStats(w, s)
			return nil
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	})
}

func printStats(w io.Writer, s topologies.Stats) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("topology", "%s", s.Name)
	row("nodes", "%d", s.Nodes)
	rule := ""
	if s.Radius > 0 {
		rule = fmt.Sprintf(" (radius %g m)", s.Radius)
	}
	row("links", "%d%s, length %.3g / %.3g / %.3g m", s.Links, rule, s.LinkLenMin, s.LinkLen, s.LinkLenMax)
	row("degree", "%d / %.1f / %d (min/mean/max)", s.DegreeMin, s.DegreeMean, s.DegreeMax)
	row("hop diameter", "%d", s.HopDiameter)
	row("mean hops", "%.2f fewest-hop, %.2f (max %d) by %s", s.MeanHops, s.RouteHops, s.RouteMax, s.Metric)
	unit := "m"
	if s.Metric == topologies.Delay {
		unit = "s"
	}
	row("mean path", "%.4g %s by %s", s.RouteLen, unit, s.Metric)
	switch {
	case !s.Connected:
		row("connectivity", "%d parts, the largest of %d nodes; %d articulation points", s.Components, s.Largest, s.Articulation)
	case s.Articulation == 0:
		row("connectivity", "connected, also without any one node")
	default:
		row("connectivity", "connected; %d articulation points", s.Articulation)
	}
	if s.OwnDelay > 0 {
		row("own delay", "mean %.3g ms in %d of %d directions", s.OwnDelayMean, s.OwnDelay, 2*s.Links)
	}
	if s.OwnLoss > 0 {
		row("own loss", "mean %.3g in %d of %d directions", s.OwnLossMean, s.OwnLoss, 2*s.Links)
	}
}

func topoConvert(c *cli.Context) error {
	args, err := interleaved(c)
	if err != nil {
		return err
	}
	if len(args) != 2 {
		return usageError(fmt.Errorf("%d arguments: want IN and OUT", len(args)))
	}
	in, out := args[0], args[1]
	opt, err := readOptions(c, "from")
	if err != nil {
		return usageError(err)
	}
	format, err := outputFormat(c.String("to"), out)
	if err != nil {
		return usageError(err)
	}
	if err := free(out, c.Bool("force")); err != nil {
		return usageError(err)
	}
	t, err := topologies.ReadFile(in, opt)
	if err != nil {
		return usageError(err)
	}
	return output(c, out, func(w io.Writer) error { return topologies.Write(w, format, t) })
}
