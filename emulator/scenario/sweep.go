package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// matrixKey is the key of a scenario file that makes it a sweep:
//
//	matrix:
//	  algorithm: [ra, camera]
//	  nodes: [16, 36, 64]
//	  fault: [[], ["at 2s crash holder for 3s"]]
//
// runs the scenario once for each combination of values, a cell, with so many
// trials each as trials says. The values of a list key are lists, or single
// items.
const matrixKey = "matrix"

// maxCells bounds the combinations of a sweep.
const maxCells = 10_000

// Sweep is a scenario with several values for some keys.
type Sweep struct {
	Axes []Axis
	base Spec
	from Origin
	over []Setting
}

// Axis is one key of the matrix.
type Axis struct {
	Key    string   `json:"key"`
	Values []string `json:"values"` // as text; the items of a list joined by "; "
	items  [][]string
	places []string
}

// Cell is one combination: Values has the value of each axis.
type Cell struct {
	Index  int      `json:"index"`
	Values []string `json:"values"`
	choice []int
}

// ErrNoMatrix says that a file is no sweep.
var ErrNoMatrix = errors.New("no matrix: a sweep lists values under \"matrix:\", such as \"nodes: [16, 36, 64]\"")

// LoadSweep reads a sweep; flags go over the file, but not over the matrix.
// Errors are Problems.
func LoadSweep(file string, flags []Setting) (*Sweep, error) {
	data, err := readBounded(file)
	if err != nil {
		return nil, Problems{{Text: "read sweep: " + notThere(err, file)}}
	}
	root, err := parseYAML(data)
	if err != nil {
		return nil, decode(new(Spec), Origin{}, data, file).err() // says where
	}
	s := &Sweep{base: Default(), from: Origin{}, over: flags}
	d := newDecoder(&s.base, s.from, file)
	if root == nil || root.Kind != yaml.MappingNode {
		return nil, Problems{{file, ErrNoMatrix.Error()}}
	}
	rest := *root
	rest.Content = nil
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != matrixKey {
			rest.Content = append(rest.Content, root.Content[i], root.Content[i+1])
			continue
		}
		if s.Axes != nil {
			d.bad(root.Content[i], "duplicate key %q", matrixKey)
			continue
		}
		s.axes(d, root.Content[i+1])
	}
	d.document(&rest)
	if len(d.problems) == 0 && len(s.Axes) == 0 {
		d.problems = append(d.problems, Problem{file, ErrNoMatrix.Error()})
	}
	for _, f := range flags {
		if slices.ContainsFunc(s.Axes, func(a Axis) bool { return a.Key == f.Key }) {
			d.problems = append(d.problems, Problem{"--" + f.Key, "is in the matrix too: give it in one place"})
		}
	}
	d.problems = append(d.problems, applyFlags(&s.base, s.from, flags)...)
	cells := 1
	for _, a := range s.Axes {
		if cells *= max(len(a.Values), 1); cells > maxCells {
			d.problems = append(d.problems, Problem{file, fmt.Sprintf("matrix: more than %d cells", maxCells)})
			break
		}
	}
	return s, d.problems.err()
}

func notThere(err error, file string) string {
	if errors.Is(err, fs.ErrNotExist) {
		return file + ": no such file"
	}
	return err.Error()
}

// axes reads the matrix.
func (s *Sweep) axes(d *decoder, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.bad(n, "matrix: %s: want lines of \"key: [value, value, ...]\"", describe(n))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, values := n.Content[i], n.Content[i+1]
		k := keyByName(name.Value)
		switch {
		case k == nil:
			d.bad(name, "matrix: unknown key %q%s", name.Value, didYouMean(name.Value, keyNames()))
			continue
		case slices.Contains([]string{"out", "seed", "trials", "name"}, k.Name):
			d.bad(name, "matrix: %s is the sweep's own: seeds go from seed to seed+trials-1 in every cell", k.Name)
			continue
		case slices.ContainsFunc(s.Axes, func(a Axis) bool { return a.Key == k.Name }):
			d.bad(name, "matrix: duplicate key %q", k.Name)
			continue
		case values.Kind != yaml.SequenceNode || len(values.Content) == 0:
			d.bad(values, "matrix: %s: %s: want a list of values", k.Name, describe(values))
			continue
		}
		a := Axis{Key: k.Name}
		for _, v := range values.Content {
			items := []string{}
			switch {
			case v.Kind == yaml.ScalarNode && v.Tag != "!!null":
				items = append(items, anchorPath(k, v.Value, d.dir))
			case v.Kind == yaml.SequenceNode && k.list:
				for _, item := range v.Content {
					if item.Kind != yaml.ScalarNode {
						d.bad(item, "matrix: %s: %s: want a text", k.Name, describe(item))
						continue
					}
					items = append(items, item.Value)
				}
			default:
				d.bad(v, "matrix: %s: %s: want %s", k.Name, describe(v), k.Want)
				continue
			}
			scratch := Default()
			for _, item := range items {
				if err := k.set(&scratch, item); err != nil {
					d.bad(v, "matrix: %v", err)
				}
			}
			text := strings.Join(items, "; ")
			if slices.Contains(a.Values, text) {
				d.bad(v, "matrix: %s: %q is there already", k.Name, text)
				continue
			}
			a.Values, a.items, a.places = append(a.Values, text), append(a.items, items), append(a.places, d.place(v))
		}
		s.Axes = append(s.Axes, a)
	}
}

// Trials is how many seeds each cell has.
func (s *Sweep) Trials() int { return s.base.Trials }

// Base is the scenario that all cells share.
func (s *Sweep) Base() Spec { return s.base }

// Cells lists the combinations, the last axis varying fastest.
func (s *Sweep) Cells() []Cell {
	cells := []Cell{{}}
	for _, a := range s.Axes {
		var next []Cell
		for _, c := range cells {
			for v := range a.Values {
				next = append(next, Cell{Values: append(slices.Clip(c.Values), a.Values[v]), choice: append(slices.Clip(c.choice), v)})
			}
		}
		cells = next
	}
	for i := range cells {
		cells[i].Index = i
	}
	return cells
}

// Name names a cell for people and folders: "nodes=16,algorithm=ra".
func (s *Sweep) Name(c Cell) string {
	words := make([]string, len(s.Axes))
	for i, a := range s.Axes {
		words[i] = a.Key + "=" + c.Values[i]
	}
	return strings.Join(words, ",")
}

// Spec returns the specification of a cell for one seed.
func (s *Sweep) Spec(c Cell, seed uint64) (Spec, Origin, error) {
	spec, origin := s.base, Origin{}
	for k, v := range s.from {
		origin[k] = v
	}
	var problems Problems
	for i, a := range s.Axes {
		k, v := keyByName(a.Key), c.choice[i]
		if k.list {
			*k.items(&spec) = nil
		}
		for n, item := range a.items[v] {
			if err := k.set(&spec, item); err != nil {
				problems = append(problems, Problem{a.places[v], err.Error()})
			}
			if k.list {
				origin[itemOrigin(k.Name, n)] = a.places[v]
			}
		}
		origin[k.Name] = a.places[v]
	}
	spec.Seed, spec.Trials, spec.Out = seed, 1, ""
	return spec, origin, problems.err()
}
