package scenario

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"churnbed/node/core"
	"churnbed/node/kgroup"
	"churnbed/node/stack"
	"churnbed/workloads"
)

// grouped reports whether the scenario runs k-groups: then every node is a
// device, and the workload is routines instead of requests.
func (s *Spec) grouped() bool { return s.Algorithm == stack.CoMesh || s.Algorithm == stack.Hub }

// groups makes what all nodes of a run with k-groups have in common.
func (r *resolver) groups() {
	s := &r.spec
	if !s.grouped() {
		return
	}
	if s.Duration == 0 {
		r.bad("duration", `"0s": routines have no end: with algorithm %s want more`, s.Algorithm)
	}
	c := &kgroup.Config{
		F: s.KGroupF, Epoch: s.EpochLength, Policy: s.Selection, NearLeads: s.KGroupLeader == kgroup.Near, Paper: s.KGroup == "paper", Locks: s.LockStrategy,
		LSH:  kgroup.LSHConfig{Functions: s.LSHFunctions, Tables: s.LSHTables, Width: s.LSHWidth, Noise: s.LSHNoise},
		Ping: s.MonitorPeriod, Tries: s.MonitorTries, StateEvery: s.StateEvery,
	}
	for _, n := range r.top.Nodes {
		c.Places = append(c.Places, kgroup.Place{n.X, n.Y, n.Z})
	}
	n := len(c.Places)
	groups := (n + s.DeviceGroupSize - 1) / s.DeviceGroupSize
	if s.Algorithm == stack.Hub {
		if s.Hubs > n {
			r.bad("hubs", "%d: want at most the %d nodes", s.Hubs, n)
			return
		}
		c.F, c.Epoch, c.Policy, c.NearLeads, c.Paper, groups = 0, 0, kgroup.Central, false, false, s.Hubs
	} else {
		smart := min(max(int(math.Round(s.SmartShare*float64(n))), c.K()), n)
		for _, i := range core.Stream(s.Seed, "smart").Perm(n)[:smart] {
			c.Smart = append(c.Smart, core.NodeID(i))
		}
		slices.Sort(c.Smart)
	}
	c.Of, c.Centres = kgroup.Cluster(c.Places, groups, core.Stream(s.Seed, "clusters"))
	if s.Algorithm == stack.Hub {
		c.Smart = hubs(c)
	}
	r.tagSmart(c)
	if s.RoutinesFile != "" {
		var err error
		if c.Routines, err = readRoutinesFile(s.RoutinesFile, n); err != nil {
			r.bad("routines-file", "%v", err)
			return
		}
	} else {
		c.Routines = kgroup.Generate(kgroup.Generated{
			Count: s.Routines, MeanDevices: s.RoutineDevices, Conflict: s.RoutineConflict, Every: s.RoutineEvery, Takes: s.RoutineTakes,
			States: s.RoutineStates,
		}, n, core.Stream(s.Seed, "routines"))
	}
	if err := c.Validate(); err != nil {
		r.bad("algorithm", "%q: %v", s.Algorithm, err)
		return
	}
	r.group = c
}

// tagSmart gives all nodes a tag by which fault rules may name them.
func (r *resolver) tagSmart(c *kgroup.Config) {
	nodes := slices.Clone(r.top.Nodes)
	for i := range nodes {
		tag := tagSimple
		if c.IsSmart(core.NodeID(i)) {
			tag = tagSmart
		}
		if !slices.Contains(nodes[i].Tags, tag) {
			nodes[i].Tags = append(slices.Clip(nodes[i].Tags), tag)
		}
	}
	tagged := *r.top
	tagged.Nodes = nodes
	r.top = &tagged
}

// Tags that nodes have with k-groups.
const (
	tagSmart  = "smart"
	tagSimple = "simple"
)

// CheckFaults reports a fault that means nothing with the scenario's
// algorithm: it fires a routine that there is not, or strikes a leader.
func (s *Scenario) CheckFaults(faults []workloads.Fault) error {
	return checkFaults(s.Group, faults)
}

func checkFaults(c *kgroup.Config, faults []workloads.Fault) error {
	for i := range faults {
		switch f := &faults[i]; {
		case f.Role == workloads.RoleLeader && c == nil:
			return fmt.Errorf("%s %s: only the algorithms %s and %s have leaders; allowed are %s, %s and %s", f.Verb, f.Role, stack.CoMesh, stack.Hub,
				workloads.RoleHolder, workloads.RoleWaiter, workloads.RoleIdle)
		case f.Verb != workloads.Trigger:
		case c == nil:
			return fmt.Errorf("trigger %d: only the algorithms %s and %s have routines", f.Routine, stack.CoMesh, stack.Hub)
		case len(c.Routines) == 0:
			return fmt.Errorf("trigger %d: there are no routines", f.Routine)
		case f.Routine >= len(c.Routines):
			return fmt.Errorf("trigger %d: want a routine from 0 to %d", f.Routine, len(c.Routines)-1)
		}
	}
	return nil
}

// hubs are the nodes nearest to the middle of each group, one each.
func hubs(c *kgroup.Config) []core.NodeID {
	var chosen []core.NodeID
	for _, centre := range c.Centres {
		best := core.None
		for i := range c.Places {
			id := core.NodeID(i)
			if !slices.Contains(chosen, id) && (best == core.None || kgroup.Distance(c.Places[id], centre) < kgroup.Distance(c.Places[best], centre)) {
				best = id
			}
		}
		chosen = append(chosen, best)
	}
	slices.Sort(chosen)
	return chosen
}

// maxRoutinesFile bounds a file of routines.
const maxRoutinesFile = 16 << 20

func readRoutinesFile(path string, devices int) ([]kgroup.Routine, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(f, maxRoutinesFile))
	if err != nil {
		return nil, fmt.Errorf("read routines: %w", err)
	}
	list, err := parseRoutines(b, devices)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// routinesSpec is a file of routines, as schema/routines.schema.json says.
type routinesSpec struct {
	Routines []struct {
		When     string       `yaml:"when"`
		Every    textDuration `yaml:"every"`
		Offset   textDuration `yaml:"offset"`
		Commands []struct {
			Device int          `yaml:"device"`
			Value  int64        `yaml:"value"`
			Takes  textDuration `yaml:"takes"`
		} `yaml:"commands"`
	} `yaml:"routines"`
}

// textDuration is a duration with its unit.
type textDuration time.Duration

func (d *textDuration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 || v > maxDuration {
		return fmt.Errorf("line %d: %q: want a duration such as 500ms or 2s", n.Line, n.Value)
	}
	*d = textDuration(v)
	return nil
}

// parseRoutines reads routines over devices 0..devices-1 from YAML, strictly.
// Commands may be in any order of devices.
func parseRoutines(text []byte, devices int) ([]kgroup.Routine, error) {
	root, err := parseYAML(text)
	if err != nil {
		return nil, fmt.Errorf("read routines: %w", err)
	}
	if root == nil {
		return nil, errors.New("read routines: the file is empty")
	}
	var spec routinesSpec
	if err := decodeStrictly(text, &spec); err != nil {
		return nil, fmt.Errorf("read routines: %w", err)
	}
	if len(spec.Routines) == 0 {
		return nil, errors.New(`read routines: want a list "routines" that is not empty`)
	}
	list := make([]kgroup.Routine, len(spec.Routines))
	for i, from := range spec.Routines {
		r := kgroup.Routine{ID: i, When: from.When, Every: time.Duration(from.Every), Offset: time.Duration(from.Offset)}
		for _, c := range from.Commands {
			if c.Device < 0 || c.Device >= devices {
				return nil, fmt.Errorf("read routines: routine %d: device %d: want 0 to %d", i, c.Device, devices-1)
			}
			r.Commands = append(r.Commands, kgroup.Command{Device: core.NodeID(c.Device), Value: c.Value, Takes: time.Duration(c.Takes)})
		}
		slices.SortStableFunc(r.Commands, func(a, b kgroup.Command) int { return cmp.Compare(a.Device, b.Device) })
		list[i] = r
	}
	return list, nil
}

// decodeStrictly decodes YAML with known fields only; the library is known to
// have panicked on hostile input.
func decodeStrictly(text []byte, to any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be parsed: %v", r)
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var wrong *yaml.TypeError
	if err := d.Decode(to); !errors.As(err, &wrong) {
		return err
	}
	// The library's words name types of ours, which say nothing to a user.
	for i, line := range wrong.Errors {
		if at, _, ok := strings.Cut(line, " not found in type "); ok {
			wrong.Errors[i] = strings.Replace(at, "field ", "unknown key ", 1)
		} else if at, to, ok := strings.Cut(line, " into "); ok {
			wrong.Errors[i] = strings.Replace(at, "cannot unmarshal ", "unexpected value ", 1) + ": want " + yamlWord(to)
		}
	}
	list := wrong.Errors
	if more := len(list) - maxListed; more > 0 {
		list = append(slices.Clone(list[:maxListed]), fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(list, "; "))
}

// maxListed bounds the errors that are told of a file of routines.
const maxListed = 5

// yamlWord says what of YAML a Go type is read from.
func yamlWord(goType string) string {
	switch {
	case strings.HasPrefix(goType, "int"):
		return "a whole number"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case goType == "string":
		return "a text"
	}
	return "keys with values"
}
