package main

import (
	"path/filepath"
	"testing"
)

// A flooded RELEASE on real sockets costs what the simulator says: one
// message of its originator, and the same frames on the links.
func TestFloodedRelease(t *testing.T) {
	needRuns(t)
	t.Parallel()
	dir := t.TempDir()
	of := func(verb, release string) string { return filepath.Join(dir, verb+"-"+release) }
	for _, verb := range []string{"run", "sim"} {
		for _, release := range []string{"unicast", "multicast"} {
			// The requests do not meet and the run lasts beyond the last RELEASE.
			args := quick(of(verb, release), "--topology", "random", "--area", "9x9", "--nodes", "20", "--release", release,
				"--requests", "4", "--mean", "300ms", "--arrivals", "constant", "--duration", "2s", "--rto", "2s", "--probe-every", "0s")
			args[0] = verb
			if verb == "run" {
				args = append(args, "--fabric", "relay")
			}
			churnbed(t, args...).want(t, 0)
		}
	}
	for _, release := range []string{"unicast", "multicast"} {
		run, sim := summary(t, of("run", release)), summary(t, of("sim", release))
		if run.Safety.Violations != 0 || run.Requests.Served != 4 || sim.Requests.Served != 4 {
			t.Errorf("%s: %d violations, %d and %d of 4 served", release, run.Safety.Violations, run.Requests.Served, sim.Requests.Served)
		}
		want := int64(4 * 19)
		if release == "multicast" {
			want = 4
		}
		a, b := run.Messages, sim.Messages
		if a.ByKind["RELEASE"].N != want || b.ByKind["RELEASE"].N != want {
			t.Errorf("%s: %d and %d RELEASE, want %d", release, a.ByKind["RELEASE"].N, b.ByKind["RELEASE"].N, want)
		}
		if a.Retransmissions > 0 {
			t.Logf("%s: %d retransmissions: the host is too busy to compare bytes and hops", release, a.Retransmissions)
			continue
		}
		if a.E2EMutex != b.E2EMutex || a.BytesMutex != b.BytesMutex || a.H2HMutex != b.H2HMutex {
			t.Errorf("%s: %d messages, %d bytes, %v hops on real sockets; simulated %d, %d, %v", release,
				a.E2EMutex, a.BytesMutex, a.H2HMutex, b.E2EMutex, b.BytesMutex, b.H2HMutex)
		}
	}
}
