package topologies

import (
	"io"
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
