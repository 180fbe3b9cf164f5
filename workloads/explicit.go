package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"churnbed/node/core"
)

// ParseArrival reads one request that is given by itself:
//
//	at TIME node ID [ for TIME ]
//
// At that time after the epoch the node wants the critical section for so
// long (without "for": for cs). Times are written as in the fault language.
func ParseArrival(text string, cs time.Duration) (Arrival, error) {
	const want = "at TIME node ID [for TIME], such as at 1s node 3 for 200ms"
	w := strings.Fields(text)
	if len(w) != 4 && len(w) != 6 || w[0] != "at" || w[2] != "node" || len(w) == 6 && w[4] != "for" {
		return Arrival{}, errors.New("want " + want)
	}
	at, err := parseInstant(w[1])
	if err != nil {
		return Arrival{}, err
	}
	id, err := strconv.ParseUint(w[3], 10, 31)
	if err != nil || id >= core.MaxNodes {
		return Arrival{}, fmt.Errorf("%q is not a node id", w[3])
	}
	a := Arrival{At: at, Node: core.NodeID(id), CS: cs}
	if len(w) == 6 {
		a.CS, err = parseInstant(w[5])
	}
	return a, err
}

func parseInstant(word string) (time.Duration, error) {
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a time such as 500ms or 1m30s, 0s or more", word)
	}
	return d, nil
}

// String returns the arrival as ParseArrival reads it.
func (a Arrival) String() string {
	return fmt.Sprintf("at %v node %d for %v", a.At, a.Node, a.CS)
}

// Explicit makes a workload of requests given one by one: ascending by time
// and numbered from 1, those of the same instant in the order given.
func Explicit(arrivals []Arrival, nodes int) ([]Arrival, error) {
	list := slices.Clone(arrivals)
	slices.SortStableFunc(list, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	for i := range list {
		if err := knownNode(list[i].Node, nodes); err != nil {
			return nil, fmt.Errorf("arrival %q: %w", list[i], err)
		}
		list[i].No = i + 1
	}
	return list, nil
}

// Rule returns the rule that expands to f alone: with it a schedule that was
// drawn from a seed or a trace can be written down.
func (f Fault) Rule() Rule {
	r := Rule{From: f.At, Action: Action(f.Verb), For: f.After, Set: f.Set, Routine: f.Routine}
	switch {
	case f.Role != "":
		r.Nodes = NodeSet{Role: f.Role, Count: f.Count}
	case f.Verb == Set && len(f.Links) > 0:
		r.Links = LinkSet{Pairs: f.Links, OneWay: f.OneWay}
	case f.Verb == Set && len(f.Nodes) > 0:
		r.Links.Of = NodeSet{Items: itemsOf(f.Nodes)}
	case f.Verb == Set:
		r.Links.All = true
	case len(f.Links) > 0:
		r.Links.Pairs = f.Links
	case f.Verb == Partition:
		for _, g := range f.Groups {
			r.Groups = append(r.Groups, itemsOf(g))
		}
	case len(f.Nodes) > 0:
		r.Nodes.Items = itemsOf(f.Nodes)
	}
	return r
}

// itemsOf gathers runs of ids.
func itemsOf(ids []core.NodeID) []NodeItem {
	var items []NodeItem
	for _, id := range ids {
		if n := len(items); n > 0 && items[n-1].Last+1 == id {
			items[n-1].Last = id
			continue
		}
		items = append(items, NodeItem{First: id, Last: id})
	}
	return items
}

// Split divides a fault on several nodes or links into one for each, so that
// part of it can be left out. What cannot be divided comes back alone.
func (f Fault) Split() []Fault {
	var parts []Fault
	switch {
	case f.Role != "":
	case len(f.Links) > 1:
		for _, l := range f.Links {
			one := f
			one.Links = [][2]core.NodeID{l}
			parts = append(parts, one)
		}
	case f.Verb != Set && len(f.Nodes) > 1:
		for _, n := range f.Nodes {
			one := f
			one.Nodes = []core.NodeID{n}
			parts = append(parts, one)
		}
	}
	if parts == nil {
		return []Fault{f}
	}
	return parts
}
