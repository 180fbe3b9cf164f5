package compare

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"churnbed/results"
)

// Difference is one parameter that is not the same in all sets.
type Difference struct {
	Parameter string `json:"parameter"`
	// Values by set: "" where the set does not state it, several joined by
	// ", " where its trials have several.
	Values []string `json:"values"`
	// Unstated: the sets that state it agree.
	Unstated bool `json:"unstated,omitempty"`
}

// values returns the values that the trials of s have of a parameter, one of
// those that mean the same.
func values(s *results.TrialSet, key string) []string {
	var out []string
	for i := range s.Trials {
		v, ok := s.Parameter(i, key)
		if !ok {
			continue
		}
		if v == "" {
			v = "none"
		}
		if !slices.ContainsFunc(out, func(o string) bool { return results.SameValue(o, v) }) {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		switch {
		case errX != nil || errY != nil:
			return strings.Compare(a, b)
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return out
}

func keys(s *results.TrialSet) map[string]bool {
	out := map[string]bool{}
	for k := range s.Parameters {
		out[k] = true
	}
	for _, t := range s.Trials {
		for k := range t.Parameters {
			out[k] = true
		}
	}
	return out
}

func sameValues(a, b []string) bool {
	return slices.EqualFunc(a, b, results.SameValue)
}

// differences lists the parameters that are not the same in all sets,
// differing ones first.
func differences(sets []*results.TrialSet) []Difference {
	all := map[string]bool{}
	for _, s := range sets {
		maps.Copy(all, keys(s))
	}
	differing, unstated := []Difference{}, []Difference{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		d := Difference{Parameter: key}
		var stated [][]string
		for _, s := range sets {
			v := values(s, key)
			d.Values = append(d.Values, strings.Join(v, ", "))
			if len(v) > 0 {
				stated = append(stated, v)
			}
		}
		same := true
		for _, v := range stated[1:] {
			same = same && sameValues(v, stated[0])
		}
		switch {
		case same && len(stated) == len(sets):
		case same:
			d.Unstated = true
			unstated = append(unstated, d)
		default:
			differing = append(differing, d)
		}
	}
	return append(differing, unstated...)
}

// mixtures warns of parameters of which the trials of one set have several
// values: such a set is not one condition.
func mixtures(s *results.TrialSet) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(keys(s))) {
		if v := values(s, key); len(v) > 1 {
			out = append(out, fmt.Sprintf("its trials mix %s %s; select one with --where or ?%s=%s", key, strings.Join(v, ", "), key, v[0]))
		}
	}
	return out
}
