package main

import (
	"bytes"
	"strings"
	"testing"

	"churnbed/results"
)

const kMutex = "docs/K-MUTUAL-EXCLUSION.md"

// TestKMutexPage runs the example of the page, and holds the lines that it
// shows against those of the run.
func TestKMutexPage(t *testing.T) {
	page, dir := document(t, kMutex), t.TempDir()
	ran := 0
	for _, words := range documentCommands(t, kMutex) {
		for i, w := range words {
			words[i] = strings.Replace(w, "runs/", dir+"/", 1)
		}
		switch words[1] {
		case "sim", "check", "explore":
			if code := run(words); code != 0 {
				t.Fatalf("%s: exit status %d", strings.Join(words, " "), code)
			}
			ran++
		}
	}
	if ran < 3 {
		t.Errorf("%d commands run, want sim, check and explore at least", ran)
	}
	r, err := results.Open(dir + "/fair")
	if err != nil {
		t.Fatal(err)
	}
	s, err := results.Summarise(r)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Print(&b, dir); err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "fairness ") || strings.HasPrefix(line, "tokens ") {
			shown++
			if !strings.Contains(page, "    "+strings.TrimSpace(line)+"\n") {
				t.Errorf("the page lacks\n%s", line)
			}
		}
	}
	if shown != 2 {
		t.Errorf("%d lines about tokens and fairness in\n%s", shown, b.String())
	}
}
