package results

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// ErrJudgesDisagree tells that of the two judges of safety one accuses and the other
// does not. One of them is wrong; the run must be kept.
var ErrJudgesDisagree = errors.New("the two judges of safety disagree")

// confirm has the second judge look at the same requests.
func (v *Verdict) confirm() error {
	judge := v.confirmLocks
	if judge == nil {
		judge = func() (bool, int) { return linearizable(v.Requests, max(1, v.Holders)) }
	}
	ok, operations := judge()
	v.Operations = operations
	if ok != v.Safe() {
		return fmt.Errorf("judge safety: %w: %d violating pairs by sweep, a history that a lock of that many permits can have: %v", ErrJudgesDisagree, v.ViolationCount, ok)
	}
	return nil
}

// The second judge asks whether a mutex, or a lock of k permits, can have had
// this history (linearizability, Herlihy and Wing 1990; Wing and Gong 1993 as
// porcupine searches for it). What it shares with the first is how the logs
// are read as requests; not what is found wrong with them.
//
// The lock knows its owners. An acquisition took effect at some instant
// between the last line of any log before its "enter" that concerns the lock,
// and that line: earlier would only be in somebody's way. A release takes
// effect when the section ends as the log proves it: at its "exit" line, or
// when its holder was killed. Whether somebody who was killed while waiting
// had the lock is unknown: both may be, until the kill. An owner who stands
// declared failed by a majority has the lock no more as far as others are
// concerned (a zombie, ALGORITHMS 2.4), and may have got it without asking
// anybody.

// instants of the second judge are four times the nanoseconds, and at one
// nanosecond sections end, then begin, then somebody is declared failed.
const (
	phaseRelease = 0
	phaseAcquire = 2
	phaseDeclare = 3
)

func moment(t int64, phase int64) int64 { return 4*t + phase }

type lockVerb uint8

const (
	acquire  lockVerb = iota
	mayHave           // acquire, or not
	release           // by an owner
	releaseI          // if it is an owner
	declare           // declared failed, or no more
)

type lockInput struct {
	verb   lockVerb
	owner  uint32
	zombie bool // at acquisition
}

// holders is the state of the lock: the owners ascending, each with a byte
// that is 1 for a zombie. It is a string so that states compare.
type holders string

const holderSize = 5

func (h holders) find(owner uint32) (at int, found bool) {
	for at < len(h) {
		switch o := binary.BigEndian.Uint32([]byte(h[at:])); {
		case o == owner:
			return at, true
		case o > owner:
			return at, false
		}
		at += holderSize
	}
	return at, false
}

func (h holders) live() int {
	n := 0
	for at := 4; at < len(h); at += holderSize {
		if h[at] == 0 {
			n++
		}
	}
	return n
}

func (h holders) with(owner uint32, zombie bool) holders {
	at, _ := h.find(owner)
	b := binary.BigEndian.AppendUint32([]byte(h[:at]), owner)
	if zombie {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return holders(append(b, h[at:]...))
}

// lockModel is a lock of k permits. States are holders.
func lockModel(k int) porcupine.Model {
	step := func(state, input, _ any) []any {
		h, in := state.(holders), input.(lockInput)
		at, held := h.find(in.owner)
		switch in.verb {
		case acquire, mayHave:
			free := !held && (in.zombie || h.live() < k)
			switch {
			case in.verb == acquire && !free:
				return nil
			case in.verb == acquire:
				return []any{h.with(in.owner, in.zombie)}
			case free:
				return []any{h, h.with(in.owner, in.zombie)}
			}
		case release, releaseI:
			if held {
				return []any{h[:at] + h[at+holderSize:]}
			}
			if in.verb == release {
				return nil
			}
		case declare:
			if held {
				return []any{(h[:at] + h[at+holderSize:]).with(in.owner, h[at+4] == 0)}
			}
		}
		return []any{h}
	}
	m := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{holders("")} },
		Step:  step,
		Equal: func(a, b any) bool { return a == b },
	}
	return m.ToModel()
}

// chunkRequests is how many requests are searched at once, or more where
// nobody left the lock free for long. Where it is free the search may begin
// anew: whoever acquires later need not have done so before.
const chunkRequests = 64

// linearizable reports whether a lock of k permits can have had this history,
// and how many operations it looked at.
func linearizable(requests []*Request, k int) (ok bool, operations int) {
	var sections, waiters []*Request
	for _, q := range requests {
		switch {
		case q.Entered && q.End > q.Enter:
			sections = append(sections, q)
		case !q.Entered && q.aborted():
			waiters = append(waiters, q)
		}
	}
	slices.SortStableFunc(sections, func(a, b *Request) int { return cmp.Compare(a.Enter, b.Enter) })
	slices.SortStableFunc(waiters, func(a, b *Request) int { return cmp.Compare(a.End, b.End) })
	model := lockModel(k)
	for len(sections) > 0 {
		n, end := 0, int64(0)
		for n < len(sections) && (n < chunkRequests || sections[n].Enter < end) {
			end = max(end, sections[n].End)
			n++
		}
		w := 0
		for w < len(waiters) && waiters[w].End <= end {
			w++
		}
		history := lockHistory(sections[:n], waiters[:w])
		operations += len(history)
		if !porcupine.CheckOperations(model, history) {
			return false, operations
		}
		sections, waiters = sections[n:], waiters[w:]
	}
	return true, operations
}

// lockHistory makes operations of a stretch of the run, at whose beginning
// the lock is free.
func lockHistory(sections, waiters []*Request) []porcupine.Operation {
	var ops []porcupine.Operation
	var moments []int64
	point := func(at int64, in lockInput) {
		ops = append(ops, porcupine.Operation{Input: in, Call: at, Return: at})
		moments = append(moments, at)
	}
	for i, q := range sections {
		owner := uint32(i)
		how := release
		if q.Ending != EndExited {
			how = releaseI
		}
		point(moment(q.End, phaseRelease), lockInput{verb: how, owner: owner})
		for _, at := range q.toggles {
			if at > q.Enter && at < q.End {
				point(moment(at, phaseDeclare), lockInput{verb: declare, owner: owner})
			}
		}
		moments = append(moments, moment(q.Enter, phaseAcquire))
	}
	slices.Sort(moments)
	// since is the first instant from which an acquisition may have taken
	// effect; it is not concurrent with a declaration before it.
	since := func(asked, until int64) int64 {
		from := moment(asked, 0)
		if i, _ := slices.BinarySearch(moments, until); i > 0 {
			last := moments[i-1]
			if last%4 == phaseDeclare {
				last++
			}
			from = max(from, last)
		}
		return min(from, until)
	}
	for i, q := range sections {
		until := moment(q.Enter, phaseAcquire)
		in := lockInput{verb: acquire, owner: uint32(i), zombie: q.declaredFailed(q.Enter + 1)}
		ops = append(ops, porcupine.Operation{Input: in, Call: since(q.Asked, until), Return: until})
	}
	for i, q := range waiters {
		owner, until := uint32(len(sections)+i), moment(q.End, phaseRelease)
		ops = append(ops,
			porcupine.Operation{Input: lockInput{verb: mayHave, owner: owner}, Call: since(q.Asked, until), Return: until},
			porcupine.Operation{Input: lockInput{verb: releaseI, owner: owner}, Call: until + 1, Return: until + 1})
	}
	return ops
}
