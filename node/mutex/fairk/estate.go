package fairk

import (
	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/wire"
)

var _ mutex.Ringed = (*Tolerant)(nil)

// Ring implements mutex.Ringed.
func (t *Tolerant) Ring() mutex.Ring {
	var r mutex.Ring
	if t.view != nil {
		r.View, r.InEffect = t.view.Num, t.started
	}
	for i := range t.hosted {
		id := core.NodeID(i)
		if h := t.hosted[i]; h != nil {
			r.Estates = append(r.Estates, estate(id, h, h.stamp))
		} else if c := t.copies[i]; c != nil {
			if h, err := readHosted(id, c.state); err == nil {
				r.Estates = append(r.Estates, estate(id, h, c.stamp))
			}
		}
	}
	return r
}

func estate(id core.NodeID, h *hosted, s wire.Stamp) mutex.Estate {
	e := mutex.Estate{ID: id, View: s.View, Version: s.Version, Custody: h.m.custody(), Wrong: h.m.invariant()}
	if h.m.st == mutex.Held {
		e.Held = h.m.cur
	}
	for _, p := range h.parcels {
		e.Sent, e.To = append(e.Sent, p.msg), append(e.To, p.to)
	}
	return e
}
