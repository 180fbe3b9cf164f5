package medley

import "time"

// Config holds Medley's constants. A zero field means its default: the
// published value, or this package's own for what is not published.
// DefaultConfig has them all. A negative probability switches its feature
// off.
type Config struct {
	// Period T between two rounds of a node; one member is pinged a round.
	Period time.Duration
	// PingTimeout without ACK until the indirect pings.
	PingTimeout time.Duration
	// Suspicion is the age at which a suspected member is declared failed.
	Suspicion time.Duration
	// Indirect is how many helpers ping indirectly.
	Indirect int
	// Exponent m of the target probability 1/d^m.
	Exponent float64
	// TableMax is the largest number of entries of the change table,
	// TableKeep how long an entry stays in it.
	TableMax  int
	TableKeep time.Duration
	// PassiveProb is the probability of a round pinging the member not heard
	// of for longest, if that is longer than PassiveAge.
	PassiveProb float64
	PassiveAge  time.Duration
	// ActiveGap is the mean gap between received pings above which a node
	// calls itself unlucky, and the least gap between two such calls;
	// ActiveWeight the weight of the newest gap in that mean.
	ActiveGap    time.Duration
	ActiveWeight float64

	// JoinTimeout without a part of the list until the next JOIN.
	JoinTimeout time.Duration
	// ReconnectProb is the probability of a round pinging, besides its
	// target, one peer that was declared failed, so that the two sides of a
	// healed partition meet again.
	ReconnectProb float64
	// EnterAtRefill leaves members learned meanwhile out of the bag until it
	// is refilled, as published (see bag).
	EnterAtRefill bool
	// NoLastWord declares a suspect failed without two more pings, as
	// published (see Machine).
	NoLastWord bool
}

// DefaultConfig returns the published constants (Medley, TNSM 2022, as its
// authors' simulator sets them; ALGORITHMS 4) and this package's own.
func DefaultConfig() Config {
	return Config{
		Period:        2 * time.Second,
		PingTimeout:   500 * time.Millisecond,
		Suspicion:     16 * time.Second,
		Indirect:      3,
		Exponent:      3,
		TableMax:      128,
		TableKeep:     15 * time.Second,
		PassiveProb:   0.1,
		PassiveAge:    40 * time.Second,
		ActiveGap:     8 * time.Second,
		ActiveWeight:  0.125,
		JoinTimeout:   500 * time.Millisecond,
		ReconnectProb: 0.1,
	}
}

// withDefaults fills the fields that are zero.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	fill(&c.Period, d.Period)
	fill(&c.PingTimeout, d.PingTimeout)
	fill(&c.Suspicion, d.Suspicion)
	fill(&c.Indirect, d.Indirect)
	fill(&c.Exponent, d.Exponent)
	fill(&c.TableMax, d.TableMax)
	fill(&c.TableKeep, d.TableKeep)
	fill(&c.PassiveProb, d.PassiveProb)
	fill(&c.PassiveAge, d.PassiveAge)
	fill(&c.ActiveGap, d.ActiveGap)
	fill(&c.ActiveWeight, d.ActiveWeight)
	fill(&c.JoinTimeout, d.JoinTimeout)
	fill(&c.ReconnectProb, d.ReconnectProb)
	return c
}

func fill[T int | float64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}
