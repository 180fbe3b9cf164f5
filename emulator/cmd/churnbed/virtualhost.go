package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"churnbed/emulator/guest"
	"churnbed/emulator/kernel"
	"churnbed/emulator/scenario"
	"churnbed/results"
)

// virtualHost says whether a run takes place in a virtual machine.
type virtualHost struct {
	on        bool
	memoryMiB int // 0: as much as the scenario needs
}

// flags lets the user ask for it.
func (v *virtualHost) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name: "virtual-host", Destination: &v.on,
			Usage: "run in a virtual machine whose clock counts instructions: however busy this host, only the run's wall time changes",
		},
		&cli.IntFlag{
			Name: "virtual-host-memory", Destination: &v.memoryMiB,
			Usage: "memory of that machine in `MiB` (default: what the scenario needs)",
		},
	}
}

// Where the parts of a run lie in the guest.
const (
	guestProgram  = "/bin/churnbed"
	guestNode     = "/bin/churnbed-node"
	guestScenario = "/scenario/scenario.yaml"
	guestOut      = "/out"
	guestRun      = guestOut + "/run"
)

// packScenario returns the scenario as the guest reads it, and the files that
// it names, guest path to host path.
func packScenario(sc *scenario.Scenario) (text []byte, files map[string]string, err error) {
	spec := sc.Spec
	files = map[string]string{}
	// The base name stays: formats are told by it.
	put := func(key, host string) string {
		to := path.Join(path.Dir(guestScenario), key, filepath.Base(host))
		files[to] = host
		return to
	}
	spec.Out = ""
	if spec.TopologyFile != "" {
		spec.TopologyFile = put("topology-file", spec.TopologyFile)
	}
	if spec.RoutinesFile != "" {
		spec.RoutinesFile = put("routines-file", spec.RoutinesFile)
	}
	switch spec.Churn {
	case "none", "overnet", "exponential":
	default:
		spec.Churn = put("churn", spec.Churn)
	}
	service, list, err := scenario.ParseMembership(spec.Membership)
	if err != nil {
		return nil, nil, err
	}
	if list != "" {
		spec.Membership = service + ":" + put("membership", list)
	}
	text, err = spec.YAML()
	return text, files, err
}

// Figures of a guest's memory beside what the scenario needs of any host.
const (
	guestBaseMiB  = 256 // the kernel, its page tables, the logs of a short run
	guestImageUse = 3   // the programs: in the image, unpacked, and mapped
	// The root file system, which the logs are in, may take half of the
	// memory, and preflight leaves a tenth.
	guestMemoryFactor = 2
)

// guestMemory returns how much memory a run needs, MiB.
func guestMemory(sc *scenario.Scenario, imageBytes int64) int {
	kind := "netem"
	if sc.Fabric == "relay" || sc.NeedsRelay() != "" {
		kind = "relay"
	}
	need := guestMemoryFactor*sc.Needs(kind).Memory + guestImageUse*uint64(imageBytes)
	return guestBaseMiB + int(need>>20)
}

// checkGuestMemory refuses a machine that this host has no room for.
func checkGuestMemory(memoryMiB int) error {
	host, err := kernel.ReadLimits()
	if err != nil {
		return hostError(err)
	}
	have := host.MemoryAvailable
	if left := readGroupLimits().memoryLeft; left > 0 {
		have = min(have, left)
	}
	if have > 0 && uint64(memoryMiB) > have>>20 {
		return hostError(fmt.Errorf("virtual host: it would have %d MiB, and this host has %d MiB to give: free memory, run fewer nodes, "+
			"or set --virtual-host-memory", memoryMiB, have>>20))
	}
	return nil
}

// emulateVirtually runs a scenario in a guest, as emulate does on the host,
// brings the run directory out and judges it here once more.
func emulateVirtually(ctx context.Context, sc *scenario.Scenario, opt runOptions) error {
	node, err := nodeProgram(opt.nodeBinary)
	if err != nil {
		return err
	}
	dir, err := freeDir(sc.OutDir(exists))
	if err != nil {
		return usageError(err)
	}
	ctx, stop := opt.interruptible(ctx)
	defer stop()
	qemu, err := guest.Version(ctx)
	if err != nil {
		return hostError(fmt.Errorf("virtual host: %w", err))
	}
	if !opt.quiet && !guest.Prepared("") {
		fmt.Fprintln(opt.stderr, "virtual host: fetching its kernel, once")
	}
	if _, err := guest.Prepare(ctx, ""); err != nil {
		return orInterrupted(ctx, hostError(fmt.Errorf("virtual host: %w", err)))
	}
	cfg, err := guestConfig(sc, node, opt)
	if err != nil {
		return err
	}
	if err := checkGuestMemory(cfg.MemoryMiB); err != nil {
		return err
	}
	// What comes out becomes the run directory only when it is whole.
	cfg.OutDir = filepath.Join(filepath.Dir(dir), fmt.Sprintf(".%s.%d", filepath.Base(dir), os.Getpid()))
	defer os.RemoveAll(cfg.OutDir)
	cfg.Interrupt = ctx.Done()
	if !opt.quiet {
		fmt.Fprintf(opt.stderr, "virtual host: QEMU %s, %d MiB; its times are its own, this host's load only costs patience\n", qemu, cfg.MemoryMiB)
	}
	started := time.Now()
	// An interrupted guest ends in order and brings out what there is.
	r, err := guest.Run(context.WithoutCancel(ctx), cfg)
	if errors.Is(err, guest.ErrStalled) && ctx.Err() == nil {
		fmt.Fprintln(opt.stderr, "virtual host: once more:", err)
		r, err = guest.Run(context.WithoutCancel(ctx), cfg)
	}
	if err != nil {
		return orInterrupted(ctx, hostError(fmt.Errorf("virtual host: %w", err)))
	}
	if !opt.quiet {
		fmt.Fprintf(opt.stderr, "virtual host: %.1f s of its time took %.1f s\n", r.GuestTime.Seconds(), r.WallTime.Seconds())
	}
	from := filepath.Join(cfg.OutDir, filepath.Base(guestRun))
	if !exists(filepath.Join(from, results.ManifestFile)) {
		return orInterrupted(ctx, guestStatus(r.Exit))
	}
	if err := adopt(from, dir, sc, started, &results.VirtualHost{
		QEMU: qemu, Clock: guest.Clock, MemoryMiB: cfg.MemoryMiB, HostCores: runtime.NumCPU(),
		GuestMS: float64(r.GuestTime.Microseconds()) / 1e3, WallMS: float64(r.WallTime.Microseconds()) / 1e3,
	}); err != nil {
		return hostError(fmt.Errorf("virtual host: %w", err))
	}
	run, err := results.Open(dir)
	if err != nil {
		return hostError(err)
	}
	if run.Manifest.Timing.RunMS < 0 { // it never began: there is nothing to judge
		fmt.Fprintln(opt.stderr, "churnbed: what there is of the run is in", dir)
		return guestStatus(r.Exit)
	}
	violated, err := judge(dir, opt)
	switch {
	case err != nil:
		return err
	case r.Exit == exitOK && violated:
		return errCheckFailed
	}
	return guestStatus(r.Exit)
}

// guestConfig is the machine for a scenario, but for where its results go.
func guestConfig(sc *scenario.Scenario, node string, opt runOptions) (guest.Config, error) {
	if opt.virtual.memoryMiB < 0 {
		return guest.Config{}, usageError(fmt.Errorf("--virtual-host-memory %d: want 0 or more MiB", opt.virtual.memoryMiB))
	}
	self, err := os.Executable()
	if err != nil {
		return guest.Config{}, hostError(err)
	}
	text, files, err := packScenario(sc)
	if err != nil {
		return guest.Config{}, usageError(err)
	}
	files[guestProgram], files[guestNode] = self, node
	image := int64(0)
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return guest.Config{}, usageError(fmt.Errorf("virtual host: %w", err))
		}
		image += info.Size()
	}
	cfg := guest.Config{
		Init: self, MemoryMiB: opt.virtual.memoryMiB, Files: files, Data: map[string][]byte{guestScenario: text},
		Command: []string{guestProgram, "run", guestScenario, "--node-binary", guestNode, "--out", guestRun},
		Out:     guestOut,
		Stderr:  &guestLines{w: opt.stderr},
	}
	if opt.quiet {
		cfg.Command = append(cfg.Command, "--quiet")
	}
	if least := guestBaseMiB + int(guestImageUse*image>>20); cfg.MemoryMiB == 0 {
		cfg.MemoryMiB = guestMemory(sc, image)
	} else if cfg.MemoryMiB < least {
		return guest.Config{}, usageError(fmt.Errorf("--virtual-host-memory %d: want at least %d MiB for the kernel and the programs, or 0 to have it computed",
			cfg.MemoryMiB, least))
	}
	return cfg, nil
}

// freeDir returns the absolute path of a run directory that is still to be
// made, in a folder that is there.
func freeDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	switch _, err = os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(filepath.Dir(dir), 0o755)
	case err == nil:
		err = fmt.Errorf("%s exists; name one that does not (--out names another)", dir)
	}
	if err != nil {
		return "", fmt.Errorf("create run directory: %w", err)
	}
	return dir, nil
}

// adopt turns what came out of a guest into the run directory dir: the
// scenario names the files of this host again, and the manifest tells where
// the run took place.
func adopt(from, dir string, sc *scenario.Scenario, started time.Time, v *results.VirtualHost) error {
	if err := renameio.WriteFile(filepath.Join(from, results.ScenarioFile), sc.YAML(), 0o644); err != nil {
		return err
	}
	name := filepath.Join(from, results.ManifestFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var m results.Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("read %s: %w", results.ManifestFile, err)
	}
	v.Kernel = m.Kernel
	m.VirtualHost, m.Command, m.Started = v, os.Args, started
	if b, err = json.MarshalIndent(&m, "", "  "); err != nil {
		return fmt.Errorf("write %s: %w", results.ManifestFile, err)
	}
	if err := renameio.WriteFile(name, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(from, dir)
}

// guestStatus turns the exit status of the run inside into that of this
// program. Why it failed was told by the run itself.
func guestStatus(status int) error {
	switch status {
	case exitOK:
		return nil
	case exitCheckFailed:
		return errCheckFailed
	case exitUsage, exitHost, exitInterrupted:
		return &codedError{status, errCheckFailed}
	case 128 + int(syscall.SIGINT):
		return &codedError{exitInterrupted, errors.New("interrupted before the run began")}
	case 128 + int(syscall.SIGKILL):
		return hostError(errors.New("virtual host: the run was killed inside: it may lack memory, set --virtual-host-memory"))
	}
	return hostError(fmt.Errorf("virtual host: the run inside ended with status %d", status))
}

// orInterrupted returns err, or that the user interrupted where that came
// before.
func orInterrupted(ctx context.Context, err error) error {
	var coded *codedError
	if ctx.Err() == nil || errors.As(err, &coded) && coded.code == exitInterrupted {
		return err
	}
	return &codedError{exitInterrupted, fmt.Errorf("interrupted before the workload began: %w", err)}
}

// guestLines passes on the lines of a guest, each marked as one.
type guestLines struct {
	w    io.Writer
	mu   sync.Mutex
	rest []byte // of a line that has not ended
}

func (g *guestLines) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rest = append(g.rest, b...)
	for {
		line, rest, whole := bytes.Cut(g.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		if len(line) > 0 {
			if _, err := fmt.Fprintf(g.w, "guest: %s\n", line); err != nil {
				return 0, err
			}
		}
		g.rest = rest
	}
}
