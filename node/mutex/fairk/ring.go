package fairk

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"churnbed/node/core"
	"churnbed/node/wire"
)

// circle is the circle of hashed ids (Stoica et al., "Chord", SIGCOMM 2001).
// Which ids there are is known to all, so a look-up takes no fingers; which of
// them take part is what a view says.
type circle struct {
	order []core.NodeID // around the circle
	pos   []int         // by id
}

func newCircle(nodes int) circle {
	c := circle{order: make([]core.NodeID, nodes), pos: make([]int, nodes)}
	hash := make([]uint64, nodes)
	for i := range nodes {
		c.order[i] = core.NodeID(i)
		sum := sha256.Sum256(binary.BigEndian.AppendUint32(nil, uint32(i)))
		hash[i] = binary.BigEndian.Uint64(sum[:])
	}
	slices.SortFunc(c.order, func(a, b core.NodeID) int { return cmp.Or(cmp.Compare(hash[a], hash[b]), cmp.Compare(a, b)) })
	for i, id := range c.order {
		c.pos[id] = i
	}
	return c
}

// next is the node i places after id.
func (c *circle) next(id core.NodeID, i int) core.NodeID { return c.order[(c.pos[id]+i)%len(c.order)] }

// heirs are the first n members of v at or after id. The first acts for the
// id, the others keep copies.
func (c *circle) heirs(v *wire.View, id core.NodeID, n int) []core.NodeID {
	var list []core.NodeID
	for i := 0; i < len(c.order) && len(list) < n; i++ {
		if k := c.next(id, i); v.Nodes[k].Member {
			list = append(list, k)
		}
	}
	return list
}

// host is who acts for id in v.
func (c *circle) host(v *wire.View, id core.NodeID) core.NodeID {
	for i := range c.order {
		if k := c.next(id, i); v.Nodes[k].Member {
			return k
		}
	}
	return core.None
}
