package script

import (
	"strings"
	"testing"
)

// TestExploreTokens visits all of small spaces of the token algorithms: nobody
// is in wrongly or waits for ever, no token or coordinator is made or lost,
// parents lead to a root. Messages overtake each other and come twice.
func TestExploreTokens(t *testing.T) {
	for _, c := range []struct {
		name, algorithm string
		nodes, requests int
		duplicates      int
		least           int // states
	}{
		{"naimi-trehel, 3 nodes", "naimi-trehel", 3, 2, 0, 2000},
		{"naimi-trehel, repeated", "naimi-trehel", 3, 1, 3, 2000},
		{"fairk, 3 nodes, 1 token", "fairk", 3, 2, 0, 10_000},
		{"fairk, 3 nodes, 2 tokens", "fairk+k2", 3, 2, 0, 2000},
		{"fairk, 4 nodes, 2 tokens", "fairk+k2", 4, 1, 0, 4000},
		{"fairk, repeated, 1 token", "fairk", 3, 1, 2, 10_000},
		{"fairk, repeated, 2 tokens", "fairk+k2", 3, 1, 3, 10_000},
		{"token-ring, 3 nodes", "token-ring", 3, 2, 0, 500},
		{"token-ring, 4 nodes, repeated", "token-ring", 4, 1, 2, 500},
		{"bv95, by load", "bv95+k2", 3, 2, 1, 1000},
		{"bv95, by last token", "bv95+k2+last", 4, 2, 0, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := ExploreConfig{Algorithm: c.algorithm, Lists: everyone(c.nodes), Duplicates: c.duplicates, Stuck: true}
			for range c.nodes {
				cfg.Entries = append(cfg.Entries, c.requests)
			}
			r := Explore(cfg)
			if r.Found != nil {
				t.Fatalf("%s\n%s", r.Found.Numbered(), r.Found.Chart())
			}
			if !r.Complete || r.States < c.least {
				t.Errorf("%d states, complete %v (%s)", r.States, r.Complete, r.Bound)
			}
			t.Logf("%d states, %d transitions, %d deep", r.States, r.Transitions, r.Depth)
		})
	}
}

// TestExploreTokensWithoutIDs: where messages do not name what they are about,
// one repetition makes a token or a coordinator, or loses one.
func TestExploreTokensWithoutIDs(t *testing.T) {
	for algorithm, steps := range map[string]int{
		"naimi-trehel+without-ids": 5, "bv95+k2+without-ids": 5, "fairk+without-ids": 5, "fairk+k2+without-ids": 5,
	} {
		cfg := ExploreConfig{Algorithm: algorithm, Lists: everyone(3), Entries: []int{1, 1, 1}, Duplicates: 1, Stuck: true}
		r := Explore(cfg)
		if r.Found == nil || len(r.Found.Steps) != steps {
			t.Errorf("%s: %q after %d states, want it after %d steps", algorithm, r.Violation, r.States, steps)
			continue
		}
		if text, err := r.Found.Script("as found"); err != nil || !strings.Contains(text, r.Violation) {
			t.Errorf("%s: the script does not show %q: %v\n%s", algorithm, r.Violation, err, text)
		}
	}
}

// TestTokenNames: what a name of a token algorithm may say.
func TestTokenNames(t *testing.T) {
	for _, bad := range []ExploreConfig{
		{Algorithm: "naimi-trehel+k2"},
		{Algorithm: "camera+k2"},
		{Algorithm: "fairk+k0"},
		{Algorithm: "fairk+k9"},
		{Algorithm: "fairk+last"},
		{Algorithm: "naimi-trehel", Holders: 2},
		{Algorithm: "fairk", Holders: 4},
	} {
		bad.Lists, bad.Entries = everyone(3), []int{1, 1, 1}
		if bad.Check() == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}
