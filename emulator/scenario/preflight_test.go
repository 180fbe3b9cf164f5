package scenario

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNeedsFollowTheTopology(t *testing.T) {
	s := sample(t, "mesh256.yaml")
	links := len(s.Topology.Links)
	netem, relay := s.Needs("netem"), s.Needs("relay")
	if netem.Devices != 2*links || relay.Devices != 4*links {
		t.Errorf("devices %d and %d for %d links", netem.Devices, relay.Devices, links)
	}
	if netem.NetNamespaces != 257 || netem.Routes != 256*255 || netem.Neighbours != 2*links {
		t.Errorf("needs %+v", netem)
	}
	if relay.Memory <= netem.Memory || relay.Memory > 3<<30 {
		t.Errorf("memory: netem %d, relay %d bytes", netem.Memory, relay.Memory)
	}
	if auto := s.Needs(""); auto != relay {
		t.Errorf("an unknown fabric needs %+v, want as the relay", auto)
	}
}

func TestPreflightListsEveryShortfall(t *testing.T) {
	n := Needs{
		Nodes: 10, Links: 20, Tasks: 144, ControllerFiles: 148, SandboxFiles: 188, NetNamespaces: 11,
		LongestName: 16, Memory: 200<<20 + 1,
	}
	err := n.Check(Limits{NoFile: 150, Tasks: 100, NetNamespaces: 10, Memory: 200 << 20})
	want := `the host is too small for 10 nodes and 20 links:
  open files of the supervisor: need 188, the host grants 150: raise the hard limit (ulimit -Hn, or LimitNOFILE of the service), or run fewer nodes
  processes and threads: need 144, the host grants 100: raise pids.max of the control group, kernel.pid_max, kernel.threads-max or ulimit -u, whichever is least, or run fewer nodes
  network namespaces: need 11, the host grants 10: raise user.max_net_namespaces, or run fewer nodes
  bytes of an interface name: need 16, the host grants 15: run fewer nodes or links
  memory: need 201 MiB, the host grants 180 MiB: free memory, or run fewer nodes or links`
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	var host *HostError
	if !errors.As(err, &host) || len(host.Shortfalls) != 5 {
		t.Errorf("error %T with %+v", err, host)
	}
}

func TestPreflightTakesUnknownAsEnough(t *testing.T) {
	s := sample(t, "mesh256.yaml")
	if err := s.Preflight(Limits{}); err != nil {
		t.Error(err)
	}
	n := s.Needs("netem")
	exact := Limits{Fabric: "netem", NoFile: uint64(n.SandboxFiles), Tasks: uint64(n.Tasks), NetNamespaces: uint64(n.NetNamespaces), Memory: 2 * n.Memory}
	if err := s.Preflight(exact); err != nil {
		t.Errorf("exactly enough: %v", err)
	}
	exact.Tasks--
	if err := s.Preflight(exact); err == nil {
		t.Error("one task too few is accepted")
	}
}
