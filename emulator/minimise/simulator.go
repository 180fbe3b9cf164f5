package minimise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"churnbed/emulator/scenario"
	"churnbed/emulator/simulate"
	"churnbed/results"
)

// Simulator is the Engine of the simulator. manifest makes the manifest of a
// run; the run directories are gone afterwards, but look may read them first.
func Simulator(manifest func(*scenario.Scenario) *results.Manifest, look ...func(*results.Run) error) Engine {
	return func(ctx context.Context, sc *scenario.Scenario) (s *results.Summary, err error) {
		dir, err := os.MkdirTemp("", "churnbed-minimise-*")
		if err != nil {
			return nil, fmt.Errorf("create run directory: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		run, err := simulate.Run(ctx, sc, filepath.Join(dir, "run"), manifest(sc))
		if err != nil {
			return nil, err
		}
		if run, err = results.Open(run.Dir); err != nil {
			return nil, err
		}
		if s, err = results.Summarise(run); err != nil {
			return nil, err
		}
		for _, f := range look {
			err = errors.Join(err, f(run))
		}
		return s, err
	}
}
