package controller

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"churnbed/emulator/controlpb"
	"churnbed/node/eventlog"
	"churnbed/node/wire"
	"churnbed/results"
)

// measured is what the run has measured of the host and the fabric so far.
type measured struct {
	last *controlpb.MeasureReply
	at   time.Time
	cpu  cpuTimes
}

// start takes the first reading, from which the first slice counts.
func (m *measured) start(life context.Context, c *controller) error {
	reply, err := c.box.Supervisor.Measure(life, &controlpb.MeasureRequest{})
	if err != nil {
		return fmt.Errorf("measure: %w", clean(err))
	}
	m.last, m.at, m.cpu = reply, time.Now(), readCPU()
	return nil
}

// slice takes a reading at the end of each slice.
func (c *controller) slice() {
	if c.sc.Slice <= 0 {
		return
	}
	c.schedule.addChore(c.now().Add(c.sc.Slice), func(life context.Context) {
		reply, err := c.box.Supervisor.Measure(life, &controlpb.MeasureRequest{})
		if err != nil {
			c.fail(fmt.Errorf("measure: %w", clean(err)))
			return
		}
		c.writeSlice(reply)
		c.slice()
	})
}

// writeSlice logs what happened since the last reading.
func (c *controller) writeSlice(reply *controlpb.MeasureReply) {
	m := &c.measured
	now, cpu := time.Now(), readCPU()
	t, l := reply.GetTotal(), m.last.GetTotal()
	h := &eventlog.Host{
		RealMS: milliseconds(now.Sub(m.at)), CPUBusy: cpu.busySince(m.cpu),
		Frames: t.GetFrames() - l.GetFrames(), Dropped: t.GetDropped() - l.GetDropped(),
		Unplanned: reply.GetUnplanned() - m.last.GetUnplanned(), ExpectDrops: t.GetExpected() - l.GetExpected(),
		LateP50US: reply.GetLateP50Us(), LateP99US: reply.GetLateP99Us(),
	}
	for class, n := range t.GetByClass() {
		n -= l.GetByClass()[class]
		switch wire.Class(class) {
		case wire.ClassMutex:
			h.Mutex += n
		case wire.ClassMembership:
			h.Membership += n
		default:
			h.Other += n
		}
	}
	m.last, m.at, m.cpu = reply, now, cpu
	c.write(&eventlog.Event{T: int64(c.now()), Kind: eventlog.Slice, Node: -1, Host: h})
}

// finish takes the last reading and writes links.csv.
func (m *measured) finish(life context.Context, c *controller) error {
	reply, err := c.box.Supervisor.Measure(life, &controlpb.MeasureRequest{PerLink: true})
	if err != nil {
		return fmt.Errorf("measure: %w", clean(err))
	}
	if m.last != nil {
		c.writeSlice(reply)
	}
	rows := make([]results.LinkRow, 0, len(reply.GetLinks()))
	for i, count := range reply.GetLinks() {
		l := &c.mesh.Links[i/2]
		p, dir := l.AB, "ab"
		if i%2 == 1 {
			p, dir = l.BA, "ba"
		}
		rows = append(rows, results.LinkRow{
			Link: l.Name(), A: l.A, B: l.B, Dir: dir,
			DelayMS: milliseconds(p.Delay), JitterMS: milliseconds(p.Jitter), Loss: p.Loss, Rate: p.Rate,
			Frames: count.GetFrames(), Bytes: count.GetBytes(), Dropped: count.GetDropped(), ExpectedDrops: count.GetExpected(),
		})
	}
	return c.run_.WriteLinks(rows)
}

// cpuTimes are the host's processor times, in ticks.
type cpuTimes struct{ busy, total int64 }

// readCPU reads the first line of /proc/stat; it is zero where that cannot be
// read.
func readCPU() cpuTimes {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTimes{}
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var t cpuTimes
	for i, f := range strings.Fields(line) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || i > 8 { // guest times are part of user's
			continue
		}
		t.total += n
		if i != 4 && i != 5 { // idle, iowait
			t.busy += n
		}
	}
	return t
}

// busySince is the share of all processors in use, 0..1.
func (t cpuTimes) busySince(o cpuTimes) float64 {
	if t.total <= o.total {
		return 0
	}
	return float64(t.busy-o.busy) / float64(t.total-o.total)
}
