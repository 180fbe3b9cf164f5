package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"churnbed/results"
	"churnbed/results/capture"
)

// A run captures at its nodes, and the frames that come out are those that it
// sent, readable for Wireshark.
func TestRunCapture(t *testing.T) {
	needRuns(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	churnbed(t, quick(dir, "--capture", "all", "--topology", "line", "--nodes", "3", "--requests", "5", "--mean", "100ms", "--algorithm", "ra", "--probe-every", "0s")...).want(t, 0)
	run, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	messages, _, err := capture.Messages(run, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Five entries of three nodes, no loss: a REQUEST to and an OK from two
	// others each.
	kinds := map[string]int{}
	for _, m := range messages {
		kinds[m.Kind]++
		hops := int64(max(m.From-m.To, m.To-m.From))
		// The kernel's stamps are brought to the run's clock at each node by
		// itself, some microseconds off.
		if took := m.Received - m.Sent; took < hops*1e6/2 {
			t.Errorf("%+v took %d ns for %d hops", m, took, hops)
		}
	}
	if kinds["REQUEST"] != 10 || kinds["OK"] != 10 {
		t.Errorf("messages %v", kinds)
	}
	out := filepath.Join(t.TempDir(), "frames")
	o := churnbed(t, "export", "pcapng", dir, "-o", out, "--by", "run")
	o.want(t, 0)
	var frames int
	if _, err := fmt.Sscanf(o.stdout, "%d frames", &frames); err != nil || frames < 2*20 {
		t.Errorf("%v: %v", o, err)
	}
	churnbed(t, "export", "perfetto", dir).want(t, 0)

	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("no tshark to read captures with; on Debian: apt-get install tshark")
	}
	count := func(filter string) int {
		t.Helper()
		var b bytes.Buffer
		cmd := exec.Command(path, "-X", "lua_script:"+filepath.Join(out, capture.DissectorFile), "-r", filepath.Join(out, "mesh.pcapng"), "-Y", filter, "-T", "fields", "-e", "frame.number")
		cmd.Stdout = &b
		if err := cmd.Run(); err != nil {
			t.Fatalf("tshark %s: %v", filter, err)
		}
		return strings.Count(b.String(), "\n")
	}
	if all, ours := count("frame"), count("churnbed"); all != frames || ours != all {
		t.Errorf("tshark reads %d frames, %d of them ours, of %d", all, ours, frames)
	}
	if n := count("churnbed.malformed || _ws.malformed || ip.checksum.status == 0"); n > 0 {
		t.Errorf("%d frames are malformed", n)
	}
	if n := count(`frame.comment contains "ENTERS"`); n == 0 || n > 5 {
		t.Errorf("%d comments about enters", n)
	}
}

func TestCaptureNodes(t *testing.T) {
	for text, want := range map[string]string{"": "[]", "all": "[0 1 2 3]", "1,3": "[1 3]", "0-2": "[0 1 2]", "4": "", "x": "", "all,1": ""} {
		ids, err := captureNodes(text, 4)
		if got := fmt.Sprint(ids); (err != nil) != (want == "") || want != "" && got != want {
			t.Errorf("--capture %s: %s, %v, want %s", strconv.Quote(text), got, err, want)
		}
	}
}
