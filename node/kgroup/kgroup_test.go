package kgroup

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"churnbed/node/core"
)

// mesh is a configuration of n devices in a square, every smart-th of them smart.
func mesh(n, smart, groups, f int, policy string, seed uint64) *Config {
	rng := core.Stream(seed, "places")
	c := &Config{F: f, Policy: policy, Locks: SLA, Ping: time.Second, Tries: 3, Epoch: time.Minute}
	side := math.Sqrt(float64(n))
	for i := range n {
		c.Places = append(c.Places, Place{rng.Float64() * side, rng.Float64() * side})
		if len(c.Smart) < smart && i*smart/n >= len(c.Smart) {
			c.Smart = append(c.Smart, core.NodeID(i))
		}
	}
	c.Of, c.Centres = Cluster(c.Places, groups, core.Stream(seed, "clusters"))
	return c
}

func TestEqualListsEqualGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom(Policies()).Draw(t, "policy")
		f := rapid.IntRange(0, 3).Draw(t, "f")
		n := rapid.IntRange(10, 80).Draw(t, "n")
		smart := rapid.IntRange(2*f+1, n).Draw(t, "smart")
		cfg := mesh(n, smart, rapid.IntRange(1, 8).Draw(t, "groups"), f, policy, rapid.Uint64().Draw(t, "seed"))
		cfg.LSH.Noise = rapid.SampledFrom([]float64{0, .1, 3}).Draw(t, "noise")
		if err := cfg.Validate(); err != nil {
			t.Skip(err.Error())
		}
		epoch := rapid.Uint64Range(1, 1000).Draw(t, "epoch")
		shuffled := slices.Clone(cfg.Smart)
		rng := core.Stream(uint64(n), "shuffle")
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		one, other := NewSelector(cfg, 7), NewSelector(cfg, 7)
		for g := range cfg.Groups() {
			a := one.Members(Group(g), epoch, cfg.Smart, nil)
			b := other.Members(Group(g), epoch, shuffled, nil)
			if !slices.Equal(a, b) {
				t.Fatalf("group %d: %v and %v from equal lists", g, a, b)
			}
			if len(a) != cfg.K() {
				t.Fatalf("group %d has %d members, want %d", g, len(a), cfg.K())
			}
			if s := slices.Sorted(slices.Values(a)); len(slices.Compact(s)) != len(a) {
				t.Fatalf("group %d: a member twice: %v", g, a)
			}
			for i := 1; i < len(a); i++ {
				if Rank(epoch, a[i-1], Group(g)) > Rank(epoch, a[i], Group(g)) {
					t.Fatalf("group %d: not by rank: %v", g, a)
				}
			}
		}
	})
}

// TestHashFailure: without one member only that member is replaced (hash), so
// that the others' state stays where it is.
func TestHashFailure(t *testing.T) {
	cfg := mesh(100, 60, 4, 2, Hash, 3)
	s := NewSelector(cfg, 1)
	for g := range cfg.Groups() {
		before := s.Members(Group(g), 5, cfg.Smart, nil)
		lost := before[2]
		list := slices.DeleteFunc(slices.Clone(cfg.Smart), func(id core.NodeID) bool { return id == lost })
		after := s.Members(Group(g), 5, list, nil)
		kept := 0
		for _, id := range after {
			if slices.Contains(before, id) {
				kept++
			}
		}
		if kept != cfg.K()-1 || slices.Contains(after, lost) {
			t.Errorf("group %d: %v became %v without %d", g, before, after, lost)
		}
	}
}

// spread returns how close the members of all groups are to their target, and
// how many groups the busiest node serves on average over epochs.
func spread(cfg *Config, epochs uint64) (near, busiest float64, share []float64) {
	s := NewSelector(cfg, 11)
	served := make([]float64, len(cfg.Places))
	var dist float64
	for e := range epochs {
		one := make([]int, len(cfg.Places))
		for g := range cfg.Groups() {
			for _, id := range s.Members(Group(g), e+1, cfg.Smart, nil) {
				dist += Distance(cfg.Places[id], cfg.Centres[g])
				one[id]++
				served[id]++
			}
		}
		busiest += float64(slices.Max(one))
	}
	for _, id := range cfg.Smart {
		share = append(share, served[id]/float64(epochs))
	}
	slices.Sort(share)
	return dist / float64(int(epochs)*cfg.Groups()*cfg.K()), busiest / float64(epochs), share
}

// TestLoad compares the policies as CoMesh's load figures do: by hash every
// node serves about equally long (temporal load), near selection serves from
// nearby and so some nodes carry more and some none; the distribution
// functions cross once, and the mix lies between in distance.
func TestLoad(t *testing.T) {
	const epochs = 40
	near := map[string]float64{}
	load := map[string][]float64{}
	for _, policy := range Policies() {
		cfg := mesh(250, 100, 10, 2, policy, 5)
		near[policy], _, load[policy] = spread(cfg, epochs)
	}
	t.Logf("mean distance to the target: %v", near)
	if !(near[LSH] < near[LSHMix] && near[LSHMix] < near[Hash]) {
		t.Errorf("mean distance to the target by policy: %v: want lsh < lsh-mix < hash", near)
	}
	h, l := load[Hash], load[LSH]
	last := len(h) - 1
	if !(l[0] < h[0] && l[last] > h[last]) {
		t.Errorf("load by hash %.2f to %.2f, by lsh %.2f to %.2f: want lsh wider at both ends", h[0], h[last], l[0], l[last])
	}
	crossings := 0
	for i := 1; i <= last; i++ {
		if (l[i-1] < h[i-1]) != (l[i] < h[i]) {
			crossings++
		}
	}
	t.Logf("load by hash %.2f..%.2f, by lsh %.2f..%.2f, %d crossings", h[0], h[last], l[0], l[last], crossings)
	if crossings != 1 {
		t.Errorf("the distributions of load cross %d times, want once", crossings)
	}
}

// TestNoise: noise has near nodes take turns; more of them serve, and they are
// near still.
func TestNoise(t *testing.T) {
	const epochs = 40
	idle := map[float64]int{}
	near := map[float64]float64{}
	for _, noise := range []float64{0, 2} {
		cfg := mesh(250, 100, 10, 2, LSH, 5)
		cfg.LSH.Noise = noise
		var share []float64
		near[noise], _, share = spread(cfg, epochs)
		for _, s := range share {
			if s < .2 {
				idle[noise]++ // serves hardly ever
			}
		}
	}
	far, _, _ := spread(mesh(250, 100, 10, 2, Hash, 5), epochs)
	t.Logf("idle nodes by noise %v, mean distance %v, by hash %.2f", idle, near, far)
	if idle[2] >= idle[0] || near[2] > .8*far {
		t.Errorf("idle nodes by noise %v, mean distance %v, by hash %.2f: want fewer, and near", idle, near, far)
	}
}

// TestNearLeads: with NearLeads the same members serve in another order, and
// the leader is one of the f+1 that are near.
func TestNearLeads(t *testing.T) {
	cfg := mesh(250, 100, 10, 2, LSHMix, 5)
	first := *cfg
	first.NearLeads = true
	byHash, byPlace := NewSelector(cfg, 3), NewSelector(&first, 3)
	var far, near float64
	for epoch := uint64(1); epoch <= 20; epoch++ {
		for g := range cfg.Groups() {
			a := byHash.Members(Group(g), epoch, cfg.Smart, nil)
			b := byPlace.Members(Group(g), epoch, cfg.Smart, nil)
			far += Distance(cfg.Places[a[0]], cfg.Centres[g])
			near += Distance(cfg.Places[b[0]], cfg.Centres[g])
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(a, b) {
				t.Fatalf("epoch %d, group %d: members %v and %v", epoch, g, a, b)
			}
		}
	}
	if near > far/2 {
		t.Errorf("leaders at %.1f m by place, %.1f m by hash: want less than half", near/200, far/200)
	}
}

func TestCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		k := rapid.IntRange(1, n).Draw(t, "k")
		places := make([]Place, n)
		for i := range places {
			places[i] = Place{float64(rapid.IntRange(0, 4).Draw(t, "x")), float64(rapid.IntRange(0, 4).Draw(t, "y"))}
		}
		of, centres := Cluster(places, k, core.Stream(1, "clusters"))
		again, _ := Cluster(places, k, core.Stream(1, "clusters"))
		if !slices.Equal(of, again) {
			t.Fatal("two runs differ")
		}
		size := make([]int, len(centres))
		for _, g := range of {
			size[g]++
		}
		if len(centres) != k || slices.Min(size) == 0 {
			t.Fatalf("%d groups of sizes %v, want %d that are not empty", len(centres), size, k)
		}
	})
}

func TestClusterFindsRooms(t *testing.T) {
	var places []Place
	for room := range 4 {
		for i := range 10 {
			places = append(places, Place{float64(room * 50), float64(i % 3), float64(i % 2)})
		}
	}
	of, _ := Cluster(places, 4, core.Stream(2, "clusters"))
	for i := range places {
		if of[i] != of[i/10*10] {
			t.Fatalf("device %d is in group %d, its room in %d", i, of[i], of[i/10*10])
		}
	}
}

// survivedShare draws failed of the smart nodes, trials times, another epoch each,
// and returns the share of trials in which every real group of the epoch
// kept more than f members.
func survivedShare(s *Selector, failed, trials int, rng *rand.Rand) float64 {
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

// TestAvailability compares the closed formula with drawing failures over
// real assignments.
func TestAvailability(t *testing.T) {
	for _, c := range []struct{ smart, failed, f, groups int }{
		{50, 2, 2, 4}, {50, 5, 2, 4}, {50, 15, 2, 4}, {50, 20, 1, 2}, {100, 30, 2, 10}, {30, 12, 3, 2}, {40, 10, 0, 1},
	} {
		t.Run(fmt.Sprintf("%d of %d, f %d, %d groups", c.failed, c.smart, c.f, c.groups), func(t *testing.T) {
			cfg := mesh(100, c.smart, c.groups, c.f, Hash, 9)
			const trials = 2000
			got := survivedShare(NewSelector(cfg, 1), c.failed, trials, core.Stream(4, "failures"))
			want := Availability(c.smart, c.failed, c.f, c.groups)
			// Four standard errors, and something for groups of one mesh not
			// being independent.
			if tolerance := 4*math.Sqrt(want*(1-want)/trials) + 0.02; math.Abs(got-want) > tolerance {
				t.Errorf("measured %.3f, formula %.3f", got, want)
			}
			t.Logf("measured %.3f, formula %.3f", got, want)
		})
	}
}

func TestGenerate(t *testing.T) {
	for _, conflict := range []float64{0, 1} {
		routines := Generate(Generated{Count: 40, MeanDevices: 4, Conflict: conflict, Every: 10 * time.Second, Takes: time.Second, States: 0.25}, 250, core.Stream(1, "routines"))
		cfg := mesh(250, 100, 10, 2, Hash, 1)
		cfg.Routines = routines
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		devices, pairs := 0, 0
		for i := range routines {
			devices += len(routines[i].Commands)
			for j := range i {
				if routines[i].Shares(&routines[j]) {
					pairs++
				}
			}
		}
		if mean := float64(devices) / 40; mean < 3 || mean > 5 {
			t.Errorf("mean %.1f devices, want about 4", mean)
		}
		share := float64(pairs) / (40 * 39 / 2)
		if conflict == 0 && share > 0.2 || conflict == 1 && share < 0.9 {
			t.Errorf("conflict degree %v: %.2f of the pairs share a device", conflict, share)
		}
	}
}
