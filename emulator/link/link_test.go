package link

import (
	"math"
	"strings"
	"testing"
	"time"

	"churnbed/node/core"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

func channel(p Params) *Channel { return NewChannel(p, core.Stream(1, "link/test")) }

// sample sends n frames a millisecond apart and returns their delays in
// seconds and the number of drops.
func sample(c *Channel, n, size int) (delays []float64, drops int) {
	now := core.Instant(0)
	for range n {
		at, dropped := c.Send(now, size)
		if dropped {
			drops++
		} else {
			delays = append(delays, at.Sub(now).Seconds())
		}
		now = now.Add(ms)
	}
	return delays, drops
}

func moments(v []float64) (mean, sd float64) {
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	for _, x := range v {
		sd += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(sd / float64(len(v)))
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %g, want %g +- %g", what, got, want, tolerance)
	}
}

func TestPerfectLink(t *testing.T) {
	d, drops := sample(channel(Params{}), 100, 1500)
	if mean, sd := moments(d); drops != 0 || mean != 0 || sd != 0 {
		t.Errorf("mean %g sd %g drops %d", mean, sd, drops)
	}
}

func TestBernoulli(t *testing.T) {
	const n = 100_000
	for _, loss := range []float64{0, 0.001, 0.05, 0.5, 1} {
		c := channel(Params{Loss: loss})
		_, drops := sample(c, n, 100)
		near(t, "drops", float64(drops), loss*n, 5*math.Sqrt(n*loss*(1-loss)))
		near(t, "expected", c.ExpectedLoss(), loss*n, 1e-6*n)
	}
}

func TestGilbertElliott(t *testing.T) {
	p := Params{Loss: 1, Burst: &GilbertElliott{P: 0.01, R: 0.1, Good: 0.001, Bad: 0.5}} // Burst replaces Loss
	c := channel(p)
	const n = 400_000
	_, drops := sample(c, n, 100)
	share := p.MeanLoss()
	near(t, "mean loss", share, (0.1*0.001+0.01*0.5)/0.11, 1e-12)
	near(t, "loss share", float64(drops)/n, share, 0.06*share)
	// Given the states, drops are independent: sd of the difference is small.
	near(t, "expected", c.ExpectedLoss(), float64(drops), 5*math.Sqrt(float64(drops)))

	// Bursts of a chain that always loses in the bad state last 1/R frames.
	c = channel(Params{Burst: &GilbertElliott{P: 0.02, R: 0.25, Bad: 1}})
	lost, bursts, before := 0, 0, false
	for i := range n {
		_, dropped := c.Send(core.Instant(i), 100)
		if dropped {
			lost++
			if !before {
				bursts++
			}
		}
		before = dropped
	}
	near(t, "burst length", float64(lost)/float64(bursts), 4, 0.15)
	near(t, "stuck good", Params{Burst: &GilbertElliott{Good: 0.3, Bad: 1}}.MeanLoss(), 0.3, 0)
	near(t, "bernoulli", Params{Loss: 0.2}.MeanLoss(), 0.2, 0)
}

func TestJitter(t *testing.T) {
	const n = 50_000
	d, _ := sample(channel(Params{Delay: 50 * ms, Jitter: 10 * ms, Dist: Uniform}), n, 100)
	mean, sd := moments(d)
	near(t, "uniform mean", mean, 0.050, 0.0002)
	near(t, "uniform sd", sd, 0.010/math.Sqrt(3), 0.0001)
	for _, x := range d {
		if x < 0.040 || x > 0.060 {
			t.Fatalf("uniform delay %g", x)
		}
	}
	d, _ = sample(channel(Params{Delay: 50 * ms, Jitter: 10 * ms, Dist: Normal}), n, 100)
	mean, sd = moments(d)
	near(t, "normal mean", mean, 0.050, 0.0003)
	near(t, "normal sd", sd, 0.010, 0.0002)
	d, _ = sample(channel(Params{Delay: ms, Jitter: 10 * ms, Dist: Normal}), n, 100)
	zero := 0
	for _, x := range d {
		if x < 0 {
			t.Fatalf("delay %g", x)
		}
		if x == 0 {
			zero++
		}
	}
	near(t, "cut at zero", float64(zero)/n, 0.4602, 0.012) // normal below -0.1 sd
}

func TestRateQueues(t *testing.T) {
	c := channel(Params{Rate: 1_000_000, Delay: 10 * ms}) // 1,000 bytes take 8 ms
	for i, want := range []time.Duration{18 * ms, 26 * ms, 34 * ms} {
		if at, _ := c.Send(0, 1000); at != core.Instant(want) {
			t.Errorf("frame %d at %v, want %v", i, at, want)
		}
	}
	// Nothing waits any more: as the first.
	if at, _ := c.Send(core.Instant(100*ms), 500); at != core.Instant(114*ms) {
		t.Errorf("after a pause: %v", at)
	}
	// A change of rate keeps the queue, a change to none frees the next frame.
	if at, _ := c.Send(core.Instant(100*ms), 1000); at != core.Instant(122*ms) {
		t.Errorf("second: %v", at)
	}
	c.SetParams(Params{Rate: 2_000_000})
	if at, _ := c.Send(core.Instant(100*ms), 1000); at != core.Instant(126*ms) {
		t.Errorf("after a change of rate: %v", at)
	}
	c.SetParams(Params{})
	if at, _ := c.Send(core.Instant(100*ms), 1000); at != core.Instant(100*ms) {
		t.Errorf("without a rate: %v", at)
	}
}

func TestSameStreamSameFrames(t *testing.T) {
	p := Params{Delay: 5 * ms, Jitter: ms, Loss: 0.1, Dist: Normal, Burst: &GilbertElliott{P: 0.1, R: 0.5, Bad: 0.9}}
	a, b := channel(p), channel(p)
	for i := range 1000 {
		at1, d1 := a.Send(core.Instant(i), 100)
		at2, d2 := b.Send(core.Instant(i), 100)
		if at1 != at2 || d1 != d2 {
			t.Fatalf("frame %d differs", i)
		}
	}
}

// TestChannelProperties: no frame arrives before it was sent; with a rate
// frames stay in order and never come faster than the rate.
func TestChannelProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Params{
			Delay:  time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "delay")),
			Jitter: time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "jitter")),
			Dist:   rapid.SampledFrom([]Distribution{"", Uniform, Normal}).Draw(t, "dist"),
			Loss:   rapid.Float64Range(0, 1).Draw(t, "loss"),
			Rate:   rapid.Int64Range(0, 1_000_000).Draw(t, "rate"),
		}
		if err := Validate(p); err != nil {
			t.Fatal(err)
		}
		c := NewChannel(p, core.Stream(rapid.Uint64().Draw(t, "seed"), "x"))
		var now, last core.Instant
		for i := range 50 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(100*ms)).Draw(t, "gap")))
			size := rapid.IntRange(14, 1514).Draw(t, "size")
			at, dropped := c.Send(now, size)
			if dropped {
				continue
			}
			if at < now {
				t.Fatalf("frame %d arrives %v before it was sent", i, now.Sub(at))
			}
			if p.Rate > 0 {
				if last > 0 && at.Sub(last) < p.SendTime(size) {
					t.Fatalf("frame %d came %v after the one before, takes %v", i, at.Sub(last), p.SendTime(size))
				}
				last = at
			}
		}
	})
}

func TestValidate(t *testing.T) {
	nan := math.NaN()
	for want, p := range map[string]Params{
		"delay":          {Delay: -1},
		"delay 1h":       {Delay: time.Hour},
		"jitter":         {Jitter: -1},
		"jitter 3s":      {Jitter: 3 * time.Second},
		"distribution":   {Dist: "pareto"},
		"loss -0.1":      {Loss: -0.1},
		"loss 1.1":       {Loss: 1.1},
		"loss NaN":       {Loss: nan},
		"rate":           {Rate: -1},
		"burst p":        {Burst: &GilbertElliott{P: 2}},
		"burst r":        {Burst: &GilbertElliott{R: -1}},
		"the good state": {Burst: &GilbertElliott{Good: nan}},
		"the bad state":  {Burst: &GilbertElliott{Bad: 1.5}},
	} {
		if err := Validate(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want it to name %q", p, err, want)
		}
	}
	if err := Validate(Params{Delay: -1, Loss: 2, Rate: -3}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three errors, got %v", err)
	}
	if err := Validate(Params{}); err != nil {
		t.Error(err)
	}
}

func TestOverrideAndScale(t *testing.T) {
	d, l, r := 3*ms, 0.5, int64(8000)
	base := Params{Delay: ms, Jitter: ms, Rate: 1000, Burst: &GilbertElliott{P: 1}}
	got := Override{Delay: &d, Loss: &l, Rate: &r}.Apply(base)
	if got.Delay != d || got.Loss != l || got.Rate != r || got.Jitter != ms || got.Burst != nil {
		t.Errorf("%+v", got)
	}
	if s := got.Scaled(2); s.Delay != 6*ms || s.Jitter != 2*ms || s.Rate != 4000 || s.Loss != l {
		t.Errorf("%+v", s)
	}
}

func BenchmarkSend(b *testing.B) {
	c := channel(Params{Delay: 5 * ms, Jitter: ms, Dist: Normal, Loss: 0.05, Rate: 1e9})
	b.ReportAllocs()
	now := core.Instant(0)
	for b.Loop() {
		c.Send(now, 100)
		now += 1000
	}
}
