package fabric

// frame is one frame that waits.
type frame struct {
	buf []byte // whole slot
	n   int32  // bytes of it that are the frame
	dir int32  // direction it travels
}

// Slot sizes: nearly all frames of a mesh are small datagrams.
const (
	smallSlot = 256
	largeSlot = 2048
	slabBytes = 256 << 10
)

// store hands out frames with slots; nothing is given back to the garbage
// collector, so a steady load allocates nothing.
type store struct {
	frames       []frame
	small, large []int32 // free frames by the size of their slot
}

// put copies b into a free frame and returns its number. b fits largeSlot.
func (s *store) put(b []byte, dir int32) int32 {
	free, size := &s.small, smallSlot
	if len(b) > smallSlot {
		free, size = &s.large, largeSlot
	}
	if len(*free) == 0 {
		slab := make([]byte, slabBytes)
		for ; len(slab) >= size; slab = slab[size:] {
			*free = append(*free, int32(len(s.frames)))
			s.frames = append(s.frames, frame{buf: slab[:size:size]})
		}
	}
	k := (*free)[len(*free)-1]
	*free = (*free)[:len(*free)-1]
	f := &s.frames[k]
	f.n, f.dir = int32(copy(f.buf, b)), dir
	return k
}

func (s *store) release(k int32) {
	if len(s.frames[k].buf) == smallSlot {
		s.small = append(s.small, k)
	} else {
		s.large = append(s.large, k)
	}
}

// event is a frame in the timing queue.
type event struct {
	due   int64
	order uint64 // of arrival: equal instants leave in it
	frame int32
}

func (e *event) before(o *event) bool {
	return e.due < o.due || e.due == o.due && e.order < o.order
}

// heap is a binary heap of events, earliest first.
type heap struct {
	e     []event
	count uint64
}

func (h *heap) push(due int64, frame int32) {
	h.count++
	h.e = append(h.e, event{due, h.count, frame})
	i := len(h.e) - 1
	x := h.e[i]
	for i > 0 {
		p := (i - 1) / 2
		if !x.before(&h.e[p]) {
			break
		}
		h.e[i] = h.e[p]
		i = p
	}
	h.e[i] = x
}

// pop removes the earliest event; the heap must not be empty.
func (h *heap) pop() event {
	top := h.e[0]
	n := len(h.e) - 1
	x := h.e[n]
	h.e = h.e[:n]
	if n == 0 {
		return top
	}
	i := 0
	for {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && h.e[c+1].before(&h.e[c]) {
			c++
		}
		if !h.e[c].before(&x) {
			break
		}
		h.e[i] = h.e[c]
		i = c
	}
	h.e[i] = x
	return top
}
