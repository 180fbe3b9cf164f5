package simulate_test

import (
	"strconv"
	"testing"

	"churnbed/emulator/scenario"
	"churnbed/results"
)

// Links that go and come faster than their ends are told: what comes over the
// new link never reaches an end that takes it for the old one.
func TestLateNewsOfLinks(t *testing.T) {
	changes := 0
	for seed := range 4 {
		sc := resolve(t, "localmutex12.yaml",
			scenario.Setting{Key: "seed", Value: strconv.Itoa(seed)}, scenario.Setting{Key: "degree-bound", Value: "0"},
			scenario.Setting{Key: "edge-churn", Value: "1"}, scenario.Setting{Key: "edge-down-mean", Value: "10ms"},
			scenario.Setting{Key: "detection-delay", Value: "200ms"}, scenario.Setting{Key: "cs", Value: "100ms"}, scenario.Setting{Key: "requests", Value: "300"})
		r, _ := run(t, sc)
		opened, err := results.Open(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		opened.Manifest.Algorithm = sc.Algorithm.Name
		s, err := results.Summarise(opened)
		if err != nil {
			t.Fatal(err)
		}
		if s.Verdict != results.VerdictOK || s.Requests.Served != 300 {
			t.Errorf("seed %d: %s, %+v %+v", seed, s.Verdict, s.Requests, s.Local)
		}
		changes += s.Local.LinkChanges
	}
	if changes < 160 {
		t.Errorf("%d times a link went or came", changes)
	}
}
