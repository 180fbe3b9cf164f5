package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// ringTarget is a ring of n nodes; node 0 and 1 are gateways.
func ringTarget(n int) Target {
	t := Target{
		Nodes: n,
		Tags:  map[string][]core.NodeID{"gateway": {0, 1}},
		Link:  link.Params{Delay: 5 * time.Millisecond, Loss: 0.05},
	}
	for i := range n - 1 {
		t.Links = append(t.Links, [2]core.NodeID{core.NodeID(i), core.NodeID(i + 1)})
	}
	t.Links = append(t.Links, [2]core.NodeID{0, core.NodeID(n - 1)})
	return t
}

// show renders a fault in one line.
func show(f Fault) string {
	s := fmt.Sprintf("%v %s", f.At, f.Verb)
	if f.Role != "" {
		s += fmt.Sprintf(" %d %s after %v", f.Count, f.Role, f.After)
	}
	if len(f.Nodes) > 0 {
		s += fmt.Sprintf(" nodes %v", f.Nodes)
	}
	if len(f.Links) > 0 {
		s += fmt.Sprintf(" links %v", f.Links)
	}
	if f.Verb == Trigger {
		s += fmt.Sprintf(" routine %d", f.Routine)
	}
	if f.OneWay {
		s += " one-way"
	}
	if len(f.Groups) > 0 {
		s += fmt.Sprintf(" groups %v", f.Groups)
	}
	if w := overrideWords(f.Set); len(w) > 0 {
		s += " " + strings.Join(w, " ")
	}
	return s
}

func TestExpandRules(t *testing.T) {
	for _, c := range []struct {
		rule string
		want []string
	}{
		{"at 3s crash node 5", []string{"3s crash nodes [5]"}},
		{"at 3s poweroff nodes 1,4-7 for 10s", []string{"3s poweroff nodes [1 4 5 6 7]", "13s restart nodes [1 4 5 6 7]"}},
		{"at 3s poweroff nodes 4-6,5,1 restart after 1s", []string{"3s poweroff nodes [1 4 5 6]", "4s restart nodes [1 4 5 6]"}},
		{"at 4s pause holder for 500ms", []string{"4s pause 1 holder after 500ms"}},
		{"at 4s crash leader", []string{"4s crash 1 leader after 0s"}},
		{"at 4s crash 2 waiters", []string{"4s crash 2 waiter after 0s"}},
		{"from 4s to 6s pause idle", []string{"4s pause 1 idle after 2s"}},
		{"at 4s pause node 2 for 500ms", []string{"4s pause nodes [2]", "4.5s resume nodes [2]"}},
		{"at 2s leave tag:gateway", []string{"2s leave nodes [0 1]"}},
		{"at 2s leave node 3,tag:gateway for 1s", []string{"2s leave nodes [0 1 3]", "3s restart nodes [0 1 3]"}},
		{"at 2s restart all", []string{"2s restart nodes [0 1 2 3 4 5 6 7]"}},
		{"at 1s resume node 1", []string{"1s resume nodes [1]"}},
		{"at 1s join nodes 6-7", []string{"1s join nodes [6 7]"}},
		{"from 0s to 5s every 2s crash node 1", []string{"0s crash nodes [1]", "2s crash nodes [1]", "4s crash nodes [1]"}},
		{"from 1s to 3s crash node 1", []string{"1s crash nodes [1]", "3s restart nodes [1]"}},
		{"at 5s link 4-3 down for 2s", []string{"5s link-down links [[3 4]]", "7s link-up links [[3 4]]"}},
		{"at 5s links 3-4,7-0,4-3 up", []string{"5s link-up links [[3 4] [0 7]]"}},
		{"at 5s links of node 0 down", []string{"5s link-down links [[0 1] [0 7]]"}},
		{"from 5s to 7s flap link 3-4 every 500ms", []string{
			"5s link-down links [[3 4]]", "5.5s link-up links [[3 4]]", "6s link-down links [[3 4]]", "6.5s link-up links [[3 4]]",
		}},
		{"from 5s to 7s every 1500ms flap link 3-4", []string{"5s link-down links [[3 4]]", "6.5s link-up links [[3 4]]"}},
		{"from 5s to 6s every 2s flap link 3-4", []string{"5s link-down links [[3 4]]", "6s link-up links [[3 4]]"}},
		{"at 10s partition 0-2|3-4 | 5,6 for 5s", []string{"10s partition groups [[0 1 2] [3 4] [5 6]]", "15s heal"}},
		{"at 10s partition tag:gateway", []string{"10s partition groups [[0 1]]"}},
		{"at 15s heal", []string{"15s heal"}},
		{"at 1s crash 2 nodes of tag:gateway for 1s", []string{"1s crash nodes [0 1]", "2s restart nodes [0 1]"}},
		{"at 1s pause 50% of 3-4,tag:gateway,4", []string{"1s pause nodes [0 3]"}},
		{"at 1s churn 1 nodes of 6", []string{"1s crash nodes [6]", "2s restart nodes [6]"}},
		{"at 1s churn 100% of 5", []string{"1s crash nodes [5]", "2s restart nodes [5]"}},
		{"from 2s to 6s every 2s trigger 7", []string{"2s trigger routine 7", "4s trigger routine 7"}},
		{"at 5s set link 3-4 delay 20ms loss 0.2 rate 1mbit", []string{"5s set links [[3 4]] delay 20ms loss 0.2 rate 1mbit"}},
		{"at 5s set all loss 30% for 3s", []string{"5s set loss 0.3", "8s set loss 0.05"}},
		{"from 5s to 8s set link 3>4,1>0 rate 9600bit jitter 1ms", []string{
			"5s set links [[3 4] [1 0]] one-way jitter 1ms rate 9600bit",
			"8s set links [[3 4] [1 0]] one-way jitter 0s rate unlimited",
		}},
		{"at 5s set links of node 7 distribution normal burst 0.1 0.2 0 1 for 1s", []string{
			"5s set links [[6 7] [0 7]] distribution normal burst 0.1 0.2 0 1",
			"6s set links [[6 7] [0 7]] distribution uniform loss 0.05",
		}},
	} {
		r, err := ParseFault(c.rule)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		faults, err := r.Expand(ringTarget(8), 1, 3)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		var got []string
		for _, f := range faults {
			got = append(got, show(f))
			if f.Source != "faults:3" {
				t.Errorf("%s: source %q", c.rule, f.Source)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.rule, got, c.want)
		}
		roundTrip(t, r)
	}
}

// roundTrip checks that the canonical form parses to the same rule.
func roundTrip(t interface{ Errorf(string, ...any) }, r Rule) {
	again, err := ParseFault(r.String())
	if err != nil {
		t.Errorf("canonical form %q: %v", r, err)
		return
	}
	if d := cmp.Diff(r, again); d != "" {
		t.Errorf("%q parses to another rule:\n%s", r, d)
	}
}

func TestSetGoesBackToEachLinksOwnParameters(t *testing.T) {
	target := ringTarget(4) // links 0-1 1-2 2-3 0-3
	ms := time.Millisecond
	ge := &link.GilbertElliott{P: 0.1, R: 0.5, Bad: 1}
	target.LinkParams = [][2]link.Params{
		{{Loss: 0.1, Delay: ms}, {Loss: 0.1, Delay: 2 * ms}},
		{{Loss: 0.1}, {Loss: 0.2}},
		{{Loss: 0.1}, {Loss: 0.1}},
		{{Burst: ge}, {Burst: ge}},
	}
	for _, c := range []struct {
		rule string
		want []string
	}{
		{"at 1s set all loss 1 for 1s", []string{
			"1s set loss 1",
			"2s set links [[0 1] [2 3]] loss 0.1", // alike in both directions as to loss
			"2s set links [[1 2]] one-way loss 0.1",
			"2s set links [[2 1]] one-way loss 0.2",
			"2s set links [[0 3]] loss 0 burst 0.1 0.5 0 1",
		}},
		{"at 1s set link 2>1 loss 1 for 1s", []string{
			"1s set links [[2 1]] one-way loss 1", "2s set links [[2 1]] one-way loss 0.2",
		}},
		{"at 1s set all jitter 3ms for 1s", []string{"1s set jitter 3ms", "2s set jitter 0s"}},
	} {
		r, err := ParseFault(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		faults, err := r.Expand(target, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		// Carried out in order, the links are as configured.
		type key struct {
			link int
			toA  bool
		}
		now := make(map[key]link.Params)
		for i, p := range target.LinkParams {
			now[key{i, false}], now[key{i, true}] = p[0], p[1]
		}
		var got []string
		for _, f := range faults {
			got = append(got, show(f))
			pairs := f.Links
			if len(pairs) == 0 {
				pairs = target.Links
			}
			for _, p := range pairs {
				i := slices.Index(target.Links, [2]core.NodeID{min(p[0], p[1]), max(p[0], p[1])})
				toA := p[0] > p[1]
				now[key{i, toA}] = f.Set.Apply(now[key{i, toA}])
				if !f.OneWay {
					now[key{i, !toA}] = f.Set.Apply(now[key{i, !toA}])
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.rule, got, c.want)
		}
		for i, p := range target.LinkParams {
			if d := cmp.Diff(p, [2]link.Params{now[key{i, false}], now[key{i, true}]}); d != "" {
				t.Errorf("%s: link %v ends as (-configured +now):\n%s", c.rule, target.Links[i], d)
			}
		}
	}
}

func TestRuleSyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		rule string
		col  int
		want string
	}{
		{"", 1, `the rule ends here: allowed is "at TIME" or "from TIME to TIME"`},
		{"crash node 5", 1, `unexpected "crash": allowed is "at TIME"`},
		{"at crash", 4, `unexpected "crash": allowed is a time from 0s`},
		{"at -3s heal", 4, `unexpected "-3s"`},
		{"at 3 heal", 4, `unexpected "3": allowed is a time`},
		{"at 3s", 6, "the rule ends here: allowed is crash, poweroff"},
		{"at 3s explode node 5", 7, `unexpected "explode": allowed is crash, poweroff, leave`},
		{"at 3s every 1s crash node 5", 7, `"every" is allowed only after "from`},
		{"from 3s heal", 9, `unexpected "heal": allowed is "to"`},
		{"from 3s to 2s heal", 12, "the interval ends at 2s"},
		{"from 3s to 9s every 0s heal", 21, "a time above 0s"},
		{"from 3s to 9s every 1s crash node 1 every 2s", 37, `"every" is there already`},
		{"from 3s to 9s heal", 15, "heal lasts no time"},
		{"at 3s crash 5", 13, `write "node 5" for that node, "5 nodes" or "5%"`},
		{"at 3s crash", 12, "allowed is nodes LIST, tag:NAME, all, N%"},
		{"at 3s crash node x", 18, `unexpected "x": allowed is a node (5)`},
		{"at 3s crash node 7-4", 18, `range "7-4" descends: write 4-7`},
		{"at 3s crash node 65536", 18, `unexpected "65536"`},
		{"at 3s crash node 1,", 20, "the rule ends here: allowed is a node"},
		{"at 3s crash node 1 node 2", 20, `unexpected "node": allowed is "for TIME"`},
		{"at 3s crash tag:", 13, "the tag has no name"},
		{"at 3s crash 0%", 13, "share 0%: allowed are numbers above 0%"},
		{"at 3s crash 101 %", 13, "share 101%"},
		{"at 3s crash 1e1%", 13, "share 1e1%"},
		{"at 3s crash 0 nodes", 13, `number of nodes "0"`},
		{"at 3s restart holder", 15, "allowed is nodes LIST, tag:NAME or all"},
		{"at 3s crash node 1 for 0s", 24, "a time above 0s"},
		{"at 3s crash node 1 for 1s restart after 1s", 27, "how long it lasts is there already"},
		{"at 3s crash node 1 restart 1s", 28, `allowed is "after"`},
		{"at 3s pause node 1 restart after 1s", 20, `"restart after" is not allowed with pause`},
		{"at 3s heal for 1s", 12, `"for" is not allowed with heal`},
		{"at 3s link 3 down", 12, `unexpected "3": allowed is a link (3-7)`},
		{"at 3s link 3-3 down", 12, "joins a node with itself"},
		{"at 3s link 3-4 sideways", 16, `allowed is "down" or "up"`},
		{"at 3s link 3>4 down", 7, `allowed only with "set"`},
		{"at 3s set link 3-4,4>5 loss 0", 20, "do not mix"},
		{"at 3s flap link 3-4", 7, `flap needs "from TIME`},
		{"from 3s to 4s flap link 3-4", 15, `flap needs "from TIME`},
		{"at 3s flap 3-4", 12, `allowed is "link"`},
		{"at 3s partition |1", 17, `unexpected "|"`},
		{"at 3s set loss 0.1", 11, `allowed is "all", "link A-B"`},
		{"at 3s set all", 14, "allowed is delay, jitter"},
		{"at 3s set all loss 1.1", 20, `probability "1.1": allowed are 0..1`},
		{"at 3s set all loss -0.1", 20, `probability "-0.1"`},
		{"at 3s set all loss 0 loss 0", 22, "loss or burst is there already"},
		{"at 3s set all delay 1s delay 2s", 24, "delay is there already"},
		{"at 3s set all rate 5", 20, "allowed is a rate from 1bit"},
		{"at 3s set all rate 0mbit", 20, "allowed is a rate"},
		{"at 3s set all distribution cauchy", 28, "allowed is uniform or normal"},
		{"at 3s set all burst 0 1 0", 26, "a probability"},
		{"at 3s churn", 12, "a number of nodes (5) or a share (10%)"},
		{"at 3s churn 5 for 2s", 15, `"for" is not allowed with churn`},
		{"from 1s to 9s set all loss 1 for 1s", 15, "said by both"},
		{"from 1s to 9s every 1s set all loss 1 for 2s", 24, "comes again every 1s"},
		{"at 3s crash node é5", 18, "unexpected"},
		{"at 3s leave tag:é x", 19, `unexpected "x"`},
	} {
		_, err := ParseFault(c.rule)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%q: %v, want a syntax error", c.rule, err)
			continue
		}
		if syntax.Column != c.col || !strings.Contains(syntax.Msg, c.want) {
			t.Errorf("%q: %v, want column %d: %s", c.rule, err, c.col, c.want)
		}
	}
}

func TestExpandErrors(t *testing.T) {
	for _, c := range []struct{ rule, want string }{
		{"at 3s crash node 8", `expand fault "at 3s crash nodes 8": unknown node 8: allowed are 0..7`},
		{"at 3s crash tag:gatway", `unknown tag "gatway": allowed are ["gateway"]`},
		{"at 3s link 3-7 down", "unknown link 3-7"},
		{"at 3s link 3-9 down", "unknown node 9"},
		{"at 3s partition 0-3|3-7", "node 3 is in groups 1 and 2"},
		{"at 3s partition 0-7", "separates nobody"},
		{"at 3s crash 9 nodes", "9 nodes: the mesh has 8"},
		{"at 3s crash 9 holders", "count 9 of holder: allowed are 1..8"},
		{"at 3s churn 9", "9 nodes: the mesh has 8"},
		{"from 0s to 99999s churn 7 restart after 1ms every 1s", "it makes more than 1000000 faults"},
		{"from 3s to 4s churn 8 restart after 10s every 500ms", "more than run at"},
		{"from 0s to 10h every 1ns crash 1 nodes", "comes more than 100000 times"},
	} {
		r, err := ParseFault(c.rule)
		if err != nil {
			t.Fatalf("%s: %v", c.rule, err)
		}
		if _, err := r.Expand(ringTarget(8), 1, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.rule, err, c.want)
		}
	}
}

func TestExpandBoundsTheSize(t *testing.T) {
	r, err := ParseFault("from 0s to 10s every 1ms flap links of all")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Expand(ringTarget(4096), 1, 0); err == nil || !strings.Contains(err.Error(), "names more than 20000000") {
		t.Errorf("flapping 4096 links 10,000 times: %v", err)
	}
}

func TestRandomNodesAreDrawnAgain(t *testing.T) {
	r, err := ParseFault("from 5s to 20s every 2s crash 10% restart after 3s")
	if err != nil {
		t.Fatal(err)
	}
	faults, err := r.Expand(ringTarget(40), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	down := make(map[core.NodeID]bool)
	hit := make(map[core.NodeID]bool)
	crashes := 0
	for _, f := range faults {
		if f.Verb == Crash {
			crashes++
			if len(f.Nodes) != 4 {
				t.Errorf("%s: want 4 nodes", show(f))
			}
		}
		for _, n := range f.Nodes {
			if down[n] == (f.Verb == Crash) {
				t.Errorf("%s while node %d down is %v", show(f), n, down[n])
			}
			down[n] = f.Verb == Crash
			hit[n] = true
		}
	}
	if crashes != 8 || len(hit) < 10 {
		t.Errorf("%d crashes of %d different nodes, want 8 of many", crashes, len(hit))
	}
	again, err := r.Expand(ringTarget(40), 1, 0)
	if err != nil || !cmp.Equal(faults, again) {
		t.Errorf("the same seed gave another schedule: %v", err)
	}
	other, err := r.Expand(ringTarget(40), 2, 0)
	if err != nil || cmp.Equal(faults, other) {
		t.Errorf("another seed gave the same schedule: %v", err)
	}
}

func TestChurnRule(t *testing.T) {
	for _, c := range []struct {
		rule    string
		periods []int // crashes in each 10 s from 10 s on
	}{
		{"from 10s to 60s churn 5 every 10s", []int{5, 5, 5, 5, 5}},
		{"from 10s to 35s churn 10% every 10s restart after 2s", []int{4, 4, 2}},
		{"from 10s to 20s churn 40", []int{40}},
		{"at 10s churn 25%", []int{10}},
	} {
		r, err := ParseFault(c.rule)
		if err != nil {
			t.Fatalf("%s: %v", c.rule, err)
		}
		roundTrip(t, r)
		faults, err := r.Expand(ringTarget(40), 7, 0)
		if err != nil {
			t.Fatalf("%s: %v", c.rule, err)
		}
		got := make([]int, len(c.periods))
		running := slices.Repeat([]bool{true}, 40)
		for _, f := range faults {
			n := f.Nodes[0]
			if running[n] != (f.Verb == Crash) {
				t.Errorf("%s: %s while running %v", c.rule, show(f), running[n])
			}
			running[n] = f.Verb == Restart
			if f.Verb == Crash {
				got[(f.At-10*time.Second)/(10*time.Second)]++
			}
		}
		if !slices.Equal(got, c.periods) {
			t.Errorf("%s: crashes %v, want %v", c.rule, got, c.periods)
		}
		if slices.Contains(running, false) {
			t.Errorf("%s: somebody stays down", c.rule)
		}
	}
}

// drawRule draws the text of a rule that fits the ring of 8 nodes.
func drawRule(t *rapid.T) string {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	known := pick("known", "all", "node 3", "nodes 1,4-7", "tag:gateway", "nodes tag:gateway,5")
	nodes := pick("nodes", known, "10%", "33.3 % nodes", "2 nodes", "holder", "3 waiters", "2 leaders", "idle")
	links := pick("links", "link 3-4", "links 0-1,7-0", "links of "+known)
	undo := pick("undo", "", " for 700ms", " restart after 1s")
	lasts := pick("lasts", "", " for 700ms")
	every := pick("every", " every 1s", " every 2500ms")
	params := pick("params", "delay 1ms", "loss 5% rate 1.5mbit", "jitter 20us distribution normal", "burst 0 1 0.5 100%", "rate unlimited")
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return "at 3s " + pick("verb", "crash", "poweroff", "leave") + " " + nodes + undo
	case 1:
		return "from 1s to 8s" + every + " " + pick("verb", "crash", "poweroff", "leave") + " " + nodes + undo
	case 2:
		return "from 1s to 8s pause " + nodes + every + lasts
	case 3:
		return "at 1m0.5s " + pick("verb", "resume", "restart", "join") + " " + known
	case 4:
		return "from 0s to 8s" + every + " " + links + " down" + lasts
	case 5:
		return "from 0s to 8s flap " + links + every
	case 6:
		return "at 0s partition 5,3-4 | tag:gateway,2" + lasts
	case 7:
		return "at 1h set " + pick("what", "all", links, "link 1>0,3>4") + " " + params + lasts
	case 8:
		return "from 1s to 9s churn " + pick("amount", "2", "25%") + pick("period", "", every)
	default:
		return "from 1s to 9s heal" + every
	}
}

// TestRuleProperties: canonical forms parse back, and every schedule is
// valid, ascending and the same for the same seed.
func TestRuleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRule(t)
		r, err := ParseFault(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		roundTrip(t, r)
		seed := rapid.Uint64().Draw(t, "seed")
		faults, err := r.Expand(ringTarget(8), seed, 0)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(faults) == 0 {
			t.Fatalf("%s: no faults", text)
		}
		if err := Validate(faults, 8); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		b, err := json.Marshal(faults)
		if err != nil {
			t.Fatal(err)
		}
		var again []Fault
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(faults, again); d != "" {
			t.Fatalf("%s: through JSON:\n%s", text, d)
		}
	})
}

func FuzzParseFault(f *testing.F) {
	for _, s := range []string{
		"at 3s poweroff nodes 1,4-7 for 10s", "from 5s to 20s every 2s crash 10% restart after 3s",
		"at 4s pause 2 holders for 500ms", "from 5s to 20s flap link 3-7 every 500ms",
		"at 10s partition 0-15|16-31,tag:a|32-63 for 5s", "at 5s set links 3>7,4>1 delay 20ms loss 20% rate 1.5mbit jitter 1us",
		"at 5s set links of tag:gw burst 0.1 0.2 0 1 distribution normal for 1m", "from 10s to 60s churn 5 every 10s", "at 15s heal",
		"from 10s to 60s churn 40% of tag:gateway,7-20 restart after 5s", "at 1s trigger 3",
	} {
		f.Add(s)
	}
	target := ringTarget(64)
	f.Fuzz(func(t *testing.T, line string) {
		r, err := ParseFault(line)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Column < 1 || syntax.Column > len([]rune(line))+1 {
				t.Fatalf("%q: error %v", line, err)
			}
			return
		}
		roundTrip(t, r)
		if r.Every > 0 && r.To/r.Every > 100 {
			return // right but slow
		}
		faults, err := r.Expand(target, 1, 0)
		if err == nil {
			err = Validate(faults, target.Nodes)
			if err != nil {
				t.Fatalf("%q expands to an invalid schedule: %v", line, err)
			}
		}
	})
}

func TestMergeIsStable(t *testing.T) {
	a := []Fault{{At: 1, Source: "a1"}, {At: 3, Source: "a2"}, {At: 3, Source: "a3"}}
	b := []Fault{{At: 0, Source: "b1"}, {At: 3, Source: "b2"}}
	var got []string
	for _, f := range Merge(a, nil, b) {
		got = append(got, f.Source)
	}
	if want := []string{"b1", "a1", "a2", "a3", "b2"}; !slices.Equal(got, want) {
		t.Errorf("merged %v, want %v", got, want)
	}
	if a[0].Source != "a1" || b[0].Source != "b1" {
		t.Error("Merge changed its arguments")
	}
}

func TestValidateFaults(t *testing.T) {
	negative, nan, rate, dist := -time.Second, math.NaN(), int64(-1), link.Distribution("cauchy")
	for _, c := range []struct {
		f    Fault
		want string
	}{
		{Fault{At: -1, Verb: Heal}, "time must be >= 0"},
		{Fault{Verb: "explode"}, `unknown verb "explode"`},
		{Fault{Verb: Crash}, "no nodes named"},
		{Fault{Verb: Crash, Nodes: []core.NodeID{4}}, "unknown node 4: allowed are 0..3"},
		{Fault{Verb: Crash, Nodes: []core.NodeID{-1}}, "unknown node -1"},
		{Fault{Verb: Crash, Role: "boss", Count: 1}, `role "boss"`},
		{Fault{Verb: Crash, Role: RoleHolder}, "count 0 of holder"},
		{Fault{Verb: Restart, Role: RoleHolder, Count: 1}, "a role is allowed only with"},
		{Fault{Verb: Crash, Role: RoleHolder, Count: 1, Nodes: []core.NodeID{1}}, "exclude each other"},
		{Fault{Verb: Crash, Nodes: []core.NodeID{1}, After: 1}, "only with a role"},
		{Fault{Verb: LinkDown}, "no links named"},
		{Fault{Verb: LinkDown, Links: [][2]core.NodeID{{2, 1}}}, "link 2-1: the smaller node comes first"},
		{Fault{Verb: LinkDown, OneWay: true, Links: [][2]core.NodeID{{2, 1}}}, "one direction"},
		{Fault{Verb: Partition}, "separates nobody"},
		{Fault{Verb: Partition, Groups: [][]core.NodeID{{1}, {}}}, "group 2 of the partition is empty"},
		{Fault{Verb: Set}, "nothing to set"},
		{Fault{Verb: Set, Set: link.Override{Delay: &negative}}, "delay -1s"},
		{Fault{Verb: Set, Set: link.Override{Jitter: &negative}}, "jitter -1s"},
		{Fault{Verb: Set, Set: link.Override{Loss: &nan}}, "loss NaN"},
		{Fault{Verb: Set, Set: link.Override{Rate: &rate}}, "rate -1 bit/s"},
		{Fault{Verb: Set, Set: link.Override{Dist: &dist}}, `jitter distribution "cauchy"`},
		{Fault{Verb: Set, Set: link.Override{Burst: &link.GilbertElliott{R: 2}}}, "burst loss"},
	} {
		c.f.Source = "x"
		if err := Validate([]Fault{c.f}, 4); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.f, err, c.want)
		}
	}
	err := Validate([]Fault{{At: 2, Verb: Heal}, {At: 1, Verb: Heal}}, 4)
	if err == nil || !strings.Contains(err.Error(), "must ascend") {
		t.Errorf("out of order: %v", err)
	}
}

// TestSamples: the sample files say what their comments promise.
func TestSamples(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("samples", "faults.txt"))
	if err != nil {
		t.Fatal(err)
	}
	target := ringTarget(64)
	seen := make(map[Verb]bool)
	for i, line := range strings.Split(string(b), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		r, err := ParseFault(line)
		if err != nil {
			t.Fatalf("samples/faults.txt:%d: %v", i+1, err)
		}
		faults, err := r.Expand(target, 1, i)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range faults {
			seen[f.Verb] = true
		}
	}
	for _, v := range []Verb{Crash, Poweroff, Pause, Resume, Restart, Leave, Join, LinkDown, LinkUp, Partition, Heal, Set} {
		if !seen[v] {
			t.Errorf("samples/faults.txt has no example of %s", v)
		}
	}

	want, err := Overnet(64, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join("samples", "overnet64.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	got, err := ReadTrace(f, f.Name(), 0)
	if err != nil {
		t.Fatal(err)
	}
	got.Length = want.Length
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("samples/overnet64.txt is not what Overnet(64, 1, 1) gives (-want +got):\n%s", d)
	}
	f2, err := os.Open(filepath.Join("samples", "tiny.avt"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f2.Close() }()
	tiny, err := ReadTrace(f2, f2.Name(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(tiny.Hosts) != 4 || tiny.Length != 10*time.Minute {
		t.Errorf("samples/tiny.avt: %d hosts over %v", len(tiny.Hosts), tiny.Length)
	}
}
