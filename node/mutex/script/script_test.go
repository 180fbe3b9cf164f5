package script

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts replays node/mutex/testdata: "run ALGORITHM=..." executes the
// same schedule with each algorithm named. Run with -rewrite to record.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "../testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			var out strings.Builder
			for _, a := range d.CmdArgs {
				s, err := Run(a.Key, d.Input)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				if strings.HasPrefix(a.Key, "camera") && !strings.HasPrefix(a.Key, "camera-paper") && !strings.Contains(a.Key, "+without-") && strings.Contains(s, "VIOLATION") {
					t.Errorf("%s: camera violates", d.Pos)
				}
				fmt.Fprintf(&out, "== %s\n%s", a.Key, s)
			}
			return out.String()
		})
	})
}

// TestScriptSteps: the script of each trap shows it in as few steps as
// exploration needs, hence in no more than ALGORITHMS states. A step of
// exploration that is more than one command is one here: a detected failure with
// who leaves and the Tick that gives the silent OK.
func TestScriptSteps(t *testing.T) {
	for _, trap := range traps {
		text, err := os.ReadFile(filepath.Join("..", "testdata", trap.file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		want := -1
		if m := stated.FindSubmatch(text); m != nil {
			want, _ = strconv.Atoi(string(m[1]))
		}
		if trap.published > 0 && want > trap.published {
			t.Errorf("%s: %d steps stated, ALGORITHMS says %d", trap.file, want, trap.published)
		}
		fewest := -1
		for run := range strings.SplitSeq(string(text), "\nrun ") {
			algorithms, rest, ok := strings.Cut(run, "\n")
			if name := strings.Fields(algorithms); ok && len(name) > 0 && strings.TrimSuffix(name[0], "+no-wait") == trap.algorithm {
				if n, wrong := stepsUntilWrong(t, name[0], rest); wrong && (fewest < 0 || n < fewest) {
					fewest = n
				}
			}
		}
		if fewest != want {
			t.Errorf("%s: %s is wrong after %d steps of the script, want %d", trap.file, trap.algorithm, fewest, want)
		}
	}
}

// stepsUntilWrong runs the schedule that text begins with and counts its steps
// up to the violation, or up to the end of the trouble where somebody is stuck.
func stepsUntilWrong(t *testing.T, algorithm, text string) (n int, wrong bool) {
	schedule, _, _ := strings.Cut(text, "----")
	out, err := Run(algorithm, schedule)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "VIOLATION") {
		wrong = strings.Contains(out, "STUCK")
		for _, ending := range []string{"> restart ", "> up ", "> finish"} {
			out, _, _ = strings.Cut(out, ending)
		}
	}
	last := ""
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "VIOLATION:" {
			wrong = wrong || len(f) > 0
			break
		}
		if f[0] != ">" || f[1] == "nodes" {
			continue
		}
		if part := f[1] == "fence" || f[1] == "tick" || f[1] == "advance"; !part || last != "down" && last != "fence" {
			n++
		}
		last = f[1]
	}
	return n, wrong
}
