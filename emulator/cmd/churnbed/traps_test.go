package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"churnbed/results"
	"churnbed/workloads/traps"
)

// Every trap catches the published text in each trial, and the hardened one in none.
func TestTrapsSimulated(t *testing.T) {
	t.Parallel()
	o := churnbed(t, "reproduce", "traps", "--trials", "3", "--json")
	o.want(t, 0)
	var rows []trapRow
	if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2*len(traps.All()) {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		want := 0
		if strings.HasSuffix(r.Algorithm, "-paper") {
			want = 3
		}
		if r.Trials != 3 || r.Violating+r.Starved != want {
			t.Errorf("%+v", r)
		}
	}
	churnbed(t, "reproduce", "traps", "h0").want(t, 2)
	churnbed(t, "reproduce", "traps", "--trials", "0").want(t, 2)
	churnbed(t, "reproduce", "traps", "h1", "--record").want(t, 2)
}

// Four of them for real: a newcomer, a friend that forgets, and both traps of
// local mutual exclusion.
func TestTrapsRealProcesses(t *testing.T) {
	needRuns(t)
	t.Parallel()
	for _, name := range []string{"h1", "h4a", "l1", "l2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := churnbed(t, "reproduce", "traps", name, "--emulate", "--trials", "1", "--json")
			for try := 1; o.code == exitCheckFailed && try < 4; try++ { // a busy host may be late for a trap
				o = churnbed(t, "reproduce", "traps", name, "--emulate", "--trials", "1", "--json")
			}
			o.want(t, 0)
			var rows []trapRow
			if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil {
				t.Fatal(err)
			}
			if len(rows) != 2 || rows[0].Violating+rows[0].Starved != 1 || rows[1].Violating+rows[1].Starved != 0 {
				t.Errorf("%v", o)
			}
		})
	}
}

// The files are scenarios as any other.
func TestTrapFiles(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs("../../../workloads/traps/h4b.yaml")
	if err != nil {
		t.Fatal(err)
	}
	churnbed(t, "sim", file, "--algorithm", "camera-paper", "--json", "--out", filepath.Join(t.TempDir(), "run")).want(t, 1)
}

// Where a trap is missed on a host that did not keep up, the table says what
// to do about it.
func TestTrapMissedOnBusyHost(t *testing.T) {
	row := trapRow{Trap: "h1", Algorithm: "camera-paper", Trials: 1, Unfit: 1, Shortest: results.Unknown()}
	var b strings.Builder
	if err := printTraps(&b, []trapRow{row}); err != nil || !strings.Contains(b.String(), "1 of those trials were unfaithful") {
		t.Errorf("%v\n%s", err, &b)
	}
	row.AsItMust = true
	b.Reset()
	if err := printTraps(&b, []trapRow{row}); err != nil || strings.Contains(b.String(), "unfaithful") {
		t.Errorf("%v\n%s", err, &b)
	}
}
