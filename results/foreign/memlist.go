package foreign

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"

	"churnbed/node/core"
)

// Status of a node in another's list.
type Status string

// The statuses of the Java simulators.
const (
	Active  Status = "active"
	Suspect Status = "suspect"
	Failed  Status = "failed" // as if it were not there
)

// Memlist is one node's membership list, the content of "<id>.json".
type Memlist struct {
	Status   map[core.NodeID]Status // the node itself included
	Suspects map[core.NodeID]int64  // how often it was suspected
}

// Listed returns the nodes that are active or suspected, ascending, without
// self.
func (m *Memlist) Listed(self core.NodeID) []core.NodeID {
	list := []core.NodeID{}
	for id, s := range m.Status {
		if id != self && s != Failed {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// ReadMemlist reads one membership file; name is used in errors.
func ReadMemlist(data []byte, name string) (*Memlist, error) {
	p := &jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data, name: name}
	m := &Memlist{Status: map[core.NodeID]Status{}, Suspects: map[core.NodeID]int64{}}
	sections := map[string]bool{}
	err := p.object(func(key string) error {
		if sections[key] {
			return p.failed("%q twice", key)
		}
		sections[key] = true
		switch key {
		case "status":
			return p.object(func(key string) error {
				id, err := p.id(key)
				if err != nil {
					return err
				}
				if _, twice := m.Status[id]; twice {
					return p.failed("status of node %d twice", id)
				}
				v, err := p.text()
				if err != nil {
					return err
				}
				switch s := Status(v); s {
				case Active, Suspect, Failed:
					m.Status[id] = s
					return nil
				}
				return p.failed("status %s of node %d: want active, suspect or failed", quote([]byte(v)), id)
			})
		case "suspects":
			return p.object(func(key string) error {
				id, err := p.id(key)
				if err != nil {
					return err
				}
				if _, twice := m.Suspects[id]; twice {
					return p.failed("suspects of node %d twice", id)
				}
				v, err := p.text()
				if err != nil {
					return err
				}
				n, err := strconv.ParseInt(v, 10, 64)
				if err != nil || n < 0 {
					return p.failed("suspects %s of node %d: want a count", quote([]byte(v)), id)
				}
				m.Suspects[id] = n
				return nil
			})
		}
		return p.failed("key %s: want status or suspects", quote([]byte(key)))
	})
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, p.failed("something follows the object")
	}
	if !sections["status"] {
		return nil, malformed(name, 1, 1, `no "status" in it`)
	}
	return m, nil
}

// jsonReader reads tokens and tells where it stands.
type jsonReader struct {
	dec  *json.Decoder
	data []byte
	name string
}

func (p *jsonReader) failed(format string, args ...any) error {
	line, col := place(p.data, int(p.dec.InputOffset()))
	return malformed(p.name, line, col, format, args...)
}

func (p *jsonReader) token() (json.Token, error) {
	t, err := p.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, p.failed("%w", err)
	}
	return t, nil
}

// object reads an object and calls each for every key, before its value.
func (p *jsonReader) object(each func(key string) error) error {
	t, err := p.token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return p.failed("want an object")
	}
	for p.dec.More() {
		t, err := p.token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return p.failed("want a key")
		}
		if err := each(key); err != nil {
			return err
		}
	}
	_, err = p.token()
	return err
}

// text reads a string or a number.
func (p *jsonReader) text() (string, error) {
	t, err := p.token()
	if err != nil {
		return "", err
	}
	switch v := t.(type) {
	case string:
		return v, nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return "", p.failed("want a string")
}

func (p *jsonReader) id(s string) (core.NodeID, error) {
	id, err := parseID(s)
	if err != nil {
		return 0, p.failed("%w", err)
	}
	return id, nil
}

func parseID(s string) (core.NodeID, error) {
	v, err := strconv.ParseUint(s, 10, 31)
	if err != nil || v >= core.MaxNodes || strconv.FormatUint(v, 10) != s {
		return 0, fmt.Errorf("%s is not a node id, 0 to %d", quote([]byte(s)), core.MaxNodes-1)
	}
	return core.NodeID(v), nil
}

// Append appends the file's text, keys in order of id, to b.
func (m *Memlist) Append(b []byte) []byte {
	b = append(b, "{\n  \"suspects\": {"...)
	b = section(b, m.Suspects, func(v int64) string { return strconv.FormatInt(v, 10) })
	b = append(b, "},\n  \"status\": {"...)
	b = section(b, m.Status, func(v Status) string { return string(v) })
	return append(b, "}\n}\n"...)
}

func section[V any](b []byte, m map[core.NodeID]V, text func(V) string) []byte {
	ids := slices.Sorted(maps.Keys(m))
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "\n    \"%d\": %q", id, text(m[id]))
	}
	if len(ids) > 0 {
		b = append(b, "\n  "...)
	}
	return b
}

// ReadMemlists reads all "<id>.json" of a folder, which must be 0 to n-1
// without a gap. Other files are ignored (the simulators leave flags there).
func ReadMemlists(dir string) ([]*Memlist, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read membership files: %w", err)
	}
	var ids []core.NodeID
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if id, err := parseID(name); ok && err == nil && !e.IsDir() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		return nil, fmt.Errorf("read membership files: %w: no <id>.json in %s", ErrMalformed, dir)
	}
	lists := make([]*Memlist, len(ids))
	for i, id := range ids {
		if int(id) != i {
			return nil, fmt.Errorf("read membership files: %w: %s is missing", ErrMalformed, filepath.Join(dir, strconv.Itoa(i)+".json"))
		}
		path := filepath.Join(dir, strconv.Itoa(i)+".json")
		data, err := ReadFile(path)
		if err != nil {
			return nil, err
		}
		if lists[i], err = ReadMemlist(data, path); err != nil {
			return nil, err
		}
	}
	for i, m := range lists {
		for id := range m.Status {
			if int(id) >= len(lists) {
				return nil, fmt.Errorf("read membership files: %w: %d.json names node %d, which has no file", ErrMalformed, i, id)
			}
		}
	}
	return lists, nil
}

// WriteMemlists writes "<id>.json" for every list into dir, each whole or not
// at all.
func WriteMemlists(dir string, lists []*Memlist) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write membership files: %w", err)
	}
	for id, m := range lists {
		if m == nil {
			continue
		}
		if err := renameio.WriteFile(filepath.Join(dir, strconv.Itoa(id)+".json"), m.Append(nil), 0o644); err != nil {
			return fmt.Errorf("write membership files: %w", err)
		}
	}
	return nil
}

// ListSize is the length of one node's list at one instant, itself included.
type ListSize struct {
	AtMS float64
	Node core.NodeID
	Size int
}

// MemlistColumns are the columns of a table of list sizes.
var MemlistColumns = []string{"time_ms", "node", "size"}

// WriteMemlistSizes writes memlist.csv.
func WriteMemlistSizes(w io.Writer, sizes []ListSize) error {
	c := csv.NewWriter(w)
	_ = c.Write(MemlistColumns) // the error stays until Flush
	for _, s := range sizes {
		_ = c.Write([]string{number(s.AtMS), strconv.Itoa(int(s.Node)), strconv.Itoa(s.Size)})
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("write list sizes: %w", err)
	}
	return nil
}

// ReadMemlistSizes reads a table of list sizes with a header, one row a
// sample; columns gives the headers of time_ms, node and size where they are
// others. Other columns are ignored.
func ReadMemlistSizes(data []byte, name string, columns map[string]string) ([]ListSize, error) {
	for c := range columns {
		if !slices.Contains(MemlistColumns, c) {
			return nil, fmt.Errorf("column %q: want one of %s", c, strings.Join(MemlistColumns, ", "))
		}
	}
	t := &csvReader{name: name}
	c := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	c.ReuseRecord, c.TrimLeadingSpace = true, true
	rec, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil, malformed(name, 1, 1, "the file is empty; want a header")
	}
	if err != nil {
		return nil, t.failed(err)
	}
	var at [3]int
	for i, column := range MemlistColumns {
		h := column
		if columns[column] != "" {
			h = columns[column]
		}
		if at[i] = slices.IndexFunc(rec, func(s string) bool { return strings.TrimSpace(s) == h }); at[i] < 0 {
			return nil, malformed(name, 1, 1, "no column %q for %s; there are %s", h, column, strings.Join(rec, ", "))
		}
	}
	var out []ListSize
	for {
		rec, err := c.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, t.failed(err)
		}
		bad := func(i int, err error) error {
			line, col := c.FieldPos(at[i])
			return malformed(name, line, col, "%s %s: %w", MemlistColumns[i], quote([]byte(rec[at[i]])), err)
		}
		ms, err := strconv.ParseFloat(strings.TrimSpace(rec[at[0]]), 64)
		if err != nil || !(ms >= 0 && ms <= 1e15) {
			return nil, bad(0, errors.New("want milliseconds"))
		}
		id, err := parseID(strings.TrimSpace(rec[at[1]]))
		if err != nil {
			return nil, bad(1, err)
		}
		size, err := strconv.Atoi(strings.TrimSpace(rec[at[2]]))
		if err != nil || size < 0 || size > core.MaxNodes {
			return nil, bad(2, fmt.Errorf("want 0 to %d", core.MaxNodes))
		}
		out = append(out, ListSize{ms, id, size})
	}
}
