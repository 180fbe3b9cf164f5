package reproduce

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

var columns = []string{
	"series", "x", "first_seed", "trials", "mean", "standard_error", "messages_per_entry",
	"reference_trials", "reference_mean", "reference_standard_error", "reference_messages_per_entry", "counted", "verdict",
}

// WriteCSV records the result: comment lines that begin with #, a header, a
// line a cell. Trial i of a cell has the seed first_seed + i.
func (r *Result) WriteCSV(w io.Writer) error {
	v, why := r.Outcome()
	head := [][2]string{
		{"entry", r.Sweep.Name},
		{"title", r.Sweep.Title},
		{"x", r.Sweep.X},
		{"mean", r.Sweep.Y},
		{"engine", r.Engine},
		{"version", r.Version},
		{"host", r.Host},
		{"date", r.Date},
		{"verdict", string(v)},
		{"why", why},
	}
	for _, f := range r.Sweep.Judge(r.Cells) {
		head = append(head, [2]string{"claim", fmt.Sprintf("%s: measured %s, wanted %s: %s", f.Text, f.Measured(), f.Wanted(), f.Verdict)})
	}
	for _, line := range head {
		if _, err := fmt.Fprintf(w, "# %s: %s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return err
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		err := out.Write([]string{
			c.Series, number(c.X), strconv.FormatUint(c.Seed, 10), strconv.Itoa(c.Got.N), exact(c.Got.Mean), exact(c.Got.SE), exact(c.Got.Messages),
			strconv.Itoa(c.Want.N), exact(c.Want.Mean), exact(c.Want.SE), exact(c.Want.Messages), strconv.FormatBool(!c.Ours), string(c.Verdict),
		})
		if err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// exact has six digits: more are noise, and differ by processor.
func exact(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// Status is what a record tells of itself.
type Status struct {
	Engine, Version, Host, Date, Verdict, Why string
	Cells                                     int
}

// ErrNotARecord is wrapped by the errors of ReadStatus.
var ErrNotARecord = errors.New("not a record of reproduce")

// ReadStatus reads the head of a record; name is used in errors.
func ReadStatus(r io.Reader, name string) (*Status, error) {
	text, err := io.ReadAll(io.LimitReader(r, 8<<20))
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", name, err)
	}
	s := &Status{}
	fields := map[string]*string{
		"engine": &s.Engine, "version": &s.Version, "host": &s.Host, "date": &s.Date, "verdict": &s.Verdict, "why": &s.Why,
	}
	rest := string(text)
	for strings.HasPrefix(rest, "#") {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		key, value, _ := strings.Cut(strings.TrimPrefix(line, "# "), ": ")
		if f := fields[key]; f != nil {
			*f = value
		}
	}
	in := csv.NewReader(strings.NewReader(rest))
	in.FieldsPerRecord = len(columns)
	rows, err := in.ReadAll()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read record %s: %w: %w", name, ErrNotARecord, err)
	case len(rows) == 0 || strings.Join(rows[0], ",") != strings.Join(columns, ","):
		return nil, fmt.Errorf("read record %s: %w: the header is not %s", name, ErrNotARecord, strings.Join(columns, ","))
	case s.Date == "" || s.Verdict == "":
		return nil, fmt.Errorf("read record %s: %w: no date or verdict", name, ErrNotARecord)
	}
	s.Cells = len(rows) - 1
	return s, nil
}
