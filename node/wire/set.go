package wire

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"churnbed/node/core"
)

// A set of (id, incarnation) pairs that ascends by id, at most one pair an id,
// is coded in the fewest bytes that the two codings of ids give:
//
//	uvarint  n<<3 | bitmap<<2 | lives; nothing follows where it is 0
//	ids      gaps:   n times uvarint: the id less the previous id less 1 (the
//	                 first: the id itself)
//	         bitmap: uvarint first id, uvarint the number of bytes, bytes: bit i
//	                 of byte k stands for the id first + 1 + 8k + i; the last
//	                 byte is not 0
//	lives 0  all are in core.FirstIncarnation
//	lives 1  all are in one other incarnation, which follows
//	lives 2  uvarint number T of incarnations, above 1; T incarnations upwards;
//	         n indices into them of as few bits as T needs, packed from the
//	         lowest bit on, the rest of the last byte 0
//	incarnation
//	         uvarint start<<1 where it is a whole start, else start<<1 | 1 and
//	         uvarint the rest (core.IncarnationStep to a start)
//
// So in a mesh where nobody has restarted a member costs a byte or a bit.
const (
	livesFirst = iota
	livesOne
	livesTable
)

// appendPeerSet appends a set.
func appendPeerSet(b []byte, set []core.Peer) []byte {
	if len(set) == 0 {
		return append(b, 0)
	}
	var room [8]core.Incarnation
	table := room[:0]
	for _, p := range set {
		if i, found := slices.BinarySearch(table, p.Inc); !found {
			table = slices.Insert(table, i, p.Inc)
		}
	}
	lives := livesTable
	if len(table) == 1 {
		lives = livesOne
		if table[0] == core.FirstIncarnation {
			lives = livesFirst
		}
	}
	bitmap := bitmapSize(set) < gapsSize(set)
	head := uint64(len(set))<<3 | uint64(lives)
	if bitmap {
		head |= 4
	}
	b = binary.AppendUvarint(b, head)
	if bitmap {
		b = appendBitmap(b, set)
	} else {
		next := core.NodeID(0)
		for _, p := range set {
			b = binary.AppendUvarint(b, uint64(p.ID-next))
			next = p.ID + 1
		}
	}
	switch lives {
	case livesOne:
		b = appendLife(b, table[0])
	case livesTable:
		b = binary.AppendUvarint(b, uint64(len(table)))
		for _, inc := range table {
			b = appendLife(b, inc)
		}
		b = appendIndices(b, set, table)
	}
	return b
}

func uvarintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

func gapsSize(set []core.Peer) (n int) {
	next := core.NodeID(0)
	for _, p := range set {
		n += uvarintSize(uint64(p.ID - next))
		next = p.ID + 1
	}
	return n
}

// bitmapBytes is how many bytes the bitmap of a set has.
func bitmapBytes(set []core.Peer) int { return (int(set[len(set)-1].ID-set[0].ID) + 7) / 8 }

func bitmapSize(set []core.Peer) int {
	n := bitmapBytes(set)
	return uvarintSize(uint64(set[0].ID)) + uvarintSize(uint64(n)) + n
}

func appendBitmap(b []byte, set []core.Peer) []byte {
	first, n := set[0].ID, bitmapBytes(set)
	b = binary.AppendUvarint(b, uint64(first))
	b = binary.AppendUvarint(b, uint64(n))
	at := len(b)
	b = append(b, make([]byte, n)...)
	for _, p := range set[1:] {
		i := int(p.ID - first - 1)
		b[at+i/8] |= 1 << (i % 8)
	}
	return b
}

func appendLife(b []byte, inc core.Incarnation) []byte {
	start, rest := uint64(inc.Start()), uint64(inc%core.IncarnationStep)
	if rest == 0 {
		return binary.AppendUvarint(b, start<<1)
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, start<<1|1), rest)
}

// indexBits is how many bits an index into t entries takes.
func indexBits(t int) int { return bits.Len(uint(t - 1)) }

func appendIndices(b []byte, set []core.Peer, table []core.Incarnation) []byte {
	width := indexBits(len(table))
	at := len(b)
	b = append(b, make([]byte, (len(set)*width+7)/8)...)
	for k, p := range set {
		i, _ := slices.BinarySearch(table, p.Inc)
		for bit := range width {
			if i>>bit&1 != 0 {
				b[at+(k*width+bit)/8] |= 1 << ((k*width + bit) % 8)
			}
		}
	}
	return b
}

func readPeerSet(r *Reader) []core.Peer {
	head := r.Uvarint()
	n, bitmap, lives := head>>3, head&4 != 0, int(head&3)
	if head == 0 || r.err != nil {
		return nil
	}
	// A member takes a bit at least.
	if n == 0 || lives > livesTable || n > 1+8*uint64(r.Len()) {
		r.fail("set")
		return nil
	}
	set := make([]core.Peer, 0, n)
	if bitmap {
		set = readBitmap(r, set, int(n))
	} else {
		next := uint64(0)
		for range n {
			id := next + r.Max(core.MaxNodes-1, "node id")
			if r.err == nil && id >= core.MaxNodes {
				r.fail("node id")
			}
			if r.err != nil {
				return nil
			}
			set = append(set, core.Peer{ID: core.NodeID(id)})
			next = id + 1
		}
	}
	if r.err == nil && bitmap != (bitmapSize(set) < gapsSize(set)) {
		r.fail("longer coding of a set")
	}
	readLives(r, set, lives)
	if r.err != nil {
		return nil
	}
	return set
}

func readBitmap(r *Reader, set []core.Peer, n int) []core.Peer {
	first := r.Node()
	size := r.Count(1)
	if r.err != nil {
		return nil
	}
	set = append(set, core.Peer{ID: first})
	for k := range size {
		v := r.Byte()
		if k == size-1 && v == 0 {
			r.fail("empty end of a bitmap")
		}
		for ; v != 0; v &= v - 1 {
			id := int(first) + 1 + 8*k + bits.TrailingZeros8(v)
			if id >= core.MaxNodes {
				r.fail("node id")
				return nil
			}
			set = append(set, core.Peer{ID: core.NodeID(id)})
		}
	}
	if r.err == nil && len(set) != n {
		r.fail("number of bits")
	}
	return set
}

func readLives(r *Reader, set []core.Peer, lives int) {
	table := []core.Incarnation{core.FirstIncarnation}
	switch lives {
	case livesOne:
		if table[0] = readLife(r); r.err == nil && table[0] == core.FirstIncarnation {
			r.fail("longer coding of an incarnation")
		}
	case livesTable:
		t := r.Count(1)
		if r.err == nil && (t < 2 || t > len(set)) {
			r.fail("number of incarnations")
		}
		if r.err != nil {
			return
		}
		table = make([]core.Incarnation, t)
		for i := range table {
			if table[i] = readLife(r); r.err == nil && i > 0 && table[i] <= table[i-1] {
				r.fail("incarnation table")
			}
		}
	}
	if r.err != nil {
		return
	}
	if lives != livesTable {
		for i := range set {
			set[i].Inc = table[0]
		}
		return
	}
	width := indexBits(len(table))
	used := make([]bool, len(table))
	var have, left uint
	for i := range set {
		for have < uint(width) {
			left |= uint(r.Byte()) << have
			have += 8
		}
		k := left & (1<<width - 1)
		left >>= width
		have -= uint(width)
		if r.err == nil && int(k) >= len(table) {
			r.fail("incarnation index")
		}
		if r.err != nil {
			return
		}
		set[i].Inc = table[k]
		used[k] = true
	}
	if left != 0 || slices.Contains(used, false) {
		r.fail("unused incarnation")
	}
}

func readLife(r *Reader) core.Incarnation {
	v := r.Max((1<<32-1)/uint64(core.IncarnationStep)<<1|1, "incarnation")
	inc := core.Incarnation(v>>1) * core.IncarnationStep
	if v&1 == 0 {
		return inc
	}
	rest := r.Max(uint64(core.IncarnationStep)-1, "incarnation")
	if r.err == nil && rest == 0 {
		r.fail("incarnation")
	}
	return inc + core.Incarnation(rest)
}

// SetSize is how many bytes a set takes in a message.
func SetSize(set []core.Peer) int { return len(appendPeerSet(nil, set)) }

// FitSet returns how many of the first members of a set fit in so many bytes
// together.
func FitSet(set []core.Peer, room int) int {
	if SetSize(set) <= room {
		return len(set)
	}
	low, high := 0, len(set) // low fit, high do not
	for high-low > 1 {
		if mid := (low + high) / 2; SetSize(set[:mid]) <= room {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
