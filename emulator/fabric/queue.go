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
