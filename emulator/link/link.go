// Package link is the link model of the testbed: what one direction of a
// radio link does to a frame, as a function of the instant, the frame's size
// and a seeded stream. The simulator and the relay fabric run it; the netem
// fabric asks the kernel for the same. It is pure: the caller serialises and
// owns time.
package link

import (
	"time"
)

// Distribution shapes the jitter.
type Distribution string

const (
	// Uniform jitter lies in [-Jitter, +Jitter].
	Uniform Distribution = "uniform"
	// Normal jitter has standard deviation Jitter (cut so that delay >= 0).
	Normal Distribution = "normal"
)

// Params describe one direction of a link. The zero value is a perfect link.
type Params struct {
	Delay  time.Duration `json:"delay_ns,omitempty"`  // one-way propagation, >= 0
	Jitter time.Duration `json:"jitter_ns,omitempty"` // >= 0
	Dist   Distribution  `json:"jitter_distribution,omitempty"`
	Loss   float64       `json:"loss,omitempty"`     // Bernoulli loss, 0..1
	Rate   int64         `json:"rate_bps,omitempty"` // bits a second, 0 = unlimited
	// Burst replaces Loss by the two-state Gilbert-Elliott model where set.
	Burst *GilbertElliott `json:"burst,omitempty"`
}

// GilbertElliott is the two-state burst loss model (Gilbert 1960, Elliott
// 1963); all values are probabilities a frame.
type GilbertElliott struct {
	P    float64 `json:"p"`    // good -> bad
	R    float64 `json:"r"`    // bad -> good
	Good float64 `json:"good"` // loss in the good state
	Bad  float64 `json:"bad"`  // loss in the bad state
}

// Override is a partial Params: nil fields keep what was there.
type Override struct {
	Delay  *time.Duration  `json:"delay_ns,omitempty"`
	Jitter *time.Duration  `json:"jitter_ns,omitempty"`
	Dist   *Distribution   `json:"jitter_distribution,omitempty"`
	Loss   *float64        `json:"loss,omitempty"`
	Rate   *int64          `json:"rate_bps,omitempty"`
	Burst  *GilbertElliott `json:"burst,omitempty"`
}

// Apply returns p with the fields of o that are set.
func (o Override) Apply(p Params) Params {
	if o.Delay != nil {
		p.Delay = *o.Delay
	}
	if o.Jitter != nil {
		p.Jitter = *o.Jitter
	}
	if o.Dist != nil {
		p.Dist = *o.Dist
	}
	if o.Loss != nil {
		p.Loss, p.Burst = *o.Loss, nil
	}
	if o.Rate != nil {
		p.Rate = *o.Rate
	}
	if o.Burst != nil {
		p.Burst = o.Burst
	}
	return p
}

// Scaled returns the parameters in real time for a time scale k: delays and
// jitter times k, rate divided by k.
func (p Params) Scaled(k float64) Params {
	p.Delay = time.Duration(float64(p.Delay) * k)
	p.Jitter = time.Duration(float64(p.Jitter) * k)
	p.Rate = int64(float64(p.Rate) / k)
	return p
}
