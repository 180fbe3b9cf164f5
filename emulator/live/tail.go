package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Bounds of reading along: how often, and how much of a log at a time, so
// that a log that grows fast is caught up with slowly.
const (
	tailEvery = time.Second
	tailBytes = 256 << 10
	// rateSpan is how far back rates look: counters come every few seconds.
	rateSpan = 10
)

// tail reads along in the nodes' logs while somebody looks: lists' lengths
// and message counters do not pass through the controller.
type tail struct {
	picture *Picture
	logs    []tailed
	samples []sample // newest last, at most rateSpan+1
	buf     []byte
}

// tailed is how far one log was read, and what it said.
type tailed struct {
	offset   int64
	size     int   // of the membership list
	messages int64 // sent, of the lives before
	inc      uint32
	sent     int64 // of this life
}

type sample struct {
	at               time.Duration // scenario time
	served, messages float64
	kills            float64
}

func newTail(p *Picture) *tail {
	return &tail{picture: p, logs: make([]tailed, len(p.nodes)), buf: make([]byte, tailBytes)}
}

func (t *tail) run(ctx context.Context) {
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if t.picture.Watched() {
				t.read()
			} else {
				t.samples = t.samples[:0]
			}
		case <-ctx.Done():
			return
		}
	}
}

// read brings everything up to date.
func (t *tail) read() {
	members, messages := make([]int, len(t.logs)), int64(0)
	for i := range t.logs {
		l := &t.logs[i]
		l.read(filepath.Join(t.picture.info.Dir, "nodes", strconv.Itoa(i)+".jsonl"), t.buf)
		members[i] = l.size
		messages += l.messages + l.sent
	}
	f := t.picture.Figures()
	now := sample{time.Duration(f.ElapsedMS * 1e6), float64(f.Served), float64(messages), float64(f.Kills)}
	if n := len(t.samples); n == 0 || now.at > t.samples[n-1].at {
		t.samples = append(t.samples, now)
	}
	if n := len(t.samples) - rateSpan - 1; n > 0 {
		t.samples = t.samples[n:]
	}
	first := t.samples[0]
	served, sent, churn := 0.0, 0.0, 0.0
	if span := (now.at - first.at).Seconds(); span > 0 {
		served, sent, churn = (now.served-first.served)/span, (now.messages-first.messages)/span, 60*(now.kills-first.kills)/span
	}
	t.picture.setRates(served, sent, churn, members)
}

// read takes in the lines that were added since. A log that cannot be read
// now is read later: this is a view, not a judgement.
func (l *tailed) read(path string, buf []byte) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	n, err := f.ReadAt(buf, l.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return
	}
	whole := bytes.LastIndexByte(buf[:n], '\n') + 1
	if whole == 0 && n == len(buf) {
		whole = n // a line longer than anything we write
	}
	l.offset += int64(whole)
	for line := range bytes.Lines(buf[:whole]) {
		if bytes.Contains(line, []byte(`"size":`)) || bytes.Contains(line, []byte(`"sent":`)) {
			var e eventlog.Event
			if json.Unmarshal(line, &e) == nil {
				l.take(&e)
			}
		}
	}
}

func (l *tailed) take(e *eventlog.Event) {
	if e.Size > 0 {
		l.size = e.Size
	}
	if e.Kind != eventlog.Counters {
		return
	}
	if core.Incarnation(e.Inc).Start() != core.Incarnation(l.inc).Start() { // counters begin anew with each process
		l.messages += l.sent
		l.inc = e.Inc
	}
	l.sent = 0
	for _, c := range e.Sent {
		l.sent += c.N
	}
}
