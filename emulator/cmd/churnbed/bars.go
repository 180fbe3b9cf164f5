package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// terminal returns the terminal that w writes to, nil where it is none.
func terminal(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// countingBar counts n things of a name; only on a terminal.
func countingBar(name string, n int, opt runOptions) *progressbar.ProgressBar {
	w := io.Discard
	if f := terminal(opt.stderr); f != nil && !opt.quiet {
		w = f
	}
	return progressbar.NewOptions(n, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(),
		progressbar.OptionSetDescription(name), progressbar.OptionClearOnFinish())
}

// spinner is a bar for what has no known end. It is drawn once before its own
// goroutine begins, which reads without a lock whether it was.
func spinner(f *os.File, options ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions(-1, append(options, progressbar.OptionSetWriter(f), progressbar.OptionClearOnFinish(),
		progressbar.OptionSpinnerType(14), progressbar.OptionSetRenderBlankState(true))...)
}
