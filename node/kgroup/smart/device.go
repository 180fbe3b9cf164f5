package smart

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/kgroup"
	"churnbed/node/wire"
)

// Codes of answers.
const (
	codeOK       = 1
	codeQueued   = 2 // LOCK-ANSWER: in the queue
	codeRefused  = 3 // held by another; no quorum; not the one to ask
	codeOver     = 4 // LOCK-ANSWER: the ticket was given back already
	codeFailed   = 5 // DONE: the device has failed
	codeRecord   = 6 // DECOMMISSION: record who follows
	codeActive   = 7 // DECOMMISSION: the new group serves
	codeStale    = 8 // the attempt was given up for another
	codeLives    = 9 // PROMISE: the leader lives
	codeBusy     = 10
	codeAtOnce   = 11 // LOCK: do not queue
	codeRecorded = 12
)

// device is the node as a device: a state that follows a seeded script, and
// commands that set it.
type device struct {
	rng     *rand.Rand
	value   int64
	version uint64 // of value
	changes core.Instant
	// The newest leader of its group that it heard of: what an older one says
	// is refused.
	epoch, term uint64
	running     []execution
	finished    []uint64 // by routine: highest ticket carried out
}

type execution struct {
	routine int32
	ticket  uint64
	value   int64
	ends    core.Instant
	leader  core.NodeID
}

func (d *device) init(m *Machine) {
	d.rng = core.Stream(m.cfg.Seed, "device/"+strconv.Itoa(int(m.self.ID)))
	d.value = int64(d.rng.IntN(100))
	d.changes = core.Never
	d.finished = make([]uint64, len(m.cfg.Routines))
}

func (d *device) start(m *Machine) { d.plan(m) }

func (d *device) plan(m *Machine) {
	if m.cfg.StateEvery > 0 {
		d.changes = m.now.Add(time.Duration(d.rng.ExpFloat64()*float64(m.cfg.StateEvery)) + 1)
	}
}

func (d *device) deadline() core.Instant {
	at := d.changes
	for i := range d.running {
		at = min(at, d.running[i].ends)
	}
	return at
}

func (d *device) tick(m *Machine) {
	if d.changes <= m.now {
		// A bounded random walk, as a temperature goes.
		d.value = min(max(d.value+int64(d.rng.IntN(41))-20, 0), 99)
		d.version++
		d.plan(m)
	}
	for i := 0; i < len(d.running); {
		e := d.running[i]
		if e.ends > m.now {
			i++
			continue
		}
		d.running = slices.Delete(d.running, i, i+1)
		d.value, d.finished[e.routine] = e.value, e.ticket
		d.version++
		d.logCommand(m, "done", e.routine, e.ticket)
		d.answer(m, e.leader, e.routine, e.ticket, codeOK)
	}
}

func (d *device) receive(m *Machine, from core.Peer, msg *wire.Group) {
	if msg.Group != m.cfg.Of[m.self.ID] {
		return
	}
	if msg.Epoch < d.epoch || msg.Epoch == d.epoch && msg.Term < d.term {
		if msg.Type == wire.KindGroupExecute {
			d.answer(m, from.ID, msg.Routine, msg.Ticket, codeRefused)
		}
		return
	}
	d.epoch, d.term = msg.Epoch, msg.Term
	if msg.Type == wire.KindGroupDevicePing {
		m.send(from.ID, &wire.Group{
			Type: wire.KindGroupDevicePong, Group: msg.Group, Device: m.self.ID, Value: d.value, Op: d.version + 1, Seq: msg.Seq,
		})
		return
	}
	r := msg.Routine
	if int(r) >= len(d.finished) {
		return
	}
	if d.finished[r] >= msg.Ticket {
		d.answer(m, from.ID, r, msg.Ticket, codeOK)
		return
	}
	for i := range d.running {
		if e := &d.running[i]; e.routine == r {
			if e.ticket == msg.Ticket {
				e.leader = from.ID
			}
			return
		}
	}
	if len(d.running) > 0 {
		// Who commanded before was told that the device failed, and gave the
		// lock back. The leader repeats this one until it is done.
		return
	}
	d.logCommand(m, "start", r, msg.Ticket)
	d.running = append(d.running, execution{r, msg.Ticket, msg.Value, m.now.Add(msg.Takes), from.ID})
}

func (d *device) answer(m *Machine, to core.NodeID, routine int32, ticket uint64, code byte) {
	m.send(to, &wire.Group{
		Type: wire.KindGroupExecuted, Group: m.cfg.Of[m.self.ID], Device: m.self.ID, Routine: routine, Ticket: ticket, Code: code,
	})
}

func (d *device) logCommand(m *Machine, state string, routine int32, ticket uint64) {
	m.log(eventlog.Command, state, eventlog.Group{
		Group: m.cfg.Of[m.self.ID], Epoch: d.epoch, Term: d.term, Device: int32(m.self.ID), Routine: routine, Ticket: ticket,
	})
}

// monitor is what a leader knows of one of its devices.
type monitor struct {
	sent    core.Instant // the ping that is not answered yet; Never: none
	tries   int
	srtt    time.Duration
	value   int64
	version uint64
	known   bool
	life    core.Incarnation
}

// firstTimeout is the silence that counts before a round trip was measured,
// leastTimeout at least afterwards: a round trip of microseconds says nothing
// about a busy device.
const (
	firstTimeout = 500 * time.Millisecond
	leastTimeout = 100 * time.Millisecond
	// refreshEvery is how many periods a leader tells the states of watched
	// devices anew, for leaders that came meanwhile and for lost news.
	refreshEvery = 5
)

func (w *monitor) timeout() time.Duration {
	if w.srtt == 0 {
		return firstTimeout
	}
	return max(2*w.srtt, leastTimeout)
}

// watchAll pings all devices of the group.
func (l *lead) watchAll(m *Machine, r *replica) {
	l.round++
	for i, id := range l.devices {
		w := &l.monitors[i]
		if w.sent == core.Never {
			w.tries = 0
			l.ping(m, r, i)
		}
		if w.known && l.round%refreshEvery == 0 {
			l.tellState(m, id, w.value)
		}
	}
}

func (l *lead) ping(m *Machine, r *replica, i int) {
	w := &l.monitors[i]
	w.sent, w.tries = m.now, w.tries+1
	m.send(l.devices[i], &wire.Group{
		Type: wire.KindGroupDevicePing, Group: r.group, Epoch: r.epoch, Term: l.term, Device: l.devices[i], Seq: uint64(m.now),
	})
}

// silence pings again, or declares failed, devices that did not answer in
// two round trips.
func (l *lead) silence(m *Machine, r *replica) {
	leased := r.leased(m)
	for i := range l.monitors {
		w := &l.monitors[i]
		if w.sent == core.Never || w.sent.Add(w.timeout()) > m.now {
			continue
		}
		if !leased {
			w.sent, w.tries = m.now, 1 // the fault may be this node's
			continue
		}
		if w.tries < m.cfg.Tries {
			l.ping(m, r, i)
			continue
		}
		w.sent = core.Never
		l.deviceFailed(m, r, i)
	}
}

func (l *lead) deviceFailed(m *Machine, r *replica, i int) {
	d := l.locks[i]
	id := l.devices[i]
	life := max(l.monitors[i].life, m.lives[id], core.FirstIncarnation)
	if m.cfg.IsSmart(id) {
		m.failed[id] = max(m.failed[id], life)
		l.spreadHealth(m, r, core.Peer{ID: id, Inc: life}, codeFailed)
	}
	if d.failed {
		return
	}
	d.failed = true
	l.write(m, r, deviceKey(id), d.encode(), func(ns time.Duration) {
		m.log(eventlog.Monitor, "failed", l.line(r, id, 0, 0, ns))
	})
}

// spreadHealth tells all smart nodes that one of them failed, or did not.
func (l *lead) spreadHealth(m *Machine, r *replica, p core.Peer, code byte) {
	for _, o := range m.list {
		if o != m.self.ID && o != p.ID {
			m.send(o, &wire.Group{
				Type: wire.KindGroupDeviceFailed, Group: r.group, Epoch: r.epoch, Term: l.term, Device: p.ID, Leader: p, Code: code,
			})
		}
	}
}

func (l *lead) pong(m *Machine, r *replica, from core.Peer, msg *wire.Group) {
	i, found := slices.BinarySearch(l.devices, from.ID)
	if !found {
		return
	}
	w := &l.monitors[i]
	w.life = from.Inc
	if w.sent != core.Never {
		if w.tries == 1 && msg.Seq == uint64(w.sent) {
			rtt := max(m.now.Sub(w.sent), 1)
			if w.srtt == 0 {
				w.srtt = rtt
			} else {
				w.srtt = (7*w.srtt + rtt) / 8
			}
		}
		w.sent = core.Never
	}
	if d := l.locks[i]; d.failed {
		d.failed = false
		if m.cfg.IsSmart(from.ID) {
			l.spreadHealth(m, r, from, codeActive)
		}
		l.write(m, r, deviceKey(from.ID), d.encode(), func(ns time.Duration) {
			m.log(eventlog.Monitor, "recovered", l.line(r, from.ID, 0, 0, ns))
		})
	}
	if !w.known || w.version != msg.Op {
		w.known, w.version, w.value = true, msg.Op, msg.Value
		l.tellState(m, from.ID, msg.Value)
	}
}

// tellState tells the leaders of the routines whose conditions name a device.
func (l *lead) tellState(m *Machine, id core.NodeID, value int64) {
	var told []kgroup.Group
	for _, routine := range m.watched[id] {
		g := m.cfg.Home(&m.cfg.Routines[routine])
		if slices.Contains(told, g) {
			continue
		}
		told = append(told, g)
		m.send(m.target(g, 0), &wire.Group{Type: wire.KindGroupDeviceState, Group: g, Device: id, Value: value})
	}
}
