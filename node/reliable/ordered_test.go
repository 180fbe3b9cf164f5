package reliable_test

import (
	"testing"

	"pgregory.net/rapid"

	"churnbed/node/core"
	"churnbed/node/reliable"
	"churnbed/node/wire"
)

// TestOrdered: of messages of one kind to one peer, each is delivered once and
// in order, whatever is lost, repeated and late; a newer one takes no place of
// an older one, as Reliable ones do.
func TestOrdered(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ends := [2]*reliable.Endpoint{reliable.New(life(0, 1), reliable.Config{}), reliable.New(life(1, 1), reliable.Config{})}
		var flight []wire.Frame
		put := func(out []reliable.Out) {
			for _, o := range out {
				flight = append(flight, o.Frame)
			}
		}
		var got []uint64
		now := core.Instant(0)
		deliver := func(i int) {
			f := flight[i]
			flight = append(flight[:i:i], flight[i+1:]...)
			e := ends[f.To]
			if e.Receive(now, &f) {
				got = append(got, f.Msg.(*wire.Request).ID.TS)
			}
			put(e.Finish(nil))
		}
		sent := uint64(0)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch v := rapid.IntRange(0, 5).Draw(rt, "verb"); {
			case v == 0:
				sent++
				put(ends[0].Send(now, core.Send{To: 1, Msg: request(sent), Mode: core.Ordered}, nil))
			case v == 1:
				now += 500 * ms
				put(ends[0].Tick(now, nil))
			case len(flight) == 0:
			case v == 2:
				i := rapid.IntRange(0, len(flight)-1).Draw(rt, "lost")
				flight = append(flight[:i:i], flight[i+1:]...)
			case v == 3:
				flight = append(flight, flight[rapid.IntRange(0, len(flight)-1).Draw(rt, "twice")])
			default:
				deliver(rapid.IntRange(0, len(flight)-1).Draw(rt, "which"))
			}
		}
		for i := 0; ends[0].Pending() > 0; i++ {
			if i > 1000 {
				rt.Fatalf("%d messages are pending for ever", ends[0].Pending())
			}
			now += 500 * ms
			put(ends[0].Tick(now, nil))
			for len(flight) > 0 {
				deliver(0)
			}
		}
		if uint64(len(got)) != sent {
			rt.Fatalf("%d of %d delivered: %v", len(got), sent, got)
		}
		for i, ts := range got {
			if ts != uint64(i)+1 {
				rt.Fatalf("delivered %v", got)
			}
		}
	})
}

// TestForgetOrdered: what waits is forgotten with the rest.
func TestForgetOrdered(t *testing.T) {
	e := reliable.New(life(0, 1), reliable.Config{})
	for ts := range uint64(3) {
		e.Send(0, core.Send{To: 1, Msg: request(ts + 1), Mode: core.Ordered}, nil)
	}
	if e.Pending() != 3 {
		t.Errorf("%d pending, want 3", e.Pending())
	}
	if e.Forget(1); e.Pending() != 0 {
		t.Errorf("%d pending after Forget", e.Pending())
	}
}

// TestOrderedReply: it is the reply of what is being handled; otherwise it
// waits its turn like any Ordered one, where a Reply would take the place of the
// one before it.
func TestOrderedReply(t *testing.T) {
	a, b := reliable.New(life(0, 1), reliable.Config{}), reliable.New(life(1, 1), reliable.Config{})
	ask := a.Send(0, core.Send{To: 1, Msg: request(1), Mode: core.Ordered}, nil)
	if !b.Receive(0, &ask[0].Frame) {
		t.Fatal("the request is not to be handled")
	}
	out := b.Send(0, core.Send{To: 0, Msg: request(7), Mode: core.OrderedReply}, nil)
	out = b.Finish(out)
	if len(out) != 1 || !out[0].Frame.Reply || b.Pending() != 0 {
		t.Errorf("answer: %+v, %d pending", out, b.Pending())
	}
	out = b.Send(0, core.Send{To: 0, Msg: request(8), Mode: core.OrderedReply}, nil)
	out = b.Send(0, core.Send{To: 0, Msg: request(9), Mode: core.OrderedReply}, out)
	if len(out) != 1 || out[0].Frame.Reply || !out[0].Frame.Reliable || b.Pending() != 2 {
		t.Errorf("no answer: %+v, %d pending, want the first under way and two pending", out, b.Pending())
	}
}

// TestOrderedEqual: what is equal to one that waits waits once; what is under
// way already may have been handled, and is sent again after it.
func TestOrderedEqual(t *testing.T) {
	e := reliable.New(life(0, 1), reliable.Config{})
	for _, ts := range []uint64{1, 1, 1, 2, 1} {
		e.Send(0, core.Send{To: 1, Msg: request(ts), Mode: core.Ordered}, nil)
	}
	if e.Pending() != 3 {
		t.Errorf("%d pending, want 3: one under way, and each of the two once", e.Pending())
	}
}
