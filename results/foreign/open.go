package foreign

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"churnbed/results"
)

// Format names a file format.
type Format string

// Formats that Detect tells apart.
const (
	FormatTrials  Format = "trials"  // trials.jsonl, or a directory that results.OpenTrials opens
	FormatCamera  Format = "camera"  // results of the Camera Java simulator
	FormatCSV     Format = "csv"     // a table of requests
	FormatMemlist Format = "memlist" // <id>.json of the Java simulators
	FormatRoutes  Format = "routes"  // routing file of the Java simulators
	FormatUnknown Format = "unknown"
)

// Detect tells the format of a file from its content, unpacked.
func Detect(data []byte, opt CSVOptions) Format {
	head := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case results.IsTrials(head):
		return FormatTrials
	case bytes.HasPrefix(head, []byte("dist_map:")):
		return FormatRoutes
	case bytes.Contains(data, []byte(`"algorithmMetric"`)):
		return FormatCamera
	case bytes.HasPrefix(head, []byte{'{'}) && bytes.Contains(head, []byte(`"status"`)):
		return FormatMemlist
	}
	first, _, _ := bytes.Cut(head, []byte{'\n'})
	sep := ","
	if opt.Comma != 0 {
		sep = string(opt.Comma)
	}
	columns := map[string]bool{}
	for c := range strings.SplitSeq(strings.TrimSpace(string(first)), sep) {
		columns[strings.Trim(strings.TrimSpace(c), `"`)] = true
	}
	if columns[opt.header("request")] && columns[opt.header("enter")] {
		return FormatCSV
	}
	return FormatUnknown
}

// Options say how to open trials.
type Options struct {
	Format Format // "" = told from the content
	CSV    CSVOptions
	Where  []results.Condition
}

// Open loads trials of ours and of other simulators: what results.OpenTrials
// opens, a Camera result file or a CSV, .xz or not. A selection may follow
// the path after a question mark, "file.json.xz?N=256&msg_drop_rate=0"; it
// and Where must both hold.
func Open(path string, opt Options) (*results.TrialSet, error) {
	where := opt.Where
	if _, err := os.Stat(path); err != nil {
		if file, query, ok := strings.Cut(path, "?"); ok {
			c, err := results.ParseConditions(query)
			if err != nil {
				return nil, fmt.Errorf("open %s: %w", path, err)
			}
			path, where = file, append(c, where...)
		}
	}
	s, err := open(path, opt)
	if err != nil {
		return nil, err
	}
	if len(where) == 0 {
		return s, nil
	}
	return s.Where(where)
}

func open(path string, opt Options) (*results.TrialSet, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open trials: %w", err)
	}
	if st.IsDir() {
		return results.OpenTrials(path)
	}
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	format := opt.Format
	if format == "" {
		format = Detect(data, opt.CSV)
	}
	base := filepath.Base(path)
	switch format {
	case FormatTrials:
		s, err := results.ReadTrials(bytes.NewReader(data), path)
		if err != nil {
			return nil, err
		}
		s.Name = base
		return s, nil
	case FormatCamera:
		f, err := ReadCamera(data, path)
		if err != nil {
			return nil, err
		}
		return f.Trials(path), nil
	case FormatCSV:
		s, err := ReadCSV(data, path, opt.CSV)
		if err != nil {
			return nil, err
		}
		s.Name = base
		return s, nil
	case FormatMemlist, FormatRoutes:
		return nil, fmt.Errorf("open %s: %w: a file of format %s holds no results", path, results.ErrNotTrials, format)
	case FormatUnknown:
	}
	return nil, fmt.Errorf("open %s: %w: neither trials of this tool nor results of the Camera simulator nor a CSV with columns %s and %s",
		path, results.ErrNotTrials, opt.CSV.header("request"), opt.CSV.header("enter"))
}
