package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"churnbed/emulator/controlpb"
)

// told is an actor that keeps what it is asked to do.
type told struct{ actions chan string }

func (a told) Act(_ context.Context, action string) (string, error) {
	if action == "impossible" {
		return "", errors.New("that cannot be")
	}
	a.actions <- action
	return "did " + action, nil
}
func (told) Note(string, uint32, string)  {}
func (told) Hands() controlpb.HandsClient { return nil }

func TestLoopbackOnly(t *testing.T) {
	for address, want := range map[string]string{
		"8080": "127.0.0.1:8080", "0": "127.0.0.1:0", "127.0.0.1:0": "127.0.0.1:0", "[::1]:9": "[::1]:9", "localhost:7": "127.0.0.1:7", "127.9.9.9:1": "127.9.9.9:1",
	} {
		if got, err := loopback(address); err != nil || got != want {
			t.Errorf("loopback(%q) = %q, %v, want %q", address, got, err, want)
		}
	}
	for _, address := range []string{":8080", "0.0.0.0:80", "192.168.1.1:80", "[::]:80", "example.org:80", "127.0.0.1", "", "127.0.0.1:70000", "localhost:http"} {
		if got, err := loopback(address); err == nil || !strings.Contains(err.Error(), "127.0.0.1:0") {
			t.Errorf("loopback(%q) = %q, %v, want an error with examples", address, got, err)
		}
	}
}

// begun serves a picture's page and control socket.
func begun(t *testing.T, p *Picture) (page *Page, actor told) {
	t.Helper()
	page, err := NewPage("0")
	if err != nil {
		t.Fatal(err)
	}
	actor = told{make(chan string, 16)}
	s, err := Serve(p, actor, page)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return page, actor
}

func TestPageGuards(t *testing.T) {
	page, actor := begun(t, picture(t.TempDir(), 3))
	url := page.URL()
	origin := strings.TrimSuffix(url, "/"+page.token+"/")
	_, port, _ := net.SplitHostPort(page.listener.Addr().String())
	get := func(url string, change func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(r)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if res.Header.Get("Content-Security-Policy") == "" {
			t.Error(url, "has no content security policy")
		}
		return res.StatusCode, string(b)
	}
	post := func(body string, header map[string]string) int {
		code, _ := get(url+"act", func(r *http.Request) {
			r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(body))
			for k, v := range header {
				r.Header.Set(k, v)
			}
		})
		return code
	}
	for _, file := range []string{"", "page.js", "page.css"} {
		if code, body := get(url+file, nil); code != 200 || len(body) < 200 || strings.Contains(body, "http://") || strings.Contains(body, "https://") {
			t.Errorf("GET %q: status %d, %d bytes; want it whole and without other hosts", file, code, len(body))
		}
	}
	for _, bad := range []string{origin + "/", origin + "/" + strings.Repeat("A", len(page.token)) + "/", origin + "/page.js"} {
		if code, _ := get(bad, nil); code != http.StatusForbidden {
			t.Errorf("GET %s without the token: status %d", bad, code)
		}
	}
	for host, want := range map[string]int{"localhost:" + port: 200, "evil.example:" + port: 421, "127.0.0.1": 421, "": 421} {
		if host == "" {
			continue // the client puts the address in
		}
		if code, _ := get(url, func(r *http.Request) { r.Host = host }); code != want {
			t.Errorf("GET as %q: status %d, want %d", host, code, want)
		}
	}
	good := map[string]string{"Content-Type": "application/json", "Origin": origin}
	if code := post(`{"action":"crash node 1"}`, good); code != 200 || <-actor.actions != "crash node 1" {
		t.Errorf("POST: status %d", code)
	}
	for name, c := range map[string]struct {
		body   string
		header map[string]string
		want   int
	}{
		"a form":         {"action=crash", map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Origin": origin}, 403},
		"another origin": {`{"action":"x"}`, map[string]string{"Content-Type": "application/json", "Origin": "http://evil.example"}, 403},
		"no origin":      {`{"action":"x"}`, map[string]string{"Content-Type": "application/json"}, 403},
		"not JSON":       {`action`, good, 400},
		"an unknown key": {`{"deed":"x"}`, good, 400},
		"too much":       {`{"action":"` + strings.Repeat("x", 2*maxAction) + `"}`, good, 400},
		"what cannot be": {`{"action":"impossible"}`, good, 409},
	} {
		if code := post(c.body, c.header); code != c.want {
			t.Errorf("POST of %s: status %d, want %d", name, code, c.want)
		}
	}
	if n := len(actor.actions); n != 0 {
		t.Errorf("%d refused actions were carried out", n)
	}
}

// A browser that stands still costs nothing; one that reads has the newest.
func TestEvents(t *testing.T) {
	p := picture(t.TempDir(), 50)
	page, _ := begun(t, p)
	slow, err := net.Dial("tcp", page.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	if _, err := io.WriteString(slow, "GET /"+page.token+"/events HTTP/1.1\r\nHost: "+page.names[0]+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(page.URL() + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %q", got)
	}
	const last = 20_000
	list := make([]Node, 50)
	for step := range last + 1 {
		for i := range list {
			list[i] = Node{ID: i, State: Idle, Entries: step}
		}
		p.SetNodes(list, Figures{Served: step})
	}
	var v View
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	events := 0
	for v.Figures.Served < last && lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var d View
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			t.Fatal(err)
		}
		v.Merge(&d)
		events++
	}
	if v.Figures.Served != last || v.Nodes[49].Entries != last || events > last/10 {
		t.Errorf("after %d events: served %d, entries %d", events, v.Figures.Served, v.Nodes[49].Entries)
	}
}

// The control socket answers its own user's processes, is found by name while
// the run lasts, and is gone with it.
func TestControlSocket(t *testing.T) {
	p := picture(t.TempDir(), 3)
	p.info.Name = "live test/x"
	actor := told{make(chan string, 1)}
	s, err := Serve(p, actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			s.Close()
		}
	}()
	find := func() []Run {
		runs, err := List()
		if err != nil {
			t.Fatal(err)
		}
		var mine []Run
		for _, r := range runs {
			if r.PID == os.Getpid() && r.Name == "live_test_x" {
				mine = append(mine, r)
			}
		}
		return mine
	}
	runs := find()
	if len(runs) != 1 {
		t.Fatalf("found %+v", runs)
	}
	c, err := Dial(runs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	reply, err := c.Act(ctx, &controlpb.ActRequest{Action: "heal"})
	if err != nil || reply.GetDone() != "did heal" {
		t.Errorf("act: %v, %v", reply, err)
	}
	stream, err := c.Watch(ctx, &controlpb.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if !p.Watched() {
		t.Error("nobody seems to watch")
	}
	s.Close()
	closed = true
	for err == nil {
		_, err = stream.Recv() // ends
	}
	if runs := find(); len(runs) != 0 || p.Watched() {
		t.Errorf("still there: %+v, watched %v", runs, p.Watched())
	}
}
