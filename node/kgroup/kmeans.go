package kgroup

import (
	"math"
	"math/rand/v2"
	"slices"
)

// rounds bounds Lloyd's iterations; meshes of thousands settle in a few dozen.
const rounds = 200

// Cluster divides places into n groups by k-means (Lloyd 1982, seeded as
// k-means++ by Arthur and Vassilvitskii 2007) and returns the group of each
// and the mean place of each group. Every group has at least one place.
// n is cut to 1..len(places).
func Cluster(places []Place, n int, rng *rand.Rand) (of []Group, centres []Place) {
	if len(places) == 0 {
		return nil, nil
	}
	n = min(max(n, 1), len(places))
	centres = scatter(places, n, rng)
	of = make([]Group, len(places))
	for range rounds {
		moved := false
		for i, p := range places {
			if g := nearest(p, centres); g != of[i] {
				of[i], moved = g, true
			}
		}
		moved = fill(places, of, centres) || moved
		centres = means(places, of, n)
		if !moved {
			break
		}
	}
	return of, centres
}

// scatter draws n distinct first centres, far ones more likely.
func scatter(places []Place, n int, rng *rand.Rand) []Place {
	taken := make([]bool, len(places))
	first := rng.IntN(len(places))
	taken[first] = true
	centres := []Place{places[first]}
	weight := make([]float64, len(places))
	for i := range weight {
		weight[i] = math.Inf(1)
	}
	for len(centres) < n {
		var sum float64
		for i, p := range places {
			d := Distance(p, centres[len(centres)-1])
			weight[i] = min(weight[i], d*d)
			if !taken[i] {
				sum += weight[i]
			}
		}
		next := -1
		for i, left := 0, rng.Float64()*sum; i < len(places); i++ {
			if taken[i] {
				continue
			}
			next = i
			if left -= weight[i]; left < 0 {
				break
			}
		}
		taken[next] = true
		centres = append(centres, places[next])
	}
	return centres
}

func nearest(p Place, centres []Place) Group {
	best, at := math.Inf(1), Group(0)
	for g, c := range centres {
		if d := Distance(p, c); d < best {
			best, at = d, Group(g)
		}
	}
	return at
}

// fill gives each empty group the place that lies farthest from its own
// centre, among groups that have more than one.
func fill(places []Place, of []Group, centres []Place) (moved bool) {
	size := make([]int, len(centres))
	for _, g := range of {
		size[g]++
	}
	for {
		empty := slices.Index(size, 0)
		if empty < 0 {
			return moved
		}
		worst, at := -1.0, 0
		for i, p := range places {
			if d := Distance(p, centres[of[i]]); size[of[i]] > 1 && d > worst {
				worst, at = d, i
			}
		}
		size[of[at]]--
		size[empty]++
		of[at], moved = Group(empty), true
	}
}

func means(places []Place, of []Group, n int) []Place {
	centres := make([]Place, n)
	count := make([]float64, n)
	for i, p := range places {
		for j := range p {
			centres[of[i]][j] += p[j]
		}
		count[of[i]]++
	}
	for g := range centres {
		for j := range centres[g] {
			centres[g][j] /= count[g]
		}
	}
	return centres
}
