package scenario

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"churnbed/node/core"
	"churnbed/node/kgroup"
)

func routinesSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("schema/routines.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("routines.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("routines.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sampleRoutines(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "workloads", "samples", "routines.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRoutinesFile(t *testing.T) {
	text := sampleRoutines(t)
	if err := validateYAML(t, routinesSchema(t), text); err != nil {
		t.Error(err)
	}
	list, err := parseRoutines(text, 12)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[1].Every != 15*time.Second || list[1].Commands[2].Device != 11 || list[0].Commands[0].Takes != 800*time.Millisecond {
		t.Errorf("read %+v", list)
	}
	for _, bad := range []string{
		"", "routines: []", "routinez: []", "routines: [{when: d1 > 2, commands: [{device: 1, take: 1s}]}]",
		"routines: [{every: 5, commands: [{device: 1}]}]", "routines: [{commands: [{device: 99}]}]", "routines: 3",
	} {
		if _, err := parseRoutines([]byte(bad), 12); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestParseRoutinesTellsWhat(t *testing.T) {
	for text, want := range map[string]string{
		"routines:\n  - when: d3 > 1\n    foo: 3": "line 3: unknown key foo",
		"routines: 5": "line 1: unexpected value !!int `5`: want a list",
		"routines:\n  - commands: [{device: x, value: 1}]": "line 2: unexpected value !!str `x`: want a whole number",
		"routines: [4]": "line 1: unexpected value !!int `4`: want keys with values",
		"a: 1\nb: 1\nc: 1\nd: 1\ne: 1\nf: 1\nroutines: [{}]": "line 5: unknown key e; and 1 more",
	} {
		if _, err := parseRoutines([]byte(text), 12); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseRoutines(f *testing.F) {
	f.Add([]byte("routines: [{when: d1 > 2, every: 5s, commands: [{device: 1, value: -3, takes: 1s}]}]"))
	f.Add([]byte("routines:\n- commands: [{device: 3}, {device: 1}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseRoutines(text, 10)
		if err != nil {
			return
		}
		for _, r := range list {
			for _, c := range r.Commands {
				if c.Device < 0 || c.Device >= 10 {
					t.Errorf("device %d", c.Device)
				}
			}
		}
	})
}

func TestGroups(t *testing.T) {
	s := mustResolve(t, "nodes: 80\nalgorithm: comesh\nduration: 1m\nroutines: 7\nmembership: oracle")
	g := s.Group
	if g == nil || len(g.Smart) != 32 || g.Groups() != 4 || len(g.Routines) != 7 || len(s.Arrivals) != 0 {
		t.Fatalf("group %+v, %d arrivals", g, len(s.Arrivals))
	}
	again := mustResolve(t, string(s.YAML()))
	if !bytes.Equal(again.YAML(), s.YAML()) || len(again.Group.Routines) != 7 {
		t.Error("scenario.yaml does not resolve to itself")
	}
	for id := range core.NodeID(80) {
		c := s.NodeConfig(id, core.FirstIncarnation)
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if smart := g.IsSmart(id); smart != (c.Membership.Service == "oracle") || smart != (len(c.Members) == 31) {
			t.Errorf("node %d, smart %v: %s with %d members", id, smart, c.Membership.Service, len(c.Members))
		}
	}
	three := mustResolve(t, "nodes: 80\nalgorithm: hub\nhubs: 3\nduration: 1m").Group
	sel, led := kgroup.NewSelector(three, 1), map[core.NodeID]bool{}
	for g := range kgroup.Group(3) {
		members := sel.Members(g, 1, three.Smart, nil)
		if len(members) != 1 || three.Of[members[0]] != g {
			t.Errorf("hub of cluster %d: %v, which lies in %d", g, members, three.Of[members[0]])
		}
		led[members[0]] = true
	}
	if three.K() != 1 || three.Groups() != 3 || len(led) != 3 {
		t.Errorf("three hubs %+v", three.Smart)
	}
	hub := mustResolve(t, "nodes: 80\nalgorithm: hub\nduration: 1m").Group
	if hub.K() != 1 || hub.Groups() != 1 || len(hub.Smart) != 1 || hub.Epoch != 0 {
		t.Errorf("hub %+v", hub)
	}
}

func TestGroupProblems(t *testing.T) {
	routines := filepath.Join(t.TempDir(), "routines.yaml")
	if err := os.WriteFile(routines, []byte("routines: [{when: d1 >, commands: [{device: 1}]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"algorithm: comesh":                                             "routines have no end",
		"algorithm: comesh\nduration: 1m\nnodes: 4":                     "smart nodes",
		"algorithm: comesh\nduration: 1m\nepoch-length: 1s":             "at least four monitoring periods",
		"algorithm: comesh\nduration: 1m\nroutines-file: /nowhere.yaml": "no such file or directory",
		"algorithm: comesh\nduration: 1m\nroutines-file: " + routines:   "malformed condition",
		"algorithm: comesh\nduration: 1m\nfault: [at 1s trigger 20]":    "want a routine from 0 to 19",
		"algorithm: hub\nnodes: 4\nhubs: 5\nduration: 1m":               "want at most the 4 nodes",
		"algorithm: ra\nfault: [at 1s crash leader]":                    "have leaders; allowed are holder, waiter and idle",
		"algorithm: ra\nfault: [at 1s trigger 0]":                       "have routines",
		"algorithm: comesh\nduration: 1m\nlock-strategy: ala":           "want sla or ola",

		"algorithm: comesh\nduration: 1m\nroutines: 200\nroutine-conflict: 1": "is in more routines than 80",
	} {
		_, err := resolveText(t, t.TempDir(), text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
