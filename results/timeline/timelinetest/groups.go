package timelinetest

import (
	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// groups plants a group of devices (Plan.Groups): node 1 leads group 0 in
// epoch 1 and runs routine 0, hands over to node 2 in epoch 2, which grants a
// lock and is deposed by node 3 before it tells; node 3 finds the grant, runs
// the routine, and misses device 6 for a second.
func groups(add func(id core.NodeID, t int64, e eventlog.Event), inc []uint32) {
	const milli = int64(1e6)
	begin := int64(Begin)
	line := func(at int64, id core.NodeID, kind eventlog.Kind, state string, k eventlog.Group) {
		if kind == eventlog.KGroup && k.Members == "" {
			k.Members = map[uint64]string{1: "1 2 3", 2: "2 3 5"}[k.Epoch]
		}
		add(id, begin+at*milli, eventlog.Event{Kind: kind, Inc: inc[id], State: state, KG: &k})
	}
	group := func(at int64, id core.NodeID, state string, epoch, term uint64, digest, locks string, took int64) {
		line(at, id, eventlog.KGroup, state, eventlog.Group{Epoch: epoch, Term: term, Digest: digest, Locks: locks, NS: took * milli})
	}
	routine := func(at int64, id core.NodeID, state string, epoch, term, run uint64, asked int64) {
		line(at, id, eventlog.Routine, state, eventlog.Group{Epoch: epoch, Term: term, Device: 4, Ticket: run << eventlog.AttemptBits, Since: begin + asked*milli})
	}
	device := func(at int64, id core.NodeID, kind eventlog.Kind, state string, epoch, term, run uint64, took int64) {
		line(at, id, kind, state, eventlog.Group{Epoch: epoch, Term: term, Device: 4, Ticket: run << eventlog.AttemptBits, NS: took * milli})
	}

	group(10, 1, "elected", 1, 1, "", "", 5)
	group(12, 1, "active", 1, 1, "00", "", 2)
	routine(100, 1, "TRIGGERED", 1, 1, 1, 100)
	routine(104, 1, "ACQUIRING_LOCKS", 1, 1, 1, 100)
	device(105, 1, eventlog.Lock, "request", 1, 1, 1, 0)
	device(108, 1, eventlog.Lock, "grant", 1, 1, 1, 3)
	routine(110, 1, "EXECUTING", 1, 1, 1, 100)
	device(112, 4, eventlog.Command, "start", 1, 1, 1, 0)
	device(212, 4, eventlog.Command, "done", 1, 1, 1, 0)
	routine(220, 1, "RELEASING_LOCKS", 1, 1, 1, 100)
	device(224, 1, eventlog.Lock, "release", 1, 1, 1, 3)
	routine(230, 1, "NOT_TRIGGERED", 1, 1, 1, 100)

	group(1000, 1, "frozen", 1, 1, "aa", "", 0)
	group(1004, 1, "select", 2, 1, "", "", 0)
	group(1010, 2, "elected", 2, 1, "", "", 4)
	group(1010, 2, "elect", 2, 1, "", "", 0)
	group(1015, 2, "transfer", 2, 1, "aa", "", 5)
	group(1018, 2, "replicate", 2, 1, "aa", "", 3)
	group(1020, 1, "decommission", 2, 1, "", "", 2)
	group(1030, 2, "active", 2, 1, "aa", "", 2)
	group(1040, 1, "retire", 2, 1, "", "", 0)
	group(1050, 1, "retired", 1, 1, "", "", 0)

	routine(1500, 2, "TRIGGERED", 2, 1, 2, 1500)
	routine(1504, 2, "ACQUIRING_LOCKS", 2, 1, 2, 1500)
	device(1505, 2, eventlog.Lock, "request", 2, 1, 2, 0)
	group(1800, 3, "elected", 2, 2, "", "", 6)
	group(1804, 3, "active", 2, 2, "bb", "4:0.131072", 2)
	group(1810, 2, "deposed", 2, 2, "", "", 0)
	routine(1820, 3, "EXECUTING", 2, 2, 2, 1500)
	device(1830, 4, eventlog.Command, "start", 2, 2, 2, 0)
	line(2000, 3, eventlog.Monitor, "failed", eventlog.Group{Epoch: 2, Term: 2, Device: 6})
	line(3000, 3, eventlog.Monitor, "recovered", eventlog.Group{Epoch: 2, Term: 2, Device: 6})
}
