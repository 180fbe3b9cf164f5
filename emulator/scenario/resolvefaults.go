package scenario

import (
	"fmt"
	"slices"
	"time"

	"churnbed/emulator/link"
	"churnbed/node/core"
	"churnbed/node/size"
	"churnbed/node/stack"
	"churnbed/topologies"
	"churnbed/workloads"
)

// downAtStart takes nodes from those that run from the start.
func (r *resolver) downAtStart() {
	if r.spec.DownAtStart == "none" {
		return
	}
	ids, err := parseIDs(r.spec.DownAtStart)
	if err != nil {
		r.bad("down-at-start", "%q: %v", r.spec.DownAtStart, err)
		return
	}
	for _, id := range ids {
		if int(id) >= len(r.up) {
			r.bad("down-at-start", "%q: node %d: want 0 to %d", r.spec.DownAtStart, id, len(r.up)-1)
			return
		}
		r.up[id] = false
	}
	if !slices.Contains(r.up, true) {
		r.bad("down-at-start", "%q: nobody would run", r.spec.DownAtStart)
	}
}

// churnHorizon is when churn ends: about when an unhindered mesh would be done
// with the workload. It ends at all because every death holds up a node's next
// request until the death is confirmed: under churn without end a busy node is
// served once a suspicion time, and in the end the majority is gone.
func (r *resolver) churnHorizon() time.Duration {
	s := &r.spec
	if s.ChurnUntil > 0 {
		return s.ChurnUntil
	}
	if s.Duration > 0 {
		return s.Duration
	}
	if c := r.closed; c != nil {
		think := float64(time.Second) / c.Rate * float64(c.Quota)
		serve := float64(c.CS.Mean) * float64(c.Quota) * float64(len(r.top.Nodes))
		return time.Duration(min(max(think+serve, 1), float64(maxDuration)))
	}
	var last, serve time.Duration
	for _, a := range r.open {
		last = max(last, a.At)
		if serve < maxDuration {
			serve += a.CS
		}
	}
	return max(last+serve, 1)
}

// faultTarget describes a mesh to the fault language.
func faultTarget(top *topologies.Topology, params link.Params) workloads.Target {
	t := workloads.Target{Nodes: len(top.Nodes), Tags: map[string][]core.NodeID{}, Link: params}
	for id := range top.Nodes {
		for _, tag := range top.Nodes[id].Tags {
			t.Tags[tag] = append(t.Tags[tag], core.NodeID(id))
		}
	}
	for i := range top.Links {
		l := &top.Links[i]
		t.Links = append(t.Links, [2]core.NodeID{l.A, l.B})
		t.LinkParams = append(t.LinkParams, [2]link.Params{l.AB.Apply(params), l.BA.Apply(params)})
	}
	return t
}

// rules parses the fault rules; nil stands for a wrong one.
func (r *resolver) rules() []*workloads.Rule {
	rules := make([]*workloads.Rule, len(r.spec.Fault))
	for i, text := range r.spec.Fault {
		rule, err := workloads.ParseFault(text)
		if err != nil {
			r.badAt(r.origin.item("fault", i), "fault", fmt.Sprintf("%q: %v", text, err))
			continue
		}
		rules[i] = &rule
	}
	return rules
}

func (r *resolver) faults(rules []*workloads.Rule) {
	if len(rules) == 0 {
		return
	}
	target := faultTarget(r.top, r.params)
	for i, rule := range rules {
		if rule == nil {
			continue
		}
		// The index counts from 1, as people count the lines of a list.
		faults, err := rule.Expand(target, r.spec.Seed, i+1)
		if err != nil {
			r.badAt(r.origin.item("fault", i), "fault", err.Error())
			continue
		}
		if err := checkFaults(r.group, faults); err != nil && (r.group != nil || !r.spec.grouped()) {
			r.badAt(r.origin.item("fault", i), "fault", fmt.Sprintf("%q: %v", r.spec.Fault[i], err))
		}
		if r.spec.Fabric == "netem" && rule.Set.Burst != nil {
			r.badAt(r.origin.item("fault", i), "fault", fmt.Sprintf("%q: Gilbert-Elliott loss needs the relay: want fabric relay or auto", r.spec.Fault[i]))
		}
		r.schedule = workloads.Merge(r.schedule, faults)
	}
}

// majority warns where the schedule leaves camera without a majority.
func (r *resolver) majority() {
	s := &r.spec
	estimated := s.NUpperFrom == stack.Gossip
	switch {
	case estimated && s.Algorithm != "camera":
		r.bad("n-upper-from", "%q: only camera takes a bound, but algorithm is %s", s.NUpperFrom, s.Algorithm)
		return
	case s.NUpper == 0 && estimated:
		s.NUpper = 1
	case s.NUpper == 0:
		s.NUpper = s.Nodes
	}
	r.algorithm.NUpper = s.NUpper
	if s.Algorithm != "camera" {
		return
	}
	if s.NUpper/2 >= s.Nodes {
		r.bad("n-upper", "%d: a majority needs %d nodes, but there are %d", s.NUpper, s.NUpper/2+1, s.Nodes)
		return
	}
	upper := s.NUpper
	switch {
	case estimated:
		upper = max(upper, int(size.Margin*float64(s.Nodes)))
	case s.NUpper < s.Nodes:
		r.warn("n-upper %d is below the %d nodes of the topology: camera is safe only if no more than that take part at a time", s.NUpper, s.Nodes)
	}
	least, at := leastUp(r.up, r.schedule)
	if least <= upper/2 {
		r.warn("only %d of %d nodes are up %s after the epoch: camera needs %d grants and waits until enough are back", least, s.Nodes, formatDuration(at), upper/2+1)
	}
}

// leastUp returns the least number of nodes that run at a time by the
// schedule, faults by role left out, and when that is first so.
func leastUp(initially []bool, faults []workloads.Fault) (least int, at time.Duration) {
	up := slices.Clone(initially)
	count := 0
	for _, u := range up {
		if u {
			count++
		}
	}
	least = count
	for _, f := range faults {
		for _, n := range f.Nodes {
			was := up[n]
			switch f.Verb {
			case workloads.Crash, workloads.Poweroff, workloads.Leave, workloads.Pause:
				up[n] = false
			case workloads.Resume, workloads.Restart, workloads.Join:
				up[n] = true
			case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set, workloads.Trigger:
			}
			if was && !up[n] {
				count--
			} else if !was && up[n] {
				count++
			}
		}
		if count < least {
			least, at = count, f.At
		}
	}
	return least, at
}
