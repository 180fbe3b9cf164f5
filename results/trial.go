package results

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Trial is one run reduced to what comparisons need: raw values rather than
// their summary, so that distributions can be compared. A run directory, a
// line of trials.jsonl and one run of a foreign simulator all load into it.
// Times are milliseconds of scenario time. A Number that was not measured is
// Unknown; a list that was not measured is nil.
type Trial struct {
	Seed uint64 `json:"seed"`           // 0 where there is none
	From string `json:"from,omitempty"` // where it came from
	// Parameters are those of this trial alone, by the keys of a scenario
	// file; see TrialSet.Parameter.
	Parameters map[string]string `json:"parameters,omitempty"`

	Nodes      int `json:"nodes"`
	Requesters int `json:"requesters"` // most requests under way at once, 0 = unknown
	Issued     int `json:"issued"`
	Served     int `json:"served"`

	WaitsMS  []float64 `json:"waits_ms"`            // request to enter, one a served request
	ClientMS []float64 `json:"client_ms,omitempty"` // waits without contention
	SyncMS   []float64 `json:"sync_ms,omitempty"`   // exit to the enter of the next already waiting
	// ByNode are the waits that count for fairness, of a run of ours; they are
	// not stored.
	ByNode []NodeWaits `json:"-"`

	E2EMessages Number `json:"e2e_messages"` // of the algorithm, end to end
	H2HMessages Number `json:"h2h_messages"` // of the algorithm, hop to hop
	Bytes       Number `json:"bytes"`        // of the algorithm, end to end

	Violations    Number `json:"violations"` // pairs
	MaxConcurrent Number `json:"max_concurrent"`

	// Fidelity is the verdict on an emulated run, "" where there is none;
	// the times of an Unfaithful one are no result.
	Fidelity       string `json:"fidelity,omitempty"`
	FidelityReason string `json:"fidelity_reason,omitempty"`

	Digest string `json:"digest,omitempty"` // of the logs, where told
	// Figures are what else the source tells of the run, under its names.
	Figures map[string]float64 `json:"figures,omitempty"`
	Summary *Summary           `json:"summary,omitempty"` // of a run of ours
}

// Unfit reports whether the times of the trial are no result.
func (t *Trial) Unfit() bool { return t.Fidelity == Unfaithful }

// SetRequests fills in counts and times from requests that were observed
// otherwise than by our logs; Asked, Enter, End, Entered, Node and Ending are
// used. Violations are pairs of entries of different nodes that overlap; a
// section without EndExited has no known end and is not judged.
func (t *Trial) SetRequests(requests []*Request) {
	d := delaysOf(requests)
	t.WaitsMS, t.ClientMS, t.SyncMS, t.Requesters = d.wait, d.client, d.sync, d.requesters
	t.Issued, t.Served = len(requests), len(d.wait)
	if t.WaitsMS == nil {
		t.WaitsMS = []float64{}
	}
	t.Violations, t.MaxConcurrent = Unknown(), Unknown()
	var held []*Request
	for _, q := range requests {
		if q.Entered && q.Ending == EndExited {
			held = append(held, q)
		}
	}
	if len(held) == 0 {
		return
	}
	slices.SortStableFunc(held, func(a, b *Request) int { return cmp.Compare(a.Enter, b.Enter) })
	var open []*Request
	pairs, most := 0, 0
	for _, q := range held {
		open = slices.DeleteFunc(open, func(o *Request) bool { return o.End <= q.Enter })
		if q.Enter < q.End {
			for _, o := range open {
				if o.Node != q.Node {
					pairs++
				}
			}
			open = append(open, q)
		}
		most = max(most, len(open))
	}
	t.Violations, t.MaxConcurrent = Number(pairs), Number(most)
}

// TrialOf judges a run and reduces it to a trial.
func TrialOf(r *Run) (*Trial, error) {
	h, v, err := judged(r)
	if err != nil {
		return nil, err
	}
	s, d := h.summary(v), h.delays()
	t := &Trial{
		Seed: r.Manifest.Seed, From: r.Dir, Nodes: r.Manifest.Nodes, Requesters: d.requesters, Issued: v.Issued, Served: v.Served,
		WaitsMS: d.wait, ClientMS: d.client, SyncMS: d.sync, ByNode: waitsByNode(h.requests, h.settled()),
		E2EMessages: Number(s.Messages.E2EMutex), H2HMessages: s.Messages.H2HMutex, Bytes: Number(s.Messages.BytesMutex),
		Violations: Number(s.Safety.Violations), MaxConcurrent: Number(s.Safety.MaxConcurrent),
		Fidelity: s.Fidelity.Verdict, FidelityReason: s.Fidelity.Reason, Summary: s,
	}
	if t.WaitsMS == nil {
		t.WaitsMS = []float64{}
	}
	if t.Parameters, err = r.parameters(); err != nil {
		return nil, err
	}
	return t, nil
}

// unshared are scenario keys that tell a run from another of the same trial
// set, or where it is kept, and so are no difference between two sets.
var unshared = map[string]bool{"seed": true, "name": true, "out": true, "trials": true}

// parameters reads scenario.yaml, and what the manifest knows better. Files
// are named without their folders.
func (r *Run) parameters() (map[string]string, error) {
	p := map[string]string{}
	path := r.Path(ScenarioFile)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	var doc map[string]yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("read scenario %s: %w", path, err)
	}
	for key, n := range doc {
		if unshared[key] {
			continue
		}
		switch n.Kind {
		case yaml.ScalarNode:
			p[key] = n.Value
		case yaml.SequenceNode:
			items := make([]string, len(n.Content))
			for i, c := range n.Content {
				items[i] = c.Value
			}
			p[key] = strings.Join(items, "; ")
		case yaml.DocumentNode, yaml.MappingNode, yaml.AliasNode:
			return nil, fmt.Errorf("read scenario %s:%d: key %s is neither a value nor a list", path, n.Line, key)
		}
	}
	for _, key := range []string{"topology-file", "churn"} {
		if v := p[key]; v != "" {
			p[key] = filepath.Base(v)
		}
	}
	m := &r.Manifest
	p["engine"], p["fabric"] = m.Engine, m.Fabric
	p["nodes"] = strconv.Itoa(m.Nodes)
	p["time-scale"] = strconv.FormatFloat(m.TimeScale, 'g', -1, 64)
	for key, v := range map[string]string{"algorithm": m.Algorithm, "membership": m.Membership} {
		if p[key] == "" && v != "" {
			p[key] = v
		}
	}
	return p, nil
}

// SameValue reports whether two values of a parameter mean the same: as
// durations (0.2s, 200ms), as numbers (0, 0.0), otherwise as text.
func SameValue(a, b string) bool {
	if a == b {
		return true
	}
	if x, err := strconv.ParseFloat(a, 64); err == nil {
		y, err := strconv.ParseFloat(b, 64)
		return err == nil && x == y
	}
	x, errX := time.ParseDuration(a)
	y, errY := time.ParseDuration(b)
	return errX == nil && errY == nil && x == y
}
