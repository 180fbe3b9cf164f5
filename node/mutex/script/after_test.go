package script

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"churnbed/node/mutex/camera"
)

// planted is where p2 has granted p1's request through the tree under p0, which
// holds, and has restarted since (h4a-tree.txt): it is about to recover.
func planted(t *testing.T) (lists [][]int, commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "h4a-tree.txt"))
	if err != nil {
		t.Fatal(err)
	}
	lists, commands, err = ReadSchedule(string(text))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(commands, "restart p2 p0,p3,p4")
	if at < 0 {
		t.Fatal("h4a-tree.txt has no restart with a list")
	}
	// The exploration restarts with the list of the start, which then grows.
	commands = append(slices.Clone(commands[:at]), "restart p2", "up p2 p0", "up p2 p3", "up p2 p4")
	return lists, append(commands, "deliver p2->p0 RECOVER", "deliver p2->p3 RECOVER", "deliver p2->p4 RECOVER")
}

// TestExploreAfter: from a planted state exploration finds what a life that a
// tree does not look at leads to, and camera survives.
func TestExploreAfter(t *testing.T) {
	lists, commands := planted(t)
	cfg := ExploreConfig{Algorithm: "camera+impatient+without-tree-lives", Lists: lists, Entries: []int{0, 0, 0, 0, 1}, After: commands, MaxStates: *maxStates}
	r := Explore(cfg)
	if r.Found == nil || !strings.Contains(r.Violation, "VIOLATION") {
		t.Fatalf("%q in %d states, complete %v", r.Violation, r.States, r.Complete)
	}
	if r.Found.Given != len(commands) || len(r.Found.Steps) != len(commands)+11 {
		t.Errorf("%d steps, %d of them given; want 11 after %d", len(r.Found.Steps), r.Found.Given, len(commands))
	}
	if text, err := r.Found.Script("as found"); err != nil || !strings.Contains(text, "VIOLATION") {
		t.Errorf("the schedule does not show it: %v\n%s", err, text)
	}
	t.Logf("%d states", r.States)

	w := Wander(cfg, 1, 2000, 60)
	if w.Found == nil || w.Found.Given != len(commands) {
		t.Errorf("random walks: %q, %d walks' states", w.Violation, w.States)
	}

	cfg.Algorithm, cfg.Stuck = "camera+impatient", true
	r = Explore(cfg)
	if r.Found != nil {
		t.Errorf("camera: %s", r.Found.Numbered())
	}
	t.Logf("camera: %d states, complete %v", r.States, r.Complete)
}

// TestEverySafeguardExplored: each safeguard of camera has a space in which its
// removal is found by exploration.
func TestEverySafeguardExplored(t *testing.T) {
	explored := []string{
		"tree-rec", "tree-sets", // TestExploreSlowMutants
		"tree-lives", // TestExploreAfter
		"persist",    // TestExplorePersistLate
		"renewal",    // TestExploreRenewal
	}
	for name := range mutants {
		explored = append(explored, name)
	}
	for _, e := range estimates {
		if e.without != "" {
			explored = append(explored, e.without)
		}
	}
	slices.Sort(explored)
	want := slices.Sorted(slices.Values(camera.SafeguardNames()))
	if !slices.Equal(explored, want) {
		t.Errorf("explored without %q, there are %q", explored, want)
	}
}

func TestReadSchedule(t *testing.T) {
	lists, commands, err := ReadSchedule("# why\nrun ra camera\nnodes 3 p0:p1\n\nenter p0 # first\nfinish\n----\n== ra\n> enter p1\n")
	if err != nil || len(lists) != 3 || !slices.Equal(lists[0], []int{1}) || !slices.Equal(commands, []string{"enter p0"}) {
		t.Errorf("%v %v %v", lists, commands, err)
	}
	for _, bad := range []string{"", "run ra\n", "enter p0\n", "nodes 0\n", "nodes 2 p3:\n", "nodes x"} {
		if _, _, err := ReadSchedule(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	for _, bad := range []string{
		"exit p0", "enter p2", "enter", "enter p0 p1", "up p0 p0", "restart p0", "deliver p0->p1 OK", "advance 3s", "fence p0", "cut", "bound p0 3", "nonsense",
		"deliver p0->p1", "deliver p0->p1 REQUEST 0",
	} {
		cfg := ExploreConfig{Algorithm: "ra", Lists: everyone(2), Entries: []int{1, 1}, After: []string{bad}}
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), "command 1") {
			t.Errorf("after %q: %v", bad, err)
		}
	}
	stuck := ExploreConfig{
		Algorithm: "camera-paper", Lists: everyone(2), Entries: []int{0, 0}, MaxStates: 100, Stuck: true, Withheld: true,
		After: []string{"enter p1", "deliver p1->p0 REQUEST", "enter p0", "deliver p0->p1 REQUEST", "crash p1", "restart p1", "deliver p0->p1 OK"},
	}
	if r := Explore(stuck); !strings.Contains(r.Violation, "STUCK") || r.Found.Given != len(stuck.After) || len(r.Found.Steps) != len(stuck.After) {
		t.Errorf("stuck where the exploration begins: %q", r.Violation)
	}
	wrong := ExploreConfig{Algorithm: "ra", Lists: [][]int{{}, {}}, Entries: []int{1, 1}, After: []string{"enter p0", "enter p1"}}
	if err := wrong.Check(); err == nil || !strings.Contains(err.Error(), "wrong there already") {
		t.Error(err)
	}
}

func FuzzReadSchedule(f *testing.F) {
	f.Add("run ra\nnodes 3 p0:p1\nenter p0\ndeliver p0->p1 REQUEST\n----\n")
	f.Fuzz(func(_ *testing.T, text string) {
		lists, commands, err := ReadSchedule(text)
		if err != nil || len(lists) > 6 || len(commands) > 20 {
			return
		}
		cfg := ExploreConfig{Algorithm: "ra", Lists: lists, Entries: make([]int, len(lists)), After: commands}
		_ = cfg.Check()
	})
}

func TestParseSides(t *testing.T) {
	sides, err := ParseSides(4, "p0,p3|p2|p1")
	if err != nil || !slices.Equal(sides, []int{0, 2, 1, 0}) {
		t.Error(sides, err)
	}
	for _, bad := range []string{"", "p0,p1,p2,p3", "p0|p1", "p0,p1|p1,p2,p3", "p0,p1,p2,p3|", "p0|p1,p2,p4", "0|1,2,3"} {
		if _, err := ParseSides(4, bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
