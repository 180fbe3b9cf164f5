package results

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat"
)

// Summaries are the summaries of the runs of a trial set, ascending by seed.
type Summaries struct {
	Seeds []uint64   `json:"seeds"`
	Runs  []*Summary `json:"summaries"`
}

// ReadSummaries reads the summaries of the trial set in dir, whose runs lie in
// dir/trials/<seed>.
func ReadSummaries(dir string) (*Summaries, error) {
	entries, err := os.ReadDir(filepath.Join(dir, TrialsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read trial set: %w: %s has no folder %s", ErrNotARun, dir, TrialsDir)
	}
	if err != nil {
		return nil, fmt.Errorf("read trial set: %w", err)
	}
	t := &Summaries{}
	for _, e := range entries {
		seed, err := strconv.ParseUint(e.Name(), 10, 64)
		if err != nil || !e.IsDir() {
			return nil, fmt.Errorf("read trial set: %s: want folders named by their seed", filepath.Join(dir, TrialsDir, e.Name()))
		}
		t.Seeds = append(t.Seeds, seed)
	}
	slices.Sort(t.Seeds)
	for _, seed := range t.Seeds {
		run, err := Open(filepath.Join(dir, TrialsDir, strconv.FormatUint(seed, 10)))
		if err != nil {
			return nil, err
		}
		s, err := run.summary()
		if err != nil {
			return nil, err
		}
		t.Runs = append(t.Runs, s)
	}
	return t, nil
}

// summary reads the run's summary, or computes it where there is none yet.
func (r *Run) summary() (*Summary, error) {
	f, err := os.Open(r.Path(SummaryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Summarise(r)
	}
	if err != nil {
		return nil, fmt.Errorf("read summary: %w", err)
	}
	s, err := ReadSummary(f)
	return s, errors.Join(err, f.Close())
}

// Print prints mean and standard error over the trials of the main figures.
func (t *Summaries) Print(w io.Writer, dir string) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "trials\t%d\n", len(t.Seeds))
	figures := requestFigures
	if len(t.Runs) > 0 && t.Runs[0].Groups != nil {
		figures = groupFigures
	}
	for _, f := range figures {
		var values []float64
		for _, s := range t.Runs {
			if v := f.of(s); !math.IsNaN(v) {
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			fmt.Fprintf(tw, "%s\t-\n", f.name)
			continue
		}
		mean, sd := stat.MeanStdDev(values, nil)
		if len(values) < 2 {
			sd = 0
		}
		fmt.Fprintf(tw, "%s\t%.4g\t± %.2g (standard error)\n", f.name, mean, sd/math.Sqrt(float64(len(values))))
	}
	fmt.Fprintf(tw, "trial set\t%s\n", dir)
	return tw.Flush()
}

// figure is one that the trials of a set are summed up by.
type figure struct {
	name string
	of   func(*Summary) float64
}

var requestFigures = []figure{
	{"requests served", func(s *Summary) float64 { return float64(s.Requests.Served) }},
	{"unserved", func(s *Summary) float64 { return float64(s.Requests.Unserved) }},
	{"violations", func(s *Summary) float64 { return float64(s.Safety.Violations) }},
	{"wait mean (ms)", func(s *Summary) float64 { return float64(s.WaitMS.Mean) }},
	{"wait p99 (ms)", func(s *Summary) float64 { return float64(s.WaitMS.P99) }},
	{"messages per entry, end to end", func(s *Summary) float64 { return float64(s.Messages.E2EPerCS) }},
	{"messages per entry, hop to hop", func(s *Summary) float64 { return float64(s.Messages.H2HPerCS) }},
	{"smallest list", func(s *Summary) float64 { return float64(s.Membership.SizeMin) }},
}

// groupFigures are those of runs with k-groups, which have no requests.
var groupFigures = []figure{
	{"routines executed", func(s *Summary) float64 { return float64(s.Groups.Executed) }},
	{"starved", func(s *Summary) float64 { return float64(s.Groups.Starved) }},
	{"violations", func(s *Summary) float64 { return float64(s.Groups.Found()) }},
	{"client delay mean (ms)", func(s *Summary) float64 { return float64(s.Groups.ClientMS.Mean) }},
	{"client delay p99 (ms)", func(s *Summary) float64 { return float64(s.Groups.ClientMS.P99) }},
	{"quorum mean (ms)", func(s *Summary) float64 { return float64(s.Groups.QuorumMS.Mean) }},
	{"migration gap mean (ms)", func(s *Summary) float64 { return float64(s.Groups.GapMS.Mean) }},
	{"foreground (bytes/s)", func(s *Summary) float64 { return float64(s.Groups.Foreground.Mean) }},
	{"background (bytes/s)", func(s *Summary) float64 { return float64(s.Groups.Background.Mean) }},
}
