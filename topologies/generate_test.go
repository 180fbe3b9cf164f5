package topologies

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"churnbed/node/core"
)

func TestGenerate(t *testing.T) {
	for _, c := range []struct {
		p              GenerateParams
		nodes          int
		linkLo, linkHi int
		hopDiameter    int // 0: any
		survivable     bool
	}{
		{GenerateParams{Kind: Random, Nodes: 256, Width: 15, Height: 15, Radius: 4}, 256, 5200, 6100, 0, false},
		{GenerateParams{Kind: Random, Nodes: 64, Width: 17, Height: 17, Survivable: true}, 64, 150, 400, 0, true},
		{GenerateParams{Kind: Random, Nodes: 1}, 1, 0, 0, 0, false},
		{GenerateParams{Kind: Grid, Rows: 7, Cols: 7}, 49, 156, 156, 6, true},
		{GenerateParams{Kind: Grid, Nodes: 49, Width: 15, Height: 15}, 49, 156, 156, 6, true},
		{GenerateParams{Kind: Grid, Nodes: 256, Width: 15, Height: 15}, 256, 4918, 4918, 0, true},
		{GenerateParams{Kind: Grid, Nodes: 10, Step: 4}, 10, 13, 13, 5, false},
		{GenerateParams{Kind: Grid, Rows: 32, Cols: 32, Step: 4}, 1024, 1984, 1984, 62, true},
		{GenerateParams{Kind: Grid3D, Rows: 5, Cols: 5, Layers: 10, Step: 1, Radius: 1}, 250, 625, 625, 17, true},
		{GenerateParams{Kind: Grid3D, Nodes: 27, Step: 1, Radius: 1}, 27, 54, 54, 6, true},
		{GenerateParams{Kind: Grid3D, Nodes: 10, Rows: 2, Step: 1, Radius: 1}, 10, 13, 17, 0, false},
		{GenerateParams{Kind: Grid3D, Nodes: 30, Cols: 4, Layers: 3, Radius: 2.5}, 30, 50, 70, 0, false},
		{GenerateParams{Kind: LShape, Nodes: 16}, 16, 15, 15, 15, false},
		{GenerateParams{Kind: Cluster, Nodes: 64}, 64, 200, 900, 0, false},
		{GenerateParams{Kind: Cluster, Rooms: []Room{{0, 0, 2, 2, 5}, {3, 0, 2, 2, 4}}}, 9, 15, 36, 0, false},
		{GenerateParams{Kind: Line, Nodes: 5}, 5, 4, 4, 4, false},
		{GenerateParams{Kind: Ring, Nodes: 8, Survivable: true}, 8, 8, 8, 4, true},
		{GenerateParams{Kind: Ring, Nodes: 2}, 2, 1, 1, 1, true},
		{GenerateParams{Kind: Ring, Nodes: 3}, 3, 3, 3, 1, true},
		{GenerateParams{Kind: Full, Nodes: 20}, 20, 190, 190, 1, true},
	} {
		t.Run(fmt.Sprintf("%s%d", c.p.Kind, c.nodes), func(t *testing.T) {
			top, err := Generate(c.p, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := top.Validate(); err != nil {
				t.Fatal(err)
			}
			s := Measure(top, Euclid)
			if s.Nodes != c.nodes || s.Links < c.linkLo || s.Links > c.linkHi || !s.Connected || c.survivable && !s.Survivable ||
				c.hopDiameter != 0 && s.HopDiameter != c.hopDiameter {
				t.Errorf("got %+v, want %+v", s, c)
			}
			again, err := Generate(c.p, 1)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(top, again); diff != "" {
				t.Errorf("the same seed gives another topology:\n%s", diff)
			}
		})
	}
}

func TestGenerateKeepsSpacingAreaAndRooms(t *testing.T) {
	rooms := []Room{{0, 0, 3, 2, 6}, {4, 1, 2, 3, 5}}
	for seed := range uint64(20) {
		random, err := Generate(GenerateParams{Kind: Random, Nodes: 30, Width: 10, Height: 8, MinSpacing: 0.8}, seed)
		if err != nil {
			t.Fatal(err)
		}
		cluster, err := Generate(GenerateParams{Kind: Cluster, Rooms: rooms, MinSpacing: 0.5}, seed)
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range random.Nodes {
			if n.X < 0 || n.X > 10 || n.Y < 0 || n.Y > 8 {
				t.Errorf("seed %d: node %d at %v,%v is outside of the area", seed, i, n.X, n.Y)
			}
		}
		for i, n := range cluster.Nodes {
			room := 0
			if i >= 6 {
				room = 1
			}
			r := rooms[room]
			if n.X < r.X || n.X > r.X+r.W || n.Y < r.Y || n.Y > r.Y+r.H || n.Tags[0] != fmt.Sprintf("room%d", room) {
				t.Errorf("seed %d: node %d %+v is not in room %d", seed, i, n, room)
			}
		}
		for _, c := range []struct {
			top   *Topology
			least float64
		}{{random, 0.8}, {cluster, 0.5}} {
			for i, a := range c.top.Nodes {
				for j, b := range c.top.Nodes[:i] {
					if d := Distance(a, b); d < c.least {
						t.Errorf("seed %d, %s: nodes %d and %d are %v apart", seed, c.top.Name, i, j, d)
					}
				}
			}
		}
	}
}

func TestGenerateErrors(t *testing.T) {
	for _, c := range []struct {
		p    GenerateParams
		want string
	}{
		{GenerateParams{Kind: "star", Nodes: 3}, `topology "star": want one of random, grid, grid3d, cluster, line, lshape, ring, full`},
		{GenerateParams{Kind: Random}, "nodes 0: a topology needs at least 1"},
		{GenerateParams{Kind: Random, Nodes: -4}, "nodes -4"},
		{GenerateParams{Kind: Full, Nodes: core.MaxNodes + 1}, "nodes 65537: at most 65536"},
		{GenerateParams{Kind: Full, Nodes: 10000}, "nodes 10000: a full mesh of them has 49995000 links, at most"},
		{GenerateParams{Kind: Random, Nodes: 5, Width: 3}, "area 3x0"},
		{GenerateParams{Kind: Random, Nodes: 5, Radius: -1}, "radius -1: want metres above 0"},
		{GenerateParams{Kind: Random, Nodes: 5, Radius: math.NaN()}, "radius NaN"},
		{GenerateParams{Kind: Random, Nodes: 10, Width: 1000, Height: 1000}, "raise the radius"},
		{GenerateParams{Kind: Random, Nodes: 100, MinSpacing: 5}, "min-spacing 5: the nodes do not fit"},
		{GenerateParams{Kind: Random, Nodes: 5, Rows: 2}, "rows is for grid, grid3d topologies, not for random"},
		{GenerateParams{Kind: Grid, Nodes: 5, Step: 5}, "neighbours are 5 x 5 m apart; raise the radius or lower the step"},
		{GenerateParams{Kind: Grid, Nodes: 5, Rows: 2, Cols: 2}, "nodes 5: rows 2 x cols 2 hold only 4"},
		{GenerateParams{Kind: Line, Nodes: 5, Survivable: true}, "survivable: without node 1"},
		{GenerateParams{Kind: Cluster, Nodes: 5, Rooms: []Room{{0, 0, 1, 1, 4}}}, "nodes 5: the rooms hold 4"},
		{GenerateParams{Kind: Cluster, Rooms: []Room{{0, 0, 1, 0, 4}}}, "width and height above 0"},
		{GenerateParams{Kind: Cluster, Rooms: []Room{{0, 0, 1, 1, 4}, {50, 0, 1, 1, 4}}}, "move the rooms closer"},
	} {
		top, err := Generate(c.p, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, %v; want an error with %q", c.p, top, err, c.want)
		}
	}
}

func TestParseAreaAndRoom(t *testing.T) {
	if w, h, err := ParseArea("15 x 7.5"); err != nil || w != 15 || h != 7.5 {
		t.Errorf("15 x 7.5 is %v, %v, %v", w, h, err)
	}
	for _, s := range []string{"", "15", "15x", "0x3", "3x-1", "Infx1", "1x2x3", "NaNx1"} {
		if _, _, err := ParseArea(s); err == nil {
			t.Errorf("area %q is accepted", s)
		}
	}
	want := Room{X: 1, Y: -2.5, W: 3, H: 4, Count: 12}
	if got, err := ParseRoom(want.String()); err != nil || got != want {
		t.Errorf("%s is read as %v, %v", want, got, err)
	}
	for _, s := range []string{"", "1,2,3:4", "1,2,3,4", "1,2,3,4:x", "1,2,0,4:1", "1,2,3,4:0", "a,2,3,4:1", "1,2,3,4:1:1"} {
		if _, err := ParseRoom(s); err == nil {
			t.Errorf("room %q is accepted", s)
		}
	}
}

func FuzzParseAreaAndRoom(f *testing.F) {
	f.Add("15x15")
	f.Add("0,0,5,5:10")
	f.Fuzz(func(t *testing.T, s string) {
		if w, h, err := ParseArea(s); err == nil && (w <= 0 || h <= 0) {
			t.Errorf("area %q is %v x %v", s, w, h)
		}
		if r, err := ParseRoom(s); err == nil {
			if again, err := ParseRoom(r.String()); err != nil || again != r {
				t.Errorf("room %q is %v, written and read %v, %v", s, r, again, err)
			}
		}
	})
}

// TestLinksWithinAreAllPairsInReach compares the cells with all pairs.
func TestLinksWithinAreAllPairsInReach(t *testing.T) {
	for seed := range uint64(40) {
		rng := core.Stream(seed, "test")
		nodes := make([]Node, 60)
		for i := range nodes {
			nodes[i] = Node{X: rng.Float64()*20 - 10, Y: rng.Float64()*20 - 10, Z: rng.Float64() * 5}
			if seed%2 == 0 {
				nodes[i] = Node{X: float64(rng.IntN(9) - 4), Y: float64(rng.IntN(9) - 4)}
			}
		}
		radius := float64(1 + rng.IntN(5))
		var want []Link
		for a := range nodes {
			for b := a + 1; b < len(nodes); b++ {
				if Distance(nodes[a], nodes[b]) <= radius {
					want = append(want, Link{A: core.NodeID(a), B: core.NodeID(b)})
				}
			}
		}
		top, err := WithinRadius("t", nodes, radius)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, top.Links); diff != "" {
			t.Errorf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

// TestArticulationPoints compares with taking every node away in turn.
func TestArticulationPoints(t *testing.T) {
	for seed := range uint64(80) {
		rng := core.Stream(seed, "test")
		top := mesh(rng, 1+rng.IntN(20))
		parts := len(top.Components())
		var want []core.NodeID
		for i := range top.Nodes {
			var others []core.NodeID
			for j := range top.Nodes {
				if j != i {
					others = append(others, core.NodeID(j))
				}
			}
			alone := 0
			if len(top.Neighbours(core.NodeID(i))) == 0 {
				alone = 1
			}
			if len(top.Subset(others).Components()) > parts-alone {
				want = append(want, core.NodeID(i))
			}
		}
		got := top.ArticulationPoints()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d (-want +got):\n%s", seed, diff)
		}
		if top.Biconnected() != (parts == 1 && len(want) == 0) {
			t.Errorf("seed %d: biconnected %v with %d parts and points %v", seed, top.Biconnected(), parts, want)
		}
	}
}

func TestAdjacencyAgreesWithLinks(t *testing.T) {
	top := mesh(core.Stream(3, "test"), 20)
	adj := top.Adjacency()
	for i := range top.Nodes {
		n := core.NodeID(i)
		var ids []core.NodeID
		for _, nb := range adj.Of(n) {
			ids = append(ids, nb.Node)
			if top.LinkIndex(n, nb.Node) != nb.Link || top.LinkIndex(nb.Node, n) != nb.Link {
				t.Errorf("link %d-%d has index %d, adjacency says %d", n, nb.Node, top.LinkIndex(n, nb.Node), nb.Link)
			}
		}
		if diff := cmp.Diff(top.Neighbours(n), ids); diff != "" || len(ids) != adj.Degree(n) {
			t.Errorf("neighbours of %d differ: %s", n, diff)
		}
		for j := range top.Nodes {
			if i != j && (top.LinkIndex(n, core.NodeID(j)) >= 0) != slices.Contains(ids, core.NodeID(j)) {
				t.Errorf("LinkIndex(%d, %d) is %d, neighbours are %v", i, j, top.LinkIndex(n, core.NodeID(j)), ids)
			}
		}
	}
}

func BenchmarkGenerate(b *testing.B) {
	for _, p := range []GenerateParams{
		{Kind: Random, Nodes: 256, Width: 15, Height: 15},
		{Kind: Random, Nodes: 1024, Width: 68, Height: 68},
		{Kind: Grid, Nodes: 1024, Step: 4},
		{Kind: Full, Nodes: 490},
	} {
		b.Run(fmt.Sprintf("%s%d", p.Kind, p.Nodes), func(b *testing.B) {
			for b.Loop() {
				if _, err := Generate(p, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
