package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"churnbed/results"
)

// wantLocks checks what localmutex promises on a changing graph.
func wantLocks(t *testing.T, verb string, s *results.Summary) {
	t.Helper()
	l := s.Local
	if l == nil {
		t.Fatalf("%s: no figures of locks", verb)
	}
	if l.Intersections != 0 || l.Incomplete != 0 || l.InFlightPerLink != 2 || l.MessageBytesMin != 22 || l.MessageBytesMax != 22 || s.Verdict != results.VerdictOK {
		t.Errorf("%s: %s, %+v", verb, s.Verdict, l)
	}
	if s.Requests.Served != s.Requests.Issued || s.Requests.Served == 0 {
		t.Errorf("%s: %+v", verb, s.Requests)
	}
}

// Links go and come all the time: lock sets never intersect, and all are
// served, in both engines.
func TestLocksUnderEdgeChurn(t *testing.T) {
	needRuns(t)
	file, err := filepath.Abs("../../../workloads/scenarios/localmutex12.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"sim", "run"} {
		dir := filepath.Join(t.TempDir(), "run")
		churnbed(t, verb, file, "--out", dir, "--quiet").want(t, 0)
		s := summary(t, dir)
		wantLocks(t, verb, s)
		if l := s.Local; l.LinkChanges == 0 || l.PortsClosed == 0 || l.DegreeMax > 4 || s.Requests.Served != 100 {
			t.Errorf("%s: %+v", verb, l)
		}
	}
}

// Nodes that walk have links to whom they meet, and lose some of them while
// they are together.
func TestLocksOfWalkers(t *testing.T) {
	needRuns(t)
	args := []string{
		"--topology", "random", "--nodes", "10", "--area", "8x8", "--radius", "4", "--algorithm", "localmutex", "--mobility", "waypoint", "--mobility-speed", "4",
		"--mobility-pause", "100ms", "--degree-bound", "4", "--link-delay", "2ms", "--arrivals", "poisson-closed", "--mean", "100ms",
		"--cs", "10ms", "--duration", "2s", "--quiet",
	}
	churn := []string{"--edge-churn", "2", "--edge-down-mean", "200ms"}
	for _, verb := range [][]string{{"sim"}, append([]string{"sim"}, churn...), append([]string{"run"}, churn...)} {
		dir := filepath.Join(t.TempDir(), "run")
		churnbed(t, append(append(verb, "--out", dir), args...)...)
		s := summary(t, dir)
		if l := s.Local; l.Intersections != 0 || l.Incomplete != 0 || l.LinkChanges == 0 || l.DegreeMax > 5 || s.Requests.Served == 0 {
			t.Errorf("%s: %+v %+v", verb, s.Requests, l)
		}
	}
}

// A scripted adversary cuts a node off while it has its neighbours locked, and
// joins it again: whoever is cut off loses its claims, the others go on.
func TestLocksUnderAnAdversary(t *testing.T) {
	needRuns(t)
	args := []string{
		"--topology", "ring", "--nodes", "5", "--algorithm", "localmutex", "--link-delay", "5ms", "--arrivals", "list", "--cs", "400ms",
		"--arrival", "at 0s node 0", "--arrival", "at 100ms node 1", "--arrival", "at 100ms node 2", "--arrival", "at 100ms node 4",
		"--fault", "at 200ms link 0-1 down", "--fault", "at 210ms link 0-1 up", "--fault", "at 600ms link 0-4 down", "--drain", "20s", "--quiet",
	}
	for _, verb := range []string{"sim", "run"} {
		dir := filepath.Join(t.TempDir(), "run")
		churnbed(t, append([]string{verb, "--out", dir}, args...)...).want(t, 0)
		s := summary(t, dir)
		wantLocks(t, verb, s)
		if s.Local.LinkChanges != 3 {
			t.Errorf("%s: %+v", verb, s.Local)
		}
	}
}

// Applications come to their end under the locks, in both engines.
func TestApplicationsUnderLocks(t *testing.T) {
	needRuns(t)
	common := []string{
		"--topology", "grid", "--rows", "3", "--cols", "3", "--algorithm", "localmutex", "--link-delay", "1ms", "--arrivals", "poisson-closed",
		"--mean", "20ms", "--cs", "1ms", "--drain", "10s", "--quiet",
	}
	for _, app := range []string{"election", "majority", "amoebot"} {
		for _, verb := range []string{"sim", "run"} {
			length := "4s"
			if verb == "run" {
				length = "1500ms"
			}
			dir := filepath.Join(t.TempDir(), "run")
			churnbed(t, slices.Concat([]string{verb, "--out", dir, "--local-app", app, "--duration", length}, common)...)
			s := summary(t, dir)
			a := s.Local.App
			if a == nil || a.Name != app || a.Wrong != 0 || a.Changes == 0 || s.Local.Intersections != 0 {
				t.Fatalf("%s %s: %+v", verb, app, a)
			}
			if verb == "sim" && !a.Done {
				t.Errorf("%s %s: %v", verb, app, a)
			}
		}
	}
}

// What docs/LOCAL-LOCKS.md shows of the simulator and of explore comes out as
// it says.
func TestLocalLocksDocument(t *testing.T) {
	needRuns(t)
	for _, words := range documentCommands(t, "docs/LOCAL-LOCKS.md") {
		line := strings.Join(words[1:], " ")
		want := exitOK
		switch {
		case words[1] == "explore" && slices.Contains(words, "localmutex-paper"):
			want = exitCheckFailed
		case words[1] == "sim":
			for i, w := range words {
				if strings.HasPrefix(w, "workloads/") {
					words[i] = "../../../" + w
				}
			}
			words = append(words, "--quiet", "--out", filepath.Join(t.TempDir(), "run"))
		case words[1] == "run": // TestLocksUnderEdgeChurn does the small one
			continue
		}
		code, out := invoke(t, words[1:]...)
		if closed := strings.Contains(line, "poisson-closed"); code != want && !closed {
			t.Errorf("%s: exit code %d, want %d\n%s", line, code, want, out)
		}
		if words[1] == "sim" && !strings.Contains(out, "SAFE: no two lock sets intersected") {
			t.Errorf("%s:\n%s", line, out)
		}
		if strings.Contains(line, "election") && !strings.Contains(out, "1 of 25 leaders left") {
			t.Errorf("%s:\n%s", line, out)
		}
		if strings.Contains(line, "amoebot") && !strings.Contains(out, "9 particles at first, 9 cells taken at the end, 0 moves onto another") {
			t.Errorf("%s:\n%s", line, out)
		}
	}
}
