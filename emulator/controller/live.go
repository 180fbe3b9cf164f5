package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/fabric"
	"churnbed/emulator/live"
	"churnbed/node/eventlog"
	"churnbed/workloads"
)

// lookEvery is how fresh the picture is kept while somebody looks at it.
const lookEvery = 25 * time.Millisecond

// hands is the part of a run by which people see and change it while it runs.
type hands struct {
	picture *live.Picture
	server  *live.Server
	looked  time.Time
	origin  string        // of what is being done: eventlog.Live, or ""
	orders  int           // actions so far
	over    chan struct{} // closed when nobody carries out orders any more
}

// order is an action on its way to the loop.
type order struct {
	action string
	done   chan<- ordered
}

type ordered struct {
	text string
	err  error
}

// noted is something worth a line, on its way to the loop.
type noted struct {
	verb, text string
	node       uint32
}

// openHands registers the run. One that cannot be registered runs unseen.
func (c *controller) openHands() {
	t := c.sc.Topology
	info := live.Info{
		Name: filepath.Base(c.run_.Dir), Dir: c.run_.Dir, PID: os.Getpid(), Started: time.Now(), Fabric: c.opt.Fabric,
		Algorithm: c.sc.Algorithm.Name, Membership: c.sc.Membership.Service, Seed: c.sc.Seed, TimeScale: c.sc.TimeScale, Groups: c.groups(),
		Positions: make([][2]float64, len(t.Nodes)),
	}
	for i := range t.Nodes {
		info.Positions[i] = [2]float64{t.Nodes[i].X, t.Nodes[i].Y}
	}
	links := make([][2]int, len(t.Links))
	for i, l := range t.Links {
		links[i] = [2]int{int(l.A), int(l.B)}
	}
	c.hands.picture = live.NewPicture(info, links)
	var err error
	if c.hands.server, err = live.Serve(c.hands.picture, actor{c}, c.opt.Page); err != nil {
		c.opt.Log.Warn("nobody can look at the run", "error", err)
	}
}

// closeHands makes the run unseen, after the loop has ended.
func (c *controller) closeHands() {
	close(c.hands.over)
	if c.hands.server != nil {
		c.hands.server.Close()
	}
}

// look brings the picture up to date: when that is due, or now.
func (c *controller) look(now bool) {
	h := &c.hands
	if !now && (!h.picture.Watched() || time.Since(h.looked) < lookEvery) {
		return
	}
	h.looked = time.Now()
	p := &c.progress
	f := live.Figures{
		Phase: string(p.Phase), ElapsedMS: milliseconds(p.Elapsed), Served: p.Served, Requests: p.Requests, Kills: p.Kills, Restarts: p.Restarts,
	}
	states := make([]live.Node, len(c.nodes))
	for i, n := range c.nodes {
		s := &states[i]
		s.ID, s.Life, s.Entries, s.State, s.Leads = i, n.inc.Start(), n.entries, n.shown(), n.leads
		if n.alive && n.leads != "" {
			f.Leaders++
		}
		if n.alive {
			f.Up++
		}
		switch s.State {
		case live.Waiting:
			f.Waiting++
		case live.Holding:
			f.Holding++
		}
	}
	h.picture.SetNodes(states, f)
}

// shown is the state of a node for people.
func (n *node) shown() string {
	switch {
	case !n.alive:
		return live.Down
	case n.paused:
		return live.Paused
	case n.standing().Holds:
		return live.Holding
	case n.standing().Waits:
		return live.Waiting
	case !n.joined:
		return live.Joining
	}
	return live.Idle
}

// lookAtLinks brings the links of the picture up to date.
func (c *controller) lookAtLinks() {
	links := make([]live.Link, len(c.mesh.Links))
	for i := range c.mesh.Links {
		l := &c.mesh.Links[i]
		links[i] = live.Link{A: int(l.A), B: int(l.B), Up: l.Up, Text: l.Describe()}
	}
	c.hands.picture.SetLinks(links)
}

// happened tells onlookers of a line of the log.
func (c *controller) happened(e *eventlog.Event) {
	var text string
	switch e.Kind {
	case eventlog.Kill, eventlog.Restart, eventlog.Pause, eventlog.Resume, eventlog.Leave:
		text = fmt.Sprintf("%s node %d", e.Verb, e.Node)
		if e.State != "" {
			text += " (" + e.State + ")"
		}
	case eventlog.LinkSet:
		text = fmt.Sprintf("link %s %s", e.Link, e.Text)
	case eventlog.Exited:
		text = fmt.Sprintf("node %d ended: %s", e.Node, e.Text)
	case eventlog.Fault:
		text = "by hand: " + e.Text
	case eventlog.Note:
		text = strings.TrimSpace(e.Verb + " " + e.Text)
	case eventlog.Epoch:
		text = "the workload begins"
	case eventlog.Interrupt, eventlog.End:
		text = "the run ends"
	default:
		return
	}
	if c.hands.picture != nil {
		c.hands.picture.Add(live.Entry{AtMS: float64(e.T-int64(c.epoch)) / 1e6, Text: text, Live: e.Origin == eventlog.Live})
	}
}

// actor is the controller as people reach it; its methods are called by the
// server's goroutines and go through the loop.
type actor struct{ c *controller }

var errEnding = errors.New("the run is ending: it takes no more actions")

// send brings an event to the loop.
func (a actor) send(ctx context.Context, e any) error {
	select {
	case a.c.events <- e:
		return nil
	case <-a.c.hands.over:
		return errEnding
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Act implements live.Actor.
func (a actor) Act(ctx context.Context, action string) (string, error) {
	done := make(chan ordered, 1)
	if err := a.send(ctx, &order{action, done}); err != nil {
		return "", err
	}
	select {
	case r := <-done:
		return r.text, r.err
	case <-a.c.hands.over:
		return "", errEnding
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Note implements live.Actor.
func (a actor) Note(verb string, node uint32, text string) {
	// What comes too late to be logged concerns a run that is over.
	_ = a.send(context.Background(), &noted{verb, text, node})
}

// Hands implements live.Actor.
func (a actor) Hands() controlpb.HandsClient { return a.c.box.Hands }

// obey carries out an action, or says why not. Between start and epoch it
// waits for the epoch, from which instants count.
func (c *controller) obey(life context.Context, o *order) {
	if c.began && c.now() < c.epoch {
		c.schedule.add(c.epoch, func(life context.Context) { c.obey(life, o) })
		return
	}
	text, err := c.act(life, o.action)
	c.look(true)
	o.done <- ordered{text, err}
}

func (c *controller) act(life context.Context, action string) (string, error) {
	switch {
	case c.progress.Phase == Ending:
		return "", errEnding
	case !c.began:
		return "", errors.New("the nodes have not joined yet: `churnbed ps` tells when the run is \"running\"")
	}
	rule, err := workloads.ParseFault("at 0s " + action)
	if err != nil {
		return "", fmt.Errorf("%q: %w", action, reckoned(err))
	}
	c.hands.orders++
	// Rules of the scenario draw from the streams of their numbers, which are
	// positive.
	faults, err := rule.Expand(c.sc.FaultTarget(), c.sc.Seed, -c.hands.orders)
	if err != nil {
		return "", errors.Unwrap(err) // its own words name an instant
	}
	if rule.Set.Burst != nil && c.opt.Fabric == fabric.KindNetem {
		return "", errors.New("burst loss needs the relay (run --fabric relay)")
	}
	if err := c.sc.CheckFaults(faults); err != nil {
		return "", err
	}
	if err := c.futile(faults[0]); err != nil {
		return "", err
	}
	if rule.Nodes.Role == "" && (rule.Nodes.Count > 0 || rule.Nodes.Percent > 0) && rule.Action != workloads.Churn {
		rule.Nodes = workloads.NodeSet{} // what was drawn, so that it can be done again
		for _, n := range faults[0].Nodes {
			rule.Nodes.Items = append(rule.Nodes.Items, workloads.NodeItem{First: n, Last: n})
		}
	}
	said := strings.TrimPrefix(rule.String(), "at 0s ")
	at := c.now()
	for i := range faults {
		do := func(life context.Context) {
			c.hands.origin = eventlog.Live
			c.strike(life, faults[i:i+1])
			c.hands.origin = ""
		}
		if faults[i].At == 0 {
			do(life)
		} else {
			c.schedule.add(at.Add(faults[i].At), do)
		}
	}
	after := c.now()
	c.write(&eventlog.Event{
		T: int64(at), After: int64(after), Kind: eventlog.Fault, Node: -1, Verb: string(rule.Action), Text: said, Origin: eventlog.Live,
	})
	text := fmt.Sprintf("%s at %.3f s, done in %.1f ms", said, at.Sub(c.epoch).Seconds(), milliseconds(after.Sub(at)))
	if n := len(c.waiting); n > 0 && faults[0].Role != "" && c.waiting[n-1].fault.Role == faults[0].Role {
		text = fmt.Sprintf("%s: nobody is %s now; it strikes whoever is first, within %v", said, faults[0].Role, workloads.RolePatience)
	}
	return text, nil
}

// reckoned takes off what stands before the action.
func reckoned(err error) error {
	var syntax *workloads.SyntaxError
	if errors.As(err, &syntax) {
		return errors.New(syntax.Msg)
	}
	return err
}

// futile says why an action on known nodes would do nothing.
func (c *controller) futile(f workloads.Fault) error {
	if f.Role != "" || len(f.Nodes) == 0 {
		return nil
	}
	var works func(*node) bool
	why := ""
	switch f.Verb {
	case workloads.Crash, workloads.Leave:
		works, why = func(n *node) bool { return n.alive }, "down already (churnbed restart starts it again)"
	case workloads.Poweroff:
		works, why = func(n *node) bool { return n.alive || !c.mesh.Off(n.id) }, "off already (churnbed restart starts it again)"
	case workloads.Pause:
		works, why = func(n *node) bool { return n.alive && !n.paused }, "paused or down already"
	case workloads.Resume:
		works, why = func(n *node) bool { return n.paused }, "not paused"
	case workloads.Restart, workloads.Join:
		works, why = func(n *node) bool { return !n.alive || n.leaving }, "running (churnbed kill ends it)"
	case workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Set, workloads.Trigger:
		return nil
	}
	for _, id := range f.Nodes {
		if works(c.nodes[id]) {
			return nil
		}
	}
	if len(f.Nodes) == 1 {
		return fmt.Errorf("node %d is %s", f.Nodes[0], why)
	}
	return fmt.Errorf("none of these %d nodes can be: each is %s", len(f.Nodes), why)
}

// note logs that somebody laid hands on a node.
func (c *controller) note(n *noted) {
	c.write(&eventlog.Event{
		T: int64(c.now()), Kind: eventlog.Note, Node: -1, Verb: n.verb, Origin: eventlog.Live,
		Text: strings.TrimSpace(fmt.Sprintf("node %d %s", n.node, n.text)),
	})
}

// groups is how many groups of devices the run has.
func (c *controller) groups() int {
	if c.sc.Group == nil {
		return 0
	}
	return c.sc.Group.Groups()
}
