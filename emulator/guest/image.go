package guest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"churnbed/emulator/guest/guestinit"
)

// writeInitrd writes the guest's root file system.
func writeInitrd(w io.Writer, k Kernel, cfg Config) (err error) {
	initFile := cfg.Init
	if initFile == "" {
		if initFile, err = os.Executable(); err != nil {
			return err
		}
	}
	files, err := withLibraries(cfg.Files, initFile)
	if err != nil {
		return err
	}
	c := newCPIO(w)
	for _, dir := range []string{"bin", "dev", "etc", "lib", "proc", "root", "run", "sys", "tmp"} {
		c.dir(dir, 0o755)
	}
	c.device("dev/console", 5, 1)
	c.file("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"))
	c.file("etc/group", []byte("root:x:0:\nnogroup:x:65534:\n"))
	c.file("etc/hosts", []byte("127.0.0.1 localhost guest\n"))
	c.hostFile("init", initFile)
	for _, m := range k.Modules {
		c.hostFile(path.Join(guestinit.ModuleDir[1:], filepath.Base(m)), m)
	}
	job, err := json.Marshal(guestinit.Job{Commands: append([][]string{cfg.Command}, cfg.Then...), Env: cfg.Env, Dir: cfg.Dir, Out: cfg.Out})
	if err != nil {
		return err
	}
	c.file(guestinit.JobFile[1:], job)
	for _, target := range slices.Sorted(maps.Keys(files)) {
		if !path.IsAbs(target) {
			return fmt.Errorf("put %q into guest: not an absolute path", target)
		}
		if err := c.tree(path.Clean(target)[1:], files[target]); err != nil {
			return fmt.Errorf("put %s into guest: %w", target, err)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(cfg.Data)) {
		if !path.IsAbs(target) {
			return fmt.Errorf("put %q into guest: not an absolute path", target)
		}
		c.file(path.Clean(target)[1:], cfg.Data[target])
	}
	return c.close()
}

// tree adds a host file, or a directory with what is below.
func (c *cpio) tree(target, source string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		c.hostFile(target, source)
		return c.err
	}
	return filepath.WalkDir(source, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, p)
		if err != nil {
			return err
		}
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		switch t := path.Join(target, filepath.ToSlash(rel)); {
		case info.IsDir():
			c.dir(t, info.Mode().Perm())
		case info.Mode().IsRegular():
			c.hostFile(t, p)
		}
		return c.err
	})
}

// cpio writes an archive of the format "newc", which the kernel unpacks as its
// first root file system (Documentation/driver-api/early-userspace/
// buffer-format.rst in the kernel's source). The first error stays.
type cpio struct {
	w     io.Writer
	size  int64
	inode int
	dirs  map[string]bool
	err   error
}

const (
	modeFile      = 0o100000
	modeDir       = 0o040000
	modeCharacter = 0o020000
)

func newCPIO(w io.Writer) *cpio { return &cpio{w: w, dirs: map[string]bool{}} }

func (c *cpio) write(b []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(b)
	c.size += int64(n)
	c.err = err
}

func (c *cpio) pad() {
	if over := c.size % 4; over != 0 {
		c.write(make([]byte, 4-over))
	}
}

func (c *cpio) header(name string, mode uint32, size int64, major, minor int) {
	c.inode++
	links := 1
	if mode&modeDir != 0 {
		links = 2
	}
	if size > 1<<32-1 {
		c.err = errors.Join(c.err, fmt.Errorf("%s is larger than the archive can hold", name))
		return
	}
	// magic, inode, mode, uid, gid, links, mtime, size, device, special
	// device, length of name with its zero byte, checksum (unused).
	c.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		c.inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, len(name)+1, 0, name))
	c.pad()
}

// parents adds the directories above name: the kernel makes none itself.
func (c *cpio) parents(name string) {
	if dir := path.Dir(name); dir != "." && dir != "/" {
		c.dir(dir, 0o755)
	}
}

func (c *cpio) dir(name string, perm fs.FileMode) {
	if c.dirs[name] || name == "." {
		return
	}
	c.parents(name)
	c.dirs[name] = true
	c.header(name, modeDir|uint32(perm), 0, 0, 0)
}

func (c *cpio) device(name string, major, minor int) {
	c.parents(name)
	c.header(name, modeCharacter|0o600, 0, major, minor)
}

func (c *cpio) file(name string, b []byte) {
	c.parents(name)
	c.header(name, modeFile|0o644, int64(len(b)), 0, 0)
	c.write(b)
	c.pad()
}

func (c *cpio) hostFile(name, source string) {
	if c.err != nil {
		return
	}
	f, err := os.Open(source)
	if err != nil {
		c.err = err
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		c.err = err
		return
	}
	c.parents(name)
	c.header(name, modeFile|uint32(info.Mode().Perm()), info.Size(), 0, 0)
	if c.err != nil {
		return
	}
	n, err := io.CopyN(c.w, f, info.Size())
	c.size += n
	c.err = err
	c.pad()
}

func (c *cpio) close() error {
	c.header("TRAILER!!!", 0, 0, 0, 0)
	return c.err
}

// unpack writes the gzipped tar r, of files and directories, below dir. Names
// that lead elsewhere are refused.
func unpack(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			// Past the end marker, so that the sender is read to its end.
			_, err := io.Copy(io.Discard, io.MultiReader(z, r))
			return err
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			if err := root.MkdirAll(h.Name, 0o755); err != nil {
				return err
			}
		case tar.TypeReg:
			if err := writeFile(root, h, t); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is neither a file nor a directory", h.Name)
		}
	}
}

func writeFile(root *os.Root, h *tar.Header, r io.Reader) (err error) {
	if err := root.MkdirAll(path.Dir(h.Name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, h.FileInfo().Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, r)
	return err
}

// moduleInfo reads one list out of a kernel module's .modinfo section.
func moduleInfo(b []byte, key string) (string, error) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return "", errors.New("no .modinfo section")
	}
	data, err := s.Data()
	if err != nil {
		return "", err
	}
	for field := range bytes.SplitSeq(data, []byte{0}) {
		if v, ok := bytes.CutPrefix(field, []byte(key+"=")); ok {
			return string(v), nil
		}
	}
	return "", nil
}
