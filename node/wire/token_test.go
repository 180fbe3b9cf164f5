package wire

import (
	"testing"

	"churnbed/node/core"

	"github.com/google/go-cmp/cmp"
)

func tokenMessages() []core.Message {
	r := core.RequestID{Node: 7, Inc: core.FirstIncarnation, TS: 9}
	q := core.RequestID{Node: core.MaxNodes - 1, Inc: 1<<32 - 1, TS: 1<<64 - 1}
	return []core.Message{
		&Token{For: r},
		&Token{For: q, Slot: MaxTokens - 1, Loads: []Load{{Length: -3, Version: 1 << 60}, {}}},
		&TokenRequest{For: r},
		&TokenRequest{For: q, Hop: 300, Slot: 2, Loads: []Load{{Length: 5, Version: 9}}},
		&Child{After: r, For: q, Order: 1 << 40},
		&TokenLocations{For: r, Order: 3, Slots: []core.RequestID{r, q}},
	}
}

func TestTokenRoundTrip(t *testing.T) {
	for _, m := range tokenMessages() {
		f := Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 4, Reliable: true, Seq: 5, Msg: m}
		b := f.Append(nil)
		if len(b) > MaxFrame {
			t.Errorf("%s takes %d bytes", KindName(m.Kind()), len(b))
		}
		g, err := Parse(b)
		if err != nil {
			t.Errorf("%s: %v", KindName(m.Kind()), err)
			continue
		}
		if d := cmp.Diff(f, g); d != "" {
			t.Errorf("%s (-sent +read):\n%s", KindName(m.Kind()), d)
		}
		for n := range b {
			if _, err := Parse(b[:n]); err == nil && n > 8 {
				t.Errorf("%s is read when cut to %d of %d bytes", KindName(m.Kind()), n, len(b))
			}
		}
	}
}

func TestTokenRejects(t *testing.T) {
	r := core.RequestID{Node: 1, Inc: 1024, TS: 1}
	for name, m := range map[string]core.Message{
		"slot":      &Token{For: r, Slot: MaxTokens},
		"no slots":  &TokenLocations{For: r},
		"slots":     &TokenLocations{For: r, Slots: make([]core.RequestID, MaxTokens+1)},
		"no name":   &TokenRequest{},
		"many load": &Token{For: r, Loads: make([]Load, MaxTokens+1)},
	} {
		f := Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 4, Msg: m}
		if g, err := Parse(f.Append(nil)); err == nil {
			t.Errorf("%s: read as %+v", name, g)
		}
	}
}
