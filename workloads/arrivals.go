package workloads

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"time"

	"churnbed/node/core"
)

// Names of the arrival processes of ArrivalParams.Dist.
const (
	DistBurst         = "burst"          // all requests at t=0
	DistExponential   = "exponential"    // Poisson arrivals of the whole mesh
	DistWeibull       = "weibull"        // Weibull interarrival times
	DistConstant      = "constant"       // one request every Mean x IRRatio
	DistPoissonClosed = "poisson-closed" // every node thinks, asks, holds, again
)

// Dists lists the allowed values of ArrivalParams.Dist.
func Dists() []string {
	return []string{DistBurst, DistExponential, DistWeibull, DistConstant, DistPoissonClosed}
}

// Names of the requester choices of ArrivalParams.Requesters.
const (
	RequestersUniform = "uniform"
	RequestersZipf    = "zipf"
	RequestersList    = "list"
)

// Defaults of ArrivalParams, those of the Camera authors' reference runs.
const (
	DefaultMean         = 200 * time.Millisecond
	DefaultShape        = 2.0
	DefaultZipfExponent = 2.0
	DefaultCS           = 200 * time.Millisecond
)

// MaxArrivals bounds the requests of an expanded workload, so that a mistyped duration or mean
// ends in an error and not in an exhausted host.
const MaxArrivals = 1_000_000

// ArrivalParams describe who asks when and for how long. The zero value of a
// field means its default.
//
// The interarrival time is that of the whole mesh, and Mean x IRRatio is its
// mean whatever the distribution. This follows the Camera authors' own raw
// runs at ir_ratio 1, measured over the first arrival of each of 1,800 runs
// a distribution (later gaps grow where a requester is still busy, because
// they record the instant of enter()): exponential has mean 203 ms (standard
// error 5) and shape 1.00; weibull has mean 203 ms (2.5), shape 1.96 and
// scale 228 ms. Their 200 ms is therefore the mean; a Weibull of shape 2 with
// scale 200 ms would have mean 177 ms, while mean 200 ms asks for scale
// 225.7 ms. Their first request comes one interarrival time after 0, not at
// 0, and so does ours. Burst puts every request at 0, as their
// concurrent-short runs do.
type ArrivalParams struct {
	Dist string `json:"dist"` // see Dists; default weibull
	// Mean interarrival time of the whole mesh before IRRatio, default
	// 200 ms; with poisson-closed the mean thinking time of one node.
	Mean time.Duration `json:"mean,omitempty"`
	// IRRatio multiplies Mean, > 0, default 1.
	IRRatio float64 `json:"ir_ratio,omitempty"`
	// Shape of the Weibull distribution, > 0, default 2.
	Shape float64 `json:"shape,omitempty"`
	// Requests is the number of requests of the whole mesh, 0 = as many as
	// Duration allows. With poisson-closed each node makes
	// ceil(Requests/nodes) of them.
	Requests int `json:"requests,omitempty"`
	// Duration ends the workload: no arrival at or after it; 0 = no limit.
	// At least one of Requests and Duration is needed; a list without both
	// is walked once.
	Duration time.Duration `json:"duration,omitempty"`
	// Requesters is uniform (default), zipf or list. Uniform draws every
	// request's node independently, except in a burst, where the nodes are
	// distinct until all have asked once, then a second time, and so on.
	Requesters string `json:"requesters,omitempty"`
	// ZipfExponent s gives node i the weight 1/(i+1)^s, > 0, default 2.
	ZipfExponent float64 `json:"zipf_exponent,omitempty"`
	// List names the requesters in order; it is walked in turn, again and
	// again, by Requesters list.
	List []core.NodeID `json:"list,omitempty"`
	// CS is the length of critical sections, default constant 200 ms.
	CS CSLength `json:"cs"`
}

// withDefaults fills the fields that are zero.
func (p ArrivalParams) withDefaults() ArrivalParams {
	if p.Dist == "" {
		p.Dist = DistWeibull
	}
	if p.Mean == 0 {
		p.Mean = DefaultMean
	}
	if p.IRRatio == 0 {
		p.IRRatio = 1
	}
	if p.Shape == 0 {
		p.Shape = DefaultShape
	}
	if p.Requesters == "" {
		p.Requesters = RequestersUniform
	}
	if p.ZipfExponent == 0 {
		p.ZipfExponent = DefaultZipfExponent
	}
	if p.CS == (CSLength{}) {
		p.CS = CSLength{Dist: CSConstant, Mean: DefaultCS}
	}
	if p.Requesters == RequestersList && p.Requests == 0 && p.Duration == 0 {
		p.Requests = len(p.List)
	}
	return p
}

// validate reports every value that is out of range.
func (p ArrivalParams) validate(nodes int) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if nodes < 1 || nodes > core.MaxNodes {
		bad("nodes %d: allowed are 1..%d", nodes, core.MaxNodes)
	}
	switch p.Dist {
	case DistBurst, DistExponential, DistWeibull, DistConstant, DistPoissonClosed:
	default:
		bad("arrivals %q: allowed are %s", p.Dist, strings.Join(Dists(), ", "))
	}
	if p.Mean < 0 {
		bad("mean interarrival time %v: must be > 0", p.Mean)
	}
	if !positive(p.IRRatio) {
		bad("ir-ratio %v: must be finite and > 0", p.IRRatio)
	}
	if !positive(p.Shape) {
		bad("weibull shape %v: must be finite and > 0", p.Shape)
	}
	if p.Requests < 0 || p.Requests > MaxArrivals {
		bad("requests %d: allowed are 0..%d", p.Requests, MaxArrivals)
	}
	if p.Duration < 0 {
		bad("workload duration %v: must be >= 0", p.Duration)
	}
	switch {
	case p.Requests == 0 && p.Dist == DistBurst:
		bad("a burst needs a number of requests")
	case p.Requests == 0 && p.Duration == 0:
		bad("a workload needs a number of requests or a duration")
	}
	if !positive(p.ZipfExponent) {
		bad("zipf exponent %v: must be finite and > 0", p.ZipfExponent)
	}
	switch p.Requesters {
	case RequestersUniform, RequestersZipf:
	case RequestersList:
		if len(p.List) == 0 {
			bad("requesters list is empty")
		}
		for _, n := range p.List {
			if n < 0 || int(n) >= nodes {
				bad("requester %d: allowed are nodes 0..%d", n, nodes-1)
			}
		}
	default:
		bad("requesters %q: allowed are uniform, zipf, list", p.Requesters)
	}
	if p.Dist == DistPoissonClosed && p.Requesters != RequestersUniform {
		bad("requesters %q with %s: every node asks there, allowed is uniform", p.Requesters, p.Dist)
	}
	if err := p.CS.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func positive(f float64) bool { return f > 0 && !math.IsInf(f, 1) }

// Arrivals expands p for a mesh of so many nodes. The open processes give
// arrivals in ascending time, numbered from 1; poisson-closed gives the
// parameters that every node's driver runs with instead (exactly one of the
// two results is non-nil). Interarrival times, requesters and CS lengths come
// from separate streams of the seed, so changing one leaves the others as
// they were.
func Arrivals(p ArrivalParams, nodes int, seed uint64) ([]Arrival, *Closed, error) {
	p = p.withDefaults()
	if err := p.validate(nodes); err != nil {
		return nil, nil, fmt.Errorf("expand workload: %w", err)
	}
	mean := float64(p.Mean) * p.IRRatio
	if p.Dist == DistPoissonClosed {
		return nil, &Closed{
			Rate:  float64(time.Second) / mean,
			Quota: (p.Requests + nodes - 1) / nodes,
			Until: p.Duration,
			CS:    p.CS,
		}, nil
	}
	gap := p.gaps(mean, core.Stream(seed, "workload/gaps"))
	who := p.requesters(nodes, core.Stream(seed, "workload/requesters"))
	cs := core.Stream(seed, "workload/cs")
	arrivals := make([]Arrival, 0, p.Requests)
	var at float64 // nanoseconds; rounding each gap would lower the mean
	for p.Requests == 0 || len(arrivals) < p.Requests {
		at += gap()
		if at > math.MaxInt64/2 {
			return nil, nil, fmt.Errorf("expand workload: request %d comes after %v: lower the mean or ir-ratio",
				len(arrivals)+1, time.Duration(math.MaxInt64/2))
		}
		if p.Duration > 0 && time.Duration(at) >= p.Duration {
			break
		}
		if len(arrivals) == MaxArrivals {
			return nil, nil, fmt.Errorf("expand workload: more than %d requests within %v: raise the mean or shorten the duration",
				MaxArrivals, p.Duration)
		}
		arrivals = append(arrivals, Arrival{
			No:   len(arrivals) + 1,
			At:   time.Duration(at),
			Node: who(),
			CS:   p.CS.Draw(cs),
		})
	}
	return arrivals, nil, nil
}

// gaps returns the source of interarrival times in nanoseconds.
func (p ArrivalParams) gaps(mean float64, rng *rand.Rand) func() float64 {
	switch p.Dist {
	case DistExponential:
		return func() float64 { return mean * rng.ExpFloat64() }
	case DistWeibull:
		// The mean of a Weibull is scale x Gamma(1 + 1/shape); its inverse
		// CDF maps a standard exponential e to scale x e^(1/shape).
		lg, _ := math.Lgamma(1 + 1/p.Shape)
		return func() float64 { return mean * math.Exp(math.Log(rng.ExpFloat64())/p.Shape-lg) }
	case DistConstant:
		return func() float64 { return mean }
	default: // burst
		return func() float64 { return 0 }
	}
}

// requesters returns the source of requesting nodes.
func (p ArrivalParams) requesters(nodes int, rng *rand.Rand) func() core.NodeID {
	switch {
	case p.Requesters == RequestersList:
		next := 0
		return func() core.NodeID {
			n := p.List[next%len(p.List)]
			next++
			return n
		}
	case p.Requesters == RequestersZipf:
		z := newZipf(nodes, p.ZipfExponent)
		return func() core.NodeID { return core.NodeID(z.draw(rng)) }
	case p.Dist == DistBurst:
		var order []int
		return func() core.NodeID {
			if len(order) == 0 {
				order = rng.Perm(nodes)
			}
			n := order[0]
			order = order[1:]
			return core.NodeID(n)
		}
	default:
		return func() core.NodeID { return core.NodeID(rng.IntN(nodes)) }
	}
}

// zipf draws ranks 0..n-1 with weights 1/(rank+1)^s exactly, by the inverse of
// its tabulated distribution function (rand.Zipf needs s > 1).
type zipf struct{ cdf []float64 }

func newZipf(n int, s float64) zipf {
	cdf := make([]float64, n)
	sum := 0.0
	for i := range cdf {
		sum += math.Pow(float64(i+1), -s)
		cdf[i] = sum
	}
	return zipf{cdf}
}

func (z zipf) draw(rng *rand.Rand) int {
	u := rng.Float64() * z.cdf[len(z.cdf)-1]
	// The first rank whose cumulated weight exceeds u.
	i := sort.Search(len(z.cdf), func(i int) bool { return z.cdf[i] > u })
	return min(i, len(z.cdf)-1)
}

// Think draws the next thinking time: exponential with c.Rate a second.
func (c *Closed) Think(rng *rand.Rand) time.Duration {
	if !positive(c.Rate) {
		return math.MaxInt64 // never asks
	}
	return clampDuration(rng.ExpFloat64() / c.Rate * float64(time.Second))
}

// Names of the distributions of CSLength.Dist; empty means constant.
const (
	CSConstant    = "constant"
	CSExponential = "exponential"
	CSUniform     = "uniform"
	CSNormal      = "normal"
)

// Draw returns the length of one critical section, >= 0. A normal draw that
// is not positive is drawn again (one in 32,000). An unknown distribution
// counts as constant; Validate reports it.
func (c CSLength) Draw(rng *rand.Rand) time.Duration {
	mean := float64(c.Mean)
	if c.Mean <= 0 {
		return 0
	}
	switch c.Dist {
	case CSExponential:
		return clampDuration(mean * rng.ExpFloat64())
	case CSUniform:
		return clampDuration(2 * mean * rng.Float64())
	case CSNormal:
		for {
			if d := mean * (1 + rng.NormFloat64()/4); d > 0 {
				return clampDuration(d)
			}
		}
	default:
		return c.Mean
	}
}

// Validate reports a value that is not allowed.
func (c CSLength) Validate() error {
	if c.Mean < 0 {
		return fmt.Errorf("critical section length %v: must be >= 0", c.Mean)
	}
	switch c.Dist {
	case "", CSConstant, CSExponential, CSUniform, CSNormal:
		return nil
	default:
		return fmt.Errorf("critical section distribution %q: allowed are constant, exponential, uniform, normal", c.Dist)
	}
}

// clampDuration converts nanoseconds, saturating at the largest Duration.
func clampDuration(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
