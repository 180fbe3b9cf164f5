package medley

import "time"

// Config holds Medley's constants. Zero values of all fields but the
// probabilities mean the published ones; DefaultConfig has them all.
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

// withDefaults fills the fields whose zero value has no meaning. A
// probability of 0 switches its feature off.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	for _, f := range []struct {
		v *time.Duration
		d time.Duration
	}{
		{&c.Period, d.Period},
		{&c.PingTimeout, d.PingTimeout},
		{&c.Suspicion, d.Suspicion},
		{&c.TableKeep, d.TableKeep},
		{&c.PassiveAge, d.PassiveAge},
		{&c.ActiveGap, d.ActiveGap},
		{&c.JoinTimeout, d.JoinTimeout},
	} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	if c.Indirect <= 0 {
		c.Indirect = d.Indirect
	}
	if c.TableMax <= 0 {
		c.TableMax = d.TableMax
	}
	if c.Exponent <= 0 {
		c.Exponent = d.Exponent
	}
	if c.ActiveWeight <= 0 {
		c.ActiveWeight = d.ActiveWeight
	}
	return c
}
