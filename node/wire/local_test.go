package wire

import (
	"bytes"
	"errors"
	"testing"

	"churnbed/node/core"
)

func localMessages() []*Local {
	var list []*Local
	for k := KindLink; k <= KindAckUnlock; k++ {
		list = append(list, &Local{What: k, Mine: 1<<42 + 7, Theirs: uint64(k), Number: 513, Value: 1<<31 + 5}, &Local{What: k})
	}
	return list
}

func TestLocalMessagesHaveOneLength(t *testing.T) {
	for _, m := range localMessages() {
		f := Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 4, Reliable: true, Seq: 9, Msg: m}
		b := f.Append(nil)
		if n := len(m.AppendPayload(nil)); n != LocalBytes {
			t.Errorf("%s takes %d bytes, want %d", KindName(m.What), n, LocalBytes)
		}
		g, err := Parse(b)
		if err != nil {
			t.Fatalf("%s: %v", KindName(m.What), err)
		}
		if got := g.Msg.(*Local); *got != *m {
			t.Errorf("read %+v, want %+v", got, m)
		}
		if g.Class() != ClassMutex {
			t.Errorf("%s is not a message of mutual exclusion", KindName(m.What))
		}
		for n := range b {
			if _, err := Parse(b[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d bytes: error %v, want ErrMalformed", KindName(m.What), n, err)
			}
		}
	}
}

func FuzzLocal(f *testing.F) {
	for _, m := range localMessages() {
		fr := Frame{From: core.Peer{ID: 3, Inc: 1024}, To: 4, Msg: m}
		f.Add(fr.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := Parse(b)
		if err != nil {
			return
		}
		if c := g.Append(nil); !bytes.Equal(b, c) {
			t.Fatalf("read % x\nwrites % x", b, c)
		}
	})
}
