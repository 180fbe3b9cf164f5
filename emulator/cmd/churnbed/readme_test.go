package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// readmeCommands returns the churnbed command lines of README.md's code
// blocks, split into words.
func readmeCommands(t *testing.T) [][]string {
	t.Helper()
	list := documentCommands(t, "README.md")
	if len(list) < 10 {
		t.Fatalf("README.md shows %d commands", len(list))
	}
	return list
}

// document reads a file of the project.
func document(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// documentCommands returns the churnbed command lines of a document's code
// blocks that name no language, split into words.
func documentCommands(t *testing.T, path string) [][]string {
	t.Helper()
	var list [][]string
	for i, block := range strings.Split(document(t, path), "```") {
		if i%2 == 0 || !strings.HasPrefix(block, "\n") {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
			line, _, _ = strings.Cut(line, "  #")
			if words := splitWords(line); len(words) > 1 && words[0] == "churnbed" {
				list = append(list, words)
			}
		}
	}
	return list
}

func splitWords(line string) []string {
	words := regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(strings.TrimSpace(line), -1)
	for i := range words {
		words[i] = strings.Trim(words[i], `"`)
	}
	return words
}

// Every command that README.md shows exists, with all its flags and with the
// files of the project that it names.
func TestReadmeCommands(t *testing.T) {
	for _, words := range slices.Concat(readmeCommands(t), documentCommands(t, "docs/WRITING-AN-ALGORITHM.md"), documentCommands(t, "docs/LOCAL-LOCKS.md"), documentCommands(t, kMutex),
		documentCommands(t, "docs/COMESH.md")) {
		line := strings.Join(words, " ")
		all, rest := commands(), words[1:]
		var cmd *cli.Command
		for len(rest) > 0 {
			i := slices.IndexFunc(all, func(c *cli.Command) bool { return c.Name == rest[0] })
			if i < 0 {
				break
			}
			cmd, rest, all = all[i], rest[1:], all[i].Subcommands
		}
		if cmd == nil {
			t.Errorf("%s: no such command", line)
			continue
		}
		for _, w := range rest {
			if w == "--" {
				break // another program's
			}
			if name, isFlag := strings.CutPrefix(w, "--"); isFlag {
				if !slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }) {
					t.Errorf("%s: no flag --%s", line, name)
				}
			} else if strings.HasPrefix(w, "workloads/") {
				if _, err := os.Stat(filepath.Join("..", "..", "..", w)); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	}
}

// The exploration that README.md shows finds its violation.
func TestReadmeExplore(t *testing.T) {
	for _, words := range readmeCommands(t) {
		if words[1] != "explore" {
			continue
		}
		if code := run(words); code != exitCheckFailed {
			t.Errorf("%s: exit status %d, want %d", strings.Join(words, " "), code, exitCheckFailed)
		}
		return
	}
	t.Error("README.md shows no exploration")
}

// The tour of README.md works as it stands, from an empty directory.
func TestReadmeTour(t *testing.T) {
	needRuns(t)
	t.Parallel()
	_, tour, ok := strings.Cut(document(t, "README.md"), "## Five minutes")
	blocks := strings.Split(tour, "```")
	if !ok || len(blocks) < 2 {
		t.Fatal("README.md has no tour")
	}
	dir := t.TempDir()
	steps := 0
	for line := range strings.Lines(blocks[1]) {
		words := splitWords(line)
		if len(words) == 0 {
			continue
		}
		steps++
		cmd := exec.Command(program(t, "churnbed"), words[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.TrimSpace(line), err, out)
		}
	}
	if steps < 5 {
		t.Errorf("the tour has %d steps", steps)
	}
	for _, name := range []string{"runs/real/summary.json", "runs/sim/summary.json", "both.html"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
