package workloads

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
	"time"
)

// DefaultSample is the sampling period of three-column traces.
const DefaultSample = 20 * time.Minute

// maxTraceLine bounds a line of a trace file: the longest of public .avt
// traces, a host of the KAD crawl, is far below.
const maxTraceLine = 16 << 20

// maxTraceTime bounds instants in trace files, 100 years.
const maxTraceTime = 100 * 365 * 24 * time.Hour

// ReadTrace reads a churn trace in the format that the file name tells: .avt,
// or three columns for any other. The name is used in errors only besides;
// sample is the sampling period of a three-column trace, 0 = DefaultSample.
func ReadTrace(r io.Reader, name string, sample time.Duration) (*Trace, error) {
	if strings.EqualFold(path.Ext(name), ".avt") {
		return ReadAVT(r, name)
	}
	return ReadThreeColumns(r, name, sample)
}

// ReadThreeColumns reads the churn trace form of the Camera and Medley
// simulators, one event a line:
//
//	host <tab or spaces> sample <tab or spaces> 1|0
//
// The lines of a host stand together in ascending order of sample (an integer
// from 0); 1 joins, 0 leaves. A line of sample 0 that is a host's first gives
// its state at time 0; a host whose first line is later began in the opposite
// state. Lines that change nothing are accepted and have no effect, since
// measured traces hold some. Empty lines and lines that start with # are
// skipped. Sample 0 means DefaultSample.
func ReadThreeColumns(r io.Reader, name string, sample time.Duration) (*Trace, error) {
	if sample == 0 {
		sample = DefaultSample
	}
	if sample < 0 {
		return nil, fmt.Errorf("read churn trace %s: sample length %v must be > 0", name, sample)
	}
	t := &Trace{Sample: sample}
	seen := make(map[string]int) // host to its first line
	last := int64(0)             // sample of the host's line before
	state := false
	err := eachLine(r, name, func(line int, fields []string) error {
		const allowed = `want "host sample 1|0", grouped by host, samples ascending from 0`
		if len(fields) != 3 {
			return fmt.Errorf("%d columns: %s", len(fields), allowed)
		}
		at, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || at < 0 || at > int64(maxTraceTime/sample) {
			return fmt.Errorf("sample %q: allowed are integers 0..%d", fields[1], maxTraceTime/sample)
		}
		if fields[2] != "0" && fields[2] != "1" {
			return fmt.Errorf("state %q: allowed are 1 (joins) and 0 (leaves)", fields[2])
		}
		up := fields[2] == "1"
		n := len(t.Hosts)
		if n == 0 || t.Hosts[n-1].Name != fields[0] {
			if first, ok := seen[fields[0]]; ok {
				return fmt.Errorf("host %q appears again after other hosts (first in line %d): %s", fields[0], first, allowed)
			}
			seen[fields[0]] = line
			// The first line of sample 0 is the initial state, a later one
			// the first change.
			state, last = up == (at == 0), at
			t.Hosts = append(t.Hosts, Host{Name: fields[0], Initial: state})
			n++
		}
		if at < last {
			return fmt.Errorf("host %q has sample %d after sample %d: samples must ascend", fields[0], at, last)
		}
		last = at
		if up != state {
			state = up
			h := &t.Hosts[n-1]
			h.Events = append(h.Events, TraceEvent{At: time.Duration(at) * sample, Up: up})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(t.Hosts) == 0 {
		return nil, fmt.Errorf("read churn trace %s: no hosts in it", name)
	}
	t.Length = t.end()
	return t, nil
}

// ReadAVT reads the .avt form of the Repository of Availability Traces
// (Godfrey, https://pbg.cs.illinois.edu/availability/), one host a line:
//
//	name  sessions  start end  start end ...
//
// The host was up from each start to its end, in seconds from any origin
// (decimals allowed), ascending; "sessions" is their number and may be 0.
// There is no header; lines that start with # are comments. The earliest start
// in the file becomes time 0 of the trace and the latest end its length; a
// session that lasts until that end was cut by the end of the measurement, so
// no leave is made of it. Sessions without length are dropped, those that
// touch are joined.
func ReadAVT(r io.Reader, name string) (*Trace, error) {
	type session struct{ start, end time.Duration }
	var (
		hosts       []string
		sessions    [][]session
		seen        = make(map[string]int)
		first, last = time.Duration(math.MaxInt64), time.Duration(0)
	)
	err := eachLine(r, name, func(line int, fields []string) error {
		const allowed = `want "name sessions start end start end ..." with times in seconds`
		if len(fields) < 2 {
			return fmt.Errorf("%d columns: %s", len(fields), allowed)
		}
		if at, ok := seen[fields[0]]; ok {
			return fmt.Errorf("host %q appears again (first in line %d): allowed is one line a host", fields[0], at)
		}
		seen[fields[0]] = line
		times := fields[2:]
		count, err := strconv.Atoi(fields[1])
		if err != nil || count < 0 {
			return fmt.Errorf("number of sessions %q: %s", fields[1], allowed)
		}
		// Halved rather than doubled: a huge count must not overflow.
		if len(times)%2 != 0 || len(times)/2 != count {
			return fmt.Errorf("%d times for %d sessions: %s", len(times), count, allowed)
		}
		var list []session
		previous := time.Duration(0)
		for i := 0; i < len(times); i += 2 {
			start, err := avtSeconds(times[i])
			if err != nil {
				return err
			}
			end, err := avtSeconds(times[i+1])
			if err != nil {
				return err
			}
			if start < previous || end < start {
				return fmt.Errorf("session %d (%s %s) of host %q: times must ascend", i/2+1, times[i], times[i+1], fields[0])
			}
			previous = end
			if start == end {
				continue
			}
			first, last = min(first, start), max(last, end)
			if n := len(list); n > 0 && list[n-1].end == start {
				list[n-1].end = end
				continue
			}
			list = append(list, session{start, end})
		}
		hosts = append(hosts, fields[0])
		sessions = append(sessions, list)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if last == 0 {
		return nil, fmt.Errorf("read churn trace %s: no sessions in it", name)
	}
	t := &Trace{Length: last - first, Hosts: make([]Host, len(hosts))}
	for i, list := range sessions {
		h := Host{Name: hosts[i]}
		for _, s := range list {
			if s.start == first {
				h.Initial = true
			} else {
				h.Events = append(h.Events, TraceEvent{At: s.start - first, Up: true})
			}
			if s.end < last {
				h.Events = append(h.Events, TraceEvent{At: s.end - first})
			}
		}
		t.Hosts[i] = h
	}
	return t, nil
}

func avtSeconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > maxTraceTime.Seconds() {
		return 0, fmt.Errorf("time %q: allowed are seconds 0..%.0f", s, maxTraceTime.Seconds())
	}
	return time.Duration(f * float64(time.Second)), nil
}

// eachLine calls f with the columns of every line that holds something, and
// puts file and line before its errors.
func eachLine(r io.Reader, name string, f func(line int, fields []string) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 0, 64<<10), maxTraceLine)
	line := 1
	for ; scanner.Scan(); line++ {
		fields := strings.Fields(scanner.Text())
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if err := f(line, fields); err != nil {
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: line is longer than %d bytes: %w", name, line, maxTraceLine, err)
	case err != nil:
		return fmt.Errorf("read churn trace %s: %w", name, err)
	}
	return nil
}

// WriteThreeColumns writes the trace in the form that ReadThreeColumns reads,
// every host with its state at sample 0 first, so that reading it gives the
// same trace (length apart; instants cut to samples). A trace with exact
// instants is cut to samples of DefaultSample.
func (t *Trace) WriteThreeColumns(w io.Writer) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("write churn trace: %w", err)
	}
	sample := t.Sample
	if sample == 0 {
		sample = DefaultSample
	}
	b := bufio.NewWriter(w)
	digit := map[bool]byte{true: '1', false: '0'}
	var buf []byte
	put := func(host string, at time.Duration, up bool) {
		buf = append(append(buf[:0], host...), '\t')
		buf = append(strconv.AppendInt(buf, int64(at/sample), 10), '\t', digit[up], '\n')
		_, _ = b.Write(buf) // the error stays in b until Flush
	}
	for _, h := range t.Hosts {
		put(h.Name, 0, h.Initial)
		for _, e := range h.Events {
			put(h.Name, e.At, e.Up)
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write churn trace: %w", err)
	}
	return nil
}

// validHostName reports whether a trace file can hold the name.
func validHostName(s string) bool {
	fields := strings.Fields(s)
	return len(fields) == 1 && fields[0] == s && s[0] != '#'
}
