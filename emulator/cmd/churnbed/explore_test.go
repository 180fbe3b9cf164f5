package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"churnbed/node/mutex/script"
)

func TestExplore(t *testing.T) {
	const h1 = "explore --algorithm camera-paper --member-changes 1 --gains-only --requests 1,1,0 p0:p2 p1:p2"
	file := filepath.Join(t.TempDir(), "h1.txt")
	after := filepath.Join(filepath.Dir(file), "after.txt")
	if err := os.WriteFile(after, []byte("nodes 3 p0:p2 p1:p2\nenter p0\ndeliver p0->p2 REQUEST\ndeliver p2->p0 OK\nfinish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{h1, exitCheckFailed, "wrong after 7 steps, and never after fewer"},
		{h1 + " --script " + file, exitCheckFailed, "VIOLATION: two HELD"},
		{"explore --algorithm camera --member-changes 1 --gains-only --requests 1,1,0 p0:p2 p1:p2", exitOK, "complete: nothing wrong"},
		{"explore --algorithm camera --crashes 1 --depth 3", exitOK, "bound reached (depth)"},
		{"explore --algorithm camera --crashes 1 --states 50", exitOK, "bound reached (states)"},
		{"explore --algorithm ra --nodes 6 --walks 3 --requests 2 --depth 50", exitOK, "bound reached (3 walks"},
		{"explore --algorithm ra --nodes 6 --walks 200 --crashes 3 --requests 2", exitCheckFailed, "made shorter"},
		{"explore --algorithm localmutex-paper --nodes 2", exitCheckFailed, "STUCK: never served again: p0,p1\nwrong after 7 steps"},
		{"explore --algorithm localmutex-paper --nodes 2 --requests 1,0 --cuts 1", exitCheckFailed, "STUCK: never served again: p0\nwrong after 7 steps"},
		{"explore --algorithm localmutex-paper --nodes 2 --requests 1,0 --cuts 1 --json", exitCheckFailed, `"violation": "STUCK`},
		{"explore --algorithm localmutex --nodes 2 --cuts 1 --joins 1", exitOK, "complete: nothing wrong"},
		{"explore --algorithm localmutex --nodes 3 p0-p1 p1-p2", exitOK, "complete: nothing wrong"},
		{"explore --algorithm localmutex --nodes 2 --depth 3", exitOK, "bound reached (depth)"},
		{"explore --algorithm localmutex --nodes 5 --walks 20 --requests 2 --cuts 3 --joins 3", exitOK, "20 fair walks, 200 entries"},
		{"explore --algorithm localmutex-paper --nodes 3 --walks 50", exitCheckFailed, "wrong with seed"},
		{"explore --algorithm localmutex --crashes 1", exitUsage, ""},
		{"explore --algorithm localmutex p0:p1", exitUsage, ""},
		{"explore --algorithm localmutex --nodes 9", exitUsage, ""},
		{"explore --cuts 1", exitUsage, ""},
		{"explore --nodes 6", exitUsage, ""},
		{"explore --nodes 1", exitUsage, ""},
		{"explore --requests 1,1", exitUsage, ""},
		{"explore --crashes x", exitUsage, ""},
		{"explore --losses -1", exitUsage, ""},
		{"explore --algorithm none", exitUsage, ""},
		{"explore p0:p7", exitUsage, ""},
		{"explore --algorithm camera+fast-only+without-renewal --requests 1,1,0 --silent-oks 1 --partition p0,p1|p2 --stopped p1", exitCheckFailed, "wrong after 10 steps"},
		{"explore --algorithm camera+fast-only --requests 1,1,0 --silent-oks 1 --partition p0,p1|p2 --stopped p1", exitOK, "complete: nothing wrong"},
		{"explore --algorithm camera+without-probing --requests 1,1,0 --crashes 0,1,0 --restarts 0 --stay-dead p0:p2 p1:p2", exitCheckFailed, "wrong after 6 steps"},
		{"explore --requests 1,1,0 --crashes 0,1,0 --restarts 0 --stay-dead p0:p2 p1:p2", exitOK, "complete: nothing wrong"},
		{"explore --algorithm camera-paper --requests 1,1,0 --crashes 0,0,1 --after " + after, exitCheckFailed, "wrong after the 3 of " + after + " and 5 steps more"},
		{"explore --algorithm camera-paper --requests 1,1,0 --crashes 0,0,1 --json --after " + after, exitCheckFailed, `"given": 3`},
		{"explore --requests 1,1,0 --crashes 0,0,1 --script " + after + ".out --after " + after, exitOK, "after.txt.out is not written"},
		{"explore --after " + after + " --nodes 3", exitUsage, ""},
		{"explore --after " + after + " p0:p1", exitUsage, ""},
		{"explore --after " + after + ".none", exitUsage, ""},
		{"explore --algorithm localmutex --after " + after, exitUsage, ""},
		{"explore --algorithm comesh", exitUsage, ""},
		{"explore -k 2", exitUsage, ""},
		{"explore --algorithm localmutex --nodes 2 --walks 3 --script x", exitUsage, ""},
		{"explore --algorithm localmutex --nodes 2 --script " + after + ".out", exitOK, "after.txt.out is not written"},
		{"explore --partition p0|p1", exitUsage, ""},
		{"explore --partition p0,p1,p2", exitUsage, ""},
		{"explore --partition p0|p1,p2 --stopped p9", exitUsage, ""},
		{"explore --stopped p1", exitUsage, ""},
	} {
		code, out := invoke(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("churnbed %s: exit code %d, want %d, and %q in\n%s", c.args, code, c.code, c.want, out)
		}
	}

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "run camera-paper+no-wait\n")
	schedule, recorded, ok := strings.Cut(body, "----\n== camera-paper+no-wait\n")
	if !ok {
		t.Fatalf("no script:\n%s", text)
	}
	if out, err := script.Run("camera-paper+no-wait", schedule); err != nil || out != recorded {
		t.Errorf("the script gives %v\n%s\nrecorded\n%s", err, out, recorded)
	}

	_, out := invoke(t, append(strings.Fields(h1), "--json")...)
	var r exploreReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Steps != 7 || r.Complete || r.States < 10 || len(r.Schedule) != 8 {
		t.Errorf("%v: %+v", err, r)
	}
}
