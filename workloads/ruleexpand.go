package workloads

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// Bounds of what one rule expands to: its repetitions, its faults (those of a
// churn trace, too), and the nodes and links named by all of them. They turn a
// slip of the pen into an error instead of an exhausted host.
const (
	maxRepetitions = 100_000
	maxFaults      = 1_000_000
	maxRuleSize    = 20_000_000
)

// Target is the mesh that rules are expanded for.
type Target struct {
	Nodes int
	Tags  map[string][]core.NodeID
	Links [][2]core.NodeID // pairs a < b
	// Link is what every direction of every link is configured to: what the
	// end of a "set ... for" goes back to.
	Link link.Params
	// LinkParams, where given, holds what each of Links is configured to
	// instead, in direction a->b and b->a.
	LinkParams [][2]link.Params
}

// Expand turns the rule into faults, ascending by time, for a mesh. What it
// chooses at random comes from the stream of the seed and the rule's index in
// its list, which also becomes the Source. An unknown node, tag or link is an
// error. The result is checked with Validate.
func (r Rule) Expand(t Target, seed uint64, index int) ([]Fault, error) {
	e := &expansion{
		rule:   r,
		target: t,
		source: fmt.Sprintf("faults:%d", index),
		rng:    core.Stream(seed, fmt.Sprintf("faults/%d", index)),
		busy:   make([]time.Duration, max(t.Nodes, 0)),
	}
	err := e.expand()
	faults := Merge(e.faults)
	if err == nil {
		err = Validate(faults, t.Nodes)
	}
	if err != nil {
		return nil, fmt.Errorf("expand fault %q: %w", r, err)
	}
	return faults, nil
}

// expansion is the state of one Expand.
type expansion struct {
	rule   Rule
	target Target
	source string
	rng    *rand.Rand
	busy   []time.Duration // until when the rule has taken a node, by node
	faults []Fault
	size   int // see maxRuleSize

	// What the rule names, resolved once; its faults share the slices.
	nodes  []core.NodeID
	among  []core.NodeID // of which some are drawn
	links  []direction
	pairs  [][2]core.NodeID
	groups [][]core.NodeID
}

func (e *expansion) add(f Fault) error {
	f.Source = e.source
	e.faults = append(e.faults, f)
	e.size += 1 + len(f.Nodes) + len(f.Links)
	for _, g := range f.Groups {
		e.size += len(g)
	}
	if len(e.faults) > maxFaults {
		return fmt.Errorf("it makes more than %d faults: lengthen \"every\"", maxFaults)
	}
	if e.size > maxRuleSize {
		return fmt.Errorf("it names more than %d nodes and links in all: lengthen \"every\"", maxRuleSize)
	}
	return nil
}

func (e *expansion) expand() error {
	r := e.rule
	if t := e.target; t.Nodes < 1 || len(t.LinkParams) != 0 && len(t.LinkParams) != len(t.Links) {
		return fmt.Errorf("mesh of %d nodes, %d links and %d link parameters", t.Nodes, len(t.Links), len(t.LinkParams))
	}
	if r.Every > 0 && (r.To-r.From)/r.Every > maxRepetitions {
		return fmt.Errorf("it comes more than %d times: lengthen \"every\"", maxRepetitions)
	}
	if err := e.resolveAll(); err != nil {
		return err
	}
	switch r.Action {
	case Churn:
		return e.churn()
	case Flap:
		return e.flap()
	default:
	}
	for at := r.From; ; at += r.Every {
		lasts := r.For
		if r.To > 0 && r.Every == 0 {
			lasts = r.To - r.From
		}
		if err := e.once(at, lasts); err != nil {
			return err
		}
		if r.Every == 0 || at+r.Every >= r.To {
			return nil
		}
	}
}

// resolveAll looks up everything that the rule names.
func (e *expansion) resolveAll() (err error) {
	r := e.rule
	switch {
	case r.Nodes.known():
		e.nodes, err = e.resolve(r.Nodes)
	case r.Nodes.drawn():
		e.among, err = e.resolve(NodeSet{All: len(r.Nodes.Items) == 0, Items: r.Nodes.Items})
	}
	if err != nil {
		return err
	}
	if e.links, err = e.resolveLinks(r.Links); err != nil {
		return err
	}
	e.pairs = e.linkPairs(e.links)
	e.groups = make([][]core.NodeID, len(r.Groups))
	for i, items := range r.Groups {
		if e.groups[i], err = e.resolve(NodeSet{Items: items}); err != nil {
			return err
		}
	}
	return nil
}

// once adds what happens at one instant, and its undoing after lasts (0 = never).
func (e *expansion) once(at, lasts time.Duration) error {
	var f, undo Fault
	switch verb := Verb(e.rule.Action); verb {
	case Crash, Poweroff, Leave:
		return e.onNodes(at, lasts, Restart)
	case Pause:
		return e.onNodes(at, lasts, Resume)
	case Resume, Restart, Join:
		return e.onNodes(at, 0, "")
	case LinkDown, LinkUp:
		f = Fault{Verb: verb, Links: e.pairs}
		undo = Fault{Verb: LinkUp, Links: e.pairs}
	case Partition:
		f = Fault{Verb: Partition, Groups: e.groups}
		undo = Fault{Verb: Heal}
	case Heal:
		f = Fault{Verb: Heal}
	case Trigger:
		f = Fault{Verb: Trigger, Routine: e.rule.Routine}
	case Set:
		return e.set(at, lasts)
	default:
		return fmt.Errorf("unknown action %q", verb)
	}
	f.At, undo.At = at, at+lasts
	if err := e.add(f); err != nil || lasts == 0 {
		return err
	}
	return e.add(undo)
}

// onNodes adds a verb on the rule's nodes and its undoing.
func (e *expansion) onNodes(at, lasts time.Duration, undo Verb) error {
	r := e.rule
	f := Fault{At: at, Verb: Verb(r.Action), Nodes: e.nodes}
	if r.Nodes.Role != "" {
		f.Role, f.Count, f.After = r.Nodes.Role, r.Nodes.Count, lasts
		return e.add(f)
	}
	if !r.Nodes.known() {
		var err error
		if f.Nodes, err = e.draw(at, lasts); err != nil || len(f.Nodes) == 0 {
			return err
		}
	}
	if err := e.add(f); err != nil || lasts == 0 {
		return err
	}
	return e.add(Fault{At: at + lasts, Verb: undo, Nodes: f.Nodes})
}

// amount returns how many nodes a share or count means.
func (e *expansion) amount() (int, error) {
	n := e.rule.Nodes.Count
	if e.rule.Nodes.Percent > 0 {
		n = shareOf(e.rule.Nodes.Percent, len(e.among))
	}
	if n < 1 || n > len(e.among) {
		have := "the mesh has"
		if len(e.rule.Nodes.Items) > 0 {
			have = "these are"
		}
		return 0, fmt.Errorf("%d nodes: %s %d", n, have, len(e.among))
	}
	return n, nil
}

// draw chooses random nodes that the rule has not taken already, as many as
// there are if they are too few.
func (e *expansion) draw(at, lasts time.Duration) ([]core.NodeID, error) {
	n, err := e.amount()
	if err != nil {
		return nil, err
	}
	var free []core.NodeID
	for _, id := range e.among {
		if e.busy[id] <= at {
			free = append(free, id)
		}
	}
	e.rng.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	chosen := free[:min(n, len(free))]
	slices.Sort(chosen)
	for _, id := range chosen {
		e.busy[id] = math.MaxInt64
		if lasts > 0 {
			e.busy[id] = at + lasts
		}
	}
	return chosen, nil
}

// resolve returns known nodes, ascending, each once.
func (e *expansion) resolve(s NodeSet) ([]core.NodeID, error) {
	var nodes []core.NodeID
	add := func(first, last core.NodeID) {
		for id := first; id <= last; id++ {
			nodes = append(nodes, id)
		}
	}
	if s.All {
		add(0, core.NodeID(e.target.Nodes-1))
	}
	for _, it := range s.Items {
		if it.Tag == "" {
			if err := knownNode(it.Last, e.target.Nodes); err != nil {
				return nil, err
			}
			add(it.First, it.Last)
			continue
		}
		tagged, ok := e.target.Tags[it.Tag]
		if !ok {
			return nil, fmt.Errorf("unknown tag %q: %s", it.Tag, e.tags())
		}
		nodes = append(nodes, tagged...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// tags describes the known tags for an error.
func (e *expansion) tags() string {
	names := slices.Sorted(maps.Keys(e.target.Tags))
	if len(names) == 0 {
		return "the topology has none"
	}
	return fmt.Sprintf("allowed are %q", names)
}

// direction is one direction of a link, or both.
type direction struct {
	link   int // index in target.Links
	toA    bool
	oneWay bool
}

// resolveLinks returns the links a rule chooses, in the rule's or the
// topology's order.
func (e *expansion) resolveLinks(s LinkSet) ([]direction, error) {
	var chosen []direction
	switch {
	case !s.All && !s.Of.known() && len(s.Pairs) == 0: // a rule without links
	case s.All:
		for i := range e.target.Links {
			chosen = append(chosen, direction{link: i})
		}
	case s.Of.known():
		nodes, err := e.resolve(s.Of)
		if err != nil {
			return nil, err
		}
		for i, l := range e.target.Links {
			_, a := slices.BinarySearch(nodes, l[0])
			_, b := slices.BinarySearch(nodes, l[1])
			if a || b {
				chosen = append(chosen, direction{link: i})
			}
		}
		if len(chosen) == 0 {
			return nil, errors.New("these nodes have no links")
		}
	default:
		seen := make(map[direction]bool, len(s.Pairs))
		index := make(map[[2]core.NodeID]int, len(e.target.Links))
		for i, l := range e.target.Links {
			index[l] = i
		}
		for _, p := range s.Pairs {
			if err := errors.Join(knownNode(p[0], e.target.Nodes), knownNode(p[1], e.target.Nodes)); err != nil {
				return nil, err
			}
			i, ok := index[[2]core.NodeID{min(p[0], p[1]), max(p[0], p[1])}]
			if !ok {
				return nil, fmt.Errorf("unknown link %d-%d: the topology does not join these nodes", p[0], p[1])
			}
			d := direction{link: i, toA: p[0] > p[1], oneWay: s.OneWay}
			if !s.OneWay {
				d.toA = false
			}
			if !seen[d] {
				seen[d] = true
				chosen = append(chosen, d)
			}
		}
	}
	return chosen, nil
}

// linkPairs renders directions as the links of a Fault.
func (e *expansion) linkPairs(links []direction) [][2]core.NodeID {
	pairs := make([][2]core.NodeID, len(links))
	for i, d := range links {
		pairs[i] = e.target.Links[d.link]
		if d.oneWay && d.toA {
			pairs[i][0], pairs[i][1] = pairs[i][1], pairs[i][0]
		}
	}
	return pairs
}

// set adds a change of link parameters and the way back.
func (e *expansion) set(at, lasts time.Duration) error {
	r := e.rule
	f := Fault{At: at, Verb: Set, Set: r.Set, OneWay: r.Links.OneWay}
	if !r.Links.All {
		f.Links = e.pairs
	}
	if err := e.add(f); err != nil || lasts == 0 {
		return err
	}
	if len(e.target.LinkParams) == 0 {
		f.At, f.Set = at+lasts, restored(r.Set, e.target.Link)
		return e.add(f)
	}
	return e.restoreEach(at + lasts)
}

// restoreEach sets links back that are configured differently: one fault for
// every group of them that is configured alike.
func (e *expansion) restoreEach(at time.Duration) error {
	type key struct {
		oneWay bool
		values overrideKey
	}
	type group struct {
		set   link.Override
		links []direction
	}
	var order []key
	groups := make(map[key]*group)
	put := func(d direction, o link.Override) {
		k := key{d.oneWay, keyOf(o)}
		g := groups[k]
		if g == nil {
			g = &group{set: o}
			groups[k] = g
			order = append(order, k)
		}
		g.links = append(g.links, d)
	}
	for _, d := range e.links {
		ab := restored(e.rule.Set, e.target.LinkParams[d.link][0])
		ba := restored(e.rule.Set, e.target.LinkParams[d.link][1])
		switch {
		case d.oneWay && d.toA:
			put(d, ba)
		case d.oneWay:
			put(d, ab)
		case keyOf(ab) == keyOf(ba):
			put(d, ab)
		default:
			put(direction{link: d.link, oneWay: true}, ab)
			put(direction{link: d.link, oneWay: true, toA: true}, ba)
		}
	}
	for _, k := range order {
		g := groups[k]
		f := Fault{At: at, Verb: Set, Set: g.set, OneWay: k.oneWay}
		// A single group of everything needs no list.
		if !e.rule.Links.All || len(order) > 1 || k.oneWay {
			f.Links = e.linkPairs(g.links)
		}
		if err := e.add(f); err != nil {
			return err
		}
	}
	return nil
}

// restored returns what sets the parameters that o changes back to those of p.
func restored(o link.Override, p link.Params) link.Override {
	var back link.Override
	if o.Delay != nil {
		back.Delay = &p.Delay
	}
	if o.Jitter != nil {
		back.Jitter = &p.Jitter
	}
	if o.Dist != nil {
		if p.Dist == "" {
			p.Dist = link.Uniform
		}
		back.Dist = &p.Dist
	}
	if o.Loss != nil || o.Burst != nil {
		// Loss first, burst after it: what Override.Apply does.
		back.Loss, back.Burst = &p.Loss, p.Burst
	}
	if o.Rate != nil {
		back.Rate = &p.Rate
	}
	return back
}

// overrideKey holds the values of an Override whose set fields are known.
type overrideKey struct {
	delay, jitter time.Duration
	dist          link.Distribution
	loss          float64
	rate          int64
	bursty        bool
	burst         link.GilbertElliott
}

func keyOf(o link.Override) overrideKey {
	p := o.Apply(link.Params{})
	k := overrideKey{delay: p.Delay, jitter: p.Jitter, dist: p.Dist, loss: p.Loss, rate: p.Rate}
	if p.Burst != nil {
		k.bursty, k.burst = true, *p.Burst
	}
	return k
}

// flap takes links down and up in turn, down first, and leaves them up.
func (e *expansion) flap() error {
	r := e.rule
	down := false
	for at := r.From; at < r.To; at += r.Every {
		down = !down
		verb := LinkUp
		if down {
			verb = LinkDown
		}
		if err := e.add(Fault{At: at, Verb: verb, Links: e.pairs}); err != nil {
			return err
		}
	}
	if down {
		return e.add(Fault{At: r.To, Verb: LinkUp, Links: e.pairs})
	}
	return nil
}

// churn replaces nodes: in every period so many, at uniformly random
// instants of it, no node twice in a period. A last period that is cut short
// replaces its part of them.
func (e *expansion) churn() error {
	r := e.rule
	n, err := e.amount()
	if err != nil {
		return err
	}
	if r.To == 0 {
		return e.churnPeriod(r.From, 0, n)
	}
	period := r.Every
	if period == 0 {
		period = r.To - r.From
	}
	for at := r.From; at < r.To; at += period {
		length := min(period, r.To-at)
		count := int(math.Round(float64(n) * float64(length) / float64(period)))
		if err := e.churnPeriod(at, length, count); err != nil {
			return err
		}
	}
	return nil
}

func (e *expansion) churnPeriod(start, length time.Duration, n int) error {
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = start + time.Duration(e.rng.Float64()*float64(length))
	}
	slices.Sort(times)
	order := e.rng.Perm(len(e.among))
	for _, at := range times {
		// The first of the random order that is not still down from before.
		i := slices.IndexFunc(order, func(i int) bool { return e.busy[e.among[i]] <= at })
		if i < 0 {
			return fmt.Errorf("%d nodes within %v are more than run at %v: restart them sooner or churn fewer", n, length, at)
		}
		id := e.among[order[i]]
		order = slices.Delete(order, i, i+1)
		back := at + e.rule.For
		e.busy[id] = back
		nodes := []core.NodeID{id}
		if err := errors.Join(e.add(Fault{At: at, Verb: Crash, Nodes: nodes}), e.add(Fault{At: back, Verb: Restart, Nodes: nodes})); err != nil {
			return err
		}
	}
	return nil
}
