package scenario

import (
	"slices"

	"churnbed/node/stack"
	"churnbed/workloads"
)

// Algorithms that a key is for.
var (
	cameras     = []string{"camera", "camera-paper"}
	locals      = []string{"localmutex", "localmutex-paper"}
	onlyCoMesh  = []string{stack.CoMesh}
	withDevices = []string{stack.CoMesh, stack.Hub}
)

// usedBy tells which algorithms a key has a meaning for, where it has none for
// the others and where a wrong one is no error. suspicion-wait and n-upper are
// not here: a run's own scenario.yaml gives them whatever the algorithm.
var usedBy = map[string][]string{
	"ring-period": {"fairk"}, "ring-quorum": {"fairk"}, "tree-choice": {"bv95"},
	"slow-path": {"camera"}, "tree-failures": {"camera"}, "probe-timeout": {"camera"},
	"release":          cameras, // RELEASE must not be lost where it passes a vote on (maekawa)
	"local-priorities": locals, "local-delta": locals, "local-backoff": locals, "local-backoff-max": locals,
	"detection-delay": locals,
	"smart-share":     onlyCoMesh, "device-group-size": onlyCoMesh, "kgroup-f": onlyCoMesh, "kgroup": onlyCoMesh,
	"epoch-length": onlyCoMesh, "selection": onlyCoMesh, "kgroup-leader": onlyCoMesh, "lsh-functions": onlyCoMesh, "lsh-tables": onlyCoMesh, "lsh-width": onlyCoMesh, "lsh-noise": onlyCoMesh,
	"hubs":          {stack.Hub},
	"lock-strategy": withDevices, "monitor-period": withDevices, "monitor-tries": withDevices, "state-every": withDevices,
	"routines-file": withDevices, "routines": withDevices, "routine-devices": withDevices, "routine-conflict": withDevices,
	"routine-every": withDevices, "routine-takes": withDevices, "routine-states": withDevices,
}

// forRequests are keys without a meaning where the workload is routines.
var forRequests = []string{
	"arrivals", "mean", "ir-ratio", "weibull-shape", "requesters", "zipf-exponent", "requests", "cs", "cs-distribution", "arrival",
}

// idle warns of keys that were given another value than their default and
// change nothing with this algorithm.
func (r *resolver) idle() {
	s, plain := &r.spec, Default()
	for i := range keys {
		k := &keys[i]
		if !r.origin.has(k.Name) || k.Format(s) == k.Format(&plain) {
			continue
		}
		users, some := usedBy[k.Name]
		switch {
		case some && !slices.Contains(users, s.Algorithm):
			r.warn("%s changes nothing: it is for algorithm %s, this is %s", k.Name, orList(users), s.Algorithm)
		case s.grouped() && slices.Contains(forRequests, k.Name):
			r.warn("%s changes nothing: with algorithm %s there are routines, and no requests", k.Name, s.Algorithm)
		case s.Replicas == 0 && (k.Name == "ring-period" || k.Name == "ring-quorum"):
			r.warn("%s changes nothing without replicas", k.Name)
		}
	}
}

// mortal warns where nodes die whose tokens nothing finds again.
func (r *resolver) mortal() {
	s := &r.spec
	if s.Replicas > 0 || !slices.Contains(tokenAlgorithms, s.Algorithm) {
		return
	}
	for i := range r.schedule {
		if v := r.schedule[i].Verb; v == workloads.Crash || v == workloads.Poweroff || v == workloads.Leave {
			remedy := ""
			if s.Algorithm == "fairk" {
				remedy = "; replicas keeps them"
			}
			r.warn("nodes die: algorithm %s loses the tokens that are with them%s", s.Algorithm, remedy)
			return
		}
	}
}
