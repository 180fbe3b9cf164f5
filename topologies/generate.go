package topologies

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
)

// Kind names a generator.
type Kind string

const (
	Random  Kind = "random"  // uniform in the area, redrawn until connected
	Grid    Kind = "grid"    // rows x cols
	Grid3D  Kind = "grid3d"  // rows x cols x layers
	Cluster Kind = "cluster" // rooms, redrawn until connected
	Line    Kind = "line"    // 0-1-2-...
	LShape  Kind = "lshape"  // a line with a right angle in its middle
	Ring    Kind = "ring"    // a line closed to a circle
	Full    Kind = "full"    // every pair joined
)

// Kinds lists the generators.
func Kinds() []Kind { return []Kind{Random, Grid, Grid3D, Cluster, Line, LShape, Ring, Full} }

// Defaults of GenerateParams.
const (
	DefaultArea   = 15.0 // metres, both sides; random and cluster
	DefaultRadius = 4.0  // metres, as the reference simulators
	DefaultStep   = 2.5  // metres between neighbours of a grid, grid3d, line, lshape or ring
	DefaultTries  = 1000
)

// GenerateParams say what to generate. The comments name the command line's
// flag, by which errors speak of it.
type GenerateParams struct {
	Kind Kind // --topology

	// Nodes is the number of nodes (--nodes). A grid of given rows and cols (and
	// layers) and a cluster of given rooms need none; where given, it must fit.
	Nodes int

	// Width and Height are the area in metres (--area WxH). Both 0: 15 x 15
	// for random and cluster, as wide as the steps make it for grids. Grids in
	// space, lines, rings and full meshes take no area.
	Width, Height float64

	// Radius joins nodes at most so many metres apart (--radius), 0 for 4. The
	// links of lines, rings and full meshes do not depend on it.
	Radius float64

	Rows, Cols int // --rows, --cols of a grid or grid3d; 0: the squarest that fits
	Layers     int // --layers of a grid3d, one above the other; 0: as many as the nodes fill
	// Step is the distance in metres of neighbours in a grid, grid3d, line, lshape or ring
	// (--step). 0: a grid is spread over the area if there is one; otherwise
	// 2.5. A step goes before an area.
	Step float64

	// Rooms are the rooms of a cluster (--rooms). None: four corner rooms and
	// one in the middle of the area, sharing the nodes evenly.
	Rooms []Room

	MinSpacing float64 // --min-spacing: least distance of two random or cluster nodes, metres
	// Survivable asks for a mesh that any one node can leave without
	// disconnecting the others (--survivable).
	Survivable bool

	// Tries bounds the draws of random and cluster, 0 for 1000.
	Tries int
}

// Generate makes a topology; the same parameters and seed give the same one.
// The result is connected, and biconnected where Survivable asks for it;
// errors name the parameter at fault and the remedy.
func Generate(p GenerateParams, seed uint64) (*Topology, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	p = p.defaults()
	var t *Topology
	var err error
	switch p.Kind {
	case Random:
		t, err = generateRandom(p, core.Stream(seed, "topology"))
	case Grid:
		t, err = generateGrid(p)
	case Grid3D:
		t, err = generateGrid3D(p)
	case Cluster:
		t, err = generateCluster(p, core.Stream(seed, "topology"))
	case Line:
		t, err = generateLine(p)
	case LShape:
		t, err = generateLShape(p)
	case Ring:
		t, err = generateRing(p)
	case Full:
		t, err = generateFull(p)
	}
	if err != nil {
		return nil, fmt.Errorf("generate %s topology: %w", p.Kind, err)
	}
	if err := p.fits(t); err != nil {
		return nil, fmt.Errorf("generate %s topology: %w", p.Kind, err)
	}
	return t, nil
}

// check reports the first parameter that is wrong whatever the others are.
func (p GenerateParams) check() error {
	if !slices.Contains(Kinds(), p.Kind) {
		names := make([]string, 0, len(Kinds()))
		for _, k := range Kinds() {
			names = append(names, string(k))
		}
		return fmt.Errorf("topology %q: want one of %s", p.Kind, strings.Join(names, ", "))
	}
	byRooms := p.Kind == Cluster && len(p.Rooms) > 0
	byCells := p.Rows > 0 && p.Cols > 0 && (p.Kind == Grid || p.Kind == Grid3D && p.Layers > 0)
	if p.Nodes < 0 || p.Nodes == 0 && !byRooms && !byCells {
		return fmt.Errorf("nodes %d: a topology needs at least 1", p.Nodes)
	}
	if p.Nodes > core.MaxNodes {
		return fmt.Errorf("nodes %d: at most %d are supported", p.Nodes, core.MaxNodes)
	}
	if !(p.Width >= 0 && p.Width <= maxCoordinate && p.Height >= 0 && p.Height <= maxCoordinate) ||
		(p.Width == 0) != (p.Height == 0) {
		return fmt.Errorf("area %gx%g: want two sides above 0 in metres, as 15x15", p.Width, p.Height)
	}
	if p.Radius != 0 {
		if err := checkRadius(p.Radius); err != nil {
			return err
		}
	}
	if p.Rows < 0 || p.Cols < 0 || p.Rows > core.MaxNodes || p.Cols > core.MaxNodes {
		return fmt.Errorf("rows %d, cols %d: want 1..%d each", p.Rows, p.Cols, core.MaxNodes)
	}
	if p.Layers < 0 || p.Layers > core.MaxNodes {
		return fmt.Errorf("layers %d: want 1..%d", p.Layers, core.MaxNodes)
	}
	if !(p.Step >= 0 && p.Step <= maxCoordinate) {
		return fmt.Errorf("step %v: want metres above 0", p.Step)
	}
	if !(p.MinSpacing >= 0 && p.MinSpacing <= maxCoordinate) {
		return fmt.Errorf("min-spacing %v: want 0 or more metres", p.MinSpacing)
	}
	if p.Tries < 0 {
		return fmt.Errorf("tries %d: want 1 or more", p.Tries)
	}
	for i, r := range p.Rooms {
		if err := r.check(); err != nil {
			return fmt.Errorf("room %d: %w", i, err)
		}
	}
	return p.misplaced()
}

// misplaced reports a parameter that the kind of topology has no use for, so
// that no flag is silently ignored. Nodes, area, radius and seed are common.
func (p GenerateParams) misplaced() error {
	only := func(set bool, name string, kinds ...Kind) error {
		if !set || slices.Contains(kinds, p.Kind) {
			return nil
		}
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = string(k)
		}
		return fmt.Errorf("%s is for %s topologies, not for %s", name, strings.Join(names, ", "), p.Kind)
	}
	return cmpErr(
		only(p.Rows > 0, "rows", Grid, Grid3D),
		only(p.Cols > 0, "cols", Grid, Grid3D),
		only(p.Layers > 0, "layers", Grid3D),
		only(p.Step > 0, "step", Grid, Grid3D, Line, LShape, Ring, Full),
		only(len(p.Rooms) > 0, "rooms", Cluster),
		only(p.MinSpacing > 0, "min-spacing", Random, Cluster),
	)
}

// cmpErr returns the first error that is not nil.
func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p GenerateParams) defaults() GenerateParams {
	if p.Width == 0 && p.Kind != Grid {
		p.Width, p.Height = DefaultArea, DefaultArea
	}
	if p.Radius == 0 {
		p.Radius = DefaultRadius
	}
	if p.Step == 0 && (p.Kind != Grid || p.Width == 0) {
		p.Step = DefaultStep
	}
	if p.Tries == 0 {
		p.Tries = DefaultTries
	}
	return p
}

// fits reports whether t is as connected as p asks for.
func (p GenerateParams) fits(t *Topology) error {
	if !t.Connected() {
		return p.disconnected(t)
	}
	if p.Survivable {
		if cut := t.ArticulationPoints(); len(cut) > 0 {
			return fmt.Errorf("survivable: without node %d the others are disconnected (%d such nodes): %s",
				cut[0], len(cut), p.remedy())
		}
	}
	return nil
}

func (p GenerateParams) disconnected(t *Topology) error {
	c := t.Components()
	return fmt.Errorf("radius %g leaves %d parts (largest %d of %d nodes): %s",
		p.Radius, len(c), len(c[0]), len(t.Nodes), p.remedy())
}

func (p GenerateParams) remedy() string {
	switch p.Kind {
	case Grid:
		return fmt.Sprintf("neighbours are %s apart; raise the radius or lower the step or area", p.gridSteps())
	case Grid3D:
		return fmt.Sprintf("neighbours are %g m apart; raise the radius or lower the step", p.Step)
	case Line, LShape:
		return "a line never is; take a ring"
	case Cluster:
		return "raise the radius, move the rooms closer together or give them more nodes"
	case Random, Ring, Full:
	}
	return "raise the radius, lower the area or take more nodes"
}

// ParseArea reads an area "WxH" in metres.
func ParseArea(s string) (width, height float64, err error) {
	w, h, ok := strings.Cut(s, "x")
	width, errW := strconv.ParseFloat(strings.TrimSpace(w), 64)
	height, errH := strconv.ParseFloat(strings.TrimSpace(h), 64)
	if !ok || errW != nil || errH != nil || !(width > 0 && width <= maxCoordinate && height > 0 && height <= maxCoordinate) {
		return 0, 0, fmt.Errorf("area %q: want WIDTHxHEIGHT in metres above 0, as 15x15", s)
	}
	return width, height, nil
}

var errSpacing = errors.New("no place left")

// placer draws positions that keep a least distance.
type placer struct {
	rng     *rand.Rand
	spacing float64
	nodes   []Node
	cells   map[[2]int64][]int
}

func newPlacer(rng *rand.Rand, spacing float64) *placer {
	return &placer{rng: rng, spacing: spacing, cells: map[[2]int64][]int{}}
}

// placeTries bounds the draws for one node under a least distance.
const placeTries = 500

// place adds a node uniform in the rectangle.
func (p *placer) place(x, y, w, h float64, tags []string) error {
	for range placeTries {
		n := Node{X: x + p.rng.Float64()*w, Y: y + p.rng.Float64()*h, Tags: tags}
		if p.spacing == 0 {
			p.nodes = append(p.nodes, n)
			return nil
		}
		c := [2]int64{int64(math.Floor(n.X / p.spacing)), int64(math.Floor(n.Y / p.spacing))}
		if p.free(n, c) {
			p.cells[c] = append(p.cells[c], len(p.nodes))
			p.nodes = append(p.nodes, n)
			return nil
		}
	}
	return errSpacing
}

func (p *placer) free(n Node, c [2]int64) bool {
	for dx := int64(-1); dx <= 1; dx++ {
		for dy := int64(-1); dy <= 1; dy++ {
			for _, i := range p.cells[[2]int64{c[0] + dx, c[1] + dy}] {
				if Distance(n, p.nodes[i]) < p.spacing {
					return false
				}
			}
		}
	}
	return true
}

// redraw draws nodes until they are as connected as p asks for.
func (p GenerateParams) redraw(name string, rng *rand.Rand, draw func(*placer) error) (*Topology, error) {
	var last *Topology
	crowded := 0
	for range p.Tries {
		pl := newPlacer(rng, p.MinSpacing)
		if err := draw(pl); err != nil {
			crowded++
			if crowded >= 20 && last == nil {
				return nil, fmt.Errorf("min-spacing %g: the nodes do not fit: lower it, or the nodes, or raise the area", p.MinSpacing)
			}
			continue
		}
		t, err := WithinRadius(name, pl.nodes, p.Radius)
		if err != nil {
			return nil, err
		}
		last = t
		if p.fits(t) == nil {
			return t, nil
		}
	}
	if last == nil {
		return nil, fmt.Errorf("min-spacing %g: the nodes do not fit in %d draws: lower it, or the nodes, or raise the area", p.MinSpacing, p.Tries)
	}
	return nil, fmt.Errorf("no draw of %d was good enough; the last: %w", p.Tries, p.fits(last))
}
