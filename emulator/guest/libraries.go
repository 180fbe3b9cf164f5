package guest

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// libraryDirs are where the loader looks without being told, on Debian and
// elsewhere (ld.so(8)).
var libraryDirs = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
}

// withLibraries returns files with what the dynamic ones of them, and init,
// need to be loaded, at the paths that it has here. Directories are not looked
// into.
func withLibraries(files map[string]string, init string) (map[string]string, error) {
	all := maps.Clone(files)
	if all == nil {
		all = map[string]string{}
	}
	if err := addLibraries(all, init); err != nil {
		return nil, err
	}
	for _, name := range files {
		if err := addLibraries(all, name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// addLibraries adds the loader of a program and all libraries below it. What is
// no ELF file needs none.
func addLibraries(all map[string]string, name string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil
	}
	f, err := elf.Open(name)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
		if err != nil {
			return fmt.Errorf("read loader of %s: %w", name, err)
		}
		loader := strings.TrimRight(string(b), "\x00")
		if _, ok := all[loader]; !ok {
			all[loader] = loader
		}
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read libraries of %s: %w", name, err)
	}
	for _, library := range needed {
		path, err := findLibrary(library)
		if err != nil {
			return fmt.Errorf("put %s into guest: %w: build it with CGO_ENABLED=0, then it needs none", name, err)
		}
		if _, ok := all[path]; ok {
			continue
		}
		all[path] = path
		if err := addLibraries(all, path); err != nil {
			return err
		}
	}
	return nil
}

func findLibrary(name string) (string, error) {
	for _, dir := range libraryDirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("find library %s: not in %s", name, strings.Join(libraryDirs, ", "))
}
