package simulate_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"churnbed/emulator/scenario"
	"churnbed/emulator/simulate"
	"churnbed/results"
)

// trial simulates a scenario given by keys on a line of 8 nodes.
func trial(t *testing.T, given ...string) *results.Trial {
	t.Helper()
	keys := map[string]string{
		"topology": "line", "nodes": "8", "membership": "static", "probe-every": "0s",
		"requests": "1", "requesters": "list:0", "arrivals": "burst",
	}
	for _, g := range given {
		k, v, _ := strings.Cut(g, "=")
		keys[k] = v
	}
	var settings []scenario.Setting
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		settings = append(settings, scenario.Setting{Key: k, Value: keys[k]})
	}
	spec, origin, err := scenario.Load("", settings)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Resolve(spec, origin)
	if err != nil {
		t.Fatal(err)
	}
	run, err := simulate.Run(t.Context(), sc, filepath.Join(t.TempDir(), "run"), &results.Manifest{Seed: sc.Seed, TimeScale: 1, Nodes: 8, Links: 7})
	if err != nil {
		t.Fatal(err)
	}
	run, err = results.Open(run.Dir)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := results.TrialOf(run)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestLocalHop(t *testing.T) {
	plain, local := trial(t), trial(t, "imitate-local-hop=true")
	if len(plain.WaitsMS) != 1 || len(local.WaitsMS) != 1 || plain.WaitsMS[0] != 70 || local.WaitsMS[0] != 75 {
		t.Errorf("waits %v and %v ms, want 7 hops there and back, and one of 5 ms more", plain.WaitsMS, local.WaitsMS)
	}
	if got := local.H2HMessages - plain.H2HMessages; got != 14 {
		t.Errorf("%v hops more, want one for each of 7 REQUEST and 7 RELEASE", got)
	}
}

func TestMulticastRelease(t *testing.T) {
	// A run ends with its last request, floods under way or not.
	plain, multi := trial(t, "duration=10s"), trial(t, "duration=10s", "release=multicast")
	if plain.E2EMessages != 21 || multi.E2EMessages != 15 {
		t.Errorf("%v and %v messages, want 3 x 7, and 2 x 7 and one", plain.E2EMessages, multi.E2EMessages)
	}
	// Unicast to distances 1..7 is 28 hops; a flood passes each of 7 links once.
	if got := plain.H2HMessages - multi.H2HMessages; got != 28-7 {
		t.Errorf("%v hops fewer, want 21", got)
	}
	if len(multi.WaitsMS) != 1 || multi.WaitsMS[0] != 70 {
		t.Errorf("waits %v", multi.WaitsMS)
	}
}

func TestSourceFixedResendsAfterLoss(t *testing.T) {
	tr := trial(t, "transport=source-fixed", "rto=500ms", "link-loss=0.2", "algorithm=camera-paper", "duration=10m")
	if len(tr.WaitsMS) != 1 {
		t.Fatalf("served %v", tr.WaitsMS)
	}
	// Waits are the paths and whole pauses of 500 ms, and where on its way a
	// message was lost: all whole hops.
	if ms := tr.WaitsMS[0]; ms < 70 || int(ms)%5 != 0 {
		t.Errorf("wait %v ms", ms)
	}
	m := tr.Summary.Messages
	if m.Retransmissions == 0 || m.Acks != 0 || m.E2EMutex != 21+m.Retransmissions {
		t.Errorf("messages %d, of them sent again %d, acknowledgements %d", m.E2EMutex, m.Retransmissions, m.Acks)
	}
}

func TestUnclearedDeferredAnswersAgain(t *testing.T) {
	given := []string{"requesters=list:0,1", "requests=6", "algorithm=camera-paper"}
	plain, kept := trial(t, given...), trial(t, append(given, "imitate-uncleared-deferred=true")...)
	if plain.E2EMessages != 6*21 || kept.E2EMessages <= plain.E2EMessages {
		t.Errorf("%v and %v messages", plain.E2EMessages, kept.E2EMessages)
	}
}

// TestLiveSet: with full lists the set names nobody unknown, so a live one
// changes nothing; it is there for incomplete lists.
func TestLiveSet(t *testing.T) {
	given := []string{"requesters=list:0,7,3", "requests=9", "algorithm=camera-paper"}
	plain, live := trial(t, given...), trial(t, append(given, "imitate-live-set=true")...)
	if plain.Served != 9 || live.Served != 9 || plain.E2EMessages != live.E2EMessages {
		t.Errorf("served %d and %d, messages %v and %v", plain.Served, live.Served, plain.E2EMessages, live.E2EMessages)
	}
}

func TestImitationsAreForTheSimulator(t *testing.T) {
	for _, key := range []string{"transport=source-fixed", "imitate-local-hop=true", "imitate-live-set=true", "imitate-uncleared-deferred=true"} {
		k, v, _ := strings.Cut(key, "=")
		spec, origin, err := scenario.Load("", []scenario.Setting{{Key: "algorithm", Value: "camera-paper"}, {Key: "nodes", Value: "8"}, {Key: "topology", Value: "line"}, {Key: k, Value: v}})
		if err != nil {
			t.Fatal(err)
		}
		sc, err := scenario.Resolve(spec, origin)
		if err != nil {
			t.Fatal(err)
		}
		if why := sc.SimulatorOnly(); !strings.Contains(why, k) {
			t.Errorf("%s: %q", key, why)
		}
		if spec.Algorithm = "ra"; strings.HasPrefix(k, "imitate") && k != "imitate-local-hop" {
			if _, err := scenario.Resolve(spec, origin); err == nil {
				t.Errorf("%s is accepted with ra", key)
			}
		}
	}
}
