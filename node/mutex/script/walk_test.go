package script

import (
	"flag"
	"strings"
	"testing"
)

var walks = flag.Int("walks", 300, "random walks for each configuration")

func configs(algorithm string) map[string]WalkConfig {
	c := map[string]WalkConfig{}
	add := func(name string, w WalkConfig) {
		w.Algorithm = algorithm
		c[name] = w
	}
	add("partial lists", WalkConfig{Nodes: 4, Steps: 250, Listed: 0.6, Duplicates: true})
	add("lists change", WalkConfig{Nodes: 4, Steps: 300, Listed: 0.7, Duplicates: true, Lists: true, Fences: true})
	add("one crash", WalkConfig{Nodes: 3, Steps: 250, Listed: 0.8, Crashes: 1})
	add("crashes 3", WalkConfig{Nodes: 3, Steps: 400, Listed: 0.7, Crashes: 6, Duplicates: true})
	add("crashes 4", WalkConfig{Nodes: 4, Steps: 500, Listed: 0.6, Crashes: 8, Lists: true, Fences: true, Duplicates: true})
	add("crashes 5", WalkConfig{Nodes: 5, Steps: 600, Listed: 0.5, Crashes: 10, Lists: true, Fences: true, Duplicates: true})
	add("crashes 6", WalkConfig{Nodes: 6, Steps: 700, Listed: 0.5, Crashes: 12, Lists: true, Duplicates: true})
	add("room to spare", WalkConfig{Nodes: 5, NUpper: 6, Steps: 500, Listed: 0.7, Crashes: 5, Lists: true})
	add("two nodes", WalkConfig{Nodes: 2, Steps: 200, Listed: 0.8, Crashes: 6, Lists: true, Fences: true, Duplicates: true})
	return c
}

// TestWalkCamera: camera never violates, and serves every request once the
// trouble ends and enough nodes remember.
func TestWalkCamera(t *testing.T) {
	spaces := configs("camera")
	for _, name := range []string{"lists change", "crashes 4"} { // with sets to split
		cfg := spaces[name]
		cfg.Algorithm = "camera+in-parts"
		spaces[name+", in parts"] = cfg
	}
	for name, cfg := range spaces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries, judged := 0, 0
			for seed := range uint64(*walks) {
				r := Walk(seed, cfg)
				if r.Violation != "" || r.Waiting > 0 {
					t.Fatalf("seed %d: %s, %d left waiting\n%s", seed, r.Violation, r.Waiting, strings.Join(r.Trace, "\n"))
				}
				entries += r.Entries
				if r.Waiting == 0 {
					judged++
				}
			}
			if entries < *walks || judged < *walks/8 {
				t.Errorf("%d walks made %d entries, %d were judged for liveness: the walks are too poor to tell", *walks, entries, judged)
			}
		})
	}
}

// TestWalkFinds: the walker finds the known violations of the others, so it
// can find some.
func TestWalkFinds(t *testing.T) {
	for _, algorithm := range []string{"ra", "camera-paper"} {
		for name, cfg := range configs(algorithm) {
			t.Run(algorithm+"/"+name, func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(3000) {
					if Walk(seed, cfg).Violation != "" {
						return
					}
				}
				t.Error("no violation in 3000 walks")
			})
		}
	}
}
