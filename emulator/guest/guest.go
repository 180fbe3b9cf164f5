// Package guest runs a command under another kernel: in a small virtual
// machine whose kernel is Debian's cloud kernel, which has what some hosts
// lack (sch_netem, sch_fq), and whose clock counts executed instructions and
// skips idle time, so that the host's load cannot distort what is measured
// inside. It needs QEMU, but no root, no KVM and no network device. It is not
// a sandbox against hostile code, and no performance test: one slow virtual
// processor does all the work.
//
// A guest has an initramfs for its root: the kernel's modules, the init of
// package guestinit and the caller's files. Its output, results and exit status
// come out through the machine's debug console (see guestinit.Kind). Nothing is
// left on the host when Run returns but the cached kernel.
//
// Runs are independent of each other: any number of goroutines and processes
// may call Run and Prepare at once.
package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"churnbed/emulator/guest/guestinit"
)

// DefaultMemoryMiB holds some hundred node processes.
const DefaultMemoryMiB = 2048

// Config says what a guest runs and what it is given.
type Config struct {
	// Cache is the folder that keeps the kernel between runs;
	// DefaultCache() where empty.
	Cache string
	// Init is an executable that calls guestinit.Main first of all; this
	// process's own where empty.
	Init string
	// MemoryMiB is the machine's memory; DefaultMemoryMiB where 0.
	MemoryMiB int
	// Files are put into the guest: guest path to host path of a file or a
	// directory. Permissions are kept; symbolic links are followed. What a
	// program needs to be loaded comes with it, but not what it opens itself.
	Files map[string]string
	// Data are files made of bytes: guest path to content.
	Data map[string][]byte
	// Command is what runs: an absolute guest path or a name in /bin, then
	// its arguments.
	Command []string
	// Then are commands that follow, each where all before ended with 0.
	Then [][]string
	// Env is added to PATH, HOME and TERM, as KEY=value.
	Env []string
	// Dir is the command's working directory; / where empty.
	Dir string
	// Out is the guest directory that is brought out into OutDir when the
	// command has ended, whatever its status. OutDir is made, where absent,
	// when the results come. Both or neither must be set.
	Out, OutDir string
	// Stdout and Stderr receive what the command writes, as it comes.
	Stdout, Stderr io.Writer
	// Console receives the kernel's own messages.
	Console io.Writer
	// Interrupt, when it is closed, sends the command an interrupt signal, so
	// that it ends in order.
	Interrupt <-chan struct{}
	// Silence is how long, in the host's time, the guest may give no sign of
	// life; DefaultSilence where 0. See ErrStalled.
	Silence time.Duration
}

// DefaultSilence is long enough for a second of a large guest on a busy host,
// and for its boot.
const DefaultSilence = 3 * time.Minute

// ErrStalled is wrapped by Run's error about a guest that gave no sign of life
// any more and was ended. It was seen once in some eighty runs, on a busy host:
// the clock went on and no timer of a process was due any more. Nothing of
// such a run came out, so it may be run again.
var ErrStalled = errors.New("the guest stalled")

// Result is what a guest did.
type Result struct {
	Exit      int           // the command's exit status, 128 + signal where one ended it
	GuestTime time.Duration // time since the guest's kernel started, by its clock
	WallTime  time.Duration // time that took here
}

// MissingError says what the host lacks to run a guest.
type MissingError struct {
	What   string
	Remedy string
	Err    error
}

func (e *MissingError) Error() string {
	s := "guest needs " + e.What
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "; " + e.Remedy
}

func (e *MissingError) Unwrap() error { return e.Err }

const qemu = "qemu-system-x86_64"

// Run boots a guest, runs cfg.Command in it and brings the results out. An
// error means that there is no verdict, or that the results did not arrive
// whole; a command that ends with another status than 0 is no error. Where ctx
// ends first, the machine is killed.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if len(cfg.Command) == 0 {
		return Result{}, errors.New("run guest: no command")
	}
	if (cfg.Out == "") != (cfg.OutDir == "") {
		return Result{}, errors.New("run guest: out and its host directory belong together")
	}
	if cfg.MemoryMiB == 0 {
		cfg.MemoryMiB = DefaultMemoryMiB
	}
	if cfg.Silence == 0 {
		cfg.Silence = DefaultSilence
	}
	machine, err := findMachine()
	if err != nil {
		return Result{}, err
	}
	kernel, err := Prepare(ctx, cfg.Cache)
	if err != nil {
		return Result{}, err
	}
	initrd, err := unnamedFile()
	if err != nil {
		return Result{}, fmt.Errorf("build guest image: %w", err)
	}
	defer initrd.Close()
	if err := writeInitrd(initrd, kernel, cfg); err != nil {
		return Result{}, fmt.Errorf("build guest image: %w", err)
	}
	return boot(ctx, machine, kernel.Image, initrd, cfg)
}

// findMachine returns the path of QEMU.
func findMachine() (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", &MissingError{What: "a program built for x86-64", Remedy: "use an x86-64 host"}
	}
	path, err := exec.LookPath(qemu)
	if err != nil {
		return "", &MissingError{
			What: qemu, Remedy: "on Debian, as root: apt-get install -y --no-install-recommends qemu-system-x86", Err: err,
		}
	}
	return path, nil
}

// Version returns the version of QEMU that Run takes, such as "7.2.22 (Debian
// 1:7.2+dfsg-7)". A MissingError says that there is none.
func Version(ctx context.Context) (string, error) {
	path, err := findMachine()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", qemu, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimPrefix(first, "QEMU emulator version "), nil
}

// unnamedFile makes a temporary file that is gone when the last process that
// has it open ends, however it ends.
func unnamedFile() (*os.File, error) {
	f, err := os.CreateTemp("", "churnbed-guest-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Clock says what an instant inside is, for those who report times.
const Clock = "icount shift=0,sleep=off: one instruction a nanosecond, idle time skipped"

// Descriptors of the machine: its output, and the file with its root.
const (
	framesFile = "/dev/fd/3"
	initrdFile = "/dev/fd/4"
)

func arguments(image string, memoryMiB int) []string {
	return []string{
		"-machine", "microvm,acpi=off,rtc=on,isa-serial=on", "-cpu", "max",
		"-m", strconv.Itoa(memoryMiB), "-smp", "1",
		// Time is counted in instructions, one a nanosecond; KVM has no such
		// clock, and a device node does not mean that it works.
		"-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "stdio",
		"-chardev", "file,id=frames,path=" + framesFile,
		"-device", "isa-debugcon,iobase=" + strconv.Itoa(guestinit.Port) + ",chardev=frames",
		"-kernel", image, "-initrd", initrdFile,
		"-append", "console=ttyS0 quiet panic=-1 reboot=t mitigations=off " + guestinit.EnvName + "=1",
	}
}

func boot(ctx context.Context, machine, image string, initrd *os.File, cfg Config) (Result, error) {
	frames, w, err := os.Pipe()
	if err != nil {
		return Result{}, fmt.Errorf("run guest: %w", err)
	}
	defer frames.Close()
	stdin, serial, err := os.Pipe()
	if err != nil {
		return Result{}, errors.Join(fmt.Errorf("run guest: %w", err), w.Close())
	}
	defer serial.Close()
	cmd := exec.CommandContext(ctx, machine, arguments(image, cfg.MemoryMiB)...)
	cmd.Stdin, cmd.ExtraFiles = stdin, []*os.File{w, initrd}
	console := &tail{w: cfg.Console, limit: 4 << 10}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.WaitDelay = 5 * time.Second
	// The machine must not outlive this process, nor see the terminal's ^C.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := time.Now()
	stop, err := startFixed(cmd)
	_, _ = w.Close(), stdin.Close()
	if err != nil {
		return Result{}, fmt.Errorf("start %s: %w", qemu, err)
	}
	defer stop()
	defer relayInterrupt(cfg.Interrupt, serial)()
	end, err := receive(awake{frames, cfg.Silence}, cfg)
	if err != nil {
		_ = cmd.Process.Kill() // nobody reads any more
	}
	waitErr := cmd.Wait()
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("run guest: %w", context.Cause(ctx))
	}
	if err != nil {
		return Result{}, fmt.Errorf("run guest: %w; console: %q", errors.Join(err, waitErr), console.String())
	}
	r := Result{Exit: end.Exit, GuestTime: end.Uptime, WallTime: time.Since(started)}
	if end.Failure != "" {
		return r, fmt.Errorf("run guest: inside: %s", end.Failure)
	}
	return r, nil
}

// relayInterrupt tells the guest through its serial line of an interrupt. The
// function that it returns ends and awaits it.
func relayInterrupt(interrupt <-chan struct{}, serial io.Writer) func() {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-interrupt:
			// A machine that has just ended reads no more; its end is told.
			_, _ = serial.Write([]byte{guestinit.InterruptByte})
		case <-done:
		}
	}()
	return func() { close(done); <-over }
}

var errNoEnd = errors.New("guest ended without a verdict")

// awake reads a pipe that must not be silent for longer than limit.
type awake struct {
	f     *os.File
	limit time.Duration
}

func (a awake) Read(b []byte) (int, error) {
	if err := a.f.SetReadDeadline(time.Now().Add(a.limit)); err != nil {
		return 0, err
	}
	n, err := a.f.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: no sign of life in %v", ErrStalled, a.limit)
	}
	return n, err
}

// receive reads frames until the guest's end, passes output on and unpacks
// the archive.
func receive(r io.Reader, cfg Config) (guestinit.End, error) {
	var a *receiver
	defer func() {
		if a != nil {
			a.abort()
		}
	}()
	var buf []byte
	for {
		kind, payload, err := guestinit.ReadFrame(r, buf)
		if errors.Is(err, io.EOF) {
			return guestinit.End{}, errNoEnd
		}
		if err != nil {
			return guestinit.End{}, err
		}
		buf = payload[:cap(payload)]
		switch kind {
		case guestinit.KindStdout:
			err = pass(cfg.Stdout, payload)
		case guestinit.KindStderr:
			err = pass(cfg.Stderr, payload)
		case guestinit.KindArchive:
			if cfg.OutDir == "" {
				return guestinit.End{}, errors.New("guest sent results that were not asked for")
			}
			if a == nil {
				if a, err = newReceiver(cfg.OutDir); err != nil {
					return guestinit.End{}, err
				}
			}
			err = a.write(payload)
		case guestinit.KindAlive:
		case guestinit.KindEnd:
			return finish(payload, a)
		}
		if err != nil {
			return guestinit.End{}, err
		}
	}
}

func pass(w io.Writer, b []byte) error {
	if w == nil {
		return nil
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("pass output on: %w", err)
	}
	return nil
}

func finish(payload []byte, a *receiver) (guestinit.End, error) {
	var end guestinit.End
	if err := json.Unmarshal(payload, &end); err != nil {
		return end, fmt.Errorf("read verdict: %w", err)
	}
	if end.Failure != "" {
		return end, nil
	}
	if a == nil {
		if end.ArchiveSize > 0 {
			return end, fmt.Errorf("results did not come out: %d bytes were sent", end.ArchiveSize)
		}
		return end, nil
	}
	return end, a.finish(end.ArchiveSize, end.ArchiveSHA256)
}

// receiver unpacks the archive while it comes in.
type receiver struct {
	pipe *io.PipeWriter
	done chan error
	sum  hash.Hash
	size int64
}

func newReceiver(dir string) (*receiver, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make results directory: %w", err)
	}
	pr, pw := io.Pipe()
	a := &receiver{pipe: pw, done: make(chan error, 1), sum: sha256.New()}
	go func() {
		err := unpack(pr, dir)
		_ = pr.CloseWithError(err) // a writer learns of it
		a.done <- err
	}()
	return a, nil
}

func (a *receiver) write(b []byte) error {
	a.sum.Write(b)
	a.size += int64(len(b))
	if _, err := a.pipe.Write(b); err != nil {
		return fmt.Errorf("unpack results: %w", err)
	}
	return nil
}

func (a *receiver) finish(size int64, sum string) error {
	_ = a.pipe.Close()
	err := <-a.done
	a.done <- err // for abort
	if got := hex.EncodeToString(a.sum.Sum(nil)); a.size != size || got != sum {
		return fmt.Errorf("results came out damaged: %d bytes with SHA-256 %s, sent were %d with %s", a.size, got, size, sum)
	}
	if err != nil {
		return fmt.Errorf("unpack results: %w", err)
	}
	return nil
}

// abort ends the unpacking and waits for it.
func (a *receiver) abort() {
	_ = a.pipe.CloseWithError(errNoEnd)
	<-a.done
}

// tail passes on what is written to it and remembers the end.
type tail struct {
	w     io.Writer
	limit int
	b     []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	if over := len(t.b) - t.limit; over > 0 {
		t.b = t.b[over:]
	}
	if t.w != nil {
		return t.w.Write(b)
	}
	return len(b), nil
}

func (t *tail) String() string { return string(t.b) }
