// Package catalog lists the algorithms that need to know nothing but whose
// machine they are. An entry is all it takes for an algorithm to be known to
// both engines (node/stack), to scenario files and their help, to the
// interaction scripts and to exploration. Algorithms with settings of their
// own are made in node/stack.
package catalog

import (
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/maekawa"
	"churnbed/node/mutex/ra"
	"churnbed/node/mutex/tokenring"
)

// Entry is one algorithm.
type Entry struct {
	Name string // as scenario files call it
	New  func(self core.Peer) mutex.Machine
	// Fixed: its set of nodes does not change, so that scenarios list everyone
	// from the beginning (membership static) unless they say otherwise.
	Fixed bool
	// About says in a sentence or two why one would run it, for the comment of
	// `churnbed scenario new`; may be empty.
	About string
}

var entries = []Entry{
	{Name: "ra", New: func(self core.Peer) mutex.Machine { return ra.New(self, ra.Config{}) }},
	{Name: "maekawa", New: func(self core.Peer) mutex.Machine { return maekawa.New(self, maekawa.Config{}) }},
	{Name: "maekawa-basic", New: func(self core.Peer) mutex.Machine { return maekawa.New(self, maekawa.Config{Basic: true}) }},
	{
		Name: "token-ring", New: func(self core.Peer) mutex.Machine { return tokenring.New(self) }, Fixed: true,
		About: "One token on a ring, which requests draw towards them; the worked example of docs/WRITING-AN-ALGORITHM.md. " +
			"No node may fail: nothing finds a lost token again.",
	},
}

// All returns the entries, in the order in which help lists them.
func All() []Entry { return slices.Clone(entries) }

// Find returns the entry of that name.
func Find(name string) (Entry, bool) {
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return Entry{}, false
	}
	return entries[i], true
}

// Names returns the names, in the same order.
func Names() []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names
}
