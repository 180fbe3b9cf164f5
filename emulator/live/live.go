// Package live is how people see a run while it goes on, and lay hands on it:
// a picture of the run that the controller keeps up to date, the control
// socket by which other commands find it, and the page of `run --live`.
//
// Readers ask the picture for what changed since they last asked. So nothing
// is queued for anybody, and a reader that is slow, or stands still, costs the
// run nothing and sees the newest state when it comes back.
//
// The control socket is an abstract unix socket, "@churnbed/UID/PID/NAME". It
// has no file: whatever becomes of the controller, nothing is left. It has no
// mode either; in its place both ends ask the kernel who the other is, and
// talk to processes of their own user only (SO_PEERCRED). Abstract sockets
// belong to a network namespace, so nodes of the mesh cannot reach it.
//
// It is not a judge: what the picture shows of safety is what nodes reported,
// late as reports are. A Picture may be used from any goroutine.
package live

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// States of a node as shown.
const (
	Down    = "down" // no process
	Joining = "joining"
	Idle    = "idle"
	Waiting = "waiting"
	Holding = "holding"
	Paused  = "paused"
)

// Info is what does not change during a run.
type Info struct {
	Name       string       `json:"name"` // of the run: its directory's
	Dir        string       `json:"dir"`  // absolute
	PID        int          `json:"pid"`  // of the controller
	Started    time.Time    `json:"started"`
	Fabric     string       `json:"fabric"`
	Algorithm  string       `json:"algorithm"`
	Membership string       `json:"membership"`
	Seed       uint64       `json:"seed"`
	TimeScale  float64      `json:"time_scale"`
	Positions  [][2]float64 `json:"positions"` // metres, by node
	// Groups is how many groups of devices there are; 0: no k-groups. Where
	// there are, a node that holds runs a routine that holds a device's lock,
	// one that waits runs a routine that waits for one, and Served and Entries
	// count routines that were seen through.
	Groups int `json:"groups,omitempty"`
}

// Figures are the numbers of a run. Times are scenario time, rates a second
// of it.
type Figures struct {
	Phase     string  `json:"phase"` // wiring, starting, running, ending
	ElapsedMS float64 `json:"elapsed_ms"`
	Served    int     `json:"served"`
	Requests  int     `json:"requests"` // 0: not known beforehand
	Up        int     `json:"up"`
	Waiting   int     `json:"waiting"`
	Holding   int     `json:"holding"`
	Leaders   int     `json:"leaders,omitempty"` // nodes that serve groups
	Kills     int     `json:"kills"`
	Restarts  int     `json:"restarts"`
	// Of the last seconds. Messages come from counters that nodes write every
	// few seconds.
	ServedRate  float64 `json:"served_rate"`
	MessageRate float64 `json:"message_rate"`
	ChurnRate   float64 `json:"churn_rate"`   // kills a minute
	MembersMean float64 `json:"members_mean"` // length of membership lists; 0: not known
	MembersMin  int     `json:"members_min"`
}

// Node is what is shown of a node.
type Node struct {
	ID      int    `json:"id"`
	State   string `json:"state"`
	Life    int    `json:"life"`            // number of its process start, from 1; 0: never started
	Entries int    `json:"entries"`         // into the critical section, all lives
	Members int    `json:"members"`         // length of its membership list; 0: not known
	Leads   string `json:"leads,omitempty"` // the groups that it serves, "0 3"
}

// Link is what is shown of a link, A < B.
type Link struct {
	A    int    `json:"a"`
	B    int    `json:"b"`
	Up   bool   `json:"up"`
	Text string `json:"text"` // its parameters
}

// Entry is one line of what happened lately.
type Entry struct {
	AtMS float64 `json:"at_ms"` // after the epoch, scenario time
	Text string  `json:"text"`
	Live bool    `json:"live"` // done by hand
}

// View is the picture, or what changed of it since Since.
type View struct {
	Rev     uint64  `json:"rev"`
	Since   uint64  `json:"since"` // 0: everything
	Info    *Info   `json:"info,omitempty"`
	Figures Figures `json:"figures"`
	Nodes   []Node  `json:"nodes,omitempty"`
	Links   []Link  `json:"links,omitempty"`
	Log     []Entry `json:"log,omitempty"`
}

// maxLog bounds the lines that a picture keeps.
const maxLog = 200

// Picture is the present state of a run for those who look at it.
type Picture struct {
	watchers atomic.Int32

	mu      sync.Mutex
	rev     uint64
	info    Info
	figures Figures
	figured uint64 // revision of figures
	nodes   []Node
	nodeRev []uint64
	links   []Link
	linkRev []uint64
	log     []Entry // newest last
	logRev  []uint64
}

// NewPicture returns the picture of a run that has not begun.
func NewPicture(info Info, links [][2]int) *Picture {
	p := &Picture{
		info: info, rev: 1, figured: 1,
		nodes: make([]Node, len(info.Positions)), nodeRev: make([]uint64, len(info.Positions)),
		links: make([]Link, len(links)), linkRev: make([]uint64, len(links)),
	}
	for i := range p.nodes {
		p.nodes[i], p.nodeRev[i] = Node{ID: i, State: Down}, 1
	}
	for i, l := range links {
		p.links[i], p.linkRev[i] = Link{A: l[0], B: l[1], Up: true}, 1
	}
	return p
}

// Info returns what does not change.
func (p *Picture) Info() Info { return p.info }

// Watched reports whether anybody looks.
func (p *Picture) Watched() bool { return p.watchers.Load() > 0 }

// watch counts a reader in; the function counts it out.
func (p *Picture) watch() func() {
	p.watchers.Add(1)
	return func() { p.watchers.Add(-1) }
}

// SetNodes takes in the states of all nodes, and Figures but for what the
// reader of the logs adds. Members are left as they are.
func (p *Picture) SetNodes(states []Node, f Figures) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.rev + 1
	changed := false
	for i := range states {
		n := states[i]
		n.Members = p.nodes[i].Members
		if n.State == Down {
			n.Members = 0
		}
		if n != p.nodes[i] {
			p.nodes[i], p.nodeRev[i], changed = n, next, true
		}
	}
	f.ServedRate, f.MessageRate, f.ChurnRate = p.figures.ServedRate, p.figures.MessageRate, p.figures.ChurnRate
	f.MembersMean, f.MembersMin = p.figures.MembersMean, p.figures.MembersMin
	if f != p.figures {
		p.figures, p.figured, changed = f, next, true
	}
	if changed {
		p.rev = next
	}
}

// SetLinks takes in the states of all links.
func (p *Picture) SetLinks(links []Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.rev + 1
	for i := range links {
		if links[i] != p.links[i] {
			p.links[i], p.linkRev[i], p.rev = links[i], next, next
		}
	}
}

// Add adds a line to what happened.
func (p *Picture) Add(e Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rev++
	p.log, p.logRev = append(p.log, e), append(p.logRev, p.rev)
	if n := len(p.log) - maxLog; n > 0 {
		p.log, p.logRev = slices.Delete(p.log, 0, n), slices.Delete(p.logRev, 0, n)
	}
}

// setRates takes in what the reader of the logs found.
func (p *Picture) setRates(served, messages, churn float64, members []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rev++
	f := &p.figures
	f.ServedRate, f.MessageRate, f.ChurnRate = served, messages, churn
	f.MembersMean, f.MembersMin = 0, 0
	sum, known := 0, 0
	for i, size := range members {
		n := &p.nodes[i]
		if n.State == Down || size == 0 {
			continue
		}
		if n.Members != size {
			n.Members, p.nodeRev[i] = size, p.rev
		}
		sum += size
		known++
		if f.MembersMin == 0 || size < f.MembersMin {
			f.MembersMin = size
		}
	}
	if known > 0 {
		f.MembersMean = float64(sum) / float64(known)
	}
	p.figured = p.rev
}

// Figures returns the present numbers.
func (p *Picture) Figures() Figures {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.figures
}

// View returns what changed since revision since; everything since 0.
func (p *Picture) View(since uint64) View {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := View{Rev: p.rev, Since: since, Figures: p.figures}
	if since == 0 {
		info := p.info
		v.Info = &info
	}
	for i, rev := range p.nodeRev {
		if rev > since {
			v.Nodes = append(v.Nodes, p.nodes[i])
		}
	}
	for i, rev := range p.linkRev {
		if rev > since {
			v.Links = append(v.Links, p.links[i])
		}
	}
	from, _ := slices.BinarySearchFunc(p.logRev, since+1, cmp.Compare[uint64])
	v.Log = slices.Clone(p.log[from:])
	return v
}

// Merge brings a reader's full view up to date with what changed.
func (v *View) Merge(d *View) {
	v.Rev, v.Figures = d.Rev, d.Figures
	if d.Since == 0 {
		*v = *d
		return
	}
	for _, n := range d.Nodes {
		if n.ID < len(v.Nodes) {
			v.Nodes[n.ID] = n
		}
	}
	for _, l := range d.Links {
		if i := slices.IndexFunc(v.Links, func(o Link) bool { return o.A == l.A && o.B == l.B }); i >= 0 {
			v.Links[i] = l
		}
	}
	v.Log = append(v.Log, d.Log...)
	if n := len(v.Log) - maxLog; n > 0 {
		v.Log = slices.Delete(v.Log, 0, n)
	}
}
