package scenario

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"churnbed/emulator/link"
	"churnbed/node/core"
	"churnbed/workloads"
)

// resolveText resolves a scenario file s.yaml of the text in a directory that
// holds the other files as well.
func resolveText(t *testing.T, dir, text string) (*Scenario, error) {
	t.Helper()
	t.Chdir(dir)
	if err := os.WriteFile("s.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	spec, origin, err := Load("s.yaml", nil)
	if err != nil {
		return nil, err
	}
	return Resolve(spec, origin)
}

func mustResolve(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := resolveText(t, t.TempDir(), text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestResolveErrors(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"disconnected file", "topology-file: apart.txt", "s.yaml:1:16: topology-file: DIR/apart.txt is disconnected: 2 parts, the largest has 2 of 3 nodes: raise radius above 4 m, add nodes, or keep its largest part with largest: true"},
		{"no such file", "topology-file: none.txt", "s.yaml:1:16: topology-file: read topology: open DIR/none.txt: no such file or directory"},
		{"bad line", "topology-file: bad.txt", `s.yaml:1:16: topology-file: read topology: DIR/bad.txt:2: `},
		{"nodes against file", "nodes: 9\ntopology-file: line.txt", "s.yaml:1:8: nodes: 9: DIR/line.txt has 3 nodes: leave nodes out, or give rtt-nodes with a round-trip matrix"},
		{"nodes against cells", "topology: grid\nnodes: 9\nrows: 2\ncols: 2", "s.yaml:2:8: nodes: "},
		{"cannot connect", "nodes: 20\nradius: 0.5", "s.yaml:2:9: radius: generate random topology: no draw of 1000 was good enough; "},
		{"requester", "nodes: 4\nrequesters: list:1,4", `s.yaml:2:13: requesters: "list:1,4": node 4: want 0 to 3`},
		{"nothing happens", "requests: 0", `s.yaml:1:11: requests: "0": with duration 0s nothing would happen: want one of them above 0`},
		{"too short", "duration: 1s\nrequests: 100\narrivals: constant", "s.yaml:2:11: requests: 100: only 4 arrive before duration 1s is over: give one of the two, or fewer requests"},
		{"burst without count", "arrivals: burst\nrequests: 0\nduration: 1s", "s.yaml:1:11: arrivals: expand workload: a burst needs a number of requests"},
		{"closed zipf", "arrivals: poisson-closed\nrequesters: zipf", `s.yaml:1:11: arrivals: expand workload: requesters "zipf" with poisson-closed: every node asks there, allowed is uniform`},
		{"fault syntax", "fault:\n- at 1s crash node 1\n- at 1s crsh node 1", `s.yaml:3:3: fault: "at 1s crsh node 1": column 7: `},
		{"fault node", "nodes: 4\nfault: [at 1s crash node 9]", `s.yaml:2:9: fault: expand fault "at 1s crash nodes 9": `},
		{"fault tag", "nodes: 4\nfault: [at 1s crash tag:x]", `s.yaml:2:9: fault: expand fault "at 1s crash nodes tag:x": `},
		{"tag node", "nodes: 4\ntags: {edge: 2-7}", `s.yaml:2:14: tags: "edge=2-7": node 4: want 0 to 3`},
		{"tag ids", "nodes: 4\ntags: {edge: x}", `s.yaml:2:14: tags: "edge=x": "x" is not a node id or a range of ids`},
		{"trace", "churn: ./bad.trace", "s.yaml:1:8: churn: "},
		{"trace file", "churn: ./none.trace", "s.yaml:1:8: churn: stat DIR/none.trace: no such file or directory"},
		{"trace directory", "churn: ./.", "s.yaml:1:8: churn: DIR: not a regular file"},
		{"trace too fast", "churn: overnet\nchurn-speedup: 1e9", "s.yaml:1:8: churn: "},
		{"trace of too much", "churn: overnet\nchurn-hosts: 8192\nchurn-speedup: 1e6\nduration: 30s\narrivals: burst\nrequests: 1", "s.yaml:1:8: churn: generate overnet trace of 8192 hosts and 348 days: about 36490445 events, at most 4000000: want fewer hosts or days"},
		{
			"links too restless", "topology: grid\nnodes: 16\nalgorithm: localmutex\nedge-churn: 1e6\nedge-down-mean: 1ns\nduration: 20s",
			"s.yaml:4:13: edge-churn: 42 links would go and come more than 1000000 times in 20s: want 1/edge-churn and edge-down-mean to come to 1.7ms or more together, or fewer links, or a shorter duration (churn-until)",
		},
		{"links for ever", "topology: grid\nnodes: 16\nalgorithm: localmutex\nedge-churn: 1\nchurn-until: 87600h", "s.yaml:4:13: edge-churn: 42 links would go and come more than 1000000 times in 87600h0m0s: want "},
		{
			"nodes that move for ever", "topology: grid\nnodes: 16\nalgorithm: localmutex\nmobility: waypoint\nduration: 87600h",
			"s.yaml:4:11: mobility: 16 nodes looked at every 100ms for 87600h0m0s are more than 1000000000 looks at a pair: want a mobility-step of 38s or more, or fewer nodes, or a shorter duration",
		},
		{
			"nodes that move nowhere", "nodes: 4\nalgorithm: localmutex\nmobility: waypoint\nmobility-speed: 1e4\nmobility-pause: 0s\narea: 1e-300x1e-300\nduration: 20s",
			"s.yaml:3:11: mobility: 4 nodes at 10000 m/s in 1e-300 x 1e-300 m would come to more than 10000000 waypoints in 20s: want a lower mobility-speed, ",
		},
		{"requests without end", "arrivals: exponential\nmean: 1ns\nduration: 20s", "s.yaml:1:11: arrivals: expand workload: more than 1000000 requests within 20s: raise the mean or shorten the duration"},
		{"requests", "requests: 1000001", `s.yaml:1:11: requests: "1000001": want a whole number from 0 to 1000000`},
		{"trials", "trials: 1000001", `s.yaml:1:9: trials: "1000001": want a whole number from 1 to 1000000`},
		{"retransmissions", "transport: fixed\nrto: 1ns", `s.yaml:2:6: rto: "1ns": want a duration such as 500ms, 2s or 20m, 10µs or more`},
		{"lists", "nodes: 3\nmembership: static:bad.lists", "s.yaml:2:13: membership: "},
		{"lists file", "nodes: 3\nmembership: static:none.lists", "s.yaml:2:13: membership: stat DIR/none.lists: no such file or directory"},
		{"majority", "nodes: 4\nn-upper: 8", "s.yaml:2:10: n-upper: 8: a majority needs 5 nodes, but there are 4"},
		{"durable without camera", "algorithm: ra\ndurable: true", `s.yaml:2:10: durable: "true": only camera keeps its state, but algorithm is ra`},
		{"estimate without camera", "algorithm: ra\nn-upper-from: gossip", `s.yaml:2:15: n-upper-from: "gossip": only camera takes a bound, but algorithm is ra`},
		{"local locks with a detector", "algorithm: localmutex\nmembership: medley", "s.yaml:2:13: membership: medley: want static: neighbours of localmutex are known by their links"},
		{"quorum without a ring", "algorithm: fairk\nring-quorum: 2", "s.yaml:2:14: ring-quorum: 2: want replicas with it: nobody else agrees on anything"},
		{"ring period", "algorithm: fairk\nreplicas: 1\nring-period: 1us", `s.yaml:3:14: ring-period: "1us": want a duration such as 500ms, 2s or 20m, 1ms or more`},
		{"ping timeout", "membership-period: 1s\nmembership-ping-timeout: 1s", "s.yaml:2:26: membership-ping-timeout: 1s: want less than membership-period 1s"},
		{"rto order", "rto-min: 2s\nrto-max: 1s\nrto: 1s", "s.yaml:1:10: rto-min: 2s: want at most rto-max 1s"},
		{"rto range", "rto: 10s", "s.yaml:1:6: rto: 10s: want rto-min 50ms to rto-max 4s"},
		{"paper reading", "paper-snapshot: true", `s.yaml:1:17: paper-snapshot: "true": a reading of camera-paper, but algorithm is camera`},
		{"two loss models", "link-loss: 0.1\nlink-loss-model: gilbert-elliott:0.1/0.2/0/1", "s.yaml:1:12: link-loss: 0.1: gilbert-elliott takes the place of link-loss: want 0 with it"},
		{"netem", "fabric: netem\nlink-loss-model: gilbert-elliott:0.1/0.2/0/1", `s.yaml:1:9: fabric: "netem": Gilbert-Elliott loss needs the relay: want relay or auto`},
		{"rooms", "topology: cluster\nrooms: ['0,0,5,5']", `s.yaml:2:9: rooms: room "0,0,5,5": want `},
		{"several", "rto: 10s\nnodes: 4\nrequesters: list:9\nfault: [nonsense]", "3 errors in the scenario:\n  s.yaml:1:6: rto: 10s: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "apart.txt", "0,0\n1,0\n9,0\n")
			write(t, dir, "line.txt", "0,0\n3,0\n6,0\n")
			write(t, dir, "bad.txt", "0,0\n3;0\n")
			write(t, dir, "bad.trace", "h1\t5\t1\nh1\t3\t0\n")
			write(t, dir, "bad.lists", "0: 7\n")
			_, err := resolveText(t, dir, tc.text)
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.ReplaceAll(err.Error(), dir, "DIR")
			// A want that ends in a blank is a beginning: the rest is the text of another package.
			if tc.want != got && !(strings.HasSuffix(tc.want, " ") && strings.HasPrefix(got, tc.want)) {
				t.Errorf("error\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// scenarioOptions compare scenarios by what is exported and what NodeConfig uses.
var scenarioOptions = []cmp.Option{cmpopts.IgnoreUnexported(Scenario{}), cmpopts.EquateEmpty()}

func TestWrittenScenarioResolvesToTheSame(t *testing.T) {
	root := moduleRoot(t)
	texts := map[string]string{
		"defaults":   "",
		"grid":       "topology: grid\nnodes: 12\nmembership: oracle\nchurn: exponential\nchurn-speedup: 500\nchurn-initial: trace",
		"cluster":    "topology: cluster\nrooms: ['0,0,5,5:4', '3,3,5,5:4']\narrivals: poisson-closed\nduration: 10s",
		"ring":       "topology: ring\nnodes: 5\nduration: 20s\nrequesters: list:3,1",
		"list":       "topology: line\nnodes: 5\nrequesters: list:3,1,3",
		"faults":     "nodes: 16\nseed: 4\ntags: {edge: 0-3}\nfault:\n- at 1s crash tag:edge restart after 5s\n- from 2s to 8s set all loss 0.5\n- at 3s crash 2 nodes\n- at 4s pause holder for 1s",
		"no wait":    "nodes: 16\nsuspicion-wait: 0s",
		"ge":         "nodes: 16\nlink-loss-model: gilbert-elliott:0.1/0.2/0/1\nlink-rate: 10mbit\nlink-jitter: 1ms\nlink-jitter-distribution: normal",
		"membership": "topology: full\nnodes: 6\nmembership: static:" + filepath.Join(root, "workloads/scenarios/ra-missing-entries.lists"),
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			first := mustResolve(t, text)
			spec, origin, err := Decode(first.YAML(), "scenario.yaml")
			if err != nil {
				t.Fatal(err)
			}
			second, err := Resolve(spec, origin)
			if err != nil {
				t.Fatalf("%v\n%s", err, first.YAML())
			}
			if diff := cmp.Diff(first, second, scenarioOptions...); diff != "" {
				t.Errorf("resolves differently (-first +second):\n%s", diff)
			}
			for n := range first.Topology.Nodes {
				for _, inc := range []core.Incarnation{core.FirstIncarnation, 3 * core.IncarnationStep} {
					a, b := first.NodeConfig(core.NodeID(n), inc), second.NodeConfig(core.NodeID(n), inc)
					if !reflect.DeepEqual(a, b) {
						t.Errorf("node %d.%d is configured differently", n, inc)
					}
					if err := a.Validate(); err != nil {
						t.Error(err)
					}
				}
			}
			if string(first.YAML()) != string(second.YAML()) {
				t.Errorf("written differently:\n%s", cmp.Diff(string(first.YAML()), string(second.YAML())))
			}
		})
	}
}

func TestDerivedValues(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		check      func(*Scenario) bool
	}{
		{"wait is the suspicion time", "membership-suspicion: 9s", func(s *Scenario) bool { return s.Algorithm.SuspicionWait == 9e9 }},
		{"wait as given", "suspicion-wait: 0s", func(s *Scenario) bool { return s.Algorithm.SuspicionWait == 0 }},
		{"no wait without a detector", "membership: static", func(s *Scenario) bool { return s.Algorithm.SuspicionWait == 0 }},
		{"upper bound", "nodes: 12", func(s *Scenario) bool { return s.Algorithm.NUpper == 12 && s.Spec.NUpper == 12 }},
		{"estimate", "nodes: 12\nn-upper-from: gossip", func(s *Scenario) bool { return s.Algorithm.NUpper == 1 && s.Algorithm.Estimate == "gossip" }},
		{"nodes of cells", "topology: grid\nrows: 3\ncols: 5", func(s *Scenario) bool { return s.Spec.Nodes == 15 && len(s.Topology.Nodes) == 15 }},
		{"nodes of rooms", "topology: cluster\nrooms: ['0,0,5,5:4', '3,3,5,5:3']", func(s *Scenario) bool { return s.Spec.Nodes == 7 }},
		{"grid in an area", "topology: grid\nnodes: 16\narea: 15x15\nradius: 5", func(s *Scenario) bool { return s.Spec.Step == 0 && s.Topology.Nodes[1].X == 5 }},
		{"radius", "", func(s *Scenario) bool { return s.Spec.Radius == 4 && s.Topology.Radius == 4 }},
		{"list is walked once", "requesters: list:3,1,2", func(s *Scenario) bool { return len(s.Arrivals) == 3 && s.Arrivals[1].Node == 1 }},
		{"duration instead of a number", "duration: 2s\narrivals: constant\nmean: 100ms", func(s *Scenario) bool { return len(s.Arrivals) == 19 && s.Duration == 2e9 }},
		{"closed", "arrivals: poisson-closed\nmean: 4s\nir-ratio: 0.5\nrequests: 128", func(s *Scenario) bool {
			return s.Arrivals == nil && s.Closed != nil && s.Closed.Rate == 0.5 && s.Closed.Quota == 2
		}},
		{"service of a file", "membership: oracle", func(s *Scenario) bool { return s.Membership.Service == "oracle" && s.distance() == nil }},
		{"no output directory", "", func(s *Scenario) bool { return s.Out == "" }},
		{"compressed time has longer slices", "time-scale: 0.01", func(s *Scenario) bool { return s.Slice == 100*time.Second }},
		{"or those given", "time-scale: 0.01\nslice: 5s", func(s *Scenario) bool { return s.Slice == 5*time.Second }},
		{"quiet", "", func(s *Scenario) bool { return len(s.Warnings) == 0 && len(s.Faults) == 0 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if s := mustResolve(t, tc.text); !tc.check(s) {
				t.Errorf("resolved to\n%s", s.YAML())
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	for text, want := range map[string]string{
		"nodes: 9\nn-upper: 5": "n-upper 5 is below the 9 nodes of the topology: camera is safe only if no more than that take part at a time",
		"nodes: 9\nfault: [at 1s crash nodes 0-3, at 2500ms pause node 4, at 3s restart node 0]": "only 4 of 9 nodes are up 2.5s after the epoch: camera needs 5 grants and waits until enough are back",
		"algorithm: fairk\nrelease: multicast":                                                   "release changes nothing: it is for algorithm camera or camera-paper, this is fairk",
		"nodes: 2\nalgorithm: fairk\nreplicas: 1":                                                "all 2 nodes must agree on who takes part (ring-quorum): no failure is survived",
		"algorithm: hub\nduration: 9s\nkgroup-f: 3":                                              "kgroup-f changes nothing: it is for algorithm comesh, this is hub",
		"algorithm: hub\nduration: 9s\nmean: 1s":                                                 "mean changes nothing: with algorithm hub there are routines, and no requests",
		"algorithm: fairk\nring-period: 2s":                                                      "ring-period changes nothing without replicas",
		"algorithm: fairk\nnodes: 9\nfault: [at 1s crash nodes 0-3]":                             "nodes die: algorithm fairk loses the tokens that are with them; replicas keeps them",
		"algorithm: naimi-trehel\nnodes: 9\nfault: [at 1s poweroff node 3]":                      "nodes die: algorithm naimi-trehel loses the tokens that are with them",
	} {
		s := mustResolve(t, text)
		if len(s.Warnings) != 1 || s.Warnings[0] != want {
			t.Errorf("%q: warnings %q, want %q", text, s.Warnings, want)
		}
	}
}

func TestOutDir(t *testing.T) {
	dir := t.TempDir()
	s, err := resolveText(t, dir, "out: x/y")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "x/y"); s.OutDir(func(string) bool { return true }) != want {
		t.Errorf("out %q, want %q", s.Out, want)
	}
	if s.Spec.Out != "" {
		t.Errorf("scenario.yaml would name the directory of another run: %q", s.Spec.Out)
	}
	s = mustResolve(t, "name: n\nseed: 7")
	var asked []string
	got := s.OutDir(func(dir string) bool { asked = append(asked, dir); return len(asked) < 3 })
	if want := filepath.Join("runs", "n-7-3"); got != want {
		t.Errorf("run directory %q, want %q after %q", got, want, asked)
	}
}

func TestNodeConfig(t *testing.T) {
	s := mustResolve(t, "nodes: 40\nlink-delay: 3ms\nchurn: overnet\nchurn-initial: trace\nchurn-speedup: 100\nalgorithm: ra")
	ups := 0
	for n := range core.NodeID(40) {
		c := s.NodeConfig(n, core.FirstIncarnation)
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if c.Restarted || c.Join == s.Up[n] {
			t.Errorf("node %d: restarted %v, join %v, up %v", n, c.Restarted, c.Join, s.Up[n])
		}
		if s.Up[n] {
			ups++
			for _, m := range c.Members {
				if !s.Up[m.ID] {
					t.Errorf("node %d lists node %d, which does not run", n, m.ID)
				}
			}
		}
		if want := s.Topology.Neighbours(n); !slices.Equal(want, c.Neighbours) {
			t.Errorf("neighbours %v, want %v", c.Neighbours, want)
		}
		for i, d := range c.LinkDelay {
			if d != 3e6 {
				t.Errorf("delay %d to neighbour %d", d, c.Neighbours[i])
			}
		}
		if len(c.LinkDelay) != len(c.Neighbours) || len(c.Distance) != 40 || c.Distance[n] != 0 {
			t.Errorf("node %d: %d delays, %d neighbours, distances %v", n, len(c.LinkDelay), len(c.Neighbours), c.Distance)
		}
		for _, a := range c.Arrivals {
			if a.Node != n {
				t.Errorf("node %d is given arrival %+v", n, a)
			}
		}

		again := s.NodeConfig(n, 2*core.IncarnationStep)
		if !again.Restarted || !again.Join {
			t.Errorf("second life of node %d: restarted %v, join %v", n, again.Restarted, again.Join)
		}
		checkContacts(t, s, n, again.Members)
	}
	if ups == 0 || ups == 40 {
		t.Errorf("%d nodes run from the start", ups)
	}
}

// checkContacts wants 16 contacts, neighbours first.
func checkContacts(t *testing.T, s *Scenario, n core.NodeID, contacts []core.Peer) {
	t.Helper()
	near := s.Topology.Neighbours(n)
	seen := map[core.NodeID]bool{n: true}
	for i, p := range contacts {
		if seen[p.ID] {
			t.Errorf("node %d: contact %d twice or itself", n, p.ID)
		}
		seen[p.ID] = true
		if i < min(len(near), nearContacts) && !slices.Contains(near, p.ID) {
			t.Errorf("node %d: contact %d of rank %d is no neighbour", n, p.ID, i)
		}
	}
	if len(contacts) != maxContacts {
		t.Errorf("node %d: %d contacts", n, len(contacts))
	}
}

func TestAsymmetricLinkDelaysReachTheirEnds(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "rtt.txt", "0 10 20\n12 0 30\n20 30 0\n")
	s, err := resolveText(t, dir, "topology-file: rtt.txt\ntopology-format: rtt\nrtt-scale: 2\nrouting: delay\nmembership-distance: delay")
	if err != nil {
		t.Fatal(err)
	}
	for n := range core.NodeID(3) {
		c := s.NodeConfig(n, core.FirstIncarnation)
		for i, nb := range c.Neighbours {
			ab, ba := s.LinkParams(s.Topology.LinkIndex(n, nb))
			want := ab
			if n > nb {
				want = ba
			}
			if c.LinkDelay[i] != int64(want.Delay) || want.Delay == 0 {
				t.Errorf("delay %d->%d is %d, want %v", n, nb, c.LinkDelay[i], want.Delay)
			}
		}
		for other, d := range c.Distance {
			if other != int(n) && (d < 0.005 || d > 0.05) {
				t.Errorf("distance %d-%d is %v seconds", n, other, d)
			}
		}
	}
}

// Edge churn of nodes that walk ends with churn-until, their walk does not.
func TestMobilityWithEdgeChurn(t *testing.T) {
	const walk = "nodes: 12\narea: 8x8\nalgorithm: localmutex\nmobility: waypoint\nmobility-speed: 2\nduration: 20s\n"
	until := func(s *Scenario, from time.Duration) (n int) {
		for _, f := range s.Faults {
			if f.At%s.Spec.MobilityStep != 0 && f.At > from {
				n++
			}
		}
		return n
	}
	plain, both := mustResolve(t, walk), mustResolve(t, walk+"edge-churn: 1\nedge-down-mean: 100ms\n")
	part := mustResolve(t, walk+"edge-churn: 1\nedge-down-mean: 100ms\nchurn-until: 10s\n")
	if until(plain, 0) != 0 || until(both, 10*time.Second) == 0 || until(part, 10*time.Second) != 0 || until(part, 0) == 0 {
		t.Errorf("between two looks: %d, with churn %d, after 10s %d, with churn until then %d",
			until(plain, 0), until(both, 0), until(both, 10*time.Second), until(part, 10*time.Second))
	}
}

func TestMembershipDistances(t *testing.T) {
	for metric, want := range map[string]float32{"path": 7.5, "euclid": 7.5, "hops": 3} {
		s := mustResolve(t, "topology: line\nnodes: 4\nmembership-distance: "+metric)
		if d := s.NodeConfig(0, core.FirstIncarnation).Distance[3]; d != want {
			t.Errorf("%s distance is %v, want %v", metric, d, want)
		}
	}
}

func TestResolveIsDeterministicAndSeeded(t *testing.T) {
	const text = "nodes: 32\nchurn: overnet\nchurn-speedup: 200\nfault: [at 1s crash 3 nodes]\n"
	a, b := mustResolve(t, text), mustResolve(t, text)
	if diff := cmp.Diff(a, b, scenarioOptions...); diff != "" {
		t.Errorf("same seed differs:\n%s", diff)
	}
	c := mustResolve(t, text+"seed: 2\n")
	if cmp.Equal(a.Topology, c.Topology) || cmp.Equal(a.Arrivals, c.Arrivals) || cmp.Equal(a.Faults, c.Faults) {
		t.Error("another seed gives the same topology, arrivals or faults")
	}
	// Churn does not move the requests, nor the workload the mesh.
	d := mustResolve(t, "nodes: 32\nmembership: oracle\n")
	if !cmp.Equal(a.Arrivals, d.Arrivals) || !cmp.Equal(a.Topology, d.Topology) {
		t.Error("streams are not separate")
	}
}

func TestResolveLeavesTheSpecificationAlone(t *testing.T) {
	spec := Default()
	spec.Nodes, spec.Tags, spec.Fault = 8, []string{"a=1"}, []string{"at 1s heal"}
	before := spec
	before.Tags, before.Fault = slices.Clone(spec.Tags), slices.Clone(spec.Fault)
	if _, err := Resolve(spec, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, spec); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

func TestNeedsRelay(t *testing.T) {
	s := mustResolve(t, "nodes: 8\n")
	if why := s.NeedsRelay(); why != "" {
		t.Errorf("plain scenario needs the relay: %s", why)
	}
	for _, text := range []string{"link-loss-model: gilbert-elliott:0.1/0.2/0/1", "fault: [at 1s set all burst 0.1 0.2 0 1]"} {
		if mustResolve(t, "nodes: 8\n"+text).NeedsRelay() == "" {
			t.Errorf("%s: netem would do", text)
		}
	}
}

func TestLeastUp(t *testing.T) {
	fault := func(at dur, v workloads.Verb, nodes ...core.NodeID) workloads.Fault {
		return workloads.Fault{At: at, Verb: v, Nodes: nodes, Set: link.Override{}}
	}
	least, at := leastUp([]bool{true, true, true, false}, []workloads.Fault{
		fault(1, workloads.Crash, 0, 0), fault(2, workloads.Join, 3), fault(3, workloads.Pause, 1), fault(4, workloads.Leave, 2),
		fault(5, workloads.LinkDown), fault(6, workloads.Restart, 0), fault(7, workloads.Poweroff, 3), fault(8, workloads.Resume, 1),
	})
	if least != 1 || at != 4 {
		t.Errorf("least %d at %d, want 1 at 4", least, at)
	}
}

func TestMedleyFilesResolve(t *testing.T) {
	file := filepath.Join(moduleRoot(t), "..", "shared", "data", "medley-topologies", "random256.txt")
	if _, err := os.Stat(file); err != nil {
		t.Skipf("sample topologies are not here: %v", err)
	}
	spec, origin, err := Load("", []Setting{{"topology-file", file}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Resolve(spec, origin)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Topology.Nodes) != 256 || len(s.Topology.Links) != 1303 || s.Spec.Nodes != 256 {
		t.Errorf("%d nodes, %d links", len(s.Topology.Nodes), len(s.Topology.Links))
	}
}

func BenchmarkResolve256(b *testing.B) {
	spec, origin, err := Load("", []Setting{{"nodes", "256"}, {"churn", "overnet"}, {"churn-speedup", "100"}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Resolve(spec, origin); err != nil {
			b.Fatal(err)
		}
	}
}
