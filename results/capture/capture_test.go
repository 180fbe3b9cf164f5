package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"pgregory.net/rapid"

	"churnbed/node/core"
	"churnbed/node/wire"
	"churnbed/results"
	"churnbed/results/timeline"
	"churnbed/results/timeline/timelinetest"
)

// frame makes an Ethernet frame that carries a datagram.
func frame(tb testing.TB, from, to core.NodeID, payload []byte) []byte {
	tb.Helper()
	ip := func(id core.NodeID) []byte { return []byte{10, 77, byte(id >> 8), byte(id)} }
	mac := []byte{2, 0, 0, 0, 0, 1}
	eth := &layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: layers.EthernetTypeIPv4}
	v4 := &layers.IPv4{Version: 4, TTL: 9, Protocol: layers.IPProtocolUDP, SrcIP: ip(from), DstIP: ip(to)}
	udp := &layers.UDP{SrcPort: wire.Port, DstPort: wire.Port}
	if err := udp.SetNetworkLayerForChecksum(v4); err != nil {
		tb.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, eth, v4, udp, gopacket.Payload(payload)); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

type seen struct {
	ms        float64
	neighbour core.NodeID
	out       bool
	data      []byte
}

// plant writes the capture of one node.
func plant(tb testing.TB, run *results.Run, id core.NodeID, neighbours []core.NodeID, frames ...seen) {
	tb.Helper()
	var b bytes.Buffer
	var w *pcapgo.NgWriter
	for i, n := range neighbours {
		intf := pcapgo.NgInterface{Name: fmt.Sprintf("n%d", n), LinkType: layers.LinkTypeEthernet, TimestampResolution: 9}
		var err error
		if i == 0 {
			w, err = pcapgo.NewNgWriterInterface(&b, intf, pcapgo.NgWriterOptions{})
		} else {
			_, err = w.AddInterface(intf)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	for _, f := range frames {
		direction := pcapgo.NgEpbFlagDirectionInbound
		if f.out {
			direction = pcapgo.NgEpbFlagDirectionOutbound
		}
		if err := w.WritePacketWithOptions(gopacket.CaptureInfo{
			Timestamp: time.Unix(0, int64(f.ms*1e6)), CaptureLength: len(f.data), Length: len(f.data), InterfaceIndex: slices.Index(neighbours, f.neighbour),
		}, f.data, pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: direction}}); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	dir := run.Path(results.CapturesDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(int(id))+".pcapng"), b.Bytes(), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func request(from core.NodeID, to core.NodeID, ts uint64) []byte {
	f := wire.Frame{
		From: core.Peer{ID: from, Inc: core.FirstIncarnation}, To: to, Reliable: true, Seq: ts,
		Msg: &wire.Request{ID: core.RequestID{Node: from, Inc: core.FirstIncarnation, TS: ts}},
	}
	return f.Append(nil)
}

// planted is a run whose nodes 0, 1 and 2, in a line, captured.
func planted(tb testing.TB) *timeline.Timeline {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "run")
	run := timelinetest.Write(tb, dir, timelinetest.Plan{Nodes: 4, Entries: 6, Violations: 1})
	hop := func(ts uint64) []byte { return frame(tb, 0, 2, request(0, 2, ts)) }
	ping := wire.Frame{From: core.Peer{ID: 1, Inc: 1024}, To: 0, Msg: &wire.Ping{}}
	pong := frame(tb, 1, 0, ping.Append(nil))
	plant(tb, run, 0, []core.NodeID{1, 3}, seen{1000, 1, true, hop(1)}, seen{1500, 1, true, hop(2)}, seen{1800, 1, true, hop(2)}, seen{2000, 1, false, pong})
	plant(tb, run, 1, []core.NodeID{0, 2}, seen{1005, 0, false, hop(1)}, seen{1005.1, 2, true, hop(1)}, seen{1990, 0, true, pong})
	plant(tb, run, 2, []core.NodeID{1, 3}, seen{1010, 1, false, hop(1)}, seen{1811, 1, false, hop(2)})
	t, err := timeline.Read(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func TestMessages(t *testing.T) {
	tl := planted(t)
	got, more, err := Messages(tl.Run, 0)
	want := []Message{{"REQUEST", 0, 2, 1000e6, 1010e6}, {"REQUEST", 0, 2, 1800e6, 1811e6}}
	if d := cmp.Diff(want, got); d != "" || more || err != nil {
		t.Errorf("%s, more %v, %v", d, more, err)
	}
	if got, more, err := Messages(tl.Run, 1); len(got) != 1 || !more || err != nil {
		t.Errorf("%v, more %v, %v", got, more, err)
	}
}

type read struct {
	at       int64
	intf     string
	data     []byte
	comments []string
}

// node is the one that saw the packet, by the names of interface and file.
func (p *read) node(file string) string {
	if id, _, ok := strings.Cut(p.intf, "/"); ok {
		return id
	}
	return strings.Split(strings.TrimSuffix(file, ".pcapng"), "-")[1]
}

func readBack(t *testing.T, path string) (list []read, names []pcapgo.NgNameRecord) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, ci, opt, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		intf, err := r.Interface(ci.InterfaceIndex)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, read{ci.Timestamp.UnixNano(), intf.Name, data, opt.Comments})
	}
	for i := range r.NNames() {
		n, err := r.Name(i)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, n)
	}
	return list, names
}

func TestWrite(t *testing.T) {
	tl := planted(t)
	for by, want := range map[string][]string{
		ByNode: {"node-0.pcapng", "node-1.pcapng", "node-2.pcapng"}, ByLink: {"link-0-1.pcapng", "link-1-2.pcapng"}, ByRun: {"mesh.pcapng"},
	} {
		t.Run(by, func(t *testing.T) {
			dir := t.TempDir()
			w, err := Write(dir, tl, by, nil, []string{"", "two words", "é\x00"})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(w.Files, want) || w.Frames != 9 || len(w.Cut) != 0 {
				t.Errorf("%+v, want %v", w, want)
			}
			comments := map[string]int{}
			for _, name := range w.Files {
				list, names := readBack(t, filepath.Join(dir, name))
				if len(names) != 4 || !slices.Contains(names[1].Names, "node1-two_words") {
					t.Errorf("%s has the names %v", name, names)
				}
				for i, p := range list {
					if i > 0 && p.at < list[i-1].at {
						t.Errorf("%s: packet %d is before the one above", name, i)
					}
					own, isLast := p.node(name), true
					for _, q := range list[i+1:] {
						isLast = isLast && q.node(name) != own
					}
					for _, c := range p.comments {
						comments[c]++
						sec, what, _ := strings.Cut(c, " s: node ")
						v, err := strconv.ParseFloat(sec, 64)
						if err != nil || v*1e9 > float64(p.at)+1e3 && !isLast || !strings.HasPrefix(what, own+" ") {
							t.Errorf("%s: comment %q at %d of node %s", name, c, p.at, own)
						}
					}
				}
			}
			enters, violations := 0, 0
			for c, n := range comments {
				if strings.Contains(c, "ENTERS") {
					enters++
				}
				if strings.Contains(c, "VIOLATION") {
					violations++
				}
				if by != ByLink && n != 1 {
					t.Errorf("%d times %q", n, c)
				}
			}
			entered := 0
			for _, q := range tl.Requests {
				if q.Node < 3 {
					entered++
				}
			}
			if enters != entered || violations != 1 {
				t.Errorf("%d of %d enters and %d violations are commented", enters, entered, violations)
			}
			if lua, err := os.ReadFile(filepath.Join(dir, DissectorFile)); err != nil || !strings.Contains(string(lua), `[32] = "REQUEST"`) {
				t.Errorf("the dissector lacks kinds: %v", err)
			}
			if _, err := Write(dir, tl, by, nil, nil); err == nil {
				t.Error("files are written over")
			}
		})
	}
	if _, err := Write(t.TempDir(), tl, "week", nil, nil); err == nil {
		t.Error("writes by week")
	}
	if _, err := Write(t.TempDir(), tl, ByNode, []core.NodeID{3}, nil); err == nil {
		t.Error("writes what was not captured")
	}
	w, err := Write(t.TempDir(), tl, ByLink, []core.NodeID{2}, nil)
	if err != nil || !slices.Equal(w.Files, []string{"link-1-2.pcapng"}) || w.Frames != 2 {
		t.Errorf("%+v, %v", w, err)
	}
}

// A capture that was cut by the end of the sandbox is read up to there.
func TestCut(t *testing.T) {
	tl := planted(t)
	path := filepath.Join(tl.Run.Path(results.CapturesDir), "1.pcapng")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)-30], 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := Write(t.TempDir(), tl, ByRun, nil, nil)
	if err != nil || w.Frames != 8 || !slices.Equal(w.Cut, []core.NodeID{1}) {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run := timelinetest.Write(t, dir, timelinetest.Plan{})
	if _, err := Nodes(run); !errors.Is(err, ErrNone) {
		t.Errorf("error %v", err)
	}
	if err := os.MkdirAll(run.Path(results.CapturesDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Nodes(run); !errors.Is(err, ErrNone) {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(filepath.Join(run.Path(results.CapturesDir), "99.pcapng"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Nodes(run); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("error %v", err)
	}
}

// The block of names is what the standard says, whatever the names are.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{t: &timeline.Timeline{Nodes: make([]timeline.Node, rapid.IntRange(1, 300).Draw(t, "nodes"))}}
		w.labels = rapid.SliceOfN(rapid.String(), 0, len(w.t.Nodes)).Draw(t, "labels")
		b := w.names()
		le := binary.LittleEndian
		if len(b)%4 != 0 || le.Uint32(b[4:]) != uint32(len(b)) || le.Uint32(b[len(b)-4:]) != uint32(len(b)) {
			t.Fatalf("block of %d bytes says %d and %d", len(b), le.Uint32(b[4:]), le.Uint32(b[len(b)-4:]))
		}
		at := 8
		for i := range w.t.Nodes {
			length := int(le.Uint16(b[at+2:]))
			record := b[at+4 : at+4+length]
			if le.Uint16(b[at:]) != 1 || int(record[2])<<8|int(record[3]) != i || record[length-1] != 0 || strings.ContainsAny(string(record[4:length-1]), " \x00\n") {
				t.Fatalf("record %d: %q", i, record)
			}
			at += 4 + (length+3)&^3
		}
		if le.Uint32(b[at:]) != 0 || at+8 != len(b) {
			t.Fatalf("the records end at %d of %d", at, len(b))
		}
	})
}

func FuzzDatagram(f *testing.F) {
	f.Add(frame(f, 1, 2, request(1, 2, 3)))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		from, to, payload, ok := datagram(b)
		if ok && (from < 0 || int(from) >= core.MaxNodes || to < 0 || int(to) >= core.MaxNodes || len(payload) > len(b)-udpData) {
			t.Fatalf("%d to %d, %d bytes of %d", from, to, len(payload), len(b))
		}
	})
}

func FuzzReader(f *testing.F) {
	tl := planted(f)
	for _, id := range []string{"0", "1", "2"} {
		b, err := os.ReadFile(filepath.Join(tl.Run.Path(results.CapturesDir), id+".pcapng"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-9])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := newReader(bytes.NewReader(b), 1, 4)
		if err != nil {
			return
		}
		last := int64(-1 << 63)
		for range 1000 {
			ok, err := r.scan()
			if !ok || err != nil {
				return
			}
			if r.next.at < last || r.next.neighbour < 0 || r.next.neighbour >= 4 {
				t.Fatalf("packet %+v after %d", r.next, last)
			}
			last = r.next.at
		}
	})
}

// tshark runs it with the dissector on a file of frames.
func tshark(t *testing.T, dir, file string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("no tshark to read captures with; on Debian: apt-get install tshark")
	}
	cmd := exec.Command(path, append([]string{"-X", "lua_script:" + filepath.Join(dir, DissectorFile), "-r", filepath.Join(dir, file)}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || strings.Contains(errs.String(), "Lua:") {
		t.Fatalf("tshark: %v\n%s", err, errs.String())
	}
	return string(out)
}

// Wireshark reads our frames through the dissector as package wire does.
func TestTshark(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run := timelinetest.Write(t, dir, timelinetest.Plan{Nodes: 4, Entries: 6})
	id := core.RequestID{Node: 1, Inc: 70_000, TS: 1 << 40}
	from := core.Peer{ID: 1, Inc: 70_000}
	var frames []seen
	var want []string
	for i, f := range []wire.Frame{
		{From: from, To: 2, Reliable: true, Seq: 300, Msg: &wire.Request{ID: id}},
		{From: from, To: 2, Reply: true, HasAck: true, AckInc: 2048, AckSeq: 1 << 33, Msg: &wire.OK{ID: id, Set: []core.Peer{{ID: 3, Inc: 1024}}}},
		{From: from, To: 2, HasAck: true, AckInc: 2048, AckSeq: 5, Again: true},
		{From: from, To: 2, Reliable: true, Seq: 1, HasAck: true, AckInc: 1024, AckSeq: 1, Msg: &wire.Release{ID: id}},
		{From: from, To: 2, Msg: &wire.Ping{}},
	} {
		frames = append(frames, seen{1000 + float64(i), 2, true, frame(t, 1, 2, f.Append(nil))})
		kind, request, seq, ack := "", "", "", ""
		if f.Msg != nil {
			kind = wire.KindName(f.Msg.Kind())
			if f.Class() == wire.ClassMutex {
				request = id.String()
			}
		}
		if f.Reliable {
			seq = strconv.FormatUint(f.Seq, 10)
		}
		if f.HasAck {
			ack = strconv.FormatUint(f.AckSeq, 10)
		}
		want = append(want, strings.Join([]string{"1", "70000", "2", seq, ack, kind, request, strconv.Itoa(int(f.Class())), ""}, "|"))
	}
	cut := request(1, 2, 1<<50)
	frames = append(frames, seen{1100, 2, true, frame(t, 1, 2, cut[:len(cut)-3])})
	plant(t, run, 1, []core.NodeID{0, 2}, frames...)
	tl, err := timeline.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if _, err := Write(out, tl, ByNode, nil, nil); err != nil {
		t.Fatal(err)
	}
	fields := []string{"-T", "fields", "-E", "separator=|"}
	for _, f := range []string{"from", "inc", "to", "seq", "ack", "kind", "request", "class", "malformed"} {
		fields = append(fields, "-e", "churnbed."+f)
	}
	lines := strings.Split(strings.TrimRight(tshark(t, out, "node-1.pcapng", fields...), "\n"), "\n")
	if d := cmp.Diff(want, lines[:len(lines)-1]); d != "" {
		t.Error(d)
	}
	if !strings.HasSuffix(lines[5], "|"+"Malformed frame") && !strings.HasSuffix(lines[5], "|1") {
		t.Errorf("a cut frame reads %q", lines[5])
	}
	names := tshark(t, out, "node-1.pcapng", "-N", "n", "-c", "1")
	if !strings.Contains(names, "node1") || !strings.Contains(names, "node2") || !strings.Contains(names, "REQUEST "+id.String()) {
		t.Errorf("tshark shows %q", names)
	}
	if enters := tshark(t, out, "node-1.pcapng", "-Y", `frame.comment contains "ENTERS"`); enters == "" && slices.ContainsFunc(tl.Requests, func(q timeline.Request) bool { return q.Node == 1 }) {
		t.Error("tshark finds no comment")
	}
}
