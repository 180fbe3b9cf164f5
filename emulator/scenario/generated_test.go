package scenario

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "rewrite README.md, the schema and the examples from the table of keys")

const schemaFile = "schema/scenario.schema.json"

func TestSchemaIsCurrent(t *testing.T) {
	want, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	same(t, schemaFile, want)
}

func TestReadmeTableIsCurrent(t *testing.T) {
	const file, begin, end = "README.md", "<!-- keys -->\n", "<!-- /keys -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks %q or %q", file, begin, end)
	}
	same(t, file, []byte(before+begin+"\n"+markdownTable()+"\n"+end+after))
}

// markdownTable documents every key, a table a group.
func markdownTable() string {
	var b strings.Builder
	var group Group
	for i := range keys {
		k := &keys[i]
		if k.Group != group {
			if group != "" {
				b.WriteByte('\n')
			}
			group = k.Group
			fmt.Fprintf(&b, "### %s\n\n| key and flag | default | allowed | meaning |\n|---|---|---|---|\n", group)
		}
		def := "none"
		if k.Default != "" {
			def = "`" + k.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Name, def, cell(k.Want), cell(k.doc()))
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// The commented examples are what `churnbed scenario new` writes, with the way
// to the schema.
func TestExamplesAreCurrent(t *testing.T) {
	const dir, schema = "../../workloads/scenarios/examples", "$schema=../../../emulator/scenario/" + schemaFile
	known := map[string]bool{}
	for _, algorithm := range keyByName("algorithm").Allowed {
		text, err := Template(algorithm, false)
		if err != nil {
			t.Fatal(err)
		}
		known[algorithm+".yaml"] = true
		file := filepath.Join(dir, algorithm+".yaml")
		same(t, file, bytes.Replace(text, []byte("$schema=scenario.schema.json"), []byte(schema), 1))
		spec, origin, err := Load(file, nil)
		if err == nil {
			_, err = Resolve(spec, origin)
		}
		if err != nil {
			t.Error(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("%s is an example of no algorithm", f.Name())
		}
	}
}

// same compares a committed file with what the table of keys makes of it.
func same(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale; run go test ./emulator/scenario -update (-want +got):\n%s", file, diff)
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("scenario.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validateYAML(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestSchemaAcceptsWhatWeWriteAndRejectsWhatWeReject(t *testing.T) {
	s := compileSchema(t)
	files := 0
	for _, pattern := range []string{"traps/*.yaml", "scenarios/*.yaml", "scenarios/examples/*.yaml"} {
		names, err := filepath.Glob(filepath.Join("../../workloads", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := validateYAML(t, s, data); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			files++
		}
	}
	if files < 20 {
		t.Errorf("%d scenarios found", files)
	}
	spec := Default()
	data, err := spec.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if err := validateYAML(t, s, data); err != nil {
		t.Errorf("the defaults do not validate: %v", err)
	}
	for _, bad := range []string{"nodez: 3", "nodes: 0", "nodes: x", "link-loss: 1.5", "algorithm: camra", "link-delay: 5", "fault: x", "survivable: 1"} {
		if err := validateYAML(t, s, []byte(bad)); err == nil {
			t.Errorf("schema accepts %q", bad)
		}
	}
}
