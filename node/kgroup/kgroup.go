// Package kgroup computes the groups of CoMesh (ALGORITHMS 7): who of the
// smart nodes manages which device group in which epoch, how devices are
// clustered, how often a group survives simultaneous failures, and what
// routines are. Everything here is a function of its arguments: with equal
// lists all nodes compute the same groups without a message.
//
// It is not the protocol: elections, replication, migration, monitoring and
// routines are node/kgroup/smart. Nothing here is shared between callers but
// by their own doing; a Selector may be used by one at a time.
package kgroup

import (
	"fmt"
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/kgroup/trigger"
)

// Group numbers a device group, 0..Groups-1.
type Group = int32

// Place is a position in metres.
type Place [3]float64

// Selection policies.
const (
	Hash   = "hash"    // the k lowest hashes
	LSH    = "lsh"     // k members near the target
	LSHMix = "lsh-mix" // f+1 near the target, f by hash
)

// Central is the policy of hubs, which scenarios do not choose: the k nearest
// to the target.
const Central = "central"

// Policies lists the selection policies of scenarios.
func Policies() []string { return []string{Hash, LSH, LSHMix} }

// Who leads a group, of its members that live.
const (
	Lowest = "lowest" // the lowest hash
	Near   = "near"   // the lowest hash of those near the target
)

// Strategies of a routine for its locks.
const (
	SLA = "sla" // one lock after the other in device order
	OLA = "ola" // all at once; a refusal gives all back
)

// Routine is a rule of the mesh: when its trigger fires it locks its devices,
// commands each, and frees them.
type Routine struct {
	ID int `json:"id"`
	// When is a condition over device states, as package trigger reads it;
	// "" for routines that fire by time or by hand only.
	When string `json:"when,omitempty"`
	// Every fires it periodically, first Offset after the epoch of the run; 0:
	// not by time.
	Every  time.Duration `json:"every,omitempty"`
	Offset time.Duration `json:"offset,omitempty"`
	// Commands go to distinct devices, ascending. The first one is the
	// routine's representative: its group manages the routine.
	Commands []Command `json:"commands"`
}

// Command sets a device to a value, which takes it a while.
type Command struct {
	Device core.NodeID   `json:"device"`
	Value  int64         `json:"value"`
	Takes  time.Duration `json:"takes"`
}

// Devices lists the devices that the routine locks.
func (r *Routine) Devices() []core.NodeID {
	ids := make([]core.NodeID, len(r.Commands))
	for i, c := range r.Commands {
		ids[i] = c.Device
	}
	return ids
}

// Shares reports whether two routines have a device in common.
func (r *Routine) Shares(o *Routine) bool {
	for _, c := range r.Commands {
		if slices.ContainsFunc(o.Commands, func(d Command) bool { return d.Device == c.Device }) {
			return true
		}
	}
	return false
}

// Config is the part of CoMesh that all nodes of a run have in common.
// Durations are scenario time.
type Config struct {
	F      int           `json:"f"`      // failures to tolerate; a group has 2F+1 members
	Epoch  time.Duration `json:"epoch"`  // life of a group's member set; 0: for good
	Policy string        `json:"policy"` // Hash, LSH, LSHMix, Central
	LSH    LSHConfig     `json:"lsh"`
	// NearLeads has the members near the target lead before those drawn by
	// hash (LSHMix): with f others near, a quorum need not go far.
	NearLeads bool `json:"near_leads,omitempty"`
	// Paper leaves the previous group's record out (ALGORITHMS 7, trap):
	// every node forms groups by its own list and clock.
	Paper bool   `json:"paper,omitempty"`
	Locks string `json:"locks"` // SLA, OLA
	// Ping is the period in which a leader pings its devices and members.
	Ping time.Duration `json:"ping"`
	// Tries is how many pings in a row, two round trips each, a device leaves
	// unanswered before it counts as failed.
	Tries int `json:"tries"`

	Smart    []core.NodeID `json:"smart"` // ascending
	Places   []Place       `json:"places"`
	Of       []Group       `json:"of"`      // device group by device
	Centres  []Place       `json:"centres"` // mean place by group
	Routines []Routine     `json:"routines"`
	// StateEvery is the mean time between two changes of a device's state by
	// its seeded script; 0: states change by commands only.
	StateEvery time.Duration `json:"state_every,omitempty"`
}

// K is the number of members of a group.
func (c *Config) K() int { return 2*c.F + 1 }

// Quorum is how many members hold a change before it counts.
func (c *Config) Quorum() int { return c.F + 1 }

// Groups is the number of device groups.
func (c *Config) Groups() int { return len(c.Centres) }

// Home is the group that manages a routine.
func (c *Config) Home(r *Routine) Group { return c.Of[r.Commands[0].Device] }

// IsSmart reports whether a node is a smart one.
func (c *Config) IsSmart(id core.NodeID) bool {
	_, ok := slices.BinarySearch(c.Smart, id)
	return ok
}

// MaxF bounds F: a message holds the member lists of two groups.
const MaxF = 16

// Validate reports what the protocol cannot run with.
func (c *Config) Validate() error {
	n := len(c.Places)
	switch {
	case c.F < 0 || c.F > MaxF:
		return fmt.Errorf("f %d: want 0 to %d", c.F, MaxF)
	case c.Policy != Central && !slices.Contains(Policies(), c.Policy):
		return fmt.Errorf("selection policy %q: want %s, %s or %s", c.Policy, Hash, LSH, LSHMix)
	case c.Locks != SLA && c.Locks != OLA:
		return fmt.Errorf("lock strategy %q: want %s or %s", c.Locks, SLA, OLA)
	case c.Ping <= 0 || c.Tries < 1:
		return fmt.Errorf("monitoring period %v with %d tries: want more than 0 of both", c.Ping, c.Tries)
	case c.Epoch < 0 || c.Epoch > 0 && c.Epoch < 4*c.Ping:
		return fmt.Errorf("epoch %v: want 0 or at least four monitoring periods of %v", c.Epoch, c.Ping)
	case len(c.Of) != n || len(c.Centres) == 0 || n == 0:
		return fmt.Errorf("%d places, %d groups: want as many devices in groups as places", n, len(c.Centres))
	case len(c.Smart) < c.K():
		return fmt.Errorf("%d smart nodes: want at least the %d of one group", len(c.Smart), c.K())
	case !slices.IsSorted(c.Smart) || int(c.Smart[len(c.Smart)-1]) >= n || c.Smart[0] < 0:
		return fmt.Errorf("smart nodes: want ascending ids below %d", n)
	}
	for _, g := range c.Of {
		if g < 0 || int(g) >= len(c.Centres) {
			return fmt.Errorf("device group %d: want 0 to %d", g, len(c.Centres)-1)
		}
	}
	sharing := make([]int, n)
	for i := range c.Routines {
		if err := c.Routines[i].validate(i, n); err != nil {
			return fmt.Errorf("routine %d: %w", i, err)
		}
		for _, d := range c.Routines[i].Commands {
			if sharing[d.Device]++; sharing[d.Device] > MaxSharing {
				return fmt.Errorf("routine %d: device %d is in more routines than %d: want fewer, its lock would not fit a message", i, d.Device, MaxSharing)
			}
		}
	}
	return nil
}

// MaxCommands bounds the devices of one routine.
const MaxCommands = 64

// MaxSharing bounds the routines that command one device: who waits for its
// lock and who gave it back is one entry of a group's state, and an entry
// travels in one message.
const MaxSharing = 80

func (r *Routine) validate(id, devices int) error {
	if r.ID != id {
		return fmt.Errorf("id %d: want its place in the list", r.ID)
	}
	if len(r.Commands) == 0 || len(r.Commands) > MaxCommands {
		return fmt.Errorf("%d commands: want 1 to %d", len(r.Commands), MaxCommands)
	}
	if r.Every < 0 || r.Offset < 0 {
		return fmt.Errorf("every %v, offset %v: want 0 or more", r.Every, r.Offset)
	}
	last := core.None
	for _, c := range r.Commands {
		if c.Device <= last || int(c.Device) >= devices {
			return fmt.Errorf("device %d: want distinct ascending ids below %d", c.Device, devices)
		}
		if c.Takes < 0 {
			return fmt.Errorf("command of device %d takes %v: want 0 or more", c.Device, c.Takes)
		}
		last = c.Device
	}
	if r.When == "" {
		return nil
	}
	e, err := trigger.Parse(r.When)
	if err != nil {
		return err
	}
	for _, id := range e.Devices() {
		if int(id) >= devices {
			return fmt.Errorf("trigger %q: device %d: want ids below %d", r.When, id, devices)
		}
	}
	return nil
}
