package fabric

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"churnbed/emulator/kernel"
	"churnbed/emulator/link"
	"churnbed/node/core"
)

// ErrClosed is returned by calls on a closed fabric.
var ErrClosed = errors.New("fabric is closed")

func (f *Fabric) check(i int) error {
	if f.closed {
		return ErrClosed
	}
	if i < 0 || i >= len(f.links) {
		return fmt.Errorf("link %d: want 0 to %d", i, len(f.links)-1)
	}
	return nil
}

// SetLink changes the parameters of link i on the live mesh. Frames under way
// keep their instants of arrival.
func (f *Fabric) SetLink(i int, ab, ba link.Params) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(i); err != nil {
		return err
	}
	if err := errors.Join(link.Validate(ab), link.Validate(ba)); err != nil {
		return fmt.Errorf("set link %d: %w", i, err)
	}
	if err := f.back.set(i, ab, ba); err != nil {
		return fmt.Errorf("set link %d: %w", i, err)
	}
	f.links[i].AB, f.links[i].BA = ab, ba
	return nil
}

// SetUp takes link i down or up at both ends. Up restores the neighbour
// entries and all routes that lead over the link at that moment. Setting a
// link to the state that it has does nothing.
func (f *Fabric) SetUp(i int, up bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(i); err != nil {
		return err
	}
	if f.up[i] == up {
		return nil
	}
	l := f.links[i]
	var errs []error
	if !up { // first, so that frames of a link going down are not counted as lost
		errs = append(errs, f.back.setUp(i, false))
	}
	for _, end := range [2]core.NodeID{l.A, l.B} {
		nd := &f.nodes[end]
		k := nd.at[l.A+l.B-end]
		a := &nd.adj[k]
		b := nd.conn.Batch()
		b.SetUp(a.index, up)
		if up {
			b.Neighbour(a.index, Addr(a.peer), f.peerMAC(a))
			for d, v := range nd.via {
				if int(v) == k+1 {
					f.route(b, kernel.ReplaceRoute, int(end), d)
				}
			}
		}
		errs = append(errs, b.Flush())
	}
	if up {
		errs = append(errs, f.back.setUp(i, true))
	}
	f.up[i] = up
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("set link %d: %w", i, err)
	}
	return nil
}

// SetRoutes changes routes. A route over a link that is down is remembered
// and installed when the link comes up. Changes of one source are applied in
// their order; sources are worked on in parallel.
func (f *Fabric) SetRoutes(changes []RouteChange) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	var order []core.NodeID
	bySrc := make(map[core.NodeID][]RouteChange)
	for _, c := range changes {
		if min(c.Src, c.Dst) < 0 || int(max(c.Src, c.Dst)) >= f.cfg.Nodes || c.Src == c.Dst {
			return fmt.Errorf("route from %d to %d: want two different nodes of 0 to %d", c.Src, c.Dst, f.cfg.Nodes-1)
		}
		if c.Via != core.None {
			if _, ok := f.nodes[c.Src].at[c.Via]; !ok {
				return fmt.Errorf("route of node %d to %d goes over %d, which is no neighbour", c.Src, c.Dst, c.Via)
			}
		}
		if bySrc[c.Src] == nil {
			order = append(order, c.Src)
		}
		bySrc[c.Src] = append(bySrc[c.Src], c)
	}
	err := f.each(context.Background(), "", len(order), func(k int) error {
		src := order[k]
		return f.changeRoutes(int(src), bySrc[src])
	})
	if err != nil {
		return fmt.Errorf("change routes: %w", err)
	}
	return nil
}

func (f *Fabric) changeRoutes(src int, changes []RouteChange) error {
	nd := &f.nodes[src]
	if nd.via == nil {
		nd.via = make([]uint16, f.cfg.Nodes)
	}
	b := nd.conn.Batch()
	installed := func(v uint16) bool { return v > 0 && f.up[nd.adj[v-1].link] }
	for _, c := range changes {
		var via uint16
		if c.Via != core.None {
			via = uint16(nd.at[c.Via] + 1)
		}
		old := nd.via[c.Dst]
		nd.via[c.Dst] = via
		switch {
		case old == via:
		case installed(via):
			f.route(b, kernel.ReplaceRoute, src, int(c.Dst))
		case installed(old):
			b.DeleteRoute(Addr(c.Dst))
		}
	}
	return b.Flush()
}

// Counters reads the counters of all links. It costs one netlink dump a node
// in a netem fabric and a copy in a relay, and one file read a node in both.
func (f *Fabric) Counters() (Counters, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return Counters{}, ErrClosed
	}
	links, losses, err := f.back.counters()
	if err != nil {
		return Counters{}, err
	}
	for i := range f.nodes {
		nd := &f.nodes[i]
		if nd.udp == nil {
			if nd.udp, err = kernel.OpenUDP(nd.ns, "node "+strconv.Itoa(i)); err != nil {
				return Counters{}, err
			}
		}
		u, err := nd.udp.Read()
		if err != nil {
			return Counters{}, err
		}
		losses.UDPBuffer += int64(u.RcvbufErrors + u.SndbufErrors)
		losses.UDPChecksum += int64(u.InCsumErrors)
	}
	return Counters{
		Links: links, Losses: losses,
		Unplanned: losses.RelaySocket + losses.RelaySend + losses.Queue + losses.Backlog + losses.UDPBuffer + losses.UDPChecksum,
	}, nil
}

// Lateness returns how late the relay was since the last call.
func (f *Fabric) Lateness() Lateness {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return Lateness{}
	}
	return f.back.lateness()
}
