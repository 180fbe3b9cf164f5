package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"churnbed/emulator/link"
	"churnbed/emulator/netns"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Names of capabilities that Probe reports, in its order.
const (
	CapKernel     = "kernel"
	CapNamespaces = "network namespaces"
	CapUserNS     = "user namespaces"
	CapNetAdmin   = "CAP_NET_ADMIN"
	CapVeth       = "veth"
	CapPacket     = "AF_PACKET"
	CapNetem      = "sch_netem"
	CapNetemSeed  = "netem seed"
	CapBuffer     = "SO_RCVBUFFORCE"
	CapSysctl     = "sysctls of own namespaces"
)

// Capability is one thing that a probe tried.
type Capability struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`           // what was found
	Remedy string `json:"remedy,omitempty"` // where not OK: what helps, or what is used instead
}

// Err returns nil where the capability is there, else a *Missing.
func (c Capability) Err() error {
	if c.OK {
		return nil
	}
	return &Missing{Capability: c.Name, Remedy: c.Remedy, Err: errors.New(c.Detail)}
}

// Find returns the capability of that name, not OK where it was not probed.
func Find(caps []Capability, name string) Capability {
	for _, c := range caps {
		if c.Name == name {
			return c
		}
	}
	return Capability{Name: name, Detail: "not probed"}
}

// Probe tries what a run needs, in scratch namespaces that are gone when it
// returns. Where the process may not make network namespaces itself, the
// probes run in a child inside a user namespace, as a rootless run would.
func Probe(ctx context.Context) []Capability {
	release, err := kernelRelease()
	caps := []Capability{{Name: CapKernel, OK: err == nil, Detail: release}}
	if h, err := netns.New(); err == nil {
		caps = append(caps, Capability{Name: CapNamespaces, OK: true, Detail: "made directly"})
		caps = append(caps, userNamespace(ctx))
		caps = append(caps, probeIn(h)...)
		return append(caps, closeProbe(h)...)
	}
	inside, err := probeChild(ctx)
	if err != nil {
		return append(caps,
			Capability{Name: CapNamespaces, Detail: err.Error(), Remedy: "run as root, or allow user namespaces"},
			Capability{Name: CapUserNS, Detail: err.Error(), Remedy: userNSRemedy})
	}
	caps = append(caps, Capability{Name: CapNamespaces, OK: true, Detail: "made inside a user namespace"},
		Capability{Name: CapUserNS, OK: true, Detail: "allowed"})
	return append(caps, inside...)
}

const userNSRemedy = "run as root, or allow them (user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"

func closeProbe(h *netns.Handle) []Capability {
	if err := h.Close(); err != nil {
		return []Capability{{Name: "clean-up of probes", Detail: err.Error()}}
	}
	return nil
}

// probeIn tries things inside an empty namespace of ours.
func probeIn(h *netns.Handle) []Capability {
	result := func(name string, err error, detail, remedy string) Capability {
		if err != nil {
			return Capability{Name: name, Detail: err.Error(), Remedy: remedy}
		}
		return Capability{Name: name, OK: true, Detail: detail}
	}
	var caps []Capability
	c, err := OpenWith(h, "probe", []Sysctl{{Key: "net/ipv4/ip_forward", Value: "1"}})
	var op *OpError
	if errors.As(err, &op) && op.Op == "set" {
		caps = append(caps, result(CapSysctl, err, "", "make /proc/sys writable (docker: --security-opt systempaths=unconfined, podman: --security-opt unmask=ALL): nodes could not forward without net.ipv4.ip_forward"))
		c, err = Open(h, "probe")
	} else if err == nil {
		caps = append(caps, Capability{Name: CapSysctl, OK: true, Detail: "writable"})
	}
	if err != nil {
		return append(caps, result(CapNetAdmin, err, "", "allow netlink sockets"))
	}
	defer func() { _ = c.Close() }()
	b := c.Batch()
	b.SetUp(1, true)
	b.Addr4(1, netip.AddrFrom4([4]byte{10, 77, 0, 1}))
	caps = append(caps, result(CapNetAdmin, b.Flush(), "interfaces can be changed", "give CAP_NET_ADMIN in the namespace (run as root or in a user namespace)"))

	b.Veth(End{NS: h, Name: "probe0", Index: 2, MAC: [6]byte{2, 0, 0, 0, 0, 1}, Up: true},
		End{NS: h, Name: "probe1", Index: 3, MAC: [6]byte{2, 0, 0, 0, 0, 2}}, 1500)
	err = b.Flush()
	caps = append(caps, result(CapVeth, err, "pairs can be made", "load the module veth, or use a kernel with CONFIG_VETH"))
	if err != nil {
		return caps
	}
	caps = append(caps, result(CapPacket, packetSocket(h), "packet sockets with a ring", "give CAP_NET_RAW; without them the relay fabric does not work"))

	b.Netem(3, link.Params{Delay: time.Millisecond}, 1, false)
	err = b.Flush()
	caps = append(caps, result(CapNetem, err, "can be attached", "load the module sch_netem; without it the relay fabric is used"))
	if err == nil {
		seeded, serr := c.netemSeeded(3)
		if serr == nil && !seeded {
			serr = errors.New("the kernel ignores it")
		}
		caps = append(caps, result(CapNetemSeed, serr, "kept by the kernel", "Linux 6.6 or newer; until then netem loss does not follow the run's seed, relay loss does"))
	}
	return append(caps, result(CapBuffer, receiveBufferForce(), "allowed",
		"only root of the first user namespace may; socket buffers are bounded by net.core.rmem_max"))
}

// packetSocket makes the kind of socket that the relay uses.
func packetSocket(h *netns.Handle) error {
	return h.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
			return err
		}
		page := uint32(os.Getpagesize())
		return unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING,
			&unix.TpacketReq{Block_size: page, Block_nr: 1, Frame_size: 2048, Frame_nr: page / 2048})
	})
}

// receiveBufferForce tries the option where nodes use it: on a socket of this
// user namespace.
func receiveBufferForce() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer)
}

// netemSeeded reports whether the netem of an interface tells a seed.
func (c *Conn) netemSeeded(index int32) (bool, error) {
	found := false
	err := c.dump("read queueing disciplines", unix.RTM_GETQDISC, make([]byte, nl.SizeofTcMsg), func() { found = false }, func(m []byte) {
		for a := range attributes(m, nl.SizeofTcMsg) {
			if a.kind != nl.TCA_OPTIONS || int32(binary.NativeEndian.Uint32(m[4:])) != index {
				continue
			}
			for o := range attributes(a.data, netemQoptSize) {
				found = found || o.kind == tcaNetemPrngSeed
			}
		}
	})
	return found, err
}

func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// userNamespace tells whether a user namespace can be made, where the
// process does not depend on it.
func userNamespace(ctx context.Context) Capability {
	if _, err := probeChild(ctx); err != nil {
		return Capability{Name: CapUserNS, Detail: err.Error(), Remedy: "rootless runs need them: " + userNSRemedy}
	}
	return Capability{Name: CapUserNS, OK: true, Detail: "allowed"}
}

// childVariable marks the child of probeChild.
const childVariable = "CHURNBED_KERNEL_PROBE"

// A process cannot enter a new user namespace once it has threads, so the
// probe starts its own program again. The child is caught here, before main,
// so that no program has to know of it.
func init() {
	if os.Getenv(childVariable) != "1" {
		return
	}
	h, err := netns.New()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	caps := append(probeIn(h), closeProbe(h)...)
	if err := json.NewEncoder(os.Stdout).Encode(caps); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// probeChild runs probeIn in a new user namespace.
func probeChild(ctx context.Context) ([]Capability, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:                 syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		GidMappingsEnableSetgroups: false,
	}
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("probe in a user namespace: %w %s", err, strings.TrimSpace(words.String()))
	}
	var caps []Capability
	if err := json.Unmarshal(out.Bytes(), &caps); err != nil {
		return nil, fmt.Errorf("probe in a user namespace: %w", err)
	}
	return caps, nil
}

// Limits are the host's bounds that a large run meets. 0 means that the
// kernel does not tell; counts of processes and files are for this user and
// process.
type Limits struct {
	OpenFiles, OpenFilesMax uint64 // RLIMIT_NOFILE soft and hard
	Processes               uint64 // RLIMIT_NPROC soft
	PidMax, ThreadsMax      uint64
	UserNamespaces          uint64 // user.max_user_namespaces, of this user namespace
	NetNamespaces           uint64
	PidNamespaces           uint64
	MountNamespaces         uint64
	ReceiveBufferMax        uint64 // net.core.rmem_max, bytes
	Backlog                 uint64 // net.core.netdev_max_backlog, frames
	NeighbourMax            uint64 // net.ipv4.neigh.default.gc_thresh3; permanent entries are outside it
	MemoryTotal             uint64 // bytes
	MemoryAvailable         uint64 // bytes
	Kernel                  string
}

// ReadLimits reads them. It changes nothing.
func ReadLimits() (Limits, error) {
	var l Limits
	var err error
	if l.Kernel, err = kernelRelease(); err != nil {
		return l, &OpError{Op: "read kernel release", Err: err}
	}
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return l, &OpError{Op: "read limit of", Object: "open files", Err: err}
	}
	l.OpenFiles, l.OpenFilesMax = r.Cur, r.Max
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &r); err != nil {
		return l, &OpError{Op: "read limit of", Object: "processes", Err: err}
	}
	l.Processes = r.Cur
	for _, s := range []struct {
		to  *uint64
		key string
	}{
		{&l.PidMax, "kernel/pid_max"},
		{&l.ThreadsMax, "kernel/threads-max"},
		{&l.UserNamespaces, "user/max_user_namespaces"},
		{&l.NetNamespaces, "user/max_net_namespaces"},
		{&l.PidNamespaces, "user/max_pid_namespaces"},
		{&l.MountNamespaces, "user/max_mnt_namespaces"},
		{&l.ReceiveBufferMax, "net/core/rmem_max"},
		{&l.Backlog, "net/core/netdev_max_backlog"},
		{&l.NeighbourMax, "net/ipv4/neigh/default/gc_thresh3"},
	} {
		*s.to = readUint("/proc/sys/" + s.key)
	}
	l.MemoryTotal, l.MemoryAvailable, err = readMemory()
	return l, err
}

// readUint reads a number; 0 where the file is not there (some namespaces
// hide some files).
func readUint(path string) uint64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func readMemory() (total, available uint64, err error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, &OpError{"read", "/proc/meminfo", "", err}
	}
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			total = n << 10
		case "MemAvailable:":
			available = n << 10
		}
	}
	return total, available, nil
}
