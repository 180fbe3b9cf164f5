package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"churnbed/emulator/scenario"
)

// examples are command lines for the help of each command, by its path. A
// test parses them all. Commands whose description has examples of its own
// are not listed.
var examples = map[string][]string{
	"topo gen":             {"churnbed topo gen --topology random --nodes 64 --area 15x15 --radius 4 -o mesh.json"},
	"topo show":            {"churnbed topo show topologies/samples/grid16.json --draw grid.svg", "churnbed topo show --topology ring --nodes 8"},
	"topo convert":         {"churnbed topo convert topologies/samples/grid16.json grid.graphml"},
	"check":                {"churnbed check runs/mesh256", "churnbed check runs/mesh256 --chart 1"},
	"explore":              {"churnbed explore --algorithm ra --nodes 3 p1:p2", "churnbed explore --algorithm camera --crashes 1 --depth 12"},
	"minimise":             {"churnbed minimise runs/failing -o smallest.yaml"},
	"summary":              {"churnbed summary runs/mesh256", "churnbed summary runs/mesh256 --json"},
	"doctor":               {"churnbed doctor"},
	"run":                  {"churnbed run workloads/scenarios/smoke.yaml --seed 7", "churnbed run --topology grid --nodes 25 --algorithm camera --requests 50 --fault \"at 2s crash holder for 3s\" --live 127.0.0.1:0"},
	"sim":                  {"churnbed sim workloads/scenarios/smoke.yaml --trials 20 --out runs/smoke-sim", "churnbed sim --replay runs/mesh256"},
	"both":                 {"churnbed both workloads/scenarios/smoke.yaml"},
	"reproduce":            {"churnbed reproduce --list", "churnbed reproduce fig8"},
	"reproduce traps":      {"churnbed reproduce traps", "churnbed reproduce traps h8 --trials 3"},
	"reproduce fairk-fig6": {"churnbed reproduce fairk-fig6 --required --trials 20", "churnbed reproduce fairk-fig6 --emulate --required --parallel 2 --trials 20"},
	"reproduce partition":  {"churnbed reproduce partition", "churnbed reproduce partition --trials 2 --emulate"},
	"compare":              {"churnbed compare runs/mesh256 runs/smoke-sim"},
	"import camera":        {"churnbed import camera result.json.xz -o runs/camera-java"},
	"import csv":           {"churnbed import csv requests.csv -o runs/elsewhere"},
	"import memlists":      {"churnbed import memlists lists -o start.lists"},
	"import memlist-sizes": {"churnbed import memlist-sizes memlist.csv -o sizes.csv"},
	"import routes":        {"churnbed import routes routes.txt -o mesh.json"},
	"import topology":      {"churnbed import topology topologies/samples/random64.txt -o mesh.json"},
	"import trace":         {"churnbed import trace churn.avt -o churn.txt"},
	"export memlists":      {"churnbed export memlists runs/mesh256 -o lists"},
	"export topology":      {"churnbed export topology runs/mesh256 -o mesh"},
	"export trace":         {"churnbed export trace runs/mesh256 -o churn"},
	"version":              {"churnbed version --json"},
	"scenario new":         {"churnbed scenario new --algorithm maekawa -o mine.yaml", "churnbed scenario new --all"},
	"scenario check":       {"churnbed scenario check mine.yaml", "churnbed scenario check mine.yaml --set nodes=64"},
	"scenario schema":      {"churnbed scenario schema -o scenario.schema.json"},
	"scenario explain":     {"churnbed scenario explain workloads/scenarios/demo.yaml"},
	"scenario from-run":    {"churnbed scenario from-run runs/mesh256 -o again.yaml"},
	"sweep":                {"churnbed sweep loss.yaml --engine sim --out runs/loss"},
	"ps":                   {"churnbed ps", "churnbed ps demo"},
	"top":                  {"churnbed top"},
	"exec":                 {"churnbed exec 3 -- ip route", "churnbed exec 3 -- ping -c 3 10.77.0.5"},
	"shell":                {"churnbed shell 3"},
	"pcap":                 {"churnbed pcap 3 -o node3.pcapng", "churnbed pcap 3-4"},
	"kill":                 {"churnbed kill holder", "churnbed kill 3,5-7 --for 2s"},
	"pause":                {"churnbed pause 3 --for 1s"},
	"resume":               {"churnbed resume 3"},
	"restart":              {"churnbed restart 3"},
	"link":                 {"churnbed link 3 4 down --for 5s", "churnbed link 3 4 delay=20ms loss=0.1"},
	"partition":            {"churnbed partition 0-7 8-15 --for 5s"},
	"heal":                 {"churnbed heal"},
	"inject":               {"churnbed inject \"crash 2 nodes restart after 3s\""},
	"trigger":              {"churnbed trigger 0"},
	"completion":           {"source <(churnbed completion bash)", "churnbed completion fish > ~/.config/fish/completions/churnbed.fish"},
	"man":                  {"churnbed man | man -l -", "churnbed man -o /usr/local/share/man/man1/churnbed.1"},
}

// leaf calls f for every command that does something, with its path.
func leaf(all []*cli.Command, path string, f func(path string, c *cli.Command)) {
	for _, c := range all {
		p := strings.TrimSpace(path + " " + c.Name)
		if c.Action != nil {
			f(p, c)
		}
		leaf(c.Subcommands, p, f)
	}
}

// addExamples writes the examples into the help.
func addExamples(all []*cli.Command) {
	leaf(all, "", func(path string, c *cli.Command) {
		if list := examples[path]; len(list) > 0 {
			c.Description = strings.TrimPrefix(c.Description+"\n\nExamples:\n  "+strings.Join(list, "\n  "), "\n\n")
		}
	})
}

// unknownCommand says what is wrong with the words of a command line that
// should name a command, or nil.
func unknownCommand(all []*cli.Command, words []string) error {
	path := "churnbed"
	for _, w := range words {
		if len(all) == 0 || strings.HasPrefix(w, "-") {
			return nil
		}
		i := slices.IndexFunc(all, func(c *cli.Command) bool { return c.HasName(w) })
		if i < 0 && path != "churnbed" && w == "help" {
			return nil
		}
		if i < 0 {
			var names []string
			for _, c := range all {
				names = append(names, c.Name)
			}
			hint := ""
			if near := scenario.Nearest(w, names); near != "" {
				hint = fmt.Sprintf("did you mean `%s %s`? ", path, near)
			}
			return fmt.Errorf("no command %q: %s(`%s --help` lists the commands)", w, hint, path)
		}
		path += " " + w
		if all[i].Action != nil && len(all[i].Subcommands) > 0 && len(words) > 1 {
			return nil // the words that follow may be its arguments
		}
		all = all[i].Subcommands
	}
	return nil
}

// explainFlag adds to an error about an unknown flag which one was meant.
func explainFlag(all []*cli.Command, words []string, err error) error {
	const undefined = "flag provided but not defined: -"
	_, name, ok := strings.Cut(err.Error(), undefined)
	if !ok {
		return err
	}
	name = strings.TrimLeft(name, "-")
	path, c := "churnbed", (*cli.Command)(nil)
	for _, w := range words {
		i := slices.IndexFunc(all, func(c *cli.Command) bool { return c.HasName(w) })
		if i < 0 {
			break
		}
		c, path = all[i], path+" "+w
		all = c.Subcommands
	}
	hint := ""
	if c != nil {
		var names []string
		for _, f := range c.Flags {
			names = append(names, f.Names()...)
		}
		if near := scenario.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean --%s? ", near)
		}
	}
	return &codedError{exitUsage, fmt.Errorf("no flag --%s: %s(`%s --help` lists the flags)", name, hint, path)}
}
