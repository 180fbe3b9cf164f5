package script

import (
	"fmt"
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
