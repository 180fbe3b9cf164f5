package stack

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"churnbed/node/core"
	"churnbed/node/membership"
	"churnbed/node/membership/medley"
	"churnbed/node/membership/oracle"
	"churnbed/node/membership/static"
	"churnbed/node/mutex"
	"churnbed/node/mutex/bv95"
	"churnbed/node/mutex/camera"
	"churnbed/node/mutex/camerapaper"
	"churnbed/node/mutex/catalog"
	"churnbed/node/mutex/fairk"
	"churnbed/node/mutex/naimitrehel"
	"churnbed/node/size"
	"churnbed/node/wire"
)

// algorithms makes a mutual-exclusion machine by name: those of the catalog,
// and those that take settings.
var algorithms = func() map[string]func(*Config) mutex.Machine {
	all := maps.Clone(withSettings)
	for _, e := range catalog.All() {
		all[e.Name] = func(c *Config) mutex.Machine { return e.New(c.Self) }
	}
	return all
}()

var withSettings = map[string]func(*Config) mutex.Machine{
	CoMesh:             func(*Config) mutex.Machine { return noSection{} },
	Hub:                func(*Config) mutex.Machine { return noSection{} },
	"localmutex":       func(c *Config) mutex.Machine { return newLocal(c, false) },
	"localmutex-paper": func(c *Config) mutex.Machine { return newLocal(c, true) },
	"camera": func(c *Config) mutex.Machine {
		return camera.New(c.Self, camera.Config{
			NUpper: c.leastUpper(), Estimated: c.estimates(), Durable: c.Algorithm.Durable, SuspicionWait: c.Algorithm.SuspicionWait,
			Slow:  camera.Slow{On: c.Algorithm.SlowPath != SlowOff, Failures: c.Algorithm.TreeFailures},
			Probe: camera.Probe{Timeout: probeTimeout(&c.Algorithm), NoDetector: c.Membership.Service == "static"},
		})
	},
	"naimi-trehel": func(c *Config) mutex.Machine {
		return naimitrehel.New(c.Self, naimitrehel.Config{Root: c.placement()[0]})
	},
	"fairk": func(c *Config) mutex.Machine {
		cfg := fairk.Config{Placement: c.placement()}
		if a := &c.Algorithm; a.Replicas > 0 {
			return fairk.NewTolerant(c.Self, fairk.TolerantConfig{
				Config: cfg, Nodes: c.Nodes, Copies: a.Replicas, Period: a.RingPeriod, Quorum: a.RingQuorum,
			})
		}
		return fairk.New(c.Self, cfg)
	},
	"bv95": func(c *Config) mutex.Machine {
		return bv95.New(c.Self, bv95.Config{
			Roots: c.placement(), Choice: bv95.Choice(c.Algorithm.TreeChoice), Rand: core.Stream(c.Seed, "tree/"+c.Self.String()),
		})
	},
	"camera-paper": func(c *Config) mutex.Machine {
		return camerapaper.New(c.Self, camerapaper.Config{
			SuspicionWait: c.Algorithm.SuspicionWait, Snapshot: c.Algorithm.Snapshot, ReleaseByID: c.Algorithm.ReleaseByID,
			KeepDeferred: c.Algorithm.KeepDeferred,
		})
	},
}

// services makes a membership machine by name.
var services = map[string]func(*Config) membership.Machine{
	"static": func(*Config) membership.Machine { return static.New() },
	"oracle": func(*Config) membership.Machine { return oracle.New() },
	"medley": func(c *Config) membership.Machine {
		m := c.Membership
		return medley.New(medley.Config{
			Period: m.Period, PingTimeout: m.PingTimeout, Suspicion: m.Suspicion, Indirect: m.Indirect, Exponent: m.Exponent,
		}, c.Nodes, c.Neighbours, c.Distance, core.Stream(c.Seed, "medley/"+c.Self.String()))
	},
}

// estimates reports whether the nodes estimate how many they are. One alone
// would wait for others.
func (c *Config) estimates() bool { return c.Algorithm.Estimate == Gossip && c.Nodes > 1 }

// leastUpper is what the bound on the number of nodes is at least.
func (c *Config) leastUpper() int {
	if c.estimates() {
		return max(1, c.Algorithm.NUpper)
	}
	return cmp.Or(c.Algorithm.NUpper, c.Nodes)
}

// estimator makes what bounds the number of nodes.
func (c *Config) estimator() size.Estimator {
	if c.Algorithm.Name == "camera" && c.estimates() {
		return size.NewGossip(c.Self, c.Seed, c.leastUpper())
	}
	return size.Configured(c.leastUpper())
}

// placement is who has the tokens at the beginning.
func (c *Config) placement() []core.NodeID {
	if len(c.Algorithm.Placement) == 0 {
		return []core.NodeID{0}
	}
	return c.Algorithm.Placement
}

// probeTimeout is camera's, 0 where it probes nobody.
func probeTimeout(a *Algorithm) time.Duration {
	if a.Name != "camera" {
		return 0
	}
	return max(0, cmp.Or(a.ProbeTimeout, camera.DefaultProbeTimeout))
}

// silence is after how long others may declare a silent node failed, 0 where
// nobody detects failures by silence. A node that runs is never so
// long without a step, since it has several rounds in that time.
func silence(c *Config) time.Duration {
	m := &c.Membership
	if m.Service == "static" {
		if c.Algorithm.Replicas > 0 {
			return fairk.StillPeriods * c.Algorithm.RingPeriod
		}
		return probeTimeout(&c.Algorithm)
	}
	if m.Service != "medley" {
		return 0
	}
	d := medley.DefaultConfig()
	return max(cmp.Or(m.Suspicion, d.Suspicion), 2*cmp.Or(m.Period, d.Period))
}

// Algorithms lists the names of algorithms that Config takes, sorted.
func Algorithms() []string { return slices.Sorted(maps.Keys(algorithms)) }

// Services lists the names of membership services that Config takes, sorted.
func Services() []string { return slices.Sorted(maps.Keys(services)) }

// Validate reports what New would not accept.
func (c *Config) Validate() error {
	if algorithms[c.Algorithm.Name] == nil {
		return fmt.Errorf("algorithm %q: want %s", c.Algorithm.Name, strings.Join(Algorithms(), ", "))
	}
	switch c.Algorithm.Estimate {
	case "", Configured, Gossip:
	default:
		return fmt.Errorf("estimate %q: want %s, %s", c.Algorithm.Estimate, Configured, Gossip)
	}
	if services[c.Membership.Service] == nil {
		return fmt.Errorf("membership %q: want %s", c.Membership.Service, strings.Join(Services(), ", "))
	}
	if c.Nodes < 1 || c.Nodes > core.MaxNodes {
		return fmt.Errorf("nodes %d: want 1 to %d", c.Nodes, core.MaxNodes)
	}
	if c.Self.ID < 0 || int(c.Self.ID) >= c.Nodes {
		return fmt.Errorf("self %v: want an id below %d", c.Self, c.Nodes)
	}
	switch grouped := c.Algorithm.Name == CoMesh || c.Algorithm.Name == Hub; {
	case grouped != (c.Group != nil):
		return fmt.Errorf("algorithm %q: want group with %s and %s, and with no other", c.Algorithm.Name, CoMesh, Hub)
	case !grouped:
	case len(c.Group.Places) != c.Nodes:
		return fmt.Errorf("group: %d places: want one a node", len(c.Group.Places))
	default:
		if err := c.Group.Validate(); err != nil {
			return fmt.Errorf("group: %w", err)
		}
	}
	for _, p := range c.Members {
		if p.ID < 0 || int(p.ID) >= c.Nodes || p.ID == c.Self.ID {
			return fmt.Errorf("member %v: want the id of another node below %d", p, c.Nodes)
		}
	}
	for _, n := range c.Neighbours {
		if n < 0 || int(n) >= c.Nodes {
			return fmt.Errorf("neighbour %d: want an id below %d", n, c.Nodes)
		}
	}
	if len(c.Algorithm.Placement) > wire.MaxTokens {
		return fmt.Errorf("%d tokens: want at most %d", len(c.Algorithm.Placement), wire.MaxTokens)
	}
	switch a := &c.Algorithm; {
	case a.Replicas == 0:
	case a.Name != "fairk":
		return fmt.Errorf("%d replicas: algorithm %q has none", a.Replicas, a.Name)
	case a.Replicas < 0 || a.Replicas >= c.Nodes || c.Nodes > wire.MaxRing:
		return fmt.Errorf("%d replicas of %d nodes: want fewer than nodes, and at most %d nodes", a.Replicas, c.Nodes, wire.MaxRing)
	case a.RingPeriod <= 0 || a.RingQuorum < 0 || a.RingQuorum > c.Nodes:
		return fmt.Errorf("ring of period %v and quorum %d: want a period above 0, and a quorum up to the number of nodes", a.RingPeriod, a.RingQuorum)
	}
	for _, n := range c.Algorithm.Placement {
		if n < 0 || int(n) >= c.Nodes {
			return fmt.Errorf("token at node %d: want an id below %d", n, c.Nodes)
		}
	}
	return nil
}
