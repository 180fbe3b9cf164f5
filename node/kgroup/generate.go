package kgroup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"churnbed/node/core"
)

// Generated says what routines to make.
type Generated struct {
	Count       int
	MeanDevices float64 // of a routine, at least 1
	// Conflict is the share of a routine's devices that is drawn from one
	// small pool that all routines share, 0..1: 0 makes conflicts rare, 1
	// makes nearly every two routines conflict.
	Conflict float64
	Every    time.Duration // mean period of a routine
	Takes    time.Duration // mean length of a command
	// States is the share of routines that fire on a device's state instead
	// of by time, 0..1.
	States float64
}

// Generate makes routines over devices 0..devices-1. Sizes are 1 plus a
// binomial; periods and lengths lie within half of their means.
func Generate(g Generated, devices int, rng *rand.Rand) []Routine {
	mean := min(max(g.MeanDevices, 1), float64(min(devices, MaxCommands)))
	pool := rng.Perm(devices)[:min(devices, max(2, int(mean)))]
	routines := make([]Routine, g.Count)
	for i := range routines {
		size := 1
		for range 2 * int(mean-1+0.5) { // mean of the binomial: mean - 1
			if rng.IntN(2) == 0 {
				size++
			}
		}
		size = min(size, devices, MaxCommands)
		var ids []core.NodeID
		for tries := 0; len(ids) < size; tries++ {
			id := core.NodeID(rng.IntN(devices))
			if tries < 8*size && rng.Float64() < g.Conflict {
				id = core.NodeID(pool[rng.IntN(len(pool))])
			}
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		r := &routines[i]
		r.ID = i
		for _, id := range ids {
			r.Commands = append(r.Commands, Command{Device: id, Value: int64(rng.IntN(100)), Takes: around(g.Takes, rng)})
		}
		if rng.Float64() < g.States {
			a, b := rng.IntN(devices), rng.IntN(devices)
			r.When = fmt.Sprintf("d%d > %d and not d%d < %d", a, 40+rng.IntN(40), b, rng.IntN(30))
			continue
		}
		r.Every = around(g.Every, rng)
		r.Offset = time.Duration(rng.Int64N(max(int64(r.Every), 1)))
	}
	return routines
}

func around(mean time.Duration, rng *rand.Rand) time.Duration {
	return time.Duration((0.5 + rng.Float64()) * float64(mean))
}
