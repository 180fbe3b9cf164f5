package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBadFiles(t *testing.T) {
	const wantDuration = "want a duration such as 500ms, 2s or 20m, 0s or more"
	for _, tc := range []struct{ name, text, want string }{
		{"negative loss", "nodes: 8\nlink-loss: -0.1\n", `s.yaml:2:12: link-loss: "-0.1": want a number from 0 to 1`},
		{"loss NaN", "link-loss: .nan", `s.yaml:1:12: link-loss: ".nan": want a number from 0 to 1`},
		{"zero nodes", "nodes: 0", `s.yaml:1:8: nodes: "0": want a whole number from 1 to 8192`},
		{"no number", "nodes: many", `s.yaml:1:8: nodes: "many": want a whole number from 1 to 8192`},
		{"part of a key", "delay: 5ms", `s.yaml:1:1: unknown key "delay"; did you mean "link-delay"?`},
		{"mistyped key", "link-los: 0.1", `s.yaml:1:1: unknown key "link-los"; did you mean "link-loss"?`},
		{"unknown key", "frobnicate-widgets: 1", "s.yaml:1:1: unknown key \"frobnicate-widgets\"; `churnbed run --help` lists the keys"},
		{"duplicate key", "seed: 1\nnodes: 8\nseed: 2", `s.yaml:3:1: duplicate key "seed": first given in line 1`},
		{"choice", "algorithm: camra", `s.yaml:1:12: algorithm: "camra": want ` + orList(keyByName("algorithm").Allowed) + `; did you mean "camera"?`},
		{"no unit", "link-delay: 5", `s.yaml:1:13: link-delay: "5": no unit; ` + wantDuration},
		{"negative duration", "drain: -1s", `s.yaml:1:8: drain: "-1s": ` + wantDuration},
		{"zero period", "membership-period: 0s", `s.yaml:1:20: membership-period: "0s": want a duration such as 500ms, 2s or 20m, above 0s`},
		{"overlong duration", "drain: 200000h", `s.yaml:1:8: drain: "200000h": ` + wantDuration},
		{"list for scalar", "nodes: [1, 2]", `s.yaml:1:8: nodes: a list: want a whole number from 1 to 8192`},
		{"map for scalar", "cs: {a: b}", `s.yaml:1:5: cs: a map: ` + wantDuration},
		{"no value", "nodes:", `s.yaml:1:7: nodes: no value: want a whole number from 1 to 8192`},
		{"alias", "nodes: &n 5\nrows: *n", `s.yaml:2:7: rows: alias *n: want a whole number from 0 to 8192`},
		{"boolean", "survivable: yes", `s.yaml:1:13: survivable: "yes": want true or false`},
		{"area", "area: 15", `s.yaml:1:7: area: "15": want WIDTHxHEIGHT in metres, such as 15x15`},
		{"rate", "link-rate: 10mbps", `s.yaml:1:12: link-rate: "10mbps": want a rate such as 800bit, 250kbit, 10mbit or 1gbit, or 0`},
		{"loss model", "link-loss-model: gilbert-elliott:0.1/2/0/1", `s.yaml:1:18: link-loss-model: "gilbert-elliott:0.1/2/0/1": "2" is not a probability; want bernoulli or gilbert-elliott:P/R/GOOD/BAD with four probabilities from 0 to 1`},
		{"membership", "membership: medly", `s.yaml:1:13: membership: "medly": unknown service; did you mean "medley"?; want medley, static, static:FILE or oracle`},
		{"requesters", "requesters: list:1,x", `s.yaml:1:13: requesters: "list:1,x": "x" is not a node id or a range of ids; want uniform, zipf or list:ID,ID,...`},
		{"churn", "churn: overnt", `s.yaml:1:8: churn: "overnt": unknown generator; did you mean "overnet"?; want none, overnet, exponential or a trace file (with a dot or slash in its name)`},
		{"name", "name: a/b", `s.yaml:1:7: name: "a/b": '/' is not allowed there; want 1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first`},
		{"list key", "fault: at 1s crash nodes 1", `s.yaml:1:8: fault: "at 1s crash nodes 1": want a list, one "- ..." a line`},
		{"list item", "fault:\n  - [a]\n", `s.yaml:2:5: fault: a list: want a text`},
		{"empty item", "fault:\n  - \" \"\n", `s.yaml:2:5: fault: " ": empty; want a list of texts`},
		{"tag twice", "tags:\n  a: 1\n  a: 2\n", `s.yaml:3:3: tags: duplicate tag "a"`},
		{"not YAML", "nodes: 8\n\tseed: 1\n", `s.yaml:2: not valid YAML: found a tab character that violates indentation`},
		{"scalar", "hello", `s.yaml:1:1: "hello": want lines of "key: value"`},
		{"documents", "nodes: 8\n---\nnodes: 9\n", `s.yaml:2: not valid YAML: second document: want one scenario a file`},
		{"several", "nodes: 0\nsed: 1\nlink-loss: 2\n", "3 errors in the scenario:\n" +
			"  s.yaml:1:8: nodes: \"0\": want a whole number from 1 to 8192\n" +
			"  s.yaml:2:1: unknown key \"sed\"; did you mean \"seed\"?\n" +
			"  s.yaml:3:12: link-loss: \"2\": want a number from 0 to 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := Decode([]byte(tc.text), "s.yaml")
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEmptyFileIsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "{}\n", "null\n"} {
		spec, origin, err := Decode([]byte(text), "s.yaml")
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(Default(), spec); diff != "" || len(origin) > 0 {
			t.Errorf("%q: not the defaults: %s, origin %v", text, diff, origin)
		}
	}
}

func TestPrecedenceAndPlaces(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	text := "nodes: 8\nseed: 5\ntopology-file: mesh.txt\nmembership: static:lists/l.txt\nout: /abs/run\nchurn: ./t.avt\nfault:\n- at 1s heal\n- at 2s heal\ntags: {edge: 0-3, core: 4}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	spec, origin, err := Load(file, []Setting{{"seed", "9"}, {"link-delay", "7ms"}, {"tags", "a=1"}, {"tags", "b=2"}})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Nodes, want.Seed, want.LinkDelay = 8, 9, 7e6
	want.TopologyFile = filepath.Join(dir, "mesh.txt")
	want.Membership = "static:" + filepath.Join(dir, "lists/l.txt")
	want.Out = "/abs/run"
	want.Churn = filepath.Join(dir, "t.avt")
	want.Fault = []string{"at 1s heal", "at 2s heal"}
	want.Tags = []string{"a=1", "b=2"}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	for key, place := range map[string]string{"nodes": file + ":1:8", "seed": "--seed", "tags": "--tags", "rows": "default"} {
		if got := origin.at(key); got != place {
			t.Errorf("origin of %s is %q, want %q", key, got, place)
		}
	}
	if got := origin.item("fault", 1); got != file+":9:3" {
		t.Errorf("origin of the second fault is %q", got)
	}
}

func TestBadFlags(t *testing.T) {
	_, _, err := Load("", []Setting{{"nodes", "0"}, {"nodez", "1"}, {"seed", "1"}, {"seed", "2"}, {"survivable", "maybe"}})
	want := "4 errors in the scenario:\n" +
		"  --nodes: \"0\": want a whole number from 1 to 8192\n" +
		"  --nodez: unknown key; did you mean \"nodes\"?\n" +
		"  --seed: \"2\": given twice\n" +
		"  --survivable: \"maybe\": want true or false"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	_, _, err = Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	if err == nil || !strings.Contains(err.Error(), "read scenario file: ") || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("missing file: %v", err)
	}
}

func TestKeysAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	groups := map[Group]bool{}
	var group Group
	for _, k := range Keys() {
		if seen[k.Name] {
			t.Errorf("key %s stands twice in the table", k.Name)
		}
		seen[k.Name] = true
		if k.Group != group {
			if groups[k.Group] {
				t.Errorf("group %s is in two parts", k.Group)
			}
			group = k.Group
			groups[group] = true
		}
		if k.Help == "" || k.Want == "" || k.Type == "" {
			t.Errorf("key %s lacks help, type or what it wants", k.Name)
		}
		if k.List() {
			continue
		}
		spec := Default()
		if got := k.Format(&spec); got != k.Default {
			t.Errorf("default of %s is documented as %q and formatted as %q", k.Name, k.Default, got)
		}
	}
}

func TestWrittenSpecReadsBack(t *testing.T) {
	spec := Default()
	spec.Name, spec.Seed, spec.LinkRate = "1.5", 1<<63, 1_500_000
	spec.LinkDelay, spec.ChurnSample = 1500*1000, 90*60*1e9
	spec.Fault = []string{"at 1s heal", "# no comment: \"quoted\" 'text'\ttab"}
	spec.Tags = []string{"edge=0-3"}
	spec.Topology, spec.Survivable, spec.Radius = "grid", true, 1e-3
	spec.LinkLossModel = "gilbert-elliott:0.01/0.3/0/1"
	data, err := spec.YAML()
	if err != nil {
		t.Fatal(err)
	}
	got, origin, err := Decode(data, "scenario.yaml")
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	if diff := cmp.Diff(spec, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	for _, k := range Keys() {
		if !origin.has(k.Name) {
			t.Errorf("key %s is not written", k.Name)
		}
	}
	again, err := got.YAML()
	if err != nil || string(again) != string(data) {
		t.Errorf("written differently the second time (%v):\n%s", err, cmp.Diff(string(data), string(again)))
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"", "nodes: 8\nseed: 1", "fault:\n- at 1s heal", "tags: {a: 1-3}", "a: [", "nodes: *x", "<<: {nodes: 3}", "? [a]\n: b", "membership: 'static:'", "\xff", "nodes: !!binary aGk=", "--- ---\n...", "a: &a [*a]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, _, err := Decode(data, "s.yaml")
		if err != nil {
			return
		}
		written, err := spec.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := Decode(written, "s.yaml")
		if err != nil {
			t.Fatalf("cannot read back: %v\n%s", err, written)
		}
		if diff := cmp.Diff(spec, again); diff != "" {
			t.Fatalf("read back differs (-first +again):\n%s", diff)
		}
	})
}
