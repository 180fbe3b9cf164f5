package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// YAML writes every key with its value, by group, in the order of the table:
// the scenario.yaml of a run directory. Load reads it back to the same Spec.
func (s *Spec) YAML() ([]byte, error) { return s.encode(func(*Key) bool { return true }) }

// encode writes the keys that choose names.
func (s *Spec) encode(choose func(*Key) bool) ([]byte, error) {
	var entries []*yaml.Node
	var group Group
	for i := range keys {
		k := &keys[i]
		if !choose(k) {
			continue
		}
		name := &yaml.Node{Kind: yaml.ScalarNode, Value: k.Name}
		if k.Group != group {
			group = k.Group
			name.HeadComment = "# " + string(group)
			if len(entries) > 0 {
				name.HeadComment = "\n" + name.HeadComment
			}
		}
		entries = append(entries, name, k.node(s))
	}
	return writeYAML(entries)
}

// writeYAML writes a mapping of keys and values in turn.
func writeYAML(entries []*yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&yaml.Node{Kind: yaml.MappingNode, Content: entries}); err != nil {
		return nil, fmt.Errorf("write scenario: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write scenario: %w", err)
	}
	return b.Bytes(), nil
}

// ConciseYAML is YAML with only the keys that it takes to resolve to s again.
func (s *Scenario) ConciseYAML() ([]byte, error) {
	standard := Default()
	written := map[string]bool{}
	for i := range keys {
		k := &keys[i]
		written[k.Name] = k.Format(&s.Spec) != k.Format(&standard)
	}
	for range 3 {
		text, err := s.Spec.encode(func(k *Key) bool { return written[k.Name] })
		if err != nil {
			return nil, err
		}
		spec, origin, err := Decode(text, "")
		if err != nil {
			break
		}
		again, err := Resolve(spec, origin)
		if err != nil {
			break
		}
		same := true
		for i := range keys {
			// Some values are derived from others, or read differently where
			// they are given.
			if k := &keys[i]; k.Format(&again.Spec) != k.Format(&s.Spec) && !written[k.Name] {
				written[k.Name], same = true, false
			}
		}
		if same {
			return text, nil
		}
	}
	return s.YAML(), nil
}

// node returns the value of the key in s as YAML.
func (k *Key) node(s *Spec) *yaml.Node {
	if !k.list {
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: k.yaml, Value: k.format(s)}
		if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil && n.Tag == "!!float" {
			n.Tag = "!!int" // a whole number is written as one; with the other tag as !!float 1
		}
		return n
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range *k.items(s) {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: item})
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle // []
	}
	return n
}

// JSONSchema returns the JSON Schema (draft 2020-12) of a scenario file, the
// text of schema/scenario.schema.json.
func JSONSchema() ([]byte, error) {
	properties := map[string]any{}
	for i := range keys {
		k := &keys[i]
		p := map[string]any{"description": k.doc()}
		for name, v := range k.schema {
			p[name] = v
		}
		p["default"] = k.schemaDefault()
		properties[k.Name] = p
	}
	properties[matrixKey] = map[string]any{
		"description": "For `churnbed sweep`: lists of values for some keys. The scenario runs once for each combination.",
		"type":        "object", "minProperties": 1, "additionalProperties": map[string]any{"type": "array", "minItems": 1},
	}
	b, err := json.MarshalIndent(map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "Churnbed scenario",
		"description":          "Keys are the flags of `churnbed run` under the same names. Every key may be left out.",
		"type":                 "object",
		"properties":           properties,
		"additionalProperties": false,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema: %w", err)
	}
	return append(b, '\n'), nil
}

func (k *Key) schemaDefault() any {
	switch {
	case k.list:
		return []any{}
	case k.yaml == "!!str":
		return k.Default
	default:
		return json.RawMessage(k.Default)
	}
}

// doc is the help text with the unit.
func (k *Key) doc() string {
	if k.Unit != "" {
		return k.Help + " (" + k.Unit + ")"
	}
	return k.Help
}
