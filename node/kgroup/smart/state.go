package smart

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"churnbed/node/core"
	"churnbed/node/wire"
)

// Entries of a group's state are integers in their shortest form; an absent
// entry is the zero value of its type.

// meta belongs to the epoch, not to the inherited state.
type meta struct {
	active bool         // the group serves, or did
	since  core.Instant // when it began to
	tried  uint64       // newest epoch that was tried as the next one
	// Who follows, once recorded: epoch 0 until then.
	epoch, term uint64
	members     []core.Peer
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func numbers(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func (e *meta) encode() []byte {
	b := numbers(nil, bit(e.active), uint64(e.since), e.tried, e.epoch, e.term, uint64(len(e.members)))
	for _, p := range e.members {
		b = wire.AppendPeer(b, p)
	}
	return b
}

func decodeMeta(b []byte) meta {
	r := wire.NewReader(b)
	e := meta{active: r.Bool(), since: core.Instant(r.Uvarint()), tried: r.Uvarint(), epoch: r.Uvarint(), term: r.Uvarint()}
	for range r.Count(2) {
		e.members = append(e.members, r.Peer())
	}
	return e
}

// claim is a routine's wish for a device. Tickets of a routine grow: run
// number, then attempt (ola), as eventlog.SplitTicket takes them apart.
type claim struct {
	routine int32
	ticket  uint64
}

// deviceState is a device's lock and health.
type deviceState struct {
	failed bool
	holder claim // ticket 0: free
	queue  []claim
	over   []claim // highest ticket that each routine gave back
}

func (d *deviceState) encode() []byte {
	b := numbers(nil, bit(d.failed), uint64(d.holder.routine), d.holder.ticket)
	for _, list := range [][]claim{d.queue, d.over} {
		b = numbers(b, uint64(len(list)))
		for _, c := range list {
			b = numbers(b, uint64(c.routine), c.ticket)
		}
	}
	return b
}

func decodeDevice(b []byte) *deviceState {
	r := wire.NewReader(b)
	one := func() claim { return claim{int32(r.Max(1<<31-1, "routine")), r.Uvarint()} }
	d := &deviceState{failed: r.Bool(), holder: one()}
	for _, list := range []*[]claim{&d.queue, &d.over} {
		for range r.Count(2) {
			*list = append(*list, one())
		}
	}
	return d
}

// isOver reports whether a ticket was given back.
func (d *deviceState) isOver(c claim) bool {
	return slices.ContainsFunc(d.over, func(o claim) bool { return o.routine == c.routine && o.ticket >= c.ticket })
}

// claims reports whether a ticket holds the lock or waits for it.
func (d *deviceState) claims(c claim) bool { return d.holder == c || slices.Contains(d.queue, c) }

// release takes a ticket out for good and returns who holds the lock now,
// where that changed.
func (d *deviceState) release(c claim) (next claim, held bool) {
	if i := slices.IndexFunc(d.over, func(o claim) bool { return o.routine == c.routine }); i >= 0 {
		d.over[i].ticket = max(d.over[i].ticket, c.ticket)
	} else {
		d.over = append(d.over, c)
	}
	d.queue = slices.DeleteFunc(d.queue, func(o claim) bool { return o.routine == c.routine && o.ticket <= c.ticket })
	if d.holder != c {
		return claim{}, false
	}
	d.holder = claim{}
	if len(d.queue) > 0 {
		d.holder = d.queue[0]
		d.queue = slices.Delete(d.queue, 0, 1)
	}
	return d.holder, true
}

// phase of a routine.
type phase uint8

const (
	notTriggered phase = iota
	acquiring
	executing
	releasing
	backingOff // gives back what it got, to ask again later (ola)
)

var phaseNames = [...]string{"NOT_TRIGGERED", "ACQUIRING_LOCKS", "EXECUTING", "RELEASING_LOCKS", "BACKING_OFF"}

// routineState is the replicated part of a routine.
type routineState struct {
	phase  phase
	ticket uint64
	fired  uint64       // time slots that fired or passed
	was    bool         // its condition held when last looked at
	hand   uint64       // the last call that fired it by hand
	asked  core.Instant // when it was triggered
}

func (s *routineState) encode() []byte {
	return numbers(nil, uint64(s.phase), s.ticket, s.fired, bit(s.was), s.hand, uint64(s.asked))
}

func decodeRoutine(b []byte) routineState {
	r := wire.NewReader(b)
	return routineState{
		phase: phase(r.Max(uint64(backingOff), "phase")), ticket: r.Uvarint(), fired: r.Uvarint(), was: r.Bool(), hand: r.Uvarint(),
		asked: core.Instant(r.Uvarint()),
	}
}

// locksText lists the locks that are held, for the log.
func (l *lead) locksText() string {
	var b strings.Builder
	for i, d := range l.locks {
		if d.holder.ticket == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(int(l.devices[i])) + ":" + strconv.Itoa(int(d.holder.routine)) + "." + strconv.FormatUint(d.holder.ticket, 10))
	}
	return b.String()
}
