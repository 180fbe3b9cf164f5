package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const writing = "docs/WRITING-AN-ALGORITHM.md"

// The code that the document shows is the code of the repository.
func TestWritingExcerpts(t *testing.T) {
	excerpts := 0
	for i, block := range strings.Split(document(t, writing), "```") {
		head, text, _ := strings.Cut(block, "\n")
		_, path, ok := strings.Cut(head, " ")
		if i%2 == 0 || !ok {
			continue
		}
		excerpts++
		if !strings.Contains(document(t, path), text) {
			t.Errorf("%s is not as %s shows it:\n%s", path, writing, text)
		}
	}
	if excerpts < 7 {
		t.Errorf("%d excerpts", excerpts)
	}
}

// The commands that the document shows do what it says: the worked example is
// served and safe in both engines, and unserved where its token dies.
func TestWritingCommands(t *testing.T) {
	verbs := map[string]int{}
	for _, words := range documentCommands(t, writing) {
		verb := words[1]
		verbs[verb]++
		t.Run(strings.Join(words[1:], " "), func(t *testing.T) {
			if verb == "run" || verb == "both" {
				needRuns(t)
			}
			t.Parallel()
			args, want := slices.Clone(words[1:]), exitOK
			if slices.ContainsFunc(args, func(w string) bool { return strings.Contains(w, "crash holder") || strings.Contains(w, "+without") }) {
				want = exitCheckFailed
			}
			if verb != "explore" {
				args = append(args, "--out", filepath.Join(t.TempDir(), "run"))
			}
			churnbed(t, args...).want(t, want)
		})
	}
	if verbs["explore"] < 3 || verbs["sim"] < 2 || verbs["run"] < 1 || verbs["both"] < 1 {
		t.Errorf("the document shows %v", verbs)
	}
}
