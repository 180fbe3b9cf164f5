package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxLine bounds a line of a log, so that a file that is none cannot ask for
// all memory.
const MaxLine = 16 << 20

// ErrMalformed is wrapped by every error about a line that is no event.
var ErrMalformed = errors.New("malformed event")

// LineError is an error of one line.
type LineError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// CutLine is the warning about a line that its writer could not finish: the
// last one of the log, or the last one before a later life of the node began
// (a "start" line follows). What it was to tell is lost.
type CutLine struct {
	File string
	Line int
	Text string // its beginning
}

func (c CutLine) Error() string {
	return fmt.Sprintf("%s:%d: cut line %q (killed while writing, or the disk was full)", c.File, c.Line, c.Text)
}

// Reader reads the events of one log in order, as a stream. Unknown fields
// are skipped and unknown kinds handed out, so that logs of later versions
// can be read.
type Reader struct {
	name string
	r    *bufio.Reader
	long []byte // a line that does not fit r's buffer
	ev   Event
	line int // of ev
	at   int // lines read
	cuts []CutLine
	err  error
}

// NewReader reads from r; name stands for it in errors.
func NewReader(name string, r io.Reader) *Reader {
	return &Reader{name: name, r: bufio.NewReaderSize(r, 16<<10)}
}

// Scan advances to the next event. It returns false at the end or at an
// error, which Err tells.
func (r *Reader) Scan() bool {
	if r.err != nil {
		return false
	}
	var bad *LineError // a malformed line that may turn out to be cut
	var badText string
	for {
		line, whole, err := r.next()
		if err != nil && !errors.Is(err, io.EOF) {
			r.err = &LineError{r.name, r.at, fmt.Errorf("read event log: %w", err)}
			return false
		}
		if err != nil && len(line) == 0 { // the end
			if bad != nil {
				r.cuts = append(r.cuts, CutLine{r.name, bad.Line, badText})
			}
			r.err = io.EOF
			return false
		}
		if len(bytes.TrimSpace(line)) == 0 && whole && bad == nil {
			continue
		}
		r.ev = Event{}
		perr := parse(line, &r.ev)
		switch {
		case perr == nil && bad == nil:
			r.line = r.at
			return true
		case perr == nil && r.ev.Kind == Start:
			r.cuts = append(r.cuts, CutLine{r.name, bad.Line, badText})
			r.line = r.at
			return true
		case bad != nil: // malformed, and not the end of a life
			r.err = bad
			return false
		}
		bad, badText = &LineError{r.name, r.at, perr}, excerpt(line)
	}
}

// next returns the next line without its newline, valid until the next call;
// whole is false where the file ended before the newline.
func (r *Reader) next() (line []byte, whole bool, err error) {
	r.at++
	r.long = r.long[:0]
	for {
		part, err := r.r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(r.long)+len(part) > MaxLine {
				return nil, false, fmt.Errorf("%w: line is longer than %d bytes", ErrMalformed, MaxLine)
			}
			r.long = append(r.long, part...)
			continue
		}
		if len(r.long) > 0 {
			r.long = append(r.long, part...)
			part = r.long
		}
		if err != nil {
			return part, false, err
		}
		return part[:len(part)-1], true, nil
	}
}

func parse(line []byte, e *Event) error {
	if err := json.Unmarshal(line, e); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if e.Kind == "" {
		return fmt.Errorf("%w: no \"ev\"", ErrMalformed)
	}
	return nil
}

func excerpt(line []byte) string {
	const most = 60
	if len(line) > most {
		return string(line[:most]) + "..."
	}
	return string(line)
}

// Event returns the event that Scan found; it may be kept.
func (r *Reader) Event() Event { return r.ev }

// Line returns the number of its line, from 1.
func (r *Reader) Line() int { return r.line }

// Cut returns the cut lines met so far.
func (r *Reader) Cut() []CutLine { return r.cuts }

// Err returns what ended the reading, nil at the end of the log. It is a
// *LineError.
func (r *Reader) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}
