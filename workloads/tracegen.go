package workloads

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"churnbed/node/core"
)

// Overnet generator: what Bhagwan, Savage and Voelker measured
// (Understanding Availability, IPTPS 2003) on 1468 hosts of the Overnet
// file-sharing network over 7 days, every 20 minutes.
const (
	OvernetHosts  = 1468
	OvernetDays   = 7
	OvernetSample = 20 * time.Minute

	overnetAlpha, overnetBeta = 0.9, 1.7   // of the hosts' availability
	overnetMin, overnetMax    = 0.02, 0.97 // to which it is cut
	overnetCycles             = 6.4        // joins (and leaves) a host and day, mean
	overnetSwing              = 0.10       // of the daily factor
	overnetPeak               = 20.0       // hour of the day
	overnetCap                = 0.95       // of a probability a sample
)

// maxTraceEvents bounds a generated trace.
const maxTraceEvents = 4_000_000

// Overnet generates a trace like the Overnet measurement, which itself is not
// available: host i has availability a from Beta(0.9, 1.7) limited to
// [0.02, 0.97] and r = 6.4 a(1-a)/mean(a(1-a)) cycles a day; in each
// 20-minute sample it leaves with probability (r/72)/a if up and joins with
// (r/72)/(1-a) if down (at most 0.95), joins times 1 + 0.10 cos(2 pi (t - 20 h)
// / 24 h) and leaves times 2 less that. At time 0 it is up with probability a.
// Hosts and days of 0 mean the published 1468 and 7.
func Overnet(hosts, days int, seed uint64) (*Trace, error) {
	if hosts == 0 {
		hosts = OvernetHosts
	}
	if days == 0 {
		days = OvernetDays
	}
	if hosts < 1 || hosts > core.MaxNodes || days < 1 || days > 366 {
		return nil, fmt.Errorf("generate overnet trace of %d hosts and %d days: allowed are 1..%d hosts, 1..366 days",
			hosts, days, core.MaxNodes)
	}
	if expected := 2 * overnetCycles * float64(hosts) * float64(days); expected > maxTraceEvents {
		return nil, fmt.Errorf("generate overnet trace of %d hosts and %d days: about %.0f events, at most %d: want fewer hosts or days", hosts, days, expected, maxTraceEvents)
	}
	perDay := int(24 * time.Hour / OvernetSample)
	availability := make([]float64, hosts)
	rng := core.Stream(seed, "overnet/availability")
	mean := 0.0
	for i := range availability {
		a := min(max(beta(rng, overnetAlpha, overnetBeta), overnetMin), overnetMax)
		availability[i] = a
		mean += a * (1 - a) / float64(hosts)
	}
	daily := make([]float64, perDay)
	for i := range daily {
		hour := float64(i) * OvernetSample.Hours()
		daily[i] = 1 + overnetSwing*math.Cos(2*math.Pi*(hour-overnetPeak)/24)
	}
	t := &Trace{Sample: OvernetSample, Length: time.Duration(days) * 24 * time.Hour, Hosts: make([]Host, hosts)}
	for i, a := range availability {
		// One stream a host: a host's life does not depend on how many
		// samples the others took.
		rng := core.Stream(seed, fmt.Sprintf("overnet/host/%d", i))
		cycles := overnetCycles * a * (1 - a) / mean / float64(perDay)
		h := Host{Name: fmt.Sprintf("host%04d", i), Initial: rng.Float64() < a}
		up := h.Initial
		for s := 1; s < days*perDay; s++ {
			factor := daily[s%perDay]
			p := cycles / (1 - a) * factor
			if up {
				p = cycles / a * (2 - factor)
			}
			if rng.Float64() < min(p, overnetCap) {
				up = !up
				h.Events = append(h.Events, TraceEvent{At: time.Duration(s) * OvernetSample, Up: up})
			}
		}
		t.Hosts[i] = h
	}
	return t, nil
}

// beta draws from Beta(a, b) by Johnk's method (1964): exact, and quick for
// the small parameters used here. (A statistics library would weigh on every
// node process, which links this package.)
func beta(rng *rand.Rand, a, b float64) float64 {
	for {
		x := math.Pow(rng.Float64(), 1/a)
		y := math.Pow(rng.Float64(), 1/b)
		if s := x + y; s > 0 && s <= 1 {
			return x / s
		}
	}
}

// ExponentialSessions generates hosts that stay up and down for exponential
// times of the given means, independently and in equilibrium from time 0 on.
// Instants are exact.
func ExponentialSessions(hosts int, up, down, length time.Duration, seed uint64) (*Trace, error) {
	if hosts < 1 || hosts > core.MaxNodes {
		return nil, fmt.Errorf("generate sessions of %d hosts: allowed are 1..%d", hosts, core.MaxNodes)
	}
	if up <= 0 || down <= 0 || length <= 0 {
		return nil, fmt.Errorf("generate sessions with mean up %v, mean down %v over %v: all must be > 0", up, down, length)
	}
	if expected := float64(hosts) * 2 * float64(length) / (float64(up) + float64(down)); expected > MaxArrivals {
		return nil, fmt.Errorf("generate sessions: about %.0f events, at most %d: lengthen the sessions", expected, MaxArrivals)
	}
	t := &Trace{Length: length, Hosts: make([]Host, hosts)}
	for i := range t.Hosts {
		rng := core.Stream(seed, fmt.Sprintf("sessions/%d", i))
		state := rng.Float64() < float64(up)/(float64(up)+float64(down))
		h := Host{Name: fmt.Sprintf("host%04d", i), Initial: state}
		// Exponential times have no memory, so the first period needs no
		// special law.
		for at := 0.0; ; {
			mean := float64(down)
			if state {
				mean = float64(up)
			}
			at += mean * rng.ExpFloat64()
			if at >= float64(length) {
				break
			}
			state = !state
			h.Events = append(h.Events, TraceEvent{At: time.Duration(at), Up: state})
		}
		t.Hosts[i] = h
	}
	return t, nil
}
