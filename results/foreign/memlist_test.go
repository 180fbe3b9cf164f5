package foreign

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"churnbed/node/core"
	"churnbed/topologies"
)

func TestMemlistRoundTrip(t *testing.T) {
	m, err := ReadMemlist([]byte(`{"suspects": {"7": "165", "1": 3}, "status": {"0": "active", "7": "suspect", "2": "failed"}}`), "f")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&Memlist{
		Status:   map[core.NodeID]Status{0: Active, 7: Suspect, 2: Failed},
		Suspects: map[core.NodeID]int64{7: 165, 1: 3},
	}, m); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]core.NodeID{7}, m.Listed(0)); d != "" {
		t.Error(d)
	}
	text := m.Append(nil)
	const want = "{\n  \"suspects\": {\n    \"1\": \"3\",\n    \"7\": \"165\"\n  },\n  \"status\": {\n    \"0\": \"active\",\n    \"2\": \"failed\",\n    \"7\": \"suspect\"\n  }\n}\n"
	if string(text) != want {
		t.Errorf("written:\n%s", text)
	}
	back, err := ReadMemlist(text, "f")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m, back); d != "" {
		t.Error(d)
	}
}

func TestMemlistMalformed(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "f:1:1: ",
		"[]":                                   "want an object",
		"{}":                                   `no "status"`,
		`{"status": {"0": "active"}`:           "f:1:",
		"{\n \"status\": {\"x\": \"active\"}}": `f:2:16: malformed file: "x" is not a node id`,
		`{"status": {"00": "active"}}`:         `"00" is not a node id`,
		`{"status": {"1": "asleep"}}`:          `status "asleep" of node 1`,
		`{"status": {"1": "active", "1": "failed"}}`:   "status of node 1 twice",
		`{"status": {}, "status": {}}`:                 `"status" twice`,
		`{"status": {}, "other": {}}`:                  `key "other"`,
		`{"status": {}, "suspects": {"1": "many"}}`:    `suspects "many" of node 1`,
		`{"status": {}, "suspects": {"1": [1]}}`:       "want a string",
		`{"status": {}} x`:                             "something follows",
		`{"status": {}, "suspects": {"1": 1, "1": 2}}`: "suspects of node 1 twice",
	} {
		m, err := ReadMemlist([]byte(in), "f")
		if err == nil || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) || m != nil {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func FuzzReadMemlist(f *testing.F) {
	f.Add([]byte(`{"suspects": {"7": "165"}, "status": {"0": "active", "7": "suspect"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ReadMemlist(data, "f")
		if err != nil {
			return
		}
		back, err := ReadMemlist(m.Append(nil), "f")
		if err != nil || !cmp.Equal(m, back) {
			t.Fatalf("%v: %v and %v", err, m, back)
		}
	})
}

func TestMemlistFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lists")
	lists := []*Memlist{
		{Status: map[core.NodeID]Status{0: Active, 1: Active}, Suspects: map[core.NodeID]int64{}},
		{Status: map[core.NodeID]Status{1: Active}, Suspects: map[core.NodeID]int64{0: 2}},
	}
	if err := WriteMemlists(dir, lists); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "done"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	back, err := ReadMemlists(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(lists, back); d != "" {
		t.Error(d)
	}
	lists[1].Status[5] = Active
	if err := WriteMemlists(dir, lists); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadMemlists(dir); err == nil || !strings.Contains(err.Error(), "1.json names node 5") {
		t.Errorf("unknown node: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "0.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadMemlists(dir); err == nil || !strings.Contains(err.Error(), "0.json is missing") {
		t.Errorf("gap: %v", err)
	}
	if _, err := ReadMemlists(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no <id>.json") {
		t.Errorf("empty: %v", err)
	}
}

func TestMemlistSizes(t *testing.T) {
	sizes := []ListSize{{0, 0, 5}, {0, 1, 4}, {1000.5, 0, 3}}
	var b bytes.Buffer
	if err := WriteMemlistSizes(&b, sizes); err != nil {
		t.Fatal(err)
	}
	back, err := ReadMemlistSizes(b.Bytes(), "f", nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sizes, back); d != "" {
		t.Error(d)
	}
	other, err := ReadMemlistSizes([]byte("id,n,t\n1,4,20\n"), "f", map[string]string{"time_ms": "t", "node": "id", "size": "n"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]ListSize{{20, 1, 4}}, other); d != "" {
		t.Error(d)
	}
	for in, want := range map[string]string{
		"": "f:1:1: malformed file: the file is empty", "a\n": `no column "time_ms"`, "time_ms,node,size\n1,x,2\n": "f:2:3: ",
		"time_ms,node,size\n-1,0,2\n": "f:2:1: ", "time_ms,node,size\n1,0,-2\n": "f:2:5: ", "time_ms,node,size\n1,0\n": "f:2:1: ",
	} {
		if _, err := ReadMemlistSizes([]byte(in), "f", nil); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	if _, err := ReadMemlistSizes(nil, "f", map[string]string{"x": "y"}); err == nil {
		t.Error("an unknown column is mapped")
	}
}

func FuzzReadMemlistSizes(f *testing.F) {
	f.Add([]byte("time_ms,node,size\n1,0,2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		sizes, err := ReadMemlistSizes(data, "f", nil)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteMemlistSizes(&b, sizes); err != nil {
			t.Fatal(err)
		}
		if back, err := ReadMemlistSizes(b.Bytes(), "f", nil); err != nil || len(back) != len(sizes) {
			t.Fatalf("%v: %v", err, back)
		}
	})
}

func TestRoutesRoundTrip(t *testing.T) {
	top, err := topologies.Read(strings.NewReader("0,0\n3,0\n6,0\n"), "line", topologies.ReadOptions{Format: topologies.XY})
	if err != nil {
		t.Fatal(err)
	}
	r, err := RoutesOf(top, topologies.Euclid)
	if err != nil {
		t.Fatal(err)
	}
	if r.Via[2] != 1 || r.Hops[2] != 2 || r.PathM[2] != 6 || r.DistM[2] != 6 || r.Hops[0] != 0 {
		t.Errorf("routes %+v", r)
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), "dist_map:\n0,0,0\n0,1,3\n") || !strings.Contains(b.String(), "route_table:\n0,0,0\n0,1,1\n0,2,1\n") {
		t.Errorf("written:\n%s", b.String())
	}
	back, err := ReadRoutes(b.Bytes(), "f")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, back); d != "" {
		t.Error(d)
	}
	mesh, err := back.Topology("line")
	if err != nil {
		t.Fatal(err)
	}
	if len(mesh.Nodes) != 3 || len(mesh.Links) != 2 || mesh.Links[1].A != 1 || mesh.Links[1].B != 2 {
		t.Errorf("mesh %+v", mesh)
	}
	// Two parts: the format cannot say that there is no path.
	apart, err := topologies.Read(strings.NewReader("0,0\n30,0\n"), "apart", topologies.ReadOptions{Format: topologies.XY})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RoutesOf(apart, topologies.Euclid); err == nil || !strings.Contains(err.Error(), "no path from node 0 to node 1") {
		t.Errorf("apart: %v", err)
	}
}

func TestRoutesMalformed(t *testing.T) {
	const good = "dist_map:\n0,0,0\nhop_dist_map:\n0,0,0\nroute_table:\n0,0,0\nhop_num_map:\n0,0,0\n"
	if _, err := ReadRoutes([]byte(good), "f"); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"":                                       "section dist_map: is missing",
		"0,0,0\n":                                "f:1:1: malformed file: \"0,0,0\": want a section",
		"new_map:\n":                             "f:1:1: ",
		good + "dist_map:":                       "f:9:1: malformed file: section \"dist_map:\" twice",
		strings.Replace(good, "0,0,0", "0,0", 1): "f:2:1: malformed file: \"0,0\": want from,to,value",
		strings.Replace(good, "0,0,0", "x,0,0", 1):                 "f:2:1: ",
		strings.Replace(good, "0,0,0", "0,0,-1", 1):                "f:2:1: ",
		strings.Replace(good, "0,0,0", "0,1,0", 1):                 "f:2:1: malformed file: pair 0,1: there are nodes 0 to 0",
		strings.Replace(good, "table:\n0,0,0", "table:\n0,0,4", 1): "f:6:1: malformed file: route 0,0 goes to 4",
		good[:len(good)-2] + "1\n":                                 "f:8:1: malformed file: path 0,0 has 1 links",
		good[:strings.Index(good, "route_table")]:                  "section route_table: is missing",
		strings.Replace(good, "0,0,0", "0,0,0\n0,0,0", 1):          "has 2 rows",
		good + "0,0,0\n0,0,0\n0,0,0\n":                             "is of 2 nodes, dist_map of 1",
	} {
		r, err := ReadRoutes([]byte(in), "f")
		if err == nil || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) || r != nil {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func FuzzReadRoutes(f *testing.F) {
	f.Add([]byte("dist_map:\n0,0,0\nhop_dist_map:\n0,0,0\nroute_table:\n0,0,0\nhop_num_map:\n0,0,0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadRoutes(data, "f")
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		back, err := ReadRoutes(b.Bytes(), "g")
		if err != nil || !cmp.Equal(r, back) {
			t.Fatalf("%v", err)
		}
	})
}
