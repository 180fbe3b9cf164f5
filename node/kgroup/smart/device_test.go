package smart

import (
	"fmt"
	"math"
	"testing"
	"time"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/node/kgroup"
	"churnbed/node/wire"
)

// TestDeviceCarriesOutOneAtATime: a routine whose device was taken to have
// failed gives its lock back while the device is still at its command; the
// next routine's command waits for that.
func TestDeviceCarriesOutOneAtATime(t *testing.T) {
	cfg := small(30, 12, 2, 1, 6, 0.9, kgroup.SLA)
	cfg.StateEvery = 0
	var self core.NodeID
	for cfg.IsSmart(self) {
		self++
	}
	m := New(Config{Config: cfg, Self: core.Peer{ID: self, Inc: core.FirstIncarnation}, Seed: 1})
	leader := core.Peer{ID: cfg.Smart[0], Inc: core.FirstIncarnation}
	var log []string
	step := func(at time.Duration, in Input) {
		var out Effects
		m.Step(core.Instant(at), in, &out)
		for _, e := range out.Lines {
			if e.Kind == eventlog.Command {
				log = append(log, fmt.Sprintf("%v %s %d", at, e.State, e.KG.Routine))
			}
		}
	}
	execute := func(at time.Duration, routine int32) {
		step(at, Receive{leader, &wire.Group{
			Type: wire.KindGroupExecute, Group: cfg.Of[self], Epoch: 1, Term: 1, Device: self, Routine: routine, Ticket: 1 << eventlog.AttemptBits,
			Value: int64(routine), Takes: time.Second,
		}})
	}
	step(0, Start{First: true})
	execute(1*time.Second, 0)
	execute(1500*time.Millisecond, 1)
	step(2*time.Second, Tick{})
	execute(2500*time.Millisecond, 1)
	step(3500*time.Millisecond, Tick{})
	if got, want := fmt.Sprint(log), "[1s start 0 2s done 0 2.5s start 1 3.5s done 1]"; got != want {
		t.Errorf("commands: %v, want %v", got, want)
	}
}

// TestLockFitsMessage: the largest lock that Validate lets through travels in
// one message.
func TestLockFitsMessage(t *testing.T) {
	const most = uint64(1)<<42 - 1 // runs and attempts: a run a second for two years
	d := &deviceState{failed: true, holder: claim{math.MaxInt16, most}}
	for i := range int32(kgroup.MaxSharing) {
		c := claim{1<<14 - 1 - i, most}
		d.over, d.queue = append(d.over, c), append(d.queue, c)
	}
	e := wire.Item{Key: deviceKey(core.MaxNodes), Version: math.MaxUint64, Data: d.encode()}
	msg := &wire.Group{
		Type: wire.KindGroupAppend, Group: math.MaxInt32, Epoch: math.MaxInt32, Term: math.MaxUint32, Op: math.MaxUint64, Device: core.None,
		Items: []wire.Item{e},
	}
	if n := len(msg.AppendPayload(nil)); n > wire.MaxPayload {
		t.Errorf("%d bytes, want at most %d", n, wire.MaxPayload)
	}
}
