package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// reproduceArgs runs the verb in-process in a source tree of its own, without
// the authors' data.
func reproduceArgs(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &cli.App{
		Name: "churnbed", Writer: &out, Commands: []*cli.Command{reproduceCommand()}, ExitErrHandler: func(*cli.Context, error) {},
	}
	err := app.Run(append([]string{"churnbed", "reproduce"}, args...))
	return out.String(), err
}

func TestReproduceListsElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	out, err := reproduceArgs(t, "--list")
	if err != nil || strings.Contains(out, "not recorded") || !strings.Contains(out, "what is recorded lies in") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestReproduceRecordsAndLists(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module churnbed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	out, err := reproduceArgs(t, "fig15", "--trials", "2", "--max-nodes", "8", "--record", "-o", "plots", "--quiet")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "camera, all ask at once") || !strings.Contains(out, "verdict: -") {
		t.Errorf("table:\n%s", out)
	}
	for _, name := range []string{"plots/fig15.txt", "plots/fig15.csv", "plots/fig15.svg", "plots/fig15.png", "results/reference/fig15.csv"} {
		if st, err := os.Stat(name); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile("results/reference/fig1.csv", []byte("nothing of the kind"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err = reproduceArgs(t, "--list", "--json")
	var rows []sweepRow
	if err != nil || json.Unmarshal([]byte(out), &rows) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	status := map[string]string{}
	for _, r := range rows {
		status[r.Name] = r.Status
	}
	if status["fig15"] != "recorded" || status["fig1"] != "unreadable" || status["fig8"] != "not recorded" || len(rows) < 13 {
		t.Errorf("status %v", status)
	}
	if out, err = reproduceArgs(t, "--list"); err != nil || strings.Count(out, "\n") != len(rows)+1 {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A part of an experiment has the figures of the whole there.
func TestReproducePart(t *testing.T) {
	t.Chdir(t.TempDir())
	csv := func(name string, args ...string) string {
		out, err := reproduceArgs(t, append([]string{"fig15", "--trials", "1", "--max-nodes", "16", "--quiet", "-o", name}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		if part := len(args) > 0; part != strings.Contains(out, "asked for at [16] only") || part != strings.Contains(out, `begin with ["camera, "] only`) {
			t.Errorf("%v:\n%s", args, out)
		}
		text, err := os.ReadFile(filepath.Join(name, "fig15.csv"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	whole, part := csv("whole"), csv("part", "--at", "16", "--series", "camera, ")
	rows := 0
	for row := range strings.Lines(part) {
		if strings.HasPrefix(row, "\"") {
			rows++
			if !strings.HasPrefix(row, "\"camera, ") || !strings.Contains(row, "\",16,") || !strings.Contains(whole, row) {
				t.Errorf("%s is not of the whole:\n%s", row, whole)
			}
		}
	}
	if rows == 0 || rows >= strings.Count(whole, "\n\"") {
		t.Errorf("%d rows:\n%s", rows, part)
	}
}

func TestReproduceRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		want string
		args []string
	}{
		{"name an experiment", nil},
		{`experiment "fig2"`, []string{"fig2"}},
		{"--trials -1", []string{"fig15", "--trials", "-1"}},
		{"--time-scale 0", []string{"fig15", "--emulate", "--time-scale", "0"}},
		{"virtual time", []string{"fig15", "--time-scale", "2"}},
		{"inside the source tree", []string{"fig15", "--record"}},
		{"--record wants whole experiments", []string{"fig15", "--record", "--at", "9"}},
		{"no point at 9: want some of [", []string{"fairk-fig2", "--at", "9"}},
		{`no series begins with "Unfair": want some of ["Fair-K, mean" `, []string{"fairk-fig2", "--series", "Unfair"}},
		{"nothing to choose from", []string{"fig1", "--at", "9"}},
		{"unexpected argument", []string{"--list", "fig15"}},
	} {
		_, err := reproduceArgs(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || exitCode(err) != exitUsage {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
