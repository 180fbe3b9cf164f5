// Package reproduce runs the published experiments that results/reproduce
// states: every cell and seed of a sweep becomes a scenario, an engine runs
// it, results judges the run directory, and the directory is thrown away.
// What it is held against, tables and plots are results/reproduce.
package reproduce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"churnbed/emulator/scenario"
	"churnbed/emulator/simulate"
	"churnbed/node/core"
	"churnbed/results"
	"churnbed/results/reproduce"
)

// Engine runs a scenario into a directory that does not exist and leaves a
// run directory there.
type Engine func(ctx context.Context, sc *scenario.Scenario, dir string) error

// Options of Run.
type Options struct {
	Data     *reproduce.Data
	Seed     uint64 // of the first trial at the first point
	Trials   int    // of every cell; 0: as the sweep says
	Rounds   int    // of list-sizes; 0: as the sweep says
	MaxNodes int    // larger points are left out; 0: none
	// Points and Series choose some of the sweep's: by x, and by what the name
	// begins with; nil: all.
	Points  []float64
	Series  []string
	Workers int // runs at a time; 0: one a processor
	// Engine runs the cells; nil: the simulator. Another engine gets no
	// series that only the simulator can run, and the time scale TimeScale.
	Engine    Engine
	TimeScale float64
	// Plan is told the number of runs, Done every finished one; both may be nil.
	Plan func(runs int)
	Done func()
	// Manifest of a simulated run; nil: a bare one.
	Manifest func(*scenario.Scenario) *results.Manifest
	Temp     string // folder for run directories; "": the system's
}

// pointSeeds keeps the seeds of two points apart, so that chance at one says
// nothing of the next; the series of a point share theirs, and so compare the
// same arrivals.
const pointSeeds = 10_000

// task is one cell before it is run.
type task struct {
	cell   *reproduce.Cell
	point  *reproduce.Point
	series *reproduce.Series
	trials int
	same   *task            // runs the same scenarios for another figure; nil: none
	figure string           // of the metric, "" where it has one only
	ran    []*results.Trial // by seed
}

// cells are the cells of a task that was run.
func (t *task) cells(s *reproduce.Sweep) []reproduce.Cell {
	if s.Metric != reproduce.TimeByNode {
		c := *t.cell
		if s.Grouped() {
			c.Got = s.EstimatedFigure(t.figure, t.ran)
		} else {
			c.Got = s.Estimated(t.series, t.ran)
		}
		c.Judge(t.series.Published)
		return []reproduce.Cell{c}
	}
	var cells []reproduce.Cell
	for node := range core.NodeID(t.ran[0].Nodes) {
		c := *t.cell
		c.X = float64(node)
		c.Got = s.EstimatedAt(t.series, node, t.ran)
		c.Judge(t.series.Published)
		cells = append(cells, c)
	}
	return cells
}

// ErrNeedsProcesses tells that the simulator cannot run a sweep.
var ErrNeedsProcesses = errors.New("it is about processor time and memory of processes, which simulated nodes do not have: use --emulate")

// Run runs a sweep. Cells come in the order of series and points; Notes say
// what was left out and why.
func Run(ctx context.Context, s *reproduce.Sweep, opt Options) (cells []reproduce.Cell, notes []string, err error) {
	if opt.Data == nil {
		opt.Data = reproduce.NewData("")
	}
	if !opt.Data.Found() && !s.Grouped() {
		notes = append(notes, "the authors' result files are not there (--data): nothing to hold the figures against")
	}
	if opt.Workers == 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	if s.Processes && opt.Engine == nil {
		return nil, nil, fmt.Errorf("reproduce %s: %w", s.Name, ErrNeedsProcesses)
	}
	if s.Metric == reproduce.Assignments && opt.Engine != nil {
		return nil, nil, fmt.Errorf("reproduce %s: nothing runs for it: it computes assignments", s.Name)
	}
	s, left, err := opt.choose(s)
	if err != nil {
		return nil, nil, err
	}
	notes = append(notes, left...)
	if s.Metric == reproduce.ListSizes {
		if opt.Engine != nil {
			return nil, nil, fmt.Errorf("reproduce %s: only the simulator runs for so long", s.Name)
		}
		return runLists(ctx, s, opt, notes)
	}
	tasks, more, err := plan(s, opt)
	if err != nil {
		return nil, nil, err
	}
	notes = append(notes, more...)
	if err := runTasks(ctx, s, opt, tasks); err != nil {
		return nil, nil, err
	}
	unfit, unserved, violated, seen := 0, 0, 0, map[*results.Trial]bool{}
	why := ""
	for _, t := range tasks {
		if t.same != nil {
			continue
		}
		for _, tr := range t.ran {
			if seen[tr] {
				continue // read for several figures
			}
			seen[tr] = true
			if tr.Served < tr.Issued {
				unserved++
			}
			if tr.Unfit() {
				if unfit++; unfit == 1 {
					why = fmt.Sprintf("%s at %v, seed %d: %s", t.series.Name, t.point.X, tr.Seed, tr.FidelityReason)
				}
			}
			if g := tr.Summary; g != nil && g.Groups != nil && len(g.Groups.Violations) > 0 {
				violated++
			}
		}
	}
	if unserved > 0 {
		notes = append(notes, fmt.Sprintf("%d runs ended with requests unserved: their waits are those of the served ones", unserved))
	}
	if violated > 0 {
		notes = append(notes, fmt.Sprintf("%d runs had violations by the k-groups (churnbed check of such a run shows them)", violated))
	}
	switch {
	case unfit > 0 && s.Processes:
		notes = append(notes, fmt.Sprintf("in %d runs the host did not keep up; what it accounts to processes holds all the same", unfit))
	case unfit > 0:
		notes = append(notes, fmt.Sprintf("%d runs were unfaithful: the host did not keep up, and their times are left out (a larger --time-scale helps); the first is %s", unfit, why))
	}
	for i := range s.Series {
		l := &s.Series[i]
		for _, t := range tasks {
			if t.series == l {
				cells = append(cells, t.cells(s)...)
			}
		}
		if l.File == "" {
			continue
		}
		drawn, err := opt.Data.Drawn(l)
		if err != nil {
			return nil, nil, err
		}
		cells = append(cells, drawn...)
	}
	return cells, notes, nil
}

// choose returns the part of a sweep that is asked for, and says that it is one.
// A point that is left out keeps its place, and so its seeds.
func (o *Options) choose(s *reproduce.Sweep) (*reproduce.Sweep, []string, error) {
	if len(o.Points) == 0 && len(o.Series) == 0 {
		return s, nil, nil
	}
	if s.Metric == reproduce.ListSizes {
		return nil, nil, fmt.Errorf("reproduce %s: one run gives all of it: nothing to choose from", s.Name)
	}
	part, notes := *s, []string(nil)
	if len(o.Points) > 0 {
		has := func(x float64) bool {
			return slices.ContainsFunc(s.Points, func(p reproduce.Point) bool { return p.X == x })
		}
		for _, x := range o.Points {
			if !has(x) {
				known := make([]float64, len(s.Points))
				for i := range s.Points {
					known[i] = s.Points[i].X
				}
				return nil, nil, fmt.Errorf("reproduce %s: no point at %v: want some of %v", s.Name, x, known)
			}
		}
		notes = append(notes, fmt.Sprintf("asked for at %v only", o.Points))
	}
	if len(o.Series) > 0 {
		chosen := func(name string) bool {
			return slices.ContainsFunc(o.Series, func(begin string) bool { return strings.HasPrefix(name, begin) })
		}
		part.Series = nil
		names := make([]string, len(s.Series))
		for i := range s.Series {
			if names[i] = s.Series[i].Name; chosen(names[i]) {
				part.Series = append(part.Series, s.Series[i])
			}
		}
		for _, begin := range o.Series {
			if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, begin) }) {
				return nil, nil, fmt.Errorf("reproduce %s: no series begins with %q: want some of %q", s.Name, begin, names)
			}
		}
		notes = append(notes, fmt.Sprintf("asked for series that begin with %q only", o.Series))
	}
	return &part, notes, nil
}

// plan lists the cells and what they are held against.
func plan(s *reproduce.Sweep, opt Options) (tasks []*task, notes []string, err error) {
	generated, large := map[int]bool{}, map[int]bool{}
	byKeys := map[string]*task{}
	if s.Matrix != nil && opt.Data.File(s.Matrix.File) == "" {
		notes = append(notes, fmt.Sprintf("%s is not there (--data): every pair as far apart as the experiment says stands for it", s.Matrix.File))
	}
	for i := range s.Series {
		l := &s.Series[i]
		if l.File != "" {
			continue
		}
		for j := range s.Points {
			p := &s.Points[j]
			if len(opt.Points) > 0 && !slices.Contains(opt.Points, p.X) {
				continue
			}
			if opt.MaxNodes > 0 && p.Mesh > opt.MaxNodes {
				large[p.Mesh] = true
				continue
			}
			seed := opt.Seed + uint64(j)*pointSeeds
			if s.SameSeeds {
				seed = opt.Seed
			}
			sc, err := resolve(s, p, l, opt, seed)
			if err != nil {
				return nil, nil, fmt.Errorf("reproduce %s, %s at %v: %w", s.Name, l.Name, p.X, err)
			}
			if n := len(sc.Topology.Nodes); opt.MaxNodes > 0 && n > opt.MaxNodes {
				large[n] = true
				continue
			}
			if why := sc.SimulatorOnly(); why != "" && opt.Engine != nil {
				notes = append(notes, fmt.Sprintf("%s is left out: the simulator alone has %s", l.Name, why))
				break
			}
			if p.Mesh > 0 && sc.Spec.TopologyFile == "" && sc.Spec.Topology == "random" && s.Keys(p, l)["topology"] == "" {
				generated[p.Mesh] = true
			}
			want, err := opt.Data.Reference(s, l, p.X)
			if err != nil {
				return nil, nil, fmt.Errorf("reproduce %s, %s at %v: %w", s.Name, l.Name, p.X, err)
			}
			t := &task{
				cell:  &reproduce.Cell{Series: l.Name, Ours: l.Ours, X: p.X, Seed: seed, Want: want},
				point: p, series: l, trials: s.TrialsOf(p, l, opt.Trials),
			}
			if s.Grouped() {
				t.figure = reproduce.FigureOf(p, l)
			}
			if l.Formula == reproduce.AvailabilityFormula {
				t.cell.Want = survival(sc, int(p.X), t.trials)
			}
			keys := fmt.Sprint(j, t.trials, s.Keys(p, l)) // maps print in the order of their keys
			if s.Metric == reproduce.Assignments {
				keys += t.figure // of which their trials hold one
			}
			if t.same = byKeys[keys]; t.same == nil {
				byKeys[keys] = t
			}
			tasks = append(tasks, t)
		}
	}
	if len(large) > 0 {
		notes = append(notes, fmt.Sprintf("left out: meshes of %v nodes", slices.Sorted(maps.Keys(large))))
	}
	if len(generated) > 0 {
		notes = append(notes, fmt.Sprintf("random meshes of the published density stand for %v nodes, for which no topology file is there", slices.Sorted(maps.Keys(generated))))
	}
	if len(tasks) == 0 {
		return nil, nil, fmt.Errorf("reproduce %s: nothing is left to run", s.Name)
	}
	return tasks, notes, nil
}

// runTasks runs every seed of every cell. The largest meshes come first, so
// that no processor waits for one of them in the end.
func runTasks(ctx context.Context, s *reproduce.Sweep, opt Options, tasks []*task) error {
	total := 0
	var order []*task
	for _, t := range tasks {
		if t.same == nil {
			total += t.trials
			order = append(order, t)
		}
	}
	if opt.Plan != nil {
		opt.Plan(total)
	}
	slices.SortStableFunc(order, func(a, b *task) int { return b.point.Mesh - a.point.Mesh })
	temp, err := os.MkdirTemp(opt.Temp, "reproduce-")
	if err != nil {
		return fmt.Errorf("create folder for runs: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(opt.Workers)
	once := &shared{runs: map[string]*result{}}
	var mu sync.Mutex
	for n, t := range order {
		t.ran = make([]*results.Trial, t.trials)
		for i := range t.trials {
			g.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				seed := t.cell.Seed + uint64(i)
				dir := filepath.Join(temp, strconv.Itoa(n)+"-"+strconv.FormatUint(seed, 10))
				tr, err := once.run(ctx, s, t, opt, seed, dir)
				if err != nil {
					return fmt.Errorf("reproduce %s, %s at %v, seed %d: %w", s.Name, t.series.Name, t.point.X, seed, err)
				}
				t.ran[i] = tr
				if opt.Done != nil {
					mu.Lock()
					defer mu.Unlock()
					opt.Done()
				}
				return nil
			})
		}
	}
	err = g.Wait()
	if err = errors.Join(err, os.RemoveAll(temp)); err != nil {
		return err
	}
	for _, t := range tasks {
		if t.same != nil {
			t.ran = t.same.ran
		}
	}
	return nil
}

// shared keeps the results of scenarios that several figures are read from,
// so that each runs once.
type shared struct {
	mu   sync.Mutex
	runs map[string]*result
}

type result struct {
	once     sync.Once
	trial    *results.Trial
	assigned *assigned
	err      error
}

// run runs one seed of a cell, or waits for another figure that does.
func (h *shared) run(ctx context.Context, s *reproduce.Sweep, t *task, opt Options, seed uint64, dir string) (*results.Trial, error) {
	if t.figure == "" {
		return runOne(ctx, s, t, opt, seed, dir)
	}
	name := fmt.Sprintf("%d %d %v", seed, t.point.Mesh, s.Keys(t.point, t.series)) // maps print in order of their keys
	h.mu.Lock()
	r := h.runs[name]
	if r == nil {
		r = &result{}
		h.runs[name] = r
	}
	h.mu.Unlock()
	r.once.Do(func() {
		if s.Metric != reproduce.Assignments {
			r.trial, r.err = runOne(ctx, s, t, opt, seed, dir)
			return
		}
		var sc *scenario.Scenario
		if sc, r.err = resolve(s, t.point, t.series, opt, seed); r.err == nil {
			epochs := assignedEpochs
			if t.figure == reproduce.QuorumHops || t.figure == reproduce.MemberHops {
				epochs = hopsEpochs
			}
			r.assigned, r.err = assign(sc, epochs)
		}
	})
	if r.err != nil || r.assigned == nil {
		return r.trial, r.err
	}
	return &results.Trial{Seed: seed, Figures: map[string]float64{t.figure: r.assigned.figure(t.figure, t.point.X)}}, nil
}

func runOne(ctx context.Context, s *reproduce.Sweep, t *task, opt Options, seed uint64, dir string) (*results.Trial, error) {
	sc, err := resolve(s, t.point, t.series, opt, seed)
	if err != nil {
		return nil, err
	}
	if opt.Engine != nil {
		err = opt.Engine(ctx, sc, dir)
	} else {
		_, err = simulate.Run(ctx, sc, dir, opt.manifest(sc))
	}
	if err != nil {
		return nil, err
	}
	run, err := results.Open(dir)
	if err != nil {
		return nil, err
	}
	tr, err := results.TrialOf(run)
	return tr, errors.Join(err, os.RemoveAll(dir))
}

func (o *Options) manifest(sc *scenario.Scenario) *results.Manifest {
	if o.Manifest != nil {
		return o.Manifest(sc)
	}
	return &results.Manifest{
		Seed: sc.Seed, TimeScale: sc.TimeScale, Nodes: len(sc.Topology.Nodes), Links: len(sc.Topology.Links),
		Algorithm: sc.Algorithm.Name, Membership: sc.Membership.Service, Holders: sc.Spec.K, SettleMS: float64(sc.Spec.Settle) / 1e6, Arrivals: len(sc.Arrivals),
	}
}

// resolve makes the scenario of one run of a cell.
func resolve(s *reproduce.Sweep, p *reproduce.Point, l *reproduce.Series, opt Options, seed uint64) (*scenario.Scenario, error) {
	keys := s.Keys(p, l)
	keys["name"], keys["seed"] = s.Name, strconv.FormatUint(seed, 10)
	switch file := opt.Data.Topology(p.Mesh); {
	case s.Matrix != nil:
		if keys["topology-file"] = opt.Data.File(s.Matrix.File); keys["topology-file"] != "" {
			keys["rtt-nodes"] = strconv.Itoa(p.Mesh)
			break
		}
		maps.DeleteFunc(keys, func(k, _ string) bool { return k == "topology-file" || strings.HasPrefix(k, "rtt-") })
		keys["nodes"] = strconv.Itoa(p.Mesh)
		maps.Copy(keys, s.Matrix.Otherwise)
	case p.Mesh == 0:
		// The keys say what mesh it is.
	case keys["topology"] != "":
		keys["nodes"] = strconv.Itoa(p.Mesh)
	case file != "":
		keys["topology-file"] = file
	default:
		side := strconv.FormatFloat(density(p.Mesh), 'g', 4, 64)
		keys["topology"], keys["nodes"], keys["radius"], keys["area"] = "random", strconv.Itoa(p.Mesh), "4", side+"x"+side
	}
	if opt.Engine != nil && opt.TimeScale > 0 {
		keys["time-scale"] = strconv.FormatFloat(opt.TimeScale, 'g', -1, 64)
	}
	var settings []scenario.Setting
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		settings = append(settings, scenario.Setting{Key: k, Value: keys[k]})
	}
	spec, origin, err := scenario.Load("", settings)
	if err != nil {
		return nil, err
	}
	return scenario.Resolve(spec, origin)
}

// density is the side in metres of a square that so many nodes fill as those
// of the published random meshes do: 256 of them 34 m.
func density(nodes int) float64 { return 34 * math.Sqrt(float64(nodes)/256) }
