package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"churnbed/node/mutex/catalog"
)

func sweepFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sweep.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

const goodSweep = `name: s
trials: 2
seed: 5
topology: grid
area: 8x8
membership: static
fault: ["at 1s heal"]
matrix:
  nodes: [9, 16]
  topology-file: [""]
  fault: [[], "at 2s crash node 1", ["at 3s heal", "at 4s crash node 2 for 1s"]]
`

func TestSweepCells(t *testing.T) {
	s, err := LoadSweep(sweepFile(t, goodSweep), []Setting{{"cs", "30ms"}})
	if err != nil {
		t.Fatal(err)
	}
	cells := s.Cells()
	var names []string
	for i, c := range cells {
		if c.Index != i {
			t.Errorf("cell %d has index %d", i, c.Index)
		}
		names = append(names, s.Name(c))
	}
	if diff := cmp.Diff([]string{
		"nodes=9,topology-file=,fault=", "nodes=9,topology-file=,fault=at 2s crash node 1",
		"nodes=9,topology-file=,fault=at 3s heal; at 4s crash node 2 for 1s", "nodes=16,topology-file=,fault=",
		"nodes=16,topology-file=,fault=at 2s crash node 1", "nodes=16,topology-file=,fault=at 3s heal; at 4s crash node 2 for 1s",
	}, names); diff != "" {
		t.Fatal(diff)
	}
	for i, faults := range []int{0, 1, 2, 0, 1, 2} {
		spec, origin, err := s.Spec(cells[i], 7)
		if err != nil {
			t.Fatal(err)
		}
		sc, err := Resolve(spec, origin)
		if err != nil {
			t.Fatal(err)
		}
		if len(spec.Fault) != faults || spec.Seed != 7 || spec.Trials != 1 || sc.Arrivals[0].CS.String() != "30ms" || len(sc.Topology.Nodes) != []int{9, 16}[i/3] {
			t.Errorf("cell %d: %d faults, seed %d, trials %d, %d nodes", i, len(spec.Fault), spec.Seed, spec.Trials, len(sc.Topology.Nodes))
		}
	}
	if s.Trials() != 2 || s.Base().Seed != 5 || len(s.Base().Fault) != 1 {
		t.Errorf("base %+v", s.Base())
	}
}

func TestSweepProblems(t *testing.T) {
	for text, want := range map[string]string{
		"nodes: 5\n":                "no matrix",
		"":                          "no matrix",
		"matrix: 3\n":               "want lines of",
		"matrix: {nodes: 3}\n":      "want a list of values",
		"matrix: {nodes: []}\n":     "want a list of values",
		"matrix: {nodes: [3, x]}\n": `"x": want a whole number`,
		"matrix: {nodes: [3, 3]}\n": "is there already",
		"matrix: {nodes: [[3]]}\n":  "a list",
		"matrix: {nodez: [3]}\n":    `did you mean "nodes"`,
		"matrix: {seed: [3]}\n":     "sweep's own",
		"matrix: {nodes: [3]}\nmatrix: {k: [1]}\n": "duplicate",
		"matrix: {nodes: [3]}\ncs: 5\n":            "no unit",
		"matrix: {cs: [1ms]}\n":                    "in the matrix too",
		"matrix: {nodes: [1":                       "YAML",
	} {
		_, err := LoadSweep(sweepFile(t, text), []Setting{{"cs", "30ms"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, _, err := Load(sweepFile(t, goodSweep), nil); err == nil || !strings.Contains(err.Error(), "churnbed sweep") {
		t.Errorf("a sweep as a scenario: %v", err)
	}
}

func FuzzSweep(f *testing.F) {
	f.Add(goodSweep)
	f.Add("matrix:\n  k: [1, 2]\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := LoadSweep(sweepFile(t, text), nil)
		if err != nil || len(s.Axes) > 4 {
			return
		}
		for _, c := range s.Cells()[:1] {
			if _, _, err := s.Spec(c, 1); err != nil {
				t.Errorf("a value was taken and is refused: %v", err)
			}
		}
	})
}

// Every algorithm has an example, which resolves as it stands and with all
// its commented keys.
func TestTemplates(t *testing.T) {
	schema := compileSchema(t)
	for _, algorithm := range keyByName("algorithm").Allowed {
		if entry, _ := catalog.Find(algorithm); examples[algorithm].Text+entry.About == "" {
			t.Errorf("%s has no example", algorithm)
		}
		for _, every := range []bool{false, true} {
			text, err := Template(algorithm, every)
			if err != nil {
				t.Fatal(err)
			}
			if every { // uncomment the keys
				lines := strings.Split(string(text), "\n")
				for i, l := range lines {
					if strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "# ") || strings.HasPrefix(l, "#  - ") {
						lines[i] = l[1:]
					}
				}
				text = []byte(strings.Join(lines, "\n"))
			}
			if err := validateYAML(t, schema, text); err != nil {
				t.Errorf("%s: %v", algorithm, err)
			}
			spec, origin, err := Decode(text, "template.yaml")
			if err == nil {
				_, err = Resolve(spec, origin)
			}
			if err != nil || spec.Algorithm != algorithm {
				t.Errorf("%s: %v\n%s", algorithm, err, text)
			}
		}
	}
	if _, err := Template("camra", false); err == nil || !strings.Contains(err.Error(), `did you mean "camera"`) {
		t.Errorf("unknown algorithm: %v", err)
	}
}
