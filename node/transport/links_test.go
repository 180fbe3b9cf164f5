package transport

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// attribute encodes one, padded.
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

// news encodes a message about an interface.
func news(kind uint16, index int32, flags uint32, attributes ...[]byte) []byte {
	body := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(body[4:], uint32(index))
	binary.NativeEndian.PutUint32(body[8:], flags)
	body = append(body, slices.Concat(attributes...)...)
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return append(append(b, make([]byte, 10)...), body...)
}

func TestParseLinks(t *testing.T) {
	const up = unix.IFF_UP | unix.IFF_LOWER_UP
	name := func(s string) []byte { return attribute(unix.IFLA_IFNAME, append([]byte(s), 0)) }
	downs := attribute(unix.IFLA_CARRIER_DOWN_COUNT, binary.NativeEndian.AppendUint32(nil, 7))
	b := slices.Concat(
		news(unix.RTM_NEWLINK, 3, up, name("n5"), downs),
		news(unix.RTM_NEWROUTE, 9, up, name("n9")),
		news(unix.RTM_NEWLINK, 4, unix.IFF_UP, attribute(unix.IFLA_MTU, []byte{1, 2, 3, 4}), name("n66")),
		news(unix.RTM_DELLINK, 3, up, name("n5")),
		news(unix.RTM_NEWLINK, 3, up),
	)
	want := []Interface{{"n5", 3, true, 7}, {"n66", 4, false, 0}, {"n5", 3, false, 0}}
	var got []Interface
	parseLinks(b, func(x Interface) { got = append(got, x) })
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for n := range b { // cut anywhere, what is whole is there
		cut := 0
		parseLinks(b[:n], func(x Interface) {
			if x != want[cut] {
				t.Fatalf("cut at %d: %+v", n, x)
			}
			cut++
		})
	}
}

func FuzzParseLinks(f *testing.F) {
	f.Add(news(unix.RTM_NEWLINK, 3, unix.IFF_UP, attribute(unix.IFLA_IFNAME, []byte("n1\x00"))))
	f.Fuzz(func(_ *testing.T, b []byte) {
		parseLinks(b, func(x Interface) {
			if x.Name == "" {
				panic("an interface without a name")
			}
		})
	})
}

// The kernel tells of the loopback interface, which every namespace has, and
// Wait returns for it.
func TestLinksOfTheKernel(t *testing.T) {
	l, err := OpenLinks()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := Listen(netip.MustParseAddrPort("127.0.0.9:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.WaitAlso(l)
	found := false
	for deadline := time.Now().Add(10 * time.Second); !found; {
		if time.Now().After(deadline) {
			t.Fatal("nothing about lo")
		}
		if err := s.Wait(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := l.Read(func(x Interface) { found = found || x.Name == "lo" && x.Index > 0 }); err != nil {
			t.Fatal(err)
		}
	}
}
