package supervise

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"churnbed/emulator/fabric"
	"churnbed/node/core"
	"churnbed/node/transport"
)

// What was sent before a sync is in the file after it, with its link, its
// direction and its instant.
func TestRecord(t *testing.T) {
	f, err := fabric.New(t.Context(), fabric.Config{
		Nodes: 3, Links: []fabric.LinkSpec{{A: 0, B: 1}, {A: 1, B: 2}}, Kind: fabric.KindRelay, Seed: 1,
		NextHop: func(src, dst core.NodeID) core.NodeID {
			if src < dst {
				return src + 1
			}
			return src - 1
		},
	})
	if err != nil {
		if errors.Is(err, os.ErrPermission) || os.Getuid() != 0 {
			t.Skipf("network namespaces need root: %v", err)
		}
		t.Fatal(err)
	}
	defer f.Close()
	dir := filepath.Join(t.TempDir(), "captures")
	zero := transport.Monotonic()
	r, err := record(dir, transport.NewClock(zero, 1), []core.NodeID{0, 1}, f.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	listen := func(id core.NodeID) (conn net.PacketConn) {
		if err := f.Namespace(id).Do(func() (err error) {
			conn, err = net.ListenPacket("udp4", fabric.Addr(id).String()+":7077")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	listen(2) // nobody reads, but nobody complains either
	conn := listen(0)
	const sent = 300 // more than a batch
	for range sent {
		if _, err := conn.WriteTo([]byte("hello"), &net.UDPAddr{IP: net.IPv4(10, 77, 0, 2), Port: 7077}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.sync(); err != nil {
		t.Fatal(err)
	}
	mine := packets(t, filepath.Join(dir, "0.pcapng"))
	if len(mine) != sent {
		t.Errorf("%d frames of %d are in the file", len(mine), sent)
	}
	now := int64(transport.Monotonic() - zero)
	for i, p := range mine {
		if p.intf != "n1" || p.direction != pcapgo.NgEpbFlagDirectionOutbound || p.at < 0 || p.at > now || i > 0 && p.at < mine[i-1].at-int64(time.Millisecond) {
			t.Fatalf("frame %d: %+v", i, p)
		}
	}
	// The node between them sees each twice, as soon as the relay has sent it on.
	for deadline := time.Now().Add(20 * time.Second); ; {
		if err := r.sync(); err != nil {
			t.Fatal(err)
		}
		in, out := 0, 0
		for _, p := range packets(t, filepath.Join(dir, "1.pcapng")) {
			switch {
			case p.intf == "n0" && p.direction == pcapgo.NgEpbFlagDirectionInbound:
				in++
			case p.intf == "n2" && p.direction == pcapgo.NgEpbFlagDirectionOutbound:
				out++
			}
		}
		if in == sent && out == sent {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d frames in and %d out of %d", in, out, sent)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if err := r.sync(); err != nil { // it is over, and does not hang
		t.Fatal(err)
	}
	if _, err := record(dir, transport.NewClock(zero, 1), []core.NodeID{9}, f.Namespace); err == nil || !strings.Contains(err.Error(), "node 9") {
		t.Errorf("error %v", err)
	}
}

type recorded struct {
	at        int64
	intf      string
	direction pcapgo.NgEpbFlag
}

func packets(t *testing.T, path string) (list []recorded) {
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
		_, ci, opt, err := r.ReadPacketDataWithOptions()
		if err != nil {
			return list
		}
		intf, err := r.Interface(ci.InterfaceIndex)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, recorded{ci.Timestamp.UnixNano(), intf.Name, opt.Flags.Direction})
	}
}
