package results

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// plant writes run directories with made-up histories. Instants are ms.
type plant struct {
	t    testing.TB
	run  *Run
	logs map[core.NodeID][]byte
	ts   uint64
	inc  map[core.NodeID]core.Incarnation
	no   int
}

type buffer struct{ b *[]byte }

func (w buffer) Write(b []byte) (int, error) { *w.b = append(*w.b, b...); return len(b), nil }

func newPlant(t testing.TB, nodes int) *plant {
	t.Helper()
	r, err := Create(filepath.Join(t.TempDir(), "run"), &Manifest{
		Engine: Emulated, Fabric: "relay", TimeScale: 1, Nodes: nodes, Links: nodes, Seed: 7,
		Started:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Fidelity: FidelityParameters{LinkDelayMS: 5, LossConfigured: .05},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &plant{t: t, run: r, logs: map[core.NodeID][]byte{}, inc: map[core.NodeID]core.Incarnation{}}
	p.control(0, eventlog.Event{Kind: eventlog.Epoch})
	for i := range nodes {
		p.start(0, core.NodeID(i))
		p.log(0, core.NodeID(i), eventlog.Event{Kind: eventlog.Joined, Size: nodes})
	}
	return p
}

func (p *plant) append(id core.NodeID, e *eventlog.Event) {
	p.t.Helper()
	b := p.logs[id]
	if err := eventlog.NewWriter(buffer{&b}).Write(e); err != nil {
		p.t.Fatal(err)
	}
	p.logs[id] = b
}

func (p *plant) log(ms float64, id core.NodeID, e eventlog.Event) {
	p.t.Helper()
	e.T, e.Node, e.Inc = int64(ms*1e6), int32(id), uint32(p.inc[id])
	p.append(id, &e)
}

func (p *plant) control(ms float64, e eventlog.Event) {
	p.t.Helper()
	e.T = int64(ms * 1e6)
	if e.Kind == eventlog.Epoch || e.Kind == eventlog.End || e.Kind == eventlog.Slice {
		e.Node = -1
	}
	p.append(core.None, &e)
}

func (p *plant) start(ms float64, id core.NodeID) {
	p.t.Helper()
	p.inc[id] = (p.inc[id]/core.IncarnationStep + 1) * core.IncarnationStep
	p.log(ms, id, eventlog.Event{Kind: eventlog.Start, PID: 100})
}

func (p *plant) kill(ms float64, id core.NodeID, verb string) {
	p.t.Helper()
	p.control(ms, eventlog.Event{Kind: eventlog.Kill, Node: int32(id), Verb: verb, After: int64(ms*1e6) + 1000})
}

func (p *plant) restart(ms float64, id core.NodeID) {
	p.t.Helper()
	p.start(ms, id)
	p.control(ms, eventlog.Event{Kind: eventlog.Restart, Node: int32(id), Inc: uint32(p.inc[id])})
}

// asked is one planted request.
type asked struct {
	id  core.NodeID
	req string
	no  int
}

func (p *plant) request(ms float64, id core.NodeID) asked {
	p.t.Helper()
	p.ts++
	p.no++
	a := asked{id, core.RequestID{Node: id, Inc: p.inc[id], TS: p.ts}.String(), p.no}
	p.log(ms, id, eventlog.Event{Kind: eventlog.Request, Req: a.req, No: a.no})
	return a
}

func (p *plant) enter(ms float64, a asked, ids ...core.NodeID) {
	p.t.Helper()
	p.log(ms, a.id, eventlog.Event{Kind: eventlog.Enter, Req: a.req, No: a.no, Asked: eventlog.FormatRanges(ids), Grants: len(ids) + 1})
}

func (p *plant) exit(ms float64, a asked) {
	p.t.Helper()
	p.log(ms, a.id, eventlog.Event{Kind: eventlog.Exit, Req: a.req, No: a.no})
}

// section plants a whole request: asked and entered at from, left at to.
func (p *plant) section(from, to float64, id core.NodeID) asked {
	p.t.Helper()
	a := p.request(from, id)
	p.enter(from, a)
	p.exit(to, a)
	return a
}

// end stops all nodes and ends the run.
func (p *plant) end(ms float64) *Run {
	p.t.Helper()
	for i := range p.run.Manifest.Nodes {
		p.log(ms, core.NodeID(i), eventlog.Event{Kind: eventlog.Stop})
	}
	p.control(ms, eventlog.Event{Kind: eventlog.End})
	return p.open()
}

// open writes the logs and opens the run.
func (p *plant) open() *Run {
	p.t.Helper()
	for id, b := range p.logs {
		path := p.run.Path(ControllerFile)
		if id != core.None {
			path = p.run.NodeLog(id)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	r, err := Open(p.run.Dir)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func judge(t testing.TB, r *Run) (*Summary, *Verdict) {
	t.Helper()
	s, v, err := Judge(r)
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}
