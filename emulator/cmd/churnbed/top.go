package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"churnbed/emulator/controlpb"
	"churnbed/emulator/live"
)

func topCommand() *cli.Command {
	return &cli.Command{
		Name: "top", Usage: "watch a live run in the terminal", Category: categoryLive,
		Description: "Shows figures, nodes and what happens until the run ends; q leaves. Where standard output is no terminal it\n" +
			"prints a line at each change of phase, every --every, and for each event.",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "every", Value: 5 * time.Second, Usage: "`TIME` between two lines (real time)"}, runFlag(),
		},
		Action: func(c *cli.Context) error {
			client, r, err := connect(c)
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }()
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			stream, err := client.Watch(ctx, &controlpb.WatchRequest{})
			if err != nil {
				return hostError(told(err))
			}
			next := func() (*live.View, error) {
				m, err := stream.Recv()
				if err != nil {
					return nil, err
				}
				v := new(live.View)
				return v, json.Unmarshal(m.GetJson(), v)
			}
			if term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stdin.Fd())) {
				return topOnTerminal(ctx, next)
			}
			if err := topLines(c.App.Writer, next, c.Duration("every")); err != nil && ctx.Err() == nil {
				return hostError(fmt.Errorf("watch run %s: %w", r.Name, told(err)))
			}
			return nil
		},
	}
}

// topLines prints a run as plain lines until it ends.
func topLines(out io.Writer, next func() (*live.View, error), every time.Duration) error {
	var last time.Time
	phase := ""
	for {
		v, err := next()
		if errors.Is(err, io.EOF) {
			_, err := fmt.Fprintln(out, "the run has ended")
			return err
		}
		if err != nil {
			return err
		}
		for _, e := range v.Log {
			if _, err := fmt.Fprintln(out, entryLine(e)); err != nil {
				return err
			}
		}
		if f := &v.Figures; f.Phase != phase || time.Since(last) >= every {
			phase, last = f.Phase, time.Now()
			if _, err := fmt.Fprintln(out, figuresLine(f)); err != nil {
				return err
			}
		}
	}
}

func entryLine(e live.Entry) string { return fmt.Sprintf("%9.3f s  %s", e.AtMS/1e3, e.Text) }

func figuresLine(f *live.Figures) string {
	s := fmt.Sprintf("%-8s %8.1f s  served %d", f.Phase, f.ElapsedMS/1e3, f.Served)
	if f.Requests > 0 {
		s += fmt.Sprintf("/%d", f.Requests)
	}
	s += fmt.Sprintf("  waiting %d  holding %d  up %d  kills %d  restarts %d  %.2f entries/s  %.0f messages/s", f.Waiting, f.Holding, f.Up,
		f.Kills, f.Restarts, f.ServedRate, f.MessageRate)
	if f.MembersMin > 0 {
		s += fmt.Sprintf("  lists %.1f (min %d)", f.MembersMean, f.MembersMin)
	}
	return s
}

// topOnTerminal shows a run on the whole terminal.
func topOnTerminal(ctx context.Context, next func() (*live.View, error)) error {
	p := tea.NewProgram(&topModel{}, tea.WithContext(ctx))
	go func() { // ends when the stream does, which ends with the command
		for {
			v, err := next()
			if err != nil {
				p.Send(topOver{})
				return
			}
			p.Send(v)
		}
	}()
	m, err := p.Run()
	if ctx.Err() != nil {
		return nil
	}
	if t, ok := m.(*topModel); err == nil && ok && t.over {
		fmt.Println(figuresLine(&t.view.Figures))
		fmt.Println("the run has ended")
	}
	return err
}

// topOver tells that there is nothing more to see.
type topOver struct{}

// topModel is the state of the screen.
type topModel struct {
	view          live.View
	width, height int
	over          bool
}

// Init implements tea.Model.
func (m *topModel) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case *live.View:
		m.view.Merge(msg)
	case topOver:
		m.over = true
		return m, tea.Quit
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		}
	}
	return m, nil
}

// stateMarks are the letter and colour of each state.
var stateMarks = map[string]struct {
	letter string
	style  lipgloss.Style
}{
	live.Idle:    {"·", lipgloss.NewStyle()},
	live.Waiting: {"w", lipgloss.NewStyle().Foreground(lipgloss.Color("3"))},
	live.Holding: {"H", lipgloss.NewStyle().Foreground(lipgloss.Color("2")).Bold(true)},
	live.Paused:  {"p", lipgloss.NewStyle().Foreground(lipgloss.Color("5"))},
	live.Joining: {"j", lipgloss.NewStyle().Foreground(lipgloss.Color("4"))},
	live.Down:    {"x", lipgloss.NewStyle().Foreground(lipgloss.Color("1"))},
}

// View implements tea.Model.
func (m *topModel) View() tea.View {
	view := tea.NewView(m.screen())
	view.AltScreen = true
	return view
}

func (m *topModel) screen() string {
	v := &m.view
	if v.Info == nil {
		return "connecting"
	}
	width, height := max(m.width, 40), max(m.height, 12)
	clip := lipgloss.NewStyle().MaxWidth(width)
	bold := lipgloss.NewStyle().Bold(true)
	lines := []string{
		clip.Render(bold.Render(v.Info.Name) + fmt.Sprintf("  %s, %s, %s, seed %d, pid %d", v.Info.Algorithm, v.Info.Membership, v.Info.Fabric, v.Info.Seed, v.Info.PID)),
		clip.Render(figuresLine(&v.Figures)),
		"",
	}
	lines = append(lines, nodeGrid(v.Nodes, width)...)
	if cut := height / 2; len(lines) > cut {
		lines = append(lines[:cut], "...")
	}
	lines = append(lines, "", bold.Render("links down: ")+clip.Render(linksDown(v.Links)), bold.Render("what happened"))
	room := max(height-len(lines)-1, 0)
	for _, e := range slices.Backward(v.Log[max(0, len(v.Log)-room):]) {
		lines = append(lines, clip.Render(entryLine(e)))
	}
	lines = append(lines, clip.Render("· idle  w waiting  H holding  p paused  j joining  x down      q leaves; the run goes on"))
	return strings.Join(lines, "\n")
}

// nodeGrid shows each node as its id and a mark, in rows.
func nodeGrid(nodes []live.Node, width int) []string {
	digits := len(fmt.Sprint(len(nodes)))
	each := max(width/(digits+3), 1)
	var lines []string
	for row := range slices.Chunk(nodes, each) {
		var b strings.Builder
		for _, n := range row {
			mark := stateMarks[n.State]
			b.WriteString(mark.style.Render(fmt.Sprintf("%*d%s", digits, n.ID, mark.letter)) + "  ")
		}
		lines = append(lines, b.String())
	}
	return lines
}

func linksDown(links []live.Link) string {
	var down []string
	for _, l := range links {
		if !l.Up {
			down = append(down, fmt.Sprintf("%d-%d", l.A, l.B))
		}
	}
	if len(down) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: %s", len(down), strings.Join(down, " "))
}
