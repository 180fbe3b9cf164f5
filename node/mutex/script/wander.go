package script

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
)

// wanderLocals is how many states of nodes a wanderer remembers at most.
const wanderLocals = 1 << 18

// wanderFinds is how many walks that end wrong are made shorter.
const wanderFinds = 4

// Wander takes random walks of at most steps steps each, walk i with the seed
// seed+i, where all states are too many to visit. What can happen is that of
// Explore; a delivery is likelier than a fault. A schedule that ends wrong is
// made shorter by leaving out steps, as long as one can be left out; the
// shortest of the first few is reported, which may not be the shortest there
// is. It panics where Check reports an error.
func Wander(cfg ExploreConfig, seed uint64, walks, steps int) ExploreResult {
	m := newModel(cfg)
	res := ExploreResult{Bound: "walks"}
	var best []choice
	finds := 0
	for i := range walks {
		if len(m.locals) > wanderLocals {
			m = newModel(cfg)
		}
		w := wanderer{m: m, seen: map[[16]byte]struct{}{}}
		wrong := w.walk(seed+uint64(i), steps)
		res.States += len(w.seen)
		res.Transitions += len(w.path)
		res.Depth = max(res.Depth, len(w.path))
		res.LocalStates = max(res.LocalStates, len(m.locals))
		res.Entries += w.entries
		if !wrong {
			continue
		}
		finds++
		if path := m.shorten(w.path); best == nil || len(path) < len(best) {
			best = path
			m.report(&res, path) // now, for letters are those of this model
		}
		if finds == wanderFinds {
			break
		}
	}
	if best != nil {
		res.Bound = ""
	}
	return res
}

type wanderer struct {
	m       *model
	seen    map[[16]byte]struct{} // States counts different ones within a walk
	path    []choice
	entries int
}

func (w *wanderer) walk(seed uint64, steps int) (wrong bool) {
	rng := core.Stream(seed, "mutex/wander")
	m := w.m
	s := m.initial()
	var choices, calm []choice
	for range steps {
		choices = m.choices(s, choices[:0])
		if len(choices) == 0 {
			break
		}
		// Half of the time, and where there is nothing else, anything; else
		// what would happen without faults and new requests.
		calm = calm[:0]
		for _, c := range choices {
			if c.verb == deliver || c.verb == exit || c.verb == restart {
				calm = append(calm, c)
			}
		}
		from := choices
		if len(calm) > 0 && rng.IntN(4) > 0 {
			from = calm
		}
		c := from[rng.IntN(len(from))]
		before := make([]mutex.State, m.n)
		for k := range before {
			before[k] = m.at(s, k).st
		}
		m.do(s, c)
		for k := range before {
			if m.at(s, k).st == mutex.Held && before[k] != mutex.Held {
				w.entries++
			}
		}
		w.path = append(w.path, c)
		w.seen[m.digest(s)] = struct{}{}
		if m.wrong(s) {
			return true
		}
	}
	return m.cfg.Stuck && len(m.stuck(s)) > 0
}

// shorten leaves out steps of a schedule that ends wrong while the rest still
// does, whole stretches first.
func (m *model) shorten(path []choice) []choice {
	for width := max(1, len(path)/2); ; width = max(1, width/2) {
		shorter := false
		for at := 0; at+width <= len(path); {
			try := slices.Delete(slices.Clone(path), at, at+width)
			if rest, wrong := m.retry(try); wrong {
				path, shorter = rest, true
			} else {
				at++
			}
		}
		if width == 1 && !shorter {
			return path
		}
	}
}

// retry takes the steps that are possible and stops where something is wrong.
func (m *model) retry(path []choice) (taken []choice, wrong bool) {
	s := m.initial()
	var possible []choice
	for _, c := range path {
		if possible = m.choices(s, possible[:0]); !slices.Contains(possible, c) {
			continue
		}
		m.do(s, c)
		taken = append(taken, c)
		if m.wrong(s) {
			return taken, true
		}
	}
	return taken, m.cfg.Stuck && len(m.stuck(s)) > 0
}
