package timeline

import "slices"

const (
	// firstWidth is the width of a bin before anything had to be joined.
	firstWidth = int64(100e6)
	// maxBins bounds the bins of a series: twice as many join in pairs.
	maxBins = 1024
	// lastInstant bounds instants, so that a senseless one in a log cannot
	// make widths overflow: 30 years.
	lastInstant = int64(1e18)
)

// bins sums amounts over time in bins of equal width from 0, which doubles
// when there are too many.
type bins struct {
	width int64
	sum   []float64
}

func (b *bins) double() {
	for i := 0; i < len(b.sum); i += 2 {
		v := b.sum[i]
		if i+1 < len(b.sum) {
			v += b.sum[i+1]
		}
		b.sum[i/2] = v
	}
	b.sum = b.sum[:(len(b.sum)+1)/2]
	b.width *= 2
}

// at returns the bin of instant t, which then exists.
func (b *bins) at(t int64) int {
	if b.width == 0 {
		b.width = firstWidth
	}
	t = min(max(t, 0), lastInstant)
	for t/b.width >= maxBins {
		b.double()
	}
	i := int(t / b.width)
	for len(b.sum) <= i {
		b.sum = append(b.sum, 0)
	}
	return i
}

// spread adds amount evenly over [from, to).
func (b *bins) spread(from, to int64, amount float64) {
	from, to = min(max(from, 0), lastInstant), min(max(to, 0), lastInstant)
	last := b.at(max(to-1, from))
	first := b.at(from)
	if to <= from || first == last {
		b.sum[last] += amount
		return
	}
	for i := first; i <= last; i++ {
		lo, hi := max(from, int64(i)*b.width), min(to, int64(i+1)*b.width)
		b.sum[i] += amount * float64(hi-lo) / float64(to-from)
	}
}

func (b *bins) widen(width int64) {
	for b.width > 0 && b.width < width {
		b.double()
	}
}

func (b *bins) padded(n int) []float64 {
	return append(slices.Clone(b.sum), make([]float64, n-len(b.sum))...)
}

// sizes follows the lengths of all membership lists.
type sizes struct {
	count  []int // nodes by the length of their list; [0] is not used
	sum    int
	nodes  int
	min    int
	t      int64
	area   bins // list length x node x time
	time   bins // node x time
	lowest []int
}

func (s *sizes) change(t int64, from, to int) {
	s.until(t)
	if from > 0 {
		s.count[from]--
		s.nodes--
		s.sum -= from
	}
	if to > 0 {
		s.count[to]++
		s.nodes++
		s.sum += to
	}
	switch {
	case s.nodes == 0:
		s.min = 0
	case to > 0 && (s.min == 0 || to < s.min):
		s.min = to
	default:
		for s.min = max(s.min, 1); s.count[s.min] == 0; s.min++ {
		}
	}
}

// until accounts for the present lengths up to t.
func (s *sizes) until(t int64) {
	t = min(max(t, 0), lastInstant)
	if t <= s.t {
		return
	}
	if s.nodes > 0 {
		s.grow(t - 1)
		dt := float64(t - s.t)
		s.area.spread(s.t, t, float64(s.sum)*dt)
		s.time.spread(s.t, t, float64(s.nodes)*dt)
		first, last := s.time.at(s.t), s.time.at(t-1)
		for i := first; i <= last; i++ {
			if s.lowest[i] == 0 || s.min < s.lowest[i] {
				s.lowest[i] = s.min
			}
		}
	}
	s.t = t
}

// grow makes room for instant t in all three series alike.
func (s *sizes) grow(t int64) {
	before := s.time.width
	i := s.time.at(t)
	s.area.at(t)
	for w := before; w > 0 && w < s.time.width; w *= 2 {
		for k := 0; k < len(s.lowest); k += 2 {
			v := s.lowest[k]
			if k+1 < len(s.lowest) && s.lowest[k+1] > 0 && (v == 0 || s.lowest[k+1] < v) {
				v = s.lowest[k+1]
			}
			s.lowest[k/2] = v
		}
		s.lowest = s.lowest[:(len(s.lowest)+1)/2]
	}
	for len(s.lowest) <= i {
		s.lowest = append(s.lowest, 0)
	}
}

func (s *sizes) result() []SizeBin {
	var out []SizeBin
	for i, time := range s.time.sum {
		if time <= 0 {
			continue
		}
		from := int64(i) * s.time.width
		covered := min(s.time.width, max(1, s.t-from))
		out = append(out, SizeBin{
			Span: Span{from, from + covered}, Mean: s.area.sum[i] / time, Up: time / float64(covered), Min: s.lowest[i],
		})
	}
	return out
}
