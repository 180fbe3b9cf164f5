package main

import (
	"fmt"
	"io"
	"time"
)

// exploreProgress tells on a terminal or in a log how far an exploration is,
// and what ends it: the space of a few nodes may be larger than anyone waits for.
type exploreProgress struct {
	w         io.Writer // nil: tells nothing
	now       func() time.Time
	stop      <-chan struct{}
	maxStates int

	began, told time.Time
	states      int // when told last
	frontier    int
	hinted      bool
}

// Pace of the lines.
const (
	firstProgress = 5 * time.Second
	nextProgress  = 15 * time.Second
)

func newExploreProgress(w io.Writer, stop <-chan struct{}, maxStates int) *exploreProgress {
	p := &exploreProgress{w: w, now: time.Now, stop: stop, maxStates: maxStates}
	p.began = p.now()
	p.told = p.began
	return p
}

// report is the Progress of an exploration.
func (p *exploreProgress) report(states, frontier, depth int) bool {
	select {
	case <-p.stop:
		return false
	default:
	}
	if p.w == nil {
		return true
	}
	now, wait := p.now(), nextProgress
	if !p.hinted {
		wait = firstProgress
	}
	if now.Sub(p.told) < wait {
		return true
	}
	pace := float64(states-p.states) / now.Sub(p.told).Seconds()
	trend := ""
	switch {
	case !p.hinted:
	case frontier > p.frontier:
		trend = ", growing"
	case frontier < p.frontier:
		trend = ", shrinking"
	}
	fmt.Fprintf(p.w, "explore: %d states after %v, %.0f states/s, %d steps deep; %d to go on from%s%s\n",
		states, now.Sub(p.began).Round(time.Second), pace, depth, frontier, trend, p.bound(states, pace))
	if !p.hinted {
		fmt.Fprintln(p.w, "explore: --states N and --depth N end it sooner, fewer --requests and faults make the space smaller, --walks N samples it; an interrupt ends it with what was seen")
	}
	p.told, p.states, p.frontier, p.hinted = now, states, frontier, true
	return true
}

// bound says when --states ends it at this pace.
func (p *exploreProgress) bound(states int, pace float64) string {
	switch {
	case p.maxStates == 0:
		return "; no bound of --states"
	case pace < 1:
		return fmt.Sprintf("; --states %d ends it", p.maxStates)
	}
	left := time.Duration(float64(max(p.maxStates-states, 0)) / pace * float64(time.Second))
	return fmt.Sprintf("; --states %d ends it in about %v", p.maxStates, left.Round(time.Second))
}
