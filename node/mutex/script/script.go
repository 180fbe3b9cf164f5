package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"churnbed/node/core"
	"churnbed/node/mutex"
	"churnbed/node/mutex/bv95"
	"churnbed/node/mutex/camera"
	"churnbed/node/mutex/camerapaper"
	"churnbed/node/mutex/catalog"
	"churnbed/node/mutex/fairk"
	"churnbed/node/mutex/maekawa"
	"churnbed/node/mutex/naimitrehel"
	"churnbed/node/mutex/ra"
	"churnbed/node/wire"
)

// suspicionWait is that of every machine that a name of Algorithm makes.
const suspicionWait = 10 * time.Second

// probeTimeout is that of camera.
const probeTimeout = 8 * time.Second

// withoutNames are the readings of maekawa that lack a safeguard.
var withoutNames = map[string]maekawa.Safeguard{
	"without-displaced": maekawa.Displaced, "without-failed": maekawa.Failed, "without-inquiry": maekawa.Inquiry,
	"without-early": maekawa.Early, "without-rounds": maekawa.Rounds, "without-hold": maekawa.Hold,
}

// Algorithm makes machines by name: ra, camera-paper, camera, maekawa-basic,
// maekawa, or any of node/mutex/catalog, with readings added by "+" (ra+ignore-ids; camera-paper+snapshot,
// +release-by-id, +wake-later; maekawa+without-displaced, the algorithm before the
// correction of 1987, and without other safeguards, see withoutNames), for at
// most nUpper nodes. With +no-wait, which all know, a detected failure gives
// the silent OK at the next Tick; camera+fast-only takes no slow path,
// camera+durable keeps its state over a crash, camera+estimated waits to be told the bound,
// camera+impatient takes it as soon as grants are missing, and
// camera+without-un-ask, and so on, lacks a safeguard of the package camera;
// with camera+in-parts a message names one node at most.
// The token algorithms naimi-trehel, bv95 and fairk take +without-ids, bv95
// also +last (tree choice), the latter two +kN: N tokens, of which the nodes 0
// to N-1 have one each at the start.
func Algorithm(name string, nUpper int) (Make, error) {
	base, rest, _ := strings.Cut(name, "+")
	with := map[string]bool{}
	if rest != "" {
		for o := range strings.SplitSeq(rest, "+") {
			with[o] = true
		}
	}
	take := func(o string) bool {
		was := with[o]
		delete(with, o)
		return was
	}
	wait := suspicionWait
	if take("no-wait") {
		wait = 0
	}
	var mk Make
	switch base {
	case "ra":
		cfg := ra.Config{IgnoreIDs: take("ignore-ids")}
		mk = func(self core.Peer) mutex.Machine { return ra.New(self, cfg) }
	case "camera-paper":
		cfg := camerapaper.Config{
			SuspicionWait: wait,
			Snapshot:      take("snapshot"), ReleaseByID: take("release-by-id"), WakeLater: take("wake-later"),
		}
		mk = func(self core.Peer) mutex.Machine { return camerapaper.New(self, cfg) }
	case "camera":
		cfg := camera.Config{
			NUpper: nUpper, SuspicionWait: wait, Probe: camera.Probe{Timeout: probeTimeout},
			Slow: camera.Slow{On: !take("fast-only")},
		}
		cfg.Durable = take("durable")
		if take("estimated") {
			cfg.NUpper, cfg.Estimated = 1, true
		}
		if take("impatient") {
			cfg.Slow.Patience = -1
		}
		if take("in-parts") {
			cfg.MaxMessage = 1
		}
		for o := range strings.SplitSeq(rest, "+") {
			if name, ok := strings.CutPrefix(o, "without-"); ok {
				s, err := camera.ParseSafeguard(name)
				if err != nil {
					return nil, fmt.Errorf("make machines of %q: %w", name, err)
				}
				cfg.Without |= s
				take(o)
			}
		}
		mk = func(self core.Peer) mutex.Machine { return camera.New(self, cfg) }
	case "maekawa", "maekawa-basic":
		cfg := maekawa.Config{Basic: base == "maekawa-basic"}
		for o, s := range withoutNames {
			if !cfg.Basic && take(o) {
				cfg.Without |= s
			}
		}
		mk = func(self core.Peer) mutex.Machine { return maekawa.New(self, cfg) }
	case "naimi-trehel", "bv95", "fairk":
		k, err := permits(name)
		if err != nil {
			return nil, err
		}
		take("k" + strconv.Itoa(k))
		copies := 0
		for p := 1; p <= 4 && base == "fairk" && copies == 0; p++ {
			if take("p" + strconv.Itoa(p)) {
				copies = p
			}
		}
		if copies > 0 {
			if copies >= nUpper {
				return nil, fmt.Errorf("make machines of %q: %d copies at %d nodes", name, copies, nUpper)
			}
			take("no-wait") // it waits for no list
			mk = ringMachine(k, copies, nUpper, take("without-fence"))
			break
		}
		mk = tokenMachine(base, k, take)
	default:
		entry, ok := catalog.Find(base)
		if !ok {
			return nil, fmt.Errorf("make machines of %q: unknown algorithm; want camera, camera-paper, naimi-trehel, fairk, bv95, %s", name, strings.Join(catalog.Names(), ", "))
		}
		mk = entry.New
	}
	if len(with) > 0 {
		return nil, fmt.Errorf("make machines of %q: unknown reading", name)
	}
	return mk, nil
}

// permits is how many nodes a named algorithm lets in at a time: N of +kN.
func permits(name string) (int, error) {
	base, rest, _ := strings.Cut(name, "+")
	for o := range strings.SplitSeq(rest, "+") {
		digits, ok := strings.CutPrefix(o, "k")
		if k, err := strconv.Atoi(digits); ok && err == nil {
			if k < 1 || k > wire.MaxTokens || k > 1 && base != "bv95" && base != "fairk" {
				return 0, fmt.Errorf("tokens of %q: want +k1 to +k%d, of bv95 or fairk", name, wire.MaxTokens)
			}
			return k, nil
		}
	}
	return 1, nil
}

// ringMachine makes machines of fault-tolerant fairk.
func ringMachine(k, copies, nodes int, noFence bool) Make {
	cfg := fairk.TolerantConfig{Nodes: nodes, Copies: copies, Period: time.Second, NoFence: noFence}
	for i := range k {
		cfg.Placement = append(cfg.Placement, core.NodeID(i))
	}
	return func(self core.Peer) mutex.Machine { return fairk.NewTolerant(self, cfg) }
}

// tokenMachine makes machines of a token algorithm.
func tokenMachine(base string, k int, take func(string) bool) Make {
	noIDs := take("without-ids")
	var placement []core.NodeID
	for i := range k {
		placement = append(placement, core.NodeID(i))
	}
	switch base {
	case "naimi-trehel":
		return func(self core.Peer) mutex.Machine {
			return naimitrehel.New(self, naimitrehel.Config{NoIDs: noIDs})
		}
	case "bv95":
		choice := bv95.Load
		if take("last") {
			choice = bv95.Last
		}
		return func(self core.Peer) mutex.Machine {
			return bv95.New(self, bv95.Config{Roots: placement, Choice: choice, NoIDs: noIDs})
		}
	}
	return func(self core.Peer) mutex.Machine {
		return fairk.New(self, fairk.Config{Placement: placement, NoIDs: noIDs})
	}
}

// Run executes a schedule with the named algorithm and returns what happened.
// A schedule has one command a line; nodes are p0, p1, ...:
//
//	nodes N [LIST...]      first line; LIST is p0:p1,p2 and says whom p0 lists
//	                       at its start (default: everyone)
//	enter P / exit P       the node asks for, or leaves, the critical section
//	deliver P->P KIND [I]  the oldest (or I-th oldest) such message in flight
//	drop P->P KIND [I]     it is lost
//	dup P->P KIND [I]      it is in flight once more
//	crash P                the process dies
//	restart P [P,P...]     a new process, with the list of the start or this
//	up P Q                 P's list gains Q, in Q's present life
//	down P Q / left P Q    P's list loses Q: detected failure, graceful leave
//	bound P N              P's size estimator says that there are at most N
//	fence P                P learns that it was declared failed
//	tick P                 P gets a Tick
//	advance DURATION       time passes; nodes get the Ticks they want
//	finish [TICKS]         deliver everything, let holders exit, time pass:
//	                       at most so many Ticks (default 50)
//
// A command that does not apply (the algorithm took another course) says so in
// the output and changes nothing. The run ends at a violation.
func Run(name, schedule string) (string, error) {
	r := runner{name: name}
	for i, line := range strings.Split(schedule, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		fmt.Fprintf(&r.out, "> %s\n", strings.Join(f, " "))
		if err := r.command(f); errors.Is(err, errNotNow) {
			fmt.Fprintf(&r.out, "  (%v)\n", err)
		} else if err != nil {
			return "", fmt.Errorf("run line %d, %q: %w", i+1, line, err)
		}
		if r.net == nil {
			return "", fmt.Errorf("run line %d, %q: want nodes first", i+1, line)
		}
		if v := r.net.Violation(); v != "" {
			fmt.Fprintf(&r.out, "%s\n", v)
			return r.out.String(), nil
		}
	}
	if r.net == nil {
		return "", errors.New("run schedule: it is empty")
	}
	for i, x := range r.net.Nodes {
		state := "down"
		if x.Up {
			state = x.Machine.State().String()
		}
		fmt.Fprintf(&r.out, "p%d %s entries=%d\n", i, state, x.Entries)
	}
	return r.out.String(), nil
}

var errNotNow = errors.New("does not apply")

type runner struct {
	name  string
	out   strings.Builder
	net   *Net
	lists [][]int
}

func (r *runner) command(f []string) error {
	verb, args := f[0], f[1:]
	if verb == "nodes" {
		return r.nodes(args)
	}
	if r.net == nil {
		return errors.New("want nodes first")
	}
	switch verb {
	case "deliver", "drop", "dup":
		return r.message(verb, args)
	case "advance":
		if len(args) != 1 {
			return errors.New("want a duration")
		}
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return fmt.Errorf("read duration: %w", err)
		}
		r.advance(d)
		return nil
	case "finish":
		ticks := 50
		if len(args) > 0 {
			var err error
			if ticks, err = strconv.Atoi(args[0]); err != nil || ticks < 0 {
				return fmt.Errorf("ticks %q: want 0 or more", args[0])
			}
		}
		if w := r.net.Finish(ticks); len(w) > 0 {
			fmt.Fprintf(&r.out, "  STUCK:")
			for _, k := range w {
				fmt.Fprintf(&r.out, " p%d", k)
			}
			fmt.Fprintln(&r.out)
		}
		return nil
	}
	if len(args) == 0 {
		return errors.New("want a node")
	}
	k, err := r.node(args[0])
	if err != nil {
		return err
	}
	x := &r.net.Nodes[k]
	if x.Up == (verb == "restart") {
		return fmt.Errorf("%w: up is %v", errNotNow, x.Up)
	}
	switch verb {
	case "enter":
		if x.Machine.State() != mutex.None {
			return fmt.Errorf("%w: p%d is %v", errNotNow, k, x.Machine.State())
		}
		r.net.Step(k, mutex.Enter{})
	case "exit":
		if x.Machine.State() != mutex.Held {
			return fmt.Errorf("%w: p%d is %v", errNotNow, k, x.Machine.State())
		}
		r.net.Step(k, mutex.Exit{})
	case "crash":
		r.net.Crash(k)
	case "restart":
		if len(args) > 1 {
			if r.lists[k], err = parseList(len(r.net.Nodes), args[1]); err != nil {
				return err
			}
		}
		r.net.Start(k, r.lists[k])
	case "bound":
		if len(args) != 2 {
			return errors.New("want a node and a number")
		}
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 1 || n > 99 {
			return fmt.Errorf("bound %q: want 1 to 99", args[1])
		}
		r.net.Step(k, mutex.Bound{Nodes: n})
	case "fence":
		r.net.Fence(k)
	case "tick":
		r.net.Tick(k)
	case "up", "down", "left":
		if len(args) != 2 {
			return errors.New("want two nodes")
		}
		j, err := r.node(args[1])
		if err != nil {
			return err
		}
		q := r.net.Nodes[j].Peer
		switch verb {
		case "up":
			r.net.Step(k, mutex.MemberUp{Peer: q})
		default:
			r.net.Step(k, mutex.MemberDown{Peer: q, Left: verb == "left"})
		}
	default:
		return errors.New("unknown command")
	}
	return nil
}

func (r *runner) nodes(args []string) error {
	if len(args) == 0 || r.net != nil {
		return errors.New("want nodes once, and their number")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 || n > 99 {
		return fmt.Errorf("number of nodes %q: want 1 to 99", args[0])
	}
	mk, err := Algorithm(r.name, n)
	if err != nil {
		return err
	}
	r.net = NewNet(n, mk)
	if r.net.Permits, err = permits(r.name); err != nil || r.net.Permits > n {
		return fmt.Errorf("tokens of %q: want at most %d", r.name, n)
	}
	if r.lists, err = ParseLists(n, args[1:]); err != nil {
		return err
	}
	for i := range n {
		r.net.Start(i, r.lists[i])
	}
	r.net.Trace = func(s string) { fmt.Fprintf(&r.out, "  %s\n", s) }
	return nil
}

// ParseLists reads the lists of n nodes, each as p0:p1,p2; a node that is not
// named lists everyone.
func ParseLists(n int, texts []string) ([][]int, error) {
	lists := make([][]int, n)
	for i := range n {
		for j := range n {
			lists[i] = append(lists[i], j)
		}
	}
	for _, a := range texts {
		who, list, _ := strings.Cut(a, ":")
		k, err := parseNode(n, who)
		if err != nil {
			return nil, err
		}
		if lists[k], err = parseList(n, list); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

func parseNode(n int, s string) (int, error) {
	k, err := strconv.Atoi(strings.TrimPrefix(s, "p"))
	if err != nil || !strings.HasPrefix(s, "p") || k < 0 || k >= n {
		return 0, fmt.Errorf("node %q: want p0 to p%d", s, n-1)
	}
	return k, nil
}

func (r *runner) node(s string) (int, error) { return parseNode(len(r.net.Nodes), s) }

func parseList(n int, s string) ([]int, error) {
	var list []int
	if s == "" {
		return nil, nil
	}
	for a := range strings.SplitSeq(s, ",") {
		k, err := parseNode(n, a)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, nil
}

func (r *runner) message(verb string, args []string) error {
	i, err := r.find(args)
	if err != nil {
		return err
	}
	e := r.net.Flight[i]
	switch verb {
	case "drop":
		r.net.Take(i)
	case "dup":
		r.net.Flight = append(r.net.Flight, e)
	default:
		if !r.net.Nodes[e.To].Up {
			return fmt.Errorf("%w: p%d is down", errNotNow, e.To)
		}
		r.net.Deliver(i)
	}
	return nil
}

// find returns which message in flight the words of a command mean.
func (r *runner) find(args []string) (int, error) {
	if len(args) < 2 || len(args) > 3 {
		return 0, errors.New("want a route, a kind and perhaps a number")
	}
	a, b, _ := strings.Cut(args[0], "->")
	from, err := r.node(a)
	if err != nil {
		return 0, err
	}
	to, err := r.node(b)
	if err != nil {
		return 0, err
	}
	nth := 1
	if len(args) == 3 {
		if nth, err = strconv.Atoi(args[2]); err != nil || nth < 1 {
			return 0, fmt.Errorf("number %q: want 1 or more", args[2])
		}
	}
	for i, e := range r.net.Flight {
		if int(e.From.ID) != from || int(e.To) != to || wire.KindName(e.Msg.Kind()) != args[1] {
			continue
		}
		if nth--; nth == 0 {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: no such message", errNotNow)
}

func (r *runner) advance(d time.Duration) {
	end := r.net.Now.Add(d)
	for {
		t, k := r.net.NextDeadline()
		if t > end {
			break
		}
		r.net.Now = max(r.net.Now, t)
		r.net.Tick(k)
	}
	r.net.Now = end
}
