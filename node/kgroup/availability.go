package kgroup

import (
	"math"
	"math/rand/v2"

	"churnbed/node/core"
)

// Availability is the chance that all of groups k-groups, k = 2f+1, keep more
// than f members when failed of smart nodes fail at once, members being drawn
// at random: 1 where failed <= f, else the sum over i = f+1..k of
// C(smart-failed, i) C(failed, k-i) / C(smart, k), to the power of groups
// (ALGORITHMS 7). It takes the groups to fail independently, which groups of
// one mesh do only nearly.
func Availability(smart, failed, f, groups int) float64 {
	if failed <= f {
		return 1
	}
	k := 2*f + 1
	var sum float64
	for i := f + 1; i <= k; i++ {
		sum += math.Exp(choose(smart-failed, i) + choose(failed, k-i) - choose(smart, k))
	}
	return math.Pow(min(sum, 1), float64(groups))
}

// choose is the logarithm of a binomial coefficient.
func choose(n, k int) float64 {
	if k < 0 || k > n {
		return math.Inf(-1)
	}
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// Survived draws failed of the smart nodes, trials times, another epoch each,
// and returns the share of trials in which every real group of the epoch
// kept more than f members.
func Survived(s *Selector, failed, trials int, rng *rand.Rand) float64 {
	smart := s.cfg.Smart
	down := make(map[core.NodeID]bool, failed)
	survived := 0
	var members []core.NodeID
	for trial := range trials {
		clear(down)
		for _, i := range rng.Perm(len(smart))[:failed] {
			down[smart[i]] = true
		}
		whole := true
		for g := 0; g < s.cfg.Groups() && whole; g++ {
			members = s.Members(Group(g), uint64(trial)+1, smart, members[:0])
			up := 0
			for _, id := range members {
				if !down[id] {
					up++
				}
			}
			whole = up > s.cfg.F
		}
		if whole {
			survived++
		}
	}
	return float64(survived) / float64(trials)
}
