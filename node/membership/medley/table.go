package medley

import (
	"slices"
	"time"

	"churnbed/node/core"
	"churnbed/node/wire"
)

// table is the change table: the news a node passes on. An entry is dropped
// TableKeep after it was written, the oldest when the table is full. There
// is at most one entry about a peer.
type table struct {
	max  int
	keep time.Duration
	news []news // oldest first
	// sent is the table as messages carry it: newest first, no longer than
	// a payload. Messages share it, so it is built anew, never changed.
	sent []wire.Entry
	old  bool // sent is not the table any more
}

type news struct {
	at core.Instant
	e  wire.Entry
}

// tableBytes is what the table may take of a message: the payload less the
// longest head, that of IND_PING_ACK with its entry.
const tableBytes = wire.MaxPayload - (10 + 5 + wire.EntryMax + 3)

func (t *table) write(now core.Instant, e wire.Entry) {
	t.drop(now)
	for i := range t.news {
		if t.news[i].e.ID == e.ID {
			t.news = slices.Delete(t.news, i, i+1)
			break
		}
	}
	if len(t.news) >= t.max {
		t.news = slices.Delete(t.news, 0, len(t.news)-t.max+1)
	}
	t.news = append(t.news, news{now, e})
	t.old = true
}

// drop removes what is older than keep.
func (t *table) drop(now core.Instant) {
	n := 0
	for n < len(t.news) && now.Sub(t.news[n].at) > t.keep {
		n++
	}
	if n > 0 {
		t.news = slices.Delete(t.news, 0, n)
		t.old = true
	}
}

// entries returns the table as it is sent. The result is shared and must not
// be changed.
func (t *table) entries(now core.Instant) []wire.Entry {
	t.drop(now)
	if !t.old {
		return t.sent
	}
	t.old, t.sent = false, nil
	if len(t.news) == 0 {
		return nil
	}
	t.sent = make([]wire.Entry, 0, len(t.news))
	room := tableBytes
	for i := len(t.news) - 1; i >= 0; i-- {
		e := t.news[i].e
		if room -= e.Len(); room < 0 {
			break
		}
		t.sent = append(t.sent, e)
	}
	return t.sent
}
