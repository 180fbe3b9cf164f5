package results

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var summarySchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(SummarySchema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("summary.schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("summary.schema.json")
})

// validate checks a summary against the published schema, and that it reads
// back as it was.
func validate(t *testing.T, s *Summary) {
	t.Helper()
	schema, err := summarySchema()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
	back, err := ReadSummary(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, again) {
		t.Errorf("read back differs:\n%s\n%s", b, again)
	}
}

// The names that issue 2 fixes, which users' scripts rely on.
func TestSchemaHasTheFixedNames(t *testing.T) {
	fixed := map[string][]string{
		"": {"engine", "fabric", "seed", "time_scale", "nodes", "links"}, "requests": {"issued", "served", "unserved", "aborted"},
		"safety": {"violations", "max_concurrent", "violation_ms", "zombie_overlaps"}, "wait_ms": {"n", "mean", "p50", "p90", "p99", "max"},
		"messages":   {"e2e_per_cs", "h2h_per_cs", "e2e_mutex", "h2h_total", "e2e_membership", "bytes_mutex"},
		"churn":      {"kills", "restarts", "pauses"},
		"membership": {"size_mean", "size_min", "false_positives", "mfp_share"},
		"fidelity":   {"verdict", "delay_error_ms", "loss_configured", "loss_measured", "reason"},
		"timing":     {"bring_up_ms", "run_ms", "teardown_ms"},
	}
	b, err := json.Marshal(&Summary{})
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for group, names := range fixed {
		in := doc
		if group != "" {
			var ok bool
			if in, ok = doc[group].(map[string]any); !ok {
				t.Errorf("%s: no object", group)
				continue
			}
		}
		for _, name := range names {
			if _, ok := in[name]; !ok {
				t.Errorf("%s.%s is missing", group, name)
			}
		}
	}
	if e := doc["fidelity"].(map[string]any)["delay_error_ms"]; !reflect.DeepEqual(e, map[string]any{"p50": 0.0, "p99": 0.0}) {
		t.Errorf("delay_error_ms is %v", e)
	}
}

func TestSchemaRefuses(t *testing.T) {
	schema, err := summarySchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`{}`, `[]`, `{"schema":2}`} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(bad)))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(doc) == nil {
			t.Errorf("%s is valid", bad)
		}
	}
}
