package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"churnbed/emulator/scenario"
)

// What the Dockerfile names is there, and what it and docs/CONTAINER.md tell
// people to type is the same. scripts/test-image builds and runs it.
func TestDockerfile(t *testing.T) {
	text, doc := document(t, "Dockerfile"), document(t, "docs/CONTAINER.md")
	for _, m := range regexp.MustCompile(`(?m)^RUN .*go build .* (\./\S+) (\./\S+)$`).FindAllStringSubmatch(text, -1) {
		for _, pkg := range m[1:] {
			if _, err := os.Stat(filepath.Join("..", "..", "..", pkg, "main.go")); err != nil {
				t.Errorf("the Dockerfile builds %s: %v", pkg, err)
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^COPY ([a-z]\S*) `).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("..", "..", "..", m[1])); err != nil {
			t.Errorf("the Dockerfile copies %s: %v", m[1], err)
		}
	}
	cmd := regexp.MustCompile(`(?m)^CMD \["run", "/usr/local/share/churnbed/(\S+)"\]$`).FindStringSubmatch(text)
	if cmd == nil {
		t.Fatal("the Dockerfile runs no scenario")
	}
	spec, origin, err := scenario.Load(filepath.Join("..", "..", "..", "workloads", cmd[1]), nil)
	if err == nil {
		_, err = scenario.Resolve(spec, origin)
	}
	if err != nil {
		t.Error(err)
	}
	join := func(s string) string {
		s = strings.NewReplacer("\\\n", " ", "#", " ").Replace(s)
		return strings.Join(strings.Fields(s), " ")
	}
	command := regexp.MustCompile(`docker run [^\x60]*? churnbed\b`)
	if a, b := command.FindString(join(text)), command.FindString(join(doc)); a == "" || a != b {
		t.Errorf("the Dockerfile says %q, docs/CONTAINER.md %q", a, b)
	}
}
