package results

import (
	"cmp"
	"math"
	"slices"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Overlap is two requests whose critical sections were held at the same time.
// First entered first; the overlap is [From, To), scenario nanoseconds.
type Overlap struct {
	First, Second *Request
	// Others were inside with both, one fewer than may be at once; none where
	// one may be.
	Others   []*Request
	From, To int64
	// Zombie: one of the two had been declared failed by a majority of the
	// nodes that were up before the overlap began (ALGORITHMS 2.4).
	Zombie bool
}

// Verdict is what the judge finds.
type Verdict struct {
	// Violations and Zombies are the pairs, by their beginning; at most
	// maxListed of each are kept, the counts go on.
	Violations, Zombies         []Overlap
	ViolationCount, ZombieCount int
	MaxConcurrent               int   // holders at one instant, zombies left out
	ViolationTime, ZombieTime   int64 // ns during which at least one such pair held

	Requests []*Request
	// Liveness by reason; Issued = Served + Unserved + Aborted.
	Issued, Served int
	Unserved       map[string]int // UnservedPaused, UnservedRunEnded, UnservedWaiting
	Aborted        map[string]int // by Ending, " waiting" or " holding"
	MaxOvertaken   int            // entries of later requests before one that waited

	// Holders is how many may hold at once. Where it is more than one, a
	// violation is an entry that made it more, First the one that had to be
	// out for it: the last but Holders-1 of the others to leave.
	Holders int

	// Tokens says how the tokens went, nil for algorithms without; TokenFaults
	// are the breaches of their rules, at most maxListed of them.
	Tokens      *Tokens
	TokenFaults []TokenFault

	// Operations is how many of the lock the second judge looked at; it found
	// the same as to safety, or Judge returned ErrJudgesDisagree.
	Operations int

	// Groups is what the checks of k-groups found, at most maxListed of it.
	Groups     []GroupFinding
	GroupCount int
	// RoutinesStarved are triggers of routines that waited out of proportion.
	RoutinesStarved int
	// Local says how locks of neighbourhoods went, nil for other algorithms;
	// Violations are then lock sets that intersect.
	Local        *Local
	confirmLocks func() (ok bool, operations int)

	LogErrors     []LogError
	LogErrorCount int
	Cut           []eventlog.CutLine
}

// Reasons for which a request was not served by the end of the run.
const (
	// UnservedPaused: its node was stopped at the end.
	UnservedPaused = "paused"
	// UnservedRunEnded: it had not waited out of proportion when the run
	// ended (see starvedAfter), or the user ended the run.
	UnservedRunEnded = "run ended"
	// UnservedWaiting: it waited out of proportion; a failure of liveness.
	UnservedWaiting = "still waiting"
)

// starvedAfter is the wait after which an unserved request counts as starved:
// twice the longest wait that was served, and a second on top so that a run
// that was cut short does not accuse.
func starvedAfter(longest int64) int64 { return 2*longest + 1e9 }

// Safe reports whether no more sections than may overlapped, zombies apart.
func (v *Verdict) Safe() bool { return v.ViolationCount == 0 }

// judged replays the logs of a run and judges safety and liveness. Two judges
// of safety, which share no code but the reading of the logs, must find the
// same; else the error is ErrJudgesDisagree.
func judged(r *Run) (*history, *Verdict, error) {
	h, err := replay(r)
	if err != nil {
		return nil, nil, err
	}
	if err := h.countLinks(); err != nil {
		return nil, nil, err
	}
	v := h.judge()
	return h, v, v.confirm()
}

func (h *history) judge() *Verdict {
	v := &Verdict{
		Requests: h.requests, Unserved: make(map[string]int), Aborted: make(map[string]int),
		LogErrors: h.logErrors, LogErrorCount: h.logErrorCount, Cut: h.cuts,
	}
	v.Holders = max(1, h.run.Manifest.Holders)
	if h.local.on {
		v.safetyOfLocks(h)
	} else if v.Holders == 1 {
		v.safety(h.requests)
	} else {
		v.safetyOfMany(h.requests)
	}
	v.judgeTokens(h)
	v.liveness(h.requests, h.interrupted || h.run.Manifest.Interrupted)
	v.MaxOvertaken = overtaken(h.requests)
	if g := h.groups; g != nil {
		end := h.lastT
		if h.end >= 0 {
			end = h.end
		}
		g.finish(h.epoch, end, h.interrupted || h.run.Manifest.Interrupted)
		v.Groups, v.GroupCount, v.RoutinesStarved = g.findings, g.sum.Found(), g.sum.Starved
	}
	return v
}

// safety sweeps over the sections in the order of their beginning.
func (v *Verdict) safety(requests []*Request) {
	var open []*Request
	var violation, zombie union
	for _, q := range sectionsByEntry(requests) {
		open = slices.DeleteFunc(open, func(o *Request) bool { return o.End <= q.Enter })
		holders := 1
		for _, o := range open {
			pair := Overlap{First: o, Second: q, From: q.Enter, To: min(o.End, q.End), Zombie: o.declaredFailed(max(q.Enter, o.Enter+1)) || q.declaredFailed(q.Enter+1)}
			if pair.Zombie {
				v.ZombieCount++
				zombie.add(pair.From, pair.To)
				if len(v.Zombies) < maxListed {
					v.Zombies = append(v.Zombies, pair)
				}
				continue
			}
			holders++
			v.ViolationCount++
			violation.add(pair.From, pair.To)
			if len(v.Violations) < maxListed {
				v.Violations = append(v.Violations, pair)
			}
		}
		v.MaxConcurrent = max(v.MaxConcurrent, holders)
		open = append(open, q)
	}
	v.ViolationTime, v.ZombieTime = violation.total, zombie.total
}

// union adds up intervals that are given by ascending beginning.
type union struct {
	until, total int64
	any          bool
}

func (u *union) add(from, to int64) {
	if u.any && from < u.until {
		from = u.until
	}
	if to > from {
		u.total += to - from
	}
	if !u.any || to > u.until {
		u.until = to
	}
	u.any = true
}

func (v *Verdict) liveness(requests []*Request, interrupted bool) {
	longest := int64(0)
	for _, q := range requests {
		if q.Entered {
			longest = max(longest, q.Enter-q.Asked)
		}
	}
	for _, q := range requests {
		v.Issued++
		switch {
		case q.aborted() && q.Entered:
			v.Aborted[string(q.Ending)+" holding"]++
		case q.aborted():
			v.Aborted[string(q.Ending)+" waiting"]++
		case q.Entered:
			v.Served++
		case q.Paused:
			v.Unserved[UnservedPaused]++
		case interrupted || q.End-q.Asked <= starvedAfter(longest):
			v.Unserved[UnservedRunEnded]++
		default:
			v.Unserved[UnservedWaiting]++
		}
	}
}

func total(m map[string]int) int {
	n := 0
	for _, c := range m {
		n += c
	}
	return n
}

// overtaken returns the largest number of entries by requests that were made
// later than one that was still waiting.
func overtaken(requests []*Request) int {
	// leftAt is when a request stopped waiting.
	leftAt := func(q *Request) int64 {
		if q.Entered {
			return q.Enter
		}
		return q.End
	}
	byAsked := slices.Clone(requests)
	slices.SortStableFunc(byAsked, func(a, b *Request) int { return cmp.Compare(a.Asked, b.Asked) })
	// rank of the first request asked later than q
	later := make(map[*Request]int, len(byAsked))
	rank := make(map[*Request]int, len(byAsked))
	for i := len(byAsked) - 1; i >= 0; i-- {
		q := byAsked[i]
		rank[q] = i
		if i+1 < len(byAsked) && byAsked[i+1].Asked == q.Asked {
			later[q] = later[byAsked[i+1]]
		} else {
			later[q] = i + 1
		}
	}
	byLeft := slices.Clone(requests)
	slices.SortStableFunc(byLeft, func(a, b *Request) int { return cmp.Compare(leftAt(a), leftAt(b)) })
	entered := make(fenwick, len(byAsked)+1)
	most := 0
	for i := 0; i < len(byLeft); {
		j := i
		for ; j < len(byLeft) && leftAt(byLeft[j]) == leftAt(byLeft[i]); j++ {
			most = max(most, entered.from(later[byLeft[j]]))
		}
		for ; i < j; i++ {
			if byLeft[i].Entered {
				entered.add(rank[byLeft[i]])
			}
		}
	}
	return most
}

// fenwick counts marks by position (Fenwick 1994).
type fenwick []int

func (f fenwick) add(i int) {
	f[0]++ // all of them
	for i++; i < len(f); i += i & -i {
		f[i]++
	}
}

// from counts the marks at positions >= i.
func (f fenwick) from(i int) int {
	n := f[0]
	for ; i > 0; i -= i & -i {
		n -= f[i]
	}
	return n
}

// friendship counts pairs of overlapping requests of different nodes that
// both entered, and those of them whose asked sets (the requester itself
// included) share a node that was up throughout both (ALGORITHMS 8, MFP).
func (h *history) friendship() (pairs, hold int) {
	var qs []*Request
	for _, q := range h.requests {
		if q.Entered && q.set != nil {
			qs = append(qs, q)
		}
	}
	slices.SortStableFunc(qs, func(a, b *Request) int { return cmp.Compare(a.Asked, b.Asked) })
	var open []*Request
	for _, q := range qs {
		open = slices.DeleteFunc(open, func(o *Request) bool { return o.End <= q.Asked })
		for _, o := range open {
			if o.Node == q.Node {
				continue
			}
			pairs++
			from, to := o.Asked, max(o.End, q.End)
			if o.set.eachCommon(q.set, func(k core.NodeID) bool {
				return int(k) < len(h.nodes) && h.nodes[k].upThroughout(from, to)
			}) {
				hold++
			}
		}
		open = append(open, q)
	}
	return pairs, hold
}

// delays are the waits of the requests in ms.
type delays struct {
	wait, client, sync []float64
	requesters         int // most requests under way at one time
}

func (h *history) delays() delays { return delaysOf(h.requests) }

func delaysOf(requests []*Request) delays {
	var d delays
	qs := slices.Clone(requests)
	slices.SortStableFunc(qs, func(a, b *Request) int { return cmp.Compare(a.Asked, b.Asked) })
	// contended[i]: another request was under way at some time of the wait.
	var open []int
	contended := make([]bool, len(qs))
	until := func(q *Request) int64 { // the wait that counts
		if q.Entered {
			return q.Enter
		}
		return q.End
	}
	for i, q := range qs {
		open = slices.DeleteFunc(open, func(o int) bool { return qs[o].End <= q.Asked })
		for _, o := range open {
			contended[i] = true
			if q.Asked < until(qs[o]) {
				contended[o] = true
			}
		}
		open = append(open, i)
		d.requesters = max(d.requesters, len(open))
	}
	for i, q := range qs {
		if !q.Entered {
			continue
		}
		w := float64(q.Enter-q.Asked) / 1e6
		d.wait = append(d.wait, w)
		if !contended[i] {
			d.client = append(d.client, w)
		}
	}
	qs = slices.DeleteFunc(qs, func(q *Request) bool { return !q.Entered })
	slices.SortStableFunc(qs, func(a, b *Request) int { return cmp.Compare(a.Enter, b.Enter) })
	last := int64(math.MinInt64) // orderly exit of the section before
	for _, q := range qs {
		if last <= q.Enter && q.Asked <= last {
			d.sync = append(d.sync, float64(q.Enter-last)/1e6)
		}
		last = math.MinInt64
		if q.Ending == EndExited {
			last = q.End
		}
	}
	return d
}
