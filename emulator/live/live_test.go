package live

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func picture(dir string, nodes int) *Picture {
	links := make([][2]int, 0, nodes-1)
	for i := 1; i < nodes; i++ {
		links = append(links, [2]int{i - 1, i})
	}
	return NewPicture(Info{Name: "run", Dir: dir, Positions: make([][2]float64, nodes)}, links)
}

func states(of ...string) []Node {
	list := make([]Node, len(of))
	for i, s := range of {
		list[i] = Node{ID: i, State: s, Life: 1}
	}
	return list
}

// A reader that asks seldom has in the end what one has that asks always.
func TestReadersAgree(t *testing.T) {
	p := picture("", 4)
	var often, seldom View
	ask := func(v *View) {
		d := p.View(v.Rev)
		b, err := json.Marshal(d) // as it travels
		if err != nil {
			t.Fatal(err)
		}
		var got View
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		v.Merge(&got)
	}
	names := []string{Down, Joining, Idle, Waiting, Holding, Paused}
	for step := range 500 {
		p.SetNodes(states(names[step%6], names[step%5], Idle, names[step%4]), Figures{Phase: "running", Served: step})
		if step%3 == 0 {
			p.Add(Entry{AtMS: float64(step), Text: "x"})
		}
		if step%7 == 0 {
			p.SetLinks([]Link{{0, 1, step%2 == 0, ""}, {1, 2, true, "slow"}, {2, 3, true, ""}})
		}
		ask(&often)
		if step%50 == 0 {
			ask(&seldom)
		}
	}
	ask(&often)
	ask(&seldom)
	if diff := cmp.Diff(often, seldom); diff != "" {
		t.Error(diff)
	}
	if n := len(seldom.Log); n == 0 || n > maxLog {
		t.Errorf("%d lines are kept, want 1 to %d", n, maxLog)
	}
	if d := p.View(often.Rev); len(d.Nodes)+len(d.Links)+len(d.Log) > 0 {
		t.Errorf("nothing changed, but %+v", d)
	}
}

func TestPictureKeepsListsOfThoseUp(t *testing.T) {
	p := picture("", 3)
	p.SetNodes(states(Idle, Idle, Down), Figures{})
	p.setRates(1, 2, 3, []int{3, 2, 3})
	if f := p.Figures(); f.MembersMin != 2 || f.MembersMean != 2.5 || f.MessageRate != 2 {
		t.Errorf("figures %+v", f)
	}
	p.SetNodes(states(Down, Idle, Down), Figures{})
	v := p.View(0)
	if v.Nodes[0].Members != 0 || v.Nodes[1].Members != 2 || v.Figures.ServedRate != 1 {
		t.Errorf("view %+v", v)
	}
}

const table = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 11 @churnbed/7/120/mesh-1
0000000000000000: 00000003 00000000 00000000 0001 03 12 @churnbed/7/120/mesh-1
0000000000000000: 00000002 00000000 00010000 0001 01 13 @churnbed/8/99/other
0000000000000000: 00000002 00000000 00010000 0001 01 14 /run/x.sock
0000000000000000: 00000002 00000000 00010000 0001 01 15 @churnbed/7/abc/bad
0000000000000000: 00000002 00000000 00010000 0001 01 16 @churnbed/7/119/mesh-1
0000000000000000: 00000002 00000000 00010000 0001 01 17
`

func TestListAndChoose(t *testing.T) {
	runs, err := parse(strings.NewReader(table), 7)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || runs[0].PID != 119 || runs[1].Name != "mesh-1" {
		t.Fatalf("runs %+v", runs)
	}
	for which, want := range map[string]string{"": "--run NAME", "mesh-1": "--run PID", "nobody": `"nobody": there are mesh-1 (pid 119)`} {
		if _, err := choose(runs, which); !errors.Is(err, ErrNoRun) || !strings.Contains(err.Error(), want) {
			t.Errorf("choose %q: %v", which, err)
		}
	}
	if r, err := choose(runs, "120"); err != nil || r.PID != 120 {
		t.Errorf("choose by pid: %+v, %v", r, err)
	}
	if _, err := choose(nil, ""); !errors.Is(err, ErrNoRun) || !strings.Contains(err.Error(), "churnbed run") {
		t.Errorf("choose from none: %v", err)
	}
}

func FuzzParseSockets(f *testing.F) {
	f.Add(table)
	f.Add("a b c d e f g @churnbed/7/1/x")
	f.Fuzz(func(t *testing.T, text string) {
		runs, _ := parse(strings.NewReader(text), 7)
		for _, r := range runs {
			if r.Name == "" || !strings.HasPrefix(r.address, "@churnbed/7/") {
				t.Errorf("run %+v", r)
			}
		}
	})
}

func TestSocketName(t *testing.T) {
	for in, want := range map[string]string{"demo-1": "demo-1", "a b/c\n": "a_b_c_", "": "run", strings.Repeat("x", 200): strings.Repeat("x", maxName)} {
		if got := socketName(in); got != want {
			t.Errorf("socketName(%q) = %q, want %q", in, got, want)
		}
	}
}

// The reader of the logs counts over lives and takes whole lines only.
func TestTail(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "nodes"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := picture(dir, 2)
	p.SetNodes(states(Idle, Idle), Figures{ElapsedMS: 1000})
	log := filepath.Join(dir, "nodes", "0.jsonl")
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tl := newTail(p)
	add(`{"t":1,"ev":"joined","node":0,"inc":1024,"size":2}` + "\n")
	add(`{"t":2,"ev":"counters","node":0,"inc":1024,"sent":{"OK":{"n":10,"bytes":1}}}` + "\n" + `{"t":3,"ev":"cou`)
	tl.read()
	p.SetNodes(states(Idle, Idle), Figures{ElapsedMS: 3000})
	add(`nters","node":0,"inc":1024,"sent":{"OK":{"n":30,"bytes":1}}}` + "\nnonsense \"size\":\n")
	add(`{"t":4,"ev":"counters","node":0,"inc":2048,"sent":{"OK":{"n":5,"bytes":1}},"size":1}` + "\n")
	tl.read()
	if l := &tl.logs[0]; l.messages != 30 || l.sent != 5 || l.size != 1 {
		t.Errorf("log read as %+v", *l)
	}
	if f := p.Figures(); f.MessageRate != 12.5 || f.MembersMin != 1 {
		t.Errorf("figures %+v, want (35-10)/2 messages a second", f)
	}
}
