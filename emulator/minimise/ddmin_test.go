package minimise

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// subset reports whether all of need are in part.
func subset(need, part []int) bool {
	return !slices.ContainsFunc(need, func(n int) bool { return !slices.Contains(part, n) })
}

// Whatever the cause is, what is left fails, is a part in the old order, and
// fails no more without any one of it. With a single cause it is that cause.
func TestDDMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "items")
		items := make([]int, n)
		for i := range items {
			items[i] = i
		}
		causes := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, max(0, n-1)), 0, 6), 1, 3).Draw(t, "causes")
		if n == 0 {
			causes = [][]int{nil}
		}
		spoiler := rapid.IntRange(-1, n).Draw(t, "spoiler") // not monotone: it hides the first cause
		runs := 0
		fails := func(part []int) bool {
			for i, c := range causes {
				if subset(c, part) && (i > 0 || !slices.Contains(part, spoiler)) {
					return true
				}
			}
			return false
		}
		if !fails(items) {
			t.Skip("passes")
		}
		before := slices.Clone(items)
		left, err := ddmin(items, func(part []int) (bool, error) { runs++; return fails(part), nil })
		if err != nil || !fails(left) {
			t.Fatalf("%v, %v: does not fail", left, err)
		}
		if !slices.Equal(items, before) || !slices.IsSorted(left) || len(slices.Compact(slices.Clone(left))) != len(left) {
			t.Fatalf("%v of %v", left, items)
		}
		for i := range left {
			if fails(slices.Delete(slices.Clone(left), i, i+1)) {
				t.Fatalf("%v fails without %d as well", left, left[i])
			}
		}
		if len(causes) == 1 && spoiler < 0 {
			want := slices.Compact(slices.Sorted(slices.Values(causes[0])))
			if !slices.Equal(left, want) {
				t.Fatalf("%v is left, the cause is %v", left, want)
			}
		}
		if bound := n*n + 3*n + 1; runs > bound { // Zeller and Hildebrandt, proposition 12
			t.Fatalf("%d runs for %d items", runs, n)
		}
	})
}

// An error ends the search with what fails so far.
func TestDDMinEndsEarly(t *testing.T) {
	items := []int{0, 1, 2, 3, 4, 5, 6, 7}
	over := errors.New("over")
	for budget := range 12 {
		runs := 0
		smallest := items
		left, err := ddmin(items, func(part []int) (bool, error) {
			if runs++; runs > budget {
				return false, over
			}
			bad := subset([]int{2, 6}, part)
			if bad {
				smallest = part
			}
			return bad, nil
		})
		if err != nil && !errors.Is(err, over) {
			t.Fatal(err)
		}
		if !slices.Equal(left, smallest) || !subset([]int{2, 6}, left) {
			t.Errorf("%d runs: %v is left, the smallest was %v", budget, left, smallest)
		}
	}
}
