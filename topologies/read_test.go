package topologies

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"churnbed/emulator/link"
	"churnbed/node/core"
)

// TestReferenceTopologies checks reader, link rule and statistics against the
// table that comes with the reference simulators' files.
func TestReferenceTopologies(t *testing.T) {
	for _, want := range []struct {
		name     string
		nodes    int
		degree   float64
		diameter int
		hops     float64
	}{
		{"random32", 32, 8.3, 5, 2.40},
		{"grid49", 49, 6.4, 6, 3.29},
		{"cluster49", 49, 7.9, 7, 3.41},
		{"random49", 49, 8.9, 6, 2.73},
		{"cluster64", 64, 10.2, 7, 3.35},
		{"unlucky64", 64, 39.6, 4, 1.41},
		{"random64", 64, 7.4, 8, 3.48},
		{"random128", 128, 10.2, 10, 4.20},
		{"random256", 256, 10.2, 15, 6.03},
		{"random512", 512, 9.9, 22, 8.42},
		{"random1024", 1024, 10.4, 31, 12.14},
	} {
		t.Run(want.name, func(t *testing.T) {
			top, err := ReadFile(sharedData(t, "medley-topologies", want.name+".txt"), ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s := Measure(top, Hops)
			if s.Nodes != want.nodes || !s.Connected || s.HopDiameter != want.diameter ||
				math.Abs(s.DegreeMean-want.degree) > 0.0501 || math.Abs(s.MeanHops-want.hops) > 0.00501 {
				t.Errorf("got %+v, want %+v", s, want)
			}
			if s.RouteHops != s.MeanHops || s.RouteMax != s.HopDiameter {
				t.Errorf("fewest-hop routes have mean %v, max %d; breadth-first search %v, %d", s.RouteHops, s.RouteMax, s.MeanHops, s.HopDiameter)
			}
		})
	}
}

func TestReadNS3(t *testing.T) {
	for _, c := range []struct {
		name   string
		radius float64
		nodes  int
		links  int
	}{
		{"ns3-Topology_grid_9", 10, 9, 12},
		{"ns3-Topology_grid_9", 0, 9, 36},
		{"ns3-Topology_grid_25", 10, 25, 40},
		{"ns3-Topology_random_25", 4, 25, -1}, // hop counts: the radius does not matter
		{"ns3-Topology_cluster_25_hop", 0, 25, -1},
		{"ns3-Topology_random_25_distance", 15, 25, -1},
	} {
		t.Run(fmt.Sprintf("%s/radius=%g", c.name, c.radius), func(t *testing.T) {
			top, err := ReadFile(sharedData(t, "medley-topologies", c.name+".txt"), ReadOptions{Radius: c.radius})
			if err != nil {
				t.Fatal(err)
			}
			if len(top.Nodes) != c.nodes || !top.Connected() || c.links >= 0 && len(top.Links) != c.links {
				t.Errorf("%d nodes, %d links, connected %v", len(top.Nodes), len(top.Links), top.Connected())
			}
		})
	}
}

// TestNS3HopsBoundThePaths: the file's hop counts are distance over range
// rounded up, which no path over the links can undercut, and 1 is a link.
func TestNS3HopsBoundThePaths(t *testing.T) {
	path := sharedData(t, "medley-topologies", "ns3-Topology_random_25.txt")
	top, err := ReadFile(path, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := ComputeRoutes(top, Hops, nil, nil, nil)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var a, b core.NodeID
		var d float64
		if n, _ := fmt.Sscanf(line, "%d,%d,%g", &a, &b, &d); n == 3 {
			if r.Hops(a, b) < int(d) || (d == 1) != (r.Hops(a, b) == 1) {
				t.Errorf("%d to %d has %d hops, the file says %g", a, b, r.Hops(a, b), d)
			}
		}
	}
}

func TestReadFreifunk(t *testing.T) {
	for _, c := range []struct {
		name         string
		nodes, links int
	}{
		{"leipzig", 210, 413},
		{"bielefeld", 246, 483},
		{"cologne-bonn-area", 279, 775},
		{"altdorf", 660, 1348},
	} {
		for _, wifi := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wifi=%v", c.name, wifi), func(t *testing.T) {
				var notes []string
				top, err := ReadFile(sharedData(t, "freifunk", c.name+".json"), ReadOptions{
					WifiOnly: wifi, Note: func(s string) { notes = append(notes, s) },
				})
				if err != nil {
					t.Fatal(err)
				}
				s := Measure(top, Euclid)
				if !s.Connected || s.Nodes > c.nodes || s.Links > c.links || s.OwnLoss == 0 || s.OwnLossMean <= 0 || s.OwnLossMean >= 1 {
					t.Errorf("%+v", s)
				}
				if left := s.Nodes < c.nodes; left != strings.Contains(strings.Join(notes, "\n"), "largest") {
					t.Errorf("%d of %d nodes kept, notes %q", s.Nodes, c.nodes, notes)
				}
				seen := map[[2]float64]bool{}
				far := 0
				for _, n := range top.Nodes {
					seen[[2]float64{n.X, n.Y}] = true
					if n.X > 1e6 || n.Y > 1e6 {
						far++
					}
				}
				if far > 0 || len(seen) < 2*s.Nodes/3 {
					t.Errorf("%d nodes are 1,000 km away, %d places of %d nodes", far, len(seen), s.Nodes)
				}
				t.Logf("%d nodes, %d links, loss mean %.3f of %d directions; %s", s.Nodes, s.Links, s.OwnLossMean, s.OwnLoss, strings.Join(notes, "; "))
			})
		}
	}
}

func TestFreifunkLossByDirection(t *testing.T) {
	// A degree of latitude is 111.2 km; b lies north of a, c has no place.
	const input = `{"nodes": [{"id": "c"}, {"id": "b", "x": 51.01, "y": 12}, {"id": "a", "x": 51, "y": 12}, {"id": 7}],
	"links": [{"source": "a", "target": "b", "source_tq": 0.9, "target_tq": 0.25, "type": "wifi"},
	          {"source": "b", "target": "c", "source_tq": 0, "target_tq": 1, "type": "vpn"}]}`
	var notes []string
	top, err := Read(strings.NewReader(input), "t", ReadOptions{Note: func(s string) { notes = append(notes, s) }})
	if err != nil {
		t.Fatal(err)
	}
	loss := func(v float64) link.Override { return link.Override{Loss: &v} }
	want := []Link{{A: 0, B: 1, AB: loss(0)}, {A: 1, B: 2, AB: loss(0.75), BA: loss(0.1)}}
	if diff := cmp.Diff(want, top.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if d := Distance(top.Nodes[1], top.Nodes[2]); math.Abs(d-1112) > 1 {
		t.Errorf("0.01 degrees of latitude are %v m", d)
	}
	if d := Distance(top.Nodes[0], top.Nodes[1]); d == 0 || d > 1112 {
		t.Errorf("the node without place lies %v m from its neighbour", d)
	}
	if len(notes) != 2 {
		t.Errorf("notes %q, want one of the part left out and one of the missing place", notes)
	}
	wifi, err := Read(strings.NewReader(input), "t", ReadOptions{WifiOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(wifi.Nodes) != 2 || len(wifi.Links) != 1 {
		t.Errorf("wifi alone has %d nodes, %d links", len(wifi.Nodes), len(wifi.Links))
	}
}

func TestReadRTT(t *testing.T) {
	path := sharedData(t, "netlatency-planetlab", "PlanetLabData_1")
	top, err := ReadFile(path, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Nodes) != 490 || len(top.Links) != 119805 {
		t.Fatalf("%d nodes, %d links", len(top.Nodes), len(top.Links))
	}
	sum := 0.0
	for _, l := range top.Links {
		if *l.AB.Delay != *l.BA.Delay {
			t.Fatalf("link %d-%d is asymmetric in a symmetric matrix", l.A, l.B)
		}
		sum += 2 * l.AB.Delay.Seconds() * 1e3
	}
	if mean := sum / float64(len(top.Links)); math.Abs(mean-146.8) > 0.1 {
		t.Errorf("mean round trip is %.2f ms, its description says 146.8", mean)
	}
	first, err := ReadFile(path, ReadOptions{Nodes: 3, Scale: 10})
	if err != nil {
		t.Fatal(err)
	}
	if got := *first.Links[0].AB.Delay; got != 875*time.Microsecond {
		t.Errorf("10 x half of 0.175 ms is %v", got)
	}
	drawn, err := ReadFile(path, ReadOptions{Nodes: 20, RandomNodes: true, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadFile(path, ReadOptions{Nodes: 20, RandomNodes: true, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(drawn, again); diff != "" || drawn.Nodes[19].Label == "19" {
		t.Errorf("20 nodes by seed: last is %s, twice: %s", drawn.Nodes[19].Label, diff)
	}
}

func TestReadRTTFillsWhatWasNotMeasured(t *testing.T) {
	top, err := Read(strings.NewReader("0 10 -1\n20 0 nan\n8 -1 0\n"), "t", ReadOptions{Format: RTT})
	if err != nil {
		t.Fatal(err)
	}
	ms := func(v time.Duration) link.Override { v *= time.Millisecond; return link.Override{Delay: &v} }
	want := []Link{{A: 0, B: 1, AB: ms(5), BA: ms(10)}, {A: 0, B: 2, AB: ms(4), BA: ms(4)}}
	if diff := cmp.Diff(want, top.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// TestReadErrors checks that every error names the file, the line, the value
// and what is allowed.
func TestReadErrors(t *testing.T) {
	for _, c := range []struct {
		name, input, want string
		opt               ReadOptions
	}{
		{"empty", " \n", "empty", ReadOptions{}},
		{"xy", "0,0\n1,x\n", ":2: coordinate \"x\"", ReadOptions{}},
		{"xy infinite", "0,0\n\n1,Inf\n", ":3: coordinate \"Inf\"", ReadOptions{}},
		{"xy fields", "0,0\n1,2,3,4\n", ":2: \"1,2,3,4\": want x,y", ReadOptions{}},
		{"xy radius", "0,0\n", "radius -1: want metres above 0", ReadOptions{Radius: -1}},
		{"format", "0,0\n", "format \"dot\": want one of xy, json", ReadOptions{Format: "dot"}},
		{"ns3 count", "x\n0,1,2\n", ":1: \"x\": want the number of nodes", ReadOptions{Format: NS3}},
		{"binary", "\x89PNG\r\n\x1a\n\x00\x00", "line 1 is of no known format", ReadOptions{}},
		{"words", "hello world\n", "line 1 is of no known format", ReadOptions{}},
		{"ns3 node", "2\n0,1,2\n0,2,2\n", ":3: \"0,2,2\": nodes are 0..1", ReadOptions{}},
		{"ns3 differs", "2\n0,1,2\n1,0,3\n", ":3: pair 0,1 has distance 3 here and 2 before", ReadOptions{}},
		{"rtt", "0 1\n1 x\n", ":2: column 2: \"x\"", ReadOptions{}},
		{"rtt ragged", "0 1 2\n1 0\n", ":2: 2 columns, but 3", ReadOptions{}},
		{"rtt short", "0 1 2\n1 0 2\n", ":2: 2 lines of 3 columns", ReadOptions{}},
		{"rtt nodes", "0 1\n1 0\n", "nodes 3: the matrix has only 2", ReadOptions{Nodes: 3}},
		{"json unknown", "{\"nodes\": [\n{\"x\": 1,\n\"colour\": 2}]}", ":3: unknown key \"colour\"", ReadOptions{}},
		{"json top", "{\n\"vertices\": []}", ":2: unknown key \"vertices\": want name, radius, nodes or links", ReadOptions{}},
		{"json type", "{\"nodes\": [\n{\"x\": \"a\"}]}", ":2: x: found a string: want a number", ReadOptions{}},
		{"json syntax", "{\"nodes\": [\n{\"x\": 1},,]}", ":2: malformed JSON", ReadOptions{}},
		{"json end", "{\"nodes\": [\n{\"x\": 1}", ":2: malformed JSON: it ends too early", ReadOptions{}},
		{"json after", "{\"radius\": 1, \"nodes\": [{}]}\n{}", ":2: something follows", ReadOptions{}},
		{"json twice", "{\"radius\": 1,\n\"radius\": 1, \"nodes\": [{}]}", ":2: key \"radius\" is given twice", ReadOptions{}},
		{"json none", "{}", "no nodes", ReadOptions{}},
		{"json loss", "{\"nodes\": [{}, {}], \"links\": [\n{\"a\": 0, \"b\": 1, \"ab\": {\"loss\": -0.1}}]}", ":2: link 0-1, ab: loss \"-0.1\": want 0..1", ReadOptions{}},
		{"json delay", "{\"nodes\": [{}, {}], \"links\": [\n{\"a\": 0, \"b\": 1, \"ba\": {\"delay\": \"5 parsec\"}}]}", ":2: link 0-1, ba: delay \"5 parsec\": want a duration", ReadOptions{}},
		{"json end node", "{\"nodes\": [{}, {}], \"links\": [\n{\"a\": 0, \"b\": 2}]}", ":2: link 0-2 names node 2: nodes are 0..1", ReadOptions{}},
		{"json again", "{\"nodes\": [{}, {}], \"links\": [\n{\"a\": 0, \"b\": 1},\n{\"a\": 1, \"b\": 0}]}", ":3: link 0-1 is given twice, first in line 2", ReadOptions{}},
		{"json loop", "{\"nodes\": [{}, {}], \"links\": [\n{\"a\": 1, \"b\": 1}]}", ":2: link 1-1 joins a node to itself", ReadOptions{}},
		{"json no rule", "{\"nodes\": [{}, {}]}", "neither \"links\" nor \"radius\"", ReadOptions{}},
		{"graphml root", "<svg/>", ":1: root element is \"svg\"", ReadOptions{}},
		{"graphml syntax", "<graphml>\n<graph></graphml>", ":2: malformed XML", ReadOptions{}},
		{"graphml node", "<graphml><graph>\n<node/></graph></graphml>", ":2: node without id", ReadOptions{}},
		{"graphml edge", "<graphml><graph><node id=\"a\"/>\n<edge source=\"a\" target=\"b\"/></graph></graphml>", ":2: edge \"a\"-\"b\" names a node", ReadOptions{}},
		{"graphml loss", "<graphml><graph><node id=\"a\"/><node id=\"b\"/>\n<edge source=\"a\" target=\"b\"><data key=\"loss\">2</data></edge></graph></graphml>", ":2: edge \"a\"-\"b\": loss \"2\": want 0..1", ReadOptions{}},
		{"freifunk", "{\"nodes\": [{\"id\": 1}],\n\"links\": [{\"source\": 1, \"target\": 2}]}", "links[0]: \"1\"-\"2\" names an unknown node", ReadOptions{}},
		{"freifunk tq", "{\"nodes\": [{\"id\": 1}, {\"id\": 2}],\n\"links\": [{\"source\": 1, \"target\": 2, \"source_tq\": 7}]}", "links[0]: link qualities 7", ReadOptions{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "in")
			if err := os.WriteFile(path, []byte(c.input), 0o600); err != nil {
				t.Fatal(err)
			}
			top, err := ReadFile(path, c.opt)
			if err == nil {
				t.Fatalf("read %+v", top)
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got error %q\nwant one with the path and %q", err, c.want)
			}
		})
	}
}

// everything has a value in every field that formats carry.
func everything() *Topology {
	delay, jitter, dist, loss, rate := 5*time.Millisecond, 1500*time.Microsecond, link.Normal, 0.05, int64(10_000_000)
	loss2, rate2, burst := 1.0/3, int64(1), link.GilbertElliott{P: 0.01, R: 0.3, Good: 0, Bad: 0.8}
	t, err := New("every <thing>", []Node{
		{X: 0.1, Y: -2.5e-7, Z: 3, Label: "door \"1\"", Tags: []string{"roof", "east"}},
		{X: 1e6, Y: 1.0 / 3},
		{Label: "n7"},
	}, []Link{
		{A: 1, B: 0, AB: link.Override{Delay: &delay, Jitter: &jitter, Dist: &dist, Loss: &loss, Rate: &rate}},
		{A: 1, B: 2, AB: link.Override{Loss: &loss2, Rate: &rate2}, BA: link.Override{Burst: &burst, Rate: &rate2}},
	})
	if err != nil {
		panic(err)
	}
	return t
}

func roundTrip(t *testing.T, format Format, top *Topology) *Topology {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, format, top); err != nil {
		t.Fatal(err)
	}
	opt := ReadOptions{Radius: top.Radius, Note: func(s string) { t.Errorf("note %q", s) }}
	got, err := Read(&b, top.Name, opt)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Other programs read a share as a number.
func TestJSONWritesNumbers(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, JSON, everything()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"loss":0.05,`, `"delay":"5ms"`, `"rate":"10mbit"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, format := range WriteFormats() {
		for _, p := range []GenerateParams{
			{Kind: Random, Nodes: 40},
			{Kind: Grid, Rows: 3, Cols: 4},
			{Kind: Cluster, Nodes: 50},
			{Kind: Line, Nodes: 5},
			{Kind: Ring, Nodes: 8},
			{Kind: Full, Nodes: 7},
		} {
			t.Run(fmt.Sprintf("%s/%s", format, p.Kind), func(t *testing.T) {
				top, err := Generate(p, 5)
				if err != nil {
					t.Fatal(err)
				}
				if format == XY {
					if top.Radius == 0 {
						if err := Write(&bytes.Buffer{}, XY, top); err == nil {
							t.Error("xy took links that a radius does not give")
						}
						return
					}
					for i := range top.Nodes {
						top.Nodes[i].Tags = nil
					}
				}
				if diff := cmp.Diff(top, roundTrip(t, format, top)); diff != "" {
					t.Errorf("-written +read:\n%s", diff)
				}
			})
		}
	}
	for _, format := range []Format{JSON, GraphML} {
		t.Run(string(format)+"/everything", func(t *testing.T) {
			top := everything()
			if diff := cmp.Diff(top, roundTrip(t, format, top)); diff != "" {
				t.Errorf("-written +read:\n%s", diff)
			}
		})
	}
}

// TestReadForeignGraphML reads what other programs write (made up after their
// habits; testdata says which).
func TestReadForeignGraphML(t *testing.T) {
	for _, c := range []struct {
		file string
		want Topology
	}{
		{"networkx.graphml", Topology{
			Name:  "networkx",
			Nodes: []Node{{X: 0, Y: 0, Label: "gate"}, {X: 3, Y: 4}, {X: 6, Y: 0, Label: "roof"}},
			Links: []Link{
				{A: 0, B: 1, AB: delayed(5), BA: delayed(5)},
				{A: 1, B: 2, AB: delayed(7), BA: delayed(9)},
			},
		}},
		{"yed.graphml", Topology{
			Name:  "yed",
			Nodes: []Node{{X: 100, Y: 50, Label: "left"}, {X: 250.5, Y: 60, Label: "right"}},
			Links: []Link{{A: 0, B: 1}},
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			got, err := ReadFile(filepath.Join("testdata", c.file), ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func delayed(ms int) link.Override {
	d := time.Duration(ms) * time.Millisecond
	return link.Override{Delay: &d}
}

func fuzzFormat(f *testing.F, format Format, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<12 {
			return // many near nodes take a square of links
		}
		top, err := Read(bytes.NewReader(data), "fuzz", ReadOptions{Format: format, Radius: 4})
		if err != nil {
			return
		}
		if err := top.Validate(); err != nil {
			t.Fatalf("accepted an invalid topology: %v", err)
		}
		var b bytes.Buffer
		if err := Write(&b, JSON, top); err != nil {
			t.Fatalf("write what was read: %v", err)
		}
		if !json7bit(top) {
			return // JSON replaces bytes that are no UTF-8
		}
		again, err := Read(&b, "fuzz", ReadOptions{Format: JSON})
		if err != nil {
			t.Fatalf("read what was written: %v\n%s", err, b.String())
		}
		if diff := cmp.Diff(top.Links, again.Links); diff != "" {
			t.Fatalf("links after writing and reading (-before +after):\n%s", diff)
		}
	})
}

func json7bit(t *Topology) bool {
	text := t.Name
	for _, n := range t.Nodes {
		text += n.Label + strings.Join(n.Tags, "")
	}
	return strings.ToValidUTF8(text, "") == text
}

func FuzzReadXY(f *testing.F) {
	fuzzFormat(f, XY, "0,0\n1, 2.5\n", "#c\n\n1e3,-7\n", "1\n", "1,2,3")
}

func FuzzReadNS3(f *testing.F) {
	fuzzFormat(f, NS3, "3\n0,1,1\n1,0,1\n1,2,1\n0,2,2\n", "2\n0,1,8.61\n", "0\n")
}

func FuzzReadRTT(f *testing.F) {
	fuzzFormat(f, RTT, "0\t1.5\n1.5\t0\n", "0 -1 3\n1 0 nan\n2 2 0\n", "7")
}

func FuzzReadJSON(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, JSON, everything()); err != nil {
		f.Fatal(err)
	}
	fuzzFormat(f, JSON, b.String(), `{"radius":4,"nodes":[{"x":1},{"y":2}]}`, `{"nodes":[{}],"links":[]}`, `{"nodes":null}`)
}

func FuzzReadGraphML(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, GraphML, everything()); err != nil {
		f.Fatal(err)
	}
	fuzzFormat(f, GraphML, b.String(), `<graphml><graph edgedefault="directed"><node id="a"/><node id="b"/><edge source="b" target="a"><data key="burst">0 1 0 1</data></edge></graph></graphml>`)
}

func FuzzReadFreifunk(f *testing.F) {
	fuzzFormat(f, Freifunk, `{"nodes":[{"id":0,"x":51,"y":12},{"id":"1"}],"links":[{"source":0,"target":"1","source_tq":0.9,"target_tq":0}]}`)
}

func BenchmarkReadRTT(b *testing.B) {
	data, err := os.ReadFile(sharedData(b, "netlatency-planetlab", "PlanetLabData_1"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Read(bytes.NewReader(data), "b", ReadOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
