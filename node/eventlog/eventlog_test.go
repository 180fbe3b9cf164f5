package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"churnbed/node/core"
)

func anyEvent(t *rapid.T) Event {
	text := func(name string) string {
		return rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[ -~é"\\\n<]{0,20}`)).Draw(t, name)
	}
	drawCounts := func(name string) map[string]Count {
		n := rapid.IntRange(0, 3).Draw(t, name)
		if n == 0 {
			return nil
		}
		m := map[string]Count{}
		for range n {
			m[rapid.StringMatching(`[A-Z"-]{1,8}`).Draw(t, "kind")] = Count{N: rapid.Int64().Draw(t, "n"), Bytes: rapid.Int64().Draw(t, "bytes"), Retrans: rapid.Int64Range(0, 3).Draw(t, "retrans")}
		}
		return m
	}
	e := Event{
		T: rapid.Int64().Draw(t, "t"), Kind: Kind(rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "kind")), Node: rapid.Int32().Draw(t, "node"),
		Inc: rapid.Uint32().Draw(t, "inc"), Req: text("req"), No: rapid.IntRange(-1, 9).Draw(t, "no"), CS: rapid.Int64().Draw(t, "cs"),
		Asked: text("asked"), Grants: rapid.IntRange(0, 3).Draw(t, "grants"), State: text("state"), PeerInc: rapid.Uint32().Draw(t, "pinc"),
		Change: text("change"), Size: rapid.IntRange(0, 3).Draw(t, "size"), Sent: drawCounts("sent"), Recv: drawCounts("recv"),
		After: rapid.Int64().Draw(t, "after"), Verb: text("verb"), Link: text("link"), PID: rapid.IntRange(0, 3).Draw(t, "pid"), Text: text("text"),
	}
	if rapid.Bool().Draw(t, "queued") {
		v := rapid.Int64().Draw(t, "v")
		e.Queued = &v
	}
	if rapid.Bool().Draw(t, "peer") {
		v := rapid.Int32().Draw(t, "v")
		e.Peer = &v
	}
	if rapid.Bool().Draw(t, "probe") {
		hist := rapid.SliceOfN(rapid.Int64(), 0, len(Bounds)+1)
		e.Probe = &Probe{Sent: 1, Received: 2, Lost: 3, DelayErr: hist.Draw(t, "delay"), TimerLag: nil, RcvbufErrors: 4, MaxErr: -5, SumErr: rapid.Float64().Draw(t, "sum")}
	}
	if rapid.Bool().Draw(t, "host") {
		e.Host = &Host{RealMS: 1000, CPUBusy: rapid.Float64Range(0, 1).Draw(t, "busy"), Frames: 5}
	}
	if rapid.Bool().Draw(t, "hood") {
		e.Hood = &Hood{Began: rapid.Int64().Draw(t, "began"), First: text("first"), Tries: rapid.IntRange(0, 3).Draw(t, "tries"), InFlight: 1, Least: 2, Most: 3, State: 4}
	}
	return e
}

// The encoder must tell exactly what encoding/json would.
func TestWriterEncodesAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent(t)
		var out bytes.Buffer
		if err := NewWriter(&out).Write(&e); err != nil {
			t.Fatal(err)
		}
		if bytes.Count(out.Bytes(), []byte("\n")) != 1 || out.Bytes()[out.Len()-1] != '\n' {
			t.Fatalf("not one line: %q", out.String())
		}
		std, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		for b, v := range map[string]*any{out.String(): &got, string(std): &want} {
			if err := json.Unmarshal([]byte(b), v); err != nil {
				t.Fatalf("%v in %s", err, b)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		r := NewReader("log", &out)
		if !r.Scan() {
			t.Fatal(r.Err())
		}
		var back Event
		if err := json.Unmarshal(std, &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(back, r.Event()); d != "" {
			t.Fatal(d)
		}
	})
}

type onePerCall struct {
	calls int
	limit int // bytes that still fit
	out   bytes.Buffer
}

func (w *onePerCall) Write(b []byte) (int, error) {
	w.calls++
	if len(b) > w.limit {
		n, _ := w.out.Write(b[:w.limit])
		w.limit = 0
		return n, syscall.ENOSPC
	}
	w.limit -= len(b)
	return w.out.Write(b)
}

func TestWriterOneWriteALineAndFullDisk(t *testing.T) {
	disk := &onePerCall{limit: 100}
	w := NewWriter(disk)
	e := Event{T: 5, Kind: Exit, Node: 3, Req: "3.1024.7"}
	for range 2 {
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if disk.calls != 2 {
		t.Fatalf("%d writes for 2 lines", disk.calls)
	}
	err := w.Write(&e)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("full disk: %v", err)
	}
	disk.limit = 1000 // space again: the log still is over
	if again := w.Write(&e); !errors.Is(again, syscall.ENOSPC) || disk.calls != 3 {
		t.Fatalf("after the full disk: %v, %d writes", again, disk.calls)
	}
	r := NewReader("log", &disk.out)
	n := 0
	for r.Scan() {
		n++
	}
	if n != 2 || r.Err() != nil || len(r.Cut()) != 1 || r.Cut()[0].Line != 3 {
		t.Fatalf("read %d events, error %v, cut %v", n, r.Err(), r.Cut())
	}
}

func TestWriterRefusesNaN(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	if err := w.Write(&Event{Kind: Fidelity, Probe: &Probe{SumErr: math.NaN()}}); err == nil {
		t.Fatal("NaN was written")
	}
	if err := w.Write(&Event{Kind: Slice, Host: &Host{CPUBusy: math.NaN()}}); err == nil {
		t.Fatal("NaN was written")
	}
	if err := w.Write(&Event{Kind: Stop}); err != nil || out.String() != `{"t":0,"ev":"stop","node":0}`+"\n" {
		t.Fatalf("after refused events: %v, %q", err, out.String())
	}
}

func TestWriterDoesNotAllocate(t *testing.T) {
	w := NewWriter(&bytes.Buffer{})
	peer := int32(7)
	e := Event{T: 123456789, Kind: Member, Node: 3, Peer: &peer, PeerInc: 1024, Change: "failed", Size: 200}
	if n := testing.AllocsPerRun(100, func() { w.w.(*bytes.Buffer).Reset(); _ = w.Write(&e) }); n > 0 {
		t.Errorf("%v allocations a line", n)
	}
}

func TestOpenWriterEndsCutLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "3.jsonl")
	if err := os.WriteFile(path, []byte(`{"t":1,"ev":"start","node":3}`+"\n"+`{"t":2,"ev":"req`), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWriter(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&Event{T: 9, Kind: Start, Node: 3, Inc: 2048}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := NewReader("3.jsonl", f)
	var lines []int
	for r.Scan() {
		lines = append(lines, r.Line())
	}
	if !slices.Equal(lines, []int{1, 3}) || r.Err() != nil || len(r.Cut()) != 1 || r.Cut()[0].Line != 2 {
		t.Fatalf("lines %v, error %v, cut %v", lines, r.Err(), r.Cut())
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name, in string
		events   int
		cut      int
		err      string
	}{
		{"empty", "", 0, 0, ""},
		{"unknown kind and field", `{"t":1,"ev":"moon","node":1,"phase":3}` + "\n", 1, 0, ""},
		{"no newline but whole", `{"t":1,"ev":"stop","node":1}`, 1, 0, ""},
		{"long line", `{"t":1,"ev":"note","node":1,"text":"` + long + `"}` + "\n", 1, 0, ""},
		{"blank line", "\n" + `{"t":1,"ev":"stop","node":1}` + "\n", 1, 0, ""},
		{"cut", `{"t":1,"ev":"stop","node":1}` + "\n{\"t", 1, 1, ""},
		{"malformed inside", "{\"t\n" + `{"t":1,"ev":"stop","node":1}` + "\n", 0, 0, "log:1: malformed event"},
		{"malformed twice", `{"t":1,"ev":"stop","node":1}` + "\nx\ny\n", 1, 0, "log:2: malformed event"},
		{"no kind", `{"t":1,"node":1}` + "\n" + `{"t":1,"ev":"stop","node":1}` + "\n", 0, 0, `log:1: malformed event: no "ev"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader("log", strings.NewReader(c.in))
			n := 0
			for r.Scan() {
				n++
			}
			if n != c.events || len(r.Cut()) != c.cut {
				t.Errorf("%d events, cut %v; want %d and %d", n, r.Cut(), c.events, c.cut)
			}
			switch err := r.Err(); {
			case c.err == "" && err != nil:
				t.Error(err)
			case c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err) || !errors.Is(err, ErrMalformed)):
				t.Errorf("error %v, want %s", err, c.err)
			}
		})
	}
}

func TestReaderRefusesEndlessLine(t *testing.T) {
	r := NewReader("log", &zeros{left: MaxLine + 1<<20})
	if r.Scan() || r.Err() == nil || !strings.Contains(r.Err().Error(), "longer than") {
		t.Fatalf("error %v", r.Err())
	}
}

type zeros struct{ left int }

func (z *zeros) Read(b []byte) (int, error) {
	n := min(len(b), z.left)
	clear(b[:n])
	z.left -= n
	return n, nil
}

func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) core.NodeID {
			return core.NodeID(rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, core.MaxNodes-1)).Draw(t, "id"))
		}), func(id core.NodeID) core.NodeID { return id }).Draw(t, "ids")
		s := FormatRanges(ids)
		back, err := ParseRanges(s)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, back) {
			t.Fatalf("%v -> %q -> %v", ids, s, back)
		}
	})
	if s := FormatRanges([]core.NodeID{0, 1, 2, 3, 4, 7}); s != "0-4,7" {
		t.Errorf("got %q", s)
	}
	for _, bad := range []string{",", "1-", "-1", "3,2", "1,1", "5-4", "0-65536", "x", "1-3,2", "1-2-3"} {
		if ids, err := ParseRanges(bad); err == nil {
			t.Errorf("%q read as %v", bad, ids)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"t":1,"ev":"enter","node":1,"req":"1.1024.2","asked":"0-4"}` + "\n"))
	f.Add([]byte("{\"t\n{\"t\":1,\"ev\":\"start\",\"node\":1}\n{"))
	f.Add([]byte("\n\n\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewReader("log", bytes.NewReader(in))
		n := 0
		for r.Scan() {
			n++
			if e := r.Event(); e.Kind == "" {
				t.Fatal("event without kind")
			}
		}
		if lines := bytes.Count(in, []byte("\n")) + 1; n+len(r.Cut()) > lines {
			t.Fatalf("%d events and %d cut lines of %d lines", n, len(r.Cut()), lines)
		}
	})
}

func FuzzParseRanges(f *testing.F) {
	f.Add("0-4,7")
	f.Add("0-65535")
	f.Fuzz(func(t *testing.T, s string) {
		ids, err := ParseRanges(s)
		if err != nil {
			return
		}
		back, err := ParseRanges(FormatRanges(ids))
		if err != nil || !slices.Equal(ids, back) {
			t.Fatalf("%q: %v, %v", s, err, back)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	w := NewWriter(&bytes.Buffer{})
	e := Event{T: 123456789, Kind: Enter, Node: 3, Inc: 1024, Req: "3.1024.17", No: 5, Asked: "0-2,4-255", Grants: 200}
	for b.Loop() {
		w.w.(*bytes.Buffer).Reset()
		_ = w.Write(&e)
	}
}

// fill sets every field below v to something that is not its zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(2)
	default:
		v.SetInt(3)
	}
}

// TestWriterKnowsEveryField: a field that somebody adds to Event is written.
func TestWriterKnowsEveryField(t *testing.T) {
	var e Event
	fill(reflect.ValueOf(&e).Elem())
	var out bytes.Buffer
	if err := NewWriter(&out).Write(&e); err != nil {
		t.Fatal(err)
	}
	std, err := json.Marshal(&e)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := errors.Join(json.Unmarshal(out.Bytes(), &got), json.Unmarshal(std, &want)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
