// Package traps holds scenarios that walk into the traps of the published
// texts of Camera (ALGORITHMS 2.2) and of local mutual exclusion (ALGORITHMS 6)
// with nothing but kills, stops, link changes and planted lists: on real processes and in the simulator alike the link
// delays force the order of events. `churnbed reproduce traps` runs them.
package traps

import "embed"

// Files are the scenarios and the lists that they name.
//
//go:embed *.yaml *.lists
var Files embed.FS

// Trap is one scenario, NAME.yaml.
type Trap struct {
	Name  string
	Title string
	// Paper is the published text, Hardened the one without the trap.
	Paper, Hardened string
	// Starves: the published algorithm waits for ever; else it lets two in.
	Starves bool
}

// All lists them.
func All() []Trap {
	all := []Trap{
		{Name: "h1", Title: "a newcomer is in the list but was not asked"},
		{Name: "h4a", Title: "the mutual friend restarts and forgets"},
		{Name: "h4b", Title: "the requester restarts with its clock at 0"},
		{Name: "h5a", Title: "silent OK for a live holder"},
		{Name: "h5b", Title: "silent OK for a live node that asks later"},
		{Name: "h8", Title: "a dead node that no membership service watches", Starves: true},
	}
	for i := range all {
		all[i].Paper, all[i].Hardened = "camera-paper", "camera"
	}
	return append(all,
		Trap{Name: "l1", Title: "two that wait for each other's next priority", Paper: "localmutex-paper", Hardened: "localmutex", Starves: true},
		Trap{Name: "l2", Title: "a neighbour that is gone is waited for", Paper: "localmutex-paper", Hardened: "localmutex", Starves: true},
	)
}
