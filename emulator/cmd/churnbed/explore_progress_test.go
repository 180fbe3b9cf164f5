package main

import (
	"strings"
	"testing"
	"time"
)

// An exploration tells after a few seconds how far it is and what ends it, then
// at a slower pace, and ends where it is interrupted.
func TestExploreProgress(t *testing.T) {
	var out strings.Builder
	at, stop := time.Unix(0, 0), make(chan struct{})
	p := newExploreProgress(&out, stop, 5000)
	p.now = func() time.Time { return at }
	p.began, p.told = at, at
	told := func(after time.Duration, states, frontier int) string {
		out.Reset()
		at = at.Add(after)
		if !p.report(states, frontier, 7) {
			t.Fatal("ends without an interrupt")
		}
		return out.String()
	}
	if got := told(4*time.Second, 400, 40); got != "" {
		t.Errorf("at once: %q", got)
	}
	if got := told(time.Second, 500, 50); !strings.HasPrefix(got, "explore: 500 states after 5s, 100 states/s, 7 steps deep; 50 to go on from; --states 5000 ends it in about 45s\n") ||
		!strings.Contains(got, "--depth N") {
		t.Errorf("first: %q", got)
	}
	if got := told(14*time.Second, 600, 60); got != "" {
		t.Errorf("too soon: %q", got)
	}
	if got := told(time.Second, 650, 45); got != "explore: 650 states after 20s, 10 states/s, 7 steps deep; 45 to go on from, shrinking; --states 5000 ends it in about 7m15s\n" {
		t.Errorf("next: %q", got)
	}
	p.maxStates = 0
	if got := told(15*time.Second, 650, 46); got != "explore: 650 states after 35s, 0 states/s, 7 steps deep; 46 to go on from, growing; no bound of --states\n" {
		t.Errorf("without a bound: %q", got)
	}
	close(stop)
	if p.report(651, 1, 7) {
		t.Error("goes on after an interrupt")
	}
}
