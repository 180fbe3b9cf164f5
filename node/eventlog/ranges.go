package eventlog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
)

// FormatRanges formats a set of ids as Event.Asked holds it: ascending, runs
// joined, "0-4,7"; the empty set is "". ids should be ascending; where they
// are not, a sorted copy is formatted.
func FormatRanges(ids []core.NodeID) string {
	if !slices.IsSorted(ids) {
		ids = slices.Clone(ids)
		slices.Sort(ids)
	}
	var b []byte
	for i := 0; i < len(ids); {
		first, last := ids[i], ids[i]
		for i++; i < len(ids) && ids[i] <= last+1; i++ {
			last = ids[i]
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(first), 10)
		if last > first {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(last), 10)
		}
	}
	return string(b)
}

// ParseRanges reads what FormatRanges writes: ids 0..core.MaxNodes-1,
// ascending, none twice.
func ParseRanges(s string) ([]core.NodeID, error) {
	if s == "" {
		return nil, nil
	}
	var ids []core.NodeID
	next := core.NodeID(0) // the smallest id that may follow
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		first, err := parseID(lo)
		if err != nil {
			return nil, fmt.Errorf("parse ids %q: %w", part, err)
		}
		last := first
		if isRange {
			if last, err = parseID(hi); err != nil {
				return nil, fmt.Errorf("parse ids %q: %w", part, err)
			}
		}
		if first < next || last < first {
			return nil, fmt.Errorf("parse ids %q: not ascending", part)
		}
		for id := first; id <= last; id++ {
			ids = append(ids, id)
		}
		next = last + 1
	}
	return ids, nil
}

func parseID(s string) (core.NodeID, error) {
	v, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, err
	}
	if v >= core.MaxNodes {
		return 0, fmt.Errorf("id %d is not below %d", v, core.MaxNodes)
	}
	return core.NodeID(v), nil
}
