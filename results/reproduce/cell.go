package reproduce

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"churnbed/node/core"
	"churnbed/results"
	"churnbed/results/foreign"
)

// Estimate is the mean over trials of one metric, NaN where it is unknown.
type Estimate struct {
	N        int
	Mean, SE float64
	// Messages of the algorithm an entry, end to end.
	Messages float64
}

// Estimated reduces trials to the metric of a sweep, or the figure of it that
// the series shows.
func (s *Sweep) Estimated(l *Series, trials []*results.Trial) Estimate {
	of := metrics[s.Metric]
	if several := figures[s.Metric]; several != nil {
		of = several[l.Figure]
	}
	return s.estimated(of, trials)
}

// EstimatedAt is Estimated for one node, of TimeByNode.
func (s *Sweep) EstimatedAt(l *Series, node core.NodeID, trials []*results.Trial) Estimate {
	return s.estimated(func(t *results.Trial) float64 {
		for _, n := range t.ByNode {
			if n.Node == node && n.Entries > 0 {
				return nodeFigures[l.Figure](n) / 1e3
			}
		}
		return math.NaN()
	}, trials)
}

// EstimatedFigure reduces trials to a figure of KGroups or Assignments.
func (s *Sweep) EstimatedFigure(figure string, trials []*results.Trial) Estimate {
	return s.estimated(func(t *results.Trial) float64 {
		if s.Metric == Assignments {
			return t.Figures[figure]
		}
		return groupFigure(figure, t)
	}, trials)
}

func (s *Sweep) estimated(of func(*results.Trial) float64, trials []*results.Trial) Estimate {
	var values, messages []float64
	for _, t := range trials {
		if v := of(t); !math.IsNaN(v) && !math.IsInf(v, 0) && !(s.timed() && t.Unfit()) {
			values = append(values, v)
		}
		if t.E2EMessages.Known() && t.Served > 0 {
			messages = append(messages, float64(t.E2EMessages)/float64(t.Served))
		}
	}
	e := Estimate{N: len(values), Mean: math.NaN(), SE: math.NaN(), Messages: math.NaN()}
	if len(values) > 0 {
		e.Mean = stat.Mean(values, nil)
	}
	if len(values) > 1 {
		e.SE = stat.StdErr(stat.StdDev(values, nil), float64(len(values)))
	}
	if len(messages) > 0 {
		e.Messages = stat.Mean(messages, nil)
	}
	return e
}

// Verdict of a cell or a sweep.
type Verdict string

// Verdicts. Cells of our own algorithms differ from the authors' for known
// reasons; they are shown and not counted.
const (
	Agree   Verdict = "agree"
	Differ  Verdict = "differ"
	TooFew  Verdict = "too few trials"
	NoJudge Verdict = "-"
)

// leastTrials is below which a standard error says little.
const leastTrials = 5

// sigmas is how many combined standard errors two means may be apart;
// tooFar is the distance that no number of cells excuses.
const (
	sigmas = 2.0
	tooFar = 4.0
)

// Cell is one point of one series.
type Cell struct {
	Series  string
	Ours    bool
	X       float64
	Seed    uint64 // of the first trial
	Got     Estimate
	Want    Estimate // N 0: no reference
	Verdict Verdict
}

// Sigmas is the distance of the means in combined standard errors, NaN where
// there is none.
func (c *Cell) Sigmas() float64 {
	return (c.Got.Mean - c.Want.Mean) / math.Hypot(c.Got.SE, c.Want.SE)
}

// Judge sets the verdict.
func (c *Cell) Judge(p *Published) {
	c.Verdict = NoJudge
	switch {
	case c.Got.N == 0:
	case p != nil && len(p.Only) > 0 && !slices.Contains(p.Only, c.X):
	case p != nil && (p.Above != nil || p.Below != nil):
		c.Verdict = verdict((p.Above == nil || c.Got.Mean > *p.Above) && (p.Below == nil || c.Got.Mean < *p.Below))
	case p != nil && p.AtLeast > 0:
		c.Verdict = verdict(c.Got.Mean >= p.AtLeast*c.Want.Mean)
	case p != nil && p.Shown != nil:
		if v, ok := p.Shown[c.X]; ok {
			c.Want = Estimate{N: 1, Mean: v, SE: math.NaN(), Messages: math.NaN()}
		}
	case p != nil && p.Value != nil:
		c.Want = Estimate{N: 1, Mean: *p.Value, SE: 0, Messages: math.NaN()}
		c.Verdict = verdict(math.Abs(c.Got.Mean-*p.Value) <= p.Tolerance**p.Value)
	case c.Want.N == 0:
	case c.Got.N < leastTrials || c.Want.N < leastTrials:
		c.Verdict = TooFew
	default:
		c.Verdict = verdict(math.Abs(c.Sigmas()) <= sigmas)
	}
}

func verdict(ok bool) Verdict {
	if ok {
		return Agree
	}
	return Differ
}

// Outcome sums up the cells that are counted. Of many cells that agree, one
// in twenty-two lies beyond two standard errors by chance: so many may differ
// as a binomial with that share reaches in 95 % of cases, none of them by
// more than four standard errors.
func Outcome(cells []Cell) (v Verdict, why string) {
	judged, differ, far, few := 0, 0, 0, 0
	for i := range cells {
		c := &cells[i]
		switch {
		case c.Ours:
		case c.Verdict == Agree:
			judged++
		case c.Verdict == Differ:
			judged++
			differ++
			if s := math.Abs(c.Sigmas()); !(s <= tooFar) {
				far++
			}
		case c.Verdict == TooFew:
			few++
		}
	}
	if judged == 0 {
		if few > 0 {
			return TooFew, fmt.Sprintf("%d cells have fewer than %d trials", few, leastTrials)
		}
		return NoJudge, "nothing published that it could be held against"
	}
	byChance := chance(judged)
	why = fmt.Sprintf("%d of %d cells differ; by chance up to %d would", differ, judged, byChance)
	if far > 0 {
		why += fmt.Sprintf("; %d by more than %v standard errors", far, tooFar)
	}
	return verdict(differ <= byChance && far == 0), why
}

// chance is the 95 % quantile of how many of n cells lie beyond two standard
// errors though nothing differs.
func chance(n int) int {
	b := distuv.Binomial{N: float64(n), P: 2 * distuv.UnitNormal.Survival(sigmas)}
	for k := range n {
		if b.CDF(float64(k)) >= 0.95 {
			return k
		}
	}
	return n
}

// Data is a folder of the authors' result files, each read once.
type Data struct {
	dir  string
	mu   sync.Mutex
	sets map[string]*results.TrialSet
}

// NewData reads from dir/camera-sim-results; dir "": there is none.
func NewData(dir string) *Data { return &Data{dir: dir, sets: map[string]*results.TrialSet{}} }

// Found reports whether the folder is there.
func (d *Data) Found() bool {
	if d.dir == "" {
		return false
	}
	st, err := os.Stat(filepath.Join(d.dir, "camera-sim-results"))
	return err == nil && st.IsDir()
}

// Topology is the published topology file of so many nodes, "" where there
// is none.
func (d *Data) Topology(nodes int) string {
	if d.dir == "" {
		return ""
	}
	file := filepath.Join(d.dir, "medley-topologies", fmt.Sprintf("random%d.txt", nodes))
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// Reference estimates what the authors' runs give for a cell; N is 0 where
// there are none.
func (d *Data) Reference(s *Sweep, l *Series, x float64) (Estimate, error) {
	none := Estimate{Mean: math.NaN(), SE: math.NaN(), Messages: math.NaN()}
	r := l.Reference
	if r == nil || !d.Found() || len(r.Only) > 0 && !slices.Contains(r.Only, x) {
		return none, nil
	}
	set, err := d.open(r.File)
	if err != nil {
		return none, err
	}
	conditions, err := results.ParseConditions(strings.ReplaceAll(r.Where, "{x}", number(x)))
	if err != nil {
		return none, err
	}
	if set, err = set.Where(conditions); err != nil {
		return none, err
	}
	return s.Estimated(l, set.Trials), nil
}

func (d *Data) open(file string) (*results.TrialSet, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if set := d.sets[file]; set != nil {
		return set, nil
	}
	set, err := foreign.Open(filepath.Join(d.dir, "camera-sim-results", file), foreign.Options{})
	if err == nil {
		d.sets[file] = set
	}
	return set, err
}

// Drawn reads the cells of a series that is drawn from a file: lines x,y after
// a header. No file: no cells.
func (d *Data) Drawn(l *Series) ([]Cell, error) {
	if !d.Found() {
		return nil, nil
	}
	name := filepath.Join(d.dir, "camera-sim-results", l.File)
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read points: %w", err)
	}
	var cells []Cell
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if i == 0 {
			continue // header
		}
		a, b, _ := strings.Cut(strings.TrimSpace(line), ",")
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		if errX != nil || errY != nil {
			return nil, fmt.Errorf("read points: %s:%d: %q: want x,y", name, i+1, line)
		}
		cells = append(cells, Cell{
			Series: l.Name, Ours: true, X: x, Verdict: NoJudge,
			Got: Estimate{N: 1, Mean: y, SE: math.NaN(), Messages: math.NaN()}, Want: Estimate{Mean: math.NaN(), SE: math.NaN(), Messages: math.NaN()},
		})
	}
	return cells, nil
}

// File is a file below the folder, "" where it is not there.
func (d *Data) File(name string) string {
	if d.dir == "" {
		return ""
	}
	file := filepath.Join(d.dir, filepath.FromSlash(name))
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// FindData looks for the folder shared/data beside the module's root, upwards
// from dir; "" where there is none.
func FindData(dir string) string {
	root := FindRoot(dir)
	if root == "" {
		return ""
	}
	data := filepath.Join(root, "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		return ""
	}
	return data
}

// FindRoot is the module's root at or above dir, "" where there is none.
func FindRoot(dir string) string {
	for {
		text, err := fs.ReadFile(os.DirFS(dir), "go.mod")
		if err == nil && strings.HasPrefix(string(text), "module churnbed\n") {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
