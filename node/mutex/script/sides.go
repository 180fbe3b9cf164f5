package script

import (
	"fmt"
	"strings"
)

// ParseSides reads a partition of n nodes as p0,p1|p2, every node on one side,
// for ExploreConfig.Sides.
func ParseSides(n int, text string) ([]int, error) {
	sides := make([]int, n)
	seen := make([]bool, n)
	parts := strings.Split(text, "|")
	if len(parts) < 2 {
		return nil, fmt.Errorf("%q: want two sides or more, as p0,p1|p2", text)
	}
	for i, part := range parts {
		list, err := ParseNodes(n, part)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("%q: a side is empty", text)
		}
		for _, k := range list {
			if seen[k] {
				return nil, fmt.Errorf("%q: p%d is named twice", text, k)
			}
			sides[k], seen[k] = i, true
		}
	}
	for k, ok := range seen {
		if !ok {
			return nil, fmt.Errorf("%q: p%d is on no side", text, k)
		}
	}
	return sides, nil
}

// ParseNodes reads some of n nodes as p0,p2; none where the text is empty.
func ParseNodes(n int, text string) ([]int, error) { return parseList(n, text) }
