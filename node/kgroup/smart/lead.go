package smart

import (
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/wire"
)

// lead is a term that the node coordinates: from asking for promises to
// serving to handing over.
type lead struct {
	term     uint64
	began    core.Instant // of the present stage
	resendAt core.Instant
	beatAt   core.Instant
	heard    []core.Instant // by member: when the newest beat was sent that it acknowledged
	promised []bool
	counts   []uint64 // by member: entries it promised with
	sources  []source
	ops      []op
	version  uint64
	meta     meta
	elected  core.Instant // when the election began

	next  next
	told  bool // the previous leader knows that this one serves
	tells int

	round    int
	watchAt  core.Instant
	devices  []core.NodeID
	monitors []monitor
	locks    []*deviceState
	dirty    []int // by device: writes under way
	// askers are who asked last on behalf of a routine, by device: its leader.
	askers map[asker]core.NodeID
	works  []*work
	values map[core.NodeID]int64
}

type asker struct {
	device  core.NodeID
	routine int32
}

// source is a member whose entries are read.
type source struct {
	peer   core.Peer
	cursor uint64 // next key
	done   bool
	found  []wire.Item
}

// op is a change on its way to a quorum.
type op struct {
	id    uint64
	items []wire.Item
	acked []bool
	count int
	began core.Instant
	sent  core.Instant
	then  func(took time.Duration)
}

func newLead(m *Machine, r *replica, term uint64) *lead {
	l := &lead{
		term: term, began: m.now, elected: m.now, resendAt: m.now, beatAt: core.Never, watchAt: core.Never,
		heard: make([]core.Instant, len(r.members)), promised: make([]bool, len(r.members)), counts: make([]uint64, len(r.members)),
	}
	for i := range l.heard {
		l.heard[i] = -1
	}
	return l
}

// leased reports whether the node is the only one that can lead its group
// now: f other members acknowledged beats that are not old.
func (r *replica) leased(m *Machine) bool {
	n := 0
	for i, at := range r.lead.heard {
		if i != r.me && at >= 0 && m.now.Sub(at) < m.periods(leaseBeats) {
			n++
		}
	}
	return n >= m.cfg.F
}

func (l *lead) enter(m *Machine, r *replica, s stage) {
	r.stage = s
	l.began, l.resendAt = m.now, m.now
}

// promises asks those who have not promised yet.
func (l *lead) promises(m *Machine, r *replica) {
	l.resendAt = m.now.Add(m.periods(repeat))
	r.others(func(i int, p core.Peer) {
		if l.promised[i] {
			return
		}
		msg := r.message(wire.KindGroupPrepare, l.term)
		msg.Members, msg.Prev, msg.Leader, msg.Ticket, msg.Op = r.members, r.prev, r.prevLeader, r.prevEpoch, uint64(m.now)
		m.send(p.ID, msg)
	})
}

func (r *replica) promise(m *Machine, from core.Peer, msg *wire.Group) {
	l, i := r.lead, indexOf(r.members, from)
	if l == nil || i < 0 || msg.Term != l.term {
		return
	}
	if msg.Code != codeOK {
		if r.stage != preparing {
			return
		}
		// A better one leads or asks: give way, and outbid it where it fails.
		r.promised = max(r.promised, msg.Seq)
		r.leader = core.Peer{}
		r.depose(m)
		return
	}
	l.heard[i] = max(l.heard[i], core.Instant(msg.Op))
	if l.promised[i] {
		return
	}
	l.promised[i], l.counts[i] = true, msg.Seq
	n := 0
	for _, p := range l.promised {
		if p {
			n++
		}
	}
	if r.stage != preparing || n < m.cfg.Quorum() {
		return
	}
	g := r.line()
	g.NS = int64(m.now.Sub(l.elected))
	m.log(eventlog.KGroup, "elected", g)
	if len(r.prev) > 0 {
		m.log(eventlog.KGroup, "elect", r.line())
	}
	l.beatAt = m.now
	l.sources = l.sources[:0]
	for i, p := range r.members {
		if l.promised[i] && i != r.me && l.counts[i] > 0 {
			l.sources = append(l.sources, source{peer: p})
		}
	}
	l.enter(m, r, reading)
	l.read(m, r)
}

// read asks the sources for their next pages.
func (l *lead) read(m *Machine, r *replica) {
	l.resendAt = m.now.Add(m.periods(repeat))
	waiting := false
	for i := range l.sources {
		s := &l.sources[i]
		if s.done {
			continue
		}
		waiting = true
		msg := r.message(wire.KindGroupFetch, l.term)
		msg.Value, msg.Op = int64(s.cursor), uint64(i)
		if r.stage == fetching {
			msg.Epoch, msg.Seq = r.prevEpoch, r.epoch
		}
		m.send(s.peer.ID, msg)
		if r.stage == fetching && m.now.Sub(l.began) > m.periods(giveUp) {
			// Who led before may be gone for good: somebody knows of another.
			m.send(m.list[m.rng.IntN(len(m.list))], msg)
		}
	}
	if !waiting {
		l.collected(m, r)
	}
}

func (r *replica) items(m *Machine, from core.Peer, msg *wire.Group) {
	l := r.lead
	if l == nil || msg.Term != l.term || r.stage != reading && r.stage != fetching || (msg.Ticket != 0) != (r.stage == fetching) {
		return
	}
	for i := range l.sources {
		s := &l.sources[i]
		if !sameLife(s.peer, from) || s.done || uint64(msg.Value) != s.cursor {
			continue
		}
		s.found = append(s.found, msg.Items...)
		if s.cursor = msg.Seq; s.cursor > 0 {
			s.cursor--
		} else {
			s.done = true
		}
		l.read(m, r)
		return
	}
}

// collected goes on when enough sources were read: all, but within the group
// those of a quorum are enough, and of the previous group's members (Paper)
// as well.
func (l *lead) collected(m *Machine, r *replica) {
	if r.stage == fetching {
		// What an earlier coordinator had fetched gives way: the old group
		// may have gone on meanwhile.
		r.entries = nil
	}
	for i := range l.sources {
		for _, e := range l.sources[i].found {
			r.store(e)
		}
	}
	l.sources = nil
	if r.stage == fetching {
		if at, found := r.entry(metaKey); found {
			r.entries = append(r.entries[:at], r.entries[at+1:]...)
		}
		m.log(eventlog.KGroup, "transfer", l.digested(m, r))
		l.install(m, r)
		return
	}
	if at, found := r.entry(metaKey); found {
		l.meta = decodeMeta(r.entries[at].Data)
	}
	if !l.meta.active && len(r.prev) > 0 {
		l.enter(m, r, fetching)
		l.sources = append(l.sources, source{peer: r.prevLeader})
		l.read(m, r)
		return
	}
	l.install(m, r)
}

func (l *lead) digested(m *Machine, r *replica) eventlog.Group {
	g := r.line()
	g.Digest, g.NS = r.digest(), int64(m.now.Sub(l.began))
	return g
}

// install has a quorum hold all entries under the new term.
func (l *lead) install(m *Machine, r *replica) {
	l.enter(m, r, installing)
	var page []wire.Item
	size := 0
	flush := func() {
		if len(page) > 0 {
			l.submit(m, r, page, func(time.Duration) {})
			page, size = nil, 0
		}
	}
	for i := range r.entries {
		e := &r.entries[i]
		e.Version = l.nextVersion()
		if size += e.Size(); size > wire.MaxPayload-120 {
			flush()
			size = e.Size()
		}
		page = append(page, *e)
	}
	flush()
	l.installed(m, r)
}

// installed goes on when no page is under way any more.
func (l *lead) installed(m *Machine, r *replica) {
	if r.stage != installing || len(l.ops) > 0 {
		return
	}
	if len(r.prev) > 0 && !l.meta.active {
		m.log(eventlog.KGroup, "replicate", l.digested(m, r))
		if !m.cfg.Paper {
			l.enter(m, r, recording)
			l.resume(m, r)
			return
		}
	}
	l.activate(m, r)
}

func (l *lead) nextVersion() uint64 {
	l.version++
	return l.term<<32 | l.version
}

// write changes one entry; then is called when a quorum holds it.
func (l *lead) write(m *Machine, r *replica, key uint32, data []byte, then func(took time.Duration)) {
	e := wire.Item{Key: key, Version: l.nextVersion(), Data: data}
	r.store(e)
	l.submit(m, r, []wire.Item{e}, then)
}

func (l *lead) submit(m *Machine, r *replica, items []wire.Item, then func(took time.Duration)) {
	m.ops++
	o := op{id: m.ops, items: items, acked: make([]bool, len(r.members)), count: 1, began: m.now, sent: m.now, then: then}
	o.acked[r.me] = true
	if o.count >= m.cfg.Quorum() {
		then(0)
		return
	}
	l.ops = append(l.ops, o)
	l.spread(m, r, &l.ops[len(l.ops)-1])
}

func (l *lead) spread(m *Machine, r *replica, o *op) {
	r.others(func(i int, p core.Peer) {
		if !o.acked[i] {
			msg := r.message(wire.KindGroupAppend, l.term)
			msg.Op, msg.Items = o.id, o.items
			m.send(p.ID, msg)
		}
	})
}

func (r *replica) appended(m *Machine, from core.Peer, msg *wire.Group) {
	l, at := r.lead, indexOf(r.members, from)
	if l == nil || at < 0 || msg.Term != l.term {
		return
	}
	if msg.Code != codeOK {
		r.outbid(m, msg.Seq)
		return
	}
	for i := range l.ops {
		o := &l.ops[i]
		if o.id != msg.Op || o.acked[at] {
			continue
		}
		o.acked[at] = true
		if o.count++; o.count == m.cfg.Quorum() {
			l.commit(m, r)
		}
		return
	}
}

// commit carries out what waits for changes that a quorum holds, in the order
// of the changes: the log tells them so.
func (l *lead) commit(m *Machine, r *replica) {
	for len(l.ops) > 0 && l.ops[0].count >= m.cfg.Quorum() {
		then, took := l.ops[0].then, m.now.Sub(l.ops[0].began)
		l.ops = slices.Delete(l.ops, 0, 1)
		then(took)
		if r.lead != l {
			return
		}
	}
	l.installed(m, r)
	if r.stage == migrating {
		l.migrateTick(m, r)
	}
}

// outbid gives up a term because a member promised a higher one.
func (r *replica) outbid(m *Machine, term uint64) {
	if r.lead != nil && term > r.lead.term {
		r.promised, r.leader = max(r.promised, term), core.Peer{}
		r.depose(m)
	}
}

// activate lets the group serve.
func (l *lead) activate(m *Machine, r *replica) {
	l.enter(m, r, activating)
	first := !l.meta.active
	if first {
		l.meta.active, l.meta.since = true, m.now
		if len(r.prev) == 0 && m.cfg.Epoch > 0 {
			// The groups' first epochs end one after the other.
			back := time.Duration(r.group) * m.cfg.Epoch / time.Duration(2*m.cfg.Groups())
			l.meta.since = m.now - core.Instant(min(back, time.Duration(m.now)))
		}
	}
	l.told = len(r.prev) == 0 || !first
	l.write(m, r, metaKey, l.meta.encode(), func(took time.Duration) {
		l.load(m, r)
		g := r.line()
		g.Digest, g.Locks, g.NS = r.digest(), l.locksText(), int64(took)
		m.learn(r.group, r.epoch, l.term, m.self.ID, r.members)
		m.log(eventlog.KGroup, "active", g)
		l.enter(m, r, leading)
		l.beatAt, l.watchAt = m.now, m.now
		if l.meta.epoch != 0 {
			// Who follows was recorded before this term.
			l.freeze(m, r)
			return
		}
		l.resume(m, r)
		l.begin(m, r)
	})
}

func (l *lead) beats(m *Machine, r *replica) {
	l.beatAt = m.now.Add(m.cfg.Ping)
	r.others(func(_ int, p core.Peer) {
		msg := r.message(wire.KindGroupBeat, l.term)
		msg.Op, msg.Members = uint64(m.now), r.members
		if r.stage == leading {
			msg.Code = codeActive
		} else if len(r.prev) > 0 && r.stage < leading {
			msg.Prev, msg.Leader, msg.Ticket = r.prev, r.prevLeader, r.prevEpoch
		}
		m.send(p.ID, msg)
	})
}

func (r *replica) beatAck(m *Machine, from core.Peer, msg *wire.Group) {
	l, i := r.lead, indexOf(r.members, from)
	if l == nil || i < 0 {
		return
	}
	if msg.Code != codeOK {
		r.outbid(m, msg.Term)
		return
	}
	if msg.Term == l.term {
		l.heard[i] = max(l.heard[i], core.Instant(msg.Op))
	}
}

// lost counts the members that are gone.
func (l *lead) lost(m *Machine, r *replica) int {
	n := 0
	r.others(func(i int, p core.Peer) {
		if !m.alive(p) || m.now.Sub(l.heard[i]) > m.periods(2*electBeats) && m.now.Sub(l.began) > m.periods(2*electBeats) {
			n++
		}
	})
	return n
}

func (l *lead) tick(m *Machine, r *replica) {
	if l.beatAt <= m.now {
		l.beats(m, r)
	}
	for i := range l.ops {
		if o := &l.ops[i]; o.sent.Add(m.periods(repeat)) <= m.now {
			o.sent = m.now
			l.spread(m, r, o)
		}
	}
	if l.resendAt <= m.now {
		switch r.stage {
		case preparing:
			if m.now.Sub(l.began) > m.periods(electBeats) {
				// No quorum: let the others try, and try again.
				r.depose(m)
				return
			}
			l.promises(m, r)
		case reading, fetching:
			l.patience(m, r)
			l.read(m, r)
		case recording, leading, migrating:
			l.resume(m, r)
		case following, asking, installing, activating:
			l.resendAt = core.Never
		}
	}
	if r.lead != l || r.stage != leading {
		if r.stage == migrating && r.lead == l {
			l.migrateTick(m, r)
		}
		return
	}
	if l.watchAt <= m.now {
		l.watchAt = m.now.Add(m.cfg.Ping)
		l.watchAll(m, r)
		if l.due(m, r) {
			l.freeze(m, r)
			return
		}
	}
	l.silence(m, r)
	l.routinesTick(m, r)
}

// patience widens the sources where they do not answer: within the group the
// entries of any f others who promised will do, and so all who did not answer
// are left out once f did; of the previous group any f+1 members (Paper).
func (l *lead) patience(m *Machine, r *replica) {
	if m.now.Sub(l.began) < m.periods(2*repeat) {
		return
	}
	done := 0
	for i := range l.sources {
		if l.sources[i].done {
			done++
		}
	}
	enough := m.cfg.F
	empty := 0 // who promised without entries has been read
	for i := range l.promised {
		if l.promised[i] && i != r.me && l.counts[i] == 0 {
			empty++
		}
	}
	if r.stage == fetching {
		if !m.cfg.Paper {
			return
		}
		enough, empty = m.cfg.Quorum(), 0
		if len(l.sources) == 1 && m.now.Sub(l.began) > m.periods(electBeats) {
			for _, p := range r.prev {
				if !sameLife(p, r.prevLeader) {
					l.sources = append(l.sources, source{peer: p})
				}
			}
		}
	}
	if done+empty < enough || done == 0 && empty < enough {
		return
	}
	kept := l.sources[:0]
	for _, s := range l.sources {
		if s.done {
			kept = append(kept, s)
		}
	}
	l.sources = kept
}

func (l *lead) deadline(m *Machine, r *replica) core.Instant {
	d := min(l.beatAt, l.resendAt)
	for i := range l.ops {
		d = min(d, l.ops[i].sent.Add(m.periods(repeat)))
	}
	if r.stage != leading {
		return d
	}
	d = min(d, l.watchAt)
	for i := range l.monitors {
		if w := &l.monitors[i]; w.sent != core.Never {
			d = min(d, w.sent.Add(w.timeout()))
		}
	}
	for _, w := range l.works {
		d = min(d, w.deadline(m))
	}
	return d
}
