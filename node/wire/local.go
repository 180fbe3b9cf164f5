package wire

import (
	"encoding/binary"

	"churnbed/node/core"
)

// Messages of local mutual exclusion between neighbours: kinds 160 to 175. All
// have one form of constant length (LocalBytes):
//
//	8 bytes  epoch of the sender's port, big endian
//	8 bytes  epoch of the receiver's port as the sender knows it, 0 = unknown
//	2 bytes  number of the request that this is, or answers
//	4 bytes  value: priority (REQUEST-LOCK), 1 or 0 (WIN), data of an
//	         application (ACK-LOCK, RELEASE-LOCK), else 0
const (
	KindLink        byte = 160 // the port is there; its epoch
	KindPrepare     byte = 161
	KindReady       byte = 162
	KindRequestLock byte = 163
	KindWin         byte = 164
	KindSetLock     byte = 165
	KindAckLock     byte = 166
	KindReleaseLock byte = 167
	KindAckUnlock   byte = 168
)

// LocalBytes is the length of every message of local mutual exclusion.
const LocalBytes = 8 + 8 + 2 + 4

var localKinds = func() (list []kind) {
	for i, name := range []string{
		"LINK", "PREPARE", "READY", "REQUEST-LOCK", "WIN", "SET-LOCK", "ACK-LOCK", "RELEASE-LOCK", "ACK-UNLOCK",
	} {
		id := KindLink + byte(i)
		list = append(list, kind{id, name, ClassMutex, func(r *Reader) core.Message { return readLocal(id, r) }})
	}
	return list
}()

// Local is a message of local mutual exclusion.
type Local struct {
	What         byte // its kind
	Mine, Theirs uint64
	Number       uint16
	Value        uint32
}

// Kind implements core.Message.
func (m *Local) Kind() byte { return m.What }

// AppendPayload implements core.Message.
func (m *Local) AppendPayload(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.Mine)
	b = binary.BigEndian.AppendUint64(b, m.Theirs)
	b = binary.BigEndian.AppendUint16(b, m.Number)
	return binary.BigEndian.AppendUint32(b, m.Value)
}

func readLocal(kind byte, r *Reader) *Local {
	if r.Len() < LocalBytes {
		r.fail("short")
		return nil
	}
	b := r.b[r.off:]
	r.off += LocalBytes
	return &Local{
		What: kind, Mine: binary.BigEndian.Uint64(b), Theirs: binary.BigEndian.Uint64(b[8:]),
		Number: binary.BigEndian.Uint16(b[16:]), Value: binary.BigEndian.Uint32(b[18:]),
	}
}
