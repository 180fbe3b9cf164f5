package localmutex

import (
	"encoding/binary"
	"slices"
	"strconv"

	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// App is a small application whose nodes hold one value each and change it,
// and one neighbour's, under the lock. ACK-LOCK carries the neighbours' values
// to the holder, RELEASE-LOCK the new one back. The holder changes its own
// value when the neighbour has acknowledged its: if the link goes meanwhile, it
// keeps the old one, so that a value may then be there twice, but never gets
// lost. It releases itself last.
type App struct {
	// Name is what notes call it.
	Name string
	// Initial value, 0..1<<31-1.
	Initial uint32
	// Act is called with the lock: the node's own value and those of its lock
	// set, in the order of the ports. It returns which neighbour is concerned (-1:
	// none) and the new values of both.
	Act func(mine uint32, theirs []uint32, r Source) (i int, newMine, newTheirs uint32)
}

// Note begins the note of a node's new value in the log: "app NAME VALUE".
const Note = "app "

// writes marks a RELEASE-LOCK that changes the value.
const writes = 1 << 31

// action is what a node does under its lock, and the value that it holds.
type action struct {
	app     App
	value   uint32
	seen    []uint32 // by port, from ACK-LOCK
	partner int      // whose value changes; self: nobody's
	mine    uint32   // new values
	theirs  uint32
	waiting bool // for the partner to acknowledge
}

func (a *action) init(cfg *Config, ports int) {
	if cfg.App != nil {
		a.app, a.value, a.seen = *cfg.App, cfg.App.Initial, make([]uint32, ports)
	}
}

func (a *action) clone() action {
	c := *a
	c.seen = slices.Clone(a.seen)
	return c
}

func (a *action) set(v uint32, out *mutex.Effects) {
	a.value = v
	out.Notes = append(out.Notes, Note+a.app.Name+" "+strconv.FormatUint(uint64(v), 10))
}

func (a *action) announce(out *mutex.Effects) {
	if a.app.Act != nil {
		a.set(a.value, out)
	}
}

func (a *action) heard(p int, value uint32) {
	if a.app.Act != nil {
		a.seen[p] = value
	}
}

// written takes in what the holder of the node's lock wrote.
func (a *action) written(value uint32, out *mutex.Effects) {
	if a.app.Act != nil && value&writes != 0 {
		a.set(value&^writes, out)
	}
}

// decide lets the application act on the lock set.
func (a *action) decide(m *Machine) {
	if a.app.Act == nil {
		return
	}
	var ports []int
	var theirs []uint32
	for s := m.L.without(m.gone | one(self)); s != 0; s &= s - 1 {
		ports = append(ports, s.next())
		theirs = append(theirs, a.seen[s.next()])
	}
	i, mine, other := a.app.Act(a.value, theirs, m.cfg.Rand)
	a.partner = self
	if i >= 0 {
		a.partner, a.mine, a.theirs = ports[i], mine, other|writes
	}
}

func (a *action) appendState(b []byte) []byte {
	if a.app.Act == nil {
		return b
	}
	b = binary.AppendUvarint(b, uint64(a.value))
	b = binary.AppendUvarint(b, uint64(a.partner))
	b = binary.AppendUvarint(b, uint64(a.mine))
	b = binary.AppendUvarint(b, uint64(a.theirs))
	b = append(b, wire.Flags(a.waiting))
	for _, v := range a.seen {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return b
}

// The applications that AppNamed knows.
const (
	// ElectionApp elects one leader by pairwise interactions: all begin as leaders
	// (1); of two that meet one gives up (0); a leader that meets a follower
	// moves on to it, so that the last two meet some time (Angluin, Aspnes,
	// Diamadi, Fischer, Peralta, "Computation in networks of passively mobile
	// finite-state sensors", 2006).
	ElectionApp = "election"
	// MajorityApp is the exact majority of four states (Draief and Vojnovic,
	// "Convergence speed of binary interval consensus", 2012; Mertzios and
	// others 2014): strong and weak votes for A and B. Strong opposite votes
	// make each other weak, strong votes convert weak ones and move.
	MajorityApp = "majority"
	// AmoebotApp moves particles on the graph of their sites: a particle that
	// locked its site and those around it moves to an empty one.
	AmoebotApp = "amoebot"
)

// Values of MajorityApp.
const (
	StrongA uint32 = iota
	StrongB
	WeakA
	WeakB
)

// AppNamed returns the named application at node id, nil where there is none
// of that name. Two of five nodes begin with a vote for B (ids 1 and 3 modulo
// 5), so that A has the majority; every third site (ids 0 modulo 3) begins with
// a particle, numbered by its id plus one.
func AppNamed(name string, id int) *App {
	pick := func(theirs []uint32, r Source) int {
		if len(theirs) == 0 {
			return -1
		}
		return r.IntN(len(theirs))
	}
	switch name {
	case ElectionApp:
		return &App{Name: name, Initial: 1, Act: func(mine uint32, theirs []uint32, r Source) (int, uint32, uint32) {
			i := pick(theirs, r)
			if i < 0 || mine == 0 {
				return -1, 0, 0
			}
			if theirs[i] == 1 {
				return i, 1, 0
			}
			return i, 0, 1
		}}
	case MajorityApp:
		first := StrongA
		if id%5 == 1 || id%5 == 3 {
			first = StrongB
		}
		return &App{Name: name, Initial: first, Act: func(mine uint32, theirs []uint32, r Source) (int, uint32, uint32) {
			i := pick(theirs, r)
			if i < 0 {
				return -1, 0, 0
			}
			a, b := majority(mine, theirs[i])
			return i, a, b
		}}
	case AmoebotApp:
		first := uint32(0)
		if id%3 == 0 {
			first = uint32(id) + 1
		}
		return &App{Name: name, Initial: first, Act: func(mine uint32, theirs []uint32, r Source) (int, uint32, uint32) {
			var empty []int
			for i, v := range theirs {
				if v == 0 {
					empty = append(empty, i)
				}
			}
			if mine == 0 || len(empty) == 0 {
				return -1, 0, 0
			}
			return empty[r.IntN(len(empty))], 0, mine
		}}
	}
	return nil
}

// majority is one interaction of the four-state protocol.
func majority(a, b uint32) (uint32, uint32) {
	switch {
	case a == StrongA && b == StrongB:
		return WeakA, WeakB
	case a == StrongB && b == StrongA:
		return WeakB, WeakA
	case a < WeakA && b >= WeakA: // the strong vote moves, and converts
		return a + 2, a
	case a >= WeakA && b < WeakA:
		return b, b + 2
	}
	return a, b
}
