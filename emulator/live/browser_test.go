package live

import (
	"context"
	"math"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// The page in a real browser: it shows what happens, its buttons act on what
// was chosen on the map, and the browser has nothing to complain about.
// $CHURNBED_SCREENSHOTS names a folder for a picture of it.
func TestPageInBrowser(t *testing.T) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium to open pages with; on Debian: apt-get install chromium")
	}
	const n = 12
	p := picture(t.TempDir(), n)
	for i := range n {
		a := 2 * math.Pi * float64(i) / n
		p.info.Positions[i] = [2]float64{10 * math.Cos(a), 10 * math.Sin(a)}
	}
	list := states(Idle, Holding, Waiting, Waiting, Paused, Down, Joining, Idle, Idle, Idle, Idle, Idle)
	p.SetNodes(list, Figures{Phase: "running", ElapsedMS: 12_300, Served: 41, Requests: 100, Up: 11, Waiting: 2, Holding: 1, Kills: 3})
	p.Add(Entry{AtMS: 5000, Text: "crash node 5 (HELD)", Live: true})
	page, actor := begun(t, p)

	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(1200, 800), chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	var mu sync.Mutex
	var complaints []string
	complain := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		complaints = append(complaints, text)
	}
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			complain("exception: " + ev.ExceptionDetails.Text)
		case *cdplog.EventEntryAdded: // refusals of the policy among them
			complain("log: " + ev.Entry.Text + " " + ev.Entry.URL)
		}
	}))
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	text := func(expression string) string {
		t.Helper()
		v, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		return v
	}
	shows := func(expression, want string) {
		t.Helper()
		got := ""
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
			if got = text(expression); got == want {
				return
			}
		}
		t.Fatalf("%s is %q, want %q", expression, got, want)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(page.URL()), chromedp.WaitReady(chromedp.CSS("body[data-rev]"))); err != nil {
		t.Fatal(err)
	}
	shows(`document.querySelectorAll("dd")[1].textContent`, "41 / 100")
	shows(`document.querySelector("#log li.live").textContent`, "5.00 s  crash node 5 (HELD)")
	// Node 0 lies in the middle of the right side, node 3 on top.
	click := func(dx, dy string) {
		t.Helper()
		text(`(() => { const c = document.getElementById("map"), b = c.getBoundingClientRect();
			const s = window.devicePixelRatio || 1, m = 24, k = Math.min(b.width - 2 * m, b.height - 2 * m) / 2;
			c.dispatchEvent(new MouseEvent("click", {clientX: b.left + b.width / 2 + k * ` + dx + `, clientY: b.top + b.height / 2 - k * ` + dy + `})); })()`)
	}
	click("1", "0")
	shows(`document.getElementById("chosen").textContent`, "node 0: idle, life 1, entries 0")
	list[0].State, list[0].Entries = Holding, 7
	p.SetNodes(list, Figures{Phase: "running", Served: 42, Holding: 2})
	shows(`document.getElementById("chosen").textContent`, "node 0: holding, life 1, entries 7")
	text(`document.querySelector("[data-node=crash]").click()`)
	if got := <-actor.actions; got != "crash node 0" {
		t.Errorf("the button asks for %q", got)
	}
	shows(`document.getElementById("answer").textContent`, "did crash node 0")
	click("0.9330", "0.25") // the middle of link 0-1
	shows(`document.getElementById("link-buttons").hidden`, "false")
	text(`(() => { document.getElementById("delay").value = "20ms"; document.getElementById("loss").value = "10%"; document.getElementById("set").click(); })()`)
	if got := <-actor.actions; got != "set link 0-1 delay 20ms loss 10%" {
		t.Errorf("the button asks for %q", got)
	}
	if dir := os.Getenv("CHURNBED_SCREENSHOTS"); dir != "" {
		b, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/live.png", b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, c := range complaints {
		t.Errorf("the browser complains: %s", c)
	}
}
