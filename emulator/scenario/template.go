package scenario

import (
	"fmt"
	"go/doc/comment"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"churnbed/node/mutex/catalog"
)

// Example is what a template says of one algorithm: why one would run it, and
// the keys that such a scenario sets, in the form of a file.
type Example struct {
	Text string
	Set  []Setting
}

// exampleBase are the keys that every template sets.
var exampleBase = []Setting{
	{"seed", "1"},
	{"topology", "grid"},
	{"nodes", "16"},
	{"area", "8x8"},
	{"link-delay", "5ms"},
	{"link-loss", "0.01"},
	{"arrivals", "weibull"},
	{"mean", "400ms"},
	{"requests", "20"},
	{"requesters", "uniform"},
	{"cs", "100ms"},
	{"drain", "2m"},
}

// hurried is a membership service that finds failures fast, for short runs.
var hurried = []Setting{
	{"membership", "medley"}, {"membership-period", "500ms"}, {"membership-ping-timeout", "200ms"}, {"membership-suspicion", "3s"},
}

var listed = []Setting{{"membership", "static"}}

// examples hold what is particular of each algorithm; one without an entry
// gets what the catalog says of it.
var examples = map[string]Example{
	"ra": {
		"Ricart and Agrawala: everyone is asked for every entry. Safe on complete lists that never change; what\n" +
			"loss costs it shows in the retransmissions. A node that dies here would be waited for until it is back.",
		slices.Concat(listed, []Setting{{"fault", "from 2s to 4s set all loss 0.2"}}),
	},
	"camera": {
		"Camera, hardened: mutual exclusion while nodes fail and come back. The holder is killed once, and two\n" +
			"nodes at random; the others go on after the membership service has found out.",
		slices.Concat(hurried, []Setting{{"fault", "at 2s crash holder for 4s"}, {"fault", "at 6s crash 2 nodes restart after 3s"}}),
	},
	"camera-paper": {
		"Camera as published. paper-snapshot and paper-release-by-id choose readings of the text; with restarts\n" +
			"and partitions it violates at times, which `churnbed check` then shows pair by pair.",
		slices.Concat(hurried, []Setting{{"paper-snapshot", "true"}, {"fault", "at 2s crash holder for 500ms"}, {"fault", "at 4s partition 0-7|8-15 for 5s"}}),
	},
	"maekawa": {
		"Maekawa with INQUIRE and RELINQUISH: a voting set of about 2 sqrt(N) nodes in place of everyone. Compare\n" +
			"its messages with those of ra.",
		slices.Concat(listed, []Setting{{"arrivals", "burst"}}),
	},
	"maekawa-basic": {
		"Maekawa without INQUIRE: it may deadlock, which shows as requests that are never served.",
		slices.Concat(listed, []Setting{{"arrivals", "burst"}, {"drain", "30s"}}),
	},
	"naimi-trehel": {
		"Naimi and Trehel: one token, and a tree of last requesters that is turned round by each request. No node\n" +
			"may fail: nothing finds a lost token again.",
		slices.Concat(listed, []Setting{{"fault", "from 2s to 4s set all loss 0.2"}}),
	},
	"fairk": {
		"Fair k-mutual exclusion: up to k nodes at once. The summary tells the mean time to token and its spread.",
		slices.Concat(listed, []Setting{{"k", "3"}, {"mean", "60ms"}, {"requests", "60"}}),
	},
	"bv95": {
		"k tokens in k trees, after Bulgannawar and Vaidya. tree-choice says where a request without an idle token\n" +
			"queues.",
		slices.Concat(listed, []Setting{{"k", "3"}, {"mean", "60ms"}, {"requests", "60"}}),
	},
	"localmutex": {
		"Local mutual exclusion: neighbours exclude each other, others do not. The graph may change while nodes\n" +
			"compete.",
		slices.Concat(listed, []Setting{{"mean", "60ms"}, {"requests", "60"}}),
	},
	"localmutex-paper": {
		"Local mutual exclusion as published.",
		slices.Concat(listed, []Setting{{"mean", "60ms"}, {"requests", "60"}}),
	},
	"comesh": {
		"CoMesh: k-groups of smart nodes manage devices and run routines, which lock their devices one by one. An\n" +
			"epoch passes and two smart nodes fail; `churnbed check` proves that no lock and no state is lost.",
		slices.Concat(hurried, []Setting{
			{"nodes", "30"},
			{"duration", "40s"},
			{"kgroup-f", "1"},
			{"device-group-size", "15"},
			{"epoch-length", "15s"},
			{"routines", "10"},
			{"fault", "at 10s crash 2 nodes of tag:smart restart after 5s"},
		}),
	},
	"hub": {
		"The baseline of CoMesh: the same devices and routines, all managed by the one node in the middle.",
		[]Setting{{"nodes", "30"}, {"duration", "40s"}, {"routines", "10"}},
	},
}

// Template returns a commented scenario file for an algorithm; with every,
// the keys that it leaves alone follow as comments with their defaults.
func Template(algorithm string, every bool) ([]byte, error) {
	k := keyByName("algorithm")
	if !slices.Contains(k.Allowed, algorithm) {
		return nil, fmt.Errorf("algorithm %q: want %s%s", algorithm, orList(k.Allowed), didYouMean(algorithm, k.Allowed))
	}
	example, ok := examples[algorithm]
	if !ok {
		entry, _ := catalog.Find(algorithm)
		example.Text = wrapped(entry.About, 110)
		if entry.Fixed {
			example.Set = listed
		}
	}
	spec := Default()
	given := map[string]bool{"name": true, "algorithm": true}
	spec.Name, spec.Algorithm = algorithm, algorithm
	for _, s := range slices.Concat(exampleBase, example.Set) {
		if spec.grouped() && slices.Contains(forRequests, s.Key) {
			continue
		}
		k := keyByName(s.Key)
		if err := k.set(&spec, s.Value); err != nil {
			return nil, err
		}
		given[s.Key] = true
	}
	var b strings.Builder
	note := func(text string) {
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(&b, "# %s\n", line)
		}
	}
	b.WriteString("# yaml-language-server: $schema=scenario.schema.json\n")
	if example.Text != "" {
		note(example.Text)
	}
	note("Check it: churnbed scenario check FILE    Run it: churnbed sim FILE, churnbed run FILE")
	var group Group
	for i := range keys {
		k := &keys[i]
		if !given[k.Name] && !every {
			continue
		}
		if k.Group != group {
			group = k.Group
			fmt.Fprintf(&b, "\n# --- %s\n", group)
		}
		help := k.Help
		if len(k.Allowed) > 0 {
			help += ": " + strings.Join(k.Allowed, ", ")
		}
		note(wrapped(help, 110))
		mark := ""
		if !given[k.Name] {
			mark = "#"
		}
		entry, err := writeYAML([]*yaml.Node{{Kind: yaml.ScalarNode, Value: k.Name}, k.node(&spec)})
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(entry)) {
			b.WriteString(mark + line)
		}
	}
	return []byte(b.String()), nil
}

// wrapped breaks text into lines of at most width characters.
func wrapped(text string, width int) string {
	lines := comment.Printer{TextWidth: width}
	return strings.TrimSpace(string(lines.Text(&comment.Doc{Content: []comment.Block{
		&comment.Paragraph{Text: []comment.Text{comment.Plain(text)}},
	}})))
}
