package scenario

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"churnbed/workloads"
)

func resolveYAML(t *testing.T, text string) (*Scenario, error) {
	t.Helper()
	spec, origin, err := Decode([]byte(text), "test.yaml")
	if err != nil {
		return nil, err
	}
	return Resolve(spec, origin)
}

func TestArrivalsOneByOne(t *testing.T) {
	sc, err := resolveYAML(t, "topology: full\nnodes: 3\ncs: 70ms\ndown-at-start: 0\narrival:\n  - at 2s node 1\n  - at 1s node 2 for 5ms\nfault:\n  - at 1s join node 0\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []workloads.Arrival{{No: 1, At: time.Second, Node: 2, CS: 5 * time.Millisecond}, {No: 2, At: 2 * time.Second, Node: 1, CS: 70 * time.Millisecond}}
	if diff := cmp.Diff(want, sc.Arrivals); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]bool{false, true, true}, sc.Up); diff != "" {
		t.Error(diff)
	}
	if sc.Spec.Arrivals != "list" || sc.Spec.Requests != 2 {
		t.Errorf("arrivals %q of %d requests", sc.Spec.Arrivals, sc.Spec.Requests)
	}
}

func TestArrivalProblems(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"arrival: [at 1s node 9]\nnodes: 3\ntopology: full\n", "test.yaml:1:11: arrival: \"at 1s node 9\": node 9: want 0 to 2"},
		{"arrival: [soon]\n", "test.yaml:1:11: arrival: \"soon\": want at TIME node ID"},
		{"arrivals: list\n", "test.yaml:1:11: arrivals: \"list\": with no arrival"},
		{"arrivals: burst\narrival: [at 1s node 1]\n", "test.yaml:1:11: arrivals: \"burst\": with arrival given, want list"},
		{"requests: 3\narrival: [at 1s node 1]\n", "test.yaml:1:11: requests: 3: arrival lists 1"},
		{"down-at-start: 3-\n", "down-at-start: \"3-\""},
		{"down-at-start: 0,2\nnodes: 2\ntopology: full\n", "test.yaml:1:16: down-at-start: \"0,2\": node 2: want 0 to 1"},
		{"down-at-start: 0-1\nnodes: 2\ntopology: full\n", "nobody would run"},
	} {
		_, err := resolveYAML(t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// The concise form resolves to the same, and holds no key that is not needed.
func TestConciseYAML(t *testing.T) {
	for _, name := range []string{"demo.yaml", "mesh256.yaml", "maekawa11.yaml", "smoke.yaml"} {
		sc := sample(t, name)
		short, err := sc.ConciseYAML()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(sc.YAML(), []byte("!!")) {
			t.Errorf("%s: tags that nobody needs:\n%s", name, sc.YAML())
		}
		again, err := resolveYAML(t, string(short))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, short)
		}
		if diff := cmp.Diff(string(sc.YAML()), string(again.YAML())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if bytes.Count(short, []byte("\n")) > bytes.Count(sc.YAML(), []byte("\n"))/2 {
			t.Errorf("%s: not concise:\n%s", name, short)
		}
	}
}
