package live

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"churnbed/emulator/controlpb"
)

// prefix begins the names of all control sockets; "@" stands for the zero
// byte of an abstract name.
const prefix = "@churnbed/"

// maxName keeps a socket's name within sun_path (108 bytes).
const maxName = 64

// Run is a live run as the list of sockets shows it.
type Run struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// address is the socket's name.
	address string
}

// socketName makes a name of printable characters without spaces or slashes.
func socketName(run string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, run)
	return cmp.Or(safe[:min(len(safe), maxName)], "run")
}

// listen opens the control socket of a run of this process.
func listen(run string) (*net.UnixListener, error) {
	name := fmt.Sprintf("%s%d/%d/%s", prefix, os.Geteuid(), os.Getpid(), socketName(run))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	return l, nil
}

// guarded accepts connections of processes of this user, and of root.
type guarded struct{ *net.UnixListener }

func (g guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peer(c)
		if err == nil && (uid == uint32(os.Geteuid()) || uid == 0) {
			return c, nil
		}
		_ = c.Close()
	}
}

// peer returns the user of the process at the other end.
func peer(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if cerr != nil {
		return 0, cerr
	}
	return cred.Uid, nil
}

// List finds the live runs of this user in this network namespace, by name.
func List() ([]Run, error) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("list live runs: %w", err)
	}
	defer func() { _ = f.Close() }()
	return parse(f, os.Geteuid())
}

// parse reads the kernel's table of unix sockets.
func parse(r io.Reader, uid int) ([]Run, error) {
	own := fmt.Sprintf("%s%d/", prefix, uid)
	var runs []Run
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		// Num RefCount Protocol Flags Type St Inode Path
		f := strings.Fields(sc.Text())
		if len(f) != 8 {
			continue
		}
		flags, err := strconv.ParseUint(f[3], 16, 32)
		rest, mine := strings.CutPrefix(f[7], own)
		if err != nil || !mine || flags&acceptCon == 0 {
			continue
		}
		pid, name, _ := strings.Cut(rest, "/")
		n, err := strconv.Atoi(pid)
		if err != nil || name == "" {
			continue
		}
		runs = append(runs, Run{Name: name, PID: n, address: f[7]})
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("list live runs: %w", err)
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.PID, b.PID)) })
	return runs, nil
}

// acceptCon marks a listening socket in /proc/net/unix.
const acceptCon = 1 << 16

// ErrNoRun says that no live run is meant, or that it is not clear which.
var ErrNoRun = errors.New("no live run")

// Find returns the run of that name or controller's pid; with "" the only one
// there is.
func Find(which string) (Run, error) {
	runs, err := List()
	if err != nil {
		return Run{}, err
	}
	return choose(runs, which)
}

func choose(runs []Run, which string) (Run, error) {
	var found []Run
	for _, r := range runs {
		if which == "" || r.Name == which || strconv.Itoa(r.PID) == which {
			found = append(found, r)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(runs) == 0:
		return Run{}, fmt.Errorf("%w: nothing of yours runs here; start something with `churnbed run`", ErrNoRun)
	case len(found) == 0:
		return Run{}, fmt.Errorf("%w %q: there are %s", ErrNoRun, which, describe(runs))
	case which == "":
		return Run{}, fmt.Errorf("%w chosen of several; say --run NAME: %s", ErrNoRun, describe(found))
	}
	return Run{}, fmt.Errorf("%w: %q names several; say --run PID: %s", ErrNoRun, which, describe(found))
}

func describe(runs []Run) string {
	words := make([]string, len(runs))
	for i, r := range runs {
		words[i] = fmt.Sprintf("%s (pid %d)", r.Name, r.PID)
	}
	return strings.Join(words, ", ")
}

// Client is a connection to a live run.
type Client struct {
	controlpb.LiveClient
	controlpb.HandsClient
	conn *grpc.ClientConn
}

// Dial connects to a live run. The caller closes the client.
func Dial(r Run) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:live", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return connect(ctx, r.address) }))
	if err != nil {
		return nil, fmt.Errorf("connect to run %s: %w", r.Name, err)
	}
	return &Client{controlpb.NewLiveClient(conn), controlpb.NewHandsClient(conn), conn}, nil
}

// Close ends the connection and everything that goes on over it.
func (c *Client) Close() error { return c.conn.Close() }

// connect connects to a socket that a process of this user listens on:
// anybody may take a name.
func connect(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", address)
	if err != nil {
		return nil, err
	}
	uid, err := peer(c.(*net.UnixConn))
	if err == nil && uid != uint32(os.Geteuid()) {
		err = fmt.Errorf("%s is the socket of user %d: %w", address, uid, syscall.EPERM)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
