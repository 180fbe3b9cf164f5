package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

//go:embed page
var pageFiles embed.FS

// Page is where a run is shown to browsers of this host: a page, its events
// (server-sent), and a place to post actions to. Whoever does not know the
// token in its address gets nothing. Requests that name another host are
// refused too (a name that an attacker lets point to loopback), and so are
// posts that come from another page.
type Page struct {
	listener net.Listener
	server   *http.Server
	token    string
	names    []string // by which browsers may call this host, with the port
	ready    chan struct{}

	picture *Picture
	actor   Actor
	over    <-chan struct{}
}

// Bounds of what a browser may send.
const (
	maxAction   = 1 << 10
	headerLimit = 5 * time.Second
)

// NewPage listens on a loopback address: IP:PORT, localhost:PORT or PORT; port
// 0 takes a free one. Any other address is refused. Until the run begins it
// answers that there is none.
func NewPage(address string) (*Page, error) {
	where, err := loopback(address)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", where)
	if err != nil {
		return nil, fmt.Errorf("listen for browsers: %w", err)
	}
	secret := make([]byte, 18)
	_, _ = rand.Read(secret) // never fails
	p := &Page{listener: l, token: base64.RawURLEncoding.EncodeToString(secret), ready: make(chan struct{})}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	p.names = []string{l.Addr().String(), net.JoinHostPort("localhost", port)}
	p.server = &http.Server{Handler: p.handler(), ReadHeaderTimeout: headerLimit, MaxHeaderBytes: 16 << 10}
	return p, nil
}

// loopback checks an address and completes it.
func loopback(address string) (string, error) {
	refuse := func(why string) error {
		return fmt.Errorf("address %q: %s; allowed are loopback addresses with a port, such as 127.0.0.1:0, [::1]:8080, localhost:8080 or 8080 (from another machine: ssh -L)", address, why)
	}
	if _, err := strconv.ParseUint(address, 10, 16); err == nil {
		return net.JoinHostPort("127.0.0.1", address), nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", refuse("not HOST:PORT")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", refuse("no such port")
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if host == "" {
		return "", refuse("all interfaces")
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return "", refuse("names are not looked up")
	}
	if !ip.IsLoopback() {
		return "", refuse("not loopback")
	}
	return net.JoinHostPort(ip.String(), port), nil
}

// URL is the address of the page, with its token.
func (p *Page) URL() string { return "http://" + p.names[0] + "/" + p.token + "/" }

// Close gives up a page that no run began to use, or that is over.
func (p *Page) Close() error {
	err := p.server.Close()
	if lerr := p.listener.Close(); !errors.Is(lerr, net.ErrClosed) {
		err = errors.Join(err, lerr)
	}
	return err
}

// begin gives the page its run.
func (p *Page) begin(picture *Picture, actor Actor, over <-chan struct{}) {
	p.picture, p.actor, p.over = picture, actor, over
	close(p.ready)
}

func (p *Page) handler() http.Handler {
	mux := http.NewServeMux()
	for path, file := range map[string][2]string{
		"": {"page/index.html", "text/html; charset=utf-8"}, "page.js": {"page/page.js", "text/javascript; charset=utf-8"},
		"page.css": {"page/page.css", "text/css; charset=utf-8"},
	} {
		content, err := pageFiles.ReadFile(file[0])
		if err != nil {
			panic(err) // embedded above
		}
		mux.HandleFunc("GET /{token}/"+cmp.Or(path, "{$}"), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file[1])
			_, _ = w.Write(content)
		})
	}
	mux.HandleFunc("GET /{token}/events", p.events)
	mux.HandleFunc("POST /{token}/act", p.act)
	return p.guard(mux)
}

// guard lets only requests through that know the token and come from here.
func (p *Page) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !p.named(r.Host) {
			http.Error(w, "this page is served to "+p.names[0]+" only", http.StatusMisdirectedRequest)
			return
		}
		token, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) != 1 {
			http.Error(w, "the address lacks the token that `churnbed run --live` printed", http.StatusForbidden)
			return
		}
		select {
		case <-p.ready:
		default:
			http.Error(w, "the run has not begun", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (p *Page) named(host string) bool {
	for _, n := range p.names {
		if strings.EqualFold(host, n) {
			return true
		}
	}
	return false
}

// events streams the picture and what changes of it.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	_ = p.picture.follow(r.Context(), p.over, func(v View) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		// A browser that takes nothing for so long is gone.
		if err := out.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", b); err != nil {
			return err
		}
		return out.Flush()
	})
	_, _ = io.WriteString(w, "event: over\ndata: {}\n\n")
}

// act carries out what a button asks for.
func (p *Page) act(w http.ResponseWriter, r *http.Request) {
	// A form of another page can send neither this type nor our origin.
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	origin, ok := strings.CutPrefix(r.Header.Get("Origin"), "http://")
	if kind != "application/json" || !ok || !p.named(origin) {
		http.Error(w, "actions are posted by this page only", http.StatusForbidden)
		return
	}
	var in struct {
		Action string `json:"action"`
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAction))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		http.Error(w, "want {\"action\": RULE}: "+err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	done, err := p.actor.Act(ctx, in.Action)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"done": done})
}
