package report

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/results/timeline"
)

// runData is what the page's script draws a run from. Columns of equal length
// stand for tables. Instants are microseconds of scenario time, -1 for none.
type runData struct {
	Name  string `json:"name"`
	Begin int64  `json:"begin"`
	Epoch int64  `json:"epoch"`
	End   int64  `json:"end"`

	Nodes struct {
		X     []float64 `json:"x"` // 0..1 of the larger side, y downwards
		Y     []float64 `json:"y"`
		Label []string  `json:"label"` // "" where it has none but its id
	} `json:"nodes"`
	Width  float64 `json:"width"` // of the mesh in units of its larger side
	Height float64 `json:"height"`

	Links struct {
		A      []core.NodeID `json:"a"`
		B      []core.NodeID `json:"b"`
		Frames []int64       `json:"frames"` // both directions
	} `json:"links"`

	Requests struct {
		Node   []core.NodeID `json:"node"`
		Asked  []int64       `json:"asked"`
		Enter  []int64       `json:"enter"`
		End    []int64       `json:"end"`
		How    []int         `json:"how"`  // index of Endings
		Flag   []int         `json:"flag"` // 1 violating, 2 with a holder declared failed
		Inc    []uint32      `json:"inc"`
		TS     []uint64      `json:"ts"`
		Number []int         `json:"no"`
	} `json:"requests"`
	Endings []string `json:"endings"`

	Overlaps struct {
		First  []int   `json:"first"` // indices of requests
		Second []int   `json:"second"`
		From   []int64 `json:"from"`
		To     []int64 `json:"to"`
		Zombie []int   `json:"zombie"`
	} `json:"overlaps"`

	Lives struct {
		Node []core.NodeID `json:"node"`
		From []int64       `json:"from"`
		To   []int64       `json:"to"`
		How  []string      `json:"how"`
	} `json:"lives"`
	Pauses struct {
		Node []core.NodeID `json:"node"`
		From []int64       `json:"from"`
		To   []int64       `json:"to"`
	} `json:"pauses"`
	Changes struct { // of links
		T    []int64  `json:"t"`
		Link []int    `json:"link"`
		Up   []int    `json:"up"` // 1, 0, or -1: other parameters
		Text []string `json:"text"`
	} `json:"changes"`

	Sizes struct {
		From []int64   `json:"from"`
		To   []int64   `json:"to"`
		Mean []float64 `json:"mean"`
		Min  []int     `json:"min"`
		Up   []float64 `json:"up"`
	} `json:"sizes"`
	Traffic struct {
		From    []int64     `json:"from"`
		To      []int64     `json:"to"`
		Classes []string    `json:"classes"`
		N       [][]float64 `json:"n"` // a second, [class][bin]
		Bytes   [][]float64 `json:"bytes"`
	} `json:"traffic"`
	Sent struct {
		Kinds   []string  `json:"kinds"`
		Class   []string  `json:"class"`
		N       [][]int64 `json:"n"` // [kind][node]
		Bytes   [][]int64 `json:"bytes"`
		Retrans []int64   `json:"retrans"`
	} `json:"sent"`
	Slices struct {
		To      []int64    `json:"to"`
		Grade   []int      `json:"grade"` // 0 faithful, 1 strained, 2 unfaithful
		P50     []*float64 `json:"p50"`
		P99     []*float64 `json:"p99"`
		CPU     []*float64 `json:"cpu"`
		Verdict []string   `json:"verdict"`
	} `json:"slices"`
}

const micro = 1000 // nanoseconds

func (r *Run) data() *runData {
	t := r.Timeline
	d := &runData{Name: r.Name, Begin: t.Begin() / micro, Epoch: -1, End: max(t.End, t.Begin()+1e6) / micro}
	if t.Epoch >= 0 {
		d.Epoch = t.Epoch / micro
	}
	r.mesh(d)
	requests(d, t)
	for i := range t.Nodes {
		id := core.NodeID(i)
		for _, l := range t.Nodes[i].Lives {
			d.Lives.Node = append(d.Lives.Node, id)
			d.Lives.From = append(d.Lives.From, l.From/micro)
			d.Lives.To = append(d.Lives.To, l.To/micro)
			d.Lives.How = append(d.Lives.How, string(l.How))
		}
		for _, p := range t.Nodes[i].Pauses {
			d.Pauses.Node = append(d.Pauses.Node, id)
			d.Pauses.From = append(d.Pauses.From, p.From/micro)
			d.Pauses.To = append(d.Pauses.To, p.To/micro)
		}
	}
	for _, s := range t.Sizes {
		d.Sizes.From = append(d.Sizes.From, s.From/micro)
		d.Sizes.To = append(d.Sizes.To, s.To/micro)
		d.Sizes.Mean = append(d.Sizes.Mean, round(s.Mean, 3))
		d.Sizes.Min = append(d.Sizes.Min, s.Min)
		d.Sizes.Up = append(d.Sizes.Up, round(s.Up, 3))
	}
	traffic(d, t)
	sent(d, t)
	for _, s := range t.Summary.Fidelity.Slices {
		d.Slices.To = append(d.Slices.To, int64(float64(s.ToMS)*1e3))
		d.Slices.Grade = append(d.Slices.Grade, gradeOf(s.Verdict))
		d.Slices.Verdict = append(d.Slices.Verdict, s.Verdict)
		d.Slices.P50 = append(d.Slices.P50, known(s.DelayErrorMS.P50))
		d.Slices.P99 = append(d.Slices.P99, known(s.DelayErrorMS.P99))
		d.Slices.CPU = append(d.Slices.CPU, known(s.CPUBusy))
	}
	return d
}

func gradeOf(verdict string) int {
	return slices.Index([]string{results.Faithful, results.Strained, results.Unfaithful}, verdict)
}

func known(n results.Number) *float64 {
	if !n.Known() {
		return nil
	}
	v := round(float64(n), 4)
	return &v
}

// round keeps so many decimals: the page needs no more, and is smaller.
func round(v float64, decimals int) float64 {
	p := math.Pow(10, float64(decimals))
	return math.Round(v*p) / p
}

// mesh scales positions to a box whose larger side is 1.
func (r *Run) mesh(d *runData) {
	t := r.Topology
	x0, y0, x1, y1 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, n := range t.Nodes {
		x0, y0, x1, y1 = min(x0, n.X), min(y0, n.Y), max(x1, n.X), max(y1, n.Y)
	}
	side := max(x1-x0, y1-y0)
	if !(side > 0) || math.IsInf(side, 0) {
		side = 1
	}
	d.Width, d.Height = round((x1-x0)/side, 5), round((y1-y0)/side, 5)
	for _, n := range t.Nodes {
		d.Nodes.X = append(d.Nodes.X, round((n.X-x0)/side, 5))
		d.Nodes.Y = append(d.Nodes.Y, round((y1-n.Y)/side, 5))
		d.Nodes.Label = append(d.Nodes.Label, n.Label)
	}
	if !slices.ContainsFunc(d.Nodes.Label, func(s string) bool { return s != "" }) {
		d.Nodes.Label = nil
	}
	type ends struct{ a, b core.NodeID }
	frames := make(map[ends]int64)
	for _, l := range r.Timeline.Links {
		frames[ends{min(l.A, l.B), max(l.A, l.B)}] += l.Frames
	}
	index := make(map[string]int)
	for i, l := range t.Links {
		d.Links.A, d.Links.B = append(d.Links.A, l.A), append(d.Links.B, l.B)
		d.Links.Frames = append(d.Links.Frames, frames[ends{l.A, l.B}])
		index[linkName(l.A, l.B)] = i
	}
	for _, f := range r.Timeline.Faults {
		i, ok := index[f.Link]
		if f.Kind != eventlog.LinkSet || !ok {
			continue
		}
		state := -1
		switch f.Text {
		case "up":
			state = 1
		case "down":
			state = 0
		}
		d.Changes.T = append(d.Changes.T, f.T/micro)
		d.Changes.Link = append(d.Changes.Link, i)
		d.Changes.Up = append(d.Changes.Up, state)
		d.Changes.Text = append(d.Changes.Text, f.Text)
	}
}

func requests(d *runData, t *timeline.Timeline) {
	order := make([]int, len(t.Requests))
	for i := range order {
		order[i] = i
	}
	// By node, then instant: the script looks requests up by both.
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &t.Requests[a], &t.Requests[b]
		return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Asked, y.Asked))
	})
	endings := make(map[results.Ending]int)
	at := make(map[*results.Request]int, len(order))
	for _, i := range order {
		q := &t.Requests[i]
		at[q.Request] = len(d.Requests.Node)
		how, ok := endings[q.Ending]
		if !ok {
			how = len(d.Endings)
			endings[q.Ending] = how
			d.Endings = append(d.Endings, string(q.Ending))
		}
		enter, flag := int64(-1), 0
		if q.Entered {
			enter = q.Enter / micro
		}
		if q.Violating {
			flag |= 1
		}
		if q.Zombie {
			flag |= 2
		}
		r := &d.Requests
		r.Node, r.Asked, r.Enter, r.End = append(r.Node, q.Node), append(r.Asked, q.Asked/micro), append(r.Enter, enter), append(r.End, q.End/micro)
		r.How, r.Flag = append(r.How, how), append(r.Flag, flag)
		r.Inc, r.TS, r.Number = append(r.Inc, uint32(q.ID.Inc)), append(r.TS, q.ID.TS), append(r.Number, q.No)
	}
	for k, list := range [][]results.Overlap{t.Verdict.Violations, t.Verdict.Zombies} {
		for _, o := range list {
			v := &d.Overlaps
			v.First, v.Second = append(v.First, at[o.First]), append(v.Second, at[o.Second])
			v.From, v.To, v.Zombie = append(v.From, o.From/micro), append(v.To, o.To/micro), append(v.Zombie, k)
		}
	}
}

// traffic adds the kinds of a class up, as rates.
func traffic(d *runData, t *timeline.Timeline) {
	tr := &t.Traffic
	classes := make(map[string]int)
	for _, c := range slices.Sorted(maps.Values(tr.Class)) {
		if _, seen := classes[c]; !seen {
			classes[c] = len(d.Traffic.Classes)
			d.Traffic.Classes = append(d.Traffic.Classes, c)
			d.Traffic.N = append(d.Traffic.N, make([]float64, len(tr.Bins)))
			d.Traffic.Bytes = append(d.Traffic.Bytes, make([]float64, len(tr.Bins)))
		}
	}
	for i, kind := range tr.Kinds {
		c := classes[tr.Class[kind]]
		for k := range tr.Bins {
			d.Traffic.N[c][k] += tr.N[i][k]
			d.Traffic.Bytes[c][k] += tr.Bytes[i][k]
		}
	}
	for k, b := range tr.Bins {
		d.Traffic.From, d.Traffic.To = append(d.Traffic.From, b.From/micro), append(d.Traffic.To, b.To/micro)
		seconds := float64(b.To-b.From) / 1e9
		for c := range d.Traffic.N {
			d.Traffic.N[c][k] = round(d.Traffic.N[c][k]/seconds, 2)
			d.Traffic.Bytes[c][k] = round(d.Traffic.Bytes[c][k]/seconds, 1)
		}
	}
}

func sent(d *runData, t *timeline.Timeline) {
	all := make(map[string]bool)
	for i := range t.Nodes {
		for k := range t.Nodes[i].Sent {
			all[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		n, bytes, retrans := make([]int64, len(t.Nodes)), make([]int64, len(t.Nodes)), int64(0)
		for i := range t.Nodes {
			c := t.Nodes[i].Sent[k]
			n[i], bytes[i] = c.N, c.Bytes
			retrans += c.Retrans
		}
		class := t.Traffic.Class[k]
		if class == "" {
			class = "unknown"
		}
		s := &d.Sent
		s.Kinds, s.Class = append(s.Kinds, k), append(s.Class, class)
		s.N, s.Bytes, s.Retrans = append(s.N, n), append(s.Bytes, bytes), append(s.Retrans, retrans)
	}
}
