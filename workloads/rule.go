package workloads

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// Rule is one line of the fault language, parsed; ParseFault makes it, String
// gives it back in canonical form, Expand turns it into timed faults.
type Rule struct {
	From time.Duration // when it happens, after the epoch
	// To is the end of the interval of "from-to", 0 with "at".
	To time.Duration
	// Every repeats it at From, From+Every, ... before To; 0 = once.
	Every  time.Duration
	Action Action
	Nodes  NodeSet
	Links  LinkSet
	Groups [][]NodeItem // of a partition
	// Routine is what trigger fires.
	Routine int
	Set     link.Override
	// For is how long it lasts (crash, poweroff, leave: until the restart;
	// churn: the time a node is down), 0 = until something else undoes it or,
	// in an interval without Every, until To.
	For time.Duration
}

// Action is a Verb, or one of the two that expand to several verbs.
type Action string

// Actions that are not verbs of a Fault.
const (
	Flap  Action = "flap"  // link-down and link-up in turn
	Churn Action = "churn" // crash and restart of random nodes
)

// DefaultChurnDown is how long a churned node is down unless the rule says.
const DefaultChurnDown = time.Second

// NodeSet chooses nodes; exactly one of its ways is used, but that Percent and
// Count may be of Items.
type NodeSet struct {
	All     bool
	Items   []NodeItem
	Percent float64 // of all nodes or of Items, at random
	Count   int     // at random, or in that role
	Role    string  // at run time
}

// known reports whether the nodes are known from the rule and the topology alone.
func (s NodeSet) known() bool { return s.All || len(s.Items) > 0 && !s.drawn() }

// drawn reports whether the nodes are drawn at random.
func (s NodeSet) drawn() bool { return s.Role == "" && (s.Count > 0 || s.Percent > 0) }

// of is what follows a share or count.
func (s NodeSet) of() string {
	if len(s.Items) == 0 {
		return ""
	}
	return " of " + itemsString(s.Items)
}

// NodeItem is the nodes First..Last, or those with a tag.
type NodeItem struct {
	First, Last core.NodeID
	Tag         string
}

// LinkSet chooses links; exactly one of its ways is used.
type LinkSet struct {
	All    bool
	Pairs  [][2]core.NodeID // a < b unless OneWay
	OneWay bool             // only the direction from the first to the second
	Of     NodeSet          // all links of these nodes
}

// String returns the rule in canonical form, which parses to the same rule.
func (r Rule) String() string {
	w := []string{"at", r.From.String()}
	if r.To > 0 {
		w = []string{"from", r.From.String(), "to", r.To.String()}
	}
	if r.Every > 0 {
		w = append(w, "every", r.Every.String())
	}
	undo := "for"
	switch r.Action {
	case Action(LinkDown), Action(LinkUp):
		w = append(w, r.Links.String(), strings.TrimPrefix(string(r.Action), "link-"))
	case Flap:
		w = append(w, "flap", r.Links.String())
	case Action(Partition):
		groups := make([]string, len(r.Groups))
		for i, g := range r.Groups {
			groups[i] = itemsString(g)
		}
		w = append(w, "partition", strings.Join(groups, "|"))
	case Action(Set):
		w = append(w, "set", r.Links.String())
		w = append(w, overrideWords(r.Set)...)
	case Action(Heal):
		w = append(w, "heal")
	case Churn:
		undo = "restart after"
		amount := strconv.Itoa(r.Nodes.Count)
		if r.Nodes.Percent > 0 {
			amount = decimal(r.Nodes.Percent) + "%"
		}
		w = append(w, "churn", amount+r.Nodes.of())
	case Action(Trigger):
		w = append(w, "trigger", strconv.Itoa(r.Routine))
	default:
		if r.Action != Action(Pause) {
			undo = "restart after"
		}
		w = append(w, string(r.Action), r.Nodes.String())
	}
	if r.For > 0 {
		w = append(w, undo, r.For.String())
	}
	return strings.Join(w, " ")
}

func (s NodeSet) String() string {
	switch {
	case s.All:
		return "all"
	case s.Role == "" && s.Count == 0 && s.Percent == 0:
		return "nodes " + itemsString(s.Items)
	case s.Percent > 0:
		return decimal(s.Percent) + "%" + s.of()
	case s.Role == "":
		return strconv.Itoa(s.Count) + " nodes" + s.of()
	case s.Count == 1:
		return s.Role
	default:
		return strconv.Itoa(s.Count) + " " + s.Role
	}
}

func (s LinkSet) String() string {
	if s.All {
		return "all"
	}
	if s.Of.known() {
		return "links of " + s.Of.String()
	}
	arrow := "-"
	if s.OneWay {
		arrow = ">"
	}
	pairs := make([]string, len(s.Pairs))
	for i, p := range s.Pairs {
		pairs[i] = fmt.Sprintf("%d%s%d", p[0], arrow, p[1])
	}
	return "links " + strings.Join(pairs, ",")
}

func itemsString(items []NodeItem) string {
	words := make([]string, len(items))
	for i, it := range items {
		switch {
		case it.Tag != "":
			words[i] = "tag:" + it.Tag
		case it.First == it.Last:
			words[i] = strconv.Itoa(int(it.First))
		default:
			words[i] = fmt.Sprintf("%d-%d", it.First, it.Last)
		}
	}
	return strings.Join(words, ",")
}

func overrideWords(o link.Override) []string {
	var w []string
	if o.Delay != nil {
		w = append(w, "delay", o.Delay.String())
	}
	if o.Jitter != nil {
		w = append(w, "jitter", o.Jitter.String())
	}
	if o.Dist != nil {
		w = append(w, "distribution", string(*o.Dist))
	}
	if o.Loss != nil {
		w = append(w, "loss", decimal(*o.Loss))
	}
	if b := o.Burst; b != nil {
		w = append(w, "burst", decimal(b.P), decimal(b.R), decimal(b.Good), decimal(b.Bad))
	}
	if o.Rate != nil {
		w = append(w, "rate", rateString(*o.Rate))
	}
	return w
}

// rateUnits are the units of rates, largest first.
func rateUnits() []struct {
	name string
	bits int64
} {
	return []struct {
		name string
		bits int64
	}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}
}

func rateString(bps int64) string {
	if bps == 0 {
		return "unlimited"
	}
	for _, u := range rateUnits() {
		if bps%u.bits == 0 {
			return strconv.FormatInt(bps/u.bits, 10) + u.name
		}
	}
	return strconv.FormatInt(bps, 10) + "bit"
}

// decimal writes a number without an exponent, which the language has not.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
