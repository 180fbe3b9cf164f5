// Package results holds what a run leaves behind and what can be said about
// it afterwards: the run directory, the safety and liveness verdict, the
// metrics of ALGORITHMS 8 and the fidelity verdict. Judgement is offline: it
// reads the logs alone, so that an old run can be judged again, and it serves
// emulated and simulated runs alike.
//
// It starts nothing, and knows neither the controller nor the simulator, which
// both write run directories through it:
//
//	scenario.yaml     the resolved scenario
//	manifest.json     Manifest
//	nodes/<id>.jsonl  one event log a node, all its lives (node/eventlog)
//	controller.jsonl  faults, kills, restarts, slices
//	links.csv         LinkRow
//	captures/<id>.pcapng  frames at a node, where the run captured them
//	summary.json      Summary
//
// Nothing here is safe for concurrent use on one Run.
package results

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Schema is the version of manifest.json and summary.json.
const Schema = 1

// Engines of a run.
const (
	Emulated  = "emulated"
	Simulated = "simulated"
)

// Names inside a run directory.
const (
	ScenarioFile   = "scenario.yaml"
	ManifestFile   = "manifest.json"
	ControllerFile = "controller.jsonl"
	LinksFile      = "links.csv"
	SummaryFile    = "summary.json"
	NodesDir       = "nodes"
	CapturesDir    = "captures"
)

// ErrNotARun is wrapped by the errors of Open about directories that hold no
// run of this tool.
var ErrNotARun = errors.New("not a run directory")

// Manifest says what was run, by what, where. The host's name is left out on
// purpose: run directories are passed on.
type Manifest struct {
	Schema      int      `json:"schema"`
	Engine      string   `json:"engine"` // Emulated or Simulated
	Version     string   `json:"churnbed_version"`
	GoVersion   string   `json:"go_version"`
	Kernel      string   `json:"kernel"`
	Cores       int      `json:"cores"`
	MemoryBytes int64    `json:"memory_bytes"`
	Seed        uint64   `json:"seed"`
	Command     []string `json:"command"`
	Fabric      string   `json:"fabric"` // netem, relay; "" where simulated
	FabricWhy   string   `json:"fabric_why,omitempty"`
	TimeScale   float64  `json:"time_scale"`
	Nodes       int      `json:"nodes"`
	Links       int      `json:"links"`
	Algorithm   string   `json:"algorithm,omitempty"`
	Membership  string   `json:"membership,omitempty"`
	Holders     int      `json:"holders,omitempty"`   // how many may be in the critical section at once; 0 = 1
	SettleMS    float64  `json:"settle_ms,omitempty"` // fairness counts requests from so long after the epoch on, scenario time
	Arrivals    int      `json:"arrivals"`            // of the workload; 0 = not known beforehand (closed)
	// UpAtStart: nodes that run from the start, as ranges (0-7,9): a run that
	// has begun has a log of each. Empty: not told.
	UpAtStart string    `json:"up_at_start,omitempty"`
	Started   time.Time `json:"started"`
	Timing    Timing    `json:"timing"`
	// Interrupted: the user ended the run early.
	Interrupted bool `json:"interrupted,omitempty"`
	// LogDigest is the SHA-256 over the event logs of a simulated run.
	LogDigest string             `json:"log_digest,omitempty"`
	Fidelity  FidelityParameters `json:"fidelity"`
	// VirtualHost is set where the run took place in a virtual machine that
	// the tool started; Kernel, Cores, MemoryBytes and Timing are then its.
	VirtualHost *VirtualHost `json:"virtual_host,omitempty"`
}

// VirtualHost says what a run's virtual machine was.
type VirtualHost struct {
	QEMU      string  `json:"qemu"` // version
	Kernel    string  `json:"kernel"`
	Clock     string  `json:"clock"` // what an instant inside is
	MemoryMiB int     `json:"memory_mib"`
	GuestMS   float64 `json:"guest_ms"` // from boot to end, by its clock
	WallMS    float64 `json:"wall_ms"`  // that this took the host
	HostCores int     `json:"host_cores"`
}

// Timing is real time in milliseconds, -1 where a phase was not reached.
type Timing struct {
	BringUpMS  float64 `json:"bring_up_ms"`
	RunMS      float64 `json:"run_ms"`
	TeardownMS float64 `json:"teardown_ms"`
	// JoinCPUMS is the mean processor time of a node from exec to joined, over
	// all starts and restarts; 0 where it was not measured.
	JoinCPUMS float64 `json:"join_cpu_ms,omitempty"`
}

// FidelityParameters are what the fidelity of a run is measured against.
type FidelityParameters struct {
	// LinkDelayMS is the median configured one-way delay of the links,
	// scenario time.
	LinkDelayMS float64 `json:"link_delay_ms"`
	// LossConfigured is the mean configured loss of the links, 0..1.
	LossConfigured float64 `json:"loss_configured"`
	ProbeEveryMS   float64 `json:"probe_every_ms,omitempty"` // 0 = no probes
	SliceMS        float64 `json:"slice_ms,omitempty"`
}

// SetUpAtStart notes which nodes run from the start.
func (m *Manifest) SetUpAtStart(up []bool) {
	var ids []core.NodeID
	for i, u := range up {
		if u {
			ids = append(ids, core.NodeID(i))
		}
	}
	m.UpAtStart = eventlog.FormatRanges(ids)
}

// Run is an opened run directory.
type Run struct {
	Dir      string
	Manifest Manifest
	nodes    []core.NodeID // that have a log, ascending
}

// Create makes the run directory dir with its nodes folder and writes the
// manifest. dir must not exist, so that no earlier result is mixed with the
// new one, and of two runs that are given the same name only one begins: the
// other's error wraps fs.ErrExist.
func Create(dir string, m *Manifest) (*Run, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create run directory: %w; name one that does not exist", err)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, NodesDir), 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	r := &Run{Dir: dir, Manifest: *m}
	return r, r.WriteManifest(m)
}

// Open opens the run directory dir for judging.
func Open(dir string) (*Run, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("open run: %w: %s is a file; name the directory that the run wrote", ErrNotARun, dir)
	}
	path := filepath.Join(dir, ManifestFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if run, what := runBelow(dir); run != "" {
			return nil, fmt.Errorf("open run: %w: %s is a %s; name a run of it, such as %s", ErrNotARun, dir, what, run)
		}
		return nil, fmt.Errorf("open run: %w: %s has no %s", ErrNotARun, dir, ManifestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	r := &Run{Dir: dir}
	if err := json.Unmarshal(b, &r.Manifest); err != nil {
		return nil, fmt.Errorf("open run: %w: read %s: %w", ErrNotARun, path, err)
	}
	switch m := &r.Manifest; {
	case m.Schema != Schema:
		return nil, fmt.Errorf("open run: %w: %s has schema %d, this version reads %d", ErrNotARun, path, m.Schema, Schema)
	case m.Engine != Emulated && m.Engine != Simulated:
		return nil, fmt.Errorf("open run: %w: %s has engine %q, want %q or %q", ErrNotARun, path, m.Engine, Emulated, Simulated)
	case m.TimeScale <= 0 || m.Nodes < 1 || m.Nodes > core.MaxNodes:
		return nil, fmt.Errorf("open run: %w: %s has time_scale %v and %d nodes", ErrNotARun, path, m.TimeScale, m.Nodes)
	}
	if r.nodes, err = nodeLogs(dir, r.Manifest.Nodes); err != nil {
		return nil, err
	}
	return r, nil
}

// runBelow returns a run of a trial set or a sweep, and which of them dir is;
// "" where it is neither.
func runBelow(dir string) (run, what string) {
	first := func(dir string) string {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) == 0 {
			return ""
		}
		return filepath.Join(dir, entries[0].Name())
	}
	if run = first(filepath.Join(dir, TrialsDir)); run != "" {
		return run, "trial set"
	}
	if cell := first(filepath.Join(dir, CellsDir)); cell != "" {
		if run = first(filepath.Join(cell, TrialsDir)); run != "" {
			return run, "sweep"
		}
	}
	return "", ""
}

func nodeLogs(dir string, nodes int) ([]core.NodeID, error) {
	entries, err := os.ReadDir(filepath.Join(dir, NodesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open run: %w: %s has no folder %s", ErrNotARun, dir, NodesDir)
	}
	if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	var ids []core.NodeID
	for _, e := range entries {
		name, isLog := strings.CutSuffix(e.Name(), ".jsonl")
		if !isLog {
			continue
		}
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil || id >= uint64(nodes) || strconv.FormatUint(id, 10) != name {
			return nil, fmt.Errorf("open run: %s: want the id of a node, 0..%d", filepath.Join(dir, NodesDir, e.Name()), nodes-1)
		}
		ids = append(ids, core.NodeID(id))
	}
	slices.Sort(ids)
	return ids, nil
}

// Path returns the path of one of the run's own files.
func (r *Run) Path(name string) string { return filepath.Join(r.Dir, name) }

// NodeLog returns the path of a node's log.
func (r *Run) NodeLog(id core.NodeID) string {
	return filepath.Join(r.Dir, NodesDir, strconv.Itoa(int(id))+".jsonl")
}

// WriteManifest writes manifest.json, whole or not at all.
func (r *Run) WriteManifest(m *Manifest) error {
	m.Schema = Schema
	r.Manifest = *m
	return r.writeJSON(ManifestFile, m)
}

// WriteSummary writes summary.json, whole or not at all.
func (r *Run) WriteSummary(s *Summary) error { return r.writeJSON(SummaryFile, s) }

func (r *Run) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return r.WriteFile(name, append(b, '\n'))
}

// WriteFile writes one of the run's files, whole or not at all.
func (r *Run) WriteFile(name string, b []byte) error {
	if err := renameio.WriteFile(r.Path(name), b, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", r.Path(name), err)
	}
	return nil
}

// LinkRow is one direction of one link in links.csv. Delays are scenario
// time, Rate bits a second of scenario time (0 = unlimited).
type LinkRow struct {
	Link          string // "a-b", a < b
	A, B          core.NodeID
	Dir           string // "ab" or "ba"
	DelayMS       float64
	JitterMS      float64
	Loss          float64
	Rate          int64
	Frames        int64 // handed to the link
	Bytes         int64
	Dropped       int64
	ExpectedDrops float64
}

var linkColumns = []string{
	"link", "a", "b", "dir", "delay_ms", "jitter_ms", "loss", "rate_bps", "frames", "bytes", "dropped", "expected_drops",
}

// WriteLinks writes links.csv, whole or not at all.
func (r *Run) WriteLinks(rows []LinkRow) error {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(linkColumns) // a strings.Builder takes everything
	float := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	whole := func(v int64) string { return strconv.FormatInt(v, 10) }
	for i := range rows {
		l := &rows[i]
		_ = w.Write([]string{
			l.Link, whole(int64(l.A)), whole(int64(l.B)), l.Dir, float(l.DelayMS), float(l.JitterMS), float(l.Loss),
			whole(l.Rate), whole(l.Frames), whole(l.Bytes), whole(l.Dropped), float(l.ExpectedDrops),
		})
	}
	w.Flush()
	return r.WriteFile(LinksFile, []byte(b.String()))
}

// ReadLinks hands the rows of links.csv to visit, one by one. A run without
// the file has no rows.
func (r *Run) ReadLinks(visit func(LinkRow) error) error {
	f, err := os.Open(r.Path(LinksFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read links: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	return parseLinks(r.Path(LinksFile), f, visit)
}

func parseLinks(name string, f io.Reader, visit func(LinkRow) error) error {
	c := csv.NewReader(f)
	c.FieldsPerRecord = len(linkColumns)
	c.ReuseRecord = true
	head, err := c.Read()
	if err != nil {
		return fmt.Errorf("read links: %s: %w", name, err)
	}
	if !slices.Equal(head, linkColumns) {
		return fmt.Errorf("read links: %s:1: columns %s, want %s", name, strings.Join(head, ","), strings.Join(linkColumns, ","))
	}
	for {
		rec, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read links: %s: %w", name, err)
		}
		var p fields
		row := LinkRow{
			Link: strings.Clone(rec[0]), A: core.NodeID(p.whole(rec[1])), B: core.NodeID(p.whole(rec[2])), Dir: strings.Clone(rec[3]),
			DelayMS: p.float(rec[4]), JitterMS: p.float(rec[5]), Loss: p.float(rec[6]), Rate: p.whole(rec[7]),
			Frames: p.whole(rec[8]), Bytes: p.whole(rec[9]), Dropped: p.whole(rec[10]), ExpectedDrops: p.float(rec[11]),
		}
		if p.err != nil {
			line, _ := c.FieldPos(0)
			return fmt.Errorf("read links: %s:%d: %w", name, line, p.err)
		}
		if err := visit(row); err != nil {
			return err
		}
	}
}

// fields parses numbers; the first error sticks.
type fields struct{ err error }

func (p *fields) whole(s string) int64 {
	v, err := strconv.ParseInt(s, 10, 64)
	p.err = errors.Join(p.err, err)
	return v
}

func (p *fields) float(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	p.err = errors.Join(p.err, err)
	return v
}
