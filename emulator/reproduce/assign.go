package reproduce

import (
	"fmt"
	"math"
	"slices"

	"churnbed/emulator/scenario"
	"churnbed/node/core"
	"churnbed/node/kgroup"
	"churnbed/results/reproduce"
	"churnbed/topologies"
)

// Sizes of what is drawn from the assignments of one seed.
const (
	assignedEpochs = 40
	hopsEpochs     = 5 // of the mean over all groups, on large meshes
	failureDraws   = 200
)

// assigned is what the smart nodes of a scenario would be assigned, epoch by
// epoch, by equal lists: a function of the scenario, without a run.
type assigned struct {
	sc *scenario.Scenario
	// epochs[e][g] are the members of group g, the leader first.
	epochs [][][]core.NodeID
}

func assign(sc *scenario.Scenario, epochs int) (*assigned, error) {
	if sc.Group == nil {
		return nil, fmt.Errorf("algorithm %s has no groups", sc.Algorithm.Name)
	}
	a, selector := &assigned{sc: sc}, kgroup.NewSelector(sc.Group, sc.Seed)
	for e := range uint64(epochs) {
		var groups [][]core.NodeID
		for g := range sc.Group.Groups() {
			groups = append(groups, selector.Members(kgroup.Group(g), e+1, sc.Group.Smart, nil))
		}
		a.epochs = append(a.epochs, groups)
	}
	return a, nil
}

// figure computes a figure of the assignments at x.
func (a *assigned) figure(name string, x float64) float64 {
	switch name {
	case reproduce.Survived:
		return a.survived(int(x))
	case reproduce.MemberTime:
		return a.timeIn(x, func(members []core.NodeID) []core.NodeID { return members })
	case reproduce.LeaderTime:
		return a.timeIn(x, func(members []core.NodeID) []core.NodeID { return members[:1] })
	case reproduce.GroupsAtOnce:
		return a.groupsAtOnce(x)
	case reproduce.QuorumHops:
		return a.hops(a.sc.Group.F)
	case reproduce.MemberHops:
		return a.hops(2 * a.sc.Group.F)
	default:
		return math.NaN()
	}
}

// survived is the share of draws, another epoch each, in which every group
// keeps more than f members though so many smart nodes fail at once.
func (a *assigned) survived(failed int) float64 {
	smart := a.sc.Group.Smart
	rng := core.Stream(a.sc.Seed, fmt.Sprintf("failures/%d", failed))
	whole := 0
	for draw := range failureDraws {
		down := map[core.NodeID]bool{}
		for _, i := range rng.Perm(len(smart))[:min(failed, len(smart))] {
			down[smart[i]] = true
		}
		lost := slices.ContainsFunc(a.epochs[draw%len(a.epochs)], func(members []core.NodeID) bool {
			up := 0
			for _, id := range members {
				if !down[id] {
					up++
				}
			}
			return up <= a.sc.Group.F
		})
		if !lost {
			whole++
		}
	}
	return float64(whole) / failureDraws
}

// timeIn is the share of smart nodes that are in a role of any group for at
// most x % of the epochs.
func (a *assigned) timeIn(x float64, role func(members []core.NodeID) []core.NodeID) float64 {
	epochs := map[core.NodeID]int{}
	for _, groups := range a.epochs {
		in := map[core.NodeID]bool{}
		for _, members := range groups {
			for _, id := range role(members) {
				in[id] = true
			}
		}
		for id := range in {
			epochs[id]++
		}
	}
	few := 0
	for _, id := range a.sc.Group.Smart {
		if float64(epochs[id]) <= x/100*float64(len(a.epochs)) {
			few++
		}
	}
	return float64(few) / float64(len(a.sc.Group.Smart))
}

// groupsAtOnce is the share of pairs of a smart node and an epoch in which it
// serves at most x groups.
func (a *assigned) groupsAtOnce(x float64) float64 {
	few := 0
	for _, groups := range a.epochs {
		serves := map[core.NodeID]int{}
		for _, members := range groups {
			for _, id := range members {
				serves[id]++
			}
		}
		for _, id := range a.sc.Group.Smart {
			if float64(serves[id]) <= x {
				few++
			}
		}
	}
	return float64(few) / float64(len(a.epochs)*len(a.sc.Group.Smart))
}

// hops is the mean number of hops from a leader to the nearest other members,
// so many of them.
func (a *assigned) hops(nearest int) float64 {
	t := a.sc.Topology
	routes := topologies.ComputeRoutes(t, topologies.Hops, func(core.NodeID) bool { return true }, func(int) bool { return true }, nil)
	var sum, n float64
	for _, groups := range a.epochs {
		for _, members := range groups {
			var to []int
			for _, id := range members[1:] {
				to = append(to, routes.Hops(members[0], id))
			}
			slices.Sort(to)
			for _, h := range to[:min(nearest, len(to))] {
				sum += float64(h)
				n++
			}
		}
	}
	return sum / n
}

// survival is what the closed form says of a scenario with so many failures,
// and the standard error that drawing it leaves.
func survival(sc *scenario.Scenario, failed, trials int) reproduce.Estimate {
	g := sc.Group
	p := kgroup.Availability(len(g.Smart), failed, g.F, g.Groups())
	draws := float64(max(1, trials) * failureDraws)
	return reproduce.Estimate{N: int(draws), Mean: p, SE: max(math.Sqrt(p*(1-p)/draws), 1/draws), Messages: math.NaN()}
}
