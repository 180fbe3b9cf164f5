// Package fabric wires a mesh: one network namespace a node, one veth link a
// radio link, delay, jitter, loss and rate on each direction, and routes. It
// knows nothing of node processes and protocols but the fixed place of the
// class in a frame (node/wire), by which the relay counts.
//
// What a node sees is the same in both backends: lo with the node's /32
// address (Addr), and for each neighbour one unnumbered interface named
// "n<neighbour>" ("n17") with a permanent neighbour entry, so that there is
// no ARP; a host route to every other node; IPv4 forwarding on, IPv6 off,
// checksum and segmentation offloads off, MTU 1500.
//
// Backends:
//
//	netem: the veth pair joins the two nodes; sch_netem on both ends.
//
//	    node a [n<b>]===========[n<a>] node b
//	           netem           netem
//
//	relay: each end has a pair of its own to the wire namespace, where one
//	thread takes frames from all of them through an AF_PACKET socket, holds
//	them as emulator/link says, and sends them on at the other pair.
//
//	    node a [n<b>]====[w<i>a] relay [w<i>b]====[n<a>] node b
//
// A link that is down is administratively down at both nodes' ends. The
// kernel then forgets neighbours and routes over it; SetUp restores them.
//
// Clean-up is the kernel's: namespaces have no name, so everything is gone
// with Close or with the process. A Fabric's methods may be called from any
// goroutine; they are serialised inside.
package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"churnbed/emulator/kernel"
	"churnbed/emulator/link"
	"churnbed/emulator/netns"
	"churnbed/node/core"
	"churnbed/node/wire"
)

// Kinds of fabric.
const (
	KindNetem = "netem"
	KindRelay = "relay"
)

// MTU of every link.
const MTU = 1500

// LinkSpec is a link between two different nodes; AB is the direction from A
// to B. Parameters are in real time (the time scale is applied).
type LinkSpec struct {
	A, B   core.NodeID
	AB, BA link.Params
}

// Config describes a mesh.
type Config struct {
	Nodes int // 1..core.MaxNodes; nodes are 0..Nodes-1
	Links []LinkSpec
	Kind  string // KindNetem or KindRelay
	Seed  uint64
	// NextHop returns the neighbour of src on its way to dst, or core.None.
	// It is called from several goroutines. Without it no routes are made.
	NextHop func(src, dst core.NodeID) core.NodeID
	// Progress, where set, is called from one goroutine at a time.
	Progress func(stage string, done, total int)
}

// RouteChange says that Src reaches Dst over its neighbour Via from now on;
// core.None deletes the route.
type RouteChange struct {
	Src, Dst, Via core.NodeID
}

// LinkCounters count one direction of a link since the fabric was made.
type LinkCounters struct {
	Frames   int64   // entered the direction, dropped ones included
	Bytes    int64   // of them, with Ethernet headers
	Dropped  int64   // by the configured loss
	Expected float64 // sum over the frames of the probability to be dropped
	// ByClass counts the frames that carry a datagram to wire.Port by its
	// class. The relay knows; netem does not and leaves it zero.
	ByClass [wire.NumClasses]int64
}

// Counters are the counters of all links.
type Counters struct {
	Links [][2]LinkCounters // [i][0] from A to B, [i][1] from B to A
	// Unplanned counts frames and datagrams lost otherwise than by the
	// configured loss: full queues and buffers anywhere in this fabric.
	Unplanned int64
	Losses    Losses
}

// Losses tells where unplanned losses happened. Frames meant for a link that
// was taken down are not among them.
type Losses struct {
	RelaySocket int64 // the relay's receive buffer was full
	RelaySend   int64 // the kernel refused a frame of the relay
	Queue       int64 // link.QueueLimit frames waited on one direction
	Backlog     int64 // a processor's backlog of received frames was full (counted for the whole host)
	UDPBuffer   int64 // a node's socket buffer was full
	UDPChecksum int64
}

// Lateness is how much later than due the relay sent its frames, in real
// time. Count is 0 in a netem fabric, where the kernel does not tell.
type Lateness struct {
	Count              int64
	P50, P90, P99, Max time.Duration
}

// adjacency is one end of a link.
type adjacency struct {
	peer  core.NodeID
	link  int
	index int32 // of the interface in the node's namespace
	name  string
	mac   [6]byte // of this end
}

type node struct {
	ns   *netns.Handle
	conn *kernel.Conn
	adj  []adjacency
	at   map[core.NodeID]int // peer -> position in adj
	// via holds for each destination 1 + the position in adj of the next
	// hop, 0 for none: what the kernel should have, also while links are down.
	via []uint16
	udp *kernel.UDPReader
}

// backend is what netem and relay differ in.
type backend interface {
	set(i int, ab, ba link.Params) error
	setUp(i int, up bool) error
	counters() ([][2]LinkCounters, Losses, error)
	lateness() Lateness
	close() error
}

// Fabric is a mesh that stands.
type Fabric struct {
	mu     sync.Mutex
	cfg    Config
	links  []LinkSpec // present parameters
	up     []bool
	nodes  []node
	wire   *netns.Handle // also in a netem fabric: see Close
	wireC  *kernel.Conn
	back   backend
	closed bool
}

// Addr returns the mesh address of a node, 10.77.0.0 + n: all 65,536 ids have
// one. They are /32 addresses, so .0 and .255 are ordinary.
func Addr(n core.NodeID) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(n >> 8), byte(n)})
}

// InterfaceName returns the name of a node's interface to a neighbour.
func InterfaceName(neighbour core.NodeID) string { return "n" + strconv.Itoa(int(neighbour)) }

// settings of a node's namespace; they are written before any interface but
// lo exists, so "default" covers all. New namespaces copy IPv4 settings from
// the host's first namespace: nothing may be taken for granted.
var nodeSettings = []kernel.Sysctl{
	{Key: "net/ipv6/conf/all/disable_ipv6", Value: "1", Optional: true},
	{Key: "net/ipv6/conf/default/disable_ipv6", Value: "1", Optional: true},
	{Key: "net/ipv4/ip_forward", Value: "1"},
	{Key: "net/ipv4/conf/all/rp_filter", Value: "0"},
	{Key: "net/ipv4/conf/default/rp_filter", Value: "0"},
	{Key: "net/ipv4/conf/all/send_redirects", Value: "0"},
	{Key: "net/ipv4/conf/default/send_redirects", Value: "0"},
	{Key: "net/ipv4/conf/default/accept_redirects", Value: "0"},
	{Key: "net/ipv4/icmp_ratelimit", Value: "0"},
	{Key: "net/ipv4/ip_default_ttl", Value: "255"}, // long lines have long paths
	// Nodes flood by LL-MANET-Routers multicast: one group on every interface,
	// and no reports of it to routers that are not there.
	{Key: "net/ipv4/igmp_max_memberships", Value: "65536", Optional: true},
	{Key: "net/ipv4/igmp_link_local_mcast_reports", Value: "0", Optional: true},
	{Key: "net/ipv4/ping_group_range", Value: "0 0", Optional: true},
}

var wireSettings = []kernel.Sysctl{
	{Key: "net/ipv6/conf/all/disable_ipv6", Value: "1", Optional: true},
	{Key: "net/ipv6/conf/default/disable_ipv6", Value: "1", Optional: true},
	{Key: "net/ipv4/ip_forward", Value: "0"},
}

func (c *Config) validate() error {
	if c.Nodes < 1 || c.Nodes > core.MaxNodes {
		return fmt.Errorf("%d nodes: want 1 to %d", c.Nodes, core.MaxNodes)
	}
	if c.Kind != KindNetem && c.Kind != KindRelay {
		return fmt.Errorf("fabric %q: want %q or %q", c.Kind, KindNetem, KindRelay)
	}
	seen := make(map[[2]core.NodeID]bool, len(c.Links))
	for i, l := range c.Links {
		if l.A == l.B || min(l.A, l.B) < 0 || int(max(l.A, l.B)) >= c.Nodes {
			return fmt.Errorf("link %d joins nodes %d and %d: want two different of 0 to %d", i, l.A, l.B, c.Nodes-1)
		}
		pair := [2]core.NodeID{min(l.A, l.B), max(l.A, l.B)}
		if seen[pair] {
			return fmt.Errorf("link %d: nodes %d and %d are joined already", i, l.A, l.B)
		}
		seen[pair] = true
		if err := errors.Join(link.Validate(l.AB), link.Validate(l.BA)); err != nil {
			return fmt.Errorf("link %d (%d-%d): %w", i, l.A, l.B, err)
		}
	}
	return nil
}

// streamName names the random stream of one direction of a link.
func streamName(from, to core.NodeID) string { return fmt.Sprintf("link/%d-%d", from, to) }

// New builds the mesh in new namespaces of the user namespace in which the
// process runs, where it needs CAP_SYS_ADMIN and CAP_NET_ADMIN (and
// CAP_NET_RAW for the relay). On an error, or when ctx ends, nothing is left.
func New(ctx context.Context, cfg Config) (*Fabric, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	f := &Fabric{
		cfg: cfg, links: append([]LinkSpec(nil), cfg.Links...), up: make([]bool, len(cfg.Links)),
		nodes: make([]node, cfg.Nodes),
	}
	for i := range f.up {
		f.up[i] = true
	}
	if err := f.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("build %s fabric: %w", cfg.Kind, err), f.Close())
	}
	return f, nil
}

func (f *Fabric) progress(stage string, done, total int) {
	if f.cfg.Progress != nil && stage != "" {
		f.cfg.Progress(stage, done, total)
	}
}

func (f *Fabric) build(ctx context.Context) error {
	n := f.cfg.Nodes
	f.progress("namespaces", 0, n)
	handles, err := netns.NewMany(n + 1)
	if err != nil {
		return err
	}
	f.wire = handles[n]
	for i := range f.nodes {
		f.nodes[i].ns = handles[i]
	}
	if f.wireC, err = kernel.OpenWith(f.wire, "wire", wireSettings); err != nil {
		return err
	}
	f.plan()
	if err := f.each(ctx, "namespaces", n, f.openNode); err != nil {
		return err
	}
	if err := f.createLinks(ctx); err != nil {
		return err
	}
	mask, err := f.offloadMask()
	if err != nil {
		return err
	}
	seeds := f.netemSeeds()
	if err := f.each(ctx, "interfaces", n, func(i int) error { return f.configureNode(i, mask, seeds) }); err != nil {
		return err
	}
	if f.cfg.Kind == KindRelay {
		f.back, err = newRelay(f)
	} else {
		f.back = newNetem(f, seeds)
	}
	if err != nil {
		return err
	}
	if f.cfg.NextHop == nil {
		return nil
	}
	return f.each(ctx, "routes", n, f.installRoutes)
}

// each calls do for 0..n-1 on all processors, in blocks, and reports progress
// where the stage has a name.
func (f *Fabric) each(ctx context.Context, stage string, n int, do func(int) error) error {
	const block = 8
	workers := min(runtime.GOMAXPROCS(0), (n+block-1)/block)
	var next, done atomic.Int64
	var mu sync.Mutex
	var first error
	told := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				from := int(next.Add(block)) - block
				if from >= n {
					return
				}
				err := ctx.Err()
				for i := from; i < min(from+block, n) && err == nil; i++ {
					err = do(i)
				}
				d := done.Add(block)
				mu.Lock()
				if err != nil {
					if first == nil {
						first = err
					}
					next.Store(int64(n))
				} else if time.Since(told) > progressEvery {
					told = time.Now()
					f.progress(stage, min(int(d), n), n)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if first == nil {
		f.progress(stage, n, n)
	}
	return first
}

// plan lays out interface indices, names and hardware addresses, so that
// nothing has to be read back from the kernel.
func (f *Fabric) plan() {
	for i, l := range f.links {
		for side, end := range [2]core.NodeID{l.A, l.B} {
			nd := &f.nodes[end]
			if nd.at == nil {
				nd.at = make(map[core.NodeID]int)
			}
			peer := l.A + l.B - end
			nd.at[peer] = len(nd.adj)
			nd.adj = append(nd.adj, adjacency{
				peer: peer, link: i, name: InterfaceName(peer),
				index: int32(2 + len(nd.adj)), // 1 is lo
				mac:   mac(0x02, i, side),
			})
		}
	}
	if f.cfg.NextHop != nil {
		for i := range f.nodes {
			f.nodes[i].via = make([]uint16, f.cfg.Nodes)
		}
	}
}

// mac makes a locally administered address: kind, side, link number.
func mac(kind byte, i, side int) [6]byte {
	return [6]byte{kind, byte(side), byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}
}

// wireIndex is the interface index of a link's end in the wire namespace;
// wireEnd is its inverse.
func wireIndex(i, side int) int32 { return int32(2 + 2*i + side) }

func wireEnd(index int32) (i, side int) { return int(index-2) >> 1, int(index-2) & 1 }

func (f *Fabric) openNode(i int) error {
	nd := &f.nodes[i]
	var err error
	if nd.conn, err = kernel.OpenWith(nd.ns, "node "+strconv.Itoa(i), nodeSettings); err != nil {
		return err
	}
	b := nd.conn.Batch()
	b.SetUp(1, true)
	b.Addr4(1, Addr(core.NodeID(i)))
	return b.Flush()
}

// createLinks creates the pairs on one thread: the kernel's lock serialises
// the work, and two threads that take turns at it were no faster.
func (f *Fabric) createLinks(ctx context.Context) error {
	told := time.Now()
	b := f.wireC.Batch()
	for i := range f.links {
		f.createLink(b, i)
		if i%64 != 63 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(err, b.Flush())
		}
		if time.Since(told) > progressEvery {
			told = time.Now()
			f.progress("links", i, len(f.links))
		}
	}
	if err := b.Flush(); err != nil {
		return err
	}
	f.progress("links", len(f.links), len(f.links))
	return nil
}

const progressEvery = 100 * time.Millisecond

func (f *Fabric) createLink(b *kernel.Batch, i int) {
	l := f.links[i]
	var ends [2]kernel.End
	for side, end := range [2]core.NodeID{l.A, l.B} {
		nd := &f.nodes[end]
		a := &nd.adj[nd.at[l.A+l.B-end]]
		ends[side] = kernel.End{NS: nd.ns, Name: a.name, Index: a.index, MAC: a.mac}
	}
	if f.cfg.Kind == KindNetem {
		b.Veth(ends[0], ends[1], MTU)
		return
	}
	for side, suffix := range [2]string{"a", "b"} {
		w := kernel.End{
			NS: f.wire, Name: "w" + strconv.Itoa(i) + suffix, Index: wireIndex(i, side),
			MAC: mac(0x06, i, side), Up: true,
		}
		b.Veth(w, ends[side], MTU)
	}
}

// offloadMask learns the offload bits from one interface, so that the
// threads of configureNode only read them.
func (f *Fabric) offloadMask() (*kernel.OffloadMask, error) {
	m := new(kernel.OffloadMask)
	if len(f.links) == 0 {
		return m, nil
	}
	nd := &f.nodes[f.links[0].A]
	return m, nd.conn.Offload(m, nd.adj[0].name)
}

// netemSeeds draws the seed of each direction's netem from its stream.
func (f *Fabric) netemSeeds() [][2]func() uint64 {
	if f.cfg.Kind != KindNetem {
		return nil
	}
	s := make([][2]func() uint64, len(f.links))
	for i, l := range f.links {
		s[i][0] = core.Stream(f.cfg.Seed, streamName(l.A, l.B)).Uint64
		s[i][1] = core.Stream(f.cfg.Seed, streamName(l.B, l.A)).Uint64
	}
	return s
}

// configureNode does what is left of a node's interfaces. Offloads and netem
// come before they are up: the kernel waits for grace periods otherwise.
func (f *Fabric) configureNode(i int, mask *kernel.OffloadMask, seeds [][2]func() uint64) error {
	nd := &f.nodes[i]
	for k := range nd.adj {
		if err := nd.conn.Offload(mask, nd.adj[k].name); err != nil {
			return err
		}
	}
	b := nd.conn.Batch()
	for k := range nd.adj {
		a := &nd.adj[k]
		if seeds != nil {
			p, side := f.direction(a.link, core.NodeID(i))
			b.Netem(a.index, p, seeds[a.link][side](), false)
		}
		b.SetUp(a.index, true)
		b.Neighbour(a.index, Addr(a.peer), f.peerMAC(a))
	}
	return b.Flush()
}

// direction returns the parameters and number of the direction of link i
// that begins at node from.
func (f *Fabric) direction(i int, from core.NodeID) (link.Params, int) {
	if l := &f.links[i]; l.A != from {
		return l.BA, 1
	}
	return f.links[i].AB, 0
}

func (f *Fabric) peerMAC(a *adjacency) [6]byte {
	m := a.mac
	m[1] ^= 1
	return m
}

func (f *Fabric) installRoutes(i int) error {
	nd := &f.nodes[i]
	b := nd.conn.Batch()
	for d := range f.cfg.Nodes {
		if d == i {
			continue
		}
		hop := f.cfg.NextHop(core.NodeID(i), core.NodeID(d))
		if hop == core.None {
			continue
		}
		k, ok := nd.at[hop]
		if !ok {
			return fmt.Errorf("route of node %d to %d goes over %d, which is no neighbour", i, d, hop)
		}
		nd.via[d] = uint16(k + 1)
		f.route(b, kernel.AddRoute, i, d)
	}
	return b.Flush()
}

// route adds the route that via holds.
func (f *Fabric) route(b *kernel.Batch, mode kernel.RouteMode, src, dst int) {
	nd := &f.nodes[src]
	a := &nd.adj[nd.via[dst]-1]
	b.Route(mode, Addr(core.NodeID(dst)), Addr(a.peer), Addr(core.NodeID(src)), a.index)
}

// Namespace returns the namespace of a node; it stays the fabric's. It is nil
// for a node that does not exist.
func (f *Fabric) Namespace(n core.NodeID) *netns.Handle {
	if n < 0 || int(n) >= len(f.nodes) {
		return nil
	}
	return f.nodes[n].ns
}

// Wire returns the namespace in which the relay's ends are.
func (f *Fabric) Wire() *netns.Handle { return f.wire }
