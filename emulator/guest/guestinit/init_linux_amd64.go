package guestinit

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// outs writes n bytes from p to an I/O port. The calling thread must hold the
// port (ioperm).
//
//go:noescape
func outs(port uint16, p *byte, n int)

// Main does the guest's job and restarts the machine where this process is a
// guest's init, and returns at once everywhere else. A program that calls
// guest.Run with its own executable as init calls Main first of all.
func Main() {
	if os.Getpid() != 1 || os.Getenv(EnvName) != "1" {
		return
	}
	out := openPort()
	silence := out.tellAlive()
	end := work(out)
	silence()
	if payload, err := json.Marshal(end); err == nil {
		out.send(KindEnd, payload)
	}
	out.close()
	// The machine is started with -no-reboot, so a restart ends it.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {}
}

// port hands frames to the goroutine that owns the I/O port.
type port struct {
	frames chan []byte
	done   chan struct{}
}

func openPort() *port {
	p := &port{frames: make(chan []byte, 16), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		// The right to use a port belongs to the thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_IOPERM, Port, 1, 1); errno != 0 {
			fmt.Fprintln(os.Stderr, "guest: ioperm:", errno)
			for range p.frames {
				// Senders must not block; the host sees that no end came.
			}
			return
		}
		for f := range p.frames {
			outs(Port, &f[0], len(f))
		}
	}()
	return p
}

func (p *port) send(kind Kind, payload []byte) {
	for {
		n := min(len(payload), MaxPayload)
		f := appendHeader(make([]byte, 0, headerSize+n), kind, n)
		p.frames <- append(f, payload[:n]...)
		if payload = payload[n:]; len(payload) == 0 {
			return
		}
	}
}

// tellAlive sends a sign of life now and then, until the function that it
// returns is called.
func (p *port) tellAlive() func() {
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(AliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.send(KindAlive, nil)
			case <-stop:
				return
			}
		}
	}()
	return func() { close(stop); <-over }
}

func (p *port) close() {
	close(p.frames)
	<-p.done
}

// frameWriter sends what is written to it as frames of one kind.
type frameWriter struct {
	port *port
	kind Kind
}

func (w frameWriter) Write(b []byte) (int, error) {
	if len(b) > 0 {
		w.port.send(w.kind, b)
	}
	return len(b), nil
}

func work(out *port) (end End) {
	stderr := frameWriter{out, KindStderr}
	fail := func(err error) {
		end.Exit = 125
		if end.Failure != "" {
			end.Failure += "; "
		}
		end.Failure += err.Error()
	}
	defer func() {
		var ts unix.Timespec
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
			end.Uptime = time.Duration(ts.Nano())
		}
	}()
	job, err := setUp()
	if err != nil {
		fail(err)
		return end
	}
	running := &running{}
	go running.listen(stderr)
	for _, command := range job.Commands {
		end.Exit, err = runCommand(command, job, running, frameWriter{out, KindStdout}, stderr)
		if err != nil {
			fail(err)
		}
		if end.Exit != 0 {
			break
		}
	}
	if job.Out == "" {
		return end
	}
	a := &archiveWriter{out: frameWriter{out, KindArchive}, sum: sha256.New()}
	if err := archive(job.Out, a); err != nil {
		fail(fmt.Errorf("pack %s: %w", job.Out, err))
	}
	end.ArchiveSize, end.ArchiveSHA256 = a.size, hex.EncodeToString(a.sum.Sum(nil))
	return end
}

// openFiles is the limit a process gets, fs.nr_open's default.
const openFiles = 1 << 20

func setUp() (Job, error) {
	var job Job
	for _, m := range []struct {
		source, target, kind, options string
		optional                      bool
	}{
		{"proc", "/proc", "proc", "", false},
		{"sysfs", "/sys", "sysfs", "", false},
		{"devtmpfs", "/dev", "devtmpfs", "", false},
		{"devpts", "/dev/pts", "devpts", "", true},
		{"tmpfs", "/dev/shm", "tmpfs", "mode=1777", true},
		{"tmpfs", "/run", "tmpfs", "mode=0755", false},
		{"tmpfs", "/tmp", "tmpfs", "mode=1777", false},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", "", true},
	} {
		if err := os.MkdirAll(m.target, 0o755); err != nil && !m.optional {
			return job, fmt.Errorf("make mount point: %w", err)
		}
		if err := unix.Mount(m.source, m.target, m.kind, 0, m.options); err != nil && !m.optional {
			return job, fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(target, "/dev/"+name); err != nil && !errors.Is(err, fs.ErrExist) {
			return job, fmt.Errorf("link standard files: %w", err)
		}
	}
	modules, err := filepath.Glob(ModuleDir + "/*.ko")
	if err != nil {
		return job, err
	}
	slices.Sort(modules)
	for _, m := range modules {
		if err := insert(m); err != nil {
			return job, err
		}
	}
	if err := loopbackUp(); err != nil {
		return job, err
	}
	// A kernel grants its first process 4096, too few for the supervisor of
	// some hundred nodes.
	files := unix.Rlimit{Cur: openFiles, Max: openFiles}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return job, fmt.Errorf("raise limit of open files: %w", err)
	}
	if err := unix.Sethostname([]byte("guest")); err != nil {
		return job, fmt.Errorf("set host name: %w", err)
	}
	b, err := os.ReadFile(JobFile)
	if err != nil {
		return job, fmt.Errorf("read job: %w", err)
	}
	if err := json.Unmarshal(b, &job); err != nil {
		return job, fmt.Errorf("read job: %w", err)
	}
	return job, nil
}

func insert(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("insert module: %w", err)
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("insert module %s: %w", filepath.Base(path), err)
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	return nil
}

// runCommand runs one of the job's commands and returns its exit status. As the first
// process it also reaps whatever is handed down to it meanwhile.
func runCommand(command []string, job Job, running *running, stdout, stderr io.Writer) (int, error) {
	if len(command) == 0 {
		return 0, errors.New("run command: none given")
	}
	env := append([]string{"PATH=/bin:/sbin", "HOME=/root", "TERM=dumb"}, job.Env...)
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			// LookPath reads this process's own environment.
			if err := os.Setenv("PATH", path); err != nil {
				return 0, fmt.Errorf("run command: %w", err)
			}
		}
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 0, fmt.Errorf("run command: %w", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("run command: %w", err)
	}
	defer null.Close()
	files := []*os.File{null}
	var readers []*os.File
	var wait sync.WaitGroup
	for _, w := range []io.Writer{stdout, stderr} {
		pr, pw, err := os.Pipe()
		if err != nil {
			return 0, fmt.Errorf("run command: %w", err)
		}
		files, readers = append(files, pw), append(readers, pr)
		wait.Go(func() {
			_, _ = io.Copy(w, pr) // ends at end of file, or at the deadline below
			_ = pr.Close()
		})
	}
	p, err := os.StartProcess(path, command, &os.ProcAttr{Dir: job.Dir, Env: env, Files: files})
	for _, pw := range files[1:] {
		_ = pw.Close()
	}
	if err != nil {
		wait.Wait()
		return 0, fmt.Errorf("run command: %w", err)
	}
	running.set(p.Pid)
	status := reapUntil(p.Pid)
	running.set(0)
	// A descendant that lives on may hold the pipes open for ever.
	for _, pr := range readers {
		_ = pr.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	}
	wait.Wait()
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// running knows which process an interrupt is for.
type running struct {
	mu          sync.Mutex
	pid         int // 0: none
	interrupted bool
}

// set says which process runs now. An interrupt that came before is for it.
func (r *running) set(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pid = pid; pid != 0 && r.interrupted {
		r.interrupt()
	}
}

func (r *running) interrupt() {
	if r.interrupted = true; r.pid != 0 {
		_ = unix.Kill(r.pid, unix.SIGINT) // it may have ended just now
		r.interrupted = false
	}
}

// listen awaits interrupts on the serial line for as long as the machine runs.
func (r *running) listen(stderr io.Writer) {
	if err := r.read(); err != nil {
		fmt.Fprintln(stderr, "guest: read serial line:", err)
	}
}

func (r *running) read() error {
	fd, err := unix.Open("/dev/ttyS0", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	// Bytes as they come: no lines, no echo, no signals of the terminal's own.
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.ICRNL | unix.IXON
	t.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return err
	}
	var b [1]byte
	for {
		n, err := unix.Read(fd, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		case b[0] == InterruptByte:
			r.mu.Lock()
			r.interrupt()
			r.mu.Unlock()
		}
	}
}

func reapUntil(pid int) unix.WaitStatus {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		if err == nil && got == pid {
			return status
		}
		if errors.Is(err, unix.ECHILD) {
			return unix.WaitStatus(125 << 8)
		}
	}
}

// archiveWriter counts and sums what it passes on.
type archiveWriter struct {
	out  io.Writer
	sum  hash.Hash
	size int64
}

func (a *archiveWriter) Write(b []byte) (int, error) {
	a.sum.Write(b)
	a.size += int64(len(b))
	return a.out.Write(b)
}

// archive writes the files and directories below dir as a gzipped tar.
func archive(dir string, w io.Writer) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			return nil // sockets and the like mean nothing outside
		}
		h, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		if h.Name, err = filepath.Rel(dir, path); err != nil {
			return err
		}
		if err := t.WriteHeader(h); err != nil || info.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyN(t, f, info.Size())
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(t.Close(), z.Close())
}
