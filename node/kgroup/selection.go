package kgroup

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"churnbed/node/core"
)

// LSHConfig tunes locality-sensitive hashing; see Defaults.
type LSHConfig struct {
	Functions int     `json:"m"` // concatenated in one table
	Tables    int     `json:"l"`
	Width     float64 `json:"r"` // of a bucket, metres
	// Noise is the standard deviation, metres, of what is added to each
	// coordinate of a smart node's vector, anew in each epoch: near nodes then
	// take turns. All nodes draw the same from the run's seed.
	Noise float64 `json:"noise,omitempty"`
}

// Defaults fills zero fields: 2 functions, 2 tables, width 4 m.
func (c LSHConfig) Defaults() LSHConfig {
	c.Functions = cmp.Or(c.Functions, 2)
	c.Tables = cmp.Or(c.Tables, 2)
	c.Width = cmp.Or(c.Width, 4)
	return c
}

// Rank is the place of smart node s in the group of target g in an epoch:
// the first eight bytes of SHA-256(epoch, s, g). Lower comes first; the
// lowest one alive leads.
func Rank(epoch uint64, s core.NodeID, g Group) uint64 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], epoch)
	binary.BigEndian.PutUint32(b[8:], uint32(s))
	binary.BigEndian.PutUint32(b[12:], uint32(g))
	h := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(h[:])
}

// Selector computes groups. Its random vectors come from the run's seed, so
// that all nodes have the same.
type Selector struct {
	cfg       *Config
	seed      uint64
	a         [][vector]float64 // by table and function
	b         []float64
	functions int     // of a table
	centres   []place // by group
	near      [][]Group
	// What places gave last: all groups of an epoch ask for the same.
	memo struct {
		epoch uint64
		list  []core.NodeID
		out   []place
	}
}

// A vector is the place of a node, and the mean place of what it monitors.
const vector = 6

// place is a vector and its buckets, by table and function.
type place struct {
	at      [vector]float64
	buckets []float64
}

// NewSelector returns the selector of a run.
func NewSelector(cfg *Config, seed uint64) *Selector {
	s := &Selector{cfg: cfg, seed: seed, near: make([][]Group, len(cfg.Centres))}
	l := cfg.LSH.Defaults()
	s.functions = l.Functions
	rng := core.Stream(seed, "lsh")
	for range l.Tables * l.Functions {
		var a [vector]float64
		for i := range a {
			a[i] = rng.NormFloat64() // 2-stable (Datar et al. 2004)
		}
		s.a = append(s.a, a)
		s.b = append(s.b, rng.Float64()*l.Width)
	}
	for _, c := range cfg.Centres {
		s.centres = append(s.centres, s.place(c, c))
	}
	return s
}

// Members appends the group of target g in an epoch among the smart nodes of
// list, in the order in which they lead: by their ranks or, with NearLeads,
// those near the target first, by their ranks. It is shorter than k only where list is.
func (s *Selector) Members(g Group, epoch uint64, list []core.NodeID, out []core.NodeID) []core.NodeID {
	k, f := s.cfg.K(), s.cfg.F
	ranks := make([]ranked, len(list))
	for i, id := range list {
		ranks[i] = ranked{Rank(epoch, id, g), id}
	}
	chosen := make([]ranked, 0, k)
	switch s.cfg.Policy {
	case LSH:
		chosen = s.nearest(g, epoch, list, ranks, k, chosen)
	case LSHMix:
		chosen = s.nearest(g, epoch, list, ranks, f+1, chosen)
	case Central:
		chosen = s.central(g, ranks, k)
	}
	near := len(chosen)
	rest := make([]ranked, 0, k)
	for _, r := range ranks {
		if !slices.Contains(chosen, r) {
			rest = keepLowest(rest, r, k-len(chosen))
		}
	}
	chosen = append(chosen, rest...)
	if s.cfg.NearLeads {
		slices.SortFunc(chosen[:near], byRank) // the rest is sorted
	} else {
		slices.SortFunc(chosen, byRank)
	}
	for _, r := range chosen {
		out = append(out, r.id)
	}
	return out
}

// ranked is a smart node and its rank in a group.
type ranked struct {
	rank uint64
	id   core.NodeID
}

func byRank(a, b ranked) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id)) }

// keepLowest inserts r into the sorted list of the want lowest.
func keepLowest(lowest []ranked, r ranked, want int) []ranked {
	if n := len(lowest); n == want {
		if n == 0 || byRank(r, lowest[n-1]) >= 0 {
			return lowest
		}
		lowest = lowest[:n-1]
	}
	at, _ := slices.BinarySearchFunc(lowest, r, byRank)
	return slices.Insert(lowest, at, r)
}

// central returns the k nodes nearest to the middle of the target.
func (s *Selector) central(g Group, ranks []ranked, k int) []ranked {
	from := func(r ranked) float64 { return Distance(s.cfg.Centres[g], s.cfg.Places[r.id]) }
	all := slices.Clone(ranks)
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(from(a), from(b)), byRank(a, b)) })
	return all[:min(k, len(all))]
}

// nearest appends up to want smart nodes near the target: those of its bucket
// in any table, the nearest first; then those that neighbouring groups find;
// the caller fills up by rank.
func (s *Selector) nearest(g Group, epoch uint64, list []core.NodeID, ranks []ranked, want int, out []ranked) []ranked {
	type candidate struct {
		distance float64
		ranked
	}
	places := s.places(epoch, list)
	own := &s.centres[g].at
	var found []candidate
	for _, target := range s.neighbours(g) {
		if len(out) >= want {
			break
		}
		found = found[:0]
		q := &s.centres[target]
		for i := range list {
			if s.collide(q, &places[i]) && !slices.Contains(out, ranks[i]) {
				found = append(found, candidate{distance(own, &places[i].at), ranks[i]})
			}
		}
		slices.SortFunc(found, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.distance, b.distance), byRank(a.ranked, b.ranked))
		})
		for _, c := range found[:min(len(found), want-len(out))] {
			out = append(out, c.ranked)
		}
	}
	return out
}

// neighbours lists all groups, the nearest to g (itself) first.
func (s *Selector) neighbours(g Group) []Group {
	if s.near[g] != nil {
		return s.near[g]
	}
	all := make([]Group, len(s.cfg.Centres))
	for i := range all {
		all[i] = Group(i)
	}
	slices.SortStableFunc(all, func(a, b Group) int {
		return cmp.Compare(Distance(s.cfg.Centres[g], s.cfg.Centres[a]), Distance(s.cfg.Centres[g], s.cfg.Centres[b]))
	})
	s.near[g] = all
	return all
}

// places of the smart nodes of list, in its order: where each is, and the mean
// place of what it monitored in the epoch before. So that no history is
// needed, which nodes that joined late would lack, that epoch's groups are
// taken to have been chosen by rank alone. A node that had none has its own
// place there.
func (s *Selector) places(epoch uint64, list []core.NodeID) []place {
	if m := &s.memo; m.out != nil && m.epoch == epoch && slices.Equal(m.list, list) {
		return m.out
	}
	sum := make(map[core.NodeID]*[4]float64, len(list))
	lowest := make([]ranked, 0, s.cfg.K())
	for g := range s.cfg.Centres {
		lowest = lowest[:0]
		for _, id := range list {
			lowest = keepLowest(lowest, ranked{Rank(epoch-1, id, Group(g)), id}, s.cfg.K())
		}
		for _, r := range lowest {
			m := sum[r.id]
			if m == nil {
				m = &[4]float64{}
				sum[r.id] = m
			}
			for i, x := range s.cfg.Centres[g] {
				m[i] += x
			}
			m[3]++
		}
	}
	out := make([]place, len(list))
	for i, id := range list {
		own := s.cfg.Places[id]
		seen := own
		if m := sum[id]; m != nil {
			seen = Place{m[0] / m[3], m[1] / m[3], m[2] / m[3]}
		}
		if noise := s.cfg.LSH.Noise; noise > 0 {
			rng := core.Stream(s.seed, fmt.Sprintf("lsh-noise/%d/%d", epoch, id))
			for k := range own {
				own[k] += noise * rng.NormFloat64()
				seen[k] += noise * rng.NormFloat64()
			}
		}
		out[i] = s.place(own, seen)
	}
	s.memo.epoch, s.memo.list, s.memo.out = epoch, slices.Clone(list), out
	return out
}

// place computes a vector's buckets: floor((a.v+b)/r) by each function.
func (s *Selector) place(own, seen Place) place {
	p := place{at: [vector]float64{own[0], own[1], own[2], seen[0], seen[1], seen[2]}, buckets: make([]float64, len(s.a))}
	width := s.cfg.LSH.Defaults().Width
	for i := range s.a {
		dot := s.b[i]
		for j, x := range p.at {
			dot += s.a[i][j] * x
		}
		p.buckets[i] = math.Floor(dot / width)
	}
	return p
}

// collide reports whether two places share a bucket in any table: there, the
// values of all its functions are equal.
func (s *Selector) collide(u, v *place) bool {
	for i := 0; i < len(s.a); {
		end := i + s.functions
		for i < end && u.buckets[i] == v.buckets[i] {
			i++
		}
		if i == end {
			return true
		}
		i = end
	}
	return false
}

func distance(u, v *[vector]float64) float64 {
	var d float64
	for i := range u {
		d += (u[i] - v[i]) * (u[i] - v[i])
	}
	return d
}

// Distance between two places, metres.
func Distance(a, b Place) float64 {
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
}
