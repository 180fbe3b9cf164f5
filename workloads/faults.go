package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// Roles by which Fault.Role chooses nodes at run time.
const (
	RoleHolder = "holder" // in the critical section; with k-groups: runs a routine that holds a device's lock
	RoleWaiter = "waiter" // asked and not yet in; with k-groups: runs a routine that waits for a lock
	RoleLeader = "leader" // with k-groups: serves a group
	RoleIdle   = "idle"   // none of these
)

// Standing is what a node is now, as far as roles go.
type Standing struct{ Joined, Holds, Waits, Leads bool }

// In reports whether the node has a role.
func (s Standing) In(role string) bool {
	switch role {
	case RoleHolder:
		return s.Holds
	case RoleWaiter:
		return s.Waits
	case RoleLeader:
		return s.Leads
	case RoleIdle:
		return s.Joined && !s.Holds && !s.Waits && !s.Leads
	}
	return false
}

// Merge joins schedules into one, ascending by time. Faults of the same
// instant keep their order, those of earlier schedules first.
func Merge(schedules ...[]Fault) []Fault {
	merged := slices.Concat(schedules...)
	slices.SortStableFunc(merged, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return merged
}

// Validate reports every fault of a schedule that cannot be carried out on a
// mesh of so many nodes: out of order, an unknown verb, node or role, values
// out of range. Whether links exist is not known here; Rule.Expand checks it.
func Validate(faults []Fault, nodes int) error {
	var errs []error
	last := time.Duration(0)
	for i, f := range faults {
		if err := f.validate(nodes); err != nil {
			source := f.Source
			if source == "" {
				source = fmt.Sprintf("fault %d", i)
			}
			errs = append(errs, fmt.Errorf("%s (%s at %v): %w", source, f.Verb, f.At, err))
		}
		if f.At < last {
			errs = append(errs, fmt.Errorf("fault %d at %v comes after one at %v: must ascend", i, f.At, last))
		}
		last = max(last, f.At)
	}
	return errors.Join(errs...)
}

func (f Fault) validate(nodes int) error {
	if f.At < 0 {
		return errors.New("time must be >= 0")
	}
	if f.After < 0 {
		return fmt.Errorf("after %v: must be >= 0", f.After)
	}
	for _, n := range f.Nodes {
		if err := knownNode(n, nodes); err != nil {
			return err
		}
	}
	for _, l := range f.Links {
		if err := errors.Join(knownNode(l[0], nodes), knownNode(l[1], nodes)); err != nil {
			return err
		}
		if l[0] == l[1] || l[0] > l[1] && !f.OneWay {
			return fmt.Errorf("link %d-%d: the smaller node comes first", l[0], l[1])
		}
	}
	if f.OneWay && (f.Verb != Set || len(f.Links) == 0) {
		return errors.New("one direction is chosen only with set on named links")
	}
	switch f.Role {
	case "":
		if f.Count != 0 || f.After != 0 {
			return errors.New("count and after are allowed only with a role")
		}
	case RoleHolder, RoleWaiter, RoleLeader, RoleIdle:
		switch {
		case f.Count < 1 || f.Count > nodes:
			return fmt.Errorf("count %d of %s: allowed are 1..%d", f.Count, f.Role, nodes)
		case len(f.Nodes) > 0:
			return errors.New("nodes and a role exclude each other")
		case !slices.Contains(roleVerbs, f.Verb):
			return fmt.Errorf("a role is allowed only with %v", roleVerbs)
		}
	default:
		return fmt.Errorf("role %q: allowed are holder, waiter, leader, idle", f.Role)
	}
	switch f.Verb {
	case Crash, Poweroff, Pause, Resume, Restart, Leave, Join:
		if len(f.Nodes) == 0 && f.Role == "" {
			return errors.New("no nodes named")
		}
	case LinkDown, LinkUp:
		if len(f.Links) == 0 {
			return errors.New("no links named")
		}
	case Partition:
		return validGroups(f.Groups, nodes)
	case Heal:
	case Trigger:
		if f.Routine < 0 {
			return fmt.Errorf("routine %d: must be >= 0", f.Routine)
		}
	case Set:
		if f.Set == (link.Override{}) {
			return errors.New("nothing to set")
		}
		return validOverride(f.Set)
	default:
		return fmt.Errorf("unknown verb %q", f.Verb)
	}
	return nil
}

// roleVerbs are the verbs that make sense on a running node.
var roleVerbs = []Verb{Crash, Poweroff, Pause, Leave}

func knownNode(n core.NodeID, nodes int) error {
	if n < 0 || int(n) >= nodes {
		return fmt.Errorf("unknown node %d: allowed are 0..%d", n, nodes-1)
	}
	return nil
}

// validGroups checks the groups of a partition.
func validGroups(groups [][]core.NodeID, nodes int) error {
	group := make(map[core.NodeID]int)
	for i, g := range groups {
		if len(g) == 0 {
			return fmt.Errorf("group %d of the partition is empty", i+1)
		}
		for _, n := range g {
			if err := knownNode(n, nodes); err != nil {
				return err
			}
			if j, ok := group[n]; ok && j != i {
				return fmt.Errorf("node %d is in groups %d and %d of the partition", n, j+1, i+1)
			}
			group[n] = i
		}
	}
	if len(groups) == 0 || len(groups) == 1 && len(group) == nodes {
		return errors.New("the partition separates nobody")
	}
	return nil
}

// validOverride checks link parameters.
func validOverride(o link.Override) error {
	share := func(f float64) bool { return f >= 0 && f <= 1 } // false for NaN
	switch {
	case o.Delay != nil && *o.Delay < 0:
		return fmt.Errorf("delay %v: must be >= 0", *o.Delay)
	case o.Jitter != nil && *o.Jitter < 0:
		return fmt.Errorf("jitter %v: must be >= 0", *o.Jitter)
	case o.Dist != nil && *o.Dist != link.Uniform && *o.Dist != link.Normal:
		return fmt.Errorf("jitter distribution %q: allowed are uniform, normal", *o.Dist)
	case o.Loss != nil && !share(*o.Loss):
		return fmt.Errorf("loss %v: allowed are 0..1", *o.Loss)
	case o.Rate != nil && *o.Rate < 0:
		return fmt.Errorf("rate %d bit/s: must be >= 0", *o.Rate)
	}
	if b := o.Burst; b != nil {
		for _, f := range []float64{b.P, b.R, b.Good, b.Bad} {
			if !share(f) {
				return fmt.Errorf("burst loss %+v: allowed are 0..1 each", *b)
			}
		}
	}
	return nil
}

// shareOf returns so many percent of n, rounded to the nearest, at least one.
func shareOf(percent float64, n int) int {
	return min(n, max(1, int(math.Round(percent/100*float64(n)))))
}

// LastOf returns when the last arrival or the last fault of a rule is due,
// after the epoch: a run lasts at least so long. Churn goes on behind the
// workload and is left out.
func LastOf(arrivals []Arrival, faults []Fault) time.Duration {
	var last time.Duration
	for i := range arrivals {
		last = max(last, arrivals[i].At)
	}
	for i := range faults {
		if faults[i].Source != ChurnSource && faults[i].Source != EdgeSource {
			last = max(last, faults[i].At)
		}
	}
	return last
}

// Both engines wait so long, in scenario time: RolePatience for somebody to
// take the role that a fault is meant for, LeaveTimeout for a node to leave
// before it is killed.
const (
	RolePatience = 30 * time.Second
	LeaveTimeout = 10 * time.Second
)
