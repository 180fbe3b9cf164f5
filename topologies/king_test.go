package topologies

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"churnbed/emulator/link"
)

const kingSample = `topology E2EGraph 4
failure_model NullFailureModel

node 1
node 2
node 3 1.2.3.4
node 4
# pairs
1,2 10000
2,1 20000
3,1 8000
1,4 -1
2,3 -1
2,4 6000.5
4,4 0
3,4 7000
`

func TestReadKing(t *testing.T) {
	top, err := Read(strings.NewReader(kingSample), "t", ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	us := func(v float64) link.Override {
		d := time.Duration(v * float64(time.Microsecond))
		return link.Override{Delay: &d}
	}
	want := []Link{
		{A: 0, B: 1, AB: us(5000), BA: us(10000)},
		{A: 0, B: 2, AB: us(4000), BA: us(4000)},
		{A: 1, B: 3, AB: us(3000.25), BA: us(3000.25)},
		{A: 2, B: 3, AB: us(3500), BA: us(3500)},
	}
	if diff := cmp.Diff(want, top.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	two, err := Read(strings.NewReader(kingSample), "t", ReadOptions{Format: King, Nodes: 2, Scale: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(two.Nodes) != 2 || *two.Links[0].AB.Delay != 5*time.Second {
		t.Errorf("two nodes, a file in ms: %+v", two.Links)
	}
	// The number of nodes may come from the node lines alone.
	if top, err := Read(strings.NewReader("node 1\nnode 2\n1,2 4\n"), "t", ReadOptions{}); err != nil || len(top.Nodes) != 2 {
		t.Errorf("without a topology line: %v, %v", top, err)
	}
}

// TestReadKingErrors: every error names the file, the line, the value and what
// is allowed.
func TestReadKingErrors(t *testing.T) {
	for input, want := range map[string]string{
		"node 1\n":                             `:1: no pair: want lines A,B`,
		"1,2 5\n":                              `:1: a pair before any node`,
		"topology E2EGraph\n":                  `:1: 2 words: want topology E2EGraph NODES`,
		"topology E2EGraph x\n":                `:1: "x": want topology E2EGraph NODES, from 1 to 4096`,
		"topology E2EGraph 1000000\n":          `:1: "1000000": want`,
		"topology E2EGraph 2\nnode 3\n":        `:2: node 3: the topology line told 2`,
		"topology E2EGraph 2\n1,3 5\n":         `:2: node "3": want an id from 1 to 2`,
		"topology E2EGraph 2\n0,1 5\n":         `:2: node "0": want an id from 1 to 2`,
		"topology E2EGraph 2\n1,2 five\n":      `:2: "five": want a round-trip time in microseconds`,
		"topology E2EGraph 2\n1,2 nan\n":       `:2: "nan": want a round-trip time`,
		"topology E2EGraph 2\n1,2\n":           `:2: 1 words: want A,B and a round-trip time`,
		"topology E2EGraph 2\n12 5\n":          `:2: "12": want two node ids A,B`,
		"topology E2EGraph 2\n1,2 5\n1,2 6\n":  `:3: pair 1,2 a second time`,
		"topology E2EGraph 2\n1,2 5\nnode 2\n": `:3: node after the first pair`,
	} {
		path := filepath.Join(t.TempDir(), "king")
		if err := os.WriteFile(path, []byte(input), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFile(path, ReadOptions{Format: King})
		if err == nil || !strings.Contains(err.Error(), path+want) {
			t.Errorf("%q: %v, want %s", input, err, want)
		}
	}
}

func FuzzReadKing(f *testing.F) {
	fuzzFormat(f, King, kingSample, "node 2\n1,2 5\n", "topology E2EGraph 3\n1,2 nan\n", "topology E2EGraph 9999999\n")
}
