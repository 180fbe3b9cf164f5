package results

import (
	"fmt"
	"testing"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// hood plants a lock that began when it was asked for.
func (p *plant) hood(from, enter, to float64, id core.NodeID, first, set []core.NodeID) {
	p.t.Helper()
	a := p.request(from, id)
	p.log(enter, id, eventlog.Event{
		Kind: eventlog.Enter, Req: a.req, No: a.no, Asked: eventlog.FormatRanges(set), Grants: len(set) + 1,
		Hood: &eventlog.Hood{Began: int64(from * 1e6), First: eventlog.FormatRanges(first), Tries: 2, InFlight: 1, Least: 22, Most: 22, State: 90},
	})
	p.exit(to, a)
}

func (p *plant) link(ms float64, a, b core.NodeID, text string) {
	p.t.Helper()
	p.control(ms, eventlog.Event{Kind: eventlog.LinkSet, Node: -1, Link: fmt.Sprintf("%d-%d", a, b), Text: text, After: int64((ms + 1) * 1e6)})
}

func (p *plant) port(ms float64, id, peer core.NodeID) {
	p.t.Helper()
	k := int32(peer)
	p.log(ms, id, eventlog.Event{Kind: eventlog.Port, Peer: &k, Change: "down"})
}

type ids = []core.NodeID

func TestLockSets(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(p *plant)
		want  Local // Intersections, Incomplete, Persistent
	}{
		{"apart", func(p *plant) {
			p.hood(10, 20, 50, 0, ids{1}, ids{1})
			p.hood(10, 20, 50, 3, ids{2}, ids{2})
		}, Local{Persistent: 2}},
		{"one after the other", func(p *plant) {
			p.hood(10, 20, 50, 0, ids{1}, ids{1})
			p.hood(10, 50, 60, 2, ids{1}, ids{1})
		}, Local{Persistent: 2}},
		{"share a neighbour", func(p *plant) {
			p.hood(10, 20, 50, 0, ids{1}, ids{1})
			p.hood(10, 40, 60, 2, ids{1}, ids{1})
		}, Local{Intersections: 1, Persistent: 2}},
		{"hold each other", func(p *plant) {
			p.hood(10, 20, 50, 0, ids{1}, ids{1})
			p.hood(10, 40, 60, 1, ids{0}, ids{0})
		}, Local{Intersections: 2, Persistent: 2}},
		{"the link goes before the other locks", func(p *plant) {
			p.hood(10, 20, 50, 0, ids{1}, ids{1})
			p.link(30, 0, 1, "down")
			p.hood(10, 40, 60, 2, ids{1}, ids{1})
		}, Local{Persistent: 2, LinkChanges: 1}},
		{"the link goes and comes back", func(p *plant) {
			p.hood(10, 20, 50, 0, ids{1}, ids{1})
			p.link(30, 0, 1, "down")
			p.link(32, 0, 1, "up")
			p.hood(10, 40, 60, 2, ids{1}, ids{1})
		}, Local{Persistent: 2, LinkChanges: 2}},
		{"the link goes after the other locks", func(p *plant) {
			p.hood(10, 20, 50, 0, ids{1}, ids{1})
			p.hood(10, 40, 60, 2, ids{1}, ids{1})
			p.link(45, 0, 1, "down")
		}, Local{Intersections: 1, Persistent: 2, LinkChanges: 1}},
		{"the link comes back before lock begins", func(p *plant) {
			p.link(2, 0, 1, "down")
			p.link(4, 0, 1, "up")
			p.hood(10, 20, 50, 0, ids{1}, ids{1})
			p.hood(10, 40, 60, 2, ids{1}, ids{1})
		}, Local{Intersections: 1, Persistent: 2, LinkChanges: 2}},
		{"a neighbour's process dies", func(p *plant) {
			p.hood(10, 20, 50, 0, ids{1}, ids{1})
			p.kill(30, 1, "poweroff")
			p.restart(35, 1)
			p.hood(10, 40, 60, 2, ids{}, ids{})
		}, Local{Persistent: 2}},
		{"without a neighbour that stayed", func(p *plant) { p.hood(10, 20, 50, 0, ids{1, 2}, ids{1}) }, Local{Incomplete: 1, Persistent: 1}},
		{"without one that went", func(p *plant) {
			p.link(15, 0, 2, "down")
			p.hood(10, 20, 50, 0, ids{1, 2}, ids{1})
		}, Local{LinkChanges: 1}},
		{"without one that the node saw go late", func(p *plant) {
			p.link(2, 0, 2, "down")
			p.link(4, 0, 2, "up")
			a := p.request(10, 0)
			p.port(12, 0, 2)
			p.log(20, 0, eventlog.Event{
				Kind: eventlog.Enter, Req: a.req, No: a.no, Asked: "1",
				Hood: &eventlog.Hood{Began: 10e6, First: "1-2", Tries: 1, InFlight: 1, Least: 22, Most: 22},
			})
			p.exit(30, a)
		}, Local{LinkChanges: 2, PortsClosed: 1}},
		{"with one that was none", func(p *plant) { p.hood(10, 20, 50, 0, ids{1}, ids{1, 2}) }, Local{Incomplete: 1, Persistent: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlant(t, 4)
			p.run.Manifest.Algorithm = "localmutex"
			c.plant(p)
			r := p.end(100)
			r.Manifest.Algorithm = "localmutex"
			sum, v, err := Judge(r)
			if err != nil {
				t.Fatal(err)
			}
			l := v.Local
			if l.Intersections != c.want.Intersections || l.Incomplete != c.want.Incomplete || l.Persistent != c.want.Persistent ||
				l.LinkChanges != c.want.LinkChanges || l.PortsClosed != c.want.PortsClosed || v.ViolationCount != c.want.Intersections {
				t.Errorf("%+v, want %+v", l, c.want)
			}
			validate(t, sum)
			if wrong := c.want.Intersections+c.want.Incomplete > 0; wrong != (sum.Verdict == VerdictViolation) {
				t.Errorf("verdict %s", sum.Verdict)
			}
		})
	}
}

func TestBoundsOfLocks(t *testing.T) {
	p := newPlant(t, 3)
	p.hood(10, 20, 50, 0, ids{1}, ids{1})
	p.hood(60, 70, 80, 2, ids{1}, ids{1})
	r := p.end(100)
	r.Manifest.Algorithm = "localmutex-paper"
	s, err := Summarise(r)
	if err != nil {
		t.Fatal(err)
	}
	l := s.Local
	if l.InFlightPerLink != 2 || l.MessageBytesMin != 22 || l.MessageBytesMax != 22 || l.StateBytesMax != 90 || l.TriesMax != 2 || l.Spins != 2 ||
		l.LockMS.Mean != 10 || l.Degree != 2 || l.DegreeMax != 2 || s.Verdict != VerdictOK {
		t.Errorf("%+v, %s", l, s.Verdict)
	}
	for _, bad := range []Local{{InFlightPerLink: 4}, {MessageBytesMin: 22, MessageBytesMax: 23}, {Incomplete: 1}, {App: &App{Wrong: 1}}} {
		if !bad.Wrong() {
			t.Errorf("%+v passes", bad)
		}
	}
}

func TestApplications(t *testing.T) {
	for _, c := range []struct {
		name   string
		values [][2]int // node, value
		done   bool
		wrong  int
		copies int
		text   string
	}{
		{"election", [][2]int{{0, 1}, {1, 1}, {2, 1}, {1, 0}, {2, 0}}, true, 0, 0, "election: 1 of 3 leaders left; 2 changes, the last after 0.004 s"},
		{"election", [][2]int{{0, 1}, {1, 1}, {1, 0}, {0, 0}}, false, 1, 0, "election: 0 of 2 leaders left; 2 changes, the last after 0.003 s; WRONG 1 times"},
		{"election", [][2]int{{0, 1}, {1, 1}}, false, 0, 1, "election: 2 of 2 leaders left; 0 changes"},
		{"majority", [][2]int{{0, 0}, {1, 0}, {2, 1}, {1, 2}, {2, 3}, {2, 2}}, true, 0, 0, "majority: votes 2 to 1 at first, 3 to 0 at the end; 3 changes, the last after 0.005 s"},
		{"majority", [][2]int{{0, 0}, {1, 0}, {2, 1}, {0, 3}, {1, 3}}, false, 1, 0, "majority: votes 2 to 1 at first, 0 to 3 at the end; 2 changes, the last after 0.004 s; WRONG 1 times"},
		{"amoebot", [][2]int{{0, 1}, {1, 0}, {2, 3}, {1, 1}, {0, 0}}, true, 0, 0, "amoebot: 2 particles at first, 2 cells taken at the end, 0 moves onto another; 2 changes, the last after 0.004 s"},
		{"amoebot", [][2]int{{0, 1}, {1, 0}, {2, 3}, {2, 1}}, false, 1, 1, "amoebot: 2 particles at first, 2 cells taken at the end, 1 moves onto another; 1 changes, the last after 0.003 s; 1 copies; WRONG 1 times"},
		{"amoebot", [][2]int{{0, 1}, {1, 0}, {2, 3}, {1, 1}}, false, 0, 1, "amoebot: 2 particles at first, 3 cells taken at the end, 0 moves onto another; 1 changes, the last after 0.003 s; 1 copies"},
	} {
		p := newPlant(t, 3)
		for i, v := range c.values {
			p.log(float64(i), core.NodeID(v[0]), eventlog.Event{Kind: eventlog.Note, Text: fmt.Sprintf("app %s %d", c.name, v[1])})
		}
		r := p.end(100)
		r.Manifest.Algorithm = "localmutex"
		s, err := Summarise(r)
		if err != nil {
			t.Fatal(err)
		}
		validate(t, s)
		a := s.Local.App
		if a.Done != c.done || a.Wrong != c.wrong || a.Copies != c.copies || a.String() != c.text {
			t.Errorf("%v: %+v\n%s, want\n%s", c.values, a, a, c.text)
		}
	}
}
