package camera

import (
	"encoding/binary"
	"slices"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/requests"
	"churnbed/node/wire"
)

// An OK whose set, and an answer to RECOVER whose requests, do not fit in one
// message are told in parts; the receiver asks for each next part, and takes
// neither for what it is before the last has come.
//
// The parts are read from rec at different instants, which is as safe as one
// OK that leaves at the instant of the grant: a request that rec gained since
// was granted later, so that its own OK names this one; one that is gone from
// rec is over, or its node was confirmed failed. For that, the parts must
// belong to one stay of the request in rec, hence the number of the grant,
// which a new stay does not get again; the end of an amnesia voids the numbers,
// for what rec gained by the recovery may be older. For RECOVERED: whoever was granted a
// request after the first part left was told of the recovering life.

// stay is one stay of a request in rec whose OK is told in parts.
type stay struct {
	number uint64 // 0: none
	of     core.RequestID
}

// part is how far the OK of one grant, told in parts, has been heard.
type part struct {
	grant uint64      // 0: none
	next  core.NodeID // heard up to here, exclusive
}

// okOverhead and recoveredOverhead bound what the other fields of the
// messages take, by their encoding (node/wire).
const (
	okOverhead        = 3 + 5 + 10 + 1 + 10 + 3 + 10 + 3 + 3
	recoveredOverhead = 5 + 4*3
)

// memberBytes is what a member of a set takes at most: its id, its incarnation
// in the table, and its share of the rest.
const memberBytes = 3 + 7 + 4

// tellOK builds the OK of r from the members with ids of start on. grant is
// the number of the stay of r in rec, 0 where it has none.
func (m *Machine) tellOK(r core.RequestID, grant uint64, start core.NodeID) *wire.OK {
	k := m.at(r.Node)
	ok := &wire.OK{ID: r, Amnesiac: m.forgetful()}
	if n := len(m.rec); n > 0 {
		ok.Set = make([]core.Peer, 0, n)
		for _, j := range m.rec {
			if j.Node != r.Node && j.Node >= start {
				ok.Set = append(ok.Set, core.Peer{ID: j.Node, Inc: j.Inc})
			}
		}
	}
	if k.told < m.news {
		ok.News, ok.Lives = m.news, m.livesSince(k.told)
	}
	room := m.cfg.MaxMessage - okOverhead
	few := len(ok.Set)+len(ok.Lives) <= max(1, room/memberBytes) // most of the time, so sizes are not computed
	if grant == 0 && (few || wire.SetSize(ok.Set)+wire.SetSize(ok.Lives) <= room) {
		k.telling = stay{}
		return ok
	}
	if grant == 0 {
		m.stays++
		grant = m.stays
	}
	k.telling = stay{grant, r}
	ok.Grant, ok.Start, ok.Next = grant, start, core.None
	if n := m.fitNews(ok.Lives, room); n < len(ok.Lives) {
		ok.News, ok.Lives = m.newsUpTo(ok.Lives, n)
		ok.Set, ok.Next = nil, start
		return ok
	}
	room -= wire.SetSize(ok.Lives)
	if n := max(1, wire.FitSet(ok.Set, room)); n < len(ok.Set) {
		ok.Next = ok.Set[n].ID
		ok.Set = ok.Set[:n]
	}
	return ok
}

// fitNews returns how many of the lives, oldest news first, fit.
func (m *Machine) fitNews(lives []core.Peer, room int) int {
	if wire.SetSize(lives) <= room {
		return len(lives)
	}
	n := len(lives)
	for n > 1 {
		n /= 2
		if _, some := m.newsUpTo(lives, n); wire.SetSize(some) <= room {
			break
		}
	}
	return n
}

// newsUpTo returns the n lives of which this node heard first, ascending by
// id, and the number of the last news among them.
func (m *Machine) newsUpTo(lives []core.Peer, n int) (uint64, []core.Peer) {
	byNews := slices.Clone(lives)
	slices.SortFunc(byNews, func(a, b core.Peer) int {
		if m.peers[a.ID].newsAt < m.peers[b.ID].newsAt {
			return -1
		}
		return 1
	})
	last := m.peers[byNews[n-1].ID].newsAt
	some := byNews[:n]
	slices.SortFunc(some, func(a, b core.Peer) int { return int(a.ID - b.ID) })
	return last, some
}

// goesOn reports whether a REQUEST asks for the next part of a grant that
// stands.
func (m *Machine) goesOn(msg *wire.Request) bool {
	k := m.at(msg.ID.Node)
	return msg.Grant > 0 && k.telling == (stay{msg.Grant, msg.ID}) && msg.NewsInc.Start() == m.self.Inc.Start() &&
		m.st != mutex.Held && m.rec.Get(msg.ID.Node) == msg.ID
}

// gather takes in a part of the OK of the current request and reports whether
// it was the last; if not, the next one is asked for. Members and lives of it
// were taken in already.
func (m *Machine) gather(q core.Peer, msg *wire.OK, out *mutex.Effects) bool {
	p := m.at(q.ID)
	if msg.Grant == 0 {
		return true
	}
	if msg.Grant < p.hearing.grant {
		return false // of an earlier stay, which another has replaced
	}
	if p.hearing.grant < msg.Grant {
		p.hearing = part{grant: msg.Grant}
	}
	if msg.Start > p.hearing.next {
		return false // a part between is missing: it was asked for
	}
	if msg.Next == core.None {
		p.hearing = part{}
		return true
	}
	p.hearing.next = max(p.hearing.next, msg.Next)
	next := &wire.Request{ID: m.cur, NewsInc: q.Inc, Grant: p.hearing.grant, Start: p.hearing.next}
	if p.heard > 0 && p.heardInc.Start() == q.Inc.Start() {
		next.News = p.heard
	}
	out.Send(q.ID, next, core.Reliable)
	return false
}

// answerInParts is an answer to RECOVER that is not complete.
type answerInParts struct {
	peer        core.Peer
	next, lives core.NodeID // heard up to here, exclusive
}

// tellRecovered builds the answer to RECOVER from the given ids on.
func (m *Machine) tellRecovered(nonce core.Incarnation, start, livesStart core.NodeID) *wire.Recovered {
	own := append(requests.ByNode(nil), m.rec...)
	if m.st != mutex.None {
		own.Put(m.cur)
	}
	a := &wire.Recovered{Nonce: nonce, Next: core.None, LivesNext: core.None, Start: start, LivesStart: livesStart}
	for _, r := range own {
		if r.Node >= start {
			a.Requests = append(a.Requests, r)
		}
	}
	for _, p := range m.livesSince(0) {
		if p.ID >= livesStart {
			a.Lives = append(a.Lives, p)
		}
	}
	room := m.cfg.MaxMessage - recoveredOverhead
	if n := max(1, wire.FitSet(a.Lives, room/2)); n < len(a.Lives) {
		a.LivesNext = a.Lives[n].ID
		a.Lives = a.Lives[:n]
	}
	if n := max(1, wire.FitRequests(a.Requests, room-wire.SetSize(a.Lives))); n < len(a.Requests) {
		a.Next = a.Requests[n].Node
		a.Requests = a.Requests[:n]
	}
	a.Part = start > 0 || livesStart > 0 || a.Next != core.None || a.LivesNext != core.None
	if !a.Part {
		a.Next, a.LivesNext = 0, 0
	}
	return a
}

// recovering reports whether an answer is complete with this message; if not,
// the next part is asked for.
func (m *Machine) recovering(q core.Peer, msg *wire.Recovered, out *mutex.Effects) bool {
	i, found := m.findAnswer(q.ID)
	if !msg.Part {
		m.forgetAnswer(q.ID)
		return true
	}
	if !found || m.incomplete[i].peer.Inc.Start() != q.Inc.Start() {
		m.forgetAnswer(q.ID)
		i, _ = m.findAnswer(q.ID)
		m.incomplete = slices.Insert(m.incomplete, i, answerInParts{peer: q})
	}
	have := &m.incomplete[i]
	if msg.Start > have.next || msg.LivesStart > have.lives {
		return false
	}
	have.next, have.lives = upTo(have.next, msg.Next), upTo(have.lives, msg.LivesNext)
	if have.next == core.MaxNodes && have.lives == core.MaxNodes {
		m.forgetAnswer(q.ID)
		return true
	}
	out.Send(q.ID, &wire.Recover{
		Nonce: m.nonce, Inc: q.Inc, Start: min(have.next, core.MaxNodes-1), LivesStart: min(have.lives, core.MaxNodes-1),
	}, core.Reliable)
	return false
}

// upTo advances a bound to that of a part; core.MaxNodes is the end.
func upTo(have, next core.NodeID) core.NodeID {
	if next == core.None {
		return core.MaxNodes
	}
	return max(have, next)
}

func (m *Machine) findAnswer(k core.NodeID) (int, bool) {
	return slices.BinarySearchFunc(m.incomplete, k, func(a answerInParts, k core.NodeID) int { return int(a.peer.ID - k) })
}

func (m *Machine) forgetAnswer(k core.NodeID) {
	if i, found := m.findAnswer(k); found {
		m.incomplete = slices.Delete(m.incomplete, i, i+1)
	}
}

// appendParts appends what is under way in parts, for AppendState.
func (m *Machine) appendParts(b []byte) []byte {
	b = binary.AppendUvarint(b, m.stays)
	n := 0
	for k := range m.peers {
		if p := &m.peers[k]; p.telling != (stay{}) || p.hearing != (part{}) {
			n++
		}
	}
	b = binary.AppendUvarint(b, uint64(n))
	for k := range m.peers {
		if p := &m.peers[k]; p.telling != (stay{}) || p.hearing != (part{}) {
			for _, v := range [...]uint64{uint64(k), p.telling.number, p.hearing.grant, uint64(p.hearing.next)} {
				b = binary.AppendUvarint(b, v)
			}
			b = requests.AppendRequest(b, p.telling.of)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(m.incomplete)))
	for _, a := range m.incomplete {
		for _, v := range [...]uint64{uint64(a.peer.ID), uint64(a.peer.Inc), uint64(a.next), uint64(a.lives)} {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}
