package eventlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Writer appends events to one log, each with exactly one Write of the
// underlying writer. The owner serialises calls.
//
// The first error sticks: what follows a line that was cut by a full disk
// would be glued to it, so nothing follows.
type Writer struct {
	w    io.Writer
	file *os.File // where OpenWriter opened it
	buf  []byte
	keys []string
	err  error
}

// NewWriter writes to w. Where w is a file it must have been opened with
// O_APPEND; OpenWriter does so.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// OpenWriter opens (or creates) the log at path for appending. Where an
// earlier life of the node left a cut last line, it is ended first, so that
// the new life begins on a line of its own.
func OpenWriter(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	if err := endCutLine(f); err != nil {
		return nil, errors.Join(fmt.Errorf("open event log %s: %w", path, err), f.Close())
	}
	return &Writer{w: f, file: f}, nil
}

// endCutLine writes a newline where f does not end with one.
func endCutLine(f *os.File) error {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 || !st.Mode().IsRegular() {
		return err
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], st.Size()-1); err != nil {
		return err
	}
	if last[0] != '\n' {
		_, err = f.Write([]byte{'\n'})
	}
	return err
}

// Write appends one event. An error (a full disk, a short write, a number
// that JSON cannot hold) ends the log: every later call returns it again.
func (w *Writer) Write(e *Event) error {
	if w.err != nil {
		return w.err
	}
	b, err := w.appendEvent(w.buf[:0], e)
	w.buf = b[:0]
	if err != nil {
		// Nothing was written: the log is whole and may go on.
		return fmt.Errorf("encode event %q: %w", e.Kind, err)
	}
	b = append(b, '\n')
	w.buf = b[:0]
	n, err := w.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = fmt.Errorf("write event log: %w (%d of %d bytes)", err, n, len(b))
	}
	return w.err
}

// Close closes the file that OpenWriter opened.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("close event log: %w", err)
	}
	return nil
}

// appendEvent encodes e as encoding/json would, but without reflection and
// with no allocation for the events that are written often: hundreds of
// processes share the host.
func (w *Writer) appendEvent(b []byte, e *Event) ([]byte, error) {
	b = append(b, `{"t":`...)
	b = strconv.AppendInt(b, e.T, 10)
	b = append(b, `,"ev":`...)
	b = appendString(b, string(e.Kind))
	b = append(b, `,"node":`...)
	b = strconv.AppendInt(b, int64(e.Node), 10)
	b = appendUint(b, "inc", uint64(e.Inc))
	b = appendText(b, "req", e.Req)
	b = appendInt(b, "no", int64(e.No))
	if e.Queued != nil {
		b = append(b, `,"queued":`...)
		b = strconv.AppendInt(b, *e.Queued, 10)
	}
	b = appendInt(b, "cs", e.CS)
	b = appendText(b, "asked", e.Asked)
	b = appendInt(b, "grants", int64(e.Grants))
	b = appendText(b, "state", e.State)
	if e.Peer != nil {
		b = append(b, `,"peer":`...)
		b = strconv.AppendInt(b, int64(*e.Peer), 10)
	}
	b = appendUint(b, "pinc", uint64(e.PeerInc))
	b = appendText(b, "change", e.Change)
	b = appendInt(b, "size", int64(e.Size))
	b = appendInt(b, "slot", int64(e.Slot))
	b = appendUint(b, "order", e.Order)
	b = w.appendCounts(b, "sent", e.Sent)
	b = w.appendCounts(b, "recv", e.Recv)
	if e.Probe != nil {
		var err error
		if b, err = appendProbe(b, e.Probe); err != nil {
			return b, err
		}
	}
	if u := e.Usage; u != nil {
		b = append(b, `,"usage":{"cpu":`...)
		b = strconv.AppendInt(b, u.CPU, 10)
		b = append(b, `,"max_rss":`...)
		b = strconv.AppendInt(b, u.MaxRSS, 10)
		b = append(b, `,"anon":`...)
		b = strconv.AppendInt(b, u.Anon, 10)
		b = append(b, '}')
	}
	b = appendInt(b, "after", e.After)
	b = appendText(b, "verb", e.Verb)
	b = appendText(b, "origin", e.Origin)
	b = appendText(b, "link", e.Link)
	b = appendInt(b, "pid", int64(e.PID))
	b = appendText(b, "text", e.Text)
	if e.Host != nil { // the controller's, once a slice
		h, err := json.Marshal(e.Host)
		if err != nil {
			return b, err
		}
		b = append(append(b, `,"host":`...), h...)
	}
	if e.KG != nil {
		g, err := json.Marshal(e.KG)
		if err != nil {
			return b, err
		}
		b = append(append(b, `,"kg":`...), g...)
	}
	if h := e.Hood; h != nil {
		b = strconv.AppendInt(append(b, `,"hood":{"began":`...), h.Began, 10)
		b = appendText(b, "first", h.First)
		for _, f := range [...]struct {
			key string
			v   int
		}{{"tries", h.Tries}, {"in_flight", h.InFlight}, {"least", h.Least}, {"most", h.Most}, {"state", h.State}} {
			b = strconv.AppendInt(appendKey(b, f.key), int64(f.v), 10)
		}
		b = append(b, '}')
	}
	return append(b, '}'), nil
}

func appendKey(b []byte, key string) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

func appendInt(b []byte, key string, v int64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendInt(appendKey(b, key), v, 10)
}

func appendUint(b []byte, key string, v uint64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendUint(appendKey(b, key), v, 10)
}

func appendText(b []byte, key, v string) []byte {
	if v == "" {
		return b
	}
	return appendString(appendKey(b, key), v)
}

// appendString quotes s; control characters and bytes that are no UTF-8 go
// the slow way, through encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			q, err := json.Marshal(s)
			if err != nil { // a string always marshals
				return append(b, `""`...)
			}
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendCounts writes the kinds in order, so that equal counters are equal
// lines.
func (w *Writer) appendCounts(b []byte, key string, m map[string]Count) []byte {
	if len(m) == 0 {
		return b
	}
	w.keys = w.keys[:0]
	for k := range m {
		w.keys = append(w.keys, k)
	}
	slices.Sort(w.keys)
	b = appendKey(b, key)
	for i, k := range w.keys {
		if i == 0 {
			b = append(b, '{')
		} else {
			b = append(b, ',')
		}
		c := m[k]
		b = appendString(b, k)
		b = append(b, `:{"n":`...)
		b = strconv.AppendInt(b, c.N, 10)
		b = append(b, `,"bytes":`...)
		b = strconv.AppendInt(b, c.Bytes, 10)
		b = appendInt(b, "retrans", c.Retrans)
		b = appendInt(b, "hops", c.Hops)
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendProbe(b []byte, p *Probe) ([]byte, error) {
	if math.IsNaN(p.SumErr) || math.IsInf(p.SumErr, 0) {
		return b, fmt.Errorf("sum of delay errors is %v", p.SumErr)
	}
	b = append(b, `,"probe":{"sent":`...)
	b = strconv.AppendInt(b, p.Sent, 10)
	b = append(b, `,"received":`...)
	b = strconv.AppendInt(b, p.Received, 10)
	b = append(b, `,"lost":`...)
	b = strconv.AppendInt(b, p.Lost, 10)
	b = appendHistogram(append(b, `,"delay_err":`...), p.DelayErr)
	b = appendHistogram(append(b, `,"timer_lag":`...), p.TimerLag)
	b = append(b, `,"rcvbuf_err":`...)
	b = strconv.AppendInt(b, p.RcvbufErrors, 10)
	b = append(b, `,"max_err":`...)
	b = strconv.AppendInt(b, p.MaxErr, 10)
	b = append(b, `,"sum_err":`...)
	b = strconv.AppendFloat(b, p.SumErr, 'g', -1, 64)
	return append(b, '}'), nil
}

func appendHistogram(b []byte, h []int64) []byte {
	if h == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, v := range h {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, v, 10)
	}
	return append(b, ']')
}
