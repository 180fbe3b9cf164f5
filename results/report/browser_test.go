package report

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"churnbed/results/timeline/timelinetest"
)

// browser is a headless Chromium with one tab, whose complaints are kept.
type browser struct {
	tb  testing.TB
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

// open starts a browser for the test, of 1400 x 1000 pixels.
func open(tb testing.TB) *browser {
	tb.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		tb.Skip("no Chromium to open pages with; on Debian: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(1400, 1000), chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	tb.Cleanup(cancel)
	b := &browser{tb: tb}
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			b.complain("exception: %s %v", ev.ExceptionDetails.Text, ev.ExceptionDetails.Exception)
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.ConsoleAPICalledTypeError || ev.Type == runtime.ConsoleAPICalledTypeWarning || ev.Type == runtime.ConsoleAPICalledTypeAssert {
				b.complain("console: %s", ev.Args[0].Value)
			}
		case *cdplog.EventEntryAdded: // refusals of the policy among them
			b.complain("log: %s", ev.Entry.Text)
		}
	}))
	tb.Cleanup(cancel)
	b.ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
	tb.Cleanup(cancel)
	return b
}

func (b *browser) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, fmt.Sprintf(format, args...))
}

// silent fails the test where the page complained.
func (b *browser) silent() {
	b.tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		b.tb.Errorf("the browser complains: %s", c)
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.tb.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.tb.Fatal(err)
	}
}

// load opens the page in a file and waits until it stands.
func (b *browser) load(page string) {
	b.tb.Helper()
	path := filepath.Join(b.tb.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		b.tb.Fatal(err)
	}
	b.do(chromedp.Navigate("file://"+path), chromedp.WaitReady(chromedp.CSS("html[data-ready-ms]")))
}

// click clicks the first element that matches, wherever it is by then: a click
// at a position misses when the page moves in between, as it does when a line
// above grows with the next frame.
func (b *browser) click(selector string) {
	b.tb.Helper()
	b.do(chromedp.WaitVisible(chromedp.CSS(selector)))
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("document.querySelector("+strconv.Quote(selector)+").click() === undefined")); err != nil {
		b.tb.Fatalf("click %s: %v", selector, err)
	}
}

// number evaluates a JavaScript expression.
func (b *browser) number(expression string) float64 {
	b.tb.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](expression))
	if err != nil {
		b.tb.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *browser) text(expression string) string {
	b.tb.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.tb.Fatalf("%s: %v", expression, err)
	}
	return v
}

// awaits waits until the JavaScript expression is true.
func (b *browser) awaits(expression string) {
	b.tb.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression)); err != nil {
		b.tb.Fatalf("await %s: %v", expression, err)
	}
}

// keep writes a screenshot of the whole page to $CHURNBED_SCREENSHOTS.
func (b *browser) keep(name string) {
	b.tb.Helper()
	dir := os.Getenv("CHURNBED_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		b.tb.Fatal(err)
	}
}

// media makes the page believe in another medium.
func (b *browser) media(p emulation.SetEmulatedMediaParams) {
	b.tb.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, p); err != nil {
		b.tb.Fatal(err)
	}
}

// inked counts the colours of a canvas.
const inked = `(selector => { const from = document.querySelector(selector), c = new OffscreenCanvas(from.width, from.height).getContext("2d", {willReadFrequently: true});
	c.drawImage(from, 0, 0);
	const d = c.getImageData(0, 0, from.width, from.height).data;
	const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i+1] << 8 | d[i+2]); return seen.size; })`

func TestBrowser(t *testing.T) {
	b := open(t)
	b.load(render(t, planted(t, "run", timelinetest.Plan{Nodes: 40, Entries: 120, Violations: 3, Kills: 12})))
	b.keep("one")
	for _, selector := range []string{
		".lanes-canvas", ".map-canvas", "#wait-ecdf", "#wait-time", "[data-chart=traffic]", "[data-chart=nodes]", "[data-chart=sizes]",
		"[data-chart=churn]", "[data-chart=fidelity]",
	} {
		if n := b.number(inked + "(" + strconv.Quote(selector) + ")"); n < 4 {
			t.Errorf("%s has %v colours: nothing was drawn", selector, n)
		}
	}
	if n := b.number(`document.querySelectorAll("[data-show]").length`); n != 3 {
		t.Errorf("%v violations are listed", n)
	}

	const span = "churnbedReport.lanes[0].span"
	t.Run("zoom by keys", func(t *testing.T) {
		whole := b.number(span)
		b.do(chromedp.Focus(chromedp.CSS(".lanes-canvas")), chromedp.KeyEvent("++"))
		if now := b.number(span); now > whole/3.9 || now < whole/4.1 {
			t.Errorf("from %v to %v", whole, now)
		}
		from := b.number("churnbedReport.lanes[0].from")
		b.do(chromedp.KeyEvent(kb.ArrowRight))
		if now := b.number("churnbedReport.lanes[0].from"); now <= from {
			t.Error("does not move to the right")
		}
		b.do(chromedp.KeyEvent(kb.Home))
		if now := b.number(span); now < .99*whole {
			t.Errorf("Home shows %v of %v", now, whole)
		}
	})
	t.Run("zoom by wheel", func(t *testing.T) {
		whole := b.number(span)
		before := b.number(inked + `(".lanes-canvas")`)
		b.number(`Number(document.querySelector(".lanes-canvas").dispatchEvent(new WheelEvent("wheel", {deltaY: -300, ctrlKey: true, cancelable: true, clientX: 900, clientY: 400})))`)
		if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))`, chromedp.EvalAwaitPromise)); err != nil {
			t.Fatal(err)
		}
		if now := b.number(span); now >= whole || b.number(inked+`(".lanes-canvas")`) < 4 || before < 4 {
			t.Errorf("from %v to %v", whole, now)
		}
		b.click(`[data-do="all"]`)
	})
	t.Run("violations", func(t *testing.T) {
		b.do(chromedp.Focus(chromedp.CSS(".lanes-canvas")), chromedp.KeyEvent("v"))
		if s := b.text(`document.querySelector(".readout").textContent`); !strings.HasPrefix(s, "Violation: node ") {
			t.Errorf("says %q", s)
		}
		// The map is drawn with the next frame.
		b.awaits(`/2 in the section.*VIOLATION/.test(document.querySelector(".map-note").textContent)`)
		b.keep("violation")
		b.click(`[data-show]`)
		b.click(`[data-do="all"]`)
	})
	t.Run("play", func(t *testing.T) {
		at := b.number("churnbedReport.lanes[0].at")
		b.click(`[data-do="play"]`)
		b.awaits(fmt.Sprintf("churnbedReport.lanes[0].at > %v", at))
		b.click(`[data-do="play"]`)
		if s := b.text(`document.querySelector('[data-do="play"]').textContent`); s != "Play" {
			t.Errorf("the button says %q", s)
		}
	})
	t.Run("tables", func(t *testing.T) {
		for _, table := range []string{".kinds", ".matrix", ".entries"} {
			b.click(table + " > summary")
			b.do(chromedp.WaitReady(chromedp.CSS(table + " tbody tr")))
		}
		if n := b.number(`document.querySelectorAll(".entries tbody tr").length`); n != 120 {
			t.Errorf("%v requests are listed", n)
		}
	})
	t.Run("dark", func(t *testing.T) {
		ground := `getComputedStyle(document.body).backgroundColor`
		light := b.text(ground)
		b.media(emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
		if dark := b.text(ground); dark == light {
			t.Errorf("light and dark are %s", dark)
		}
		b.keep("dark")
		b.click("#theme") // light in spite of the system
		if again := b.text(ground); again != light {
			t.Errorf("light is %s, then %s", light, again)
		}
	})
	t.Run("print", func(t *testing.T) {
		b.media(emulation.SetEmulatedMediaParams{Media: "print"})
		if s := b.text(`getComputedStyle(document.querySelector(".tools")).display`); s != "none" {
			t.Errorf("the tools are printed: %s", s)
		}
	})
	t.Run("labels", func(t *testing.T) {
		if s := b.text(`[...document.querySelectorAll("canvas, button, select, input")].filter(e => !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label"))).map(e => e.outerHTML).join(" ")`); s != "" {
			t.Errorf("without a name: %s", s)
		}
	})
	b.silent()
}

// Names that are markup or code stay text.
func TestBrowserHostileNames(t *testing.T) {
	b := open(t)
	b.load(render(t, evil(t)))
	b.do(chromedp.Focus(chromedp.CSS(".lanes-canvas")), chromedp.KeyEvent("nv"))
	for _, table := range []string{".kinds", ".matrix", ".entries"} {
		b.click(table + " > summary")
		b.do(chromedp.WaitReady(chromedp.CSS(table + " tbody tr")))
	}
	if s := b.text("window.pwned"); s != "undefined" {
		t.Errorf("code of a name ran: %s", s)
	}
	if s := b.text(`document.querySelector("h1").textContent`); s != hostile {
		t.Errorf("the heading says %q", s)
	}
	if s := b.text(`document.querySelector(".scenario").textContent`); !strings.Contains(s, hostile) {
		t.Errorf("the scenario says %q", s)
	}
	b.silent()
}

// Several runs stand side by side, and one where nothing happened among them.
func TestBrowserSeveral(t *testing.T) {
	b := open(t)
	b.load(render(t, planted(t, "first", timelinetest.Plan{Violations: 1}), planted(t, "second", timelinetest.Plan{Nodes: 1, Entries: 2}),
		planted(t, "third", timelinetest.Plan{Nodes: 100, Kills: 20})))
	b.keep("several")
	if n := b.number("document.querySelectorAll('section.run').length"); n != 3 {
		t.Errorf("%v runs", n)
	}
	left, right := b.number(`document.querySelector("#run-0").getBoundingClientRect().right`), b.number(`document.querySelector("#run-1").getBoundingClientRect().left`)
	if right < left {
		t.Errorf("the second run begins at %v, the first ends at %v", right, left)
	}
	b.silent()
}

// BenchmarkInteractive opens the page of 256 nodes and 10,000 entries: until
// the first picture stands, and how long a zoomed picture takes.
func BenchmarkInteractive(b *testing.B) {
	br := open(b)
	page := render(b, planted(b, "run", timelinetest.Plan{Nodes: 256, Entries: 10_000, Violations: 20, Kills: 3000}))
	ready, frame := 0.0, 0.0
	for b.Loop() {
		br.load(page)
		ready = br.number("Number(document.documentElement.dataset.readyMs)")
		// Reading a copy back makes the browser draw at once.
		frame = br.number(`(() => { const l = churnbedReport.lanes[0], n = 20, from = performance.now(),
			copy = new OffscreenCanvas(8, 8).getContext("2d", {willReadFrequently: true});
			for (let i = 0; i < n; i++) { l.zoom(i % 2 ? 2 : .5); l.draw(); copy.drawImage(l.canvas, 0, 0); copy.getImageData(0, 0, 1, 1); }
			return (performance.now() - from) / n; })()`)
	}
	br.silent()
	br.keep("large")
	b.ReportMetric(ready, "interactive-ms")
	b.ReportMetric(frame, "frame-ms")
}
