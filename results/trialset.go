package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"churnbed/node/core"
)

// TrialsFile is the compact form of a trial set inside its directory;
// TrialsDir holds the run directories where it is kept in full.
const (
	TrialsFile = "trials.jsonl"
	TrialsDir  = "trials"
	CellsDir   = "cells" // of a sweep: a trial set for each cell
)

// TrialsSchema is the version of trials.jsonl.
const TrialsSchema = 1

// Foreign is the engine of a trial set that another simulator made.
const Foreign = "foreign"

// ErrNotTrials is wrapped by the errors of OpenTrials about what holds no
// trial.
var ErrNotTrials = errors.New("no trials")

// TrialSet is independent trials of what should be one condition: a
// directory with
//
//	trials.jsonl      a header line, then one trial a line (compact), or
//	trials/<seed>/    run directories,
//
// or any directory of run directories, or a single run directory.
type TrialSet struct {
	Name   string `json:"name"`   // for people
	Source string `json:"source"` // churnbed, or the simulator it comes from
	Engine string `json:"engine"` // Emulated, Simulated or Foreign; "mixed"
	// Parameters hold for every trial.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Aliases are the source's own names of parameters, for selections.
	Aliases map[string]string `json:"aliases,omitempty"`
	// Artefacts are known peculiarities of the source that bear on figures.
	Artefacts []string `json:"artefacts,omitempty"`
	// Incomparable are metrics whose unit or definition is the source's own,
	// with the reason.
	Incomparable map[string]string `json:"incomparable,omitempty"`
	Notes        []string          `json:"notes,omitempty"` // of reading
	Trials       []*Trial          `json:"-"`
}

// Parameter returns a parameter of trial i, which its own or the set's alias
// may name.
func (s *TrialSet) Parameter(i int, key string) (string, bool) {
	for _, k := range [...]string{key, s.Aliases[key]} {
		if v, ok := s.Trials[i].Parameters[k]; ok {
			return v, true
		}
		if v, ok := s.Parameters[k]; ok {
			return v, true
		}
	}
	return "", false
}

// Condition selects the trials whose parameter Key has the value Value.
type Condition struct{ Key, Value string }

// ParseConditions reads "key=value", several joined by "&".
func ParseConditions(s string) ([]Condition, error) {
	var out []Condition
	for part := range strings.SplitSeq(s, "&") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || strings.TrimSpace(key) == "" {
			return nil, fmt.Errorf("selection %q: want key=value, more joined by &", part)
		}
		out = append(out, Condition{strings.TrimSpace(key), strings.TrimSpace(value)})
	}
	return out, nil
}

// Where returns the set of the trials that meet all conditions. A condition
// that no trial meets is an error that lists the values there are.
func (s *TrialSet) Where(conditions []Condition) (*TrialSet, error) {
	out := *s
	for _, c := range conditions {
		kept := []*Trial{}
		var seen []string
		for i, t := range out.Trials {
			v, ok := out.Parameter(i, c.Key)
			if ok && SameValue(v, c.Value) {
				kept = append(kept, t)
			} else if ok && !slices.Contains(seen, v) {
				seen = append(seen, v)
			}
		}
		if len(kept) == 0 {
			if len(seen) == 0 {
				return nil, fmt.Errorf("select from %s: %w: no parameter %q; there are %s", s.Name, ErrNotTrials, c.Key, strings.Join(s.parameterNames(), ", "))
			}
			return nil, fmt.Errorf("select from %s: %w with %s=%s; there are %s", s.Name, ErrNotTrials, c.Key, c.Value, strings.Join(seen, ", "))
		}
		out.Trials = kept
	}
	if len(conditions) > 0 {
		parts := make([]string, len(conditions))
		for i, c := range conditions {
			parts[i] = c.Key + "=" + c.Value
		}
		out.Name += "?" + strings.Join(parts, "&")
	}
	out.hoist()
	return &out, nil
}

func (s *TrialSet) parameterNames() []string {
	names := map[string]bool{}
	for k := range s.Parameters {
		names[k] = true
	}
	for _, t := range s.Trials {
		for k := range t.Parameters {
			names[k] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// hoist moves the parameters that are equal in all trials to the set. Trials
// are not changed but replaced: another set may hold them too.
func (s *TrialSet) hoist() {
	common := map[string]string{}
	if len(s.Trials) > 0 {
		maps.Copy(common, s.Trials[0].Parameters)
	}
	for _, t := range s.Trials {
		maps.DeleteFunc(common, func(k, v string) bool {
			own, ok := t.Parameters[k]
			return !ok || own != v
		})
	}
	s.Parameters = maps.Clone(s.Parameters)
	if s.Parameters == nil {
		s.Parameters = map[string]string{}
	}
	maps.Copy(s.Parameters, common)
	s.Trials = slices.Clone(s.Trials)
	for i, t := range s.Trials {
		own := *t
		own.Parameters = maps.Clone(t.Parameters)
		maps.DeleteFunc(own.Parameters, func(k, _ string) bool { _, ok := common[k]; return ok })
		s.Trials[i] = &own
	}
}

// NewTrialSet makes a set of trials of this tool.
func NewTrialSet(name string, trials []*Trial) *TrialSet {
	s := &TrialSet{Name: name, Source: "churnbed", Trials: trials}
	s.hoist()
	s.Engine = s.Parameters["engine"]
	if s.Engine == "" {
		s.Engine = "mixed"
	}
	seeds := map[uint64]int{}
	for _, t := range s.Trials {
		seeds[t.Seed]++
	}
	for _, seed := range slices.Sorted(maps.Keys(seeds)) {
		if n := seeds[seed]; n > 1 {
			s.Notes = append(s.Notes, fmt.Sprintf("seed %d occurs in %d trials: they may not be independent", seed, n))
		}
	}
	return s
}

// OpenTrials loads a trial set, a run directory, a directory of run
// directories, or a file in the form of trials.jsonl. A directory that has
// both takes trials.jsonl. Run directories are judged on all processors.
func OpenTrials(path string) (*TrialSet, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open trials: %w", err)
	}
	if !st.IsDir() {
		return openTrialsFile(path, filepath.Base(path))
	}
	name := filepath.Base(filepath.Clean(path))
	if exists(filepath.Join(path, ManifestFile)) {
		return judgeRuns(name, []string{path})
	}
	if file := filepath.Join(path, TrialsFile); exists(file) {
		return openTrialsFile(file, name)
	}
	base := path
	if sub := filepath.Join(path, TrialsDir); exists(sub) {
		base = sub
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, fmt.Errorf("open trials: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		if dir := filepath.Join(base, e.Name()); e.IsDir() && exists(filepath.Join(dir, ManifestFile)) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("open trials: %w: %s has no %s, no %s and no run directories", ErrNotTrials, path, TrialsFile, ManifestFile)
	}
	slices.SortStableFunc(dirs, func(a, b string) int { // by seed where names are seeds
		x, errX := strconv.ParseUint(filepath.Base(a), 10, 64)
		y, errY := strconv.ParseUint(filepath.Base(b), 10, 64)
		switch {
		case errX != nil || errY != nil:
			return strings.Compare(a, b)
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return judgeRuns(name, dirs)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func judgeRuns(name string, dirs []string) (*TrialSet, error) {
	trials := make([]*Trial, len(dirs))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, dir := range dirs {
		g.Go(func() error {
			r, err := Open(dir)
			if err != nil {
				return err
			}
			trials[i], err = TrialOf(r)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return NewTrialSet(name, trials), nil
}

func openTrialsFile(path, name string) (*TrialSet, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open trials: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	s, err := ReadTrials(f, path)
	if err != nil {
		return nil, err
	}
	s.Name = name
	return s, nil
}

// trialsHeader is the first line of trials.jsonl.
type trialsHeader struct {
	Schema int `json:"churnbed_trials"`
	*TrialSet
}

// maxTrialLine bounds a line of trials.jsonl.
const maxTrialLine = 256 << 20

// IsTrials reports whether a file that begins with head is in the form of
// trials.jsonl.
func IsTrials(head []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte(`{"churnbed_trials":`))
}

// ReadTrials reads trials.jsonl; name is used in errors. A malformed line is
// an error with its number, and nothing is returned.
func ReadTrials(r io.Reader, name string) (*TrialSet, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 1<<16), maxTrialLine)
	s := &TrialSet{}
	line := 0
	fail := func(err error) (*TrialSet, error) { return nil, fmt.Errorf("read trials: %s:%d: %w", name, line, err) }
	for sc.Scan() {
		line++
		b := bytes.TrimSpace(sc.Bytes())
		if line == 1 {
			if !IsTrials(b) {
				return fail(fmt.Errorf(`%w: want {"churnbed_trials": at the beginning of the header`, ErrNotTrials))
			}
			head := trialsHeader{TrialSet: s}
			if err := json.Unmarshal(b, &head); err != nil {
				return fail(err)
			}
			if head.Schema != TrialsSchema {
				return fail(fmt.Errorf("schema %d, this version reads %d", head.Schema, TrialsSchema))
			}
			continue
		}
		if len(b) == 0 {
			continue
		}
		t := &Trial{E2EMessages: Unknown(), H2HMessages: Unknown(), Bytes: Unknown(), Violations: Unknown(), MaxConcurrent: Unknown()}
		if err := json.Unmarshal(b, t); err != nil {
			return fail(err)
		}
		if err := t.check(); err != nil {
			return fail(err)
		}
		s.Trials = append(s.Trials, t)
	}
	if err := sc.Err(); err != nil {
		line++
		return fail(err)
	}
	if line == 0 {
		return fail(fmt.Errorf("%w: the file is empty", ErrNotTrials))
	}
	if len(s.Trials) == 0 {
		return nil, fmt.Errorf("read trials: %s: %w after the header", name, ErrNotTrials)
	}
	return s, nil
}

func (t *Trial) check() error {
	if t.Nodes < 0 || t.Nodes > core.MaxNodes || t.Issued < 0 || t.Served < 0 || t.Served > t.Issued || t.Requesters < 0 {
		return fmt.Errorf("trial has %d nodes, %d requests issued and %d served", t.Nodes, t.Issued, t.Served)
	}
	for _, list := range [...][]float64{t.WaitsMS, t.ClientMS, t.SyncMS} {
		for _, v := range list {
			if !(v >= 0) {
				return fmt.Errorf("time %v ms: want 0 or more", v)
			}
		}
	}
	for _, n := range [...]Number{t.E2EMessages, t.H2HMessages, t.Bytes, t.Violations, t.MaxConcurrent} {
		if n.Known() && (n < 0 || math.IsInf(float64(n), 0)) {
			return fmt.Errorf("count %v: want 0 or more", float64(n))
		}
	}
	return nil
}

// WriteTrials writes the set in the form of trials.jsonl.
func WriteTrials(w io.Writer, s *TrialSet) error {
	tw, err := NewTrialWriter(w, s)
	if err != nil {
		return err
	}
	for _, t := range s.Trials {
		if err := tw.Write(t); err != nil {
			return err
		}
	}
	return nil
}

// TrialWriter writes trials.jsonl trial by trial. The caller serialises.
type TrialWriter struct{ enc *json.Encoder }

// NewTrialWriter writes the header of the set; its trials are not written.
func NewTrialWriter(w io.Writer, s *TrialSet) (*TrialWriter, error) {
	tw := &TrialWriter{json.NewEncoder(w)}
	if err := tw.enc.Encode(trialsHeader{TrialsSchema, s}); err != nil {
		return nil, fmt.Errorf("write trials: %w", err)
	}
	return tw, nil
}

// Write writes one trial.
func (w *TrialWriter) Write(t *Trial) error {
	if err := t.check(); err != nil {
		return fmt.Errorf("write trials: %w", err)
	}
	if err := w.enc.Encode(t); err != nil {
		return fmt.Errorf("write trials: %w", err)
	}
	return nil
}
