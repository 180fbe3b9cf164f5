package kgroup

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"churnbed/node/core"
)

// LSHConfig tunes locality-sensitive hashing; see Defaults.
type LSHConfig struct {
	Functions int     `json:"m"` // concatenated in one table
	Tables    int     `json:"l"`
	Width     float64 `json:"r"` // of a bucket, metres
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
	cfg *Config
	a   [][vector]float64 // by table and function
	b   []float64
	// What vectors gave last: all groups of an epoch ask for the same.
	memo struct {
		epoch uint64
		list  []core.NodeID
		out   map[core.NodeID]*[vector]float64
	}
}

// A vector is the place of a node, and the mean place of what it monitors.
const vector = 6

// NewSelector returns the selector of a run.
func NewSelector(cfg *Config, seed uint64) *Selector {
	s := &Selector{cfg: cfg}
	l := cfg.LSH.Defaults()
	rng := core.Stream(seed, "lsh")
	for range l.Tables * l.Functions {
		var a [vector]float64
		for i := range a {
			a[i] = rng.NormFloat64() // 2-stable (Datar et al. 2004)
		}
		s.a = append(s.a, a)
		s.b = append(s.b, rng.Float64()*l.Width)
	}
	return s
}

// Members appends the group of target g in an epoch among the smart nodes of
// list, in the order of their ranks. It is shorter than k only where list is.
func (s *Selector) Members(g Group, epoch uint64, list []core.NodeID, out []core.NodeID) []core.NodeID {
	k, f := s.cfg.K(), s.cfg.F
	by := byRank(g, epoch, list)
	from := len(out)
	switch s.cfg.Policy {
	case LSH:
		out = s.near(g, epoch, list, by, k, out)
	case LSHMix:
		out = s.near(g, epoch, list, by, f+1, out)
	}
	for _, id := range by {
		if len(out)-from >= k {
			break
		}
		if !slices.Contains(out[from:], id) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out[from:], func(a, b core.NodeID) int {
		return cmp.Or(cmp.Compare(Rank(epoch, a, g), Rank(epoch, b, g)), cmp.Compare(a, b))
	})
	return out
}

func byRank(g Group, epoch uint64, list []core.NodeID) []core.NodeID {
	type ranked struct {
		rank uint64
		id   core.NodeID
	}
	all := make([]ranked, len(list))
	for i, id := range list {
		all[i] = ranked{Rank(epoch, id, g), id}
	}
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id)) })
	ids := make([]core.NodeID, len(list))
	for i := range all {
		ids[i] = all[i].id
	}
	return ids
}

// near appends up to want smart nodes near the target: those of its bucket in
// any table, the nearest first; then those that neighbouring groups find;
// the caller fills up by rank.
func (s *Selector) near(g Group, epoch uint64, list, by []core.NodeID, want int, out []core.NodeID) []core.NodeID {
	from := len(out)
	vectors := s.vectors(epoch, list)
	for _, target := range s.neighbours(g) {
		if len(out)-from >= want {
			break
		}
		q := pair(s.cfg.Centres[target], s.cfg.Centres[target])
		var found []core.NodeID
		for _, id := range by {
			if !slices.Contains(out[from:], id) && s.collide(&q, vectors[id]) {
				found = append(found, id)
			}
		}
		own := pair(s.cfg.Centres[g], s.cfg.Centres[g])
		slices.SortStableFunc(found, func(a, b core.NodeID) int {
			return cmp.Compare(distance(&own, vectors[a]), distance(&own, vectors[b]))
		})
		out = append(out, found[:min(len(found), want-(len(out)-from))]...)
	}
	return out
}

// neighbours lists all groups, the nearest to g (itself) first.
func (s *Selector) neighbours(g Group) []Group {
	all := make([]Group, len(s.cfg.Centres))
	for i := range all {
		all[i] = Group(i)
	}
	slices.SortStableFunc(all, func(a, b Group) int {
		return cmp.Compare(Distance(s.cfg.Centres[g], s.cfg.Centres[a]), Distance(s.cfg.Centres[g], s.cfg.Centres[b]))
	})
	return all
}

// vectors of the smart nodes: the place, and the mean place of what a node
// monitored in the epoch before. So that no history is needed, which nodes
// that joined late would lack, that epoch's groups are taken to have been
// chosen by rank alone. A node that had none has its own place there.
func (s *Selector) vectors(epoch uint64, list []core.NodeID) map[core.NodeID]*[vector]float64 {
	if m := &s.memo; m.out != nil && m.epoch == epoch && slices.Equal(m.list, list) {
		return m.out
	}
	sum := make(map[core.NodeID]*[4]float64, len(list))
	for g := range s.cfg.Centres {
		for _, id := range byRank(Group(g), epoch-1, list)[:min(s.cfg.K(), len(list))] {
			m := sum[id]
			if m == nil {
				m = &[4]float64{}
				sum[id] = m
			}
			for i, x := range s.cfg.Centres[g] {
				m[i] += x
			}
			m[3]++
		}
	}
	out := make(map[core.NodeID]*[vector]float64, len(list))
	for _, id := range list {
		own := s.cfg.Places[id]
		seen := own
		if m := sum[id]; m != nil {
			seen = Place{m[0] / m[3], m[1] / m[3], m[2] / m[3]}
		}
		v := pair(own, seen)
		out[id] = &v
	}
	s.memo.epoch, s.memo.list, s.memo.out = epoch, slices.Clone(list), out
	return out
}

func pair(a, b Place) [vector]float64 { return [vector]float64{a[0], a[1], a[2], b[0], b[1], b[2]} }

// collide reports whether two vectors share a bucket in any table: there,
// floor((a.v+b)/r) is equal for all its functions.
func (s *Selector) collide(u, v *[vector]float64) bool {
	l := s.cfg.LSH.Defaults()
	for t := range l.Tables {
		same := true
		for m := range l.Functions {
			i := t*l.Functions + m
			if s.bucket(i, u, l.Width) != s.bucket(i, v, l.Width) {
				same = false
				break
			}
		}
		if same {
			return true
		}
	}
	return false
}

func (s *Selector) bucket(i int, v *[vector]float64, width float64) float64 {
	dot := s.b[i]
	for j, x := range v {
		dot += s.a[i][j] * x
	}
	return math.Floor(dot / width)
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
