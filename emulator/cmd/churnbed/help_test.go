package main

import (
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"churnbed/emulator/scenario"
)

var exampleLine = regexp.MustCompile(`(?m)^\s+(?:source <\()?churnbed ([^|>)\n]*)`)

// Every command shows examples of itself, and each is right: its flags and
// their values, and for scenarios what they say.
func TestHelpExamples(t *testing.T) {
	known := map[string]bool{}
	leaf(commands(), "", func(path string, c *cli.Command) {
		known[path] = true
		examples := 0
		for _, m := range exampleLine.FindAllStringSubmatch(c.Description, -1) {
			words := splitWords(m[1])
			if !strings.HasPrefix(strings.Join(words, " ")+" ", path+" ") {
				continue // another command that helps
			}
			examples++
			called := ""
			parsed := commands()
			leaf(parsed, "", func(p string, c *cli.Command) {
				c.Action = func(ctx *cli.Context) error {
					called = p
					if strings.HasPrefix(p, "exec") {
						return nil // what follows is a command
					}
					_, err := trailingFlags(ctx)
					return err
				}
			})
			app := &cli.App{Name: "churnbed", Commands: parsed, Writer: io.Discard, ErrWriter: io.Discard, ExitErrHandler: func(*cli.Context, error) {}}
			if err := app.Run(append([]string{"churnbed"}, words...)); err != nil || called != path {
				t.Errorf("%s: example %q calls %q: %v", path, m[1], called, err)
			}
			if path == "run" || path == "sim" || path == "both" {
				checkScenarioExample(t, words)
			}
		}
		if examples == 0 {
			t.Errorf("%s: no example in its help", path)
		}
	})
	for path := range examples {
		if !known[path] {
			t.Errorf("examples of %q, which is no command", path)
		}
	}
}

// checkScenarioExample resolves the scenario of an example.
func checkScenarioExample(t *testing.T, words []string) {
	t.Helper()
	var file string
	var given []scenario.Setting
	for i := 1; i < len(words); i++ {
		name, isFlag := strings.CutPrefix(words[i], "--")
		switch key := keyNamed(name); {
		case !isFlag:
			file = filepath.Join("..", "..", "..", words[i])
		case key.Name == "" || !key.Boolean():
			i++
			if key.Name != "" {
				given = append(given, scenario.Setting{Key: name, Value: words[i]})
			}
		default:
			given = append(given, scenario.Setting{Key: name, Value: "true"})
		}
	}
	spec, origin, err := scenario.Load(file, given)
	if err == nil {
		_, err = scenario.Resolve(spec, origin)
	}
	if err != nil {
		t.Errorf("example %q: %v", words, err)
	}
}

// What is mistyped is told with what was meant.
func TestMistyped(t *testing.T) {
	all := commands()
	for _, c := range []struct{ line, want string }{
		{"repport x", "did you mean `churnbed report`?"},
		{"export parquett", "did you mean `churnbed export parquet`?"},
		{"frobnicate", "`churnbed --help` lists the commands"},
		{"report frob", ""},
		{"reproduce fig8", ""},
		{"--help", ""},
	} {
		err := unknownCommand(all, strings.Fields(c.line))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.line, err, c.want)
		}
	}
	app := &cli.App{Name: "churnbed", Commands: all, Writer: io.Discard, ExitErrHandler: func(*cli.Context, error) {}}
	for line, want := range map[string]string{
		"run --algorithn ra":       "did you mean --algorithm?",
		"sim x.yaml --linkloss 1":  "did you mean --link-loss?",
		"run --loss 0.1":           "did you mean --link-loss?",
		"run --speedup 3":          "did you mean --churn-speedup?",
		"export parquet x --outpt": "did you mean --output?",
	} {
		words := strings.Fields(line)
		err := app.Run(append([]string{"churnbed"}, words...))
		if err == nil || !strings.Contains(explainFlag(all, words, err).Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	o := churnbed(t, "chek", "x")
	o.want(t, exitUsage)
	if !strings.Contains(o.stderr, "did you mean `churnbed check`?") {
		t.Errorf("%v", o)
	}
}

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
		not  []string
	}{
		{"sc", []string{"scenario"}, []string{"sim"}},
		{"scenario ", []string{"new", "check", "from-run"}, []string{"run"}},
		{"run --link-l", []string{"--link-loss", "--link-loss-model"}, []string{"--link-delay"}},
		{"run --algorithm tok", []string{"token-ring"}, []string{"camera"}},
		{"run --quiet --algorithm ca", []string{"camera", "camera-paper"}, nil},
		{"run some.yaml --topology gr", []string{"grid"}, nil},
		{"reproduce fig1", []string{"fig1", "fig10"}, []string{"all"}},
		{"completion ", []string{"bash", "zsh", "fish"}, nil},
		{"export pcapng --by ", []string{"node", "link", "run"}, nil},
		{"sim --set link-d", []string{"link-delay="}, nil},
		{"run --out ", nil, []string{"--algorithm"}}, // files
		{"check runs/", nil, []string{"check"}},
		{"--he", []string{"--help"}, nil},
	} {
		words := strings.Split(c.line, " ")
		var got []string
		for _, l := range complete(commands(), words) {
			word, _, _ := strings.Cut(l, "\t")
			got = append(got, word)
		}
		for _, w := range c.want {
			if !slices.Contains(got, w) {
				t.Errorf("%q: %q is missing in %q", c.line, w, got)
			}
		}
		for _, w := range c.not {
			if slices.Contains(got, w) {
				t.Errorf("%q: %q is offered", c.line, w)
			}
		}
		if len(c.want) == 0 && len(got) > 0 {
			t.Errorf("%q: %q in place of files", c.line, got)
		}
	}
}

// The shells themselves complete through their scripts.
func TestCompletionScripts(t *testing.T) {
	dir := filepath.Dir(program(t, "churnbed"))
	for shell, line := range map[string][]string{
		"bash": {"bash", "--norc", "-c", `source <(churnbed completion bash)
			COMP_WORDS=(churnbed run --algorithm tok) COMP_CWORD=3; _churnbed; printf '%s\n' "${COMPREPLY[@]}"
			COMP_WORDS=(churnbed scen) COMP_CWORD=1; _churnbed; printf '%s\n' "${COMPREPLY[@]}"; complete -p churnbed`},
		"zsh": {"zsh", "-f", "-c", `compdef() { print "complete $*" }; _describe() { print -l $found }; _files() { print files }
			source <(churnbed completion zsh)
			words=(churnbed run --algorithm tok) CURRENT=4; _churnbed; words=(churnbed scen) CURRENT=2; _churnbed`},
		"fish": {"fish", "--no-config", "-c", `churnbed completion fish | source
			complete -C "churnbed run --algorithm tok"; complete -C "churnbed scen"; echo complete churnbed`},
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("no %s to try its script in; on Debian: apt-get install %s", shell, shell)
			}
			cmd := exec.Command(path, line[1:]...)
			cmd.Env = append(cmd.Environ(), "PATH="+dir+":/usr/bin:/bin", "HOME="+t.TempDir())
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if err != nil || errs.Len() > 0 {
				t.Fatalf("%v\n%s", err, errs.String())
			}
			for _, want := range []string{"token-ring", "scenario", "complete"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is missing in\n%s", want, out)
				}
			}
		})
	}
}

// The manual page names every command, and is one that groff has nothing to
// say about.
func TestMan(t *testing.T) {
	page := manPage(commands())
	leaf(commands(), "", func(path string, _ *cli.Command) {
		if !strings.Contains(page, ".SS churnbed "+roff(path)+" ") {
			t.Errorf("the manual page lacks %s", path)
		}
	})
	for _, k := range scenario.Keys() {
		if !strings.Contains(page, `\fB\-\-`+roff(k.Name)) {
			t.Errorf("the manual page lacks --%s", k.Name)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("no groff to format the manual page; on Debian: apt-get install groff")
	}
	cmd := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%.2000s", err, out)
	}
}
