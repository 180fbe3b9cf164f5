package minimise

import (
	"fmt"
	"strconv"
	"strings"

	"churnbed/emulator/scenario"
	"churnbed/workloads"
)

// item is one thing that can be left out: a fault, a request, or a
// disturbance of all links.
type item struct {
	fault   *workloads.Fault
	arrival *workloads.Arrival
	setting *setting
}

// setting is a disturbance that the scenario configures for the whole run.
type setting struct {
	name string
	off  func(*scenario.Spec)
}

func (it item) String() string {
	switch {
	case it.fault != nil:
		return it.fault.Rule().String()
	case it.arrival != nil:
		return it.arrival.String()
	}
	return it.setting.name
}

// schedule is a scenario taken apart.
type schedule struct {
	base  scenario.Spec
	items []item
}

// takeApart lists everything of sc that happens at a time of its own, in the
// order of time, after the disturbances of all links. Requests that nodes
// draw as they go (a closed workload) cannot be left out one by one: arrivals,
// where given, stand for them.
func takeApart(sc *scenario.Scenario, arrivals []workloads.Arrival) *schedule {
	s := &schedule{base: sc.Spec}
	b := &s.base
	standard := scenario.Default()
	for _, t := range []struct {
		on bool
		setting
	}{
		{b.LinkLoss > 0, setting{"link-loss", func(p *scenario.Spec) { p.LinkLoss = 0 }}},
		{b.LinkLossModel != standard.LinkLossModel, setting{"link-loss-model", func(p *scenario.Spec) { p.LinkLossModel = standard.LinkLossModel }}},
		{b.LinkJitter > 0, setting{"link-jitter", func(p *scenario.Spec) { p.LinkJitter = 0 }}},
		{b.LinkRate > 0, setting{"link-rate", func(p *scenario.Spec) { p.LinkRate = 0 }}},
		{b.Convergence > 0, setting{"convergence", func(p *scenario.Spec) { p.Convergence = 0 }}},
	} {
		if t.on {
			s.items = append(s.items, item{setting: &t.setting})
		}
	}
	if arrivals == nil && sc.Closed == nil {
		arrivals = sc.Arrivals
	}
	if arrivals != nil {
		b.Arrivals = listed
	}
	faults := sc.Faults
	for len(faults) > 0 || len(arrivals) > 0 {
		if len(arrivals) == 0 || len(faults) > 0 && faults[0].At <= arrivals[0].At {
			s.items = append(s.items, item{fault: &faults[0]})
			faults = faults[1:]
			continue
		}
		s.items = append(s.items, item{arrival: &arrivals[0]})
		arrivals = arrivals[1:]
	}
	// Churn becomes faults like others, and nodes that are away at first are
	// named.
	b.Churn, b.TraceFormat, b.ChurnSpeedup, b.ChurnVerb, b.ChurnInitial = standard.Churn, standard.TraceFormat, standard.ChurnSpeedup, standard.ChurnVerb, standard.ChurnInitial
	b.ChurnSample, b.ChurnAtBoundaries, b.ChurnUpMean, b.ChurnDownMean = standard.ChurnSample, false, standard.ChurnUpMean, standard.ChurnDownMean
	b.ChurnHosts, b.ChurnChoose, b.ChurnUntil = standard.ChurnHosts, standard.ChurnChoose, standard.ChurnUntil
	b.Fault, b.Arrival, b.Tags, b.Trials, b.Out = nil, nil, nil, 1, ""
	b.DownAtStart = standard.DownAtStart
	var down []string
	for id, up := range sc.Up {
		if !up {
			down = append(down, strconv.Itoa(id))
		}
	}
	if down != nil {
		b.DownAtStart = strings.Join(down, ",")
	}
	return s
}

// listed is the value of the key arrivals for requests given one by one.
const listed = "list"

// divide splits faults on several nodes or links.
func divide(items []item) []item {
	var parts []item
	for _, it := range items {
		if it.fault == nil {
			parts = append(parts, it)
			continue
		}
		for _, f := range it.fault.Split() {
			parts = append(parts, item{fault: &f})
		}
	}
	return parts
}

// spec puts a part of the items together again. It reports false where
// nothing would happen: no node would ask.
func (s *schedule) spec(part []item) (scenario.Spec, bool) {
	spec := s.base
	spec.Fault, spec.Arrival = nil, nil
	kept := map[*setting]bool{}
	for _, it := range part {
		switch {
		case it.fault != nil:
			spec.Fault = append(spec.Fault, it.fault.Rule().String())
		case it.arrival != nil:
			spec.Arrival = append(spec.Arrival, it.arrival.String())
		default:
			kept[it.setting] = true
		}
	}
	for _, it := range s.items {
		if it.setting != nil && !kept[it.setting] {
			it.setting.off(&spec)
		}
	}
	if spec.Arrivals == listed {
		spec.Requests = len(spec.Arrival)
	}
	return spec, spec.Arrivals != listed || len(spec.Arrival) > 0
}

// resolve makes a scenario of a specification whose every key is given.
func resolve(spec scenario.Spec) (*scenario.Scenario, error) {
	text, err := spec.YAML()
	if err != nil {
		return nil, err
	}
	given, origin, err := scenario.Decode(text, "")
	if err != nil {
		return nil, fmt.Errorf("write the schedule as a scenario: %w", err)
	}
	sc, err := scenario.Resolve(given, origin)
	if err != nil {
		return nil, fmt.Errorf("write the schedule as a scenario: %w", err)
	}
	return sc, nil
}

// Counts says of what a schedule consists.
type Counts struct {
	Faults   int `json:"faults"`
	Nodes    int `json:"nodes"` // named by the faults, each as often as it is
	Requests int `json:"requests"`
	Settings int `json:"settings"` // of all links: loss, jitter, rate, convergence
}

func count(items []item) Counts {
	var c Counts
	for _, it := range items {
		switch {
		case it.fault != nil:
			c.Faults++
			c.Nodes += len(it.fault.Nodes) + it.fault.Count
		case it.arrival != nil:
			c.Requests++
		default:
			c.Settings++
		}
	}
	return c
}
