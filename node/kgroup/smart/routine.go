package smart

import (
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/kgroup"
	"churnbed/node/kgroup/trigger"
	"churnbed/node/wire"
)

// work is a routine at the leader of its group.
type work struct {
	routine *kgroup.Routine
	when    *trigger.Expr
	routineState
	writing bool

	got  []bool // by command, in the present phase: lock granted, command done, lock freed
	at   core.Instant
	try  int
	wait bool // backing off after everything was given back
}

// watched lists by device the routines whose conditions name it.
func watched(cfg *kgroup.Config) [][]int {
	by := make([][]int, len(cfg.Places))
	for i := range cfg.Routines {
		if e := condition(&cfg.Routines[i]); e != nil {
			for _, id := range e.Devices() {
				by[id] = append(by[id], i)
			}
		}
	}
	return by
}

// condition returns the condition of a routine, nil where it has none.
// Validate has parsed it before.
func condition(r *kgroup.Routine) *trigger.Expr {
	if r.When == "" {
		return nil
	}
	e, err := trigger.Parse(r.When)
	if err != nil {
		return nil
	}
	return e
}

// load takes the entries of the group into work.
func (l *lead) load(m *Machine, r *replica) {
	l.devices, l.monitors, l.locks, l.works = nil, nil, nil, nil
	l.askers = make(map[asker]core.NodeID)
	l.values = make(map[core.NodeID]int64)
	for id, g := range m.cfg.Of {
		if g != r.group {
			continue
		}
		l.devices = append(l.devices, core.NodeID(id))
		l.monitors = append(l.monitors, monitor{sent: core.Never})
		d := &deviceState{}
		if at, found := r.entry(deviceKey(core.NodeID(id))); found {
			d = decodeDevice(r.entries[at].Data)
		}
		l.locks = append(l.locks, d)
	}
	l.dirty = make([]int, len(l.devices))
	for i := range m.cfg.Routines {
		rt := &m.cfg.Routines[i]
		if m.cfg.Home(rt) != r.group {
			continue
		}
		w := &work{routine: rt, when: condition(rt), at: core.Never, got: make([]bool, len(rt.Commands))}
		if at, found := r.entry(routineKey(i)); found {
			w.routineState = decodeRoutine(r.entries[at].Data)
		}
		l.works = append(l.works, w)
	}
}

// begin goes on with the routines where the former leader left them.
func (l *lead) begin(m *Machine, r *replica) {
	for _, w := range l.works {
		if w.phase != notTriggered {
			g := l.line(r, w.routine.Commands[0].Device, w.routine.ID, w.ticket, 0)
			g.Since = int64(w.asked)
			m.log(eventlog.Routine, phaseNames[w.phase], g)
			l.drive(m, r, w)
		}
	}
	l.routinesTick(m, r)
}

func (l *lead) work(routine int32) *work {
	for _, w := range l.works {
		if w.routine.ID == int(routine) {
			return w
		}
	}
	return nil
}

// slot is the next time slot of a routine that fires by time.
func (w *work) slot(m *Machine) core.Instant {
	return m.epoch.Add(w.routine.Offset + time.Duration(w.fired)*w.routine.Every)
}

func (w *work) deadline(m *Machine) core.Instant {
	d := w.at
	if w.routine.Every > 0 && !w.writing {
		d = min(d, w.slot(m))
	}
	return d
}

func (l *lead) routinesTick(m *Machine, r *replica) {
	for _, w := range l.works {
		if r.stage != leading {
			return
		}
		if w.routine.Every > 0 && !w.writing && w.slot(m) <= m.now {
			l.slotDue(m, r, w)
		}
		if w.at <= m.now {
			l.drive(m, r, w)
		}
	}
}

// slotDue fires a routine by time; the slots that passed while it ran, or
// while nobody led its group, are skipped but for the last.
func (l *lead) slotDue(m *Machine, r *replica, w *work) {
	last := w.fired + uint64(m.now.Sub(w.slot(m))/w.routine.Every)
	asked := m.epoch.Add(w.routine.Offset + time.Duration(last)*w.routine.Every)
	w.fired = last + 1
	if w.phase != notTriggered {
		m.log(eventlog.Routine, "skipped", l.line(r, w.routine.Commands[0].Device, w.routine.ID, w.ticket, 0))
		return
	}
	l.fire(m, r, w, asked, func() {})
}

// fire begins a run of a routine.
func (l *lead) fire(m *Machine, r *replica, w *work, asked core.Instant, then func()) {
	run, _ := eventlog.SplitTicket(w.ticket)
	w.ticket = (run + 1) << eventlog.AttemptBits
	w.asked = asked
	g := l.line(r, w.routine.Commands[0].Device, w.routine.ID, w.ticket, 0)
	g.Since = int64(asked)
	m.log(eventlog.Routine, "TRIGGERED", g)
	l.enterPhase(m, r, w, acquiring, then)
}

// enterPhase moves a routine on when a quorum holds that it does.
func (l *lead) enterPhase(m *Machine, r *replica, w *work, p phase, then func()) {
	w.phase, w.writing, w.at, w.try, w.wait = p, true, core.Never, 0, false
	clear(w.got)
	l.write(m, r, routineKey(w.routine.ID), w.encode(), func(took time.Duration) {
		w.writing = false
		if r.lead != l || r.stage != leading {
			return // frozen: the next leader logs it
		}
		g := l.line(r, w.routine.Commands[0].Device, w.routine.ID, w.ticket, took)
		g.Since = int64(w.asked)
		m.log(eventlog.Routine, phaseNames[p], g)
		if p == releasing {
			m.executed++
		}
		then()
		l.drive(m, r, w)
	})
}

// drive sends what the phase of a routine waits for, or moves it on.
func (l *lead) drive(m *Machine, r *replica, w *work) {
	if w.writing || r.stage != leading {
		return
	}
	w.at = core.Never
	if w.wait {
		w.ticket++
		l.enterPhase(m, r, w, acquiring, func() {})
		return
	}
	missing := slices.Index(w.got, false)
	switch w.phase {
	case notTriggered:
		l.judge(m, r, w)
		return
	case acquiring:
		if missing < 0 {
			l.enterPhase(m, r, w, executing, func() {})
			return
		}
	case executing:
		if missing < 0 {
			l.enterPhase(m, r, w, releasing, func() {})
			return
		}
	case releasing:
		if missing < 0 {
			l.enterPhase(m, r, w, notTriggered, func() {})
			return
		}
	case backingOff:
		if missing < 0 {
			// Full jitter, growing with the attempts of this run.
			_, attempt := eventlog.SplitTicket(w.ticket)
			attempt = min(attempt, 5)
			w.wait = true
			w.at = m.now.Add(1 + time.Duration(m.rng.Int64N(int64(m.periods(0.1))<<attempt)))
			return
		}
	}
	w.at = m.now.Add(m.periods(repeat) << min(w.try, repeatMost))
	for i := range w.got {
		if !w.got[i] {
			l.ask(m, w, i)
			if w.phase == acquiring && m.cfg.Locks == kgroup.SLA {
				break // the next one when this one is granted
			}
		}
	}
	w.try++
}

// ask sends the request of a routine's phase for one of its devices.
func (l *lead) ask(m *Machine, w *work, i int) {
	c := &w.routine.Commands[i]
	g := m.cfg.Of[c.Device]
	msg := &wire.Group{Group: g, Device: c.Device, Routine: int32(w.routine.ID), Ticket: w.ticket}
	switch w.phase {
	case acquiring:
		msg.Type = wire.KindGroupLock
		if m.cfg.Locks == kgroup.OLA {
			msg.Code = codeAtOnce
		}
	case executing:
		msg.Type, msg.Value, msg.Takes = wire.KindGroupCommand, c.Value, c.Takes
	case releasing, backingOff:
		msg.Type = wire.KindGroupUnlock
	case notTriggered:
		return
	}
	m.send(m.target(g, w.try), msg)
}

// hurry repeats requests to a group whose leader has become known.
func (l *lead) hurry(m *Machine, g kgroup.Group) {
	for _, w := range l.works {
		if w.at == core.Never || w.wait {
			continue
		}
		for i, c := range w.routine.Commands {
			if !w.got[i] && m.cfg.Of[c.Device] == g {
				w.at, w.try = m.now, 0
			}
		}
	}
}

// progress notes an answer for one device in the phase it belongs to.
func (l *lead) progress(m *Machine, r *replica, msg *wire.Group, phases ...phase) {
	w := l.work(msg.Routine)
	if w == nil || w.writing || w.ticket != msg.Ticket || !slices.Contains(phases, w.phase) || w.wait {
		return
	}
	i := slices.IndexFunc(w.routine.Commands, func(c kgroup.Command) bool { return c.Device == msg.Device })
	if i < 0 || w.got[i] {
		return
	}
	w.got[i] = true
	if w.phase == acquiring && m.cfg.Locks == kgroup.SLA || !slices.Contains(w.got, false) {
		w.try = 0
		l.drive(m, r, w)
	}
}

func (l *lead) lockAnswer(m *Machine, r *replica, msg *wire.Group) {
	if msg.Device == core.None {
		return
	}
	rt := &m.routes[m.cfg.Of[msg.Device]]
	if msg.Epoch < rt.epoch || msg.Epoch == rt.epoch && msg.Term < rt.term {
		return // of a leader that is none any more; the request is repeated
	}
	switch msg.Code {
	case codeOK:
		l.progress(m, r, msg, acquiring)
	case codeRefused:
		w := l.work(msg.Routine)
		if w != nil && !w.writing && w.phase == acquiring && w.ticket == msg.Ticket && m.cfg.Locks == kgroup.OLA {
			l.enterPhase(m, r, w, backingOff, func() {})
		}
	}
}

func (l *lead) unlocked(m *Machine, r *replica, msg *wire.Group) {
	l.progress(m, r, msg, releasing, backingOff)
}

func (l *lead) done(m *Machine, r *replica, msg *wire.Group) { l.progress(m, r, msg, executing) }

// lock handles a request for a device's lock.
func (l *lead) lock(m *Machine, r *replica, from core.Peer, msg *wire.Group) {
	i, found := slices.BinarySearch(l.devices, msg.Device)
	if !found || int(msg.Routine) >= len(m.cfg.Routines) || msg.Ticket == 0 {
		return
	}
	d, c := l.locks[i], claim{msg.Routine, msg.Ticket}
	l.askers[asker{msg.Device, msg.Routine}] = from.ID
	switch {
	case d.isOver(c):
		l.answerLock(m, r, from.ID, i, c, codeOver)
	case d.holder == c:
		if l.dirty[i] == 0 {
			l.answerLock(m, r, from.ID, i, c, codeOK)
		}
	case slices.Contains(d.queue, c):
		if l.dirty[i] == 0 {
			l.answerLock(m, r, from.ID, i, c, codeQueued)
		}
	case d.holder.ticket == 0:
		m.log(eventlog.Lock, "request", l.line(r, msg.Device, int(c.routine), c.ticket, 0))
		d.holder = c
		l.change(m, r, i, func(took time.Duration) { l.granted(m, r, i, c, took) })
	case msg.Code == codeAtOnce:
		l.answerLock(m, r, from.ID, i, c, codeRefused)
	default:
		m.log(eventlog.Lock, "request", l.line(r, msg.Device, int(c.routine), c.ticket, 0))
		d.queue = append(d.queue, c)
		l.change(m, r, i, func(time.Duration) { l.answerLock(m, r, from.ID, i, c, codeQueued) })
	}
}

// change writes a device's lock.
func (l *lead) change(m *Machine, r *replica, i int, then func(took time.Duration)) {
	l.dirty[i]++
	l.write(m, r, deviceKey(l.devices[i]), l.locks[i].encode(), func(took time.Duration) {
		l.dirty[i]--
		then(took)
	})
}

// granted tells of a grant that a quorum holds.
func (l *lead) granted(m *Machine, r *replica, i int, c claim, took time.Duration) {
	m.log(eventlog.Lock, "grant", l.line(r, l.devices[i], int(c.routine), c.ticket, took))
	l.answerLock(m, r, l.askerOf(m, l.devices[i], c.routine), i, c, codeOK)
}

// askerOf is whom to answer about a routine's wish for a device.
func (l *lead) askerOf(m *Machine, device core.NodeID, routine int32) core.NodeID {
	if id, found := l.askers[asker{device, routine}]; found {
		return id
	}
	return m.target(m.cfg.Home(&m.cfg.Routines[routine]), 0)
}

func (l *lead) answerLock(m *Machine, r *replica, to core.NodeID, i int, c claim, code byte) {
	m.send(to, &wire.Group{
		Type: wire.KindGroupLockAnswer, Group: m.cfg.Home(&m.cfg.Routines[c.routine]), Epoch: r.epoch, Term: l.term,
		Device: l.devices[i], Routine: c.routine, Ticket: c.ticket, Code: code,
	})
}

func (l *lead) unlock(m *Machine, r *replica, from core.Peer, msg *wire.Group) {
	i, found := slices.BinarySearch(l.devices, msg.Device)
	if !found || int(msg.Routine) >= len(m.cfg.Routines) || msg.Ticket == 0 {
		return
	}
	d, c := l.locks[i], claim{msg.Routine, msg.Ticket}
	answer := func() {
		m.send(from.ID, &wire.Group{
			Type: wire.KindGroupUnlocked, Group: m.cfg.Home(&m.cfg.Routines[c.routine]), Device: msg.Device, Routine: c.routine, Ticket: c.ticket,
		})
	}
	if d.isOver(c) && !d.claims(c) {
		if l.dirty[i] == 0 {
			answer()
		}
		return
	}
	held := d.holder == c
	next, _ := d.release(c)
	l.change(m, r, i, func(took time.Duration) {
		if held {
			m.log(eventlog.Lock, "release", l.line(r, msg.Device, int(c.routine), c.ticket, took))
		}
		answer()
		if held && next.ticket != 0 {
			l.granted(m, r, i, next, took)
		}
	})
}

// command passes a command on to its device, for who holds its lock.
func (l *lead) command(m *Machine, r *replica, from core.Peer, msg *wire.Group) {
	i, found := slices.BinarySearch(l.devices, msg.Device)
	if !found {
		return
	}
	d, c := l.locks[i], claim{msg.Routine, msg.Ticket}
	if d.holder != c || l.dirty[i] > 0 {
		return
	}
	l.askers[asker{msg.Device, msg.Routine}] = from.ID
	if d.failed {
		// A dead device cannot hold up a routine.
		m.send(from.ID, &wire.Group{
			Type: wire.KindGroupDone, Group: m.cfg.Home(&m.cfg.Routines[c.routine]), Device: msg.Device, Routine: c.routine, Ticket: c.ticket, Code: codeFailed,
		})
		return
	}
	m.send(msg.Device, &wire.Group{
		Type: wire.KindGroupExecute, Group: r.group, Epoch: r.epoch, Term: l.term, Device: msg.Device, Routine: c.routine, Ticket: c.ticket,
		Value: msg.Value, Takes: msg.Takes,
	})
}

func (l *lead) executed(m *Machine, msg *wire.Group) {
	if msg.Device == core.None || msg.Code != codeOK || int(msg.Routine) >= len(m.cfg.Routines) {
		return
	}
	m.send(l.askerOf(m, msg.Device, msg.Routine), &wire.Group{
		Type: wire.KindGroupDone, Group: m.cfg.Home(&m.cfg.Routines[msg.Routine]), Device: msg.Device, Routine: msg.Routine, Ticket: msg.Ticket, Code: codeOK,
	})
}

func (l *lead) deviceState(m *Machine, r *replica, msg *wire.Group) {
	if msg.Device == core.None {
		return
	}
	l.values[msg.Device] = msg.Value
	for _, w := range l.works {
		if w.when != nil {
			l.judge(m, r, w)
		}
	}
}

// judge fires a routine whose condition came to hold.
func (l *lead) judge(m *Machine, r *replica, w *work) {
	if w.when == nil || w.writing || w.phase != notTriggered || r.stage != leading {
		return
	}
	for _, id := range w.when.Devices() {
		if _, known := l.values[id]; !known {
			return // a new leader waits until it was told all
		}
	}
	holds := w.when.Holds(func(id core.NodeID) (int64, bool) { v, ok := l.values[id]; return v, ok })
	if holds == w.was {
		return
	}
	w.was = holds
	if holds {
		l.fire(m, r, w, m.now, func() {})
		return
	}
	w.writing = true
	l.write(m, r, routineKey(w.routine.ID), w.encode(), func(time.Duration) {
		w.writing = false
		l.judge(m, r, w)
	})
}

// manual is a routine fired by hand at this node, until its leader has heard.
type manual struct {
	routine int
	id      uint64
	at      core.Instant
	try     int
}

// handTries bounds how often the leader of a routine is looked for.
const handTries = 100

func (m *Machine) byHand(routine int) {
	if !m.smart || !m.began || routine < 0 || routine >= len(m.cfg.Routines) {
		m.note("trigger of an unknown routine, or at a node that is not smart, is ignored")
		return
	}
	m.ops++
	m.hand = append(m.hand, manual{routine, uint64(m.self.ID+1)<<40 | uint64(m.self.Inc)<<16 | m.ops&(1<<16-1), m.now, 0})
	m.repeatByHand()
}

func (m *Machine) repeatByHand() {
	for i := 0; i < len(m.hand); {
		h := &m.hand[i]
		if h.at > m.now {
			i++
			continue
		}
		if h.try >= handTries {
			m.note("trigger is given up: the routine's group does not answer, or is busy")
			m.hand = slices.Delete(m.hand, i, i+1)
			continue
		}
		g := m.cfg.Home(&m.cfg.Routines[h.routine])
		m.send(m.target(g, h.try), &wire.Group{Type: wire.KindGroupTrigger, Group: g, Device: core.None, Routine: int32(h.routine), Op: h.id})
		h.try++
		h.at = m.now.Add(m.periods(repeat) << min(h.try, repeatMost))
		i++
	}
}

func (m *Machine) triggered(msg *wire.Group) {
	m.hand = slices.DeleteFunc(m.hand, func(h manual) bool { return h.id == msg.Op })
}

func (l *lead) triggerByHand(m *Machine, r *replica, from core.Peer, msg *wire.Group) {
	w := l.work(msg.Routine)
	if w == nil || w.writing {
		return
	}
	answer := func() {
		m.send(from.ID, &wire.Group{Type: wire.KindGroupTriggered, Group: r.group, Device: core.None, Op: msg.Op})
	}
	switch {
	case w.hand == msg.Op:
		answer()
	case w.phase == notTriggered:
		w.hand = msg.Op
		l.fire(m, r, w, m.now, answer)
	}
}
