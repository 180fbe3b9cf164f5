// Package roster is an ordered list of peers with the newest life seen of
// each, as the static and the oracle membership services keep it. It decides
// nothing; its owner serialises all calls.
package roster

import (
	"cmp"
	"slices"

	"churnbed/node/core"
)

// List is the peers of one node, ascending by id. The zero List is empty.
type List struct {
	items  []item
	listed int
}

type item struct {
	peer   core.Peer
	listed bool // false: was removed in this life or an older one
}

func (l *List) find(id core.NodeID) (int, bool) {
	return slices.BinarySearchFunc(l.items, id, func(it item, id core.NodeID) int { return cmp.Compare(it.peer.ID, id) })
}

// Set replaces the whole list; of several lives of one peer the newest
// counts. The peer with the id self is left out.
func (l *List) Set(peers []core.Peer, self core.NodeID) {
	l.items, l.listed = l.items[:0], 0
	for _, p := range peers {
		if p.ID != self {
			l.Add(p)
		}
	}
}

// Add lists p. It reports false where p was listed in this or a newer life
// already, or removed in this or a newer life.
func (l *List) Add(p core.Peer) bool {
	i, ok := l.find(p.ID)
	switch {
	case !ok:
		l.items = slices.Insert(l.items, i, item{p, true})
		l.listed++
		return true
	case l.items[i].peer.Inc >= p.Inc:
		return false
	}
	if !l.items[i].listed {
		l.listed++
	}
	l.items[i] = item{p, true}
	return true
}

// Has reports whether a life of id is listed.
func (l *List) Has(id core.NodeID) bool {
	i, ok := l.find(id)
	return ok && l.items[i].listed
}

// Renew lists a newer life of a peer that is listed; it reports whether it
// did.
func (l *List) Renew(p core.Peer) bool { return l.Has(p.ID) && l.Add(p) }

// Remove takes a peer off the list unless it is listed in a newer life. The
// life is remembered, so that Add of it fails from then on. It reports
// whether the peer was listed.
func (l *List) Remove(p core.Peer) bool {
	i, ok := l.find(p.ID)
	if !ok {
		l.items = slices.Insert(l.items, i, item{p, false})
		return false
	}
	it := &l.items[i]
	if it.peer.Inc > p.Inc {
		return false
	}
	was := it.listed
	if was {
		l.listed--
	}
	*it = item{p, false}
	return was
}

// Append appends the listed peers, ascending by id.
func (l *List) Append(list []core.Peer) []core.Peer {
	for _, it := range l.items {
		if it.listed {
			list = append(list, it.peer)
		}
	}
	return list
}

// Len returns the number of listed peers.
func (l *List) Len() int { return l.listed }
