package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"churnbed/emulator/scenario"
)

// runFlags parses a command line with the scenario flags and returns what
// they recorded and the positional arguments.
func runFlags(t *testing.T, args ...string) (*scenarioArgs, []string, error) {
	t.Helper()
	var a scenarioArgs
	var files []string
	app := &cli.App{
		Name: "churnbed", Writer: io.Discard, ErrWriter: io.Discard,
		ExitErrHandler: func(*cli.Context, error) {},
		Commands: []*cli.Command{{
			Name:  "run",
			Flags: append(a.flags(), &cli.BoolFlag{Name: "json"}),
			Action: func(c *cli.Context) error {
				var err error
				files, err = trailingFlags(c)
				return err
			},
		}},
	}
	err := app.Run(append([]string{"churnbed", "run"}, args...))
	return &a, files, err
}

func TestEveryKeyHasOneFlag(t *testing.T) {
	var a scenarioArgs
	var flags []string
	for _, f := range a.flags()[1:] { // --set is none
		flags = append(flags, f.Names()...)
	}
	var keys []string
	for _, k := range scenario.Keys() {
		keys = append(keys, k.Name)
	}
	if diff := cmp.Diff(keys, flags); diff != "" {
		t.Errorf("keys and flags differ (-keys +flags):\n%s", diff)
	}
	// The names that issues promise to users' scripts.
	for _, name := range []string{
		"topology", "nodes", "area", "radius", "link-delay", "link-loss", "membership", "algorithm", "arrivals",
		"requesters", "requests", "churn", "churn-speedup", "seed", "out", "fabric",
		"topology-file", "ir-ratio", "trials", "release",
	} {
		if !slices.Contains(flags, name) {
			t.Errorf("no flag --%s", name)
		}
	}
}

func TestFlagsAroundTheScenarioFile(t *testing.T) {
	a, files, err := runFlags(t, "--nodes", "8", "a.yaml", "--survivable", "--fault", "at 1s, crash 3,4", "--seed=7", "--fault", "second", "--json")
	if err != nil {
		t.Fatal(err)
	}
	want := []scenario.Setting{
		{Key: "nodes", Value: "8"},
		{Key: "survivable", Value: "true"},
		{Key: "fault", Value: "at 1s, crash 3,4"},
		{Key: "seed", Value: "7"},
		{Key: "fault", Value: "second"},
	}
	if diff := cmp.Diff(want, a.given); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a.yaml"}, files); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestTrailingFlagErrors(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"a.yaml", "--nodez", "3"}, "flag provided but not defined: -nodez"},
		{[]string{"a.yaml", "--nodes"}, "flag needs an argument: -nodes"},
	} {
		_, _, err := runFlags(t, tc.args...)
		if err == nil || err.Error() != tc.want {
			t.Errorf("%q: error %v, want %q", tc.args, err, tc.want)
		}
	}
}

func TestHelpShowsGroupsDefaultsAndPlaceholders(t *testing.T) {
	var a scenarioArgs
	var out strings.Builder
	app := &cli.App{Name: "churnbed", Writer: &out, Commands: []*cli.Command{{Name: "run", Flags: a.flags()}}}
	if err := app.Run([]string{"churnbed", "run", "--help"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Churn and faults", "--link-delay DURATION", "one-way delay of a hop (default: 5ms)", "--survivable ", "--fault RULE", "--release unicast|multicast",
		"--algorithm NAME", "camera-paper,", "(default: camera)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, out.String())
		}
	}
}
