package topologies

import (
	"bytes"
	"fmt"
	"io"

	"github.com/google/renameio/v2"
)

// Write writes t as xy, json or graphml. xy is refused where it would lose
// links or their parameters.
func Write(w io.Writer, format Format, t *Topology) error {
	switch format {
	case XY:
		return writeXY(w, t)
	case JSON:
		return writeJSON(w, t)
	case GraphML:
		return writeGraphML(w, t)
	case Freifunk, RTT, King, NS3:
	}
	_, err := ParseFormat(string(format), WriteFormats())
	return err
}

// WriteFile writes t into a file, whole or not at all; a file that was there
// is replaced.
func WriteFile(path string, format Format, t *Topology) error {
	var b bytes.Buffer
	if err := Write(&b, format, t); err != nil {
		return fmt.Errorf("write topology: %w", err)
	}
	if err := renameio.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write topology: %w", err)
	}
	return nil
}
