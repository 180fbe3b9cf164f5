package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"churnbed/emulator/fabric"
	"churnbed/emulator/kernel"
	"churnbed/emulator/sandbox"
	"churnbed/emulator/scenario"
	"churnbed/results"
)

// hostState is what this host offers to runs.
type hostState struct {
	rootless bool
	caps     []kernel.Capability
	limits   kernel.Limits
	groups   groupLimits
}

// probeHost tries the host out; nothing of it is left.
func probeHost(ctx context.Context) (*hostState, error) {
	h := &hostState{rootless: sandbox.Rootless(), caps: kernel.Probe(ctx)}
	var err error
	if h.limits, err = kernel.ReadLimits(); err != nil {
		return nil, err
	}
	h.groups = readGroupLimits()
	return h, nil
}

// needed are the capabilities without which there is no run at all.
var needed = []string{
	kernel.CapNamespaces, kernel.CapNetAdmin, kernel.CapVeth, kernel.CapSysctl,
}

// usable returns why no run is possible on this host, nil where one is.
func (h *hostState) usable() error {
	var errs []error
	for _, name := range needed {
		errs = append(errs, kernel.Find(h.caps, name).Err())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	packet, netem := kernel.Find(h.caps, kernel.CapPacket), kernel.Find(h.caps, kernel.CapNetem)
	if !packet.OK && !netem.OK {
		return errors.Join(packet.Err(), netem.Err())
	}
	return nil
}

// choose decides the fabric and says why. want is auto or a kind;
// needsRelay says what of the scenario only the relay can do, "" for nothing.
func (h *hostState) choose(want, needsRelay string) (kind, why string, err error) {
	packet, netem := kernel.Find(h.caps, kernel.CapPacket), kernel.Find(h.caps, kernel.CapNetem)
	switch want {
	case fabric.KindNetem:
		if needsRelay != "" {
			return "", "", usageError(fmt.Errorf("fabric netem: %s needs the relay: use fabric auto or relay", needsRelay))
		}
		if err := netem.Err(); err != nil {
			return "", "", hostError(fmt.Errorf("fabric netem: %w", err))
		}
		return fabric.KindNetem, "asked for", nil
	case fabric.KindRelay:
		kind, why = fabric.KindRelay, "asked for"
	default:
		switch {
		case needsRelay != "":
			kind, why = fabric.KindRelay, needsRelay+" needs it"
		case netem.OK:
			return fabric.KindNetem, "the kernel has sch_netem", nil
		default:
			kind, why = fabric.KindRelay, "this kernel has no sch_netem"
		}
	}
	if err := packet.Err(); err != nil {
		return "", "", hostError(fmt.Errorf("fabric relay (%s): %w", why, err))
	}
	return kind, why, nil
}

// prepare decides the fabric of a scenario and refuses what the host cannot
// carry, before anything is created.
func (h *hostState) prepare(sc *scenario.Scenario) (kind, why string, err error) {
	if err := h.usable(); err != nil {
		return "", "", hostError(err)
	}
	if kind, why, err = h.choose(sc.Fabric, sc.NeedsRelay()); err != nil {
		return "", "", err
	}
	if err := sc.Preflight(h.preflightLimits(kind)); err != nil {
		return "", "", hostError(err)
	}
	return kind, why, nil
}

// preflightLimits are the host's limits as the scenario compares them.
func (h *hostState) preflightLimits(kind string) scenario.Limits {
	l := &h.limits
	out := scenario.Limits{Fabric: kind, NoFile: l.OpenFilesMax, NetNamespaces: l.NetNamespaces, Memory: l.MemoryAvailable}
	least := func(to *uint64, n uint64) {
		if n > 0 && (*to == 0 || n < *to) {
			*to = n
		}
	}
	tasks := h.groups.tasksOfHost
	for _, limit := range []uint64{l.PidMax, l.ThreadsMax} {
		if limit > 0 {
			least(&out.Tasks, max(limit, tasks+1)-tasks)
		}
	}
	if h.rootless {
		if mine := h.groups.tasksOfUser; l.Processes < 1<<62 { // not RLIM_INFINITY
			least(&out.Tasks, max(l.Processes, mine+1)-mine)
		}
	}
	least(&out.Tasks, h.groups.tasksLeft)
	least(&out.Memory, h.groups.memoryLeft)
	return out
}

// fidelityParameters are what the run's fidelity is measured against.
func fidelityParameters(sc *scenario.Scenario) results.FidelityParameters {
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	p := results.FidelityParameters{ProbeEveryMS: ms(sc.ProbeEvery), SliceMS: ms(sc.Slice)}
	delays := make([]time.Duration, 0, 2*len(sc.Topology.Links))
	loss := 0.0
	for i := range sc.Topology.Links {
		ab, ba := sc.LinkParams(i)
		delays = append(delays, ab.Delay, ba.Delay)
		loss += ab.MeanLoss() + ba.MeanLoss()
	}
	if len(delays) > 0 {
		slices.Sort(delays)
		p.LinkDelayMS = ms(delays[len(delays)/2])
		p.LossConfigured = loss / float64(len(delays))
	}
	return p
}
