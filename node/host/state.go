package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"
)

// keep writes the state that outlives this process: whole or not at all, and
// on the disk before it returns, hence before what depends on it is sent.
func (h *host) keep(state []byte) error {
	if h.env.State == "" {
		return errors.New("keep state: there is no file for it (CHURNBED_STATE)")
	}
	if err := renameio.WriteFile(h.env.State, state, 0o644); err != nil {
		return fmt.Errorf("keep state: %w", err)
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
