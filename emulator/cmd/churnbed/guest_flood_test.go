//go:build guest

package main

import (
	"path/filepath"
	"testing"

	"churnbed/node/eventlog"
	"churnbed/results"
)

// TestGuestFloodedRelease: on the kernel's netem, which counts no classes of
// frames, RELEASE is flooded over 64 nodes: one message each, and every node
// sends it on.
func TestGuestFloodedRelease(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	cmd, said, _ := inGuest(t, "--topology", "random", "--nodes", "64", "--area", "12x12", "--radius", "3", "--survivable",
		"--membership", "static", "--release", "multicast", "--requests", "8", "--seed", "2", "--fabric", "netem", "--out", out)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	run, err := results.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	s, err := results.Summarise(run)
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Messages.ByKind["RELEASE"]; r.N != 8 || s.Requests.Served != 8 || s.Safety.Violations != 0 || run.Manifest.Fabric != "netem" {
		t.Errorf("%d RELEASE, %d served, %d violations on %s", r.N, s.Requests.Served, s.Safety.Violations, run.Manifest.Fabric)
	}
	// 2L-(N-1) frames a flood; the counters of the last may be short of some.
	flooded, links := int64(0), int64(run.Manifest.Links)
	for k := range 64 {
		last := int64(0)
		for _, e := range nodeEvents(t, out, k) {
			if e.Kind == eventlog.Counters {
				last = e.Sent["RELEASE"].Hops
			}
		}
		flooded += last
	}
	if want := 8 * (2*links - 63); flooded < want*3/4 || flooded > want {
		t.Errorf("RELEASE was sent on links %d times, want %d", flooded, want)
	}
}
