package workloads

import (
	"math"
	"slices"
	"time"
)

// traceStats are the statistics by which churn traces are described.
type traceStats struct {
	Hosts  int
	Events int
	// Availability is the share of the trace's length that a host is up:
	// median over hosts, and the share of hosts at 0.3 or below.
	MedianAvailability float64
	ShareBelow30       float64
	// JoinsPerDay and LeavesPerDay are means a host.
	JoinsPerDay, LeavesPerDay float64
	// DailySwing is the largest less the smallest number of hosts up over the
	// times of the day (each the mean over all whole days), in steps of a
	// sample, or of an hour where instants are exact.
	DailySwing float64
	// Session lengths: mean, median and 90th percentile of those that begin
	// and end inside the trace.
	SessionMean, SessionMedian, SessionP90 time.Duration
}

// stats measures the trace.
func (t *Trace) stats() traceStats {
	const day = 24 * time.Hour
	end := t.end()
	s := traceStats{Hosts: len(t.Hosts)}
	if end <= 0 || len(t.Hosts) == 0 {
		return s
	}
	var availability []float64
	var sessions []time.Duration
	var joins, leaves int
	slot := time.Hour // of the day, for the swing
	if t.Sample > 0 && day%t.Sample == 0 {
		slot = t.Sample
	}
	slots := int(end / slot)
	perDay := int(day / slot)
	upAt := make([]int, slots) // hosts up at the middle of each whole slot
	for _, h := range t.Hosts {
		var up time.Duration
		since, state, begun := time.Duration(0), h.Initial, false
		count := func(until time.Duration) { // an up period [since, until)
			up += until - since
			first := int((since + slot/2 - 1) / slot)
			for i := max(first, 0); i < slots && time.Duration(i)*slot+slot/2 < until; i++ {
				upAt[i]++
			}
		}
		for _, e := range h.Events {
			if e.Up {
				joins++
				begun = true
			} else {
				leaves++
				count(e.At)
				if begun {
					sessions = append(sessions, e.At-since)
				}
			}
			since, state = e.At, e.Up
		}
		if state {
			count(end)
		}
		availability = append(availability, float64(up)/float64(end))
	}
	slices.Sort(availability)
	slices.Sort(sessions)
	s.Events = joins + leaves
	s.MedianAvailability = (availability[(len(availability)-1)/2] + availability[len(availability)/2]) / 2
	below, _ := slices.BinarySearch(availability, math.Nextafter(0.3, 1))
	s.ShareBelow30 = float64(below) / float64(len(availability))
	hostDays := float64(len(t.Hosts)) * float64(end) / float64(day)
	s.JoinsPerDay, s.LeavesPerDay = float64(joins)/hostDays, float64(leaves)/hostDays
	if whole := slots / perDay; whole > 0 {
		bySlot := make([]float64, perDay)
		for i, n := range upAt[:whole*perDay] {
			bySlot[i%perDay] += float64(n) / float64(whole)
		}
		s.DailySwing = slices.Max(bySlot) - slices.Min(bySlot)
	}
	if n := len(sessions); n > 0 {
		sum := 0.0
		for _, d := range sessions {
			sum += float64(d)
		}
		s.SessionMean = time.Duration(sum / float64(n))
		s.SessionMedian = sessions[n/2]
		s.SessionP90 = sessions[n*9/10]
	}
	return s
}
