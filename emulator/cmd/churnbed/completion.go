package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"churnbed/emulator/live"
	"churnbed/emulator/scenario"
	"churnbed/results/reproduce"
	sweeps "churnbed/workloads/scenarios/reproduce"
)

// completeWord, as the first argument, prints what the last word may become.
// The scripts of completion call it.
const completeWord = "__complete"

// Each script hands over the words up to the cursor. A candidate is a line:
// word, tab, meaning. No line at all means a file.
var (
	//go:embed completion/bash
	bashCompletion string
	//go:embed completion/zsh
	zshCompletion string
	//go:embed completion/fish
	fishCompletion string
)

func completionCommand() *cli.Command {
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	return &cli.Command{
		Name: "completion", Usage: "print the completion script of a shell", ArgsUsage: "bash|zsh|fish",
		Description: "Commands, flags and the values of flags that take one of a few; live runs by name; else files.",
		Action: func(c *cli.Context) error {
			script, ok := scripts[c.Args().First()]
			if !ok || c.NArg() != 1 {
				return usageError(fmt.Errorf("completion: want bash, zsh or fish, got %q", strings.Join(c.Args().Slice(), " ")))
			}
			_, err := fmt.Fprint(c.App.Writer, script)
			return err
		},
	}
}

// complete lists what the last of the words may become.
func complete(all []*cli.Command, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	last, before := words[len(words)-1], words[:len(words)-1]
	var path []string
	var c *cli.Command
	var lines []string
	offer := func(word, meaning string) {
		if strings.HasPrefix(word, last) {
			meaning, _, _ = strings.Cut(strings.ReplaceAll(meaning, "`", ""), "\n")
			lines = append(lines, word+"\t"+meaning)
		}
	}
	args := 0
	for i := 0; i < len(before); i++ {
		w := before[i]
		switch {
		case strings.HasPrefix(w, "-"):
			if c == nil || strings.Contains(w, "=") {
				continue
			}
			f := flagNamed(c, strings.TrimLeft(w, "-"))
			if doc, ok := f.(cli.DocGenerationFlag); !ok || !doc.TakesValue() {
				continue
			}
			if i+1 == len(before) { // the last word is its value
				for _, v := range values(path, f) {
					offer(v, "")
				}
				return lines
			}
			i++
		default:
			k := slices.IndexFunc(all, func(c *cli.Command) bool { return c.HasName(w) })
			if k < 0 {
				args++
				continue
			}
			c, path, all = all[k], append(path, w), all[k].Subcommands
		}
	}
	if strings.HasPrefix(last, "-") {
		if c == nil {
			offer("--help", "show help")
			return lines
		}
		for _, f := range append(slices.Clone(c.Flags), cli.HelpFlag) {
			meaning := ""
			switch f := f.(type) {
			case *scenarioFlag:
				meaning = f.key.Help
			case cli.DocGenerationFlag:
				meaning = f.GetUsage()
			}
			for _, n := range f.Names() {
				if len(n) > 1 {
					offer("--"+n, meaning)
				}
			}
		}
		return lines
	}
	if args == 0 {
		for _, s := range all {
			offer(s.Name, s.Usage)
		}
	}
	switch strings.Join(path, " ") {
	case "completion":
		for _, shell := range []string{"bash", "zsh", "fish"} {
			offer(shell, "")
		}
	case "reproduce":
		for _, name := range experiments() {
			offer(name, "published experiment")
		}
	case "ps":
		for _, name := range liveRuns() {
			offer(name, "live run")
		}
	}
	return lines
}

func flagNamed(c *cli.Command, name string) cli.Flag {
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// values are what a flag takes, where that is one of a few.
func values(path []string, f cli.Flag) []string {
	if key, ok := f.(*scenarioFlag); ok {
		return key.key.Allowed
	}
	switch strings.Join(path, " ") + " --" + f.Names()[0] {
	case "scenario new --algorithm", "explore --algorithm":
		return algorithms()
	case "sweep --engine":
		return []string{"sim", "run"}
	case "minimise --engine":
		return []string{"auto", "sim", "run"}
	case "minimise --property":
		return []string{"safety", "liveness"}
	case "export pcapng --by":
		return []string{"node", "link", "run"}
	}
	switch f.Names()[0] {
	case "run":
		return liveRuns()
	case "topology":
		return keyNamed("topology").Allowed
	case "metric":
		return keyNamed("metric").Allowed
	case "set":
		var list []string
		for _, k := range scenario.Keys() {
			list = append(list, k.Name+"=")
		}
		return list
	}
	return nil
}

func keyNamed(name string) scenario.Key {
	for _, k := range scenario.Keys() {
		if k.Name == name {
			return k
		}
	}
	return scenario.Key{}
}

// liveRuns are the names of this user's live runs, none where they cannot be
// told.
func liveRuns() []string {
	runs, _ := live.List()
	var names []string
	for _, r := range runs {
		names = append(names, r.Name)
	}
	return names
}

// experiments are the names that reproduce takes.
func experiments() []string {
	all, _ := reproduce.Load(sweeps.Files)
	names := []string{"all"}
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}
