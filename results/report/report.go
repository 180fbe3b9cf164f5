// Package report makes one self-contained HTML page of one or several runs,
// and plots of them: the mesh with its holders over time, what each node did
// when, waits, messages, membership, churn, fidelity, the scenario, and how to
// run it again. It starts nothing and judges nothing; all it shows comes from
// run directories (package timeline).
//
// The page loads nothing: its script and style stand in it and its policy
// forbids everything else. What comes from run directories is data or escaped
// text, never markup or code.
//
// Nothing here keeps state; callers may work side by side.
package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"churnbed/results"
	"churnbed/results/timeline"
	"churnbed/topologies"
)

//go:embed assets/report.js
var script string

//go:embed assets/report.css
var style string

//go:embed assets/report.html
var page string

// Run is a run to be reported on.
type Run struct {
	Name     string // as the page calls it: its directory
	Timeline *timeline.Timeline
	// Topology places the nodes. Without it they are placed by their links.
	Topology *topologies.Topology
}

// Open reads the run directory dir for a report. The caller may know its
// topology better than links.csv does; topology may be nil.
func Open(dir string, topology *topologies.Topology) (*Run, error) {
	t, err := timeline.Read(dir)
	if err != nil {
		return nil, err
	}
	r := &Run{Name: filepath.Base(filepath.Clean(dir)), Timeline: t, Topology: topology}
	if r.Topology == nil || len(r.Topology.Nodes) != len(t.Nodes) {
		if r.Topology, err = placed(t); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// placed lays the mesh out by its links alone.
func placed(t *timeline.Timeline) (*topologies.Topology, error) {
	var links []topologies.Link
	for _, l := range t.Links {
		if l.Dir == "ab" && l.A < l.B {
			links = append(links, topologies.Link{A: l.A, B: l.B})
		}
	}
	top, err := topologies.Unplaced("mesh", len(t.Nodes), links)
	if err != nil {
		return nil, fmt.Errorf("place nodes by %s: %w", results.LinksFile, err)
	}
	return top, nil
}

// document is what the template sees.
type document struct {
	Title   string
	Policy  string
	Style   template.CSS
	Script  template.JS
	Data    template.JS
	Groups  []group
	Runs    []runText
	Several bool
	Section bool // a run has requests for the critical section
}

// group is a part of the summary.
type group struct {
	Name string
	Rows []row
}

// row is one line of the summary: a name and a value a run.
type row struct {
	Name   string
	Values []value
}

type value struct{ Text, Class string }

// runText is what a run's section says in words.
type runText struct {
	Index             int
	Name              string
	Verdict, Class    string
	What              string
	Entries           int // critical sections
	Violations        []overlapText
	Zombies           []overlapText
	More, MoreZombies int
	LogErrors         []string
	Slices            []sliceText
	Scenario          string
	Commands          []command
	Started           string
	Groups            *groupsText // nil: no k-groups
}

type overlapText struct {
	FirstNode, SecondNode string
	First, Second         string
	FromMS, ToMS          string
	From                  int64 // µs
	Length                string
}

type sliceText struct{ To, Verdict, Class, P50, P99, CPU, Reason string }

type command struct{ What, Line string }

// Render writes the page.
func Render(w io.Writer, runs []*Run) error {
	if len(runs) == 0 {
		return errors.New("render report: no runs")
	}
	t, err := template.New("report").Parse(page)
	if err != nil {
		return fmt.Errorf("render report: %w", err)
	}
	data := make([]*runData, len(runs))
	for i, r := range runs {
		data[i] = r.data()
	}
	// encoding/json escapes <, > and &, so that nothing in it ends the element.
	blob, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("render report: %w", err)
	}
	names := make([]string, len(runs))
	for i, r := range runs {
		names[i] = r.Name
	}
	d := document{
		Title: strings.Join(names, ", "), Style: template.CSS(style), Script: template.JS(script), Data: template.JS(blob),
		Policy:  "default-src 'none'; script-src " + source(script) + "; style-src " + source(style) + "; img-src data: blob:; base-uri 'none'; form-action 'none'",
		Groups:  summaryGroups(runs),
		Several: len(runs) > 1,
		Section: anySection(runs),
	}
	for i, r := range runs {
		text, err := r.text(i)
		if err != nil {
			return fmt.Errorf("render report: %w", err)
		}
		d.Runs = append(d.Runs, text)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, &d); err != nil {
		return fmt.Errorf("render report: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// source names inline code by its hash for the page's policy.
func source(code string) string {
	sum := sha256.Sum256([]byte(code))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// scenario returns the resolved scenario's text, "" where there is none.
func (r *Run) scenario() (string, error) {
	b, err := os.ReadFile(r.Timeline.Run.Path(results.ScenarioFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read scenario: %w", err)
	}
	return string(b), nil
}
