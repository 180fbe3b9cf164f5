package topologies

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"churnbed/node/core"
)

// Format names a file format.
type Format string

const (
	XY       Format = "xy"       // one "x,y" a line (Java simulators of Medley and Camera)
	JSON     Format = "json"     // our own, with everything a topology holds
	GraphML  Format = "graphml"  // graphml.graphdrawing.org
	Freifunk Format = "freifunk" // meshnet-lab's maps of Freifunk communities; read only
	RTT      Format = "rtt"      // matrix of round-trip times in ms; read only
	King     Format = "king"     // round-trip times of the King data set, as p2psim reads them; read only
	NS3      Format = "ns3"      // pair list of the NS-3 Medley; read only
)

// Formats lists the formats that Read knows.
func Formats() []Format { return []Format{XY, JSON, GraphML, Freifunk, RTT, King, NS3} }

// WriteFormats lists those of Write.
func WriteFormats() []Format { return []Format{XY, JSON, GraphML} }

// ParseFormat returns the format of that name out of those allowed.
func ParseFormat(s string, allowed []Format) (Format, error) {
	names := make([]string, len(allowed))
	for i, f := range allowed {
		if s == string(f) {
			return f, nil
		}
		names[i] = string(f)
	}
	return "", fmt.Errorf("format %q: want one of %s", s, strings.Join(names, ", "))
}

// maxFileBytes bounds what Read takes in.
const maxFileBytes = 1 << 28

// ReadOptions say how to read; the zero value is right for most files.
type ReadOptions struct {
	Format Format // empty: told from the content

	// Radius joins nodes of an xy file at most so many metres apart, 0 for 4.
	// In an ns3 file of distances it keeps the pairs that near, 0 for all.
	Radius float64

	// Nodes keeps the first so many nodes of an RTT matrix or King file, or so many drawn
	// by Seed where RandomNodes is set; 0 for all.
	Nodes       int
	RandomNodes bool
	Seed        uint64
	Scale       float64 // multiplies the delays of an RTT matrix or King file, 0 for 1

	// WifiOnly keeps the links of type wifi of a Freifunk map.
	WifiOnly bool

	// Largest keeps the largest connected part, as is done for Freifunk maps
	// anyway.
	Largest bool

	// Note is told, in a sentence, what was left out or made up; may be nil.
	Note func(string)
}

func (o ReadOptions) note(format string, args ...any) {
	if o.Note != nil {
		o.Note(fmt.Sprintf(format, args...))
	}
}

func (o ReadOptions) check() error {
	if o.Radius != 0 {
		if err := checkRadius(o.Radius); err != nil {
			return err
		}
	}
	if o.Nodes < 0 {
		return fmt.Errorf("nodes %d: want 1 or more", o.Nodes)
	}
	if !(o.Scale >= 0 && o.Scale <= 1e6) {
		return fmt.Errorf("scale %v: want a number above 0, at most 1e6", o.Scale)
	}
	return nil
}

// lineError is an error at a line of the input, 1 being the first.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

func atLine(line int, format string, args ...any) error {
	return &lineError{line, fmt.Errorf(format, args...)}
}

// ReadFile reads a topology. Errors carry file:line. The topology need not be
// connected; see Topology.Connected.
func ReadFile(path string, opt ReadOptions) (*Topology, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read topology: %w", err)
	}
	defer f.Close()
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	t, err := Read(f, name, opt)
	if err == nil {
		return t, nil
	}
	var at *lineError
	if errors.As(err, &at) {
		return nil, fmt.Errorf("read topology: %s:%d: %w", path, at.line, at.err)
	}
	return nil, fmt.Errorf("read topology %s: %w", path, err)
}

// Read reads a topology called name, where the input brings no name itself.
func Read(r io.Reader, name string, opt ReadOptions) (*Topology, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("input is larger than %d MiB", maxFileBytes>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // byte order mark
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("input is empty")
	}
	format := opt.Format
	if format == "" {
		format = detect(data)
	}
	var t *Topology
	switch format {
	case XY:
		t, err = readXY(data, name, opt)
	case JSON:
		t, err = readJSON(data, name)
	case GraphML:
		t, err = readGraphML(data, name, opt)
	case Freifunk:
		t, err = readFreifunk(data, name, opt)
	case RTT:
		t, err = readRTT(data, name, opt)
	case King:
		t, err = readKing(data, name, opt)
	case NS3:
		t, err = readNS3(data, name, opt)
	case "":
		err = errors.New("line 1 is of no known format (x,y lines, JSON, GraphML, a matrix of round-trip times, King, ns3 pairs): name the format if it is one")
	default:
		_, err = ParseFormat(string(format), Formats())
	}
	if err != nil {
		return nil, err
	}
	if opt.Largest {
		t = keepLargest(t, opt)
	}
	return t, nil
}

// keepLargest returns the largest connected part and notes what went.
func keepLargest(t *Topology, opt ReadOptions) *Topology {
	parts := t.Components()
	if len(parts) <= 1 {
		return t
	}
	s := t.Subset(parts[0])
	opt.note("kept the largest of %d connected parts: %d of %d nodes, %d of %d links",
		len(parts), len(s.Nodes), len(t.Nodes), len(s.Links), len(t.Links))
	return s
}

// detect tells the format from the content: XML is GraphML; of the two JSON
// formats Freifunk's links have a "source"; of the line formats ns3 begins
// with a lone number and xy has commas. Empty: none of them.
func detect(data []byte) Format {
	head := bytes.TrimSpace(data)
	switch head[0] {
	case '<':
		return GraphML
	case '{', '[':
		if bytes.Contains(data, []byte(`"source"`)) {
			return Freifunk
		}
		return JSON
	}
	lines := 0
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		lines++
		fields := bytes.Fields(line)
		switch {
		case lines == 1 && len(fields) > 1 && (string(fields[0]) == "topology" || string(fields[0]) == "node"):
			return King
		case lines == 2 && bytes.Count(line, []byte(",")) == 2:
			return NS3
		case bytes.ContainsRune(line, ','):
			return XY
		case len(fields) > 1 && numeric(fields[0]):
			return RTT
		case lines == 2 || len(fields) > 1 || !numeric(line):
			return ""
		}
	}
	return RTT // a lone number: a matrix of one node
}

func numeric(b []byte) bool {
	_, err := strconv.ParseFloat(string(b), 64)
	return err == nil
}

// idRange says which ids n nodes have.
func idRange(n int) string { return fmt.Sprintf("0..%d", n-1) }

// tooManyNodes is the error of the line that has one node too many.
func tooManyNodes(line int) error {
	return atLine(line, "more than %d nodes", core.MaxNodes)
}
