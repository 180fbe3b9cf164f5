package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a scenario file.
const maxFile = 16 << 20

// Setting is the value that a flag gave to a key; a list key has one Setting
// for every value.
type Setting struct {
	Key   string
	Value string
}

// Load builds a specification from the defaults, then the scenario file (none
// where file is ""), then the flags. Paths in the file are relative to the
// file. A list given by flags replaces that of the file. The error is
// Problems: everything that is wrong, in the order of the input.
func Load(file string, flags []Setting) (Spec, Origin, error) {
	spec, origin := Default(), Origin{}
	var problems Problems
	if file != "" {
		data, err := readBounded(file)
		if err != nil {
			return spec, origin, Problems{{Text: "read scenario file: " + err.Error()}}
		}
		problems = decode(&spec, origin, data, file)
	}
	problems = append(problems, applyFlags(&spec, origin, flags)...)
	return spec, origin, problems.err()
}

// Decode reads the text of a scenario file over the defaults. name stands for
// the file in places of errors; paths become relative to its directory.
func Decode(data []byte, name string) (Spec, Origin, error) {
	spec, origin := Default(), Origin{}
	err := decode(&spec, origin, data, name).err()
	return spec, origin, err
}

func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: larger than %d MiB", file, maxFile>>20)
	}
	return data, err
}

func applyFlags(spec *Spec, origin Origin, flags []Setting) Problems {
	var problems Problems
	seen := map[string]int{}
	for _, f := range flags {
		k := keyByName(f.Key)
		place := "--" + f.Key
		if k == nil {
			problems = append(problems, Problem{place, "unknown key" + didYouMean(f.Key, keyNames())})
			continue
		}
		n := seen[f.Key]
		seen[f.Key]++
		switch {
		case k.list && n == 0:
			*k.items(spec) = nil
		case !k.list && n > 0:
			problems = append(problems, Problem{place, fmt.Sprintf("%q: given twice", f.Value)})
			continue
		}
		if err := k.set(spec, f.Value); err != nil {
			problems = append(problems, Problem{place, strings.TrimPrefix(err.Error(), k.Name+": ")})
			continue
		}
		origin[f.Key] = place
		if k.list {
			origin[itemOrigin(f.Key, n)] = place
		}
	}
	return problems
}

func itemOrigin(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

// yamlLine finds the line in the errors of the YAML library, which has no
// other way to tell it.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func decode(spec *Spec, origin Origin, data []byte, name string) Problems {
	root, err := parseYAML(data)
	if err != nil {
		place, text := name, err.Error()
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			text = m[2]
			if m[1] != "" {
				place += ":" + m[1]
			}
		}
		return Problems{{place, "not valid YAML: " + text}}
	}
	if root == nil {
		return nil // an empty file says nothing
	}
	d := newDecoder(spec, origin, name)
	d.document(root)
	return d.problems
}

func newDecoder(spec *Spec, origin Origin, name string) *decoder {
	return &decoder{spec: spec, origin: origin, name: name, dir: filepath.Dir(name), first: map[string]*yaml.Node{}}
}

// parseYAML returns the root node of the only document, nil where there is
// none. The library is known to have panicked on hostile input; a parser of
// ours must not.
func parseYAML(data []byte) (root *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("cannot be parsed: %v", r)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, fmt.Errorf("yaml: line %d: second document: want one scenario a file", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// decoder walks one document and collects what is wrong with it.
type decoder struct {
	spec     *Spec
	origin   Origin
	name     string
	dir      string
	first    map[string]*yaml.Node // first mention of each key
	problems Problems
}

func (d *decoder) place(n *yaml.Node) string {
	return d.name + ":" + strconv.Itoa(n.Line) + ":" + strconv.Itoa(n.Column)
}

func (d *decoder) bad(n *yaml.Node, format string, args ...any) {
	d.problems = append(d.problems, Problem{d.place(n), fmt.Sprintf(format, args...)})
}

func (d *decoder) document(root *yaml.Node) {
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return
	}
	if root.Kind != yaml.MappingNode {
		d.bad(root, "%s: want lines of \"key: value\"", describe(root))
		return
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		d.entry(root.Content[i], root.Content[i+1])
	}
}

func (d *decoder) entry(name, value *yaml.Node) {
	if name.Kind != yaml.ScalarNode {
		d.bad(name, "%s: want a key", describe(name))
		return
	}
	if first, ok := d.first[name.Value]; ok {
		d.bad(name, "duplicate key %q: first given in line %d", name.Value, first.Line)
		return
	}
	d.first[name.Value] = name
	k := keyByName(name.Value)
	if name.Value == matrixKey {
		d.bad(name, "matrix: this file is a sweep of several scenarios: use `churnbed sweep %s`", d.name)
		return
	}
	if k == nil {
		hint := didYouMean(name.Value, keyNames())
		if hint == "" {
			hint = "; `churnbed run --help` lists the keys"
		}
		d.bad(name, "unknown key %q%s", name.Value, hint)
		return
	}
	if k.list {
		d.list(k, value)
		return
	}
	if value.Kind != yaml.ScalarNode {
		d.bad(value, "%s: %s: want %s", k.Name, describe(value), k.Want)
		return
	}
	if value.Tag == "!!null" && k.Type != "path" {
		d.bad(value, "%s: no value: want %s", k.Name, k.Want)
		return
	}
	d.origin[k.Name] = d.place(value)
	if err := k.set(d.spec, anchorPath(k, value.Value, d.dir)); err != nil {
		d.problems = append(d.problems, Problem{d.place(value), err.Error()})
	}
}

func (d *decoder) list(k *Key, value *yaml.Node) {
	*k.items(d.spec) = nil
	d.origin[k.Name] = d.place(value)
	switch {
	case value.Kind == yaml.SequenceNode:
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
				d.bad(item, "%s: %s: want a text", k.Name, describe(item))
				continue
			}
			d.item(k, item, item.Value)
		}
	case value.Kind == yaml.MappingNode && k.tags:
		var seen []string
		for i := 0; i+1 < len(value.Content); i += 2 {
			name, ids := value.Content[i], value.Content[i+1]
			if name.Kind != yaml.ScalarNode || ids.Kind != yaml.ScalarNode {
				d.bad(ids, "%s: %s: want NAME: IDS, such as edge: 0,3,8-11", k.Name, describe(ids))
				continue
			}
			if slices.Contains(seen, name.Value) {
				d.bad(name, "%s: duplicate tag %q", k.Name, name.Value)
				continue
			}
			seen = append(seen, name.Value)
			d.item(k, ids, name.Value+"="+ids.Value)
		}
	case k.tags:
		d.bad(value, "%s: %s: want a map NAME: IDS or a list of NAME=IDS", k.Name, describe(value))
	default:
		d.bad(value, "%s: %s: want a list, one \"- ...\" a line", k.Name, describe(value))
	}
}

func (d *decoder) item(k *Key, at *yaml.Node, text string) {
	i := len(*k.items(d.spec))
	if err := k.set(d.spec, text); err != nil {
		d.problems = append(d.problems, Problem{d.place(at), err.Error()})
		return
	}
	d.origin[itemOrigin(k.Name, i)] = d.place(at)
}

// describe names a YAML node of the wrong kind.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a map"
	case yaml.AliasNode:
		return fmt.Sprintf("alias *%s", n.Value)
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "no value"
		}
		return strconv.Quote(n.Value)
	default:
		return "an unexpected node"
	}
}
