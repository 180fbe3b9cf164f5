package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/results"
	"churnbed/results/timeline"
)

// groupsText is what a run with k-groups shows beside the mesh: who served
// which group when, and what each routine did when, as pictures without
// script, and tables.
type groupsText struct {
	Leaders, Routines *laneChart
	Findings          []findingText
	MoreFindings      int
	Terms             []termText
	MoreTerms         int
}

type findingText struct {
	Check, Text string
	Lines       []string
}

type termText struct {
	Group, Epoch, Term, Leader, Members, From, To, Ended string
}

// laneChart is a picture of rows of bars over time, in units of its view box.
type laneChart struct {
	Width, Height int
	Label         string
	Rows          []laneRow
	Ticks         []laneTick
	Top, Bottom   int // of the rows
	// Bars holds one path a class of colour: a path is a third of the bytes of
	// as many rectangles.
	Bars []lanePath
	Text []laneTick
	More int // rows that are not drawn
}

type laneRow struct {
	Y    int
	Name string
}

type laneTick struct {
	X    float64
	Y    int
	Text string
}

type lanePath struct{ Class, Path string }

const (
	laneWidth   = 1000
	laneLeft    = 84
	laneRight   = 990
	laneTop     = 6
	laneHeight  = 15
	maxLaneRows = 100
	// labelled is the narrowest bar that has room for a node's number.
	labelled = 22
)

// newLanes has rows called name 0 to n-1.
func newLanes(t *timeline.Timeline, label, name string, n int) *laneChart {
	l := &laneChart{Width: laneWidth, Label: label, Top: laneTop}
	if n > maxLaneRows {
		l.More, n = n-maxLaneRows, maxLaneRows
	}
	for i := range n {
		l.Rows = append(l.Rows, laneRow{laneTop + i*laneHeight + laneHeight/2, name + " " + strconv.Itoa(i)})
	}
	l.Bottom = laneTop + n*laneHeight
	l.Height = l.Bottom + 20
	begin, end := t.Begin(), max(t.End, t.Begin()+1e6)
	step := int64(1e6)
	for _, s := range []int64{10e6, 100e6, 1e9, 2e9, 5e9, 10e9, 20e9, 60e9, 120e9, 300e9, 600e9, 1800e9, 3600e9, 36000e9, 360000e9} {
		if step = s; (end-begin)/s <= 10 {
			break
		}
	}
	for at := (begin + step - 1) / step * step; at <= end && len(l.Ticks) < 40; at += step {
		l.Ticks = append(l.Ticks, laneTick{laneX(t, at), l.Bottom + 14, strconv.FormatFloat(float64(at)/1e9, 'g', -1, 64) + " s"})
	}
	return l
}

func laneX(t *timeline.Timeline, at int64) float64 {
	begin, end := t.Begin(), max(t.End, t.Begin()+1e6)
	share := float64(min(max(at, begin), end)-begin) / float64(end-begin)
	return laneLeft + share*(laneRight-laneLeft)
}

// bar appends a bar to a path and returns its ends.
func (l *laneChart) bar(b *strings.Builder, t *timeline.Timeline, row int, from, to int64) (x0, x1 float64) {
	x0, x1 = laneX(t, from), laneX(t, to)
	x1 = max(x1, x0+.4) // to be seen at all
	fmt.Fprintf(b, "M%.1f %dH%.1fv%dH%.1fz", x0, laneTop+row*laneHeight+2, x1, laneHeight-4, x0)
	return x0, x1
}

func (l *laneChart) drawn(row int32) bool { return row >= 0 && int(row) < len(l.Rows) }

const palettes = 8

// leaderLanes shows who served each group; where nobody did, nothing.
func leaderLanes(t *timeline.Timeline) *laneChart {
	n := int32(-1)
	for i := range t.Groups.Terms {
		n = max(n, t.Groups.Terms[i].Group)
	}
	l := newLanes(t, "Who led each group when, by the number of the node", "group", int(n)+1)
	var paths [palettes]strings.Builder
	for i := range t.Groups.Terms {
		m := &t.Groups.Terms[i]
		if m.Active < 0 || !l.drawn(m.Group) {
			continue
		}
		x0, x1 := l.bar(&paths[int(m.Leader)%palettes], t, int(m.Group), m.Active, m.End)
		if x1-x0 >= labelled {
			l.Text = append(l.Text, laneTick{(x0 + x1) / 2, l.Rows[m.Group].Y + 4, strconv.Itoa(int(m.Leader))})
		}
	}
	for k := range paths {
		if paths[k].Len() > 0 {
			l.Bars = append(l.Bars, lanePath{"s" + strconv.Itoa(k), paths[k].String()})
		}
	}
	return l
}

// routineLanes shows each firing: until its locks were there, and while its
// commands were carried out.
func routineLanes(t *timeline.Timeline) *laneChart {
	n := int32(-1)
	for i := range t.Groups.Runs {
		n = max(n, t.Groups.Runs[i].Routine)
	}
	l := newLanes(t, "What each routine did when", "routine", int(n)+1)
	var waiting, executing strings.Builder
	for i := range t.Groups.Runs {
		r := &t.Groups.Runs[i]
		if !l.drawn(r.Routine) {
			continue
		}
		or := func(at, other int64) int64 {
			if at < 0 {
				return other
			}
			return at
		}
		if r.Triggered >= 0 {
			l.bar(&waiting, t, int(r.Routine), r.Triggered, or(r.Executing, or(r.Done, t.End)))
		}
		if r.Executing >= 0 {
			l.bar(&executing, t, int(r.Routine), r.Executing, or(r.Releasing, or(r.Done, t.End)))
		}
	}
	for class, b := range map[string]*strings.Builder{"waiting": &waiting, "holding": &executing} {
		if b.Len() > 0 {
			l.Bars = append(l.Bars, lanePath{class, b.String()})
		}
	}
	slices.SortFunc(l.Bars, func(a, b lanePath) int { return strings.Compare(b.Class, a.Class) })
	return l
}

// groupsOf says what a run with k-groups has to show, nil for other runs.
func groupsOf(t *timeline.Timeline) *groupsText {
	if t.Groups == nil {
		return nil
	}
	g := &groupsText{Leaders: leaderLanes(t), Routines: routineLanes(t)}
	for _, f := range t.Verdict.Groups[:min(len(t.Verdict.Groups), maxListed)] {
		text := findingText{Check: f.Check, Text: f.Text}
		for _, line := range f.Lines {
			text.Lines = append(text.Lines, line.String())
		}
		g.Findings = append(g.Findings, text)
	}
	g.MoreFindings = t.Verdict.GroupCount - len(g.Findings)
	const most = 1000
	for i := range t.Groups.Terms[:min(len(t.Groups.Terms), most)] {
		m := &t.Groups.Terms[i]
		x := termText{
			Group: strconv.Itoa(int(m.Group)), Epoch: strconv.FormatUint(m.Epoch, 10), Term: strconv.FormatUint(m.Term, 10),
			Leader: strconv.Itoa(int(m.Leader)), Members: spaced(m.Members), From: "–", To: "–", Ended: string(m.How),
		}
		if m.Active >= 0 {
			x.From, x.To = seconds(m.Active), seconds(m.End)
		}
		g.Terms = append(g.Terms, x)
	}
	g.MoreTerms = len(t.Groups.Terms) - len(g.Terms)
	return g
}

func spaced(ids []core.NodeID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.Itoa(int(id))
	}
	return strings.Join(words, " ")
}

// groupRows adds the figures of runs with k-groups to the summary; others of
// the same page have a dash.
func groupRows(runs []*Run, add func(name, figure string, of func(s *results.Summary, r *Run) value)) {
	if !slices.ContainsFunc(runs, func(r *Run) bool { return r.Timeline.Summary.Groups != nil }) {
		return
	}
	of := func(f func(g *results.GroupSummary) value) func(*results.Summary, *Run) value {
		return func(s *results.Summary, _ *Run) value {
			if s.Groups == nil {
				return value{Text: "–"}
			}
			return f(s.Groups)
		}
	}
	times := func(d func(*results.GroupSummary) *results.Dist) func(*results.Summary, *Run) value {
		return of(func(g *results.GroupSummary) value {
			x := d(g)
			text := inMS(x.Mean) + ", " + inMS(x.P50) + ", " + inMS(x.P90)
			if x.Unfit && x.N > 0 {
				return value{text + " (unfit)", fair}
			}
			return value{Text: text}
		})
	}
	add("Routines", "executed, triggered, skipped", of(func(g *results.GroupSummary) value {
		return value{Text: fmt.Sprintf("%d, %d, %d", g.Executed, g.Triggered, g.Skipped)}
	}))
	add("", "starved", of(func(g *results.GroupSummary) value { return value{strconv.Itoa(g.Starved), class(g.Starved == 0)} }))
	add("", "client delay: mean, p50, p90", times(func(g *results.GroupSummary) *results.Dist { return &g.ClientMS }))
	add("", "all its locks: mean, p50, p90", times(func(g *results.GroupSummary) *results.Dist { return &g.AcquireMS }))
	add("", "a lock handed to one that waits: mean, p50, p90", times(func(g *results.GroupSummary) *results.Dist { return &g.SyncMS }))
	add("", "quorum: mean, p50, p90", times(func(g *results.GroupSummary) *results.Dist { return &g.QuorumMS }))
	add("Groups", "groups, elections, migrations", of(func(g *results.GroupSummary) value {
		return value{Text: fmt.Sprintf("%d, %d, %d", g.Groups, g.Elections, g.Migrations)}
	}))
	add("", "leaders deposed", of(func(g *results.GroupSummary) value { return value{Text: strconv.Itoa(g.Deposed)} }))
	add("", "election: mean, p50, p90", times(func(g *results.GroupSummary) *results.Dist { return &g.ElectionMS }))
	add("", "state transfer: mean, p50, p90", times(func(g *results.GroupSummary) *results.Dist { return &g.TransferMS }))
	add("", "gap without monitoring: mean, p50, p90", times(func(g *results.GroupSummary) *results.Dist { return &g.GapMS }))
	add("", "a device's failure unnoticed: mean, p50, p90", times(func(g *results.GroupSummary) *results.Dist { return &g.DetectionMS }))
	add("", "bytes/s of a managing node, foreground: mean, most", of(func(g *results.GroupSummary) value {
		return value{Text: number(g.Foreground.Mean) + ", " + number(g.Foreground.Max)}
	}))
	add("", "background: mean, most", of(func(g *results.GroupSummary) value {
		return value{Text: number(g.Background.Mean) + ", " + number(g.Background.Max)}
	}))
}
