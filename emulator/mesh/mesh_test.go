package mesh_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"churnbed/emulator/link"
	"churnbed/emulator/mesh"
	"churnbed/node/core"
	"churnbed/topologies"
	"churnbed/workloads"
)

func grid(t testing.TB, nodes int) *topologies.Topology {
	t.Helper()
	top, err := topologies.Generate(topologies.GenerateParams{Kind: "random", Nodes: nodes, Width: 6, Height: 6, Radius: 4}, 5)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// same gives every link the same parameters both ways.
func same(p link.Params) func(int) (link.Params, link.Params) {
	return func(int) (link.Params, link.Params) { return p, p }
}

// model says the same of one link as mesh.State, from the list of all that
// ever happened.
type model struct {
	top    *topologies.Topology
	faults []workloads.Fault
	off    map[core.NodeID]bool
}

func (m *model) up(l topologies.Link) bool {
	down, cut := false, false
	for i := range m.faults {
		f := &m.faults[i]
		switch f.Verb {
		case workloads.LinkDown, workloads.LinkUp:
			named := slices.Contains(f.Links, [2]core.NodeID{l.A, l.B})
			if len(f.Links) == 0 {
				named = slices.Contains(f.Nodes, l.A) || slices.Contains(f.Nodes, l.B) || len(f.Nodes) == 0
			}
			if named {
				down = f.Verb == workloads.LinkDown
			}
		case workloads.Partition:
			side := func(n core.NodeID) int {
				return slices.IndexFunc(f.Groups, func(g []core.NodeID) bool { return slices.Contains(g, n) })
			}
			cut = cut || side(l.A) != side(l.B)
		case workloads.Heal:
			cut = false
		}
	}
	return !down && !cut && !m.off[l.A] && !m.off[l.B]
}

// reachable is the hop distance from a by breadth-first search, -1 where
// there is no way.
func (m *model) hops(a core.NodeID) []int {
	far := make([]int, len(m.top.Nodes))
	for i := range far {
		far[i] = -1
	}
	if m.off[a] {
		return far
	}
	far[a] = 0
	for queue := []core.NodeID{a}; len(queue) > 0; queue = queue[1:] {
		for _, l := range m.top.Links {
			if !m.up(l) {
				continue
			}
			for _, way := range [][2]core.NodeID{{l.A, l.B}, {l.B, l.A}} {
				if way[0] == queue[0] && far[way[1]] < 0 {
					far[way[1]] = far[queue[0]] + 1
					queue = append(queue, way[1])
				}
			}
		}
	}
	return far
}

// Whatever faults follow one another, links are up and routes lead as a model
// says that knows their whole history.
func TestAgainstHistory(t *testing.T) {
	top := grid(t, 9)
	rapid.Check(t, func(t *rapid.T) {
		s := mesh.New(top, same(link.Params{Delay: time.Millisecond}), topologies.Hops)
		m := &model{top: top, off: map[core.NodeID]bool{}}
		node := rapid.Custom(func(t *rapid.T) core.NodeID {
			return core.NodeID(rapid.IntRange(0, len(top.Nodes)-1).Draw(t, "node"))
		})
		pair := rapid.Custom(func(t *rapid.T) [2]core.NodeID {
			l := rapid.SampledFrom(top.Links).Draw(t, "link")
			return [2]core.NodeID{l.A, l.B}
		})
		was := make([]bool, len(top.Links))
		for i := range was {
			was[i] = true
		}
		for range rapid.IntRange(1, 12).Draw(t, "faults") {
			switch verb := rapid.SampledFrom([]workloads.Verb{
				workloads.LinkDown, workloads.LinkUp, workloads.Partition, workloads.Heal, workloads.Poweroff, workloads.Restart,
			}).Draw(t, "verb"); verb {
			case workloads.Poweroff, workloads.Restart:
				n := node.Draw(t, "node")
				m.off[n] = verb == workloads.Poweroff
				s.SetOff(n, m.off[n])
				if s.Off(n) != m.off[n] {
					t.Fatalf("node %d: off is %v", n, s.Off(n))
				}
			default:
				f := workloads.Fault{Verb: verb}
				switch {
				case verb == workloads.Partition:
					of := rapid.SliceOfN(rapid.IntRange(0, 2), len(top.Nodes), len(top.Nodes)).Draw(t, "group")
					f.Groups = make([][]core.NodeID, 2) // group 2 stays unnamed
					for n, g := range of {
						if g < 2 {
							f.Groups[g] = append(f.Groups[g], core.NodeID(n))
						}
					}
				case verb == workloads.Heal:
				case rapid.Bool().Draw(t, "links"):
					f.Links = rapid.SliceOfN(pair, 1, 3).Draw(t, "pairs")
				default:
					f.Nodes = rapid.SliceOfN(node, 1, 2).Draw(t, "nodes")
				}
				m.faults = append(m.faults, f)
				if changed := s.Apply(&f); len(changed) > 0 {
					t.Fatalf("%s changed the parameters of %v", verb, changed)
				}
			}
			var flipped []int
			for i, l := range top.Links {
				if up := m.up(l); up != was[i] {
					was[i] = up
					flipped = append(flipped, i)
				}
			}
			if diff := cmp.Diff(flipped, s.Flip()); diff != "" {
				t.Fatalf("flipped (-want +got):\n%s", diff)
			}
			s.Reroute()
			for a := range top.Nodes {
				far := m.hops(core.NodeID(a))
				for b := range top.Nodes {
					next := s.Routes().Next(core.NodeID(a), core.NodeID(b))
					if far[b] <= 0 {
						if a != b && next != core.None {
							t.Fatalf("route from %d to %d, which is out of reach, by %d", a, b, next)
						}
						continue
					}
					if got := s.Routes().Hops(core.NodeID(a), core.NodeID(b)); got != far[b] {
						t.Fatalf("%d hops from %d to %d, want %d", got, a, b, far[b])
					}
				}
			}
		}
	})
}

func TestSet(t *testing.T) {
	top := grid(t, 9)
	first, second := top.Links[0], top.Links[1]
	delay, loss := 9*time.Millisecond, 0.25
	base := link.Params{Delay: time.Millisecond}
	slow, lossy := base, base
	slow.Delay, lossy.Loss = delay, loss
	pair := func(l topologies.Link) [2]core.NodeID { return [2]core.NodeID{l.A, l.B} }
	back := func(l topologies.Link) [2]core.NodeID { return [2]core.NodeID{l.B, l.A} }
	for name, c := range map[string]struct {
		fault   workloads.Fault
		changed []int
		ab, ba  link.Params // of the first link
	}{
		"both ways": {workloads.Fault{Links: [][2]core.NodeID{pair(second), pair(first)}}, []int{0, 1}, slow, slow},
		"forth":     {workloads.Fault{Links: [][2]core.NodeID{pair(first)}, OneWay: true}, []int{0}, slow, base},
		"back":      {workloads.Fault{Links: [][2]core.NodeID{back(first)}, OneWay: true}, []int{0}, base, slow},
		"each way once": {
			workloads.Fault{Links: [][2]core.NodeID{back(first), pair(first)}, OneWay: true}, []int{0}, slow, slow,
		},
		"another": {workloads.Fault{Links: [][2]core.NodeID{pair(second)}, OneWay: true}, []int{1}, base, base},
	} {
		t.Run(name, func(t *testing.T) {
			s := mesh.New(top, same(base), topologies.Euclid)
			f := c.fault
			f.Verb, f.Set = workloads.Set, link.Override{Delay: &delay}
			if diff := cmp.Diff(c.changed, s.Apply(&f)); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]link.Params{c.ab, c.ba}, []link.Params{s.Links[0].AB, s.Links[0].BA}); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
			if flipped := s.Flip(); len(flipped) > 0 {
				t.Errorf("links %v flipped", flipped)
			}
		})
	}
	t.Run("all", func(t *testing.T) {
		s := mesh.New(top, same(base), topologies.Euclid)
		f := workloads.Fault{Verb: workloads.Set, Set: link.Override{Loss: &loss}}
		if changed := s.Apply(&f); len(changed) != len(top.Links) {
			t.Errorf("%d links changed", len(changed))
		}
		for i := range s.Links {
			if s.Links[i].AB != lossy || s.Links[i].BA != lossy {
				t.Errorf("link %d: %+v %+v", i, s.Links[i].AB, s.Links[i].BA)
			}
		}
	})
}

// Delays of the links towards a node come in the order of its neighbours.
func TestIncoming(t *testing.T) {
	top := grid(t, 9)
	s := mesh.New(top, func(i int) (ab, ba link.Params) {
		return link.Params{Delay: time.Duration(2*i) * time.Millisecond}, link.Params{Delay: time.Duration(2*i+1) * time.Millisecond}
	}, topologies.Delay)
	for n := range top.Nodes {
		n := core.NodeID(n)
		for k, d := range s.Incoming(n) {
			from := top.Neighbours(n)[k]
			i := slices.IndexFunc(top.Links, func(l topologies.Link) bool {
				return l.A == min(n, from) && l.B == max(n, from)
			})
			want := int64(2*i) * 1e6
			if from > n {
				want += 1e6
			}
			if d != want {
				t.Errorf("from %d to %d: %d ns, want %d", from, n, d, want)
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	top := grid(t, 9)
	s := mesh.New(top, same(link.Params{Delay: time.Millisecond, Loss: 0.5}), topologies.Euclid)
	if got, want := s.Links[0].Describe(), "delay 1ms jitter 0s loss 0.5 rate 0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Links[0].BA.Burst = &link.GilbertElliott{P: 0.25}
	if got, want := s.Links[0].Describe(), "ab: delay 1ms jitter 0s loss 0.5 rate 0; ba: delay 1ms jitter 0s loss 0.5 rate 0 burst {P:0.25 R:0 Good:0 Bad:0}"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
