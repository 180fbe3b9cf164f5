package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"churnbed/emulator/scenario"
)

// scenarioArgs collects the scenario keys given as flags, in their order. It
// is made once for each command; the values are judged together by
// scenario.Load, so that all errors come at once.
type scenarioArgs struct{ given []scenario.Setting }

// flags returns a flag for every scenario key, in the categories of the table.
func (a *scenarioArgs) flags() []cli.Flag {
	keys := scenario.Keys()
	flags := make([]cli.Flag, 0, len(keys)+1)
	flags = append(flags, &cli.GenericFlag{Name: "set", Value: &setValue{a}, Usage: "set any scenario key: `KEY=VALUE`, as --KEY VALUE does; may be repeated"})
	for i := range keys {
		k := &keys[i]
		flags = append(flags, &scenarioFlag{
			GenericFlag: &cli.GenericFlag{
				Name:        k.Name,
				Category:    string(k.Group),
				Usage:       k.Help,
				DefaultText: k.Default,
				Value:       &keyValue{args: a, key: k},
			},
			key: k,
		})
	}
	return flags
}

// spec reads the scenario file, if any, and applies the flags. The command's
// arguments are `[SCENARIO.yaml] [flags]` in any order.
func (a *scenarioArgs) spec(c *cli.Context) (scenario.Spec, scenario.Origin, error) {
	files, err := trailingFlags(c)
	if err != nil {
		return scenario.Spec{}, nil, usageError(err)
	}
	file := ""
	switch len(files) {
	case 0:
	case 1:
		file = files[0]
	default:
		return scenario.Spec{}, nil, usageError(fmt.Errorf("unexpected argument %q: want one scenario file at most", files[1]))
	}
	spec, origin, err := scenario.Load(file, a.given)
	if err != nil {
		return scenario.Spec{}, nil, usageError(err)
	}
	return spec, origin, nil
}

// scenarioFlag is a flag whose help tells its placeholder and default from the
// table of keys; a boolean key takes no value.
type scenarioFlag struct {
	*cli.GenericFlag
	key *scenario.Key
}

func (f *scenarioFlag) TakesValue() bool { return !f.key.Boolean() }

// maxPlaceholder is the widest list of values that help shows in place of one;
// wider ones would push all explanations aside.
const maxPlaceholder = 28

// String formats the flag for help: name and placeholder, a tab, the meaning.
func (f *scenarioFlag) String() string {
	k := f.key
	placeholder, help := k.Placeholder, k.Help
	if len(placeholder) > maxPlaceholder {
		placeholder, help = "NAME", help+": "+strings.Join(k.Allowed, ", ")
	}
	var b strings.Builder
	b.WriteString("--" + k.Name)
	if !k.Boolean() {
		b.WriteString(" " + placeholder)
	}
	b.WriteString("\t" + help)
	if k.Default != "" {
		b.WriteString(" (default: " + k.Default + ")")
	}
	return b.String()
}

// setValue records what is given to --set.
type setValue struct{ args *scenarioArgs }

func (v *setValue) Set(text string) error {
	var s settings
	if err := s.Set(text); err != nil {
		return err
	}
	v.args.given = append(v.args.given, s.given...)
	return nil
}

func (v *setValue) String() string { return "" }

// keyValue records what is given to one key.
type keyValue struct {
	args *scenarioArgs
	key  *scenario.Key
}

func (v *keyValue) Set(value string) error {
	v.args.given = append(v.args.given, scenario.Setting{Key: v.key.Name, Value: value})
	return nil
}

func (v *keyValue) String() string { return "" }

// IsBoolFlag lets a boolean key stand without a value (package flag).
func (v *keyValue) IsBoolFlag() bool { return v.key != nil && v.key.Boolean() }

// trailingFlags sets the flags that stand after the first positional
// argument, where package flag stops to look for them, and returns the
// positional arguments.
func trailingFlags(c *cli.Context) ([]string, error) {
	var positional []string
	args := c.Args().Slice()
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(positional, args[i+1:]...), nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			positional = append(positional, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		takesValue, known := flagTakesValue(c.Command, name)
		switch {
		case !known:
			return nil, fmt.Errorf("flag provided but not defined: -%s", name)
		case !hasValue && !takesValue:
			value = "true"
		case !hasValue && i+1 == len(args):
			return nil, fmt.Errorf("flag needs an argument: -%s", name)
		case !hasValue:
			i++
			value = args[i]
		}
		if err := setFlag(c, name, value); err != nil {
			return nil, fmt.Errorf("invalid value %q for flag -%s: %w", value, name, err)
		}
	}
	return positional, nil
}

func flagTakesValue(cmd *cli.Command, name string) (takesValue, known bool) {
	for _, f := range cmd.Flags {
		for _, n := range f.Names() {
			if n != name {
				continue
			}
			doc, ok := f.(cli.DocGenerationFlag)
			return ok && doc.TakesValue(), true
		}
	}
	return false, false
}
