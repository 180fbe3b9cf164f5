package results

import (
	"testing"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Five nodes in a line, cut between 2 and 3 from 100 to 200 ms.
func TestPartitions(t *testing.T) {
	p := newPlant(t, 5)
	var rows []LinkRow
	for i := range core.NodeID(4) {
		rows = append(rows, LinkRow{Link: "", A: i, B: i + 1, Dir: "ab"}, LinkRow{A: i, B: i + 1, Dir: "ba"})
	}
	if err := p.run.WriteLinks(rows); err != nil {
		t.Fatal(err)
	}
	link := func(ms float64, verb, text string) {
		p.control(ms, eventlog.Event{Kind: eventlog.LinkSet, Node: -1, Link: "2-3", Text: text, Verb: verb})
	}
	size := func(ms float64, id core.NodeID, size int) {
		peer := int32(0)
		p.log(ms, id, eventlog.Event{Kind: eventlog.Member, Peer: &peer, Change: "up", Size: size})
	}
	p.section(10, 20, 4) // before it
	early := p.request(90, 0)
	link(100, "partition", "down")
	p.enter(110, early) // asked before the cut: it does not count
	p.exit(115, early)
	late := p.request(120, 4)
	a := p.request(130, 1)
	for id := range core.NodeID(3) {
		size(140, id, 3)
	}
	size(140, 3, 2)
	size(141, 4, 2)
	p.enter(150, a)
	p.exit(160, a)
	p.section(170, 180, 2)
	link(200, "heal", "up")
	for id := range core.NodeID(5) {
		size(210+float64(id), id, 5)
	}
	p.enter(230, late)
	p.exit(240, late)
	p.section(250, 260, 0)
	list, err := Partitions(p.end(300))
	if err != nil || len(list) != 1 {
		t.Fatalf("%d partitions, %v", len(list), err)
	}
	got := &list[0]
	if got.String() != "0-2|3-4" || !got.Healed || got.From != 100e6 || got.To != 200e6 || got.WholeMS != 14 || got.ResumedMS != 50 {
		t.Errorf("%v: %+v", got, got)
	}
	most, few := got.Sides[0], got.Sides[1]
	if most.Asked != 2 || most.Served != 2 || most.FirstMS != 50 || most.ResumedMS != 50 {
		t.Errorf("majority: %+v", most)
	}
	if few.Asked != 1 || few.Served != 0 || few.FirstMS.Known() || few.ResumedMS != 30 {
		t.Errorf("minority: %+v", few)
	}
}

// Without a heal, and without whole lists, these times are unknown.
func TestPartitionForGood(t *testing.T) {
	p := newPlant(t, 2)
	if err := p.run.WriteLinks([]LinkRow{{A: 0, B: 1, Dir: "ab"}}); err != nil {
		t.Fatal(err)
	}
	p.control(100, eventlog.Event{Kind: eventlog.LinkSet, Node: -1, Link: "0-1", Text: "down", Verb: "partition"})
	list, err := Partitions(p.end(300))
	if err != nil || len(list) != 1 {
		t.Fatalf("%d partitions, %v", len(list), err)
	}
	if got := &list[0]; got.String() != "0|1" || got.Healed || got.To != 300e6 || got.WholeMS.Known() || got.ResumedMS.Known() {
		t.Errorf("%+v", got)
	}
	if list, err := Partitions(newPlant(t, 2).end(10)); err != nil || len(list) != 0 {
		t.Errorf("%d partitions in an undisturbed run, %v", len(list), err)
	}
}
