package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// order says who may import whom. "A, B < C, D" lets C and D import A and B,
// and all that A and B may import. A star stands for one folder's packages
// that have no line of their own.
const order = `
	# The protocols: pure, each step a function of instant and input.
	NONE < node/core;
	node/core < node/wire, node/eventlog, node/mutex, node/membership, emulator/link;
	node/core < node/mutex/requests, node/membership/internal/roster;
	node/wire, node/mutex, node/mutex/requests < node/mutex/*;
	node/wire, node/mutex, node/mutex/requests < node/mutex/naimitrehel; # k trees of one are bv95
	node/mutex/naimitrehel < node/mutex/bv95;
	node/mutex/* < node/mutex/catalog;
	node/core < node/kgroup/trigger;
	node/kgroup/trigger < node/kgroup;
	node/kgroup, node/wire, node/eventlog < node/kgroup/smart;
	node/wire, node/membership, node/membership/internal/roster < node/membership/*;
	node/wire < node/reliable;
	node/wire < node/size;

	# Tests of the protocols as scripted traces.
	node/mutex/catalog, node/mutex/naimitrehel, node/mutex/bv95, node/kgroup < node/mutex/script;
	node/wire, node/mutex < node/mutex/localmutex; # its world has links, not a network
	node/mutex/localmutex < node/mutex/localscript;

	# What a run is made of, apart from how it is run.
	emulator/link < topologies, workloads;

	# One node's machines in one. The simulator and the process both run it.
	node/eventlog, node/mutex/catalog, node/mutex/naimitrehel, node/mutex/bv95, node/mutex/localmutex, node/membership/*, node/kgroup/smart, node/reliable, node/size, workloads < node/stack;

	# The node process. Nothing of the emulator but its messages.
	NONE < emulator/controlpb;
	node/core < node/transport;
	node/stack, node/transport, emulator/controlpb < node/host;
	node/host < node/cmd/churnbed-node;

	# Files in, checked values out.
	node/stack, topologies, workloads < emulator/scenario;
	topologies, workloads < emulator/mesh;

	# The simulator: no controller, no sandbox, no kernel.
	node/stack, emulator/mesh < emulator/sim;

	# The kernel's edge, and what is built on it.
	NONE < emulator/netns;
	emulator/netns, emulator/link < emulator/kernel;
	emulator/kernel, node/wire < emulator/fabric;
	emulator/controlpb < emulator/sandbox;
	emulator/fabric, emulator/sandbox, node/transport < emulator/supervise;

	# What people see of a run and reach into: no controller, no kernel.
	emulator/controlpb, node/eventlog < emulator/live;

	# Judgement reads files only: it knows neither simulator nor controller.
	node/eventlog, node/mutex, node/wire, topologies, workloads < results;
	results < results/foreign, results/compare, results/sweep, results/timeline, results/timeline/timelinetest;
	results/timeline < results/report, results/capture;
	results/capture < results/export;
	results/foreign < results/reproduce;
	NONE < workloads/scenarios/reproduce;

	NONE < emulator/guest/guestinit;
	emulator/guest/guestinit < emulator/guest;
	emulator/guest < emulator/guest/cmd/churnbed-guest;

	# The two engines' shells, which leave the same run directory.
	emulator/supervise, emulator/scenario, emulator/mesh, emulator/live, node/host, results < emulator/controller;
	emulator/sim, emulator/scenario, results < emulator/simulate;
	emulator/simulate, results/reproduce < emulator/reproduce;
	emulator/simulate < emulator/minimise;
	NONE < workloads/traps, workloads/scenarios;
	emulator/controller, emulator/reproduce, emulator/minimise, workloads/traps, workloads/scenarios, emulator/guest, results/compare, results/sweep, results/report, results/capture, results/export, workloads/scenarios/reproduce, node/mutex/script, node/mutex/localscript < emulator/cmd/churnbed;

	NONE < emulator/archtest;
`

// pure are the packages that give the same results for the same inputs.
var pure = []string{
	"node/core", "node/wire", "node/mutex", "node/mutex/...", "node/membership", "node/membership/...",
	"node/kgroup", "node/kgroup/...", "node/reliable", "node/size", "node/stack", "emulator/link", "emulator/mesh", "emulator/sim",
}

// impure are imports that a pure package has no use for.
var impure = []string{
	"os", "os/...", "io/ioutil", "net", "net/http", "syscall", "sync", "sync/...", "log", "log/...", "context",
	"math/rand", "crypto/rand", "golang.org/x/sys/...", "google.golang.org/grpc", "google.golang.org/grpc/...",
}

// seeded are the packages beyond the pure ones that may read files, but whose
// computing is as repeatable.
var seeded = []string{"topologies", "workloads", "emulator/scenario"}

// heavy are dependencies that cost every start of a node, which churn does
// hundreds of times.
var heavy = []string{
	"github.com/vishvananda/...", "github.com/containernetworking/...", "github.com/urfave/...",
	"gonum.org/...", "go.yaml.in/...", "github.com/schollz/...", "github.com/ulikunitz/...", "image/...",
}

// edges are libraries that only some packages may import, for one reason each.
var edges = []struct {
	library string
	allowed []string
	reason  string
}{
	{"github.com/vishvananda/netlink", []string{"emulator/kernel"}, "one package speaks netlink, bounds its retries and types its errors"},
	{"github.com/vishvananda/netlink/nl", []string{"emulator/kernel"}, "as netlink"},
	{"github.com/vishvananda/netns", []string{"emulator/netns"}, "one package switches a thread's namespace"},
	{"github.com/urfave/cli/v2", []string{"emulator/cmd/churnbed"}, "flags are the command's business"},
	{"go.yaml.in/yaml/v3", []string{"emulator/scenario", "results", "results/reproduce"}, "files decode into specs in one place"},
	{"github.com/anishathalye/porcupine", []string{"results"}, "the second judge is one function"},
	{"gonum.org/v1/plot", []string{"topologies", "results/compare", "results/sweep", "results/reproduce", "results/report"}, "drawing is not part of a run"},
}

type pkg struct {
	ImportPath string
	Dir        string
	Doc        string
	Imports    []string
	GoFiles    []string
	Standard   bool
}

const module = "churnbed"

// load lists the module's packages and everything they depend on, once.
var load = sync.OnceValues(func() (map[string]pkg, error) {
	// What go list reads is unknown to the test cache. Opening each folder makes
	// its files' sizes and times part of the cached result's inputs.
	for _, top := range []string{"node", "emulator", "topologies", "workloads", "results"} {
		err := filepath.WalkDir(filepath.Join("..", "..", top), func(string, os.DirEntry, error) error { return nil })
		if err != nil {
			return nil, fmt.Errorf("read tree: %w", err)
		}
	}
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Doc,Imports,GoFiles,Standard", "./...")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	all := map[string]pkg{}
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		all[p.ImportPath] = p
	}
})

// own returns the module's packages by their path below it, and all packages.
func own(t *testing.T) (mine, all map[string]pkg) {
	t.Helper()
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	mine = map[string]pkg{}
	for name, p := range all {
		if rest, ok := strings.CutPrefix(name, module+"/"); ok {
			mine[rest] = p
		}
	}
	if len(mine) == 0 {
		t.Fatal("no packages listed")
	}
	return mine, all
}

// match reports whether name is the pattern, or below it where it ends in
// "/...".
func match(pattern, name string) bool {
	if root, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(name, root+"/")
	}
	return pattern == name
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, name) })
}

// parse reads the partial order: for each package, all that it may import.
func parse(text string, packages []string) (map[string]map[string]bool, error) {
	type rule struct{ lower, upper []string }
	var rules []rule
	explicit := map[string]bool{}
	var lines []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		lines = append(lines, strings.TrimSpace(line))
	}
	for statement := range strings.SplitSeq(strings.Join(lines, " "), ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		lower, upper, ok := strings.Cut(statement, "<")
		if !ok || strings.Contains(upper, "<") {
			return nil, fmt.Errorf("rule %q: want one <", statement)
		}
		var r rule
		for name := range strings.SplitSeq(lower, ",") {
			if name = strings.TrimSpace(name); name != "NONE" {
				r.lower = append(r.lower, name)
			}
		}
		for name := range strings.SplitSeq(upper, ",") {
			name = strings.TrimSpace(name)
			r.upper = append(r.upper, name)
			explicit[name] = true
		}
		rules = append(rules, r)
	}
	expand := func(names []string) []string {
		var out []string
		for _, name := range names {
			if !strings.HasSuffix(name, "/*") {
				out = append(out, name)
				continue
			}
			for _, p := range packages {
				if path.Dir(p) == path.Dir(name) && !explicit[p] {
					out = append(out, p)
				}
			}
		}
		return out
	}
	for name := range explicit {
		for _, r := range rules {
			for _, l := range r.lower {
				if !explicit[l] {
					return nil, fmt.Errorf("rule for %s: %s has no rule", name, l)
				}
			}
		}
	}
	// A rule may only use what an earlier one placed: so the order has no cycle.
	may := map[string]map[string]bool{}
	for _, r := range rules {
		lower := expand(r.lower)
		for _, u := range expand(r.upper) {
			if may[u] == nil {
				may[u] = map[string]bool{}
			}
			for _, l := range lower {
				below, ok := may[l]
				if !ok {
					return nil, fmt.Errorf("rule for %s: %s is placed later", u, l)
				}
				if l == u || below[u] {
					return nil, fmt.Errorf("rule for %s: a cycle through %s", u, l)
				}
				may[u][l] = true
				maps.Copy(may[u], below)
			}
		}
	}
	return may, nil
}

func TestOrder(t *testing.T) {
	mine, _ := own(t)
	may, err := parse(order, slices.Sorted(maps.Keys(mine)))
	if err != nil {
		t.Fatal(err)
	}
	for name := range may {
		if _, ok := mine[name]; !ok {
			t.Errorf("%s has a place in the order and does not exist", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		allowed, ok := may[name]
		if !ok {
			t.Errorf("%s has no place in the order: add a rule", name)
			continue
		}
		for _, imported := range mine[name].Imports {
			if rest, ok := strings.CutPrefix(imported, module+"/"); ok && !allowed[rest] {
				t.Errorf("%s must not import %s", name, rest)
			}
		}
	}
}

// TestParse shows that the order is read as it is meant to be.
func TestParse(t *testing.T) {
	may, err := parse("NONE < a; a < x/*; a < x/own; x/* < b # not x/own\n;", []string{"a", "b", "x/1", "x/2", "x/own"})
	if err != nil {
		t.Fatal(err)
	}
	if !may["b"]["x/1"] || !may["b"]["a"] || may["b"]["x/own"] || may["a"]["b"] || !may["x/own"]["a"] {
		t.Errorf("order %v", may)
	}
	for _, bad := range []string{"a < b", "NONE < a; b < c", "b < a; a < b", "NONE < a < b", "NONE < a; a < a"} {
		if _, err := parse(bad, []string{"a", "b", "c"}); err == nil {
			t.Errorf("parse(%q): no error", bad)
		}
	}
}

func TestPureImports(t *testing.T) {
	mine, _ := own(t)
	checked := 0
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		if !matchAny(pure, name) {
			continue
		}
		checked++
		for _, imported := range mine[name].Imports {
			if matchAny(impure, imported) {
				t.Errorf("%s is pure and must not import %s", name, imported)
			}
		}
	}
	if checked == 0 {
		t.Error("no pure package found")
	}
}

// forbidden are calls without which the same inputs give the same results.
var forbidden = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"math/rand/v2": {
		"Int", "IntN", "Int32", "Int32N", "Int64", "Int64N", "Uint", "UintN", "Uint32", "Uint32N", "Uint64",
		"Uint64N", "N", "Float32", "Float64", "ExpFloat64", "NormFloat64", "Perm", "Shuffle",
	},
}

func TestPureCode(t *testing.T) {
	mine, _ := own(t)
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		if !matchAny(pure, name) && !slices.Contains(seeded, name) {
			continue
		}
		for _, file := range mine[name].GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(mine[name].Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range impurities(f) {
				t.Errorf("%s/%s:%d: %s", name, file, fset.Position(found.pos).Line, found.what)
			}
		}
	}
}

type impurity struct {
	pos  token.Pos
	what string
}

// impurities finds goroutines, clocks and global chance in a file.
func impurities(f *ast.File) []impurity {
	imported := map[string]string{} // name in this file to path
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil || forbidden[p] == nil {
			continue
		}
		name := map[string]string{"time": "time", "math/rand/v2": "rand"}[p]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = p
	}
	var found []impurity
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, impurity{n.Pos(), "starts a goroutine; the shell owns concurrency"})
		case *ast.SelectStmt:
			found = append(found, impurity{n.Pos(), "selects among channels; the shell owns concurrency"})
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(forbidden[imported[x.Name]], n.Sel.Name) {
				found = append(found, impurity{n.Pos(), "uses " + x.Name + "." + n.Sel.Name + "; time and chance are handed in"})
			}
		}
		return true
	})
	return found
}

func TestImpurities(t *testing.T) {
	const bad = `package p
import ("time"; "math/rand/v2")
func f(r *rand.Rand, c chan int) time.Duration {
	go f(r, c)
	select { case <-c: default: }
	_ = rand.IntN(3) + r.IntN(3)
	return time.Since(time.Now())
}`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", bad, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if got := impurities(f); len(got) != 5 {
		t.Errorf("found %d impurities, want 5: %v", len(got), got)
	}
}

// TestNodeIsLight keeps heavy libraries out of the node's binary.
func TestNodeIsLight(t *testing.T) {
	_, all := own(t)
	const root = module + "/node/cmd/churnbed-node"
	if _, ok := all[root]; !ok {
		t.Fatalf("%s is not there", root)
	}
	via := map[string]string{root: ""}
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		for _, imported := range all[queue[0]].Imports {
			if _, seen := via[imported]; !seen {
				via[imported] = queue[0]
				queue = append(queue, imported)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(via)) {
		if !matchAny(heavy, name) {
			continue
		}
		chain := name
		for at := via[name]; at != ""; at = via[at] {
			chain = strings.TrimPrefix(at, module+"/") + " -> " + chain
		}
		t.Errorf("the node must not link %s: %s", name, chain)
	}
}

func TestEdges(t *testing.T) {
	mine, _ := own(t)
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		for _, e := range edges {
			if slices.Contains(mine[name].Imports, e.library) && !slices.Contains(e.allowed, name) {
				t.Errorf("%s must not import %s: %s", name, e.library, e.reason)
			}
		}
	}
}

// TestRooms: ARCHITECTURE.md says what each package is for, by its path or,
// beside others of its folder, its name.
func TestRooms(t *testing.T) {
	mine, _ := own(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		if !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), "`"+path.Base(name)+"`") {
			t.Errorf("%s is not in ARCHITECTURE.md", name)
		}
	}
}

func TestPackageDocs(t *testing.T) {
	mine, _ := own(t)
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		if doc := mine[name].Doc; len(strings.Fields(doc)) < 4 {
			t.Errorf("%s has no doc comment that says what it is: %q", name, doc)
		}
	}
}
