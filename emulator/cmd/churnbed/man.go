package main

import (
	"fmt"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"
)

func manCommand() *cli.Command {
	return &cli.Command{
		Name: "man", Usage: "print the manual page", ArgsUsage: " ",
		Flags: []cli.Flag{&cli.StringFlag{Name: "o", Usage: "write to `FILE` (default: standard output)"}},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usageError(fmt.Errorf("man: unexpected argument %q", c.Args().First()))
			}
			page := manPage(commands())
			if file := c.String("o"); file != "" {
				if err := renameio.WriteFile(file, []byte(page), 0o644); err != nil {
					return usageError(fmt.Errorf("write manual page: %w", err))
				}
				return nil
			}
			_, err := fmt.Fprint(c.App.Writer, page)
			return err
		},
	}
}

// manPage writes the command line as a manual page (man(7)).
func manPage(all []*cli.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH CHURNBED 1 \"\" \"churnbed %s\" \"User Commands\"\n", roff(release))
	b.WriteString(".SH NAME\nchurnbed \\- test coordination protocols on a churning mesh of real processes\n")
	b.WriteString(".SH SYNOPSIS\n.B churnbed\n.I command\n[\\fIoption\\fR...] [\\fIargument\\fR...]\n")
	b.WriteString(".SH DESCRIPTION\nEvery scenario key is also an option of \\fBrun\\fR, \\fBsim\\fR and \\fBboth\\fR: they are listed once, below.\n")
	b.WriteString(".SH COMMANDS\n")
	keys := map[string]*scenarioFlag{}
	var order []string
	leaf(all, "", func(path string, c *cli.Command) {
		args := strings.TrimSpace(c.ArgsUsage)
		fmt.Fprintf(&b, ".SS churnbed %s %s\n%s.\n", roff(path), roff(args), roff(c.Usage))
		if c.Description != "" {
			text, shown, _ := strings.Cut(c.Description, "Examples:\n")
			paragraph(&b, text)
			if shown != "" {
				b.WriteString(".PP\n.EX\n" + roff(shown) + "\n.EE\n")
			}
		}
		for _, f := range c.Flags {
			if k, ok := f.(*scenarioFlag); ok {
				if keys[k.key.Name] == nil {
					keys[k.key.Name] = k
					order = append(order, k.key.Name)
				}
				continue
			}
			option(&b, f.String())
		}
	})
	b.WriteString(".SH SCENARIO KEYS\nAs keys of scenario files, \\fIkey\\fR: \\fIvalue\\fR, and as options.\n")
	for _, name := range order {
		option(&b, keys[name].String())
	}
	b.WriteString(".SH EXIT STATUS\n")
	for _, s := range []struct {
		code int
		what string
	}{
		{exitOK, "all well"},
		{exitCheckFailed, "a check failed"},
		{exitUsage, "wrong usage, or a scenario that is wrong"},
		{exitHost, "the host lacks something; churnbed doctor says what"},
		{exitInterrupted, "interrupted"},
	} {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", s.code, s.what)
	}
	b.WriteString(".SH FILES\n.TP\n.I runs/\nrun directories, unless --out names another place\n")
	return b.String()
}

// option writes a flag of which text is the help: names, tab, meaning.
func option(b *strings.Builder, text string) {
	name, meaning, _ := strings.Cut(text, "\t")
	fmt.Fprintf(b, ".TP\n\\fB%s\\fR\n%s\n", roff(name), roff(strings.TrimSpace(meaning)))
}

// paragraph writes text whose indented lines stand as they are.
func paragraph(b *strings.Builder, text string) {
	b.WriteString(".PP\n")
	shown := false
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, "\n")
		if indented := strings.HasPrefix(line, "  "); indented != shown {
			shown = indented
			b.WriteString(map[bool]string{true: ".PP\n.EX\n", false: ".EE\n.PP\n"}[shown])
		}
		if line != "" {
			b.WriteString(roff(line) + "\n")
		}
	}
	if shown {
		b.WriteString(".EE\n")
	}
}

// roff escapes text: backslashes, dashes that are minus signs, and dots and
// quotes at the beginning of lines, which are requests.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
