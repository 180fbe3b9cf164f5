// Package reproduce holds the sweeps of `churnbed reproduce`, one YAML file
// an experiment; results/reproduce reads them and documents their form. It
// holds no logic.
package reproduce

import "embed"

// Files are the sweeps.
//
//go:embed *.yaml
var Files embed.FS
