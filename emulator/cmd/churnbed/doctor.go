package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"churnbed/emulator/fabric"
	"churnbed/emulator/kernel"
	"churnbed/emulator/scenario"
	"churnbed/topologies"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "say what this host offers, and what to do about the rest",
		ArgsUsage: " ",
		Description: "Tries out everything that a run needs, in scratch namespaces that are gone afterwards, reads the host's\n" +
			"limits, and says which fabric a run would take. Exit status: 0 runs are possible, 3 they are not.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}},
		Action: func(c *cli.Context) error {
			args, err := interleaved(c)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return usageError(fmt.Errorf("doctor: unexpected argument %q", args[0]))
			}
			h, err := probeHost(c.Context)
			if err != nil {
				return hostError(err)
			}
			d := diagnose(h)
			if c.Bool("json") {
				err = printJSON(os.Stdout, d)
			} else {
				err = d.print(os.Stdout)
			}
			if err != nil {
				return err
			}
			if !d.Possible {
				return hostError(errors.New("no run is possible on this host"))
			}
			return nil
		},
	}
}

// diagnosis is what doctor --json prints, schema 1.
type diagnosis struct {
	Schema       int                 `json:"schema"`
	Possible     bool                `json:"possible"` // runs are
	Kernel       string              `json:"kernel"`
	Rootless     bool                `json:"rootless"` // runs take place in a user namespace
	Fabric       string              `json:"fabric"`   // that a run takes by default, "" where none is possible
	Why          string              `json:"why"`
	Capabilities []kernel.Capability `json:"capabilities"`
	Limits       []hostLimit         `json:"limits"`
	Nodes        int                 `json:"nodes"` // of a square grid that the limits have room for
	// Forbidden is what an ordinary user cannot do.
	Forbidden []string `json:"forbidden"`
}

type hostLimit struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"` // 0: none, or not known
	Unit  string `json:"unit,omitempty"`
}

func diagnose(h *hostState) *diagnosis {
	d := &diagnosis{
		Schema: 1, Kernel: h.limits.Kernel, Rootless: h.rootless, Capabilities: h.caps, Forbidden: []string{},
	}
	err := h.usable()
	if err == nil {
		d.Fabric, d.Why, err = h.choose("auto", "")
	}
	if d.Possible = err == nil; !d.Possible {
		d.Why = err.Error()
	}
	kind := d.Fabric
	if kind == "" {
		kind = fabric.KindRelay
	}
	l := h.preflightLimits(kind)
	d.Limits = []hostLimit{
		{"open files of a process", l.NoFile, ""},
		{"processes and threads to be had", l.Tasks, ""},
		{"network namespaces", l.NetNamespaces, ""},
		{"memory to be had", l.Memory >> 20, "MiB"},
		{"socket buffer (net.core.rmem_max)", h.limits.ReceiveBufferMax >> 10, "KiB"},
	}
	if d.Possible {
		d.Nodes = largestGrid(l)
	}
	if h.rootless {
		d.Forbidden = forbidden(h)
	}
	return d
}

// largestGrid is how many nodes of a grid the limits leave room for.
func largestGrid(l scenario.Limits) int {
	most := 0
	for n := 16; n <= 8192; n *= 2 {
		side := int(math.Sqrt(float64(n)))
		grid := scenario.Scenario{Topology: &topologies.Topology{
			Nodes: make([]topologies.Node, n), Links: make([]topologies.Link, 2*n-n/side-side),
		}}
		if grid.Preflight(l) != nil {
			break
		}
		most = n
	}
	return most
}

// forbidden lists what the kernel does not let an ordinary user do in a user
// namespace of its own.
func forbidden(h *hostState) []string {
	list := []string{}
	if buffer := kernel.Find(h.caps, kernel.CapBuffer); !buffer.OK {
		list = append(list, fmt.Sprintf("socket buffers above net.core.rmem_max (%d KiB): bursts of many requests at once may overrun a node; "+
			"such losses are counted and show in the fidelity verdict", h.limits.ReceiveBufferMax>>10))
	}
	return append(list, "raising the hard limits above (open files, processes)")
}

func (d *diagnosis) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CAPABILITY\tSTATE\tDETAIL\tREMEDY")
	for _, c := range d.Capabilities {
		if c.OK {
			fmt.Fprintf(w, "%s\tok\t%s\n", c.Name, c.Detail)
		} else {
			fmt.Fprintf(w, "%s\tmissing\t%s\t%s\n", c.Name, c.Detail, c.Remedy)
		}
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "LIMIT\tVALUE")
	for _, l := range d.Limits {
		value := strconv.FormatUint(l.Value, 10)
		if l.Value == 0 {
			value = "none known"
		} else if l.Unit != "" {
			value += " " + l.Unit
		}
		fmt.Fprintf(w, "%s\t%s\n", l.Name, value)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if d.Rootless {
		fmt.Fprintln(out, "This user is not root: runs take place in a user namespace. There the kernel forbids")
		for _, f := range d.Forbidden {
			fmt.Fprintln(out, "  -", f)
		}
	}
	if !d.Possible {
		_, err := fmt.Fprintln(out, "No run is possible:", d.Why)
		return err
	}
	_, err := fmt.Fprintf(out, "Limits leave room for grids of at least %d nodes.\nFabric: %s will be used: %s.\n", d.Nodes, d.Fabric, d.Why)
	return err
}
