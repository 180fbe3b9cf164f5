package reproduce

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"churnbed/emulator/simulate"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results/reproduce"
)

// listPoints is how many points of time a run of list-sizes has.
const listPoints = 50

// sizes follows the membership lists of a run by what the nodes log.
type sizes struct {
	of       []int // by node, itself counted; 0: not started
	sum      int
	low      int // of the present interval
	area     float64
	since    core.Instant
	from     core.Instant // begin of the interval
	interval time.Duration
	epoch    core.Instant
	began    bool
	x        []float64 // rounds
	mean     []float64
	least    []float64
}

func (z *sizes) log(node core.NodeID, e *eventlog.Event) {
	at := core.Instant(e.T)
	switch e.Kind {
	case eventlog.Epoch:
		z.advance(at)
		z.began, z.epoch, z.from, z.since, z.area = true, at, at, at, 0
		z.low = z.smallest()
	case eventlog.Joined, eventlog.Member:
		z.advance(at)
		size := max(e.Size, 1)
		z.sum += size - z.of[node]
		z.of[node] = size
		if z.began {
			z.low = min(z.low, size)
		}
	case eventlog.End:
		z.advance(at)
	default: // the others change no list
	}
}

func (z *sizes) smallest() int {
	low := math.MaxInt
	for _, n := range z.of {
		low = min(low, n)
	}
	return low
}

// advance closes the intervals that end by an instant.
func (z *sizes) advance(at core.Instant) {
	for z.began && at >= z.from.Add(z.interval) {
		end := z.from.Add(z.interval)
		z.area += float64(z.sum) * end.Sub(z.since).Seconds()
		z.x = append(z.x, end.Sub(z.epoch).Seconds()/roundLength.Seconds())
		z.mean = append(z.mean, z.area/z.interval.Seconds()/float64(len(z.of)))
		z.least = append(z.least, float64(z.low))
		z.from, z.since, z.area, z.low = end, end, 0, z.smallest()
	}
	z.area += float64(z.sum) * at.Sub(z.since).Seconds()
	z.since = at
}

// roundLength is Medley's published protocol period.
const roundLength = 2 * time.Second

// runLists runs a sweep of list-sizes: one long run a mesh, in memory, since
// its log would not fit a disk. The points are time, not the sweep's.
func runLists(ctx context.Context, s *reproduce.Sweep, opt Options, notes []string) ([]reproduce.Cell, []string, error) {
	rounds := s.Rounds
	if opt.Rounds > 0 {
		rounds = opt.Rounds
	}
	if opt.Plan != nil {
		opt.Plan(listPoints)
	}
	p := s.Points[0]
	if opt.MaxNodes > 0 && p.Mesh > opt.MaxNodes {
		p.Mesh = opt.MaxNodes
		notes = append(notes, fmt.Sprintf("%d nodes in place of %d", p.Mesh, s.Points[0].Mesh))
	}
	p.Set = map[string]string{"duration": (time.Duration(rounds) * roundLength).String()}
	sc, err := resolve(s, &p, &reproduce.Series{}, opt, opt.Seed)
	if err != nil {
		return nil, nil, fmt.Errorf("reproduce %s: %w", s.Name, err)
	}
	n := len(sc.Topology.Nodes)
	z := &sizes{of: make([]int, n), interval: sc.Duration / listPoints}
	told := 0
	w, err := simulate.World(sc, func(node core.NodeID, e *eventlog.Event) {
		z.log(node, e)
		for opt.Done != nil && told < len(z.x) {
			opt.Done()
			told++
		}
	})
	if err != nil {
		return nil, nil, err
	}
	if err := w.Run(func() bool { return ctx.Err() != nil }); err != nil {
		return nil, nil, fmt.Errorf("reproduce %s: %w", s.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	notes = append(notes, strconv.Itoa(rounds)+" rounds; each point is over the rounds since the one before it; the authors' number of nodes is the reference")
	var cells []reproduce.Cell
	for i := range s.Series {
		l := &s.Series[i]
		values := z.mean
		if l.Figure == "min" {
			values = z.least
		}
		for k, x := range z.x {
			c := reproduce.Cell{
				Series: l.Name, Ours: l.Ours, X: math.Round(x), Seed: opt.Seed,
				Got:  reproduce.Estimate{N: 1, Mean: values[k], SE: math.NaN(), Messages: math.NaN()},
				Want: reproduce.Estimate{N: 0, Mean: math.NaN(), SE: math.NaN(), Messages: math.NaN()},
			}
			if l.Published != nil {
				c.Want = reproduce.Estimate{N: 1, Mean: float64(n), SE: 0, Messages: math.NaN()}
			}
			c.Judge(l.Published)
			cells = append(cells, c)
		}
	}
	return cells, notes, nil
}
