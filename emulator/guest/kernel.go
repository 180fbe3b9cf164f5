package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"
)

// cacheVersion changes with what Prepare keeps.
const cacheVersion = "guest-1"

// modules are those every guest has: veth and the disciplines of the fabric.
var modules = []string{
	"veth", "dummy", "tun", "ifb",
	"sch_netem", "sch_fq", "sch_fq_codel", "sch_prio", "sch_htb", "sch_tbf", "sch_ingress",
	"cls_bpf", "cls_u32", "cls_matchall", "act_mirred", "bridge",
}

// Kernel is a kernel on the host's disk.
type Kernel struct {
	Image   string   // file to boot
	Modules []string // files, in the order in which they are inserted
}

// DefaultCache returns $XDG_CACHE_HOME/churnbed, or ~/.cache/churnbed.
func DefaultCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w", err)
	}
	return filepath.Join(dir, "churnbed"), nil
}

// Prepared reports whether the folder cache (DefaultCache() where empty) has
// the guest's kernel already.
func Prepared(cache string) bool {
	if cache == "" {
		var err error
		if cache, err = DefaultCache(); err != nil {
			return false
		}
	}
	_, err := openKernel(filepath.Join(cache, cacheVersion))
	return err == nil
}

// Prepare returns the guest's kernel. Where the folder cache (DefaultCache()
// where empty) has none yet, it downloads Debian's cloud kernel, which needs
// apt's package lists but no root, and installs nothing. A MissingError says
// what the host lacks for that.
func Prepare(ctx context.Context, cache string) (Kernel, error) {
	if cache == "" {
		var err error
		if cache, err = DefaultCache(); err != nil {
			return Kernel{}, err
		}
	}
	dir := filepath.Join(cache, cacheVersion)
	if k, err := openKernel(dir); err == nil {
		return k, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Kernel{}, fmt.Errorf("make cache folder: %w", err)
	}
	// One process builds it, and the others wait for that one.
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return Kernel{}, fmt.Errorf("lock cache folder: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return Kernel{}, fmt.Errorf("lock cache folder: %w", err)
	}
	if k, err := openKernel(dir); err == nil {
		return k, nil
	}
	work, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return Kernel{}, fmt.Errorf("fetch guest kernel: %w", err)
	}
	defer os.RemoveAll(work)
	if err := fetch(ctx, work); err != nil {
		return Kernel{}, fmt.Errorf("fetch guest kernel: %w", err)
	}
	// A folder that openKernel refused is left from an interrupted clean-up.
	if err := os.RemoveAll(dir); err != nil {
		return Kernel{}, fmt.Errorf("fetch guest kernel: %w", err)
	}
	if err := os.Rename(filepath.Join(work, "ready"), dir); err != nil {
		return Kernel{}, fmt.Errorf("fetch guest kernel: %w", err)
	}
	return openKernel(dir)
}

func openKernel(dir string) (Kernel, error) {
	k := Kernel{Image: filepath.Join(dir, "vmlinuz")}
	if _, err := os.Stat(k.Image); err != nil {
		return Kernel{}, err
	}
	var err error
	if k.Modules, err = filepath.Glob(filepath.Join(dir, "modules", "*.ko")); err != nil {
		return Kernel{}, err
	}
	slices.Sort(k.Modules)
	if len(k.Modules) == 0 {
		return Kernel{}, fmt.Errorf("no modules in %s", dir)
	}
	return k, nil
}

const metapackage = "linux-image-cloud-amd64"

// fetch fills work/ready with a kernel and its modules.
func fetch(ctx context.Context, work string) error {
	// The kernel's package has another name after each security update.
	out, err := command(ctx, work, "apt-cache", "depends", metapackage)
	if err != nil {
		return err
	}
	var pkg string
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image"); ok {
			pkg = "linux-image" + name
			break
		}
	}
	if pkg == "" {
		return &MissingError{What: "Debian's package " + metapackage, Remedy: "run apt-get update on Debian 12 or newer"}
	}
	if _, err := command(ctx, work, "apt-get", "download", "-qq", pkg); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(work, pkg+"_*.deb"))
	if err != nil || len(debs) != 1 {
		return errors.Join(err, fmt.Errorf("download %s: %d files", pkg, len(debs)))
	}
	root := filepath.Join(work, "root")
	if _, err := command(ctx, work, "dpkg", "-x", debs[0], root); err != nil {
		return err
	}
	return keep(root, filepath.Join(work, "ready"))
}

func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return "", &MissingError{What: name, Remedy: "run it on Debian or copy a filled cache folder", Err: err}
	}
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// keep copies what a guest needs of an unpacked kernel package.
func keep(root, ready string) error {
	images, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return errors.Join(err, fmt.Errorf("find kernel image: %d found", len(images)))
	}
	if err := os.MkdirAll(filepath.Join(ready, "modules"), 0o755); err != nil {
		return err
	}
	m := &moduleSet{files: map[string]string{}, builtin: map[string]bool{}, done: map[string]bool{}, dir: filepath.Join(ready, "modules")}
	for _, dir := range []string{"lib/modules", "usr/lib/modules"} {
		if err := m.scan(filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	for _, name := range modules {
		if err := m.add(name); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(images[0])
	if err != nil {
		return err
	}
	// Last: the folder counts as complete once the image is there.
	return os.WriteFile(filepath.Join(ready, "vmlinuz"), b, 0o644)
}

// moduleSet copies modules, each after those it depends on.
type moduleSet struct {
	files   map[string]string // name to file
	builtin map[string]bool
	done    map[string]bool
	dir     string
}

// moduleName is a module's name as the kernel has it: file names may have a
// dash where it has an underscore.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

func (m *moduleSet) scan(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.Name() == "modules.builtin":
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(b)) {
				m.builtin[moduleName(strings.TrimSpace(line))] = true
			}
		case strings.HasSuffix(path, ".ko"), strings.HasSuffix(path, ".ko.xz"):
			m.files[moduleName(path)] = path
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (m *moduleSet) add(name string) error {
	if m.done[name] || m.builtin[name] {
		return nil
	}
	m.done[name] = true
	file, ok := m.files[name]
	if !ok {
		return fmt.Errorf("find kernel module %s: not in the package", name)
	}
	b, err := readModule(file)
	if err != nil {
		return fmt.Errorf("read kernel module %s: %w", name, err)
	}
	depends, err := moduleInfo(b, "depends")
	if err != nil {
		return fmt.Errorf("read kernel module %s: %w", name, err)
	}
	for d := range strings.SplitSeq(depends, ",") {
		if d == "" {
			continue
		}
		if err := m.add(strings.ReplaceAll(d, "-", "_")); err != nil {
			return err
		}
	}
	have, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.dir, fmt.Sprintf("%02d-%s.ko", len(have), name)), b, 0o644)
}

func readModule(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !strings.HasSuffix(file, ".xz") {
		return io.ReadAll(f)
	}
	r, err := xz.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
