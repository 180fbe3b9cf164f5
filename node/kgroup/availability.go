package kgroup

import "math"

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
