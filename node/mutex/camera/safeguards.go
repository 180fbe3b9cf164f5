package camera

import (
	"fmt"
	"slices"
)

// Safeguard is a set of the remedies of ALGORITHMS 2.2 that a test may take
// away, to see that exploration finds what they prevent.
type Safeguard uint16

// The safeguards. Without one of them explorations find two holders, without
// Probing a request that waits for ever (node/mutex/script). TreeLives takes
// five nodes and a restart in the middle of a tree, which an exploration reaches
// only from a planted state (h4a-tree.txt).
const (
	OKIDs        Safeguard = 1 << iota // an OK counts only for the request that it names (H3b/c)
	Majority                           // grants of more than NUpper/2 nodes (H1b/c)
	Incarnations                       // what an older process of a peer granted counts no more (H4a)
	Amnesia                            // a restarted process grants nothing before it has recovered (H4a)
	OwnRecords                         // enter also asks those that the node granted itself (H9)
	UnAsk                              // a silent OK un-asks the peer (H5b/c)
	TreeRecords                        // an OK through a tree is remembered like any other (2.5)
	TreeSets                           // and asks those that it names (2.5)
	TreeLives                          // and counts in the life that gave it only (2.5, H4a)
	Settled                            // who knows no bound yet counts for nothing
	Ratchet                            // the bound never falls
	PersistFirst                       // what others rely on is kept before they hear of it
	Probing                            // peers that are not listed are probed (H8)
	Renewal                            // a silent OK wants grants that are newer than the failure (H5a)
)

// safeguards names them, in the order of the constants.
var safeguards = []string{"ok-id", "majority", "incarnation", "amnesia", "own-rec", "un-ask", "tree-rec", "tree-sets", "tree-lives", "settled", "ratchet", "persist", "probing", "renewal"}

// ParseSafeguard returns the safeguard of that name.
func ParseSafeguard(name string) (Safeguard, error) {
	for i, s := range safeguards {
		if s == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("take away safeguard %q: want one of %q", name, safeguards)
}

// SafeguardNames are the names that ParseSafeguard takes.
func SafeguardNames() []string { return slices.Clone(safeguards) }

func (m *Machine) has(s Safeguard) bool { return m.cfg.Without&s == 0 }

// Invariant returns what is wrong with the state, or nothing: what the
// counters and marks of a request say must agree.
func (m *Machine) Invariant() string {
	pending, granted := 0, 0
	for k := range m.peers {
		p := &m.peers[k]
		if p.pending {
			pending++
		}
		if p.granted {
			granted++
		}
		if (p.pending || p.granted) && !p.asked {
			return fmt.Sprintf("p%d is awaited or counted, but not asked", k)
		}
		if p.pending && p.granted {
			return fmt.Sprintf("p%d is both awaited and counted", k)
		}
		if p.listed && int(m.self.ID) == k {
			return "the node lists itself"
		}
	}
	if pending != m.nPending || m.nGrants != granted && m.nGrants != granted+1 {
		return fmt.Sprintf("%d awaited and %d granted, the counters say %d and %d", pending, granted, m.nPending, m.nGrants)
	}
	if m.cur.IsZero() && pending+granted+m.nGrants > 0 {
		return "answers are awaited or counted without a request"
	}
	if !m.rec.Get(m.self.ID).IsZero() {
		return "the node has granted its own request"
	}
	return ""
}
