package main

import (
	"slices"
	"time"

	"churnbed/emulator/fabric"
	"churnbed/emulator/scenario"
	"churnbed/results"
)

func chooseFabric(want string) (string, string, error) { return fabric.KindRelay, "", nil }

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
