package fairk

import (
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

// StillPeriods is for how many periods a node may stand still before it must
// suppose that it was taken for failed.
const StillPeriods = 4

// All in periods.
const (
	// answerPeriods: so long who asks for promises waits for the silent ones.
	answerPeriods = 4
	// silentPeriods: a node that leaves a question unanswered for so long is
	// taken for failed.
	silentPeriods = 6
	// roundPeriods: in so many every node asks every other.
	roundPeriods = 10
	// leasePeriods: a node that has had no answer of a quorum for so long is
	// cut off.
	leasePeriods = 3 * roundPeriods
	// patience: so long a change may take, and as much more for every node
	// before this one in the line of who would begin another.
	patience = 2 * silentPeriods
)

// beat is what this node shows of itself.
func (t *Tolerant) beat() *wire.Beat {
	b := &wire.Beat{Join: t.outside(), Down: t.down()}
	if t.view != nil {
		b.View, b.Started, b.Frozen = t.view.Num, t.started, t.promised > t.view.Num
	}
	return b
}

// outside reports whether the others go on without this node.
func (t *Tolerant) outside() bool { return t.amnesiac || t.behind }

func (t *Tolerant) down() []core.NodeID {
	var list []core.NodeID
	for i, s := range t.suspected {
		if s && t.view != nil && t.view.Nodes[i].Member {
			list = append(list, core.NodeID(i))
		}
	}
	return list
}

func (t *Tolerant) ask(n core.NodeID) {
	b := t.beat()
	b.Ask, b.Stamp = true, uint64(t.now)
	if t.since[n] == core.Never {
		t.since[n] = t.now
	}
	t.send(n, b)
}

func (t *Tolerant) askAll() {
	for i := range t.cfg.Nodes {
		if k := core.NodeID(i); k != t.self.ID {
			t.ask(k)
		}
	}
}

func (t *Tolerant) onBeat(from core.Peer, m *wire.Beat) {
	n, life := from.ID, uint64(from.Inc.Start())
	if m.Leaves {
		t.suspect(n)
		return
	}
	missed := t.view != nil && t.started && t.view.Num > 0 && (m.View < t.view.Num || m.Join)
	if m.Join && !(missed && t.view.Nodes[n].Member && t.view.Nodes[n].Life == life) {
		t.joins[n] = life
	}
	if t.view != nil && m.View == t.view.Num && m.Started && !t.started && t.promised == m.View {
		t.begin()
	}
	if m.Answer && t.live() && m.View == t.view.Num && m.Started && !m.Frozen {
		was := t.leased()
		t.contact[n] = max(t.contact[n], core.Instant(m.Stamp))
		if !was && t.leased() {
			t.commitAll()
		}
	}
	for _, d := range m.Down {
		if int(d) < t.cfg.Nodes && d != t.self.ID && t.now.Sub(t.heard[d]) > 2*t.cfg.Period {
			t.suspect(d)
		}
	}
	switch {
	case m.Ask:
		b := t.beat()
		b.Answer, b.Stamp = true, m.Stamp
		t.send(n, b)
	case t.view != nil && t.view.Num == m.View && t.started && !m.Started:
		t.send(n, t.beat())
	}
	switch {
	case missed:
		t.send(n, t.view)
	case t.view != nil && m.View > t.view.Num && m.Started:
		t.behind = true // which brings the view
	}
}

// leftOut is called when a view without this node is in effect. What it wants
// or holds is not its own any more.
func (t *Tolerant) leftOut() {
	t.behind = true
	if t.st != mutex.None && t.asked {
		t.fx.Notes = append(t.fx.Notes, "the others have gone on without it")
		t.giveUp()
	}
}

// suspect takes node n for failed, until it is heard.
func (t *Tolerant) suspect(n core.NodeID) { t.suspected[n] = true }

// leased reports whether a quorum has shown within the last leasePeriods that
// it had not gone on without this node. Who deals out all tokens anew waits
// for so long before.
func (t *Tolerant) leased() bool {
	at := slices.Clone(t.contact)
	at[t.self.ID] = t.now
	slices.Sort(at)
	return t.now.Sub(at[len(at)-t.cfg.Quorum]) <= leasePeriods*t.cfg.Period
}

// wants reports whether the view should be another.
func (t *Tolerant) wants() bool {
	for i, n := range t.view.Nodes {
		switch k := core.NodeID(i); {
		case k == t.self.ID:
		case n.Member && (t.suspected[k] || t.lives[k] > n.Life):
			return true
		case t.joins[k] == t.lives[k] && t.joins[k] > 0 && !t.suspected[k]:
			return true
		}
	}
	return false
}

// line is how many nodes are before this one among those that may begin a
// change.
func (t *Tolerant) line() int {
	n := 0
	for i, x := range t.view.Nodes[:t.self.ID] {
		if x.Member && !t.suspected[i] && t.lives[i] == x.Life {
			n++
		}
	}
	return n
}

// consider begins a change where one is due and this node is the one to do so.
func (t *Tolerant) consider() {
	if t.outside() || t.change != nil && !t.change.decided || !t.view.Nodes[t.self.ID].Member {
		return
	}
	line := t.line()
	if t.live() {
		if line == 0 && t.wants() {
			t.beginChange()
		}
		return
	}
	// Another's change is under way.
	who := core.NodeID(t.promised % uint64(t.cfg.Nodes))
	if line == 0 && who != t.self.ID && t.suspected[who] || t.now.Sub(t.frozenAt) > time.Duration(line+1)*patience*t.cfg.Period {
		t.beginChange()
	}
}

// look is what happens every period: who is silent has failed, what is not
// answered is said again.
func (t *Tolerant) look() {
	t.turn++
	for i := range t.cfg.Nodes {
		n := core.NodeID(i)
		if n == t.self.ID {
			continue
		}
		if t.since[n] != core.Never && t.now.Sub(t.since[n]) > silentPeriods*t.cfg.Period {
			t.suspect(n)
		}
		near := (t.ring.pos[n]-t.ring.pos[t.self.ID]+t.cfg.Nodes)%t.cfg.Nodes <= max(2, t.cfg.Copies)
		if near || t.since[n] != core.Never && !t.suspected[n] || (t.turn+i)%roundPeriods == 0 {
			t.ask(n)
		}
	}
	if t.outside() && t.turn%2 == 0 {
		t.askAll()
	}
	if t.view == nil {
		return
	}
	if t.st == mutex.Held && !t.leased() {
		t.fx.Notes = append(t.fx.Notes, "is cut off from the others")
		t.giveUp()
		if h := t.hosted[t.self.ID]; t.active(h) {
			t.step(h, nil, h.m.giveUp)
		}
	}
	if t.live() {
		for _, h := range t.hosted {
			if t.active(h) {
				t.replicate(h, true)
			}
		}
		t.commitAll()
		t.handOver()
	}
	if t.live() && t.wants() {
		for i, n := range t.view.Nodes[:t.self.ID] {
			if n.Member && !t.suspected[i] {
				t.send(core.NodeID(i), t.beat())
				break
			}
		}
	}
	if c := t.change; c != nil {
		switch {
		case c.proposal == nil:
			t.askPromises()
			t.propose()
		case c.decided && !slices.Contains(c.votes, false):
		case !c.decided && t.now.Sub(c.proposed) > patience*t.cfg.Period:
			t.beginChange()
		case t.now.Sub(c.proposed) <= patience*t.cfg.Period:
			t.tellView()
		}
	}
}

func (t *Tolerant) commitAll() {
	for _, h := range t.hosted {
		if t.active(h) {
			t.commit(h)
		}
	}
}
