package script

import (
	"fmt"
	"math/rand/v2"

	"churnbed/node/core"
	"churnbed/node/mutex"
)

// WalkConfig says how wild a random walk is.
type WalkConfig struct {
	Algorithm string
	Nodes     int
	NUpper    int // 0 = Nodes
	Steps     int
	// Listed is the probability that a node lists another at its start.
	Listed float64
	// Crashes bounds crashes and leaves; the others are per-step weights.
	Crashes    int
	Duplicates bool
	Lists      bool // lists gain and lose entries, also live nodes
	Fences     bool
}

// WalkResult is what a walk came to.
type WalkResult struct {
	Violation string
	// Waiting are the requests unserved after everybody was restarted and
	// listed by everybody, and the network delivered everything; -1 where the
	// walk ended in a violation or too few nodes remembered (all amnesiac).
	Waiting int
	Entries int
	Trace   []string
}

// Walk runs one random schedule: the next message, crash, restart, list change
// or tick is drawn at random. Datagrams get lost; reliable messages are
// delayed for any time, and are lost only with the process that sent them.
//
// A live node that a peer's list loses may be given a silent OK only after it
// has left (ALGORITHMS 2.4): before such a peer gets a Tick, the node is
// fenced, if it waits or holds.
func Walk(seed uint64, cfg WalkConfig) WalkResult {
	w := newWalker(seed, cfg)
	for range cfg.Steps {
		w.step()
		if v := w.net.Violation(); v != "" {
			w.say("%s", v)
			return WalkResult{Violation: v, Waiting: -1, Entries: w.entries(), Trace: w.trace}
		}
	}
	waiting := w.settle()
	return WalkResult{Violation: w.net.Violation(), Waiting: waiting, Entries: w.entries(), Trace: w.trace}
}

type walker struct {
	cfg     WalkConfig
	rng     *rand.Rand
	net     *Net
	crashes int
	left    []bool // the last life left gracefully
	// lost[p][k] is the life of k that p's list lost without it being listed
	// again, 0 for none.
	lost  [][]core.Incarnation
	trace []string
}

func newWalker(seed uint64, cfg WalkConfig) *walker {
	if cfg.NUpper == 0 {
		cfg.NUpper = cfg.Nodes
	}
	mk, err := Algorithm(cfg.Algorithm, cfg.NUpper)
	if err != nil {
		panic(err)
	}
	w := &walker{
		cfg: cfg, rng: core.Stream(seed, "mutex/walk"), net: NewNet(cfg.Nodes, mk),
		left: make([]bool, cfg.Nodes), lost: make([][]core.Incarnation, cfg.Nodes),
	}
	if w.net.Permits, err = permits(cfg.Algorithm); err != nil {
		panic(err)
	}
	w.net.Trace = func(s string) { w.say("  %s", s) }
	for k := range cfg.Nodes {
		w.lost[k] = make([]core.Incarnation, cfg.Nodes)
		w.net.Nodes[k].Peer.Inc = 0
	}
	for k := range cfg.Nodes {
		w.net.Start(k, w.list())
	}
	return w
}

func (w *walker) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *walker) entries() int {
	n := 0
	for _, x := range w.net.Nodes {
		n += x.Entries
	}
	return n
}

// list draws a membership list.
func (w *walker) list() []int {
	var list []int
	for j := range w.cfg.Nodes {
		if w.rng.Float64() < w.cfg.Listed {
			list = append(list, j)
		}
	}
	return list
}

func (w *walker) step() {
	k := w.rng.IntN(w.cfg.Nodes)
	x := &w.net.Nodes[k]
	switch d := w.rng.IntN(100); {
	case d < 62:
		w.deliver()
	case d < 66:
		w.disturb()
	case d < 78:
		w.useSection(k)
	case d < 82:
		if x.Up {
			w.crash(k)
		} else {
			w.say("> restart p%d", k)
			w.restart(k, w.list())
		}
	case d < 92:
		w.changeList(k)
	case d < 93:
		if w.cfg.Fences && x.Up {
			w.say("> fence p%d", k)
			w.net.Fence(k)
		}
	default:
		w.tick(k)
	}
}

func (w *walker) deliver() {
	if len(w.net.Flight) == 0 {
		return
	}
	i := w.rng.IntN(len(w.net.Flight))
	if e := w.net.Flight[i]; w.net.Nodes[e.To].Up {
		w.say("> deliver %v", e)
		w.net.Deliver(i)
	}
}

// disturb duplicates a message, or loses one that may be lost.
func (w *walker) disturb() {
	if len(w.net.Flight) == 0 {
		return
	}
	i := w.rng.IntN(len(w.net.Flight))
	e := w.net.Flight[i]
	sender := w.net.Nodes[e.From.ID]
	dead := !sender.Up || sender.Peer.Inc.Start() != e.From.Inc.Start()
	switch {
	case e.Mode == core.Datagram || dead:
		w.say("> drop %v", e)
		w.net.Take(i)
	case w.cfg.Duplicates && len(w.net.Flight) < 60:
		w.say("> dup %v", e)
		w.net.Flight = append(w.net.Flight, e)
	}
}

func (w *walker) useSection(k int) {
	x := w.net.Nodes[k]
	if !x.Up {
		return
	}
	switch x.Machine.State() {
	case mutex.None:
		w.say("> enter p%d", k)
		w.net.Step(k, mutex.Enter{})
	case mutex.Held:
		if w.rng.IntN(3) == 0 {
			w.say("> exit p%d", k)
			w.net.Step(k, mutex.Exit{})
		}
	case mutex.Wait:
	}
}

func (w *walker) crash(k int) {
	remember := 0
	for i, x := range w.net.Nodes {
		if i != k && x.Up && !x.Amnesiac {
			remember++
		}
	}
	if w.crashes >= w.cfg.Crashes || remember < w.cfg.NUpper-w.cfg.NUpper/2 && w.rng.IntN(8) > 0 {
		return
	}
	w.crashes++
	w.left[k] = w.net.Nodes[k].Machine.State() == mutex.None && w.rng.IntN(4) == 0
	w.say("> crash p%d (left %v)", k, w.left[k])
	w.net.Crash(k)
}

func (w *walker) restart(k int, list []int) {
	clear(w.lost[k])
	w.left[k] = false
	var members []core.Peer
	for _, j := range list {
		p := w.net.Nodes[j].Peer
		if p.Inc.Start() > 1 && w.rng.IntN(2) == 0 {
			p.Inc -= core.IncarnationStep // whoever gave it the list had not heard
		}
		if j != k {
			members = append(members, p)
		}
	}
	w.net.StartWith(k, members)
}

// changeList tells node k something about another: that it is there (perhaps
// of an older life), or that a life of it failed, which may be false.
func (w *walker) changeList(k int) {
	j := w.rng.IntN(w.cfg.Nodes)
	x, q := w.net.Nodes[k], w.net.Nodes[j]
	if j == k || !x.Up {
		return
	}
	p := q.Peer
	if w.rng.IntN(4) == 0 && p.Inc > core.FirstIncarnation+core.IncarnationStep {
		p.Inc -= core.IncarnationStep // old news
	}
	dead := !q.Up || p.Inc.Start() < q.Peer.Inc.Start()
	switch {
	case w.rng.IntN(2) == 0:
		if w.cfg.Lists || !dead {
			w.say("> up p%d %v", k, p)
			if p.Inc.Start() >= w.lost[k][j].Start() {
				w.lost[k][j] = 0
			}
			w.net.Step(k, mutex.MemberUp{Peer: p})
		}
	case dead || w.cfg.Lists:
		left := w.left[j] && !q.Up && p.Inc == q.Peer.Inc
		w.say("> down p%d %v (left %v)", k, p, left)
		w.lost[k][j] = max(w.lost[k][j], p.Inc)
		w.net.Step(k, mutex.MemberDown{Peer: p, Left: left})
	}
}

// tick lets time pass until node k wants its Tick.
func (w *walker) tick(k int) {
	x := w.net.Nodes[k]
	if !x.Up || x.Machine.Deadline() == core.Never {
		return
	}
	for j, inc := range w.lost[k] {
		q := w.net.Nodes[j]
		if inc != 0 && q.Up && inc.Start() == q.Peer.Inc.Start() && q.Machine.State() != mutex.None {
			w.say("> fence p%d, which p%d gives up", j, k)
			w.net.Fence(j)
		}
	}
	if m, ok := x.Machine.(interface {
		Suspects(list []core.Peer) []core.Peer
	}); ok {
		for _, p := range m.Suspects(nil) { // those that its own probes found silent
			if q := w.net.Nodes[p.ID]; q.Up && p.Inc.Start() == q.Peer.Inc.Start() && q.Machine.State() != mutex.None {
				w.say("> fence p%d, which p%d gives up", p.ID, k)
				w.net.Fence(int(p.ID))
			}
		}
	}
	w.net.Now = max(w.net.Now, x.Machine.Deadline())
	w.say("> tick p%d at %v", k, w.net.Now)
	w.net.Tick(k)
}

// settle ends all trouble and reports how many requests stay unserved.
func (w *walker) settle() int {
	w.say("> settle")
	all := make([]int, w.cfg.Nodes)
	remember := 0
	for k := range all {
		all[k] = k
		if x := w.net.Nodes[k]; x.Up && !x.Amnesiac {
			remember++
		}
	}
	for k, x := range w.net.Nodes {
		if !x.Up {
			w.restart(k, all)
		}
	}
	for k := range all {
		for j := range all {
			if j != k {
				w.net.Step(k, mutex.MemberUp{Peer: w.net.Nodes[j].Peer})
			}
		}
	}
	waiting := w.net.Finish(200)
	if remember < w.cfg.NUpper-w.cfg.NUpper/2 || w.net.Violation() != "" {
		return -1
	}
	return len(waiting)
}
