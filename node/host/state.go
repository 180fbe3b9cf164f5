package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// keep writes the state that outlives this process: whole or not at all, and
// on the disk before it returns, hence before what depends on it is sent.
func (h *host) keep(state []byte) error {
	if h.env.State == "" {
		return errors.New("keep state: there is no file for it (CHURNBED_STATE)")
	}
	if err := replace(h.env.State, state, syncFolder); err != nil {
		return fmt.Errorf("keep state: %w", err)
	}
	return nil
}

// replace writes a file whole. Its content is synced before the rename; the
// rename itself is in the folder, which is synced then: a machine that loses
// power could come up with the former state otherwise.
func replace(file string, state []byte, sync func(folder string) error) error {
	if err := renameio.WriteFile(file, state, 0o644); err != nil {
		return err
	}
	return sync(filepath.Dir(file))
}

// syncFolder brings the names in a folder to the disk.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// recall reads what an earlier life of the node kept, nil where there is
// nothing.
func recall(file string) ([]byte, error) {
	state, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read kept state: %w", err)
	}
	return state, nil
}
