package guest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"churnbed/emulator/guest/guestinit"
)

func frame(kind guestinit.Kind, payload []byte) []byte {
	n := len(payload)
	b := []byte{byte(kind), byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
	return append(b, payload...)
}

func endFrame(t *testing.T, e guestinit.End) []byte {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return frame(guestinit.KindEnd, b)
}

func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReceive(t *testing.T) {
	a := archive(t, map[string]string{"nodes/1.jsonl": "{}\n", "summary.json": "{}"})
	sum := sha256.Sum256(a)
	whole := guestinit.End{Exit: 3, ArchiveSize: int64(len(a)), ArchiveSHA256: hex.EncodeToString(sum[:])}
	damaged := whole
	damaged.ArchiveSHA256 = strings.Repeat("0", 64)
	outside := archive(t, map[string]string{"../escaped": "x"})
	outsideSum := sha256.Sum256(outside)
	for _, test := range []struct {
		name, err string
		stream    []byte
	}{
		{"whole", "", bytes.Join([][]byte{
			frame(guestinit.KindStdout, []byte("hi")), frame(guestinit.KindAlive, nil), frame(guestinit.KindArchive, a[:10]),
			frame(guestinit.KindStderr, []byte("no")), frame(guestinit.KindArchive, a[10:]), endFrame(t, whole),
		}, nil)},
		{"no end", "without a verdict", frame(guestinit.KindStdout, []byte("hi"))},
		{"cut within a frame", "unexpected EOF", frame(guestinit.KindStdout, []byte("hi"))[:6]},
		{"unknown kind", "unknown kind", []byte("?????")},
		{"too long", "at most", []byte{'o', 255, 255, 255, 255}},
		{"archive damaged", "damaged", append(frame(guestinit.KindArchive, a), endFrame(t, damaged)...)},
		{"archive cut", "damaged", append(frame(guestinit.KindArchive, a[:40]), endFrame(t, whole)...)},
		{"name outside", "escapes", append(frame(guestinit.KindArchive, outside), endFrame(t, guestinit.End{
			ArchiveSize: int64(len(outside)), ArchiveSHA256: hex.EncodeToString(outsideSum[:]),
		})...)},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			var stdout, stderr bytes.Buffer
			end, err := receive(bytes.NewReader(test.stream), Config{Out: "/out", OutDir: dir, Stdout: &stdout, Stderr: &stderr})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if end.Exit != 3 || stdout.String() != "hi" || stderr.String() != "no" {
				t.Errorf("exit %d, stdout %q, stderr %q", end.Exit, stdout.String(), stderr.String())
			}
			if b, err := os.ReadFile(filepath.Join(dir, "nodes/1.jsonl")); err != nil || string(b) != "{}\n" {
				t.Errorf("result file: %q, %v", b, err)
			}
		})
	}
}

// TestCPIO states the archive's bytes for a directory and a file.
func TestCPIO(t *testing.T) {
	var b bytes.Buffer
	c := newCPIO(&b)
	c.file("a/b", []byte("xyz"))
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	const want = "070701" + "00000001" + "000041ED" + "00000000" + "00000000" + "00000002" + "00000000" + "00000000" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000002" + "00000000" + "a\x00" +
		"070701" + "00000002" + "000081A4" + "00000000" + "00000000" + "00000001" + "00000000" + "00000003" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000004" + "00000000" + "a/b\x00\x00\x00" + "xyz\x00" +
		"070701" + "00000003" + "00000000" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000" +
		"00000000" + "00000000" + "00000000" + "00000000" + "0000000B" + "00000000" + "TRAILER!!!\x00\x00\x00\x00"
	if b.String() != want {
		t.Errorf("archive\n%q, want\n%q", b.String(), want)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, test := range []struct {
		name, err string
		cfg       Config
	}{
		{"no command", "no command", Config{}},
		{"out alone", "belong together", Config{Command: []string{"x"}, Out: "/out"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Run(context.Background(), test.cfg); err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
		})
	}
	t.Run("relative target", func(t *testing.T) {
		err := writeInitrd(io.Discard, Kernel{}, Config{Init: staticFile(t), Files: map[string]string{"bin/x": "/dev/null"}})
		if err == nil || !strings.Contains(err.Error(), "not an absolute path") {
			t.Errorf("error %v", err)
		}
	})
}

// staticFile makes an ELF file without program headers.
func staticFile(t *testing.T) string {
	t.Helper()
	h := make([]byte, 64)
	copy(h, "\x7fELF\x02\x01\x01")
	h[16], h[18], h[20] = 2, 62, 1
	h[52], h[54], h[58] = 64, 56, 64
	name := filepath.Join(t.TempDir(), "init")
	if err := os.WriteFile(name, h, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestModuleName(t *testing.T) {
	for file, want := range map[string]string{"kernel/net/sch_fq.ko": "sch_fq", "snd-hda.ko.xz": "snd_hda"} {
		if got := moduleName(file); got != want {
			t.Errorf("moduleName(%q) = %q, want %q", file, got, want)
		}
	}
}

// TestInitrdHolds looks for what a configuration puts into the image.
func TestInitrdHolds(t *testing.T) {
	var b bytes.Buffer
	cfg := Config{
		Init: staticFile(t), Command: []string{"x"},
		Data: map[string][]byte{"/s/scenario.yaml": []byte("seed: 7\n")},
	}
	if err := writeInitrd(&b, Kernel{}, cfg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"s/scenario.yaml\x00", "seed: 7\n", "guest.json\x00", "TRAILER!!!"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the image lacks %q", want)
		}
	}
	cfg.Data = map[string][]byte{"s/x": nil}
	if err := writeInitrd(io.Discard, Kernel{}, cfg); err == nil || !strings.Contains(err.Error(), "not an absolute path") {
		t.Errorf("error %v", err)
	}
}

// TestLibraries: a dynamic program brings its loader and its libraries, a
// static one nothing.
func TestLibraries(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"/bin/x": script, "/data": t.TempDir()}
	got, err := withLibraries(files, staticFile(t))
	if err != nil || len(got) != len(files) {
		t.Errorf("files of static programs: %v, %v", got, err)
	}
	const dynamic, loader = "/bin/sh", "/lib64/ld-linux-x86-64.so.2"
	if _, err := os.Stat(loader); err != nil {
		t.Skip("no glibc here:", err)
	}
	if got, err = withLibraries(nil, dynamic); err != nil {
		t.Fatal(err)
	}
	libc := false
	for target, source := range got {
		if target != source {
			t.Errorf("%s is to come from %s", target, source)
		}
		libc = libc || filepath.Base(target) == "libc.so.6"
	}
	if got[loader] == "" || !libc {
		t.Errorf("libraries of %s: %v", dynamic, got)
	}
	if _, err := withLibraries(nil, filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent program: %v", err)
	}
}

// TestSilence: what stands after a silence is not waited for.
func TestSilence(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.Write(frame(guestinit.KindAlive, nil)); err != nil {
		t.Fatal(err)
	}
	_, err = receive(awake{r, 10 * time.Millisecond}, Config{})
	if !errors.Is(err, ErrStalled) {
		t.Errorf("error %v, want %v", err, ErrStalled)
	}
}

func TestRelayInterrupt(t *testing.T) {
	interrupt := make(chan struct{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stop := relayInterrupt(interrupt, w)
	close(interrupt)
	b := make([]byte, 1)
	if _, err := io.ReadFull(r, b); err != nil || b[0] != guestinit.InterruptByte {
		t.Errorf("read %q, %v", b, err)
	}
	stop()
	relayInterrupt(nil, w)() // none came
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("more came: %q, %v", rest, err)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte("o\x02\x00\x00\x00hi"))
	f.Add([]byte("x\x02\x00\x00\x00{}"))
	f.Add([]byte("a\x01\x00\x00\x00\x1fx\x02\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		_, _ = receive(bytes.NewReader(b), Config{Out: "/out", OutDir: filepath.Join(dir, "out")})
		if have, err := os.ReadDir(dir); err != nil || len(have) > 1 {
			t.Errorf("written outside: %v, %v", have, err)
		}
	})
}
