package results

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"churnbed/node/core"
)

// anyHistory draws requests with few different instants, so that many touch.
func anyHistory(t *rapid.T) []*Request {
	const horizon = 24
	n := rapid.IntRange(0, 12).Draw(t, "requests")
	qs := make([]*Request, n)
	for i := range qs {
		instant := func(from int64, name string) int64 { return rapid.Int64Range(from, horizon).Draw(t, name) }
		q := &Request{ID: core.RequestID{Node: core.NodeID(i), Inc: core.FirstIncarnation, TS: 1}, Node: core.NodeID(i)}
		q.Asked = instant(0, "asked")
		q.Entered = rapid.IntRange(0, 5).Draw(t, "entered") > 0
		q.End = instant(q.Asked, "end")
		if q.Entered {
			q.Enter = instant(q.Asked, "enter")
			q.End = min(horizon+1, q.Enter+rapid.Int64Range(0, 4).Draw(t, "held"))
		}
		q.Ending = rapid.SampledFrom([]Ending{EndExited, EndKilled, EndFenced, EndOpen}).Draw(t, "ending")
		if rapid.IntRange(0, 3).Draw(t, "declared") == 0 {
			q.toggles = rapid.SliceOfN(rapid.Int64Range(0, horizon), 0, 3).Draw(t, "toggles")
			slices.Sort(q.toggles)
		}
		qs[i] = q
	}
	return qs
}

// Both judges find the same in any history, for a mutex and for more permits.
func TestJudgesAgree(t *testing.T) {
	safe, unsafe := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		qs := anyHistory(t)
		var v Verdict
		v.safety(qs)
		if ok, _ := linearizable(qs, 1); ok != v.Safe() {
			t.Fatalf("%d violating pairs, linearizable %v", v.ViolationCount, ok)
		}
		for k := 1; k <= 3; k++ {
			if ok, _ := linearizable(qs, k); ok != (v.MaxConcurrent <= k) {
				t.Fatalf("%d at once, linearizable with %d permits: %v", v.MaxConcurrent, k, ok)
			}
		}
		if v.Safe() {
			safe++
		} else {
			unsafe++
		}
	})
	if safe == 0 || unsafe == 0 {
		t.Errorf("%d safe and %d unsafe histories: want both", safe, unsafe)
	}
}

// A mutex's own history of any length is accepted; one section moved into
// another is found, wherever it is.
func TestJudgesFindPlanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 400).Draw(t, "sections")
		qs := make([]*Request, n)
		at := int64(0)
		for i := range qs {
			asked := max(0, at-rapid.Int64Range(0, 50).Draw(t, "waited"))
			at += rapid.Int64Range(0, 3).Draw(t, "gap")
			q := &Request{Node: core.NodeID(i % 7), Asked: min(asked, at), Enter: at, Entered: true, Ending: EndExited}
			if rapid.IntRange(0, 9).Draw(t, "killed") == 0 {
				q.Ending = EndKilled
			}
			at += rapid.Int64Range(1, 5).Draw(t, "held")
			q.End = at
			qs[i] = q
		}
		both := func(want bool) {
			var v Verdict
			v.safety(qs)
			ok, operations := linearizable(qs, 1)
			if ok != want || v.Safe() != want {
				t.Fatalf("linearizable %v, by sweep %v, want %v", ok, v.Safe(), want)
			}
			if want && operations != 2*n {
				t.Fatalf("%d operations of %d sections", operations, n)
			}
		}
		both(true)
		i := rapid.IntRange(0, n-2).Draw(t, "moved")
		qs[i].End = qs[i+1].Enter + 1
		both(false)
	})
}

// What the second judge makes of single cases.
func TestLinearizable(t *testing.T) {
	section := func(asked, enter, end int64, how Ending, toggles ...int64) *Request {
		return &Request{Asked: asked, Enter: enter, End: end, Entered: true, Ending: how, toggles: toggles}
	}
	waited := func(asked, end int64, how Ending) *Request { return &Request{Asked: asked, End: end, Ending: how} }
	for _, c := range []struct {
		name string
		k    int
		qs   []*Request
		want bool
	}{
		{"nothing", 1, nil, true},
		{"touching", 1, []*Request{section(0, 1, 5, EndExited), section(0, 5, 6, EndExited)}, true},
		{"overlap", 1, []*Request{section(0, 1, 5, EndExited), section(0, 4, 6, EndExited)}, false},
		{"overlap, two permits", 2, []*Request{section(0, 1, 5, EndExited), section(0, 4, 6, EndExited)}, true},
		{"three, two permits", 2, []*Request{section(0, 1, 5, EndExited), section(0, 4, 6, EndExited), section(0, 4, 7, EndExited)}, false},
		{"killed holder frees the lock", 1, []*Request{section(0, 1, 3, EndKilled), section(0, 3, 6, EndExited)}, true},
		{"killed holder holds until the kill", 1, []*Request{section(0, 1, 3, EndKilled), section(0, 2, 6, EndExited)}, false},
		{"killed waiter may have had it", 1, []*Request{waited(0, 4, EndKilled), section(0, 2, 6, EndExited), section(5, 7, 8, EndExited)}, true},
		{"killed waiter excuses nobody", 1, []*Request{waited(0, 4, EndKilled), section(0, 2, 6, EndExited), section(0, 5, 8, EndExited)}, false},
		{"zombie", 1, []*Request{section(0, 1, 9, EndFenced, 3), section(2, 4, 6, EndExited)}, true},
		{"declared too late", 1, []*Request{section(0, 1, 9, EndFenced, 5), section(2, 4, 6, EndExited)}, false},
		{"declared failed, and alive again", 1, []*Request{section(0, 1, 9, EndFenced, 2, 3), section(2, 4, 6, EndExited)}, false},
		{"enters as a zombie", 1, []*Request{section(0, 1, 9, EndExited), section(2, 4, 6, EndFenced, 3)}, true},
		{"zombie hides no one else", 1, []*Request{section(0, 1, 9, EndFenced, 2), section(2, 4, 8, EndExited), section(2, 5, 6, EndExited)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := linearizable(c.qs, c.k); got != c.want {
				t.Errorf("linearizable: %v, want %v", got, c.want)
			}
		})
	}
}

// A disagreement is an error. It takes a first judge that saw other requests.
func TestDisagreement(t *testing.T) {
	p := newPlant(t, 3)
	p.section(1, 5, 0)
	p.section(2, 6, 1)
	run := p.end(10)
	_, v := judge(t, run)
	if v.ViolationCount != 1 || v.Operations == 0 {
		t.Fatalf("%d violations, %d operations", v.ViolationCount, v.Operations)
	}
	v.ViolationCount = 0
	if err := v.confirm(); !errors.Is(err, ErrJudgesDisagree) {
		t.Errorf("%v", err)
	}
}

// BenchmarkSecondJudge: 20,000 sections of 50 nodes that always wait.
func BenchmarkSecondJudge(b *testing.B) {
	qs := make([]*Request, 20000)
	for i := range qs {
		at := int64(i) * 10
		qs[i] = &Request{Asked: max(0, at-500), Enter: at, End: at + 9, Entered: true, Ending: EndExited}
	}
	b.ReportAllocs()
	for b.Loop() {
		if ok, _ := linearizable(qs, 1); !ok {
			b.Fatal("a mutex's history is refused")
		}
	}
}
