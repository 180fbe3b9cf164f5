// Package simulate runs a resolved scenario in the simulator and leaves the
// same run directory as an emulated run. It is the simulator's shell: files,
// several trials side by side; the simulation itself is emulator/sim.
package simulate

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"churnbed/emulator/scenario"
	"churnbed/emulator/sim"
	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/stack"
	"churnbed/node/wire"
	"churnbed/results"
)

// logBuffer is the write buffer of one node's log.
const logBuffer = 16 << 10

// Run simulates sc into dir, which must not exist, and fills in
// m's timing and digest. When ctx ends, the run ends early and the manifest
// says so; Run then returns ctx's error.
func Run(ctx context.Context, sc *scenario.Scenario, dir string, m *results.Manifest) (*results.Run, error) {
	m.Engine, m.Timing = results.Simulated, results.Timing{RunMS: -1}
	m.SetUpAtStart(sc.Up)
	run, err := results.Create(dir, m)
	if err != nil {
		return nil, err
	}
	if err := run.WriteFile(results.ScenarioFile, sc.YAML()); err != nil {
		return run, err
	}
	started := time.Now()
	logs := newLogs(run, len(sc.Topology.Nodes))
	w, err := World(sc, logs.write)
	if err != nil {
		return run, errors.Join(err, logs.close())
	}
	err = w.Run(func() bool { return ctx.Err() != nil })
	logs.write(-1, slice(w))
	err = errors.Join(err, ctx.Err(), logs.close())
	m.Timing.RunMS = float64(time.Since(started).Microseconds()) / 1e3
	m.Interrupted = ctx.Err() != nil
	if err == nil {
		m.LogDigest, err = digest(run, len(sc.Topology.Nodes))
	}
	return run, errors.Join(err, run.WriteLinks(linkRows(sc, w)), run.WriteManifest(m))
}

// World prepares the simulation of a scenario; log receives every line.
func World(sc *scenario.Scenario, log func(core.NodeID, *eventlog.Event)) (*sim.World, error) {
	imitate := sim.Imitate{LiveSet: sc.Spec.ImitateLiveSet, Departed: sc.Spec.ImitateDeparted}
	if sc.Transport.Mode == stack.SourceFixed {
		imitate.Resend = sc.Transport.RTO
	}
	if sc.Spec.ImitateLocalHop {
		imitate.LocalHop = &sc.Link
	}
	var smart []core.NodeID
	if sc.Group != nil {
		smart = sc.Group.Smart
	}
	return sim.New(sim.Config{
		Smart: smart, Topology: sc.Topology, Params: sc.LinkParams, Metric: sc.Metric, Convergence: sc.Convergence, Seed: sc.Seed,
		NodeConfig: sc.NodeConfig, Oracle: sc.Membership.Service == "oracle", Up: sc.Up, Arrivals: sc.Arrivals,
		Faults: sc.Faults, Warmup: sc.Warmup, Duration: sc.Duration, Drain: sc.Drain, Log: log, Imitate: imitate,
		Down: sc.Down, Detection: sc.DetectionDelay, LinkLocal: sc.LinkLocal(),
	})
}

// slice reports the hops of the whole run as one slice, as the emulator
// reports what its fabric counted.
func slice(w *sim.World) *eventlog.Event {
	s := &w.Stats
	h := &eventlog.Host{Dropped: s.Dropped}
	for class, n := range s.Hops {
		h.Frames += n
		switch wire.Class(class) {
		case wire.ClassMutex:
			h.Mutex += n
		case wire.ClassMembership:
			h.Membership += n
		case wire.ClassAck, wire.ClassProbe, wire.ClassGroup:
			h.Other += n
		}
	}
	for k := range s.Links {
		h.ExpectDrops += w.ExpectedDrops(k)
	}
	return &eventlog.Event{T: int64(w.Now()), Kind: eventlog.Slice, Node: -1, Host: h}
}

func linkRows(sc *scenario.Scenario, w *sim.World) []results.LinkRow {
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	rows := make([]results.LinkRow, 0, len(w.Stats.Links))
	for k := range w.Stats.Links {
		l := sc.Topology.Links[k/2]
		p, ba := sc.LinkParams(k / 2)
		dir := "ab"
		if k%2 == 1 {
			p, dir = ba, "ba"
		}
		s := &w.Stats.Links[k]
		rows = append(rows, results.LinkRow{
			Link: fmt.Sprintf("%d-%d", l.A, l.B), A: l.A, B: l.B, Dir: dir,
			DelayMS: ms(p.Delay), JitterMS: ms(p.Jitter), Loss: p.Loss, Rate: p.Rate,
			Frames: s.Frames, Bytes: s.Bytes, Dropped: s.Dropped, ExpectedDrops: w.ExpectedDrops(k),
		})
	}
	return rows
}

// logs writes the event logs of a run. Nodes share no file; the controller's
// is that of node -1, kept at index 0.
type logs struct {
	run     *results.Run
	writers []*logFile
	err     error
}

type logFile struct {
	f *os.File
	b *bufio.Writer
	w *eventlog.Writer
}

func newLogs(run *results.Run, nodes int) *logs {
	return &logs{run: run, writers: make([]*logFile, nodes+1)}
}

func (l *logs) write(node core.NodeID, e *eventlog.Event) {
	if l.err != nil {
		return
	}
	w := l.writers[node+1]
	if w == nil {
		if w, l.err = l.open(node); l.err != nil {
			return
		}
		l.writers[node+1] = w
	}
	l.err = w.w.Write(e)
}

func (l *logs) open(node core.NodeID) (*logFile, error) {
	path := l.run.Path(results.ControllerFile)
	if node >= 0 {
		path = l.run.NodeLog(node)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	b := bufio.NewWriterSize(f, logBuffer)
	return &logFile{f, b, eventlog.NewWriter(b)}, nil
}

func (l *logs) close() error {
	errs := []error{l.err}
	for _, w := range l.writers {
		if w != nil {
			errs = append(errs, w.b.Flush(), w.f.Close())
		}
	}
	return errors.Join(errs...)
}

// digest is the SHA-256 over the event logs, the controller's first, then the
// nodes' by id: the same for the same scenario on every machine.
func digest(run *results.Run, nodes int) (string, error) {
	h := sha256.New()
	paths := []string{run.Path(results.ControllerFile)}
	for i := range nodes {
		paths = append(paths, run.NodeLog(core.NodeID(i)))
	}
	for _, p := range paths {
		f, err := os.Open(p)
		if errors.Is(err, os.ErrNotExist) {
			continue // a node that never ran
		}
		if err != nil {
			return "", fmt.Errorf("digest logs: %w", err)
		}
		_, err = io.Copy(h, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("digest logs: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Seeds lists the seeds of n trials: seed, seed+1, ...
func Seeds(seed uint64, n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = seed + uint64(i)
	}
	return slices.Clip(list)
}
