package reproduce

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"churnbed/results"
)

// Sweep is one experiment.
type Sweep struct {
	Name   string `yaml:"-"`
	Title  string `yaml:"title"`
	Text   string `yaml:"text"`
	Metric string `yaml:"metric"`
	X      string `yaml:"x"`
	Y      string `yaml:"y"`
	LogX   bool   `yaml:"log-x"`
	LogY   bool   `yaml:"log-y"`
	Over   string `yaml:"over"` // the series that the others are divided by, in notes
	Trials int    `yaml:"trials"`
	Rounds int    `yaml:"rounds"`
	// SameSeeds gives all points the same seeds: the x axis then reads one
	// thing at several places, as that of a distribution does.
	SameSeeds bool `yaml:"same-seeds"`
	// Processes: the figures are what the kernel accounts to processes, which
	// simulated nodes are not. They hold where the host did not keep up too.
	Processes bool              `yaml:"processes"`
	Scenario  map[string]string `yaml:"scenario"`
	Matrix    *Matrix           `yaml:"matrix"`
	Points    []Point           `yaml:"sweep"`
	Series    []Series          `yaml:"series"`
	Claims    []Claim           `yaml:"claims"`
	Lines     []Line            `yaml:"lines"`
}

// Line is a published figure that belongs to no point, drawn across the plot.
type Line struct {
	Name string  `yaml:"name"`
	Y    float64 `yaml:"y"`
}

// Matrix is a file of round-trip times that makes the mesh.
type Matrix struct {
	File      string            `yaml:"file"`      // below the data folder
	Otherwise map[string]string `yaml:"otherwise"` // scenario keys where it is not there
}

// Point is one place on the x axis.
type Point struct {
	X     float64 `yaml:"x"`
	Label string  `yaml:"label"` // in place of x below the axis
	// Mesh is the number of nodes of the published random mesh; 0: the
	// scenario keys say what mesh there is.
	Mesh   int               `yaml:"mesh"`
	Figure string            `yaml:"figure"` // see FigureOf
	Trials int               `yaml:"trials"`
	Set    map[string]string `yaml:"set"`
}

// Series is one line.
type Series struct {
	Name      string            `yaml:"name"`
	Ours      bool              `yaml:"ours"`
	Trials    int               `yaml:"trials"`
	Set       map[string]string `yaml:"set"`
	Figure    string            `yaml:"figure"`
	Formula   string            `yaml:"formula"` // closed form to hold it against: availability
	Reference *Reference        `yaml:"reference"`
	Published *Published        `yaml:"published"`
	File      string            `yaml:"points"`
}

// Reference names runs of the authors' simulator.
type Reference struct {
	File  string    `yaml:"file"`
	Where string    `yaml:"where"`
	Only  []float64 `yaml:"only"`
}

// Published is a figure that was printed, without runs.
type Published struct {
	Value     *float64 `yaml:"value"`
	Tolerance float64  `yaml:"tolerance"` // relative
	AtLeast   float64  `yaml:"at-least"`  // share of x
	// Above and Below bound the figure itself.
	Above *float64 `yaml:"above"`
	Below *float64 `yaml:"below"`
	// Only are the points that it is about; empty: all.
	Only []float64 `yaml:"only"`
	// Shown are figures by x that are shown and drawn, and not judged.
	Shown map[float64]float64 `yaml:"shown"`
}

// ListSizes is the metric that no trial set has: it is measured over a long
// run of the membership service.
const ListSizes = "list-sizes"

// metrics compute one value of a trial.
var metrics = map[string]func(*results.Trial) float64{
	"wait-mean":          waitMean,
	"wait-by-requesters": func(t *results.Trial) float64 { return waitMean(t) / float64(t.Issued) / 1e3 },
	"wait-by-nodes":      func(t *results.Trial) float64 { return waitMean(t) / float64(t.Nodes) / 1e3 },
	"max-concurrent":     func(t *results.Trial) float64 { return float64(t.MaxConcurrent) },
	"bytes-per-cs":       func(t *results.Trial) float64 { return float64(t.Bytes) / float64(t.Served) },
	"wire-bytes-per-cs": func(t *results.Trial) float64 {
		return (float64(t.Bytes) + headers*float64(t.E2EMessages)) / float64(t.Served)
	},

	"lock-mean":     local(func(l *results.Local) float64 { return float64(l.LockMS.Mean) }),
	"tries-mean":    local(func(l *results.Local) float64 { return float64(l.TriesMean) }),
	"state-bytes":   local(func(l *results.Local) float64 { return float64(l.StateBytesMax) }),
	"message-bytes": local(func(l *results.Local) float64 { return float64(l.MessageBytesMax) }),
	"in-flight":     local(func(l *results.Local) float64 { return float64(l.InFlightPerLink) }),
}

// local computes a metric of neighbourhood locks.
func local(of func(*results.Local) float64) func(*results.Trial) float64 {
	return func(t *results.Trial) float64 {
		if t.Summary == nil || t.Summary.Local == nil {
			return math.NaN()
		}
		return of(t.Summary.Local)
	}
}

// TimeByNode is the metric whose points are the nodes of a mesh, not those of
// the sweep, which has one.
const TimeByNode = "time-to-token-by-node"

// figures compute the values of the metrics that have several, by Series.Figure.
// Times are seconds; those of a run's worst node or longest wait are means
// over the trials of that worst.
var figures = map[string]map[string]func(*results.Trial) float64{
	"time-to-token": {
		"mean":   func(t *results.Trial) float64 { return float64(t.Summary.Fairness.MTTTMS) / 1e3 },
		"max":    func(t *results.Trial) float64 { return float64(t.Summary.Fairness.MaxMS) / 1e3 },
		"spread": func(t *results.Trial) float64 { return float64(t.Summary.Fairness.SpreadMaxMS) / 1e3 },
	},
}

// nodeFigures compute the values of one node, in ms.
var nodeFigures = map[string]func(results.NodeWaits) float64{
	"mean":   func(n results.NodeWaits) float64 { return n.MeanMS },
	"max":    func(n results.NodeWaits) float64 { return n.MaxMS },
	"spread": func(n results.NodeWaits) float64 { return n.MaxMS - n.MeanMS },
}

// figuresOf lists the figures of a metric; nil: it has one.
func figuresOf(metric string) []string {
	switch {
	case metric == ListSizes:
		return []string{"", "mean", "min"}
	case metric == KGroups:
		return groupFigures()
	case metric == Assignments:
		return assignmentFigures
	case metric == TimeByNode:
		return slices.Sorted(maps.Keys(nodeFigures))
	case figures[metric] != nil:
		return slices.Sorted(maps.Keys(figures[metric]))
	}
	return nil
}

// headers are the bytes of a datagram before its payload: IPv4 without options
// (RFC 791) and UDP (RFC 768).
const headers = 20 + 8

// timed reports whether the metric is a time, which a host that does not keep
// up falsifies. Bytes it does not, apart from repetitions.
func (s *Sweep) timed() bool { return !s.Processes && !strings.Contains(s.Metric, "bytes") }

func waitMean(t *results.Trial) float64 {
	sum := 0.0
	for _, w := range t.WaitsMS {
		sum += w
	}
	return sum / float64(len(t.WaitsMS))
}

// Metrics lists the metrics: mean wait in ms; the same divided by requests or
// nodes, in s; most nodes in the critical section at once; bytes of the
// algorithm an entry, end to end, without and with the headers of UDP and IPv4;
// time to token in s, of a run or of its nodes; sizes of membership lists; of
// localmutex the mean time that a lock takes in ms, competitions a lock, bytes
// of the largest state and message, and most messages under way on a link; figures of k-groups.
func Metrics() []string {
	list := append(slices.Sorted(maps.Keys(metrics)), slices.Sorted(maps.Keys(figures))...)
	return append(list, TimeByNode, ListSizes, KGroups, Assignments)
}

// AvailabilityFormula is the closed form of kgroup.Availability.
const AvailabilityFormula = "availability"

// Load reads all sweeps of a file system, in the order in which they are
// shown: figures by number, tables, the rest.
func Load(files fs.FS) ([]*Sweep, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list sweeps: %w", err)
	}
	var sweeps []*Sweep
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read sweep: %w", err)
		}
		s, err := Parse(text, name)
		if err != nil {
			return nil, err
		}
		sweeps = append(sweeps, s)
	}
	slices.SortFunc(sweeps, func(a, b *Sweep) int {
		ga, na := order(a.Name)
		gb, nb := order(b.Name)
		if ga != gb {
			return ga - gb
		}
		if na != nb {
			return na - nb
		}
		return strings.Compare(a.Name, b.Name)
	})
	return sweeps, nil
}

func order(name string) (group, number int) {
	for i, prefix := range []string{"fig", "table"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			if n, err := strconv.Atoi(rest); err == nil {
				return i, n
			}
		}
	}
	return 2, 0
}

// Parse reads a sweep strictly; file is its name. Errors list all that is
// wrong.
func Parse(text []byte, file string) (*Sweep, error) {
	s := &Sweep{Name: strings.TrimSuffix(path.Base(file), ".yaml")}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("read sweep %s: %w", file, err)
	}
	s.Text = strings.TrimSpace(s.Text)
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("sweep "+file+": "+format, args...))
	}
	if s.Title == "" || s.Text == "" || s.X == "" || s.Y == "" {
		bad("title, text, x and y must be given")
	}
	if !slices.Contains(Metrics(), s.Metric) {
		bad("metric %q: want one of %s", s.Metric, strings.Join(Metrics(), ", "))
	}
	if s.Trials < 1 {
		bad("trials %d: want 1 or more", s.Trials)
	}
	if s.Metric == ListSizes && s.Rounds < 1 {
		bad("rounds %d: want 1 or more", s.Rounds)
	}
	if len(s.Points) == 0 || len(s.Series) == 0 {
		bad("want at least one point and one series")
	}
	if s.Metric == TimeByNode && len(s.Points) != 1 {
		bad("%d points: metric %s has the nodes of one", len(s.Points), s.Metric)
	}
	if s.Matrix != nil && s.Matrix.File == "" {
		bad("matrix: want a file")
	}
	for _, p := range s.Points {
		if p.Mesh < 2 && (p.Mesh != 0 || s.Scenario["topology"] == "" && p.Set["topology"] == "") {
			bad("point %v: mesh %d: want 2 nodes or more, or a topology in the scenario", p.X, p.Mesh)
		}
	}
	seen := map[string]bool{}
	for _, l := range s.Series {
		if l.Name == "" || seen[l.Name] {
			bad("series %q: want a name of its own", l.Name)
		}
		seen[l.Name] = true
		all := figuresOf(s.Metric)
		if l.Figure != "" && all == nil {
			bad("series %q: figure %q: metric %s has one", l.Name, l.Figure, s.Metric)
		}
		for j := range s.Points {
			if f := FigureOf(&s.Points[j], &l); all != nil && !slices.Contains(all, f) {
				bad("series %q: figure %q: want one of %s", l.Name, f, strings.Join(all, ", "))
				break
			}
		}
		if l.Formula != "" && l.Formula != AvailabilityFormula {
			bad("series %q: formula %q: want %s", l.Name, l.Formula, AvailabilityFormula)
		}
	}
	if s.Over != "" && !seen[s.Over] {
		bad("over %q: want the name of a series", s.Over)
	}
	for i := range s.Claims {
		if err := s.Claims[i].check(seen); err != nil {
			bad("%w", err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// Grouped reports whether the metric is one of k-groups.
func (s *Sweep) Grouped() bool { return s.Metric == KGroups || s.Metric == Assignments }

// TrialsOf is how many seeds a cell has; limit 0: as stated.
func (s *Sweep) TrialsOf(p *Point, l *Series, limit int) int {
	n := s.Trials
	switch {
	case l.Trials > 0:
		n = l.Trials
	case p.Trials > 0:
		n = p.Trials
	}
	if limit > 0 {
		n = limit
	}
	return n
}

// Keys are the scenario keys of a cell: those of the sweep, the point and the
// series, later ones above earlier ones.
func (s *Sweep) Keys(p *Point, l *Series) map[string]string {
	keys := map[string]string{}
	for _, m := range []map[string]string{s.Scenario, p.Set, l.Set} {
		maps.Copy(keys, m)
	}
	return keys
}
