package guestinit

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Kind says what a frame carries.
type Kind byte

// The kinds of frame. Everything the guest tells goes out as a row of frames:
//
//	+------+----------------------+---------+
//	| kind | length (4 bytes, LE) | payload |
//	+------+----------------------+---------+
const (
	KindStdout  Kind = 'o' // what the command wrote to its standard output
	KindStderr  Kind = 'e' // what the command or the init wrote to standard error
	KindArchive Kind = 'a' // a piece of the gzipped tar of Job.Out
	KindEnd     Kind = 'x' // last, once: an End in JSON
	KindAlive   Kind = 'l' // empty, every AliveEvery of guest time
)

// AliveEvery is how often, by its own clock, a guest tells that it is alive.
const AliveEvery = time.Second

// MaxPayload is the largest payload of a frame in bytes.
const MaxPayload = 64 << 10

const headerSize = 5

// End is the guest's verdict on the job.
type End struct {
	Exit int `json:"exit"` // the command's exit status, 128 + signal where one ended it
	// Failure is set where the init itself could not do the job.
	Failure       string        `json:"failure,omitempty"`
	ArchiveSize   int64         `json:"archive_size"`   // bytes of all KindArchive frames
	ArchiveSHA256 string        `json:"archive_sha256"` // hex, of the same
	Uptime        time.Duration `json:"uptime_ns"`      // guest time since its kernel started
}

func appendHeader(b []byte, kind Kind, length int) []byte {
	b = append(b, byte(kind))
	return binary.LittleEndian.AppendUint32(b, uint32(length))
}

// ReadFrame reads one frame into buf, which it may grow. It returns io.EOF
// where r ends between two frames and io.ErrUnexpectedEOF within one.
func ReadFrame(r io.Reader, buf []byte) (Kind, []byte, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	kind, n := Kind(h[0]), binary.LittleEndian.Uint32(h[1:])
	switch kind {
	case KindStdout, KindStderr, KindArchive, KindEnd, KindAlive:
	default:
		return 0, nil, fmt.Errorf("read frame: unknown kind %#x", h[0])
	}
	if n > MaxPayload {
		return 0, nil, fmt.Errorf("read frame: %d bytes, at most %d", n, MaxPayload)
	}
	if uint32(cap(buf)) < n {
		buf = make([]byte, MaxPayload)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return kind, buf, nil
}
