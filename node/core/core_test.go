package core_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"churnbed/node/core"
)

func anyRequest(t *rapid.T) core.RequestID {
	return core.RequestID{
		Node: core.NodeID(rapid.IntRange(0, core.MaxNodes-1).Draw(t, "node")),
		Inc:  core.Incarnation(rapid.Uint32().Draw(t, "inc")),
		TS:   rapid.Uint64().Draw(t, "ts"),
	}
}

func TestRequestIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		got, err := core.ParseRequestID(r.String())
		if err != nil || got != r {
			t.Fatalf("%v became %v, %v", r, got, err)
		}
	})
}

func TestParseRequestIDRefuses(t *testing.T) {
	for _, s := range []string{
		"", "1", "1.2", "1.2.", "1.2.3.4", "1.2.3 ", " 1.2.3", "1. 2.3", "a.b.c", "-1.2.3", "1.-2.3", "+1.2.3", "1.+2.3", "1.2.+3",
		"1.2.3x", "65536.2.3", "4294967296.1.1", "1.4294967296.1", "1.1.18446744073709551616", "1_0.1.1", "0x1.1.1", "01.2.3", "1.2.3\n",
	} {
		if r, err := core.ParseRequestID(s); err == nil {
			t.Errorf("%q was read as %v", s, r)
		}
	}
}

func FuzzParseRequestID(f *testing.F) {
	for _, s := range []string{"0.0.0", "3.1024.17", "65535.4294967295.18446744073709551615", "1.2", "1.2.3.4", "-1.2.3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := core.ParseRequestID(s); err == nil && r.String() != s {
			t.Errorf("%q was read as %v", s, r)
		}
	})
}

// Both orders are strict and total.
func TestRequestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.Custom(func(t *rapid.T) core.RequestID {
			small := rapid.Uint64Range(0, 2)
			return core.RequestID{Node: core.NodeID(small.Draw(t, "node")), Inc: core.Incarnation(small.Draw(t, "inc")), TS: small.Draw(t, "ts")}
		})
		a, b, c := few.Draw(t, "a"), few.Draw(t, "b"), few.Draw(t, "c")
		for name, less := range map[string]func(a, b core.RequestID) bool{
			"Before":    core.RequestID.Before,
			"NewerThan": core.RequestID.NewerThan,
		} {
			if less(a, a) || less(a, b) && less(b, a) || less(a, b) && less(b, c) && !less(a, c) {
				t.Errorf("%s is no strict order of %v, %v, %v", name, a, b, c)
			}
		}
		if (a.TS != b.TS || a.Node != b.Node) && !a.Before(b) && !b.Before(a) {
			t.Errorf("%v and %v have no order", a, b)
		}
		if !a.IsZero() && a.Inc > 0 && !a.NewerThan(core.RequestID{}) {
			t.Errorf("%v is not newer than none", a)
		}
	})
}

func TestHeapSorts(t *testing.T) {
	type item struct{ key, order int }
	rapid.Check(t, func(t *rapid.T) {
		h := core.Heap[item]{Less: func(a, b *item) bool { return a.key < b.key || a.key == b.key && a.order < b.order }}
		var want []item
		compare := func(a, b item) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.order, b.order)) }
		for i, key := range rapid.SliceOfN(rapid.IntRange(-5, 20), 1, 200).Draw(t, "keys") {
			if key >= 0 {
				h.Push(item{key, i})
				at, _ := slices.BinarySearchFunc(want, item{key, i}, compare)
				want = slices.Insert(want, at, item{key, i})
				continue
			}
			if h.Len() != len(want) {
				t.Fatalf("%d items, want %d", h.Len(), len(want))
			}
			if len(want) == 0 {
				continue
			}
			least := *h.Min()
			got := h.Pop()
			if got != want[0] || least != got {
				t.Fatalf("popped %v, least %v, want %v", got, least, want[0])
			}
			want = want[1:]
		}
		for len(want) > 0 {
			if got := h.Pop(); got != want[0] {
				t.Fatalf("popped %v, want %v", got, want[0])
			}
			want = want[1:]
		}
		if h.Len() != 0 {
			t.Fatalf("%d items are left", h.Len())
		}
	})
}

func TestQueueKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type item struct {
			at core.Instant
			no int
		}
		var q core.Queue[int]
		var want []item
		pop := func() {
			next := q.Next()
			if at, no := q.Pop(); (item{at, no}) != want[0] || at != next {
				t.Fatalf("popped %d of %v, next %v, want %v", no, at, next, want[0])
			}
			want = want[1:]
		}
		for i, at := range rapid.SliceOfN(rapid.Int64Range(-5, 20), 1, 200).Draw(t, "instants") {
			if at >= 0 {
				q.Push(core.Instant(at), i)
				want = append(want, item{core.Instant(at), i})
				slices.SortStableFunc(want, func(a, b item) int { return cmp.Compare(a.at, b.at) })
			} else if len(want) > 0 {
				pop()
			}
			if q.Len() != len(want) {
				t.Fatalf("%d values, want %d", q.Len(), len(want))
			}
		}
		for len(want) > 0 {
			pop()
		}
		if q.Next() != core.Never {
			t.Fatalf("the empty queue has a value at %v", q.Next())
		}
	})
}

// Streams are the same for ever: stored seeds must repeat their runs.
func TestStreamsAreStable(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		name string
		want [3]uint64
	}{
		{0, "", [3]uint64{0x774eeec809f0eb48, 0x5ceecb0d09df55e0, 0xd95c4267b1fafdb}},
		{1, "link/0-1", [3]uint64{0x9e861f1aeb006757, 0xc1ce29e44876411e, 0x5d2c8e4eedefb7cd}},
		{1, "link/1-0", [3]uint64{0xd7e77d8af57099e7, 0xd372ac70650a83ab, 0x719784b570417b91}},
		{1 << 63, "medley/3.1024", [3]uint64{0xb6855339450ba811, 0x609a0f3fe60ab4a5, 0xdd8d36e23a95177d}},
	} {
		r := core.Stream(c.seed, c.name)
		if got := [3]uint64{r.Uint64(), r.Uint64(), r.Uint64()}; got != c.want {
			t.Errorf("stream %d %q: {%#x, %#x, %#x}, want %#x", c.seed, c.name, got[0], got[1], got[2], c.want)
		}
	}
}

func TestInstant(t *testing.T) {
	if core.Never.Add(-time.Hour) != core.Never {
		t.Error("Never moved")
	}
	if at := core.Instant(5).Add(time.Second); at != 1e9+5 || at.Sub(5) != time.Second || at.String() != "1.000000005s" {
		t.Errorf("instant is %d (%v)", at, at)
	}
	if core.Never.String() != "never" || core.Instant(15e8).Seconds() != 1.5 {
		t.Error("instants are written wrongly")
	}
}

func TestIncarnation(t *testing.T) {
	for inc, start := range map[core.Incarnation]int{0: 0, core.FirstIncarnation: 1, core.FirstIncarnation + 7: 1, 3*core.IncarnationStep - 1: 2, 3 * core.IncarnationStep: 3} {
		if inc.Start() != start {
			t.Errorf("incarnation %d is of start %d, want %d", inc, inc.Start(), start)
		}
	}
	if s := (core.Peer{ID: 3, Inc: 1024}).String(); s != "3.1024" {
		t.Errorf("peer is written %q", s)
	}
}

func BenchmarkParseRequestID(b *testing.B) {
	for b.Loop() {
		if _, err := core.ParseRequestID("3.1024.17"); err != nil {
			b.Fatal(err)
		}
	}
}
